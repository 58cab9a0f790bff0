//! What the writer's thread does first: it reads the log and gives every shard what belongs to its partitions.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_engine::{
    CheckpointNeeds, Partition, PartitionConfig, later_checkpoint, later_version,
};
use courser_log::{
    CheckpointAt, CheckpointError, CheckpointReader, CheckpointStore, Cleaner, Damage, DamageKind,
    Disk, EntryReader, HardState, LiveEntries, LoadedCheckpoints, Log, LogConfig, Manifest,
    Manifests, PartitionDamage, ReadSoFar, Recovered, RecoveredPartition, StartId, WriteError,
};

use super::disk::{Counter, DiskFailure, DiskState};
use super::found::FoundInLog;
use super::reader::Job;
use super::writer::{Writer, WriterParts};
use crate::causes::with_causes;
use crate::repair::judge::{Behind, Fate, Given, LostEntries, Serves};
use crate::repair::{Cause, Fault};
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
    /// What becomes of it.
    pub(crate) fate: Fate,
    /// Should its checkpoint turn out to be lost, its filters are released.
    pub(crate) is_state_released: bool,
    /// It begins with nothing, behind this entry.
    pub(crate) began_behind: Option<LogIndex>,
    /// Whether records that wait may stay in the log, unread: all that this start has read of it is whole. What it has passed over is
    /// checked by who reads it, and by the scrub.
    pub(crate) may_stay: bool,
}

/// What was found of the partitions of one shard, by number.
pub(crate) type RecoveredShard<D> = Vec<Found<D>>;

/// A checkpoint that a manifest names.
pub(crate) struct Saved<D> {
    pub(crate) store: CheckpointStore<D>,
    pub(crate) manifest: Manifest,
}

/// What a shard is handed, in this order.
pub(crate) enum Handed<D: Disk> {
    /// Before the log is read: checkpoints of its partitions, of which nobody knows yet what they are good for.
    Saved(Vec<Saved<D>>),
    /// Its partitions.
    Found(RecoveredShard<D>),
}

/// Where a shard hears of its partitions, and what wakes it.
pub(crate) struct ShardDoor<D: Disk> {
    pub(crate) handed: mpsc::Sender<Handed<D>>,
    pub(crate) doze: Arc<Doze>,
}

/// The writer's thread before it begins.
pub(crate) struct LogStation<D: Disk> {
    pub(crate) log: D,
    pub(crate) checkpoints: D,
    pub(crate) config: LogConfig,
    pub(crate) start: StartId,
    pub(crate) places: Places,
    /// What the folder says of damage besides the log.
    pub(crate) given: Given,
    /// By shard.
    pub(crate) doors: Vec<ShardDoor<D>>,
    pub(crate) parts: WriterParts<D>,
}

impl<D: Disk> ShardDoor<D> {
    /// A shard that has ended meanwhile needs nothing.
    fn hand(&self, what: Handed<D>) {
        let _ = self.handed.send(what);
        self.doze.wake();
    }
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
            given,
            doors,
            parts,
        } = self;
        let begun = Instant::now();
        let disk = log.clone();
        let (store, loaded) = CheckpointStore::open(checkpoints, config.node)
            .map_err(|error| start_failure(&error))?;
        hand_out_saved(&store, &loaded.manifests, &places, &doors);
        let counts = parts.state.start();
        counts.has_partitions(places.kept().count() as u64);
        let mut watch = |read: ReadSoFar| counts.read(read.segments, read.of);
        let (mut log, recovered) =
            Log::open_watched(log, config, start, &loaded.manifests, &mut watch)
                .map_err(|error| start_failure(&error))?;
        for (id, error) in &loaded.damaged {
            let error = with_causes(error);
            tracing::error!(event = "manifest_damaged", partition = id.0, error);
        }
        for manifest in loaded.manifests.values() {
            parts.state.note_checkpoint(manifest.bytes);
        }
        note(&recovered, &parts.state, begun);
        let bytes = recovered.report.bytes + recovered.report.passed_bytes;
        let stored = Stored {
            log: &mut log,
            store: &store,
            manifests: &loaded.manifests,
            damaged: &loaded.damaged,
            given: &given,
            places: &places,
            start: start.counter,
        };
        // Without a reader the process is ending.
        let cleaner = Cleaner::new(
            disk,
            store.clone(),
            loaded.manifests.clone(),
            CheckpointNeeds,
            config.segment_bytes(),
        );
        let job = Job::Checkpoints(store.clone(), Box::new(cleaner));
        let _ = parts.jobs.send(job);
        hand_out(stored, recovered, &doors)?;
        Writer::new(log, bytes, parts)
            .run()
            .map_err(|error: WriteError| DiskFailure::Io(with_causes(&error)))
    }
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
    state.set_found(FoundInLog {
        report: report.clone(),
        behind: behind as u64,
        took: begun.elapsed(),
    });
}

