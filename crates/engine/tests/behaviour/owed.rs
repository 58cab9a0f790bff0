//! What was sent and is not acknowledged is owed to its client, with and without a connection: it is neither dropped nor does it expire (M30).
//!
//! v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1], v5 [MQTT-3.3.2-5]

use courser_contract::{DetachCause, Dropped, Publish, QoS, SessionLimits, WallMs};
use courser_engine::{Limits, Overflow};

use crate::people::durable;
use crate::world::{Acks, Commits, DURABLE, Options, World, message, to};

/// Sessions with room for three, of which the oldest goes.
fn narrow() -> World {
    World::with_limits(Limits {
        queue_messages_max: 3,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    })
}

fn send(world: &mut World, range: std::ops::Range<u32>) {
    for number in range {
        world.send("t", &number.to_string(), QoS::AtLeastOnce);
        world.settle();
    }
}

/// It expires in five seconds.
fn send_expiring(world: &mut World, payload: &str) {
    let publish = Publish {
        expires_at: Some(WallMs(world.now.wall.0 + 5_000)),
        ..message("t", payload, QoS::AtLeastOnce)
    };
    world.publish(&publish);
    world.settle();
}

/// A connected client of `t` that acknowledges nothing, with this Receive Maximum.
fn reader(world: &mut World, receive_maximum: u16) -> usize {
    let at = durable(world, "a");
    world.subscribe(at, to("t", QoS::AtLeastOnce));
    world.clients[at].acks = Acks::Held;
    world.detach(at, DetachCause::Lost);
    attach(world, at, receive_maximum);
    at
}

fn attach(world: &mut World, at: usize, receive_maximum: u16) {
    let options = Options {
        receive_maximum,
        ..Options::durable()
    };
    world.attach(at, options);
}

/// Payloads with whether they are marked as sent before.
fn came(world: &mut World, at: usize) -> Vec<(String, bool)> {
    let got = std::mem::take(&mut world.clients[at].got);
    got.into_iter()
        .map(|got| (got.payload, got.duplicate))
        .collect()
}

fn expected(payloads: &[(&str, bool)]) -> Vec<(String, bool)> {
    let owned = payloads.iter();
    owned.map(|&(it, again)| (it.to_owned(), again)).collect()
}

/// Time passes as it does for a broker.
fn live(world: &mut World, seconds: u64) {
    for _ in 0..seconds * 4 {
        world.pass_time(250);
        world.settle();
    }
}

fn dropped(world: &World, why: Dropped) -> u64 {
    world.fx.dropped.get(&why).copied().unwrap_or_default()
}

fn queued(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().queued_messages
}

#[test]
fn i1_what_was_sent_is_not_dropped_for_newer_ones_once_its_connection_is_lost_m30() {
    let mut world = narrow();
    let a = reader(&mut world, 3);
    send(&mut world, 0..3);
    assert_eq!(world.got(a), ["0", "1", "2"]);
    world.detach(a, DetachCause::Lost);
    send(&mut world, 3..9);
    assert_eq!(dropped(&world, Dropped::QueueFull), 6, "the new ones");
    attach(&mut world, a, 3);
    let again = expected(&[("0", true), ("1", true), ("2", true)]);
    assert_eq!(came(&mut world, a), again);
    world.ack(a, 3);
    assert_eq!(queued(&world), 0);
}

#[test]
fn what_waits_behind_what_was_sent_is_dropped_the_oldest_first_m30() {
    let mut world = narrow();
    let a = reader(&mut world, 1);
    send(&mut world, 0..3);
    assert_eq!(world.got(a), ["0"]);
    world.detach(a, DetachCause::Lost);
    send(&mut world, 3..6);
    assert_eq!(dropped(&world, Dropped::QueueFull), 3);
    attach(&mut world, a, 9);
    let again = expected(&[("0", true), ("4", false), ("5", false)]);
    assert_eq!(came(&mut world, a), again);
}

/// A smaller window than before: what is not sent again yet is owed all the same.
#[test]
fn i1_what_an_earlier_connection_was_sent_is_not_dropped_while_the_next_one_has_less_of_it_m30() {
    let mut world = narrow();
    let a = reader(&mut world, 3);
    send(&mut world, 0..3);
    world.detach(a, DetachCause::Lost);
    world.got(a);
    attach(&mut world, a, 1);
    send(&mut world, 3..6);
    for n in ["0", "1", "2"] {
        assert_eq!(came(&mut world, a), expected(&[(n, true)]));
        world.ack(a, 1);
    }
    assert_eq!(dropped(&world, Dropped::QueueFull), 3);
}

#[test]
fn i1_what_was_sent_does_not_expire_once_its_connection_is_lost_m30() {
    for is_killed in [false, true] {
        let mut world = World::new();
        let a = reader(&mut world, 1);
        send_expiring(&mut world, "0");
        send_expiring(&mut world, "1");
        assert_eq!(world.got(a), ["0"]);
        match is_killed {
            true => world.restart(DURABLE),
            false => world.detach(a, DetachCause::Lost),
        }
        live(&mut world, 8);
        // Where the process was killed, nobody knows how much was sent of what was there.
        let left = if is_killed { 2 } else { 1 };
        assert_eq!(
            (queued(&world), dropped(&world, Dropped::Expired)),
            (left, 2 - left)
        );
        attach(&mut world, a, 1);
        assert_eq!(came(&mut world, a), expected(&[("0", true)]), "{is_killed}");
        live(&mut world, 8);
        assert_eq!(queued(&world), left, "{is_killed}");
    }
}

