//! What happens to a partition: every event in one place, each handed to the part that it concerns.

use std::ops::Range;

use bytes::Bytes;
use courser_contract::{
    Append, AppendKey, Class, IndexToken, LogIndex, Now, PartitionEffects, PartitionId, RecordView,
    Seq, SharedStrategy, Term, Tick, ToHome, ToPartition,
};

use crate::{
    Counts, DiskBudget, DiskRoom, EntryError, MemoryRoom, Pace, PartitionConfig, SessionRoom,
    entry::{Gather, Haste, Rare, Trust},
    group::RING_BYTES,
    lead::{Lead, Role},
    lost::Search,
    recall::Recalls,
    session::{FORWARD_AGAIN_MS, LastWords, Request, Wanted},
    share::Leaver,
    state::{NoSink, State},
};

/// One log's state machine, see the crate. Not `Send`: it is made on the thread of its shard.
#[derive(Debug)]
pub struct Partition {
    pub(crate) config: PartitionConfig,
    pub(crate) state: State,
    pub(crate) lead: Lead,
    pub(crate) gather: Gather,
    pub(crate) disk_room: DiskRoom,
    pub(crate) disk_budget: DiskBudget,
    /// Bytes of wills that may still come while the disk is short.
    pub(crate) will_room: usize,
    /// Bytes of wills that may still go meanwhile to those who keep them.
    pub(crate) going_room: usize,
    pub(crate) memory_room: MemoryRoom,
    pub(crate) session_room: SessionRoom,
    pub(crate) recalls: Recalls,
    /// For what is lost.
    pub(crate) search: Option<Box<Search>>,
    pub(crate) planted: Option<crate::PlantedPartition>,
}

/// See [`Partition::proposed`] and [`Partition::forwarding`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    term: Term,
    number: u64,
    forwards: Forwards,
}

/// What a fence waits for in outboxes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Forwards {
    /// Nothing.
    Apart,
    /// All that is in them once what was proposed is applied.
    All,
    /// What is at these positions, by destination.
    At(Vec<(PartitionId, Range<Seq>)>),
}

/// Messages of other partitions that wait for the leadership.
const EARLY_MAX: usize = 65_536;

/// Term of a volatile partition: it has no peers and leads from its first moment.
const VOLATILE_TERM: Term = Term(1);

impl Partition {
    /// An empty partition. A volatile one leads from the beginning; the others follow until
    /// [`handle_leader`](Self::handle_leader) and take nothing before.
    #[must_use]
    pub fn new(config: PartitionConfig) -> Self {
        let mut partition = Self {
            state: State::new(config.id),
            config,
            lead: Lead::default(),
            gather: Gather::default(),
            disk_room: DiskRoom::Enough,
            disk_budget: DiskBudget::default(),
            will_room: DiskRoom::WILL_BYTES,
            going_room: DiskRoom::WILL_BYTES,
            memory_room: MemoryRoom::Enough,
            session_room: SessionRoom::Enough,
            recalls: Recalls::default(),
            search: None,
            planted: None,
        };
        partition
            .state
            .records
            .set_hot_max(partition.config.hot_max());
        if partition.is_volatile() {
            partition.lead.role = Role::Leading;
            partition.lead.term = VOLATILE_TERM;
            partition.state.outboxes.begin(partition.config.start);
            partition.watch_settings();
        }
        partition
    }

    /// A partition as the entries of its log made it, each with its place in the log, a follower.
    ///
    /// # Errors
    /// When bytes are no entry; nothing of that entry is applied.
    ///
    /// # Panics
    /// When places do not ascend.
    pub fn try_replay(
        config: PartitionConfig,
        entries: impl IntoIterator<Item = (LogIndex, Bytes)>,
    ) -> Result<Self, EntryError> {
        let mut partition = Self::new(config);
        for (at, entry) in entries {
            partition.replay_entry(at, &entry)?;
        }
        Ok(partition)
    }

    /// Applies one more entry of the log, before L1 knows of this partition: behind [`try_replay`](Self::try_replay), or a
    /// checkpoint.
    ///
    /// # Errors
    /// When bytes are no entry; nothing of it is applied.
    ///
    /// # Panics
    /// When the place is not above the last one.
    pub fn replay_entry(&mut self, at: LogIndex, entry: &Bytes) -> Result<(), EntryError> {
        self.state.apply(at, entry, Trust::Foreign, &mut NoSink)?;
        self.state.index_changes.clear();
        Ok(())
    }

