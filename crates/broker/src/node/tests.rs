//! M46: the folder and its file; M14: no start number comes twice.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use super::file::{NodeFile, NodeFileError};
use super::folder::mode_if_open;
use super::{DataFolder, FolderError, make_folder};
use crate::slots::Relaxed;

fn node() -> NodeFile {
    NodeFile {
        identity: *b"0123456789abcdef",
        start: 7,
        word: 0x0102_0304_0506_0708,
        partitions: 16,
        relaxed: Relaxed::None,
    }
}

#[test]
fn m46_a_node_file_is_read_as_it_was_written() {
    let bytes = node().encode();
    assert_eq!(NodeFile::decode(&bytes), Ok(node()));
}

/// The layout is a promise to later versions.
#[test]
fn m46_the_bytes_of_a_node_file_are_pinned() {
    let bytes = node().encode();
    assert_eq!(&bytes[..16], b"CRSRNODE\x01\0\0\0\x10\0\0\0");
    assert_eq!(&bytes[16..32], b"0123456789abcdef");
    assert_eq!(
        &bytes[32..48],
        b"\x07\0\0\0\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01"
    );
    assert_eq!(&bytes[48..60], [0; 12]);
}

#[test]
fn d9_every_changed_bit_of_a_node_file_is_found() {
    let bytes = node().encode();
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(NodeFile::decode(&bad).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        let cut = NodeFile::decode(&bytes[..len]);
        assert_eq!(cut, Err(NodeFileError::Damaged), "{len} bytes");
    }
    assert_eq!(
        NodeFile::decode(&[&bytes[..], b"x"].concat()),
        Err(NodeFileError::Damaged)
    );
}

#[test]
fn m14_every_start_has_a_higher_number_and_another_word() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = folder.path().join("data");
    let first = DataFolder::open(&path, 4, Relaxed::None)
        .expect("a new folder")
        .node()
        .clone();
    let second = DataFolder::open(&path, 9, Relaxed::None)
        .expect("an old folder")
        .node()
        .clone();
    assert_eq!((first.start, second.start), (1, 2));
    assert_eq!(first.identity, second.identity);
    assert_ne!(first.word, second.word);
}

/// Partitions have room for 24 bits of it, and panicked at each start behind the last.
#[test]
fn m14_the_last_start_that_can_be_counted_is_the_last() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = folder.path().join("data");
    drop(DataFolder::open(&path, 4, Relaxed::None).expect("a new folder"));
    let file = path.join("node");
    let mut node = NodeFile::decode(&fs::read(&file).expect("it is there")).expect("it is whole");
    node.start = (1 << 24) - 2;
    fs::write(&file, node.encode()).expect("it can be written");
    let last = DataFolder::open(&path, 4, Relaxed::None).expect("there is one left");
    assert_eq!(last.node().start, (1 << 24) - 1);
    drop(last);
    for _ in 0..2 {
        let error = DataFolder::open(&path, 4, Relaxed::None).expect_err("there is none left");
        assert!(matches!(error, FolderError::Worn { .. }), "{error}");
    }
}

#[test]
fn m3_the_number_of_partitions_is_fixed_when_the_folder_is_made() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = folder.path().join("data");
    for asked_for in [4, 9, 1] {
        let open = DataFolder::open(&path, asked_for, Relaxed::None).expect("a folder");
        assert_eq!(open.node().partitions, 4, "{asked_for} are asked for");
    }
}

#[test]
fn s6_files_and_folders_are_private() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = folder.path().join("data");
    let open = DataFolder::open(&path, 4, Relaxed::None).expect("a new folder");
    let mode = |path: &std::path::Path| {
        let metadata = fs::metadata(path).expect("it is there");
        metadata.permissions().mode() & 0o777
    };
    for folder in [path.clone(), open.log(), open.checkpoints()] {
        assert_eq!(mode(&folder), 0o700, "{}", folder.display());
    }
    for file in ["LOCK", "node"] {
        assert_eq!(mode(&path.join(file)), 0o600, "{file}");
    }
}

/// Where restores and backups go, too: each of these names is durable when the folder is there.
#[test]
fn s6_a_folder_is_made_with_all_above_it() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = folder.path().join("a/b/c");
    for _ in 0..2 {
        make_folder(&path).expect("there is room");
        for path in path.ancestors().take(3) {
            let mode = fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o700, "{}", path.display());
        }
    }
    fs::write(path.join("d"), "").expect("there is room");
    for path in [path.join("d"), path.join("d/e")] {
        assert!(make_folder(&path).is_err(), "a file is in the way");
    }
}

#[test]
fn a_folder_that_others_may_write_into_is_told_from_one_that_they_may_read() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    for (mode, expected) in [
        (0o700, None),
        (0o755, None),
        (0o770, Some(0o770)),
        (0o707, Some(0o707)),
        (0o777, Some(0o777)),
    ] {
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).expect("it is ours");
        let found = mode_if_open(folder.path()).expect("it is there");
        assert_eq!(found, expected, "{mode:o}");
        DataFolder::open(folder.path(), 4, Relaxed::None).expect("it is used all the same");
    }
}

