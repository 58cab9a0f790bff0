//! Shared subscriptions, as clients see them (M35).

use crate::people::leave_group;
use crate::world::{Acks, Commits, DURABLE, Options, Subscription, World, message, to};
use courser_contract::{
    Append, AppendKey, Cut, DetachCause, QoS, RequestPart, SharedStrategy, ToHome, Uptake,
};
use courser_engine::Limits;

fn shared(filter: &str, qos: QoS) -> Subscription {
    Subscription {
        share: Some("g".into()),
        ..to(filter, qos)
    }
}

fn members(world: &mut World, count: usize, options: &Options, qos: QoS) -> Vec<usize> {
    (0..count)
        .map(|n| {
            let at = world.client(&format!("m{n}"));
            world.attach(at, options.clone());
            world.subscribe(at, shared("t/#", qos));
            assert_eq!(world.clients[at].suback.len(), 1, "SUBACK has come");
            at
        })
        .collect()
}

#[test]
fn members_take_turns() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut world = World::new();
        let members = members(&mut world, 3, &Options::clean(), QoS::ExactlyOnce);
        for n in 0..9 {
            world.send("t/x", &n.to_string(), qos);
            world.settle();
        }
        for at in members {
            assert_eq!(world.got(at).len(), 3, "{qos:?}");
        }
    }
}

#[test]
fn m35_qos_0_goes_to_who_takes_its_size() {
    // v5 section 3.1.2.11.4
    for options in [Options::clean(), Options::durable()] {
        let mut world = World::new();
        let narrow = Options {
            delivery_bytes_max: 60,
            ..options.clone()
        };
        let narrow = members(&mut world, 1, &narrow, QoS::AtMostOnce)[0];
        let wide = world.client("wide");
        world.attach(wide, options);
        world.subscribe(wide, shared("t/#", QoS::AtMostOnce));
        for n in 0..8 {
            world.send("t/x", &format!("{n}{}", "x".repeat(60)), QoS::AtMostOnce);
            world.settle();
        }
        assert_eq!(world.got(wide).len(), 8, "none is lost");
        for n in 0..8 {
            world.send("t/x", &n.to_string(), QoS::AtMostOnce);
            world.settle();
        }
        let shares = (world.got(narrow).len(), world.got(wide).len());
        assert_eq!(shares, (4, 4), "each has its turn with what it takes");
    }
}

/// A client that does not read gets less while others read.
#[test]
fn m35_qos_0_goes_to_who_reads() {
    for options in [Options::clean(), Options::durable()] {
        let mut world = World::new();
        let members = members(&mut world, 2, &options, QoS::AtMostOnce);
        for (uptake, shares) in [(Uptake::Behind, (0, 6)), (Uptake::Prompt, (3, 3))] {
            world.reads(members[0], uptake);
            world.settle();
            for n in 0..6 {
                world.send("t/x", &n.to_string(), QoS::AtMostOnce);
                world.settle();
            }
            let got = (world.got(members[0]).len(), world.got(members[1]).len());
            assert_eq!(got, shares, "{uptake:?}");
        }
    }
}

/// What waits in a group goes to a member at QoS 0 as its connection takes it, not all at once into an output that would drop it.
#[test]
fn m35_what_waits_is_given_at_qos_0_within_the_window() {
    let mut world = World::new();
    let holder = members(&mut world, 1, &Options::durable(), QoS::AtLeastOnce)[0];
    world.detach(holder, DetachCause::Lost);
    for n in 0..35 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let taker = world.client("taker");
    world.attach(taker, Options::clean());
    world.clients[taker].acks = Acks::Held;
    world.subscribe(taker, shared("t/#", QoS::AtMostOnce));
    world.settle();
    let mut got = world.got(taker).len();
    assert_eq!(got, usize::from(Options::clean().receive_maximum));
    world.ack(taker, 10);
    got += world.got(taker).len();
    assert_eq!(got, 20, "and then as many more");
}

