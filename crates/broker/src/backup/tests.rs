//! Backups of a broker under load, what is made of them, and what is refused.

mod prune;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::shard::support::{Client, asked, broker, broker_on, disk_counter, publish, wait};
use courser_access::{Command, Role, RoleName};
use courser_contract::{Class, LogIndex, PartitionId};
use courser_engine::{Partition, PartitionConfig};
use courser_log::inspect::{Found, RecordKind, SegmentInspector};
use courser_log::{
    CheckpointAt, CheckpointStore, Disk, FileDisk, Log, LogConfig, Manifests, RecoveredEntry,
};
use courser_settings::Sources;

use super::*;
use crate::Broker;
use crate::access::{Access, Metadata};
use crate::config::Config;
use crate::node::DataFolder;
use crate::partition_limits::PartitionLimits;
use crate::repair::judge::Given;
use crate::shard::making::{MadeFor, Making, is_of_partition};
use crate::slots::{Places, Relaxed};
use crate::stations::{DiskState, Medium, RequestDoor, found_in};

/// Two of them in relaxed partitions.
const CLIENTS: [&str; 4] = ["a", "relaxed/b", "c", "relaxed/d"];
const PATIENCE: Duration = Duration::from_secs(60);

fn start(folder: &Path, shards: u16) -> Broker {
    let beside = folder.parent().expect("a folder for the test");
    let folders = format!("backup.folders=[{:?}]", beside.display().to_string());
    let settings = [
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
        "session.queue_bytes_max=1GiB",
        r#"class=[{filter = "relaxed/#", class = "relaxed"}]"#,
        &folders,
    ];
    broker_on(folder, shards, &settings)
}

fn keep(broker: &Broker, client_id: &str) -> (Client, bool) {
    Client::session(broker.addresses()[0], client_id, 4, 0, &[])
}

/// Sessions that are not there. One of them takes everything and never comes back: no segment is ever free, so that the log has all
/// entries to the end of the test.
fn fill(broker: &Broker) {
    let (mut keeper, _) = keep(broker, "keeper");
    keeper.subscribe("to/#", 1);
    for client in CLIENTS {
        let (mut client_, _) = keep(broker, client);
        client_.subscribe(&format!("to/{client}"), 1);
        client_.send(0xE0, &[]);
    }
    keeper.send(0xE0, &[]);
}

/// What is in partition 0 changes.
fn change_role(broker: &Broker, number: u16) {
    let name = RoleName::new(&format!("role-{}", number % 7)).expect("a role name");
    let rule = format!("allow all to/{number}");
    let role = Role {
        rules: vec![rule.parse().expect("a rule")],
        ..Role::default()
    };
    let command = Command::PutRole(name, role);
    let done = broker.access().change_and_wait(command, PATIENCE);
    done.expect("the change is made");
}

/// Publishes, and takes part of it, until it is told to stop.
fn load(broker: &Broker, stop: &AtomicBool) {
    let mut publisher = Client::connect(broker.addresses()[0], "publisher");
    let mut round: u16 = 0;
    while !stop.load(Ordering::Acquire) {
        round = round % 60_000 + 1;
        let client = CLIENTS[usize::from(round) % CLIENTS.len()];
        let payload = format!("load {round} {}", "x".repeat(3_000));
        let topic = format!("to/{client}");
        publisher.send_raw(&publish(&topic, 1, round, payload.as_bytes()));
        assert_eq!(publisher.receive().first, 0x40);
        if round.is_multiple_of(20) {
            change_role(broker, round);
        }
        if round.is_multiple_of(50) {
            let (mut reader, present) = keep(broker, client);
            assert!(present);
            for _ in 0..5 {
                reader.receive_publish();
            }
        }
    }
}

fn segments(folder: &Path) -> usize {
    let files = fs::read_dir(folder.join("log")).expect("a folder");
    let names = files.map(|file| file.expect("a file").file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".seg"))
        .count()
}

/// Segments that are written to.
fn created(broker: &Broker) -> u64 {
    disk_counter(broker, "log_bytes") >> 20
}

fn backup(broker: &Broker, folder: &Path) -> BackupState {
    let control = broker.control();
    control.begin_backup(folder, None).expect("it can begin");
    wait("a backup ends", || {
        control.backup().stage != BackupStage::Running
    });
    control.backup()
}

