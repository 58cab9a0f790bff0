//! What others than shards ask the stations for: a place at which the log can be copied, and what it holds.
//!
//! ```text
//! backup ──job──▶ log-reader: opens manifests and checkpoints ──request──▶ log-writer: syncs, holds its segments
//!        ◀──────────────────────────── held files and cut ─────────────────────────────┘
//! ```
//! The reader finishes checkpoints, so while it waits for the writer no manifest is newer than those that it has opened: what a
//! crash right behind the cut would leave is exactly what is copied.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use courser_log::{Disk, HeldFile, HeldSegment, LogCut, LogPlaces, SegmentNumber};

use super::disk::DiskState;
use super::reader::Job;
use crate::rings::Doze;

/// The writer answers between two batches; one that has no room refuses, and then nothing is copied.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// What the writer is asked for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Where the log can be copied. Its segments are held from then on.
    Cut {
        /// For the answer.
        answer: mpsc::SyncSender<LogCut>,
        /// Set when the segments are needed after all, since the disk is short of room.
        lost: Arc<AtomicBool>,
    },
    /// Only these are held any more; none: all is copied, or given up.
    Hold(Option<RangeInclusive<SegmentNumber>>),
    /// Which segments hold something.
    Segments(mpsc::SyncSender<Vec<HeldSegment>>),
    /// Something of a segment is damaged.
    Damaged(SegmentNumber),
    /// Where everything is. Answered even while there is no room: what is read back may be what gives some.
    Places(mpsc::SyncSender<LogPlaces>),
}

/// Everything that a copy is made of, held until [`RequestDoor::hold`] lets go of it.
#[derive(Debug)]
pub(crate) struct HeldData<F> {
    pub(crate) cut: LogCut,
    pub(crate) checkpoints: Vec<HeldFile<F>>,
}

/// Why nothing can be copied now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotHeld {
    /// A checkpoint or its manifest.
    #[error("{0}")]
    Checkpoints(String),
    /// The writer is waiting for room, or has ended.
    #[error("the log cannot be written: its disk is full, or the server is stopping")]
    Writer,
}

/// The way to the writer.
#[derive(Clone, Debug)]
pub(crate) struct RequestDoor {
    requests: mpsc::Sender<Request>,
    writer: Arc<Doze>,
}

impl RequestDoor {
    /// To the writer that this wakes.
    pub(crate) fn new(writer: &Arc<Doze>) -> (Self, mpsc::Receiver<Request>) {
        let (requests, taken) = mpsc::channel();
        let writer = Arc::clone(writer);
        (Self { requests, writer }, taken)
    }

    fn ask<T>(&self, request: impl FnOnce(mpsc::SyncSender<T>) -> Request) -> Option<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(request(answer));
        answered.recv_timeout(ANSWER_MAX).ok()
    }

    fn send(&self, request: Request) {
        // A writer that has ended answers nothing.
        let _ = self.requests.send(request);
        self.writer.wake();
    }

    /// Where the log can be copied; blocks until the writer has an answer.
    pub(super) fn cut(&self, lost: Arc<AtomicBool>) -> Result<LogCut, NotHeld> {
        let cut = self.ask(|answer| Request::Cut { answer, lost });
        if cut.is_none() {
            // It may still come to it.
            self.hold(None);
        }
        cut.ok_or(NotHeld::Writer)
    }

    /// Holds only these segments any more.
    pub(crate) fn hold(&self, segments: Option<RangeInclusive<SegmentNumber>>) {
        self.send(Request::Hold(segments));
    }

    /// Which segments hold something. The answer comes once the writer has room, however long that takes; from one that has ended none does.
    pub(crate) fn segments(&self) -> mpsc::Receiver<Vec<HeldSegment>> {
        let (answer, answered) = mpsc::sync_channel(1);
        self.send(Request::Segments(answer));
        answered
    }

    /// Something of a segment is damaged: it has no summary any more, so that the next start looks at it.
    pub(crate) fn note_damaged(&self, segment: SegmentNumber) {
        self.send(Request::Damaged(segment));
    }

    /// Where everything is; blocks until the writer has an answer.
    pub(super) fn places(&self) -> Option<LogPlaces> {
        self.ask(Request::Places)
    }
}

/// Who copies asks by this.
#[derive(Debug)]
pub(crate) struct CopyDoor<D: Disk> {
    pub(crate) jobs: mpsc::Sender<Job<D>>,
    pub(crate) requests: RequestDoor,
    pub(crate) state: Arc<DiskState>,
}

impl<D: Disk> CopyDoor<D> {
    /// Everything that a copy is made of; blocks until reader and writer have answered. `lost` is set when it is not held any
    /// more, since the disk is short of room.
    pub(crate) fn held(&self, lost: &Arc<AtomicBool>) -> Result<HeldData<D::File>, NotHeld> {
        let (answer, answered) = mpsc::sync_channel(1);
        let lost = Arc::clone(lost);
        let _ = self.jobs.send(Job::Held { answer, lost });
        // The reader may be filling a segment; it answers when the writer has.
        let held = answered.recv_timeout(2 * ANSWER_MAX);
        held.unwrap_or(Err(NotHeld::Writer))
    }
}

/// What the writer remembers of it.
#[derive(Debug, Default)]
pub(super) struct Holding(Option<Arc<AtomicBool>>);

impl Holding {
    /// Somebody copies from now on. One who did before has lost.
    pub(super) fn begin(&mut self, lost: Arc<AtomicBool>) {
        self.end(true);
        self.0 = Some(lost);
    }

    /// Whether somebody copies.
    pub(super) const fn is_held(&self) -> bool {
        self.0.is_some()
    }

    /// Nobody copies any more. True if somebody did.
    pub(super) fn end(&mut self, is_lost: bool) -> bool {
        let ended = self.0.take();
        if let (Some(lost), true) = (&ended, is_lost) {
            lost.store(true, Ordering::Release);
        }
        ended.is_some()
    }
}
