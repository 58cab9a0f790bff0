//! QoS 2 coming in (M28).

use courser_contract::{QoS, Settled};

use crate::people::{clean, durable, publish2, release};
use crate::world::{Commits, DURABLE, Options, World, to};

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