/// What there is to read of, and to write to.
struct Stored<'a, D: Disk> {
    log: &'a mut Log<D>,
    store: &'a CheckpointStore<D>,
    manifests: &'a Manifests,
    /// Manifests that cannot be read.
    damaged: &'a [(PartitionId, CheckpointError)],
    given: &'a Given,
    places: &'a Places,
    start: u32,
}

/// Lets each shard read the checkpoints of its partitions while the log is read.
fn hand_out_saved<D: Disk>(
    store: &CheckpointStore<D>,
    manifests: &Manifests,
    places: &Places,
    doors: &[ShardDoor<D>],
) {
    let mut by_shard: Vec<Vec<Saved<D>>> = doors.iter().map(|_| Vec::new()).collect();
    // What partition 0 has is little.
    for id in places.kept().filter(|id| *id != Places::METADATA) {
        if let Some(manifest) = manifests.get(&id) {
            by_shard[usize::from(places.shard_of(id).0)].push(Saved {
                store: store.clone(),
                manifest: manifest.clone(),
            });
        }
    }
    for (door, saved) in doors.iter().zip(by_shard) {
        door.hand(Handed::Saved(saved));
    }
}

/// Gives each shard its partitions.
fn hand_out<D: Disk>(
    mut stored: Stored<'_, D>,
    mut recovered: Recovered,
    doors: &[ShardDoor<D>],
) -> Result<(), DiskFailure> {
    let mut by_shard: Vec<RecoveredShard<D>> = doors.iter().map(|_| Vec::new()).collect();
    let places = stored.places;
    let damages = recovered.report.damages.clone();
    let is_whole = damages.is_empty();
    for id in places.kept() {
        let mut found = stored.partition(id, &mut recovered)?;
        found.may_stay = is_whole && found.found.missing_live.is_empty();
        refuse_without_metadata(&found, &damages)?;
        by_shard[usize::from(places.shard_of(id).0)].push(found);
    }
    for (door, found) in doors.iter().zip(by_shard) {
        door.hand(Handed::Found(found));
    }
    Ok(())
}

/// Entries of a later version of the program say something that this one does not know: to replay them, or to set their partition
/// aside, would both be wrong.
fn refuse_later(id: PartitionId, found: &RecoveredPartition) -> Result<(), DiskFailure> {
    if id == Places::METADATA {
        // Messages of protobuf, whose fields may be more.
        return Ok(());
    }
    for entry in &found.entries {
        if let Some((layout, engine)) = later_version(&entry.data) {
            return Err(DiskFailure::Refused(format!(
                "entry {} of partition {} has layout {layout} and engine version {engine}, which this program does not know: start it \
                 with the program that wrote it",
                entry.index.0, id.0
            )));
        }
    }
    Ok(())
}

/// Without users and rights nobody can be let in: damage of partition 0 stops the start, until it is accepted.
fn refuse_without_metadata<D: Disk>(
    found: &Found<D>,
    damages: &[Damage],
) -> Result<(), DiskFailure> {
    match &found.fate {
        Fate::Aside { fault, .. } if found.id == Places::METADATA => {
            Err(without_metadata(fault, damages))
        }
        Fate::Aside { .. } | Fate::Serves(_) | Fate::Empty => Ok(()),
    }
}

