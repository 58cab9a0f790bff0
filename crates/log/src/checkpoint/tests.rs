use std::io::ErrorKind;

use courser_contract::{LogIndex, PartitionId, Term};

use super::{CheckpointError, CheckpointStore, Manifest, PIECE_BYTES_MAX};
use crate::{
    disk::Disk,
    ids::{BatchNumber, NodeIdentity, Synced},
    live::LiveEntries,
    record::CheckpointAt,
    testing::{Call, Choices, MemDisk, Survival},
};

const NODE: NodeIdentity = NodeIdentity(3);
const PARTITION: PartitionId = PartitionId(6);

fn pieces(index: u64) -> Vec<Vec<u8>> {
    let lens = [1, 0, 5_000, PIECE_BYTES_MAX];
    lens.iter().map(|len| vec![index as u8; *len]).collect()
}

fn live(index: u64) -> LiveEntries {
    (1..=index).step_by(3).map(LogIndex).collect()
}

fn take(store: &CheckpointStore<MemDisk>, index: u64) -> Result<Manifest, CheckpointError> {
    take_pieces(store, index, pieces(index))
}

/// In the place of one that is damaged.
fn renew(store: &CheckpointStore<MemDisk>, index: u64) -> Result<Manifest, CheckpointError> {
    let at = CheckpointAt {
        index: LogIndex(index),
        term: Term(1),
    };
    let mut writer = store.renewing_writer(PARTITION, at)?;
    for piece in pieces(index) {
        if let Err(error) = writer.piece(&piece) {
            writer.give_up();
            return Err(error);
        }
    }
    writer.finish(live(index), Synced(BatchNumber(index * 2)))
}

fn take_pieces(
    store: &CheckpointStore<MemDisk>,
    index: u64,
    pieces: Vec<Vec<u8>>,
) -> Result<Manifest, CheckpointError> {
    let at = CheckpointAt {
        index: LogIndex(index),
        term: Term(1),
    };
    let mut writer = store.writer(PARTITION, at)?;
    for piece in pieces {
        writer.piece(&piece)?;
    }
    writer.finish(live(index), Synced(BatchNumber(index * 2)))
}

/// The index of the checkpoint that counts, after everything of it was read.
fn read(disk: &MemDisk) -> Option<u64> {
    let (store, loaded) = CheckpointStore::open(disk.clone(), NODE).expect("opens");
    assert!(loaded.damaged.is_empty(), "{:?}", loaded.damaged);
    let manifest = loaded.manifests.get(&PARTITION)?;
    let index = manifest.at.index.0;
    assert_eq!(manifest.live, live(index));
    assert_eq!(manifest.synced.batch(), BatchNumber(index * 2));
    let mut reader = store.reader(manifest).expect("it is there");
    for piece in pieces(index) {
        assert_eq!(reader.next_piece().expect("whole"), Some(piece.into()));
    }
    assert_eq!(reader.next_piece().expect("whole"), None);
    assert_eq!(disk.names().len(), 2, "files that nothing names are gone");
    Some(index)
}

#[test]
fn d5_a_manifest_that_counts_after_a_failed_sync_of_its_folder_is_durable() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    // The second sync of the folder is the one behind the rename.
    disk.fail(Call::SyncDir, 1, 1, ErrorKind::Other);
    take(&store, 9).expect_err("its folder cannot be synced");
    let disk = disk.kill();
    let seen = read(&disk);
    let disk = disk.power_loss_with(|_| 0, |_| Survival::Gone);
    assert_eq!(
        read(&disk),
        seen,
        "what one start has seen, the next one sees"
    );
}

#[test]
fn the_last_checkpoint_counts() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    assert_eq!(read(&disk), None);
    for index in [4, 9, 20] {
        take(&store, index).expect("taken");
        assert_eq!(read(&disk), Some(index));
    }
}

