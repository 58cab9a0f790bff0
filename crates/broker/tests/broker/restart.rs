//! A broker with a data folder ends and starts again: what clients find then (I1, M26, M28, M30).

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::support::sessions::{KEEP, folder, keep, leave, stop, wait_until_away};
use crate::support::{Client, Packet, broker_on, counter, publish, text};
use courser_broker::Broker;

fn start(folder: &Path) -> (Broker, SocketAddr) {
    let broker = broker_on(folder, 2, &["sys.interval=0s"]);
    let address = broker.addresses()[0];
    (broker, address)
}

fn send_all(address: SocketAddr, topic: &str, payloads: &[&str]) {
    let mut publisher = Client::connect(address, "publisher");
    for (payload, packet_id) in payloads.iter().zip(1..) {
        publisher.send_raw(&publish(topic, 1, packet_id, payload.as_bytes()));
    }
    for packet_id in 1..=payloads.len() as u16 {
        let id = packet_id.to_be_bytes().to_vec();
        assert_eq!(publisher.receive(), packet(0x40, &id));
    }
    leave(publisher);
}

fn packet(first: u8, body: &[u8]) -> Packet {
    Packet {
        first,
        body: body.to_vec(),
    }
}

/// First byte, packet id and payload of a delivery, which is not acknowledged.
fn delivery(client: &mut Client, topic: &str) -> (u8, u16, String) {
    let Packet { first, body } = client.receive();
    let at = 2 + topic.len();
    assert_eq!(&body[2..at], topic.as_bytes());
    let id = u16::from_be_bytes([body[at], body[at + 1]]);
    let payload = String::from_utf8(body[at + 2..].to_vec()).expect("it was text");
    (first, id, payload)
}

#[test]
fn i1_a_session_with_its_queue_and_retained_messages_survives() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    let (mut absent, present) = keep(address, "absent");
    assert!(!present);
    absent.subscribe("t", 1);
    leave(absent);
    let payloads: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    send_all(address, "t", &payloads);
    let mut publisher = Client::connect(address, "retainer");
    let mut retained = publish("r", 1, 9, b"kept");
    retained[0] |= 1;
    publisher.send_raw(&retained);
    publisher.receive();
    stop(broker);
    for _ in 0..2 {
        let (broker, address) = start(folder.path());
        let (mut absent, present) = keep(address, "absent");
        assert!(present, "the session is there");
        for payload in &payloads {
            let (first, _, got) = delivery(&mut absent, "t");
            assert_eq!(first & 0xF6, 0x32, "QoS 1");
            assert_eq!(got, *payload);
        }
        let mut reader = Client::connect(address, "reader");
        reader.subscribe("r", 1);
        assert_eq!(reader.receive_publish(), ("r".to_owned(), b"kept".to_vec()));
        stop(broker);
    }
}

#[test]
fn m30_what_was_not_acknowledged_comes_again_with_its_packet_id_and_dup() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    let (mut reader, _) = keep(address, "reader");
    reader.subscribe("t", 1);
    send_all(address, "t", &["a", "b", "c"]);
    let before: Vec<_> = (0..3).map(|_| delivery(&mut reader, "t")).collect();
    assert!(before.iter().all(|(first, ..)| *first == 0x32));
    // The second is acknowledged: it must not come again.
    reader.send(0x40, &before[1].1.to_be_bytes());
    reader.send(0xC0, &[]);
    assert_eq!(reader.receive(), packet(0xD0, &[]));
    stop(broker);
    let (broker, address) = start(folder.path());
    let (mut reader, present) = keep(address, "reader");
    assert!(present);
    for at in [0, 2] {
        let (first, id, payload) = delivery(&mut reader, "t");
        assert_eq!(first, 0x3A, "QoS 1 with DUP");
        assert_eq!((id, &payload), (before[at].1, &before[at].2));
        reader.send(0x40, &id.to_be_bytes());
    }
    send_all(address, "t", &["d"]);
    let (first, id, payload) = delivery(&mut reader, "t");
    assert_eq!((first, payload.as_str()), (0x32, "d"));
    assert!(before.iter().all(|(_, used, _)| *used != id));
    stop(broker);
}

