//! A data folder with damage: what is whole is served, what is not is refused or stops, and both end when the operator says so
//! (M39, M44).

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::support::sessions::{KEEP, leave};
use crate::support::{Client, Packet, broker, broker_on, counter, publish, text};
use courser_broker::{Accepted, Broker, Fault, Finding, NodeState, Status, Verb, examine, repair};
use courser_engine::{AsideFilters, LostStream};

mod lasting;

/// 5.0: "server unavailable", "quota exceeded" and others; 3.1.1: 3.
const UNAVAILABLE: u8 = 0x88;

fn start(folder: &Path) -> Broker {
    // Checkpoints as often as the settings allow.
    broker_on(folder, 2, &["sys.interval=0s", "log.checkpoint_bytes=1MiB"])
}

/// Starts, does something, and stops.
fn run<R>(folder: &Path, act: impl FnOnce(&Broker) -> R) -> R {
    let broker = start(folder);
    let result = act(&broker);
    broker.stop().expect("nothing failed");
    result
}

/// Why a folder is not served.
fn refusal(folder: &Path) -> String {
    let path = format!("data.path={}", folder.display());
    let settings = ["data.store=disk", "log.segment_bytes=1MiB", &path];
    let broker = broker(2, &settings, |_| {});
    while !matches!(broker.status(), Status::Failed(_)) {
        assert!(!matches!(broker.status(), Status::Serving), "it is served");
        thread::sleep(Duration::from_millis(1));
    }
    broker.stop().expect_err("it has failed").to_string()
}

fn keep(broker: &Broker, client_id: &str) -> (Client, bool) {
    Client::session(broker.addresses()[0], client_id, 4, KEEP, &[])
}

/// A session that waits for a topic of its own.
fn absent(broker: &Broker, client_id: &str) {
    let (mut client, _) = keep(broker, client_id);
    client.subscribe(&format!("to/{client_id}"), 1);
    leave(client);
}

/// The code of the PUBACK of a 5.0 client.
fn send(broker: &Broker, topic: &str, payload: &[u8]) -> u8 {
    let address = broker.addresses()[0];
    // Without a client id: it may be anywhere. One whose home is set aside is refused, and another one is tried.
    for number in 0.. {
        let mut client = Client::open(address);
        let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 5, 0x02, 0, 60, 0];
        body.extend(text(&format!("publisher-{number}")));
        client.send(0x10, &body);
        let connack = client.receive();
        if connack.body[1] == UNAVAILABLE {
            continue;
        }
        assert_eq!(connack.body[1], 0);
        let mut body = text(topic);
        body.extend([0, 1, 0]);
        body.extend_from_slice(payload);
        client.send(0x32, &body);
        let Packet { first, body } = client.receive();
        assert_eq!(first, 0x40);
        return body.get(2).copied().unwrap_or(0);
    }
    unreachable!("most partitions serve")
}

/// CONNACK of a client that keeps its session.
fn connack(broker: &Broker, client_id: &str) -> u8 {
    let mut client = Client::open(broker.addresses()[0]);
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, KEEP, 0, 60];
    body.extend(text(client_id));
    client.send(0x10, &body);
    client.receive().body[1]
}

/// What waits for a session, up to `count` messages.
fn waiting(broker: &Broker, client_id: &str, count: usize) -> Vec<String> {
    let (mut client, present) = keep(broker, client_id);
    assert!(present);
    let got = (0..count).map(|_| {
        let (_, payload) = client.receive_publish();
        String::from_utf8(payload).expect("it was text")
    });
    let got = got.collect();
    client.send(0xC0, &[]);
    assert_eq!(client.receive().first, 0xD0, "and nothing more");
    leave(client);
    got
}

/// Changes a bit of each place in the segments that holds these bytes.
fn rot(folder: &Path, mark: &str) {
    let mut places = 0;
    for file in fs::read_dir(folder.join("log")).expect("there is a log") {
        let path = file.expect("it can be listed").path();
        let mut bytes = fs::read(&path).expect("it can be read");
        let found: Vec<usize> = bytes
            .windows(mark.len())
            .enumerate()
            .filter(|(_, window)| *window == mark.as_bytes())
            .map(|(at, _)| at)
            .collect();
        places += found.len();
        for &at in &found {
            bytes[at] ^= 1;
        }
        if !found.is_empty() {
            fs::write(&path, bytes).expect("there is room");
        }
    }
    assert!(places > 0, "the log holds {mark:?}");
}

