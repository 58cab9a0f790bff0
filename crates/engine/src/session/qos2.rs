//! QoS 2 publishes of durable sessions (M28): one entry stores the message, the hold, and its places on the way to others.

use courser_contract::{
    AppendKey, Dropped, Epoch, FrontId, PartitionEffects, PartitionId, PublishedQos2, PubrecCan,
    Refusal, Seq, SessionUid, Settled, Tell, Term, ToFront, ToPartition,
};

use super::{
    Session,
    detach::{Awaited, Plan},
};
use crate::{
    DiskRoom, MemoryRoom, Pace, Partition, PlantedPartition,
    entry::{Haste, Rare},
    lead::{After, Holding, OpenForwards, Waiter},
    outbox::{Refusable, Sender},
};

/// How long a refused forward waits before it is sent again.
const RETRY_MS: u64 = 1_000;

/// An outbox of which nothing was answered for so long is sent again: the destination knows repeats (M11, M19).
pub(crate) const FORWARD_AGAIN_MS: u64 = 5_000;

/// Forwards of one outbox that are looked at in one call; the rest follows at once.
const SENT_MAX: usize = 1_024;

/// What a session may have in outboxes once some of it is refused and stays. Others are never held up for so long that they have as
/// much, or what they have is on its way.
const BACKLOG_MAX: u64 = 1_024;

/// What is known of a packet id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    None,
    /// Proposed; its answer comes with the commit.
    Proposed(u64),
    Committed(u64),
}

impl Session {
    fn hold(&self, packet_id: u16) -> Hold {
        if let Some(proposed) = self.lead.proposed_holds.get(&packet_id) {
            return proposed.map_or(Hold::None, Hold::Proposed);
        }
        let held = self
            .extra
            .as_ref()
            .and_then(|extra| extra.holds.get(&packet_id));
        held.map_or(Hold::None, |&hash| Hold::Committed(hash))
    }

    /// Whether so many packet ids are held. Those that are being let go are told apart only where it matters: they are looked
    /// through one by one.
    fn holds_at_least(&self, count: usize) -> bool {
        let held = self.extra.as_ref().map_or(0, |extra| extra.holds.len());
        let proposed = &self.lead.proposed_holds;
        held + proposed.len() >= count && held + proposed.values().flatten().count() >= count
    }
}

impl Partition {
    /// A QoS 2 publish of a durable session.
    pub(crate) fn publish_qos2(
        &mut self,
        uid: SessionUid,
        epoch: Epoch,
        publish: &PublishedQos2,
        fx: &mut impl PartitionEffects,
    ) {
        let Some((session, front)) = self.session_of(uid, epoch) else {
            return;
        };
        let hold = match self.is_planted(PlantedPartition::HoldForgotten) {
            true => Hold::None,
            false => session.hold(publish.packet_id),
        };
        match hold {
            Hold::Proposed(hash) if hash == publish.hash => return,
            Hold::Committed(hash) if hash == publish.hash => {
                return self.answer_repeat((uid, front), publish, fx);
            }
            // The same id for another message: a client that lost its state.
            Hold::Proposed(_) | Hold::Committed(_) | Hold::None => {}
        }
        if publish.destinations.is_empty() {
            return fx.send_front(front, received(publish.packet_id, Settled::Ok, false));
        }
        let Some(plan) = self.admit_qos2(uid, publish, fx) else {
            let refused = Settled::Refused(Refusal::QuotaExceeded);
            fx.dropped(Dropped::Quota, 1);
            return fx.send_front(front, received(publish.packet_id, refused, true));
        };
        self.propose_hold(uid, publish);
        self.spread_held((uid, front), publish, &plan, fx);
    }

    /// A publish that is stored came again: PUBREC, once what that waits for is there.
    fn answer_repeat(
        &mut self,
        (uid, front): (SessionUid, FrontId),
        publish: &PublishedQos2,
        fx: &mut impl PartitionEffects,
    ) {
        let packet_id = publish.packet_id;
        if let Some((holding, _)) = self.lead.forwards.holding.get_mut(&(uid, packet_id)) {
            holding.front = front;
            holding.pubrec = publish.pubrec;
        } else if self.lead.forwards.inherited.contains_key(&uid) {
            self.lead
                .forwards
                .waiting_holds
                .insert((uid, packet_id), front);
        } else {
            fx.send_front(front, received(packet_id, Settled::Ok, true));
        }
    }

