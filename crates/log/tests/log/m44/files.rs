//! Files that are not what they were made, or not this log's.

use std::io::IoSlice;

use courser_contract::PartitionId;
use courser_log::{
    DamageKind, Disk as _, DiskFile as _, Log, Manifests, OpenError, PartitionDamage,
    SegmentNumber, testing::MemDisk,
};

use super::recorded::{Recorded, damage, entries, open_with};
use crate::support::{self, SEGMENT, open, start};

#[test]
fn a_file_that_was_cut_short_is_damage_and_not_a_torn_end() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let last = recorded.write_synced(&[1]);
    let name = last.place.segment.file_name();
    recorded.disk.truncate(&name, last.place.offset + 100);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
    assert_eq!(entries(&recovered, 1), 1);
    assert!(damage(&recovered, 1).is_some());
}

#[test]
fn a_missing_segment_is_damage_when_it_is_needed() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 4 {
        recorded.write_synced(&[1]);
    }
    let second = SegmentNumber(recorded.places[0].place.segment.0 + 1);
    recorded.disk.remove(&second.file_name()).expect("removed");
    let recovered = recorded.restart(2);
    assert!(matches!(
        damage(&recovered, 1),
        Some(PartitionDamage::Missing { .. })
    ));
}

#[test]
fn a_damaged_segment_header_is_said_and_its_batches_are_read() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let place = recorded.write_synced(&[1]);
    recorded.disk.rot(&place.place.segment.file_name(), 9, 1);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::SegmentHeader);
    assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (2, None));
    // Nothing more is written into it.
    let mut again = Recorded::on(recorded.disk.kill(), 3);
    assert!(again.write_synced(&[1]).place.segment > place.place.segment);
    assert_eq!(entries(&again.restart(4), 1), 3);
}

#[test]
fn a_lost_header_of_a_segment_from_before_the_setting_was_changed_loses_nothing() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let place = recorded.write_synced(&[1]);
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    let name = place.place.segment.file_name();
    recorded.disk.rot(&name, 9, 1);
    let cut = recorded.disk.fork();
    let (_, recovered) = open_with(&recorded.disk.kill(), 2, 2 * SEGMENT);
    let kinds = recovered.report.damages.iter().map(|damage| damage.kind);
    assert_eq!(kinds.collect::<Vec<_>>(), [DamageKind::SegmentHeader]);
    assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (2, None));
    // Cut as well, nobody says that this was all.
    cut.truncate(&name, SEGMENT - 4_096);
    let (_, recovered) = open_with(&cut.kill(), 2, 2 * SEGMENT);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
}

#[test]
fn a_file_without_a_header_that_is_alone_is_short_when_no_segment_is_so_small() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    let name = place.place.segment.file_name();
    assert_eq!(recorded.disk.names(), [name.as_str()]);
    recorded.disk.truncate(&name, 0);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
}

/// Makes a file of a segment with so many zeros, durably. Gives its name.
fn put_empty(disk: &MemDisk, number: u64, len: u64) -> String {
    let name = SegmentNumber(number).file_name();
    let file = disk.create(&name).expect("created");
    file.write_at(&[IoSlice::new(&vec![0; len as usize])], 0)
        .expect("written");
    file.sync().expect("synced");
    disk.sync_dir().expect("synced");
    name
}

/// The start was refused, and named no file: all of every partition was in doubt.
#[test]
fn m44_an_empty_file_behind_a_segment_that_was_never_written_to_is_as_not_there() {
    for len in [0, 4_096, SEGMENT] {
        let mut recorded = Recorded::new();
        recorded.write_synced(&[1]);
        while let Some(job) = recorded.log.prepare() {
            recorded.log.prepared(job.run()).expect("synced");
        }
        let stranger = put_empty(&recorded.disk, 99, len);
        let mut again = Recorded::on(recorded.disk.kill(), 2);
        assert!(!again.disk.names().contains(&stranger), "{len}");
        again.write_synced(&[1]);
        let recovered = again.restart(3);
        assert_eq!(recovered.report.damages, []);
        assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (2, None));
    }
}

