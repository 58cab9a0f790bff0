//! Cost of a message in a volatile partition: nanoseconds and allocations a message, after warm-up.
//!
//! `cargo bench -p courser-engine --bench data_path`; under `cargo test` it runs once with few messages.

use std::{alloc::System, hint::black_box};

use compact_str::format_compact;
use courser_contract::{
    Append, AppendKey, Attach, AttachStage, Class, DeliverTo, Delivery, Destinations, Dropped,
    Epoch, FrontId, IndexChange, IndexToken, Now, Origin, OutcomeKind, PartitionEffects,
    PartitionId, Publish, QoS, Seq, SessionUid, Settled, ShardId, Source, Subscription,
    SubscriptionOptions, Tick, ToFront, ToHome, ToPartition, WallMs,
};
use courser_engine::{Partition, PartitionConfig};
use courser_memory::{Counting, thread_snapshot};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// Publishes of a turn.
const TURN: usize = 100;

#[derive(Default)]
struct Shell {
    delivered: u64,
    outcomes: Vec<(SessionUid, Seq)>,
    slots: Vec<SessionUid>,
    attached: Vec<(FrontId, SessionUid, Epoch)>,
    index: Vec<IndexToken>,
}

impl PartitionEffects for Shell {
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]) {
        black_box(delivery.view.payload);
        self.delivered += to.len() as u64;
        for receiver in to {
            if let Some((Source::Session, seq)) = receiver.source {
                let uid = self.slots[receiver.front.slot as usize];
                self.outcomes.push((uid, seq));
            }
        }
    }

    fn send_front(&mut self, front: FrontId, message: ToFront) {
        if let ToFront::Attached(attached) = message {
            self.attached
                .push((front, attached.home.session, attached.epoch));
        }
    }

    fn send_partition(&mut self, _: PartitionId, _: ToPartition) {}

    fn settled(&mut self, _: Origin, _: courser_contract::AppendNumber, _: Settled) {}

    fn change_index(&mut self, token: IndexToken, _: IndexChange) {
        self.index.push(token);
    }

    fn fence(&mut self, _: IndexToken) {}

    fn destinations(&mut self, _: &str, _: bool) -> Destinations {
        Destinations::new()
    }

    fn retained_partition(&self, _: &str) -> PartitionId {
        PartitionId(1)
    }

    fn retained_partitions(&self) -> Destinations {
        Destinations::new()
    }

    fn group_partition(&self, _: &str, _: &str, _: bool) -> PartitionId {
        PartitionId(1)
    }

    fn dropped(&mut self, _: Dropped, _: u64) {}
}

const NOW: Now = Now {
    tick: Tick(1),
    wall: WallMs(1_000_000),
};

struct Bench {
    partition: Partition,
    shell: Shell,
}

impl Bench {
    /// A volatile partition with `sessions` receivers of everything below "t".
    fn new(sessions: usize, qos: QoS) -> Self {
        let id = PartitionId::volatile_of(ShardId(0));
        let mut bench = Self {
            partition: Partition::new(PartitionConfig::new(id, Class::Volatile)),
            shell: Shell::default(),
        };
        for slot in 0..sessions {
            bench.open(u32::try_from(slot).expect("few sessions"), qos);
        }
        bench
    }

    fn open(&mut self, slot: u32, qos: QoS) {
        let front = FrontId {
            shard: ShardId(0),
            slot,
            generation: 1,
        };
        let attach = Attach {
            front,
            client_id: format_compact!("client-{slot}"),
            stage: AttachStage::Open(Epoch(1)),
            clean_start: true,
            expiry_seconds: 0,
            receive_maximum: 1_000,
            will: None,
        };
        let Self { partition, shell } = self;
        partition.handle_home(NOW, ToHome::Attach(Box::new(attach)), shell);
        self.turn();
        let (_, session, epoch) = self.shell.attached.pop().expect("it is attached");
        self.shell.slots.push(session);
        let subscription = Subscription {
            filter: "t/#".into(),
            share: None,
            options: SubscriptionOptions {
                qos,
                ..SubscriptionOptions::default()
            },
            identifier: None,
        };
        let subscribe = ToHome::Subscribe {
            session,
            epoch,
            packet_id: 1,
            subscriptions: vec![subscription],
        };
        let Self { partition, shell } = self;
        partition.handle_home(NOW, subscribe, shell);
        self.turn();
    }