type States = BTreeMap<PartitionId, (LogIndex, Vec<u8>)>;

/// What a start would make of a folder: the last entry and the state of each partition.
fn states(folder: &Path) -> States {
    let folder = DataFolder::open(folder, 1, Relaxed::None).expect("a data folder");
    let disk = |path: PathBuf| Medium::open(&path).expect("a folder");
    let (store, loaded) = CheckpointStore::open(disk(folder.checkpoints()), folder.identity())
        .expect("checkpoints that are whole");
    assert!(loaded.damaged.is_empty());
    let config = LogConfig::new(folder.identity(), 1 << 20).expect("a size");
    let (mut log, recovered) = Log::open(
        disk(folder.log()),
        config,
        folder.start(),
        &loaded.manifests,
    )
    .expect("a log that is whole");
    assert_eq!(recovered.report.damages, []);
    let places = Places::new(folder.node().partitions, 1, folder.node().relaxed);
    let found = found_in(
        (&mut log, &store),
        (recovered, &loaded),
        (&Given::default(), folder.node().start),
        &places,
    )
    .expect("it is all there");
    let mut states = States::new();
    for found in found {
        let mut making = Making::new(found);
        let made = loop {
            let made = making.go_on(&places, &PartitionLimits::ordinary(&places));
            if let Some(made) = made.expect("the disk gives all of it") {
                break made;
            }
        };
        let MadeFor::Group(restored, _) = made.fate else {
            panic!("partition {} is set aside", made.id.0);
        };
        if made.id == Places::METADATA {
            states.insert(made.id, metadata(made.metadata, &restored.entries));
            continue;
        }
        let (mut partition, at) = made.partition.expect("it serves");
        assert!(!partition.has_lost());
        let mut last = at.index;
        for entry in &restored.entries {
            last = entry.index;
            if is_of_partition(entry) {
                let applied = partition.replay_entry(entry.index, &entry.data);
                applied.expect("it is an entry");
            }
        }
        partition.check();
        states.insert(made.id, (last, partition.encode_state()));
    }
    states
}

/// The state of partition 0, out of its checkpoint and entries.
fn metadata(
    checkpoint: Option<(Vec<u8>, CheckpointAt)>,
    entries: &[RecoveredEntry],
) -> (LogIndex, Vec<u8>) {
    let mut machine = Metadata::new(Arc::new(Access::alone()));
    let mut last = LogIndex(0);
    if let Some((bytes, at)) = checkpoint {
        machine.restore(&bytes, at).expect("of this version");
        last = at.index;
    }
    for entry in entries {
        last = entry.index;
        if is_of_partition(entry) {
            let applied = machine.handle_committed(&entry.data);
            applied.expect("it is an entry");
        }
    }
    machine.begin_checkpoint();
    let pieces = std::iter::from_fn(|| machine.take_checkpoint_piece(usize::MAX));
    (last, pieces.flatten().collect())
}

/// The states at these entries, made of all entries since the first: no checkpoint has a part in it.
fn states_at(folder: &Path, at: &[(PartitionId, LogIndex)]) -> States {
    let folder = DataFolder::open(folder, 1, Relaxed::None).expect("a data folder");
    let log_config = LogConfig::new(folder.identity(), 1 << 20).expect("a size");
    let disk = FileDisk::open(&folder.log()).expect("a folder");
    let (_, recovered) = Log::open(disk, log_config, folder.start(), &Manifests::new())
        .expect("a log that is whole");
    let places = Places::new(folder.node().partitions, 1, folder.node().relaxed);
    let mut states = States::new();
    for &(id, index) in at {
        let entries = &recovered.partitions[&id].entries;
        assert_eq!(entries[0].index, LogIndex(1), "nothing of it was freed");
        let until = entries.partition_point(|entry| entry.index <= index);
        if id == Places::METADATA {
            states.insert(id, metadata(None, &entries[..until]));
            continue;
        }
        let mut partition = Partition::new(PartitionConfig::new(id, places.class_of(id)));
        for entry in entries[..until].iter().filter(|it| is_of_partition(it)) {
            let applied = partition.replay_entry(entry.index, &entry.data);
            applied.expect("it is an entry");
        }
        states.insert(id, (index, partition.encode_state()));
    }
    states
}

