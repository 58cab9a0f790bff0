//! What a partition sends to another (M19, M28): QoS 2 publishes whose retained message lives elsewhere.

use courser_contract::{DetachCause, Dropped, PubrecCan, QoS, Refusal, Settled};
use courser_engine::Limits;

use crate::people::{clean, durable, hold, release, retain_qos2, retain2_as};
use crate::world::{Commits, DURABLE, OTHER, Options, World, message, to};

/// A QoS 2 publish with RETAIN to a topic whose retained message the other partition keeps. Its payload is its packet id.
fn publish_qos2(world: &mut World, at: usize, packet_id: u16) {
    retain_qos2(world, at, packet_id, "other/t", &packet_id.to_string());
}

fn client(world: &mut World) -> usize {
    let at = world.client("a");
    world.attach(at, Options::durable());
    at
}

#[test]
fn pubrec_waits_for_a_destination_that_may_refuse_m28() {
    let mut world = World::new();
    let a = client(&mut world);
    world.commits = Commits::Held;
    publish_qos2(&mut world, a, 1);
    while world.commit_one(DURABLE) {}
    world.turn();
    assert!(
        world.clients[a].pubrec.is_empty(),
        "the other has not committed"
    );
    publish_qos2(&mut world, a, 1);
    world.settle();
    assert_eq!(
        world.clients[a].pubrec,
        [(1, Settled::Ok, true)],
        "a repeat waits with the first"
    );
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 0);
}

#[test]
fn a_refusal_before_pubrec_ends_the_hold_m28() {
    let limits = Limits {
        retained_messages_max: 0,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    let a = client(&mut world);
    publish_qos2(&mut world, a, 1);
    world.settle();
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    assert_eq!(world.clients[a].pubrec, [(1, refused, true)]);
    release(&mut world, a, 1);
    assert_eq!(world.clients[a].pubcomp, [(1, false)], "no hold is left");
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.outbox_messages, counts.records), (0, 0));
}

/// What 3.1.1 cannot refuse: the client says the same again on its next connection, for as long as it takes.
#[test]
fn i4_a_refusal_that_nobody_can_be_told_leaves_the_hold_m28() {
    let full = Limits {
        retained_messages_max: 0,
        ..Limits::default()
    };
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    let mut world = World::with_limits(full);
    let a = client(&mut world);
    let reader = durable(&mut world, "reader");
    world.subscribe(reader, to("other/t", QoS::ExactlyOnce));
    let publish = |world: &mut World, packet_id: u16| {
        let message = ("other/t", &*packet_id.to_string());
        let named = (packet_id, packet_id.into());
        retain2_as(world, a, named, message, PubrecCan::OnlyAccept);
        world.settle();
    };
    publish(&mut world, 5);
    assert_eq!(world.got(reader), ["5"]);
    assert_eq!(world.clients[a].pubrec, [(5, refused, true)]);
    for _ in 0..3 {
        world.detach(a, DetachCause::Lost);
        world.pass_time(10_000);
        world.settle();
        world.attach(a, Options::durable());
        world.clients[a].pubrec.clear();
        publish(&mut world, 5);
        assert!(world.got(reader).is_empty(), "a repeat is nothing new");
        assert!(world.clients[a].pubrec.is_empty(), "it waits");
        world.pass_time(1_000);
        world.settle();
        assert_eq!(world.clients[a].pubrec, [(5, refused, true)]);
    }
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.outbox_messages, counts.records), (1, 1));
    // There is room again: what is waited for is kept, once.
    world.call(OTHER, |it, _, _| it.set_limits(Limits::default()));
    world.clients[a].pubrec.clear();
    world.pass_time(1_000);
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(5, Settled::Ok, true)]);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    release(&mut world, a, 5);
    assert_eq!(world.clients[a].pubcomp, [(5, true)]);
    assert!(world.got(reader).is_empty());
}

/// Who ends its session wants no PUBREC any more: nothing is tried again for it.
#[test]
fn a_refusal_behind_the_end_of_its_session_is_the_last_m28() {
    let mut world = World::with_limits(Limits {
        retained_messages_max: 0,
        ..Limits::default()
    });
    let a = client(&mut world);
    let message = ("other/t", "5");
    retain2_as(&mut world, a, (5, 5), message, PubrecCan::OnlyAccept);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 1);
    world.detach(a, DetachCause::Lost);
    world.attach(a, Options::clean());
    world.pass_time(1_000);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 0);
}

