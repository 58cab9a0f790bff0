//! Making segments ready ahead of need, and removing those above it: the slow part, a value that is sent to another thread and run there.
//!
//! A segment that is ready has its number in its name and in its header, all of its blocks are allocated and written once,
//! and file and name are durable: rolling into it changes no metadata. Zeros are written and not only reserved, because the
//! first write into a block that was only reserved changes metadata again, which the next sync would pay for.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeSet,
    io::{self, IoSlice},
};

use zerocopy::{
    FromZeros, IntoBytes,
    little_endian::{U16, U32, U64},
};

use crate::{
    disk::{Disk, DiskFile, is_full, is_passing},
    error::PrepareError,
    format::{BLOCK_BYTES, Header, SEGMENT_MAGIC, SEGMENT_VERSION, SegmentHeader},
    ids::{NodeIdentity, SegmentNumber, StartId},
    summary::{Summary, forget},
};

/// Zeros of one write.
const FILL_BYTES: usize = 1 << 20;

/// Zeros that are made durable together: little enough that the writer's own syncs do not wait long behind them.
const FILL_SYNC_BYTES: u64 = 4 << 20;

/// What a new segment's header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewSegment {
    pub(crate) segment: SegmentNumber,
    pub(crate) bytes: u64,
    pub(crate) node: NodeIdentity,
    pub(crate) start: StartId,
    /// Always, but for a planted bug.
    pub(crate) syncs_folder: bool,
}

/// A segment to be made ready, and files to be removed; may take some 100 ms of disk time, so it runs where nobody waits.
#[derive(Debug)]
#[must_use = "a job does nothing until it is run, and the log waits for what it gives"]
pub struct PrepareJob<D> {
    pub(crate) disk: D,
    pub(crate) make: Option<Make>,
    pub(crate) remove: Remove,
    pub(crate) summary: Option<Summary>,
}

/// What came of a [`PrepareJob`]; for [`crate::Log::prepared`].
#[derive(Debug)]
pub struct Prepared<F> {
    pub(crate) made: Option<Made<F>>,
    pub(crate) removed: Removed,
}

impl<F> Prepared<F> {
    /// Why no segment was made, when one was to be.
    #[must_use]
    pub fn error(&self) -> Option<&PrepareError> {
        let made = self.made.as_ref();
        made.and_then(|made| made.result.as_ref().err())
    }

    /// How many files were removed, or why one was not.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub fn removed(&self) -> Result<u64, &PrepareError> {
        self.removed.result.as_ref().map(|()| self.removed.count)
    }
}

impl<D: Disk> PrepareJob<D> {
    /// Does the work.
    pub fn run(self) -> Prepared<D::File> {
        let made = self.make.map(|make| make.run(&self.disk));
        // Last: files that cannot be removed are no reason to have no segment.
        let removed = self.remove.run(&self.disk);
        if let Some(summary) = self.summary {
            summary.write(&self.disk);
        }
        Prepared { made, removed }
    }
}

/// A file that is above need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unwanted {
    pub(crate) segment: SegmentNumber,
    pub(crate) bytes: u64,
}

/// Files that are above need, to be removed.
#[derive(Debug)]
pub(crate) struct Remove {
    pub(crate) files: Vec<Unwanted>,
    /// Segments of which the summary alone is to go.
    pub(crate) summaries: BTreeSet<SegmentNumber>,
    /// Always, but for a planted bug.
    pub(crate) syncs_folder: bool,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Removed {
    /// So many are.
    pub(crate) count: u64,
    /// Those that are still there.
    pub(crate) left: Vec<Unwanted>,
    /// Why the first of them is, or a sync that failed.
    pub(crate) result: Result<(), PrepareError>,
}

impl Remove {
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty() && self.summaries.is_empty()
    }

