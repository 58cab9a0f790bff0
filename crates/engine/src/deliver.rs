//! What the leader does as entries are applied: it delivers what was stored, and answers who waited.
//!
//! A message goes to its fronts in the call that applies it, to all of them at once, if nothing of their session waits before
//! it and their windows are open; what stays behind is pushed when outcomes come ([`Partition::pump`]). Messages of a session
//! are pushed in the order of its stream, each once an attachment.

use bytes::Bytes;
use courser_contract::{
    DeliverFlags, DeliverTo, Delivery, Dropped, Epoch, FrontId, LogIndex, OutcomeKind,
    PartitionEffects, PartitionId, RecordRef, RecordView, Seq, SessionUid, Source, ToFront,
};

use crate::{
    EntryError, Partition, PlantedPartition,
    entry::{Entry, Fate, Haste, Key, OutcomeFact, Rare, Target, Trust},
    ids::{self, Owner},
    lead::{Due, Lead, Role},
    look::{self, Looks},
    publish::answer,
    record::{Records, Slot},
    room::Reserved,
    session::{Live, PACKET_IDS, Session},
    state::{GroupLead, NoSink, RetainedChange, SharedGroup, Sink, State, Stored},
    stream::{Reference, Stream},
};

/// Packet id of a delivery of a session's own stream (M30).
pub(crate) const fn packet_id(seq: u64) -> u16 {
    1 + (seq % PACKET_IDS) as u16
}

/// What follows from what was pushed.
#[derive(Debug, Default)]
struct Pushed {
    /// Positions that have expired.
    expired: Vec<u64>,
    /// Records that were read back for it.
    recalled: Vec<Slot>,
}

/// The leader's ear, see [`Sink`].
struct Leader<'a, F> {
    lead: &'a mut Lead,
    fx: &'a mut F,
}