/// What partition 0 held is not known for this damage, nor whether it held anything.
pub(crate) fn without_metadata(fault: &Fault, damages: &[Damage]) -> DiskFailure {
    let place = match fault {
        Fault::Entries(lost) => lost.at,
        Fault::Manifest { .. } | Fault::Checkpoint { .. } | Fault::Apply(_) => None,
    };
    let damage = damages.iter().find(|damage| Some(damage.place) == place);
    let damage = damage.map(in_file).unwrap_or_default();
    DiskFailure::Refused(format!(
        "partition 0 (users, roles and limits, if there were any): {fault}. {damage}Put the folder back from a backup, or see: courser \
         repair DATA"
    ))
}

/// A damage by its file, for who has to look at it.
fn in_file(damage: &Damage) -> String {
    let file = damage.place.segment.file_name();
    let advice = match damage.kind {
        // Of a file that was made here nobody knows what it held; that it was is for the operator to know.
        DamageKind::ShortFile if damage.place.offset == 0 => {
            " If somebody has put a file of this name there, move it away and start again: nothing is lost then. If it was a segment, what it \
             held is lost."
        }
        DamageKind::ShortFile
        | DamageKind::Rot { .. }
        | DamageKind::Replaced
        | DamageKind::SegmentHeader
        | DamageKind::Malformed => "",
    };
    format!("DATA/log/{file}: {damage}.{advice} ")
}

/// All that was found of the partitions of a folder, each with its fate.
///
/// # Errors
/// Those of the disk, and files of another version or node.
pub(crate) fn found_in<D: Disk>(
    (log, store): (&mut Log<D>, &CheckpointStore<D>),
    (mut recovered, loaded): (Recovered, &LoadedCheckpoints),
    (given, start): (&Given, u32),
    places: &Places,
) -> Result<Vec<Found<D>>, DiskFailure> {
    let mut stored = Stored {
        log,
        store,
        manifests: &loaded.manifests,
        damaged: &loaded.damaged,
        given,
        places,
        start,
    };
    let partitions = places.kept();
    partitions
        .map(|id| stored.partition(id, &mut recovered))
        .collect()
}

