//! The node's disk: the log and the consensus groups that the broker has, on a disk in memory that loses power, fails and fills
//! up. In one thread: stations are events.
//!
//! ```text
//!   propose ─▶ group ─▶ order of the shard ─▶ writer: batch, write ─▶ sync ─▶ done of each shard ─▶ group ─▶ committed
//! ```
//! What was committed is remembered outside of the node (`Truth`), and every recovery is held against it: nothing committed is
//! gone (I1), nothing is there that nobody proposed (I5), terms are not forgotten (I6), and damage is reported when, and only
//! when, something rotted (I7).

mod backup;
mod batch;
mod checkpoints;
mod cleaner;
mod copy;
mod damage;
mod faults;
mod from_backup;
mod groups;
mod planted;
mod probe;
mod quarantine;
mod recall;
mod recovery;
mod repair;
mod restore;
mod rot;
mod rotting;
mod scrub;
mod truth;
mod writer;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use courser_cluster::{Consensus, Group};
use courser_contract::{Class, LogIndex, PartitionId, Recalled, ShardId};
use courser_log::testing::MemDisk;
use courser_log::{
    Batch, CheckpointStore, HeldSegment, Log, LogConfig, LogCounts, LogPlaces, NodeIdentity,
    PrepareJob, Question, Record, SegmentNumber, SpaceState,
};

use self::backup::{Backup, Making};
use self::checkpoints::Saving;
use self::cleaner::{Answer, Cleaning};
use self::copy::Held;
use self::groups::Told;
use self::planted::PlantedDisk;
use self::quarantine::Quarantine;
use self::recall::Recalling;
use self::rot::Rotten;
use self::truth::{MayLose, Truth};
use crate::bug::Bug;
use crate::rng::Rng;
use crate::seeds::{DiskPlan, Plan};
use crate::shell::Places;

/// Whose files these are.
const NODE: NodeIdentity = NodeIdentity(0xC0);

/// Who waits for an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// A group, for its records up to this number.
    Group(PartitionId, u64),
    /// The cleaner.
    Cleaner,
}

/// All who wait for some orders.
pub(crate) type Marks = Vec<Waits>;

/// What happens at the stations.
#[derive(Debug)]
pub(crate) enum DiskEvent {
    /// The writer looks at what has gathered.
    Write(u32),
    /// Its sync is over.
    Sync(u32),
    /// What was only written at this moment is to be synced.
    Overdue(u32, u64),
    /// Nothing has happened for a while since the sync of this number.
    Idle(u32, u64),
    /// The reader has made a segment ready.
    Prepared(u32),
    /// Those who wait hear that records are durable.
    Persisted(u32, Marks),
    /// A checkpoint's pieces are all written.
    CheckpointDone(u32, PartitionId),
    /// The cleaner makes a step.
    Clean(u32),
    /// The writer hears what the cleaner asks.
    CleanerAsks(u32, Question),
    /// The cleaner hears the answer.
    CleanerTold(u32, Box<Answer>),
    /// The record reader makes a step.
    Recall(u32),
    /// It hears where things are.
    Places(u32, Box<LogPlaces>),
    /// What it has read comes to whom it is for.
    Recalled(u32, Recalled),
    /// A copy of the folder begins.
    Hold,
    /// What it holds is read.
    Copy(u32),
    /// A backup begins.
    BackUp,
    /// Its next segment is copied.
    BackUpSegment(u32),
    /// The disk is lost: the node comes out of a backup.
    LoseDisk,
    /// The program panics at an entry that is to come.
    Poison,
    /// The operator does something about a partition that is set aside.
    Operate(u32),
    /// The log's disk is full from now on, until something is taken.
    Fill,
    /// A node with nothing but its reserve saves what is due.
    Hurry(u32),
    /// Segments are going to be checked.
    Scrub,
    /// They have been read.
    Scrubbed(u32),
    /// A call of the disk is going to fail.
    Fail,
    /// The disk fills up, or has room again.
    Full(bool),
    /// Something rots.
    Rot,
    /// A segment is checked of which something could not be read.
    Suspect(u32, SegmentNumber),
    /// An operator comes for what has rotted.
    Repair(u32),
}

/// When an order is answered (M1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mark {
    /// Once it is synced.
    #[default]
    Synced,
    /// Once it is written; the sync follows within 100 ms.
    Written,
}

/// What a shard's turn wants written.
#[derive(Debug, Default)]
struct Order {
    mark: Mark,
    /// Whether it waits for the sync whatever the mark says.
    sync: bool,
    marks: Marks,
    records: VecDeque<Record>,
}

impl Order {
    fn of(mark: Mark) -> Self {
        Self {
            mark,
            ..Self::default()
        }
    }
}

/// The orders of a turn: of durable partitions, and of relaxed ones.
#[derive(Debug)]
struct Orders {
    durable: Order,
    relaxed: Order,
}

/// A node that runs.
struct Running {
    log: Log<PlantedDisk>,
    batch: Batch,
    groups: BTreeMap<PartitionId, Group>,
    orders: VecDeque<Order>,
    /// Marks of the batch that is written and is being synced.
    writing: Option<Marks>,
    /// Since when something is written that nobody has asked to sync.
    written: Option<u64>,
    job: Option<PrepareJob<PlantedDisk>>,
    store: CheckpointStore<PlantedDisk>,
    saving: BTreeMap<PartitionId, Saving>,
    /// Index of the last checkpoint of each partition, and how many syncs there had been.
    saved: BTreeMap<PartitionId, (LogIndex, u64)>,
    syncs: u64,
    space: SpaceState,
    cleaning: Cleaning,
    recalling: Recalling,
    /// What is being copied.
    held: Option<Held>,
    /// The backup that is being made.
    making: Option<Making>,
    /// Whether all partitions are saved for want of room.
    hurries: bool,
    /// What is being checked.
    scrubbing: Vec<HeldSegment>,
}

