//! How long publishes take: from the turn that read them to the end of the turn that gave their acknowledgement or their delivery to the
//! socket.
//!
//! Nothing is done for each message: what a turn hands out is counted anyway, and the difference is put down to the moment at which
//! that was received which the shard is handling. Moments are beginnings of turns. Messages that waited in a session or a group are
//! left out: what they tell is when their client came for them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use courser_contract::FrontId;

/// A moment, in microseconds since the process began, modulo 2^32: spans up to an hour come out right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) u32);

impl Moment {
    /// From here to there.
    pub(crate) fn until(self, later: Self) -> u64 {
        u64::from(later.0.wrapping_sub(self.0))
    }

    /// Whether it is the earlier of two that are near each other.
    fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// The earlier one.
    pub(crate) fn earlier(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }
}

/// Upper bounds of the buckets, in microseconds.
pub const BOUNDS_US: [u64; 18] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 60_000_000,
];

/// Durations by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Those up to each of [`BOUNDS_US`] and above the one before; longer ones last.
    counts: [u64; BOUNDS_US.len() + 1],
    /// All of them together.
    sum_us: u64,
}

impl Histogram {
    fn record(&mut self, us: u64, times: u64) {
        self.counts[bucket_of(us)] += times;
        self.sum_us += us * times;
    }

    /// How many durations are up to each bound and above the one before; the last ones are above all bounds.
    #[must_use]
    pub const fn counts(&self) -> &[u64; BOUNDS_US.len() + 1] {
        &self.counts
    }

    /// All durations together, in microseconds.
    #[must_use]
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }

    /// Adds another shard's.
    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            *mine += theirs;
        }
        self.sum_us += other.sum_us;
    }
}

/// Durations that one thread notes and anybody reads.
#[derive(Debug, Default)]
pub(crate) struct SharedHistogram {
    counts: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

impl SharedHistogram {
    /// Notes one.
    pub(crate) fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket_of(us)].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// What was noted so far.
    pub(crate) fn get(&self) -> Histogram {
        Histogram {
            counts: self.counts.each_ref().map(|it| it.load(Ordering::Relaxed)),
            sum_us: self.sum_us.load(Ordering::Relaxed),
        }
    }
}

fn bucket_of(us: u64) -> usize {
    BOUNDS_US.partition_point(|bound| *bound < us)
}

/// What a shard measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// From reading a publish to its acknowledgement: PUBACK or PUBREC.
    pub acknowledged: Histogram,
    /// From reading a publish to a delivery of it.
    pub delivered: Histogram,
    /// Turns, in CPU time of the thread.
    pub turns: Histogram,
}

impl Latencies {
    /// Adds another shard's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.acknowledged.add(&other.acknowledged);
        self.delivered.add(&other.delivered);
        self.turns.add(&other.turns);
    }
}

/// How long the log takes: one of each a batch, however many messages that has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogTimes {
    /// To write a batch.
    pub append: Histogram,
    /// To sync what was written.
    pub fsync: Histogram,
    /// To commit a batch: both, and what it waited for room in between.
    pub commit: Histogram,
}

/// Messages by the moment at which they were received. Equal moments come in a row, so the last one is at hand.
#[derive(Debug, Default)]
struct ByMoment {
    at: Moment,
    messages: u64,
    /// Those before.
    before: Vec<(Moment, u64)>,
}

impl ByMoment {
    #[inline]
    fn add(&mut self, at: Moment, messages: u64) {
        if at != self.at {
            self.turn_to(at);
        }
        self.messages += messages;
    }

    #[cold]
    fn turn_to(&mut self, at: Moment) {
        if self.messages > 0 {
            self.before.push((self.at, self.messages));
        }
        (self.at, self.messages) = (at, 0);
    }

    const fn is_empty(&self) -> bool {
        self.messages == 0 && self.before.is_empty()
    }

