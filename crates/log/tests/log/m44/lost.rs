//! The end of a log that is gone, which only a checkpoint knows of: every start says so, until somebody has gone on without it.

use courser_contract::{LogIndex, PartitionId};
use courser_log::{
    Disk as _, LiveEntries, Log, Manifests, PartitionDamage, Push, Recovered, SegmentNumber,
    testing::MemDisk,
};

use super::recorded::{Recorded, damage, data, entries};
use crate::support::{self, entry, open};

/// A log of some segments, and the manifest of a checkpoint of partition 1 that was made at its end; partition 2 has an entry in each batch of
/// the first segments, and none behind.
fn recorded() -> (Recorded, Manifests) {
    let mut recorded = Recorded::new();
    while recorded.log.segments() < 3 {
        recorded.write_synced(&[1, 2]);
    }
    while recorded.log.segments() < 5 {
        recorded.write_synced(&[1]);
    }
    recorded.write_synced(&[1]);
    let manifests = support::manifest(recorded.last[&1], 1, recorded.log.synced());
    (recorded, manifests)
}

/// All behind a batch of the last segment but one is zeros, as if it had never been written. Gives how many entries of partition 1 are left.
fn lose_end(recorded: &Recorded) -> usize {
    let first = recorded.places[0].place.segment.0;
    let cut = recorded.places.iter();
    let mut cut = cut.filter(|it| it.place.segment.0 == first + 3);
    let cut = cut.next_back().expect("some are there").place;
    for name in recorded.disk.names() {
        let Some(segment) = SegmentNumber::of_file_name(&name) else {
            continue;
        };
        let from = match segment.cmp(&cut.segment) {
            std::cmp::Ordering::Less => continue,
            std::cmp::Ordering::Equal => cut.offset,
            std::cmp::Ordering::Greater => 4_096,
        };
        let mut bytes = recorded.disk.bytes(&name).expect("it is there");
        bytes[from as usize..].fill(0);
        recorded.disk.replace(&name, bytes);
    }
    recorded.places.iter().filter(|it| it.place < cut).count()
}

/// Starts of one folder; nothing is written in between.
fn starts<const N: usize>(disk: &MemDisk, manifests: &Manifests, first: u32) -> [Recovered; N] {
    std::array::from_fn(|at| {
        let counter = first + at as u32;
        let (log, recovered) = open(&disk.kill(), counter, manifests).expect("it opens");
        log.check();
        recovered
    })
}

/// Goes on behind what is left, as an operator has allowed.
fn go_on(disk: &MemDisk, manifests: &Manifests, counter: u32) -> Log<MemDisk> {
    let (mut log, recovered) = open(disk, counter, manifests).expect("it opens");
    let mut batch = log.new_batch();
    for id in [1, 2] {
        let found = recovered.partitions.get(&PartitionId(id));
        let left = found.map_or(0, |it| {
            let checkpoint = it.checkpoint.map_or(0, |at| at.index.0);
            it.entries.last().map_or(checkpoint, |entry| entry.index.0)
        });
        let record = entry(id, left + 1, &data(id, left + 1, 600));
        assert_eq!(batch.push(&record), Push::Taken);
    }
    log.write(&mut batch).expect("written");
    log.sync().expect("synced");
    log
}

#[test]
fn i1_a_lost_end_is_found_by_every_start_until_it_is_accepted() {
    let (recorded, manifests) = recorded();
    lose_end(&recorded);
    let found: [Recovered; 3] = starts(&recorded.disk, &manifests, 2);
    let first = &found[0];
    assert_eq!(first.report.damages.len(), 1, "{}", first.report);
    for found in &found {
        assert!(matches!(
            damage(found, 2),
            Some(PartitionDamage::InDoubt { .. })
        ));
        assert_eq!(damage(found, 1), damage(first, 1));
        assert_eq!(damage(found, 2), damage(first, 2));
        assert!(damage(found, 1).is_some());
        assert_eq!(found.report.damages[0].last, first.report.damages[0].last);
    }
    drop(go_on(&recorded.disk.kill(), &manifests, 5));
    for found in starts::<3>(&recorded.disk, &manifests, 6) {
        assert_eq!([1, 2].map(|id| damage(&found, id)), [None, None]);
    }
}

/// What is left of the first lost batch was read by the first start only.
#[test]
fn m44_what_is_left_of_a_lost_end_is_found_by_every_start() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1, 2]);
    let bad = recorded.write_of(&[1, 2], 7_000);
    recorded.log.sync().expect("synced");
    recorded.write_synced(&[2]);
    recorded.write_synced(&[1]);
    let manifests = support::manifest(1, 3, recorded.log.synced());
    // The record of partition 1 is whole.
    let name = bad.place.segment.file_name();
    let mut bytes = recorded.disk.bytes(&name).expect("it is there");
    bytes[bad.place.offset as usize + 8_192..].fill(0);
    recorded.disk.replace(&name, bytes);
    for found in starts::<3>(&recorded.disk, &manifests, 2) {
        let after = |after| PartitionDamage::InDoubt {
            after: LogIndex(after),
        };
        assert_eq!(damage(&found, 1), Some(after(2)), "{}", found.report);
        assert_eq!(damage(&found, 2), Some(after(1)), "{}", found.report);
    }
    drop(go_on(&recorded.disk.kill(), &manifests, 5));
    for found in starts::<2>(&recorded.disk, &manifests, 6) {
        assert_eq!([1, 2].map(|id| damage(&found, id)), [None, None]);
        assert_eq!([1, 2].map(|id| entries(&found, id)), [3, 2]);
    }
}

