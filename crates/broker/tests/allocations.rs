//! Allocations per message after warm-up, as the shards' threads count them: at most 0.01 (the goal of the data path).

#[path = "broker/support/mod.rs"]
mod support;

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use courser_access::{Command, Table, User, UserName};
use courser_broker::Summary;
use courser_memory::{
    BLOCK_BYTES, Component, Counting, PoolLimits, held, snapshot, thread_snapshot,
};
use support::{Client, broker, broker_on, counter, encode, publish, text, wait};

#[global_allocator]
static ALLOCATOR: Counting<std::alloc::System> = Counting::new(std::alloc::System);

/// Totals are those of the process: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the shards did in a life in which a publisher sends `messages` to a subscriber on the same broker.
#[derive(Debug)]
struct Life {
    allocations: u64,
    turns: u64,
}

/// Publishes under way, as in the table of docs/performance.md.
const WINDOW: usize = 100;

/// Topics of one letter.
const TOPICS: &str = "abcdefghijklmnopqrstuvwxyz";

fn live(shards: u16, qos: u8, messages: usize) -> Life {
    let broker = broker(shards, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut subscriber = Client::connect(address, "sub");
    subscriber.subscribe("+", qos);
    let mut publisher = Client::connect(address, "pub");
    for window in 0..messages / WINDOW {
        let mut bytes = Vec::new();
        for message in 0..WINDOW {
            let packet_id = (window * WINDOW + message) % 60_000 + 1;
            let topic = &TOPICS[message % TOPICS.len()..][..1];
            bytes.extend(publish(topic, qos, packet_id as u16, b"sixteen bytes..."));
        }
        publisher.send_raw(&bytes);
        match qos {
            2 => exchange(&mut publisher, &mut subscriber),
            _ => take(&mut publisher, &mut subscriber, qos),
        }
    }
    let summary = broker.stop().expect("no shard failed");
    Life {
        allocations: counted(&summary, "allocations"),
        turns: counted(&summary, "turns"),
    }
}

/// The other half of a window of QoS 0 or 1.
fn take(publisher: &mut Client, subscriber: &mut Client, qos: u8) {
    for _ in 0..WINDOW {
        subscriber.receive_publish();
        if qos > 0 {
            publisher.receive();
        }
    }
}

/// The rest of a window of QoS 2: PUBREC, PUBREL and PUBCOMP at both ends.
fn exchange(publisher: &mut Client, subscriber: &mut Client) {
    answer(publisher, 0x50, 0..2, 0x62);
    // Behind the length of the topic and its one letter.
    answer(subscriber, 0x34, 3..5, 0x50);
    answer(subscriber, 0x62, 0..2, 0x70);
    for _ in 0..WINDOW {
        assert_eq!(publisher.receive().first, 0x70);
    }
}

/// Takes a window of packets that begin with `first` and answers each with its packet id.
fn answer(client: &mut Client, first: u8, id: std::ops::Range<usize>, with: u8) {
    let mut answers = Vec::new();
    for _ in 0..WINDOW {
        let packet = client.receive();
        assert_eq!(packet.first, first, "{packet:?}");
        answers.extend(encode(with, &packet.body[id.clone()]));
    }
    client.send_raw(&answers);
}

/// What this binary must have counted.
fn counted(summary: &Summary, name: &str) -> u64 {
    let count = counter(summary, name);
    assert!(count > 0, "this binary counts {name}");
    count
}

const MORE: usize = 20_000;

/// What `MORE` messages cost: a long life less a short one, so that start, warm-up and end count for nothing.
fn more(shards: u16, qos: u8) -> Life {
    let (short, long) = (live(shards, qos, 5_000), live(shards, qos, 5_000 + MORE));
    Life {
        allocations: long.allocations.saturating_sub(short.allocations),
        turns: long.turns.saturating_sub(short.turns),
    }
}

#[test]
fn a_message_between_clean_sessions_costs_no_allocation() {
    let _alone = alone();
    let lives: Vec<_> = [1, 2]
        .into_iter()
        .flat_map(|shards| [0, 1, 2].map(|qos| (shards, qos, more(shards, qos))))
        .collect();
    for (shards, qos, life) in &lives {
        let each = life.allocations as f64 / MORE as f64;
        assert!(
            each <= 0.01,
            "{shards} shards, QoS {qos}: {each} allocations a message; all: {lives:?}"
        );
    }
}

/// What the shard allocates in a life in which windows of 500 messages go to 12 subscribers.
fn live_gathered(windows: usize) -> u64 {
    let broker = broker(1, &["sys.interval=0s"], |_| {});
    let address = broker.addresses()[0];
    let mut subscribers: Vec<Client> = Vec::new();
    for number in 0..12 {
        let mut subscriber = Client::connect(address, &format!("sub-{number}"));
        subscriber.subscribe("t", 0);
        subscribers.push(subscriber);
    }
    let mut publisher = Client::connect(address, "pub");
    let window = publish("t", 0, 0, b"sixteen bytes...").repeat(500);
    for _ in 0..windows {
        publisher.send_raw(&window);
        for subscriber in &mut subscribers {
            (0..500).for_each(|_| drop(subscriber.receive_publish()));
        }
    }
    let summary = broker.stop().expect("no shard failed");
    assert!(counter(&summary, "deliveries_gathered") > 0);
    counted(&summary, "allocations")
}

#[test]
fn a_message_that_is_gathered_for_many_costs_no_allocation() {
    let _alone = alone();
    let more = live_gathered(10 + MORE / 500).saturating_sub(live_gathered(10));
    let each = more as f64 / MORE as f64;
    assert!(each <= 0.01, "{each} allocations a message");
}

/// What a broker with a data folder did in a life in which a publisher sends windows of messages to a kept session.
#[derive(Debug)]
struct DurableLife {
    /// Of the shards.
    allocations: u64,
    /// Of all other threads of the broker: the log's writer and reader.
    of_stations: u64,
    /// Of the log: entries, but for a term and vote of each partition.
    records: u64,
}

impl DurableLife {
    fn less(&self, other: &Self) -> Self {
        Self {
            allocations: self.allocations.saturating_sub(other.allocations),
            of_stations: self.of_stations.saturating_sub(other.of_stations),
            records: self.records.saturating_sub(other.records),
        }
    }
}

/// Windows of `window` messages, each sent and acknowledged in one piece.
fn live_durable(windows: usize, window: u16) -> DurableLife {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (all, mine) = (snapshot(), thread_snapshot());
    let settings = ["sys.interval=0s"];
    let broker = broker_on(folder.path(), 1, &settings);
    let address = broker.addresses()[0];
    let (mut subscriber, _) = Client::session(address, "sub", 4, 0, &[]);
    subscriber.subscribe("t", 1);
    let mut publisher = Client::connect(address, "pub");
    let packets = (1..=window).map(|packet_id| publish("t", 1, packet_id, b"sixteen bytes..."));
    let packets: Vec<u8> = packets.flatten().collect();
    for _ in 0..windows {
        publisher.send_raw(&packets);
        let mut acks = Vec::new();
        for _ in 0..window {
            let delivery = subscriber.receive();
            assert_eq!(delivery.first, 0x32);
            acks.extend(encode(0x40, &delivery.body[3..5]));
        }
        for _ in 0..window {
            assert_eq!(publisher.receive().first, 0x40);
        }
        subscriber.send_raw(&acks);
    }
    let summary = broker.stop().expect("nothing failed");
    drop((subscriber, publisher, packets));
    let mine = thread_snapshot().since(&mine).allocated().allocations;
    courser_memory::fold();
    let all = snapshot().since(&all).allocated().allocations;
    let allocations = counted(&summary, "allocations");
    DurableLife {
        allocations,
        of_stations: all.saturating_sub(allocations + mine),
        records: counted(&summary, "log_records"),
    }
}

/// Windows in a life beyond the short one.
const MORE_WINDOWS: usize = 200;

fn more_durable(window: u16) -> DurableLife {
    live_durable(20 + MORE_WINDOWS, window).less(&live_durable(20, window))
}

/// What is durable costs allocations by the entry, which passes two Readies of its group: one that writes it and one that hands
/// it over. Eight a Ready are the goal, so even one message at a time stays below it by half.
#[test]
fn an_entry_on_the_disk_costs_at_most_eight_allocations_stations_included() {
    let _alone = alone();
    let life = more_durable(1);
    assert!(life.records >= MORE_WINDOWS as u64, "{life:?}");
    // The stations' share is by the batch and by the segment, and an idle moment of a busy machine makes a batch more.
    let each = (life.allocations + life.of_stations) as f64 / life.records as f64;
    assert!(each <= 8.0, "{each} allocations an entry: {life:?}");
}

#[test]
fn a_message_on_the_disk_costs_few_allocations_where_256_share_an_entry() {
    let _alone = alone();
    let life = more_durable(256);
    let messages = (MORE_WINDOWS * 256) as f64;
    let each = (life.allocations + life.of_stations) as f64 / messages;
    assert!(each <= 0.05, "{each} allocations a message: {life:?}");
}

#[test]
fn allocations_are_counted_for_the_part_of_the_broker_that_asks() {
    let _alone = alone();
    let before = snapshot();
    live(2, 1, 500);
    live_durable(20, 50);
    courser_memory::fold();
    let span = snapshot().since(&before);
    for component in [
        Component::Connections,
        Component::Receive,
        Component::Router,
        Component::Partitions,
        Component::Rings,
        Component::Log,
    ] {
        assert!(span.of(component).allocations > 0, "{component}: {span:?}");
    }
    // No operator asks.
    assert_eq!(span.of(Component::Control).allocations, 0, "{span:?}");
    // Nobody logs in: there is the table of users, which is empty, of each of the two starts.
    let access = span.of(Component::Access).allocations;
    assert!(access <= 2, "{span:?}");
}

#[test]
fn users_that_were_imported_are_held_by_their_own_part() {
    const USERS: usize = 20_000;
    /// Less than a user takes in the table.
    const USER_BYTES: u64 = 64;
    let _alone = alone();
    let broker = broker(1, &["sys.interval=0s"], |_| {});
    let control = broker.control();
    wait("users are known", || control.accounts_serve());
    let now = control.accounts();
    let mut table = Table::clone(&now);
    for user in 0..USERS {
        let name = UserName::new(&format!("user{user}")).expect("a name");
        table.apply(&Command::PutUser(name, User::default()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let before = held();
    let change = control.change_accounts(now.revision(), Command::Replace(Box::new(table)));
    let made = runtime.expect("a runtime").block_on(change);
    made.expect("nobody else changes anything");
    let (of_users, of_nobody) = [Component::Access, Component::Other]
        .map(|part| held().of(part).saturating_sub(before.of(part)))
        .into();
    assert!(
        of_users > USERS as u64 * USER_BYTES,
        "{of_users} of users, {of_nobody} of nobody"
    );
    assert!(
        of_nobody < of_users / 4,
        "{of_users} of users, {of_nobody} of nobody"
    );
}

/// The ten filters of a session of `bench/million.py`: six topics of its own, two with `+`, one with `#`, one shared by a region.
fn filters(session: usize) -> [String; 10] {
    let (site, region) = (session / 100, session % 100);
    let own = format!("site/{site}/device/{session}");
    [
        format!("{own}/state"),
        format!("{own}/battery"),
        format!("{own}/+/alarm"),
        format!("{own}/position"),
        format!("region/{region}/notices"),
        format!("{own}/log/#"),
        format!("{own}/firmware"),
        format!("site/+/device/{session}/command"),
        format!("{own}/config"),
        format!("{own}/clock"),
    ]
}

/// SUBSCRIBE of 3.1.1 with QoS 1.
fn subscribe(filters: &[String]) -> Vec<u8> {
    let mut body = vec![0, 1];
    for filter in filters {
        body.extend(text(filter));
        body.push(1);
    }
    encode(0x82, &body)
}

/// Makes sessions that are kept, some at a time, and returns their connections.
fn subscribe_all(address: SocketAddr, sessions: std::ops::Range<usize>) -> Vec<Client> {
    let mut made: Vec<Client> = Vec::new();
    for some in sessions.step_by(TOGETHER) {
        let mut clients: Vec<Client> = (some..some + TOGETHER)
            .map(|session| {
                let mut client = Client::open(address);
                let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, 0, 0, 0];
                body.extend(text(&format!("device-{session}")));
                client.send_raw(&[encode(0x10, &body), subscribe(&filters(session))].concat());
                client
            })
            .collect();
        for client in &mut clients {
            assert_eq!(client.receive().body, [0, 0], "a new session");
            assert_eq!(client.receive().body[2..], [1; 10], "all are granted");
        }
        made.extend(clients);
    }
    made
}

const TOGETHER: usize = 100;

/// A tenth of the million of docs/performance.md, with as many connected sessions as few descriptors allow. Counted by the allocator: of the
/// clients it has only their sockets' few bytes. The first sessions are not counted: with them come buffers that grow no further. Free receive
/// buffers are kept as many as were ever in use at once, up to a limit; how many those are is a matter of chance.
#[test]
fn a_tenth_of_a_million_subscriptions_takes_320_bytes_each_at_most() {
    const SHARDS: u16 = 2;
    const FIRST: usize = 500;
    const AWAY: usize = 10_100;
    const HERE: usize = 400;
    // 301 were counted, and 295 of resident memory for ten times as many: tables double, so they are fuller at one size than at another.
    const BYTES_EACH: u64 = 320;
    let _alone = alone();
    let folder = tempfile::tempdir().expect("a folder for a test");
    let broker = broker_on(folder.path(), SHARDS, &["sys.interval=0s"]);
    let address = broker.addresses()[0];
    let leave_all = |sessions: std::ops::Range<usize>| {
        for some in sessions.step_by(TOGETHER) {
            for mut client in subscribe_all(address, some..some + TOGETHER) {
                client.send(0xE0, &[]);
                assert!(client.is_closed());
            }
        }
    };
    leave_all(0..FIRST);
    let before = settled_bytes();
    leave_all(FIRST..AWAY);
    let here = subscribe_all(address, AWAY..AWAY + HERE);
    let subscriptions = (10 * (AWAY + HERE - FIRST)) as u64;
    let grown = settled_bytes().saturating_sub(before);
    let each = grown / subscriptions;
    eprintln!("a subscription: {each} bytes with its share of the session and of free buffers");
    let buffers = u64::from(SHARDS) * free_buffers_max();
    assert!(
        grown <= BYTES_EACH * subscriptions + buffers,
        "{each} bytes"
    );
    drop(here);
    broker.stop().expect("nothing failed");
}

/// Bytes of the free receive buffers that a shard keeps at most.
fn free_buffers_max() -> u64 {
    let limits = PoolLimits::default();
    let rests = limits.rests_max * (512 + 4096);
    (limits.blocks_max * BLOCK_BYTES + rests) as u64
}

/// The least of [`live_bytes`] in some seconds: a checkpoint and what goes to the log take up to 40 bytes a subscription while they are under way.
fn settled_bytes() -> u64 {
    (0..30)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(100));
            live_bytes()
        })
        .min()
        .unwrap_or_default()
}

