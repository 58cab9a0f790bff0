//! The log reader: slow work with files that must delay neither a shard nor the writer.

use std::sync::mpsc;

use courser_log::{Disk, PrepareJob, Prepared};

use std::sync::Arc;

use crate::rings::Doze;

/// What the reader is asked for.
pub(crate) enum Job<D: Disk> {
    /// Make a segment ready and tell the writer.
    Prepare(PrepareJob<D>),
    /// Nothing more will come.
    End,
}

/// The reader's ways to the others.
pub(crate) struct Reader<D: Disk> {
    pub(crate) jobs: mpsc::Receiver<Job<D>>,
    pub(crate) prepared: mpsc::Sender<Prepared<D::File>>,
    /// Wakes the writer.
    pub(crate) writer: Arc<Doze>,
}

impl<D: Disk> Reader<D> {
    /// Works until it is told to end.
    pub(crate) fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            match job {
                Job::Prepare(job) => {
                    // A writer that has ended needs no segment.
                    let _ = self.prepared.send(job.run());
                    self.writer.wake();
                }
                Job::End => return,
            }
        }
    }
}