impl<F: PartitionEffects> Sink for Leader<'_, F> {
    fn stored(&mut self, session: &mut Session, stored: &Stored, target: &Target) {
        let reserved = &mut session.lead.reserved;
        let coming = &mut self.lead.streams.coming;
        coming.arrives(session.uid.0, reserved, stored.bytes);
        if let Some(at) = stored.expires_at {
            note_expiry(
                self.lead,
                &mut session.stream,
                session.uid.0,
                stored.seq,
                at,
            );
        }
        let Some(live) = &mut session.lead.live else {
            return;
        };
        let in_order = live.pushed == stored.seq;
        if !in_order || !live.has_room() {
            return;
        }
        if stored.seq >= session.sent_limit {
            // All before it may have ended without having been sent: then nothing else asks for a higher limit.
            self.lead.streams.pump.push(session.uid.0);
            return;
        }
        // It was dropped for newer ones before it was here: those wait until that is committed.
        let doomed = &self.lead.streams.doomed;
        if !doomed.is_empty() && doomed.contains(&(session.uid.0, stored.seq)) {
            return;
        }
        live.pushed += 1;
        live.under_way += 1;
        self.lead.targets.receivers.push(DeliverTo {
            front: live.front,
            source: Some((Source::Session, Seq(stored.seq))),
            packet_id: None,
            qos: stored.qos,
            flags: DeliverFlags {
                retain: stored.retain,
                duplicate: false,
                shared: false,
            },
            identifiers: target.identifiers.clone(),
        });
    }

    fn published(&mut self, record: RecordRef<'_>, view: RecordView<'_>, key: &Key) {
        if !self.lead.targets.receivers.is_empty() {
            let delivery = Delivery {
                view: &view,
                record: Some(record),
            };
            self.fx.deliver(delivery, &self.lead.targets.receivers);
            self.lead.targets.receivers.clear();
        }
        answer(key, courser_contract::Settled::Ok, self.fx);
    }

    fn settled(&mut self, session: &Session) {
        // Room in the window is used when the outcome comes in; what moves with the commit is the limit of M30, and how much
        // a scan of retained messages may ask for.
        if let Some(live) = &session.lead.live
            && live.has_room()
            && (live.pushed < session.stream.next() || self.lead.scans.has_any(session.uid))
        {
            self.lead.streams.pump.push(session.uid.0);
        }
    }

    fn settled_shared(&mut self, number: u64, lead: &GroupLead) {
        // What a member waits for may have ended.
        if !lead.owing.is_empty() && self.lead.streams.pump.last() != Some(&number) {
            self.lead.streams.pump.push(number);
        }
    }

    fn reference_ended(&mut self, reserved: &mut Reserved, stream: u64, seq: u64, bytes: u32) {
        // Its room was counted as free when that was decided. It may have ended otherwise meanwhile, by an acknowledgement that was
        // not committed yet: then the end that was decided finds nothing.
        let doomed = &mut self.lead.streams.doomed;
        if !doomed.is_empty() && doomed.remove(&(stream, seq)) {
            reserved.ended(bytes);
            // A group may have stopped at it: nobody else says that it goes on. Sessions hear of it by `settled`.
            if ids::owner(stream) == Owner::Group && self.lead.streams.pump.last() != Some(&stream)
            {
                self.lead.streams.pump.push(stream);
            }
        }
    }

    fn stored_shared(&mut self, number: u64, group: &mut SharedGroup, stored: &Stored) {
        let reserved = &mut group.lead.reserved;
        let coming = &mut self.lead.streams.coming;
        coming.arrives(number, reserved, stored.bytes);
        if let Some(at) = stored.expires_at {
            note_expiry(self.lead, &mut group.stream, number, stored.seq, at);
        }
        if self.lead.streams.pump.last() != Some(&number) {
            self.lead.streams.pump.push(number);
        }
    }

    fn forwarded(&mut self, to: PartitionId, seq: Seq) {
        self.lead.forwards.reserved -= 1;
        self.lead.forwards.pushed.push((to, seq));
    }

    fn forward_ended(&mut self, session: SessionUid, bytes: u32) {
        self.lead.forwards.ended(session, bytes.into());
    }

    fn retained(&mut self, change: &RetainedChange<'_>) {
        let projection = &mut self.lead.projection;
        if change.expired {
            return projection.changed_otherwise(change.topic, change.before, change.after);
        }
        projection.applied(change.topic, change.bytes, change.before, change.after);
        if let (Some(slot), Some(at), Some(address)) =
            (change.slot, change.expires_at, change.address)
        {
            self.lead.due.insert(at, Due::retained(slot, address));
        }
    }

    fn unkept(&mut self, slot: Slot, records: &Records) {
        if let Some(at) = records.expires_at(slot) {
            let due = Due::retained(slot, records.address(slot));
            self.lead.due.remove(at, due);
        }
    }

    fn received(&mut self, session: &Session, seq: u64) {
        if let Some(live) = &session.lead.live {
            release(live.front, seq, self.fx);
        }
    }

    fn applied(&mut self, fact: &Rare) {
        self.lead.applied_fact(fact);
    }

    fn ended(&mut self, session: &Session) {
        self.lead.issued.sessions.free(session.uid.0);
        self.lead.forget_session(session);
    }

    fn group_ended(&mut self, number: u64, fronts: usize) {
        self.lead.forget_stream(number);
        self.lead.sharing.fronts -= fronts;
    }
}

/// Makes the leader look at a chunk when its first message expires.
pub(crate) fn note_expiry(
    lead: &mut Lead,
    stream: &mut Stream,
    number: u64,
    seq: u64,
    at: courser_contract::WallMs,
) {
    if let Some((chunk, before)) = stream.note_expiry(seq, at.0) {
        let due = Due::Expiry {
            stream: number,
            chunk,
        };
        let before = before.map(courser_contract::WallMs);
        lead.due.change(due, before, Some(at));
    }
}