    /// How a publish goes to its destinations; none: there is no room for it.
    fn admit_qos2(
        &mut self,
        uid: SessionUid,
        publish: &PublishedQos2,
        fx: &mut impl PartitionEffects,
    ) -> Option<Plan> {
        let session = self.state.sessions.get(uid.0)?;
        let limits = &self.config.limits;
        let forwards = self.state.outboxes.len() + self.lead.forwards.reserved as usize;
        let is_full = self.disk_room == DiskRoom::Short
            || self.memory_room == MemoryRoom::Short
            || session.holds_at_least(limits.holds_max as usize)
            || forwards + publish.destinations.len() > limits.outbox_messages_max as usize
            || self.has_full_backlog(uid);
        // Before the plan, which admits a retained message: what is admitted must be proposed.
        if is_full {
            return None;
        }
        let view = publish.record.view();
        let destinations = (&publish.destinations[..], &publish.cuts[..]);
        let plan = self.plan_spread(&view, destinations, Awaited::ByClient(uid), fx);
        (!plan.refused).then_some(plan)
    }

    /// Whether so much of a session is held up by a destination that refuses that nothing is added to it (I9): a client may come again
    /// and again with other packet ids.
    fn has_full_backlog(&self, uid: SessionUid) -> bool {
        let forwards = &self.lead.forwards;
        let bytes_max = self.config.limits.queue_bytes_max;
        let backlog = forwards.backlogs.get(&uid);
        backlog.is_some_and(|it| it.forwards >= BACKLOG_MAX || it.bytes >= bytes_max)
            && forwards.is_refused(uid)
    }

    fn propose_hold(&mut self, uid: SessionUid, publish: &PublishedQos2) {
        let (packet_id, hash) = (publish.packet_id, publish.hash);
        let session = self.state.sessions.get_mut(uid.0);
        let lead = &mut session.expect("the caller saw it").lead;
        lead.proposed_holds.insert(packet_id, Some(hash));
        // Its client has forgotten the message that had this id before. What is said of that would be taken for an answer to this one.
        self.drop_holding(uid, packet_id);
        self.write(&Rare::Held {
            session: uid,
            packet_id,
            hash,
        });
    }

    /// The message goes the ways that were decided. PUBREC comes with the entry, or later.
    fn spread_held(
        &mut self,
        (uid, front): (SessionUid, FrontId),
        publish: &PublishedQos2,
        plan: &Plan,
        fx: &mut impl PartitionEffects,
    ) {
        self.lead.pace = Pace::Free;
        let spread = self.spread(&publish.record.view(), plan, uid, fx);
        if self.lead.pace == Pace::Slow {
            fx.slow_down(front);
        }
        self.lead.after(After::Held(Holding {
            front,
            session: uid,
            packet_id: publish.packet_id,
            forwards: spread.forwards,
            // What is in outboxes here does not outlive the process: PUBREC waits until it is where it is kept (I1).
            must_wait: spread.refusable || self.is_volatile() && spread.forwards > 0,
            pubrec: publish.pubrec,
            result: Settled::Ok,
        }));
    }

    /// The entry of a QoS 2 publish is applied: PUBREC, unless it waits for destinations that may refuse.
    pub(crate) fn held(&mut self, holding: Holding, fx: &mut impl PartitionEffects) {
        let (uid, packet_id) = (holding.session, holding.packet_id);
        if let Some(session) = self.state.sessions.get_mut(uid.0) {
            let held = session
                .extra
                .as_ref()
                .and_then(|extra| extra.holds.get(&packet_id));
            let proposed = session.lead.proposed_holds.get(&packet_id);
            if proposed.is_some_and(|proposed| proposed.as_ref() == held) {
                session.lead.proposed_holds.remove(&packet_id);
            }
        }
        let count = holding.forwards;
        let forwards = self.lead.forwards.pushed.drain(..count);
        if !holding.must_wait {
            drop(forwards);
            return self.answer_held(&holding, fx);
        }
        let open: OpenForwards = forwards.collect();
        for &forward in &open {
            let waiter = Waiter::Hold(uid, packet_id);
            self.lead.forwards.answers.insert(forward, waiter);
        }
        self.lead
            .forwards
            .holding
            .insert((uid, packet_id), (holding, open));
    }

