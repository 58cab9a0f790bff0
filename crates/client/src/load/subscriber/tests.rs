use courser_mqtt::codec::{
    Passthrough, ProtocolVersion, PublishTopic, Pubrel, SubscriptionIds, TopicName,
};

use super::*;

fn publish(payload: &[u8], delivery: Delivery) -> Publish<'_> {
    Publish {
        delivery,
        retain: false,
        topic: PublishTopic::Name(TopicName::new("t").expect("a topic")),
        message_expiry_interval: None,
        subscription_ids: SubscriptionIds::NONE,
        passthrough: Passthrough::EMPTY,
        payload,
    }
}

#[test]
fn a_repeat_before_pubrel_is_acknowledged_and_not_counted() {
    let receiver = Receiver::new(ProtocolVersion::V311);
    let mut subscriber = Subscriber::new(Ledger::Alone(Arrivals::new(1)), receiver, 0);
    let (mut group, mut latencies, mut out) = Default::default();
    let payload = Stamp {
        stream: 0,
        number: 0,
        sent_ns: 10,
    }
    .encode();
    let packet_id = PacketId::new(300).expect("an id");
    let mut handle = |packet: &Packet<'_>| {
        out = Vec::new();
        let arrived = subscriber.handle(packet, 1010, &mut group, &mut latencies, &mut out);
        (arrived.expect("a good packet"), out.clone())
    };
    let first = Packet::Publish(publish(
        &payload,
        Delivery::ExactlyOnce {
            packet_id,
            dup: false,
        },
    ));
    let again = Packet::Publish(publish(
        &payload,
        Delivery::ExactlyOnce {
            packet_id,
            dup: true,
        },
    ));
    assert_eq!(handle(&first), (1, vec![0x50, 2, 1, 44]));
    assert_eq!(handle(&again), (0, vec![0x50, 2, 1, 44]));
    assert_eq!(
        handle(&Packet::Pubrel(Pubrel::new(packet_id))),
        (0, vec![0x70, 2, 1, 44])
    );
    assert_eq!(latencies.count(), 1);
    assert_eq!(subscriber.faults([(0, 1)].into_iter()), Faults::default());
}

#[test]
fn messages_of_others_are_foreign() {
    let receiver = Receiver::new(ProtocolVersion::V5);
    let mut subscriber = Subscriber::new(Ledger::Alone(Arrivals::new(1)), receiver, 0);
    let (mut group, mut latencies, mut out) = Default::default();
    let packet = Packet::Publish(publish(b"hello", Delivery::AtMostOnce));
    assert_eq!(
        subscriber.handle(&packet, 5, &mut group, &mut latencies, &mut out),
        Ok(0)
    );
    assert_eq!(subscriber.faults(std::iter::empty()).foreign, 1);
}