#[test]
fn p2_d4_wherever_the_process_or_the_power_ends_one_whole_checkpoint_counts() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    take(
        &CheckpointStore::open(disk.fork(), NODE).expect("opens").0,
        9,
    )
    .expect("taken");
    let calls = {
        let fork = disk.fork();
        let (store, _) = CheckpointStore::open(fork.clone(), NODE).expect("opens");
        let before = fork.changes();
        take(&store, 9).expect("taken");
        fork.changes() - before
    };
    assert!(calls > 10);
    let (mut old, mut new) = (0, 0);
    for nth in 1..=calls + 1 {
        for seed in 0..20 {
            let fork = disk.fork();
            let (store, _) = CheckpointStore::open(fork.clone(), NODE).expect("opens");
            fork.die_at(nth);
            let taken = take(&store, 9);
            // With the last call the older one is removed: the new one counts without it.
            assert_eq!(taken.is_ok(), nth >= calls);
            let fork = fork.power_loss(Choices::new(seed).next_u64());
            match read(&fork) {
                Some(4) => old += 1,
                Some(9) => new += 1,
                other => panic!("died at call {nth}, seed {seed}: {other:?}"),
            }
            assert!(
                taken.is_err() || read(&fork) == Some(9),
                "what was finished counts"
            );
        }
    }
    assert!(old > 0 && new > 0);
}

#[test]
fn a_damaged_manifest_is_told_and_its_checkpoint_kept() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    disk.rot("6.manifest", 20, 1);
    let (_, loaded) = CheckpointStore::open(disk.clone(), NODE).expect("opens");
    assert!(loaded.manifests.is_empty());
    assert_eq!(loaded.damaged[0].0, PARTITION);
    assert!(disk.names().contains(&"6-4.ckp".to_owned()));
}

#[test]
fn d9_any_bit_changed_of_a_checkpoint_is_said_or_changes_nothing() {
    let mut choices = Choices::new(5);
    let pieces: Vec<Vec<u8>> = [1, 0, 300, 64]
        .iter()
        .map(|len| (0..*len).map(|_| choices.next_u64() as u8).collect())
        .collect();
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    let written = take_pieces(&store, 4, pieces.clone()).expect("taken");
    let disk = disk.kill();
    for name in disk.names() {
        let len = disk.bytes(&name).expect("it is there").len() as u64;
        for (at, bit) in (0..len).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
            let rotten = disk.fork();
            rotten.rot(&name, at, 1 << bit);
            let what = format!("byte {at} bit {bit} of {name}");
            // Another version, or another node's, is refused: that says it, too.
            let Ok((store, loaded)) = CheckpointStore::open(rotten, NODE) else {
                continue;
            };
            let Some(manifest) = loaded.manifests.get(&PARTITION) else {
                assert!(!loaded.damaged.is_empty(), "{what}: nobody says so");
                continue;
            };
            assert_eq!(*manifest, written, "{what}");
            let mut reader = match store.reader(manifest) {
                Ok(reader) => reader,
                Err(_) => continue,
            };
            let mut found = Vec::new();
            let read = loop {
                match reader.next_piece() {
                    Ok(Some(piece)) => found.push(piece.to_vec()),
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            assert!(pieces.starts_with(&found), "{what}: a wrong piece");
            assert!(read.is_err() || found == pieces, "{what}: a piece is lost");
        }
    }
}

#[test]
fn another_nodes_checkpoints_are_refused() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    let refused = CheckpointStore::open(disk, NodeIdentity(4));
    assert!(matches!(refused, Err(CheckpointError::Foreign { .. })));
}

/// A process without descriptors ended as if its disk had failed.
#[test]
fn p6_a_checkpoint_for_which_no_file_can_be_made_is_no_failure_of_the_disk() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    let names = disk.names();
    // The file of the pieces, and that of the manifest.
    for nth in 0..2 {
        disk.fail(Call::Create, nth, 1, ErrorKind::OutOfMemory);
        let error = take(&store, 5).expect_err("it is not made");
        assert!(error.is_passing(), "{error}");
        assert_eq!(disk.names(), names);
        disk.forget_faults();
    }
    for (call, kind) in [
        (Call::Create, ErrorKind::Other),
        (Call::Write, ErrorKind::OutOfMemory),
        (Call::Sync, ErrorKind::OutOfMemory),
        (Call::SyncDir, ErrorKind::OutOfMemory),
        (Call::Rename, ErrorKind::OutOfMemory),
    ] {
        disk.fail(call, 0, 1, kind);
        let error = take(&store, 5).expect_err("it fails");
        assert!(!error.is_passing(), "{call:?}: {error}");
        disk.forget_faults();
    }
    take(&store, 6).expect("taken");
    assert_eq!(read(&disk), Some(6));
}

