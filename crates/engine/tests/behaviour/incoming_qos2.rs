//! QoS 2 coming in (M28).

use courser_contract::{DetachCause, PubrecCan, QoS, Settled};

use crate::people::{clean, durable, publish_qos2, publish_to_home, release, send_release};
use crate::world::{Commits, DURABLE, Options, World, message, to};

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
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    assert!(
        world.clients[a].pubrec.is_empty(),
        "PUBREC leaves after the commit"
    );
    world.settle();
    publish_qos2(&mut world, a, 5, "t", "1", 11);
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
    publish_qos2(&mut world, a, 5, "t", "2", 12);
    world.settle();
    assert_eq!(world.got(own), ["2"], "the id is free again");
}

/// A client may have as many under way as the Receive Maximum says, which may be 65,535 (v5 [MQTT-3.3.4-7]): from the 32,768th on they were refused.
#[test]
fn m28_a_session_holds_as_many_packet_ids_as_there_are() {
    let mut world = World::new();
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("t", QoS::AtMostOnce));
    let a = durable(&mut world, "a");
    let publish = message("t", "x", QoS::ExactlyOnce);
    for packet_id in 1..=u16::MAX {
        let named = (packet_id, packet_id.into());
        let message = publish_to_home(&world, a, named, &publish, PubrecCan::Refuse);
        world.call(DURABLE, |partition, now, fx| {
            partition.handle_home(now, message, fx);
        });
    }
    world.settle();
    let taken = (1..=u16::MAX).map(|packet_id| (packet_id, Settled::Ok, true));
    assert!(world.clients[a].pubrec.iter().copied().eq(taken));
    assert_eq!(world.got(reader).len(), usize::from(u16::MAX));
    // They are held: what comes again is not stored, also behind a restart.
    world.restart(DURABLE);
    world.settle();
    world.attach(a, Options::durable());
    publish_qos2(&mut world, a, u16::MAX, "t", "x", u16::MAX.into());
    world.settle();
    assert_eq!(
        world.clients[a].pubrec.last(),
        Some(&(u16::MAX, Settled::Ok, true))
    );
    assert!(world.got(reader).is_empty());
}

#[test]
fn a_hold_outlives_connection_and_restart_m28() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let own = durable(&mut world, "own");
    world.subscribe(own, to("t", QoS::ExactlyOnce));
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    world.settle();
    assert_eq!(world.got(own), ["1"]);
    world.restart(DURABLE);
    world.settle();
    world.attach(a, Options::durable());
    world.attach(own, Options::durable());
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    world.settle();
    assert!(world.got(own).is_empty());
    assert_eq!(world.clients[a].pubrec.len(), 2);
    publish_qos2(&mut world, a, 5, "t", "other", 99);
    world.settle();
    assert_eq!(
        world.got(own),
        ["other"],
        "the same id with another hash is a new message"
    );
}

/// What a leader had proposed when it lost its leadership is stored if the next one finds it committed, and its client hears so.
#[test]
fn i1_a_publish_that_outlives_its_leader_reaches_clean_sessions_m28() {
    for kept in 0..=2 {
        let mut world = World::new();
        let a = durable(&mut world, "a");
        let reader = clean(&mut world, "reader");
        world.subscribe(reader, to("t", QoS::ExactlyOnce));
        world.commits = Commits::Held;
        for id in 1..=2 {
            publish_qos2(&mut world, a, id, "t", &id.to_string(), u64::from(id));
            world.turn();
        }
        world.depose(DURABLE, kept);
        world.settle();
        let stored: Vec<String> = (1..=kept).map(|id| id.to_string()).collect();
        assert_eq!(world.got(reader), stored, "{kept} entries survive");
        world.elect(DURABLE);
        world.commits = Commits::AtOnce;
        world.settle();
        world.attach(a, Options::durable());
        for id in 1..=2 {
            publish_qos2(&mut world, a, id, "t", &id.to_string(), u64::from(id));
        }
        world.settle();
        assert_eq!(world.clients[a].pubrec.len(), 2);
        let rest: Vec<String> = (kept + 1..=2).map(|id| id.to_string()).collect();
        assert_eq!(world.got(reader), rest, "each of them came once");
    }
}

