//! A log with records that come and go, a checkpoint now and then, and a cleaner; beside it a list of every record that was ever
//! written. After each crash all that the checkpoints name must be there, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

use bytes::Bytes;
use courser_contract::{LogIndex, Need, Needs, NeedsScan, PartitionId, Term};
use courser_log::{
    Batch, CheckpointAt, CheckpointStore, Cleaner, Disk, LiveEntries, Log, LogConfig, Manifests,
    NodeIdentity, Pressure, Push, Question, Record, StartId, Step,
    testing::{Call, Choices, MemDisk},
};

const NODE: NodeIdentity = NodeIdentity(42);
const PARTITIONS: u16 = 3;
const STREAMS: u64 = 5;

/// Records of an entry: two bytes of length and as many more, at multiples of eight.
pub(crate) struct Rows;

pub(crate) struct Scan(Vec<u8>);

impl Needs for Rows {
    type Scan = Scan;

    fn scan(&self, _: PartitionId) -> Scan {
        Scan(Vec::new())
    }

    fn record_bytes(&self, entry: &Bytes, byte: u32) -> Option<usize> {
        let head = entry.get(byte as usize..)?.first_chunk()?;
        Some(2 + usize::from(u16::from_le_bytes(*head)))
    }
}

impl NeedsScan for Scan {
    fn piece(&mut self, bytes: &[u8], need: &mut dyn FnMut(Need)) -> Result<(), String> {
        self.0.extend_from_slice(bytes);
        while let Some((row, rest)) = self.0.split_first_chunk::<12>() {
            let (index, byte) = row.split_at(8);
            need(Need {
                index: LogIndex(u64::from_le_bytes(index.try_into().expect("eight"))),
                byte: u32::from_le_bytes(byte.try_into().expect("four")),
            });
            self.0 = rest.to_vec();
        }
        Ok(())
    }

    fn finish(self) -> Result<(), String> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err("half a row".to_owned()),
        }
    }
}

/// Where a record is needed: partition, stream, address.
pub(crate) type Reference = (u16, u64, u64, u32);

/// What is wrong with the one who drives the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// One of the records that it gives is not written.
    LoseOne,
}

/// Kept records must come as the checkpoints name them: partition by partition, stream by stream, in the order of each; a record for several
/// streams where the first of them is. So somebody who takes one stream finds his records together. Of one pass over a whole segment.
#[derive(Default)]
struct Order {
    last: Option<Reference>,
}

impl Order {
    fn take(&mut self, records: &[Record], saved: &BTreeMap<u16, (u64, BTreeSet<Reference>)>) {
        for record in records {
            match record {
                Record::Kept {
                    partition,
                    index,
                    byte,
                    ..
                } => {
                    let (_, needed) = &saved[&(partition.0 - 1)];
                    let mut places = needed.iter();
                    let place = places.find(|it| (it.2, it.3) == (index.0, *byte));
                    let place = place.copied();
                    assert!(place.is_some(), "what is moved is needed");
                    assert!(self.last < place, "{:?} before {place:?}", self.last);
                    self.last = place;
                }
                Record::Cleaned { .. } => self.last = None,
                Record::Entry { .. } | Record::HardState { .. } => panic!("a cleaner has none"),
            }
        }
    }
}

/// Records that a pass moves: in two seeds of three a segment needs several.
const fn records_max(seed: u64) -> usize {
    match seed % 3 {
        0 => 7,
        1 => 40,
        _ => 1 << 17,
    }
}

pub(crate) struct World {
    pub(crate) choices: Choices,
    pub(crate) log: Log<MemDisk>,
    pub(crate) cleaner: Cleaner<MemDisk, Rows>,
    disk: MemDisk,
    checkpoints: MemDisk,
    store: CheckpointStore<MemDisk>,
    config: LogConfig,
    batch: Batch,
    starts: u32,
    last: [u64; PARTITIONS as usize],
    /// Streams of a partition.
    pub(crate) streams: u64,
    /// Every record that was written.
    written: BTreeMap<(u16, u64, u32), Bytes>,
    /// What is needed now, and what the checkpoint that counts says is.
    pub(crate) needed: BTreeSet<Reference>,
    saved: BTreeMap<u16, (u64, BTreeSet<Reference>)>,
    pub(crate) fault: Fault,
    seed: u64,
    /// Segments cleaned by all cleaners.
    pub(crate) cleaned: u64,
    /// Budget besides what live traffic earns.
    pub(crate) gift: u64,
    /// Times that the cleaner could not read something for the moment.
    pub(crate) held_up: u64,
    /// Segments that the cleaner has begun although others had none left then.
    pub(crate) last_ones: u64,
    /// Bytes of all checkpoints.
    pub(crate) checkpoint_bytes: u64,
}

