//! The log of a disk: everything that partitions must not forget, written once and synced before it is acknowledged.
//!
//! One log a disk. Entries of all partitions stand one behind the other in **batches**; a batch is what gathered while the
//! last sync was under way, and costs one `pwritev` and one `fdatasync`. Batches lie in **segments**, files of one size that
//! are filled with zeros ahead of need and used again when nothing in them is live. The layout is in `docs/log-format.md`.
//!
//! - [`Log`] is the writer's side and has one owner: [`Log::write`], [`Log::sync`], [`Log::witness`].
//! - [`Log::open`] recovers: the torn end is cut, rot is reported and never delivered.
//! - [`Log::prepare`] gives the slow part of making segments as a job for another thread.
//! - [`EntryReader`] reads entries back, away from the writer.
//! - [`RecordReader`] reads single records of all partitions back, for many streams at once.
//! - [`CheckpointStore`] keeps checkpoints and the manifests that say which one counts.
//! - [`Cleaner`] moves what is needed of old segments into new ones (M41).
//! - [`inspect`] reads segments offline, as a tool does.
//!
//! The disk is a trait ([`Disk`]); [`FileDisk`] is the real one, and `testing::MemDisk` (feature `testing`) one that loses
//! power, tears writes and fails. Nothing here starts a thread or reads a clock.
//!
//! What a failed write or sync leaves on the disk nobody knows, so it is final: the log refuses whatever follows, the process
//! stops, and the next start finds out.
#![forbid(unsafe_code)]

mod batch;
mod checkpoint;
mod clean;
mod config;
mod disk;
mod error;
mod format;
mod ids;
pub mod inspect;
mod kept;
mod live;
mod log;
mod places;
mod prepare;
mod read;
mod recall;
mod record;
mod recover;
mod scan;
mod summary;
#[cfg(feature = "testing")]
pub mod testing;

pub use self::{
    batch::{Batch, Push},
    checkpoint::{
        CHECKPOINT_VERSION, CheckpointError, CheckpointReader, CheckpointStore, CheckpointSummary,
        CheckpointWriter, HeldFile, LoadedCheckpoints, Manifest, Manifests, PIECE_BYTES_MAX,
        check_checkpoint, checkpoint_file,
    },
    clean::{Budget, Cleaner, CleanerCounts, Pressure, Question, Source, Step, Survey},
    config::{LogConfig, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SegmentBytesError, batch_bytes_max},
    disk::{Disk, DiskFile, FileDisk, PageCache, RealFile, is_passing},
    error::{BatchPlace, OpenError, PrepareError, ReadError, WriteError},
    format::{BATCH_BYTES_MAX, BLOCK_BYTES, SEGMENT_VERSION},
    ids::{BatchNumber, NodeIdentity, Place, SegmentNumber, StartId, Synced},
    kept::KeptEntries,
    live::LiveEntries,
    log::{HeldSegment, Log, LogCounts, LogCut, Space, SpaceState, is_same_segment},
    places::LogPlaces,
    prepare::{PrepareJob, Prepared},
    read::{EntryReader, KeptRecord, ReadEntry, SharedBatches},
    recall::{RecallCounts, RecallStep, RecordReader},
    record::{CheckpointAt, HardState, Record},
    recover::{
        Cut, Damage, DamageKind, Leftovers, PartitionDamage, ReadSoFar, Recovered, RecoveredEntry,
        RecoveredPartition, RecoveryReport,
    },
};
