//! Sample folders: one of each format that a release has written, in `tests/data`, read by this program.
//!
//! A sample is a file of text: the files of a data folder, or of one with backups, as lines of 32 bytes, those of zeros left out. It is made once, with the
//! program that has the format, and never again:
//! `COURSER_SAMPLE=NAME cargo test -p courser-broker --lib samples::make -- --ignored`.

mod backups;
mod versions;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use courser_access::Command;
use courser_log::inspect::{Found, RecordKind, SegmentInspector};
use courser_log::{Disk, FileDisk, SegmentNumber};

use crate::shard::support::accounts::{
    Hello, change, delivered, name, publishes, put_role, put_user, subscribe,
};
use crate::shard::support::{Client, broker_on, disk_counter, encode, publish, text};
use crate::{Broker, NodeState, examine};
use tempfile::TempDir;

const LINE: usize = 32;
/// Every one of a data folder, oldest first.
const SAMPLES: &[&str] = &[
    "format-1", "engine-2", "format-2", "format-3", "format-4", "format-5", "format-6", "format-7",
    "format-8", "format-9",
];
/// Every one of backups, oldest first.
const BACKUPS: &[&str] = &["backup-1"];
/// From this one on they have records that the cleaner has moved.
const CLEANED: &[&str] = &[
    "format-4", "format-5", "format-6", "format-7", "format-8", "format-9",
];
/// From this one on they have users, who have sessions and retained messages.
const WITH_USERS: &[&str] = &["format-6", "format-7", "format-8", "format-9"];
/// From this one on they have summaries of segments.
const SUMMED: &[&str] = &["format-7", "format-8", "format-9"];
/// From this one on they have messages that wait and expire.
const EXPIRING: &[&str] = &["format-8", "format-9"];

/// Until they do: some fifty years.
const LIFE_SECONDS: u32 = 1_600_000_000;

fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

fn sample_path(name: &str) -> PathBuf {
    data_folder().join(format!("{name}.txt"))
}

/// The files of a folder and of those in it.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for file in fs::read_dir(folder).expect("a folder") {
        let path = file.expect("a file").path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files
}

fn pack(folder: &Path) -> String {
    let mut files = BTreeMap::new();
    for path in files_below(folder) {
        let name = path.strip_prefix(folder).expect("it is below");
        let name = name.to_str().expect("a name in ASCII").to_owned();
        if path.is_file() && name != "LOCK" {
            files.insert(name, fs::read(&path).expect("it can be read"));
        }
    }
    let mut packed = String::new();
    for (name, bytes) in files {
        let _ = writeln!(packed, "file {name} {}", bytes.len());
        for (number, line) in bytes.chunks(LINE).enumerate() {
            if line.iter().any(|byte| *byte != 0) {
                let _ = write!(packed, "{} ", number * LINE);
                line.iter().for_each(|byte| {
                    let _ = write!(packed, "{byte:02x}");
                });
                packed.push('\n');
            }
        }
    }
    packed
}

fn unpack(packed: &str, folder: &Path) {
    let mut files: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    let mut current = "";
    for line in packed.lines().filter(|line| !line.starts_with('#')) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["file", name, bytes] => {
                current = name;
                files.insert(name, vec![0; bytes.parse().expect("a number")]);
            }
            [at, bytes] => {
                let at: usize = at.parse().expect("a number");
                let file = files.get_mut(current).expect("a file is first");
                for (place, byte) in (at..).zip(bytes.as_bytes().chunks(2)) {
                    let byte = std::str::from_utf8(byte).expect("digits");
                    file[place] = u8::from_str_radix(byte, 16).expect("digits");
                }
            }
            _ => panic!("no line of a sample: {line}"),
        }
    }
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("there is room");
        fs::write(path, bytes).expect("there is room");
    }
}

fn unpack_sample(name: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let packed = fs::read_to_string(sample_path(name)).expect("it is kept");
    unpack(&packed, folder.path());
    folder
}