impl World {
    pub(crate) fn new(seed: u64, segment: u64) -> Self {
        Self::with_reserve(seed, segment, 2)
    }

    /// The same with so many segments in reserve.
    pub(crate) fn with_reserve(seed: u64, segment: u64, reserve: u32) -> Self {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        let mut config = LogConfig::new(NODE, segment).expect("a good size");
        config.reserve_segments = reserve;
        config.spare_segments = 1;
        let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
        let none = Manifests::new();
        let (mut log, _) = Log::open(disk.clone(), config, start(1), &none).expect("it opens");
        Self {
            choices: Choices::new(seed),
            batch: log.new_batch(),
            cleaner: Cleaner::new(disk.clone(), store.clone(), none, Rows, segment)
                .with_records_max(records_max(seed)),
            seed,
            log,
            disk,
            checkpoints,
            store,
            config,
            starts: 1,
            last: [0; PARTITIONS as usize],
            streams: STREAMS,
            written: BTreeMap::new(),
            needed: BTreeSet::new(),
            saved: BTreeMap::new(),
            fault: Fault::None,
            cleaned: 0,
            gift: 0,
            held_up: 0,
            last_ones: 0,
            checkpoint_bytes: 0,
        }
    }

    /// The log's disk has so many bytes.
    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.disk.set_capacity(Some(bytes));
        self.log.refresh_space();
    }

    /// Calls to the disks of log and checkpoints that fail for the moment, from after so many of them on.
    pub(crate) fn fail(&self, call: Call, after: u64) {
        for disk in [&self.disk, &self.checkpoints] {
            disk.fail(call, after, 4, ErrorKind::TimedOut);
        }
    }

    /// So many bytes more find room on the log's disk.
    pub(crate) fn leave_room(&mut self, bytes: u64) {
        const LARGE: u64 = 1 << 40;
        self.disk.set_capacity(Some(LARGE));
        let used = LARGE - self.disk.free_bytes().expect("it answers");
        self.set_capacity(used + bytes);
    }

    /// An entry with some records, each needed in one or two streams.
    pub(crate) fn put(&mut self, records: u64, bytes: u64) -> Vec<Reference> {
        let mut references = Vec::new();
        let partition = self.choices.below(u64::from(PARTITIONS)) as u16;
        let index = self.last[usize::from(partition)] + 1;
        self.last[usize::from(partition)] = index;
        let mut entry = vec![7; 32];
        for _ in 0..records {
            let len = 1 + self.choices.below(bytes);
            let byte = entry.len() as u32;
            let mut record = (len as u16).to_le_bytes().to_vec();
            record.extend((0..len).map(|_| self.choices.next_u64() as u8));
            entry.extend_from_slice(&record);
            entry.resize(entry.len().next_multiple_of(8) + 8, 9);
            self.written.insert((partition, index, byte), record.into());
            for _ in 0..1 + self.choices.below(8) / 7 {
                let stream = self.choices.below(self.streams);
                let reference = (partition, stream, index, byte);
                if self.needed.insert(reference) {
                    references.push(reference);
                }
            }
        }
        let entry = Record::Entry {
            partition: PartitionId(partition + 1),
            term: Term(1),
            index: LogIndex(index),
            data: entry.into(),
        };
        self.write(&[entry]);
        self.log.sync().expect("synced");
        self.background();
        references
    }

    fn write(&mut self, records: &[Record]) {
        self.batch.clear();
        for record in records {
            if self.batch.push(record) == Push::Full {
                self.log.write(&mut self.batch).expect("written");
                self.batch.clear();
                assert_eq!(self.batch.push(record), Push::Taken, "it fits an empty one");
            }
        }
        self.log.write(&mut self.batch).expect("written");
        self.log.check();
    }

    fn background(&mut self) {
        while let Some(job) = self.log.prepare() {
            self.log.prepared(job.run()).expect("synced");
        }
    }

    /// The same record is needed in so many streams.
    pub(crate) fn share(&mut self, (partition, _, index, byte): Reference, streams: u64) {
        let all = (0..streams).map(|stream| (partition, stream, index, byte));
        self.needed.extend(all);
    }

    /// Bytes of all records that are needed, each once and as a record of its own.
    pub(crate) fn needed_bytes(&self) -> u64 {
        let all = self.needed.iter().map(|it| (it.0, it.2, it.3));
        let once: BTreeSet<_> = all.collect();
        let bytes = once
            .into_iter()
            .map(|at| self.written[&at].len() as u64 + 64);
        bytes.sum()
    }

    /// Nobody needs this any more.
    pub(crate) fn forget(&mut self, reference: &Reference) {
        assert!(self.needed.remove(reference));
    }

    /// Some references, by chance.
    pub(crate) fn forget_some(&mut self, share: u64) {
        let mut choices = self.choices;
        self.needed.retain(|_| choices.below(100) >= share);
        self.choices = choices;
    }

    /// References to long records.
    pub(crate) fn forget_longer_than(&mut self, bytes: usize) {
        let written = &self.written;
        self.needed.retain(|(partition, _, index, byte)| {
            written[&(*partition, *index, *byte)].len() <= bytes
        });
    }

    /// What is needed changes by entries alone: the last one, or one without records where that is below a checkpoint.
    fn above_saved(&mut self, partition: u16, last: u64) -> u64 {
        if self.saved.get(&partition).is_none_or(|(at, _)| *at < last) {
            return last;
        }
        self.last[usize::from(partition)] = last + 1;
        self.write(&[Record::Entry {
            partition: PartitionId(partition + 1),
            term: Term(1),
            index: LogIndex(last + 1),
            data: vec![7; 32].into(),
        }]);
        self.log.sync().expect("synced");
        last + 1
    }

    /// A checkpoint of what one partition needs now.
    pub(crate) fn checkpoint(&mut self, partition: u16) {
        let index = self.last[usize::from(partition)];
        if index == 0 {
            return;
        }
        let index = self.above_saved(partition, index);
        let all = (partition, 0, 0, 0)..(partition + 1, 0, 0, 0);
        let needed: BTreeSet<Reference> = self.needed.range(all).copied().collect();
        let id = PartitionId(partition + 1);
        let at = CheckpointAt {
            index: LogIndex(index),
            term: Term(1),
        };
        let mut writer = self.store.writer(id, at).expect("a file");
        let rows: Vec<u8> = needed
            .iter()
            .flat_map(|(_, _, index, byte)| {
                [&index.to_le_bytes()[..], &byte.to_le_bytes()].concat()
            })
            .collect();
        self.checkpoint_bytes += rows.len() as u64;
        for piece in rows.chunks(1_000) {
            writer.piece(piece).expect("written");
        }
        let entries: BTreeSet<u64> = needed.iter().map(|it| it.2).collect();
        let live: LiveEntries = entries.into_iter().map(LogIndex).collect();
        let synced = self.log.synced();
        let manifest = writer.finish(live.clone(), synced).expect("it counts");
        self.cleaner.checkpointed(manifest);
        self.log.set_checkpoint(id, at, live);
        self.saved.insert(partition, (index, needed));
    }

    /// Live bytes of the log earn the cleaner its budget.
    pub(crate) fn earn(&mut self, pressure: Pressure) {
        let live = self.log.counts().live_bytes();
        self.cleaner.earn(live + self.gift, 0, pressure);
    }

    /// Lets the cleaner work until it rests, or the power goes after some of its writes. False: the power went.
    pub(crate) fn clean(&mut self, writes: u64) -> bool {
        let mut left = writes;
        let before = self.cleaner.counts().segments;
        let mut order = Order::default();
        loop {
            match self.cleaner.step() {
                Step::Rest => break,
                Step::Again => {}
                Step::Ask(Question::Survey) => self.cleaner.surveyed(self.log.survey()),
                Step::Ask(Question::Source(segment)) => {
                    self.cleaner.sourced(self.log.source(segment));
                }
                Step::Ask(Question::Damaged(segment)) => panic!("{segment:?} is damaged"),
                Step::Write(mut records) => {
                    if self.fault == Fault::LoseOne && records.len() > 1 {
                        records.pop();
                    }
                    if self.seed % 3 == 2 {
                        order.take(&records, &self.saved);
                    }
                    let rolls = self.log.counts().rolls;
                    self.write(&records);
                    let (begun, room) = (self.log.counts().rolls - rolls, self.log.space());
                    if room.ready_bytes + room.free_bytes < self.config.segment_bytes() {
                        self.last_ones += begun;
                    }
                    if left == 0 {
                        return false;
                    }
                    left -= 1;
                    self.log.sync().expect("synced");
                    self.background();
                    self.cleaner.written();
                }
                Step::HeldUp { .. } => self.held_up += 1,
                Step::GaveUp { segment, why } => panic!("{segment:?}: {why}"),
            }
        }
        self.cleaned += self.cleaner.counts().segments - before;
        true
    }

    /// A restart with segments of another size.
    pub(crate) fn restart_with(&mut self, segment: u64) {
        let mut config = LogConfig::new(NODE, segment).expect("a good size");
        config.reserve_segments = self.config.reserve_segments;
        config.spare_segments = self.config.spare_segments;
        self.config = config;
        self.lose_power();
    }

    /// Bytes of a record.
    pub(crate) fn bytes_of(&self, (partition, _, index, byte): Reference) -> usize {
        self.written[&(partition, index, byte)].len()
    }

    /// The power goes; all that checkpoints name must be there, and all entries behind them.
    pub(crate) fn lose_power(&mut self) {
        let seed = self.choices.next_u64();
        self.disk = self.disk.power_loss(seed);
        self.checkpoints = self.checkpoints.power_loss(seed ^ 1);
        self.starts += 1;
        let (store, loaded) = CheckpointStore::open(self.checkpoints.clone(), NODE).expect("opens");
        let opened = Log::open(
            self.disk.clone(),
            self.config,
            start(self.starts),
            &loaded.manifests,
        );
        let (mut log, recovered) = opened.expect("the log opens");
        log.check();
        assert_eq!(recovered.report.damages, [], "{}", recovered.report);
        self.needed.clear();
        for partition in 0..PARTITIONS {
            let id = PartitionId(partition + 1);
            let Some(found) = recovered.partitions.get(&id) else {
                assert_eq!(self.last[usize::from(partition)], 0);
                continue;
            };
            assert_eq!(found.damage, None);
            assert!(found.missing_live.is_empty(), "{:?}", found.missing_live);
            let last = found.entries.last().map(|entry| entry.index);
            let last = last.or(found.checkpoint.map(|at| at.index));
            assert_eq!(last.map_or(0, |at| at.0), self.last[usize::from(partition)]);
            self.read_back(&log, partition);
            // What was forgotten after the checkpoint is needed again.
            let (at, saved) = self.saved.get(&partition).cloned().unwrap_or_default();
            self.needed.extend(saved);
            let later = (partition, at + 1, 0)..(partition + 1, 0, 0);
            let later = self.written.range(later);
            let later = later.map(|((of, index, byte), _)| (*of, 0, *index, *byte));
            self.needed.extend(later.collect::<Vec<_>>());
        }
        self.batch = log.new_batch();
        let (disk, bytes) = (self.disk.clone(), self.config.segment_bytes());
        self.cleaner = Cleaner::new(disk, store.clone(), loaded.manifests, Rows, bytes)
            .with_records_max(records_max(self.seed));
        (self.log, self.store) = (log, store);
    }

    /// As a start does: first what was kept, then entries for what has not come.
    fn read_back(&self, log: &Log<MemDisk>, partition: u16) {
        let Some((_, saved)) = self.saved.get(&partition) else {
            return;
        };
        let mut wanted: BTreeSet<(u64, u32)> = saved.iter().map(|it| (it.2, it.3)).collect();
        let mut reader = log.reader(PartitionId(partition + 1));
        while let Some(batch) = reader.next_kept() {
            for kept in batch.expect("it can be read") {
                let end = kept.byte + kept.data.len() as u32;
                let span = (kept.index.0, kept.byte)..(kept.index.0, end);
                let found: Vec<_> = wanted.range(span).copied().collect();
                for (index, byte) in found {
                    wanted.remove(&(index, byte));
                    self.compare((partition, index, byte), &kept.data, byte - kept.byte);
                }
            }
        }
        for (index, byte) in wanted {
            let entry = reader.read(LogIndex(index));
            let entry = entry.unwrap_or_else(|why| panic!("{index} {byte}: {why}"));
            self.compare((partition, index, byte), &entry.data, byte);
        }
    }

    fn compare(&self, address: (u16, u64, u32), bytes: &Bytes, at: u32) {
        let expected = &self.written[&address];
        let found = bytes.get(at as usize..at as usize + expected.len());
        assert_eq!(found, Some(&expected[..]), "record {address:?}");
    }
}

fn start(counter: u32) -> StartId {
    StartId {
        counter,
        word: Choices::new(u64::from(counter)).next_u64(),
    }
}