/// The leadership may go twice before the first entry of a term is applied.
#[test]
fn i1_what_a_leader_before_the_last_one_proposed_reaches_clean_sessions_m28() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("t", QoS::ExactlyOnce));
    world.commits = Commits::Held;
    publish_qos2(&mut world, a, 1, "t", "1", 1);
    world.turn();
    world.call(DURABLE, |it, now, fx| it.handle_follower(now, fx));
    world.elect(DURABLE);
    world.depose(DURABLE, 1);
    world.settle();
    assert_eq!(world.got(reader), ["1"]);
}

#[test]
fn a_qos2_publish_to_nobody_is_not_stored() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    assert_eq!(world.clients[a].pubrec, [(5, Settled::Ok, false)]);
    release(&mut world, a, 5);
    assert_eq!(world.clients[a].pubcomp, [(5, false)]);
}

/// M1, M28: a session of the class volatile keeps its half of the exchange over connections; what is for a durable session is
/// there before PUBREC, since nothing of this side outlives the process (I1).
#[test]
fn a_volatile_session_holds_what_it_sent_and_waits_for_durable_targets_m28() {
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::volatile());
    let own = durable(&mut world, "own");
    world.subscribe(own, to("t", QoS::ExactlyOnce));
    let other = world.client("other");
    world.attach(other, Options::volatile());
    world.subscribe(other, to("t", QoS::ExactlyOnce));
    world.commits = Commits::Held;
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    world.turn();
    assert_eq!(world.got(other), ["1"], "volatile targets wait for nothing");
    assert!(
        world.clients[a].pubrec.is_empty(),
        "the durable target has not committed"
    );
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(5, Settled::Ok, true)]);
    assert_eq!(world.got(own), ["1"]);
    world.detach(a, DetachCause::Lost);
    world.settle();
    world.attach(a, Options::volatile());
    publish_qos2(&mut world, a, 5, "t", "1", 11);
    world.settle();
    assert!(world.got(own).is_empty() && world.got(other).is_empty());
    assert_eq!(
        world.clients[a].pubrec.len(),
        2,
        "a resent one is held still"
    );
    release(&mut world, a, 5);
    assert_eq!(world.clients[a].pubcomp, [(5, true)]);
    publish_qos2(&mut world, a, 5, "t", "2", 12);
    world.settle();
    assert_eq!(world.got(own), ["2"], "the second knows who leads");
}

/// A client that lost its state has nobody to send to: what it held before is no more, so the first message comes again as a new one. It was
/// taken for a repeat: acknowledged, and lost.
#[test]
fn m28_a_hold_of_a_client_that_lost_its_state_ends_where_nobody_subscribes() {
    // v5 [MQTT-4.3.3-12]
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let own = durable(&mut world, "own");
    world.subscribe(own, to("t", QoS::ExactlyOnce));
    publish_qos2(&mut world, a, 5, "t", "ON", 11);
    world.settle();
    assert_eq!(world.got(own), ["ON"]);
    publish_qos2(&mut world, a, 5, "nobody", "booted", 12);
    world.settle();
    assert_eq!(
        world.clients[a].pubrec.last(),
        Some(&(5, Settled::Ok, false))
    );
    world.restart(DURABLE);
    world.settle();
    world.attach(a, Options::durable());
    world.attach(own, Options::durable());
    publish_qos2(&mut world, a, 5, "t", "ON", 11);
    world.settle();
    assert_eq!(world.got(own), ["ON"], "a new message");
    release(&mut world, a, 5);
    assert_eq!(world.clients[a].pubcomp.last(), Some(&(5, true)));
}

/// The end of a hold is answered once, with its commit: PUBCOMP before it would let a restart bring the hold back.
#[test]
fn m28_a_release_of_what_ends_already_waits_for_that_commit() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let own = durable(&mut world, "own");
    world.subscribe(own, to("t", QoS::ExactlyOnce));
    publish_qos2(&mut world, a, 5, "t", "ON", 11);
    world.settle();
    world.commits = Commits::Held;
    publish_qos2(&mut world, a, 5, "nobody", "booted", 12);
    send_release(&mut world, a, 5);
    assert!(world.clients[a].pubcomp.is_empty(), "nothing is committed");
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(world.clients[a].pubcomp, [(5, true)]);
}
