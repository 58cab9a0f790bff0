//! A log beside a list of everything that was given to it: after each crash the log must be one of the states that the list
//! went through, and none before the last sync.

pub(crate) mod unread;

use std::{collections::BTreeMap, io::ErrorKind, ops::Range};

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    Batch, CheckpointAt, CheckpointError, CheckpointStore, HardState, LiveEntries, Log, LogConfig,
    Manifests, NodeIdentity, OpenError, PrepareJob, Push, Record, Recovered, StartId, WriteError,
    testing::{Call, Choices, MemDisk, Planted},
};

pub(crate) const NODE: NodeIdentity = NodeIdentity(42);
pub(crate) const SEGMENT: u64 = 64 << 10;
const PARTITIONS: u64 = 3;

/// The seeds of a test: so many, or by hand `SEEDS` from `SEED` on.
pub(crate) fn seeds(count: u64) -> Range<u64> {
    let number = |name: &str| Some(std::env::var(name).ok()?.parse().expect("a number"));
    let from = number("SEED").unwrap_or(0);
    from..from + number("SEEDS").unwrap_or(count)
}

/// What one partition has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionState {
    pub(crate) hard_state: HardState,
    pub(crate) checkpoint: Option<CheckpointAt>,
    /// Entries above the checkpoint by index.
    pub(crate) entries: BTreeMap<u64, (u64, Bytes)>,
    /// Needed ones at or below it.
    pub(crate) live: BTreeMap<u64, (u64, Bytes)>,
}

pub(crate) type State = BTreeMap<u16, PartitionState>;

thread_local! {
    /// Bug of all logs that this thread opens.
    static PLANTED: std::cell::Cell<Option<Planted>> = const { std::cell::Cell::new(None) };
}

/// Every log that this thread opens from now on has this bug.
pub(crate) fn plant(planted: Option<Planted>) {
    PLANTED.set(planted);
}

pub(crate) fn config() -> LogConfig {
    let mut config = LogConfig::new(NODE, SEGMENT).expect("a good size");
    config.reserve_segments = 1;
    config.spare_segments = 1;
    match PLANTED.get() {
        Some(planted) => config.with(planted),
        None => config,
    }
}

pub(crate) fn start(counter: u32) -> StartId {
    StartId {
        counter,
        word: Choices::new(u64::from(counter)).next_u64(),
    }
}

pub(crate) fn open(
    disk: &MemDisk,
    counter: u32,
    manifests: &Manifests,
) -> Result<(Log<MemDisk>, Recovered), OpenError> {
    Log::open(disk.clone(), config(), start(counter), manifests)
}

pub(crate) fn entry(partition: u16, index: u64, data: &[u8]) -> Record {
    entry_of(Term(1), partition, index, data)
}

pub(crate) fn entry_of(term: Term, partition: u16, index: u64, data: &[u8]) -> Record {
    Record::Entry {
        partition: PartitionId(partition),
        term,
        index: LogIndex(index),
        data: Bytes::copy_from_slice(data),
    }
}

/// Writes a batch with these records.
pub(crate) fn write(log: &mut Log<MemDisk>, batch: &mut Batch, records: &[Record]) {
    batch.clear();
    for record in records {
        assert_eq!(batch.push(record), Push::Taken, "it fits");
    }
    log.write(batch).expect("written");
}

