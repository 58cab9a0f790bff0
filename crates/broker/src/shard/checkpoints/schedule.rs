//! Which partition is saved next.

use courser_contract::{LogIndex, PartitionId, ShardId, Term, Tick};
use courser_log::CheckpointAt;

/// How often every partition is saved while the disk is short of room, and how long one waits whose checkpoint has failed, in milliseconds.
const AGAIN_MS: u64 = 1_000;

/// A partition is due when the log has taken so many bytes, or not at all.
const NEVER: u64 = u64::MAX;

/// What is known of one partition.
#[derive(Clone, Copy, Debug)]
struct Turn {
    /// Where the log stands when its next checkpoint is due.
    due: u64,
    /// Its last one failed: not before this.
    rests_until: Tick,
    /// The entry of the last one that counts.
    saved: CheckpointAt,
    /// The disk has lost an entry up to here: one that counts must be behind it.
    wanted: LogIndex,
    /// The one that counts is damaged: another is written, whether or not there are news.
    renews: bool,
}

impl Turn {
    const fn is_due(&self, stands: u64, now: Tick) -> bool {
        self.due <= stands && self.rests_until.0 <= now.0
    }
}

/// See the module. By place.
#[derive(Debug)]
pub(super) struct Schedule {
    /// Bytes of log from one checkpoint of a partition to its next.
    every: u64,
    /// While the disk is short of room: when all partitions are due again, whatever the log has taken.
    hurry_at: Tick,
    turns: Vec<Turn>,
    /// None is due below it: most turns of a shard look at nothing else.
    next_due: u64,
    /// None rests for longer.
    rest_until: Tick,
}

impl Schedule {
    /// For these partitions, of so many of the node: the first checkpoints come spread over one interval.
    pub(super) fn new(
        every: u64,
        partitions: u16,
        owned: impl Iterator<Item = PartitionId>,
    ) -> Self {
        let turn_of = |id: PartitionId| Turn {
            due: match id.volatile_shard() {
                // The place of partition 0: what it has is little, and keeps segments from going.
                Some(ShardId(0)) => every,
                Some(_) => NEVER,
                None => every * u64::from(id.0) / u64::from(partitions),
            },
            rests_until: Tick(0),
            saved: CheckpointAt {
                index: LogIndex(0),
                term: Term(0),
            },
            wanted: LogIndex(0),
            renews: false,
        };
        Self {
            every,
            hurry_at: Tick(0),
            turns: owned.map(turn_of).collect(),
            next_due: 0,
            rest_until: Tick(0),
        }
    }

    /// The entry of the last checkpoint that counts.
    pub(super) fn saved(&self, place: usize) -> CheckpointAt {
        self.turns[place].saved
    }

    /// The partition at `place` was made of the checkpoint at `at`.
    pub(super) fn restored(&mut self, place: usize, at: CheckpointAt) {
        self.turns[place].saved = at;
    }

    /// The partition at `place` is set aside: its checkpoint stays as it is.
    pub(super) fn exclude(&mut self, place: usize) {
        self.turns[place].due = NEVER;
    }

    /// The place whose checkpoint has been due for longest, of those with news since the one that counts; its next one is due an interval later,
    /// and so is that of one without: all that are due are looked at, since a shard that sleeps is not woken for each.
    pub(super) fn take_due(
        &mut self,
        stands: u64,
        now: Tick,
        mut has_news: impl FnMut(usize, CheckpointAt) -> bool,
    ) -> Option<usize> {
        if stands < self.next_due {
            return None;
        }
        let mut longest: Option<(u64, usize)> = None;
        for (place, turn) in self.turns.iter_mut().enumerate() {
            if !turn.is_due(stands, now) {
                continue;
            }
            if !turn.renews && !has_news(place, turn.saved) {
                turn.due = stands + self.every;
            } else if longest.is_none_or(|(due, _)| turn.due < due) {
                longest = Some((turn.due, place));
            }
        }
        if let Some((_, place)) = longest {
            self.turns[place].due = stands + self.every;
        }
        let all = self.turns.iter().map(|turn| turn.due);
        self.next_due = all.min().unwrap_or(NEVER);
        longest.map(|(_, place)| place)
    }

    /// Whether one is due.
    pub(super) fn is_due(&self, stands: u64, now: Tick) -> bool {
        stands >= self.next_due && self.turns.iter().any(|turn| turn.is_due(stands, now))
    }

