//! From one segment to the next: heads, segments made ready, segments used again.

use std::{collections::BTreeSet, sync::Arc};

use courser_contract::{LogIndex, PartitionId};

use super::{Active, Known, Log, Ready, Segment};
use crate::{
    batch::{Batch, Push},
    config::Planted,
    disk::Disk,
    error::{PrepareError, WriteError},
    format::{BATCH_HEADER_BYTES, BLOCK_BYTES, FLAG_HEAD, FRAME_ALIGN, FRAME_BYTES},
    ids::SegmentNumber,
    kept::KeptEntries,
    live::LiveEntries,
    places::PartitionPlaces,
    prepare::{Made, Make, NewSegment, PrepareJob, Prepared, Remove, Unwanted, Use, write_header},
    record::{CheckpointAt, HardState},
};

/// A record of a head takes at most this much: a frame with eight bytes of data.
const HEAD_RECORD_BYTES_MAX: u64 = (FRAME_BYTES + FRAME_ALIGN) as u64;

/// What a full batch of a head has of no use: its header, records that the next one repeats, and room for less than another one.
const HEAD_WASTE_BYTES_MAX: u64 = BATCH_HEADER_BYTES as u64 + 3 * HEAD_RECORD_BYTES_MAX;

/// Files of one job: some milliseconds each, and the next segment waits behind them.
const REMOVED_AT_ONCE: usize = 16;

impl<D: Disk> Log<D> {
    /// Work that makes one more segment ready, when one is wanted and there is room for it, removes files above need, and writes the summary of a
    /// segment that is full; none while some is under way. Run it on another thread and give the result to [`Log::prepared`]. Call it after each
    /// write and each [`Log::prepared`]; it is cheap when nothing is to be done.
    pub fn prepare(&mut self) -> Option<PrepareJob<D>> {
        if self.preparing || self.failed {
            return None;
        }
        let wanted = self.segments_wanted();
        let lacking = (wanted as usize).saturating_sub(self.ready.len());
        let wants_one = lacking > 0 && !self.prepare_blocked;
        let makes = wants_one && (!self.free.is_empty() || self.has_room_for_one());
        let make = makes.then(|| self.make());
        let remove = self.remove(lacking.saturating_sub(1));
        let summary = self.next_summary();
        if make.is_none() && remove.is_empty() && summary.is_none() {
            return None;
        }
        self.preparing = true;
        Some(PrepareJob {
            disk: self.disk.clone(),
            make,
            remove,
            summary,
        })
    }

    /// Takes what a [`PrepareJob`] has done.
    ///
    /// # Errors
    /// When a sync of it failed: final, as for [`Log::sync`]. What could not be done for another reason is only counted.
    pub fn prepared(&mut self, done: Prepared<D::File>) -> Result<(), WriteError> {
        self.preparing = false;
        self.counts.removed += done.removed.count;
        self.leaving_bytes = 0;
        self.stuck.extend(done.removed.left);
        let made = done.made.map_or(Ok(None), |made| self.made(made));
        let made = made.map(|ready| self.ready.extend(ready));
        // One does not hold up the other: a file that cannot be removed is no reason to have no segment.
        self.prepare_blocked |= self.is_put_off(made)?;
        self.remove_blocked |= self.is_put_off(done.removed.result)?;
        self.measure_space();
        Ok(())
    }

    /// Whether something could not be done, and is tried again with the next segment or look at the disk.
    fn is_put_off(&mut self, result: Result<(), PrepareError>) -> Result<bool, WriteError> {
        match result {
            Ok(()) => Ok(false),
            Err(PrepareError::Unsynced { what, source }) => {
                self.or_fail(what, Err(source)).map(|()| false)
            }
            Err(PrepareError::NoSpace | PrepareError::Failed { .. }) => {
                self.counts.prepare_failures += 1;
                Ok(true)
            }
        }
    }

    /// A segment that was made, if it is of use; the file that became none is not forgotten.
    fn made(&mut self, made: Made<D::File>) -> Result<Option<Ready<D::File>>, PrepareError> {
        if made.was_refused() || made.was_created() {
            self.gives_none = made.was_refused();
        }
        match made.left {
            Some((segment, Use::Again)) => self.free.push_back(segment),
            Some((segment, Use::Room)) => self.unwanted.push(Unwanted {
                segment,
                bytes: self.config.segment_bytes(),
            }),
            None => {}
        }
        let file = made.result?;
        if made.segment < self.active.segment {
            // The writer was faster and made one of its own.
            self.free.push_back(made.segment);
            return Ok(None);
        }
        match made.was_recycled {
            true => self.counts.recycled += 1,
            false => self.counts.created += 1,
        }
        Ok(Some(Ready {
            segment: made.segment,
            file,
            bytes: self.config.segment_bytes(),
        }))
    }