impl Partition {
    /// Applies an entry; the leader that wrote it answers and delivers.
    pub(crate) fn commit(
        &mut self,
        at: LogIndex,
        bytes: &Bytes,
        fx: &mut impl PartitionEffects,
    ) -> Result<(), EntryError> {
        let head = Entry::open(bytes, Trust::Own)?.head();
        let own = self.lead.role != Role::Follower && head.term == self.lead.term;
        if !own {
            self.state.apply(at, bytes, Trust::Foreign, &mut NoSink)?;
            self.lead.orphans.applied((head.term, head.number), fx);
            return Ok(());
        }
        let mut leader = Leader {
            lead: &mut self.lead,
            fx,
        };
        self.state.apply(at, bytes, Trust::Own, &mut leader)?;
        self.lead.applied = head.number;
        self.lead.streams.passed.clear();
        self.tell_index(fx);
        while let Some((number, _)) = self.lead.after.front()
            && *number <= head.number
        {
            let (_, after) = self.lead.after.pop_front().expect("it was just seen");
            self.run_after(after, fx);
        }
        self.send_forwards(fx);
        self.pump_noted(fx);
        Ok(())
    }

    /// Pushes of all streams that may have something to give out.
    fn pump_noted(&mut self, fx: &mut impl PartitionEffects) {
        while let Some(stream) = self.lead.streams.pump.pop() {
            self.pump_stream(stream, fx);
        }
    }

    /// Pushes what a stream has to give out.
    pub(crate) fn pump_stream(&mut self, stream: u64, fx: &mut impl PartitionEffects) {
        match ids::owner(stream) {
            Owner::Session => self.pump(stream, fx),
            Owner::Group => self.pump_group(stream, fx),
        }
    }

    /// Goes on with what one call was not enough for.
    pub(crate) fn pump_later(&mut self, fx: &mut impl PartitionEffects) {
        for group in std::mem::take(&mut self.lead.streams.later) {
            self.pump_group(group, fx);
        }
    }

    /// Outcomes of a front (M18): room in the window at once, the fact with the next entry.
    pub(crate) fn outcome(
        &mut self,
        uid: SessionUid,
        epoch: Epoch,
        (first, last): (u64, u64),
        kind: OutcomeKind,
        fx: &mut impl PartitionEffects,
    ) {
        let early = self.is_planted(PlantedPartition::EarlyRelease);
        let Some(session) = self.state.sessions.get_mut(uid.0) else {
            return;
        };
        if session.epoch != epoch || first > last {
            return;
        }
        let Some(live) = &mut session.lead.live else {
            return;
        };
        if last >= live.pushed {
            return;
        }
        let (fate, haste) = match kind {
            OutcomeKind::Done => (Fate::Done, Haste::Lazy(self.lead.now.tick)),
            OutcomeKind::Received => (Fate::Received, Haste::Now),
            OutcomeKind::Rejected => (Fate::Rejected, Haste::Lazy(self.lead.now.tick)),
            OutcomeKind::Skipped => (Fate::Skipped, Haste::Lazy(self.lead.now.tick)),
            OutcomeKind::Returned | OutcomeKind::TooLarge => return,
        };
        if early && fate == Fate::Received {
            for seq in first..=last {
                release(live.front, seq, fx);
            }
        }
        live.taken_at = self.lead.now.tick;
        let count = last - first + 1;
        if fate != Fate::Received {
            let count = u16::try_from(count).unwrap_or(u16::MAX);
            live.under_way = live.under_way.saturating_sub(count);
            if !self.lead.scans.is_empty() {
                self.lead.scans.note_taken(uid, u64::from(count));
            }
        }
        if fate == Fate::Rejected {
            fx.dropped(Dropped::Rejected, count);
        }
        let (pushed, window) = (live.pushed, live.window);
        let more = pushed < session.stream.next();
        let fact = OutcomeFact {
            stream: uid.0,
            first,
            last,
            fate,
            sent_limit: session.wanted_sent_limit(pushed, window),
        };
        let haste = if self.config.class == courser_contract::Class::Volatile {
            Haste::Now
        } else {
            haste
        };
        fact.write(&mut self.gather, haste);
        if more {
            self.pump(uid.0, fx);
        } else if self.has_taken_its_finds(uid, window) {
            self.scan_on(uid.0, fx);
        }
    }

