//! What cannot be read when a log is opened is neither cut nor taken for the end, and its file is not used again.

use std::io::ErrorKind;

use courser_contract::Term;
use courser_log::{
    BatchPlace, DamageKind, Log, LogConfig, Manifests, OpenError, Push,
    testing::{Call, MemDisk},
};

use super::recorded::{FRAME, HEADER, Recorded, damage, data, entries};
use crate::support::{self, NODE, SEGMENT, entry_of, open, start};

#[test]
fn d7_what_cannot_be_read_is_rot_when_it_was_synced_and_refused_when_nobody_knows() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[2]);
    let middle = recorded.write_synced(&[1]);
    let last = recorded.write_synced(&[2]);
    let name = last.place.segment.file_name();
    let fork = recorded.disk.fork();
    let (from, to) = (middle.place.offset, middle.place.offset + 4_095);
    fork.make_unreadable(&name, from, to);
    let (_, recovered) = open(&fork.kill(), 2, &Manifests::new()).expect("opens");
    assert_eq!(recovered.report.damages.len(), 1);
    assert!(damage(&recovered, 1).is_some());
    assert_eq!((entries(&recovered, 2), damage(&recovered, 2)), (2, None));

    let (from, to) = (last.place.offset, last.place.offset + 4_095);
    recorded.disk.make_unreadable(&name, from, to);
    let refused = open(&recorded.disk.kill(), 2, &Manifests::new());
    assert!(matches!(refused, Err(OpenError::Read { place, .. }) if place == last.place));
}

/// A start on a disk that does not give these bytes of a file: it is refused, and changes nothing.
fn refuses(recorded: &Recorded, name: &str, (first, last): (u64, u64)) {
    let disk = recorded.disk.fork().kill();
    disk.make_unreadable(name, first, last);
    match open(&disk, 2, &Manifests::new()) {
        Err(OpenError::Read { place, .. }) => assert_eq!(place.segment.file_name(), name),
        other => panic!(
            "{name}, {first} to {last}: {:?}",
            other.map(|it| it.1.report)
        ),
    }
    assert_eq!(disk.names(), recorded.disk.names());
    for name in disk.names() {
        assert!(disk.bytes(&name) == recorded.disk.bytes(&name), "{name}");
    }
}

/// A log whose newest segment holds one synced batch behind its head.
fn rolled() -> (Recorded, BatchPlace) {
    let mut recorded = Recorded::new();
    let mut last = recorded.write_synced(&[1]);
    while recorded.log.segments() < 3 {
        last = recorded.write_synced(&[1]);
    }
    (recorded, last)
}

#[test]
fn i1_a_newest_segment_that_cannot_be_read_is_neither_cut_nor_used_again() {
    let (recorded, last) = rolled();
    let name = last.place.segment.file_name();
    refuses(&recorded, &name, (0, SEGMENT - 1));
    refuses(&recorded, &name, (4_096, SEGMENT - 1));
    // All but its header is read: that is damage, and nothing is missing.
    recorded.disk.make_unreadable(&name, 0, 4_095);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::SegmentHeader);
    assert_eq!(entries(&recovered, 1) as u64, recorded.last[&1]);
}

#[test]
fn i1_an_oldest_segment_that_cannot_be_read_is_not_used_again() {
    let (recorded, _) = rolled();
    let name = recorded.places[0].place.segment.file_name();
    let whole = recorded.disk.bytes(&name);
    for from in [0, 4_096] {
        let disk = recorded.disk.fork().kill();
        disk.make_unreadable(&name, from, SEGMENT - 1);
        // The next head says with which batch it ended: all of it was synced.
        for counter in 2..4 {
            let (log, recovered) = open(&disk.kill(), counter, &Manifests::new()).expect("opens");
            assert!(damage(&recovered, 1).is_some(), "{}", recovered.report);
            log.check();
        }
        assert!(disk.bytes(&name) == whole);
    }
    let recovered = recorded.restart(4);
    assert_eq!(damage(&recovered, 1), None, "it is read again");
}