/// What the front needs to know of a message that the member may not have: also of QoS 0, whether the group has stored it or not.
#[test]
fn i11_what_a_group_gives_is_marked_at_each_qos() {
    for granted in [QoS::AtMostOnce, QoS::ExactlyOnce] {
        let mut world = World::new();
        let members = members(&mut world, 2, &Options::durable(), granted);
        let alone = world.client("alone");
        world.attach(alone, Options::durable());
        world.subscribe(alone, to("t/#", granted));
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            for _ in 0..2 {
                world.send("t/x", "m", qos);
                world.settle();
            }
        }
        for (at, count, shared) in [
            (members[0], 3, true),
            (members[1], 3, true),
            (alone, 6, false),
        ] {
            let got = &world.clients[at].got;
            assert_eq!(got.len(), count, "{granted:?}");
            assert!(got.iter().all(|got| got.shared == shared), "{got:?}");
        }
    }
}

#[test]
fn a_detached_members_qos1_goes_to_others_in_order_m35() {
    // v5 [MQTT-4.8.2-4] lets it stay for QoS 2 only
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::durable(), QoS::AtLeastOnce);
    world.clients[members[0]].acks = Acks::Held;
    for n in 0..6 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let first = world.got(members[0]);
    let second = world.got(members[1]);
    assert_eq!((first.len(), second.len()), (3, 3));
    world.detach(members[0], DetachCause::Lost);
    assert_eq!(world.got(members[1]), first, "what the first had, in order");
    assert!(world.clients[members[1]].waiting.is_empty());
}

#[test]
fn a_detached_members_qos2_stays_with_its_session() {
    // v5 [MQTT-4.8.2-4], v5 [MQTT-4.8.2-5]
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::durable(), QoS::ExactlyOnce);
    world.clients[members[0]].acks = Acks::Held;
    for n in 0..4 {
        world.send("t", &n.to_string(), QoS::ExactlyOnce);
        world.settle();
    }
    let first = world.got(members[0]);
    world.got(members[1]);
    world.detach(members[0], DetachCause::Lost);
    assert!(world.got(members[1]).is_empty(), "nobody else gets them");
    world.clients[members[0]].acks = Acks::Auto;
    world.attach(members[0], Options::durable());
    assert_eq!(world.got(members[0]), first, "it has them again");
    // With the end of the session they are gone for good.
    world.clients[members[0]].acks = Acks::Held;
    for n in 4..8 {
        world.send("t", &n.to_string(), QoS::ExactlyOnce);
        world.settle();
    }
    world.got(members[1]);
    let again = world.got(members[0]).len();
    assert_eq!(again, 2);
    let again = world.client("m0");
    world.attach(again, Options::clean());
    assert!(world.clients[members[0]].taken_over);
    assert!(world.got(members[1]).is_empty());
}

#[test]
fn a_qos2_delivery_keeps_its_packet_id_over_connections_and_leaders_m31() {
    // v5 [MQTT-4.4.0-1], v3 [MQTT-4.4.0-1]
    let mut world = World::new();
    let member = members(&mut world, 1, &Options::durable(), QoS::ExactlyOnce)[0];
    world.clients[member].acks = Acks::Held;
    world.send("t", "1", QoS::ExactlyOnce);
    world.settle();
    let first = std::mem::take(&mut world.clients[member].got);
    let packet_id = first[0].packet_id;
    assert!(packet_id >= Some(32_768) && !first[0].duplicate);
    for leader in [false, true] {
        world.detach(member, DetachCause::Lost);
        if leader {
            world.restart(crate::world::DURABLE);
            world.settle();
        }
        world.clients[member].owed.clear();
        world.attach(member, Options::durable());
        world.settle();
        let again = std::mem::take(&mut world.clients[member].got);
        assert_eq!(again.len(), 1);
        assert_eq!((again[0].packet_id, again[0].duplicate), (packet_id, true));
        let client = &world.clients[member];
        assert_eq!(client.owed.len(), 1, "the group says that this was all");
        let attached = client.attached.as_ref().expect("it is attached");
        assert_eq!(attached.groups.len(), 1, "the home counts the group");
    }
}