/// Eight absent sessions, each with three messages, and a retained message each.
const CLIENTS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn fill(folder: &Path) {
    run(folder, |broker| {
        for client in CLIENTS {
            absent(broker, client);
            for number in 0..3 {
                let payload = format!("message-{number}-for-{client}");
                let topic = format!("to/{client}");
                assert_eq!(send(broker, &topic, payload.as_bytes()), 0);
            }
        }
    });
}

fn all_of(client: &str) -> Vec<String> {
    (0..3)
        .map(|number| format!("message-{number}-for-{client}"))
        .collect()
}

/// Sessions that are let in, and those that are not.
fn split(broker: &Broker) -> (Vec<&'static str>, Vec<&'static str>) {
    CLIENTS
        .into_iter()
        .partition(|client| connack(broker, client) == 0)
}

#[test]
fn m44_a_damaged_partition_is_set_aside_and_ends_by_an_accepted_loss() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    // The second message of one session: the third is behind it in the same partition.
    rot(folder, "message-1-for-c");
    let state = run(folder, |broker| {
        let state = broker.state();
        let (served, refused) = split(broker);
        assert!(refused.contains(&"c") && served.len() > CLIENTS.len() / 2);
        for client in served {
            assert_eq!(waiting(broker, client, 3), all_of(client));
            assert_eq!(send(broker, &format!("to/{client}"), b"later"), 0);
        }
        let code = send(broker, "to/c", b"later");
        assert!(code >= 0x80, "nobody would store it: {code:#04x}");
        assert_eq!(send(broker, "to/nobody", b"x"), 0x10);
        state
    });
    assert_eq!(state.set_aside.len(), 1);
    let aside = &state.set_aside[0];
    let Fault::Entries(lost) = &aside.fault else {
        panic!("an entry is lost: {aside:?}");
    };
    // The third message at least is whole.
    let messages = lost.behind.messages;
    assert!(messages >= 1 && lost.behind.entries >= messages);
    let goes = format!(" with {messages} messages behind it go");
    let said = aside.fault.to_string();
    assert!(
        said.contains(" is damaged, ") && said.contains(&goes),
        "{said}"
    );
    assert!(aside.sessions >= 1 && aside.filters == AsideFilters::Known);
    // It is so at every start, and said by who looks into the folder.
    let examined = examine(folder).expect("it can be examined");
    assert!(matches!(&examined.findings[..], [Finding::Aside(found)] if found == aside));
    assert_eq!(run(folder, |broker| broker.state()), state);
    let ordered = repair(folder, Verb::AcceptLoss(None)).expect("it is damaged");
    assert_eq!(ordered.orders, examined.findings[0].ends_by());
    let broker = start(folder);
    assert_eq!(split(&broker).1, [""; 0]);
    // The first is there; the second and what came behind it are lost.
    assert_eq!(waiting(&broker, "c", 1), all_of("c")[..1]);
    assert_eq!(send(&broker, "to/c", b"new"), 0);
    let state = broker.state();
    assert!(state.set_aside.is_empty());
    assert_eq!(state.accepted, [Accepted::Entries(aside.partition, said)]);
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "dropped_damaged"), messages);
    // The damage is still in the file, and is nobody's any more.
    let state = run(folder, |broker| {
        assert_eq!(waiting(broker, "c", 1), ["new"]);
        broker.state()
    });
    assert_eq!(state, NodeState::default());
    let examined = examine(folder).expect("it can be examined");
    assert_eq!(examined.findings, []);
}

/// Enough for checkpoints of all partitions: what was stored before is below them.
fn fill_log(folder: &Path) {
    let payload = vec![b'.'; 64 << 10];
    run(folder, |broker| {
        for client in CLIENTS {
            absent(broker, &format!("{client}-filler"));
        }
        for round in 0..12 {
            for client in CLIENTS {
                let topic = format!("to/{client}-filler");
                assert_eq!(send(broker, &topic, &payload), 0, "{round}");
            }
            for client in CLIENTS {
                let (mut reader, _) = keep(broker, &format!("{client}-filler"));
                assert_eq!(reader.receive_publish().1, payload);
                leave(reader);
            }
        }
    });
}