    fn answer_held(&self, holding: &Holding, fx: &mut impl PartitionEffects) {
        fx.send_front(holding.front, holding.received(holding.result));
    }

    /// PUBREL, or a refusal that ends the hold.
    pub(crate) fn release(
        &mut self,
        uid: SessionUid,
        epoch: Epoch,
        packet_id: u16,
        fx: &mut impl PartitionEffects,
    ) {
        let Some((session, front)) = self.session_of(uid, epoch) else {
            return;
        };
        let existed = session.hold(packet_id) != Hold::None;
        if !existed {
            let message = ToFront::Released { packet_id, existed };
            return fx.send_front(front, message);
        }
        // Before its PUBREC only where the front has refused a repeat; then nobody was told that it is stored.
        self.drop_holding(uid, packet_id);
        self.write_release(uid, packet_id);
        self.lead.after(After::Released {
            front,
            session: uid,
            packet_id,
        });
    }

    fn write_release(&mut self, uid: SessionUid, packet_id: u16) {
        self.lead.forwards.waiting_holds.remove(&(uid, packet_id));
        if let Some(session) = self.state.sessions.get_mut(uid.0) {
            session.lead.proposed_holds.insert(packet_id, None);
        }
        self.write(&Rare::Released {
            session: uid,
            packet_id,
        });
    }

    /// Finds the forwards that an earlier leader wrote and that may be refused: a PUBREC that is asked for again waits for
    /// them, so that what the client publishes after it does not overtake them (M28).
    pub(crate) fn inherit_forwards(&mut self) {
        for (to, outbox) in self.state.outboxes.iter() {
            for (seq, forward) in outbox.iter() {
                if let Some(uid) = forward.session {
                    let bytes = self.state.records.len_of(forward.item.slot);
                    self.lead.forwards.begun(uid, bytes.into());
                }
                if let (Some(uid), Refusable::Yes) = (forward.session, forward.refusable) {
                    let inherited = self.lead.forwards.inherited.entry(uid).or_default();
                    inherited.insert((to, seq));
                }
            }
        }
    }

    /// A forward is at its end: if it was the last one that its session had from an earlier leader, its holds are answered.
    fn end_inherited(&mut self, to: PartitionId, seq: Seq, fx: &mut impl PartitionEffects) {
        let outbox = self.state.outboxes.get(to);
        let forward = outbox.and_then(|outbox| outbox.get(seq));
        let Some(uid) = forward.and_then(|forward| forward.session) else {
            return;
        };
        let Some(left) = self.lead.forwards.inherited.get_mut(&uid) else {
            return;
        };
        left.remove(&(to, seq));
        if !left.is_empty() {
            return;
        }
        self.lead.forwards.inherited.remove(&uid);
        let range = (uid, 0)..=(uid, u16::MAX);
        for ((_, packet_id), front) in self
            .lead
            .forwards
            .waiting_holds
            .extract_if(range, |_, _| true)
        {
            fx.send_front(front, received(packet_id, Settled::Ok, true));
        }
    }

    /// The hold is gone: PUBCOMP.
    pub(crate) fn released(&mut self, uid: SessionUid, packet_id: u16) {
        if let Some(session) = self.state.sessions.get_mut(uid.0)
            && session.lead.proposed_holds.get(&packet_id) == Some(&None)
        {
            session.lead.proposed_holds.remove(&packet_id);
        }
    }