/// See the module.
pub(crate) struct DiskNode {
    plan: DiskPlan,
    bug: Option<Bug>,
    rng: Rng,
    /// The folders as the next process finds them.
    log_folder: MemDisk,
    checkpoint_folder: MemDisk,
    running: Option<Running>,
    truth: BTreeMap<PartitionId, Truth>,
    places: Places,
    /// The start counter of the folder.
    pub(super) starts: u32,
    /// Starts that there were, also those of which a folder that came out of a backup knows nothing.
    lived: u32,
    /// All that were finished, the last one last.
    backups: Vec<Backup>,
    /// Entries that cannot be applied.
    quarantine: Quarantine,
    /// What has rotted.
    rotten: Rotten,
    /// A start reads all segments.
    reads_all: bool,
    /// When the process ended that was the last one to serve, until the next one does; and whether power was lost since then.
    down: Option<(u64, Lost)>,
    /// An entry of a relaxed partition is synced at the latest so many milliseconds after it was committed.
    relaxed_ms: u64,
}

/// What the end of a process has taken with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Memory,
    Power,
}

impl DiskNode {
    pub(super) fn new(plan: &Plan, places: &Places) -> Option<Self> {
        let disk = plan.disk.clone()?;
        Some(Self {
            plan: disk,
            bug: plan.bug,
            rng: Rng::new(plan.seed ^ 0x00D1_5CFA_0175_0000),
            log_folder: MemDisk::new(),
            checkpoint_folder: MemDisk::new(),
            running: None,
            truth: places.logged().map(|id| (id, Truth::default())).collect(),
            places: *places,
            starts: 0,
            lived: 0,
            backups: Vec::new(),
            quarantine: Quarantine::default(),
            rotten: Rotten::new(plan.seed),
            reads_all: false,
            down: None,
            relaxed_ms: writer::RELAXED_MS + plan.commit_ms + 1,
        })
    }

    fn config(&self) -> LogConfig {
        let mut config = LogConfig::new(NODE, self.plan.segment_bytes)
            .expect("a plan's segments have a size that can be");
        config.reserve_segments = self.plan.reserve_segments;
        config.reads_all = self.reads_all;
        match self.bug.and_then(Bug::in_log) {
            Some(planted) => config.with(planted),
            None => config,
        }
    }

    fn folder(&self, folder: &MemDisk) -> PlantedDisk {
        PlantedDisk::new(folder.clone(), self.bug)
    }

    pub(super) fn committed_entries(&self, id: PartitionId) -> Vec<(LogIndex, Bytes)> {
        self.truth[&id].committed_entries()
    }

    pub(super) fn last_committed(&self, id: PartitionId) -> LogIndex {
        self.truth[&id].last_committed()
    }

    pub(super) fn propose(&mut self, id: PartitionId, entry: Bytes) {
        if let Some(running) = &mut self.running {
            let group = running
                .groups
                .get_mut(&id)
                .expect("every partition has a group");
            // What a leader that was not heard of yet proposes is lost, as with any other leadership.
            let _ = group.propose(entry);
        }
    }

    /// What the log of the process that runs has done.
    pub(super) fn log_counts(&self) -> LogCounts {
        let running = self.running.as_ref();
        running.map_or_else(LogCounts::default, |running| running.log.counts())
    }

    /// The process ends. Its files stay as they are, or as a loss of power leaves them.
    pub(super) fn die(&mut self, now: u64) {
        self.running = None;
        let (since, _) = *self.down.get_or_insert((now, Lost::Memory));
        if self.rng.chance(self.plan.power_losses) {
            self.down = Some((since, Lost::Power));
            self.log_folder = self.log_folder.power_loss(self.rng.next());
            self.checkpoint_folder = self.checkpoint_folder.power_loss(self.rng.next());
        } else {
            self.log_folder = self.log_folder.kill();
            self.checkpoint_folder = self.checkpoint_folder.kill();
        }
    }

    /// When the process ended, if power was lost since then.
    fn lost_power(&self) -> Option<u64> {
        let lost = self.down.filter(|(_, lost)| *lost == Lost::Power);
        lost.map(|(since, _)| since)
    }

    /// What a start may miss of a partition after a loss of power at `down` (M1).
    fn may_lose(&self, id: PartitionId, down: Option<u64>) -> MayLose {
        match (self.places.class_of(id), down) {
            (Class::Durable | Class::Volatile, _) | (Class::Relaxed, None) => MayLose::Nothing,
            (Class::Relaxed, Some(down)) => MayLose::Since(down.saturating_sub(self.relaxed_ms)),
        }
    }

    /// Polls a group: its records become part of the orders, the rest is told.
    fn poll(&mut self, id: PartitionId, orders: &mut Orders, now: u64) -> Vec<Told> {
        let Some(running) = &mut self.running else {
            return Vec::new();
        };
        // One that is set aside has none.
        let Some(group) = running.groups.get_mut(&id) else {
            return Vec::new();
        };
        let truth = self.truth.get_mut(&id).expect("every partition has one");
        let order = match self.places.class_of(id) {
            Class::Durable | Class::Volatile => &mut orders.durable,
            Class::Relaxed => &mut orders.relaxed,
        };
        groups::poll(group, order, truth, (now, self.bug))
    }

    fn shard_partitions(places: &Places, shard: ShardId) -> Vec<PartitionId> {
        places
            .logged()
            .filter(|&id| places.shard_of(id) == shard)
            .collect()
    }
}