    /// Puts all of them down, as of `now`.
    fn record(&mut self, now: Moment, to: &mut Histogram) {
        for (at, messages) in self.before.drain(..) {
            to.record(at.until(now), messages);
        }
        if self.messages > 0 {
            to.record(self.at.until(now), self.messages);
            self.messages = 0;
        }
    }
}

/// Publishes of QoS 2 that the homes of kept sessions store, by connection: their packet ids, and when they were read. At most as many
/// of one connection as its client may have under way.
#[derive(Debug, Default)]
struct AtHomes(HashMap<FrontId, VecDeque<(u16, Moment)>>);

impl AtHomes {
    fn take(&mut self, front: FrontId, packet_id: u16) -> Option<Moment> {
        let waiting = self.0.get_mut(&front)?;
        // A home answers in order: it is the first one.
        let at = waiting.iter().position(|(id, _)| *id == packet_id)?;
        waiting.remove(at).map(|(_, read)| read)
    }
}

/// Where a shard measures.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    turn: Moment,
    /// When that was received which is being handled; none: its deliveries are not of interest.
    handling: Option<Moment>,
    /// Deliveries of the shard that are put down already.
    put_down: u64,
    acknowledged: ByMoment,
    delivered: ByMoment,
    at_homes: AtHomes,
    all: Latencies,
}

impl Latency {
    /// A turn begins; `delivered` is the shard's count of deliveries, here and below.
    pub(crate) fn begin_turn(&mut self, now: Moment, delivered: u64) {
        self.turn = now;
        self.put_down = delivered;
        self.handling = Some(now);
    }

    /// When that was received which is being handled.
    #[inline]
    pub(crate) const fn handling(&self) -> Option<Moment> {
        self.handling
    }

    /// The beginning of the turn.
    #[inline]
    pub(crate) const fn turn(&self) -> Moment {
        self.turn
    }

    /// Something else is handled from now on; gives what was handled before.
    #[inline]
    pub(crate) fn handle(&mut self, received: Option<Moment>, delivered: u64) -> Option<Moment> {
        if received == self.handling {
            return received;
        }
        self.put_down(delivered);
        std::mem::replace(&mut self.handling, received)
    }

    fn put_down(&mut self, delivered: u64) {
        // Fronts take deliveries back that they drop.
        let new = delivered.saturating_sub(self.put_down);
        self.put_down = delivered;
        if let (Some(at), 1..) = (self.handling, new) {
            self.delivered.add(at, new);
        }
    }

    /// A publish is acknowledged at the end of this turn.
    #[inline]
    pub(crate) fn acknowledge(&mut self, received: Moment) {
        self.acknowledged.add(received, 1);
    }

    /// A publish of QoS 2 goes to the home of its session in this turn.
    pub(crate) fn sent_home(&mut self, front: FrontId, packet_id: u16) {
        let waiting = self.at_homes.0.entry(front).or_default();
        waiting.push_back((packet_id, self.turn));
    }

    /// The home has answered: the publish is acknowledged at the end of this turn.
    pub(crate) fn answered_by_home(&mut self, front: FrontId, packet_id: u16) {
        if let Some(read) = self.at_homes.take(front, packet_id) {
            self.acknowledge(read);
        }
    }

    /// The connection is gone.
    pub(crate) fn forget(&mut self, front: FrontId) {
        if !self.at_homes.0.is_empty() {
            self.at_homes.0.remove(&front);
        }
    }

    /// The turn has written everything. The clock is asked only when there was something.
    pub(crate) fn end_turn(&mut self, delivered: u64, now: impl FnOnce() -> Moment) {
        self.put_down(delivered);
        if self.acknowledged.is_empty() && self.delivered.is_empty() {
            return;
        }
        let now = now();
        self.acknowledged.record(now, &mut self.all.acknowledged);
        self.delivered.record(now, &mut self.all.delivered);
    }

    /// A turn took so much of its thread's CPU time.
    pub(crate) fn note_turn(&mut self, us: u64) {
        self.all.turns.record(us, 1);
    }