/// See the module.
pub(crate) struct World {
    pub(crate) choices: Choices,
    pub(crate) disk: MemDisk,
    pub(crate) checkpoints: MemDisk,
    pub(crate) log: Log<MemDisk>,
    batch: Batch,
    store: CheckpointStore<MemDisk>,
    job: Option<PrepareJob<MemDisk>>,
    starts: u32,
    /// States that a crash may leave: the first is synced, the last is what was written.
    states: Vec<State>,
    pub(crate) crashes: u64,
    pub(crate) seen_cut: u64,
    /// Segments that starts did not read.
    pub(crate) passed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        disk.seed_faults(seed);
        checkpoints.seed_faults(seed ^ 1);
        let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
        let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
        let batch = log.new_batch();
        Self {
            choices: Choices::new(seed),
            disk,
            checkpoints,
            log,
            batch,
            store,
            job: None,
            starts: 1,
            states: vec![State::new()],
            crashes: 0,
            seen_cut: 0,
            passed: 0,
        }
    }

    fn state(&self) -> &State {
        self.states.last().expect("there is always a state")
    }

    fn data(&mut self) -> Bytes {
        let len = match self.choices.below(20) {
            0 => self.choices.below(40_000),
            1..=3 => self.choices.below(9_000),
            _ => self.choices.below(200),
        };
        let salt = self.choices.next_u64();
        let mut bytes = Choices::new(salt);
        (0..len).map(|_| bytes.next_u64() as u8).collect()
    }

    /// The next entry of a partition; sometimes one that replaces others, as after a change of leader.
    fn next_entry(&mut self, state: &mut State) -> Record {
        let id = self.choices.below(PARTITIONS) as u16;
        let data = self.data();
        let replaces = self.choices.below(30) == 0;
        // Sometimes many, as after a loss that was accepted: those that come are below a checkpoint long before they are as many.
        let back = match self.choices.below(4) {
            0 => self.choices.below(60),
            _ => self.choices.below(5),
        };
        let partition = state.entry(id).or_default();
        let floor = partition.checkpoint.map_or(0, |at| at.index.0);
        let last = partition
            .entries
            .last_key_value()
            .map_or(floor, |(index, _)| *index);
        let mut index = last + 1;
        let led = partition.entries.last_key_value();
        let saved = partition.checkpoint.map_or(1, |at| at.term.0);
        let mut term = partition.hard_state.term.0;
        // Terms ascend.
        term = term.max(led.map_or(saved, |(_, (term, _))| *term));
        if replaces {
            index = index.saturating_sub(back).max(floor + 1);
            term += 1;
        }
        partition.entries.split_off(&index);
        partition.entries.insert(index, (term, data.clone()));
        Record::Entry {
            partition: PartitionId(id),
            term: Term(term),
            index: LogIndex(index),
            data,
        }
    }

    fn next_hard_state(&mut self, state: &mut State) -> Record {
        let id = self.choices.below(PARTITIONS) as u16;
        let vote = self.choices.below(4);
        let partition = state.entry(id).or_default();
        let last = partition
            .entries
            .last_key_value()
            .map_or(0, |(index, _)| *index);
        let old = partition.hard_state;
        partition.hard_state = HardState {
            term: Term(old.term.0 + vote % 2),
            vote,
            commit: LogIndex(last.max(old.commit.0)),
        };
        let HardState { term, vote, commit } = partition.hard_state;
        Record::HardState {
            partition: PartitionId(id),
            term,
            vote,
            commit,
        }
    }

    /// Writes a batch; each batch is a state that a crash may leave.
    pub(crate) fn write(&mut self) -> Result<(), WriteError> {
        let mut state = self.state().clone();
        let records = 1 + self.choices.below(12);
        self.batch.clear();
        for _ in 0..records {
            let before = state.clone();
            let record = match self.choices.below(8) {
                0 => self.next_hard_state(&mut state),
                _ => self.next_entry(&mut state),
            };
            match self.batch.push(&record) {
                Push::Taken if self.batch.is_unfinished() => {
                    // What went ahead counts with the last piece.
                    self.states.push(before);
                }
                Push::Taken => {}
                Push::Full => {
                    state = before;
                    break;
                }
            }
        }
        while self.batch.is_unfinished() {
            self.log.write(&mut self.batch)?;
            self.batch.clear();
        }
        self.states.push(state);
        self.log.write(&mut self.batch)?;
        self.log.check();
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), WriteError> {
        self.log.sync()?;
        self.states.drain(..self.states.len() - 1);
        Ok(())
    }

    /// A checkpoint of all that one partition has; half of the entries stay needed. When it fails for good a start may find it all the same.
    pub(crate) fn checkpoint(&mut self) -> Result<(), CheckpointError> {
        let id = self.choices.below(PARTITIONS) as u16;
        let Some(partition) = self.state().get(&id).cloned() else {
            return Ok(());
        };
        let Some((index, (term, _))) = partition.entries.last_key_value() else {
            return Ok(());
        };
        if self.states.len() > 1 {
            return Ok(());
        }
        let at = CheckpointAt {
            index: LogIndex(*index),
            term: Term(*term),
        };
        let keep = self.choices.below(3);
        let all = partition.live.iter().chain(&partition.entries);
        let live: BTreeMap<u64, (u64, Bytes)> = all
            .filter(|(index, _)| keep > 0 && (*index / 7) % 3 < keep - 1)
            .map(|(index, entry)| (*index, entry.clone()))
            .collect();
        let ranges: LiveEntries = live.keys().map(|index| LogIndex(*index)).collect();
        let mut saved = self.state().clone();
        let partition = saved.get_mut(&id).expect("it was there");
        partition.checkpoint = Some(at);
        partition.live = live;
        partition.entries.clear();
        partition.hard_state.commit = partition.hard_state.commit.max(at.index);
        partition.hard_state.term = partition.hard_state.term.max(at.term);
        let id = PartitionId(id);
        match self.save(id, at, &ranges) {
            Ok(()) => {
                self.states = vec![saved];
                // The log must not know less than the checkpoint says.
                self.log.set_checkpoint(id, at, ranges);
                Ok(())
            }
            Err(error) => {
                if !error.is_passing() {
                    self.states.push(saved);
                }
                Err(error)
            }
        }
    }

    fn save(
        &self,
        id: PartitionId,
        at: CheckpointAt,
        live: &LiveEntries,
    ) -> Result<(), CheckpointError> {
        let mut writer = self.store.writer(id, at)?;
        if let Err(error) = writer.piece(b"state") {
            writer.give_up();
            return Err(error);
        }
        writer.finish(live.clone(), self.log.synced()).map(|_| ())
    }

    /// Segments are made ready by a slower thread.
    pub(crate) fn background(&mut self) -> Result<(), WriteError> {
        match self.job.take() {
            Some(job) => self.log.prepared(job.run())?,
            None => self.job = self.log.prepare(),
        }
        self.log.check();
        Ok(())
    }

    /// The process ended; opens the log on what is left and looks.
    pub(crate) fn restart(&mut self, disk: MemDisk, checkpoints: MemDisk) -> Recovered {
        self.crashes += 1;
        self.starts += 1;
        self.job = None;
        let (store, loaded) =
            CheckpointStore::open(checkpoints.clone(), NODE).expect("the folder opens");
        assert!(loaded.damaged.is_empty(), "{:?}", loaded.damaged);
        let whole = unread::without_summaries(&disk);
        let (mut log, recovered) =
            open(&disk, self.starts, &loaded.manifests).expect("the log opens");
        log.check();
        self.passed += recovered.report.passed_segments;
        if recovered.report.passed_segments > 0 {
            let (all, found) = open(&whole, self.starts, &loaded.manifests).expect("the log opens");
            assert!(state_of(&all, &found) == state_of(&log, &recovered));
            unread::assert_covers(&log.held_segments(), &all.held_segments());
        }
        assert_eq!(recovered.report.damages, [], "{}", recovered.report);
        self.seen_cut += u64::from(recovered.report.cut.is_some());
        let found = state_of(&log, &recovered);
        let fits = self.states.iter().any(|state| same(state, &found));
        assert!(
            fits,
            "no state that was written: {:#?}\nexpected one of {:#?}",
            summary(&found),
            self.states.iter().map(summary).collect::<Vec<_>>()
        );
        self.states = vec![found];
        self.batch = log.new_batch();
        (self.log, self.store) = (log, store);
        (self.disk, self.checkpoints) = (disk, checkpoints);
        recovered
    }

    /// One step of a run without failures.
    pub(crate) fn step(&mut self) {
        match self.choices.below(16) {
            0..=7 => self.write().expect("written"),
            8..=11 => self.sync().expect("synced"),
            12 => {
                self.log.witness().expect("written");
                self.states.drain(..self.states.len() - 1);
            }
            13 => self.checkpoint().expect("saved"),
            _ => self.background().expect("synced"),
        }
    }
}

