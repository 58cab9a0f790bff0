//! A log with records of streams, a cleaner that moves them, somebody who asks for them, and a list of what he must get.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use courser_contract::{
    LogIndex, Need, Needs, NeedsScan, PartitionId, Question, Recalled, StreamWants, Term, Want,
};
use courser_log::{
    Batch, CheckpointAt, CheckpointStore, Cleaner, LiveEntries, Log, LogConfig, LogPlaces,
    Manifests, NodeIdentity, Pressure, Push, Question as Asks, RecallStep, Record, RecordReader,
    StartId, Step,
    testing::{Choices, MemDisk},
};

const NODE: NodeIdentity = NodeIdentity(42);

/// Records of an entry begin with four bytes of their own length. A checkpoint has rows of twelve bytes, whole in each piece.
pub(crate) struct Rows;

pub(crate) struct Scan;

impl Needs for Rows {
    type Scan = Scan;

    fn scan(&self, _: PartitionId) -> Scan {
        Scan
    }

    fn record_bytes(&self, entry: &Bytes, byte: u32) -> Option<usize> {
        let head = entry.get(byte as usize..)?.first_chunk()?;
        Some(u32::from_le_bytes(*head) as usize)
    }
}

impl NeedsScan for Scan {
    fn piece(&mut self, bytes: &[u8], need: &mut dyn FnMut(Need)) -> Result<(), String> {
        for row in bytes.chunks_exact(12) {
            let (index, byte) = row.split_at(8);
            need(Need {
                index: LogIndex(u64::from_le_bytes(index.try_into().expect("eight"))),
                byte: u32::from_le_bytes(byte.try_into().expect("four")),
            });
        }
        Ok(())
    }

    fn finish(self) -> Result<(), String> {
        Ok(())
    }
}

/// A stream of a partition.
pub(crate) type Who = (u16, u64);

/// What of a stream is still in the log.
#[derive(Default)]
pub(crate) struct Stream {
    /// Not asked for yet.
    pub(crate) ahead: VecDeque<Want>,
    /// Asked for and not answered.
    pub(crate) asked: VecDeque<Want>,
}

pub(crate) struct World {
    pub(crate) choices: Choices,
    pub(crate) disk: MemDisk,
    pub(crate) log: Log<MemDisk>,
    pub(crate) reader: RecordReader<MemDisk>,
    batch: Batch,
    store: CheckpointStore<MemDisk>,
    cleaner: Cleaner<MemDisk, Rows>,
    last: BTreeMap<u16, u64>,
    written: BTreeMap<(u16, u64, u32), Bytes>,
    pub(crate) streams: BTreeMap<Who, Stream>,
    room: BTreeMap<u16, i64>,
    pub(crate) now: Duration,
    /// Places that are on their way.
    places: Option<LogPlaces>,
    /// Chance of a hundred that places wait at a step.
    pub(crate) delay: u64,
    pub(crate) lost: Vec<(u16, Need)>,
    /// What has come, by stream: how many.
    pub(crate) got: BTreeMap<Who, u64>,
    gift: u64,
}

impl World {
    pub(crate) fn new(seed: u64, segment: u64) -> Self {
        let (disk, folder) = (MemDisk::new(), MemDisk::new());
        let mut config = LogConfig::new(NODE, segment).expect("a good size");
        config.reserve_segments = 2;
        config.spare_segments = 1;
        let (store, _) = CheckpointStore::open(folder, NODE).expect("an empty folder");
        let none = Manifests::new();
        let start = StartId {
            counter: 1,
            word: 77,
        };
        let (mut log, _) = Log::open(disk.clone(), config, start, &none).expect("it opens");
        Self {
            choices: Choices::new(seed),
            batch: log.new_batch(),
            cleaner: Cleaner::new(disk.clone(), store.clone(), none, Rows, segment),
            reader: RecordReader::new(disk.clone()),
            disk,
            log,
            store,
            last: BTreeMap::new(),
            written: BTreeMap::new(),
            streams: BTreeMap::new(),
            room: BTreeMap::new(),
            now: Duration::ZERO,
            places: None,
            delay: 0,
            lost: Vec::new(),
            got: BTreeMap::new(),
            gift: 0,
        }
    }

    /// An entry with a record of so many bytes for each of these streams. It still has to be written.
    pub(crate) fn entry(&mut self, partition: u16, records: &[(u64, usize)]) -> Record {
        let index = self.last.entry(partition).or_default();
        *index += 1;
        let index = *index;
        let mut data = vec![7; 32];
        for (stream, len) in records {
            let byte = data.len() as u32;
            let want = self.record(partition, (index, byte), *stream, *len);
            data.extend_from_slice(&self.written[&(partition, index, byte)]);
            data.resize(data.len().next_multiple_of(8), 9);
            assert_eq!(want.index.0, index);
        }
        Record::Entry {
            partition: PartitionId(partition),
            term: Term(1),
            index: LogIndex(index),
            data: data.into(),
        }
    }

