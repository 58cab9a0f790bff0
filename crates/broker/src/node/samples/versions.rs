//! Which versions of which format the samples have, out of their bytes: what a format's own code reads says nothing of what it does not know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use courser_contract::RecordView;
use courser_log::{CheckpointStore, FileDisk, Log, LogConfig};

use super::{BACKUPS, SAMPLES, data_folder, sample_path, unpack_sample};
use crate::FORMATS;
use crate::node::DataFolder;
use crate::shard::making::is_of_partition;
use crate::slots::{Places, Relaxed};

type Versions = BTreeSet<(&'static str, u32)>;

/// Of the layout of a checkpoint's file: its header, the head of its first piece; then what the piece says.
const PIECE: usize = 48 + 12;
/// Kind and length of a unit.
const UNIT: usize = 5;

fn two_bytes(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

/// Files of a folder whose names end so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files
}

/// Of partition 0 everything begins with its version, as the first field of a message.
fn accounts(bytes: &[u8]) -> (&'static str, u32) {
    assert_eq!(bytes[0], 8, "field 1, a number");
    assert!(bytes[1] < 0x80, "a small one");
    ("accounts", u32::from(bytes[1]))
}

fn of_segments(folder: &Path, found: &mut Versions) {
    for path in files(&folder.join("log"), ".seg") {
        let bytes = fs::read(path).expect("it is there");
        found.insert(("segment", two_bytes(&bytes, 8).into()));
        for place in (0..bytes.len()).step_by(8) {
            let record = RecordView::parse(&bytes[place..]);
            // Anything may pass for a record; these are topics of what was put there.
            if record.is_some_and(|record| matches!(record.topic, "s/1" | "r/1" | "r/2")) {
                found.insert(("record", bytes[place + 7].into()));
            }
        }
    }
}

fn of_checkpoints(folder: &Path, found: &mut Versions) {
    for path in files(&folder.join("checkpoints"), ".ckp") {
        let bytes = fs::read(path).expect("it is there");
        found.insert(("checkpoint", two_bytes(&bytes, 8).into()));
        found.insert(match two_bytes(&bytes, 10) {
            0 => accounts(&bytes[PIECE..]),
            _ => ("state", two_bytes(&bytes, PIECE + UNIT).into()),
        });
    }
    for path in files(&folder.join("checkpoints"), ".manifest") {
        let bytes = fs::read(path).expect("it is there");
        found.insert(("checkpoint", two_bytes(&bytes, 8).into()));
    }
}

fn of_entries(folder: &Path, found: &mut Versions) {
    let data = DataFolder::open(folder, 16, Relaxed::None).expect("a data folder");
    let disk = |path: PathBuf| FileDisk::open(&path).expect("a folder");
    let (_, loaded) =
        CheckpointStore::open(disk(data.checkpoints()), data.identity()).expect("whole ones");
    let config = LogConfig::new(data.identity(), 1 << 20).expect("a size");
    let opened = Log::open(disk(data.log()), config, data.start(), &loaded.manifests);
    let (_, recovered) = opened.expect("a log that is whole");
    for (id, partition) in recovered.partitions {
        let entries = partition.entries.iter();
        for entry in entries.filter(|entry| is_of_partition(entry)) {
            found.insert(match (id, &*entry.data) {
                (Places::METADATA, entry) => accounts(entry),
                // What is one message for a set has both versions in a byte each.
                (_, [2, engine, ..]) => ("engine", u32::from(*engine)),
                (_, entry) => ("engine", two_bytes(entry, 2).into()),
            });
        }
    }
}

fn of_data_folder(folder: &Path, found: &mut Versions) {
    let node = fs::read(folder.join("node")).expect("it is there");
    found.insert(("data_folder", two_bytes(&node, 8).into()));
    of_segments(folder, found);
    of_checkpoints(folder, found);
    of_entries(folder, found);
}

fn of_backups(folder: &Path, found: &mut Versions) {
    for backup in fs::read_dir(folder).expect("a folder") {
        let manifest = backup.expect("a folder").path().join("manifest");
        let text = fs::read_to_string(manifest).expect("it is finished");
        let first = text.lines().next().expect("it has lines");
        let version = first.strip_prefix("courser backup ").expect("a manifest");
        found.insert(("backup", version.parse().expect("a number")));
    }
}

/// A version without a sample would be one of which nobody knows whether it can still be read.
#[test]
fn each_version_of_each_format_has_a_sample() {
    let mut found = Versions::new();
    for name in SAMPLES {
        let folder = unpack_sample(name);
        of_data_folder(folder.path(), &mut found);
    }
    for name in BACKUPS {
        let folder = unpack_sample(name);
        of_backups(folder.path(), &mut found);
    }
    let written = FORMATS.into_iter();
    let written: Versions = written
        .flat_map(|(format, last)| (1..=last).map(move |version| (format, version)))
        .collect();
    let without: Vec<_> = written.difference(&found).collect();
    assert!(without.is_empty(), "no sample has {without:?}");
    let unknown: Vec<_> = found.difference(&written).collect();
    assert!(unknown.is_empty(), "no format is {unknown:?}");
}

/// One that no test reads is none.
#[test]
fn each_file_of_samples_is_read() {
    let mut listed: Vec<PathBuf> = SAMPLES
        .iter()
        .chain(BACKUPS)
        .map(|it| sample_path(it))
        .collect();
    let mut kept = files(&data_folder(), "");
    listed.sort();
    kept.sort();
    assert_eq!(kept, listed);
}
