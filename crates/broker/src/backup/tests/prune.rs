//! Old backups that go.

use super::*;
use crate::backup::store::Numbers;

/// Publishes what fills some segments.
fn more(broker: &Broker) {
    let mut publisher = Client::connect(broker.addresses()[0], "publisher");
    for number in 1..=60_u16 {
        let payload = format!("more {number} {}", "x".repeat(50_000));
        publisher.send_raw(&publish("to/a", 1, number, payload.as_bytes()));
        assert_eq!(publisher.receive().first, 0x40);
    }
}

/// Four backups, each with some segments that the one before has not.
fn four(folder: &Path) -> PathBuf {
    let backups = folder.join("backups");
    let broker = start(&folder.join("data"), 1);
    let (mut client, _) = keep(&broker, "a");
    client.subscribe("to/a", 1);
    client.send(0xE0, &[]);
    for number in 1..=4 {
        more(&broker);
        let made = backup(&broker, &backups);
        assert_eq!((made.stage, made.number), (BackupStage::Done, number));
    }
    broker.stop().expect("nothing failed");
    backups
}

fn numbers(backups: &Path) -> Numbers {
    Store::at(backups).numbers().expect("it can be listed")
}

fn whole(backups: &Path, number: u32) -> BackupReport {
    let report = verify_backup(backups, Some(number)).expect("it is there");
    assert_eq!(report.problems, [""; 0]);
    report
}

/// Bytes of all files below a folder.
fn bytes_of(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).expect("a folder");
    let files = files.map(|file| file.expect("it can be listed"));
    files
        .map(|file| match file.path().is_dir() {
            true => bytes_of(&file.path()),
            false => file.metadata().expect("it is there").len(),
        })
        .sum()
}

/// Changes a bit in the midst of a file.
fn flip(path: &Path) {
    let mut bytes = fs::read(path).expect("it is there");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("there is room");
}

/// The largest file of the data folder's checkpoints with such an ending.
fn largest(folder: &Path, ending: &str) -> PathBuf {
    let files = fs::read_dir(folder.join("data/checkpoints")).expect("a folder");
    let files = files.map(|file| file.expect("it can be listed").path());
    let files = files.filter(|file| file.to_string_lossy().ends_with(ending));
    let largest = files.max_by_key(|file| fs::metadata(file).expect("it is there").len());
    largest.expect("there are checkpoints")
}

/// A backup of a folder with a damaged checkpoint was called whole, and a prune took the last one from before it.
#[test]
fn i7_damage_beside_the_segments_is_told_and_the_last_backup_without_stays() {
    for what in [".ckp", ".manifest", "node"] {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let backups = four(folder.path());
        let broker = start(&folder.path().join("data"), 1);
        wait("all is saved that the start has written", || {
            let before = disk_counter(&broker, "checkpoints");
            thread::sleep(Duration::from_millis(500));
            disk_counter(&broker, "checkpoints") == before
        });
        let damaged = match what {
            "node" => folder.path().join("data/node"),
            ending => largest(folder.path(), ending),
        };
        flip(&damaged);
        let made = backup(&broker, &backups);
        assert_eq!((made.stage, made.number), (BackupStage::Done, 5));
        let name = damaged.file_name().expect("a file").to_string_lossy();
        assert_eq!(made.damaged.len(), 1, "{what}: {made:?}");
        assert!(made.damaged[0].contains(&*name), "{made:?}");
        let report = verify_backup(&backups, None).expect("it is there");
        assert_eq!(report.problems_total, 1, "{report:?}");
        assert!(report.problems[0].ends_with(&made.damaged[0]), "{report:?}");
        assert_eq!(report.undamaged, Some(4));
        broker.stop().expect("nothing failed");
        // What is there is restored, and not in silence.
        let restored = folder.path().join("restored");
        let told = restore_backup(&backups, None, &restored).expect("it is what was copied");
        assert_eq!(told, report, "{what}");
        assert!(restored.join("node").exists());
        let pruned = prune_backups(&backups, 1, PruneMode::Remove).expect("they can be read");
        assert_eq!((pruned.kept, pruned.removed), (vec![4, 5], vec![1, 2, 3]));
        assert_eq!(pruned.damaged, [5]);
        whole(&backups, 4);
    }
}

#[test]
fn what_a_killed_backup_has_left_behind_the_last_one_is_pruned() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = four(folder.path());
    leave_unfinished(&backups, 5);
    let pruned = prune_backups(&backups, 4, PruneMode::Remove).expect("they are whole");
    assert_eq!(
        (pruned.removed, pruned.files, pruned.bytes),
        (vec![], 1, 100)
    );
    assert!(!backups.join("000005").exists());
}