    /// Pushes what waits in a session's stream as far as its window goes.
    pub(crate) fn pump(&mut self, stream: u64, fx: &mut impl PartitionEffects) {
        let mut pushed = Pushed::default();
        if let Some(limited_at) = self.push_waiting(stream, &mut pushed, fx) {
            self.raise_limit(stream, limited_at);
        }
        let Pushed { expired, recalled } = pushed;
        if !recalled.is_empty() {
            self.give_back(recalled);
        }
        if !expired.is_empty() {
            fx.dropped(Dropped::Expired, expired.len() as u64);
            for seq in expired {
                self.doom(stream, seq, Fate::Expired);
            }
        }
        if self.state.records.tombstones() > 0 {
            self.try_lost_again(stream);
        }
        if self.state.records.cold() > 0 {
            self.look_ahead(stream);
        }
        self.scan_on(stream, fx);
    }

    /// The same without what follows from it, which goes into `pushed`; a position that may not be sent yet comes back (M30).
    ///
    /// Nothing goes out behind a position that is to end without having been sent, until that is committed: it counts as sent, and would come after
    /// a restart that loses its end, behind what was newer (M20, M30).
    fn push_waiting(
        &mut self,
        number: u64,
        pushed: &mut Pushed,
        fx: &mut impl PartitionEffects,
    ) -> Option<u64> {
        let wall = self.wall();
        let skips = self.is_planted(PlantedPartition::Skipped);
        let delivers = self.is_planted(PlantedPartition::Delivered);
        let skips_cold = self.is_planted(PlantedPartition::ColdSkipped);
        let wrong_dup = self.is_planted(PlantedPartition::WrongDup);
        let doomed = &self.lead.streams.doomed;
        let State {
            sessions,
            records,
            looks,
            ..
        } = &mut self.state;
        let Session {
            stream,
            sent_limit,
            lead,
            ..
        } = &mut **sessions.get_mut(number)?;
        let live = lead.live.as_mut()?;
        let mut topic = "";
        let mut limited = None;
        let mut ending = None;
        while live.has_room() {
            let (seq, reference) = match next_to_push(stream, live, *sent_limit) {
                Next::Reference(seq, reference) => (seq, reference),
                Next::Limited(at) => {
                    limited = Some(at);
                    break;
                }
                Next::Nothing => break,
            };
            if !doomed.is_empty() && doomed.contains(&(number, seq)) {
                ending.get_or_insert(seq);
                continue;
            }
            // Of an exchange of QoS 2 that the client has the message of, only the rest is needed.
            if stream.is_received(seq) {
                if ending.is_some() {
                    break;
                }
                live.under_way += 1;
                release(live.front, seq, fx);
                continue;
            }
            let found = records.find(reference.slot);
            let Some((record, is_recalled)) =
                found.filter(|_| delivers || !records.is_tombstone(reference.slot))
            else {
                let is_skipped = match records.is_cold(reference.slot) {
                    true => skips_cold,
                    false => skips,
                };
                if is_skipped {
                    continue;
                }
                // Nothing behind it is delivered before it is there, or the loss is accepted.
                live.pushed = seq;
                break;
            };
            let view = record.view_like(topic);
            topic = view.topic;
            if seq >= live.sent_before && view.expires_at.is_some_and(|at| at <= wall) {
                pushed.expired.push(seq);
                ending.get_or_insert(seq);
                continue;
            }
            if ending.is_some() {
                break;
            }
            live.under_way += 1;
            let duplicate = (seq < live.sent_before) != (wrong_dup && seq % 20 == 7);
            let to = receiver(live.front, (seq, duplicate), reference.look, looks);
            let delivery = Delivery {
                view: &view,
                record: Some(record),
            };
            fx.deliver(delivery, std::slice::from_ref(&to));
            if is_recalled {
                pushed.recalled.push(reference.slot);
            }
        }
        if let Some(first) = ending {
            live.pushed = first;
        }
        limited
    }