/// A file of each attempt was left, so that a full disk had less room for the next.
#[test]
fn d8_a_checkpoint_that_finds_no_room_gives_back_what_it_took() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    let (names, used) = (disk.names(), disk.used());
    // Room for a part of the header, of the pieces, of the manifest.
    for room in (0..100_000).step_by(1_700) {
        disk.set_capacity(Some(used + room));
        let at = CheckpointAt {
            index: LogIndex(5),
            term: Term(1),
        };
        let written = store.writer(PARTITION, at).and_then(|mut writer| {
            for piece in pieces(5) {
                if let Err(error) = writer.piece(&piece) {
                    writer.give_up();
                    return Err(error);
                }
            }
            writer.finish(live(5), Synced(BatchNumber(10)))
        });
        match written {
            Ok(_) => {
                assert!(room > 70_000, "{room}");
                assert_eq!(read(&disk), Some(5));
                return;
            }
            Err(_) => assert_eq!((disk.names(), disk.used()), (names.clone(), used), "{room}"),
        }
    }
    panic!("there is room for it at last");
}

const CALLS: [Call; 7] = [
    Call::Create,
    Call::Open,
    Call::Write,
    Call::Sync,
    Call::Rename,
    Call::SyncDir,
    Call::Remove,
];

/// What a system may say: it is full, and the disk is.
const KINDS: [ErrorKind; 5] = [
    ErrorKind::StorageFull,
    ErrorKind::QuotaExceeded,
    ErrorKind::FileTooLarge,
    ErrorKind::PermissionDenied,
    ErrorKind::Other,
];

/// A sync of the folder behind the rename found no room: that was taken for no failure of the disk, and the next attempt emptied the file of the
/// checkpoint that counted.
#[test]
fn d5_d8_whichever_call_fails_a_whole_checkpoint_counts_and_goes_on_counting() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    let (mut passing, mut harmless, mut last) = (0, 0, 0);
    for (call, kind) in CALLS
        .into_iter()
        .flat_map(|it| KINDS.map(|kind| (it, kind)))
    {
        for nth in 0.. {
            let begun = |fork: &MemDisk| {
                let (store, _) = CheckpointStore::open(fork.clone(), NODE).expect("opens");
                fork.fail(call, nth, 1, kind);
                let taken = take(&store, 9);
                (store, taken)
            };
            let (_, taken) = begun(&disk.fork());
            // The next attempt, up to each of its calls, if there is one.
            for end in 1..20 {
                let fork = disk.fork();
                let (store, taken) = begun(&fork);
                let counted = match taken {
                    Ok(_) => 9,
                    Err(error) if error.is_passing() => {
                        fork.die_at(end);
                        take(&store, 9).map_or(4, |_| 9)
                    }
                    Err(_) => 4,
                };
                for left in [
                    fork.fork().kill(),
                    fork.fork().power_loss_with(|_| 0, |_| Survival::Gone),
                    fork.fork().power_loss_with(|all| all, |_| Survival::Gone),
                ] {
                    let found = read(&left);
                    assert!(
                        found >= Some(counted),
                        "{call:?} {nth}, {kind:?}, then call {end}: {found:?}"
                    );
                }
            }
            let is_over = disk_is_over(&disk, call, nth, kind);
            match taken {
                Ok(_) if is_over => break,
                Ok(_) => harmless += 1,
                Err(error) => passing += u32::from(error.is_passing()),
            }
            last = nth.max(last);
        }
    }
    assert!(passing > 10 && harmless > 0 && last > 0);
}

