//! Scans of retained messages whose sessions leave before they are over (M34).

use courser_contract::{DetachCause, Publish, QoS};

use crate::people::durable;
use crate::world::{Acks, Commits, DURABLE, OTHER, Options, World, message, to};

const FILTERS: [&str; 4] = ["site/1/state", "other/site", "site/+/alarm", "others/#"];

/// SUBSCRIBE, and the connection is gone before that is committed.
fn subscribe_and_leave(world: &mut World, at: usize, filters: &[&str]) {
    world.commits = Commits::Held;
    let filters = filters.iter().map(|filter| to(filter, QoS::AtLeastOnce));
    let (home, message) = world.clients[at].subscribe(filters.collect());
    world.send_home(home, message);
    for (home, message) in world.clients[at].detach(DetachCause::Disconnect) {
        world.send_home(home, message);
    }
    world.commits = Commits::AtOnce;
    world.settle();
}

/// The same of one that stays until all that there is was found, which must be nothing.
fn subscribe_then_leave(world: &mut World, at: usize, filters: &[&str]) {
    for filter in filters {
        world.subscribe(at, to(filter, QoS::AtLeastOnce));
    }
    assert_eq!(world.got(at), [""; 0]);
    world.detach(at, DetachCause::Disconnect);
}

/// What the sessions of the durable partition count for, with the scans that they have open.
fn session_bytes(world: &mut World) -> u64 {
    world.call(DURABLE, |it, _, _| it.counts().session_bytes)
}

fn queued(world: &mut World) -> u64 {
    world.call(DURABLE, |it, _, _| it.counts().queued_messages)
}

fn come_back(world: &mut World, at: usize) -> Vec<String> {
    world.attach(at, Options::durable());
    world.settle();
    let mut got = world.got(at);
    got.sort();
    got
}

/// What a session with these filters counts for when it is away and none of its scans is open.
fn at_rest(filters: &[&str]) -> u64 {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    subscribe_then_leave(&mut world, a, filters);
    session_bytes(&mut world)
}

/// A million subscriptions of sessions that had left at once took twice what they take, until each of these came back.
#[test]
fn a_scan_that_finds_nothing_ends_though_its_session_has_left_m34() {
    let mut world = World::new();
    world.retain("elsewhere", "1", QoS::AtLeastOnce);
    world.settle();
    let a = durable(&mut world, "a");
    subscribe_and_leave(&mut world, a, &FILTERS);
    assert_eq!(session_bytes(&mut world), at_rest(&FILTERS));
    assert_eq!(come_back(&mut world, a), [""; 0]);
}

/// Whichever of a SUBSCRIBE finds something, the others do not wait for it.
#[test]
fn a_scan_that_finds_something_for_who_has_left_leaves_the_others_alone_m34() {
    for at in 0..FILTERS.len() {
        let topic = FILTERS[at].replace('+', "2").replace('#', "x/y");
        let mut world = World::new();
        world.retain(&topic, "1", QoS::AtMostOnce);
        world.settle();
        let a = durable(&mut world, "a");
        subscribe_and_leave(&mut world, a, &FILTERS);
        let held = session_bytes(&mut world);

        let mut one = World::new();
        let b = durable(&mut one, "a");
        let others = FILTERS.into_iter().filter(|it| *it != FILTERS[at]);
        let others: Vec<_> = others.collect();
        subscribe_then_leave(&mut one, b, &others);
        one.retain(&topic, "1", QoS::AtMostOnce);
        one.attach(b, Options::durable());
        one.got(b);
        subscribe_and_leave(&mut one, b, &FILTERS[at..=at]);
        assert_eq!(held, session_bytes(&mut one), "{topic}");
        assert!(held > at_rest(&FILTERS));
        assert_eq!(come_back(&mut world, a)[..1], ["1"], "{topic}");
        assert_eq!(session_bytes(&mut world), at_rest(&FILTERS));
    }
}

