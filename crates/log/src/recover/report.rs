//! What recovery found, for people and for tests.

use std::fmt;

use courser_contract::LogIndex;

use crate::ids::{BatchNumber, Place};

/// What was found when a log was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Files of segments.
    pub segments: u64,
    /// Batches read.
    pub batches: u64,
    /// Records in them.
    pub records: u64,
    /// Entries among those, pieces joined.
    pub entries: u64,
    /// Bytes of batches in the files.
    pub bytes: u64,
    /// Segments that were not read, since their summaries say what is to be known of them; nothing of them is in the numbers above.
    pub passed_segments: u64,
    /// Bytes of batches in those.
    pub passed_bytes: u64,
    /// The torn end, if there was one.
    pub cut: Option<Cut>,
    /// Everything that was written, synced and is not there any more.
    pub damages: Vec<Damage>,
    /// Pieces of entries that never became whole.
    pub orphan_pieces: u64,
    /// Entries, and pieces of such, that do not count, since the checkpoint is of a higher term: others have taken their place.
    pub void: u64,
    /// Records of kinds that this program may pass over.
    pub passed_over: u64,
    /// Bytes at the end of the log that were written once more since no sync of them is known.
    pub rewritten_bytes: u64,
    /// The first batch of which no sync is known: from there on, rot cannot be told from a torn end.
    pub unproven: Option<Place>,
    /// Files that were not segments of this log, or not yet.
    pub leftovers: Leftovers,
}

/// Files without batches that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Segments that were being made and are removed.
    pub unfinished: u64,
    /// Segments that were being recycled and are used again.
    pub half_recycled: u64,
    /// Files with the name of a segment and without a byte, or with nothing but zeros, behind the last one that may have been written to: removed.
    pub empty: u64,
    /// Files with other names, left alone.
    pub strangers: u64,
}

/// What was torn: written and never known to be synced, so that nothing of it was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where the log ends now.
    pub place: Place,
    /// Batches cut, as far as their headers can be read.
    pub batches: u64,
    /// Bytes of the file that they took.
    pub bytes: u64,
}

/// Something that was durable and is not what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where.
    pub place: Place,
    /// First batch concerned.
    pub first: BatchNumber,
    /// Last batch concerned.
    pub last: BatchNumber,
    /// What is known of it.
    pub kind: DamageKind,
}

/// What is known of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// Batches are lost, except for records with good checksums of their own.
    Rot {
        /// Records that were read all the same.
        salvaged: u64,
        /// Records that are lost, when their number is known.
        lost: Option<u64>,
    },
    /// A batch is intact but not the one that was followed: a write was lost, an older one lay below.
    Replaced,
    /// The file is shorter than it was made; what its end held is lost.
    ShortFile,
    /// The segment's own header is damaged; its batches are read all the same.
    SegmentHeader,
    /// A batch is intact but its frames make no sense: a fault of the program that wrote it.
    Malformed,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} segments, {} batches, {} entries, {} bytes",
            self.segments, self.batches, self.entries, self.bytes
        )?;
        if self.passed_segments > 0 {
            write!(
                f,
                "; {} segments below all checkpoints, {} bytes, not read",
                self.passed_segments, self.passed_bytes
            )?;
        }
        if let Some(cut) = &self.cut {
            write!(
                f,
                "; torn end cut in {}: {} batches, {} bytes that were never acknowledged",
                cut.place, cut.batches, cut.bytes
            )?;
        }
        if self.orphan_pieces > 0 {
            write!(
                f,
                "; {} pieces of unfinished entries dropped",
                self.orphan_pieces
            )?;
        }
        if self.void > 0 {
            write!(f, "; {} entries that others have replaced", self.void)?;
        }
        if self.leftovers.empty > 0 {
            write!(
                f,
                "; {} empty files that were never written to removed",
                self.leftovers.empty
            )?;
        }
        for damage in &self.damages {
            write!(f, "; DAMAGE {damage}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in {}", self.place)?;
        if self.first == self.last {
            write!(f, ", batch {}", self.first.0)?;
        } else {
            write!(f, ", batches {} to {}", self.first.0, self.last.0)?;
        }
        match self.kind {
            DamageKind::Rot {
                salvaged,
                lost: Some(0),
            } => write!(
                f,
                ": rot, all {salvaged} records read by their own checksums"
            ),
            DamageKind::Rot {
                salvaged,
                lost: Some(lost),
            } => write!(f, ": rot, {lost} records lost, {salvaged} read"),
            DamageKind::Rot { lost: None, .. } => write!(f, ": rot, all records lost"),
            DamageKind::Replaced => write!(f, ": not the batch that was written last here"),
            DamageKind::ShortFile => write!(f, ": the file was cut short"),
            DamageKind::SegmentHeader => write!(f, ": the segment's header is damaged"),
            DamageKind::Malformed => write!(f, ": intact, but its records make no sense"),
        }
    }
}

impl fmt::Display for super::PartitionDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing {
                first: LogIndex(first),
                last: LogIndex(last),
            } => write!(f, "entries {first} to {last} are lost"),
            Self::InDoubt {
                after: LogIndex(after),
            } => write!(f, "entries after {after} may be lost"),
            Self::ManifestLost {
                checkpoint: LogIndex(checkpoint),
            } => write!(f, "the manifest of the checkpoint at {checkpoint} is gone"),
        }
    }
}