impl<D: Disk> Stored<'_, D> {
    fn partition(
        &mut self,
        id: PartitionId,
        recovered: &mut Recovered,
    ) -> Result<Found<D>, DiskFailure> {
        let at = recovered.lost_at(id);
        let damage = recovered.damage(id);
        let mut found = recovered.partitions.remove(&id).unwrap_or_default();
        let behind = Behind::of(id, &std::mem::take(&mut found.behind));
        let lost = damage.map(|damage| LostEntries { damage, at, behind });
        refuse_later(id, &found)?;
        self.refuse_later_checkpoint(id)?;
        let mut fate = self.given.judge(id, &mut found, lost, self.start);
        let mut pieces = None;
        let mut began_behind = None;
        if fate == Fate::Empty {
            pieces = Some(self.begin_with_nothing(id, &mut found)?);
            began_behind = found.checkpoint.map(|at| at.index);
            fate = Fate::Serves(Serves::default());
        } else if let Some(manifest) = self.manifests.get(&id) {
            match self.store.reader(manifest) {
                Ok(reader) => pieces = Some(reader),
                Err(error) if is_damage(&error) => {
                    let at = manifest.at.index;
                    let why = with_causes(&error);
                    fate = self
                        .given
                        .aside(id, &mut found, Fault::Checkpoint { at, why });
                }
                Err(error) => return Err(start_failure(&error)),
            }
        }
        if let Fate::Aside { fault, .. } = &mut fate {
            self.name_manifest(id, fault);
        }
        let at = found.checkpoint.map_or(LogIndex(0), |at| at.index);
        Ok(Found {
            id,
            found,
            pieces,
            entries: self.log.reader(id),
            is_state_released: self.given.orders.releases(id, Cause::State(at)),
            fate,
            began_behind,
            may_stay: false,
        })
    }

    /// Of a manifest that is there and damaged, the file and the byte are known.
    fn name_manifest(&self, id: PartitionId, fault: &mut Fault) {
        if let Fault::Entries(lost) = fault
            && let PartitionDamage::ManifestLost { checkpoint } = lost.damage
            && let Some((_, error)) = self.damaged.iter().find(|(of, _)| *of == id)
        {
            let why = with_causes(error);
            *fault = Fault::Manifest { checkpoint, why };
        }
    }

    /// The same of a checkpoint, which may be older than all entries that are left. One that cannot be read is for those who make the partition.
    fn refuse_later_checkpoint(&self, id: PartitionId) -> Result<(), DiskFailure> {
        let Some(manifest) = self.manifests.get(&id).filter(|_| id != Places::METADATA) else {
            return Ok(());
        };
        let first = self
            .store
            .reader(manifest)
            .and_then(|mut it| it.next_piece());
        match first.ok().flatten().as_deref().and_then(later_checkpoint) {
            None => Ok(()),
            Some(version) => Err(DiskFailure::Refused(format!(
                "the checkpoint of partition {} has version {version}, which this program does not know: start it with the program that wrote it",
                id.0
            ))),
        }
    }

    /// The state of a partition is lost, and that is accepted: a checkpoint without anything becomes the one that counts, behind
    /// all that its log has, before anything is acknowledged on top of it.
    fn begin_with_nothing(
        &mut self,
        id: PartitionId,
        found: &mut RecoveredPartition,
    ) -> Result<CheckpointReader<D::File>, DiskFailure> {
        let manifest = self.manifests.get(&id).map(|manifest| manifest.at.index);
        // Above the lost one, so that the order for that one is never obeyed twice.
        let index = found.seen.max(manifest.unwrap_or(LogIndex(0))).next();
        let term = Term(found.hard_state.term.0.max(u64::from(self.start)));
        let at = CheckpointAt { index, term };
        let failed = |error: CheckpointError| DiskFailure::Io(with_causes(&error));
        let mut writer = self.store.writer(id, at).map_err(failed)?;
        for piece in self.pieces_of_nothing(id, at) {
            writer.piece(&piece).map_err(failed)?;
        }
        let synced = self.log.synced();
        let manifest = writer.finish(LiveEntries::NONE, synced).map_err(failed)?;
        self.log.set_checkpoint(id, at, LiveEntries::NONE);
        *found = RecoveredPartition {
            hard_state: HardState {
                term,
                vote: 0,
                commit: index,
            },
            checkpoint: Some(at),
            seen: index,
            ..RecoveredPartition::default()
        };
        self.store.reader(&manifest).map_err(failed)
    }

    /// The checkpoint of a partition that has nothing.
    fn pieces_of_nothing(&self, id: PartitionId, at: CheckpointAt) -> Vec<Bytes> {
        if id == Places::METADATA {
            return vec![crate::access::empty_checkpoint()];
        }
        let config = PartitionConfig::new(id, self.places.class_of(id));
        let mut partition = Partition::begin_behind(config, at.index, at.term);
        partition.begin_checkpoint();
        let pieces = std::iter::from_fn(|| partition.take_checkpoint_piece(usize::MAX));
        pieces.map(|piece| piece.bytes).collect()
    }
}

/// Whether a checkpoint is not what was written, rather than another program's or out of reach.
fn is_damage(error: &CheckpointError) -> bool {
    match error {
        CheckpointError::Damaged { .. } => true,
        CheckpointError::Disk { source, .. } => source.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

fn is_of_a_call(error: &(dyn Error + 'static)) -> bool {
    error.is::<io::Error>() || error.source().is_some_and(is_of_a_call)
}

/// What ends a start: a call that failed, however deep that lies, or what stands on the disk.
fn start_failure(error: &(dyn Error + 'static)) -> DiskFailure {
    let text = with_causes(error);
    if is_of_a_call(error) {
        DiskFailure::Io(text)
    } else {
        DiskFailure::Refused(text)
    }
}