#[test]
fn a_full_backup_and_two_incremental_ones_under_load_are_the_states_at_their_cuts() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    let broker = start(&data, 2);
    fill(&broker);
    let stop = AtomicBool::new(false);
    let made = thread::scope(|scope| {
        scope.spawn(|| load(&broker, &stop));
        let made: Vec<BackupState> = (1..=3)
            .map(|number| {
                let before = created(&broker);
                wait("segments fill", || created(&broker) >= before + 3);
                let made = backup(&broker, &backups);
                assert_eq!((made.stage, made.number), (BackupStage::Done, number));
                assert_eq!((&made.error, made.damaged.len()), (&None, 0));
                made
            })
            .collect();
        stop.store(true, Ordering::Release);
        made
    });
    assert_eq!(made[0].bytes_reused, 0);
    assert!(made[1].bytes_reused >= 2 << 20 && made[2].bytes_reused > made[1].bytes_reused);
    assert!(segments(&backups.join("000003")) < segments(&data));
    broker.stop().expect("nothing failed");
    let node = DataFolder::open(&data, 1, Relaxed::None).expect("a data folder");
    let places = Places::new(node.node().partitions, 1, node.node().relaxed);
    drop(node);
    for made in &made {
        let report = verify_backup(&backups, Some(made.number)).expect("it is there");
        assert_eq!(
            (report.problems_total, &report.partitions),
            (0, &made.partitions)
        );
        let restored = folder.path().join(format!("restored-{}", made.number));
        let report = restore_backup(&backups, Some(made.number), &restored).expect("it is whole");
        assert!(report.files > 3);
        let (found, wanted) = (states(&restored), states_at(&data, &made.partitions));
        // A partition without an entry is in no log.
        for (id, state) in &wanted {
            assert!(found.get(id) == Some(state), "partition {} differs", id.0);
        }
        assert!(wanted[&Places::METADATA].1.len() > 100, "roles were made");
        let is_relaxed = |id: &&PartitionId| places.class_of(**id) == Class::Relaxed;
        assert!(wanted.keys().filter(is_relaxed).count() > 0);
        let queued = |(_, state): (&PartitionId, &(LogIndex, Vec<u8>))| state.1.len();
        assert!(found.iter().map(queued).sum::<usize>() > 10_000);
    }
    // On another number of shards, and it goes on.
    let restored = folder.path().join("restored-3");
    let broker = start(&restored, 3);
    assert_eq!(broker.state(), crate::NodeState::default());
    let (mut keeper, present) = keep(&broker, "keeper");
    assert!(present);
    for number in 1..=20 {
        let (_, payload) = keeper.receive_publish();
        assert!(payload.starts_with(format!("load {number} ").as_bytes()));
    }
    // What was restored goes on by itself: its next backup does not pass for one of the original.
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 4));
    broker.stop().expect("nothing failed");
    let again = folder.path().join("restored-4");
    restore_backup(&backups, None, &again).expect("it is whole");
    let report = verify_backup(&backups, None).expect("it is there");
    let found = states(&again);
    for (id, index) in report.partitions {
        assert!(found[&id].0 == index);
    }
}

/// Segments were cleaned and used again, so that there is no replaying from the first entry: what a backup gives is compared with what a
/// start makes of the folder that it is of. Nothing comes between the two.
/// It would hold what gives room, and the log's reader, who finishes the checkpoints that do.
#[test]
fn m47_no_backup_is_begun_while_the_disk_is_short_of_room() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (data, beside) = (folder.path().join("data"), folder.path().join("backups"));
    fs::create_dir(&data).expect("a folder");
    let (requests, _asked) = RequestDoor::new(&Arc::default());
    let state = Arc::new(DiskState::new(1));
    let source = Source {
        door: CopyDoor {
            jobs: mpsc::channel().0,
            requests,
            state: Arc::clone(&state),
        },
        data,
        folders: vec![folder.path().display().to_string()],
        node: [7; 16],
    };
    let settings = Sources::new().check().expect("there are none");
    let live = Arc::new(Live::new(Arc::new(Config::new(settings))));
    let backups = Backups::new(source, live);
    state.set_room(DiskRoom::Short);
    let refused = backups.begin(&beside, None);
    assert!(matches!(refused, Err(BackupError::NoRoom)), "{refused:?}");
    assert!(!beside.exists(), "nothing is begun");
}

