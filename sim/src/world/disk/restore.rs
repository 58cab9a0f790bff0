//! A partition out of its checkpoint and of what the checkpoint needs of the log, as a start of the broker does it.

use std::fmt;

use courser_contract::LogIndex;
use courser_engine::{Partition, PartitionConfig, Restore};
use courser_log::{Manifest, ReadError};

use super::recovery::Opened;
use crate::bug::Bug;

/// What becomes of a record that the log does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lacking {
    /// Nothing rotted, so it should be there.
    Broken,
    /// Its streams stop (M44).
    Stops,
}

/// Which records are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    All,
    /// What may stay in the log is not: nobody knows of it until it is asked for.
    Pinned,
}

/// How a partition is restored.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub(super) lacking: Lacking,
    pub(super) reads: Reads,
    pub(super) bug: Option<Bug>,
}

impl How {
    /// All of it is read.
    pub(super) const fn read(lacking: Lacking, bug: Option<Bug>) -> Self {
        Self {
            lacking,
            reads: Reads::All,
            bug,
        }
    }
}

/// Why a partition is not restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unmade {
    /// The disk does not give something, which says nothing of what is there: the next start looks at its segment first.
    Disk(String),
    /// A rule is broken.
    Broken(String),
}

impl From<String> for Unmade {
    fn from(text: String) -> Self {
        Self::Broken(text)
    }
}

impl fmt::Display for Unmade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(text) | Self::Broken(text) => f.write_str(text),
        }
    }
}

impl Unmade {
    /// The same of a partition.
    pub(super) fn named(self, name: impl Fn(String) -> String) -> Self {
        match self {
            Self::Disk(text) => Self::Disk(name(text)),
            Self::Broken(text) => Self::Broken(name(text)),
        }
    }
}

/// Restores a partition.
pub(super) fn restore(
    opened: &Opened,
    manifest: &Manifest,
    config: PartitionConfig,
    how: How,
) -> Result<Partition, Unmade> {
    let file = |error: courser_log::CheckpointError| format!("I7: {error}");
    let content = |error: courser_engine::RestoreError| format!("M42: {error}");
    let mut reader = opened.store.reader(manifest).map_err(file)?;
    let mut restore = Restore::new(config);
    if how.reads == Reads::Pinned {
        restore.leave_cold(0);
    }
    while let Some(piece) = reader.next_piece().map_err(file)? {
        restore.piece(&piece).map_err(content)?;
    }
    let wanted = restore.wanted().map_err(content)?;
    let mut entries = opened.log.reader(manifest.partition);
    // A batch that cannot be read is told by what is lacking then.
    while let Some(kept) = entries.next_kept() {
        if let Err(error) = &kept {
            entries.distrust(error);
            out_of_reach(error, how.lacking)?;
        }
        for kept in kept.into_iter().flatten() {
            if how.bug != Some(Bug::RestoreWithoutKept) {
                restore
                    .kept(kept.index, kept.byte, &kept.data)
                    .map_err(content)?;
            }
        }
    }
    for (first, last) in wanted.ranges() {
        for index in (first.0..=last.0).map(LogIndex) {
            if !restore.is_wanting(index) {
                continue;
            }
            let read = entries.read(index);
            if let Err(error) = &read {
                entries.distrust(error);
                out_of_reach(error, how.lacking)?;
            }
            match (read, how.lacking) {
                (Ok(entry), _) => restore.live_entry(index, &entry.data).map_err(content)?,
                (Err(_), Lacking::Stops) => drop(restore.lost_entry(index).map_err(content)?),
                (Err(error), Lacking::Broken) => {
                    return Err(format!("I1: a live entry cannot be read: {error}").into());
                }
            }
        }
    }
    Ok(restore.finish().map_err(content)?)
}

/// Where something may have rotted, a disk that does not give it ends the start.
fn out_of_reach(error: &ReadError, lacking: Lacking) -> Result<(), Unmade> {
    match (error, lacking) {
        (ReadError::Disk { .. }, Lacking::Stops) => Err(Unmade::Disk(error.to_string())),
        (_, Lacking::Stops | Lacking::Broken) => Ok(()),
    }
}
