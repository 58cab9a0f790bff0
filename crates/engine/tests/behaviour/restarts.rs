//! Restarts in the middle: partitions come back from their last checkpoint and the entries behind it, after every step of a
//! story, and nobody can tell.

use courser_contract::{DetachCause, Publish, QoS, Will};

use crate::people::{publish_qos2, send_release};
use crate::world::{Acks, DURABLE, OTHER, Options, World, message, to};

/// Both partitions with a log stop and start; who was connected connects again.
fn restart(world: &mut World) {
    let connected: Vec<usize> = (0..world.clients.len())
        .filter(|&at| world.clients[at].home.is_some())
        .collect();
    for id in [DURABLE, OTHER] {
        world.restart(id);
    }
    world.settle();
    for id in [DURABLE, OTHER] {
        world.resend(id);
    }
    world.settle();
    for at in connected {
        world.attach(at, Options::durable());
    }
}

/// A QoS 2 publish to what both subscribers hear.
fn send_qos2(world: &mut World, packet_id: u16, payload: &str) {
    publish_qos2(
        world,
        PUBLISHER,
        packet_id,
        "t/2",
        payload,
        u64::from(packet_id),
    );
}

const A: usize = 0;
const B: usize = 1;
const PUBLISHER: usize = 2;
const STEPS: usize = 14;

/// A publisher with QoS 1 and 2, two subscribers that acknowledge when they are told to, one of them away for a while.
fn step(world: &mut World, step: usize) {
    match step {
        0 => send_qos2(world, 5, "two-1"),
        1 => send_release(world, PUBLISHER, 5),
        2 => drop(world.send("t/1", "one-1", QoS::AtLeastOnce)),
        3 => drop(world.send("t/1", "one-2", QoS::AtLeastOnce)),
        4 => world.ack(A, 1),
        5 => world.detach(B, DetachCause::Lost),
        6 => send_qos2(world, 6, "two-2"),
        // The same again, as after a connection that was lost before PUBREC.
        7 => send_qos2(world, 6, "two-2"),
        8 => send_release(world, PUBLISHER, 6),
        9 => world.attach(B, Options::durable()),
        10 => world.ack(B, 2),
        11 => drop(world.retain("t/1", "one-3", QoS::AtLeastOnce)),
        12 => world.ack(A, 2),
        _ => drop(world.send("t/1", "one-4", QoS::AtLeastOnce)),
    }
}

fn tell(restarts: &[usize]) -> World {
    let mut world = World::new();
    for name in ["a", "b", "publisher"] {
        let at = world.client(name);
        world.attach(at, Options::durable());
    }
    for at in [A, B] {
        world.subscribe(at, to("t/#", QoS::ExactlyOnce));
        world.clients[at].acks = Acks::Held;
    }
    for number in 0..STEPS {
        step(&mut world, number);
        if restarts.contains(&number) {
            restart(&mut world);
        }
    }
    world.settle();
    for at in [A, B] {
        world.clients[at].acks = Acks::Auto;
        let waiting = world.clients[at].waiting.len();
        world.ack(at, waiting);
    }
    world.settle();
    world
}

/// What an application gets, each message at its first coming.
fn taken(world: &World, at: usize, qos: QoS) -> Vec<String> {
    let mut first: Vec<String> = Vec::new();
    for got in world.clients[at].taken.iter().filter(|got| got.qos == qos) {
        if qos == QoS::ExactlyOnce || !first.contains(&got.payload) {
            first.push(got.payload.clone());
        }
    }
    first
}

fn judge(world: &World, restarts: &[usize]) {
    for at in [A, B] {
        let once = taken(world, at, QoS::ExactlyOnce);
        assert_eq!(once, ["two-1", "two-2"], "{at}: QoS 2, {restarts:?}");
        let least = taken(world, at, QoS::AtLeastOnce);
        let sent = ["one-1", "one-2", "one-3", "one-4"];
        assert_eq!(least, sent, "{at}: QoS 1, {restarts:?}");
    }
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(counts.queued_messages, 0, "{restarts:?}");
    assert_eq!(counts.retained_messages, 1, "{restarts:?}");
}