#[test]
fn m28_a_qos_2_publish_is_taken_once_whatever_is_resent() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    let (mut reader, _) = keep(address, "reader");
    reader.subscribe("t", 1);
    leave(reader);
    let (mut sender, _) = keep(address, "sender");
    sender.send_raw(&publish("t", 2, 7, b"once"));
    assert_eq!(sender.receive(), packet(0x50, &[0, 7]));
    stop(broker);
    let (broker, address) = start(folder.path());
    let (mut sender, present) = keep(address, "sender");
    assert!(present);
    let mut again = publish("t", 2, 7, b"once");
    again[0] |= 0x08;
    sender.send_raw(&again);
    assert_eq!(sender.receive(), packet(0x50, &[0, 7]));
    sender.send(0x62, &[0, 7]);
    assert_eq!(sender.receive(), packet(0x70, &[0, 7]));
    stop(broker);
    let (broker, address) = start(folder.path());
    let (mut sender, _) = keep(address, "sender");
    sender.send(0x62, &[0, 7]);
    assert_eq!(sender.receive(), packet(0x70, &[0, 7]), "PUBREL again");
    send_all(address, "t", &["end"]);
    let (mut reader, _) = keep(address, "reader");
    for expected in ["once", "end"] {
        assert_eq!(delivery(&mut reader, "t").2, expected);
    }
    stop(broker);
}

#[test]
fn m32_a_qos_2_delivery_goes_on_where_it_was() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    let (mut reader, _) = keep(address, "reader");
    reader.subscribe("t", 2);
    let (mut sender, _) = keep(address, "sender");
    for (payload, packet_id) in [(b"a", 1), (b"b", 2)] {
        sender.send_raw(&publish("t", 2, packet_id, payload));
    }
    let first = delivery(&mut reader, "t");
    let second = delivery(&mut reader, "t");
    assert_eq!((first.0, second.0), (0x34, 0x34));
    reader.send(0x50, &first.1.to_be_bytes());
    assert_eq!(reader.receive(), packet(0x62, &first.1.to_be_bytes()));
    stop(broker);
    let (broker, address) = start(folder.path());
    let (mut reader, _) = keep(address, "reader");
    let mut owed = [reader.receive(), reader.receive()];
    owed.sort_by_key(|packet| packet.first);
    assert_eq!(owed[0].first, 0x3C, "the second one is sent again with DUP");
    assert_eq!(
        owed[1],
        packet(0x62, &first.1.to_be_bytes()),
        "of the first one PUBREL is owed"
    );
    reader.send(0x70, &first.1.to_be_bytes());
    stop(broker);
}

/// Results wait up to 20 ms for company. Those of a session go with its end; those of a group have nothing to go with.
#[test]
fn m18_a_stop_writes_what_members_of_a_group_have_acknowledged() {
    let folder = folder();
    for round in 0..5 {
        let (broker, address) = start(folder.path());
        let (mut first, _) = keep(address, "first");
        first.subscribe("$share/g/t", 1);
        send_all(address, "t", &["taken"; 20]);
        for _ in 0..20 {
            assert_eq!(first.receive_publish().1, b"taken", "round {round}");
        }
        // Answered once the acknowledgements before it have been handled.
        first.subscribe("other", 1);
        stop(broker);
        let (broker, address) = start(folder.path());
        let (mut late, _) = keep(address, "late");
        late.subscribe("$share/g/t", 1);
        send_all(address, "t", &["new"]);
        assert_eq!(late.receive_publish().1, b"new", "round {round}");
        // Nobody is left in the group but the first.
        late.send(0xA2, &[&[0, 9][..], &text("$share/g/t")].concat());
        late.receive();
        leave(late);
        stop(broker);
    }
}

/// A kept session that waits for wills, and is away.
fn watch_wills(address: SocketAddr) {
    let (mut watcher, _) = keep(address, "watcher");
    watcher.subscribe("will", 1);
    leave(watcher);
}

/// Session Expiry Interval.
const fn expires(seconds: u8) -> [u8; 5] {
    [0x11, 0, 0, 0, seconds]
}

/// A client whose connection is lost; with its session's expiry and its will's delay in seconds.
fn die(address: SocketAddr, client_id: &str, (expiry, delay): (u8, u8), payload: &str) {
    let mut will = vec![5, 0x18, 0, 0, 0, delay];
    will.extend(text("will"));
    will.extend(text(payload));
    let session = expires(expiry);
    drop(Client::open_session(
        address, client_id, 5, 0x0C, &session, &will,
    ));
}

#[test]
fn m26_a_delayed_will_of_a_lost_connection_outlives_the_broker() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    watch_wills(address);
    die(address, "dying", (100, 2), "gone");
    wait_until_away(&broker, "dying");
    stop(broker);
    let (broker, address) = start(folder.path());
    let (mut watcher, present) = keep(address, "watcher");
    assert!(present);
    assert_eq!(
        watcher.receive_publish(),
        ("will".to_owned(), b"gone".to_vec())
    );
    stop(broker);
}