/// Sessions that are not there, and what waits for them: so many segments.
fn fill_segments(broker: &Broker, count: u64) {
    fill(broker);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| load(broker, &stop));
        wait("segments fill", || created(broker) >= count);
        stop.store(true, Ordering::Release);
    });
}

/// What the last backup has is read, to see whether it is whole still. That costs the disk as much as copying it.
#[test]
fn i10_what_a_backup_reuses_is_read_at_its_pace_and_not_on_when_it_stops() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    let broker = start(&data, 1);
    fill_segments(&broker, 3);
    assert_eq!(backup(&broker, &backups).stage, BackupStage::Done);
    let control = broker.control();
    // A segment takes days.
    control
        .begin_backup(&backups, Some(1))
        .expect("it can begin");
    wait("it comes to the segments", || {
        control.backup().bytes_total > 0
    });
    thread::sleep(Duration::from_millis(300));
    let state = control.backup();
    assert_eq!((state.stage, state.bytes_reused), (BackupStage::Running, 0));
    assert!(control.stop_backup());
    wait("it stops", || {
        control.backup().stage != BackupStage::Running
    });
    let state = control.backup();
    assert_eq!(state.error, Some(BackupError::Stopped.to_string()));
    assert_eq!((state.bytes_reused, state.damaged.len()), (0, 0));
    broker.stop().expect("nothing failed");
}

/// A byte a second, in a time that passes by waiting alone: it takes as many seconds as it has bytes.
#[test]
fn i10_every_byte_of_a_first_backup_is_read_at_its_pace() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    let broker = start(&data, 1);
    fill_segments(&broker, 2);
    let control = broker.control();
    let made_by = control.backups().expect("there is a folder");
    let (store, _lock) = Store::lock(&backups).expect("nobody else has it");
    let progress = Progress {
        state: Mutex::default(),
        pace: AtomicU64::new(1),
        live: Arc::clone(&made_by.progress.live),
    };
    let begun = Instant::now();
    let clock = Arc::new(Mutex::new(begun));
    let pace = Pace::new(progress.pace(), Arc::default()).with_clock(Arc::clone(&clock));
    let making = create::Making {
        source: &made_by.source,
        store: &store,
        pace: RefCell::new(pace),
        progress: &progress,
        lost: Arc::default(),
    };
    let manifest = making.run(WallMs(1)).expect("it is made");
    let took = *clock.lock().expect("nobody has it") - begun;
    let state = progress.state.lock().expect("nobody has it");
    let kept: u64 = manifest.files.iter().map(|file| file.kept).sum();
    assert!(kept > 2 << 20, "{kept} bytes");
    assert_eq!((state.bytes_copied, state.bytes_read), (kept, kept));
    assert_eq!(took, Duration::from_secs(kept));
    drop(state);
    broker.stop().expect("nothing failed");
    let report = verify_backup(&backups, None).expect("it is finished");
    assert_eq!(report.problems_total, 0);
}

#[test]
fn a_full_backup_and_an_incremental_one_have_what_the_cleaner_has_moved() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (data, backups) = (folder.path().join("data"), folder.path().join("backups"));
    let broker = start(&data, 2);
    for client in ["a", "away"] {
        let (mut session, _) = keep(&broker, client);
        session.subscribe(&format!("to/{client}"), 1);
        session.send(0xE0, &[]);
        assert!(session.is_closed());
    }
    let mut states_of = BTreeMap::new();
    for number in 1..=2 {
        move_some(&broker);
        let made = backup(&broker, &backups);
        assert_eq!((made.stage, made.number), (BackupStage::Done, number));
        states_of.insert(number, made.partitions);
    }
    broker.stop().expect("nothing failed");
    let restored = folder.path().join("restored");
    restore_backup(&backups, None, &restored).expect("it is whole");
    assert!(moved(&restored) > 0, "it has records that were moved");
    let (found, wanted) = (states(&restored), states(&data));
    for (id, index) in &states_of[&2] {
        assert_eq!((found[id].0, wanted[id].0), (*index, *index));
        assert!(found[id] == wanted[id], "partition {} differs", id.0);
    }
    // The first one is whole as well, although what it needs was moved again since.
    let first = folder.path().join("restored-1");
    restore_backup(&backups, Some(1), &first).expect("it is whole");
    let found = states(&first);
    for (id, index) in &states_of[&1] {
        assert_eq!(found[id].0, *index);
    }
}

