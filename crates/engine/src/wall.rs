//! The clock of entries (M6): the system's, without its jumps.
//!
//! It never goes back, runs at most 1 % faster or slower than time to meet the system's, and follows no difference of more than a
//! minute: somebody has set that clock, and what expires by it would all expire at once, or not for hours.
//!
//! Invariants (`tests`): from one reading to a later one it gains `passed ± (passed / 100 + 1)` milliseconds, and never less
//! than nothing.

use courser_contract::{Tick, WallMs};

/// A larger difference from the system's clock is only reported.
pub const APART_MS_MAX: u64 = 60_000;
/// One part in so many is what it may run faster or slower.
const RATE: u64 = 100;

/// See the module. Whoever reads it passes what the system says; nothing is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallClock {
    tick: Tick,
    wall: WallMs,
    /// Hundredths of milliseconds that it may run faster or slower now; at most one millisecond is carried from reading to reading.
    credit: u64,
    /// How far the system's clock was away at the last reading.
    apart_ms: u64,
}

impl WallClock {
    /// A clock that shows what the system does.
    #[must_use]
    pub const fn new(tick: Tick, system: WallMs) -> Self {
        Self {
            tick,
            wall: system,
            credit: 0,
            apart_ms: 0,
        }
    }

    /// The time now, which is `tick` and which the system calls `system`. A tick that is lower than the last one counts as that.
    pub fn read(&mut self, tick: Tick, system: WallMs) -> WallMs {
        let passed = tick.0.saturating_sub(self.tick.0);
        self.tick = self.tick.max(tick);
        self.credit = self.credit.min(RATE) + passed;
        let own = self.wall.0.saturating_add(passed);
        self.apart_ms = system.0.abs_diff(own);
        let step = match self.apart_ms {
            0 | APART_MS_TOO_MANY.. => 0,
            apart => apart.min(self.credit / RATE),
        };
        // Slower never means back.
        let (step, wall) = if system.0 < own {
            let step = step.min(passed);
            (step, own - step)
        } else {
            (step, own + step)
        };
        self.credit -= step * RATE;
        self.wall = WallMs(wall);
        self.wall
    }

    /// At a start: entries were written up to `last`, so it is at least that (M6).
    pub fn begin_at(&mut self, last: WallMs) {
        self.wall = self.wall.max(last);
    }

    /// How far the system's clock was away at the last reading, where it is too far to be followed. Milliseconds.
    #[must_use]
    pub const fn apart_ms(&self) -> Option<u64> {
        match self.apart_ms {
            0..=APART_MS_MAX => None,
            apart => Some(apart),
        }
    }
}

const APART_MS_TOO_MANY: u64 = APART_MS_MAX + 1;

#[cfg(test)]
mod tests;
