//! Whether somebody still waits for what is to be looked at beside the shards.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// What a client that waits has; without it nobody does.
#[derive(Debug)]
pub(super) struct Waits {
    _here: Arc<()>,
}

/// For how long what it came with is wanted.
#[derive(Debug)]
pub(crate) struct Wanted {
    by: Weak<()>,
    /// Until when, and how long that is in all. None: for as long as it takes.
    until: Option<(Instant, Duration)>,
}

impl Waits {
    /// Of a client that waits from now on for so long.
    pub(super) fn begin(within: Option<Duration>) -> (Self, Wanted) {
        let here = Arc::new(());
        let wanted = Wanted {
            by: Arc::downgrade(&here),
            until: within.and_then(|within| Some((Instant::now().checked_add(within)?, within))),
        };
        (Self { _here: here }, wanted)
    }
}

impl Wanted {
    /// Whether what would take so long from now on is still of use then. Half of the time that there was is enough for anybody, so that who is looked
    /// at without having waited is never turned away, whatever others have taken.
    pub(super) fn in_time(&self, now: Instant, takes: Duration) -> bool {
        let is_there = self.by.strong_count() > 0;
        is_there
            && self
                .until
                .is_none_or(|(until, within)| now + takes.min(within / 2) <= until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_looked_at_for_who_has_gone_or_comes_too_late() {
        const SECOND: Duration = Duration::from_secs(1);
        let (waits, wanted) = Waits::begin(Some(4 * SECOND));
        let (until, _) = wanted.until.expect("it was told");
        let left = |seconds: u32, takes| wanted.in_time(until - seconds * SECOND, takes);
        assert!(left(4, SECOND) && left(1, SECOND));
        assert!(!left(1, SECOND + SECOND / 2) && !left(0, SECOND));
        assert!(left(4, 100 * SECOND) && left(2, 100 * SECOND));
        assert!(!left(1, 100 * SECOND));
        drop(waits);
        assert!(!left(4, SECOND));
        let (_waits, wanted) = Waits::begin(None);
        assert!(wanted.in_time(until + 1_000 * SECOND, SECOND));
    }
}