/// Whether a checkpoint makes no more calls of a kind than so many.
fn disk_is_over(disk: &MemDisk, call: Call, nth: u64, kind: ErrorKind) -> bool {
    let fork = disk.fork();
    let (store, _) = CheckpointStore::open(fork.clone(), NODE).expect("opens");
    fork.fail(call, nth, 1, kind);
    let before = fork.failed();
    let _taken = take(&store, 9);
    fork.failed() == before
}

#[test]
fn m42_the_checkpoint_that_counts_is_never_written_again() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    let error = take(&store, 4).expect_err("it is there");
    assert!(matches!(error, CheckpointError::Counts { .. }), "{error}");
    assert!(!error.is_passing());
    assert_eq!(read(&disk.kill()), Some(4));
}

/// What a given up attempt has left, since it could not be removed, is not in the way of the next one.
#[test]
fn d8_what_is_left_of_an_attempt_is_replaced_by_the_next_one() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    disk.fail(Call::Write, 0, 1, ErrorKind::StorageFull);
    disk.fail(Call::Remove, 0, 1, ErrorKind::PermissionDenied);
    assert!(take(&store, 9).expect_err("no room").is_passing());
    assert_eq!(disk.names(), ["6-4.ckp", "6-9.ckp", "6.manifest"]);
    take(&store, 9).expect("taken");
    assert_eq!(read(&disk.kill()), Some(9));
}

/// A process without descriptors beside such a file ended as if its disk had failed: the manifest could not be read.
#[test]
fn p6_what_is_left_of_an_attempt_is_looked_at_again_where_the_manifest_cannot_be_opened_for_the_moment()
 {
    for (call, nth) in [(Call::Open, 1), (Call::Read, 0), (Call::Read, 1)] {
        let disk = MemDisk::new();
        let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
        take(&store, 4).expect("taken");
        let at = CheckpointAt {
            index: LogIndex(9),
            term: Term(1),
        };
        drop(store.writer(PARTITION, at).expect("created"));
        let names = disk.names();
        assert_eq!(names, ["6-4.ckp", "6-9.ckp", "6.manifest"]);
        // The first one is opened to see whether it is there.
        for (kind, is_passing) in [(ErrorKind::OutOfMemory, true), (ErrorKind::Other, false)] {
            let failed = disk.failed();
            disk.fail(call, nth, 1, kind);
            let error = take(&store, 9).expect_err("nobody knows which one counts");
            assert_eq!(disk.failed(), failed + 1);
            assert_eq!(error.is_passing(), is_passing, "{call:?}: {error}");
            assert_eq!(disk.names(), names);
        }
        take(&store, 9).expect("taken");
        assert_eq!(read(&disk.kill()), Some(9));
    }
}

/// An old file that stays was a failure of the checkpoint that had taken its place, and of each start.
#[test]
fn d6_an_older_checkpoint_that_cannot_be_removed_is_in_nobodys_way() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    disk.fail(Call::Remove, 0, 3, ErrorKind::Other);
    take(&store, 9).expect("it counts");
    let (_, loaded) = CheckpointStore::open(disk.clone(), NODE).expect("opens");
    assert_eq!(
        (loaded.manifests[&PARTITION].at.index.0, loaded.removed),
        (9, 0)
    );
    take(&store, 20).expect("it counts");
    assert_eq!(read(&disk), Some(20));
}

