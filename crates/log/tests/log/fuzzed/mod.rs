//! What the fuzz targets of the log do with their input; the kept corpus runs through the same code as a plain test.

use std::sync::OnceLock;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    Batch, CheckpointAt, CheckpointReader, CheckpointStore, Disk, LiveEntries, Log, LogConfig,
    Manifests, NodeIdentity, OpenError, Push, Record, SEGMENT_BYTES_MIN, SegmentNumber, StartId,
    Synced, inspect::SegmentInspector, testing::MemDisk,
};

const NODE: NodeIdentity = NodeIdentity(1);
const PARTITION: PartitionId = PartitionId(1);
const BLOCK: usize = 4096;

/// Reads choices from the input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn place(&mut self, len: usize) -> Option<usize> {
        let (high, low) = (self.byte()?, self.byte()?);
        Some((usize::from(high) << 8 | usize::from(low)) % len)
    }
}

/// How the bytes of a recorded file are changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seal {
    /// Changes are rot.
    Broken,
    /// Checksums are made right again: changes are what a faulty program wrote.
    MadeRight,
}

/// Changes single bytes; gives how the rest of the input wants them sealed.
fn change(input: &mut Input<'_>, bytes: &mut [u8]) -> Seal {
    let seal = match input.byte() {
        Some(first) if first % 2 == 1 => Seal::MadeRight,
        Some(_) | None => Seal::Broken,
    };
    while let (Some(at), Some(flip)) = (input.place(bytes.len()), input.byte()) {
        bytes[at] ^= flip;
    }
    seal
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes[at..at + 4].try_into().expect("four bytes");
    u32::from_le_bytes(word)
}

/// Makes the checksums of all batches right for what is in them now.
fn seal_batches(bytes: &mut [u8]) {
    for block in (BLOCK..bytes.len()).step_by(BLOCK) {
        if &bytes[block..block + 4] != b"CBCH" {
            continue;
        }
        let body = word(bytes, block + 76) as usize;
        let from = block + 88;
        if let Some(body) = bytes.get(from..from.saturating_add(body)) {
            let crc = crc32c::crc32c(body);
            bytes[block + 80..block + 84].copy_from_slice(&crc.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[block..block + 84]);
        bytes[block + 84..block + 88].copy_from_slice(&crc.to_le_bytes());
    }
}

fn config() -> LogConfig {
    LogConfig::new(NODE, SEGMENT_BYTES_MIN).expect("a good size")
}

fn start(counter: u32) -> StartId {
    StartId { counter, word: 99 }
}

fn entry(index: u64) -> Record {
    Record::Entry {
        partition: PARTITION,
        term: Term(1),
        index: LogIndex(index),
        data: data(index),
    }
}

/// An entry whose data is no multiple of eight: it has the long frame.
const LONG_FRAME: u64 = 17;
/// One that is larger than a batch may be.
const IN_PIECES: u64 = 18;

fn data(index: u64) -> Bytes {
    let bytes = match index {
        LONG_FRAME => 681,
        IN_PIECES => 20_000,
        _ => 40 * index as usize,
    };
    Bytes::from(vec![index as u8; bytes])
}

fn put(log: &mut Log<MemDisk>, batch: &mut Batch, record: &Record) {
    batch.clear();
    assert_eq!(batch.push(record), Push::Taken);
    loop {
        log.write(batch).expect("written");
        if !batch.is_unfinished() {
            break;
        }
        batch.clear();
    }
    log.sync().expect("synced");
}

/// A segment with all kinds of records.
struct Recorded {
    name: String,
    bytes: Vec<u8>,
    /// Those of the checkpoint of which its head speaks.
    manifests: Manifests,
    /// The first entry that is in it.
    first: u64,
}

/// The head says hard state, checkpoint, and how the segment before has ended; then come entries, one of them in pieces, a hard state,
/// what was kept of the segment before, and that it is cleaned.
fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    RECORDED.get_or_init(|| {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
        let (mut log, _) =
            Log::open(disk.clone(), config(), start(1), &Manifests::new()).expect("empty");
        let mut batch = log.new_batch();
        let state = |commit| Record::HardState {
            partition: PARTITION,
            term: Term(1),
            vote: 1,
            commit: LogIndex(commit),
        };
        put(&mut log, &mut batch, &state(0));
        let live: LiveEntries = [LogIndex(1)].into_iter().collect();
        let at = |index| CheckpointAt {
            index: LogIndex(index),
            term: Term(1),
        };
        let mut saved = 0;
        loop {
            put(&mut log, &mut batch, &entry(saved + 1));
            if log.segments() == 2 {
                break;
            }
            saved += 1;
            log.set_checkpoint(PARTITION, at(saved), live.clone());
        }
        let mut writer = store.writer(PARTITION, at(saved)).expect("created");
        writer.piece(b"state").expect("written");
        writer.finish(live, log.synced()).expect("finished");
        let before = log.held_segments()[0].segment;
        assert!(saved + 1 < LONG_FRAME, "the rest is behind it");
        for index in saved + 2..=IN_PIECES + 1 {
            put(&mut log, &mut batch, &entry(index));
        }
        put(&mut log, &mut batch, &state(saved + 2));
        let kept = Record::Kept {
            partition: PARTITION,
            term: Term(1),
            index: LogIndex(1),
            byte: 0,
            data: data(1),
        };
        put(&mut log, &mut batch, &kept);
        let cleaned = Record::Cleaned { segment: before };
        put(&mut log, &mut batch, &cleaned);
        log.witness().expect("written");
        let name = SegmentNumber(before.0 + 1).file_name();
        let bytes = disk.bytes(&name).expect("it is there");
        let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
        Recorded {
            name,
            bytes,
            manifests: loaded.manifests,
            first: saved + 1,
        }
    })
}

