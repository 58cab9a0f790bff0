//! The scrub: every segment of the log is read and checked once in a while, so that damage is found before it is needed.
//!
//! A thread of its own reads segments that are not written any more, one after the other, as slowly as `scrub.period` allows. What is
//! damaged may still be in memory: deliveries go on. What it concerns is said, and a partition that would have to replay damaged entries is
//! saved, so that a start does not need them. Messages that still wait need theirs: a start stops their streams there (M44).
//!
//! A start reads no old segment (ADR 22), so it goes on where the process before has stopped (`progress`): a pass takes days.
//!
//! A segment of which something could not be read for a stream that wanted it is looked at before all others, also where the scrub is turned
//! off: the streams that need the same damage and have not come to it are told with that one.
//!
//! Checkpoints that count and the file `node` are read as well, once a period ([`files`]): each start has read them, so nothing of that is noted. A
//! partition has in memory what a damaged one was to keep, and writes another.
//!
//! A segment that is used again while it is read looks damaged: damage counts only if the log still has the segment afterwards.

mod files;
mod missing;
mod progress;
#[cfg(test)]
mod tests;

pub(crate) use self::missing::Missing;
use self::progress::Progress;

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use courser_log::inspect::{InspectError, InspectedDamage, SegmentCheck, check_segment};
use courser_log::{DiskFile, HeldSegment, RealFile, SegmentNumber, is_passing};
use courser_memory::{Component, Scope};

use crate::Status;
use crate::backup::pace::{Pace, SlowFile, Stopped, forget_pages};
use crate::causes::with_causes;
use crate::clock;
use crate::control::Control;
use crate::live::Live;
use crate::node::DataFolder;
use crate::repair::RottenPlace;
use crate::stations::{CopyDoor, Counter, Medium};

/// However little there is, it is read at this pace: a small log is not spread over days byte by byte.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
/// How often settings are looked at while there is nothing to do.
const LOOK: Duration = Duration::from_millis(500);
/// How often it looks whether it is to stop, while the writer does not answer.
const ANSWER_LOOK: Duration = Duration::from_millis(50);
/// Streams that are named for a damage, and in the log of the process.
const NAMED_MAX: usize = 1_000;
const TOLD_MAX: usize = 20;

/// The thread that scrubs.
#[derive(Debug)]
pub(crate) struct Scrub {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Scrub {
    /// Starts it for the log of this folder.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        folder: &DataFolder,
        door: CopyDoor<Medium>,
        control: Control,
        live: Arc<Live>,
    ) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut scrubber = Scrubber {
            data: folder.path().to_owned(),
            folder: folder.log(),
            files_read: Instant::now(),
            checkpoints_seen: 0,
            progress: Progress::read(&folder.scrub()),
            noted_in: folder.scrub(),
            door,
            control,
            live,
            pace: RefCell::new(Pace::new(BYTES_PER_SECOND_MIN, Arc::clone(&stop))),
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new()
            .name("scrub".to_owned())
            .spawn(move || {
                let _scope = Scope::enter(Component::Log);
                // Told to stop.
                let Err(Stopped) = scrubber.run();
            })?;
        Ok(Self { stop, thread })
    }

    /// Tells it to stop; it takes some ten milliseconds.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Stops it and waits for its end.
    pub(crate) fn end(self) {
        self.stop();
        // Its panic was printed when it happened.
        let _ = self.thread.join();
    }
}

struct Scrubber {
    data: PathBuf,
    /// That of the segments.
    folder: PathBuf,
    /// When all files beside them were read the last time.
    files_read: Instant,
    /// How many checkpoints were written when it was looked the last time whether those that were damaged are whole.
    checkpoints_seen: u64,
    progress: Progress,
    /// The file for that.
    noted_in: PathBuf,
    door: CopyDoor<Medium>,
    control: Control,
    live: Arc<Live>,
    pace: RefCell<Pace>,
    stop: Arc<AtomicBool>,
}

impl Scrubber {
    fn run(&mut self) -> Result<std::convert::Infallible, Stopped> {
        loop {
            self.wait_until_due()?;
            self.pass()?;
        }
    }

