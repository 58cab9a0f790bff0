//! Rules of subscriptions and deliveries, as a client sees them.

use courser_contract::{DetachCause, Dropped, OutcomeKind, QoS};
use courser_engine::Limits;

use crate::people::{clean, durable};
use crate::world::{Acks, Commits, DURABLE, Options, VOLATILE, World, to};

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
        (QoS::ExactlyOnce, &[3, 7, 7][..])
    );
}

/// v5 [MQTT-3.3.4-4]: also of more than an entry has room for beside a target, and after a restart.
#[test]
fn a_delivery_has_the_identifiers_of_all_subscriptions_that_match() {
    const LEVELS: u32 = 9;
    let topic = ["1"; LEVELS as usize].join("/");
    for (first, step) in [(7, 0), (1, 1)] {
        let mut world = World::new();
        let a = durable(&mut world, "a");
        for number in 0..1 << LEVELS {
            // Each level of the topic is a 1: in the filter as it is, or as a wildcard.
            let levels = (0..LEVELS).map(|level| ["1", "+"][(number >> level & 1) as usize]);
            let filter = levels.collect::<Vec<_>>().join("/");
            let mut subscription = to(&filter, QoS::AtLeastOnce);
            subscription.identifier = Some(first + step * number);
            world.subscribe(a, subscription);
        }
        world.send(&topic, "x", QoS::AtMostOnce);
        world.send(&topic, "y", QoS::AtLeastOnce);
        world.settle();
        world.detach(a, DetachCause::Lost);
        world.send(&topic, "z", QoS::AtLeastOnce);
        world.settle();
        world.restart(DURABLE);
        world.settle();
        world.attach(a, Options::durable());
        let got = &world.clients[a].got;
        let all: Vec<u32> = (0..1 << LEVELS).map(|n| first + step * n).collect();
        assert_eq!(got.len(), 3);
        assert!(got.iter().all(|got| got.identifiers == all), "{step}");
    }
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

/// What a single node has of the rule: the leases are for nodes with peers.
#[test]
fn m40_a_suback_waits_for_the_index_as_it_was_changed_for_it() {
    let mut world = World::new();
    let (a, b) = (durable(&mut world, "a"), durable(&mut world, "b"));
    world.commits = Commits::Held;
    let mut changes = Vec::new();
    for (at, filter) in [(a, "x"), (b, "y")] {
        let (home, message) = world.clients[at].subscribe(vec![to(filter, QoS::AtLeastOnce)]);
        world.send_home(home, message);
        world.commit_one(DURABLE);
        changes.append(&mut world.fx.index);
    }
    assert_eq!(changes.len(), 2, "a change of the index for each");
    for (confirmed, (id, token)) in (1..).zip(changes) {
        world.call(id, |it, now, fx| it.handle_index_confirmed(now, token, fx));
        world.turn();
        let answers = [a, b].map(|at| world.clients[at].suback.len());
        assert_eq!(answers, [1, usize::from(confirmed == 2)]);
    }
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
