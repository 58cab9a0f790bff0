//! What the writer's thread does first: it reads the log and gives every shard what belongs to its partitions.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use courser_contract::PartitionId;
use courser_log::{
    CheckpointReader, CheckpointStore, Disk, EntryReader, LiveEntries, Log, LogConfig, Manifests,
    OpenError, Recovered, RecoveredPartition, StartId, WriteError,
};

use super::disk::{Counter, DiskFailure, DiskState};
use super::reader::Job;
use super::writer::{Writer, WriterParts};
use crate::rings::Doze;
use crate::slots::Places;

/// What was found of one partition.
pub(crate) struct Found<D: Disk> {
    /// Which.
    pub(crate) id: PartitionId,
    /// Entries, term and vote, checkpoint; nothing in a new folder.
    pub(crate) found: RecoveredPartition,
    /// Its checkpoint, if it has one.
    pub(crate) pieces: Option<CheckpointReader<D::File>>,
    /// Reads entries below the checkpoint that are still needed.
    pub(crate) entries: EntryReader<D>,
}

/// What was found of the partitions of one shard, by number.
pub(crate) type RecoveredShard<D> = Vec<Found<D>>;

/// Where a shard hears of its partitions, and what wakes it.
pub(crate) struct ShardDoor<D: Disk> {
    pub(crate) recovered: mpsc::Sender<RecoveredShard<D>>,
    pub(crate) doze: Arc<Doze>,
}

/// The writer's thread before it begins.
pub(crate) struct LogStation<D: Disk> {
    pub(crate) log: D,
    pub(crate) checkpoints: D,
    pub(crate) config: LogConfig,
    pub(crate) start: StartId,
    pub(crate) places: Places,
    /// By shard.
    pub(crate) doors: Vec<ShardDoor<D>>,
    pub(crate) parts: WriterParts<D>,
}

impl<D: Disk> LogStation<D> {
    /// Reads the log, hands it out, and writes until all shards have ended. What goes wrong is noted as the disk's failure.
    pub(crate) fn run(self) {
        let state = Arc::clone(&self.parts.state);
        if let Err(failure) = self.try_run() {
            state.fail(failure);
        }
    }

    fn try_run(self) -> Result<(), DiskFailure> {
        let Self {
            log,
            checkpoints,
            config,
            start,
            places,
            doors,
            parts,
        } = self;
        let begun = Instant::now();
        let (store, loaded) = CheckpointStore::open(checkpoints, config.node)
            .map_err(|error| DiskFailure::Refused(with_causes(&error)))?;
        if let Some((id, error)) = loaded.damaged.first() {
            let text = with_causes(error);
            return Err(DiskFailure::Refused(format!("partition {}: {text}", id.0)));
        }
        let (log, recovered) = Log::open(log, config, start, &loaded.manifests)
            .map_err(|error| open_failure(&error))?;
        refuse_damage(&recovered, &places)?;
        note(&recovered, &parts.state, begun);
        let bytes = recovered.report.bytes;
        let stored = Stored {
            log: &log,
            store: &store,
            manifests: &loaded.manifests,
        };
        // Without a reader the process is ending.
        let _ = parts.jobs.send(Job::Checkpoints(store.clone()));
        hand_out(&stored, recovered, &places, &doors)?;
        Writer::new(log, bytes, parts)
            .run()
            .map_err(|error: WriteError| DiskFailure::Io(with_causes(&error)))
    }
}

/// Entries that were synced are gone: what comes after them cannot be applied, and going on without them would lose
/// acknowledged messages in silence. A partition of which the log knows nothing at all may have lost all of it.
fn refuse_damage(recovered: &Recovered, places: &Places) -> Result<(), DiskFailure> {
    let mut text = String::new();
    let found = recovered.partitions.keys().copied();
    for id in places.kept().chain(found).collect::<BTreeSet<_>>() {
        if let Some(damage) = recovered.damage(id) {
            let _ = write!(text, "; partition {}: {damage}", id.0);
        }
        let lost = recovered.partitions.get(&id).map(|it| &it.missing_live);
        for (first, last) in lost.into_iter().flat_map(LiveEntries::ranges) {
            let _ = write!(
                text,
                "; partition {}: entries {} to {} below its checkpoint are lost and still needed",
                id.0, first.0, last.0
            );
        }
    }
    if text.is_empty() {
        return Ok(());
    }
    Err(DiskFailure::Refused(format!(
        "the log is damaged{text}. Put the folder back from a backup; {}",
        recovered.report
    )))
}

fn note(recovered: &Recovered, state: &DiskState, begun: Instant) {
    let report = &recovered.report;
    state.add(Counter::RecoveredEntries, report.entries);
    state.add(Counter::RottenPlaces, report.damages.len() as u64);
    state.add(Counter::CutBytes, report.cut.map_or(0, |cut| cut.bytes));
    let behind: usize = recovered
        .partitions
        .values()
        .map(|partition| partition.entries.len())
        .sum();
    state.set_report(format!(
        "{report}, {behind} entries to apply, read in {} ms",
        begun.elapsed().as_millis()
    ));
}

/// What there is to read of.
struct Stored<'a, D: Disk> {
    log: &'a Log<D>,
    store: &'a CheckpointStore<D>,
    manifests: &'a Manifests,
}

/// Gives each shard its partitions. One that has ended meanwhile needs none.
fn hand_out<D: Disk>(
    stored: &Stored<'_, D>,
    mut recovered: Recovered,
    places: &Places,
    doors: &[ShardDoor<D>],
) -> Result<(), DiskFailure> {
    let mut by_shard: Vec<RecoveredShard<D>> = doors.iter().map(|_| Vec::new()).collect();
    for id in places.kept() {
        let pieces = match stored.manifests.get(&id) {
            Some(manifest) => Some(
                stored
                    .store
                    .reader(manifest)
                    .map_err(|error| DiskFailure::Refused(with_causes(&error)))?,
            ),
            None => None,
        };
        by_shard[usize::from(places.shard_of(id).0)].push(Found {
            id,
            found: recovered.partitions.remove(&id).unwrap_or_default(),
            pieces,
            entries: stored.log.reader(id),
        });
    }
    for (door, found) in doors.iter().zip(by_shard) {
        let _ = door.recovered.send(found);
        door.doze.wake();
    }
    Ok(())
}

fn open_failure(error: &OpenError) -> DiskFailure {
    let text = with_causes(error);
    if error
        .source()
        .is_some_and(|source| source.is::<io::Error>())
    {
        DiskFailure::Io(text)
    } else {
        DiskFailure::Refused(text)
    }
}

/// An error with all its causes.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