    /// A delivery waits for the limit below which everything counts as sent, and no outcome may come that would move it.
    fn raise_limit(&mut self, stream: u64, seq: u64) {
        let Some(session) = self.state.sessions.get_mut(stream) else {
            return;
        };
        let Some(live) = session.lead.live else {
            return;
        };
        let sent_limit = session.wanted_sent_limit(seq, live.window);
        if sent_limit <= session.sent_limit.max(live.limit_asked) {
            return;
        }
        if let Some(live) = &mut session.lead.live {
            live.limit_asked = sent_limit;
        }
        let nothing = OutcomeFact {
            stream,
            first: 1,
            last: 0,
            fate: Fate::Done,
            sent_limit,
        };
        nothing.write(&mut self.gather, Haste::Now);
    }

    /// Runs a session's stream of QoS > 0 through the window from its floor on: a new connection.
    pub(crate) fn start_live(
        &mut self,
        uid: SessionUid,
        live: crate::session::Live,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(session) = self.state.sessions.get_mut(uid.0) else {
            return;
        };
        self.lead.targets.routed.forget();
        self.lead.streams.passed.remove(&uid.0);
        if session.lead.live.replace(live).is_none() {
            self.lead.registry.attached += 1;
        }
        self.begin_tries(uid.0);
        self.pump(uid.0, fx);
    }
}

/// What comes next in a stream for the connection of its session.
enum Next {
    Reference(u64, Reference),
    /// It, or the end of the stream, is at a position that may not be sent yet (M30).
    Limited(u64),
    Nothing,
}

/// Moves a connection on in its stream.
#[inline(always)]
fn next_to_push(stream: &Stream, live: &mut Live, sent_limit: u64) -> Next {
    let Some((seq, reference)) = stream.next_reference(live.pushed) else {
        // What waited behind the limit may have ended without having been sent: what comes now would wait for nobody.
        let end = stream.next();
        live.pushed = live.pushed.max(end.min(sent_limit));
        return match end > sent_limit {
            true => Next::Limited(end),
            false => Next::Nothing,
        };
    };
    if seq >= sent_limit {
        live.pushed = live.pushed.max(sent_limit);
        return Next::Limited(seq);
    }
    live.pushed = seq + 1;
    Next::Reference(seq, reference)
}

/// Who gets a message of a session's stream, and how it looks there.
#[inline(always)]
fn receiver(front: FrontId, (seq, duplicate): (u64, bool), look: u32, looks: &Looks) -> DeliverTo {
    DeliverTo {
        front,
        source: Some((Source::Session, Seq(seq))),
        packet_id: None,
        qos: look::qos(look),
        flags: DeliverFlags {
            retain: look::retain(look),
            duplicate,
            shared: false,
        },
        identifiers: looks.identifiers(look).cloned(),
    }
}

/// PUBREL may leave for a message of a session's stream (M32).
fn release(front: FrontId, seq: u64, fx: &mut impl PartitionEffects) {
    let message = ToFront::Release {
        source: Source::Session,
        seq: Seq(seq),
        packet_id: Some(packet_id(seq)),
    };
    fx.send_front(front, message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_ids_stay_below_those_of_groups_m30() {
        assert_eq!(packet_id(0), 1);
        assert_eq!(packet_id(PACKET_IDS - 1), 32_767);
        assert_eq!(packet_id(PACKET_IDS), 1);
    }
}
