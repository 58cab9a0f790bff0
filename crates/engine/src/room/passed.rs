//! The oldest message of a stream that may be dropped, looked for once for all drops of a burst.
//!
//! What is proposed to end is in its stream until that is committed, and what somebody has stays there, too. A large message may need room that
//! thousands of small ones have: looking from the beginning for each of them would pass all those before it again (I10).

/// A part of a stream of which nothing may be dropped, as far as was looked since the last entry was applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    from: u64,
    to: u64,
    staying: Option<Staying>,
}

/// What of a stream stays whatever comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Staying {
    /// Nothing at or above it does.
    pub(super) below: u64,
    pub(super) bytes: u64,
}

impl Passed {
    /// The first position from `from` on that has a message (`next_live`) which does not stay where it is (`stays`). To be called with a
    /// new one when what stayed may go again. Amortized O(1) for a `from` that does not go back.
    pub(crate) fn next_droppable(
        &mut self,
        from: u64,
        next_live: impl Fn(u64) -> Option<u64>,
        stays: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        if from < self.from || from > self.to {
            self.from = from;
            self.to = from;
        }
        loop {
            let seq = next_live(self.to)?;
            self.to = seq;
            if !stays(seq) {
                return Some(seq);
            }
            self.to += 1;
        }
    }

    /// What stays below a position, counted (`count`) once for all messages that ask: a client may have tens of thousands (I10).
    pub(super) fn staying_below(&mut self, below: u64, count: impl FnOnce() -> Staying) -> Staying {
        match self.staying {
            Some(staying) if staying.below == below => staying,
            Some(_) | None => *self.staying.insert(count()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const STREAM: u64 = 100_000;

    fn live(seq: u64) -> Option<u64> {
        (seq < STREAM).then_some(seq)
    }

    /// What a 1 MiB message needs where messages of 170 bytes wait, with as many that somebody has among them.
    #[test]
    fn i10_each_drop_of_a_burst_takes_a_step_or_two() {
        const DROPS: u64 = 6_200;
        let steps = Cell::new(0);
        let ended = Cell::new(0);
        let mut passed = Passed::default();
        for drop in 0..DROPS {
            let found = passed.next_droppable(0, live, |seq| {
                steps.set(steps.get() + 1);
                !seq.is_multiple_of(2) || seq < ended.get()
            });
            assert_eq!(found, Some(2 * drop));
            ended.set(2 * drop + 1);
        }
        assert!(steps.get() <= 3 * DROPS, "{} steps", steps.get());
    }

    #[test]
    fn what_lies_before_the_part_that_was_passed_is_looked_at() {
        let mut passed = Passed::default();
        assert_eq!(passed.next_droppable(10, live, |seq| seq < 20), Some(20));
        assert_eq!(passed.next_droppable(15, live, |_| false), Some(20));
        assert_eq!(passed.next_droppable(5, live, |seq| seq == 5), Some(6));
        assert_eq!(passed.next_droppable(30, live, |_| false), Some(30));
        assert_eq!(passed.next_droppable(STREAM, live, |_| false), None);
    }
}