/// The same id with another hash: its PUBREC waits for its own message, not for that of the exchange which the client has forgotten.
#[test]
fn i2_a_packet_id_that_is_used_anew_is_not_answered_for_the_earlier_message_m28() {
    let mut world = World::new();
    let a = client(&mut world);
    world.commits = Commits::Held;
    for (hash, topic) in [(5, "other/t"), (6, "other/u")] {
        let message = (topic, "m");
        retain2_as(&mut world, a, (5, hash), message, PubrecCan::Refuse);
        while world.commit_one(DURABLE) {}
        world.turn();
    }
    // The destination has taken the first one only.
    assert!(world.commit_one(OTHER));
    world.turn();
    while world.commit_one(DURABLE) {}
    world.turn();
    assert!(world.clients[a].pubrec.is_empty(), "it is on its way");
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(5, Settled::Ok, true)]);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 2);
}

#[test]
fn a_forward_survives_both_leaders_and_is_taken_once_m19() {
    let mut world = World::new();
    let a = client(&mut world);
    world.depose(OTHER, 0);
    publish_qos2(&mut world, a, 1);
    world.restart(DURABLE);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 1);
    world.elect(OTHER);
    world.settle();
    // What came while nobody led is not kept: its outbox sends it again when it hears who leads (M14).
    assert_eq!(world.nodes[&DURABLE].partition.counts().outbox_messages, 0);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    let entries = world.nodes[&OTHER].log.len();
    world.attach(a, Options::durable());
    publish_qos2(&mut world, a, 1);
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(1, Settled::Ok, true)]);
    assert_eq!(world.nodes[&OTHER].log.len(), entries, "nothing came twice");
    world.detach(a, DetachCause::Lost);
}

#[test]
fn a_forward_does_not_overtake_older_ones_that_were_lost_with_a_leader_m14() {
    let mut world = World::new();
    let a = client(&mut world);
    let b = durable(&mut world, "b");
    world.depose(OTHER, 0);
    publish_qos2(&mut world, a, 1);
    world.settle();
    world.commits = Commits::Held;
    publish_qos2(&mut world, b, 2);
    while world.commit_one(DURABLE) {}
    // The second one is on its way while the destination gets its new leader, which never saw the first.
    assert_eq!(world.fx.to_partitions.len(), 1);
    world.elect(OTHER);
    let begins = world.call(OTHER, |it, now, _| it.take_entry(now));
    let node = world.nodes.get_mut(&OTHER).expect("it is there");
    node.proposed.extend(begins);
    while world.commit_one(OTHER) {}
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(1, Settled::Ok, true)]);
    assert_eq!(world.clients[b].pubrec, [(2, Settled::Ok, true)]);
    // Whatever else is sent again comes to nothing.
    world.pass_time(5_000);
    world.settle();
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("other/t", QoS::AtLeastOnce));
    world.settle();
    assert_eq!(world.got(reader), ["2"], "the retained message is the last");
}

#[test]
fn an_outbox_that_gets_no_answer_is_sent_again() {
    let mut world = World::new();
    let a = client(&mut world);
    world.commits = Commits::Held;
    publish_qos2(&mut world, a, 1);
    while world.commit_one(DURABLE) {}
    world.fx.to_partitions.clear();
    world.settle();
    assert!(
        world.clients[a].pubrec.is_empty(),
        "the forward was lost on its way"
    );
    world.pass_time(5_000);
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(1, Settled::Ok, true)]);
}

/// What is refused may stay for ever; what others have under way is waited for all the same.
#[test]
fn m34_a_refused_forward_lets_no_fence_pass_what_is_under_way() {
    let mut world = World::with_limits(Limits {
        retained_messages_max: 1,
        ..Limits::default()
    });
    let a = client(&mut world);
    let b = durable(&mut world, "b");
    world.retain("other/kept", "old", QoS::AtLeastOnce);
    world.settle();
    let refused = ("other/t", "refused");
    retain2_as(&mut world, a, (1, 1), refused, PubrecCan::OnlyAccept);
    world.settle();
    world.commits = Commits::Held;
    retain_qos2(&mut world, b, 2, "other/kept", "new");
    while world.commit_one(DURABLE) {}
    world.turn();
    let from = &world.nodes[&DURABLE].partition;
    let mut fence = from.forwarding().expect("something goes on");
    assert!(
        !from.has_applied(&mut fence),
        "what b has sent is on its way"
    );
    world.commits = Commits::AtOnce;
    world.settle();
    let from = &world.nodes[&DURABLE].partition;
    assert_eq!(from.counts().outbox_messages, 1, "the refused one stays");
    assert!(from.has_applied(&mut fence));
}