    pub(crate) fn from_state(config: PartitionConfig, state: State) -> Self {
        Self {
            state,
            ..Self::new(config)
        }
    }

    /// The same for entries whose checksums have been checked.
    ///
    /// # Panics
    /// When bytes are no entry, or places do not ascend.
    #[must_use]
    pub fn replay(
        config: PartitionConfig,
        entries: impl IntoIterator<Item = (LogIndex, Bytes)>,
    ) -> Self {
        Self::try_replay(config, entries).expect("checked bytes of a log are entries")
    }

    /// Its configuration.
    #[must_use]
    pub const fn config(&self) -> &PartitionConfig {
        &self.config
    }

    /// Client ids of the sessions that are here, in no order.
    pub fn client_ids(&self) -> impl Iterator<Item = &str> {
        self.state
            .by_client
            .keys()
            .map(|client_id| client_id.as_str())
    }

    /// Topics of the retained messages that are here, in order. Allocates each.
    pub fn retained_topics(&self) -> impl Iterator<Item = String> {
        self.state.retained.after(None).map(|(topic, _)| topic)
    }

    pub(crate) fn is_volatile(&self) -> bool {
        self.config.class == Class::Volatile
    }

    /// A publish that L1 sent here. Without an answer when this partition does not lead: the origin sends it again (M11).
    ///
    /// [`Pace::Slow`] asks to slow its publisher down.
    pub fn handle_append(
        &mut self,
        now: Now,
        append: &Append<'_>,
        fx: &mut impl PartitionEffects,
    ) -> Pace {
        self.lead.now = now;
        self.lead.pace = Pace::Free;
        if self.lead.decides() {
            let can_refuse = !matches!(append.key, AppendKey::Unanswered);
            self.publish(append, can_refuse, fx);
        } else if self.is_aside() {
            self.refuse_append(append, fx);
        }
        self.lead.pace
    }

    /// A message of a front.
    pub fn handle_home(&mut self, now: Now, message: ToHome, fx: &mut impl PartitionEffects) {
        self.lead.now = now;
        // Claims of sessions elsewhere outlive a change of leader, and a connection hears that it is refused.
        let always = matches!(
            message,
            ToHome::Attach(_) | ToHome::Unclaim { .. } | ToHome::Detach { .. }
        );
        if !always && !self.lead.decides() {
            return;
        }
        match message {
            ToHome::Outcome {
                session,
                epoch,
                first,
                last,
                kind,
            } => self.outcome(session, epoch, (first.0, last.0), kind, fx),
            ToHome::PageTaken { session, epoch } => self.page_taken(session, epoch, fx),
            ToHome::Attach(attach) => self.attach(attach, fx),
            ToHome::Unclaim {
                client_id,
                epoch,
                open,
            } => self.unclaim(client_id, epoch, open, fx),
            ToHome::Owned {
                session,
                epoch,
                owner,
                limits,
            } => self.owned(session, epoch, &owner, limits),
            ToHome::Detach {
                session,
                epoch,
                cause,
                expiry_seconds,
                open,
                claim,
            } => {
                let words = LastWords {
                    cause,
                    expiry_seconds,
                    open,
                    claim,
                };
                if self.lead.decides() {
                    self.detach(session, epoch, words, fx);
                } else {
                    self.unclaim_elsewhere(epoch, words, fx);
                }
            }
            ToHome::Subscribe {
                session,
                epoch,
                part,
                subscriptions,
            } => {
                let what = Wanted::Subscribe(subscriptions);
                self.request(session, Request { epoch, part, what }, fx);
            }
            ToHome::Uptake {
                session,
                epoch,
                uptake,
            } => self.uptake((session, epoch), uptake, fx),
            ToHome::Unsubscribe {
                session,
                epoch,
                part,
                filters,
            } => {
                let what = Wanted::Unsubscribe(filters);
                self.request(session, Request { epoch, part, what }, fx);
            }
            ToHome::PublishQos2 {
                session,
                epoch,
                publish,
            } => self.publish_qos2(session, epoch, &publish, fx),
            ToHome::Release {
                session,
                epoch,
                packet_id,
            } => self.release(session, epoch, packet_id, fx),
            ToHome::Named {
                group,
                member,
                front,
                seq,
                packet_id,
            } => self.group_named(group, (member, front), seq, packet_id),
            ToHome::GroupRoom {
                group,
                member,
                front,
                room,
            } => self.group_room(group, (member, front), room, fx),
            ToHome::GroupOutcome {
                group,
                member,
                front,
                first,
                last,
                kind,
            } => self.group_outcome(group, (member, front), (first, last), kind, fx),
        }
    }

