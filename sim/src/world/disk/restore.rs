//! A partition out of its checkpoint and of what the checkpoint needs of the log, as a start of the broker does it.

use courser_contract::LogIndex;
use courser_engine::{Partition, PartitionConfig, Restore};
use courser_log::Manifest;

use super::recovery::Opened;
use crate::bug::Bug;

/// What becomes of a record that the log does not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lacking {
    /// Nothing rotted, so it should be there.
    Broken,
    /// Its streams stop (M44).
    Stops,
    /// Nobody knows until it is asked for: what may stay in the log is not read.
    Unread,
}

/// Restores a partition.
pub(super) fn restore(
    opened: &Opened,
    manifest: &Manifest,
    config: PartitionConfig,
    (lacking, bug): (Lacking, Option<Bug>),
) -> Result<Partition, String> {
    let file = |error: courser_log::CheckpointError| format!("I7: {error}");
    let content = |error: courser_engine::RestoreError| format!("M42: {error}");
    let mut reader = opened.store.reader(manifest).map_err(file)?;
    let mut restore = Restore::new(config);
    if lacking == Lacking::Unread {
        restore.leave_cold(0);
    }
    while let Some(piece) = reader.next_piece().map_err(file)? {
        restore.piece(&piece).map_err(content)?;
    }
    let wanted = restore.wanted().map_err(content)?;
    let mut entries = opened.log.reader(manifest.partition);
    // A batch that cannot be read is told by what is lacking then.
    let batches = std::iter::from_fn(|| entries.next_kept()).flatten();
    for kept in batches.flatten() {
        if bug != Some(Bug::RestoreWithoutKept) {
            restore
                .kept(kept.index, kept.byte, &kept.data)
                .map_err(content)?;
        }
    }
    for (first, last) in wanted.ranges() {
        for index in (first.0..=last.0).map(LogIndex) {
            if !restore.is_wanting(index) {
                continue;
            }
            match (entries.read(index), lacking) {
                (Ok(entry), _) => restore.live_entry(index, &entry.data).map_err(content)?,
                (Err(_), Lacking::Stops) => drop(restore.lost_entry(index).map_err(content)?),
                (Err(error), Lacking::Broken | Lacking::Unread) => {
                    return Err(format!("I1: a live entry cannot be read: {error}"));
                }
            }
        }
    }
    restore.finish().map_err(content)
}