    /// Says that a checkpoint of a partition is durable: of the entries at or below its index only `live` ones are needed.
    /// Segments in which nothing is needed any more are used again. Gives how many became free.
    pub fn set_checkpoint(
        &mut self,
        partition: PartitionId,
        at: CheckpointAt,
        live: LiveEntries,
    ) -> usize {
        let known = self.partitions.entry(partition).or_default();
        known.checkpoint = Some(at);
        known.live = live;
        self.free_dead()
    }

    /// Begins the next segment.
    pub(crate) fn roll(&mut self) -> Result<(), WriteError> {
        let ready = match self.ready.pop_front() {
            Some(ready) => ready,
            None => self.ready_now()?,
        };
        let active = Active {
            segment: ready.segment,
            file: ready.file,
            offset: BLOCK_BYTES as u64,
            bytes: ready.bytes,
            head: self.last.number,
        };
        let fresh = Segment {
            bytes: ready.bytes,
            ..Segment::default()
        };
        self.segments.insert(ready.segment, fresh);
        let before = std::mem::replace(&mut self.active, active);
        if let Some(full) = self.segments.get_mut(&before.segment) {
            full.close();
        }
        self.unsummed.insert(before.segment);
        if self.synced < self.last.number {
            self.dirty.push(before.file);
        }
        self.counts.rolls += 1;
        self.prepare_blocked = false;
        self.remove_blocked = false;
        // Once more: a sync of it that failed before an earlier start may have left a header that only looks durable.
        let header = write_header(&self.active.file, self.new_segment(self.active.segment));
        self.or_fail("writing a segment's header", header)?;
        self.write_head()?;
        self.evidence = None;
        self.measure_space();
        Ok(())
    }

    /// Makes a segment ready while the writer waits.
    fn ready_now(&mut self) -> Result<Ready<D::File>, WriteError> {
        self.counts.rolls_unprepared += 1;
        // A disk that has given none is asked again by a job, and not while all wait.
        if self.free.is_empty() && (self.gives_none || !self.has_room_for_one()) {
            return Err(WriteError::NoSpace);
        }
        let made = self.make().run(&self.disk);
        match self.made(made) {
            Ok(ready) => Ok(ready.expect("its number is the highest")),
            Err(PrepareError::NoSpace) => {
                self.counts.prepare_failures += 1;
                self.measure_space();
                Err(WriteError::NoSpace)
            }
            Err(
                PrepareError::Failed { what, source } | PrepareError::Unsynced { what, source },
            ) => self.or_fail(what, Err(source)),
        }
    }

    fn make(&mut self) -> Make {
        let segment = self.next_segment;
        self.next_segment = segment.next();
        Make {
            new: self.new_segment(segment),
            recycle: self.free.pop_front(),
            leaves: self.left_free,
        }
    }

    /// Some of the files above need, when so many more are to be made ready: the others are for the next jobs, so that none is long. Those that
    /// could not be removed come last, so that they keep no other one waiting, however many they are.
    fn remove(&mut self, lacking: usize) -> Remove {
        let keep = self.config.spare_segments as usize + lacking;
        let above = self.free.len().saturating_sub(keep);
        let count = REMOVED_AT_ONCE.min(self.unwanted.len());
        let mut files: Vec<Unwanted> = self.unwanted.drain(..count).collect();
        let count = above.min(REMOVED_AT_ONCE - files.len());
        let bytes = self.config.segment_bytes();
        let free = self.free.drain(..count);
        files.extend(free.map(|segment| Unwanted { segment, bytes }));
        if !self.remove_blocked {
            let count = self.stuck.len().min(REMOVED_AT_ONCE - files.len());
            files.extend(self.stuck.drain(..count));
        }
        self.leaving_bytes = files.iter().map(|file| file.bytes).sum();
        Remove {
            files,
            summaries: std::mem::take(&mut self.discredited),
            syncs_folder: !self.config.has(Planted::SkipFolderSync),
        }
    }

    pub(crate) fn new_segment(&self, segment: SegmentNumber) -> NewSegment {
        NewSegment {
            segment,
            bytes: self.config.segment_bytes(),
            node: self.config.node,
            start: self.start,
            syncs_folder: !self.config.has(Planted::SkipFolderSync),
        }
    }

