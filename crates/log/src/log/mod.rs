//! The writer's side of the log: one owner, one batch under way.
//!
//! Invariants (`check`):
//! - batches are numbered without gaps; `synced <= last`
//! - a batch lies in one segment, behind the header's block, and begins at a multiple of the block size
//! - segments are used in the order of their numbers: those that are ready have higher ones than the active one
//! - the first batches of a segment hold term, vote, commit and checkpoint of every partition

mod cut;
mod opened;
mod roll;
mod segment;
mod space;
mod summing;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::IoSlice,
    ops::RangeInclusive,
};

use courser_contract::{LogIndex, PartitionId};

pub use self::{
    cut::{HeldSegment, LogCut, is_same_segment},
    space::{Space, SpaceState},
};
pub(crate) use self::{
    opened::Opened,
    segment::{Segment, Void, replace},
};

use crate::{
    batch::{Batch, Change, PieceRef, Run, Seal, Tags},
    config::{LogConfig, Planted},
    disk::{Disk, DiskFile},
    error::{BatchPlace, WriteError},
    format::{BLOCK_BYTES, FLAG_WITNESS},
    ids::{BatchNumber, Place, SegmentNumber, StartId, Synced},
    live::LiveEntries,
    places::{LogPlaces, Places},
    prepare::Unwanted,
    read::EntryReader,
    record::{CheckpointAt, HardState},
};

/// See the module.
#[derive(Debug)]
pub struct Log<D: Disk> {
    disk: D,
    pub(crate) config: LogConfig,
    start: StartId,
    /// The last batch that was written.
    last: LastBatch,
    synced: BatchNumber,
    pub(crate) active: Active<D::File>,
    /// Older segments with batches that are not synced yet.
    dirty: Vec<D::File>,
    pub(crate) ready: VecDeque<Ready<D::File>>,
    /// Files in which nothing is live, by the number in their name.
    pub(crate) free: VecDeque<SegmentNumber>,
    /// Files of another size or above need.
    unwanted: Vec<Unwanted>,
    /// Those of them that could not be removed, in the order in which they are tried again.
    stuck: VecDeque<Unwanted>,
    /// Bytes of those that a job is removing.
    leaving_bytes: u64,
    /// The active segment and older ones.
    pub(crate) segments: BTreeMap<SegmentNumber, Segment>,
    pub(crate) partitions: BTreeMap<PartitionId, Known>,
    /// Segments before the active one that have no summary and are to get one.
    unsummed: BTreeSet<SegmentNumber>,
    /// Damaged ones whose summaries are to be removed.
    discredited: BTreeSet<SegmentNumber>,
    /// Segments that are being copied: they are not used again.
    held: Option<RangeInclusive<SegmentNumber>>,
    pub(crate) places: Places,
    /// An entry that is not whole yet, and the places of its pieces so far.
    pieces: Option<(PartitionId, LogIndex, Vec<Place>)>,
    next_segment: SegmentNumber,
    preparing: bool,
    /// The last attempt failed: not again before somebody asks for room or a segment is begun.
    prepare_blocked: bool,
    /// The same of the files that are stuck.
    remove_blocked: bool,
    /// Something may have died since segments were last looked at.
    sweep: bool,
    pub(crate) space: Space,
    /// Bytes of the disk that are not the log's.
    left_free: u64,
    /// The disk had no room for a segment, whatever it says is free, and has given none since.
    gives_none: bool,
    /// There has to be a head before anything else is written, and there was no room for one: damaged segments for which others count again, while none
    /// says so. They stay.
    evidence: Option<BTreeSet<SegmentNumber>>,
    /// For the first batches of segments and for witnesses.
    own: Option<Batch>,
    batches_made: u32,
    failed: bool,
    /// Whether there may be doubted partitions.
    has_doubted: bool,
    counts: LogCounts,
}

/// What the next batch's header says about the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastBatch {
    pub(crate) number: BatchNumber,
    pub(crate) crc: u32,
    pub(crate) partitions: u64,
    pub(crate) is_witness: bool,
}

