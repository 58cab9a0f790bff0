//! Names and forms as Mosquitto 2.0.11 publishes them (seen with `mosquitto_sub -t '$SYS/#' -v`).

use super::*;

const MOSQUITTO: &str = "bytes/received bytes/sent clients/active clients/connected clients/disconnected clients/expired \
    clients/inactive clients/maximum clients/total heap/current heap/maximum messages/received messages/sent messages/stored \
    publish/bytes/received publish/bytes/sent publish/messages/dropped publish/messages/received publish/messages/sent \
    shared_subscriptions/count store/messages/bytes store/messages/count subscriptions/count uptime version";
const LOADS: &str = "bytes/received bytes/sent connections messages/received messages/sent publish/dropped publish/received \
    publish/sent sockets";

fn report(publishes: u64) -> ShardReport {
    let counters = Counters {
        publishes_received_by_qos: [publishes, 0, 0],
        ..Counters::default()
    };
    ShardReport {
        counters,
        ..ShardReport::default()
    }
}

#[test]
fn all_of_mosquittos_topics_are_published_and_no_others() {
    let mut expected: Vec<String> = MOSQUITTO
        .split_whitespace()
        .map(|name| format!("$SYS/broker/{name}"))
        .collect();
    expected.push("$SYS/broker/retained messages/count".to_owned());
    for load in LOADS.split_whitespace() {
        expected.extend(
            ["1min", "5min", "15min"].map(|span| format!("$SYS/broker/load/{load}/{span}")),
        );
    }
    expected.sort();
    let mut topics: Vec<String> = Values::default()
        .update(&ShardReport::default(), 0, 0, 10_000)
        .into_iter()
        .map(|(topic, _)| topic.to_owned())
        .collect();
    topics.sort();
    assert_eq!(topics, expected);
}

/// Beside Mosquitto 2.0.11 a shared subscription was in both counts, and the values themselves were missing in the one of retained messages.
#[test]
fn subscriptions_and_retained_messages_are_counted_as_mosquitto_does() {
    let mut report = report(0);
    report.held.subscriptions = 5;
    report.held.shared_subscriptions = 3;
    report.held.retained_messages = 2;
    let values = Values::default().update(&report, 0, 0, 10_000);
    let value = |name: &str| {
        let found = values.iter().find(|(topic, _)| topic.ends_with(name));
        found.map_or("none", |(_, value)| value)
    };
    assert_eq!(value("broker/subscriptions/count"), "2");
    assert_eq!(value("shared_subscriptions/count"), "3");
    let all = (2 + values.len()).to_string();
    assert_eq!(value("retained messages/count"), all);
}

#[test]
fn a_value_that_has_not_changed_is_not_published_again() {
    let mut values = Values::default();
    values.update(&report(0), 100, 0, 10_000);
    let changed = values.update(&report(0), 90, 10, 10_000);
    let expected = [
        ("$SYS/broker/uptime", "10 seconds"),
        ("$SYS/broker/heap/current", "90"),
    ];
    assert_eq!(
        changed,
        expected.map(|(topic, value)| (topic, value.to_owned()))
    );
}

#[test]
fn load_is_a_rate_a_minute_that_fades() {
    let mut load = Load::default();
    let at = |load: &Load, topic: &str| {
        load.values()
            .find(|(name, _)| *name == topic)
            .map(|(_, value)| value)
            .expect("it is a topic")
    };
    load.update(&report(100).counters, 60_000);
    let minute = at(&load, "$SYS/broker/load/publish/received/1min");
    assert!(
        (minute - 100.0 * (1.0 - (-1.0_f64).exp())).abs() < 1e-9,
        "{minute}"
    );
    assert!(at(&load, "$SYS/broker/load/publish/received/15min") < minute);
    load.update(&report(100).counters, 600_000);
    assert!(at(&load, "$SYS/broker/load/publish/received/1min") < 0.01);
}