    /// Writes a head where the log goes on: in this segment, or in the next one when this has no room for it. Gives whether there was room.
    pub(crate) fn begins_or_rolls(&mut self) -> Result<bool, WriteError> {
        let limit = self.config.batch_bytes_max() as u64;
        let facts = self.partitions.values().map(|known| {
            let facts = [
                known.hard_state.is_some(),
                known.checkpoint.is_some(),
                !known.doubted,
            ];
            facts.iter().filter(|it| **it).count()
        });
        let records = self.sealed().count() + facts.sum::<usize>();
        let batches = records as u64 * HEAD_RECORD_BYTES_MAX / (limit - HEAD_WASTE_BYTES_MAX) + 1;
        let is_new = self.active.offset == BLOCK_BYTES as u64;
        if is_new || self.active.offset + batches * limit <= self.active.bytes {
            return self.write_head().map(|()| true);
        }
        self.rolled_if_room()
    }

    /// Writes what makes older segments unnecessary: term, vote, commit, checkpoint and last entry of every partition, and which batch is
    /// the last of each older segment.
    pub(crate) fn write_head(&mut self) -> Result<(), WriteError> {
        let mut own = self.take_own();
        let written = self.write_head_with(&mut own);
        self.own = Some(own);
        self.active.head = self.last.number;
        self.sweep = true;
        written
    }

    fn write_head_with(&mut self, own: &mut Batch) -> Result<(), WriteError> {
        let (mut is_full, mut again) = (false, Vec::new());
        // Newest first: what does not fit into one batch is the oldest.
        for (number, segment) in self.sealed().rev() {
            let last = segment.end(self.config.has(Planted::ForgetLost));
            is_full = is_full || own.push_sealed(number, last) == Push::Full;
            if is_full && segment.counts_again {
                again.push((number, last));
            }
        }
        for (number, last) in again {
            while own.push_sealed(number, last) == Push::Full {
                self.put(own, FLAG_HEAD)?;
                own.clear();
            }
        }
        // Batches below name the partitions that are theirs alone.
        let partitions: Vec<(PartitionId, Facts)> = self
            .partitions
            .iter()
            .map(|(partition, known)| {
                let facts = Facts {
                    hard_state: known.hard_state,
                    checkpoint: known.checkpoint,
                    last: self.last_of(*partition, known),
                };
                (*partition, facts)
            })
            .collect();
        for (partition, known) in &partitions {
            if self.config.has(Planted::HeadWithoutHardStates) {
                break;
            }
            while !push_facts(own, *partition, known) {
                self.put(own, FLAG_HEAD)?;
                own.clear();
            }
        }
        self.put(own, FLAG_HEAD)?;
        Ok(())
    }

    /// Segments before the active one that hold something. One that was cleaned does not, although it may not be free yet: what is named here
    /// behind the record that calls it so counts again.
    fn sealed(&self) -> impl DoubleEndedIterator<Item = (SegmentNumber, &Segment)> {
        let older = self.segments.range(..self.active.segment);
        let older = older.filter(|(_, segment)| segment.moved.is_none());
        older.map(|(number, segment)| (*number, segment))
    }

    /// Says durably which segments count again. Until then the log calls them cleaned, and a start that finds nothing damaged any more would use
    /// them again, while what was moved may be gone with what was damaged, or since they held the same. On a disk without room for it nothing else
    /// is written before, and what is damaged stays where it is: the next head says it.
    pub(crate) fn count_again(
        &mut self,
        damaged: BTreeSet<SegmentNumber>,
    ) -> Result<(), WriteError> {
        let mut own = self.take_own();
        let forgets_lost = self.config.has(Planted::ForgetLost);
        let mut again = self.sealed().filter(|(_, segment)| segment.counts_again);
        let is_all = again.all(|(number, segment)| {
            own.push_sealed(number, segment.end(forgets_lost)) == Push::Taken
        });
        drop(again);
        let in_place = is_all && self.fits(&own);
        let written = match in_place {
            true => self.put(&mut own, FLAG_HEAD).map(drop),
            false => Ok(()),
        };
        self.own = Some(own);
        written?;
        if !in_place {
            self.evidence = Some(damaged);
            if !self.rolled_if_room()? {
                self.free_dead();
                self.rolled_if_room()?;
            }
        }
        self.sync().map(drop)
    }

