//! Subscriptions with No Local: nothing of the same client, whatever session it had when it published, v5 [MQTT-3.8.3-3].

use courser_contract::{DetachCause, Publish, QoS, Subscription};

use crate::people::{clean, durable, publish_qos2, retain_qos2, will};
use crate::world::{DURABLE, Options, World, message, to};

fn no_local(filter: &str) -> Subscription {
    let mut subscription = to(filter, QoS::ExactlyOnce);
    subscription.options.no_local = true;
    subscription
}

/// Publishes as the front of a client does.
fn send_of(world: &mut World, at: usize, topic: &str, payload: &str, retain: bool) {
    let publish = Publish {
        publisher: Some(world.clients[at].hash()),
        retain,
        ..message(topic, payload, QoS::AtLeastOnce)
    };
    world.publish(&publish);
    world.settle();
}

#[test]
fn no_local_leaves_out_the_sessions_own_messages() {
    let mut world = World::new();
    let (a, b) = (durable(&mut world, "a"), durable(&mut world, "b"));
    let c = clean(&mut world, "c");
    for at in [a, b, c] {
        world.subscribe(at, no_local("t"));
    }
    send_of(&mut world, a, "t", "of a", false);
    publish_qos2(&mut world, a, 1, "t", "also of a", 11);
    world.settle();
    send_of(&mut world, c, "t", "of c", false);
    assert_eq!(world.got(a), ["of c"]);
    assert_eq!(world.got(b), ["of a", "also of a", "of c"]);
    assert_eq!(world.got(c), ["of a", "also of a"]);
}

/// One that has No Local is left out, another one that matches the same message is not.
#[test]
fn another_subscription_of_the_client_still_gets_its_messages() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let mut quiet = no_local("t");
    quiet.identifier = Some(1);
    world.subscribe(a, quiet);
    let mut loud = to("+", QoS::AtLeastOnce);
    loud.identifier = Some(2);
    world.subscribe(a, loud);
    send_of(&mut world, a, "t", "mine", false);
    let got: Vec<_> = world.clients[a]
        .got
        .iter()
        .map(|got| &got.identifiers[..])
        .collect();
    assert_eq!(got, [[2]]);
}

/// What the session before a clean start has under way arrives when the new one has its subscriptions.
#[test]
fn a_session_after_a_clean_start_does_not_get_what_the_one_before_it_published() {
    for again in [Options::clean(), Options::durable()] {
        let mut world = World::new();
        let a = durable(&mut world, "a");
        send_of(&mut world, a, "other/t", "retained", true);
        retain_qos2(&mut world, a, 1, "u", "also retained");
        world.settle();
        world.detach(a, DetachCause::Disconnect);
        let again = Options {
            clean_start: true,
            ..again
        };
        world.attach(a, again);
        world.subscribe(a, no_local("#"));
        send_of(&mut world, a, "t", "late", false);
        assert!(world.got(a).is_empty());
        let b = durable(&mut world, "b");
        world.subscribe(b, no_local("#"));
        let mut got = world.got(b);
        got.sort();
        assert_eq!(got, ["also retained", "retained"]);
    }
}

#[test]
fn a_restart_does_not_make_a_client_another_one() {
    let mut world = World::new();
    let (a, b) = (durable(&mut world, "a"), durable(&mut world, "b"));
    world.subscribe(a, no_local("t"));
    world.restart(DURABLE);
    world.settle();
    // Its session has no connection, and no front that says whose it is.
    send_of(&mut world, a, "t", "mine", true);
    send_of(&mut world, b, "t", "of b", false);
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["of b"]);
    world.subscribe(a, no_local("t"));
    assert!(world.got(a).is_empty(), "the retained message is its own");
}

#[test]
fn a_will_is_a_message_of_its_client() {
    for lifetime in [0, 3_600] {
        let mut world = World::new();
        let a = world.client("a");
        let mut options = will("will", 5);
        options.expiry_seconds = lifetime;
        if let Some(will) = &mut options.will {
            will.retain = true;
        }
        world.attach(a, options);
        world.subscribe(a, no_local("will"));
        let b = durable(&mut world, "b");
        world.subscribe(b, no_local("will"));
        world.detach(a, DetachCause::Lost);
        world.pass_time(6_000);
        world.settle();
        assert_eq!(world.got(b), ["gone"]);
        world.attach(a, Options::durable());
        world.settle();
        assert!(
            world.got(a).is_empty(),
            "lifetime {lifetime}: it was queued"
        );
        world.subscribe(a, no_local("#"));
        assert!(world.got(a).is_empty(), "lifetime {lifetime}: it was found");
    }
}