/// What a log that was opened says.
pub(crate) fn state_of(log: &Log<MemDisk>, recovered: &Recovered) -> State {
    let mut state = State::new();
    for (id, partition) in &recovered.partitions {
        assert_eq!(partition.damage, None);
        assert!(partition.missing_live.is_empty());
        let mut reader = log.reader(*id);
        let live = partition.live.iter().map(|index| {
            let read = reader.read(index).expect("a live entry is there");
            (index.0, (read.term.0, read.data))
        });
        let live = live.collect();
        let mut again = log.reader(*id);
        let entries = partition.entries.iter().map(|entry| {
            let read = again.read(entry.index).expect("an entry is there");
            assert!(
                (read.term, &read.data) == (entry.term, &entry.data),
                "entry {:?} of {id:?} is read back",
                entry.index
            );
            (entry.index.0, (entry.term.0, entry.data.clone()))
        });
        let entries = entries.collect();
        let found = PartitionState {
            hard_state: partition.hard_state,
            checkpoint: partition.checkpoint,
            entries,
            live,
        };
        state.insert(id.0, found);
    }
    let live = |(id, found): (&u16, &PartitionState)| (*id, found.live.clone());
    let alone: BTreeMap<_, _> = state.iter().map(live).collect();
    assert!(
        read_together(log, recovered) == alone,
        "in any way the same is read"
    );
    state
}