#[test]
fn what_has_no_packet_id_yet_goes_to_others_when_its_member_goes_m31() {
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::durable(), QoS::ExactlyOnce);
    world.commits = crate::world::Commits::Held;
    world.send("t", "1", QoS::ExactlyOnce);
    // Stored and offered to the first, whose connection is lost before it has named a packet id.
    world.clients[members[0]].silent = true;
    for id in world.ids() {
        while world.commit_one(id) {}
    }
    world.detach(members[0], DetachCause::Lost);
    world.settle();
    assert_eq!(world.got(members[1]), ["1"]);
}

#[test]
fn a_message_that_another_member_had_comes_without_dup() {
    // v3 [MQTT-3.3.1-3], v5 [MQTT-3.3.1-3]
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::durable(), QoS::AtLeastOnce);
    world.clients[members[0]].acks = Acks::Held;
    world.send("t", "1", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.got(members[0]), ["1"]);
    world.detach(members[0], DetachCause::Lost);
    let got = std::mem::take(&mut world.clients[members[1]].got);
    assert_eq!(got.len(), 1);
    assert!(!got[0].duplicate);
}

/// The group takes it back when the connection is lost, and may give it to anybody (v5 section 4.8.2): its packet id is free then, and to
/// the session that had it before it goes under another one, as a PUBLISH that was not sent before.
#[test]
fn a_message_that_comes_back_to_its_member_is_another_publish() {
    // v3 [MQTT-3.3.1-1], v5 [MQTT-3.3.1-1], v5 [MQTT-4.3.2-1], v5 [MQTT-4.3.2-2]
    let mut world = World::new();
    let member = members(&mut world, 1, &Options::durable(), QoS::AtLeastOnce)[0];
    world.clients[member].acks = Acks::Held;
    world.send("t", "1", QoS::AtLeastOnce);
    world.settle();
    for _ in 0..2 {
        let got = std::mem::take(&mut world.clients[member].got);
        let got: Vec<_> = got
            .iter()
            .map(|got| (got.packet_id, got.duplicate))
            .collect();
        assert_eq!(got, [(None, false)], "the front takes an unused id");
        world.detach(member, DetachCause::Lost);
        world.attach(member, Options::durable());
        world.settle();
    }
}

#[test]
fn an_absent_group_queues_and_ends_with_its_last_member() {
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::durable(), QoS::AtLeastOnce);
    for &at in &members {
        world.detach(at, DetachCause::Lost);
    }
    world.send("t", "1", QoS::AtLeastOnce);
    world.send("t", "2", QoS::AtLeastOnce);
    world.settle();
    world.attach(members[1], Options::durable());
    assert_eq!(world.got(members[1]), ["1", "2"]);
    for name in ["m0", "m1"] {
        let at = world.client(name);
        world.attach(at, Options::clean());
        world.detach(at, DetachCause::Disconnect);
    }
    world.settle();
    assert!(
        world.fx.route("t", false).is_empty(),
        "nothing is left in L1"
    );
    let counts = world.nodes[&crate::world::DURABLE].partition.counts();
    assert_eq!(
        (
            counts.sessions,
            counts.subscriptions,
            counts.queued_messages
        ),
        (0, 0, 0)
    );
}

#[test]
fn unsuback_waits_for_the_group() {
    let mut world = World::new();
    let members = members(&mut world, 1, &Options::clean(), QoS::AtLeastOnce);
    let at = members[0];
    // With it the group is durable (M36).
    let durable = world.client("durable");
    world.attach(durable, Options::durable());
    world.subscribe(durable, shared("t/#", QoS::AtLeastOnce));
    let home = world.home(at);
    let message = ToHome::Unsubscribe {
        session: home.session,
        epoch: world.clients[at].epoch,
        part: RequestPart::whole(9),
        filters: vec![(Some("g".into()), "t/#".into()), (None, "t/#".into())],
    };
    world.commits = crate::world::Commits::Held;
    world.send_home(home.partition, message);
    assert!(
        world.clients[at].unsuback.is_empty(),
        "the group has not committed it"
    );
    world.settle();
    assert_eq!(world.clients[at].unsuback, [(9, vec![true, false])]);
    world.send("t", "nobody", QoS::AtLeastOnce);
    world.settle();
    assert!(world.got(at).is_empty());
}