/// Most is taken at once, some waits in every segment, until the cleaner has moved something more.
fn move_some(broker: &Broker) {
    let cleaned = || disk_counter(broker, "log_cleaned_segments");
    let before = cleaned();
    let mut publisher = Client::connect(broker.addresses()[0], "publisher");
    let (mut reader, _) = keep(broker, "a");
    let deadline = Instant::now() + PATIENCE;
    let mut number: u16 = 0;
    while cleaned() == before {
        assert!(Instant::now() < deadline, "the cleaner moves something");
        number = number % 60_000 + 1;
        for (client, every) in [("a", 1), ("away", 16)] {
            if number.is_multiple_of(every) {
                let payload = format!("{client} {number} {}", "x".repeat(3_000));
                let topic = format!("to/{client}");
                publisher.send_raw(&publish(&topic, 1, number, payload.as_bytes()));
                assert_eq!(publisher.receive().first, 0x40);
            }
        }
        reader.receive_publish();
    }
    reader.send(0xE0, &[]);
    assert!(reader.is_closed());
    wait("its home knows that the reader has gone", || {
        let row = asked(broker.control().session("a")).expect("the shards answer");
        row.expect("it is kept").ends_at.is_some()
    });
    // What is acknowledged now is in the log, and so is all that this home wrote before it.
    publisher.send_raw(&publish("to/a", 1, 60_001, b"last"));
    assert_eq!(publisher.receive().first, 0x40);
}

/// Records in a folder that the cleaner has moved.
fn moved(folder: &Path) -> usize {
    let disk = FileDisk::open(&folder.join("log")).expect("a folder");
    let names = disk.list().expect("it can be listed");
    let records = names.iter().flat_map(|name| {
        let file = disk.open(name).expect("it is there");
        SegmentInspector::new(file).expect("a segment")
    });
    let is_moved =
        |it: &Found| matches!(it, Found::Record(record) if record.kind == RecordKind::Kept);
    records.filter(is_moved).count()
}

/// A folder with one backup of a broker that holds little.
fn small(folder: &Path) -> PathBuf {
    let backups = folder.join("backups");
    let broker = start(&folder.join("data"), 1);
    let (mut client, _) = keep(&broker, "a");
    client.subscribe("to/a", 1);
    assert_eq!(backup(&broker, &backups).stage, BackupStage::Done);
    broker.stop().expect("nothing failed");
    backups
}

#[test]
fn a_damaged_backup_is_found_and_refused_by_the_name_of_its_file() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("restored");
    let manifest = Store::at(&backups).manifest(1).expect("it is finished");
    for file in &manifest.files {
        let path = backups.join(&file.stored);
        let whole = fs::read(&path).expect("it is there");
        let mut changed = whole.clone();
        *changed.last_mut().expect("no file is empty") ^= 0x20;
        for bytes in [Some(&changed[..]), Some(&whole[..whole.len() - 1]), None] {
            match bytes {
                Some(bytes) => fs::write(&path, bytes).expect("there is room"),
                None => fs::remove_file(&path).expect("it is there"),
            }
            let report = verify_backup(&backups, None).expect("its manifest is whole");
            assert_eq!(report.problems_total, 1);
            let name = path.display().to_string();
            assert!(report.problems[0].contains(&name), "{report:?}");
            let error = restore_backup(&backups, None, &data).expect_err("it is damaged");
            assert!(error.to_string().contains(&name), "{error}");
            assert!(!data.exists(), "nothing was written");
        }
        fs::write(&path, whole).expect("there is room");
    }
    let path = backups.join("000001/manifest");
    let text = fs::read_to_string(&path).expect("it is there");
    for (from, to) in [("cut 1 ", "cut 2 "), ("backup 1\n", "backup 9\n")] {
        fs::write(&path, text.replacen(from, to, 1)).expect("there is room");
        let error = restore_backup(&backups, None, &data).expect_err("it is damaged");
        assert!(error.to_string().contains("000001/manifest"), "{error}");
    }
    fs::write(&path, text).expect("there is room");
    restore_backup(&backups, None, &data).expect("it is whole again");
    let error = restore_backup(&backups, None, &data).expect_err("there is something");
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
}