type Live = BTreeMap<u64, (u64, Bytes)>;

/// Live entries of all partitions, by readers of whom the one with the lowest place looks next.
fn read_together(log: &Log<MemDisk>, recovered: &Recovered) -> BTreeMap<u16, Live> {
    let mut read: BTreeMap<u16, Live> = BTreeMap::new();
    let mut shared = None;
    let mut reading = Vec::new();
    for (id, partition) in &recovered.partitions {
        let reader = log.reader(*id);
        shared.get_or_insert_with(|| reader.shared());
        read.insert(id.0, BTreeMap::new());
        let mut wanted: Vec<LogIndex> = partition.live.iter().collect();
        wanted.reverse();
        reading.push((id.0, reader, wanted));
    }
    while let Some((place, at)) = reading
        .iter()
        .enumerate()
        .filter_map(|(at, (_, reader, wanted))| Some((reader.next_place(*wanted.last()?)?, at)))
        .min()
    {
        let (id, reader, wanted) = &mut reading[at];
        let index = *wanted.last().expect("it was seen");
        let looked = reader.look(index, shared.as_mut().expect("of the first"));
        match looked.expect("a live entry is there") {
            Some(entry) => {
                wanted.pop();
                let of = read.entry(*id).or_default();
                of.insert(index.0, (entry.term.0, entry.data));
            }
            None => assert!(reader.next_place(index) > Some(place), "it goes on"),
        }
    }
    read
}

fn same(expected: &State, found: &State) -> bool {
    let none = PartitionState::default();
    (0..PARTITIONS as u16)
        .all(|id| expected.get(&id).unwrap_or(&none) == found.get(&id).unwrap_or(&none))
}

/// Indexes and lengths, for messages.
fn summary(state: &State) -> Vec<String> {
    let line = |(id, partition): (&u16, &PartitionState)| {
        let entries: Vec<(u64, u64, usize)> = partition
            .entries
            .iter()
            .map(|(index, (term, data))| (*index, *term, data.len()))
            .collect();
        let live: Vec<u64> = partition.live.keys().copied().collect();
        format!(
            "{id}: {:?} {:?} entries {entries:?} live {live:?}",
            partition.hard_state, partition.checkpoint
        )
    };
    state.iter().map(line).collect()
}

pub(crate) fn checkpoint_at(index: u64, term: u64) -> CheckpointAt {
    CheckpointAt {
        index: LogIndex(index),
        term: Term(term),
    }
}

/// A folder of checkpoints without states.
#[derive(Default)]
pub(crate) struct CheckpointFolder(MemDisk);

