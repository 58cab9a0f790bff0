//! Deliveries of shared groups: whose packet ids are free, and which deliveries want one (M31).
//!
//! A delivery of QoS 2 gets its packet id before it is sent, so that the group can commit it: the group asks, the front names an id
//! and keeps a place in the window for it, the group delivers with that id. After a reconnect the groups deliver and release again
//! what they owe, each under its old id; until all have done so no other delivery of a group gets an id. An id is free again when
//! the group has committed that its exchange is over: a leader that has not heard of it would use it once more.
//!
//! An id that was named is void when the group has not committed it and never will: it says so with [`ToFront::Owed`] as a new leader,
//! and with [`ToFront::Void`] when the session has left it or the message is lost. What is lost and may have been sent on an earlier connection
//! keeps its id ([`ToFront::Withheld`]). What it has delivered with the id is committed, and stays, held or sent.

use std::collections::VecDeque;

use courser_contract::{
    DeliverTo, Delivery, Dropped, FrontEffects, GroupRef, Now, OutcomeKind, QoS, Record, Seq,
    Source, Tick, ToFront, ToHome,
};

use super::deliver::HOLD_ABOVE_BYTES;
use super::prepared::Prepared;
use super::window::{Exchange, Given, Place};
use super::{Front, Phase};

/// What a front knows of its groups.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// Names of the groups that have not said what they owe.
    missing: Vec<u64>,
    /// Deliveries that want a packet id, and since when.
    asked: VecDeque<(GroupRef, Seq, Tick)>,
    /// What came before the session was attached: groups hear of a connection as soon as it does.
    early: Vec<Early>,
}

#[derive(Debug)]
enum Early {
    Delivery(Record, DeliverTo),
    Message(ToFront),
}

impl Groups {
    /// Whether packet ids that nobody has named may be used.
    pub(super) const fn may_name(&self) -> bool {
        self.missing.is_empty()
    }

    /// Nothing in it is still needed.
    pub(super) fn is_idle(&self) -> bool {
        self.missing.is_empty() && self.asked.is_empty() && self.early.is_empty()
    }

    /// Since when the oldest delivery has waited for a packet id.
    pub(super) fn asked_since(&self) -> Option<Tick> {
        self.asked.front().map(|&(_, _, since)| since)
    }

    /// Takes the oldest delivery that waits for a packet id, if it has waited for as long as `due` says.
    pub(super) fn next_asked(&mut self, due: impl Fn(Tick) -> bool) -> Option<Place> {
        let (group, seq, _) = self.asked.pop_front_if(|(_, _, since)| due(*since))?;
        Some((Source::Group(group), seq))
    }

    /// A delivery does not wait for a packet id any more.
    pub(super) fn forget_asked(&mut self, (group, seq): (GroupRef, Seq)) {
        self.asked.retain(|&(of, at, _)| (of, at) != (group, seq));
    }

    fn hear(&mut self, name: u64) {
        // A session that left one part of a group and is in another waits for both (M36).
        if let Some(at) = self.missing.iter().position(|missing| *missing == name) {
            self.missing.swap_remove(at);
        }
    }
}

impl Front {
    /// The session is attached; these groups may owe it something.
    pub(super) fn expect_groups(&mut self, now: Now, groups: Vec<u64>, fx: &mut impl FrontEffects) {
        if groups.is_empty() && self.outbound.is_none() {
            return;
        }
        let known = &mut self.outbound_mut().groups;
        known.missing = groups;
        for early in std::mem::take(&mut known.early) {
            match early {
                Early::Message(message) => self.handle_message(now, message, fx),
                Early::Delivery(record, to) => {
                    let delivery = Delivery {
                        view: &record.view(),
                        record: Some(record.as_ref()),
                    };
                    let config = self.config.clone();
                    let mut scratch = config.prepared.take();
                    let mut prepared = Prepared::new(&delivery, now, &mut scratch);
                    self.deliver(now, &mut prepared, &to, fx);
                    config.prepared.replace(scratch);
                }
            }
        }
    }

    /// A delivery for a session that is not attached here: one of a group may be ahead of the word of the session's home.
    #[cold]
    pub(super) fn deliver_early(
        &mut self,
        prepared: &Prepared<'_>,
        to: &DeliverTo,
        fx: &mut impl FrontEffects,
    ) {
        match (&self.phase, to.source) {
            (Phase::Connecting(_), Some(_)) => {
                let record = match &prepared.delivery.record {
                    Some(record) => record.to_record(),
                    None => Record::copy_of(prepared.delivery.view),
                };
                let early = Early::Delivery(record, to.clone());
                self.outbound_mut().groups.early.push(early);
            }
            (Phase::Connecting(_), None) => fx.dropped(Dropped::Offline, 1),
            (Phase::AwaitConnect | Phase::Attached | Phase::Closed, _) => {}
        }
    }

