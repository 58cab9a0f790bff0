//! One partition out of its checkpoint, in slices.

mod ahead;
#[cfg(test)]
mod tests;

use courser_cluster::Restored;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_engine::{AsideFilters, Partition, Restore, RestoreError};
use courser_log::{
    CheckpointAt, CheckpointError, CheckpointReader, Disk, Place, ReadEntry, ReadError,
    RecoveredEntry, SegmentNumber, SharedBatches,
};

pub(crate) use self::ahead::ReadAhead;
use crate::causes::with_causes;
use crate::partition_limits::PartitionLimits;
use crate::repair::Fault;
use crate::repair::judge::{Fate, Serves};
use crate::shard::partitions::config;
use crate::slots::Places;
use crate::stations::{Found, Medium};

/// Pieces of a checkpoint that one slice reads: 512 KiB.
const PIECES: usize = 8;
/// Entries of the log that one slice reads or applies.
const ENTRIES: usize = 256;
/// Records that wait are read at a start if they have fewer bytes: those of all partitions take tens of milliseconds, and are there when
/// their sessions come. More stay in the log until somebody asks for them.
const READ_BYTES: u64 = 4 << 20;
/// Batches with records that a cleaner has moved, of which one slice reads so many.
const KEPT_BATCHES: usize = 4;

/// How far it is.
enum Stage {
    /// Pieces are taken.
    Pieces(Box<Restore>),
    /// Records that a cleaner has moved are taken; then entries of these ranges.
    Kept(Box<Restore>, Vec<(LogIndex, LogIndex)>),
    /// Entries that the checkpoint needs are taken: those that are left, last first.
    Entries(Box<Restore>, Vec<(LogIndex, LogIndex)>),
    /// Of one that is set aside, entries behind the checkpoint are applied: so many are.
    Replay(Box<Partition>, usize),
}

/// A partition that is being made.
pub(crate) struct Making {
    found: Found<Medium>,
    /// None before the first slice.
    stage: Option<Stage>,
}

/// A partition that is made.
pub(crate) struct Made {
    /// Which.
    pub(crate) id: PartitionId,
    /// Out of the checkpoint at this entry; none: it is empty.
    pub(crate) partition: Option<(Box<Partition>, CheckpointAt)>,
    /// The same of partition 0: its bytes.
    pub(crate) metadata: Option<(Vec<u8>, CheckpointAt)>,
    /// It begins with nothing, behind this entry.
    pub(crate) began_behind: Option<LogIndex>,
    /// What follows.
    pub(crate) fate: MadeFor,
}

/// What a partition is made for.
pub(crate) enum MadeFor {
    /// It serves, with this group.
    Group(Restored, Serves),
    /// It is set aside.
    Aside(Fault, AsideFilters),
}

/// Whether an entry is the partition's: those without data are of the consensus, which begins each term with one.
pub(crate) fn is_of_partition(entry: &RecoveredEntry) -> bool {
    !entry.data.is_empty()
}

/// Before all of a log.
const BEGIN: Place = Place {
    segment: SegmentNumber(0),
    offset: 0,
};

/// The first index is done with.
fn pop_first(ranges: &mut Vec<(LogIndex, LogIndex)>) {
    if let Some((first, last)) = ranges.pop()
        && first < last
    {
        ranges.push((first.next(), last));
    }
}

/// Why no more of a partition can be made.
enum Stop {
    /// What is there makes no partition.
    Content(RestoreError),
    /// The disk does not give it, which says nothing of what is there.
    Disk(ReadError),
}

impl From<RestoreError> for Stop {
    fn from(error: RestoreError) -> Self {
        Self::Content(error)
    }
}

