//! What a partition has read back from its log: which records its streams need next, and for how many there is room.
//!
//! A stream that comes to a cold record stops there, as at a lost one, so order needs no further rule. It is then asked for
//! what the stream needs next, and again before that is used up. Residency is not led: it is the same for a follower, and what was asked
//! for outlives a change of leader.

mod groups;

use std::mem;

use courser_contract::{Now, PartitionEffects, Question, Recalled, StreamWants, Tick};
use hashbrown::{HashMap, HashSet};

use crate::{
    Partition,
    ids::{self, Owner},
    record::{Records, Slot, TakenIn},
    session::Session,
    state::State,
};

type Hasher = foldhash::fast::RandomState;

/// Messages that are asked for ahead of a stream's window: two chunks at most.
const AHEAD_MAX: u64 = 512;
/// The same at least.
const AHEAD_MIN: u64 = 16;
/// Messages of a stream that are looked at for lost ones, to be tried again at once.
const TRIED_MAX: usize = 512;
/// So many bytes that may be read back are worth a want, which takes some 50 bytes here and at the reader.
const BYTES_A_WANT: u64 = 64;
/// A question has so many wants, and those of one more stream: some 100 µs. The next turn asks on.
const WANTS_A_QUESTION: usize = 1_024;
/// What was read back and is not taken goes again after so long, if others wait for the room.
const UNTAKEN_MS: u64 = 100;
/// So many streams at least are known by what was asked for them.
const TIDY_MIN: usize = 64;

/// What is asked of the log.
#[derive(Debug, Default)]
pub(crate) struct Recalls {
    /// Streams that need more, in the order in which they came to that.
    thirsty: Vec<u64>,
    is_thirsty: HashSet<u64, Hasher>,
    /// Up to which position cold records of a stream were asked for, unless they have left memory again.
    asked_to: HashMap<u64, u64, Hasher>,
    /// Connections that began while something was lost, by stream, with [`Records::lost_ever`] then.
    lost_before: HashMap<u64, u64, Hasher>,
    /// When there are more of either, those of streams that have ended are forgotten.
    tidy_at: usize,
    /// Records that were handed over while an answer is taken in: others may take them as well before they go.
    taken: Option<Vec<Slot>>,
    /// Room that was given and not used; below 0 by as much as the last record was longer than it.
    granted: i64,
    /// Since when records are not read because all room is taken.
    full_since: Option<Tick>,
}

impl Recalls {
    /// When [`Partition::recall_timeout`] is wanted.
    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        Some(self.full_since?.after_ms(UNTAKEN_MS))
    }

    /// Streams of which something is known.
    fn known(&self) -> usize {
        self.asked_to.len().max(self.lost_before.len())
    }

    fn add_thirsty(&mut self, stream: u64) {
        if self.is_thirsty.insert(stream) {
            self.thirsty.push(stream);
        }
    }
}

/// Bytes that may be in memory because they were read back. One record can always be.
fn room_max(records: &Records) -> u64 {
    (records.hot_max() as u64 / 2).max(1)
}

impl Partition {
    /// A stream has been pushed as far as it goes: if it is at a cold record, or near the end of what was asked for, it needs more.
    #[cold]
    pub(crate) fn look_ahead(&mut self, number: u64) {
        let Some(session) = self.state.sessions.get(number) else {
            return;
        };
        let Some(live) = &session.lead.live else {
            return;
        };
        let records = &self.state.records;
        let next = session.stream.next_reference(live.pushed);
        let Some((seq, reference)) = next.filter(|(seq, _)| *seq < session.sent_limit) else {
            return;
        };
        let known = self.recalls.asked_to.get(&number);
        let mut asked_to = known.copied().unwrap_or_default();
        if records.is_cold(reference.slot) {
            if records.is_unasked(reference.slot) {
                // What was read back may have gone again: it is asked for from here on.
                asked_to = seq;
            }
        } else if asked_to <= seq {
            return;
        }
        let ahead = self.ahead_of(live.window);
        let waits = live.has_room() && records.is_cold(reference.slot);
        if asked_to < session.stream.next() && asked_to < seq + ahead / 2 {
            self.recalls.add_thirsty(number);
        }
        if waits {
            self.state.records.wait(reference.slot, number);
        }
        self.recalls.asked_to.insert(number, asked_to);
        self.tidy_recalls();
    }

    /// Below it records of a stream are on their way out of the log for its connection; 0: none are.
    pub(crate) fn asked_to(&self, number: u64) -> u64 {
        if self.state.records.cold() == 0 {
            return 0;
        }
        let asked_to = self.recalls.asked_to.get(&number);
        let asked_to = asked_to.filter(|_| self.state.is_taken_from(number));
        asked_to.copied().unwrap_or_default()
    }

    /// Forgets what was asked for streams that nobody takes from any more, if there is so much that it is worth it.
    fn tidy_recalls(&mut self) {
        let (state, recalls) = (&self.state, &mut self.recalls);
        if recalls.known() <= recalls.tidy_at {
            return;
        }
        let is_taken_from = |number: &u64| state.is_taken_from(*number);
        recalls.asked_to.retain(|number, _| is_taken_from(number));
        let lost_before = &mut recalls.lost_before;
        lost_before.retain(|number, _| is_taken_from(number));
        recalls.tidy_at = 2 * recalls.known() + TIDY_MIN;
    }