/// A start removed the checkpoint of a partition whose manifest was not there: put back, it named nothing (I7).
#[test]
fn i7_a_checkpoint_whose_manifest_is_missing_stays() {
    let disk = MemDisk::new();
    let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
    take(&store, 4).expect("taken");
    let manifest = disk.bytes("6.manifest").expect("it is there");
    disk.remove("6.manifest").expect("removed");
    // One that nobody can want: it was not finished.
    let at = CheckpointAt {
        index: LogIndex(9),
        term: Term(1),
    };
    drop(store.writer(PARTITION, at).expect("created"));
    for _ in 0..2 {
        let names = disk.names();
        let (_, looked) = CheckpointStore::look(disk.clone(), NODE).expect("opens");
        assert_eq!((looked.removed, &disk.names()), (0, &names));
        let (_, loaded) = CheckpointStore::open(disk.clone(), NODE).expect("opens");
        assert!(loaded.manifests.is_empty() && loaded.damaged.is_empty());
        assert_eq!(disk.names(), ["6-4.ckp"]);
    }
    // What cannot be read may be it.
    disk.fail(Call::Open, 0, 1, ErrorKind::Other);
    CheckpointStore::open(disk.clone(), NODE).expect("opens");
    disk.create("6.manifest").expect("made");
    disk.replace("6.manifest", manifest);
    let back = disk.fork();
    assert_eq!(read(&back), Some(4));
    // The next one of the partition takes its place, also at the same entry.
    disk.remove("6.manifest").expect("removed");
    let (again, _) = CheckpointStore::open(disk.fork(), NODE).expect("opens");
    take(&again, 4).expect("taken");
    take(&store, 9).expect("taken");
    assert_eq!(read(&disk), Some(9));
}

/// A partition to which nothing comes has no later entry for a new one.
#[test]
fn i7_a_damaged_checkpoint_is_replaced_by_one_at_the_same_entry() {
    for name in ["6-4.ckp", "6.manifest"] {
        let disk = MemDisk::new();
        let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
        take(&store, 4).expect("taken");
        disk.rot(name, 100, 1);
        renew(&store, 4).expect("taken");
        assert_eq!(read(&disk.fork().power_loss(1)), Some(4), "{name}");
        renew(&store, 9).expect("taken");
        assert_eq!(read(&disk.fork().power_loss(1)), Some(9), "{name}");
    }
}

/// Whatever ends it in the middle: one that counts is whole, if it was.
#[test]
fn i7_one_that_is_to_replace_another_leaves_that_as_it_is_until_it_is_durable() {
    for call in [
        Call::Write,
        Call::Sync,
        Call::Open,
        Call::Read,
        Call::Create,
        Call::Rename,
        Call::SyncDir,
    ] {
        for nth in 0.. {
            let disk = MemDisk::new();
            let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
            take(&store, 4).expect("taken");
            disk.fail(call, nth, 1, ErrorKind::StorageFull);
            let before = disk.failed();
            let taken = renew(&store, 4);
            if disk.failed() == before {
                taken.expect("nothing has failed");
                break;
            }
            for choice in [0, usize::MAX] {
                let left = disk
                    .fork()
                    .power_loss_with(|most| choice.min(most), |_| Survival::Gone);
                assert_eq!(read(&left), Some(4), "{call:?} {nth}");
            }
            assert_eq!(read(&disk.kill()), Some(4), "{call:?} {nth}");
        }
    }
}

/// A rename that fails is no sync that failed: the process ended for it, although what it replaces was there as before.
#[test]
fn i7_one_that_does_not_get_the_name_of_a_damaged_one_is_tried_again() {
    for kind in [ErrorKind::Other, ErrorKind::StorageFull] {
        let disk = MemDisk::new();
        let (store, _) = CheckpointStore::open(disk.clone(), NODE).expect("an empty folder");
        take(&store, 4).expect("taken");
        disk.rot("6-4.ckp", 100, 1);
        disk.fail(Call::Rename, 0, 1, kind);
        let error = renew(&store, 4).expect_err("it is not renamed");
        assert!(error.is_passing(), "{error}");
        assert!(!disk.names().iter().any(|name| name.ends_with(".new")));
        renew(&store, 4).expect("taken");
        assert_eq!(read(&disk.fork().power_loss(1)), Some(4));
        // That of a manifest says which of two counts.
        disk.fail(Call::Rename, 1, 1, ErrorKind::Other);
        let error = renew(&store, 9).expect_err("its manifest is not renamed");
        assert!(!error.is_passing(), "{error}");
    }
}
