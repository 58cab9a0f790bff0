use super::*;

pub(crate) fn plan() -> Plan {
    Plan {
        target: Target {
            layers: crate::Layers::default(),
            endpoint: Options::default().endpoint,
            version: ProtocolVersion::V5,
            username: None,
            password: None,
            answer_max: std::time::Duration::from_secs(30),
        },
        prefix: "bench".into(),
        client_prefix: "b".into(),
        publishers: 1,
        subscribers: 1,
        topics: 1,
        topic: None,
        qos: QoS::AtLeastOnce,
        subscribe_qos: QoS::AtLeastOnce,
        payload_bytes: 64,
        window: 10,
        in_flight_max: 0,
        pattern: Pattern::Split,
        share: None,
        retain: false,
        persistent_subscribers: false,
        persistent_publishers: false,
        pace: Pace::Closed,
        stop: Stop::Count(1),
        warmup: Duration::ZERO,
        threads: Threads::One,
        drain_idle: Duration::from_secs(1),
        timeline: false,
    }
}

#[test]
fn topics_are_divided_without_gap_or_overlap() {
    for (publishers, subscribers, topics) in
        [(1, 1, 1), (3, 2, 7), (8, 8, 8), (1, 50, 1), (2, 7, 3)]
    {
        let plan = Plan {
            publishers,
            subscribers,
            topics,
            ..plan()
        };
        let mut streams: Vec<_> = (0..publishers).flat_map(|i| plan.streams_of(i)).collect();
        streams.sort_unstable();
        assert_eq!(streams, (0..plan.streams()).collect::<Vec<_>>());
        let deliveries: u64 = (0..topics).map(|k| plan.fan_out(k)).sum();
        let filters: usize = (0..subscribers).map(|j| plan.filters_of(j).len()).sum();
        assert_eq!(
            deliveries, filters as u64,
            "{publishers} {subscribers} {topics}"
        );
        assert!((0..topics).all(|k| plan.fan_out(k) > 0 || subscribers > topics));
    }
}

#[test]
fn a_shared_group_gets_each_message_once() {
    let plan = Plan {
        subscribers: 4,
        share: Some("g".into()),
        ..plan()
    };
    assert_eq!(plan.fan_out(0), 1);
    assert_eq!(plan.filters_of(3), ["$share/g/bench/0"]);
}

#[test]
fn what_cannot_run_is_refused() {
    let rate = |per_second| {
        Plan {
            pace: Pace::Open {
                per_second,
                from: Begin::Due,
            },
            ..plan()
        }
        .check()
    };
    assert_eq!(rate(0.0), Err(PlanError::Rate));
    assert_eq!(rate(f64::NAN), Err(PlanError::Rate));
    assert_eq!(rate(10.0), Ok(()));
    assert_eq!(
        Plan {
            topics: 0,
            ..plan()
        }
        .check(),
        Err(PlanError::Nothing)
    );
    assert_eq!(
        Plan {
            window: 0,
            ..plan()
        }
        .check(),
        Err(PlanError::Window)
    );
}

#[test]
fn topics_are_called_as_is_said() {
    let named = |topic: &str, topics, pattern| Plan {
        topic: Some(topic.to_owned()),
        topics,
        pattern,
        ..plan()
    };
    let plan = named("site/%i/state-%i", 3, Pattern::Split);
    assert_eq!(plan.check(), Ok(()));
    let topics: Vec<_> = (0..3).map(|k| plan.topic(k)).collect();
    assert_eq!(
        topics,
        ["site/1/state-1", "site/2/state-2", "site/3/state-3"]
    );
    assert_eq!(plan.filters_of(0), topics);
    let all = named("site/%i/state", 3, Pattern::Wildcard);
    assert_eq!(all.check(), Ok(()));
    assert_eq!(all.filters_of(0), ["site/+/state"]);
    for (topic, topics, pattern, error) in [
        ("site", 2, Pattern::Split, PlanError::Same),
        ("", 1, Pattern::Split, PlanError::Topic),
        ("site/#", 1, Pattern::Split, PlanError::Topic),
        ("+/%i", 2, Pattern::Split, PlanError::Topic),
        ("site/a%i", 2, Pattern::Wildcard, PlanError::NoWildcard),
    ] {
        assert_eq!(named(topic, topics, pattern).check(), Err(error), "{topic}");
    }
    assert_eq!(named("site", 1, Pattern::Split).check(), Ok(()));
}