#[test]
fn d14_a_second_process_is_told_who_uses_the_folder() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let first = DataFolder::open(folder.path(), 4, Relaxed::None).expect("a new folder");
    let error = DataFolder::open(folder.path(), 4, Relaxed::None).expect_err("it is in use");
    let text = error.to_string();
    assert!(matches!(error, FolderError::InUse { .. }), "{text}");
    let process = format!("in use by process {}", std::process::id());
    assert!(text.contains(&process), "{text}");
    let start = first.node().start;
    drop(first);
    let next = DataFolder::open(folder.path(), 4, Relaxed::None).expect("it is free again");
    assert_eq!(
        next.node().start,
        start + 1,
        "the refused one counted nothing"
    );
}

/// Two servers wrote one log once the file that one of them had locked was removed.
#[test]
fn d14_a_folder_is_in_use_without_its_lock_too() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let first = DataFolder::open(folder.path(), 4, Relaxed::None).expect("a new folder");
    for _ in 0..2 {
        fs::remove_file(folder.path().join("LOCK")).expect("it is there");
        let error = DataFolder::open(folder.path(), 4, Relaxed::None).expect_err("it is in use");
        assert!(matches!(error, FolderError::InUse { .. }), "{error}");
    }
    let start = first.node().start;
    drop(first);
    let next = DataFolder::open(folder.path(), 4, Relaxed::None).expect("it is free again");
    assert_eq!(next.node().start, start + 1);
}

/// A disk that others had filled kept a server from starting: its file was made anew.
#[test]
fn d8_a_start_writes_into_files_that_are_there() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = |name| folder.path().join(name);
    let files = || {
        let mut files = ["node", "node.new"].map(|name| {
            let file = fs::metadata(path(name)).expect("it is there");
            (file.ino(), file.len())
        });
        files.sort_unstable();
        files
    };
    drop(DataFolder::open(folder.path(), 4, Relaxed::None).expect("a new folder"));
    let before = files();
    let lock = fs::metadata(path("LOCK")).expect("it is there");
    for start in 2..=5 {
        // What is left of the one before the last counts for nothing.
        fs::write(path("node.new"), [b'x'; 70]).expect("written");
        let open = DataFolder::open(folder.path(), 4, Relaxed::None).expect("it opens");
        assert_eq!(open.node().start, start);
        assert_eq!(files().map(|it| it.0), before.map(|it| it.0));
    }
    let open = DataFolder::open(folder.path(), 4, Relaxed::None).expect("it opens");
    assert_eq!(files()[0].1, 64);
    let again = fs::metadata(path("LOCK")).expect("it is there");
    assert_eq!((lock.ino(), lock.len()), (again.ino(), again.len()));
    drop(open);
}

#[test]
fn d12_a_folder_that_lost_its_node_file_is_not_taken_for_a_new_one() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let log = DataFolder::open(folder.path(), 4, Relaxed::None)
        .expect("a new folder")
        .log();
    fs::remove_file(folder.path().join("node")).expect("it is there");
    let fresh = DataFolder::open(folder.path(), 4, Relaxed::None).expect("nothing was stored yet");
    assert_eq!(fresh.node().start, 1);
    drop(fresh);
    // A disk of its own has this from the first day.
    fs::create_dir(log.join("lost+found")).expect("a folder can be made");
    fs::remove_file(folder.path().join("node")).expect("it is there");
    drop(DataFolder::open(folder.path(), 4, Relaxed::None).expect("nothing was stored yet"));
    fs::write(log.join("0000000001.seg"), b"x").expect("a file can be made");
    fs::remove_file(folder.path().join("node")).expect("it is there");
    let error =
        DataFolder::open(folder.path(), 4, Relaxed::None).expect_err("whose are the segments?");
    assert!(matches!(error, FolderError::Missing { .. }), "{error}");
}

#[test]
fn p9_a_folder_of_another_version_is_refused_with_its_version() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    drop(DataFolder::open(folder.path(), 4, Relaxed::None).expect("a new folder"));
    let path = folder.path().join("node");
    let mut bytes = fs::read(&path).expect("it is there");
    bytes[8] = 2;
    fs::write(&path, &bytes).expect("it can be written");
    let error = DataFolder::open(folder.path(), 4, Relaxed::None).expect_err("an unknown version");
    assert!(matches!(error, FolderError::Version { found: 2, .. }));
    assert!(error.to_string().contains("format 2"), "{error}");
    bytes.truncate(20);
    bytes[8] = 1;
    fs::write(&path, &bytes).expect("it can be written");
    let error = DataFolder::open(folder.path(), 4, Relaxed::None).expect_err("half a file");
    assert!(matches!(error, FolderError::Damaged { .. }), "{error}");
}