#[test]
fn i1_a_head_that_cannot_be_read_hides_no_batch_behind_it() {
    let (recorded, last) = rolled();
    let name = last.place.segment.file_name();
    refuses(&recorded, &name, (4_096, 8_191));
}

#[test]
fn i1_a_rotten_batch_is_not_cut_when_its_witness_cannot_be_read() {
    for byte in [8, HEADER + FRAME + 1] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        let rotten = recorded.write_synced(&[1]);
        let witness = rotten.place.offset + rotten.bytes;
        assert!(recorded.log.witness().expect("written"));
        recorded.rot(rotten, byte);
        let name = rotten.place.segment.file_name();
        refuses(&recorded, &name, (witness, witness + 4_095));
    }
}

#[test]
fn i1_a_last_batch_whose_body_cannot_be_read_is_not_cut() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let last = recorded.write_of(&[1], 9_000);
    recorded.log.sync().expect("synced");
    let name = last.place.segment.file_name();
    let body = last.place.offset + 4_096;
    refuses(&recorded, &name, (body, body + 4_095));
}

/// A checkpoint says that the batch was synced, and a later one may stand where nothing can be read.
#[test]
fn i1_a_log_does_not_end_with_rot_before_what_cannot_be_read() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let rotten = recorded.write_synced(&[1]);
    let manifests = support::manifest(2, 1, recorded.log.synced());
    let later = recorded.write_synced(&[1]);
    recorded.rot(rotten, HEADER + FRAME + 1);
    let name = later.place.segment.file_name();
    let (from, to) = (later.place.offset, later.place.offset + 4_095);
    recorded.disk.make_unreadable(&name, from, to);
    let refused = open(&recorded.disk.kill(), 2, &manifests);
    assert!(matches!(refused, Err(OpenError::Read { place, .. }) if place == later.place));
}

#[test]
fn i1_what_is_not_to_be_had_for_the_moment_refuses_the_start_and_is_no_damage() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let rotten = recorded.write_synced(&[1]);
    recorded.write_synced(&[1]);
    recorded.rot(rotten, 8);
    // Whichever read it is that fails, also when it is tried again.
    let mut refused = 0;
    for nth in 0.. {
        let disk = recorded.disk.fork().kill();
        disk.fail(Call::Read, nth, 2, ErrorKind::OutOfMemory);
        let opened = open(&disk, 2, &Manifests::new());
        if disk.failed() == 0 {
            break;
        }
        match opened {
            Ok((_, recovered)) => {
                assert_eq!(recovered.report.damages.len(), 1, "{}", recovered.report);
                assert_eq!((entries(&recovered, 1), recovered.report.cut), (1, None));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0);
}

#[test]
fn d7_a_read_that_fails_once_is_no_damage() {
    let disk = MemDisk::new();
    let open = |disk: &MemDisk, counter| {
        let config = LogConfig::new(NODE, 8 << 20).expect("a good size");
        Log::open(disk.clone(), config, start(counter), &Manifests::new())
    };
    let (mut log, _) = open(&disk, 1).expect("it opens");
    let mut batch = log.new_batch();
    // Longer than what is read ahead.
    for index in 1..=2 {
        batch.clear();
        let record = entry_of(Term(1), 1, index, &data(1, index, 1_500_000));
        assert_eq!(batch.push(&record), Push::Taken);
        log.write(&mut batch).expect("written");
        log.witness().expect("written");
    }
    let mut opened_with_one = 0;
    for nth in 0.. {
        let disk = disk.fork().kill();
        disk.fail(Call::Read, nth, 1, ErrorKind::Other);
        let opened = open(&disk, 2);
        if disk.failed() == 0 {
            break;
        }
        // Neither the folder nor what is written once more is read twice.
        if let Ok((_, recovered)) = opened {
            assert_eq!(recovered.report.damages, []);
            assert_eq!(entries(&recovered, 1), 2);
            opened_with_one += 1;
        }
    }
    assert!(opened_with_one > 0);
}
