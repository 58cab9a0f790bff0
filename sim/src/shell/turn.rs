//! One turn of a shard: everything that can happen, in order.

use courser_contract::{
    Append, Delivery, Dropped, FrontId, GroupRef, OutcomeKind, PartitionId, Record, Seq, ShardId,
    Source, Term, Tick, ToFront, ToHome, ToPartition,
};
use courser_mqtt::front::{Front, Prepared};

use super::effects::PartitionFx;
use super::message::{Control, Message};
use super::parcels::Parcels;
use super::{Action, Connection, Inbound, Shard};
use crate::bug::Bug;
use courser_contract::Now;
use courser_engine::Partition;

/// What the trace says of messages between partitions.
fn forward_line(from: PartitionId, to: PartitionId, message: &ToPartition) -> Option<String> {
    let text = match message {
        ToPartition::Append { key, record, .. } => {
            let view = record.view();
            let payload = &view.payload[..view.payload.len().min(8)];
            format!(
                "append {key:?} {} {}",
                view.topic,
                String::from_utf8_lossy(payload)
            )
        }
        ToPartition::Forwarded { seq, result } => format!("answer {seq:?} {result:?}"),
        ToPartition::Join(join) => format!("join {:?} {:?}", join.member, join.front),
        ToPartition::Leads { .. }
        | ToPartition::Unclaim { .. }
        | ToPartition::Joined { .. }
        | ToPartition::Leave { .. }
        | ToPartition::Left { .. }
        | ToPartition::RetainedWithheld { .. }
        | ToPartition::MemberFront { .. }
        | ToPartition::AskPart { .. }
        | ToPartition::Part { .. }
        | ToPartition::Decline(_)
        | ToPartition::Inherit(_)
        | ToPartition::Inheritances { .. }
        | ToPartition::Took { .. }
        | ToPartition::Elsewhere { .. } => format!("{message:?}"),
        ToPartition::PassOn(passed) => format!(
            "passes on {} from {} to {}, all {}",
            passed.records.len(),
            passed.first,
            passed.to,
            passed.all
        ),
        ToPartition::ScanRetained(_) | ToPartition::RetainedFound(_) | ToPartition::Slow { .. } => {
            return None;
        }
    };
    Some(format!("partition {} to {}: {text}", from.0, to.0))
}

/// What it says of messages between fronts and groups.
fn group_line(partition: PartitionId, message: &ToHome) -> Option<String> {
    match message {
        ToHome::GroupOutcome { .. } | ToHome::GroupRoom { .. } | ToHome::Named { .. } => {
            Some(format!("front to partition {}: {message:?}", partition.0))
        }
        ToHome::Attach(_)
        | ToHome::Unclaim { .. }
        | ToHome::Subscribe { .. }
        | ToHome::Unsubscribe { .. }
        | ToHome::PageTaken { .. }
        | ToHome::Uptake { .. }
        | ToHome::Outcome { .. }
        | ToHome::PublishQos2 { .. }
        | ToHome::Release { .. }
        | ToHome::Owned { .. }
        | ToHome::Detach { .. } => None,
    }
}

/// What it says of messages of groups to a front.
fn owed_line(front: FrontId, message: &ToFront) -> Option<String> {
    match message {
        ToFront::Release {
            source: Source::Group(_),
            ..
        }
        | ToFront::Name { .. }
        | ToFront::Withheld { .. }
        | ToFront::Owed { .. }
        | ToFront::NothingOwed { .. }
        | ToFront::Void { .. }
        | ToFront::Finished { .. } => Some(format!("to conn {}: {message:?}", front.slot)),
        ToFront::Attached(_)
        | ToFront::Claimed { .. }
        | ToFront::ConnectRefused(_)
        | ToFront::TakenOver
        | ToFront::Closed(_)
        | ToFront::RetainedPage
        | ToFront::Subscribed { .. }
        | ToFront::Unsubscribed { .. }
        | ToFront::Received { .. }
        | ToFront::Released { .. }
        | ToFront::Release { .. } => None,
    }
}

