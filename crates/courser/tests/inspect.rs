//! `courser inspect` on files that a log and a partition have written, and on the same with a byte changed: the cases are in
//! `tests/inspect/`, each runs in a folder with its files.

#[path = "../../engine/tests/stored/support.rs"]
mod stored_support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use bytes::Bytes;
use courser_contract::{AttachStage, Class, LogIndex, PartitionId, Term};
use courser_log::{
    CheckpointAt, CheckpointStore, FileDisk, LiveEntries, Log, LogConfig, Manifests, NodeIdentity,
    Push, Record, StartId, Synced,
};
use stored_support::Setup;

const NODE: NodeIdentity = NodeIdentity(42);

/// A log of one small segment: three batches of two partitions, all synced.
fn write_log(folder: &Path) -> Synced {
    let disk = FileDisk::open(folder).expect("a folder");
    let config = LogConfig::new(NODE, 64 << 10).expect("a good size");
    let start = StartId {
        counter: 1,
        word: 7,
    };
    let (mut log, _) = Log::open(disk, config, start, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    for index in 1..=3 {
        batch.clear();
        for partition in [1, 2] {
            let record = Record::Entry {
                partition: PartitionId(partition),
                term: Term(1),
                index: LogIndex(index),
                data: Bytes::from_static(&[7; 500]),
            };
            assert_eq!(batch.push(&record), Push::Taken);
        }
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
    }
    log.witness().expect("written");
    log.sync().expect("synced")
}

/// A log of two small segments and more, all synced.
fn write_segments(folder: &Path) {
    let disk = FileDisk::open(folder).expect("a folder");
    let config = LogConfig::new(NODE, 64 << 10).expect("a good size");
    let start = StartId {
        counter: 1,
        word: 7,
    };
    let (mut log, _) = Log::open(disk, config, start, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    for index in 1.. {
        batch.clear();
        let record = Record::Entry {
            partition: PartitionId(1),
            term: Term(1),
            index: LogIndex(index),
            data: Bytes::from_static(&[7; 5_000]),
        };
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
        if log.segments() > 2 {
            break;
        }
    }
    log.witness().expect("written");
    log.sync().expect("synced");
}

/// A checkpoint of five sessions, two of which have ten messages each.
fn write_checkpoint(folder: &Path, synced: Synced) {
    let mut setup = Setup::new(Class::Durable, None);
    for number in 0..5 {
        setup.open(number, AttachStage::Claim, 3_600, None);
    }
    for number in 0..20 {
        setup.append(&format!("device/{:08}/commands", number % 2));
    }
    setup.turn();
    let partition = &mut setup.partition;
    assert!(partition.begin_checkpoint());
    let mut pieces = Vec::new();
    let end = loop {
        pieces.extend(partition.take_checkpoint_piece(10_000));
        if let Some(end) = partition.checkpoint_end() {
            break end;
        }
    };
    let disk = FileDisk::open(folder).expect("a folder");
    let (store, _) = CheckpointStore::open(disk, NODE).expect("an empty folder");
    let at = CheckpointAt {
        index: end.index,
        term: end.term,
    };
    let mut writer = store.writer(PartitionId(1), at).expect("a new file");
    for piece in &pieces {
        writer.piece(&piece.bytes).expect("written");
    }
    let mut live = LiveEntries::NONE;
    for (first, last) in end.live.ranges() {
        live.push_range(first, last);
    }
    writer.finish(live, synced).expect("written");
}

/// The one file of a folder that ends like this.
fn file(folder: &Path, extension: &str) -> PathBuf {
    let files = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|has| has == extension));
    files.sort();
    files.into_iter().next().expect("it was written")
}

fn copy_changed(from: &Path, to: &Path, byte: usize) {
    let mut bytes = fs::read(from).expect("a file");
    bytes[byte] ^= 0x10;
    fs::write(to, bytes).expect("written");
}

/// The last batch of a full segment, and the first of the next one: each file is looked at beside the other.
#[test]
fn a_batch_that_is_gone_at_either_end_of_a_segment_is_damage() {
    let folder = tempfile::tempdir().expect("a folder");
    write_segments(folder.path());
    let path = |number: u64| folder.path().join(format!("{number:010}.seg"));
    let inspect = |number| {
        let mut courser = Command::new(env!("CARGO_BIN_EXE_courser"));
        let courser = courser.args(["inspect", "segment"]).arg(path(number));
        let output = courser.output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        (output.status.code(), text)
    };
    for (number, is_first) in [(1, false), (2, true)] {
        let (code, text) = inspect(number);
        assert_eq!(code, Some(0), "{text}");
        let lines = || text.lines().filter(|line| line.contains(" of start 1, "));
        let line = if is_first {
            lines().next()
        } else {
            lines().next_back()
        };
        let mut words = line.expect("a batch").split_whitespace();
        let offset: usize = words.next().and_then(|it| it.parse().ok()).expect("a byte");
        let batch = words.nth(1).expect("its number");
        let kept = fs::read(path(number)).expect("a file");
        copy_changed(&path(number), &path(number), offset + 42);
        let (code, text) = inspect(number);
        assert_eq!(code, Some(1), "{text}");
        let expected = format!("{offset:>10}  DAMAGE: batches {batch} to {batch} are lost");
        assert!(text.contains(&expected), "{expected}: {text}");
        fs::write(path(number), kept).expect("written");
    }
}

#[test]
fn files_are_described_and_damage_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let [log, checkpoints] = ["log", "checkpoints"].map(|name| {
        let path = folder.path().join(name);
        fs::create_dir(&path).expect("a new folder");
        path
    });
    let synced = write_log(&log);
    write_checkpoint(&checkpoints, synced);
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inspect");
    for case in ["segment", "checkpoint"] {
        let text = format!("{case}.trycmd");
        fs::copy(cases.join(&text), folder.path().join(&text)).expect("copied");
        let files = folder.path().join(format!("{case}.in"));
        fs::create_dir(&files).expect("a new folder");
        let (whole, byte) = match case {
            "segment" => (file(&log, "seg"), 3 * 4096 + 300),
            _ => (file(&checkpoints, "ckp"), 200),
        };
        fs::copy(&whole, files.join("whole")).expect("copied");
        copy_changed(&whole, &files.join("damaged"), byte);
        copy_changed(&whole, &files.join("other"), 3);
    }
    let cases = folder.path().join("*.trycmd");
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(env!("CARGO_BIN_EXE_courser")));
    tests.case(cases.to_str().expect("a path of text"));
    tests.run();
}
