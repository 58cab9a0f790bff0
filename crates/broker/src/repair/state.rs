//! What a running broker says of its damage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use courser_contract::{LogIndex, PartitionId};
use courser_engine::{AsideFilters, LostReference, LostStream};

use super::judge::Fault;
use crate::slots::Places;

/// Streams that are named; of more only the number is told.
const NAMED_MAX: usize = 1_000;

/// Partitions that do not serve, streams that are stopped, and losses that were accepted at this start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeState {
    /// Partitions that are set aside, by number once the start is over.
    pub set_aside: Vec<SetAside>,
    /// Streams that have stopped at a record which the disk has lost, or will when they come to it: the first thousand.
    pub stopped: Vec<StoppedStream>,
    /// How many places need such a record.
    pub stopped_places: u64,
    /// What the operator has accepted and this start has done.
    pub accepted: Vec<Accepted>,
    /// Damage that was found since the start in segments that still hold something, by segment.
    pub rotten: Vec<RottenPlace>,
    /// Checkpoints that count, their manifests, and files beside them, that are damaged on the disk: found since the start.
    pub rotten_files: Vec<RottenFile>,
}

/// A file of the data folder that is damaged, while what it says is in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RottenFile {
    /// Its path within the data folder.
    pub file: String,
    /// The partition whose checkpoint it is, or whose manifest: another one is being written in its place.
    pub partition: Option<PartitionId>,
    /// What is known of it.
    pub what: String,
}

/// Damage in a segment that is in use. What of it is in memory is served all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RottenPlace {
    /// Number of the segment.
    pub segment: u64,
    /// Byte of its file.
    pub offset: u64,
    /// What is known of it.
    pub what: String,
    /// Messages in it that still wait, each once for each that waits for it.
    pub messages: u64,
    /// Whose they are: those that stop there, or would after a start. The first thousand.
    pub streams: Vec<(PartitionId, LostStream)>,
}

/// A partition that is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Which.
    pub partition: PartitionId,
    /// Why.
    pub fault: Fault,
    /// What it refuses.
    pub filters: AsideFilters,
    /// The last entry that it has.
    pub applied: LogIndex,
    /// Sessions that are not let in. These three say nothing where [`SetAside::knows_what_it_has`] does not hold.
    pub sessions: u64,
    /// Retained messages that are not found.
    pub retained: u64,
    /// Messages that wait in it.
    pub queued: u64,
}

impl SetAside {
    /// Whether it is known what is out of reach: of a state that is lost nobody knows it.
    #[must_use]
    pub const fn knows_what_it_has(&self) -> bool {
        match self.fault {
            Fault::Entries(_) => !self.fault.is_of_the_state() && self.applied.0 > 0,
            Fault::Manifest { .. } | Fault::Checkpoint { .. } => false,
            Fault::Apply(_) => true,
        }
    }

    /// What is refused while it is set aside, in a word or two.
    #[must_use]
    pub const fn refuses(&self) -> &'static str {
        match self.filters {
            AsideFilters::Known => "matching publishes",
            AsideFilters::Unknown => "all publishes",
            AsideFilters::Released => "no publishes",
        }
    }
}

/// A stream that has stopped at a record which the disk has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoppedStream {
    /// Where it is.
    pub partition: PartitionId,
    /// What it is.
    pub stream: LostStream,
    /// The position at which it has stopped.
    pub position: u64,
    /// Records of it that are lost.
    pub records: u64,
}

/// A loss that the operator has accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// A partition goes on without entries.
    Entries(PartitionId, String),
    /// A partition begins with nothing, behind this entry.
    State(PartitionId, LogIndex),
    /// An entry was not applied.
    Skipped(PartitionId, LogIndex),
    /// A stream goes on behind records that are lost: so many.
    Records(PartitionId, LostStream, u64),
}

/// What a partition had whose state is lost.
fn what_is_lost(id: PartitionId) -> &'static str {
    match id == Places::METADATA {
        true => "users, roles and limits, if there were any",
        false => "anything",
    }
}

impl fmt::Display for SetAside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.partition == Places::METADATA {
            let (what, fault) = (what_is_lost(self.partition), &self.fault);
            return write!(
                f,
                "partition 0 ({what}): {fault}: nothing is served without it"
            );
        }
        write!(
            f,
            "partition {} is set aside: {}; ",
            self.partition.0, self.fault
        )?;
        match self.knows_what_it_has() {
            true => write!(
                f,
                "it has the state of entry {}: {} sessions, {} messages that wait and {} retained messages are out of reach",
                self.applied.0, self.sessions, self.queued, self.retained
            )?,
            false => f.write_str(
                "its sessions, messages that wait and retained messages are out of reach, and it is not known how many these are",
            )?,
        }
        f.write_str(match self.filters {
            AsideFilters::Known => ", and publishes that match its subscriptions are refused",
            AsideFilters::Unknown => {
                ", and all publishes with QoS 1 and 2 are refused, since nobody knows its subscriptions"
            }
            AsideFilters::Released => "; publishes are not refused for it",
        })
    }
}

impl fmt::Display for StoppedStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of partition {} has stopped at position {}: {} records are lost",
            self.stream, self.partition.0, self.position, self.records
        )
    }
}

impl fmt::Display for RottenPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "segment {} at byte {}: {}; {} messages that still wait are in it",
            self.segment, self.offset, self.what, self.messages
        )
    }
}

impl RottenFile {
    /// What ends it.
    #[must_use]
    pub const fn ends_by(&self) -> &'static str {
        match self.partition {
            Some(_) => "a new checkpoint, which is being written in its place",
            None => "the same file from a backup of this folder, before the next start",
        }
    }
}

