//! What waits beyond a limit that was lowered.

use courser_contract::{DetachCause, Dropped, QoS, SessionLimits};
use courser_engine::{Limits, Overflow};
use proptest::prelude::*;

use crate::people::durable;
use crate::world::{Acks, DURABLE, Options, Subscription, World, to};

/// No limit of a session's owner.
const NONE: u32 = u32::MAX;

fn limits(messages: u32) -> Limits {
    Limits {
        queue_messages_max: messages,
        ..Limits::default()
    }
}

fn set(world: &mut World, limits: Limits) {
    world.call(DURABLE, |it, _, _| it.set_limits(limits));
}

/// Limits the only session by those of its owner.
fn set_own(world: &mut World, messages: u32) {
    let own = SessionLimits {
        queued_messages_max: messages,
        ..SessionLimits::NONE
    };
    world.call(DURABLE, |it, _, _| {
        for place in 0..it.session_places() {
            it.limit_session_at(place, own);
        }
    });
}

/// All that is due at once is done.
fn round(world: &mut World) {
    for _ in 0..20 {
        world.pass_time(0);
        world.settle();
    }
}

fn dropped(world: &World, why: Dropped) -> u64 {
    world.fx.dropped.get(&why).copied().unwrap_or_default()
}

fn over_limit(world: &World) -> u64 {
    dropped(world, Dropped::OverLimit)
}

fn queued(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().queued_messages
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// A session that waits for `t`, with messages of these numbers.
fn waiting(world: &mut World, range: std::ops::Range<u64>) -> usize {
    let at = durable(world, "a");
    world.subscribe(at, to("t", QoS::AtLeastOnce));
    world.detach(at, DetachCause::Lost);
    send(world, range);
    at
}

fn send(world: &mut World, range: std::ops::Range<u64>) {
    for payload in numbers(range) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
}

#[test]
fn i9_what_waits_beyond_a_lowered_limit_goes_the_oldest_first_and_is_counted() {
    for overflow in [
        Overflow::DropNewest,
        Overflow::DropOldest,
        Overflow::RefusePublisher,
    ] {
        let mut world = World::new();
        let a = waiting(&mut world, 0..20);
        let lower = Limits {
            overflow,
            ..limits(5)
        };
        set(&mut world, lower);
        round(&mut world);
        assert_eq!((queued(&world), over_limit(&world)), (5, 15));
        world.attach(a, Options::durable());
        assert_eq!(world.got(a), numbers(15..20));
        // There is room again, and a higher limit is one.
        set(&mut world, limits(8));
        world.detach(a, DetachCause::Lost);
        send(&mut world, 20..28);
        round(&mut world);
        assert_eq!((queued(&world), over_limit(&world)), (8, 15));
    }
}

/// What a connection was sent stays until it is acknowledged, what it had only asked for goes with it.
#[test]
fn i9_what_a_round_spared_for_a_connection_and_was_not_sent_goes_with_it() {
    let mut world = World::new();
    let a = waiting(&mut world, 0..20);
    world.clients[a].acks = Acks::Held;
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), numbers(0..10), "its window");
    set(&mut world, limits(5));
    round(&mut world);
    assert!(queued(&world) > 5, "what it has and has asked for");
    world.detach(a, DetachCause::Lost);
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (10, 10));
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), numbers(0..10), "it is owed these");
    world.ack(a, 10);
    assert_eq!(queued(&world), 0);
}

#[test]
fn bytes_are_a_limit_as_well() {
    let mut world = World::new();
    let a = waiting(&mut world, 10..20);
    let record = world.nodes[&DURABLE].partition.records_in_memory();
    let bytes = record.map(|(.., it)| it.encoded_len()).max();
    let bytes = bytes.expect("some wait") as u64;
    let lower = Limits {
        queue_bytes_max: bytes * 4 + bytes / 2,
        ..Limits::default()
    };
    set(&mut world, lower);
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (4, 6));
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), numbers(16..20));
}

