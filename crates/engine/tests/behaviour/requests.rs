//! SUBSCRIBE and UNSUBSCRIBE that a client sends without waiting for answers.

use courser_contract::{QoS, RequestPart, RetainHandling, SubscribeResult, Subscription, ToHome};
use courser_engine::Limits;

use crate::people::durable;
use crate::world::{Acks, Commits, Options, World, to};

const GRANTED: SubscribeResult = SubscribeResult::Granted(QoS::AtLeastOnce);

fn subscribe(world: &mut World, at: usize, subscriptions: Vec<Subscription>) {
    let (home, message) = world.clients[at].subscribe(subscriptions);
    world.send_home(home, message);
}

fn unsubscribe(world: &mut World, at: usize, packet_id: u16, filters: &[&str]) {
    let home = world.home(at);
    let message = ToHome::Unsubscribe {
        session: home.session,
        epoch: world.clients[at].epoch,
        part: RequestPart::whole(packet_id),
        filters: filters
            .iter()
            .map(|&filter| (None, filter.into()))
            .collect(),
    };
    world.send_home(home.partition, message);
}

/// All that was held is committed.
fn commit(world: &mut World) {
    world.commits = Commits::AtOnce;
    world.settle();
}

fn results(world: &mut World, at: usize) -> Vec<Vec<SubscribeResult>> {
    let answers = std::mem::take(&mut world.clients[at].suback);
    answers.into_iter().map(|(_, results)| results).collect()
}

fn qos1(filter: &str) -> Subscription {
    to(filter, QoS::AtLeastOnce)
}

#[test]
fn an_unsubscribe_behind_a_subscribe_that_is_not_committed_ends_it() {
    // v3 [MQTT-3.10.4-1], v3 [MQTT-3.10.4-2], v5 [MQTT-3.10.4-1], v5 [MQTT-3.10.4-2]
    for options in [Options::durable(), Options::clean()] {
        let mut world = World::new();
        let a = world.client("a");
        world.attach(a, options);
        world.commits = Commits::Held;
        subscribe(&mut world, a, vec![qos1("t"), qos1("u")]);
        unsubscribe(&mut world, a, 70, &["t"]);
        subscribe(&mut world, a, vec![qos1("v")]);
        let home = world.home(a).partition;
        if !home.is_volatile() {
            // Another one does not wait for that which waits.
            world.turn();
            while world.clients[a].suback.len() < 2 {
                assert!(world.commit_one(home));
                world.turn();
            }
            assert!(world.clients[a].unsuback.is_empty());
        }
        commit(&mut world);
        assert_eq!(world.clients[a].unsuback, [(70, vec![true])]);
        assert_eq!(results(&mut world, a), [vec![GRANTED; 2], vec![GRANTED]]);
        for topic in ["t", "u", "v"] {
            world.send(topic, topic, QoS::AtLeastOnce);
        }
        world.settle();
        assert_eq!(world.got(a), ["u", "v"]);
    }
}

#[test]
fn a_filter_that_is_named_twice_is_there_once_and_ends_once() {
    // v5 [MQTT-3.8.4-5], v5 [MQTT-3.10.4-6]
    let mut world = World::with_limits(Limits {
        subscriptions_max: 1,
        ..Limits::default()
    });
    let a = durable(&mut world, "a");
    subscribe(&mut world, a, vec![qos1("t"), qos1("t"), qos1("u")]);
    world.settle();
    let full = vec![GRANTED, GRANTED, SubscribeResult::QuotaExceeded];
    assert_eq!(results(&mut world, a), [full]);
    unsubscribe(&mut world, a, 70, &["t", "t", "u"]);
    world.settle();
    let existed = vec![true, false, false];
    assert_eq!(world.clients[a].unsuback, [(70, existed)]);
}

#[test]
fn an_unsubscribe_makes_room_for_the_subscribe_behind_it() {
    let mut world = World::with_limits(Limits {
        subscriptions_max: 1,
        ..Limits::default()
    });
    let a = durable(&mut world, "a");
    world.subscribe(a, qos1("t"));
    results(&mut world, a);
    world.commits = Commits::Held;
    unsubscribe(&mut world, a, 70, &["t"]);
    subscribe(&mut world, a, vec![qos1("u")]);
    commit(&mut world);
    assert_eq!(results(&mut world, a), [vec![GRANTED]]);
}