impl CheckpointFolder {
    fn open(&self) -> (CheckpointStore<MemDisk>, Manifests) {
        let (store, loaded) = CheckpointStore::open(self.0.clone(), NODE).expect("it opens");
        (store, loaded.manifests)
    }

    pub(crate) fn manifests(&self) -> Manifests {
        self.open().1
    }

    pub(crate) fn take(
        &self,
        partition: PartitionId,
        at: CheckpointAt,
        live: LiveEntries,
        synced: courser_log::Synced,
    ) {
        let mut writer = self.open().0.writer(partition, at).expect("created");
        writer.piece(b"state").expect("written");
        writer.finish(live, synced).expect("finished");
    }
}

/// The manifests of a folder in which partition 1 has a checkpoint at this index, of which nothing older is needed.
pub(crate) fn manifest(index: u64, partition: u16, synced: courser_log::Synced) -> Manifests {
    let folder = CheckpointFolder::default();
    let at = checkpoint_at(index, 1);
    folder.take(PartitionId(partition), at, LiveEntries::NONE, synced);
    folder.manifests()
}

/// Steps without failures, and a crash now and then.
pub(crate) fn run(seed: u64, crash: impl Fn(&mut World, &mut Choices)) -> World {
    let mut world = World::new(seed);
    let mut choices = Choices::new(seed ^ 0x5555);
    for _ in 0..6 {
        for _ in 0..choices.below(120) {
            world.step();
        }
        crash(&mut world, &mut choices);
    }
    world
}

/// Power is lost, and the process starts again.
pub(crate) fn lose_power(world: &mut World, choices: &mut Choices) {
    let disk = world.disk.power_loss(choices.next_u64());
    let checkpoints = world.checkpoints.power_loss(choices.next_u64());
    world.restart(disk, checkpoints);
}

/// A failed call, then the end of the process; sometimes of the power too.
pub(crate) fn fail_and_restart(world: &mut World, choices: &mut Choices, call: Call) {
    world.disk.fail(call, choices.below(4), 1, ErrorKind::Other);
    let mut failed = false;
    for _ in 0..60 {
        let result = match choices.below(3) {
            0 => world.sync(),
            1 => world.log.witness().map(|_| ()),
            _ => world.write(),
        };
        if let Err(error) = result.and_then(|()| world.background()) {
            assert!(error.is_final());
            failed = true;
            break;
        }
    }
    if failed {
        assert!(world.log.sync().is_err(), "a failure is final");
        assert!(world.write().is_err(), "a failure is final");
    }
    let (disk, checkpoints) = (world.disk.kill(), world.checkpoints.kill());
    if choices.below(2) == 0 {
        let disk = disk.power_loss(choices.next_u64());
        let checkpoints = checkpoints.power_loss(choices.next_u64());
        world.restart(disk, checkpoints);
    } else {
        world.restart(disk, checkpoints);
        lose_power(world, choices);
    }
}

/// A call of checkpoints that fails, and others behind it until one has failed for good; then the process ends, perhaps the power too.
pub(crate) fn fail_a_checkpoint(world: &mut World, choices: &mut Choices) -> bool {
    let calls = [
        Call::Create,
        Call::Write,
        Call::Sync,
        Call::Rename,
        Call::Remove,
        Call::SyncDir,
    ];
    let kinds = [ErrorKind::StorageFull, ErrorKind::Other];
    let call = calls[choices.below(calls.len() as u64) as usize];
    let kind = kinds[choices.below(2) as usize];
    world.checkpoints.fail(call, choices.below(6), 2, kind);
    let mut went_on = false;
    for _ in 0..60 {
        if choices.below(3) == 0 {
            world.write().expect("written");
        }
        world.sync().expect("synced");
        world.background().expect("synced");
        match world.checkpoint() {
            Ok(()) => {}
            Err(error) if error.is_passing() => went_on = true,
            Err(_) => break,
        }
    }
    match choices.below(2) {
        0 => lose_power(world, choices),
        _ => {
            let (disk, checkpoints) = (world.disk.kill(), world.checkpoints.kill());
            world.restart(disk, checkpoints);
        }
    }
    went_on
}