/// The segment that is written.
#[derive(Debug)]
pub(crate) struct Active<F> {
    pub(crate) segment: SegmentNumber,
    pub(crate) file: F,
    /// Where the next batch goes.
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    /// Last batch of its head: once that is durable, older segments are not needed for hard states.
    pub(crate) head: BatchNumber,
}

/// A segment that can be written next.
#[derive(Debug)]
pub(crate) struct Ready<F> {
    pub(crate) segment: SegmentNumber,
    pub(crate) file: F,
    pub(crate) bytes: u64,
}

/// What the log keeps for each partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) hard_state: Option<HardState>,
    pub(crate) checkpoint: Option<CheckpointAt>,
    pub(crate) live: LiveEntries,
    /// Entries may be lost, and none was written since the log was opened: nobody knows which was the last.
    pub(crate) doubted: bool,
}

/// What was done since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogCounts {
    /// Batches written, heads of segments and witnesses included.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes of the file that they take.
    pub bytes: u64,
    /// Syncs of files with batches.
    pub syncs: u64,
    /// Segments begun.
    pub rolls: u64,
    /// Of those: begun without one that was ready, so that the writer waited.
    pub rolls_unprepared: u64,
    /// Segments made ready by using one again.
    pub recycled: u64,
    /// Segments made ready from nothing.
    pub created: u64,
    /// Segments that were not made ready since a call failed or there was no room.
    pub prepare_failures: u64,
    /// Files removed since they were above need.
    pub removed: u64,
    /// Witnesses written.
    pub witnesses: u64,
    /// Records that a cleaner has moved.
    pub kept_records: u64,
    /// Bytes of them.
    pub kept_bytes: u64,
    /// Segments that are used again since all that was needed of them was moved.
    pub cleaned: u64,
}

impl LogCounts {
    /// Bytes that live traffic has had written: all but what a cleaner has moved.
    #[must_use]
    pub const fn live_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.kept_bytes)
    }
}

impl<D: Disk> Log<D> {
    /// An empty batch for this log. Make one or two and use them again.
    pub fn new_batch(&mut self) -> Batch {
        self.batches_made += 1;
        let tags = Tags::new(self.start, self.batches_made);
        Batch::new(self.config.batch_bytes_max(), tags)
    }

    /// Writes a batch behind the last one, with one `pwritev`; begins a new segment first when this one has no room.
    ///
    /// The batch is then in the system's hands: [`Log::sync`] makes it durable. The caller clears it.
    ///
    /// # Errors
    /// [`WriteError::NoSpace`] when a new segment is needed and cannot be had: nothing was written, the batch can be written
    /// later. All others are final.
    pub fn write(&mut self, batch: &mut Batch) -> Result<BatchPlace, WriteError> {
        self.usable()?;
        if !self.fits(batch) {
            self.roll()?;
        }
        self.put(batch, 0)
    }

    /// Makes all that was written durable, with one `fdatasync` (one more for a segment that was left since the last sync).
    ///
    /// # Errors
    /// All are final: what was not synced must never be acknowledged.
    pub fn sync(&mut self) -> Result<Synced, WriteError> {
        self.usable()?;
        if self.synced < self.last.number {
            let older = std::mem::take(&mut self.dirty);
            for file in older {
                if self.config.has(Planted::ForgetOlderSegment) {
                    break;
                }
                let synced = file.sync();
                self.or_fail("syncing the log", synced)?;
                self.counts.syncs += 1;
            }
            if !self.config.has(Planted::SyncNothing) {
                let synced = self.active.file.sync();
                self.or_fail("syncing the log", synced)?;
            }
            self.counts.syncs += 1;
            self.synced = self.last.number;
        }
        if self.sweep {
            self.free_dead();
        }
        Ok(Synced(self.synced))
    }

    /// Writes and syncs an empty batch that says that all before it is synced, unless the last one said so: for a disk that was
    /// idle for 100 ms and for the end of the process (M44). Gives whether it wrote.
    ///
    /// # Errors
    /// As [`Log::write`] and [`Log::sync`].
    pub fn witness(&mut self) -> Result<bool, WriteError> {
        self.sync()?;
        if self.last.is_witness {
            return Ok(false);
        }
        let own = self.take_own();
        let has_room = self.fits(&own);
        // It writes the next segment's head, too: another one would have its tags.
        self.own = Some(own);
        if !has_room {
            self.roll()?;
        }
        let mut own = self.take_own();
        let written = self.put(&mut own, FLAG_WITNESS);
        self.own = Some(own);
        written?;
        self.counts.witnesses += 1;
        self.sync()?;
        Ok(true)
    }