    /// Whether [`take_question`](Self::take_question) has one.
    #[inline]
    #[must_use]
    pub fn has_question(&self) -> bool {
        let records = &self.state.records;
        !self.recalls.thirsty.is_empty() || (records.asked() > 0 && self.has_room())
    }

    /// How far ahead of a stream with this window records are asked for: connections share what may be asked for, so that they go
    /// through the log together.
    fn ahead_of(&self, window: u16) -> u64 {
        self.share_of(1)
            .clamp(AHEAD_MIN, AHEAD_MAX)
            .min(2 * u64::from(window).max(AHEAD_MIN))
    }

    /// What so many of all connections may ask for.
    fn share_of(&self, connections: usize) -> u64 {
        let wants_max = room_max(&self.state.records) / BYTES_A_WANT;
        let all = self.lead.registry.attached + self.lead.sharing.fronts as u64;
        wants_max.saturating_mul(connections as u64) / all.max(1)
    }

    /// Room that is free and was not given.
    fn new_room(&self) -> u64 {
        let records = &self.state.records;
        let free = room_max(records).saturating_sub(records.recalled_bytes() as u64);
        let free = i64::try_from(free).unwrap_or(i64::MAX);
        u64::try_from(free.saturating_sub(self.recalls.granted)).unwrap_or(0)
    }

    /// Whether so much room is free that it is worth a question.
    fn has_room(&self) -> bool {
        self.new_room() >= room_max(&self.state.records).div_ceil(4)
    }

    /// What is asked of the log now, to be answered by [`handle_recalled`](Self::handle_recalled) at any time.
    pub fn take_question(&mut self, now: Now) -> Option<Question> {
        if !self.has_question() {
            return None;
        }
        self.lead.now = now;
        let mut streams = Vec::new();
        let mut thirsty = mem::take(&mut self.recalls.thirsty);
        let (mut asked, mut wanted) = (0, 0);
        for &number in &thirsty {
            if wanted >= WANTS_A_QUESTION {
                break;
            }
            asked += 1;
            self.recalls.is_thirsty.remove(&number);
            let wants = match ids::owner(number) {
                Owner::Session => self.ask_for(number),
                Owner::Group => self.ask_for_group(number),
            };
            wanted += wants.wants.len();
            if !wants.wants.is_empty() {
                streams.push(wants);
            }
        }
        thirsty.drain(..asked);
        thirsty.append(&mut self.recalls.thirsty);
        self.recalls.thirsty = thirsty;
        let room = self.new_room();
        self.recalls.granted = self.recalls.granted.saturating_add_unsigned(room);
        self.note_full();
        (room > 0 || !streams.is_empty()).then_some(Question {
            partition: self.config.id,
            streams,
            room,
        })
    }

    /// Asks for what a stream needs next.
    fn ask_for(&mut self, number: u64) -> StreamWants {
        let mut asked = StreamWants {
            stream: number,
            wants: Vec::new(),
        };
        let session = self.state.sessions.get(number);
        let live = session.and_then(|session| session.lead.live.as_ref());
        let Some(ahead) = live.map(|live| self.ahead_of(live.window)) else {
            return asked;
        };
        let State {
            sessions, records, ..
        } = &mut self.state;
        let Some(Session { stream, lead, .. }) = sessions.get(number).map(|it| &**it) else {
            return asked;
        };
        let (Some(live), Some(asked_to)) = (&lead.live, self.recalls.asked_to.get_mut(&number))
        else {
            return asked;
        };
        let doomed = &self.lead.streams.doomed;
        let end = live.pushed + ahead;
        while *asked_to < end
            && let Some((seq, reference)) = stream.next_reference(*asked_to)
        {
            let is_doomed = doomed.contains(&(number, seq));
            if records.is_unasked(reference.slot) && !stream.is_received(seq) && !is_doomed {
                asked.wants.push(records.ask(reference.slot));
            }
            *asked_to = seq + 1;
        }
        asked
    }

    /// Notes since when those who wait have no room.
    fn note_full(&mut self) {
        let is_full =
            self.recalls.granted <= 0 && self.state.records.asked() > 0 && !self.has_room();
        self.recalls.full_since = match self.recalls.full_since {
            _ if !is_full => None,
            Some(since) => Some(since),
            None => Some(self.lead.now.tick),
        };
    }

    /// Records have come out of the log: whoever waits for them goes on. Returns how many of those that are needed are lost: their
    /// streams stop there, see [`lost`](Self::lost).
    pub fn handle_recalled(
        &mut self,
        now: Now,
        recalled: &Recalled,
        fx: &mut impl PartitionEffects,
    ) -> usize {
        self.lead.now = now;
        self.recalls.granted = self
            .recalls
            .granted
            .saturating_sub_unsigned(recalled.room());
        let TakenIn { lost, streams } = self.state.records.take_in(recalled);
        if self.lead.decides() {
            self.recalls.taken = Some(Vec::new());
            for number in streams {
                self.pump_stream(number, fx);
            }
            let taken = self.recalls.taken.take();
            self.give_back(taken.unwrap_or_default());
        }
        self.note_full();
        lost
    }

