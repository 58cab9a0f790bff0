//! What the histogram of acknowledgements counts: each publish above QoS 0 that was acknowledged, once, whoever stores it.

use crate::support::{Client, Packet, asked, broker, broker_on, publish};
use courser_broker::Broker;
use courser_contract::ShardId;

const SHARDS: u16 = 2;
const KEPT: u8 = 0;
const CLEAN: u8 = 0x02;

/// Publishes of all shards whose acknowledgement was measured.
fn acknowledged(broker: &Broker) -> u64 {
    let of_shard = |shard| {
        let report = asked(broker.control().report(ShardId(shard)));
        let latencies = report.expect("the broker runs").latencies;
        latencies.acknowledged.counts().iter().sum::<u64>()
    };
    (0..SHARDS).map(of_shard).sum()
}

/// One publish to its end.
fn exchange(client: &mut Client, topic: &str, qos: u8, packet_id: u16) {
    client.send_raw(&publish(topic, qos, packet_id, b"x"));
    let id = packet_id.to_be_bytes().to_vec();
    let answer = |first| Packet {
        first,
        body: id.clone(),
    };
    if qos == 1 {
        return assert_eq!(client.receive(), answer(0x40));
    }
    assert_eq!(client.receive(), answer(0x50));
    client.send(0x62, &id);
    assert_eq!(client.receive(), answer(0x70));
}

fn check(broker: &Broker) {
    let address = broker.addresses()[0];
    let mut listener = Client::session(address, "listener", 4, KEPT, &[]).0;
    listener.subscribe("heard/#", 0);
    let mut before = acknowledged(broker);
    for (flags, qos) in [(CLEAN, 1), (CLEAN, 2), (KEPT, 1), (KEPT, 2)] {
        for topic in ["heard/1", "unheard"] {
            let id = format!("c{flags}{qos}");
            let mut client = Client::session(address, &id, 4, flags, &[]).0;
            for packet_id in 1..=20 {
                exchange(&mut client, topic, qos, packet_id);
            }
            let after = acknowledged(broker);
            assert_eq!(after - before, 20, "{topic} at QoS {qos}, {id}");
            before = after;
            // A message is sent again while its id is held: that is no other one.
            if qos == 2 {
                for _ in 0..2 {
                    client.send_raw(&publish(topic, 2, 77, b"x"));
                    assert_eq!(client.receive().first, 0x50);
                }
                let after = acknowledged(broker);
                assert_eq!(after - before, 1, "{topic}, {id}, sent again");
                before = after;
            }
        }
    }
}

#[test]
fn every_acknowledged_publish_counts_once() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    check(&broker_on(folder.path(), SHARDS, &[]));
    check(&broker(SHARDS, &[], |_| {}));
}
