//! Work that nobody waits for, at a pace that nobody feels.

use std::fs::File;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
#[cfg(test)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use courser_log::{DiskFile, RealFile};
use rustix::fs::Advice;

/// How long it may take until somebody who is told to stop has stopped.
const STEP: Duration = Duration::from_millis(50);
/// What was not used for so long is not made up for.
const CREDIT: Duration = Duration::from_millis(200);

/// Told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

impl From<Stopped> for io::Error {
    fn from(_: Stopped) -> Self {
        io::ErrorKind::Interrupted.into()
    }
}

/// Fills bytes from an offset of a file on, when that may be.
type Read<'a> = dyn Fn(&RealFile, &mut [u8], u64) -> io::Result<()> + 'a;

/// A file that is read only, and not faster than whoever reads it wants.
pub(crate) struct SlowFile<'a> {
    file: RealFile,
    read: Box<Read<'a>>,
}

impl<'a> SlowFile<'a> {
    /// Each read goes by `read`.
    pub(crate) fn new(
        file: RealFile,
        read: impl Fn(&RealFile, &mut [u8], u64) -> io::Result<()> + 'a,
    ) -> Self {
        let read = Box::new(read);
        Self { file, read }
    }
}

impl DiskFile for SlowFile<'_> {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (self.read)(&self.file, buf, offset)
    }

    fn write_at(&self, _bufs: &[IoSlice<'_>], _offset: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What is in memory says nothing about the disk, and is not wanted there afterwards.
pub(crate) fn forget_pages(path: &Path) {
    if let Ok(file) = File::open(path) {
        let _ = rustix::fs::fadvise(&file, 0, None, Advice::DontNeed);
    }
}

/// So many bytes a second, and no more.
#[derive(Debug)]
pub(crate) struct Pace {
    per_second: u64,
    /// When what was done so far may have been done.
    due: Instant,
    stop: Arc<AtomicBool>,
    /// The time of a test, which passes by waiting alone.
    #[cfg(test)]
    clock: Option<Arc<Mutex<Instant>>>,
}

impl Pace {
    /// At least one byte a second, until `stop` is set.
    pub(crate) fn new(per_second: u64, stop: Arc<AtomicBool>) -> Self {
        Self {
            per_second: per_second.max(1),
            due: Instant::now(),
            stop,
            #[cfg(test)]
            clock: None,
        }
    }

    /// The same in a time that passes by waiting alone.
    #[cfg(test)]
    pub(crate) fn with_clock(mut self, clock: Arc<Mutex<Instant>>) -> Self {
        self.due = *clock.lock().expect("nobody panics meanwhile");
        self.clock = Some(clock);
        self
    }

    /// Another pace from now on.
    pub(crate) fn set(&mut self, per_second: u64) {
        self.per_second = per_second.max(1);
    }

    /// So many bytes are done: waits until the next may be.
    pub(crate) fn spend(&mut self, bytes: u64) -> Result<(), Stopped> {
        let due = self.due_after(self.now(), bytes);
        self.wait_until(due)
    }

    /// So many bytes are done now: when the next may be.
    pub(crate) fn due_after(&mut self, now: Instant, bytes: u64) -> Instant {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.per_second);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        let earliest = now.checked_sub(CREDIT).unwrap_or(self.due);
        self.due = self.due.max(earliest) + Duration::from_nanos(nanos);
        self.due
    }

    /// Waits.
    pub(crate) fn wait_until(&self, due: Instant) -> Result<(), Stopped> {
        loop {
            if self.stop.load(Ordering::Acquire) {
                return Err(Stopped);
            }
            let left = due.saturating_duration_since(self.now());
            if left.is_zero() {
                return Ok(());
            }
            self.sleep(left);
        }
    }

    fn now(&self) -> Instant {
        #[cfg(test)]
        if let Some(clock) = &self.clock {
            return *clock.lock().expect("nobody panics meanwhile");
        }
        Instant::now()
    }

    /// For so long at most.
    fn sleep(&self, time: Duration) {
        #[cfg(test)]
        if let Some(clock) = &self.clock {
            *clock.lock().expect("nobody panics meanwhile") += time;
            return;
        }
        thread::sleep(time.min(STEP));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However late somebody is for the next bytes: what was not done within 200 ms is not made up for.
    #[test]
    fn nothing_is_done_faster_than_its_pace() {
        const PER_SECOND: u64 = 1 << 20;
        const PIECE: u64 = 64 << 10;
        let mut pace = Pace::new(PER_SECOND, Arc::default());
        let begun = Instant::now();
        let mut now = begun;
        let mut done = Vec::new();
        for number in 0..200_u64 {
            done.push(now);
            let late = [0, 3, 0, 150, 0, 0, 900, 0][number as usize % 8];
            now = now.max(pace.due_after(now, PIECE)) + Duration::from_millis(late);
        }
        for (first, from) in done.iter().enumerate() {
            for (last, to) in done.iter().enumerate().skip(first) {
                let took = to.duration_since(*from) + CREDIT;
                let may = took.as_nanos() * u128::from(PER_SECOND) / 1_000_000_000;
                let bytes = u128::from(PIECE) * (last - first) as u128;
                assert!(
                    bytes <= may,
                    "{bytes} B from {first} to {last}, {may} may be"
                );
            }
        }
    }

    #[test]
    fn bytes_take_their_time_and_a_stop_does_not() {
        let stop = Arc::new(AtomicBool::new(false));
        let mut pace = Pace::new(1 << 20, Arc::clone(&stop));
        let begun = Instant::now();
        for _ in 0..8 {
            assert_eq!(pace.spend(64 << 10), Ok(()));
        }
        // Half a second of work, less what is not made up for.
        assert!(begun.elapsed() >= Duration::from_millis(290));
        stop.store(true, Ordering::Release);
        let begun = Instant::now();
        assert_eq!(pace.spend(1 << 40), Err(Stopped));
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
