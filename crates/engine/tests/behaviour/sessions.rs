//! Rules of sessions, as a client sees them.

use courser_contract::{
    ConnectRefusal, DetachCause, Dropped, OutcomeKind, Publish, QoS, Refusal, Settled, ToHome, Will,
};
use courser_engine::{DiskRoom, Limits, Overflow, Pace};

use crate::world::{Acks, Commits, DURABLE, OTHER, Options, VOLATILE, World, message, to};

fn durable(world: &mut World, name: &str) -> usize {
    let at = world.client(name);
    world.attach(at, Options::durable());
    at
}

fn clean(world: &mut World, name: &str) -> usize {
    let at = world.client(name);
    world.attach(at, Options::clean());
    at
}

fn will(topic: &str, delay_seconds: u32) -> Options {
    Options {
        will: Some(Will {
            topic: topic.into(),
            properties: Box::default(),
            payload: Box::from(*b"gone"),
            qos: QoS::AtLeastOnce,
            retain: false,
            delay_seconds,
            expiry_seconds: None,
        }),
        ..Options::durable()
    }
}

#[test]
fn qos1_reaches_a_clean_session_in_the_same_turn_m13() {
    let mut world = World::new();
    let a = clean(&mut world, "a");
    world.subscribe(a, to("t/+", QoS::AtLeastOnce));
    world.send("t/1", "one", QoS::AtLeastOnce);
    world.send("t/1", "two", QoS::AtMostOnce);
    assert_eq!(world.got(a), ["one", "two"]);
}

#[test]
fn a_stored_session_gets_what_came_while_it_was_away() {
    // v3 [MQTT-3.1.2-4], v3 [MQTT-3.1.2-5], v5 [MQTT-3.1.2-5]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t/#", QoS::ExactlyOnce));
    world.detach(a, DetachCause::Lost);
    let acked = world.send("t", "1", QoS::AtLeastOnce);
    world.send("t/x", "2", QoS::ExactlyOnce);
    world.send("t/x", "lost", QoS::AtMostOnce);
    world.settle();
    assert!(world.is_acked(acked));
    world.attach(a, Options::durable());
    assert!(
        world.clients[a]
            .attached
            .as_ref()
            .is_some_and(|attached| attached.present)
    );
    assert_eq!(world.got(a), ["1", "2"]);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().queued_messages, 0);
    assert_eq!(
        world.fx.dropped[&Dropped::Offline],
        1,
        "QoS 0 is not kept (M26)"
    );
}

#[test]
fn nothing_is_delivered_or_acknowledged_before_its_commit_m9() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.commits = Commits::Held;
    let ticket = world.send("t", "1", QoS::AtLeastOnce);
    assert!(!world.is_acked(ticket) && world.got(a).is_empty());
    world.settle();
    assert!(world.is_acked(ticket));
    assert_eq!(world.got(a), ["1"]);
}

