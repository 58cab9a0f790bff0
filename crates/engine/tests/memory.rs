//! What sessions and stored messages cost in memory, on the heap, measured.

use std::alloc::System;

use compact_str::format_compact;
use courser_contract::{
    Append, AppendKey, AppendNumber, Attach, AttachStage, Class, DeliverTo, Delivery, Destinations,
    DetachCause, Dropped, Epoch, FrontId, HomeRef, IndexChange, IndexToken, Now, Origin,
    PartitionEffects, PartitionId, Publish, QoS, Settled, ShardId, Subscription,
    SubscriptionOptions, Tick, ToFront, ToHome, ToPartition, WallMs,
};
use courser_engine::{Partition, PartitionConfig};
use courser_memory::{Counting, thread_snapshot};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

const NOW: Now = Now {
    tick: Tick(1),
    wall: WallMs(1_000_000),
};

#[derive(Default)]
struct Shell {
    attached: Option<(HomeRef, Epoch)>,
    index: Vec<IndexToken>,
}

impl PartitionEffects for Shell {
    fn deliver(&mut self, _: Delivery<'_>, _: &[DeliverTo]) {}

    fn send_front(&mut self, _: FrontId, message: ToFront) {
        if let ToFront::Attached(attached) = message {
            self.attached = Some((attached.home, attached.epoch));
        }
    }

    fn send_partition(&mut self, _: PartitionId, _: ToPartition) {}

    fn settled(&mut self, _: Origin, _: AppendNumber, _: Settled) {}

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

struct Setup {
    partition: Partition,
    shell: Shell,
}

impl Setup {
    fn new(class: Class) -> Self {
        let mut setup = Self {
            partition: Partition::new(PartitionConfig::new(PartitionId(1), class)),
            shell: Shell::default(),
        };
        if class != Class::Volatile {
            setup
                .partition
                .handle_leader(NOW, courser_contract::Term(1), &mut setup.shell);
            setup.turn();
        }
        setup
    }

    fn turn(&mut self) {
        let Self { partition, shell } = self;
        while let Some(entry) = partition.take_entry(NOW) {
            partition.handle_unlogged(NOW, entry, shell);
        }
        while let Some(token) = shell.index.pop() {
            partition.handle_index_confirmed(NOW, token, shell);
        }
    }

    fn call(&mut self, message: ToHome) {
        self.partition.handle_home(NOW, message, &mut self.shell);
        self.turn();
    }

    /// A session with one subscription of its own.
    fn open(&mut self, number: u32, stage: AttachStage, expiry_seconds: u32) {
        let filter = format!("device/{number:08}/commands");
        self.open_with(number, stage, expiry_seconds, &filter);
    }

    fn open_with(&mut self, number: u32, stage: AttachStage, expiry_seconds: u32, filter: &str) {
        let front = FrontId {
            shard: ShardId(0),
            slot: number,
            generation: 1,
        };
        let attach = Attach {
            front,
            client_id: format_compact!("device-{number:08}"),
            stage,
            clean_start: false,
            expiry_seconds,
            receive_maximum: 100,
            will: None,
        };
        self.call(ToHome::Attach(Box::new(attach)));
        let (home, epoch) = self.shell.attached.expect("it is attached");
        let subscription = Subscription {
            filter: filter.into(),
            share: None,
            options: SubscriptionOptions {
                qos: QoS::AtLeastOnce,
                // A scan that waits would count; it ends, and what it took is gone.
                retain_handling: courser_contract::RetainHandling::DoNotSend,
                ..SubscriptionOptions::default()
            },
            identifier: None,
        };
        self.call(ToHome::Subscribe {
            session: home.session,
            epoch,
            packet_id: 1,
            subscriptions: vec![subscription],
        });
        if expiry_seconds > 0 {
            self.call(ToHome::Detach {
                session: home.session,
                epoch,
                cause: DetachCause::Lost,
                expiry_seconds: None,
                open: Vec::new(),
            });
        }
    }
}

fn live_bytes() -> u64 {
    thread_snapshot().live_bytes()
}

/// Bytes for each of 20,000 sessions, half of the tables' doublings included.
fn each_session(class: Class, stage: AttachStage, expiry_seconds: u32) -> u64 {
    const COUNT: u32 = 20_000;
    let mut setup = Setup::new(class);
    let before = live_bytes();
    for number in 0..COUNT {
        setup.open(number, stage, expiry_seconds);
    }
    let each = (live_bytes() - before) / u64::from(COUNT);
    assert_eq!(setup.partition.counts().sessions, u64::from(COUNT));
    each
}

#[test]
fn a_clean_session_with_a_subscription_is_small() {
    let each = each_session(Class::Volatile, AttachStage::Open(Epoch(1)), 0);
    eprintln!("a clean session with a subscription: {each} bytes");
    assert!(each <= 600, "{each} bytes");
}

#[test]
fn a_detached_durable_session_is_small() {
    let each = each_session(Class::Durable, AttachStage::Claim, 3_600);
    eprintln!("a detached durable session with a subscription: {each} bytes");
    assert!(each <= 768, "{each} bytes");
}

/// Messages of a turn, and their turn.
fn publish(setup: &mut Setup, topic: &str, count: u64) {
    let append = Append {
        key: AppendKey::Unanswered,
        publish: Publish {
            topic,
            properties: b"",
            payload: &[7; 64],
            qos: QoS::AtLeastOnce,
            retain: false,
            expires_at: None,
            publisher: None,
        },
        keep_retained: false,
        deliver: true,
    };
    for _ in 0..count {
        setup
            .partition
            .handle_append(NOW, &append, &mut setup.shell);
    }
    setup.turn();
}

/// Rows, slots, chunks and what blocks keep beside the records' bytes, at sizes where tables that double have just done so.
#[test]
fn a_stored_message_takes_little_beside_its_record_m17() {
    let mut setup = Setup::new(Class::Durable);
    setup.open(0, AttachStage::Claim, 3_600);
    let before = live_bytes();
    let mut stored = 0;
    for count in [20_000, 33_000, 66_000, 100_000] {
        while stored < count {
            publish(&mut setup, "device/00000000/commands", 100);
            stored += 100;
        }
        let counts = setup.partition.counts();
        assert_eq!((counts.queued_messages, counts.records), (count, count));
        let beside = live_bytes() - before - counts.record_bytes;
        let each = beside as f64 / count as f64;
        eprintln!("a stored message, {count} of them: {each:.1} bytes beside its record");
        assert!(each <= 32.0, "{each} bytes");
    }
}

#[test]
fn a_reference_to_a_message_of_many_sessions_takes_less() {
    const SESSIONS: u64 = 100;
    const COUNT: u64 = 1_000;
    let mut setup = Setup::new(Class::Durable);
    for number in 0..SESSIONS as u32 {
        setup.open_with(number, AttachStage::Claim, 3_600, "all");
    }
    let before = live_bytes();
    for _ in 0..COUNT / 10 {
        publish(&mut setup, "all", 10);
    }
    let counts = setup.partition.counts();
    assert_eq!(counts.queued_messages, SESSIONS * COUNT);
    let each = (live_bytes() - before) as f64 / counts.queued_messages as f64;
    eprintln!(
        "a reference, one of {SESSIONS} to a message of {} bytes: {each:.1} bytes with its share of the message",
        counts.record_bytes / COUNT
    );
    assert!(each <= 8.0, "{each} bytes");
}
