//! What is due (M20): proposed by the leader, in bounded steps.

use courser_contract::{Dropped, PartitionEffects, SessionUid, WallMs};

use crate::{
    Partition, PlantedPartition,
    entry::{Fate, Rare},
    ids::{self, Owner},
    lead::Due,
    record::{Address, Slot},
    session::{Going, WillGoes},
    stream::Stream,
};

/// Things that are done in one call.
const DUE_MAX: usize = 256;
/// When something is asked again that could not be decided.
pub(crate) const ASK_AGAIN_MS: u64 = 1_000;
/// Once sessions with so many subscriptions have ended in one call, further ones end in the next: an entry is applied as a whole.
pub(crate) const FILTERS_ENDED_MAX: usize = 1_000;
/// Once so many messages have ended in one call because they have expired, those of further chunks end in the next: a backlog may expire all at once.
const EXPIRED_MAX: usize = 4_096;
/// A chunk is looked at for expired messages at most once between two full multiples of this. What is only in the log expires at one of them: it is
/// not later by the looks besides.
const EXPIRY_STEP_MS: u64 = 1_000;

impl Due {
    /// A retained message may have expired.
    pub(crate) const fn retained(slot: Slot, address: Address) -> Self {
        Self::Retained {
            slot: slot.0,
            index: address.index,
            ordinal: address.ordinal,
        }
    }
}

impl Partition {
    /// Does what is due.
    pub(crate) fn run_due(&mut self, fx: &mut impl PartitionEffects) {
        let wall = self.wall();
        let mut due = Vec::new();
        self.lead.due.pop_due(wall, DUE_MAX, &mut due);
        let (mut ended, mut expired) = (0, 0);
        for (at, due) in due {
            match due {
                Due::SessionEnd(_) if ended >= FILTERS_ENDED_MAX => {
                    self.lead.due.insert(wall, due);
                }
                Due::Expiry { .. } if expired >= EXPIRED_MAX => {
                    self.lead.due.insert(at, due);
                }
                Due::Expiry { stream, chunk } => {
                    expired += self.expire_chunk(stream, chunk, wall, fx);
                }
                Due::Retained {
                    slot,
                    index,
                    ordinal,
                } => self.expire_retained(Slot(slot), Address { index, ordinal }),
                Due::SessionEnd(number) => ended += self.expire_session(SessionUid(number), fx),
                Due::Will(number) => self.will_is_due(SessionUid(number), fx),
                Due::Aging => self.look_at_ages(wall, fx),
            }
        }
    }

    /// A session's time is over (v5 [MQTT-3.1.2-23]). While a connection is on its way it may be taken up instead: asked again. How many
    /// subscriptions end with it.
    fn expire_session(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) -> usize {
        let wall = self.wall();
        let Some(session) = self.state.sessions.get(uid.0) else {
            return 0;
        };
        let detaches = session.is_detaching();
        if session.lead.going == Going::Ended || !(detaches || self.has_expired(uid, wall)) {
            return 0;
        }
        let filters = session.subscriptions.len();
        let taken = self.lead.registry.is_taken(&session.client_id);
        if detaches || taken || !self.can_will_go(uid, fx) {
            self.ask_again(Due::SessionEnd(uid.0), wall);
            return 0;
        }
        self.lead.registry.expired += 1;
        self.send_will(uid, WillGoes::WithSession, fx);
        filters
    }

    /// The delay of a will is over (v5 [MQTT-3.1.3-9]).
    fn will_is_due(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        let wall = self.wall();
        let Some(session) = self.state.sessions.get(uid.0) else {
            return;
        };
        let detaches = session.is_detaching();
        if !(detaches || self.is_will_due(uid, wall)) {
            return;
        }
        let taken = self.lead.registry.is_taken(&session.client_id);
        let waits = detaches || taken || !self.can_will_go(uid, fx);
        if waits || !self.has_room_for_will(uid, fx) {
            self.ask_again(Due::Will(uid.0), wall);
        } else {
            self.send_will(uid, WillGoes::Alone, fx);
        }
    }

    /// Whether the time of a session was over at a moment (v5 [MQTT-3.1.2-23]).
    pub(crate) fn has_expired(&self, uid: SessionUid, at: WallMs) -> bool {
        let session = self.state.sessions.get(uid.0);
        let ends_at = session.and_then(|session| session.ends_at);
        ends_at.is_some_and(|end| end <= at)
    }