fn start(folder: &Path, shards: u16) -> Broker {
    start_with(folder, shards, &[])
}

fn start_with(folder: &Path, shards: u16, more: &[&str]) -> Broker {
    let classes = r#"class=[{filter = "relaxed/#", class = "relaxed"}]"#;
    let users = r#"listener=[{ name = "users", protocol = "mqtt", address = "127.0.0.1:0", authentication = "accounts" }]"#;
    let settings = [
        "sys.interval=0s",
        "log.checkpoint_bytes=1MiB",
        classes,
        users,
    ];
    broker_on(folder, shards, &[&settings, more].concat())
}

fn keep(broker: &Broker, client_id: &str) -> (Client, bool) {
    Client::session(broker.addresses()[0], client_id, 4, 0, &[])
}

fn send(client: &mut Client, topic: &str, packet_id: u16, payload: &[u8]) {
    client.send_raw(&publish(topic, 1, packet_id, payload));
    assert_eq!(client.receive().first, 0x40);
}

/// What every sample holds: sessions, of the class relaxed too, that wait for messages; a shared group; a retained message; a QoS 2
/// exchange half-way; a large message in pieces; a session and a retained message of a user; checkpoints, and entries behind them.
fn fill(broker: &Broker) {
    let address = broker.addresses()[0];
    for (client_id, filter) in [
        ("plain", "s/#"),
        ("relaxed/one", "s/1"),
        ("member", "$share/g/s/#"),
        ("filler", "fill"),
    ] {
        let (mut client, _) = keep(broker, client_id);
        client.subscribe(filter, 1);
        client.send(0xE0, &[]);
    }
    // 5.0 with a session that outlives its connection for ever, and a will that goes with it.
    let expiry = [0x11, 0xFF, 0xFF, 0xFF, 0xFF];
    let mut will = vec![0];
    will.extend(text("will/of/five"));
    will.extend(text("gone"));
    let (five, _) = Client::open_session(address, "five", 5, 0x04 | 0x08, &expiry, &will);
    fill_as_a_user(broker);
    let mut publisher = Client::connect(address, "publisher");
    send(&mut publisher, "s/1", 1, b"before the checkpoints");
    fill_what_expires(broker);
    publisher.send_raw(&encode(0x33, &retained("r/1", 2, b"kept")));
    assert_eq!(publisher.receive().first, 0x40);
    // Enough for checkpoints of all partitions, and until the cleaner has moved what waits since before; the last one waits.
    let zeros = vec![0; 300 << 10];
    for number in 0.. {
        send(&mut publisher, "fill", 100 + number % 1_000, &zeros);
        if number < 15 {
            // Of a single segment it would not move anything.
            let topic = format!("in-between/{number}");
            publisher.send_raw(&encode(0x33, &retained(&topic, 50, b"kept as well")));
            assert_eq!(publisher.receive().first, 0x40);
        }
        if number >= 15 && has_moved(broker) {
            break;
        }
        assert!(number < 2_000, "the cleaner moves something");
        let (mut filler, _) = keep(broker, "filler");
        assert_eq!(filler.receive_publish().1.len(), zeros.len());
        filler.send(0xE0, &[]);
        assert!(filler.is_closed());
    }
    send(&mut publisher, "s/1", 2, b"behind the checkpoints");
    let (mut holder, _) = keep(broker, "holder");
    holder.send_raw(&publish("s/2", 2, 7, b"exactly once"));
    assert_eq!(holder.receive().first, 0x50, "PUBREC, and no PUBREL");
    drop(five);
}

