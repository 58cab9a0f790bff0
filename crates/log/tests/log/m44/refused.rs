//! What a disk refuses: room, and calls that fail. What can be done later is, and what failed for good is final.

use std::io::ErrorKind;

use courser_contract::PartitionId;
use courser_log::{
    Log, WriteError,
    testing::{Call, MemDisk},
};

use super::recorded::{Recorded, entries, open_with};
use crate::support::{self, SEGMENT, open};

#[test]
fn d8_a_full_disk_refuses_to_roll_and_recovers_by_itself() {
    use courser_log::SpaceState;
    let mut recorded = Recorded::new();
    let segment = support::SEGMENT;
    // Room for the reserve of one segment, one ahead, and half of another.
    recorded.disk.set_capacity(Some(segment * 7 / 2));
    let mut low = false;
    let error = recorded.fill(|log| {
        low |= log.space().state == SpaceState::Low;
        log.check();
    });
    assert!(low, "it is said before it is too late");
    assert!(matches!(error, WriteError::NoSpace));
    assert_eq!(recorded.log.refresh_space().state, SpaceState::Low);
    recorded.disk.set_capacity(Some(segment * 8));
    assert_eq!(recorded.log.refresh_space().state, SpaceState::Enough);
    recorded
        .log
        .write(&mut recorded.batch)
        .expect("the same batch");
    recorded.log.sync().expect("synced");
    let recovered = recorded.restart(2);
    assert_eq!(entries(&recovered, 1) as u64, recorded.last[&1]);
}

#[test]
fn d8_segments_that_a_checkpoint_frees_end_the_shortage() {
    use courser_log::SpaceState;
    let mut recorded = Recorded::new();
    recorded.disk.set_capacity(Some(support::SEGMENT * 4));
    while recorded.log.refresh_space().state == SpaceState::Enough {
        recorded.write_synced(&[1]);
        if let Some(job) = recorded.log.prepare() {
            recorded.log.prepared(job.run()).expect("synced");
        }
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let freed = recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    assert!(freed > 0);
    assert_eq!(recorded.log.refresh_space().state, SpaceState::Enough);
}

/// A log that took the last block could not be saved, and nothing would ever be freed.
#[test]
fn d8_the_log_leaves_room_for_the_checkpoint_that_frees_it() {
    use courser_log::Disk as _;
    const LEFT: u64 = 100 << 10;
    let mut recorded = Recorded::new();
    recorded.disk.set_capacity(Some(support::SEGMENT * 6));
    recorded.log.leave_free(LEFT);
    let error = recorded.fill(|_| {});
    assert!(matches!(error, WriteError::NoSpace));
    let free = recorded.disk.free_bytes().expect("known");
    assert!(
        (LEFT..LEFT + support::SEGMENT).contains(&free),
        "{free} bytes"
    );
    // What was written without the last entry is saved.
    let at = support::checkpoint_at(recorded.last[&1] - 1, 1);
    let live = Default::default();
    assert!(recorded.log.set_checkpoint(PartitionId(1), at, live) > 0);
    let again = recorded.log.write(&mut recorded.batch);
    again.expect("the same batch has room in what was freed");
}

/// Files of segments.
fn segments(disk: &MemDisk) -> usize {
    let names = disk.names();
    names.iter().filter(|name| name.ends_with(".seg")).count()
}

/// Files that hold nothing and are not ready: all but the segments that are counted.
fn spare(log: &Log<MemDisk>, disk: &MemDisk) -> usize {
    let ready = support::config().ahead_segments + support::config().reserve_segments;
    segments(disk) - log.segments() - ready as usize
}

fn prepare_all(log: &mut Log<MemDisk>) {
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
}

/// `docs/operations/disk.md`: at most `spare_segments`, also where nobody writes any more.
#[test]
fn i9_segments_that_a_checkpoint_frees_are_removed_without_another_segment_begun() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 40 {
        recorded.write_synced(&[1]);
    }
    prepare_all(&mut recorded.log);
    assert_eq!(spare(&recorded.log, &recorded.disk), 0);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let freed = recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    assert_eq!(spare(&recorded.log, &recorded.disk), freed);
    let rolls = recorded.log.counts().rolls;
    prepare_all(&mut recorded.log);
    let counts = recorded.log.counts();
    assert_eq!(spare(&recorded.log, &recorded.disk), 1);
    assert_eq!((counts.rolls, counts.removed), (rolls, freed as u64 - 1));
    recorded.log.check();
}

/// A log that has had so many segments, of which a checkpoint has freed all but the last: so many.
fn with_many_free(segments: usize) -> (Recorded, usize) {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < segments {
        recorded.write_synced(&[1]);
    }
    prepare_all(&mut recorded.log);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    let freed = recorded.log.set_checkpoint(PartitionId(1), at, live);
    (recorded, freed)
}

