//! How much of a start is done, for people who wait for it.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Stage;

/// What a start is at, and how much of that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// At what.
    pub step: StartStep,
    /// So many of them, at most `of`.
    pub done: u64,
    /// Of so many; 0: nobody knows yet, or there are none.
    pub of: u64,
}

/// The steps of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartStep {
    /// Segments of the log are read.
    Reading,
    /// Partitions are made of their checkpoints.
    Restoring,
    /// Partitions take what is in the log behind these.
    Replaying,
}

/// What a start counts. It is looked at once a second, and nobody acts on it: a number may be a little older than another one.
#[derive(Debug, Default)]
pub(crate) struct StartCounts {
    segments_read: AtomicU64,
    segments: AtomicU64,
    restored: AtomicU64,
    replayed: AtomicU64,
    partitions: AtomicU64,
}

impl StartCounts {
    /// So many segments of so many are read.
    pub(crate) fn read(&self, segments: u64, of: u64) {
        self.segments.store(of, Ordering::Relaxed);
        self.segments_read.store(segments, Ordering::Relaxed);
    }

    /// There are so many partitions.
    pub(crate) fn has_partitions(&self, of: u64) {
        self.partitions.store(of, Ordering::Relaxed);
    }

    /// One more is made of its checkpoint.
    pub(crate) fn restored(&self) {
        self.restored.fetch_add(1, Ordering::Relaxed);
    }

    /// So many more serve, or are set aside.
    pub(crate) fn replayed(&self, more: u64) {
        self.replayed.fetch_add(more, Ordering::Relaxed);
    }

    /// All of it; none once the start is over.
    pub(crate) fn progress(&self, stage: Stage) -> Option<Progress> {
        let (step, done, of) = match stage {
            Stage::Reading => (StartStep::Reading, &self.segments_read, &self.segments),
            Stage::Restoring => (StartStep::Restoring, &self.restored, &self.partitions),
            Stage::Replaying => (StartStep::Replaying, &self.replayed, &self.partitions),
            Stage::Serving => return None,
        };
        let of = of.load(Ordering::Relaxed);
        let done = done.load(Ordering::Relaxed).min(of);
        Some(Progress { step, done, of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_a_start_counts_what_it_is_at() {
        let counts = StartCounts::default();
        let at = |stage| {
            let progress = counts.progress(stage).expect("it is not over");
            (progress.step, progress.done, progress.of)
        };
        assert_eq!(at(Stage::Reading), (StartStep::Reading, 0, 0));
        counts.read(3, 20);
        counts.has_partitions(17);
        counts.restored();
        counts.restored();
        counts.replayed(5);
        assert_eq!(at(Stage::Reading), (StartStep::Reading, 3, 20));
        assert_eq!(at(Stage::Restoring), (StartStep::Restoring, 2, 17));
        assert_eq!(at(Stage::Replaying), (StartStep::Replaying, 5, 17));
        assert_eq!(counts.progress(Stage::Serving), None);
    }
}
