//! Messages that have waited, or were retained, for longer than they may.

use courser_contract::{DetachCause, Dropped, QoS, SessionLimits};
use courser_engine::Limits;
use proptest::prelude::*;

use crate::people::durable;
use crate::world::{Acks, Commits, DURABLE, OTHER, Options, VOLATILE, World, to};

const MINUTE: u32 = 60;

fn limited(queue: u32, retained: u32) -> World {
    World::with_limits(Limits {
        queue_seconds_max: queue,
        retained_seconds_max: retained,
        ..Limits::default()
    })
}

/// Time passes as it does for a broker: whatever is due is done when it is.
fn live(world: &mut World, seconds: u64) {
    for _ in 0..seconds * 4 {
        world.pass_time(250);
        world.settle();
    }
}

fn too_old(world: &World) -> u64 {
    let dropped = world.fx.dropped.get(&Dropped::TooOld);
    dropped.copied().unwrap_or_default()
}

fn queued(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().queued_messages
}

/// A session that is away and waits for `t`.
fn absent(world: &mut World, options: Options) -> usize {
    let at = world.client("a");
    world.attach(at, options);
    world.subscribe(at, to("t", QoS::AtLeastOnce));
    world.detach(at, DetachCause::Lost);
    at
}

fn send(world: &mut World, payload: &str) {
    let ticket = world.send("t", payload, QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(ticket));
}

#[test]
fn a_message_waits_no_longer_than_it_may() {
    let mut world = limited(MINUTE, u32::MAX);
    let a = absent(&mut world, Options::durable());
    send(&mut world, "0");
    live(&mut world, 30);
    send(&mut world, "1");
    live(&mut world, 29);
    assert_eq!(
        (queued(&world), too_old(&world)),
        (2, 0),
        "it has a second left"
    );
    live(&mut world, 5);
    assert_eq!((queued(&world), too_old(&world)), (1, 1));
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), ["1"]);
    // Nothing is left that would be looked at, and what comes later is looked at all the same.
    world.detach(a, DetachCause::Lost);
    live(&mut world, 200);
    send(&mut world, "2");
    live(&mut world, 59);
    assert_eq!(queued(&world), 1);
    live(&mut world, 5);
    assert_eq!((queued(&world), too_old(&world)), (0, 2));
}

/// A round that meets nobody is not the last one: there is no other limit that would ask for the next.
#[test]
fn the_limit_counts_for_the_first_session_however_late_it_comes() {
    let mut world = limited(MINUTE, u32::MAX);
    live(&mut world, 100);
    absent(&mut world, Options::durable());
    send(&mut world, "0");
    live(&mut world, 59);
    assert_eq!((queued(&world), too_old(&world)), (1, 0));
    live(&mut world, 5);
    assert_eq!((queued(&world), too_old(&world)), (0, 1));
}

#[test]
fn the_limit_counts_for_the_next_session_after_the_last_one_has_ended() {
    let mut world = limited(MINUTE, u32::MAX);
    let a = absent(&mut world, Options::durable());
    world.attach(a, Options::clean());
    world.detach(a, DetachCause::Lost);
    live(&mut world, 100);
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 0);
    absent(&mut world, Options::durable());
    send(&mut world, "0");
    live(&mut world, 64);
    assert_eq!((queued(&world), too_old(&world)), (0, 1));
}

/// Its members are at home elsewhere: a shared group may be all that a partition has.
#[test]
fn the_limit_counts_for_the_first_shared_group_however_late_it_comes() {
    let mut world = limited(MINUTE, u32::MAX);
    live(&mut world, 100);
    let a = durable(&mut world, "a");
    let mut shared = to("t", QoS::AtLeastOnce);
    shared.share = Some("g".into());
    world.subscribe(a, shared);
    world.detach(a, DetachCause::Lost);
    send(&mut world, "0");
    live(&mut world, 64);
    assert_eq!((queued(&world), too_old(&world)), (0, 1));
}