#[test]
fn m44_an_empty_file_that_is_called_so_is_counted() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    put_empty(&recorded.disk, 99, 0);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.leftovers.empty, 1);
    assert!(recovered.report.to_string().contains("1 empty file"));
}

/// It may be what is left of the end of the log.
#[test]
fn m44_an_empty_file_behind_segments_that_were_all_written_to_is_damage() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    assert_eq!(recorded.disk.names().len(), 1, "none is ready");
    put_empty(&recorded.disk, place.place.segment.0 + 1, 0);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
    assert_eq!(recovered.report.leftovers.empty, 0);
    assert!(damage(&recovered, 1).is_some());
}

/// The same where what is empty is a segment that was written to, whatever stands ready behind it.
#[test]
fn m44_an_empty_file_before_segments_that_are_ready_is_damage() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    let name = place.place.segment.file_name();
    recorded.disk.truncate(&name, 0);
    let recovered = recorded.restart(2);
    assert_eq!(recovered.report.damages[0].kind, DamageKind::ShortFile);
    assert_eq!(recovered.report.leftovers.empty, 0);
}

#[test]
fn a_segment_of_another_size_is_left_once_one_is_ready() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]).place;
    let (mut log, _) = open_with(&recorded.disk.kill(), 2, 2 * SEGMENT);
    recorded.batch = log.new_batch();
    recorded.log = log;
    assert_eq!(recorded.write_synced(&[1]).place.segment, place.segment);
    let job = recorded.log.prepare().expect("none is ready");
    recorded.log.prepared(job.run()).expect("synced");
    let left = recorded.write_synced(&[1]).place.segment;
    assert!(left > place.segment, "{left} after {}", place.segment);
    // Its end is known from the next head, so its size is not asked for.
    recorded.disk.rot(&place.segment.file_name(), 9, 1);
    let (_, recovered) = open_with(&recorded.disk.kill(), 3, 2 * SEGMENT);
    assert_eq!((entries(&recovered, 1), damage(&recovered, 1)), (3, None));
}

#[test]
fn a_log_of_a_later_start_another_node_or_another_version_is_refused() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    let disk = recorded.disk.kill();
    let same = open(&disk, 1, &Manifests::new());
    assert!(matches!(
        same,
        Err(OpenError::Start {
            found: 1,
            given: 1,
            ..
        })
    ));
    let mut config = support::config();
    config.node = courser_log::NodeIdentity(1);
    let other = Log::open(disk.clone(), config, start(2), &Manifests::new());
    assert!(matches!(other, Err(OpenError::Foreign { .. })));
    let name = place.place.segment.file_name();
    let mut bytes = disk.bytes(&name).expect("it is there");
    bytes[8] = 9;
    let crc = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    disk.replace(&name, bytes);
    let error = open(&disk, 2, &Manifests::new()).expect_err("another version");
    assert!(matches!(error, OpenError::Version { version: 9, .. }));
    let text = error.to_string();
    assert!(
        text.contains("format version 9") && text.contains("reads versions 1 to 2"),
        "{text}"
    );
}

#[test]
fn a_manifest_that_is_older_than_the_log_says_is_damage() {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 3 {
        recorded.write_synced(&[1]);
    }
    let at = support::checkpoint_at(recorded.last[&1], 1);
    recorded
        .log
        .set_checkpoint(PartitionId(1), at, Default::default());
    let segments = recorded.log.segments();
    while recorded.log.segments() == segments {
        recorded.write_synced(&[1]);
    }
    let lost = PartitionDamage::ManifestLost {
        checkpoint: at.index,
    };
    let (_, recovered) = open(&recorded.disk.kill(), 2, &Manifests::new()).expect("opens");
    assert_eq!(damage(&recovered, 1), Some(lost));
}