#[test]
fn what_is_found_for_who_has_left_comes_once_it_is_back_m34() {
    let mut world = World::new();
    // Of QoS 0 it would be lost, were it taken.
    for (topic, payload, qos) in [
        ("site/1/state", "1", QoS::AtMostOnce),
        ("other/site", "2", QoS::AtLeastOnce),
        ("site/2/alarm", "3", QoS::AtMostOnce),
        ("site/3/alarm", "4", QoS::AtLeastOnce),
    ] {
        world.retain(topic, payload, qos);
    }
    world.settle();
    let a = durable(&mut world, "a");
    subscribe_and_leave(&mut world, a, &FILTERS[..3]);
    assert_eq!(queued(&mut world), 0, "nothing is taken for who is away");
    assert!(world.fx.dropped.is_empty());
    assert_eq!(come_back(&mut world, a), ["1", "2", "3", "4"]);
    world.detach(a, DetachCause::Disconnect);
    assert_eq!(come_back(&mut world, a), [""; 0], "each once");
}

/// The question was one of a session that was there.
#[test]
fn what_is_found_after_its_session_has_left_comes_once_it_is_back_m34() {
    let mut world = World::new();
    world.retain("other/t", "1", QoS::AtMostOnce);
    world.settle();
    let a = durable(&mut world, "a");
    world.commits = Commits::Held;
    let (home, message) = world.clients[a].subscribe(vec![to("other/t", QoS::AtLeastOnce)]);
    world.send_home(home, message);
    // The fence waits for the first of these, and the answer for the second one.
    world.retain("other/u", "2", QoS::AtLeastOnce);
    world.commit_one(DURABLE);
    world.turn();
    world.retain("other/u", "3", QoS::AtLeastOnce);
    world.commit_one(OTHER);
    world.turn();
    world.turn();
    assert_eq!(world.fx.questions, 1);
    for (home, message) in world.clients[a].detach(DetachCause::Lost) {
        world.send_home(home, message);
    }
    world.settle();
    assert!(world.fx.dropped.is_empty());
    assert_eq!(come_back(&mut world, a), ["1"]);
}

/// A question of one that was away may be for more than its window holds.
#[test]
fn what_is_found_for_who_has_just_come_back_is_asked_for_again_m34() {
    let mut world = World::new();
    for n in 0..50 {
        world.retain(
            &format!("other/t/{n:02}"),
            &format!("{n:02}"),
            QoS::AtLeastOnce,
        );
    }
    world.settle();
    let a = durable(&mut world, "a");
    subscribe_and_leave(&mut world, a, &["other/t/#"]);
    world.restart(DURABLE);
    // The fence of the new leader waits for the first of these, and the answer for the second one.
    world.commits = Commits::Held;
    world.retain("other/u", "", QoS::AtLeastOnce);
    world.turn();
    while world.commit_one(DURABLE) {}
    world.turn();
    world.retain("other/u", "", QoS::AtLeastOnce);
    let before = world.fx.questions;
    world.commit_one(OTHER);
    world.turn();
    world.turn();
    assert_eq!(world.fx.questions, before + 1);
    world.clients[a].acks = Acks::Held;
    world.connect(a, Options::durable());
    for _ in 0..3 {
        while world.commit_one(DURABLE) {}
        world.turn();
    }
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(counts.queued_messages, 10, "as its window has room");
    world.clients[a].acks = Acks::Auto;
    world.ack(a, 10);
    let expected: Vec<_> = (0..50).map(|n| format!("{n:02}")).collect();
    assert_eq!(world.got(a), expected);
}

/// Then it is over as well: what it has found is not wanted.
#[test]
fn what_is_found_behind_a_newer_one_for_who_is_away_is_left_out_m34() {
    let mut world = World::new();
    world.retain("other/t", "old", QoS::AtLeastOnce);
    world.settle();
    let a = durable(&mut world, "a");
    world.commits = Commits::Held;
    let (home, message) = world.clients[a].subscribe(vec![to("other/t", QoS::AtLeastOnce)]);
    world.send_home(home, message);
    world.commit_one(DURABLE);
    for (home, message) in world.clients[a].detach(DetachCause::Lost) {
        world.send_home(home, message);
    }
    // The index has it; the scan waits for the fence. Now a newer one reaches the home, but not yet its keeper.
    world.retain("other/t", "new", QoS::AtLeastOnce);
    while world.commit_one(DURABLE) {}
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(session_bytes(&mut world), at_rest(&["other/t"]));
    assert_eq!(come_back(&mut world, a), ["new"]);
}

