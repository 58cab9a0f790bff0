//! M50, with faults that the failpoints of this crate's unit tests plant.

use std::time::{Duration, Instant};

use courser_access::{Command, Role, RoleName};
use courser_contract::PartitionId;

use crate::shard::support::{Client, broker, broker_on, counter, publish};
use crate::{Accepted, Fault, Finding, Status, StopError, Summary, Verb, examine, repair};

fn panics(summary: &Summary) -> u64 {
    counter(summary, "fronts_panicked")
}

#[test]
fn m50_a_panic_in_a_front_ends_its_connection_only() {
    let broker = broker(2, &[], |_| {});
    let address = broker.addresses()[0];
    let mut others: Vec<Client> = (0..4)
        .map(|number| {
            let mut client = Client::connect(address, &format!("other-{number}"));
            client.subscribe("t", 1);
            client
        })
        .collect();
    // CleanSession 0: its home is a durable partition, which must hear that it is gone.
    for flags in [0x02, 0] {
        let mut bad = Client::connect_with(address, "bad", 4, flags, &[]);
        bad.send_raw(&publish("t", 1, 1, b"failpoint: front"));
        assert!(bad.is_closed());
    }
    let mut again = Client::connect_with(address, "bad", 4, 0, &[]);
    again.send_raw(&publish("t", 1, 1, b"sound"));
    assert_eq!(again.receive().first, 0x40);
    for client in &mut others {
        assert_eq!(client.receive_publish().1, b"sound");
    }
    let summary = broker.stop().expect("no shard failed");
    assert_eq!(panics(&summary), 2);
    assert_eq!(counter(&summary, "closed_panicked"), 2);
}

#[test]
fn m50_a_panic_within_a_delivery_leaves_the_other_receivers_theirs() {
    for qos in [0, 1] {
        let broker = broker(1, &[], |_| {});
        let address = broker.addresses()[0];
        let mut subscribers: Vec<Client> = ["a", "failpoint: delivery", "b"]
            .into_iter()
            .map(|client_id| {
                let mut client = Client::connect(address, client_id);
                client.subscribe("t", qos);
                client
            })
            .collect();
        let mut publisher = Client::connect(address, "publisher");
        for number in 0..3_u8 {
            publisher.send_raw(&publish("t", qos, u16::from(number) + 1, &[number]));
        }
        for number in 0..3 {
            assert_eq!(subscribers[0].receive_publish().1, [number]);
            assert_eq!(subscribers[2].receive_publish().1, [number]);
        }
        assert!(subscribers[1].is_closed());
        assert_eq!(panics(&broker.stop().expect("no shard failed")), 1);
    }
}

#[test]
fn m50_a_panic_in_a_partition_ends_the_process() {
    let broker = broker(1, &[], |_| {});
    let mut client = Client::connect(broker.addresses()[0], "client");
    client.subscribe("t", 1);
    client.send_raw(&publish("t", 1, 1, b"failpoint: partition"));
    let began = Instant::now();
    while !broker.has_failed() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the shard goes on"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(matches!(
        broker.stop(),
        Err(StopError::Panicked { shard: 0 })
    ));
}

/// Waits for the end of a shard by a panic.
fn panicked(broker: crate::Broker) {
    let began = Instant::now();
    while !broker.has_failed() {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "the shard goes on"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let stopped = broker.stop();
    assert!(
        matches!(stopped, Err(StopError::Panicked { .. })),
        "{stopped:?}"
    );
}

/// A broker on a folder that need not come to serve.
fn begin(folder: &std::path::Path) -> crate::Broker {
    let path = format!("data.path={}", folder.display());
    let settings = ["data.store=disk", "log.segment_bytes=1MiB", path.as_str()];
    broker(1, &settings, |_| {})
}

#[test]
fn m50_two_panics_at_one_entry_set_its_partition_aside() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let broker = broker_on(folder, 1, &[]);
    let address = broker.addresses()[0];
    let keep = |address| Client::connect_with(address, "absent", 4, 0, &[]);
    keep(address).subscribe("t", 1);
    let mut publisher = Client::connect(address, "publisher");
    publisher.send_raw(&publish("t", 1, 1, b"sound"));
    assert_eq!(publisher.receive().first, 0x40);
    publisher.send_raw(&publish("t", 1, 2, b"failpoint: apply"));
    panicked(broker);
    // The same entry again, as it is replayed.
    panicked(begin(folder));
    for verb in [None, Some(Verb::Retry)] {
        if let Some(verb) = verb {
            let partition = examine(folder).expect("a folder").findings[0].partition();
            repair(folder, verb(partition)).expect("it is set aside");
            // Forgotten: it takes two panics more.
            panicked(begin(folder));
            panicked(begin(folder));
        }
        let broker = broker_on(folder, 1, &[]);
        let state = broker.state();
        assert_eq!(state.set_aside.len(), 1);
        assert!(matches!(state.set_aside[0].fault, Fault::Apply(_)));
        assert_eq!(state.set_aside[0].queued, 1, "up to the entry before");
        let mut other = Client::connect(broker.addresses()[0], "elsewhere");
        other.subscribe("t", 0);
        broker.stop().expect("the others serve");
    }
    let partition = examine(folder).expect("a folder").findings[0].partition();
    let loss = repair(folder, Verb::AcceptLoss(Some(partition)));
    assert!(loss.is_err(), "nothing is lost");
    repair(folder, Verb::Skip(partition)).expect("it is set aside");
    for _ in 0..2 {
        let broker = broker_on(folder, 1, &[]);
        let state = broker.state();
        assert!(state.set_aside.is_empty());
        assert!(matches!(state.accepted[..], [Accepted::Skipped(id, _)] if id == partition));
        let mut absent = keep(broker.addresses()[0]);
        let packet = absent.receive();
        assert!(packet.body.ends_with(b"sound"), "{packet:?}");
        let summary = broker.stop().expect("nothing failed");
        let skipped = summary.counters().into_iter();
        let skipped = skipped.filter(|(name, _)| name == "log_entries_skipped");
        assert_eq!(skipped.map(|(_, count)| count).sum::<u64>(), 1);
    }
}

