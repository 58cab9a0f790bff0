//! Rules of connections and takeover, as clients see them.

use courser_contract::{ConnectRefusal, DetachCause, Publish, QoS, WallMs};

use crate::people::{clean, durable, will};
use crate::world::{Acks, Commits, DURABLE, Options, World, message, to};

#[test]
fn a_second_connection_takes_over_only_once_the_first_has_let_go_m25() {
    // v3 [MQTT-3.1.4-2], v5 [MQTT-3.1.4-3]
    for options in [Options::durable(), Options::clean()] {
        let mut world = World::new();
        let first = world.client("same");
        world.attach(first, options.clone());
        world.subscribe(first, to("t", QoS::AtLeastOnce));
        let second = world.client("same");
        world.attach(second, options.clone());
        assert!(world.clients[first].taken_over);
        let epochs = (world.clients[first].epoch, world.clients[second].epoch);
        assert!(epochs.0 < epochs.1, "each attach raises the epoch (M24)");
        let present = options.expiry_seconds > 0;
        let attached = world.clients[second]
            .attached
            .clone()
            .expect("it is attached");
        assert_eq!(attached.present, present);
        world.send("t", "x", QoS::AtLeastOnce);
        world.settle();
        assert!(world.got(first).is_empty());
        assert_eq!(world.got(second).len(), usize::from(present));
    }
}

#[test]
fn who_waits_while_the_time_of_its_session_runs_out_takes_it_up_m25() {
    // v5 [MQTT-3.1.2-5], v5 [MQTT-3.1.3-9]
    let mut world = World::new();
    let reader = durable(&mut world, "reader");
    world.subscribe(reader, to("will", QoS::AtLeastOnce));
    let short = Options {
        expiry_seconds: 1,
        ..will("will", 1)
    };
    let first = world.client("same");
    world.attach(first, short.clone());
    world.commits = Commits::Held;
    let second = world.client("same");
    world.connect(second, short);
    assert!(world.clients[first].taken_over);
    world.pass_time(1_500);
    world.settle();
    let attached = world.clients[second].attached.clone();
    assert!(attached.expect("it is attached").present);
    assert!(world.got(reader).is_empty(), "it was back in time");
}

#[test]
fn a_newer_waiting_connection_displaces_the_one_that_waits() {
    let mut world = World::new();
    let first = durable(&mut world, "same");
    world.commits = Commits::Held;
    let second = world.client("same");
    world.connect(second, Options::durable());
    let third = world.client("same");
    world.connect(third, Options::durable());
    assert_eq!(
        world.clients[second].refused,
        Some(ConnectRefusal::TakenOver)
    );
    world.settle();
    assert!(world.clients[third].home.is_some() && world.clients[first].home.is_none());
}

#[test]
fn a_connection_waits_until_a_new_leader_has_detached_the_old_one_i8() {
    let mut world = World::new();
    durable(&mut world, "a");
    world.commits = Commits::Held;
    world.restart(DURABLE);
    world.turn();
    assert!(world.commit_one(DURABLE), "the term begins");
    let second = world.client("a");
    world.connect(second, Options::durable());
    world.settle();
    assert!(world.clients[second].home.is_some());
    let third = world.client("a");
    world.attach(third, Options::durable());
    assert!(world.clients[second].taken_over);
    assert_eq!(world.nodes[&DURABLE].partition.counts().attached, 1);
}

#[test]
fn the_next_connection_waits_for_what_the_last_one_published_m25() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("other/#", QoS::AtLeastOnce));
    let b = world.client("b");
    world.attach(b, Options::durable());
    world.subscribe(b, to("other/#", QoS::AtLeastOnce));
    world.commits = Commits::Held;
    world.send("other/t", "by a", QoS::AtLeastOnce);
    world.clients[a].open = vec![DURABLE];
    for (to, message) in world.clients[a].detach(DetachCause::Lost) {
        world.send_home(to, message);
    }
    world.connect(a, Options::durable());
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    let open = node.proposed.len();
    assert!(open > 0);
    assert!(world.clients[a].attached.is_none());
    world.settle();
    assert!(world.clients[a].attached.is_some());
}

/// A session that is away, with so many subscriptions, of which each is another topic.
fn away_with_filters(world: &mut World, name: &str, filters: usize, options: Options) {
    let at = world.client(name);
    world.attach(at, options);
    let filters = (0..filters).map(|number| to(&format!("{name}/{number}"), QoS::AtLeastOnce));
    let (home, message) = world.clients[at].subscribe(filters.collect());
    world.send_home(home, message);
    world.settle();
    world.detach(at, DetachCause::Lost);
}