/// However far ahead its limit was: what comes after the end of a connection was not sent to it.
#[test]
fn what_comes_after_a_kill_was_not_sent_before_m30() {
    let mut world = narrow();
    let a = reader(&mut world, 2);
    send(&mut world, 0..1);
    world.got(a);
    world.restart(DURABLE);
    world.settle();
    send_expiring(&mut world, "1");
    live(&mut world, 8);
    assert_eq!((queued(&world), dropped(&world, Dropped::Expired)), (1, 1));
    send(&mut world, 2..5);
    assert_eq!(dropped(&world, Dropped::QueueFull), 1);
    attach(&mut world, a, 9);
    let again = expected(&[("0", true), ("3", false), ("4", false)]);
    assert_eq!(came(&mut world, a), again);
}

#[test]
fn i1_what_was_sent_does_not_become_too_old_once_its_connection_is_lost_m30() {
    let mut world = World::with_limits(Limits {
        queue_seconds_max: 60,
        ..Limits::default()
    });
    let a = reader(&mut world, 1);
    send(&mut world, 0..2);
    world.detach(a, DetachCause::Lost);
    world.got(a);
    live(&mut world, 90);
    assert_eq!((queued(&world), dropped(&world, Dropped::TooOld)), (1, 1));
    attach(&mut world, a, 1);
    assert_eq!(came(&mut world, a), expected(&[("0", true)]));
}

/// Nobody comes back: its time ends it, and all that it is owed with it.
#[test]
fn i9_a_session_that_stays_away_ends_with_what_it_is_owed() {
    let mut world = narrow();
    let a = reader(&mut world, 3);
    send(&mut world, 0..3);
    world.detach(a, DetachCause::Lost);
    world.pass_time(3_601_000);
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.sessions, counts.queued_messages), (0, 0));
}

/// Its own limit is lowered below what it is owed: that stays until it is acknowledged.
#[test]
fn i1_a_lowered_limit_takes_nothing_of_what_was_sent_m30() {
    let mut world = World::new();
    let a = reader(&mut world, 3);
    send(&mut world, 0..5);
    world.detach(a, DetachCause::Lost);
    world.got(a);
    let own = SessionLimits {
        queued_messages_max: 1,
        ..SessionLimits::NONE
    };
    world.call(DURABLE, |it, _, _| {
        for place in 0..it.session_places() {
            it.limit_session_at(place, own);
        }
    });
    live(&mut world, 2);
    assert_eq!(
        (queued(&world), dropped(&world, Dropped::OverLimit)),
        (3, 2)
    );
    attach(&mut world, a, 3);
    let again = expected(&[("0", true), ("1", true), ("2", true)]);
    assert_eq!(came(&mut world, a), again);
}

/// A client with room for two that has had the first two of four, the third of which was not sent, and acknowledges one: what it gets before that is
/// committed, and then from a server that was killed at that moment.
fn before_and_after_a_kill(world: &mut World, a: usize) -> Vec<(String, bool)> {
    assert_eq!(world.got(a), ["0", "1"]);
    world.commits = Commits::Held;
    for (to, message) in world.clients[a].ack(1) {
        world.send_home(to, message);
    }
    let mut all = came(world, a);
    world.commits = Commits::AtOnce;
    world.restart(DURABLE);
    world.settle();
    attach(world, a, 9);
    all.extend(came(world, a));
    all
}

/// The end of a message that was not sent may be lost with the server: it comes then, and before what is newer.
#[test]
fn m20_what_is_behind_an_expired_message_waits_for_the_commit_of_its_end() {
    let mut world = World::new();
    let a = reader(&mut world, 2);
    send(&mut world, 0..2);
    send_expiring(&mut world, "2");
    send(&mut world, 3..4);
    // Nobody has looked at the time yet.
    world.now.tick.0 += 6_000;
    world.now.wall.0 += 6_000;
    let in_order = ["0", "1", "2", "3"].map(|it| (it, true));
    assert_eq!(before_and_after_a_kill(&mut world, a), expected(&in_order));
}

#[test]
fn m20_what_is_behind_a_dropped_message_waits_for_the_commit_of_its_end() {
    let mut world = World::with_limits(Limits {
        queue_messages_max: 4,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    });
    let a = reader(&mut world, 2);
    send(&mut world, 0..4);
    world.commits = Commits::Held;
    world.send("t", "4", QoS::AtLeastOnce);
    assert_eq!(dropped(&world, Dropped::QueueFull), 1);
    let in_order = ["0", "1", "2", "3"].map(|it| (it, true));
    assert_eq!(before_and_after_a_kill(&mut world, a), expected(&in_order));
}

#[test]
fn m20_what_is_behind_a_message_that_was_dropped_before_it_came_waits_for_that() {
    let mut world = narrow();
    let a = reader(&mut world, 9);
    world.commits = Commits::Held;
    for payload in ["0", "1", "2", "3"] {
        world.send("t", payload, QoS::AtLeastOnce);
        world.turn();
    }
    assert_eq!(dropped(&world, Dropped::QueueFull), 1);
    for _ in 0..3 {
        assert!(world.commit_one(DURABLE));
    }
    world.turn();
    assert_eq!(world.got(a), [""; 0], "0 may come yet");
    world.settle();
    assert_eq!(world.got(a), ["1", "2", "3"]);
}