#[test]
fn a_session_has_the_limit_of_whom_it_belongs_to() {
    let own = SessionLimits {
        queued_seconds_max: 10,
        ..SessionLimits::NONE
    };
    for told_later in [false, true] {
        let mut world = limited(MINUTE, u32::MAX);
        let limits = if told_later { SessionLimits::NONE } else { own };
        let options = Options {
            limits,
            ..Options::durable()
        };
        absent(&mut world, options);
        send(&mut world, "0");
        live(&mut world, 9);
        if told_later {
            world.call(DURABLE, |it, _, _| {
                for place in 0..it.session_places() {
                    it.limit_session_at(place, own);
                }
            });
        }
        assert_eq!(queued(&world), 1, "{told_later}");
        live(&mut world, 4);
        assert_eq!(queued(&world), 0, "{told_later}");
    }
}

#[test]
fn m30_what_is_under_way_is_not_too_old() {
    let mut world = limited(MINUTE, u32::MAX);
    let a = absent(&mut world, Options::durable());
    world.clients[a].acks = Acks::Held;
    send(&mut world, "0");
    let options = Options {
        receive_maximum: 1,
        ..Options::durable()
    };
    world.attach(a, options);
    send(&mut world, "1");
    live(&mut world, 90);
    assert_eq!(
        (queued(&world), too_old(&world)),
        (1, 1),
        "one is with the client"
    );
    world.ack(a, 1);
    assert_eq!(world.got(a), ["0"]);
    assert_eq!(queued(&world), 0);
}

/// What waits behind a window of one becomes too old, far beyond what the client may have been sent: it gets what comes then.
#[test]
fn m30_a_session_whose_whole_backlog_went_gets_what_comes_next() {
    let mut world = limited(MINUTE, u32::MAX);
    let a = absent(&mut world, Options::durable());
    world.clients[a].acks = Acks::Held;
    let options = Options {
        receive_maximum: 1,
        ..Options::durable()
    };
    world.attach(a, options);
    for number in 0..20 {
        send(&mut world, &number.to_string());
    }
    live(&mut world, 90);
    assert_eq!((queued(&world), too_old(&world)), (1, 19));
    world.ack(a, 1);
    world.settle();
    assert_eq!(world.got(a), ["0"]);
    send(&mut world, "new");
    assert_eq!(world.got(a), ["new"]);
}

#[test]
fn what_waits_in_a_shared_group_has_the_limit_of_the_settings() {
    let mut world = limited(MINUTE, u32::MAX);
    let a = durable(&mut world, "a");
    let mut shared = to("t", QoS::AtLeastOnce);
    shared.share = Some("g".into());
    world.subscribe(a, shared);
    world.detach(a, DetachCause::Lost);
    send(&mut world, "0");
    live(&mut world, 50);
    send(&mut world, "1");
    live(&mut world, 14);
    assert_eq!((queued(&world), too_old(&world)), (1, 1));
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["1"]);
}

#[test]
fn a_retained_message_is_forgotten_and_counted_once() {
    let mut world = limited(u32::MAX, MINUTE);
    world.retain("t/1", "old", QoS::AtLeastOnce);
    world.retain("t/2", "old", QoS::AtLeastOnce);
    world.settle();
    live(&mut world, 40);
    world.retain("t/2", "new", QoS::AtLeastOnce);
    world.settle();
    // However long the entry takes that says so.
    world.commits = Commits::Held;
    for _ in 0..200 {
        world.pass_time(250);
    }
    let kept = |world: &World| world.nodes[&DURABLE].partition.counts().retained_messages;
    assert_eq!((kept(&world), too_old(&world)), (2, 1));
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!((kept(&world), too_old(&world)), (1, 1));
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    assert_eq!(world.got(a), ["new"]);
    live(&mut world, 20);
    assert_eq!((kept(&world), too_old(&world)), (0, 2));
}

/// The broker says a value again when it changes: one that stands still has not aged. Others of a volatile partition do.
#[test]
fn what_is_not_durable_ages_but_values_of_the_broker_stay() {
    let mut world = limited(MINUTE, MINUTE);
    for topic in ["$SYS/broker/version", "$SYSTEM"] {
        world.retain(topic, "1", QoS::AtMostOnce);
    }
    world.settle();
    live(&mut world, 200);
    // Nobody has published those values: they are not counted among what is retained.
    let counts = world.nodes[&VOLATILE].partition.counts();
    assert_eq!((counts.retained_messages, too_old(&world)), (0, 1));
    let a = durable(&mut world, "a");
    for filter in ["$SYS/#", "$SYSTEM"] {
        world.subscribe(a, to(filter, QoS::AtMostOnce));
    }
    assert_eq!(world.got(a), ["1"]);
}

