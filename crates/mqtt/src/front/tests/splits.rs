//! However the bytes of a client arrive, the front does the same.

use courser_contract::{QoS, Refusal, Routed, SubscribeResult};
use proptest::prelude::*;

use super::subscribe::subscribed;
use super::support::{Client, V5, V311, aliased, packet_id, publish, to_session, view};
use crate::codec::{
    Packet, Pingreq, ProtocolVersion, Puback, Pubcomp, Pubrec, Pubrel, QoS as WireQos,
    SubscriptionOptions, SubscriptionsBuilder, TopicFilter,
};

/// One packet of a client, also of one that breaks rules.
fn packet(version: ProtocolVersion) -> impl Strategy<Value = Vec<u8>> {
    (0_u8..14, 1_u16..6, 0_u8..3).prop_map(move |(kind, id, qos)| {
        let client = Client::new(version, |_| {});
        let id_of = packet_id(id);
        let mut builder = SubscriptionsBuilder::new();
        builder.push(
            TopicFilter::new("a/+").unwrap(),
            SubscriptionOptions::new(WireQos::AtLeastOnce),
        );
        let mut message = publish("topic/a", qos, id);
        message.retain = id == 3;
        client.encoded(&match kind {
            0..=4 => Packet::Publish(message),
            5 if version == V5 => {
                message.topic = aliased((qos == 1).then_some("other"), 1);
                Packet::Publish(message)
            }
            5 | 6 => Packet::Puback(Puback::new(id_of)),
            7 => Packet::Pubrec(Pubrec::new(id_of)),
            8 | 9 => Packet::Pubrel(Pubrel::new(id_of)),
            10 => Packet::Pubcomp(Pubcomp::new(id_of)),
            11 => Packet::Subscribe(crate::codec::Subscribe {
                packet_id: id_of,
                properties: crate::codec::Properties::EMPTY,
                subscriptions: builder.subscriptions(),
            }),
            12 => Packet::Pingreq(Pingreq),
            _ if id == 5 && qos == 2 => Packet::Disconnect(crate::codec::Disconnect::new(
                crate::codec::ReasonCode::NORMAL_DISCONNECTION,
            )),
            _ => Packet::Pingreq(Pingreq),
        })
    })
}

/// What the front did, with outcomes told one by one: how they gather depends on the reads.
fn run(mut client: Client, bytes: &[u8], cuts: &[usize]) -> (Vec<String>, Vec<u8>) {
    client.shell.routed.extend([
        Routed::Done { matched: true },
        Routed::Refused(Refusal::Unavailable),
        Routed::Waits,
    ]);
    for seq in 0..4 {
        let qos = if seq % 2 == 0 {
            QoS::AtLeastOnce
        } else {
            QoS::ExactlyOnce
        };
        client.gets_stored(view("t", qos, b"m"), &to_session(seq, qos));
    }
    let mut at = 0;
    for &cut in cuts.iter().chain([&bytes.len()]) {
        if cut > at {
            client.gives(&bytes[at..cut]);
            at = cut;
        }
    }
    // A PUBLISH waits for the requests before it, and all that is behind it.
    while !client.front.wants_read() && !client.rest.is_empty() {
        let mut waiting: Vec<u16> = Vec::new();
        waiting.extend(client.front.requests.iter().flat_map(|it| it.packet_ids()));
        if waiting.is_empty() {
            break;
        }
        for id in waiting {
            client.told(subscribed(id, &[SubscribeResult::Failed]));
        }
    }
    let mut effects = Vec::new();
    let mut outcomes = Vec::new();
    for line in client.effects() {
        match line.split_once(": outcome ") {
            None => effects.push(line),
            Some((_, rest)) => {
                let (range, kind) = rest.split_once(' ').unwrap();
                let (first, last) = range.split_once("..=").unwrap();
                for seq in first.parse::<u64>().unwrap()..=last.parse().unwrap() {
                    outcomes.push(format!("{seq} {kind}"));
                }
            }
        }
    }
    effects.extend(outcomes);
    (effects, client.receives())
}

proptest! {
    #[test]
    fn random_cuts_give_the_same_effects(
        v5 in any::<bool>(),
        durable in any::<bool>(),
        packets in prop::collection::vec((packet(V311), packet(V5)), 1..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let version = if v5 { V5 } else { V311 };
        let bytes: Vec<u8> = packets
            .iter()
            .flat_map(|(v3, v5_bytes)| if v5 { v5_bytes } else { v3 })
            .copied()
            .collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let front = || match durable {
            true => Client::durable(version),
            false => Client::attached(version),
        };
        let whole = run(front(), &bytes, &[]);
        prop_assert_eq!(&run(front(), &bytes, &cuts), &whole);
        let each_byte: Vec<usize> = (0..bytes.len()).collect();
        prop_assert_eq!(&run(front(), &bytes, &each_byte), &whole);
    }

    /// Any bytes at all: no panic, and at most one end.
    #[test]
    fn random_bytes_do_no_harm(
        v5 in any::<bool>(),
        attach in any::<bool>(),
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        first in prop::sample::select(vec![0x10_u8, 0x30, 0x32, 0x34, 0x40, 0x50, 0x62, 0x70, 0x82, 0xA2, 0xC0, 0xE0, 0xF0]),
    ) {
        let version = if v5 { V5 } else { V311 };
        let mut client = if attach {
            Client::attached(version)
        } else {
            Client::new(version, |_| {})
        };
        let mut all = vec![first, u8::try_from(bytes.len().min(127)).unwrap()];
        all.extend(bytes);
        client.gives(&all);
        let ends = client.effects().iter().filter(|line| line.starts_with("close")).count();
        prop_assert!(ends <= 1);
    }
}