    /// A message of a partition. One that comes before this partition leads waits for that, unless it is sent again.
    pub fn handle_partition(
        &mut self,
        now: Now,
        from: PartitionId,
        message: ToPartition,
        fx: &mut impl PartitionEffects,
    ) {
        self.lead.now = now;
        // As what fronts say of claims.
        let always = matches!(message, ToPartition::Unclaim { .. });
        if always || self.lead.decides() {
            return self.take_message(from, message, fx);
        }
        if self.is_aside() {
            return self.refuse_message(from, message, fx);
        }
        // A forward comes again from its outbox, behind older ones that were lost with the last leader (M14, M19).
        let comes_again = matches!(
            &message,
            ToPartition::Append {
                key: AppendKey::Outbox { .. },
                ..
            } | ToPartition::Leads { .. }
        );
        if !comes_again && self.lead.early.len() < EARLY_MAX {
            self.lead.early.push_back((from, message));
        }
    }

    pub(crate) fn take_message(
        &mut self,
        from: PartitionId,
        message: ToPartition,
        fx: &mut impl PartitionEffects,
    ) {
        match message {
            ToPartition::Append {
                key,
                record,
                keep_retained,
                refusable,
                leader,
                cut,
                session,
            } => {
                // Of what was sent to an earlier leader, all older ones must come first (M14, M19).
                if leader.is_none_or(|leader| leader == self.lead.term) {
                    self.lead.pace = Pace::Free;
                    let append = Append {
                        key,
                        publish: &record.view().into(),
                        keep_retained,
                        deliver: true,
                        cut,
                    };
                    self.forwarded_append(from, &append, refusable, fx);
                    self.tell_slow(from, session, fx);
                }
            }
            ToPartition::Unclaim {
                client_id,
                epoch,
                open,
            } => self.unclaim(client_id, epoch, open, fx),
            ToPartition::Slow { session } => self.slow_down(session, fx),
            ToPartition::Leads { term, tell } => self.leads(from, term, tell, fx),
            ToPartition::Forwarded { seq, result } => self.forward_answered(from, seq, result, fx),
            ToPartition::ScanRetained(scan) => self.scan_retained(scan, fx),
            ToPartition::RetainedFound(found) => self.retained_found(&found, fx),
            ToPartition::RetainedWithheld { scan, .. } => self.retained_withheld(scan, fx),
            ToPartition::Join(join) => self.group_join(join, fx),
            ToPartition::Joined {
                member,
                request,
                result,
            } => self.joined(member, request, result, fx),
            ToPartition::Leave {
                share,
                filter,
                member,
                cause,
                request,
                part,
                front,
                known,
            } => {
                let leaver = Leaver {
                    member,
                    cause,
                    request,
                    part,
                    front,
                    known,
                };
                self.group_leave((share, filter), leaver, fx);
            }
            ToPartition::Left { request, owing, .. } => self.left(request, owing, fx),
            ToPartition::MemberFront {
                group,
                member,
                front,
            } => self.group_front(group, member, front, fx),
            ToPartition::AskPart { name, term } => self.offer_part((from, term), name, fx),
            ToPartition::Part { name, term, part } => self.part_known(&name, (term, part), fx),
            ToPartition::Decline(name) => self.part_declined(from, &name, fx),
            ToPartition::Inherit(heir) => self.bequeath(from, heir, fx),
            ToPartition::Inheritances { term, groups } => {
                self.bequeath_all((from, term), groups, fx);
            }
            ToPartition::PassOn(passed) => self.inherit_messages(from, &passed, fx),
            ToPartition::Took { group, next } => self.passed_on(group, next, fx),
            ToPartition::Elsewhere { member, name, part } => {
                self.go_elsewhere(member.session, (name, part), fx);
            }
        }
    }

    /// Every shard uses the index with this change (M38).
    pub fn handle_index_confirmed(
        &mut self,
        now: Now,
        token: IndexToken,
        fx: &mut impl PartitionEffects,
    ) {
        self.lead.now = now;
        self.index_confirmed(token, fx);
    }