fn disk_with(name: &str, bytes: Vec<u8>) -> MemDisk {
    let disk = MemDisk::new();
    drop(disk.create(name).expect("created"));
    disk.replace(name, bytes);
    disk.sync_dir().expect("synced");
    disk
}

/// A segment that was damaged or made by a faulty program: read by recovery, by the reader of entries and offline.
pub fn segment(input: &[u8]) {
    let Recorded {
        name,
        bytes,
        manifests,
        first,
    } = recorded();
    let mut bytes = bytes.clone();
    let mut input = Input(input);
    let seal = change(&mut input, &mut bytes);
    if seal == Seal::MadeRight {
        seal_batches(&mut bytes);
    }
    let disk = disk_with(name, bytes);
    let file = disk.open(name).expect("it is there");
    if let Ok(inspector) = SegmentInspector::new(file) {
        assert!(inspector.count() < 10_000, "a segment has an end");
    }
    match Log::open(disk.clone(), config(), start(2), manifests) {
        Ok((mut log, recovered)) => {
            log.check();
            for (id, found) in &recovered.partitions {
                let mut reader = log.reader(*id);
                for entry in &found.entries {
                    let read = reader.read(entry.index);
                    if seal == Seal::Broken {
                        assert_eq!(entry.data, data(entry.index.0), "a wrong record");
                        assert_eq!(read.expect("read back").data, entry.data);
                    }
                }
            }
            let mut batch = log.new_batch();
            put(&mut log, &mut batch, &entry(*first));
        }
        Err(
            OpenError::Version { .. }
            | OpenError::Kind { .. }
            | OpenError::Foreign { .. }
            | OpenError::Start { .. },
        ) => assert!(
            seal == Seal::MadeRight,
            "rot does not look like another program"
        ),
        Err(error) => panic!("the disk gives and takes everything: {error}"),
    }
}

/// Any bytes in place of the batches of a segment.
pub fn segment_raw(input: &[u8]) {
    let Recorded { name, bytes, .. } = recorded();
    let mut bytes = bytes.clone();
    let len = input.len().min(bytes.len() - BLOCK);
    bytes[BLOCK..].fill(0);
    bytes[BLOCK..BLOCK + len].copy_from_slice(&input[..len]);
    seal_batches(&mut bytes);
    let disk = disk_with(name, bytes);
    let file = disk.open(name).expect("it is there");
    if let Ok(inspector) = SegmentInspector::new(file) {
        assert!(inspector.count() < 10_000, "a segment has an end");
    }
    if let Ok((log, _)) = Log::open(disk, config(), start(u32::MAX), &Manifests::new()) {
        log.check();
    }
}

/// What an empty log says.
fn synced() -> Synced {
    static SYNCED: OnceLock<Synced> = OnceLock::new();
    *SYNCED.get_or_init(|| {
        let opened = Log::open(MemDisk::new(), config(), start(1), &Manifests::new());
        opened.expect("empty").0.synced()
    })
}