#[test]
fn m44_a_damaged_record_below_the_checkpoint_stops_its_stream_only() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    fill_log(folder);
    let findings = examine(folder).expect("it can be examined").findings;
    assert_eq!(findings, []);
    rot(folder, "message-1-for-c");
    let examined = examine(folder).expect("it can be examined");
    let [Finding::Stopped { streams, .. }] = &examined.findings[..] else {
        panic!("one stream stops: {examined:?}");
    };
    assert_eq!(streams[0].stream, LostStream::Session("c".into()));
    let state = run(folder, |broker| {
        assert_eq!(split(broker).1, [""; 0], "everybody is let in");
        // Up to the damaged one, and what comes now waits behind it.
        assert_eq!(waiting(broker, "c", 1), all_of("c")[..1]);
        assert_eq!(send(broker, "to/c", b"new"), 0);
        assert_eq!(waiting(broker, "c", 0), [""; 0]);
        assert_eq!(waiting(broker, "d", 3), all_of("d"));
        broker.state()
    });
    assert_eq!(state.stopped[..], streams[..]);
    assert_eq!((state.stopped_places, state.set_aside.len()), (1, 0));
    repair(folder, Verb::AcceptLoss(Some(streams[0].partition))).expect("it is damaged");
    let state = run(folder, |broker| {
        assert_eq!(waiting(broker, "c", 2), ["message-2-for-c", "new"]);
        broker.state()
    });
    assert!(state.stopped.is_empty());
    let stream = LostStream::Session("c".into());
    let accepted = Accepted::Records(streams[0].partition, stream, 1);
    assert_eq!(state.accepted, [accepted]);
    let findings = examine(folder).expect("it can be examined").findings;
    assert_eq!(findings, []);
}

/// The files of checkpoints: of partitions with names, and of partition 0.
fn checkpoints(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let files = fs::read_dir(folder.join("checkpoints")).expect("there are checkpoints");
    let files = files.map(|file| file.expect("it can be listed").path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == "ckp"));
    files.partition(|path| {
        let name = path.file_name().expect("it has a name").to_string_lossy();
        !name.starts_with("0-")
    })
}

#[test]
fn i12_without_the_checkpoint_of_partition_0_nothing_is_served_before_that_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    fill_log(folder);
    let (_, of_metadata) = checkpoints(folder);
    let [checkpoint] = &of_metadata[..] else {
        panic!("there is one, although there are no users: {of_metadata:?}");
    };
    let mut bytes = fs::read(checkpoint).expect("it can be read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(checkpoint, bytes).expect("there is room");
    for _ in 0..2 {
        let refused = refusal(folder);
        assert!(
            refused.contains("partition 0 (users, roles and limits, if there were any)")
                && refused.contains("courser repair"),
            "{refused}"
        );
    }
    let examined = examine(folder).expect("it can be examined");
    let [Finding::Aside(aside)] = &examined.findings[..] else {
        panic!("one partition is damaged: {examined:?}");
    };
    let text = aside.to_string();
    assert!(text.contains("nothing is served without it"), "{text}");
    repair(folder, Verb::AcceptLoss(None)).expect("it is damaged");
    let state = run(folder, |broker| {
        assert_eq!(split(broker).1, [""; 0], "everybody is let in");
        assert_eq!(waiting(broker, "d", 3), all_of("d"));
        broker.state()
    });
    let [Accepted::State(id, _)] = state.accepted[..] else {
        panic!("that was accepted: {state:?}");
    };
    assert_eq!(id.0, 0);
    // Once: what comes after it is kept.
    let state = run(folder, |broker| broker.state());
    assert_eq!(state, NodeState::default());
}

