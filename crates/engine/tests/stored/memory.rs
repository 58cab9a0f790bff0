//! What sessions and stored messages cost in memory, on the heap, measured.

use std::alloc::System;

use crate::support::{NOW, Setup};
use courser_contract::{
    AttachStage, Class, DetachCause, Epoch, HomeRef, Join, PartitionId, QoS, RequestPart,
    SessionUid, SharedStrategy, Subscription, SubscriptionOptions, ToHome, ToPartition, WallMs,
};
use courser_engine::Limits;
use courser_memory::{Counting, thread_snapshot};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

/// Messages of a turn, and their turn.
fn publish(setup: &mut Setup, topic: &str, count: u64) {
    for _ in 0..count {
        setup.append(topic);
    }
    setup.turn();
}

fn live_bytes() -> u64 {
    thread_snapshot().live_bytes()
}

/// Bytes for each of 20,000 sessions, half of the tables' doublings included.
fn each_session(class: Class, stage: AttachStage, expiry_seconds: u32) -> u64 {
    const COUNT: u32 = 20_000;
    let mut setup = Setup::new(class, None);
    let before = live_bytes();
    for number in 0..COUNT {
        setup.open(number, stage, expiry_seconds, None);
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

/// Rows, slots, chunks and what blocks keep beside the records' bytes, at sizes where tables that double have just done so.
#[test]
fn a_stored_message_takes_little_beside_its_record_m17() {
    let mut setup = Setup::new(Class::Durable, None);
    setup.open(0, AttachStage::Claim, 3_600, None);
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

/// Bytes for each of many messages that wait in turn in so many streams, when next to nothing of them may be in memory, and those of its row. Each
/// expires so many milliseconds after it was sent, if it does; a hundred are sent in a second.
fn each_in_the_log(
    streams: u32,
    open: impl Fn(&mut Setup, u32),
    life: impl Fn(u64) -> Option<u64>,
) -> (f64, f64) {
    const COUNT: u64 = 256_000;
    let mut setup = Setup::new(Class::Durable, None);
    let limits = Limits {
        hot_bytes: 64 * 1024,
        ..Limits::default()
    };
    setup.partition.set_limits(limits);
    for number in 0..streams {
        open(&mut setup, number);
    }
    let before = live_bytes();
    let topics: Vec<String> = (0..streams)
        .map(|number| format!("device/{number:08}/commands"))
        .collect();
    let mut topics = topics.iter().cycle();
    for second in 0..COUNT / 100 {
        for (number, topic) in (0..).zip(topics.by_ref().take(100)) {
            let life = life(100 * second + number);
            setup.expires_at = life.map(|ms| WallMs(NOW.wall.0 + 1_000 * second + ms));
            setup.append(topic);
        }
        setup.turn();
    }
    let counts = setup.partition.counts();
    assert_eq!((counts.queued_messages, counts.records), (COUNT, COUNT));
    assert!(counts.cold_records > COUNT * 99 / 100);
    let bytes = (live_bytes() - before) as f64;
    (bytes / COUNT as f64, counts.row_bytes as f64 / COUNT as f64)
}

/// The same for a thousand sessions in turn.
fn each_of_sessions(life: impl Fn(u64) -> Option<u64>) -> (f64, f64) {
    let open = |setup: &mut Setup, number| {
        setup.open(number, AttachStage::Claim, 3_600, None);
    };
    each_in_the_log(1_000, open, life)
}

#[test]
fn a_message_that_is_only_in_the_log_takes_less_m17() {
    let (each, row) = each_of_sessions(|_| None);
    eprintln!("a message that is only in the log: {each:.1} bytes, {row:.1} of them its row");
    assert!(each <= 10.0, "{each} bytes");
}

/// A shared group with one member, which is away.
fn open_group(setup: &mut Setup, share: &str, filter: &str) {
    let home = PartitionId(2);
    let join = Join {
        share: share.into(),
        filter: filter.into(),
        member: HomeRef {
            partition: home,
            session: SessionUid(1),
        },
        front: None,
        options: SubscriptionOptions {
            qos: QoS::AtLeastOnce,
            ..SubscriptionOptions::default()
        },
        identifier: None,
        strategy: SharedStrategy::RoundRobin,
        request: 1,
    };
    let (partition, shell) = (&mut setup.partition, &mut setup.shell);
    partition.handle_partition(NOW, home, ToPartition::Join(Box::new(join)), shell);
    setup.turn();
}

/// And for ten shared groups whose members are away.
#[test]
fn a_message_of_a_group_that_is_only_in_the_log_takes_as_little_m17() {
    let open = |setup: &mut Setup, number: u32| {
        open_group(setup, "share", &format!("device/{number:08}/commands"));
    };
    let (each, row) = each_in_the_log(10, open, |_| None);
    eprintln!("a message of a group that is only in the log: {each:.1} bytes, {row:.1} its row");
    assert!(each <= 10.0, "{each} bytes");
}

/// Of each page the moments are kept as far as they differ: within ten seconds if all are as long, within a week if they are any.
#[test]
fn a_message_that_expires_takes_little_more_in_the_log_m17() {
    let none = each_of_sessions(|_| None).0;
    let same = each_of_sessions(|_| Some(86_400_000)).0;
    let week = each_of_sessions(|at| Some(3_600_000 + at * 7_919_377 % 604_800_000)).0;
    eprintln!(
        "a message that is only in the log: {none:.2} bytes, {same:.2} with an expiry, {week:.2} with any within a week"
    );
    assert!(same - none <= 1.0, "{none} and {same} bytes");
    assert!(week - none <= 3.0, "{none} and {week} bytes");
}

#[test]
fn a_reference_to_a_message_of_many_sessions_takes_less() {
    const SESSIONS: u64 = 100;
    const COUNT: u64 = 1_000;
    let mut setup = Setup::new(Class::Durable, None);
    for number in 0..SESSIONS as u32 {
        setup.open(number, AttachStage::Claim, 3_600, Some("all"));
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

/// Messages for so many sessions that are away, until they have taken as much as all that wait may have: four thirds of what may be in memory.
fn until_full(sessions: u32, payload: usize) -> (u64, f64) {
    const HOT: u64 = 1 << 20;
    const ALL: u64 = HOT / 3 * 4;
    let mut setup = Setup::new(Class::Durable, None);
    setup.partition.set_limits(Limits {
        hot_bytes: HOT,
        queue_messages_max: u32::MAX,
        queue_bytes_max: u64::MAX,
        ..Limits::default()
    });
    setup.payload = vec![7; payload];
    for number in 0..sessions {
        setup.open(number, AttachStage::Claim, 3_600, Some("all"));
    }
    loop {
        publish(&mut setup, "all", 10);
        let counts = setup.partition.counts();
        assert!(counts.record_bytes <= HOT + HOT / 8);
        if counts.record_bytes + counts.name_bytes() >= ALL {
            let names = counts.name_bytes() as f64 / ALL as f64;
            return (counts.records, names);
        }
    }
}

/// What may be in memory did not shrink as the names of messages grew: a quarter of what they may take was left to names.
#[test]
fn most_of_what_messages_may_take_is_names_before_it_is_full_m17() {
    for (sessions, payload) in [(1, 64), (16, 64), (256, 64), (256, 1_024), (256, 4_096)] {
        let (count, names) = until_full(sessions, payload);
        eprintln!(
            "{count} messages of {payload} bytes, each for {sessions} sessions: {:.0} % names",
            names * 100.0
        );
        assert!(names >= 0.7, "{sessions} sessions: {names}");
    }
}

const MEMBERS: u32 = 20;
const GROUPS: u32 = 100;

/// Sessions with as many groups of their own, and what is said and taken of these, L1 included.
struct Weighed {
    setup: Setup,
    sessions: Vec<(HomeRef, Epoch)>,
    index: router::Writer<PartitionId>,
    said: u64,
    taken: u64,
}

impl Weighed {
    fn new(class: Class, stage: AttachStage, expiry_seconds: u32, by: SharedStrategy) -> Self {
        let mut setup = Setup::new(class, None);
        setup.partition.set_limits(Limits {
            shared_strategy: by,
            ..Limits::default()
        });
        let attach = |number| setup.attach(number, stage, expiry_seconds);
        let sessions = (0..MEMBERS).map(attach).collect();
        let said = setup.partition.counts().session_bytes;
        let taken = live_bytes();
        let (index, _) = router::SharedMatcher::new();
        let mut weighed = Self {
            setup,
            sessions,
            index,
            said,
            taken,
        };
        weighed.subscribe();
        weighed
    }

    fn subscribe(&mut self) {
        for (member, &(home, epoch)) in self.sessions.iter().enumerate() {
            let filter = |group| format!("{member}/{group}");
            let subscriptions = (0..GROUPS).map(|group| Subscription {
                filter: filter(group).into(),
                share: Some(format!("g{group}").into()),
                options: SubscriptionOptions {
                    qos: QoS::AtLeastOnce,
                    ..SubscriptionOptions::default()
                },
                identifier: None,
            });
            self.setup.call(ToHome::Subscribe {
                session: home.session,
                epoch,
                part: RequestPart::whole(1),
                subscriptions: subscriptions.collect(),
            });
            for group in 0..GROUPS {
                self.index.insert(&filter(group), PartitionId(1));
            }
        }
        self.index.publish(|| unreachable!("nobody looks"));
        self.index.try_settle().expect("nobody looks");
    }

    fn detach(&mut self) {
        for &(home, epoch) in &self.sessions {
            self.setup.call(ToHome::Detach {
                session: home.session,
                epoch,
                cause: DetachCause::Lost,
                expiry_seconds: None,
                open: Vec::new(),
                claim: None,
            });
        }
    }

    fn check(&self, what: &str) {
        let each = u64::from(MEMBERS * GROUPS);
        let said = self.setup.partition.counts().session_bytes - self.said;
        let taken = live_bytes() - self.taken;
        eprintln!(
            "a shared group {what}: {} bytes are taken, {} said",
            taken / each,
            said / each
        );
        assert!((taken..=2 * taken).contains(&said), "{what}");
    }
}

/// A group with a member that is there, and with one that has gone: what that needed more is given back.
#[test]
fn a_shared_group_takes_no_more_than_is_said_m4() {
    for by in [SharedStrategy::RoundRobin, SharedStrategy::HashTopic] {
        eprintln!("by {by:?}");
        let mut weighed = Weighed::new(Class::Durable, AttachStage::Claim, 3_600, by);
        weighed.check("whose member is connected");
        weighed.detach();
        weighed.check("whose member is away");
        let weighed = Weighed::new(Class::Volatile, AttachStage::Open(Epoch(1)), 0, by);
        weighed.check("whose member ends with its connection");
    }
}