/// Why a checkpoint makes no partition.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unmade {
    #[error(transparent)]
    File(#[from] CheckpointError),
    #[error(transparent)]
    Content(#[from] RestoreError),
}

/// Takes some pieces. Whether the last one has come.
fn take_pieces(
    reader: &mut CheckpointReader<<Medium as Disk>::File>,
    restore: &mut Restore,
) -> Result<bool, Unmade> {
    for _ in 0..PIECES {
        match reader.next_piece()? {
            Some(piece) => restore.piece(&piece)?,
            None => return Ok(true),
        }
    }
    Ok(false)
}

/// All pieces have come: what follows them. `may_stay`: records may stay in the log.
fn wanted(mut restore: Box<Restore>, may_stay: bool) -> Result<Stage, Unmade> {
    if may_stay {
        restore.leave_cold(READ_BYTES);
    }
    let wanted = restore.wanted()?;
    let mut ranges: Vec<_> = wanted.ranges().collect();
    ranges.reverse();
    Ok(match ranges.is_empty() {
        true => Stage::Entries(restore, ranges),
        false => Stage::Kept(restore, ranges),
    })
}

impl Making {
    /// Of what was found.
    pub(crate) const fn new(found: Found<Medium>) -> Self {
        Self { found, stage: None }
    }

    /// One slice. The partition, when this was the last. A checkpoint that cannot be read sets it aside; an entry that the
    /// checkpoint needs and that is damaged makes what needs it stop there.
    ///
    /// # Errors
    /// When the disk does not give an entry that the log has. That is final: taken for damage it would be lost with the next checkpoint,
    /// and be there all the while. The next start reads its segment first.
    pub(crate) fn go_on(
        &mut self,
        places: &Places,
        limits: &PartitionLimits,
    ) -> Result<Option<Made>, ReadError> {
        if self.found.id == Places::METADATA {
            return Ok(Some(self.metadata()));
        }
        let config = config(self.found.id, places, limits);
        let stage = match self.stage.take() {
            Some(stage) => stage,
            None if self.found.pieces.is_some() => Stage::Pieces(Box::new(Restore::new(config))),
            // Of a state that is lost there is nothing to go on from.
            None if self.is_lost() => return Ok(Some(self.made(None))),
            None => Stage::Replay(Box::new(Partition::new(config)), 0),
        };
        match stage {
            Stage::Pieces(restore) => match self.pieces(restore) {
                Ok(next) => self.stage = Some(next),
                Err(unmade) => return Ok(Some(self.unmade(&unmade))),
            },
            Stage::Kept(mut restore, ranges) => match self.kept(&mut restore) {
                Ok(true) => self.stage = Some(Stage::Kept(restore, ranges)),
                Ok(false) => self.stage = Some(Stage::Entries(restore, ranges)),
                Err(stop) => return self.stopped(stop).map(Some),
            },
            Stage::Entries(mut restore, mut ranges) => {
                let taken = self.entries(&mut restore, &mut ranges);
                let next = match taken {
                    Ok(()) if ranges.is_empty() => restore
                        .finish()
                        .map(|partition| Stage::Replay(Box::new(partition), 0))
                        .map_err(Stop::from),
                    Ok(()) => Ok(Stage::Entries(restore, ranges)),
                    Err(stop) => Err(stop),
                };
                match next {
                    Ok(next) => self.stage = Some(next),
                    Err(stop) => return self.stopped(stop).map(Some),
                }
            }
            Stage::Replay(partition, done) => return Ok(self.replay(partition, done)),
        }
        Ok(None)
    }

    /// Whether it wants entries out of the log, and nothing else.
    pub(crate) fn is_reading(&self) -> bool {
        matches!(&self.stage, Some(Stage::Entries(_, ranges)) if !ranges.is_empty())
    }

    /// Where the next entry that it wants is looked for. None: it has all, and goes on by [`Making::go_on`].
    pub(crate) fn next_place(&mut self) -> Option<Place> {
        let Some(Stage::Entries(restore, ranges)) = &mut self.stage else {
            return None;
        };
        while let Some((first, _)) = ranges.last().copied() {
            if restore.is_wanting(first) {
                // What is nowhere is found to be so at once.
                return Some(self.found.entries.next_place(first).unwrap_or(BEGIN));
            }
            pop_first(ranges);
        }
        None
    }

    /// For those who read together.
    pub(crate) fn shared_batches(&self) -> SharedBatches<Medium> {
        self.found.entries.shared()
    }

    /// Looks into the batch at [`Making::next_place`], and takes what is wanted of it. As [`Making::go_on`].
    ///
    /// # Errors
    /// As [`Making::go_on`].
    pub(crate) fn look(
        &mut self,
        batches: &mut SharedBatches<Medium>,
    ) -> Result<Option<Made>, ReadError> {
        let Some(at) = self.next_place() else {
            return Ok(None);
        };
        while self.next_place() == Some(at) {
            let Some(Stage::Entries(mut restore, mut ranges)) = self.stage.take() else {
                break;
            };
            let Some((index, _)) = ranges.last().copied() else {
                break;
            };
            let read = self.found.entries.look(index, batches).transpose();
            let taken = match read {
                // In the next batch perhaps.
                None => Ok(()),
                Some(read) => {
                    pop_first(&mut ranges);
                    self.take_entry(&mut restore, index, read)
                }
            };
            if let Err(stop) = taken {
                return self.stopped(stop).map(Some);
            }
            self.stage = Some(Stage::Entries(restore, ranges));
        }
        Ok(None)
    }

    /// Damage sets the partition aside, a disk that fails ends the start.
    fn stopped(&mut self, stop: Stop) -> Result<Made, ReadError> {
        match stop {
            Stop::Content(error) => Ok(self.unmade(&error.into())),
            Stop::Disk(error) => Err(error),
        }
    }

    /// Partition 0 has all of its state in its pieces, and few of them.
    fn metadata(&mut self) -> Made {
        let read = self.found.pieces.as_mut().map(|reader| {
            let mut bytes = Vec::new();
            while let Some(piece) = reader.next_piece()? {
                bytes.extend_from_slice(&piece);
            }
            Ok(bytes)
        });
        let at = self.at();
        match read.transpose() {
            Ok(bytes) => Made {
                metadata: bytes.map(|bytes| (bytes, at)),
                ..self.made(None)
            },
            Err(error) => self.unmade(&Unmade::File(error)),
        }
    }

    /// The entry of its checkpoint.
    fn at(&self) -> CheckpointAt {
        self.found.found.checkpoint.unwrap_or(CheckpointAt {
            index: LogIndex(0),
            term: Term(0),
        })
    }

    fn is_lost(&self) -> bool {
        match &self.found.fate {
            Fate::Aside { fault, .. } => fault.is_of_the_state(),
            Fate::Serves(_) | Fate::Empty => false,
        }
    }

    /// Takes some pieces; behind the last one come entries.
    fn pieces(&mut self, mut restore: Box<Restore>) -> Result<Stage, Unmade> {
        if let Some(reader) = &mut self.found.pieces
            && take_pieces(reader, &mut restore)?
        {
            return wanted(restore, self.found.may_stay);
        }
        Ok(Stage::Pieces(restore))
    }

    /// Takes some of what a cleaner has moved; whether there may be more. What is damaged is perhaps in its entry as well.
    fn kept(&mut self, restore: &mut Restore) -> Result<bool, Stop> {
        for _ in 0..KEPT_BATCHES {
            match self.found.entries.next_kept() {
                None => return Ok(false),
                Some(Ok(batch)) => {
                    for kept in batch {
                        restore.kept(kept.index, kept.byte, &kept.data)?;
                    }
                }
                Some(Err(error)) if self.is_out_of_reach(&error) => return Err(Stop::Disk(error)),
                Some(Err(error)) => {
                    let (partition, why) = (self.found.id.0, with_causes(&error));
                    tracing::error!(event = "kept_unreadable", partition, why);
                }
            }
        }
        Ok(true)
    }

    /// Takes some entries, in the order of the log.
    fn entries(
        &mut self,
        restore: &mut Restore,
        ranges: &mut Vec<(LogIndex, LogIndex)>,
    ) -> Result<(), Stop> {
        for _ in 0..ENTRIES {
            let Some((first, last)) = ranges.pop() else {
                break;
            };
            // All that is needed of it may have been moved.
            let read = restore
                .is_wanting(first)
                .then(|| self.found.entries.read(first));
            if let Some(read) = read {
                self.take_entry(restore, first, read)?;
            }
            if first < last {
                ranges.push((first.next(), last));
            }
        }
        Ok(())
    }

    /// Takes an entry that was read, or could not be.
    fn take_entry(
        &self,
        restore: &mut Restore,
        index: LogIndex,
        read: Result<ReadEntry, ReadError>,
    ) -> Result<(), Stop> {
        match read {
            Ok(entry) => restore.live_entry(index, &entry.data)?,
            Err(error) if self.is_out_of_reach(&error) => return Err(Stop::Disk(error)),
            Err(error) => {
                let records = restore.lost_entry(index)?;
                self.tell_lost(index, records, &error);
            }
        }
        Ok(())
    }

    /// Whether the disk does not give what is wanted. Its segment was perhaps passed over: the next start reads it, and so knows damage from
    /// what is out of reach.
    fn is_out_of_reach(&self, error: &ReadError) -> bool {
        self.found.entries.distrust(error);
        matches!(error, ReadError::Disk { .. })
    }

    fn tell_lost(&self, index: LogIndex, records: usize, error: &ReadError) {
        let (partition, index, why) = (self.found.id.0, index.0, with_causes(error));
        tracing::error!(event = "records_lost", partition, index, records, why);
    }

    /// One that is set aside goes on to the entry before the bad one by itself (M39); the others' groups hand them their entries.
    fn replay(&mut self, mut partition: Box<Partition>, done: usize) -> Option<Made> {
        let entries = match self.found.fate {
            Fate::Aside { .. } => &self.found.found.entries[..],
            Fate::Serves(_) | Fate::Empty => &[],
        };
        let slice = entries.iter().skip(done).take(ENTRIES);
        for entry in slice.filter(|entry| is_of_partition(entry)) {
            // What is no entry ends the replay: the partition is set aside in any case.
            if partition.replay_entry(entry.index, &entry.data).is_err() {
                return Some(self.made(Some(partition)));
            }
        }
        if done + ENTRIES < entries.len() {
            self.stage = Some(Stage::Replay(partition, done + ENTRIES));
            return None;
        }
        Some(self.made(Some(partition)))
    }

    /// The checkpoint is no partition: what it should have been is lost.
    fn unmade(&mut self, unmade: &Unmade) -> Made {
        let at = self
            .found
            .found
            .checkpoint
            .map_or(LogIndex(0), |at| at.index);
        let fault = Fault::Checkpoint {
            at,
            why: with_causes(unmade),
        };
        let filters = match self.found.is_state_released {
            true => AsideFilters::Released,
            false => AsideFilters::Unknown,
        };
        self.found.fate = Fate::Aside { fault, filters };
        self.made(None)
    }

    fn made(&mut self, partition: Option<Box<Partition>>) -> Made {
        let at = self.at();
        let found = std::mem::take(&mut self.found.found);
        let fate = std::mem::replace(&mut self.found.fate, Fate::Empty);
        Made {
            id: self.found.id,
            partition: partition.map(|partition| (partition, at)),
            metadata: None,
            began_behind: self.found.began_behind,
            fate: match fate {
                Fate::Aside { fault, filters } => MadeFor::Aside(fault, filters),
                Fate::Serves(serves) => MadeFor::Group(
                    Restored {
                        hard_state: found.hard_state,
                        snapshot: (at.index, at.term),
                        entries: found.entries,
                    },
                    serves,
                ),
                Fate::Empty => unreachable!("one that begins with nothing was given a checkpoint"),
            },
        }
    }
}