    /// Whether one that failed may not be tried again yet.
    pub(super) fn is_resting(&self, now: Tick) -> bool {
        now < self.rest_until
    }

    /// A start would have to replay an entry that the disk has lost: the partition at `place` is saved next, unless a checkpoint counts that
    /// was made after the entry. One that is under way may fail, or have begun before it.
    pub(super) fn hasten(&mut self, place: usize, entry: LogIndex) {
        let turn = &mut self.turns[place];
        turn.wanted = turn.wanted.max(entry);
        if turn.saved.index < entry {
            self.bring_forward(place, 0);
        }
    }

    /// What the disk has of the checkpoint that counts at `place` is damaged, or its manifest is: another one takes its place soon. One that is under
    /// way is another.
    pub(super) fn renew(&mut self, place: usize) {
        self.turns[place].renews = true;
        self.bring_forward(place, 0);
    }

    /// Whether the next one at `place` takes the place of one that is damaged.
    pub(super) fn renews(&self, place: usize) -> bool {
        self.turns[place].renews
    }

    /// A disk that is short of room gets some back only where a checkpoint lets segments go: once in a while all are due.
    pub(super) fn hurry(&mut self, stands: u64, now: Tick) {
        if now < self.hurry_at {
            return;
        }
        self.hurry_at = now.after_ms(AGAIN_MS);
        for place in 0..self.turns.len() {
            self.bring_forward(place, stands);
        }
    }

    /// The checkpoint at `at` counts.
    pub(super) fn succeeded(&mut self, place: usize, at: CheckpointAt) {
        let turn = &mut self.turns[place];
        turn.saved = at;
        turn.renews = false;
        if at.index < turn.wanted {
            self.bring_forward(place, 0);
        }
    }

    /// One was given up: it is due again in a while, which others have meanwhile. Whether or not the partition, or any other, goes on: segments
    /// may be needed for nothing but what it would save.
    pub(super) fn failed(&mut self, place: usize, stands: u64, now: Tick) {
        self.rest_until = now.after_ms(AGAIN_MS);
        self.turns[place].rests_until = self.rest_until;
        self.bring_forward(place, stands);
    }