    /// A shorter period counts at once. What a start reads of the disk, it has for itself.
    fn wait_until_due(&mut self) -> Result<(), Stopped> {
        loop {
            self.rest(LOOK)?;
            self.look_at_suspects()?;
            self.look_at_files()?;
            let period = self.period();
            let may = !period.is_zero() && self.control.status() == Status::Serving;
            if may && self.progress.is_due(clock::system(), period) {
                return Ok(());
            }
        }
    }

    fn period(&self) -> Duration {
        self.live.get().settings.scrub.period
    }

    fn rest(&self, span: Duration) -> Result<(), Stopped> {
        self.pace.borrow().wait_until(Instant::now() + span)
    }

    /// Segments that hold something, the one that is written as the last. A writer without room does not answer: nobody knows then, and
    /// what is known of damage stays (I5).
    fn segments(&self) -> Result<Vec<HeldSegment>, Stopped> {
        let answered = self.door.requests.segments();
        loop {
            match answered.recv_timeout(ANSWER_LOOK) {
                Ok(segments) => return Ok(segments),
                Err(RecvTimeoutError::Timeout) => self.rest(Duration::ZERO)?,
                // A writer that has ended: the process does soon.
                Err(RecvTimeoutError::Disconnected) => self.rest(LOOK)?,
            }
        }
    }

    /// Those that are not written any more.
    fn sealed(&self) -> Result<Vec<HeldSegment>, Stopped> {
        let mut segments = self.segments()?;
        segments.pop();
        Ok(segments)
    }

    /// Reads all that there is once, or what is left of that. Where there is nothing no pass begins: what comes first does not wait for the
    /// next one.
    fn pass(&mut self) -> Result<(), Stopped> {
        let segments = self.sealed()?;
        if segments.is_empty() {
            self.forget_all_but(&segments);
            return Ok(());
        }
        let total: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let next = self.progress.go_on(clock::system());
        for segment in segments.iter().filter(|it| it.segment >= next) {
            self.look_at_suspects()?;
            self.look_at_files()?;
            let period = self.period();
            if period.is_zero() {
                return Ok(());
            }
            self.pace.borrow_mut().set(pace_of(total, period));
            self.segment(segment)?;
            self.progress.passed(segment.segment);
            self.note_progress();
        }
        self.forget_all_but(&self.sealed()?);
        self.progress.end();
        self.note_progress();
        self.door.state.add(Counter::ScrubPasses, 1);
        Ok(())
    }

    /// What was damaged of the others is needed by nobody any more.
    fn forget_all_but(&self, left: &[HeldSegment]) {
        let damage = self.door.state.damage();
        damage.segments_left(|number| left.iter().any(|it| it.segment.0 == number));
    }

    fn note_progress(&self) {
        // Where that cannot be written, perhaps for want of room, the next start goes on from an earlier segment.
        let _written = self.progress.write(&self.noted_in);
    }

    /// Reads segments of which something could not be read, as fast as it goes: somebody waits for what is in them.
    fn look_at_suspects(&mut self) -> Result<(), Stopped> {
        if !self.door.state.damage().is_suspicious() || self.control.status() != Status::Serving {
            return Ok(());
        }
        let mut segments = self.segments()?;
        let written = segments.pop().map(|it| it.segment.0);
        let has = |number| segments.iter().any(|it| it.segment.0 == number);
        let damage = self.door.state.damage();
        let suspects = damage.take_suspects(has, |number| Some(number) == written);
        self.pace.borrow_mut().set(u64::MAX);
        for segment in &segments {
            if suspects.contains(&segment.segment.0) {
                self.segment(segment)?;
            }
        }
        Ok(())
    }

    fn segment(&mut self, segment: &HeldSegment) -> Result<(), Stopped> {
        let check = self.read(segment.segment, |file| check_segment(file, segment))?;
        let check = check.unwrap_or_else(|error| unreadable(segment, &error));
        // One that was used again meanwhile is not that segment any more.
        let is_there = check.damages.is_empty() || self.sealed()?.contains(segment);
        if is_there {
            self.door.state.add(Counter::ScrubbedSegments, 1);
            self.door.state.add(Counter::ScrubbedBytes, segment.bytes);
            self.tell(segment, &check)?;
        }
        Ok(())
    }