    /// Sends what the outboxes hold, in order.
    pub(crate) fn send_forwards(&mut self, fx: &mut impl PartitionEffects) {
        if self.state.outboxes.len() == 0 {
            self.lead.forwards.stood.clear();
            self.lead.forwards.more = false;
            return;
        }
        let now = self.lead.now.tick;
        let volatile = self.is_volatile();
        let planted_twice = self.is_planted(PlantedPartition::ForwardedTwice);
        self.lead.forwards.more = false;
        let mut stuck: Vec<(PartitionId, SessionUid)> = Vec::new();
        for (to, outbox) in self.state.outboxes.iter() {
            let is_new = !self.lead.forwards.stood.contains_key(&to);
            let sender = self.lead.forwards.senders.entry(to).or_default();
            let floor = outbox.floor();
            if outbox.len() == 0 {
                self.lead.forwards.stood.remove(&to);
            } else {
                let stood = self.lead.forwards.stood.entry(to).or_insert((floor, now));
                if stood.0 != floor {
                    *stood = (floor, now);
                } else if stood.1.after_ms(FORWARD_AGAIN_MS) <= now {
                    stood.1 = now;
                    sender.restart();
                    let (term, tell) = (self.lead.term, Tell::Asks);
                    fx.send_partition(to, ToPartition::Leads { term, tell });
                }
            }
            // Who it is says so when it begins, but not to volatile partitions: they ask.
            let Some(&leader) = self.lead.forwards.leaders.get(&to) else {
                if volatile && is_new {
                    let (term, tell) = (self.lead.term, Tell::Asks);
                    fx.send_partition(to, ToPartition::Leads { term, tell });
                }
                continue;
            };
            let mut looks = SENT_MAX;
            while let Some((seq, forward)) = sender.next(outbox, &mut looks) {
                if self.state.records.is_tombstone(forward.item.slot) {
                    let session = sender.refused(outbox, seq, now.after_ms(RETRY_MS));
                    stuck.extend(session.map(|session| (to, session)));
                    continue;
                }
                let append = ToPartition::Append {
                    key: AppendKey::Outbox {
                        source: self.state.id,
                        seq,
                        floor,
                    },
                    record: self.state.records.share(forward.item.slot),
                    keep_retained: forward.item.keep_retained,
                    refusable: forward.refusable == Refusable::Yes,
                    leader: Some(leader),
                    cut: forward.item.cut,
                    session: forward.session,
                };
                if planted_twice {
                    fx.send_partition(to, once_more(append.clone()));
                }
                fx.send_partition(to, append);
            }
            self.lead.forwards.more |= looks == 0;
        }
        for (to, session) in stuck {
            self.let_wills_be(to, session, fx);
        }
    }

    /// Says to another partition who leads this one.
    pub(crate) fn tell_leader(&self, to: PartitionId, tell: Tell, fx: &mut impl PartitionEffects) {
        let term = self.lead.term;
        fx.send_partition(to, ToPartition::Leads { term, tell });
    }

    /// Another partition says who leads it. To a new leader all goes out again that it has not answered, in order (M14).
    pub(crate) fn leads(
        &mut self,
        from: PartitionId,
        term: Term,
        tell: Tell,
        fx: &mut impl PartitionEffects,
    ) {
        match tell {
            Tell::Asks => self.tell_leader(from, Tell::Answers, fx),
            Tell::Answers => {}
        }
        if self
            .lead
            .forwards
            .leaders
            .get(&from)
            .is_none_or(|known| *known < term)
        {
            self.lead.forwards.leaders.insert(from, term);
            self.lead.forwards.stood.remove(&from);
            if let Some(sender) = self.lead.forwards.senders.get_mut(&from) {
                sender.restart();
            }
            self.send_forwards(fx);
        }
    }

    /// Refused forwards whose moment has come are sent again.
    pub(crate) fn forward_timeout(&mut self, fx: &mut impl PartitionEffects) {
        let now = self.lead.now.tick;
        for sender in self.lead.forwards.senders.values_mut() {
            sender.handle_timeout(now);
        }
        self.send_forwards(fx);
    }