    /// All batches up to this one are durable.
    #[must_use]
    pub const fn synced(&self) -> Synced {
        Synced(self.synced)
    }

    /// The last batch that was written.
    #[must_use]
    pub const fn last_batch(&self) -> BatchNumber {
        self.last.number
    }

    /// What was done since the log was opened.
    #[must_use]
    pub const fn counts(&self) -> LogCounts {
        self.counts
    }

    /// Sizes that the log was opened with.
    #[must_use]
    pub const fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Segments with something in them, the active one included.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Reads entries of a partition, also on another thread: it knows the places that entries had when it was made. An entry
    /// whose segment was used again meanwhile reads as damaged or unknown, never as another one.
    #[must_use]
    pub fn reader(&self, partition: PartitionId) -> EntryReader<D> {
        let places = self.places.of(partition).cloned().unwrap_or_default();
        EntryReader::new(self.disk.clone(), partition, places, self.ends())
    }

    /// Where everything is now, for a reader on another thread. Cost: that of 24 bytes for each partition
    /// and segment; what is in the segment that is written is copied when it grows again.
    #[must_use]
    pub fn places(&self) -> LogPlaces {
        let known = self.partitions.iter();
        let settled = known.map(|(id, known)| {
            let commit = known.hard_state.map_or(LogIndex(0), |state| state.commit);
            let checkpoint = known.checkpoint.map_or(LogIndex(0), |at| at.index);
            (*id, commit.max(checkpoint))
        });
        LogPlaces {
            places: self.places.clone(),
            settled: settled.collect(),
            ends: self.ends(),
        }
    }

    /// Byte at which the last batch of each segment begins.
    fn ends(&self) -> BTreeMap<SegmentNumber, u64> {
        let segments = self.segments.iter();
        segments.map(|(number, it)| (*number, it.last_at)).collect()
    }

    /// Panics when an invariant of the module does not hold.
    ///
    /// # Panics
    /// See above.
    pub fn check(&self) {
        assert!(
            self.synced <= self.last.number,
            "what is synced was written"
        );
        let block = BLOCK_BYTES as u64;
        assert!(
            self.active.offset >= block
                && self.active.offset.is_multiple_of(block)
                && self.active.offset <= self.active.bytes,
            "batches lie in their segment"
        );
        let mut before = self.active.segment;
        for ready in &self.ready {
            assert!(before < ready.segment, "segments are used in order");
            before = ready.segment;
        }
        assert!(before < self.next_segment, "numbers are not used again");
        let newest = self.segments.last_key_value().map(|(number, _)| *number);
        assert!(
            newest == Some(self.active.segment),
            "the active segment is the newest"
        );
    }

    pub(crate) const fn usable(&self) -> Result<(), WriteError> {
        if self.failed {
            Err(WriteError::Refused)
        } else {
            Ok(())
        }
    }

    /// Remembers a failure: nobody knows what is on the disk now.
    pub(crate) fn or_fail<T>(
        &mut self,
        what: &'static str,
        result: std::io::Result<T>,
    ) -> Result<T, WriteError> {
        result.map_err(|source| {
            self.failed = true;
            WriteError::Failed { what, source }
        })
    }

    /// A segment of another size than the settings now say is left for one that is ready, so that the files of each size are closed by
    /// the head of a later one, which says where they end: how large a file without its header was made is known no more once all
    /// others are of another size.
    fn fits(&self, batch: &Batch) -> bool {
        let is_older = self.active.bytes != self.config.segment_bytes() && !self.ready.is_empty();
        self.evidence.is_none()
            && !is_older
            && self.active.offset + batch.bytes() as u64 <= self.active.bytes
    }

    /// The log's own batch, empty.
    pub(crate) fn take_own(&mut self) -> Batch {
        let limit = self.config.batch_bytes_max();
        let mut own = self
            .own
            .take()
            .unwrap_or_else(|| Batch::new(limit, Tags::new(self.start, 0)));
        own.clear();
        own
    }