#[test]
fn what_stands_in_place_of_a_file_of_a_backup_is_no_endless_reading() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("restored");
    let manifest = Store::at(&backups).manifest(1).expect("it is finished");
    let path = backups.join(&manifest.files[0].stored);
    let of_manifest = backups.join("000001/manifest");
    for path in [path, of_manifest] {
        let whole = fs::read(&path).expect("it is there");
        let longer = [&whole[..], b"and more"].concat();
        fs::write(&path, longer).expect("there is room");
        let error = restore_backup(&backups, None, &data).expect_err("it is too long");
        assert!(matches!(error, BackupError::Damaged { .. }), "{error}");
        for instead in ["/dev/zero", "pipe"] {
            fs::remove_file(&path).expect("it is there");
            match instead {
                "pipe" => {
                    let mode = rustix::fs::Mode::RUSR;
                    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("it has gone");
                }
                target => std::os::unix::fs::symlink(target, &path).expect("it has gone"),
            }
            let error = restore_backup(&backups, None, &data).expect_err("it is no file");
            assert!(error.to_string().contains("no regular file"), "{error}");
        }
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, whole).expect("there is room");
    }
    restore_backup(&backups, None, &data).expect("it is whole again");
}

/// What a backup leaves that was killed.
fn leave_unfinished(backups: &Path, number: u32) {
    let folder = backups.join(format!("{number:06}"));
    fs::create_dir_all(folder.join("log")).expect("there is room");
    fs::write(folder.join("log/0000000001.seg"), [1; 100]).expect("there is room");
}

/// Who waits for a backup knows by its id that what is told is not of another one, or of another start.
#[test]
fn each_backup_has_an_id_that_no_other_one_has() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let mut ids = vec![0];
    for _ in 0..2 {
        let broker = start(&folder.path().join("data"), 1);
        let control = broker.control();
        assert_eq!(control.backup().id, 0, "none since the start");
        for _ in 0..2 {
            let begun = control.begin_backup(&backups, None).expect("it can begin");
            assert_eq!((begun.stage, begun.number), (BackupStage::Running, 0));
            wait("it ends", || control.backup().stage == BackupStage::Done);
            assert_eq!(control.backup().id, begun.id);
            assert!(!ids.contains(&begun.id));
            ids.push(begun.id);
        }
        broker.stop().expect("nothing failed");
    }
}

/// Its end is told before its thread has ended: who began the next one at once was told that one is being made.
#[test]
fn a_backup_begins_right_behind_another() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let broker = start(&folder.path().join("data"), 1);
    assert_eq!(backup(&broker, &backups).stage, BackupStage::Done);
    let control = broker.control();
    let who = control.backups().expect("something is kept");
    let ended = who.thread.lock().expect("nobody panics").take();
    ended.expect("one was begun").join().expect("nobody panics");
    // A thread that takes long for its end: it has the folder until then.
    let (_, lock) = Store::lock(&backups).expect("nobody else has it");
    let ending = thread::spawn(move || {
        let _lock = lock;
        thread::sleep(Duration::from_millis(300));
    });
    *who.thread.lock().expect("nobody panics") = Some(ending);
    assert!(!control.stop_backup(), "none is being made");
    let next = backup(&broker, &backups);
    assert_eq!((next.stage, next.number), (BackupStage::Done, 3));
    broker.stop().expect("nothing failed");
}

/// It was said to be made for ever, so that `courser backup create` waited for ever.
#[test]
fn a_backup_whose_thread_panics_has_failed_and_the_next_one_is_made() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let broker = start(&folder.path().join("data"), 1);
    let control = broker.control();
    let who = control.backups().expect("something is kept");
    let begun = who
        .begin_by(&backups, None, |_, _, _, _| panic!("as a test wants it"))
        .expect("it can begin");
    wait("it ends", || control.backup().stage == BackupStage::Failed);
    let state = control.backup();
    assert_eq!(
        (state.id, state.error.as_deref()),
        (begun.id, Some(PANICKED))
    );
    assert_eq!(backup(&broker, &backups).stage, BackupStage::Done);
    broker.stop().expect("nothing failed");
}