/// Segments below a checkpoint are used again, so of what its manifest stood for nothing but its index may be left: who goes on without that
/// must not write below it, or what it saves next would be taken for older than the lost one at every start.
#[test]
fn no_index_of_a_checkpoint_whose_manifest_is_lost_is_free() {
    let mut recorded = Recorded::new();
    for _ in 0..5 {
        recorded.write_synced(&[1]);
    }
    let first = recorded.places[0].place.segment;
    let saved = support::checkpoint_at(recorded.last[&1], 1);
    let log = &mut recorded.log;
    log.set_checkpoint(PartitionId(1), saved, Default::default());
    // Another partition goes on, until all of the first segment is gone.
    while recorded.disk.names().contains(&first.file_name()) {
        recorded.write_synced(&[2]);
        let at = support::checkpoint_at(recorded.last[&2], 1);
        let log = &mut recorded.log;
        log.set_checkpoint(PartitionId(2), at, Default::default());
        while let Some(job) = log.prepare() {
            log.prepared(job.run()).expect("synced");
        }
    }
    let (_, recovered) = open(&recorded.disk.kill(), 2, &Manifests::new()).expect("opens");
    let found = &recovered.partitions[&PartitionId(1)];
    assert!(found.entries.is_empty() && found.behind.is_empty());
    assert_eq!(found.seen, saved.index);
    let lost = PartitionDamage::ManifestLost {
        checkpoint: saved.index,
    };
    assert_eq!(damage(&recovered, 1), Some(lost));
}

/// A log, and behind it a file that has its next number in its name alone: the process ended between the two steps of using it again.
fn half_recycled() -> (Recorded, SegmentNumber) {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    while let Some(job) = recorded.log.prepare() {
        recorded.log.prepared(job.run()).expect("synced");
    }
    let names = recorded.disk.names();
    let spare = names.last().expect("one is ready");
    let number = SegmentNumber::of_file_name(spare).expect("a segment");
    let renamed = SegmentNumber(number.0 + 5);
    let disk = &recorded.disk;
    disk.rename(spare, &renamed.file_name()).expect("renamed");
    disk.sync_dir().expect("synced");
    (recorded, renamed)
}

/// Goes on with segments of this size, and starts again in each of them.
fn fill_and_restart(disk: &MemDisk, segment_bytes: u64) -> MemDisk {
    let mut disk = disk.kill();
    for counter in 2..8 {
        let (log, recovered) = open_with(&disk, counter, segment_bytes);
        assert_eq!(recovered.report.damages, [], "{}", recovered.report);
        let mut recorded = Recorded::on_log(disk.clone(), log, &recovered);
        let segments = recorded.log.segments();
        while recorded.log.segments() < segments + 2 {
            while let Some(job) = recorded.log.prepare() {
                recorded.log.prepared(job.run()).expect("synced");
            }
            recorded.write_synced(&[1]);
        }
        disk = disk.kill();
    }
    disk
}

/// Its length was not looked at: with larger segments it became one that was shorter than its header said, so the next start found the end of
/// the log damaged.
#[test]
fn m44_a_half_recycled_file_of_another_length_is_not_used() {
    for segment_bytes in [2 * SEGMENT, 3 * SEGMENT] {
        let (recorded, blank) = half_recycled();
        let disk = fill_and_restart(&recorded.disk, segment_bytes);
        assert!(!disk.names().contains(&blank.file_name()), "it is removed");
        for name in disk.names() {
            let len = disk.bytes(&name).expect("it is there").len() as u64;
            let is_segment = SegmentNumber::of_file_name(&name).is_some();
            assert!(
                !is_segment || len == segment_bytes || len == SEGMENT,
                "{name}"
            );
        }
    }
}

#[test]
fn a_half_recycled_file_is_used_again() {
    let (recorded, blank) = half_recycled();
    let before = recorded.disk.names().len();
    let (mut log, recovered) = open_with(&recorded.disk.kill(), 2, SEGMENT);
    assert_eq!(recovered.report.leftovers.half_recycled, 1);
    while let Some(job) = log.prepare() {
        log.prepared(job.run()).expect("synced");
    }
    assert_eq!(log.counts().recycled, 1);
    assert!(!recorded.disk.names().contains(&blank.file_name()));
    drop(log);
    let disk = fill_and_restart(&recorded.disk, SEGMENT);
    assert!(disk.names().len() > before);
}