/// The segment whose head says that something is lost is used again before anybody has accepted it: a later one says the same.
#[test]
fn i1_a_lost_end_is_known_when_the_segment_behind_it_is_used_again() {
    let (mut recorded, _) = recorded();
    // No checkpoint knows of partition 1 what the end says of partition 2.
    let left = lose_end(&recorded);
    let manifests = support::manifest(left as u64, 1, recorded.log.synced());
    let [_, second] = starts::<2>(&recorded.disk, &manifests, 2);
    assert!(damage(&second, 2).is_some(), "{}", second.report);
    // Partition 1 alone goes on, and needs nothing of what it wrote.
    let (log, recovered) = open(&recorded.disk.kill(), 4, &manifests).expect("it opens");
    (recorded.log, recorded.batch) = {
        let mut log = log;
        let batch = log.new_batch();
        (log, batch)
    };
    recorded.last = [(1, left as u64)].into();
    let before = recorded.disk.names();
    for _ in 0..200 {
        recorded.write_synced(&[1]);
        let at = support::checkpoint_at(recorded.last[&1], 1);
        recorded
            .log
            .set_checkpoint(PartitionId(1), at, LiveEntries::NONE);
        while let Some(job) = recorded.log.prepare() {
            recorded.log.prepared(job.run()).expect("synced");
        }
    }
    assert!(recorded.log.counts().recycled > 0);
    assert_ne!(recorded.disk.names(), before);
    let manifests = support::manifest(recorded.last[&1], 1, recorded.log.synced());
    for found in starts::<2>(&recorded.disk, &manifests, 5) {
        assert_eq!(damage(&found, 1), None);
        assert_eq!(damage(&found, 2), damage(&recovered, 2), "{}", found.report);
    }
}

#[test]
fn i1_a_log_of_which_nothing_is_left_in_its_segments_is_found_by_every_start() {
    let (recorded, manifests) = recorded();
    for name in recorded.disk.names() {
        let mut bytes = recorded.disk.bytes(&name).expect("it is there");
        bytes[4_096..].fill(0);
        recorded.disk.replace(&name, bytes);
    }
    is_found_until_accepted(&recorded, &manifests);
}

#[test]
fn i1_a_log_without_segments_beside_a_checkpoint_is_lost_and_not_new() {
    let (recorded, manifests) = recorded();
    for name in recorded.disk.names() {
        recorded.disk.remove(&name).expect("removed");
    }
    is_found_until_accepted(&recorded, &manifests);
}

fn is_found_until_accepted(recorded: &Recorded, manifests: &Manifests) {
    let synced = recorded.log.last_batch();
    for found in starts::<3>(&recorded.disk, manifests, 2) {
        let checkpoint = LogIndex(recorded.last[&1]);
        let after = |after| Some(PartitionDamage::InDoubt { after });
        assert_eq!(damage(&found, 1), after(checkpoint), "{}", found.report);
        // Nothing is left of it, so nobody knows how much there was.
        assert_eq!(damage(&found, 2), after(LogIndex(0)));
        assert_eq!(found.report.damages[0].last, synced);
        assert_eq!(entries(&found, 2), 0);
    }
    let log = go_on(&recorded.disk.kill(), manifests, 5);
    assert!(log.last_batch() > synced, "no number is given again");
    drop(log);
    for found in starts::<2>(&recorded.disk, manifests, 6) {
        assert_eq!([1, 2].map(|id| damage(&found, id)), [None, None]);
    }
}

#[test]
fn m44_a_file_that_is_short_and_alone_is_said_again() {
    let mut recorded = Recorded::new();
    let place = recorded.write_synced(&[1]);
    recorded.disk.truncate(&place.place.segment.file_name(), 0);
    for found in starts::<3>(&recorded.disk, &Manifests::new(), 2) {
        let lost = PartitionDamage::InDoubt { after: LogIndex(0) };
        assert_eq!(damage(&found, 1), Some(lost), "{}", found.report);
    }
}

/// How many batches there were before the first that is left, nobody knows: any partition may have had something in them.
#[test]
fn m44_lost_batches_at_the_beginning_concern_every_partition() {
    let mut recorded = Recorded::new();
    recorded.write_synced(&[1]);
    let bad = [recorded.write_synced(&[2]), recorded.write_synced(&[3])];
    recorded.write_synced(&[1]);
    let head = courser_log::BatchPlace {
        place: courser_log::Place {
            offset: 4_096,
            ..bad[0].place
        },
        ..bad[0]
    };
    for place in [head, recorded.places[0], bad[0], bad[1]] {
        recorded.rot(place, 8);
    }
    let recovered = recorded.restart(2);
    assert!([1, 2, 3].iter().all(|id| damage(&recovered, *id).is_some()));
}