#[test]
fn an_unfinished_backup_is_refused_and_gives_way_to_the_next() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("restored");
    let broker = start(&folder.path().join("data"), 1);
    let control = broker.control();
    // A megabyte at 4 KiB a second is not done before it is stopped.
    control
        .begin_backup(&backups, Some(4 << 10))
        .expect("it can begin");
    wait("it has begun", || control.backup().number == 2);
    let error = control.begin_backup(&backups, None).expect_err("one runs");
    assert!(matches!(error, BackupError::Running), "{error}");
    assert!(control.stop_backup());
    wait("it stops", || control.backup().stage == BackupStage::Failed);
    assert_eq!(
        control.backup().error,
        Some(BackupError::Stopped.to_string())
    );
    assert!(!control.stop_backup());
    // Nothing of it is left, as far as the program came to an end of its own.
    assert!(!backups.join("000002").exists());
    leave_unfinished(&backups, 2);
    let error = restore_backup(&backups, None, &data).expect_err("it was not finished");
    assert!(error.to_string().contains("--backup 1"), "{error}");
    assert!(verify_backup(&backups, None).is_err());
    restore_backup(&backups, Some(1), &data).expect("that one was");
    let made = backup(&broker, &backups);
    assert_eq!((made.stage, made.number), (BackupStage::Done, 3));
    assert!(!backups.join("000002").exists());
    // A stop of the broker does not wait for a backup.
    control
        .begin_backup(&backups, Some(4 << 10))
        .expect("it can begin");
    let begun = Instant::now();
    broker.stop().expect("nothing failed");
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// Names of what is in a folder, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder");
    let names = files.map(|it| it.expect("it can be listed").file_name());
    let mut names: Vec<String> = names.map(|it| it.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// What ended in the middle was in the way of the next one for good.
#[test]
fn i7_a_restore_that_ended_in_the_middle_gives_way_to_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("new");
    fs::create_dir_all(data.join("log")).expect("there is room");
    fs::write(data.join("log/0000000009.seg"), "cut").expect("there is room");
    let error = restore_backup(&backups, None, &data).expect_err("it has something else");
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
    fs::write(data.join("restoring"), "cut").expect("there is room");
    fs::write(data.join("repair"), "cut").expect("there is room");
    restore_backup(&backups, None, &data).expect("it is whole");
    for left in ["restoring", "repair", "log/0000000009.seg"] {
        assert!(!data.join(left).exists(), "{left}");
    }
    start(&data, 1).stop().expect("it is a data folder");
    let error = restore_backup(&backups, None, &data).expect_err("it is one");
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
}

#[test]
fn i7_a_restore_takes_nothing_away_from_another_one() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("new");
    fs::create_dir_all(data.join("log")).expect("there is room");
    fs::write(data.join("log/0000000009.seg"), "half").expect("there is room");
    let mark = fs::File::create(data.join("restoring")).expect("there is room");
    mark.try_lock().expect("nobody else works there");
    let error = restore_backup(&backups, None, &data).expect_err("another one works there");
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
    assert_eq!(names_in(&data), ["log", "restoring"]);
    assert!(data.join("log/0000000009.seg").exists());
    // Both had looked before either was done.
    drop(mark);
    restore_backup(&backups, None, &data).expect("nobody works there");
    let made = [names_in(&data), names_in(&data.join("log"))];
    let text = fs::read_to_string(backups.join("000001/manifest")).expect("it is text");
    let manifest = Manifest::decode(&text).expect("it is whole");
    let (store, _lock) = Store::share(&backups).expect("nobody prunes it");
    let error = super::restore::restore(&store, &manifest, &data, true).expect_err("it is one");
    assert!(matches!(error, BackupError::NotEmpty { .. }), "{error}");
    assert_eq!([names_in(&data), names_in(&data.join("log"))], made);
}

