//! Rules of sessions, as a client sees them.

use crate::world::{Options, World, to};
use courser_contract::{DetachCause, QoS};

#[test]
fn qos1_reaches_a_clean_session_in_the_same_turn_m13() {
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::clean());
    world.subscribe(a, to("t/+", QoS::AtLeastOnce));
    world.send("t/1", "one", QoS::AtLeastOnce);
    world.send("t/1", "two", QoS::AtMostOnce);
    assert_eq!(world.got(a), ["one", "two"]);
}

#[test]
fn a_stored_session_gets_what_came_while_it_was_away() {
    // v3 [MQTT-3.1.2-5], v5 [MQTT-3.1.2-5]
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::durable());
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
            .is_some_and(|attached| attached.present)
    );
    assert_eq!(world.got(a), ["1", "2"]);
    world.settle();
    assert_eq!(
        world.nodes[&crate::world::DURABLE]
            .partition
            .counts()
            .queued_messages,
        0
    );
}