/// Messages of a shard to itself that one call may lead to, I9: more is a loop.
const MESSAGES_MAX: u32 = 100_000;

impl Shard {
    /// Handles all that has come, fires what is due, and sends what that made.
    pub(crate) fn turn(&mut self, now: Now) -> Vec<Action> {
        self.hub.now = now;
        while let Some(inbound) = self.inbox.pop_front() {
            if let Inbound::Panics(id, at) = inbound {
                // Nothing of the turn has left yet.
                return vec![Action::Panicked(id, at)];
            }
            self.handle_inbound(inbound);
            self.handle_local();
        }
        self.handle_timers();
        self.end_turn();
        std::mem::take(&mut self.hub.actions)
    }

    fn handle_inbound(&mut self, inbound: Inbound) {
        match inbound {
            Inbound::Accept(conn) => {
                let front = Front::new(self.front_id(conn), self.config.clone(), self.hub.now);
                let connection = Connection {
                    front,
                    rest: Vec::new(),
                    unsettled: 0,
                    stalled: false,
                    attached: false,
                };
                self.fronts.insert(conn, connection);
            }
            Inbound::Bytes(conn, bytes) => {
                if let Some(connection) = self.fronts.get_mut(&conn) {
                    connection.rest.extend_from_slice(&bytes);
                    self.with_front(conn, |_, _, _, _| ());
                }
            }
            Inbound::Lost(conn) => {
                if let Some(connection) = self.fronts.get_mut(&conn) {
                    connection.rest.clear();
                    connection.front.output().clear();
                    self.with_front(conn, |front, now, fx, _| front.handle_lost(now, fx));
                }
            }
            Inbound::Stall(conn, stalled) => {
                if let Some(connection) = self.fronts.get_mut(&conn) {
                    connection.stalled = stalled;
                }
            }
            Inbound::Batch(from, messages) => {
                for message in messages {
                    self.handle(from, message);
                    self.handle_local();
                }
                self.handled[usize::from(from.0)] += 1;
            }
            Inbound::Returned(peer, count) => self.hub.returned[usize::from(peer.0)] = count,
            Inbound::Committed(id, at, entry) => {
                let early = self.hub.bug == Some(Bug::ApplyBeforeCommit);
                if !early || self.partitions.get(&id).is_some_and(|owned| owned.elected) {
                    self.committed(id, Some(at), entry);
                }
            }
            Inbound::Room(room) => {
                for (_, owned) in self
                    .partitions
                    .iter_mut()
                    .filter(|(id, _)| !id.is_volatile())
                {
                    owned.partition.set_disk_room(room);
                }
            }
            Inbound::Recalled(answer) => {
                let lost = self.with_partition(answer.partition, |it, now, fx| {
                    it.handle_recalled(now, &answer, fx)
                });
                if lost > 0 {
                    let unreadable = Action::Unreadable(answer.partition, answer.lost);
                    self.hub.actions.push(unreadable);
                }
            }
            Inbound::AcceptLoss(id, entries) => {
                // What was counted before it is counted apart.
                let missed = self.take_dropped(Dropped::Damaged);
                let gone = self.with_partition(id, |it, now, fx| {
                    it.accept_loss(now, |index| entries.contains(&index), fx)
                });
                let counted = self.hub.dropped.insert(Dropped::Damaged, missed);
                let counted = counted.unwrap_or_default();
                let accepted = Action::LossAccepted(id, gone, counted);
                self.hub.actions.push(accepted);
            }
            Inbound::Panics(..) => unreachable!("the turn has ended with it"),
            Inbound::Aside(id, filters) => {
                self.with_partition(id, |it, now, fx| it.set_aside(now, filters, fx));
                // It answers, so that nobody waits for a leader.
                let term = Term(0);
                self.hub.push_all(&Control::Led(id, term));
            }
            Inbound::Follow(id) => self.follow(id),
            Inbound::Lead(id, term) => {
                let owned = self
                    .partitions
                    .get_mut(&id)
                    .expect("a partition stays on its shard");
                owned.term = term;
                owned.elected = true;
                self.with_partition(id, |it, now, fx| it.handle_leader(now, term, fx));
            }
        }
    }

