//! One partition out of its checkpoint, in slices.

use courser_cluster::Restored;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_engine::{Limits, Partition, Restore};
use courser_log::{CheckpointAt, FileDisk};

use crate::shard::partitions::config;
use crate::slots::Places;
use crate::stations::{Found, with_causes};

/// Pieces of a checkpoint that one slice reads: 512 KiB.
const PIECES: usize = 8;
/// Entries of the log that one slice reads.
const ENTRIES: usize = 256;

/// How far it is.
enum Stage {
    /// Pieces are taken.
    Pieces(Box<Restore>),
    /// Entries that the checkpoint needs are taken: those that are left, last first.
    Entries(Box<Restore>, Vec<(LogIndex, LogIndex)>),
    /// Without a checkpoint there is nothing to do.
    Nothing,
}

/// A partition that is being made.
pub(crate) struct Making {
    found: Found<FileDisk>,
    /// None before the first slice.
    stage: Option<Stage>,
}

/// A partition that is made.
pub(super) struct Made {
    /// Which.
    pub(super) id: PartitionId,
    /// Out of the checkpoint at this entry; none: it is empty.
    pub(super) partition: Option<(Box<Partition>, CheckpointAt)>,
    /// The same of partition 0: its bytes.
    pub(super) metadata: Option<(Vec<u8>, CheckpointAt)>,
    /// For its group.
    pub(super) restored: Restored,
}

impl Made {
    /// The entry of its checkpoint.
    const fn at(&self) -> CheckpointAt {
        let (index, term) = self.restored.snapshot;
        CheckpointAt { index, term }
    }
}

impl Making {
    /// Of what was found.
    pub(super) const fn new(found: Found<FileDisk>) -> Self {
        Self { found, stage: None }
    }

    /// One slice. The partition, when this was the last.
    ///
    /// # Errors
    /// What is wrong with the checkpoint or with an entry that it needs, in words for the operator.
    pub(super) fn go_on(
        &mut self,
        places: &Places,
        limits: &Limits,
    ) -> Result<Option<Made>, String> {
        let id = self.found.id;
        if id == Places::METADATA {
            return self.go_on_with_metadata();
        }
        let stage = self.stage.take().unwrap_or_else(|| {
            let restore = || Restore::new(config(id, places, limits));
            match &self.found.pieces {
                Some(_) => Stage::Pieces(Box::new(restore())),
                None => Stage::Nothing,
            }
        });
        let failed = |error: &dyn std::error::Error| {
            format!(
                "the checkpoint of partition {}: {}",
                id.0,
                with_causes(error)
            )
        };
        match stage {
            Stage::Nothing => return Ok(Some(self.made(None))),
            Stage::Pieces(mut restore) => {
                let next = if self.pieces(&mut restore).map_err(|error| failed(&*error))? {
                    let wanted = restore.wanted().map_err(|error| failed(&error))?;
                    let mut ranges: Vec<_> = wanted.ranges().collect();
                    ranges.reverse();
                    Stage::Entries(restore, ranges)
                } else {
                    Stage::Pieces(restore)
                };
                self.stage = Some(next);
            }
            Stage::Entries(mut restore, mut ranges) => {
                self.entries(&mut restore, &mut ranges)
                    .map_err(|error| failed(&*error))?;
                if ranges.is_empty() {
                    let partition = restore.finish().map_err(|error| failed(&error))?;
                    return Ok(Some(self.made(Some(Box::new(partition)))));
                }
                self.stage = Some(Stage::Entries(restore, ranges));
            }
        }
        Ok(None)
    }

    /// Partition 0 has all of its state in its pieces, and few of them.
    fn go_on_with_metadata(&mut self) -> Result<Option<Made>, String> {
        let failed = |error: &dyn std::error::Error| {
            format!("the checkpoint of partition 0: {}", with_causes(error))
        };
        let mut bytes = None;
        if let Some(reader) = &mut self.found.pieces {
            let all = bytes.insert(Vec::new());
            while let Some(piece) = reader.next_piece().map_err(|error| failed(&error))? {
                all.extend_from_slice(&piece);
            }
        }
        let made = self.made(None);
        Ok(Some(Made {
            metadata: bytes.map(|bytes| (bytes, made.at())),
            ..made
        }))
    }

    /// Takes some pieces; true after the last one.
    fn pieces(&mut self, restore: &mut Restore) -> Result<bool, Box<dyn std::error::Error>> {
        let Some(reader) = &mut self.found.pieces else {
            return Ok(true);
        };
        for _ in 0..PIECES {
            match reader.next_piece()? {
                Some(piece) => restore.piece(&piece)?,
                None => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Takes some entries, in the order of the log.
    fn entries(
        &mut self,
        restore: &mut Restore,
        ranges: &mut Vec<(LogIndex, LogIndex)>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        for _ in 0..ENTRIES {
            let Some((first, last)) = ranges.pop() else {
                break;
            };
            let entry = self.found.entries.read(first)?;
            restore.live_entry(first, &entry.data)?;
            if first < last {
                ranges.push((first.next(), last));
            }
        }
        Ok(())
    }

    fn made(&mut self, partition: Option<Box<Partition>>) -> Made {
        let found = std::mem::take(&mut self.found.found);
        let at = found.checkpoint.unwrap_or(CheckpointAt {
            index: LogIndex(0),
            term: Term(0),
        });
        Made {
            id: self.found.id,
            partition: partition.map(|partition| (partition, at)),
            metadata: None,
            restored: Restored {
                hard_state: found.hard_state,
                snapshot: (at.index, at.term),
                entries: found.entries,
            },
        }
    }
}
