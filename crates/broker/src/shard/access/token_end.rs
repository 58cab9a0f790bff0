//! The one timer of all tokens of a shard: it fires when the next of them ends, or earlier.

use courser_contract::Tick;

use crate::shard::timers::Timer;
use crate::timer::{TimerKey, Wheel};

/// See the module.
#[derive(Debug, Default)]
pub(in crate::shard) struct TokenEnd {
    /// Its place on the wheel, and when it fires.
    armed: Option<(TimerKey, Tick)>,
}

impl TokenEnd {
    /// Makes it fire at `next`, unless it does earlier.
    pub(super) fn arm(&mut self, timers: &mut Wheel<Timer>, next: Tick) {
        let key = match self.armed {
            Some((_, at)) if at <= next => return,
            // Moved and not added to: a client chooses how often there is an earlier end.
            Some((key, _)) if timers.rearm(key, next) => key,
            Some(_) | None => timers.insert(next, Timer::TOKEN),
        };
        self.armed = Some((key, next));
    }

    /// It has.
    pub(super) fn fired(&mut self) {
        self.armed = None;
    }
}

#[cfg(test)]
mod tests {
    use courser_contract::{FrontId, ShardId};

    use super::super::REVOKING_MAX;
    use super::*;
    use crate::access::Ends;
    use crate::timer::Advanced;

    fn fire(timers: &mut Wheel<Timer>, now: Tick) -> Vec<Timer> {
        let mut fired = Vec::new();
        let advanced = timers.advance(now, usize::MAX, |timer| fired.push(timer));
        assert_eq!(advanced, Advanced::Whole);
        fired
    }

    #[test]
    fn ends_that_come_earlier_and_earlier_are_one_timer() {
        let mut timers = Wheel::new(Tick(0));
        let mut end = TokenEnd::default();
        for next in (10_000..20_000).rev() {
            end.arm(&mut timers, Tick(next));
        }
        end.arm(&mut timers, Tick(15_000));
        assert_eq!(fire(&mut timers, Tick(9_999)), []);
        assert_eq!(fire(&mut timers, Tick(10_000)), [Timer::TOKEN]);
        end.fired();
        assert_eq!(timers.next_deadline(), None, "nothing else is on the wheel");
        end.arm(&mut timers, Tick(15_000));
        assert_eq!(fire(&mut timers, Tick(30_000)), [Timer::TOKEN]);
    }

    #[test]
    fn more_ends_at_once_than_a_turn_takes_are_for_the_next_turns() {
        let (now, later) = (Tick(5_000), Tick(60_000));
        let mut timers = Wheel::new(Tick(0));
        let (mut end, mut ends) = (TokenEnd::default(), Ends::default());
        let fronts: Vec<FrontId> = (0..2_501)
            .map(|slot| FrontId {
                shard: ShardId(0),
                slot,
                generation: 0,
            })
            .collect();
        for (front, at) in fronts.iter().zip((4_000..5_001).cycle()) {
            ends.insert(Tick(at), *front);
        }
        let stays = FrontId {
            generation: 1,
            ..fronts[0]
        };
        ends.insert(later, stays);
        end.arm(&mut timers, ends.next().unwrap());
        let mut ended = Vec::new();
        for taken in [1_000, 1_000, 501] {
            let due = timers.next_deadline().is_some_and(|next| next <= now);
            assert!(due, "the shard does not sleep before it");
            assert_eq!(fire(&mut timers, now), [Timer::TOKEN]);
            end.fired();
            let turn: Vec<_> = std::iter::from_fn(|| ends.take(now))
                .take(REVOKING_MAX)
                .collect();
            assert_eq!(turn.len(), taken);
            ended.extend(turn);
            end.arm(&mut timers, ends.next().unwrap());
        }
        ended.sort_unstable();
        assert_eq!(ended, fronts, "each of them, once");
        assert_eq!(fire(&mut timers, Tick(59_999)), []);
        assert_eq!(fire(&mut timers, later), [Timer::TOKEN]);
        assert_eq!(ends.take(later), Some(stays));
    }
}