/// They are due before the first partition has told the others whom its sessions are: those of all partitions wait for that.
#[test]
fn m26_wills_that_are_due_at_a_start_come_to_sessions_of_all_partitions() {
    const WILLS: u16 = 24;
    let folder = folder();
    let (broker, address) = start(folder.path());
    watch_wills(address);
    for number in 0..WILLS {
        let expiry = [1, 100][usize::from(number % 2)];
        let client_id = format!("dying-{number}");
        die(address, &client_id, (expiry, 1), &number.to_string());
        wait_until_away(&broker, &client_id);
    }
    stop(broker);
    thread::sleep(Duration::from_millis(1_200));
    let (broker, address) = start(folder.path());
    let (mut watcher, present) = keep(address, "watcher");
    assert!(present);
    let mut came: Vec<u16> = (0..WILLS)
        .map(|_| watcher.receive_publish().1)
        .map(|payload| String::from_utf8_lossy(&payload).parse().expect("a number"))
        .collect();
    came.sort_unstable();
    assert_eq!(came, (0..WILLS).collect::<Vec<_>>());
    stop(broker);
}

/// A will that waits at a start for what it goes by is owed: who comes back first does not take it back (v5 [MQTT-3.1.2-8]).
#[test]
fn m26_a_will_that_is_due_at_a_start_goes_though_its_client_comes_back() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    watch_wills(address);
    die(address, "dying", (100, 1), "gone");
    wait_until_away(&broker, "dying");
    stop(broker);
    thread::sleep(Duration::from_millis(1_200));
    let (broker, address) = start(folder.path());
    let (back, present) = Client::session(address, "dying", 5, KEEP, &expires(100));
    assert!(present);
    let (mut watcher, _) = keep(address, "watcher");
    assert_eq!(
        watcher.receive_publish(),
        ("will".to_owned(), b"gone".to_vec())
    );
    drop(back);
    stop(broker);
}

#[test]
fn m26_sessions_and_messages_expire_while_the_broker_is_away() {
    let folder = folder();
    let (broker, address) = start(folder.path());
    let (short, _) = Client::session(address, "short", 5, KEEP, &expires(1));
    let (mut long, _) = Client::session(address, "long", 5, KEEP, &expires(100));
    long.send(0x82, &[&[0, 1, 0][..], &text("t"), &[1]].concat());
    assert_eq!(long.receive().first, 0x90);
    drop(short);
    drop(long);
    let mut sender = Client::connect_with(address, "sender", 5, 0x02, &[]);
    for (seconds, payload) in [(1, "short"), (100, "long")] {
        let properties = [5, 0x02, 0, 0, 0, seconds];
        let body = [
            &text("t")[..],
            &[0, seconds],
            &properties,
            payload.as_bytes(),
        ]
        .concat();
        sender.send(0x32, &body);
        assert_eq!(sender.receive().first, 0x40);
    }
    stop(broker);
    thread::sleep(Duration::from_millis(1_500));
    let (broker, address) = start(folder.path());
    let (_, present) = Client::session(address, "short", 5, KEEP, &expires(1));
    assert!(!present, "its second is over");
    let (mut long, present) = Client::session(address, "long", 5, KEEP, &expires(100));
    assert!(present);
    let Packet { body, .. } = long.receive();
    assert!(
        body.ends_with(b"long"),
        "the other one has expired: {body:?}"
    );
    stop(broker);
}

/// With small segments the log goes round several times: what is read back at the end was in checkpoints and in live records.
#[test]
fn m42_checkpoints_free_the_log_and_a_start_reads_them() {
    let folder = folder();
    let settings = ["sys.interval=0s", "log.checkpoint_bytes=2MiB"];
    let open = || {
        let broker = broker_on(folder.path(), 2, &settings);
        let address = broker.addresses()[0];
        (broker, address)
    };
    let (broker, address) = open();
    for name in ["absent-1", "absent-2"] {
        let (mut absent, _) = keep(address, name);
        absent.subscribe(name, 1);
        leave(absent);
    }
    send_all(address, "absent-1", &["first", "second"]);
    let (mut busy, _) = keep(address, "busy");
    busy.subscribe("busy", 1);
    let payload = "x".repeat(4_000);
    for _ in 0..60 {
        send_all(address, "busy", &[payload.as_str(); 50]);
        for _ in 0..50 {
            busy.receive_publish();
        }
    }
    send_all(address, "absent-2", &["last"]);
    leave(busy);
    let summary = stop(broker);
    assert!(counter(&summary, "checkpoints") >= 2, "{summary:?}");
    assert!(
        counter(&summary, "log_recycled_segments") >= 2,
        "{summary:?}"
    );
    let files = std::fs::read_dir(folder.path().join("log"))
        .expect("it is there")
        .count();
    assert!(
        files <= 16,
        "{files} segments of 1 MiB after 12 MiB of messages"
    );
    for _ in 0..2 {
        let (broker, address) = open();
        for (name, expected) in [
            ("absent-1", &["first", "second"][..]),
            ("absent-2", &["last"]),
        ] {
            let (mut absent, present) = keep(address, name);
            assert!(present);
            for payload in expected {
                assert_eq!(delivery(&mut absent, name).2, *payload);
            }
        }
        stop(broker);
    }
}