    /// The same for a message.
    pub(super) fn message_early(&mut self, message: ToFront) {
        let early = Early::Message(message);
        self.outbound_mut().groups.early.push(early);
    }

    /// A group wants a packet id.
    pub(super) fn handle_name(
        &mut self,
        now: Now,
        (group, seq): (GroupRef, Seq),
        fx: &mut impl FrontEffects,
    ) {
        let asked = &mut self.outbound_mut().groups.asked;
        asked.push_back((group, seq, now.tick));
        self.name_asked(fx);
        let outbound = self.outbound_mut();
        if !outbound.groups.asked.is_empty() {
            outbound.limited.note_full();
        }
    }

    /// A group has said all that it owes; what it asked before as another leader is void.
    pub(super) fn handle_owed(
        &mut self,
        now: Now,
        (group, name): (GroupRef, u64),
        fx: &mut impl FrontEffects,
    ) {
        if let Some(outbound) = &mut self.outbound {
            outbound.groups.hear(name);
            let asked = &mut outbound.groups.asked;
            asked.retain(|(asked, _, _)| *asked != group);
            outbound.window.settle_with(group);
            self.send_held(now, fx);
        }
    }

    /// What the client may have of a group from an earlier connection is lost: its packet id is not free before it is released.
    pub(super) fn handle_withheld(
        &mut self,
        (group, seq): (GroupRef, Seq),
        packet_id: u16,
        fx: &mut impl FrontEffects,
    ) {
        let place = (Source::Group(group), seq);
        let outbound = self.outbound_mut();
        let kind = match outbound.window.give(group, seq, packet_id) {
            Given::Named | Given::Taken => {
                outbound.groups.forget_asked((group, seq));
                return outbound.window.set(packet_id, Exchange::Withheld);
            }
            Given::UnderWay => return,
            Given::Received => OutcomeKind::Received,
            Given::Finished => OutcomeKind::Done,
            Given::InUse => {
                self.give_back(place, QoS::ExactlyOnce, fx);
                return self.flush_outcomes(fx);
            }
        };
        self.outcome(place, kind, fx);
        self.flush_outcomes(fx);
    }

    /// A group will not deliver what it has asked packet ids for: all of it, which the session has left, or one delivery.
    pub(super) fn handle_void(
        &mut self,
        now: Now,
        (group, seq): (GroupRef, Option<Seq>),
        fx: &mut impl FrontEffects,
    ) {
        let Some(outbound) = &mut self.outbound else {
            return;
        };
        match seq {
            Some(seq) => {
                outbound.groups.forget_asked((group, seq));
                outbound.window.unname((Source::Group(group), seq));
            }
            None => {
                let asked = &mut outbound.groups.asked;
                asked.retain(|(asked, _, _)| *asked != group);
                outbound.window.settle_with(group);
            }
        }
        self.send_held(now, fx);
    }

    /// A group that the session has left owes it nothing.
    pub(super) fn handle_nothing_owed(&mut self, now: Now, name: u64, fx: &mut impl FrontEffects) {
        if let Some(outbound) = &mut self.outbound {
            outbound.groups.hear(name);
            self.send_held(now, fx);
        }
    }

    /// A group has committed the end of a delivery of QoS 2.
    pub(super) fn handle_finished(
        &mut self,
        now: Now,
        (group, seq): (GroupRef, Seq),
        fx: &mut impl FrontEffects,
    ) {
        let Some(outbound) = &mut self.outbound else {
            return;
        };
        let could_name = outbound.window.has_free_group_id();
        outbound.window.finished(group, seq);
        if !could_name {
            self.send_held(now, fx);
        }
    }

    /// Names packet ids that are free, as far as the window has room, for a client that reads.
    pub(super) fn name_asked(&mut self, fx: &mut impl FrontEffects) {
        while self.output.len() < HOLD_ABOVE_BYTES
            && let Some(outbound) = &mut self.outbound
            && outbound.groups.may_name()
            && outbound.window.has_room_for_group()
            && let Some((group, seq, _)) = outbound.groups.asked.pop_front()
        {
            let place = (Source::Group(group), seq);
            let Some(packet_id) = outbound.begin(place, Exchange::Named) else {
                continue;
            };
            let named = ToHome::Named {
                group: group.group,
                member: self.session.home,
                front: self.id,
                seq,
                packet_id,
            };
            fx.send_home(group.partition, named);
        }
    }
}