#[test]
fn i10_sessions_with_many_subscriptions_end_a_few_at_a_time() {
    let mut world = World::new();
    for name in ["a", "b", "c"] {
        let options = Options {
            expiry_seconds: 10,
            ..Options::durable()
        };
        away_with_filters(&mut world, name, 600, options);
    }
    let sessions = |world: &World| world.nodes[&DURABLE].partition.counts().sessions;
    world.pass_time(10_000);
    world.settle();
    assert_eq!(sessions(&world), 1, "an entry ends 1,200 subscriptions");
    world.pass_time(0);
    world.settle();
    assert_eq!(sessions(&world), 0);
    for topic in ["a/0", "b/300", "c/599"] {
        assert!(world.fx.route(topic, false).is_empty(), "{topic}");
    }
}

#[test]
fn i10_sessions_of_who_is_gone_end_a_few_at_a_time() {
    let mut world = World::new();
    for (name, owner) in [("a", "gone"), ("b", "here"), ("c", "gone"), ("d", "gone")] {
        away_with_filters(&mut world, name, 600, Options::of(owner));
    }
    let connected = world.client("e");
    world.attach(connected, Options::of("gone"));
    world.commits = Commits::Held;
    let mut from = 0;
    let mut in_use = false;
    // What each call ends is one entry; index changes of it come in pieces.
    for (filters, pieces) in [(1_200, 10), (600, 5)] {
        let places = world.nodes[&DURABLE].partition.session_places();
        let (ended, visited) = world.call(DURABLE, |it, now, fx| {
            it.take_visited();
            let ended = it.end_sessions(now, from..places, |owner| owner == "gone", fx);
            (ended, it.take_visited())
        });
        assert!(visited.0 >= filters, "it is told what that costs");
        world.turn();
        assert_eq!(world.fx.index.len(), 0);
        assert!(world.commit_one(DURABLE));
        assert_eq!(world.fx.index.len(), pieces);
        world.settle();
        (from, in_use) = (ended.next, ended.in_use);
    }
    let node = &world.nodes[&DURABLE];
    assert_eq!(from, node.partition.session_places());
    assert!(in_use, "who is connected stays");
    assert_eq!(node.partition.counts().sessions, 2);
}

#[test]
fn m24_messages_of_an_older_attachment_are_dropped() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    world.send("t", "1", QoS::AtLeastOnce);
    world.settle();
    let late: Vec<_> = world.clients[a].ack(1);
    world.detach(a, DetachCause::Lost);
    world.attach(a, Options::durable());
    for (to, message) in late {
        world.send_home(to, message);
    }
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().queued_messages, 1);
}

#[test]
fn a_session_ends_when_its_time_is_over() {
    // v5 [MQTT-3.1.2-23]
    let mut world = World::new();
    let a = world.client("a");
    let options = Options {
        expiry_seconds: 10,
        ..Options::durable()
    };
    world.attach(a, options.clone());
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.detach(a, DetachCause::Lost);
    world.pass_time(9_999);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 1);
    world.pass_time(1);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 0);
    assert!(world.fx.route("t", false).is_empty(), "L1 has forgotten it");
    world.attach(a, options);
    assert!(
        world.clients[a]
            .attached
            .as_ref()
            .is_some_and(|attached| !attached.present)
    );
}

/// Every turn of the world checks that what is due has a meaning.
#[test]
fn i9_what_is_due_goes_with_what_it_was_for_m20() {
    let mut world = World::new();
    let options = will("will", 3_000);
    let a = world.client("a");
    for _ in 0..3 {
        world.attach(a, options.clone());
        world.detach(a, DetachCause::Lost);
    }
    world.restart(DURABLE);
    world.settle();
    world.attach(a, options);
    world.detach(a, DetachCause::Lost);
    for (expires_at, payload) in [(9_000_000, "1"), (8_000_000, "2"), (9_000_000, "")] {
        let publish = Publish {
            retain: true,
            expires_at: Some(WallMs(expires_at)),
            ..message("t", payload, QoS::AtLeastOnce)
        };
        world.publish(&publish);
        world.settle();
    }
    world.attach(a, Options::clean());
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 0);
}
