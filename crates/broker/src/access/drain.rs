//! How fast logins that wait have their turns, of those that are done while somebody waits: what one costs is not known before, for a password that
//! was right a moment ago is not compared again.

use courser_contract::Tick;

/// Fewer say nothing: all that are looked at when the first ones wait may be done in one moment.
const ENOUGH: u64 = 32;
/// More count for half, so that what was long ago is forgotten.
const MANY: u64 = 256;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drain {
    since: Tick,
    done: u64,
}

impl Drain {
    /// From now on somebody waits.
    pub(super) const fn begin(&mut self, now: Tick) {
        *self = Self {
            since: now,
            done: 0,
        };
    }

    /// One more is done.
    pub(super) fn note(&mut self, now: Tick) {
        self.done += 1;
        if self.done >= MANY {
            let half = self.took_ms(now) / 2;
            self.since = self.since.after_ms(half);
            self.done /= 2;
        }
    }

    const fn took_ms(&self, now: Tick) -> u64 {
        ms_between(self.since, now)
    }

    /// Whether so many will be done within that time, as far as that can be told.
    pub(super) fn brings(&self, turns: usize, within_ms: u64, now: Tick) -> bool {
        self.done < ENOUGH
            || u128::from(self.took_ms(now)) * turns as u128
                <= u128::from(within_ms) * u128::from(self.done)
    }
}

/// From a moment to a later one; none: 0.
pub(super) const fn ms_between(from: Tick, to: Tick) -> u64 {
    to.0.saturating_sub(from.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Tick {
        Tick(0).after_ms(ms)
    }

    #[test]
    fn who_comes_is_told_by_what_those_before_have_taken() {
        let mut drain = Drain::default();
        drain.begin(at(1_000));
        let brings = |drain: Drain, turns, now| drain.brings(turns, 5_000, at(now));
        for number in 1..ENOUGH {
            drain.note(at(1_000 + 100 * number));
            assert!(brings(drain, 1_000, 4_100), "nothing is known yet");
        }
        drain.note(at(4_200));
        assert!(brings(drain, 50, 4_200) && !brings(drain, 51, 4_200));
        // Nothing was done since.
        assert!(!brings(drain, 50, 4_300));
        // It goes faster now, or those who wait are gone.
        for number in 0..2 * MANY {
            drain.note(at(4_300 + number));
        }
        assert!(brings(drain, 1_000, 4_300 + 2 * MANY));
        drain.begin(at(10_000));
        assert!(brings(drain, 1_000, 10_000));
    }
}
