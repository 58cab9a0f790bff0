//! Opening a log: what is there, what was torn, what is rotten (M44).
//!
//! One pass in the order of batches, over all that lies above the oldest checkpoint. What cannot be read as the next batch is a *bad place*. Behind it all segments are
//! searched for intact headers that were written later by the same start or a later one. When one of them, or a checkpoint,
//! says that the bad batch was synced, it is **rot**: reported, never cut, and reading goes on behind it. Otherwise the bad
//! batch is the **torn** end of the log: it is cut, with whatever was written behind it, and the next start's batches, with
//! their higher counter, void what is still in the blocks.
//!
//! `survey` lists the files, `chain` goes through the batches, `pass` leaves out segments that need not be read, `bad` judges bad places,
//! `ends` what is missing at either end of a segment, `unseen` knows what could not be read, `picture` takes what the batches say, and `finish` makes
//! a log of it that can be written.

mod bad;
mod chain;
mod ends;
mod finish;
mod pass;
mod picture;
mod report;
mod survey;
mod unseen;

use std::collections::BTreeMap;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};

pub use self::report::{Cut, Damage, DamageKind, Leftovers, RecoveryReport};

use crate::{
    checkpoint::Manifests,
    config::LogConfig,
    disk::Disk,
    error::OpenError,
    format::partition_bit,
    ids::{Place, StartId},
    live::LiveEntries,
    log::Log,
    record::{CheckpointAt, HardState},
};

/// What a log held when it was opened.
#[derive(Debug)]
pub struct Recovered {
    /// Every partition of which the log or a manifest knows something.
    pub partitions: BTreeMap<PartitionId, RecoveredPartition>,
    /// What was found, in words and numbers.
    pub report: RecoveryReport,
    /// Where batches are lost, and bits of the partitions of which they may have held something: bit `id mod 64`.
    pub(crate) in_doubt: Vec<(Place, u64)>,
}

impl Recovered {
    /// What is wrong with a partition, also one of which the log knows nothing: then all of it may be lost.
    #[must_use]
    pub fn damage(&self, partition: PartitionId) -> Option<PartitionDamage> {
        match self.partitions.get(&partition) {
            Some(found) => found.damage,
            None => {
                let lost = self.lost_at(partition);
                lost.map(|_| PartitionDamage::InDoubt { after: LogIndex(0) })
            }
        }
    }

    /// Where the last batch is lost of which a partition may lack something. With what [`damage`](Self::damage) says this names one
    /// damage: what is written later lies behind it, and is lost at another place.
    #[must_use]
    pub fn lost_at(&self, partition: PartitionId) -> Option<Place> {
        match self.partitions.get(&partition) {
            Some(found) => found.lost_at,
            None => last_lost(&self.in_doubt, partition),
        }
    }
}

/// What a log held for one partition.
#[derive(Debug, Default)]
pub struct RecoveredPartition {
    /// The last one; its commit is at least the checkpoint's index (M42).
    pub hard_state: HardState,
    /// From its manifest.
    pub checkpoint: Option<CheckpointAt>,
    /// All entries above the checkpoint, without gaps; up to the first that is missing.
    pub entries: Vec<RecoveredEntry>,
    /// Entries at or below the checkpoint that are needed, from its manifest; read them with [`Log::reader`].
    pub live: LiveEntries,
    /// Those of `live` that the log does not have any more. Empty unless there is damage.
    pub missing_live: LiveEntries,
    /// No index at or below it is free: entries that were read have it, also those that do not count, or a checkpoint that the log speaks of.
    pub seen: LogIndex,
    /// Why `entries` may not be all that was synced. Such a partition is set aside: it serves nothing.
    pub damage: Option<PartitionDamage>,
    /// Where the last batch is lost of which it may lack something, as later entries say.
    pub lost_at: Option<Place>,
    /// Entries behind the first that is missing: whole, and of no use without it.
    pub behind: Vec<RecoveredEntry>,
}

/// The last place of those that concern a partition.
fn last_lost(lost: &[(Place, u64)], partition: PartitionId) -> Option<Place> {
    let bit = partition_bit(partition.0);
    let of = lost.iter().filter(|(_, partitions)| partitions & bit != 0);
    of.map(|(place, _)| *place).max()
}

/// How far the reading of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSoFar {
    /// Segments that are read or passed over.
    pub segments: u64,
    /// Of so many, those among them that nothing was written to yet.
    pub of: u64,
}

/// An entry above the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveredEntry {
    /// Its place in the partition's log.
    pub index: LogIndex,
    /// Term of the leader that proposed it.
    pub term: Term,
    /// What it says.
    pub data: Bytes,
}

/// What is wrong with a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionDamage {
    /// Entries from the first to the last of these are lost.
    Missing {
        /// First.
        first: LogIndex,
        /// Last that is known to be.
        last: LogIndex,
    },
    /// A batch with something of this partition is lost, and nothing says what it was: an entry above this index, or term and
    /// vote.
    InDoubt {
        /// The last entry that is there.
        after: LogIndex,
    },
    /// The log says that there was a checkpoint at this index, and its manifest is gone or older.
    ManifestLost {
        /// Index of the checkpoint.
        checkpoint: LogIndex,
    },
}

impl<D: Disk> Log<D> {
    /// Opens the log in a folder and recovers what is in it; an empty folder becomes an empty log. `manifests` are those of
    /// [`crate::CheckpointStore::open`]. `start` must be durable in the node's file before.
    ///
    /// What was recovered is durable when this returns: the end of the log, of which no sync is known, is written once more
    /// and synced.
    ///
    /// Cost: one pass over what lies above the oldest checkpoint, about as fast as the disk reads; of older segments a look at their
    /// summaries, or a pass over those that have none. When anything is missing or damaged, or the last segment's head is torn, or the configuration
    /// says so, all is read.
    ///
    /// # Errors
    /// When a file is of another version or node, or cannot be read or written. Damage is no error: it is in the report and
    /// in [`RecoveredPartition::damage`].
    pub fn open(
        disk: D,
        config: LogConfig,
        start: StartId,
        manifests: &Manifests,
    ) -> Result<(Self, Recovered), OpenError> {
        Self::open_watched(disk, config, start, manifests, &mut |_| ())
    }

    /// The same; `watch` hears how far it is, once for each segment that it comes to. When all has to be read after all it begins again.
    ///
    /// # Errors
    /// Those of [`open`](Self::open).
    pub fn open_watched(
        disk: D,
        config: LogConfig,
        start: StartId,
        manifests: &Manifests,
        watch: &mut dyn FnMut(ReadSoFar),
    ) -> Result<(Self, Recovered), OpenError> {
        let survey = survey::Survey::new(&disk, &config)?;
        let mut scanned = chain::scan(survey, config, start, manifests, watch)?;
        let is_whole = scanned.has_whole_head() && !finish::lacks_anything(&scanned, manifests);
        if scanned.report.passed_segments > 0 && !is_whole {
            let mut all = config;
            all.reads_all = true;
            let survey = survey::Survey::new(&disk, &all)?;
            scanned = chain::scan(survey, all, start, manifests, watch)?;
        }
        finish::finish(disk, config, start, manifests, scanned)
    }
}