    /// Their room is there once their names are durably gone, and not before. One that cannot be removed holds up no other.
    pub(crate) fn run<D: Disk>(self, disk: &D) -> Removed {
        let (mut left, mut count) = (Vec::new(), 0);
        let mut result = Ok(());
        // One that stays is tried again when the damage is found again.
        let summaries = self.summaries.iter();
        let forgotten = summaries.filter(|it| disk.remove(&it.summary_name()).is_ok());
        let forgotten = forgotten.count();
        for file in self.files {
            forget(disk, file.segment);
            match disk.remove(&file.segment.file_name()) {
                Ok(()) => count += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => count += 1,
                Err(error) => {
                    left.push(file);
                    result = result.and(Err(failed("removing a spare segment")(error)));
                }
            }
        }
        if self.syncs_folder && (count > 0 || forgotten > 0) {
            // What is left is still there in either case; a failed sync counts for more.
            result = sync_folder(disk).and(result);
        }
        Removed {
            count,
            left,
            result,
        }
    }
}

/// A segment to be made ready.
#[derive(Debug)]
pub(crate) struct Make {
    pub(crate) new: NewSegment,
    /// A file in which nothing is live, to be used again.
    pub(crate) recycle: Option<SegmentNumber>,
    /// What a new file is to leave of the disk.
    pub(crate) leaves: u64,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Made<F> {
    pub(crate) segment: SegmentNumber,
    pub(crate) was_recycled: bool,
    /// Where none was made: the file that was to be used again, under the number that it has now, and what it is good for.
    pub(crate) left: Option<(SegmentNumber, Use)>,
    pub(crate) result: Result<F, PrepareError>,
}

impl<F> Made<F> {
    /// Whether the disk had no room for it.
    pub(crate) const fn was_refused(&self) -> bool {
        matches!(self.result, Err(PrepareError::NoSpace))
    }

    /// Whether the disk has given room that it had not given before.
    pub(crate) const fn was_created(&self) -> bool {
        self.result.is_ok() && !self.was_recycled
    }
}

/// What a file is good for that did not become a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// To be tried again: there was no room, or something was not to be had for the moment.
    Again,
    /// Its room alone: what failed may fail for good, and would stand in the way of a new file.
    Room,
}

impl Use {
    fn after(error: &PrepareError) -> Self {
        match error {
            PrepareError::NoSpace => Self::Again,
            PrepareError::Failed { source, .. } | PrepareError::Unsynced { source, .. } => {
                match is_passing(source) {
                    true => Self::Again,
                    false => Self::Room,
                }
            }
        }
    }
}

impl Make {
    pub(crate) fn run<D: Disk>(mut self, disk: &D) -> Made<D::File> {
        let was_recycled = self.recycle.is_some();
        let result = match self.recycle {
            Some(old) => self.recycled(disk, old),
            None => self.created(disk),
        };
        let error = result.as_ref().err();
        let left = error.and_then(|error| Some((self.recycle?, Use::after(error))));
        Made {
            segment: self.new.segment,
            was_recycled,
            left,
            result,
        }
    }

    /// The name first: until the header is written, the old number in it says that the file holds nothing.
    ///
    /// A file that did not get its new header is no worse than before: whatever is in it then, it is not written as a segment before a whole
    /// header under a higher number was synced. So a sync of the header that finds no room is none that failed for the log. One of the folder
    /// is: it stands for all names that were changed before it, and nobody knows which of them are durable.
    fn recycled<D: Disk>(&mut self, disk: &D, old: SegmentNumber) -> Result<D::File, PrepareError> {
        let name = self.new.segment.file_name();
        disk.rename(&old.file_name(), &name)
            .map_err(failed("renaming a segment"))?;
        self.recycle = Some(self.new.segment);
        forget(disk, old);
        self.sync_folder(disk)?;
        let file = disk
            .open(&name)
            .map_err(failed("opening a recycled segment"))?;
        self.is_of_this_size(&file)
            .map_err(failed("using a segment again"))?;
        write_header(&file, self.new).map_err(failed("writing a segment's header"))?;
        sync_unused(&file, "syncing a segment's header")?;
        Ok(file)
    }

