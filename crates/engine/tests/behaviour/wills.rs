//! Rules of wills.

use courser_contract::{DetachCause, Dropped, PubrecCan, QoS, ToHome};
use courser_engine::{Deletion, Limits, Overflow};

use crate::people::{clean, durable, retain2_as, will};
use crate::world::{Commits, DURABLE, OTHER, Options, World, to};

#[test]
fn a_will_is_published_when_the_connection_is_lost_and_not_after_a_good_bye() {
    // v3 [MQTT-3.1.2-8], v3 [MQTT-3.14.4-3], v5 [MQTT-3.1.2-8], v5 [MQTT-3.14.4-3]
    let causes = [
        (DetachCause::Disconnect, 0),
        (DetachCause::DisconnectWithWill, 1),
        (DetachCause::Lost, 1),
        (DetachCause::TakenOver, 1),
        (DetachCause::ServerStops, 1),
    ];
    for lifetime in [0, 3_600] {
        for (cause, wills) in causes {
            let mut world = World::new();
            let reader = durable(&mut world, "reader");
            world.subscribe(reader, to("will", QoS::AtLeastOnce));
            let a = world.client("a");
            let options = Options {
                expiry_seconds: lifetime,
                ..will("will", 0)
            };
            world.attach(a, options);
            world.detach(a, cause);
            assert_eq!(world.got(reader).len(), wills, "{cause:?} {lifetime}");
        }
    }
}

#[test]
fn a_delayed_will_waits_and_a_return_takes_it_back() {
    // v5 [MQTT-3.1.3-9]
    let mut world = World::new();
    let reader = durable(&mut world, "reader");
    world.subscribe(reader, to("will", QoS::AtLeastOnce));
    let a = world.client("a");
    world.attach(a, will("will", 5));
    world.detach(a, DetachCause::Lost);
    world.pass_time(4_999);
    world.attach(a, will("will", 5));
    world.pass_time(10_000);
    world.settle();
    assert!(world.got(reader).is_empty(), "it came back in time");
    world.detach(a, DetachCause::Lost);
    world.pass_time(5_000);
    world.settle();
    assert_eq!(world.got(reader), ["gone"]);
    world.pass_time(4_000_000);
    world.settle();
    assert!(world.got(reader).is_empty(), "v5 [MQTT-3.1.2-10]: once");
}

#[test]
fn a_will_and_an_end_that_are_due_before_the_end_of_the_attachment_is_applied_come_m20() {
    // v5 [MQTT-3.1.2-8], v5 [MQTT-3.1.2-23]
    let mut world = World::new();
    let reader = durable(&mut world, "reader");
    world.subscribe(reader, to("will", QoS::AtLeastOnce));
    let a = world.client("a");
    let options = Options {
        expiry_seconds: 1,
        ..will("will", 1)
    };
    world.attach(a, options);
    world.commits = Commits::Held;
    for (to, message) in world.clients[a].detach(DetachCause::Lost) {
        world.send_home(to, message);
    }
    world.pass_time(1_500);
    world.pass_time(1_500);
    world.settle();
    world.commits = Commits::AtOnce;
    world.pass_time(1_000);
    world.settle();
    assert_eq!(world.got(reader), ["gone"]);
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 1);
}

#[test]
fn a_will_outlives_a_restart_and_crosses_partitions_once_m19() {
    let mut world = World::new();
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("other/will", QoS::AtLeastOnce));
    let a = world.client("a");
    let mut options = will("other/will", 5);
    if let Some(will) = &mut options.will {
        will.retain = true;
    }
    world.attach(a, options);
    world.restart(DURABLE);
    world.settle();
    world.pass_time(6_000);
    world.settle();
    assert_eq!(world.got(reader), ["gone"]);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 0);
}

/// A session of the other partition.
fn elsewhere() -> Options {
    Options {
        place: OTHER,
        ..Options::durable()
    }
}

