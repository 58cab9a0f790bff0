//! QoS 2 publishes of durable sessions (M28): one entry stores the message, the hold, and its places on the way to others.

use courser_contract::{
    Dropped, Epoch, FrontId, PartitionEffects, PartitionId, PublishedQos2, PubrecCan, Refusal, Seq,
    SessionUid, Settled, ToFront,
};

use super::{
    Session,
    detach::{Awaited, Plan},
};
use crate::{
    DiskRoom, MemoryRoom, Pace, Partition, PlantedPartition, SessionRoom,
    entry::Rare,
    lead::{After, Holding, OpenForwards, Waiter},
    outbox::Refusable,
};

/// What a session may have in outboxes once some of it is refused and stays. Others are never held up for so long that they have as
/// much, or what they have is on its way.
const BACKLOG_MAX: u64 = 1_024;

/// Packet ids that a session may hold while there is no room for sessions: they take as much as it does.
const FEW_HOLDS: usize = 32;

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

    /// Whether the end of a hold is proposed.
    fn lets_go(&self, packet_id: u16) -> bool {
        self.lead.proposed_holds.get(&packet_id) == Some(&None)
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
        let plan = match publish.destinations.is_empty() {
            true => Err((Settled::Ok, false)),
            false => self.admit_qos2(uid, publish, fx).ok_or_else(|| {
                fx.dropped(Dropped::Quota, 1);
                (Settled::Refused(Refusal::QuotaExceeded), true)
            }),
        };
        match plan {
            Ok(plan) => {
                self.propose_hold(uid, publish);
                self.spread_held((uid, front), publish, &plan, fx);
            }
            Err((result, matched)) => {
                // Nothing takes the place of a stale hold. It goes: what comes next with its packet id is no repeat.
                if hold != Hold::None {
                    self.end_hold((uid, front), publish.packet_id);
                }
                fx.send_front(front, received(publish.packet_id, result, matched));
            }
        }
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
        let holds_max = limits.holds_max as usize;
        let holds_max = match self.session_room {
            SessionRoom::Enough => holds_max,
            SessionRoom::Clean | SessionRoom::Short | SessionRoom::None => holds_max.min(FEW_HOLDS),
        };
        let forwards = self.state.outboxes.len() + self.lead.forwards.reserved as usize;
        let view = publish.record.view();
        // It is written here, and once more at each destination.
        let bytes = view.encoded_len() * (1 + publish.destinations.len());
        let is_short = self.disk_room_for(bytes) == DiskRoom::Short;
        if is_short {
            self.disk_budget.note_refused();
        }
        let is_full = is_short
            || self.memory_room == MemoryRoom::Short
            || session.holds_at_least(holds_max)
            || forwards + publish.destinations.len() > limits.outbox_messages_max as usize
            || self.has_full_backlog(uid);
        // Before the plan, which admits a retained message: what is admitted must be proposed.
        if is_full {
            return None;
        }
        let destinations = (&publish.destinations[..], &publish.cuts[..]);
        let plan = self.plan_spread(&view, destinations, Awaited::ByClient(uid), fx);
        if plan.refused {
            return None;
        }
        self.disk_budget.take(bytes);
        Some(plan)
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

    pub(super) fn answer_held(&self, holding: &Holding, fx: &mut impl PartitionEffects) {
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
        if session.lets_go(packet_id) {
            // Its answer comes with the commit, as for who asked first.
            return;
        }
        if session.hold(packet_id) == Hold::None {
            let message = ToFront::Released {
                packet_id,
                existed: false,
            };
            return fx.send_front(front, message);
        }
        self.end_hold((uid, front), packet_id);
    }

    /// A hold goes, and its front hears of it after the commit. Before its PUBREC only where a publish with its packet id was refused
    /// or had nowhere to go; then nobody was told that it is stored.
    fn end_hold(&mut self, (uid, front): (SessionUid, FrontId), packet_id: u16) {
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
    pub(super) fn end_inherited(
        &mut self,
        to: PartitionId,
        seq: Seq,
        fx: &mut impl PartitionEffects,
    ) {
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

    /// A destination refused before PUBREC. One that cannot say so leaves hold and forwards: without them the client's repeat would be
    /// another message to the destinations that took this one, over and over (M28, I4).
    pub(super) fn held_refused(
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