impl fmt::Display for RottenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, what, .. } = self;
        write!(f, "{file}: {what}; what ends it: {}", self.ends_by())
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries(id, what) => write!(f, "partition {} goes on: {what}", id.0),
            Self::State(id, at) => {
                let (what, at) = (what_is_lost(*id), at.0);
                write!(
                    f,
                    "partition {} begins without {what} behind entry {at}",
                    id.0
                )
            }
            Self::Skipped(id, at) => {
                write!(f, "entry {} of partition {} was not applied", at.0, id.0)
            }
            Self::Records(id, stream, records) => write!(
                f,
                "{stream} of partition {} goes on without {records} records",
                id.0
            ),
        }
    }
}

/// Gathers references by stream: each with its first position and its records.
pub(crate) fn by_stream(
    references: &[LostReference],
) -> impl Iterator<Item = (LostStream, u64, u64)> {
    references
        .chunk_by(|a, b| a.stream == b.stream)
        .map(|same| (same[0].stream.clone(), same[0].seq, same.len() as u64))
}

/// The same while shards add to it.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    told: Mutex<Told>,
    /// Segments of which something could not be read for who needed it: the scrub is to look at them.
    suspects: Mutex<BTreeSet<u64>>,
    /// It has not looked at all of them.
    is_suspicious: AtomicBool,
}

#[derive(Debug, Default)]
struct Told {
    state: NodeState,
    /// Places that have stopped, by partition.
    places: BTreeMap<PartitionId, u64>,
}

impl SharedState {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes it.
    pub(crate) fn change(&self, change: impl FnOnce(&mut NodeState)) {
        change(&mut self.told().state);
    }

    /// A partition is set aside.
    pub(crate) fn set_aside(&self, aside: SetAside) {
        self.change(|state| {
            let at = state
                .set_aside
                .partition_point(|it| it.partition < aside.partition);
            state.set_aside.insert(at, aside);
        });
    }

    /// These streams of a partition have stopped, and no others. Those that had not before.
    pub(crate) fn stopped(
        &self,
        id: PartitionId,
        references: &[LostReference],
    ) -> Vec<StoppedStream> {
        let mut told = self.told();
        let Told { state, places } = &mut *told;
        places.insert(id, references.len() as u64);
        state.stopped_places = places.values().sum();
        let before: Vec<_> = state
            .stopped
            .extract_if(.., |it| it.partition == id)
            .collect();
        let room = NAMED_MAX.saturating_sub(state.stopped.len());
        let streams = by_stream(references).map(|(stream, position, records)| StoppedStream {
            partition: id,
            stream,
            position,
            records,
        });
        let mut streams: Vec<_> = streams.take(room).collect();
        state.stopped.extend(streams.iter().cloned());
        state.stopped.sort_by_key(|it| it.partition);
        streams.retain(|it| !before.contains(it));
        streams
    }

    /// Something of a segment could not be read for who needed it.
    pub(crate) fn suspect(&self, segment: u64) {
        self.suspects().insert(segment);
        self.is_suspicious.store(true, Ordering::Release);
    }

    /// Whether the scrub should look at [`take_suspects`](Self::take_suspects) soon.
    pub(crate) fn is_suspicious(&self) -> bool {
        self.is_suspicious.load(Ordering::Acquire)
    }

    /// Those segments that can be looked at; ones that cannot yet stay, others that are gone are forgotten.
    pub(crate) fn take_suspects(
        &self,
        is_there: impl Fn(u64) -> bool,
        is_written: impl Fn(u64) -> bool,
    ) -> BTreeSet<u64> {
        self.is_suspicious.store(false, Ordering::Release);
        let mut suspects = self.suspects();
        let all = std::mem::take(&mut *suspects);
        let (there, rest) = all.into_iter().partition(|segment| is_there(*segment));
        let rest: BTreeSet<u64> = rest;
        *suspects = rest.into_iter().filter(|it| is_written(*it)).collect();
        there
    }

    fn suspects(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was done that the operator has ordered.
    pub(crate) fn accepted(&self, done: Accepted) {
        self.change(|state| {
            if state.accepted.len() < NAMED_MAX {
                state.accepted.push(done);
            }
        });
    }

    /// The scrub has looked at a segment and found this.
    pub(crate) fn scrubbed(&self, segment: u64, found: Vec<RottenPlace>) {
        self.change(|state| {
            state.rotten.retain(|place| place.segment != segment);
            let room = NAMED_MAX.saturating_sub(state.rotten.len());
            state.rotten.extend(found.into_iter().take(room));
            state
                .rotten
                .sort_by_key(|place| (place.segment, place.offset));
        });
    }

    /// The scrub has looked at all files beside the segments, and found these. What was known before.
    pub(crate) fn files_scrubbed(&self, found: Vec<RottenFile>) -> Vec<RottenFile> {
        std::mem::replace(&mut self.told().state.rotten_files, found)
    }

    /// What a partition was saved in is whole again.
    pub(crate) fn renewed(&self, id: PartitionId) {
        self.change(|state| state.rotten_files.retain(|it| it.partition != Some(id)));
    }

    /// Only these segments still hold something.
    pub(crate) fn segments_left(&self, is_left: impl Fn(u64) -> bool) {
        self.change(|state| state.rotten.retain(|place| is_left(place.segment)));
    }

    /// What it is now.
    pub(crate) fn get(&self) -> NodeState {
        self.told().state.clone()
    }
}