/// And what was found for who is away may have been followed by a newer one that it got.
#[test]
fn a_newer_one_for_who_is_away_takes_the_place_of_what_was_found_m34() {
    let mut world = World::new();
    world.retain("other/t", "old", QoS::AtLeastOnce);
    world.settle();
    let a = durable(&mut world, "a");
    subscribe_and_leave(&mut world, a, &["other/t"]);
    world.retain("other/t", "new", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(come_back(&mut world, a), ["new"]);
    assert_eq!(session_bytes(&mut world), {
        let mut world = World::new();
        let a = durable(&mut world, "a");
        world.subscribe(a, to("other/t", QoS::AtLeastOnce));
        session_bytes(&mut world)
    });
}

/// What one finds has filled the window of a client that takes nothing: the others waited for that.
#[test]
fn scans_behind_a_full_window_go_on_when_its_client_leaves_m34() {
    let mut world = World::new();
    for n in 0..30 {
        world.retain(&format!("t/{n:02}"), &format!("{n:02}"), QoS::AtLeastOnce);
    }
    world.settle();
    let a = durable(&mut world, "a");
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    let before = session_bytes(&mut world);
    world.subscribe(a, to("other/#", QoS::AtLeastOnce));
    world.detach(a, DetachCause::Lost);
    let subscription = at_rest(&["t/#", "other/#"]) - at_rest(&["t/#"]);
    assert_eq!(session_bytes(&mut world), before + subscription);
    world.clients[a].acks = Acks::Auto;
    world.clients[a].taken.clear();
    let expected: Vec<_> = (0..30).map(|n| format!("{n:02}")).collect();
    world.got(a);
    assert_eq!(come_back(&mut world, a), expected);
}

/// A page of messages that nobody may have now is one question, as for who is there.
#[test]
fn what_is_withheld_from_who_is_away_does_not_cost_a_question_each_m34() {
    const AUTHOR: &str = "c\0anna\0@3";
    let mut world = World::new();
    for n in 0..40 {
        let topic = format!("other/{n:02}");
        world.publish(&Publish {
            retain: true,
            author: Some(AUTHOR),
            ..message(&topic, "1", QoS::AtLeastOnce)
        });
        world.fx.denied_authors.insert((AUTHOR.into(), topic));
    }
    world.settle();
    let a = durable(&mut world, "a");
    subscribe_and_leave(&mut world, a, &["other/#"]);
    assert_eq!(world.fx.questions, 3, "one for each partition");
    assert_eq!(session_bytes(&mut world), at_rest(&["other/#"]));
}

/// A new leader goes on for whom nobody was ever connected.
#[test]
fn a_scan_for_who_is_away_goes_on_after_a_restart_m34() {
    let mut world = World::new();
    world.retain("other/site", "1", QoS::AtMostOnce);
    world.settle();
    let a = durable(&mut world, "a");
    subscribe_and_leave(&mut world, a, &["other/site"]);
    let waits = session_bytes(&mut world);
    world.restart(DURABLE);
    world.settle();
    assert_eq!(session_bytes(&mut world), waits, "it is still to be taken");
    world.retain("other/site", "", QoS::AtMostOnce);
    world.settle();
    world.restart(DURABLE);
    world.settle();
    assert_eq!(session_bytes(&mut world), at_rest(&["other/site"]));
    assert_eq!(come_back(&mut world, a), [""; 0]);
}

/// After a start all of them go on: not more at once than a few, and every one.
#[test]
fn scans_of_many_who_are_away_take_turns_m34() {
    const CLIENTS: usize = 70;
    const AT_ONCE: usize = 64;
    let mut world = World::new();
    world.retain("other/t", "1", QoS::AtLeastOnce);
    world.settle();
    for n in 0..CLIENTS {
        let at = durable(&mut world, &format!("{n:02}"));
        subscribe_and_leave(&mut world, at, &["other/t"]);
    }
    let waits = session_bytes(&mut world);
    world.retain("other/t", "", QoS::AtLeastOnce);
    world.settle();
    // The fences of the new leader wait for the first of these, and the answers for the second one.
    world.restart(DURABLE);
    world.commits = Commits::Held;
    world.retain("other/u", "2", QoS::AtLeastOnce);
    for _ in 0..3 {
        world.turn();
        while world.commit_one(DURABLE) {}
    }
    world.retain("other/u", "3", QoS::AtLeastOnce);
    let before = world.fx.questions;
    world.commit_one(OTHER);
    world.turn();
    world.turn();
    assert_eq!(world.fx.questions - before, AT_ONCE);
    world.settle();
    assert_eq!(world.fx.questions - before, CLIENTS);
    assert!(session_bytes(&mut world) < waits - 500 * CLIENTS as u64);
}