#[test]
fn i7_what_is_left_is_whole_and_has_all_that_it_needs() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = four(folder.path());
    let before = (bytes_of(&backups), whole(&backups, 4));
    let said = prune_backups(&backups, 2, PruneMode::Say).expect("they are whole");
    assert_eq!(
        (&said.kept[..], &said.removed[..]),
        (&[3, 4][..], &[1, 2][..])
    );
    assert!(
        said.files > 0 && said.bytes > 0 && said.bytes_needed >= 2 << 20,
        "{said:?}"
    );
    assert_eq!(bytes_of(&backups), before.0, "nothing was done");
    let done = prune_backups(&backups, 2, PruneMode::Remove).expect("they are whole");
    assert_eq!(done, said);
    assert_eq!(before.0 - bytes_of(&backups), done.bytes);
    assert_eq!(
        (whole(&backups, 4), numbers(&backups).finished),
        (before.1, vec![3, 4])
    );
    whole(&backups, 3);
    for number in [1, 2] {
        let error = verify_backup(&backups, Some(number)).expect_err("it went");
        assert!(matches!(error, BackupError::Unknown { .. }), "{error}");
    }
    let again = prune_backups(&backups, 2, PruneMode::Remove).expect("they are whole");
    assert_eq!((again.files, again.removed.len()), (0, 0));
    // The next one builds on what is there, and leaves alone what of the others is needed.
    let broker = start(&folder.path().join("data"), 1);
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 5));
    assert!(made.bytes_reused >= 2 << 20);
    broker.stop().expect("nothing failed");
    let done = prune_backups(&backups, 1, PruneMode::Remove).expect("they are whole");
    assert_eq!(done.removed, [3, 4]);
    whole(&backups, 5);
    let data = folder.path().join("restored");
    restore_backup(&backups, None, &data).expect("it is whole");
    assert_eq!(
        states(&data).len(),
        states(&folder.path().join("data")).len()
    );
}

#[test]
fn i7_nothing_goes_while_what_would_be_left_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = four(folder.path());
    let before = bytes_of(&backups);
    // In the first one, and the last one needs it.
    let manifest = Store::at(&backups).manifest(4).expect("it is finished");
    let needed = manifest.files.iter();
    let needed = needed.map(|file| backups.join(&file.stored));
    let mut needed = needed.filter(|path| path.starts_with(backups.join("000001/log")));
    let path = needed.next().expect("it uses some of it again");
    let bytes = fs::read(&path).expect("it is there");
    let mut changed = bytes.clone();
    changed[70_000] ^= 1;
    fs::write(&path, changed).expect("there is room");
    for mode in [PruneMode::Say, PruneMode::Remove] {
        let error = prune_backups(&backups, 1, mode).expect_err("it is damaged");
        assert!(
            error.to_string().contains(&path.display().to_string()),
            "{error}"
        );
    }
    assert_eq!(
        (bytes_of(&backups), numbers(&backups).finished.len()),
        (before, 4)
    );
    fs::write(&path, bytes).expect("there is room");
    // Somebody has ended it in the middle: the next one goes on.
    Store::at(&backups).retire(2).expect("it is there");
    assert_eq!(numbers(&backups).pruned, [2]);
    let done = prune_backups(&backups, 1, PruneMode::Remove).expect("it is whole");
    assert_eq!((&done.kept[..], &done.removed[..]), (&[4][..], &[1, 3][..]));
    whole(&backups, 4);
    let named = manifest.files.iter().map(|file| file.kept).sum::<u64>();
    let beside = bytes_of(&backups) - named;
    assert!(
        beside < 64 << 10,
        "only manifests are there besides: {beside}"
    );
    for nothing in [
        folder.path().join("none"),
        tempfile::tempdir().expect("a folder").path().to_owned(),
    ] {
        let error = prune_backups(&nothing, 1, PruneMode::Remove).expect_err("there is none");
        assert!(matches!(error, BackupError::None { .. }), "{error}");
    }
}