    pub(crate) fn put(&mut self, batch: &mut Batch, flags: u16) -> Result<BatchPlace, WriteError> {
        let number = self.last.number.next();
        let header = batch.seal(Seal {
            flags,
            number,
            segment: self.active.segment,
            synced: if self.config.has(Planted::ClaimTooMuch) {
                self.last.number
            } else {
                self.synced
            },
            start: self.start,
            previous_partitions: self.last.partitions,
            previous_crc: self.last.crc,
        });
        let place = Place {
            segment: self.active.segment,
            offset: self.active.offset,
        };
        let parts = [IoSlice::new(batch.blocks())];
        let written = self.active.file.write_at(&parts, place.offset);
        self.or_fail("writing to the log", written)?;
        let bytes = batch.bytes() as u64;
        self.active.offset += bytes;
        self.last = LastBatch {
            number,
            crc: header.crc.get(),
            partitions: batch.partitions(),
            is_witness: flags & FLAG_WITNESS != 0,
        };
        self.counts.batches += 1;
        self.counts.records += u64::from(batch.records());
        self.counts.bytes += bytes;
        self.counts.kept_records += batch.kept().records;
        self.counts.kept_bytes += batch.kept().bytes;
        self.note(batch.changes(), place);
        Ok(BatchPlace {
            number,
            place,
            bytes,
        })
    }

    /// What a written batch changes in the picture.
    fn note(&mut self, changes: &[Change], place: Place) {
        let segment = self.segments.entry(place.segment).or_default();
        segment.last = self.last.number;
        (segment.last_at, segment.last_crc) = (place.offset, self.last.crc);
        let (mut cleaned, mut replaces) = (None, false);
        for change in changes {
            match *change {
                Change::Entries(run) => {
                    segment.note(run);
                    replaces |= self.places.add(run, place);
                }
                Change::Piece(piece) => {
                    segment.note(Run {
                        partition: piece.partition,
                        first: piece.index,
                        last: piece.index,
                    });
                    let (partition, index) = (piece.partition, piece.index);
                    let mut places = match self.pieces.take() {
                        Some((of, at, places)) if (of, at) == (partition, index) => places,
                        Some(_) | None => Vec::new(),
                    };
                    places.push(place);
                    if piece.is_last {
                        replaces |= self.places.add_pieces(partition, index, places);
                    } else {
                        self.pieces = Some((partition, index, places));
                    }
                }
                Change::HardState(partition, state) => {
                    self.partitions.entry(partition).or_default().hard_state = Some(state);
                }
                Change::Kept(run) => {
                    segment.keep(run);
                    self.places.add_kept(run.partition, place);
                }
                Change::Cleaned(number) => {
                    segment.cleaned.push(number);
                    cleaned = Some(number);
                }
            }
        }
        // One of each at most: a cleaner waits for the end of one segment before it begins the next.
        if let Some(segment) = cleaned.and_then(|number| self.segments.get_mut(&number)) {
            segment.moved = Some(self.last.number);
            self.sweep = true;
        }
        if replaces {
            self.void_replaced(changes);
        }
        if self.has_doubted {
            self.end_doubts(changes);
        }
    }

    /// Who writes entries has gone on without those that may be lost.
    #[cold]
    fn end_doubts(&mut self, changes: &[Change]) {
        for change in changes {
            if let Change::Entries(Run { partition, .. })
            | Change::Piece(PieceRef { partition, .. }) = change
                && let Some(known) = self.partitions.get_mut(partition)
            {
                known.doubted = false;
            }
        }
        self.has_doubted = self.partitions.values().any(|known| known.doubted);
    }

    /// What entries of a batch have replaced is void.
    #[cold]
    fn void_replaced(&mut self, changes: &[Change]) {
        for change in changes {
            let (partition, first) = match *change {
                Change::Entries(run) => (run.partition, run.first),
                Change::Piece(piece) => (piece.partition, piece.index),
                Change::HardState(..) | Change::Kept(_) | Change::Cleaned(_) => continue,
            };
            replace(&mut self.segments, partition, first);
        }
    }
}