/// Lines of the file that notes panics, without the empty ones that keep room for more.
fn notes(folder: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("crash")).expect("it is there");
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(str::to_owned).collect()
}

/// The process ends with each of them (`courser`: 70); nothing but the note says to a later start that there was one.
#[test]
fn m50_each_panic_at_an_entry_leaves_a_note_of_it() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let broker = broker_on(folder, 1, &[]);
    let address = broker.addresses()[0];
    Client::connect_with(address, "absent", 4, 0, &[]).subscribe("t", 1);
    assert_eq!(notes(folder), [""; 0]);
    let mut publisher = Client::connect(address, "publisher");
    publisher.send_raw(&publish("t", 1, 1, b"failpoint: apply"));
    panicked(broker);
    let first = notes(folder);
    assert_eq!(first.len(), 1, "{first:?}");
    panicked(begin(folder));
    assert_eq!(notes(folder), [&*first[0], &*first[0]]);
    let examined = examine(folder).expect("a folder");
    let [Finding::Aside(aside)] = &examined.findings[..] else {
        panic!("its partition is set aside: {examined:?}");
    };
    let Fault::Apply(index) = aside.fault else {
        panic!("by its entry: {aside:?}");
    };
    assert_eq!(first[0], format!("apply {} {}", aside.partition.0, index.0));
}

/// Makes a role, if the shard lives for it.
fn put_role(broker: &crate::Broker, name: &str, topic: &str) -> bool {
    let name = RoleName::new(name).expect("a name");
    let rule = format!("allow all {topic}");
    let role = Role {
        rules: vec![rule.parse().expect("a rule")],
        ..Role::default()
    };
    let command = Command::PutRole(name, role);
    let patience = Duration::from_secs(10);
    broker.access().change_and_wait(command, patience).is_ok()
}

fn roles(broker: &crate::Broker) -> Vec<String> {
    let table = broker.access().table();
    table.roles().map(|(name, _)| name.to_string()).collect()
}

/// Without users and rights nothing is served: partition 0 is set aside by a start that is refused.
#[test]
fn m50_two_panics_at_one_entry_of_partition_0_refuse_the_start_until_it_is_retried_or_skipped() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let folder = folder.path();
    let broker = broker_on(folder, 1, &[]);
    assert!(put_role(&broker, "before", "t"));
    let revision = broker.access().table().revision();
    assert!(!put_role(&broker, "bad", "failpoint: apply"));
    panicked(broker);
    panicked(begin(folder));
    let metadata = PartitionId(0);
    for verb in [None, Some(Verb::Retry(metadata))] {
        if let Some(verb) = verb {
            repair(folder, verb).expect("it is set aside");
            panicked(begin(folder));
            panicked(begin(folder));
        }
        for _ in 0..2 {
            let broker = begin(folder);
            while !matches!(broker.status(), Status::Failed(_)) {
                assert!(!matches!(broker.status(), Status::Serving), "it is served");
                std::thread::sleep(Duration::from_millis(1));
            }
            let refused = broker.stop().expect_err("it has failed").to_string();
            assert!(
                refused.contains("partition 0") && refused.contains("panicked twice"),
                "{refused}"
            );
        }
        let examined = examine(folder).expect("a folder");
        let [Finding::Aside(aside)] = &examined.findings[..] else {
            panic!("partition 0 is set aside: {examined:?}");
        };
        assert!(matches!(aside.fault, Fault::Apply(_)));
        assert_eq!(aside.partition, metadata);
    }
    repair(folder, Verb::Skip(metadata)).expect("it is set aside");
    let mut there = vec!["before"];
    for after in ["after-1", "after-2"] {
        let broker = broker_on(folder, 1, &[]);
        assert!(
            matches!(broker.state().accepted[..], [Accepted::Skipped(id, _)] if id == metadata)
        );
        assert_eq!(roles(&broker), there);
        // Accounts are numbered by it.
        let at = broker.access().table().revision();
        assert_eq!(at, revision + there.len() as u64);
        assert!(put_role(&broker, after, "t"));
        there.insert(there.len() - 1, after);
        let summary = broker.stop().expect("nothing failed");
        let skipped = summary.counters().into_iter();
        let skipped = skipped.filter(|(name, _)| name == "log_entries_skipped");
        assert_eq!(skipped.map(|(_, count)| count).sum::<u64>(), 1);
    }
}
