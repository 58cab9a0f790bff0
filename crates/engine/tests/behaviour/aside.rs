//! A partition that is set aside acknowledges nothing and lets nobody wait for ever (M39, M44).

use courser_contract::{DetachCause, LogIndex, QoS, Refusal, Settled};
use courser_engine::AsideFilters;

use crate::people::publish2;
use crate::world::{DURABLE, OTHER, Options, World, to};

/// A session with a subscription that is away, and the place of the last entry before its messages.
fn absent() -> (World, LogIndex) {
    let mut world = World::new();
    let reader = world.client("reader");
    world.attach(reader, Options::durable());
    world.subscribe(reader, to("t/#", QoS::ExactlyOnce));
    world.detach(reader, DetachCause::Lost);
    let last = world.nodes[&DURABLE].partition.applied();
    let stored = world.send("t/1", "stored", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(stored));
    (world, last)
}

/// What became of a publish.
fn result(world: &mut World, topic: &str) -> (usize, Settled) {
    let ticket = world.send(topic, "later", QoS::AtLeastOnce);
    world.settle();
    world.publishes[ticket]
}

const REFUSED: (usize, Settled) = (0, Settled::Refused(Refusal::Unavailable));

#[test]
fn m39_what_matches_the_filters_of_a_partition_that_is_set_aside_is_refused() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    assert!(!world.nodes[&DURABLE].partition.is_settled(), "L1 first");
    world.settle();
    let partition = &world.nodes[&DURABLE].partition;
    assert!(partition.is_aside() && partition.is_settled() && !partition.serves());
    assert_eq!(partition.applied(), last);
    assert_eq!(result(&mut world, "t/1"), REFUSED);
    assert_eq!(result(&mut world, "elsewhere"), (0, Settled::Ok));
    // Its retained messages cannot be kept, those of others can.
    let mine = world.retain("mine", "x", QoS::AtLeastOnce);
    let others = world.retain("other/s", "x", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.publishes[mine], REFUSED);
    assert!(world.is_acked(others));
}

#[test]
fn m39_a_state_that_is_lost_refuses_everything_until_it_is_released() {
    let (mut world, _) = absent();
    world.restart_aside(DURABLE, LogIndex(0), AsideFilters::Unknown);
    world.settle();
    assert_eq!(result(&mut world, "elsewhere"), REFUSED);
    world.restart_aside(DURABLE, LogIndex(0), AsideFilters::Released);
    world.settle();
    assert!(world.nodes[&DURABLE].partition.is_settled());
    assert_eq!(result(&mut world, "t/1"), (0, Settled::Ok));
}

#[test]
fn m44_no_session_of_a_partition_that_is_set_aside_is_let_in() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    for options in [Options::durable(), Options::clean()] {
        let late = world.client("reader");
        world.connect(late, options);
        world.settle();
        assert!(world.clients[late].home.is_none());
        assert!(
            world.clients[late].refused.is_some(),
            "it is told, and does not wait"
        );
    }
    let timeout = world.nodes[&DURABLE].partition.poll_timeout();
    assert_eq!(timeout, None, "nothing comes due in it");
}

/// A session whose home serves publishes with QoS 2 to one whose home does not.
#[test]
fn m28_a_forward_into_a_partition_that_is_set_aside_is_refused_and_kept() {
    let mut world = World::new();
    let publisher = world.client("publisher");
    world.attach(publisher, Options::durable());
    let last = world.nodes[&OTHER].partition.applied();
    world.restart_aside(OTHER, last, AsideFilters::Unknown);
    world.settle();
    publish2(&mut world, publisher, 5, "t", "two", 1);
    world.settle();
    for _ in 0..5 {
        world.pass_time(1_000);
        world.settle();
    }
    let waiting = world.nodes[&DURABLE].partition.counts().outbox_messages;
    assert_eq!(waiting, 1, "nobody has taken it, so nobody forgets it");
}

#[test]
fn m34_retained_messages_of_a_partition_that_is_set_aside_come_when_it_serves() {
    let mut world = World::new();
    for (topic, payload) in [("mine", "a"), ("other/s", "b")] {
        world.retain(topic, payload, QoS::AtLeastOnce);
    }
    world.settle();
    let last = world.nodes[&OTHER].partition.applied();
    world.restart_aside(OTHER, last, AsideFilters::Known);
    world.settle();
    let reader = world.client("reader");
    world.attach(reader, Options::durable());
    world.subscribe(reader, to("#", QoS::AtLeastOnce));
    assert_eq!(world.got(reader), ["a"], "the others do not wait for it");
    world.detach(reader, DetachCause::Lost);
    world.restart(OTHER);
    world.restart(DURABLE);
    world.settle();
    world.attach(reader, Options::durable());
    assert_eq!(world.got(reader), ["b"], "nothing was left out");
}

#[test]
fn m35_a_group_of_a_partition_that_is_set_aside_takes_nobody() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    // Sessions without a lifetime live elsewhere, and ask the partition that keeps the group.
    let late = world.client("late");
    world.connect(late, Options::clean());
    world.settle();
    assert!(world.clients[late].home.is_none(), "nor a client id");
}