#[test]
fn a_clean_start_discards_the_stored_session_before_it_answers_m26() {
    // v3 [MQTT-3.1.2-6], v5 [MQTT-3.1.2-4]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.detach(a, DetachCause::Lost);
    world.send("t", "old", QoS::AtLeastOnce);
    world.settle();
    world.commits = Commits::Held;
    world.connect(a, Options::clean());
    assert!(
        world.clients[a].claim.is_none(),
        "CONNACK waits for the old session's end"
    );
    world.settle();
    assert!(
        world.clients[a]
            .attached
            .as_ref()
            .is_some_and(|attached| !attached.present)
    );
    assert_eq!(world.home(a).partition, VOLATILE);
    world.send("t", "new", QoS::AtLeastOnce);
    world.settle();
    assert!(world.got(a).is_empty());
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

#[test]
fn a_connection_during_the_end_of_its_old_session_gets_a_new_one() {
    for options in [Options::clean(), Options::durable()] {
        let mut world = World::new();
        let a = world.client("a");
        let short = Options {
            expiry_seconds: 1,
            ..Options::durable()
        };
        world.attach(a, short);
        world.detach(a, DetachCause::Lost);
        world.commits = Commits::Held;
        world.pass_time(1_000);
        world.connect(a, options);
        assert!(world.clients[a].home.is_none());
        world.settle();
        let attached = world.clients[a].attached.clone().expect("it is attached");
        assert!(!attached.present);
    }
}

#[test]
fn unacknowledged_messages_come_again_in_order_with_dup() {
    // v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1], v3 [MQTT-3.3.1-1], v5 [MQTT-3.3.1-1]; M30: with their packet ids
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    for n in 0..4 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let before = std::mem::take(&mut world.clients[a].got);
    world.ack(a, 1);
    world.detach(a, DetachCause::Lost);
    world.send("t", "4", QoS::AtLeastOnce);
    world.settle();
    world.attach(a, Options::durable());
    let again = std::mem::take(&mut world.clients[a].got);
    assert_eq!(again.len(), 4);
    for (old, new) in before[1..].iter().zip(&again) {
        assert_eq!((&old.payload, old.source), (&new.payload, new.source));
        assert!(new.duplicate);
    }
    assert!(!again[3].duplicate, "this one was never sent");
}

#[test]
fn the_window_is_kept_and_moves_with_acknowledgements() {
    // v5 [MQTT-3.3.4-9], v5 [MQTT-3.3.4-7]
    let mut world = World::new();
    let a = world.client("a");
    let options = Options {
        receive_maximum: 3,
        ..Options::durable()
    };
    world.attach(a, options);
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    for n in 0..10 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    assert_eq!(world.got(a), ["0", "1", "2"]);
    world.ack(a, 2);
    assert_eq!(world.got(a), ["3", "4"]);
    for _ in 0..8 {
        world.ack(a, 1);
    }
    assert_eq!(world.got(a), ["5", "6", "7", "8", "9"]);
}

#[test]
fn pubrel_waits_for_the_commit_of_received_m32() {
    // v3 [MQTT-4.3.3-1], v5 [MQTT-4.3.3-5]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    world.send("t", "1", QoS::ExactlyOnce);
    world.settle();
    world.commits = Commits::Held;
    for (to, message) in world.clients[a].ack(1) {
        world.send_home(to, message);
    }
    assert!(world.clients[a].released.is_empty());
    world.commit_one(DURABLE);
    world.turn();
    assert_eq!(world.clients[a].released.len(), 1);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().queued_messages, 0);
}

#[test]
fn after_pubrec_only_pubrel_is_owed_to_a_new_connection() {
    // v3 [MQTT-4.3.3-1]: no PUBLISH again once PUBREC has come
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    world.send("t", "1", QoS::ExactlyOnce);
    world.settle();
    world.commits = Commits::Held;
    for (to, message) in world.clients[a].ack(1) {
        world.send_home(to, message);
    }
    world.clients[a].got.clear();
    for (to, message) in world.clients[a].detach(DetachCause::Lost) {
        world.send_home(to, message);
    }
    world.settle();
    world.attach(a, Options::durable());
    assert!(world.got(a).is_empty());
    assert_eq!(world.clients[a].released.len(), 1);
}

#[test]
fn a_client_that_refuses_a_message_settles_it() {
    // v5 [MQTT-4.4.0-2]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    world.send("t", "1", QoS::ExactlyOnce);
    world.settle();
    let got = world.clients[a].waiting.pop_front().expect("it has come");
    let (source, seq) = got.source.expect("of QoS 2");
    let (home, message) = world.clients[a].outcome(source, seq, OutcomeKind::Rejected);
    world.send_home(home, message);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().queued_messages, 0);
    assert_eq!(world.fx.dropped[&Dropped::Rejected], 1);
}

#[test]
fn overlapping_subscriptions_are_one_delivery_with_the_highest_qos_and_all_identifiers() {
    // v3 [MQTT-3.3.5-1], v5 [MQTT-3.3.4-2], v5 [MQTT-3.3.4-3], v5 [MQTT-3.3.4-4], v5 [MQTT-3.3.4-5]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    for (filter, qos, identifier) in [
        ("t/#", QoS::AtMostOnce, 7),
        ("t/+", QoS::ExactlyOnce, 3),
        ("#", QoS::AtLeastOnce, 7),
    ] {
        let mut subscription = to(filter, qos);
        subscription.identifier = Some(identifier);
        world.subscribe(a, subscription);
    }
    world.send("t/1", "x", QoS::ExactlyOnce);
    world.settle();
    let got = &world.clients[a].got;
    assert_eq!(got.len(), 1);
    assert_eq!(
        (got[0].qos, &got[0].identifiers[..]),
        (QoS::ExactlyOnce, &[3, 7][..])
    );
}