/// The next segment waits behind what is removed.
#[test]
fn i9_no_job_removes_many_segments() {
    let (mut recorded, _) = with_many_free(60);
    let mut jobs = 0;
    while let Some(job) = recorded.log.prepare() {
        let before = segments(&recorded.disk);
        recorded.log.prepared(job.run()).expect("synced");
        assert!(before - segments(&recorded.disk) <= 16);
        jobs += 1;
    }
    assert!(jobs > 3);
}

#[test]
fn d8_files_of_another_size_give_their_room_on_a_full_disk() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 6 {
        recorded.write_synced(&[1]);
    }
    recorded.disk = recorded.disk.kill();
    let (mut log, _) = open_with(&recorded.disk, 2, 2 * SEGMENT);
    prepare_all(&mut log);
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded.batch = log.new_batch();
    recorded.log = log;
    recorded.write_synced(&[2]);
    let used = recorded.disk.used();
    recorded.disk.set_capacity(Some(used));
    let live = Default::default();
    let freed = recorded.log.set_checkpoint(PartitionId(1), at, live);
    prepare_all(&mut recorded.log);
    let counts = recorded.log.counts();
    assert_eq!((counts.removed, counts.created), (freed as u64, 3));
}

/// A log with one segment in which nothing is live, and none that is ready.
fn with_one_free() -> Recorded {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 2 {
        recorded.write_synced(&[1]);
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    let live = Default::default();
    assert_eq!(recorded.log.set_checkpoint(PartitionId(1), at, live), 1);
    // Nothing else is to be had.
    let used = recorded.disk.used();
    recorded.disk.set_capacity(Some(used));
    recorded
}

/// The reserve went away piece by piece under shortage, for the log tries again five times a second.
#[test]
fn m47_a_segment_whose_preparation_fails_is_used_when_it_is_tried_again() {
    let calls = [
        (Call::Rename, ErrorKind::OutOfMemory),
        (Call::Open, ErrorKind::OutOfMemory),
        (Call::Write, ErrorKind::StorageFull),
        (Call::Sync, ErrorKind::StorageFull),
    ];
    for (call, kind) in calls {
        let mut recorded = with_one_free();
        recorded.disk.fail(call, 0, 3, kind);
        let bytes = recorded.log.segments_bytes();
        for _ in 0..3 {
            recorded.log.refresh_space();
            let job = recorded.log.prepare().expect("one is free");
            recorded.log.prepared(job.run()).expect("no failed sync");
            recorded.log.check();
            assert_eq!(recorded.log.segments_bytes(), bytes, "{call:?}");
        }
        assert_eq!(recorded.log.counts().prepare_failures, 3, "{call:?}");
        recorded.log.refresh_space();
        let job = recorded.log.prepare().expect("it is still there");
        recorded.log.prepared(job.run()).expect("synced");
        assert_eq!(recorded.log.counts().recycled, 1, "{call:?}");
        while recorded.log.segments() < 2 {
            recorded.write_synced(&[2]);
        }
        let manifests = support::manifest(recorded.last[&1], 1, recorded.log.synced());
        let opened = open(&recorded.disk.kill(), 2, &manifests);
        let (_, recovered) = opened.expect("opens");
        assert_eq!(recovered.report.damages, [], "{call:?}");
        assert_eq!(entries(&recovered, 2) as u64, recorded.last[&2]);
    }
}

#[test]
fn m47_a_segment_that_the_writer_could_not_have_is_had_later() {
    let mut recorded = with_one_free();
    // The name that it gets when it is used again.
    recorded
        .disk
        .fail(Call::Rename, 0, 1, ErrorKind::StorageFull);
    let error = loop {
        match recorded.write_next() {
            Ok(_) => recorded.log.sync().expect("synced"),
            Err(error) => break error,
        };
    };
    assert!(matches!(error, WriteError::NoSpace), "{error}");
    let again = recorded.log.write(&mut recorded.batch);
    again.expect("the segment is still there");
    assert_eq!(recorded.log.counts().recycled, 1);
}

/// A file that the disk does not let be used any more makes room for another one, and does not stand in its way for good.
#[test]
fn d6_a_segment_that_cannot_be_written_is_removed() {
    let mut recorded = with_one_free();
    recorded.disk.fail(Call::Write, 0, 1, ErrorKind::Other);
    let job = recorded.log.prepare().expect("one is free");
    recorded.log.prepared(job.run()).expect("no failed sync");
    recorded.log.refresh_space();
    let files = recorded.disk.names().len();
    let created = recorded.log.counts().created;
    prepare_all(&mut recorded.log);
    let counts = recorded.log.counts();
    assert_eq!((counts.removed, counts.created), (1, created + 1));
    assert_eq!(recorded.disk.names().len(), files);
}

#[test]
fn m47_files_that_could_not_be_removed_are_removed_later() {
    let (mut recorded, freed) = with_many_free(10);
    // Each with its summary.
    recorded.disk.fail(Call::Remove, 4, 4, ErrorKind::Other);
    for removed in [freed as u64 - 3, freed as u64 - 1] {
        recorded.log.refresh_space();
        prepare_all(&mut recorded.log);
        assert_eq!(recorded.log.counts().removed, removed);
    }
    assert_eq!(spare(&recorded.log, &recorded.disk), 1);
}

/// Also where as many cannot be removed as one job takes, and what they hold of the disk is counted.
#[test]
fn d6_files_that_cannot_be_removed_hold_up_no_other_one() {
    let (mut recorded, freed) = with_many_free(60);
    let names = recorded.disk.names();
    let all: Vec<_> = names.iter().filter(|it| it.ends_with(".seg")).collect();
    let kept = 20;
    for name in &all[5..5 + kept] {
        recorded.disk.keep_file(name);
    }
    prepare_all(&mut recorded.log);
    assert!(recorded.log.has_stuck());
    for _ in 0..3 {
        let removed = recorded.log.counts().removed;
        assert_eq!(removed, (freed - 1 - kept) as u64);
        assert_eq!(spare(&recorded.log, &recorded.disk), 1 + kept);
        let there = segments(&recorded.disk) as u64 * SEGMENT;
        assert_eq!(recorded.log.segments_bytes(), there);
        recorded.log.refresh_space();
        prepare_all(&mut recorded.log);
    }
    recorded.log.check();
    let before = recorded.log.counts();
    while recorded.log.counts().rolls < before.rolls + 30 {
        recorded.write_synced(&[1]);
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    prepare_all(&mut recorded.log);
    assert_eq!(spare(&recorded.log, &recorded.disk), 1 + kept);
}

#[test]
fn d6_a_file_that_cannot_be_removed_keeps_no_segment_from_being_made() {
    let (mut recorded, _) = with_many_free(10);
    let denied = ErrorKind::PermissionDenied;
    recorded.disk.fail(Call::Remove, 0, 1_000, denied);
    prepare_all(&mut recorded.log);
    let before = recorded.log.counts();
    assert_eq!(before.removed, 0);
    while recorded.log.counts().rolls < before.rolls + 5 {
        recorded.write_synced(&[1]);
        prepare_all(&mut recorded.log);
    }
    let counts = recorded.log.counts();
    assert_eq!(counts.rolls_unprepared, before.rolls_unprepared);
}

#[test]
fn d6_a_new_segment_that_cannot_get_its_name_leaves_no_file() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let names = recorded.disk.names();
    recorded.disk.fail(Call::Rename, 0, 1, ErrorKind::Other);
    let job = recorded.log.prepare().expect("none is ready");
    recorded.log.prepared(job.run()).expect("no failed sync");
    assert_eq!(recorded.disk.names(), names);
}

#[test]
fn d5_after_a_failed_sync_everything_is_refused() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    recorded.disk.fail(Call::Sync, 0, 1, ErrorKind::Other);
    recorded.write(&[1]);
    let error = recorded.log.sync().expect_err("it fails");
    assert!(error.is_final());
    for _ in 0..3 {
        assert!(recorded.log.sync().expect_err("for good").is_final());
        assert!(recorded.log.witness().expect_err("for good").is_final());
        assert!(recorded.log.write(&mut recorded.batch).is_err());
        assert!(recorded.log.prepare().is_none());
    }
}

#[test]
fn d5_a_failed_sync_of_a_segment_to_come_refuses_everything() {
    for call in [Call::Sync, Call::SyncDir] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let job = recorded.log.prepare().expect("none is ready");
        recorded.disk.fail(call, 0, 1, ErrorKind::Other);
        let error = recorded.log.prepared(job.run()).expect_err("it fails");
        assert!(error.is_final(), "{call:?}: {error}");
        assert!(recorded.log.write(&mut recorded.batch).is_err());
        assert!(recorded.log.sync().expect_err("for good").is_final());
        assert!(recorded.log.prepare().is_none());
    }
}

#[test]
fn d8_a_segment_for_which_a_sync_finds_no_room_is_made_later() {
    let mut recorded = Recorded::new();
    let job = recorded.log.prepare().expect("none is ready");
    recorded.disk.fail(Call::Sync, 0, 1, ErrorKind::StorageFull);
    recorded.log.prepared(job.run()).expect("only counted");
    assert_eq!(recorded.log.counts().prepare_failures, 1);
    recorded.write_synced(&[1]);
}
