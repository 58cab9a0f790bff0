//! Searches of retained messages whose sessions leave before they are over (M34).

use courser_contract::{DetachCause, QoS};

use crate::people::durable;
use crate::world::{Commits, DURABLE, Options, World, to};

const FILTERS: [&str; 4] = ["site/1/state", "other/site", "site/+/alarm", "other/#"];

/// One SUBSCRIBE for each filter, and the connection is gone before the first of them is committed.
fn subscribes_and_leaves(world: &mut World, at: usize, filters: &[&str]) {
    world.commits = Commits::Held;
    for filter in filters {
        let (home, message) = world.clients[at].subscribe(vec![to(filter, QoS::AtLeastOnce)]);
        world.send_home(home, message);
    }
    for (home, message) in world.clients[at].detach(DetachCause::Disconnect) {
        world.send_home(home, message);
    }
    world.commits = Commits::AtOnce;
    world.settle();
}

/// What sessions of the durable partition take, searches included. Its checks count again.
fn held(world: &mut World) -> u64 {
    world.check();
    world.call(DURABLE, |it, _, _| it.counts().session_bytes)
}

fn queued(world: &mut World) -> u64 {
    world.call(DURABLE, |it, _, _| it.counts().queued_messages)
}

fn comes_back(world: &mut World, at: usize) -> Vec<String> {
    world.attach(at, Options::durable());
    world.settle();
    let mut got = world.got(at);
    got.sort();
    got
}

/// A million subscriptions of sessions that had left at once held a third more than what they are, until each of them came back.
#[test]
fn a_search_that_finds_nothing_ends_though_its_session_has_left_m34() {
    let mut world = World::new();
    world.retain("else", "1", QoS::AtLeastOnce);
    world.settle();
    let a = durable(&mut world, "a");
    for filter in FILTERS {
        world.subscribe(a, to(filter, QoS::AtLeastOnce));
    }
    world.detach(a, DetachCause::Disconnect);
    let expected = held(&mut world);
    let mut world = World::new();
    let a = durable(&mut world, "a");
    subscribes_and_leaves(&mut world, a, &FILTERS);
    assert_eq!(held(&mut world), expected);
    assert_eq!(comes_back(&mut world, a), [""; 0]);
}

#[test]
fn what_is_found_for_a_session_that_has_left_comes_once_it_is_back_m34() {
    let mut world = World::new();
    // Of QoS 0 it would be lost, had it been taken.
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
    subscribes_and_leaves(&mut world, a, &FILTERS[..3]);
    assert_eq!(queued(&mut world), 0, "nothing is found for who is away");
    assert_eq!(comes_back(&mut world, a), ["1", "2", "3", "4"]);
    world.detach(a, DetachCause::Disconnect);
    assert_eq!(comes_back(&mut world, a), [""; 0], "each once");
}

#[test]
fn what_is_found_after_a_newer_one_has_come_for_who_is_away_is_left_out_m34() {
    let mut world = World::new();
    world.retain("other/t", "old", QoS::AtLeastOnce);
    world.settle();
    let a = durable(&mut world, "a");
    subscribes_and_leaves(&mut world, a, &["other/t"]);
    world.retain("other/t", "new", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(comes_back(&mut world, a), ["new"]);
}

/// Also one that a new leader goes on with, for whom nobody was ever connected.
#[test]
fn a_search_for_who_is_away_goes_on_after_a_restart_m34() {
    let mut world = World::new();
    world.retain("other/site", "1", QoS::AtMostOnce);
    world.settle();
    let a = durable(&mut world, "a");
    let before = held(&mut world);
    subscribes_and_leaves(&mut world, a, &["other/site"]);
    let waits = held(&mut world);
    world.restart(DURABLE);
    world.settle();
    assert_eq!(held(&mut world), waits, "it is still to be taken");
    world.retain("other/site", "", QoS::AtMostOnce);
    world.settle();
    world.restart(DURABLE);
    world.settle();
    let over = held(&mut world);
    assert!(before < over && over < waits, "{before} {over} {waits}");
    assert_eq!(comes_back(&mut world, a), [""; 0]);
}