    /// Whether a will waits whose delay was over at a moment.
    pub(crate) fn is_will_due(&self, uid: SessionUid, at: WallMs) -> bool {
        let session = self.state.sessions.get(uid.0);
        let due = session.and_then(|session| session.will_due());
        due.is_some_and(|due| due <= at)
    }

    fn ask_again(&mut self, due: Due, wall: WallMs) {
        self.lead.due.insert(WallMs(wall.0 + ASK_AGAIN_MS), due);
    }

    /// Ends what has expired in a chunk of a stream and was never sent (M30, v5 [MQTT-3.3.2-5]), up to a second after its time. What is only in the log
    /// is not read for it: it is known when it expires. What is about to end was counted when that was proposed. How many have ended.
    fn expire_chunk(
        &mut self,
        stream: u64,
        chunk: u64,
        wall: WallMs,
        fx: &mut impl PartitionEffects,
    ) -> usize {
        let Some(references) = self.stream_mut(stream).and_then(|s| s.look_at_chunk(chunk)) else {
            return 0;
        };
        let mut expired = Vec::new();
        let mut next: Option<(u64, WallMs)> = None;
        let doomed = &self.lead.streams.doomed;
        for (seq, reference) in references {
            if !doomed.is_empty() && doomed.contains(&(stream, seq)) {
                continue;
            }
            let Some(at) = self.known_expiry(reference.slot) else {
                continue;
            };
            if at <= wall && self.is_owed_for_good(stream, seq) {
                continue;
            }
            if at <= wall && !self.is_begun(stream, seq) {
                expired.push(seq);
            } else if next.is_none_or(|(_, first)| at < first) {
                next = Some((seq, at));
            }
        }
        if let Some((seq, at)) = next {
            let step = wall.0 / EXPIRY_STEP_MS + 1;
            let at = at.max(WallMs(step * EXPIRY_STEP_MS));
            self.note_expiry(stream, seq, at);
        }
        let count = expired.len();
        Self::count_dropped(Dropped::Expired, count as u64, fx);
        for seq in expired {
            self.doom(stream, seq, Fate::Expired);
        }
        count
    }

    /// Whether a message of a session ends by its client alone: nobody looks at it again, which would be once a second for as long as the client
    /// is away. Before a connection's end is committed more counts as sent than was.
    fn is_owed_for_good(&self, stream: u64, seq: u64) -> bool {
        match ids::owner(stream) {
            Owner::Session => self.state.sessions.get(stream).is_some_and(|session| {
                session.is_owed(seq) && (session.lead.live.is_some() || !session.attached)
            }),
            Owner::Group => false,
        }
    }

    /// When a record expires, as far as a timer knows.
    fn known_expiry(&self, slot: Slot) -> Option<WallMs> {
        let records = &self.state.records;
        let at = records.expires_at(slot)?;
        let is_early = self.is_planted(PlantedPartition::ColdExpiredEarly) && records.is_cold(slot);
        Some(WallMs(at.0 - if is_early { 1_000 } else { 0 }))
    }

    fn stream_mut(&mut self, number: u64) -> Option<&mut Stream> {
        match ids::owner(number) {
            Owner::Session => self.state.sessions.get_mut(number).map(|s| &mut s.stream),
            Owner::Group => self.state.groups.get_mut(number).map(|g| &mut g.stream),
        }
    }

    fn note_expiry(&mut self, number: u64, seq: u64, at: WallMs) {
        let chunk = self
            .stream_mut(number)
            .and_then(|stream| stream.note_expiry(seq, at.0));
        if let Some((chunk, before)) = chunk {
            let due = Due::Expiry {
                stream: number,
                chunk,
            };
            self.lead.due.change(due, before.map(WallMs), Some(at));
        }
    }

    pub(crate) fn expire_retained(&mut self, slot: Slot, address: Address) {
        let records = &self.state.records;
        if !records.is_live(slot) || records.address(slot) != address {
            return;
        }
        let topic: Box<str> = records.view(slot).topic.into();
        self.write(&Rare::RetainedExpired {
            topic,
            index: courser_contract::LogIndex(address.index),
            ordinal: address.ordinal,
        });
    }
}