    /// Whether there was room for the next segment.
    fn rolled_if_room(&mut self) -> Result<bool, WriteError> {
        match self.roll() {
            Ok(()) => Ok(true),
            Err(WriteError::NoSpace) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// No entry of a partition above this one has been written, if that is known. One that is not whole yet counts: a part of it may be before.
    fn last_of(&self, partition: PartitionId, known: &Known) -> Option<LogIndex> {
        if known.doubted {
            return None;
        }
        let places = self.places.of(partition);
        let there = places.and_then(PartitionPlaces::last);
        let there = there.unwrap_or(LogIndex(0));
        let open = self.pieces.iter().filter(|(of, ..)| *of == partition);
        let open = open.map(|(_, index, _)| *index).max();
        // Those below a checkpoint may be gone with their segments.
        let saved = known.checkpoint.map(|at| at.index);
        Some(there.max(open.unwrap_or(there)).max(saved.unwrap_or(there)))
    }

    /// Whether nothing of a segment is needed.
    fn is_dead(&self, segment: &Segment) -> bool {
        let unneeded = |(partition, (first, last)): (&PartitionId, &_)| {
            self.partitions.get(partition).is_some_and(|known| {
                let covered = known.checkpoint.is_some_and(|at| *last <= at.index);
                let is_live = known.live.overlaps(*first, *last);
                covered && (!is_live || self.config.has(Planted::FreeLiveSegments))
            })
        };
        let is_unkept = |(partition, kept): (&PartitionId, &Arc<KeptEntries>)| {
            self.partitions
                .get(partition)
                .is_some_and(|known| !kept.overlaps(&known.live))
                || self.config.has(Planted::FreeKept)
        };
        let was_moved = segment.moved.is_some_and(|batch| batch <= self.synced);
        segment.in_doubt == 0
            && (was_moved
                || segment.ranges.iter().all(unneeded) && segment.kept.iter().all(is_unkept))
    }

    /// Whether somebody copies it.
    fn is_held(&self, segment: SegmentNumber) -> bool {
        let held = self.held.as_ref();
        held.is_some_and(|held| held.contains(&segment)) && !self.config.has(Planted::IgnoreHold)
    }

    /// Frees segments before the active one in which nothing is needed. Only below a head that is durable: until then they hold
    /// the last hard states.
    pub(crate) fn free_dead(&mut self) -> usize {
        let is_early = self.synced < self.active.head;
        let is_moving = |segment: &Segment| segment.moved.is_some_and(|it| it > self.synced);
        self.sweep = is_early || self.segments.values().any(is_moving);
        if is_early {
            return 0;
        }
        let evidence = self.evidence.as_ref();
        let is_evidence = |number| evidence.is_some_and(|evidence| evidence.contains(number));
        let dead: BTreeSet<SegmentNumber> = self
            .segments
            .range(..self.active.segment)
            .filter(|(number, segment)| !self.is_held(**number) && self.is_dead(segment))
            .filter(|(number, _)| !is_evidence(number))
            .map(|(number, _)| *number)
            .collect();
        for number in &dead {
            let segment = self.segments.remove(number);
            self.unsummed.remove(number);
            let was_moved = segment.as_ref().is_some_and(|it| it.moved.is_some());
            self.counts.cleaned += u64::from(was_moved);
            // Of a file with blocks that cannot be read, a start could not tell where the log ends.
            let is_sound = segment.as_ref().is_some_and(|it| !it.is_damaged);
            match segment.map_or(0, |segment| segment.bytes) {
                bytes if bytes == self.config.segment_bytes() && is_sound => {
                    self.free.push_back(*number);
                }
                bytes => self.unwanted.push(Unwanted {
                    segment: *number,
                    bytes,
                }),
            }
        }
        if !dead.is_empty() {
            self.places.forget(&dead);
        }
        dead.len()
    }
}

/// What a head says of a partition.
#[derive(Clone, Copy, Debug)]
struct Facts {
    hard_state: Option<HardState>,
    checkpoint: Option<CheckpointAt>,
    last: Option<LogIndex>,
}

/// Whether all facts of a partition found room.
fn push_facts(own: &mut Batch, partition: PartitionId, known: &Facts) -> bool {
    // Facts are repeated when a batch ends between them: the later ones say the same.
    let state = known.hard_state;
    let pushed = state.is_none_or(|state| own.push_hard_state(partition, state) == Push::Taken);
    pushed
        && known
            .checkpoint
            .is_none_or(|at| own.push_checkpoint(partition, at) == Push::Taken)
        && known
            .last
            .is_none_or(|last| own.push_last(partition, last) == Push::Taken)
}
