//! Bursts that are larger than the room of a session, or of a shared group, where the oldest goes for the newest: what has not come to the stream
//! yet is as old as it is.

use std::collections::VecDeque;

use courser_contract::{DetachCause, Dropped, Publish, QoS, RecordView};
use courser_engine::{Limits, Overflow};
use proptest::prelude::*;

use crate::world::{Acks, Commits, DURABLE, Options, Subscription, VOLATILE, World, message, to};

/// Who has the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Session,
    Group,
}

impl Whose {
    const ALL: [Self; 2] = [Self::Session, Self::Group];

    fn subscription(self) -> Subscription {
        Subscription {
            share: match self {
                Self::Session => None,
                Self::Group => Some("g".into()),
            },
            ..to("t", QoS::AtLeastOnce)
        }
    }
}

fn room(messages: u32, overflow: Overflow) -> Limits {
    Limits {
        queue_messages_max: messages,
        overflow,
        ..Limits::default()
    }
}

/// All of it in memory: what comes back from the log counts as under way.
fn world(limits: Limits) -> World {
    World::with_hot(limits, u64::MAX)
}

/// A client that has subscribed to `t` and acknowledges nothing by itself.
fn subscriber(world: &mut World, whose: Whose, options: Options) -> usize {
    let at = world.client("a");
    world.attach(at, options);
    world.clients[at].acks = Acks::Held;
    world.subscribe(at, whose.subscription());
    at
}