/// What it had written of a large folder kept the room that it was short of.
#[test]
fn i7_a_restore_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("new");
    // A file that cannot be written: it is there.
    let path = backups.join("000001/manifest");
    let text = fs::read_to_string(&path).expect("it is text");
    let mut twice = Manifest::decode(&text).expect("it is whole");
    let again = twice.files.iter().find(|it| it.path != "node").cloned();
    twice.files.push(again.expect("there are others"));
    fs::create_dir(&data).expect("there is room");
    let (store, _lock) = Store::share(&backups).expect("nobody prunes it");
    let error = super::restore::restore(&store, &twice, &data, true).expect_err("one is there");
    assert!(matches!(error, BackupError::Write { .. }), "{error}");
    assert_eq!(names_in(&data), [""; 0]);
    super::restore::restore(&store, &twice, &data, false).expect_err("one is there");
    assert!(!data.exists(), "it had made the folder");
    restore_backup(&backups, None, &data).expect("it is whole");
}

#[test]
fn i7_nothing_is_pruned_while_a_backup_is_read_and_nothing_read_while_it_goes() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("new");
    let prune = || prune_backups(&backups, 1, PruneMode::Remove);
    let (store, reads) = Store::share(&backups).expect("nobody prunes it");
    verify_backup(&backups, None).expect("two may read");
    let error = prune().expect_err("it is read");
    assert!(matches!(error, BackupError::BeingRead { .. }), "{error}");
    prune_backups(&backups, 1, PruneMode::Say).expect("it takes nothing away");
    drop(reads);
    let goes = store.keep_readers_out().expect("nobody reads it");
    for error in [
        verify_backup(&backups, None).expect_err("it goes"),
        restore_backup(&backups, None, &data).expect_err("it goes"),
    ] {
        assert!(matches!(error, BackupError::Pruned { .. }), "{error}");
    }
    drop(goes);
    prune().expect("nobody reads it");
}

#[test]
fn a_backup_is_not_restored_among_the_backups() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    for below in ["data", "000001/data", "new/../data", ""] {
        let error = restore_backup(&backups, None, &backups.join(below)).expect_err(below);
        assert!(matches!(error, BackupError::Inside { .. }), "{error}");
    }
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&backups, &link).expect("a link");
    for (named, data) in [(&link, &backups), (&backups, &link)] {
        let error = restore_backup(named, None, &data.join("data")).expect_err("the same folder");
        assert!(matches!(error, BackupError::Inside { .. }), "{error}");
    }
    assert!(!backups.join("data").exists() && !backups.join("new").exists());
}

#[test]
fn a_folder_that_is_for_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let backups = small(folder.path());
    let data = folder.path().join("other");
    let broker_ = start(&data, 1);
    let refused = |folder: &Path| broker_.control().begin_backup(folder, None);
    for place in [
        Path::new("relative"),
        &data,
        &data.join("x/y"),
        &backups.join("../data"),
    ] {
        let error = refused(place).expect_err("no backup can be there");
        assert!(matches!(error, BackupError::Place { .. }), "{error}");
    }
    let elsewhere = tempfile::tempdir().expect("another folder");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(elsewhere.path(), &link).expect("a link");
    for place in [elsewhere.path(), &elsewhere.path().join("x"), &link] {
        let error = refused(place).expect_err("no setting names it");
        assert!(matches!(error, BackupError::NotNamed { .. }), "{error}");
        let named = folder.path().display().to_string();
        assert!(error.to_string().contains(&named), "{error}");
    }
    assert_eq!(
        fs::read_dir(elsewhere.path()).expect("it is there").count(),
        0
    );
    let error = refused(folder.path()).expect_err("there is something else");
    assert!(matches!(error, BackupError::Stranger { .. }), "{error}");
    let made = backup(&broker_, &backups);
    let error = made.error.expect("those are of another node");
    assert!(error.contains("another node"), "{error}");
    broker_.stop().expect("nothing failed");
    for (path, number) in [(folder.path(), None), (&backups, Some(7))] {
        assert!(verify_backup(path, number).is_err());
        assert!(restore_backup(path, number, &folder.path().join("x")).is_err());
    }
    let in_memory = broker(1, &[], |_| {});
    let error = in_memory.control().begin_backup(&backups, None);
    assert!(matches!(error, Err(BackupError::NothingKept)), "{error:?}");
    in_memory.stop().expect("nothing failed");
}