#[test]
fn delivery_has_the_lower_of_the_two_qos() {
    // v3 [MQTT-3.8.4-6], v5 [MQTT-3.8.4-8]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let levels = [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce];
    for granted in levels {
        world.subscribe(a, to("t", granted));
        for published in levels {
            world.clients[a].got.clear();
            world.send("t", "x", published);
            world.settle();
            assert_eq!(world.clients[a].got[0].qos, granted.min(published));
        }
    }
}

#[test]
fn a_new_subscription_to_the_same_filter_replaces_the_old_one_m7() {
    // v3 [MQTT-3.8.4-3], v5 [MQTT-3.8.4-3]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    world.commits = Commits::Held;
    world.send("t", "before", QoS::ExactlyOnce);
    let (home, message) = world.clients[a].subscribe(vec![to("t", QoS::AtLeastOnce)]);
    world.send_home(home, message);
    world.settle();
    world.send("t", "after", QoS::ExactlyOnce);
    world.settle();
    let qos: Vec<_> = world.clients[a].got.iter().map(|got| got.qos).collect();
    assert_eq!(
        qos,
        [QoS::ExactlyOnce, QoS::AtLeastOnce],
        "fixed at the match"
    );
    assert_eq!(world.nodes[&DURABLE].partition.counts().subscriptions, 1);
}

#[test]
fn no_local_leaves_out_the_sessions_own_messages() {
    // v5 [MQTT-3.8.3-3]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let b = durable(&mut world, "b");
    let mut subscription = to("t", QoS::AtLeastOnce);
    subscription.options.no_local = true;
    world.subscribe(a, subscription.clone());
    world.subscribe(b, subscription);
    let own = Publish {
        publisher: Some(world.home(a)),
        ..message("t", "mine", QoS::AtLeastOnce)
    };
    world.publish(&own);
    world.settle();
    assert!(world.got(a).is_empty());
    assert_eq!(world.got(b), ["mine"]);
}

#[test]
fn retain_is_cleared_for_subscribers_unless_they_ask_for_it() {
    // v3 [MQTT-3.3.1-9], v5 [MQTT-3.3.1-12], v5 [MQTT-3.3.1-13]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let b = durable(&mut world, "b");
    let mut subscription = to("t", QoS::AtLeastOnce);
    world.subscribe(a, subscription.clone());
    subscription.options.retain_as_published = true;
    world.subscribe(b, subscription);
    world.retain("t", "x", QoS::AtLeastOnce);
    world.settle();
    assert!(!world.clients[a].got[0].retain);
    assert!(world.clients[b].got[0].retain);
}

#[test]
fn suback_waits_for_the_commit_and_the_index_m38() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.commits = Commits::Held;
    let (home, message) = world.clients[a].subscribe(vec![to("t", QoS::AtLeastOnce)]);
    world.send_home(home, message);
    assert!(world.clients[a].suback.is_empty());
    world.commit_one(DURABLE);
    assert_eq!(world.fx.index.len(), 1);
    assert!(
        world.clients[a].suback.is_empty(),
        "the index has not confirmed"
    );
    world.turn();
    assert_eq!(world.clients[a].suback.len(), 1);
}