    /// Every shard has pushed and settled what it had matched before the fence was asked for (M34).
    pub fn handle_fence(&mut self, now: Now, token: IndexToken, fx: &mut impl PartitionEffects) {
        self.lead.now = now;
        self.fence_passed(token, fx);
    }

    /// The moment of [`poll_timeout`](Self::poll_timeout) has come. Does a bounded amount of work; what is left is due at once.
    pub fn handle_timeout(&mut self, now: Now, fx: &mut impl PartitionEffects) {
        self.lead.now = now;
        self.gather.handle_timeout(now.tick);
        self.recall_timeout();
        if self.state.records.cools_on() {
            self.state.records.cool();
        }
        if self.lead.decides() {
            self.run_due(fx);
            self.forward_timeout(fx);
            self.pump_later(fx);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is wanted.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        let due = self.lead.due.next();
        let due = due.map(|at| self.lead.now.tick.after_ms(self.lead.wait_for(at)));
        let senders = self.lead.forwards.senders.values();
        let forwards = senders.filter_map(|sender| sender.poll_timeout());
        let stood = self.lead.forwards.stood.values();
        let forwards = forwards.chain(stood.map(|(_, since)| since.after_ms(FORWARD_AGAIN_MS)));
        let more = self.lead.forwards.more || !self.lead.streams.later.is_empty();
        let more = more && self.lead.decides();
        let forwards = forwards.chain(more.then_some(self.lead.now.tick));
        let forwards = forwards.chain(self.recalls.poll_timeout());
        let cools_on = self.state.records.cools_on();
        let forwards = forwards.chain(cools_on.then_some(self.lead.now.tick));
        forwards.chain(due).chain(self.gather.deadline()).min()
    }

    /// Whether an entry should be taken at the end of this turn. Outcomes alone wait a little for company (M18).
    #[must_use]
    pub const fn has_entry(&self) -> bool {
        self.gather.is_due()
    }

    /// Bytes of the facts gathered so far.
    #[inline]
    #[must_use]
    pub fn entry_bytes(&self) -> usize {
        self.gather.bytes()
    }

    /// What it has cost to find targets since this was asked last: a message for a topic that is not known may take as many nodes as all
    /// subscriptions have levels (`router`), and whoever calls counts that as work; so may the end of a session, or a search of what is retained.
    #[inline]
    pub fn take_visited(&mut self) -> router::Visited {
        self.state.l2.take_visited()
    }

    /// The facts gathered so far as an entry to propose; none if there are none. Several may be under way; they commit in the
    /// order in which they were taken.
    pub fn take_entry(&mut self, now: Now) -> Option<Bytes> {
        self.lead.now = now;
        if self.gather.facts() == 0 {
            return None;
        }
        self.lead.number += 1;
        let wall = self.wall();
        self.gather.take(wall, self.lead.term, self.lead.number)
    }

    /// An entry is committed at a place of the log: applies it; the leader that wrote it then answers and delivers. In the
    /// order of the log, which may have entries in between that are not the partition's.
    ///
    /// # Panics
    /// When the bytes are no entry: below, checksums vouch for them. When the place is not above the last one.
    pub fn handle_committed(
        &mut self,
        now: Now,
        at: LogIndex,
        entry: Bytes,
        fx: &mut impl PartitionEffects,
    ) {
        self.lead.now = now;
        self.commit(at, &entry, fx)
            .expect("checked bytes of a log are entries");
    }

    /// The same for an entry that no log has numbered: of a volatile partition, or where entries are not kept. It is the next
    /// one.
    ///
    /// # Panics
    /// When the bytes are no entry.
    pub fn handle_unlogged(&mut self, now: Now, entry: Bytes, fx: &mut impl PartitionEffects) {
        self.handle_committed(now, self.applied().next(), entry, fx);
    }

    /// Place of the last entry that was applied; 0 before the first.
    #[must_use]
    pub const fn applied(&self) -> LogIndex {
        LogIndex(self.state.index)
    }

    /// This partition leads from now on, in `term`, which is higher than any before. It takes nothing until it has applied the
    /// first entry of the term, which is gathered now (M5); sessions that were attached count as lost (M26).
    pub fn handle_leader(&mut self, now: Now, term: Term, fx: &mut impl PartitionEffects) {
        self.lead_begins(now, term, fx);
    }

    /// This partition no longer leads: what was only reserved is dropped (M5), its connections are closed.
    pub fn handle_follower(&mut self, now: Now, fx: &mut impl PartitionEffects) {
        self.lead_ends(now, fx);
    }

    /// Other limits, for what it decides from now on. What waits beyond those of streams goes, the oldest first, in steps (`aging`).
    pub fn set_limits(&mut self, limits: crate::Limits) {
        let before = std::mem::replace(&mut self.config.limits, limits);
        self.state.records.set_hot_max(self.config.hot_max());
        self.watch_settings();
        let limits = &self.config.limits;
        if limits.queue_messages_max < before.queue_messages_max
            || limits.queue_bytes_max < before.queue_bytes_max
        {
            self.watch_sizes();
        }
    }

    /// Says how much room its disk has. While it is short, publishes that would be kept are refused, and so are new sessions and
    /// subscriptions; results, releases, forwards and the sessions that there are go on, out of what is left (M47). Volatile partitions are
    /// not told.
    pub const fn set_disk_room(&mut self, room: DiskRoom) {
        self.disk_room = room;
        match room {
            DiskRoom::Enough => {
                self.will_room = DiskRoom::WILL_BYTES;
                self.going_room = DiskRoom::WILL_BYTES;
            }
            DiskRoom::Short => {}
        }
    }

    /// Gives it the budget of its shard: what it has no room for is refused as while the disk is short. Results, releases and what waits in
    /// outboxes are not refused. Volatile partitions get none.
    pub fn share_disk_budget(&mut self, budget: &DiskBudget) {
        self.disk_budget = budget.clone();
    }

    /// Room on the disk for so many bytes more.
    #[inline]
    pub(crate) fn disk_room_for(&self, bytes: usize) -> DiskRoom {
        match self.disk_budget.has(bytes) {
            true => self.disk_room,
            false => DiskRoom::Short,
        }
    }

    /// Bytes of messages that wait in outboxes, or will: the partitions to which they go write them once more, and do not refuse them.
    #[must_use]
    pub const fn forward_bytes(&self) -> u64 {
        self.lead.forwards.bytes
    }

    /// Says how much room the process has for messages that wait. While it is short, a numbered publish is refused that would
    /// wait for a session which does not take its messages; what was let in before goes on, and so do sessions that take theirs.
    pub const fn set_memory_room(&mut self, room: MemoryRoom) {
        self.memory_room = room;
    }

    /// Says how much room the process has for sessions and subscriptions. While it is short, new ones are refused; who has a session comes
    /// in, and sessions that end with their connections do unless there is none at all.
    pub const fn set_session_room(&mut self, room: SessionRoom) {
        self.session_room = room;
    }

    /// Whether it takes connections: it leads, the first entry of its term is applied, and L1 has all of its filters (M39).
    #[must_use]
    pub fn serves(&self) -> bool {
        self.lead.role == Role::Leading
    }

    /// How far it has come with proposing, for a fence with a cut.
    #[must_use]
    pub fn proposed(&self) -> Proposed {
        Proposed {
            term: self.lead.term,
            number: self.lead.number + u64::from(self.gather.facts() > 0),
            forwards: Forwards::Apart,
        }
    }

    /// The same with all that goes on to other partitions, for the other fences: what is retained is found where it is kept, once that
    /// has taken it (M34). None: nothing goes on. Of what an entry sends to a partition without a log this says that it has left.
    #[must_use]
    pub fn forwarding(&self) -> Option<Proposed> {
        let number = self.lead.forwards.last_kept_elsewhere;
        let some = match self.lead.role {
            // What an earlier leader proposed may be in the log and not in an outbox yet.
            Role::Follower | Role::Elected => true,
            Role::Indexing | Role::Leading | Role::Aside => {
                number > self.lead.applied || self.state.outboxes.len() > 0
            }
        };
        some.then_some(Proposed {
            term: self.lead.term,
            number,
            forwards: Forwards::All,
        })
    }

    /// Whether all that was proposed up to there is applied, or void, and taken by others if that was asked for.
    #[must_use]
    pub fn has_applied(&self, proposed: &mut Proposed) -> bool {
        let leads = self.lead.role != Role::Follower && self.lead.term == proposed.term;
        if leads && self.lead.applied < proposed.number {
            return false;
        }
        if proposed.forwards == Forwards::All {
            match self.lead.role {
                // Some of it may be in an outbox when the next leader begins.
                Role::Follower | Role::Elected => return false,
                Role::Indexing | Role::Leading | Role::Aside => {}
            }
            let open = self.state.outboxes.iter();
            let open = open.filter(|(_, outbox)| outbox.len() > 0);
            let open = open.map(|(to, outbox)| (to, outbox.floor()..outbox.next()));
            proposed.forwards = Forwards::At(open.collect());
        }
        match &mut proposed.forwards {
            Forwards::Apart | Forwards::All => true,
            Forwards::At(open) => {
                open.retain_mut(|(to, left)| !self.has_forwarded(*to, left));
                open.is_empty()
            }
        }
    }

    /// Whether a destination has taken all of some positions; those that are passed are not looked at again. Nobody waits for what it
    /// refuses, for what waits behind that, nor in a partition that is set aside: this may go on for ever.
    fn has_forwarded(&self, to: PartitionId, left: &mut Range<Seq>) -> bool {
        let Some(outbox) = self.state.outboxes.get(to).filter(|_| !self.is_aside()) else {
            return true;
        };
        let sender = self.lead.forwards.senders.get(&to);
        while let Some((seq, forward)) = outbox.next_from(left.start)
            && seq < left.end
        {
            left.start = seq;
            if !sender.is_some_and(|sender| sender.is_stuck(seq, forward)) {
                return false;
            }
            left.start = Seq(seq.0 + 1);
        }
        true
    }

    /// What the partition holds.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let retained = self.state.retained.usage();
        Counts {
            sessions: self.state.sessions.len() as u64,
            attached: self.lead.registry.attached,
            claims: self.lead.registry.clients.len() as u64,
            subscriptions: self.state.subscriptions,
            shared_subscriptions: self.state.shared_subscriptions,
            session_bytes: self.state.session_bytes
                + self.state.l2.filter_bytes()
                + self.ring_bytes(),
            expired_sessions: self.lead.registry.expired,
            retained_messages: retained.topics,
            retained_bytes: retained.bytes,
            queued_messages: self.state.queued,
            records: self.state.records.live() as u64,
            cold_records: self.state.records.cold() as u64,
            record_bytes: self.state.records.held_bytes() as u64,
            row_bytes: self.state.records.row_bytes() as u64,
            outbox_messages: self.state.outboxes.len() as u64,
        }
    }