/// A session of 5.0 that waits for messages which expire, and for some that do not.
fn fill_what_expires(broker: &Broker) {
    let (mut waiting, _) = expiring_comes(broker);
    waiting.send(0x82, &[&[0, 1, 0][..], &text("e"), &[1]].concat());
    assert_eq!(waiting.receive().first, 0x90);
    waiting.send(0xE0, &[]);
    assert!(waiting.is_closed());
    let mut publisher = Client::session(broker.addresses()[0], "of five", 5, 2, &[]).0;
    for number in 0..4 {
        let [first, second, third, fourth] = LIFE_SECONDS.to_be_bytes();
        let expires = [5, 0x02, first, second, third, fourth];
        let properties = if number % 2 == 0 { &expires[..] } else { &[0] };
        let payload = number.to_string();
        let body = [&text("e")[..], &[0, 1], properties, payload.as_bytes()].concat();
        publisher.send_raw(&encode(0x32, &body));
        assert_eq!(publisher.receive().first, 0x40);
    }
}

fn expiring_comes(broker: &Broker) -> (Client, bool) {
    let for_ever = [0x11, 0xFF, 0xFF, 0xFF, 0xFF];
    Client::session(broker.addresses()[0], "expiring", 5, 0, &for_ever)
}

/// That they are there, and say how long they may still wait.
fn check_what_expires(broker: &Broker) {
    let (mut waiting, present) = expiring_comes(broker);
    assert!(present);
    for number in 0..4 {
        let (_, rest) = waiting.receive_publish();
        let payload = number.to_string().into_bytes();
        match rest.as_slice() {
            [5, 0x02, first, second, third, fourth, end @ ..] => {
                let left = u32::from_be_bytes([*first, *second, *third, *fourth]);
                assert!(left <= LIFE_SECONDS && end == payload && number % 2 == 0);
            }
            [0, end @ ..] => assert!(end == payload && number % 2 == 1),
            _ => panic!("no such properties: {rest:?}"),
        }
    }
}

/// A session of `anna`, and a message that she has retained.
fn fill_as_a_user(broker: &Broker) {
    put_role(broker, "anna", &["allow all #"]);
    put_user(broker, "anna", "secret", &["anna"]);
    let mut anna = anna_comes(broker).0;
    assert_eq!(subscribe(&mut anna, "s/1"), 1);
    assert!(publishes(&mut anna, "r/2", true, "of a user") < 0x80);
    anna.send(0xE0, &[]);
    assert!(anna.is_closed());
}

/// `anna` with her session, and whether it was there.
fn anna_comes(broker: &Broker) -> (Client, bool) {
    let hello = Hello {
        client_id: "of anna",
        flags: 0,
        properties: &[0x11, 0xFF, 0xFF, 0xFF, 0xFF],
        ..Hello::default()
    };
    let (client, connack) = hello.say(broker.addresses()[1]);
    assert_eq!((connack.first, connack.body[1]), (0x20, 0), "{connack:?}");
    (client, connack.body[0] == 1)
}

/// That it is hers: what she has retained goes with her.
fn check_of_a_user(broker: &Broker) {
    let (mut anna, present) = anna_comes(broker);
    assert!(present);
    for waiting in ["before the checkpoints", "behind the checkpoints"] {
        assert_eq!(delivered(&mut anna).1, waiting);
    }
    let found = |client_id| {
        let mut reader = Client::connect(broker.addresses()[0], client_id);
        // One after the other: what is found of the second comes behind all of the first.
        reader.subscribe("r/2", 1);
        reader.subscribe("r/1", 1);
        reader.receive_publish().1
    };
    assert_eq!(found("before"), b"of a user");
    change(broker, Command::RemoveUser(name("anna")));
    assert_eq!(found("after"), b"kept", "and nothing of hers");
}

fn has_moved(broker: &Broker) -> bool {
    disk_counter(broker, "log_cleaned_segments") > 0
}

/// Records of a kind in the log.
fn records(folder: &Path, kind: RecordKind) -> usize {
    let disk = FileDisk::open(&folder.join("log")).expect("a folder");
    let names = disk.list().expect("it can be listed").into_iter();
    let is_segment = |name: &String| SegmentNumber::of_file_name(name).is_some();
    let mut records = 0;
    for name in names.filter(is_segment) {
        let file = disk.open(&name).expect("it is there");
        let found = SegmentInspector::new(file).expect("a segment");
        let is_one = |it: &Found| matches!(it, Found::Record(record) if record.kind == kind);
        records += found.filter(is_one).count();
    }
    records
}