#[test]
fn the_limit_of_whom_a_session_belongs_to_is_lowered() {
    let mut world = World::new();
    let a = waiting(&mut world, 0..20);
    set_own(&mut world, 3);
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (3, 17));
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), numbers(17..20));
}

#[test]
fn m30_what_is_under_way_stays_beyond_a_lowered_limit() {
    let mut world = World::new();
    let a = waiting(&mut world, 0..0);
    world.clients[a].acks = Acks::Held;
    let options = Options {
        receive_maximum: 4,
        ..Options::durable()
    };
    world.attach(a, options);
    send(&mut world, 0..10);
    assert_eq!(world.got(a), numbers(0..4));
    set(&mut world, limits(2));
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (4, 6));
    world.ack(a, 4);
    world.settle();
    assert_eq!(queued(&world), 0);
}

#[test]
fn what_waits_in_a_shared_group_has_the_lowered_limit_of_the_settings() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let mut shared = to("t", QoS::AtLeastOnce);
    shared.share = Some("g".into());
    world.subscribe(a, shared);
    world.detach(a, DetachCause::Lost);
    send(&mut world, 0..10);
    set(&mut world, limits(4));
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (4, 6));
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), numbers(6..10));
}

#[test]
fn a_leader_with_lower_limits_than_the_one_before_ends_what_is_beyond_them() {
    let mut world = World::new();
    waiting(&mut world, 0..10);
    world.depose(DURABLE, 0);
    set(&mut world, limits(4));
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (10, 0));
    world.elect(DURABLE);
    world.settle();
    round(&mut world);
    assert_eq!((queued(&world), over_limit(&world)), (4, 6));
}

#[test]
fn i9_a_step_trims_a_bounded_number() {
    let mut world = World::new();
    waiting(&mut world, 0..1_300);
    set(&mut world, limits(100));
    let mut before = 0;
    for _ in 0..20 {
        world.pass_time(0);
        let ended = over_limit(&world) - before;
        assert!(ended <= 512, "{ended} in one step");
        before += ended;
    }
    assert_eq!((queued(&world), over_limit(&world)), (100, 1_200));
    let due = world.nodes[&DURABLE].partition.poll_timeout();
    assert!(due.is_none_or(|due| due > world.now.tick), "it is done");
}

/// One that fits no empty queue made room all the same: all that waited went, and then it was dropped itself.
#[test]
fn m12_a_message_larger_than_the_queue_is_dropped_alone() {
    let mut world = World::with_limits(Limits {
        overflow: Overflow::DropOldest,
        queue_bytes_max: 1_000,
        ..Limits::default()
    });
    let a = waiting(&mut world, 0..5);
    let ticket = world.send("t", &"x".repeat(1_000), QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(ticket));
    assert_eq!(dropped(&world, Dropped::QueueFull), 1);
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), numbers(0..5));
}

/// One that fits beside what is under way not even where all goes that waits made room all the same: that went, and then it was dropped itself.
#[test]
fn m12_a_message_that_fits_not_beside_what_is_under_way_is_dropped_alone() {
    for share in [None, Some("g".into())] {
        let mut world = World::with_limits(Limits {
            overflow: Overflow::DropOldest,
            queue_bytes_max: 2_000,
            ..Limits::default()
        });
        let a = world.client("a");
        let options = Options {
            receive_maximum: 1,
            ..Options::durable()
        };
        world.attach(a, options);
        world.clients[a].acks = Acks::Held;
        world.subscribe(
            a,
            Subscription {
                share: share.clone(),
                ..to("t", QoS::AtLeastOnce)
            },
        );
        let first = "x".repeat(1_000);
        world.send("t", &first, QoS::AtLeastOnce);
        world.settle();
        assert_eq!(world.got(a), [&*first], "it is under way");
        send(&mut world, 0..5);
        let ticket = world.send("t", &"y".repeat(1_200), QoS::AtLeastOnce);
        world.settle();
        assert!(world.is_acked(ticket));
        assert_eq!(dropped(&world, Dropped::QueueFull), 1, "{share:?}");
        // One that fits where some of them go takes the place of these.
        let last = "z".repeat(860);
        world.send("t", &last, QoS::AtLeastOnce);
        world.settle();
        let gone = dropped(&world, Dropped::QueueFull) - 1;
        assert!((1..5).contains(&gone), "{gone} are gone");
        world.clients[a].acks = Acks::Auto;
        world.ack(a, 1);
        let expected: Vec<_> = numbers(gone..5).into_iter().chain([last]).collect();
        assert_eq!(world.got(a), expected, "{share:?}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(u64),
    Limit(u32),
    Own(u32),
    Visit,
    Lead,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..12u64).prop_map(Step::Send),
        3 => (1..30u32).prop_map(Step::Limit),
        2 => prop_oneof![Just(NONE), 1..30u32].prop_map(Step::Own),
        2 => Just(Step::Visit),
        1 => Just(Step::Lead),
        1 => Just(Step::Restart),
    ]
}