    fn turn(&mut self) {
        let Self { partition, shell } = self;
        while partition.has_entry()
            && let Some(entry) = partition.take_entry(NOW)
        {
            partition.handle_committed(NOW, entry, shell);
        }
        while let Some(token) = shell.index.pop() {
            partition.handle_index_confirmed(NOW, token, shell);
        }
    }

    /// One turn: publishes, their commit, then an outcome for each run of deliveries of a session, as fronts coalesce them.
    fn round(&mut self, qos: QoS, payload: &[u8], ranges: &mut Vec<(SessionUid, Seq, Seq)>) {
        let append = Append {
            key: AppendKey::Unanswered,
            publish: Publish {
                topic: "t/some/topic",
                properties: b"",
                payload,
                qos,
                retain: false,
                expires_at: None,
                publisher: None,
            },
            keep_retained: false,
            deliver: true,
        };
        for _ in 0..TURN {
            self.partition.handle_append(NOW, &append, &mut self.shell);
        }
        self.turn();
        self.shell.outcomes.sort_unstable();
        ranges.clear();
        for &(uid, seq) in &self.shell.outcomes {
            match ranges.last_mut() {
                Some((last, _, to)) if *last == uid && to.0 + 1 == seq.0 => *to = seq,
                Some(_) | None => ranges.push((uid, seq, seq)),
            }
        }
        self.shell.outcomes.clear();
        for &(session, first, last) in ranges.iter() {
            let outcome = ToHome::Outcome {
                session,
                epoch: Epoch(1),
                first,
                last,
                kind: OutcomeKind::Done,
            };
            self.partition.handle_home(NOW, outcome, &mut self.shell);
        }
        self.turn();
    }
}

/// Nanoseconds that this thread has run: the machine may be busy with other things.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

fn run(name: &str, sessions: usize, qos: QoS, rounds: usize) {
    let mut bench = Bench::new(sessions, qos);
    let payload = [7; 128];
    let mut ranges = Vec::new();
    for _ in 0..rounds.min(100) {
        bench.round(qos, &payload, &mut ranges);
    }
    let before = thread_snapshot();
    let delivered = bench.shell.delivered;
    let start = on_cpu();
    for _ in 0..rounds {
        bench.round(qos, &payload, &mut ranges);
    }
    let elapsed = on_cpu() - start;
    let counted = thread_snapshot().since(&before).allocated();
    let messages = (rounds * TURN) as f64;
    assert_eq!(
        bench.shell.delivered - delivered,
        (rounds * TURN * sessions) as u64,
        "everything is delivered"
    );
    let allocations = counted.allocations as f64 / messages;
    eprintln!(
        "{name:<24} {:>8.1} ns/message {:>8.1} ns/delivery {allocations:>8.4} allocations/message",
        elapsed / messages,
        elapsed / messages / sessions as f64,
    );
    assert!(
        allocations <= 0.01 * sessions.max(1) as f64,
        "allocations per message"
    );
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let rounds = if full { 20_000 } else { 3 };
    let rows = [
        ("qos0-1", 1, QoS::AtMostOnce, rounds),
        ("qos1-1", 1, QoS::AtLeastOnce, rounds),
        ("qos0-50", 50, QoS::AtMostOnce, rounds / 20 + 1),
        ("qos1-50", 50, QoS::AtLeastOnce, rounds / 20 + 1),
    ];
    for (name, sessions, qos, rounds) in rows {
        if only.as_deref().is_none_or(|only| only == name) {
            run(name, sessions, qos, rounds);
        }
    }
}