fn retained(topic: &str, packet_id: u16, payload: &[u8]) -> Vec<u8> {
    let mut body = text(topic);
    body.extend(packet_id.to_be_bytes());
    body.extend_from_slice(payload);
    body
}

/// That all of it is there.
fn check(broker: &Broker) {
    assert_eq!(broker.state(), NodeState::default());
    let (mut holder, present) = keep(broker, "holder");
    assert!(present);
    // DUP: the exchange is known, nothing is stored again.
    let mut again = publish("s/2", 2, 7, b"exactly once");
    again[0] |= 8;
    holder.send_raw(&again);
    assert_eq!(holder.receive().first, 0x50);
    holder.send(0x62, &[0, 7]);
    assert_eq!(holder.receive().first, 0x70);
    let waiting = [&b"before the checkpoints"[..], b"behind the checkpoints"];
    for (client_id, own) in [
        ("plain", &[waiting[0], waiting[1], b"exactly once"][..]),
        ("relaxed/one", &waiting[..]),
        ("member", &[waiting[0], waiting[1], b"exactly once"][..]),
    ] {
        let (mut client, present) = keep(broker, client_id);
        assert!(present, "{client_id}");
        let mut got: Vec<Vec<u8>> = own.iter().map(|_| client.receive_publish().1).collect();
        let mut wanted: Vec<Vec<u8>> = own.iter().map(|it| it.to_vec()).collect();
        // QoS 1 and 2 each have their own order.
        got.sort();
        wanted.sort();
        assert_eq!(got, wanted, "{client_id}");
        client.send(0xC0, &[]);
        assert_eq!(client.receive().first, 0xD0, "and nothing more");
    }
    let (mut filler, present) = keep(broker, "filler");
    assert!(present);
    assert_eq!(filler.receive_publish().1, vec![0; 300 << 10]);
    let (mut five, present) = Client::session(broker.addresses()[0], "five", 5, 0, &[]);
    assert!(present);
    five.send(0x82, &[&[0, 1, 0][..], &text("r/+"), &[0]].concat());
    let mut answers = (0..3).map(|_| five.receive());
    let found = answers.any(|packet| packet.body.ends_with(b"kept"));
    assert!(found, "the retained message");
}

#[test]
#[ignore = "writes a new sample: see the module"]
fn make() {
    let name = std::env::var("COURSER_SAMPLE").expect("COURSER_SAMPLE names the sample");
    let path = sample_path(&name);
    assert!(!path.exists(), "a sample is never made again");
    let above = tempfile::tempdir().expect("a folder for a test");
    let folder = above.path().join("sample");
    let what = match name.starts_with("backup-") {
        true => {
            backups::make_in(&folder);
            "A folder with backups"
        }
        false => {
            let broker = start(&folder, 2);
            fill(&broker);
            broker.stop().expect("nothing failed");
            "A data folder"
        }
    };
    let head = format!("# {what} of {name}: crates/broker/src/node/samples.rs\n");
    fs::write(path, head + &pack(&folder)).expect("there is room");
}

#[test]
fn every_format_is_read_and_goes_on() {
    for name in SAMPLES {
        let folder = unpack_sample(name);
        let folder = folder.path();
        assert_eq!(
            CLEANED.contains(name),
            records(folder, RecordKind::Kept) > 0
        );
        let examined = examine(folder).expect("it can be read");
        assert_eq!(examined.findings, [], "{name}");
        let broker = start(folder, 3);
        let passes_over = broker.recovered().is_some_and(|found| {
            let mut counters = found.counters().into_iter();
            counters.any(|(name, count)| name == "segments_not_read" && count > 0)
        });
        assert_eq!(SUMMED.contains(name), passes_over, "{name}");
        check(&broker);
        if WITH_USERS.contains(name) {
            check_of_a_user(&broker);
        }
        if EXPIRING.contains(name) {
            check_what_expires(&broker);
        }
        broker.stop().expect("nothing failed");
        // What was taken stays so in what this program writes.
        let broker = start(folder, 1);
        let (mut plain, present) = keep(&broker, "plain");
        plain.send(0xC0, &[]);
        assert_eq!((present, plain.receive().first), (true, 0xD0), "{name}");
        broker.stop().expect("nothing failed");
    }
}

