//! Lines of the log that anybody can cause: as many as somebody reads, and how many were left out.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::doors::Pace;

/// Lines of one kind in a second.
pub(crate) const LINES_PER_SECOND: NonZeroU32 = NonZeroU32::new(4).expect("it is not 0");

/// How many lines of a kind are written.
#[derive(Debug)]
pub(crate) struct Lines {
    pace: Pace,
    left_out: AtomicU64,
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            pace: Pace::new(LINES_PER_SECOND),
            left_out: AtomicU64::new(0),
        }
    }
}

impl Lines {
    /// Lines that were left out before this one; none if it is left out too.
    pub(crate) fn admit(&self, now: Instant) -> Option<u64> {
        if self.pace.come(now) {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.leave_out();
        None
    }

    /// Counts one that is not to be written.
    pub(crate) fn leave_out(&self) {
        self.left_out.fetch_add(1, Ordering::Relaxed);
    }
}