    /// The header of a file of another length would say what is not so, and a file that is shorter than its header says is damaged.
    fn is_of_this_size<F: DiskFile>(&self, file: &F) -> io::Result<()> {
        match file.len()? == self.new.bytes {
            true => Ok(()),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    fn created<D: Disk>(&self, disk: &D) -> Result<D::File, PrepareError> {
        let name = format!("{:010}.new", self.new.segment.0);
        let file = disk.create(&name).map_err(failed("creating a segment"))?;
        // All at once: a disk that gives less than it says is not filled to its last block to find that out.
        let reserved = file.reserve(self.new.bytes, self.leaves);
        let reserved = reserved.map_err(failed("taking room for a segment"));
        let filled = reserved.and_then(|()| fill(&file, self.new));
        let named = filled.and_then(|()| {
            disk.rename(&name, &self.new.segment.file_name())
                .map_err(failed("renaming a segment"))
        });
        if let Err(error) = named {
            drop(file);
            // What is left is removed at the next start if not now.
            let _removed = disk.remove(&name);
            return Err(error);
        }
        self.sync_folder(disk)?;
        Ok(file)
    }

    fn sync_folder<D: Disk>(&self, disk: &D) -> Result<(), PrepareError> {
        match self.new.syncs_folder {
            true => sync_folder(disk),
            false => Ok(()),
        }
    }
}

fn sync_folder(disk: &impl Disk) -> Result<(), PrepareError> {
    let synced = disk.sync_dir();
    synced.map_err(unsynced("syncing the log's folder"))
}

fn failed(what: &'static str) -> impl FnOnce(io::Error) -> PrepareError {
    move |source| {
        if is_full(&source) {
            PrepareError::NoSpace
        } else {
            PrepareError::Failed { what, source }
        }
    }
}

fn unsynced(what: &'static str) -> impl FnOnce(io::Error) -> PrepareError {
    move |source| PrepareError::Unsynced { what, source }
}

/// The zeros begin where a block may, so that they take the way past the page cache: nothing is copied, and no pages are left that
/// the batches to come would have to drop.
fn fill<F: DiskFile>(file: &F, new: NewSegment) -> Result<(), PrepareError> {
    let len = FILL_BYTES.min(usize::try_from(new.bytes).unwrap_or(FILL_BYTES));
    let memory = vec![0; len + BLOCK_BYTES];
    let from = memory.as_ptr().align_offset(BLOCK_BYTES);
    let zeros = &memory[from..from + len];
    let (mut at, mut synced) = (0, 0);
    while at < new.bytes {
        let len = usize::try_from(new.bytes - at).unwrap_or(FILL_BYTES);
        let len = len.min(zeros.len());
        file.write_at(&[IoSlice::new(&zeros[..len])], at)
            .map_err(failed("filling a segment with zeros"))?;
        at += len as u64;
        if at - synced >= FILL_SYNC_BYTES {
            sync_unused(file, "syncing a new segment")?;
            synced = at;
        }
    }
    write_header(file, new).map_err(failed("writing a segment's header"))?;
    sync_unused(file, "syncing a new segment")
}

/// A file system that finds room as late as at the sync says here that it has none: the file is not in use yet, and nothing that was written
/// into it is counted on.
fn sync_unused<F: DiskFile>(file: &F, what: &'static str) -> Result<(), PrepareError> {
    file.sync().map_err(|source| {
        if is_full(&source) {
            PrepareError::NoSpace
        } else {
            unsynced(what)(source)
        }
    })
}

/// Writes the first block of a segment.
pub(crate) fn write_header<F: DiskFile>(file: &F, new: NewSegment) -> io::Result<()> {
    let mut header = SegmentHeader::new_zeroed();
    header.magic = SEGMENT_MAGIC;
    header.version = U16::new(SEGMENT_VERSION);
    header.block_bytes = U32::new(BLOCK_BYTES as u32);
    header.segment = U64::new(new.segment.0);
    header.segment_bytes = U64::new(new.bytes);
    header.node = U64::new(new.node.0);
    header.start = U32::new(new.start.counter);
    header.word = U64::new(new.start.word);
    header.seal();
    let mut block = [0; BLOCK_BYTES];
    block[..size_of::<SegmentHeader>()].copy_from_slice(header.as_bytes());
    file.write_at(&[IoSlice::new(&block)], 0)
}