    /// Reads a segment at the pace of the pass. What was read until it was told to stop says nothing.
    fn read<T>(
        &self,
        segment: SegmentNumber,
        read: impl FnOnce(SlowFile<'_>) -> Result<T, InspectError>,
    ) -> Result<Result<T, InspectError>, Stopped> {
        let path = self.folder.join(segment.file_name());
        let found = match self.open(&path)? {
            Ok(file) => read(file),
            Err(error) => Err(error.into()),
        };
        forget_pages(&path);
        self.go_on()?;
        Ok(found)
    }

    /// Opens a file to be read at the pace.
    fn open(&self, path: &Path) -> Result<io::Result<SlowFile<'_>>, Stopped> {
        forget_pages(path);
        loop {
            match RealFile::read_only(path) {
                // It says nothing of the file.
                Err(error) if is_passing(&error) => self.rest(LOOK)?,
                Err(error) => return Ok(Err(error)),
                Ok(file) => {
                    let read = |file: &RealFile, buf: &mut [u8], at| self.read_some(file, buf, at);
                    return Ok(Ok(SlowFile::new(file, read)));
                }
            }
        }
    }

    fn go_on(&self) -> Result<(), Stopped> {
        match self.stop.load(Ordering::Acquire) {
            true => Err(Stopped),
            false => Ok(()),
        }
    }

    /// One read of a segment.
    fn read_some(&self, file: &RealFile, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut pace = self.pace.borrow_mut();
        // Others are to be looked at first.
        if self.door.state.damage().is_suspicious() {
            pace.set(u64::MAX);
        }
        pace.spend(buf.len() as u64)?;
        loop {
            match file.read_at(buf, offset) {
                Err(error) if is_passing(&error) => pace.wait_until(Instant::now() + LOOK)?,
                read => return read,
            }
        }
    }

    /// Says what is damaged, and whom that concerns.
    fn tell(&self, segment: &HeldSegment, check: &SegmentCheck) -> Result<(), Stopped> {
        let damage = self.door.state.damage();
        let number = segment.segment.0;
        if check.damages.is_empty() {
            damage.scrubbed(number, Vec::new());
            return Ok(());
        }
        // The next start is to read the segment: what still waits stops its stream then.
        self.door.requests.note_damaged(segment.segment);
        let known = damage.get().rotten;
        let streams = self.concerned(segment, &check.missing)?;
        let messages = streams.values().sum();
        let mut found = Vec::new();
        for (offset, what) in &check.damages {
            found.push(RottenPlace {
                segment: number,
                offset: *offset,
                what: what.to_string(),
                messages,
                streams: streams.keys().take(NAMED_MAX).cloned().collect(),
            });
        }
        let is_new = |place: &&RottenPlace| {
            !known
                .iter()
                .any(|it| (it.segment, it.offset) == (place.segment, place.offset))
        };
        let news: Vec<&RottenPlace> = found.iter().filter(is_new).collect();
        self.door
            .state
            .add(Counter::ScrubDamages, news.len() as u64);
        for place in &news {
            let RottenPlace { offset, what, .. } = place;
            tracing::error!(
                event = "segment_damaged",
                segment = number,
                offset,
                what,
                messages
            );
        }
        if !news.is_empty() {
            for ((partition, stream), messages) in streams.iter().take(TOLD_MAX) {
                let partition = partition.0;
                tracing::error!(event = "stream_needs_damaged", partition, %stream, messages);
            }
        }
        damage.scrubbed(number, found);
        Ok(())
    }
}

/// Bytes a second at which so many are read in half of a period: the disk may be slower than that, and there is more at the end of a pass
/// than at its beginning.
fn pace_of(total: u64, period: Duration) -> u64 {
    let millis = (period.as_millis() / 2).max(1);
    let pace = u128::from(total) * 1_000 / millis;
    u64::try_from(pace)
        .unwrap_or(u64::MAX)
        .max(BYTES_PER_SECOND_MIN)
}

/// Nothing of it can be read.
fn unreadable(segment: &HeldSegment, error: &InspectError) -> SegmentCheck {
    let error = with_causes(error);
    SegmentCheck {
        damages: vec![(0, InspectedDamage::Unreadable { error })],
        missing: segment.entries.clone(),
    }
}