/// One that gets what is published to a filter.
fn reader_elsewhere(world: &mut World, name: &str, filter: &str) -> usize {
    let reader = world.client(name);
    world.attach(reader, elsewhere());
    world.subscribe(reader, to(filter, QoS::AtLeastOnce));
    reader
}

/// A will with RETAIN of a session of the one partition for a topic that the other one keeps.
fn retained_will() -> Options {
    let mut options = will("other/will", 0);
    options.will.as_mut().expect("it has one").retain = true;
    options
}

#[test]
fn m12_a_will_that_cannot_be_kept_comes_to_the_sessions_of_its_keeper() {
    let mut world = World::with_limits(Limits {
        retained_messages_max: 1,
        ..Limits::default()
    });
    let reader = reader_elsewhere(&mut world, "reader", "other/will");
    world.retain("other/first", "kept", QoS::AtLeastOnce);
    let a = world.client("a");
    world.attach(a, retained_will());
    world.detach(a, DetachCause::Lost);
    world.settle();
    assert_eq!(world.got(reader), ["gone"]);
    let kept = world.nodes[&OTHER].partition.counts().retained_messages;
    assert_eq!(kept, 1, "the one that was there");
    assert_eq!(world.fx.dropped.get(&Dropped::RetainedFull), Some(&1));
    assert_eq!(world.fx.dropped.get(&Dropped::Rejected), None);
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 0);
}

#[test]
fn m12_a_will_passes_by_a_full_session_although_that_refuses_publishers() {
    let mut world = World::with_limits(Limits {
        queue_messages_max: 1,
        overflow: Overflow::RefusePublisher,
        ..Limits::default()
    });
    let reader = reader_elsewhere(&mut world, "reader", "other/will");
    let full = reader_elsewhere(&mut world, "full", "other/#");
    world.detach(full, DetachCause::Lost);
    world.send("other/first", "waits", QoS::AtLeastOnce);
    world.settle();
    let a = world.client("a");
    world.attach(a, retained_will());
    world.detach(a, DetachCause::Lost);
    world.settle();
    assert_eq!(world.got(reader), ["gone"]);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    assert_eq!(world.fx.dropped.get(&Dropped::QueueFull), Some(&1));
    world.attach(full, elsewhere());
    world.settle();
    assert_eq!(world.got(full), ["waits"]);
}

/// A client whose will waits behind a publish that its keeper refuses and that cannot be given up, because 3.1.1 has no words for it.
fn will_behind_a_refusal() -> (World, usize) {
    let mut world = World::with_limits(Limits {
        retained_messages_max: 0,
        ..Limits::default()
    });
    let a = world.client("a");
    world.attach(a, retained_will());
    retain2_as(
        &mut world,
        a,
        (1, 1),
        ("other/will", "here"),
        PubrecCan::OnlyAccept,
    );
    world.settle();
    world.detach(a, DetachCause::Lost);
    (world, a)
}

#[test]
fn m25_a_connection_does_not_wait_for_a_will_behind_a_refusal() {
    let (mut world, a) = will_behind_a_refusal();
    let reader = reader_elsewhere(&mut world, "reader", "other/will");
    for options in [retained_will(), retained_will(), Options::clean()] {
        assert!(world.got(reader).is_empty(), "wills wait behind it");
        world.attach(a, options);
        // The refused one comes again, and what nobody has answered for long.
        for _ in 0..7 {
            world.pass_time(1_000);
            world.settle();
        }
        world.detach(a, DetachCause::Lost);
    }
    // The refused one has ended with its session.
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 0);
    assert_eq!(world.got(reader), ["gone"; 3], "wills go once");
}

#[test]
fn m25_a_session_whose_will_is_behind_a_refusal_can_end() {
    let (mut world, _) = will_behind_a_refusal();
    let deleted = world.call(DURABLE, |it, now, fx| it.delete_session(now, "a", fx));
    assert_eq!(deleted, Deletion::Proposed);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 0);

    let (mut world, _) = will_behind_a_refusal();
    world.pass_time(3_600_000);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 0);
}