/// The first packet ids of a client are refused by the keeper and stay: 3.1.1 cannot be told. It comes again with others.
fn held_up(limits: Limits) -> (World, usize) {
    let mut world = World::with_limits(Limits {
        retained_messages_max: 0,
        ..limits
    });
    let a = client(&mut world);
    world.commits = Commits::Held;
    for id in 1..=3 {
        let topic = ("other/t", "m");
        retain2_as(&mut world, a, (id, id.into()), topic, PubrecCan::OnlyAccept);
    }
    world.commits = Commits::AtOnce;
    world.settle();
    world.clients[a].pubrec.clear();
    world.detach(a, DetachCause::Lost);
    world.attach(a, Options::durable());
    (world, a)
}

fn outbox(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().outbox_messages
}

#[test]
fn i9_what_would_wait_behind_a_refusal_is_refused_m28() {
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    let (mut world, a) = held_up(Limits::default());
    for id in 4..=9 {
        let topic = ("other/u", "m");
        retain2_as(&mut world, a, (id, id.into()), topic, PubrecCan::OnlyAccept);
        world.settle();
        assert_eq!(world.clients[a].pubrec.pop(), Some((id, refused, true)));
    }
    assert_eq!(outbox(&world), 3);
    // There is room again: it is taken in order, and what was refused may come.
    world.call(OTHER, |it, _, _| it.set_limits(Limits::default()));
    world.pass_time(1_000);
    world.settle();
    world.clients[a].pubrec.clear();
    let topic = ("other/u", "m");
    retain2_as(&mut world, a, (9, 9), topic, PubrecCan::OnlyAccept);
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(9, Settled::Ok, true)]);
    assert_eq!(outbox(&world), 0);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 2);
}

/// What nobody may refuse waits behind a refusal as well, within bounds.
#[test]
fn i9_what_waits_behind_a_refusal_is_bounded_by_bytes() {
    let (mut world, a) = held_up(Limits {
        queue_bytes_max: 4_000,
        ..Limits::default()
    });
    let reader = world.client("reader");
    let elsewhere = Options {
        place: OTHER,
        ..Options::durable()
    };
    world.attach(reader, elsewhere);
    world.subscribe(reader, to("q", QoS::ExactlyOnce));
    let payload = "m".repeat(1_000);
    let publish = message("q", &payload, QoS::ExactlyOnce);
    for id in 10..20 {
        let named = (id, id.into());
        hold(&mut world, a, named, &publish, PubrecCan::OnlyAccept);
        world.settle();
    }
    let results = world.clients[a].pubrec.iter();
    let taken = results.filter(|(_, result, _)| *result == Settled::Ok);
    assert_eq!(taken.count(), 4);
    assert_eq!(outbox(&world), 3 + 4);
    // Another session is not concerned.
    let b = durable(&mut world, "b");
    hold(&mut world, b, (1, 1), &publish, PubrecCan::OnlyAccept);
    world.settle();
    assert_eq!(world.clients[b].pubrec, [(1, Settled::Ok, true)]);
    world.call(OTHER, |it, _, _| it.set_limits(Limits::default()));
    world.pass_time(1_000);
    world.settle();
    assert_eq!(outbox(&world), 0);
    assert_eq!(world.got(reader).len(), 5, "what was taken comes");
    hold(&mut world, a, (30, 30), &publish, PubrecCan::OnlyAccept);
    world.settle();
    assert_eq!(world.got(reader).len(), 1);
}

#[test]
fn i9_what_was_refused_before_a_restart_ends_with_its_session_m28() {
    let (mut world, a) = held_up(Limits::default());
    world.restart(DURABLE);
    world.settle();
    assert_eq!(outbox(&world), 3);
    world.attach(a, Options::clean());
    world.detach(a, DetachCause::Lost);
    world.pass_time(1_000);
    world.settle();
    assert_eq!(outbox(&world), 0);
    assert_eq!(world.fx.dropped.get(&Dropped::Quota), Some(&3));
}