/// A session that is away, and what should wait for it.
struct Queue {
    world: World,
    at: usize,
    any: u32,
    own: u32,
    sent: u64,
    waiting: Vec<String>,
    trimmed: u64,
}

impl Queue {
    fn new() -> Self {
        let mut world = World::with_limits(limits(20));
        let at = waiting(&mut world, 0..0);
        Self {
            world,
            at,
            any: 20,
            own: NONE,
            sent: 0,
            waiting: Vec::new(),
            trimmed: 0,
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Send(count) => {
                let (from, to) = (self.sent, self.sent + count);
                send(&mut self.world, from..to);
                let room = self.any.min(self.own) as usize - self.waiting.len();
                self.waiting
                    .extend(numbers(from..to).into_iter().take(room));
                self.sent = to;
            }
            Step::Limit(messages) => {
                self.any = messages;
                set(&mut self.world, limits(messages));
            }
            Step::Own(messages) => {
                self.own = messages;
                set_own(&mut self.world, messages);
            }
            Step::Visit => self.visit(),
            // Whoever leads next hears of the owner again.
            Step::Lead | Step::Restart => {
                match step {
                    Step::Lead => {
                        self.world.depose(DURABLE, 0);
                        self.world.elect(DURABLE);
                    }
                    _ => self.world.restart(DURABLE),
                }
                self.world.settle();
                set(&mut self.world, limits(self.any));
                set_own(&mut self.world, self.own);
            }
        }
        round(&mut self.world);
        let most = self.any.min(self.own) as usize;
        let gone = self.waiting.len().saturating_sub(most);
        self.waiting.drain(..gone);
        self.trimmed += gone as u64;
    }

    fn visit(&mut self) {
        let own = SessionLimits {
            queued_messages_max: self.own,
            ..SessionLimits::NONE
        };
        let options = Options {
            limits: own,
            ..Options::durable()
        };
        self.world.attach(self.at, options);
        let got = self.world.got(self.at);
        self.world.detach(self.at, DetachCause::Lost);
        assert_eq!(got, self.waiting, "the newest that may wait, in order");
        self.waiting.clear();
    }

    fn check(&self) {
        let is = (queued(&self.world), over_limit(&self.world));
        assert_eq!(is, (self.waiting.len() as u64, self.trimmed));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    /// After each step no more waits than may, the newest of it, and each that went is counted.
    #[test]
    fn i9_no_more_waits_than_the_limits_of_now_say(steps in prop::collection::vec(step(), 1..25)) {
        let mut queue = Queue::new();
        for step in steps.iter().chain([&Step::Visit]) {
            queue.run(step);
            queue.check();
        }
    }
}

#[cfg(feature = "planted")]
#[test]
fn a_planted_bug_that_trims_too_far_is_found() {
    use courser_engine::PlantedPartition;
    let found = std::panic::catch_unwind(|| {
        let mut queue = Queue::new();
        let plant = PlantedPartition::TrimmedTooFar;
        queue.world.call(DURABLE, |it, _, _| it.plant(plant));
        for step in [Step::Send(9), Step::Limit(7)] {
            queue.run(&step);
            queue.check();
        }
    });
    assert!(found.is_err(), "the planted bug is found");
}