    fn bring_forward(&mut self, place: usize, due: u64) {
        let turn = &mut self.turns[place];
        if turn.due != NEVER {
            turn.due = turn.due.min(due);
            self.next_due = self.next_due.min(turn.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: u64 = 1_000;

    fn at(index: u64) -> CheckpointAt {
        CheckpointAt {
            index: LogIndex(index),
            term: Term(1),
        }
    }

    /// Of partitions that have all gone on.
    fn due(schedule: &mut Schedule, stands: u64, now: Tick) -> Option<usize> {
        schedule.take_due(stands, now, |_, _| true)
    }

    /// Two partitions that were saved at entry 10; nothing is due.
    fn saved_at_10() -> Schedule {
        let mut schedule = Schedule::new(EVERY, 4, [1, 2].map(PartitionId).into_iter());
        for place in [0, 1] {
            assert!(due(&mut schedule, EVERY, Tick(0)).is_some());
            schedule.succeeded(place, at(10));
        }
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), None);
        schedule
    }

    #[test]
    fn the_one_that_is_due_for_longest_comes_first() {
        let mut schedule = Schedule::new(EVERY, 4, [2, 1].map(PartitionId).into_iter());
        assert_eq!(due(&mut schedule, 200, Tick(0)), None);
        assert_eq!(due(&mut schedule, 600, Tick(0)), Some(1));
        assert_eq!(due(&mut schedule, 600, Tick(0)), Some(0));
        assert_eq!(due(&mut schedule, 600, Tick(0)), None);
        assert_eq!(due(&mut schedule, 1_600, Tick(0)), Some(0));
    }

    /// M42, M47: nothing more may come to the partition, since its publishers are refused for want of the room that it would give.
    #[test]
    fn m47_one_that_was_given_up_is_due_again_without_a_new_entry() {
        let mut schedule = saved_at_10();
        schedule.hurry(EVERY, Tick(0));
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), Some(0));
        schedule.failed(0, EVERY, Tick(0));
        assert_eq!(schedule.saved(0), at(10), "it does not count");
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), Some(1), "others go on");
        schedule.succeeded(1, at(20));
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), None, "it rests");
        let later = Tick(0).after_ms(AGAIN_MS);
        assert_eq!(due(&mut schedule, EVERY, later), Some(0));
        schedule.succeeded(0, at(20));
        assert_eq!(due(&mut schedule, EVERY, later), None);
    }

    /// M44: damage that only a checkpoint of earlier entries covers.
    #[test]
    fn m44_what_is_lost_is_saved_though_the_checkpoint_under_way_fails() {
        let mut schedule = saved_at_10();
        assert_eq!(due(&mut schedule, 3 * EVERY, Tick(0)), Some(0));
        schedule.hasten(0, LogIndex(15));
        schedule.failed(0, 3 * EVERY, Tick(0));
        let later = Tick(0).after_ms(AGAIN_MS);
        assert_eq!(due(&mut schedule, 3 * EVERY, later), Some(0));
        schedule.succeeded(0, at(15));
        schedule.hasten(0, LogIndex(15));
        let next = due(&mut schedule, 3 * EVERY, later);
        assert_eq!(next, Some(1), "the first one is saved");
    }

    #[test]
    fn m44_what_is_lost_is_saved_though_the_checkpoint_under_way_began_before_it() {
        let mut schedule = saved_at_10();
        schedule.hasten(1, LogIndex(12));
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), Some(1));
        schedule.hasten(1, LogIndex(25));
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), Some(1));
        schedule.succeeded(1, at(20));
        assert_eq!(
            due(&mut schedule, EVERY, Tick(0)),
            Some(1),
            "20 is too early"
        );
        schedule.succeeded(1, at(25));
        assert_eq!(due(&mut schedule, EVERY, Tick(0)), None);
    }

    #[test]
    fn i7_one_that_is_damaged_is_written_again_without_news_until_that_succeeds() {
        let none = |_, _| false;
        let mut schedule = saved_at_10();
        schedule.renew(0);
        assert_eq!(schedule.take_due(EVERY, Tick(0), none), Some(0));
        assert!(schedule.renews(0) && !schedule.renews(1));
        schedule.failed(0, EVERY, Tick(0));
        let later = Tick(0).after_ms(AGAIN_MS);
        assert_eq!(schedule.take_due(EVERY, later, none), Some(0));
        schedule.succeeded(0, at(10));
        assert!(!schedule.renews(0));
        assert_eq!(schedule.take_due(EVERY, later, none), None);
    }

    /// Whoever has one of them saved looks once: nothing else may happen on its shard until the log has gone on as far again.
    #[test]
    fn m42_one_without_news_is_passed_over_until_an_interval_later() {
        let mut schedule = saved_at_10();
        assert!(!schedule.is_due(2 * EVERY - 1, Tick(0)));
        assert!(schedule.is_due(2 * EVERY, Tick(0)));
        let mut looked = Vec::new();
        let place = schedule.take_due(2 * EVERY, Tick(0), |place, saved| {
            looked.push((place, saved));
            place == 1
        });
        assert_eq!((place, looked), (Some(1), vec![(0, at(10)), (1, at(10))]));
        schedule.succeeded(1, at(20));
        let none = |_, _| panic!("neither is due");
        assert_eq!(schedule.take_due(3 * EVERY - 1, Tick(0), none), None);
        assert!(!schedule.is_due(3 * EVERY - 1, Tick(0)));
        assert_eq!(schedule.take_due(3 * EVERY, Tick(0), |_, _| false), None);
        assert!(!schedule.is_due(4 * EVERY - 1, Tick(0)));
    }

    #[test]
    fn m42_a_shard_may_sleep_while_one_that_failed_rests() {
        let mut schedule = saved_at_10();
        assert!(!schedule.is_resting(Tick(0)));
        schedule.failed(0, EVERY, Tick(0));
        assert!(schedule.is_resting(Tick(0)) && !schedule.is_due(EVERY, Tick(0)));
        let later = Tick(0).after_ms(AGAIN_MS);
        assert!(!schedule.is_resting(later) && schedule.is_due(EVERY, later));
    }

    #[test]
    fn one_that_is_set_aside_is_never_due() {
        let mut schedule = saved_at_10();
        schedule.exclude(0);
        schedule.exclude(1);
        schedule.hurry(EVERY, Tick(0));
        schedule.hasten(0, LogIndex(99));
        schedule.failed(1, EVERY, Tick(0));
        assert_eq!(due(&mut schedule, u64::MAX - 1, Tick(u64::MAX)), None);
    }
}