    /// Kept records of a stream, one behind the other in an entry of their own.
    pub(crate) fn kept(&mut self, partition: u16, stream: u64, lens: &[usize]) -> Record {
        let index = self.last.entry(partition).or_default();
        *index += 1;
        let index = *index;
        let mut data = Vec::new();
        for len in lens {
            let byte = 32 + data.len() as u32;
            self.record(partition, (index, byte), stream, *len);
            data.extend_from_slice(&self.written[&(partition, index, byte)]);
        }
        Record::Kept {
            partition: PartitionId(partition),
            term: Term(1),
            index: LogIndex(index),
            byte: 32,
            data: data.into(),
        }
    }

    fn record(&mut self, partition: u16, at: (u64, u32), stream: u64, len: usize) -> Want {
        let len = len.max(4);
        let mut record = (len as u32).to_le_bytes().to_vec();
        record.extend((4..len).map(|_| self.choices.next_u64() as u8));
        self.written.insert((partition, at.0, at.1), record.into());
        let want = Want {
            index: LogIndex(at.0),
            byte: at.1,
            len: len as u32,
        };
        let of = self.streams.entry((partition, stream)).or_default();
        of.ahead.push_back(want);
        want
    }

    /// Writes them, in one batch if they fit.
    pub(crate) fn write(&mut self, records: &[Record]) {
        self.batch.clear();
        for record in records {
            if self.batch.push(record) == Push::Full {
                self.put();
                assert_eq!(self.batch.push(record), Push::Taken, "it fits an empty one");
            }
            while self.batch.is_unfinished() {
                self.put();
            }
        }
        self.put();
        self.log.sync().expect("synced");
    }

    fn put(&mut self) {
        self.log.write(&mut self.batch).expect("written");
        self.batch.clear();
        while let Some(job) = self.log.prepare() {
            self.log.prepared(job.run()).expect("synced");
        }
    }

    /// Says that a checkpoint needs all entries up to this one.
    pub(crate) fn hold(&mut self, partition: u16, last: u64) {
        let at = CheckpointAt {
            index: LogIndex(last),
            term: Term(1),
        };
        let live = (1..=last).map(LogIndex).collect();
        self.log.set_checkpoint(PartitionId(partition), at, live);
    }

    /// A checkpoint of what a partition still needs.
    pub(crate) fn checkpoint(&mut self, partition: u16) {
        if !self.last.contains_key(&partition) {
            return;
        }
        // What is needed changes by entries alone: this one stands for those that took what was given out.
        let taken = self.entry(partition, &[]);
        self.write(&[taken]);
        let index = self.last[&partition];
        let id = PartitionId(partition);
        let at = CheckpointAt {
            index: LogIndex(index),
            term: Term(1),
        };
        let mut writer = self.store.writer(id, at).expect("a file");
        let mut rows = Vec::new();
        let mut entries = Vec::new();
        for (_, stream) in self.streams.range((partition, 0)..(partition + 1, 0)) {
            for want in stream.asked.iter().chain(&stream.ahead) {
                rows.extend_from_slice(&want.index.0.to_le_bytes());
                rows.extend_from_slice(&want.byte.to_le_bytes());
                entries.push(want.index);
            }
        }
        for piece in rows.chunks(12 * 80) {
            writer.piece(piece).expect("written");
        }
        entries.sort_unstable();
        entries.dedup();
        let live: LiveEntries = entries.into_iter().collect();
        let manifest = writer.finish(live.clone(), self.log.synced());
        self.cleaner.checkpointed(manifest.expect("it counts"));
        self.log.set_checkpoint(id, at, live);
    }

    /// Lets the cleaner do so many writes.
    pub(crate) fn clean(&mut self, mut writes: u64) {
        self.gift += 1 << 20;
        let live = self.log.counts().live_bytes() + self.gift;
        self.cleaner.earn(live, 0, Pressure::Short);
        loop {
            match self.cleaner.step() {
                Step::Rest => return,
                Step::Again => {}
                Step::Ask(Asks::Survey) => self.cleaner.surveyed(self.log.survey()),
                Step::Ask(Asks::Source(segment)) => {
                    self.cleaner.sourced(self.log.source(segment));
                }
                Step::Ask(Asks::Damaged(segment)) => {
                    self.log.note_damaged(segment);
                    self.cleaner.sourced(self.log.source(segment));
                }
                Step::Write(records) => {
                    self.write(&records);
                    self.cleaner.written();
                    if writes == 0 {
                        return;
                    }
                    writes -= 1;
                }
                Step::GaveUp { .. } | Step::HeldUp { .. } => return,
            }
        }
    }