/// Entries that a start found to apply.
fn to_apply(broker: &Broker) -> usize {
    let found = broker.recovered().expect("the log was read").counters();
    let behind = found.into_iter().find(|it| it.0 == "entries_to_apply");
    behind.expect("a report says it").1 as usize
}

/// All that classes can make relaxed is.
const RELAXED: &str = r##"class=[{ filter = "#", class = "relaxed" }]"##;

/// An orderly stop leaves the next start little to apply, whatever is promised; a stop with little to save saves nothing.
#[test]
fn m42_a_stop_saves_what_the_next_start_would_apply() {
    for classes in ["class=[]", RELAXED] {
        let folder = folder();
        let settings = ["sys.interval=0s", classes];
        let broker = broker_on(folder.path(), 2, &settings);
        let address = broker.addresses()[0];
        let (mut absent, _) = keep(address, "absent");
        absent.subscribe("t", 1);
        leave(absent);
        let payload = "z".repeat(1_000);
        for _ in 0..200 {
            send_all(address, "t", &[payload.as_str()]);
        }
        assert_eq!(counter(&stop(broker), "checkpoints"), 1);
        let broker = broker_on(folder.path(), 2, &settings);
        let left = to_apply(&broker);
        assert!(left < 100, "{left} entries are left of more than 200");
        let (mut absent, present) = keep(broker.addresses()[0], "absent");
        assert!(present);
        for _ in 0..200 {
            assert_eq!(absent.receive_publish().1, payload.as_bytes());
        }
        leave(absent);
        assert_eq!(counter(&stop(broker), "checkpoints"), 0, "there is little");
    }
}

/// Acknowledged once written: the end of the process loses nothing, and checkpoints wait for the sync.
#[test]
fn m1_what_was_written_is_there_after_the_process() {
    let folder = folder();
    let settings = [RELAXED, "log.checkpoint_bytes=1MiB", "sys.interval=0s"];
    let broker = broker_on(folder.path(), 2, &settings);
    let address = broker.addresses()[0];
    let (mut absent, _) = keep(address, "absent");
    absent.subscribe("t", 1);
    leave(absent);
    let payload = "y".repeat(2_000);
    for _ in 0..40 {
        send_all(address, "t", &[payload.as_str(); 50]);
    }
    // A checkpoint hears of the sync with a later answer.
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(120));
        send_all(address, "t", &[payload.as_str()]);
    }
    thread::sleep(Duration::from_millis(120));
    let counters = stop(broker).counters();
    assert!(
        counters.iter().any(|(name, _)| name == "checkpoints"),
        "{counters:?}"
    );
    let broker = broker_on(folder.path(), 2, &settings);
    let (mut absent, present) = keep(broker.addresses()[0], "absent");
    assert!(present);
    for _ in 0..40 * 50 + 5 {
        assert_eq!(absent.receive_publish().1, payload.as_bytes());
    }
    stop(broker);
}

#[test]
fn m13_what_nobody_must_keep_never_touches_the_disk() {
    let records = |work: fn(SocketAddr)| {
        let folder = folder();
        let (broker, address) = start(folder.path());
        work(address);
        let records = counter(&stop(broker), "log_records");
        assert!(records > 0, "elections are written");
        records
    };
    let nothing = records(|_| {});
    let clean = records(|address| {
        let mut reader = Client::connect(address, "reader");
        reader.subscribe("t/#", 1);
        let mut sender = Client::connect(address, "sender");
        for qos in [0, 1, 2] {
            sender.send_raw(&publish("t/x", qos, 5, b"x"));
            assert_eq!(reader.receive_publish().1, b"x");
        }
        sender.send_raw(&publish("nobody", 1, 6, b"x"));
        leave(reader);
        leave(sender);
    });
    assert_eq!(clean, nothing);
    let kept = records(|address| leave(keep(address, "kept").0));
    assert!(
        kept > nothing,
        "a session that outlives its connection does"
    );
}
