//! Faults that tests plant; nothing in a broker that is not a unit test of this crate.

/// Panics where a front works on `data`, if a test wants it.
#[inline(always)]
pub(crate) fn in_front(data: &[u8]) {
    #[cfg(test)]
    hit(data, "failpoint: front");
    let _ = data;
}

/// Panics where the front of `client_id` gets a delivery, if a test wants it.
#[inline(always)]
pub(crate) fn in_delivery(client_id: &str) {
    #[cfg(test)]
    hit(client_id.as_bytes(), "failpoint: delivery");
    let _ = client_id;
}

/// Panics where a partition takes a publish, if a test wants it.
#[inline(always)]
pub(crate) fn in_partition(payload: &[u8]) {
    #[cfg(test)]
    {
        hit(payload, "failpoint: partition");
        if payload == HANG.as_bytes() {
            hanging::hang();
        }
    }
    let _ = payload;
}

/// Panics where a partition applies an entry, if a test wants it.
#[inline(always)]
pub(crate) fn in_apply(entry: &[u8]) {
    #[cfg(test)]
    hit(entry, "failpoint: apply");
    let _ = entry;
}

#[cfg(test)]
fn hit(data: &[u8], mark: &str) {
    let planted = data
        .windows(mark.len())
        .any(|window| window == mark.as_bytes());
    assert!(!planted, "a fault that a test has planted");
}

/// A publish with this payload keeps the shard of its partition from going on until a test lets it: one test of a process.
#[cfg(test)]
pub(crate) const HANG: &str = "failpoint: hang";

#[cfg(test)]
pub(crate) mod hanging {
    use std::sync::{Condvar, Mutex, PoisonError};
    use std::time::Duration;

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Stage {
        Running,
        Hangs,
        LetGo,
    }

    static STAGE: Mutex<Stage> = Mutex::new(Stage::Running);
    static CHANGED: Condvar = Condvar::new();
    /// A test that has gone wrong ends after this time.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn set(stage: Stage) {
        *STAGE.lock().unwrap_or_else(PoisonError::into_inner) = stage;
        CHANGED.notify_all();
    }

    fn wait_for(stage: Stage) {
        let now = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = CHANGED.wait_timeout_while(now, PATIENCE, |now| *now != stage);
        assert!(
            waited.is_ok_and(|(now, _)| *now == stage),
            "the shard hangs for less than the patience"
        );
    }

    pub(super) fn hang() {
        set(Stage::Hangs);
        wait_for(Stage::LetGo);
    }

    /// Lets the shard go on when it is dropped.
    pub(crate) struct Hung;

    impl Hung {
        /// Waits until a shard hangs.
        pub(crate) fn wait() -> Self {
            wait_for(Stage::Hangs);
            Self
        }
    }

    impl Drop for Hung {
        fn drop(&mut self) {
            set(Stage::LetGo);
        }
    }
}