/// A checkpoint's file and a manifest: damaged ones are told, anything else in their place is no harm.
pub fn checkpoint(input: &[u8]) {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    let at = CheckpointAt {
        index: LogIndex(100),
        term: Term(3),
    };
    let mut writer = store.writer(PARTITION, at).expect("created");
    for piece in [&b"first"[..], &[7; 300], &[]] {
        writer.piece(piece).expect("written");
    }
    let live: LiveEntries = [3, 4, 5, 80].map(LogIndex).into_iter().collect();
    writer.finish(live, synced()).expect("finished");
    let mut input = Input(input);
    let which = usize::from(input.byte().unwrap_or(0));
    let names = disk.names();
    let name = &names[which % names.len()];
    let mut bytes = disk.bytes(name).expect("it is there");
    if which >= 128 {
        bytes = input.0.to_vec();
    } else {
        change(&mut input, &mut bytes);
    }
    let changed = Some(&bytes) != disk.bytes(name).as_ref();
    disk.replace(name, bytes.clone());
    if let Ok(mut reader) = CheckpointReader::new(disk.open(name).expect("there"), name.clone()) {
        while let Ok(Some(_)) = reader.next_piece() {}
    }
    let whole = CheckpointStore::open(disk.kill(), NODE)
        .ok()
        .and_then(|(store, loaded)| {
            let manifest = loaded.manifests.get(&PARTITION)?;
            assert_eq!(manifest.live.iter().count(), 4);
            let mut reader = store.reader(manifest).ok()?;
            let mut pieces = 0;
            while let Some(piece) = reader.next_piece().ok()? {
                assert!(piece.is_empty() || piece == b"first"[..] || piece == [7; 300][..]);
                pieces += 1;
            }
            assert_eq!(pieces, 3);
            Some(())
        });
    assert!(whole.is_none() || !changed, "damage is told");
}

/// A log of which the first segments lie below a checkpoint: a start passes them over, by their summaries.
struct Old {
    files: Vec<(String, Vec<u8>)>,
    summaries: Vec<String>,
    manifests: Manifests,
    /// The entry of the checkpoint.
    saved: LogIndex,
}

/// Bytes of an entry of it: so few fill a segment that one is soon written.
const OLD_BYTES: usize = 24_000;

fn old() -> &'static Old {
    static OLD: OnceLock<Old> = OnceLock::new();
    OLD.get_or_init(|| {
        let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
        let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
        let (mut log, _) =
            Log::open(disk.clone(), config(), start(1), &Manifests::new()).expect("empty");
        let mut batch = log.new_batch();
        let mut index = 0;
        while log.segments() < 4 {
            index += 1;
            let data = Bytes::from(vec![index as u8; OLD_BYTES]);
            let record = Record::Entry {
                partition: PARTITION,
                term: Term(1),
                index: LogIndex(index),
                data,
            };
            put(&mut log, &mut batch, &record);
            while let Some(job) = log.prepare() {
                log.prepared(job.run()).expect("synced");
            }
        }
        let (saved, term) = (LogIndex(index - 1), Term(1));
        let at = CheckpointAt { index: saved, term };
        let mut live = LiveEntries::NONE;
        live.push_range(LogIndex(1), saved);
        let mut writer = store.writer(PARTITION, at).expect("created");
        writer.piece(b"state").expect("written");
        writer.finish(live.clone(), log.synced()).expect("finished");
        log.set_checkpoint(PARTITION, at, live);
        let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
        let names = disk.names().into_iter();
        let files: Vec<_> = names
            .map(|name| {
                let bytes = disk.bytes(&name).expect("it is there");
                (name, bytes)
            })
            .collect();
        let names = files.iter().map(|(name, _)| name);
        let summaries: Vec<_> = names.filter(|it| it.ends_with(".sum")).cloned().collect();
        assert!(summaries.len() >= 2, "{summaries:?}");
        Old {
            summaries,
            files,
            manifests: loaded.manifests,
            saved,
        }
    })
}

/// A summary of a segment that was damaged or made by a faulty program: whatever it says, what is read is what was written. A damaged one
/// is not believed, and the segment is read.
pub fn summary(input: &[u8]) {
    let old = old();
    let mut input = Input(input);
    let which = usize::from(input.byte().unwrap_or(0)) % old.summaries.len();
    let disk = MemDisk::new();
    let mut seal = Seal::Broken;
    for (name, bytes) in &old.files {
        drop(disk.create(name).expect("created"));
        let mut bytes = bytes.clone();
        if *name == old.summaries[which] {
            let (body, sum) = bytes.split_last_chunk_mut::<4>().expect("it is longer");
            seal = change(&mut input, body);
            if seal == Seal::MadeRight {
                *sum = crc32c::crc32c(body).to_le_bytes();
            }
        }
        disk.replace(name, bytes);
    }
    disk.sync_dir().expect("synced");
    let opened = Log::open(disk, config(), start(2), &old.manifests);
    let (log, recovered) = opened.expect("the disk gives all of it");
    let mut reader = log.reader(PARTITION);
    let is_right = |index: LogIndex, data: &[u8]| data == vec![index.0 as u8; OLD_BYTES].as_slice();
    for index in (1..=old.saved.0).step_by(7).map(LogIndex) {
        match reader.read(index) {
            Ok(read) => assert!(is_right(index, &read.data), "entry {index:?}"),
            Err(error) => assert!(seal == Seal::MadeRight, "entry {index:?}: {error}"),
        }
    }
    for entry in &recovered.partitions[&PARTITION].entries {
        assert!(
            is_right(entry.index, &entry.data),
            "entry {:?}",
            entry.index
        );
    }
}