    /// Asks for the next records of streams of a partition: so many of each.
    pub(crate) fn ask(&mut self, partition: u16, streams: &[(u64, usize)], room: u64) {
        let mut asks = Vec::new();
        for (stream, many) in streams {
            let of = self.streams.entry((partition, *stream)).or_default();
            let many = (*many).min(of.ahead.len());
            let wants: Vec<Want> = of.ahead.drain(..many).collect();
            of.asked.extend(&wants);
            let stream = *stream;
            asks.push(StreamWants { stream, wants });
        }
        *self.room.entry(partition).or_default() += room as i64;
        self.reader.ask(Question {
            partition: PartitionId(partition),
            streams: asks,
            room,
        });
        self.reader.check();
    }

    /// Holds an answer against what was asked.
    fn take(&mut self, answer: &Recalled) -> Vec<Who> {
        let partition = answer.partition.0;
        let mut whose = Vec::new();
        let mut end = 0;
        let mut lost = answer.lost.clone();
        for (want, at) in &answer.records {
            // What is lost stands beside the records; its stream goes on behind it.
            lost.retain(|need| !self.lose(partition, need));
            assert_eq!(*at, end, "records lie one behind the other");
            end += want.len;
            let room = self.room.entry(partition).or_default();
            assert!(*room > 0, "no record without room");
            *room -= i64::from(want.len);
            let bytes = &answer.bytes[*at as usize..end as usize];
            let written = &self.written[&(partition, want.index.0, want.byte)];
            assert!(bytes == &written[..], "byte for byte: {want:?}");
            let who = self.head(partition, |head| head == want);
            let who = who.expect("it is the next one of a stream");
            *self.got.entry(who).or_default() += 1;
            whose.push(who);
        }
        assert_eq!(end as usize, answer.bytes.len());
        while !lost.is_empty() {
            let before = lost.len();
            lost.retain(|need| !self.lose(partition, need));
            assert!(lost.len() < before, "it was asked for: {lost:?}");
        }
        whose
    }

    /// The stream whose turn this is.
    fn head(&mut self, partition: u16, is_it: impl Fn(&Want) -> bool) -> Option<Who> {
        let mut streams = self.streams.range_mut((partition, 0)..(partition + 1, 0));
        let (who, of) = streams.find(|(_, of)| of.asked.front().is_some_and(&is_it))?;
        of.asked.pop_front();
        Some(*who)
    }

    /// Notes that something is lost, if it is the turn of that.
    fn lose(&mut self, partition: u16, need: &Need) -> bool {
        let is_it = |head: &Want| (head.index, head.byte) == (need.index, need.byte);
        let is_turn = self.head(partition, is_it).is_some();
        if is_turn {
            self.lost.push((partition, *need));
        }
        is_turn
    }

    /// One step; with whom it gave something, and how long nothing else will happen: none is for ever.
    pub(crate) fn step(&mut self) -> (Vec<Who>, Option<Duration>) {
        if self.places.is_some() && self.choices.below(100) >= self.delay {
            let places = self.places.take().expect("they are there");
            self.reader.set_places(places);
            self.reader.check();
        }
        let step = self.reader.step(self.now);
        self.reader.check();
        match step {
            RecallStep::Answer(answer) => {
                assert!(!answer.records.is_empty() || !answer.lost.is_empty());
                (self.take(&answer), Some(self.now))
            }
            RecallStep::AskPlaces => {
                assert!(self.places.is_none(), "it asks once");
                self.places = Some(self.log.places());
                (Vec::new(), Some(self.now))
            }
            RecallStep::Again => (Vec::new(), Some(self.now)),
            RecallStep::Rest(until) => {
                assert!(until > self.now);
                (Vec::new(), Some(until))
            }
            RecallStep::Idle if self.places.is_some() => (Vec::new(), Some(self.now)),
            RecallStep::Idle => (Vec::new(), None),
        }
    }

    /// Until nothing more happens without a question.
    pub(crate) fn run(&mut self) {
        for _ in 0..1_000_000 {
            match self.step() {
                (_, Some(next)) => self.now = self.now.max(next),
                (_, None) => return,
            }
        }
        panic!("it comes to an end: {:?}", self.reader.counts());
    }

    /// Whether all that was asked for was answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.streams.values().all(|of| of.asked.is_empty())
    }
}