#[test]
fn subscriptions_of_a_session_are_limited() {
    let limits = Limits {
        subscriptions_max: 2,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    let a = durable(&mut world, "a");
    let wanted = ["a", "b", "a", "c"].map(|filter| to(filter, QoS::AtLeastOnce));
    let (home, message) = world.clients[a].subscribe(wanted.to_vec());
    world.send_home(home, message);
    world.settle();
    use courser_contract::SubscribeResult::{Granted, QuotaExceeded};
    let one = Granted(QoS::AtLeastOnce);
    let results = &world.clients[a].suback[0].1;
    assert!(
        results[..2] == [one, one] && results[3] == QuotaExceeded,
        "{results:?}"
    );
}

// ------------------------------------------------------------------------------------------------ connections and takeover

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

#[test]
fn messages_of_an_older_attachment_are_dropped_m24() {
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

// ------------------------------------------------------------------------------------------------------------------ wills

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

// -------------------------------------------------------------------------------------------------------- QoS 2 coming in

fn publish2(world: &mut World, at: usize, packet_id: u16, topic: &str, payload: &str, hash: u64) {
    let publish = message(topic, payload, QoS::ExactlyOnce);
    let destinations = world.fx.route(topic, false);
    let home = world.home(at);
    let message = ToHome::Publish2 {
        session: home.session,
        epoch: world.clients[at].epoch,
        publish: Box::new(courser_contract::Published2 {
            packet_id,
            hash,
            record: courser_contract::Record::copy_of(&(&publish).into()),
            destinations,
        }),
    };
    world.send_home(home.partition, message);
}

fn release(world: &mut World, at: usize, packet_id: u16) {
    let home = world.home(at);
    let message = ToHome::Release {
        session: home.session,
        epoch: world.clients[at].epoch,
        packet_id,
    };
    world.send_home(home.partition, message);
    world.settle();
}

#[test]
fn a_resent_qos2_publish_is_stored_once_m28() {
    // v3 [MQTT-4.3.3-2], v5 [MQTT-4.3.3-8], v5 [MQTT-4.3.3-10]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let own = durable(&mut world, "own");
    world.subscribe(own, to("t", QoS::ExactlyOnce));
    let volatile = clean(&mut world, "volatile");
    world.subscribe(volatile, to("t", QoS::ExactlyOnce));
    world.commits = Commits::Held;
    publish2(&mut world, a, 5, "t", "1", 11);
    publish2(&mut world, a, 5, "t", "1", 11);
    assert!(
        world.clients[a].pubrec.is_empty(),
        "PUBREC leaves after the commit"
    );
    world.settle();
    publish2(&mut world, a, 5, "t", "1", 11);
    world.settle();
    assert_eq!(
        world.clients[a].pubrec,
        [(5, Settled::Ok, true), (5, Settled::Ok, true)]
    );
    assert_eq!(world.got(own), ["1"]);
    assert_eq!(world.got(volatile), ["1"]);
    release(&mut world, a, 5);
    release(&mut world, a, 5);
    assert_eq!(world.clients[a].pubcomp, [(5, true), (5, false)]);
    publish2(&mut world, a, 5, "t", "2", 12);
    world.settle();
    assert_eq!(world.got(own), ["2"], "the id is free again");
}

#[test]
fn a_hold_outlives_connection_and_restart_m28() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let own = durable(&mut world, "own");
    world.subscribe(own, to("t", QoS::ExactlyOnce));
    publish2(&mut world, a, 5, "t", "1", 11);
    world.settle();
    assert_eq!(world.got(own), ["1"]);
    world.restart(DURABLE);
    world.settle();
    world.attach(a, Options::durable());
    world.attach(own, Options::durable());
    publish2(&mut world, a, 5, "t", "1", 11);
    world.settle();
    assert!(world.got(own).is_empty());
    assert_eq!(world.clients[a].pubrec.len(), 2);
    publish2(&mut world, a, 5, "t", "other", 99);
    world.settle();
    assert_eq!(
        world.got(own),
        ["other"],
        "the same id with another hash is a new message"
    );
}

#[test]
fn a_qos2_publish_to_nobody_is_not_stored() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    publish2(&mut world, a, 5, "t", "1", 11);
    assert_eq!(world.clients[a].pubrec, [(5, Settled::Ok, false)]);
    release(&mut world, a, 5);
    assert_eq!(world.clients[a].pubcomp, [(5, false)]);
}

// ----------------------------------------------------------------------------------------------------------------- limits

fn limited(overflow: Overflow) -> World {
    World::with_limits(Limits {
        queue_messages_max: 3,
        overflow,
        ..Limits::default()
    })
}

#[test]
fn a_full_session_drops_by_its_policy_m12() {
    for (overflow, kept, acked) in [
        (Overflow::DropNewest, ["0", "1", "2"], 6),
        (Overflow::DropOldest, ["3", "4", "5"], 6),
        (Overflow::RefusePublisher, ["0", "1", "2"], 3),
    ] {
        let mut world = limited(overflow);
        let a = durable(&mut world, "a");
        world.subscribe(a, to("t", QoS::AtLeastOnce));
        world.detach(a, DetachCause::Lost);
        let tickets: Vec<_> = (0..6)
            .map(|n| world.send("t", &n.to_string(), QoS::AtLeastOnce))
            .collect();
        world.settle();
        let ok = tickets
            .iter()
            .filter(|ticket| world.is_acked(**ticket))
            .count();
        assert_eq!(ok, acked, "{overflow:?}");
        world.attach(a, Options::durable());
        assert_eq!(world.got(a), kept, "{overflow:?}");
        let dropped = world.fx.dropped.get(&Dropped::QueueFull).copied();
        assert_eq!(
            dropped,
            (overflow != Overflow::RefusePublisher).then_some(3)
        );
    }
}