/// The only file of a folder with this end, the first by name.
fn file(folder: &Path, end: &str) -> PathBuf {
    let files = fs::read_dir(folder).expect("a folder");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(end));
    files.sort();
    files.into_iter().next().expect("there is one")
}

/// Where a structure begins in its file, where its version is, and where its checksum, which covers what is before it.
struct Versioned {
    file: PathBuf,
    at: usize,
    version: usize,
    checksum: Option<usize>,
}

#[test]
fn a_version_that_is_not_known_is_refused_and_named() {
    let structures = |folder: &Path| {
        let (log, checkpoints) = (folder.join("log"), folder.join("checkpoints"));
        let of = |file: PathBuf, at, version, checksum| Versioned {
            file,
            at,
            version,
            checksum,
        };
        [
            of(folder.join("node"), 0, 8, Some(60)),
            of(file(&log, ".seg"), 0, 8, Some(60)),
            of(file(&log, ".seg"), 4096, 4, Some(84)),
            of(file(&checkpoints, ".ckp"), 0, 8, Some(44)),
            of(file(&checkpoints, ".manifest"), 0, 8, None),
        ]
    };
    for number in 0..5 {
        let folder = unpack_sample("format-2");
        let folder = folder.path();
        let changed = &structures(folder)[number];
        let mut bytes = fs::read(&changed.file).expect("it is there");
        bytes[changed.at + changed.version] = 99;
        let end = changed.checksum.unwrap_or(bytes.len() - 4 - changed.at);
        let sum = crc32c::crc32c(&bytes[changed.at..changed.at + end]);
        bytes[changed.at + end..changed.at + end + 4].copy_from_slice(&sum.to_le_bytes());
        fs::write(&changed.file, &bytes).expect("there is room");
        let error = examine(folder).expect_err("nobody knows what it says");
        let said = error.to_string();
        assert!(said.contains("99"), "{number}: {said}");
        assert!(said.contains("that wrote it"), "{number}: {said}");
        let kept = fs::read(&changed.file).expect("it is there");
        assert!(kept == bytes, "{number}: it is left as it is");
    }
}

#[test]
fn a_checkpoint_of_a_later_engine_is_refused_and_left_as_it_is() {
    // The file's header, the head of its first piece, the kind and the length of the piece's first unit; then the version.
    const HEADER: usize = 48;
    const PIECE: usize = HEADER + 12;
    const VERSION: usize = PIECE + 5;
    let folder = unpack_sample("format-2");
    let folder = folder.path();
    let path = file(&folder.join("checkpoints"), ".ckp");
    let mut bytes = fs::read(&path).expect("it is there");
    let field = |bytes: &[u8], at: usize| {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    };
    let piece = PIECE..PIECE + field(&bytes, HEADER) as usize;
    assert_eq!(
        bytes[VERSION..VERSION + 2],
        [2, 0],
        "a version that is known"
    );
    bytes[VERSION] = 99;
    let sum = crc32c::crc32c_append(field(&bytes, HEADER - 4), &bytes[HEADER..HEADER + 8]);
    let sum = crc32c::crc32c_append(sum, &bytes[piece]);
    bytes[HEADER + 8..PIECE].copy_from_slice(&sum.to_le_bytes());
    fs::write(&path, &bytes).expect("there is room");
    let error = examine(folder).expect_err("nobody knows what it says");
    let said = error.to_string();
    assert!(said.contains("version 99"), "{said}");
    assert!(said.contains("that wrote it"), "{said}");
    assert!(fs::read(&path).expect("it is there") == bytes);
}
