//! Samples of backups: one in full and one of what is new, of a folder that holds what every sample does.

use std::fs;
use std::path::Path;

use super::{
    BACKUPS, check, check_of_a_user, check_what_expires, fill, retained, start_with, unpack_sample,
};
use crate::shard::support::{Client, encode, wait};
use crate::{BackupStage, Broker, restore_backup, verify_backup};

/// Retained between the two.
const BETWEEN: &str = "between/1";

fn back_up(broker: &Broker, folder: &Path, number: u32) {
    let control = broker.control();
    control.begin_backup(folder, None).expect("it can begin");
    wait("a backup ends", || {
        control.backup().stage != BackupStage::Running
    });
    let made = control.backup();
    assert_eq!((made.stage, made.number), (BackupStage::Done, number));
}

/// Makes both in this folder, beside which the data folder will be.
pub(super) fn make_in(folder: &Path) {
    let above = folder.parent().expect("a folder for the test");
    fs::create_dir(folder).expect("there is room");
    let named = format!("backup.folders=[{:?}]", above.display().to_string());
    let broker = start_with(&above.join("data"), 2, &[&named]);
    fill(&broker);
    back_up(&broker, folder, 1);
    let mut publisher = Client::connect(broker.addresses()[0], "publisher");
    publisher.send_raw(&encode(0x33, &retained(BETWEEN, 3, b"between")));
    assert_eq!(publisher.receive().first, 0x40);
    back_up(&broker, folder, 2);
    broker.stop().expect("nothing failed");
}

#[test]
fn every_format_of_backups_is_verified_and_restored() {
    for name in BACKUPS {
        let folder = unpack_sample(name);
        for number in [1, 2] {
            let report = verify_backup(folder.path(), Some(number)).expect("it is finished");
            assert_eq!(report.problems_total, 0, "{name}: {report:?}");
            let data = tempfile::tempdir().expect("a folder for a test");
            let data = data.path().join("data");
            restore_backup(folder.path(), Some(number), &data).expect("it is whole");
            let broker = start_with(&data, 3, &[]);
            let mut reader = Client::connect(broker.addresses()[0], "reader");
            // One after the other: what is found of the second comes behind all of the first.
            reader.subscribe(BETWEEN, 1);
            reader.subscribe("r/1", 1);
            let first = [&b"kept"[..], b"between"][number as usize - 1];
            assert_eq!(reader.receive_publish().1, first, "{name} {number}");
            check(&broker);
            check_of_a_user(&broker);
            check_what_expires(&broker);
            broker.stop().expect("nothing failed");
        }
    }
}