#[test]
fn a_disk_that_is_nearly_full_refuses_what_is_new_and_lets_the_rest_go_on_m47() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.detach(a, DetachCause::Lost);
    let before = world.send("t", "before", QoS::AtLeastOnce);
    world.settle();
    let sender = durable(&mut world, "sender");
    publish2(&mut world, sender, 5, "t", "held", 11);
    world.settle();
    let room = |world: &mut World, room| {
        for id in [DURABLE, OTHER] {
            world.call(id, |it, _, _| it.set_disk_room(room));
        }
    };
    room(&mut world, DiskRoom::Short);
    let short = world.send("t", "short", QoS::AtLeastOnce);
    let kept = world.retain("kept", "short", QoS::AtLeastOnce);
    let unwanted = world.send("nobody", "short", QoS::AtLeastOnce);
    publish2(&mut world, sender, 6, "t", "short", 12);
    publish2(&mut world, sender, 5, "t", "held", 11);
    world.settle();
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    assert!(world.is_acked(before) && world.is_acked(unwanted));
    assert_eq!(world.publishes[short].1, refused);
    assert_eq!(world.publishes[kept].1, refused);
    assert_eq!(
        world.clients[sender].pubrec,
        [
            (5, Settled::Ok, true),
            (6, refused, true),
            (5, Settled::Ok, true)
        ],
        "what was held is still known"
    );
    release(&mut world, sender, 5);
    assert_eq!(world.clients[sender].pubcomp, [(5, true)]);
    world.attach(a, Options::durable());
    assert_eq!(
        world.got(a),
        ["before", "held"],
        "who was away gets its own"
    );
    room(&mut world, DiskRoom::Enough);
    let after = world.send("t", "after", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(after));
    assert_eq!(world.got(a), ["after"]);
}

#[test]
fn publishers_of_a_session_that_takes_and_is_half_full_are_slowed_m12() {
    let mut world = World::with_limits(Limits {
        queue_messages_max: 10,
        ..Limits::default()
    });
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    let paces = |world: &mut World, count: usize| -> Vec<Pace> {
        (0..count)
            .map(|_| {
                let pace = world.append_to(DURABLE, &message("t", "m", QoS::AtLeastOnce));
                world.settle();
                pace
            })
            .collect()
    };
    assert_eq!(paces(&mut world, 5), [Pace::Free; 5], "up to its half");
    assert_eq!(paces(&mut world, 3), [Pace::Slow; 3]);
    world.ack(a, 4);
    assert_eq!(paces(&mut world, 2), [Pace::Free, Pace::Slow]);
    world.pass_time(1_000);
    assert_eq!(
        paces(&mut world, 1),
        [Pace::Free],
        "who has stopped slows nobody"
    );
    world.ack(a, 1);
    assert_eq!(paces(&mut world, 4)[..3], [Pace::Slow; 3]);
    assert_eq!(
        paces(&mut world, 1),
        [Pace::Free],
        "a full one has its policy"
    );
    world.detach(a, DetachCause::Lost);
    world.pass_time(1);
    assert_eq!(paces(&mut world, 1), [Pace::Free], "nobody is there");
}

#[test]
fn limits_count_what_is_only_proposed_m4() {
    let mut world = limited(Overflow::RefusePublisher);
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    world.commits = Commits::Held;
    let tickets: Vec<_> = (0..5)
        .map(|n| world.send("t", &n.to_string(), QoS::AtLeastOnce))
        .collect();
    let refused = |world: &World, at: usize| {
        world.publishes[at].1 == Settled::Refused(Refusal::QuotaExceeded)
    };
    assert!(refused(&world, tickets[3]) && refused(&world, tickets[4]));
    world.settle();
    assert_eq!(world.got(a).len(), 3);
}

#[test]
fn what_was_sent_is_not_dropped_m30() {
    let mut world = limited(Overflow::DropOldest);
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    for n in 0..6 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    assert_eq!(world.got(a), ["0", "1", "2"], "these are under way");
    world.ack(a, 3);
    assert!(
        world.got(a).is_empty(),
        "nothing older to drop: the new ones went"
    );
}