    /// What was measured so far.
    pub(crate) const fn all(&self) -> &Latencies {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_are_put_down_to_what_was_handled() {
        let mut latency = Latency::default();
        latency.begin_turn(Moment(1_000), 5);
        let before = latency.handle(Some(Moment(400)), 7);
        assert_eq!(before, Some(Moment(1_000)));
        assert_eq!(latency.handle(None, 10), Some(Moment(400)));
        assert_eq!(latency.handle(before, 110), None, "a hundred had waited");
        latency.acknowledge(Moment(400));
        latency.acknowledge(Moment(400));
        latency.end_turn(111, || Moment(1_100));
        let all = latency.all();
        // Two and one after 100 us, three after 700 us.
        assert_eq!(all.delivered.counts()[..5], [0, 3, 0, 0, 3]);
        assert_eq!(all.delivered.sum_us(), 3 * 100 + 3 * 700);
        assert_eq!(all.acknowledged.counts()[4], 2);
        assert_eq!(all.acknowledged.sum_us(), 1_400);
    }

    #[test]
    fn turns_of_all_shards_are_counted_by_their_cpu_time() {
        let (mut first, mut second) = (Latency::default(), Latency::default());
        first.note_turn(50);
        first.note_turn(1_001);
        second.note_turn(1_000);
        let mut both = first.all().clone();
        both.add(second.all());
        assert_eq!(both.turns.counts()[..6], [1, 0, 0, 0, 1, 1]);
        assert_eq!(both.turns.sum_us(), 2_051);
    }

    #[test]
    fn what_a_home_stores_is_put_down_to_when_it_was_read() {
        let front = |slot| FrontId {
            shard: courser_contract::ShardId(0),
            slot,
            generation: 0,
        };
        let mut latency = Latency::default();
        latency.begin_turn(Moment(1_000), 0);
        latency.sent_home(front(0), 1);
        latency.sent_home(front(1), 1);
        latency.begin_turn(Moment(1_600), 0);
        latency.sent_home(front(0), 2);
        latency.sent_home(front(2), 1);
        latency.forget(front(1));
        latency.begin_turn(Moment(2_000), 0);
        for (slot, packet_id) in [(0, 2), (0, 1), (0, 1), (0, 3), (1, 1), (3, 1)] {
            latency.answered_by_home(front(slot), packet_id);
        }
        latency.end_turn(0, || Moment(2_100));
        assert_eq!(latency.all().acknowledged.sum_us(), 1_100 + 500);
        assert_eq!(latency.all().acknowledged.counts()[3..=5], [1, 0, 1]);
        for slot in [0, 2] {
            latency.forget(front(slot));
        }
        assert!(latency.at_homes.0.is_empty(), "who has gone costs nothing");
    }

    #[test]
    fn a_turn_without_messages_asks_no_clock() {
        let mut latency = Latency::default();
        latency.begin_turn(Moment(1), 5);
        latency.end_turn(3, || panic!("nobody needs it"));
        assert_eq!(*latency.all(), Latencies::default());
    }

    #[test]
    fn moments_go_round() {
        let (early, late) = (Moment(u32::MAX - 4), Moment(5));
        assert_eq!(early.until(late), 10);
        assert_eq!(late.earlier(early), early);
        assert_eq!(early.earlier(late), early);
    }

    #[test]
    fn what_is_shared_is_the_same_histogram() {
        let (shared, mut own) = (SharedHistogram::default(), Histogram::default());
        for us in [0, 50, 51, 700, 60_000_001] {
            shared.note(Duration::from_micros(us));
            own.record(us, 1);
        }
        assert_eq!(shared.get(), own);
    }

    #[test]
    fn the_bounds_belong_to_their_buckets() {
        let mut histogram = Histogram::default();
        for (us, bucket) in [(0, 0), (50, 0), (51, 1), (60_000_000, 17), (60_000_001, 18)] {
            let before = histogram.counts()[bucket];
            histogram.record(us, 1);
            assert_eq!(histogram.counts()[bucket], before + 1, "{us}");
        }
    }
}