/// A connection that comes while the will of its client id is on its way to where it is kept.
fn comes_behind_its_will(delay: u32, passes: impl Fn(&mut World), options: Options) {
    let mut world = World::new();
    let a = world.client("a");
    let mut left = retained_will();
    left.will.as_mut().expect("it has one").delay_seconds = delay;
    world.attach(a, left);
    world.detach(a, DetachCause::Lost);
    world.commits = Commits::Held;
    passes(&mut world);
    world.connect(a, options);
    waits_for_its_will(&mut world, a);
}

/// It has a connection once the will of its last one is where it is kept.
fn waits_for_its_will(world: &mut World, client: usize) {
    for _ in 0..6 {
        while world.commit_one(DURABLE) {}
        world.turn();
    }
    assert!(
        world.clients[client].home.is_none(),
        "the will has not settled"
    );
    assert_eq!(world.nodes[&OTHER].proposed.len(), 1, "it has gone");
    world.settle();
    assert!(world.clients[client].home.is_some());
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    assert_eq!(world.nodes[&DURABLE].partition.counts().claims, 1);
}

#[test]
fn m25_a_connection_comes_behind_a_will_that_its_moment_sent() {
    let due = |world: &mut World| world.pass_time(5_000);
    comes_behind_its_will(5, due, Options::durable());
    comes_behind_its_will(5, due, Options::clean());
    // The session ends, and its will with it.
    let ends = |world: &mut World| world.pass_time(3_600_000);
    comes_behind_its_will(4_000, ends, Options::durable());
}

#[test]
fn m25_a_connection_comes_behind_a_will_that_goes_because_of_it() {
    comes_behind_its_will(3_000, |_| {}, Options::clean());
    let afresh = Options {
        clean_start: true,
        ..Options::durable()
    };
    comes_behind_its_will(3_000, |_| {}, afresh);
    // Its moment has come, and it could not be sent yet.
    let late = |world: &mut World| {
        world.now.tick.0 += 6_000;
        world.now.wall.0 += 6_000;
    };
    comes_behind_its_will(5, late, Options::durable());
}

#[test]
fn m25_a_connection_comes_behind_the_will_of_a_session_without_a_lifetime() {
    let mut world = World::new();
    let a = world.client("a");
    let left = Options {
        expiry_seconds: 0,
        ..retained_will()
    };
    world.attach(a, left.clone());
    let leaves = |world: &mut World, cause| {
        world.commits = Commits::Held;
        for (partition, message) in world.clients[a].detach(cause) {
            world.send_home(partition, message);
        }
    };
    leaves(&mut world, DetachCause::Lost);
    world.connect(a, left.clone());
    waits_for_its_will(&mut world, a);

    // Without a will to publish it waits for nothing.
    leaves(&mut world, DetachCause::Disconnect);
    world.connect(a, left);
    for _ in 0..6 {
        while world.commit_one(DURABLE) {}
        world.turn();
    }
    assert!(world.clients[a].home.is_some());
}

#[test]
fn m25_a_claim_is_given_back_though_its_session_is_gone() {
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::clean());
    for (partition, mut message) in world.clients[a].detach(DetachCause::Lost) {
        let ToHome::Detach { session, .. } = &mut message else {
            panic!("only its home hears of it");
        };
        session.0 += 1_000;
        world.send_home(partition, message);
    }
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().claims, 0);
}

#[test]
fn m25_a_will_that_nobody_waits_for_leaves_its_client_id_to_nobody() {
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, will("nobody", 5));
    world.detach(a, DetachCause::Lost);
    world.pass_time(5_000);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().claims, 0);
    let deleted = world.call(DURABLE, |it, now, fx| it.delete_session(now, "a", fx));
    assert_eq!(deleted, Deletion::Proposed);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().claims, 0);
}