#[test]
fn a_topic_stays_with_a_member_by_its_hash() {
    let limits = Limits {
        shared_strategy: SharedStrategy::HashTopic,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    let members = members(&mut world, 3, &Options::clean(), QoS::AtLeastOnce);
    for _ in 0..3 {
        for topic in 0..20 {
            world.send(&format!("t/{topic}"), &topic.to_string(), QoS::AtLeastOnce);
        }
    }
    world.settle();
    let mut topics = 0;
    for at in members {
        let mut got = world.got(at);
        got.sort();
        assert!(got.chunk_by(|a, b| a == b).all(|same| same.len() == 3));
        got.dedup();
        topics += got.len();
    }
    assert_eq!(topics, 20);
}

#[test]
fn a_new_leader_of_the_group_asks_for_connections_again() {
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::clean(), QoS::AtLeastOnce);
    world.depose(crate::world::DURABLE, 0);
    world.elect(crate::world::DURABLE);
    world.settle();
    world.send("t", "1", QoS::AtLeastOnce);
    world.send("t", "2", QoS::AtLeastOnce);
    world.settle();
    let got: usize = members.iter().map(|&at| world.got(at).len()).sum();
    assert_eq!(got, 2);
}

#[test]
fn who_has_left_hears_that_nothing_named_counts_m31() {
    // A packet id that was named for a leader that is lost, and a leave that only the next one hears of: nobody else tells the front.
    let mut world = World::new();
    let at = members(&mut world, 1, &Options::clean(), QoS::ExactlyOnce)[0];
    // With it the group is durable (M36).
    let durable = world.client("durable");
    world.attach(durable, Options::durable());
    world.subscribe(durable, shared("t/#", QoS::ExactlyOnce));
    world.settle();
    let group = world.clients[durable].owed[0];
    world.clients[at].void.clear();
    world.depose(crate::world::DURABLE, 0);
    leave_group(&mut world, at);
    world.elect(crate::world::DURABLE);
    world.settle();
    assert_eq!(world.clients[at].unsuback, [(9, vec![true])]);
    assert_eq!(world.clients[at].void, [(group, None)]);
}

#[test]
fn what_a_leaver_has_not_named_goes_to_others_m31() {
    let mut world = World::new();
    let members = members(&mut world, 2, &Options::durable(), QoS::ExactlyOnce);
    world.settle();
    for &at in &members {
        world.clients[at].silent = true;
    }
    world.send("t", "1", QoS::ExactlyOnce);
    world.settle();
    world.clients[members[0]].silent = false;
    world.clients[members[1]].silent = false;
    leave_group(&mut world, members[0]);
    world.settle();
    assert_eq!(world.got(members[1]), ["1"]);
    let void = &world.clients[members[0]].void;
    assert!(
        void.first().is_some_and(|(_, seq)| seq.is_some()),
        "{void:?}"
    );
    assert_eq!(world.clients[members[0]].unsuback, [(9, vec![true])]);
}

#[test]
fn i10_what_waits_in_a_group_goes_out_in_steps_m35() {
    const WAITING: usize = 5_000;
    let mut world = World::new();
    let away = members(&mut world, 1, &Options::durable(), QoS::AtLeastOnce);
    world.detach(away[0], DetachCause::Lost);
    let append = Append {
        key: AppendKey::Unanswered,
        publish: &message("t/x", "m", QoS::AtLeastOnce),
        keep_retained: false,
        deliver: true,
        cut: Cut::default(),
    };
    world.call(DURABLE, |it, now, fx| {
        for _ in 0..WAITING {
            it.handle_append(now, &append, fx);
        }
    });
    world.settle();
    let taker = world.client("taker");
    let wide = Options {
        receive_maximum: 10_000,
        ..Options::clean()
    };
    world.attach(taker, wide);
    world.commits = Commits::Held;
    let (home, join) = world.clients[taker].subscribe(vec![shared("t/#", QoS::AtMostOnce)]);
    world.send_home(home, join);
    let mut most = 0;
    for _ in 0..20 {
        let before = world.fx.deliver_calls;
        world.commit_one(DURABLE);
        most = most.max(world.fx.deliver_calls - before);
        world.pass_time(1);
    }
    assert!(most <= 4_096, "one entry gave out {most}");
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(world.got(taker).len(), WAITING);
}
