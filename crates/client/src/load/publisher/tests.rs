use courser_mqtt::codec::{Frame, Puback, Pubcomp, Pubrec, Rules, Split};

use super::super::plan::tests::plan;
use super::*;

fn publisher(plan: &Plan) -> Publisher {
    Publisher::new(
        plan,
        Arc::new(Templates::new(plan).expect("templates")),
        0,
        u16::MAX,
    )
}

fn publishes(plan: &Plan, mut bytes: &[u8]) -> Vec<(Option<u16>, String, Stamp)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let Ok(Split::Whole(frame)) = Frame::split(bytes, 1 << 20) else {
            panic!("a cut packet")
        };
        let rules = Rules::from_client(plan.target.version);
        let Ok(Packet::Publish(publish)) = Packet::decode(&frame, &rules) else {
            panic!("no PUBLISH")
        };
        let topic = publish.topic.name().expect("a topic").as_str().to_owned();
        assert_eq!(publish.payload.len(), plan.payload_bytes);
        let stamp = Stamp::decode(publish.payload).expect("a stamp");
        all.push((
            publish.delivery.packet_id().map(PacketId::get),
            topic,
            stamp,
        ));
        bytes = &bytes[frame.len()..];
    }
    all
}

#[test]
fn the_window_is_filled_and_opens_with_each_acknowledgement() {
    let plan = Plan {
        topics: 2,
        window: 3,
        stop: Stop::After(Duration::from_secs(1)),
        ..plan()
    };
    let mut publisher = publisher(&plan);
    let (mut out, mut latencies) = (Vec::new(), Latencies::default());
    assert_eq!(
        publisher.fill(5, 100, 1 << 20, &mut out),
        Sent {
            messages: 3,
            deliveries: 3
        }
    );
    let ids: Vec<_> = publishes(&plan, &out)
        .iter()
        .map(|(id, topic, _)| (*id, topic.clone()))
        .collect();
    let expected = [
        (Some(1), "bench/0"),
        (Some(2), "bench/1"),
        (Some(3), "bench/0"),
    ];
    assert_eq!(ids, expected.map(|(id, topic)| (id, topic.to_owned())));
    out.clear();
    let ack = Packet::Puback(Puback::new(PacketId::new(2).expect("an id")));
    assert_eq!(
        publisher.handle(&ack, 1005, &mut latencies, &mut out),
        Ok(1)
    );
    assert_eq!(latencies.count(), 1);
    assert!(
        publisher
            .handle(&ack, 1005, &mut latencies, &mut out)
            .is_err(),
        "acknowledged twice"
    );
    publisher.fill(2000, 100, 1 << 20, &mut out);
    let (id, _, stamp) = publishes(&plan, &out).remove(0);
    assert_eq!((id, stamp.number, stamp.sent_ns), (Some(2), 1, 2000));
}

#[test]
fn exactly_once_takes_the_whole_exchange() {
    let plan = Plan {
        qos: QoS::ExactlyOnce,
        window: 1,
        stop: Stop::Count(2),
        ..plan()
    };
    let mut publisher = publisher(&plan);
    let (mut out, mut latencies) = (Vec::new(), Latencies::default());
    publisher.fill(0, 100, 1 << 20, &mut out);
    out.clear();
    let id = PacketId::MIN;
    assert_eq!(
        publisher.handle(
            &Packet::Pubrec(Pubrec::new(id)),
            1,
            &mut latencies,
            &mut out
        ),
        Ok(0)
    );
    assert_eq!(out, [0x62, 2, 0, 1]);
    assert_eq!(
        publisher.fill(1, 100, 1 << 20, &mut out).messages,
        0,
        "the window is still full"
    );
    assert_eq!(
        publisher.handle(
            &Packet::Pubcomp(Pubcomp::new(id)),
            2,
            &mut latencies,
            &mut out
        ),
        Ok(1)
    );
    assert_eq!(publisher.fill(1, 100, 1 << 20, &mut out).messages, 1);
    assert!(publisher.is_done());
}

/// A publisher of a million messages a second that is asked for what is due 2.5 µs after the start, and the moments that it stamps.
fn open_loop(from: Begin) -> (Publisher, Vec<u64>) {
    let plan = Plan {
        qos: QoS::AtMostOnce,
        pace: Pace::Open {
            per_second: 1e6,
            from,
        },
        stop: Stop::After(Duration::from_secs(1)),
        ..plan()
    };
    let mut publisher = publisher(&plan);
    let mut out = Vec::new();
    assert_eq!(publisher.fill(2_500, 100, 1 << 20, &mut out).messages, 3);
    let stamped = publishes(&plan, &out)
        .iter()
        .map(|(_, _, stamp)| stamp.sent_ns)
        .collect();
    (publisher, stamped)
}

#[test]
fn an_open_loop_sends_what_is_due_with_the_time_it_was_due() {
    let (publisher, stamped) = open_loop(Begin::Due);
    assert_eq!(stamped, [0, 1000, 2000]);
    assert_eq!(publisher.due_in(2_500), Some(Duration::from_nanos(500)));
}

#[test]
fn an_open_loop_that_counts_from_sending_has_the_same_schedule() {
    let (publisher, stamped) = open_loop(Begin::Sending);
    assert_eq!(stamped, [2_500; 3]);
    assert_eq!(publisher.due_in(2_500), Some(Duration::from_nanos(500)));
}