#[test]
fn age_outlives_restarts_and_leaders() {
    let mut world = limited(MINUTE, u32::MAX);
    absent(&mut world, Options::durable());
    send(&mut world, "0");
    for round in 0..6 {
        live(&mut world, 9);
        assert_eq!(queued(&world), 1, "{round}");
        if round % 2 == 0 {
            world.restart(DURABLE);
        } else {
            world.depose(DURABLE, 0);
            world.elect(DURABLE);
        }
        world.settle();
    }
    live(&mut world, 10);
    assert_eq!((queued(&world), too_old(&world)), (0, 1));
}

#[test]
fn a_limit_counts_from_the_moment_on_at_which_it_is_set() {
    let mut world = World::new();
    absent(&mut world, Options::durable());
    send(&mut world, "0");
    live(&mut world, 100);
    assert_eq!(queued(&world), 1, "there is none");
    let set = |world: &mut World, seconds| {
        let limits = Limits {
            queue_seconds_max: seconds,
            ..Limits::default()
        };
        world.call(DURABLE, |it, _, _| it.set_limits(limits));
    };
    set(&mut world, 3_600);
    live(&mut world, 10);
    assert_eq!(queued(&world), 1);
    set(&mut world, MINUTE);
    live(&mut world, 4);
    assert_eq!((queued(&world), too_old(&world)), (0, 1));
    set(&mut world, u32::MAX);
    send(&mut world, "1");
    live(&mut world, 100);
    assert_eq!(queued(&world), 1, "and none again");
}

#[test]
fn i9_a_step_ends_a_bounded_number() {
    let mut world = limited(1, u32::MAX);
    absent(&mut world, Options::durable());
    for number in 0..1_100 {
        world.send("t", &number.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let mut before = too_old(&world);
    for _ in 0..40 {
        world.pass_time(250);
        let ended = too_old(&world) - before;
        assert!(ended <= 512, "{ended} in one step");
        before += ended;
    }
    world.settle();
    assert_eq!((queued(&world), too_old(&world)), (0, 1_100));
}

#[derive(Clone, Debug)]
enum Step {
    Send,
    Pass(u64),
    Restart,
    Lead,
    Visit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => Just(Step::Send),
        5 => (1..90u64).prop_map(Step::Pass),
        1 => Just(Step::Restart),
        1 => Just(Step::Lead),
        2 => Just(Step::Visit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A message is there until its time is over, and not when a 32nd part of that and two seconds more have passed (I1: each that goes
    /// is counted).
    #[test]
    fn i1_a_message_goes_when_its_time_is_over(steps in prop::collection::vec(step(), 1..30)) {
        let mut world = limited(MINUTE, u32::MAX);
        let a = absent(&mut world, Options::durable());
        let mut waiting: Vec<(u64, String)> = Vec::new();
        let (mut sent, mut got) = (0_u64, 0);
        for step in steps.iter().chain([&Step::Visit]) {
            match step {
                Step::Send => {
                    send(&mut world, &sent.to_string());
                    waiting.push((world.now.wall.0, sent.to_string()));
                    sent += 1;
                }
                Step::Pass(seconds) => live(&mut world, *seconds),
                Step::Restart => world.restart(DURABLE),
                Step::Lead => {
                    world.depose(OTHER, 0);
                    world.depose(DURABLE, 0);
                    world.elect(OTHER);
                    world.elect(DURABLE);
                }
                Step::Visit => {
                    world.settle();
                    world.attach(a, Options::durable());
                    let taken = world.got(a);
                    world.detach(a, DetachCause::Lost);
                    got += taken.len() as u64;
                    let now = world.now.wall.0;
                    for (at, payload) in waiting.drain(..) {
                        let age = now - at;
                        if age <= 60_000 {
                            prop_assert!(taken.contains(&payload), "{} after {} ms", payload, age);
                        }
                        if age > 60_000 + 60_000 / 32 + 3_000 {
                            prop_assert!(!taken.contains(&payload), "{} after {} ms", payload, age);
                        }
                    }
                }
            }
            world.settle();
        }
        prop_assert_eq!(got + too_old(&world), sent, "each was delivered or counted");
    }
}