/// The same, and it has gone.
fn absent(world: &mut World, whose: Whose) -> usize {
    let at = subscriber(world, whose, Options::durable());
    world.detach(at, DetachCause::Lost);
    at
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// All of them in one batch of a partition.
fn burst(world: &mut World, range: std::ops::Range<u64>) {
    for payload in numbers(range) {
        world.append_to(DURABLE, &message("t", &payload, QoS::AtLeastOnce));
    }
}

/// What a message takes of the room of a stream.
fn bytes_of(publish: &Publish<'_>) -> u64 {
    RecordView::from(publish).encoded_len() as u64
}

fn queued(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().queued_messages
}

fn dropped(world: &World) -> u64 {
    let dropped = world.fx.dropped.get(&Dropped::QueueFull);
    dropped.copied().unwrap_or_default()
}

/// What the client gets when it comes back and takes all.
fn taken(world: &mut World, at: usize) -> Vec<String> {
    world.clients[at].acks = Acks::Auto;
    world.got(at);
    world.attach(at, Options::durable());
    world.got(at)
}

#[test]
fn m12_of_a_burst_in_one_batch_the_last_ones_remain() {
    for whose in Whose::ALL {
        let mut world = world(room(3, Overflow::DropOldest));
        let a = absent(&mut world, whose);
        burst(&mut world, 0..10);
        world.settle();
        assert_eq!((queued(&world), dropped(&world)), (3, 7), "{whose:?}");
        // What waits goes first, and then what comes.
        burst(&mut world, 10..15);
        world.settle();
        assert_eq!((queued(&world), dropped(&world)), (3, 12), "{whose:?}");
        assert_eq!(taken(&mut world, a), numbers(12..15), "{whose:?}");
    }
}

#[test]
fn m12_of_a_burst_in_batches_that_are_not_committed_the_last_ones_remain() {
    for whose in Whose::ALL {
        let mut world = world(room(3, Overflow::DropOldest));
        let a = absent(&mut world, whose);
        world.commits = Commits::Held;
        let numbered = numbers(0..10);
        let tickets = numbered
            .iter()
            .map(|n| world.send("t", n, QoS::AtLeastOnce));
        let tickets: Vec<_> = tickets.collect();
        assert_eq!(world.nodes[&DURABLE].proposed.len(), 10);
        for _ in 0..10 {
            world.commit_one(DURABLE);
            world.turn();
            assert!(queued(&world) <= 3, "{whose:?}: never more than may wait");
        }
        world.settle();
        let acked = tickets.iter().all(|ticket| world.is_acked(*ticket));
        assert!(acked, "{whose:?}: a publisher does not hear of it");
        assert_eq!((queued(&world), dropped(&world)), (3, 7), "{whose:?}");
        assert_eq!(taken(&mut world, a), numbers(7..10), "{whose:?}");
    }
}

#[test]
fn m30_what_a_client_has_stays_and_the_last_ones_of_a_burst_with_it() {
    for whose in Whose::ALL {
        let mut world = world(room(5, Overflow::DropOldest));
        let window = Options {
            receive_maximum: 2,
            ..Options::durable()
        };
        let a = subscriber(&mut world, whose, window);
        burst(&mut world, 0..4);
        world.settle();
        assert_eq!(world.got(a), numbers(0..2), "{whose:?}");
        burst(&mut world, 4..12);
        world.settle();
        assert_eq!((queued(&world), dropped(&world)), (5, 7), "{whose:?}");
        assert_eq!(world.got(a), numbers(0..0), "{whose:?}");
        world.ack(a, 2);
        world.ack(a, 2);
        assert_eq!(world.got(a), numbers(9..12), "{whose:?}");
    }
}

/// What is dropped before it has come is given to nobody, also where a window is open.
#[test]
fn m12_a_client_with_an_open_window_gets_the_last_ones_of_a_burst() {
    for whose in Whose::ALL {
        let mut world = world(room(3, Overflow::DropOldest));
        let a = subscriber(&mut world, whose, Options::durable());
        burst(&mut world, 0..10);
        world.settle();
        assert_eq!(world.got(a), numbers(7..10), "{whose:?}");
        assert_eq!((queued(&world), dropped(&world)), (3, 7), "{whose:?}");
        world.ack(a, 3);
        assert_eq!(queued(&world), 0, "{whose:?}");
        burst(&mut world, 10..12);
        world.settle();
        assert_eq!(world.got(a), numbers(10..12), "{whose:?}: it goes on");
    }
}

#[test]
fn m36_a_group_without_a_log_keeps_the_last_ones_of_a_burst() {
    let mut world = world(room(3, Overflow::DropOldest));
    let window = Options {
        receive_maximum: 1,
        ..Options::clean()
    };
    let a = subscriber(&mut world, Whose::Group, window);
    for payload in numbers(0..10) {
        world.append_to(VOLATILE, &message("t", &payload, QoS::AtLeastOnce));
    }
    world.settle();
    assert_eq!(dropped(&world), 7);
    for number in 7..10 {
        assert_eq!(world.got(a), numbers(number..number + 1));
        world.ack(a, 1);
    }
}

/// A long message takes the room of as many short ones as it needs, also of those that have not come yet.
#[test]
fn m12_the_bytes_of_what_comes_are_room_for_what_comes_later() {
    for whose in Whose::ALL {
        let payloads = [10, 60, 20, 20, 30, 90].map(|bytes| "x".repeat(bytes));
        let mut world = world(Limits::default());
        let a = absent(&mut world, whose);
        let publish = |payload| message("t", payload, QoS::AtLeastOnce);
        let beside = bytes_of(&publish(""));
        // The last and one of 30 bytes fit, and no other.
        let limits = Limits {
            queue_bytes_max: 120 + 2 * beside + 16,
            ..room(100, Overflow::DropOldest)
        };
        world.call(DURABLE, |it, _, _| it.set_limits(limits));
        for payload in &payloads {
            world.append_to(DURABLE, &publish(payload));
        }
        world.settle();
        let sizes: Vec<_> = taken(&mut world, a).iter().map(String::len).collect();
        assert_eq!(sizes, [30, 90], "{whose:?}");
        assert_eq!(dropped(&world), 4, "{whose:?}");
    }
}

/// What had come under another policy is in nobody's way for longer than it is on its way.
#[test]
fn m12_a_policy_that_changes_in_a_burst_counts_for_what_comes_from_then_on() {
    for whose in Whose::ALL {
        let mut world = world(room(3, Overflow::DropNewest));
        let a = absent(&mut world, whose);
        let set = |world: &mut World, overflow| {
            world.call(DURABLE, |it, _, _| it.set_limits(room(3, overflow)));
        };
        burst(&mut world, 0..2);
        set(&mut world, Overflow::DropOldest);
        burst(&mut world, 2..6);
        set(&mut world, Overflow::DropNewest);
        burst(&mut world, 6..7);
        set(&mut world, Overflow::DropOldest);
        burst(&mut world, 7..8);
        world.settle();
        assert_eq!((queued(&world), dropped(&world)), (3, 5), "{whose:?}");
        let expected = ["0", "1", "7"];
        assert_eq!(taken(&mut world, a), expected, "{whose:?}");
        // The same once nothing is on its way.
        world.detach(a, DetachCause::Lost);
        burst(&mut world, 8..12);
        world.settle();
        assert_eq!(taken(&mut world, a), numbers(9..12), "{whose:?}");
    }
}

/// A leader that goes in the midst of a burst: what is committed of it says itself what of it was dropped.
#[test]
fn m5_a_leader_that_goes_in_a_burst_leaves_what_its_entries_say() {
    for whose in Whose::ALL {
        for kept in 0..=10 {
            let mut world = world(room(3, Overflow::DropOldest));
            let a = absent(&mut world, whose);
            world.commits = Commits::Held;
            for payload in numbers(0..10) {
                world.send("t", &payload, QoS::AtLeastOnce);
            }
            world.depose(DURABLE, kept);
            assert_eq!(queued(&world), kept.min(3) as u64, "{whose:?} {kept}");
            world.elect(DURABLE);
            world.settle();
            world.commits = Commits::Held;
            world.resend(DURABLE);
            world.settle();
            assert_eq!(taken(&mut world, a), numbers(7..10), "{whose:?} {kept}");
        }
    }
}

/// A session that ends in the midst of a burst takes with it what was on its way.
#[test]
fn m7_a_session_that_ends_in_a_burst_leaves_nothing_behind() {
    for whose in Whose::ALL {
        let mut world = world(room(3, Overflow::DropOldest));
        let a = subscriber(&mut world, whose, Options::durable());
        world.commits = Commits::Held;
        burst(&mut world, 0..5);
        let clean = Options {
            clean_start: true,
            ..Options::durable()
        };
        for (to, message) in world.clients[a].detach(DetachCause::Lost) {
            world.send_home(to, message);
        }
        world.connect(a, clean);
        for payload in ["5", "66", "777", "8888"] {
            world.append_to(DURABLE, &message("t", payload, QoS::AtLeastOnce));
        }
        world.settle();
        assert_eq!(queued(&world), 0, "{whose:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Into the batch that is being gathered; so many bytes.
    Publish(usize),
    /// The batch is proposed.
    Turn,
    Commit,
    Ack(usize),
    Go,
    Come,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (1..4usize).prop_map(Step::Publish),
        4 => Just(Step::Turn),
        3 => Just(Step::Commit),
        2 => (1..4usize).prop_map(Step::Ack),
        1 => Just(Step::Go),
        2 => Just(Step::Come),
    ]
}

/// What may wait, as a plain queue.
struct Model {
    most: (usize, u64),
    whose: Whose,
    /// Payload, bytes of the record, and whether the client has it.
    waiting: VecDeque<(String, u64, bool)>,
    dropped: u64,
}

impl Model {
    fn is_full(&self, bytes: u64) -> bool {
        let queued: u64 = self.waiting.iter().map(|(_, bytes, _)| bytes).sum();
        self.waiting.len() >= self.most.0 || queued + bytes > self.most.1
    }

    fn publish(&mut self, payload: &str, bytes: u64) {
        let stays = self.waiting.iter().filter(|(.., has)| *has);
        let stays: u64 = stays.map(|(_, bytes, _)| bytes).sum();
        if stays + bytes > self.most.1 {
            self.dropped += 1;
            return;
        }
        while self.is_full(bytes) {
            self.dropped += 1;
            match self.waiting.iter().position(|(.., has)| !has) {
                Some(at) => drop(self.waiting.remove(at)),
                None => return,
            }
        }
        self.waiting.push_back((payload.to_owned(), bytes, false));
    }

    fn got(&mut self, payloads: &[String]) {
        for payload in payloads {
            let found = self.waiting.iter_mut().find(|(it, ..)| it == payload);
            found.expect("nobody gets what was dropped").2 = true;
        }
    }

    /// Of a group another member would get it now.
    fn gone(&mut self) {
        if self.whose == Whose::Group {
            for (.., has) in &mut self.waiting {
                *has = false;
            }
        }
    }

    fn payloads(&self) -> Vec<&str> {
        self.waiting
            .iter()
            .map(|(payload, ..)| &**payload)
            .collect()
    }
}

fn live_through(whose: Whose, most: (u32, u64), steps: &[Step]) {
    let limits = Limits {
        queue_bytes_max: most.1,
        ..room(most.0, Overflow::DropOldest)
    };
    let mut world = world(limits);
    let options = Options {
        receive_maximum: 2,
        ..Options::durable()
    };
    let a = subscriber(&mut world, whose, options.clone());
    world.commits = Commits::Held;
    let mut model = Model {
        most: (most.0 as usize, most.1),
        whose,
        waiting: VecDeque::new(),
        dropped: 0,
    };
    let mut sent = 0;
    for step in steps {
        let is_there = world.clients[a].home.is_some();
        match *step {
            Step::Publish(bytes) => {
                let payload = format!("{sent:04}{}", "x".repeat(bytes));
                sent += 1;
                let publish = message("t", &payload, QoS::AtLeastOnce);
                model.publish(&payload, bytes_of(&publish));
                world.append_to(DURABLE, &publish);
            }
            Step::Turn => world.turn(),
            Step::Commit => {
                world.commit_one(DURABLE);
                world.turn();
            }
            Step::Ack(count) if is_there => {
                world.settle();
                model.got(&world.got(a));
                let waiting = world.clients[a].waiting.iter();
                let acked: Vec<_> = waiting.take(count).map(|it| it.payload.clone()).collect();
                world.ack(a, count);
                model
                    .waiting
                    .retain(|(payload, ..)| !acked.contains(payload));
            }
            Step::Go if is_there => {
                world.settle();
                model.got(&world.got(a));
                world.detach(a, DetachCause::Lost);
                model.gone();
            }
            Step::Come if !is_there => world.attach(a, options.clone()),
            Step::Ack(_) | Step::Go | Step::Come => {}
        }
        model.got(&world.got(a));
        assert!(
            queued(&world) <= u64::from(most.0),
            "never more than may wait"
        );
    }
    world.settle();
    model.got(&world.got(a));
    assert_eq!(dropped(&world), model.dropped, "each is counted once");
    assert_eq!(queued(&world), model.waiting.len() as u64);
    if world.clients[a].home.is_some() {
        world.detach(a, DetachCause::Lost);
    }
    assert_eq!(taken(&mut world, a), model.payloads());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever is under way, a full session or group keeps what a plain queue would.
    #[test]
    fn m12_bursts_leave_what_a_plain_queue_would(
        is_group in any::<bool>(),
        messages in 1..6u32,
        bytes in 60..400u64,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let whose = match is_group {
            true => Whose::Group,
            false => Whose::Session,
        };
        live_through(whose, (messages, bytes), &steps);
    }
}