    /// Applies an entry; those of volatile partitions have no place in a log.
    pub(super) fn committed(
        &mut self,
        id: PartitionId,
        at: Option<courser_contract::LogIndex>,
        entry: bytes::Bytes,
    ) {
        self.with_partition(id, |it, now, fx| match at {
            Some(at) => it.handle_committed(now, at, entry, fx),
            None => it.handle_unlogged(now, entry, fx),
        });
        let owned = self
            .partitions
            .get_mut(&id)
            .expect("a partition stays on its shard");
        if std::mem::take(&mut owned.elected) {
            let term = owned.term;
            self.hub.actions.push(Action::Led(id));
            self.hub.push_all(&Control::Led(id, term));
        }
    }

    fn follow(&mut self, id: PartitionId) {
        let owned = self
            .partitions
            .get_mut(&id)
            .expect("a partition stays on its shard");
        owned.elected = false;
        // What is sent to its last leader comes again with the next one's term, behind what that one was asked before (M14).
        owned.term = Term(0);
        self.hub.parcels.forget(id);
        self.with_partition(id, |it, now, fx| it.handle_follower(now, fx));
        self.hub.actions.push(Action::Deposed(id));
    }

    pub(super) fn with_partition<R>(
        &mut self,
        id: PartitionId,
        act: impl FnOnce(&mut Partition, Now, &mut PartitionFx<'_>) -> R,
    ) -> R {
        let now = self.hub.now;
        let owned = self
            .partitions
            .get_mut(&id)
            .expect("a partition stays on its shard");
        let mut fx = PartitionFx {
            hub: &mut self.hub,
            id,
        };
        act(&mut owned.partition, now, &mut fx)
    }

    pub(super) fn handle_local(&mut self) {
        let mut handled = 0_u32;
        while let Some(message) = self.hub.local.pop_front() {
            handled += 1;
            assert!(handled < MESSAGES_MAX, "a turn does not end: {message:?}");
            self.handle(self.hub.id, message);
        }
    }

    /// Whether something was sent to the leader that a partition has now.
    fn is_current(&self, id: PartitionId, term: Term) -> bool {
        id.is_volatile()
            || self
                .partitions
                .get(&id)
                .is_some_and(|owned| owned.term == term)
    }

    fn handle(&mut self, from: ShardId, message: Message) {
        match message {
            Message::Append {
                partition,
                term,
                key,
                keep_retained,
                deliver,
                cut,
                record,
            } => {
                if self.is_current(partition, term) {
                    let append = Append {
                        key,
                        publish: &record.view().into(),
                        keep_retained,
                        deliver,
                        cut,
                    };
                    self.with_partition(partition, |it, now, fx| {
                        it.handle_append(now, &append, fx)
                    });
                }
            }
            Message::Deliver { record, stored, to } => self.deliver(&record, stored, to),
            Message::Home(partition, message) => {
                let line = group_line(partition, &message);
                self.hub.actions.extend(line.map(Action::Note));
                if self.hub.bug == Some(Bug::FreeIdsEarly) {
                    self.forge_finished(partition, &message);
                }
                self.with_partition(partition, |it, now, fx| it.handle_home(now, message, fx));
            }
            Message::Front(front, message) => {
                let line = owed_line(front, &message);
                self.hub.actions.extend(line.map(Action::Note));
                self.tell_front(front, message);
            }
            Message::Partition {
                from,
                to,
                term,
                mut message,
            } => {
                if self.hub.bug == Some(Bug::ForgetLeavers)
                    && let ToPartition::Left { owing, .. } = &mut message
                {
                    *owing = None;
                }
                self.hub.parcels.answered(from, to, &message);
                // Answers are to positions and numbers that no other leader gives: they are taken whoever asked. Questions to an
                // old leader come again with the new one's term.
                let taken = !Parcels::is_question(&message) || self.is_current(to, term);
                if let Some(line) = forward_line(from, to, &message) {
                    let stale = if taken { "" } else { ", to an old leader" };
                    self.hub
                        .actions
                        .push(Action::Note(format!("{line}{stale}")));
                }
                if taken {
                    self.with_partition(to, |it, now, fx| {
                        it.handle_partition(now, from, message, fx)
                    });
                }
            }
            Message::Settled {
                partition,
                origin,
                number,
                result,
            } => {
                let done = self.hub.appends.settled(partition, origin, number, result);
                if let Some(done) = done {
                    self.settled(done);
                }
            }
            Message::Control(control) => self.handle_control(from, control),
        }
    }

    /// The planted bug: a front hears that what it has finished is committed before it is.
    fn forge_finished(&mut self, partition: PartitionId, message: &ToHome) {
        if let ToHome::GroupOutcome {
            group,
            front,
            first,
            last,
            kind: OutcomeKind::Done,
            ..
        } = message
        {
            let group = GroupRef {
                partition,
                group: *group,
            };
            for seq in (first.0..=last.0).map(Seq) {
                let finished = ToFront::Finished { group, seq };
                self.hub.push(front.shard, Message::Front(*front, finished));
            }
        }
    }

    fn settled(&mut self, done: courser_shard::Done<()>) {
        let conn = done.front.slot;
        if let Some(connection) = self.fronts.get_mut(&conn) {
            connection.unsettled = connection.unsettled.saturating_sub(1);
        }
        if self.hub.bug != Some(Bug::SettleBeforeCommit) {
            self.with_front(conn, |it, now, fx, _| {
                it.handle_settled(now, done.ticket, done.result, fx);
            });
        }
        self.hub.front_settled(done.front);
    }

    fn deliver(&mut self, record: &Record, stored: bool, to: Vec<courser_contract::DeliverTo>) {
        let delivery = Delivery {
            view: &record.view(),
            record: stored.then(|| record.as_ref()),
        };
        for target in to {
            self.with_front(target.front.slot, |front, now, fx, scratch| {
                let mut prepared = Prepared::new(&delivery, now, scratch);
                front.deliver(now, &mut prepared, &target, fx);
            });
        }
    }

    fn handle_timers(&mut self) {
        let now = self.hub.now.tick;
        let due = |at: Option<Tick>| at.is_some_and(|at| at <= now);
        let mut fronts = Vec::new();
        fronts.extend(
            self.fronts
                .iter()
                .filter(|(_, c)| due(c.front.poll_timeout()))
                .map(|(&c, _)| c),
        );
        for conn in fronts {
            self.with_front(conn, |front, now, fx, _| front.handle_timeout(now, fx));
            self.handle_local();
        }
        self.hub.send_overdue_words();
        if self.hub.bug == Some(Bug::NoTimers) {
            return;
        }
        let ids: Vec<_> = self.partitions.keys().copied().collect();
        for id in ids {
            if due(self.partitions[&id].partition.poll_timeout()) {
                self.with_partition(id, |it, now, fx| it.handle_timeout(now, fx));
                self.handle_local();
            }
        }
    }

    /// When the next turn is wanted if nothing comes.
    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        let fronts = self.fronts.values().filter_map(|c| c.front.poll_timeout());
        let no_timers = self.hub.bug == Some(Bug::NoTimers);
        let partitions = self.partitions.values().filter(|_| !no_timers);
        let partitions = partitions.filter_map(|owned| owned.partition.poll_timeout());
        fronts
            .chain(partitions)
            .chain(self.hub.last_words.deadline())
            .min()
    }
}