    /// A destination has answered.
    pub(crate) fn forward_answered(
        &mut self,
        from: PartitionId,
        seq: Seq,
        result: Settled,
        fx: &mut impl PartitionEffects,
    ) {
        let waiter = match self.lead.forwards.answers.is_empty() {
            true => None,
            false => self.lead.forwards.answers.remove(&(from, seq)),
        };
        match (result, waiter) {
            (Settled::Ok, waiter) => {
                self.end_inherited(from, seq, fx);
                self.end_forward(from, seq);
                self.forward_taken((from, seq), waiter, fx);
            }
            (Settled::Refused(refusal), Some(Waiter::Hold(uid, packet_id))) => {
                self.held_refused((from, seq), (uid, packet_id), refusal, fx);
            }
            (Settled::Refused(refusal), Some(Waiter::Will(client_id))) => {
                match refusal {
                    // It will: who has the client id next does not wait for that.
                    Refusal::Unavailable => self.forward_later(from, seq, fx),
                    Refusal::QuotaExceeded
                    | Refusal::NotAuthorized
                    | Refusal::TooLarge
                    | Refusal::Unspecified => {
                        self.end_forward(from, seq);
                        fx.dropped(Dropped::Rejected, 1);
                    }
                }
                self.forward_taken((from, seq), Some(Waiter::Will(client_id)), fx);
            }
            (Settled::Refused(_), None) if self.is_left_behind(from, seq) => {
                self.end_inherited(from, seq, fx);
                self.end_forward(from, seq);
                fx.dropped(Dropped::Quota, 1);
            }
            (Settled::Refused(_), None) => self.forward_later(from, seq, fx),
        }
        // Only what waited behind this one can go now.
        if self
            .lead
            .forwards
            .senders
            .get(&from)
            .is_some_and(Sender::has_ready)
        {
            self.send_forwards(fx);
        }
    }

    /// Whether a forward of an earlier leader was never answered to its client, since it may be refused, and nobody can ask for that
    /// answer any more: its session is gone.
    fn is_left_behind(&self, to: PartitionId, seq: Seq) -> bool {
        let outbox = self.state.outboxes.get(to);
        let forward = outbox.and_then(|outbox| outbox.get(seq));
        forward.is_some_and(|forward| {
            let session = forward.session;
            forward.refusable == Refusable::Yes
                && session.is_some_and(|uid| self.state.sessions.get(uid.0).is_none())
        })
    }

    pub(crate) fn end_forward(&mut self, to: PartitionId, seq: Seq) {
        if let Some(outbox) = self.state.outboxes.get(to) {
            let session = outbox.get(seq).and_then(|forward| forward.session);
            let sender = self.lead.forwards.senders.entry(to).or_default();
            sender.settled(outbox, seq, session);
        }
        let haste = Haste::Lazy(self.lead.now.tick);
        let fact = Rare::ForwardDone { to, seq };
        fact.write(&mut self.gather, haste, &mut self.lead.scratch);
    }

    fn forward_taken(
        &mut self,
        forward: (PartitionId, Seq),
        waiter: Option<Waiter>,
        fx: &mut impl PartitionEffects,
    ) {
        match waiter {
            None => {}
            Some(Waiter::Will(client_id)) => {
                if let Some(client) = self.lead.registry.clients.get_mut(&client_id) {
                    client.wills = client.wills.saturating_sub(1);
                }
                self.pass_on(&client_id, fx);
            }
            Some(Waiter::Hold(uid, packet_id)) => {
                let hold = (uid, packet_id);
                let Some((_, open)) = self.lead.forwards.holding.get_mut(&hold) else {
                    return;
                };
                open.retain(|it| *it != forward);
                if open.is_empty()
                    && let Some((holding, _)) = self.lead.forwards.holding.remove(&hold)
                {
                    self.answer_held(&holding, fx);
                }
            }
        }
    }

    /// A destination refused before PUBREC. One that cannot say so leaves hold and forwards: without them the client's repeat would be
    /// another message to the destinations that took this one, over and over (M28, I4).
    fn held_refused(
        &mut self,
        (to, seq): (PartitionId, Seq),
        (uid, packet_id): (SessionUid, u16),
        refusal: Refusal,
        fx: &mut impl PartitionEffects,
    ) {
        let goes_on = self.state.sessions.get(uid.0).is_some();
        if let Some((holding, _)) = self.lead.forwards.holding.get(&(uid, packet_id))
            && holding.pubrec == PubrecCan::OnlyAccept
            && goes_on
        {
            let refused = holding.received(Settled::Refused(refusal));
            fx.send_front(holding.front, refused);
            let waiter = Waiter::Hold(uid, packet_id);
            self.lead.forwards.answers.insert((to, seq), waiter);
            return self.forward_later(to, seq, fx);
        }
        self.end_forward(to, seq);
        fx.dropped(Dropped::Quota, 1);
        self.refuse_hold(uid, packet_id, refusal);
    }