#[test]
fn i7_a_folder_that_has_lost_its_manifest_stays_while_others_need_it() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = four(folder.path());
    fs::remove_file(backups.join("000002/manifest")).expect("it is there");
    let broker = start(&folder.path().join("data"), 1);
    for number in [5, 6] {
        let made = backup(&broker, &backups);
        assert_eq!((made.stage, made.number), (BackupStage::Done, number));
        assert!(
            matches!(&made.warnings[..], [said] if said.contains("000002")),
            "{made:?}"
        );
        for number in [1, 3, 4, number] {
            whole(&backups, number);
        }
    }
    // It goes as others go that are older than all that is left.
    let said = prune_backups(&backups, 5, PruneMode::Remove).expect("they are whole");
    assert_eq!((said.files, numbers(&backups).unfinished), (0, vec![2]));
    let said = prune_backups(&backups, 2, PruneMode::Say).expect("they are whole");
    let done = prune_backups(&backups, 2, PruneMode::Remove).expect("they are whole");
    assert_eq!(done, said);
    assert_eq!(numbers(&backups).unfinished, [0; 0]);
    let made = backup(&broker, &backups);
    assert_eq!(
        (made.stage, &made.warnings[..]),
        (BackupStage::Done, &[][..])
    );
    broker.stop().expect("nothing failed");
    for number in [5, 6, 7] {
        whole(&backups, number);
    }
}

/// One that was not finished is told from one that has lost its manifest by what the manifests say.
#[test]
fn i7_nothing_is_removed_that_a_manifest_may_name() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let broker = start(&folder.path().join("data"), 1);
    let text = fs::read_to_string(backups.join("000001/manifest")).expect("it is there");
    fs::create_dir(backups.join("000002")).expect("there is room");
    fs::write(backups.join("000001/manifest"), "nothing").expect("there is room");
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 3));
    assert!(backups.join("000002").exists());
    assert_eq!(made.warnings.len(), 2, "{made:?}");
    fs::write(backups.join("000001/manifest"), text).expect("there is room");
    fs::create_dir(backups.join("000004")).expect("there is room");
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 5));
    assert!(!backups.join("000004").exists(), "nobody names it");
    broker.stop().expect("nothing failed");
}

#[test]
fn i7_a_copy_that_has_become_damaged_is_made_anew() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = four(folder.path());
    let broker = start(&folder.path().join("data"), 1);
    // Until all checkpoints of the start are made: on a busy machine two come far apart.
    let deadline = Instant::now() + PATIENCE;
    let mut without = 0;
    let manifest = loop {
        assert!(Instant::now() < deadline, "checkpoints are made");
        let number = backup(&broker, &backups).number;
        let manifest = Store::at(&backups).manifest(number);
        let manifest = manifest.expect("it is finished");
        let own = format!("{number:06}/checkpoints/");
        let has_own = manifest.files.iter().any(|it| it.stored.starts_with(&own));
        without = if has_own { 0 } else { without + 1 };
        if without == 3 {
            break manifest;
        }
    };
    let number = manifest.number;
    let own = format!("{number:06}/");
    let earlier = manifest.files.iter();
    let earlier = earlier.filter(|file| !file.stored.starts_with(&own));
    let (mut segments, mut others) = (0, 0);
    for file in earlier {
        let path = backups.join(&file.stored);
        let mut bytes = fs::read(&path).expect("it is there");
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        if file.path.starts_with("log/") {
            segments += 1;
        } else {
            others += 1;
        }
        match (segments + others) % 3 {
            0 => fs::remove_file(&path).expect("it is there"),
            1 => fs::write(&path, &bytes).expect("there is room"),
            _ => fs::write(&path, &bytes[..middle]).expect("there is room"),
        }
    }
    assert!(segments > 1 && others > 2, "{segments} and {others}");
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, number + 1));
    assert_eq!(made.damaged, [""; 0], "the data folder is whole");
    assert_eq!(made.warnings.len(), segments + others, "{made:?}");
    whole(&backups, number + 1);
    let made = backup(&broker, &backups);
    assert_eq!(
        (made.stage, &made.warnings[..]),
        (BackupStage::Done, &[][..])
    );
    assert!(made.bytes_reused > 0);
    broker.stop().expect("nothing failed");
    whole(&backups, number + 2);
}

#[test]
fn i7_a_damaged_manifest_keeps_nobody_from_the_next_backup() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = four(folder.path());
    let broker = start(&folder.path().join("data"), 1);
    let damage = |number: u32| {
        let path = backups.join(format!("{number:06}/manifest"));
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[90] ^= 1;
        fs::write(path, bytes).expect("there is room");
    };
    damage(4);
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 5));
    assert!(
        matches!(&made.warnings[..], [said] if said.contains("000004/manifest is damaged")),
        "{made:?}"
    );
    assert!(made.bytes_reused > 0, "of the one before");
    whole(&backups, 5);
    for number in [1, 2, 3, 5] {
        damage(number);
    }
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 6));
    assert_eq!((made.warnings.len(), made.bytes_reused), (5, 0));
    broker.stop().expect("nothing failed");
    whole(&backups, 6);
}