#[test]
fn a_subscription_that_is_made_anew_behind_its_end_is_new() {
    // v5 [MQTT-3.3.1-10]
    let mut world = World::new();
    world.retain("t", "kept", QoS::AtLeastOnce);
    let a = durable(&mut world, "a");
    let mut subscription = qos1("t");
    subscription.options.retain_handling = RetainHandling::SendIfNew;
    world.subscribe(a, subscription.clone());
    assert_eq!(world.got(a), ["kept"]);
    world.commits = Commits::Held;
    unsubscribe(&mut world, a, 70, &["t"]);
    subscribe(&mut world, a, vec![subscription]);
    commit(&mut world);
    assert_eq!(world.got(a), ["kept"]);
}

#[test]
fn requests_that_wait_go_with_their_connection() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.commits = Commits::Held;
    subscribe(&mut world, a, vec![qos1("t")]);
    unsubscribe(&mut world, a, 70, &["t"]);
    for (partition, message) in world.clients[a].detach(courser_contract::DetachCause::Lost) {
        world.send_home(partition, message);
    }
    commit(&mut world);
    world.attach(a, Options::durable());
    // Nobody was told that it had ended; the next request finds no other before it.
    world.send("t", "1", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.got(a), ["1"]);
    unsubscribe(&mut world, a, 71, &["t"]);
    world.settle();
    assert_eq!(world.clients[a].unsuback, [(71, vec![true])]);
}

#[test]
fn retained_messages_are_found_no_more_for_a_subscription_that_has_ended() {
    // v5 [MQTT-3.3.1-11]
    let mut world = World::new();
    for topic in ["t/1", "t/2", "t/3"] {
        world.retain(topic, topic, QoS::AtLeastOnce);
    }
    world.settle();
    let a = world.client("a");
    world.attach(
        a,
        Options {
            receive_maximum: 1,
            ..Options::durable()
        },
    );
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, qos1("t/#"));
    assert_eq!(world.got(a), ["t/1"], "the window is full");
    unsubscribe(&mut world, a, 70, &["t/#"]);
    world.settle();
    let mut later = qos1("t/#");
    later.options.retain_handling = RetainHandling::DoNotSend;
    world.subscribe(a, later);
    world.clients[a].acks = Acks::Auto;
    world.ack(a, 1);
    world.settle();
    assert!(world.got(a).is_empty());
}

fn shared(share: &str, filter: &str) -> Subscription {
    Subscription {
        share: Some(share.into()),
        ..qos1(filter)
    }
}

const FULL: SubscribeResult = SubscribeResult::QuotaExceeded;

#[test]
fn shared_groups_of_a_session_are_limited() {
    let mut world = World::with_limits(Limits {
        shared_subscriptions_max: 2,
        ..Limits::default()
    });
    let a = durable(&mut world, "a");
    let wanted = ["g", "h", "i", "g"].map(|share| shared(share, "t"));
    subscribe(&mut world, a, wanted.to_vec());
    world.settle();
    assert_eq!(
        results(&mut world, a),
        [vec![GRANTED, GRANTED, FULL, GRANTED]]
    );
    subscribe(&mut world, a, vec![qos1("t"), shared("h", "u")]);
    world.settle();
    assert_eq!(
        results(&mut world, a),
        [vec![GRANTED, FULL]],
        "others have room"
    );
}

#[test]
fn bytes_of_the_filters_of_a_session_are_limited() {
    let mut world = World::with_limits(Limits {
        subscription_bytes_max: 10,
        ..Limits::default()
    });
    let a = durable(&mut world, "a");
    let wanted = vec![qos1("sixsix"), qos1("fiver"), qos1("four"), qos1("sixsix")];
    subscribe(&mut world, a, wanted);
    world.settle();
    assert_eq!(
        results(&mut world, a),
        [vec![GRANTED, FULL, GRANTED, GRANTED]]
    );
    world.commits = Commits::Held;
    unsubscribe(&mut world, a, 70, &["sixsix"]);
    subscribe(&mut world, a, vec![qos1("fiver")]);
    commit(&mut world);
    assert_eq!(
        results(&mut world, a),
        [vec![GRANTED]],
        "what ends before it makes room"
    );
}