    /// A refused forward stays, and is sent again.
    fn forward_later(&mut self, to: PartitionId, seq: Seq, fx: &mut impl PartitionEffects) {
        let retry_at = self.lead.now.tick.after_ms(RETRY_MS);
        let Some(outbox) = self.state.outboxes.get(to) else {
            return;
        };
        let sender = self.lead.forwards.senders.entry(to).or_default();
        if let Some(session) = sender.refused(outbox, seq, retry_at) {
            self.let_wills_be(to, session, fx);
        }
    }

    /// A session waits behind a refusal, which may go on for ever: who has its client id next does not wait for its wills there. They go
    /// when that is over.
    fn let_wills_be(
        &mut self,
        to: PartitionId,
        session: SessionUid,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(sender) = self.lead.forwards.senders.get(&to) else {
            return;
        };
        let answers = &self.lead.forwards.answers;
        let wills = sender
            .parked_of(session)
            .filter_map(|seq| match answers.get(&(to, seq)) {
                Some(Waiter::Will(_)) => Some((to, seq)),
                Some(Waiter::Hold(..)) | None => None,
            });
        for will in wills.collect::<Vec<_>>() {
            let waiter = self.lead.forwards.answers.remove(&will);
            self.forward_taken(will, waiter, fx);
        }
    }

    /// One entry ends a hold and what is still on its way.
    fn refuse_hold(&mut self, uid: SessionUid, packet_id: u16, refusal: Refusal) {
        let Some(mut holding) = self.drop_holding(uid, packet_id) else {
            return;
        };
        self.write_release(uid, packet_id);
        holding.result = Settled::Refused(refusal);
        holding.forwards = 0;
        holding.must_wait = false;
        self.lead.after(After::Held(holding));
    }

    /// A hold whose PUBREC waits does so no more, if there is one: what of its message is still on its way goes no further.
    fn drop_holding(&mut self, uid: SessionUid, packet_id: u16) -> Option<Holding> {
        let (holding, open) = self.lead.forwards.holding.remove(&(uid, packet_id))?;
        for (to, seq) in open {
            if self.lead.forwards.answers.remove(&(to, seq)).is_some() {
                self.end_forward(to, seq);
            }
        }
        Some(holding)
    }

    /// A will is in its outboxes: the client id's next connection waits for their answers (M25), but not for one that goes behind a refusal.
    pub(crate) fn will_forwarded(
        &mut self,
        client_id: &compact_str::CompactString,
        forwards: usize,
    ) {
        let forwards: Vec<_> = self.lead.forwards.pushed.drain(..forwards).collect();
        for (to, seq) in forwards {
            let is_stuck = self.is_behind_refusal(to, seq);
            let Some(client) = self.lead.registry.clients.get_mut(client_id) else {
                return;
            };
            if !is_stuck {
                client.wills += 1;
                let waiter = Waiter::Will(client_id.clone());
                self.lead.forwards.answers.insert((to, seq), waiter);
            }
        }
    }

    /// Whether the session of a forward waits for a destination that has refused an older one.
    fn is_behind_refusal(&self, to: PartitionId, seq: Seq) -> bool {
        let outbox = self.state.outboxes.get(to);
        let session = outbox.and_then(|outbox| outbox.get(seq)?.session);
        session.is_some_and(|session| self.lead.forwards.is_refused_at(to, session))
    }
}

impl Holding {
    /// What its front is told.
    const fn received(&self, result: Settled) -> ToFront {
        received(self.packet_id, result, true)
    }
}

/// What a front is told of a publish.
const fn received(packet_id: u16, result: Settled, matched: bool) -> ToFront {
    ToFront::Received {
        packet_id,
        result,
        matched,
    }
}

/// The planted bug: a forward under a position that no other one has.
fn once_more(mut append: ToPartition) -> ToPartition {
    if let ToPartition::Append {
        key: AppendKey::Outbox { seq, .. },
        ..
    } = &mut append
    {
        seq.0 += 1 << 20;
    }
    append
}