#[test]
fn a_restart_after_any_step_changes_nothing_i1_i4() {
    judge(&tell(&[]), &[]);
    for restart in 0..STEPS {
        judge(&tell(&[restart]), &[restart]);
    }
}

#[test]
fn restarts_after_every_step_change_nothing_i1_i4() {
    let all: Vec<usize> = (0..STEPS).collect();
    judge(&tell(&all), &all);
}

#[test]
fn after_a_restart_deliveries_have_their_packet_ids_and_dup_m30() {
    // v3 [MQTT-4.4.0-1], v5 [MQTT-4.4.0-1], v3 [MQTT-3.3.1-1], v5 [MQTT-3.3.1-1]
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::durable());
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    for (payload, qos) in [
        ("done", QoS::AtLeastOnce),
        ("received", QoS::ExactlyOnce),
        ("sent-1", QoS::AtLeastOnce),
        ("sent-2", QoS::ExactlyOnce),
    ] {
        world.send("t", payload, qos);
    }
    world.settle();
    let before = std::mem::take(&mut world.clients[a].got);
    assert_eq!(before.len(), 4);
    // PUBACK for the first; of the second PUBREC arrives, and PUBCOMP never does.
    let outcomes = world.clients[a].ack(2);
    for (to, message) in outcomes {
        world.call(to, |partition, now, fx| {
            partition.handle_home(now, message, fx)
        });
    }
    world.clients[a].front = None;
    world.settle();
    world.clients[a].released.clear();
    restart(&mut world);
    let again = std::mem::take(&mut world.clients[a].got);
    let sources = |got: &[crate::world::Got]| got.iter().map(|got| got.source).collect::<Vec<_>>();
    assert_eq!(
        sources(&again),
        sources(&before[2..]),
        "positions, and with them packet ids, are the same"
    );
    assert!(again.iter().all(|got| got.duplicate));
    let received = before[1].source.expect("it wants an acknowledgement");
    assert_eq!(
        world.clients[a].released,
        [received],
        "of what was received only PUBREL comes"
    );
}

#[test]
fn a_delayed_will_counts_from_the_next_start_m26() {
    // v5 [MQTT-3.1.3-9]
    let mut world = World::new();
    let watcher = world.client("watcher");
    world.attach(watcher, Options::durable());
    world.subscribe(watcher, to("gone", QoS::AtLeastOnce));
    let a = world.client("a");
    let will = Will {
        topic: "gone".into(),
        properties: Box::default(),
        payload: Box::from(*b"a"),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay_seconds: 10,
        expiry_seconds: None,
    };
    world.attach(
        a,
        Options {
            will: Some(will),
            ..Options::durable()
        },
    );
    world.pass_time(60_000);
    world.restart(DURABLE);
    world.settle();
    world.attach(watcher, Options::durable());
    world.pass_time(9_000);
    world.settle();
    assert!(
        world.got(watcher).is_empty(),
        "its delay began with the start"
    );
    world.pass_time(2_000);
    world.settle();
    assert_eq!(world.got(watcher), ["a"]);
}

#[test]
fn what_expires_while_nothing_runs_is_not_delivered_afterwards() {
    // v5 [MQTT-3.3.2-5]
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::durable());
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.detach(a, DetachCause::Lost);
    let expires_at = Some(courser_contract::WallMs(world.now.wall.0 + 5_000));
    world.publish(&Publish {
        expires_at,
        ..message("t", "short", QoS::AtLeastOnce)
    });
    world.send("t", "long", QoS::AtLeastOnce);
    world.settle();
    world.now.wall.0 += 6_000;
    world.restart(DURABLE);
    world.settle();
    world.pass_time(1_000);
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), ["long"]);
}