/// Bytes that the process has allocated and not freed.
fn live_bytes() -> u64 {
    courser_memory::fold();
    snapshot().live_bytes()
}

/// Clients that leave both shards with many free buffers of 64 KiB: each has had a large packet in two pieces, and a large answer.
fn leave_free_buffers(address: SocketAddr) -> Vec<Client> {
    const CLIENTS: usize = 32;
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let mut client = Client::connect(address, &format!("client-{number}"));
            client.subscribe("t", 0);
            client
        })
        .collect();
    let large = publish("nobody", 1, 1, &[b'x'; 30_000]);
    for client in &mut clients {
        client.send_raw(&large[..20_000]);
    }
    wait("the beginnings are held", || {
        held().of(Component::Receive) > (CLIENTS * BLOCK_BYTES / 4 * 3) as u64
    });
    for client in &mut clients {
        client.send_raw(&large[20_000..]);
        assert_eq!(client.receive().first, 0x40);
    }
    // One after the other in one write: they are copied, small as they are.
    clients[0].send_raw(&publish("t", 0, 0, &[b'x'; 200]).repeat(200));
    for client in &mut clients {
        (0..200).for_each(|_| drop(client.receive_publish()));
    }
    clients
}

#[test]
fn free_buffers_are_given_back_while_memory_is_short() {
    const MIB: u64 = 1 << 20;
    // Of memory.max: in the middle of where publishers are read less, and nothing is refused or closed.
    const TIGHT: u64 = 64 * MIB / 32 * 21;
    let _alone = alone();
    let broker = broker(2, &["memory.max=64MiB", "sys.interval=0s"], |_| {});
    let mut clients = leave_free_buffers(broker.addresses()[0]);
    let buffers = || (held().of(Component::Receive), held().of(Component::Output));
    let (receive, output_before) = buffers();
    assert!(receive > MIB, "free receive buffers are kept: {receive}");
    let ballast = vec![1_u8; TIGHT.saturating_sub(live_bytes()) as usize];
    // One shard has something to do, and wakes the other one.
    wait("free buffers are given back", || {
        clients[0].send(0xC0, &[]);
        assert_eq!(clients[0].receive().first, 0xD0);
        let (receive, output) = buffers();
        // What outputs are written with stays.
        receive < MIB / 4 && output + BLOCK_BYTES as u64 <= output_before
    });
    drop(std::hint::black_box(ballast));
    // And are there again where they are wanted.
    drop(clients);
    drop(leave_free_buffers(broker.addresses()[0]));
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "closed_for_memory"), 0);
}
