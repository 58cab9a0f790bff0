//! Segments read offline.

use crate::support::{entry, open, write};
use courser_log::{
    BatchNumber, Disk, Manifests,
    inspect::{BatchRole, Found, InspectError, InspectedDamage, RecordKind, SegmentInspector},
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
    let roles: Vec<BatchRole> = found
        .iter()
        .filter_map(|found| match found {
            Found::Batch(batch) => Some(batch.role),
            Found::Record(_) | Found::Damage { .. } | Found::End { .. } => None,
        })
        .collect();
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
