//! Allocations per message after warm-up, as the shards' threads count them: at most 0.01 (the goal of the data path).

mod support;

use courser_memory::Counting;
use support::{Client, broker, encode, publish};

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting::new(std::alloc::System);

/// What the shards did in a life in which a publisher sends `messages` to a subscriber on the same broker.
struct Life {
    allocations: u64,
    turns: u64,
}

fn live(qos: u8, messages: usize) -> Life {
    let broker = broker(2, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut subscriber = Client::connect(address, "sub");
    subscriber.subscribe("t", qos);
    let mut publisher = Client::connect(address, "pub");
    for window in 0..messages / 50 {
        let mut bytes = Vec::new();
        for message in 0..50 {
            let packet_id = (window * 50 + message) % 60_000 + 1;
            bytes.extend(publish("t", qos, packet_id as u16, b"sixteen bytes..."));
        }
        publisher.send_raw(&bytes);
        match qos {
            2 => exchange(&mut publisher, &mut subscriber),
            _ => take(&mut publisher, &mut subscriber, qos),
        }
    }
    let summary = broker.stop().expect("no shard failed");
    let counters = summary.counters();
    let counter = |wanted: &str| {
        let found = counters.iter().find(|(name, _)| name == wanted);
        found.expect("this binary counts").1
    };
    Life {
        allocations: counter("allocations"),
        turns: counter("turns"),
    }
}

/// The other half of 50 publishes of QoS 0 or 1.
fn take(publisher: &mut Client, subscriber: &mut Client, qos: u8) {
    for _ in 0..50 {
        subscriber.receive_publish();
        if qos > 0 {
            publisher.receive();
        }
    }
}

/// The rest of 50 exchanges of QoS 2: PUBREC, PUBREL and PUBCOMP at both ends.
fn exchange(publisher: &mut Client, subscriber: &mut Client) {
    answer(publisher, 0x50, 0..2, 0x62);
    // Behind the length of the topic and its one letter.
    answer(subscriber, 0x34, 3..5, 0x50);
    answer(subscriber, 0x62, 0..2, 0x70);
    for _ in 0..50 {
        assert_eq!(publisher.receive().first, 0x70);
    }
}

/// Takes 50 packets that begin with `first` and answers each with its packet id.
fn answer(client: &mut Client, first: u8, id: std::ops::Range<usize>, with: u8) {
    let mut answers = Vec::new();
    for _ in 0..50 {
        let packet = client.receive();
        assert_eq!(packet.first, first, "{packet:?}");
        answers.extend(encode(with, &packet.body[id.clone()]));
    }
    client.send_raw(&answers);
}

const MORE: usize = 20_000;

/// What `MORE` messages cost: a long life less a short one, so that start, warm-up and end count for nothing.
fn more(qos: u8) -> Life {
    let (short, long) = (live(qos, 5_000), live(qos, 5_000 + MORE));
    Life {
        allocations: long.allocations.saturating_sub(short.allocations),
        turns: long.turns.saturating_sub(short.turns),
    }
}

#[test]
fn a_message_of_qos_0_costs_no_allocation() {
    let life = more(0);
    let each = life.allocations as f64 / MORE as f64;
    assert!(each <= 0.01, "{each} allocations a message");
}

/// What is stored costs allocations by the turn, not by the message: an entry is a block of its own. How many messages a turn has
/// is the load's choice, so the bound is one for turns.
#[test]
fn a_turn_of_qos_1_or_2_costs_few_allocations_and_a_message_none() {
    for qos in [1, 2] {
        let life = more(qos);
        let bound = 4 * life.turns + MORE as u64 / 100;
        assert!(
            life.allocations <= bound,
            "QoS {qos}: {} allocations in {} turns",
            life.allocations,
            life.turns
        );
    }
}
