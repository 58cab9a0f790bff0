//! Segments read offline.

use crate::support::{entry, open, write};
use courser_log::{
    BatchNumber, Disk, Manifests,
    inspect::{
        BatchRole, BatchSummary, Found, InspectError, InspectedDamage, RecordKind,
        SegmentInspector, told_end,
    },
    testing::{MemDisk, Survival},
};

fn recorded() -> (MemDisk, String) {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    for index in 1..=4 {
        write(
            &mut log,
            &mut batch,
            &[entry(1, index, &[7; 500]), entry(2, index, b"x")],
        );
        log.sync().expect("synced");
    }
    log.witness().expect("written");
    let name = disk.names().remove(0);
    (disk.kill(), name)
}

fn look(disk: &MemDisk, name: &str) -> Vec<Found> {
    let file = disk.open(name).expect("it is there");
    SegmentInspector::new(file).expect("a segment").collect()
}

/// The same, with what a later segment says of its end.
fn look_with_end(disk: &MemDisk, name: &str, later: &str) -> Vec<Found> {
    let open = |name| disk.open(name).expect("it is there");
    let inspector = SegmentInspector::new(open(name)).expect("a segment");
    let told = told_end(open(later), &inspector.summary()).expect("a segment");
    let told = told.expect("it is of the same log");
    inspector.with_end(told).collect()
}

fn batches(found: &[Found]) -> Vec<BatchSummary> {
    let batch = |found: &Found| match found {
        Found::Batch(batch) => Some(*batch),
        Found::Record(_) | Found::Damage { .. } | Found::End { .. } => None,
    };
    found.iter().filter_map(batch).collect()
}

fn damages(found: &[Found]) -> Vec<InspectedDamage> {
    let damage = |found: &Found| match found {
        Found::Damage { kind, .. } => Some(kind.clone()),
        Found::Batch(_) | Found::Record(_) | Found::End { .. } => None,
    };
    found.iter().filter_map(damage).collect()
}

#[test]
fn everything_is_listed_in_order() {
    let (disk, name) = recorded();
    let found = look(&disk, &name);
    let roles: Vec<BatchRole> = batches(&found).iter().map(|batch| batch.role).collect();
    let mut expected = vec![BatchRole::Head];
    expected.extend([BatchRole::Data; 4]);
    expected.push(BatchRole::Witness);
    assert_eq!(roles, expected);
    let entries = found
        .iter()
        .filter(|found| matches!(found, Found::Record(record) if record.kind == RecordKind::Entry));
    assert_eq!(entries.count(), 8);
    assert_eq!(damages(&found), []);
    assert!(matches!(found.last(), Some(Found::End { rest, .. }) if rest.stale_batches == 0));
}

#[test]
fn rot_is_told_from_a_torn_end() {
    let (disk, name) = recorded();
    // The third batch of data: header of the file, head, two batches.
    disk.rot(&name, 4 * 4096 + 300, 1);
    let damage = damages(&look(&disk, &name)).remove(0);
    assert!(damage.is_loss(), "{damage}");
    assert!(
        matches!(
            damage,
            InspectedDamage::BadBody {
                number: BatchNumber(4),
                records: 2,
                salvaged: 1,
                was_synced: true,
            }
        ),
        "{damage}"
    );
    disk.rot(&name, 3 * 4096 + 3, 1);
    let all = damages(&look(&disk, &name));
    assert!(matches!(
        all[0],
        InspectedDamage::Lost {
            first: BatchNumber(3),
            last: BatchNumber(3),
            was_synced: true,
        }
    ));
    assert_eq!(all.len(), 2);

    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    write(&mut log, &mut batch, &[entry(1, 1, &[1; 9_000])]);
    let name = disk.names().remove(0);
    let seed = (0..).find(|seed| {
        let torn = disk.fork().power_loss_with(
            |all| all,
            |_| Survival::Torn {
                sector: 4096,
                seed: *seed,
            },
        );
        let all = damages(&look(&torn, &name));
        assert!(all.iter().all(|damage| !damage.is_loss()));
        matches!(all[..], [InspectedDamage::BadBody { .. }])
    });
    assert!(seed.is_some());
}

/// Nothing stands before it; the segment was called whole.
#[test]
fn rot_in_the_header_of_the_first_batch_is_damage() {
    let (disk, name) = recorded();
    disk.rot(&name, 4096 + 42, 4);
    let found = look(&disk, &name);
    assert_eq!(
        damages(&found),
        [InspectedDamage::Lost {
            first: BatchNumber(1),
            last: BatchNumber(1),
            was_synced: true,
        }]
    );
    assert_eq!(batches(&found).len(), 5, "those behind it are listed");
    disk.rot(&name, 2 * 4096 + 42, 4);
    let all = damages(&look(&disk, &name));
    let beginning = InspectedDamage::Beginning {
        last: BatchNumber(2),
        was_synced: true,
    };
    assert_eq!(all, [beginning], "nobody knows how many there were");
}

/// Alone, a full segment without its last batch looks as if it had ended before.
#[test]
fn the_last_batch_of_a_full_segment_is_missed_by_the_next_one() {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    let mut index = 0;
    while log.segments() < 3 {
        index += 1;
        write(&mut log, &mut batch, &[entry(1, index, &[7; 5_000])]);
        log.sync().expect("synced");
    }
    log.witness().expect("written");
    let disk = disk.kill();
    let names = disk.names();
    for name in &names[..2] {
        let all = batches(&look(&disk, name));
        let last = all[all.len() - 1];
        let lost = InspectedDamage::Lost {
            first: last.number,
            last: last.number,
            was_synced: true,
        };
        for later in names.iter().filter(|later| *later > name).take(2) {
            let whole = look_with_end(&disk, name, later);
            assert_eq!(damages(&whole), [], "{name} beside {later}");
            let rotten = disk.fork();
            rotten.rot(name, last.offset + 42, 4);
            let found = damages(&look_with_end(&rotten, name, later));
            assert_eq!(found, std::slice::from_ref(&lost), "{name} beside {later}");
            // And so is all of it.
            let mut bytes = rotten.bytes(name).expect("it is there");
            bytes[4096..].fill(0);
            rotten.replace(name, bytes);
            let found = damages(&look_with_end(&rotten, name, later));
            assert!(
                matches!(&found[..], [InspectedDamage::Beginning { last: to, was_synced: true }] if *to == last.number),
                "{name} beside {later}: {found:?}"
            );
        }
        let head = disk.open(&names[0]).expect("it is there");
        let summary = SegmentInspector::new(disk.open(name).expect("it is there"));
        let summary = summary.expect("a segment").summary();
        assert_eq!(told_end(head, &summary).expect("a segment"), None);
    }
}

#[test]
fn what_is_no_segment_is_refused_and_a_short_one_is_damage() {
    let (disk, name) = recorded();
    disk.truncate(&name, 30_000);
    let all = damages(&look(&disk, &name));
    assert!(matches!(all[..], [InspectedDamage::ShortFile { .. }]));
    disk.rot(&name, 0, 1);
    let file = disk.open(&name).expect("it is there");
    let refused = SegmentInspector::new(file);
    assert!(matches!(refused, Err(InspectError::NotASegment)));
}