    /// Whether what was read back takes more than half of its room.
    pub(crate) fn is_room_scarce(&self) -> bool {
        let records = &self.state.records;
        records.recalled_bytes() as u64 > room_max(records) / 2
    }

    /// A record that was read back has been handed over: its room is for the next one.
    pub(crate) fn give_back_one(&mut self, slot: Slot) {
        match &mut self.recalls.taken {
            Some(taken) => taken.push(slot),
            None => self.state.records.give_back(slot),
        }
    }

    /// Records that were read back have been handed over: their room is for the next ones.
    pub(crate) fn give_back(&mut self, slots: Vec<Slot>) {
        if let Some(taken) = &mut self.recalls.taken {
            return taken.extend(slots);
        }
        for slot in slots {
            self.state.records.give_back(slot);
        }
    }

    /// A connection begins: what is lost now may be read again for it.
    pub(crate) fn begin_tries(&mut self, number: u64) {
        let records = &self.state.records;
        if records.tombstones() == 0 {
            return self.recalls.lost_before.clear();
        }
        let lost_ever = records.lost_ever();
        self.recalls.lost_before.insert(number, lost_ever);
        self.tidy_recalls();
    }

    /// A stream has been pushed as far as it goes. If it stops at a record that could not be read back for an earlier connection, this one
    /// tries that and those of some more behind it again, once: what is lost since it began is lost for it, unless another one tries it.
    #[cold]
    pub(crate) fn try_lost_again(&mut self, number: u64) {
        let State {
            sessions, records, ..
        } = &mut self.state;
        let Some(session) = sessions.get(number) else {
            return;
        };
        let Some(live) = &session.lead.live else {
            return;
        };
        let stream = &session.stream;
        let lost_before = self.recalls.lost_before.get(&number).copied();
        let is_tried = |records: &Records, slot| {
            let lost_at = records.unread(slot);
            lost_at.is_some_and(|lost_at| lost_before.is_some_and(|before| lost_at <= before))
        };
        let next = stream.next_reference(live.pushed);
        let Some((_, next)) = next.filter(|(_, it)| records.unread(it.slot).is_some()) else {
            return;
        };
        if !is_tried(records, next.slot) {
            return records.wait(next.slot, number);
        }
        let ahead = stream.iter_from(live.pushed).take(TRIED_MAX);
        let slots = ahead.map(|(_, reference)| reference.slot);
        let tried: Vec<Slot> = slots.filter(|slot| is_tried(records, *slot)).collect();
        self.try_again(&tried, number);
    }

    /// A stream tries records again that could not be read back. Others that have stopped at them ask for them now, each for itself: the one
    /// that tries asks when it comes to them, and may end before.
    fn try_again(&mut self, slots: &[Slot], by: u64) {
        for &slot in slots {
            if self.state.records.unread(slot).is_none() {
                continue;
            }
            self.state.records.try_again(slot);
            let stopped = self.state.records.who_waits(slot).iter();
            let others: Vec<u64> = stopped.copied().filter(|it| *it != by).collect();
            for number in others {
                match ids::owner(number) {
                    Owner::Session => self.look_ahead(number),
                    Owner::Group => {
                        self.look_ahead_of_group(number);
                        // It may have something to give out that lies behind.
                        let later = &mut self.lead.streams.later;
                        if !later.contains(&number) {
                            later.push(number);
                        }
                    }
                }
            }
        }
    }

    /// What was read back and is not taken makes room for others.
    pub(crate) fn recall_timeout(&mut self) {
        let is_due = self.recalls.poll_timeout();
        if is_due.is_none_or(|at| at > self.lead.now.tick) {
            return;
        }
        let room = room_max(&self.state.records);
        let room = usize::try_from(room / 2).unwrap_or(usize::MAX);
        if self.state.records.cool_recalled(room) {
            self.recalls.full_since = None;
        }
    }
}

impl Partition {
    /// Asserts that whoever waits for a record is known to.
    pub(crate) fn check_recalls(&self) {
        self.check_recalls_of_groups();
        for (number, session) in self.state.sessions.iter() {
            let Some(live) = &session.lead.live else {
                continue;
            };
            let next = session.stream.next_reference(live.pushed);
            let Some((seq, reference)) = next.filter(|(seq, _)| *seq < session.sent_limit) else {
                continue;
            };
            // What is to end goes as soon as that is committed, and the stream is looked at then.
            let is_doomed = self.lead.streams.doomed.contains(&(number, seq));
            if live.has_room() && !is_doomed && self.state.records.is_cold(reference.slot) {
                assert!(
                    self.state.records.is_waited_for(reference.slot, number),
                    "who waits for a record is told when it comes"
                );
                assert!(
                    !self.state.records.is_unasked(reference.slot)
                        || self.recalls.is_thirsty.contains(&number),
                    "what a stream waits for is asked for: {seq}"
                );
            }
        }
    }
}