/// Neither the file nor what is wrong with it was named: where somebody had put it there, there was nothing to begin with but to accept the loss.
#[test]
fn m44_a_start_refused_because_of_partition_0_names_the_file_and_its_damage() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    run(folder, |broker| absent(broker, "a"));
    let files = fs::read_dir(folder.join("log")).expect("there is a log");
    let paths = files.map(|file| file.expect("it can be listed").path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|it| it == "seg"))
        .collect();
    paths.sort();
    let [first, ready, others @ ..] = &paths[..] else {
        panic!("one was written to and some are ready: {paths:?}");
    };
    let named = |path: &Path| {
        let name = path.file_name().expect("it has a name");
        format!("DATA/log/{}: ", name.display())
    };
    // One that was written to.
    let bytes = fs::read(first).expect("it can be read");
    fs::write(first, []).expect("it can be emptied");
    let refused = refusal(folder);
    assert!(refused.contains("partition 0 (users,"), "{refused}");
    assert!(refused.contains(&named(first)), "{refused}");
    assert!(refused.contains("the file was cut short"), "{refused}");
    assert!(!refused.contains("move it away"), "{refused}");
    // One of which nothing says that it was.
    fs::write(first, bytes).expect("there is room");
    fs::write(ready, []).expect("it can be emptied");
    for other in others {
        fs::remove_file(other).expect("it can be removed");
    }
    let refused = refusal(folder);
    assert!(refused.contains("partition 0 (users,"), "{refused}");
    assert!(refused.contains(&named(ready)), "{refused}");
    assert!(
        refused.contains("move it away and start again"),
        "{refused}"
    );
    fs::remove_file(ready).expect("it can be removed");
    run(folder, |broker| assert!(keep(broker, "a").1));
}

#[test]
fn m39_filters_of_a_partition_that_is_set_aside_can_be_released() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    fill_log(folder);
    // Its checkpoint is lost, and with it the state.
    let examined = examine(folder).expect("it can be examined");
    assert!(examined.findings.is_empty());
    let (of_names, _) = checkpoints(folder);
    fs::remove_file(&of_names[0]).expect("it can be removed");
    let partition = run(folder, |broker| {
        let state = broker.state();
        assert_eq!(state.set_aside.len(), 1);
        assert_eq!(state.set_aside[0].filters, AsideFilters::Unknown);
        assert!(send(broker, "anything", b"x") >= 0x80, "M39");
        state.set_aside[0].partition
    });
    let other = courser_contract::PartitionId(1 + partition.0 % 16);
    assert!(repair(folder, Verb::Release(other)).is_err());
    repair(folder, Verb::Release(partition)).expect("it is set aside");
    run(folder, |broker| {
        assert_eq!(send(broker, "anything", b"x"), 0x10);
        assert_eq!(broker.state().set_aside.len(), 1);
    });
    repair(folder, Verb::AcceptLoss(None)).expect("it is damaged");
    for _ in 0..2 {
        run(folder, |broker| {
            assert!(broker.state().set_aside.is_empty());
            assert_eq!(split(broker).1, [""; 0]);
            for client in CLIENTS {
                absent(broker, client);
                assert_eq!(send(broker, &format!("to/{client}"), b"again"), 0);
            }
        });
    }
    let findings = examine(folder).expect("it can be examined").findings;
    assert_eq!(findings, []);
}

#[test]
fn m44_of_a_state_that_is_lost_it_is_said_that_nobody_knows_what_it_had() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    fill(folder);
    fill_log(folder);
    let (of_names, _) = checkpoints(folder);
    let name = of_names[0].file_name().and_then(|name| name.to_str());
    let partition = name.and_then(|name| name.split('-').next());
    let name = format!("{}.manifest", partition.expect("its partition"));
    let path = folder.join("checkpoints").join(&name);
    let mut bytes = fs::read(&path).expect("it can be read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, bytes).expect("there is room");
    let file = format!("DATA/checkpoints/{name} ");
    let examined = examine(folder).expect("it can be examined");
    let [Finding::Aside(aside)] = &examined.findings[..] else {
        panic!("its partition is set aside: {examined:?}");
    };
    let served = run(folder, |broker| broker.state().set_aside);
    assert_eq!(&served[..], std::slice::from_ref(aside));
    let said = aside.to_string();
    assert!(
        !aside.knows_what_it_has() && !said.contains(" 0 "),
        "{said}"
    );
    assert!(said.contains("not known how many"), "{said}");
    assert!(said.contains(&file), "{said}");
    assert!(
        said.contains("all publishes with QoS 1 and 2 are refused"),
        "{said}"
    );
}

#[test]
fn a_folder_in_use_is_not_repaired() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let path = folder.path();
    let nothing = path.join("nothing");
    assert!(examine(&nothing).is_err() && !nothing.exists());
    run(path, |_| {
        let text = examine(path).expect_err("it is served").to_string();
        assert!(text.contains("in use"), "{text}");
    });
    let text = repair(path, Verb::Skip(courser_contract::PartitionId(1)));
    assert!(text.is_err(), "there is nothing to skip");
    let _ = publish("t", 0, 0, b"");
}