    /// What members of shared groups own topics by, as for [`weight`]: as many as have subscribed, connected or not, and as if all groups had
    /// begun with the strategy that counts now.
    ///
    /// [`weight`]: crate::state::weight
    fn ring_bytes(&self) -> u64 {
        match self.config.limits.shared_strategy {
            SharedStrategy::HashTopic => self.state.shared_subscriptions * RING_BYTES,
            SharedStrategy::RoundRobin
            | SharedStrategy::Sticky
            | SharedStrategy::LeastOutstanding => 0,
        }
    }

    /// Canonical bytes of the replicated state: equal after a replay of the same entries. Cost: linear in all that is stored.
    #[must_use]
    pub fn encode_state(&self) -> Vec<u8> {
        self.state.encode()
    }

    /// Records that are in memory, each with its entry and the byte of it at which it begins, in no order: for tests that hold them
    /// against the log.
    pub fn records_in_memory(&self) -> impl Iterator<Item = (LogIndex, u32, RecordView<'_>)> {
        let records = &self.state.records;
        let slots = records.iter().filter(|slot| records.is_in_memory(*slot));
        slots.map(|slot| {
            let address = records.address(slot);
            (LogIndex(address.index), address.ordinal, records.view(slot))
        })
    }

    /// Asserts the invariants; linear in all that is stored.
    ///
    /// # Panics
    /// When one is broken.
    pub fn check(&self) {
        self.state.check();
        self.check_lead();
    }

    /// The moment of the last entry (M6).
    #[must_use]
    pub const fn last_wall(&self) -> courser_contract::WallMs {
        self.state.wall
    }

    /// The clock of this partition: never goes back (M6).
    pub(crate) fn wall(&self) -> courser_contract::WallMs {
        self.lead.now.wall.max(self.state.wall)
    }

    /// Adds a rare fact to the entry.
    pub(crate) fn write(&mut self, fact: &Rare) {
        fact.write(&mut self.gather, Haste::Now, &mut self.lead.scratch);
    }
}
