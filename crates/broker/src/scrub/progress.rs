//! How far the scrub has come: the file `DATA/scrub`, 40 bytes, little endian, checked by a CRC32C over all that stands before it.
//!
//! A start goes on from there, so that what is at the end of a log is read also where no process lives for a whole pass. Nothing depends on
//! it but when a segment is read: it is not synced, and one that is damaged or of another version is as none, with which a pass begins anew.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use courser_contract::WallMs;
use courser_log::SegmentNumber;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::node::replace_unsynced;

const MAGIC: [u8; 8] = *b"CRSSCRUB";
const VERSION: u32 = 1;
/// Flag: the pass has not read all yet.
const UNDER_WAY: u32 = 1;

/// Where a pass is. Without one that is known the next is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// When it began, by the system's clock.
    pub(super) begun: WallMs,
    /// The first segment that it has not read; `None` when it has read all.
    pub(super) next: Option<SegmentNumber>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Layout {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    begun: U64,
    next: U64,
    reserved: U32,
    checksum: U32,
}

const LEN: usize = 40;
const CHECKED: usize = LEN - size_of::<U32>();
const _: () = assert!(size_of::<Layout>() == LEN);

impl Progress {
    /// What the file says; what it says to nobody is as if there were none.
    pub(super) fn read(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap_or_default();
        Self::decode(&bytes).unwrap_or_default()
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// Those of the disk. The file is as it was then.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        replace_unsynced(path, &self.encode())
    }

    /// Whether there is something to read. A clock that was set back says nothing of when the pass began.
    pub(super) fn is_due(&self, now: WallMs, period: Duration) -> bool {
        let since = now.0.checked_sub(self.begun.0).map(Duration::from_millis);
        self.next.is_some() || since.is_none_or(|since| since >= period)
    }

    /// The segment with which a pass goes on, from now on if none is under way.
    pub(super) fn go_on(&mut self, now: WallMs) -> SegmentNumber {
        if self.next.is_none() {
            self.begun = now;
        }
        *self.next.get_or_insert(SegmentNumber(0))
    }

    /// All up to this segment was read.
    pub(super) fn passed(&mut self, segment: SegmentNumber) {
        self.next = Some(SegmentNumber(segment.0 + 1));
    }

    /// All was read.
    pub(super) fn end(&mut self) {
        self.next = None;
    }

    fn encode(&self) -> [u8; LEN] {
        let mut layout = Layout {
            magic: MAGIC,
            version: VERSION.into(),
            flags: self.next.map_or(0, |_| UNDER_WAY).into(),
            begun: self.begun.0.into(),
            next: self.next.map_or(0, |segment| segment.0).into(),
            reserved: 0.into(),
            checksum: 0.into(),
        };
        layout.checksum = crc32c::crc32c(&layout.as_bytes()[..CHECKED]).into();
        zerocopy::transmute!(layout)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let layout = Layout::read_from_bytes(bytes).ok()?;
        let is_ours = layout.magic == MAGIC && layout.version.get() == VERSION;
        let is_whole = crc32c::crc32c(&bytes[..CHECKED]) == layout.checksum.get();
        let is_under_way = layout.flags.get() & UNDER_WAY != 0;
        (is_ours && is_whole).then(|| Self {
            begun: WallMs(layout.begun.get()),
            next: is_under_way.then(|| SegmentNumber(layout.next.get())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEEK: Duration = Duration::from_secs(7 * 86_400);
    const NOW: WallMs = WallMs(1_800_000_000_000);

    fn under_way() -> Progress {
        let mut progress = Progress::default();
        assert_eq!(progress.go_on(NOW), SegmentNumber(0));
        progress.passed(SegmentNumber(6));
        progress
    }

    #[test]
    fn a_pass_is_due_when_none_is_known_while_it_is_under_way_and_a_period_after_its_beginning() {
        let at = |ms: u64| WallMs(NOW.0 + ms);
        let week = 7 * 86_400_000;
        assert!(Progress::default().is_due(NOW, WEEK));
        let mut progress = under_way();
        assert!(progress.is_due(at(1), WEEK));
        // What goes on does not begin again.
        assert_eq!(progress.go_on(at(5)), SegmentNumber(7));
        progress.end();
        for (ms, is_due) in [(0, false), (week - 1, false), (week, true)] {
            assert_eq!(progress.is_due(at(ms), WEEK), is_due, "after {ms} ms");
        }
        assert!(progress.is_due(WallMs(NOW.0 - 1), WEEK), "set back");
        assert_eq!(progress.go_on(at(week)), SegmentNumber(0));
        progress.end();
        assert!(!progress.is_due(at(week + 1), WEEK));
    }

    #[test]
    fn what_is_written_is_read_and_whatever_is_damaged_is_as_nothing() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("scrub");
        assert_eq!(Progress::read(&path), Progress::default(), "no file");
        let mut ended = under_way();
        ended.end();
        for progress in [under_way(), ended] {
            progress.write(&path).expect("there is room");
            assert_eq!(Progress::read(&path), progress);
        }
        let bytes = ended.encode();
        for bit in 0..LEN * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Progress::decode(&bytes), None, "bit {bit}");
        }
        for len in 0..LEN {
            assert_eq!(Progress::decode(&bytes[..len]), None, "{len} bytes");
        }
    }
}
