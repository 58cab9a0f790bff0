//! Classes by filter (M1): what each keeps, what touches the disk, and what a change of the settings does.

use std::net::SocketAddr;
use std::path::Path;

use crate::support::sessions::{folder, keep, leave, stop};
use crate::support::{Client, broker_on, counter, publish};
use courser_broker::Broker;

const CLASSES: &str =
    r#"class=[{ filter = "r/#", class = "relaxed" }, { filter = "v/#", class = "volatile" }]"#;

fn start(folder: &Path, classes: &str) -> (Broker, SocketAddr) {
    let broker = broker_on(folder, 2, &["sys.interval=0s", classes]);
    let address = broker.addresses()[0];
    (broker, address)
}

fn absent(address: SocketAddr, client_id: &str) {
    let (mut client, present) = keep(address, client_id);
    assert!(!present, "{client_id} is new");
    client.subscribe("t/#", 2);
    leave(client);
}

/// One message of QoS 1 and one of QoS 2, by a publisher of this name.
fn send(address: SocketAddr, name: &str, packet_id: u16, payload: &str) {
    let (mut publisher, _) = keep(address, name);
    publisher.send_raw(&publish("t/1", 1, packet_id, payload.as_bytes()));
    assert_eq!(publisher.receive().first, 0x40);
    let id = (packet_id + 1).to_be_bytes();
    publisher.send_raw(&publish("t/2", 2, packet_id + 1, payload.as_bytes()));
    assert_eq!(publisher.receive().first, 0x50);
    publisher.send(0x62, &id);
    assert_eq!(publisher.receive().first, 0x70);
    leave(publisher);
}

fn retain(address: SocketAddr, topic: &str) {
    let mut publisher = Client::connect(address, "retainer");
    let mut retained = publish(topic, 1, 9, topic.as_bytes());
    retained[0] |= 1;
    publisher.send_raw(&retained);
    assert_eq!(publisher.receive().first, 0x40);
    leave(publisher);
}

/// What waits for a session: payloads of `t/1` and of `t/2`, each in order.
fn drain(address: SocketAddr, client_id: &str, messages: usize) -> Vec<(String, String)> {
    let (mut client, present) = keep(address, client_id);
    assert!(present, "the session of {client_id} is there");
    let mut got = Vec::new();
    while got.len() < messages {
        let packet = client.receive();
        if packet.first == 0x62 {
            client.send(0x70, &packet.body);
            continue;
        }
        assert_eq!(packet.first & 0xF0, 0x30, "{packet:?}");
        let topic = String::from_utf8(packet.body[2..5].to_vec()).expect("it was text");
        let payload = String::from_utf8(packet.body[7..].to_vec()).expect("it was text");
        let answer = match packet.first >> 1 & 3 {
            1 => 0x40,
            _ => 0x50,
        };
        client.send(answer, &packet.body[5..7]);
        got.push((topic, payload));
    }
    got.sort();
    leave(client);
    got
}

fn retained(address: SocketAddr) -> Vec<String> {
    let mut client = Client::connect(address, "reader");
    client.subscribe("+/kept", 1);
    let mut got: Vec<String> = (0..3).map(|_| client.receive_publish().0).collect();
    got.sort();
    leave(client);
    got
}

#[test]
fn m1_each_class_keeps_what_it_promises() {
    let folder = folder();
    let (broker, address) = start(folder.path(), CLASSES);
    let sessions = ["d/1", "r/1", "v/1"];
    for client_id in sessions {
        absent(address, client_id);
    }
    for topic in ["d/kept", "r/kept", "v/kept"] {
        retain(address, topic);
    }
    let mut expected = Vec::new();
    for (publisher, packet_id) in [("d/pub", 1), ("r/pub", 3), ("v/pub", 5)] {
        send(address, publisher, packet_id, publisher);
        expected.push(("t/1".to_owned(), publisher.to_owned()));
        expected.push(("t/2".to_owned(), publisher.to_owned()));
    }
    expected.sort();
    // Within the process all are the same.
    absent(address, "v/2");
    send(address, "d/pub", 7, "late");
    let late = [("t/1", "late"), ("t/2", "late")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(drain(address, "v/2", 2), late);
    expected.extend(late);
    expected.sort();
    assert_eq!(drain(address, "v/1", 8), expected);
    assert_eq!(retained(address), ["d/kept", "r/kept", "v/kept"]);
    stop(broker);
    let (broker, address) = start(folder.path(), CLASSES);
    assert_eq!(drain(address, "d/1", 8), expected);
    assert_eq!(drain(address, "r/1", 8), expected);
    let (client, present) = keep(address, "v/1");
    assert!(!present, "nothing volatile outlives the process");
    leave(client);
    // The forwards of a volatile publisher begin anew and are no repeats of those before (M19).
    send(address, "v/pub", 11, "again");
    let again = [("t/1", "again"), ("t/2", "again")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(drain(address, "d/1", 2), again);
    assert_eq!(drain(address, "r/1", 2), again);
    stop(broker);
}

#[test]
fn m1_what_is_volatile_never_touches_the_disk() {
    let records = |work: fn(SocketAddr)| {
        let folder = folder();
        let (broker, address) = start(folder.path(), CLASSES);
        work(address);
        counter(&stop(broker), "log_records")
    };
    let nothing = records(|_| {});
    let volatile = records(|address| {
        absent(address, "v/1");
        retain(address, "v/kept");
        send(address, "v/pub", 1, "x");
        drain(address, "v/1", 2);
    });
    assert_eq!(volatile, nothing);
    assert!(records(|address| absent(address, "r/1")) > nothing);
}

/// A class that is changed, or taken away, moves nothing: what is there stays, is found under its name, and is there once.
#[test]
fn m1_what_was_kept_under_another_class_stays_where_it_is() {
    let folder = folder();
    let none = "class=[]";
    let all =
        r#"class=[{ filter = "d/#", class = "relaxed" }, { filter = "r/#", class = "volatile" }]"#;
    let (broker, address) = start(folder.path(), CLASSES);
    absent(address, "d/1");
    absent(address, "r/1");
    retain(address, "d/kept");
    retain(address, "r/kept");
    stop(broker);
    for (classes, packet_id) in [(none, 1), (all, 3), (CLASSES, 5)] {
        let (broker, address) = start(folder.path(), classes);
        send(address, "pub", packet_id, classes);
        let expected =
            [("t/1", classes), ("t/2", classes)].map(|(a, b)| (a.to_owned(), b.to_owned()));
        for client_id in ["d/1", "r/1"] {
            assert_eq!(drain(address, client_id, 2), expected, "{classes}");
        }
        retain(address, "d/kept");
        retain(address, "v/kept");
        assert_eq!(retained(address), ["d/kept", "r/kept", "v/kept"]);
        stop(broker);
    }
}
