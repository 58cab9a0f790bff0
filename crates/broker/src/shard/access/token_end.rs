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
    use super::*;
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
}