#[test]
fn messages_expire_where_they_wait_and_not_under_way() {
    // v5 [MQTT-3.3.2-5]; M30
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    let soon = |world: &World| Some(courser_contract::WallMs(world.now.wall.0 + 5_000));
    for n in ["0", "1"] {
        let publish = Publish {
            expires_at: soon(&world),
            ..message("t", n, QoS::AtLeastOnce)
        };
        world.publish(&publish);
    }
    world.settle();
    world.pass_time(6_000);
    world.settle();
    assert_eq!(
        world.nodes[&DURABLE].partition.counts().queued_messages,
        2,
        "they are under way"
    );
    world.ack(a, 2);
    world.detach(a, DetachCause::Lost);
    let publish = Publish {
        expires_at: soon(&world),
        ..message("t", "2", QoS::AtLeastOnce)
    };
    world.publish(&publish);
    world.send("t", "3", QoS::AtLeastOnce);
    world.settle();
    world.pass_time(6_000);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().queued_messages, 1);
    world.clients[a].got.clear();
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), ["3"]);
    assert_eq!(world.fx.dropped[&Dropped::Expired], 1);
}

// ------------------------------------------------------------------------------------------------ leadership, repeats, memory

#[test]
fn a_repeat_of_an_append_is_stored_once_m14() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.commits = Commits::Held;
    let ticket = world.send("t", "1", QoS::AtLeastOnce);
    world.resend(DURABLE);
    world.turn();
    world.commit_one(DURABLE);
    // The answer is lost with the leader; the new one knows the number.
    world.fx.settled.clear();
    world.depose(DURABLE, 9);
    world.elect(DURABLE);
    world.settle();
    world.resend(DURABLE);
    world.settle();
    assert!(world.is_acked(ticket));
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(
        counts.queued_messages + world.clients[a].got.len() as u64,
        1
    );
}

#[test]
fn a_new_leader_admits_nothing_before_its_first_entry_m5() {
    let mut world = World::new();
    durable(&mut world, "a");
    world.commits = Commits::Held;
    world.depose(DURABLE, 0);
    world.elect(DURABLE);
    let b = world.client("b");
    world.connect(b, Options::durable());
    assert_eq!(world.clients[b].refused, Some(ConnectRefusal::Unavailable));
    world.settle();
    world.attach(b, Options::durable());
}

#[test]
fn a_message_for_many_is_one_record_with_a_set_that_is_named_again_m8() {
    let mut world = World::new();
    let names = ["a", "b", "c", "d"];
    let clients = names.map(|name| durable(&mut world, name));
    for at in clients {
        world.subscribe(at, to("t", QoS::AtLeastOnce));
        world.clients[at].acks = Acks::Held;
    }
    let log = |world: &World| {
        world.nodes[&DURABLE]
            .log
            .last()
            .map_or(0, |(_, entry)| entry.len())
    };
    world.fx.deliver_calls = 0;
    world.send("t", "1", QoS::AtLeastOnce);
    let first = log(&world);
    world.send("t", "1", QoS::AtLeastOnce);
    world.send("t", "1", QoS::AtLeastOnce);
    let third = log(&world);
    assert!(third < first, "{third} < {first}: named, not written");
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.records, counts.queued_messages), (3, 12));
    assert_eq!(
        world.fx.deliver_calls, 3,
        "one call a message for all of its fronts"
    );
}

#[test]
fn one_stuck_message_does_not_pin_what_came_around_it_m17() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    world.send("t", "stuck", QoS::AtLeastOnce);
    let stuck = world.clients[a].waiting.pop_front();
    world.clients[a].acks = Acks::Auto;
    let payload = "x".repeat(4_000);
    for _ in 0..400 {
        world.call(DURABLE, |partition, now, fx| {
            let append = courser_contract::Append {
                key: courser_contract::AppendKey::Unanswered,
                publish: message("t", &payload, QoS::AtLeastOnce),
                keep_retained: false,
                deliver: true,
            };
            partition.handle_append(now, &append, fx);
            let entry = partition.take_entry(now).expect("a publish was gathered");
            fx.entries.push(entry);
        });
        for entry in std::mem::take(&mut world.fx.entries) {
            let node = world.nodes.get_mut(&DURABLE).expect("it is there");
            node.proposed.push_back(entry);
            world.commit_one(DURABLE);
        }
        let got = std::mem::take(&mut world.fx.deliveries);
        for (_, got) in got {
            for (home, message) in world.clients[a].take(got) {
                world.call(home, |partition, now, fx| {
                    partition.handle_home(now, message, fx)
                });
            }
        }
    }
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(counts.records, 1);
    assert!(
        counts.record_bytes < 1_000,
        "{} bytes are held",
        counts.record_bytes
    );
    assert!(stuck.is_some());
}
