//! Limits of sessions, and what goes when they are reached.

use courser_contract::{
    Append, AppendKey, Cut, DetachCause, Dropped, Publish, PubrecCan, QoS, Refusal, SessionLimits,
    Settled,
};
use courser_engine::{DiskRoom, Limits, MemoryRoom, Overflow, Pace};

use crate::people::{durable, publish_qos2, release, retain_qos2, retain2_as};
use crate::world::{Acks, Commits, DURABLE, OTHER, Options, Subscription, World, message, to};

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
        let refused = world.fx.dropped.get(&Dropped::Quota).copied();
        assert_eq!(
            refused,
            (overflow == Overflow::RefusePublisher).then_some(3)
        );
    }
}

/// Publishes six messages for a session that is away; what it then gets.
fn kept_of_six(world: &mut World, a: usize) -> Vec<String> {
    for n in 0..6 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    world.attach(a, Options::durable());
    world.got(a)
}

#[test]
fn a_session_is_full_by_the_limits_of_whom_it_belongs_to() {
    for own in [
        SessionLimits {
            queued_messages_max: 2,
            ..SessionLimits::NONE
        },
        SessionLimits {
            queued_bytes_max: 1,
            ..SessionLimits::NONE
        },
        SessionLimits::NONE,
    ] {
        let expected: &[&str] = match own {
            SessionLimits::NONE => &["0", "1", "2"],
            SessionLimits {
                queued_bytes_max: 1,
                ..
            } => &[],
            _ => &["0", "1"],
        };
        // They hold while nobody is attached, whether they were told with the last connection or later.
        let mut world = limited(Overflow::DropNewest);
        let a = world.client("a");
        let options = Options {
            limits: own,
            ..Options::durable()
        };
        world.attach(a, options);
        world.subscribe(a, to("t", QoS::AtLeastOnce));
        world.detach(a, DetachCause::Lost);
        assert_eq!(kept_of_six(&mut world, a), expected, "{own:?}");

        let mut world = limited(Overflow::DropNewest);
        let a = durable(&mut world, "a");
        world.subscribe(a, to("t", QoS::AtLeastOnce));
        world.detach(a, DetachCause::Lost);
        world.call(DURABLE, |it, _, _| {
            for place in 0..it.session_places() + 1 {
                it.limit_session_at(place, own);
            }
        });
        assert_eq!(kept_of_six(&mut world, a), expected, "{own:?}, told later");
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
    publish_qos2(&mut world, sender, 5, "t", "held", 11);
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
    publish_qos2(&mut world, sender, 6, "t", "short", 12);
    publish_qos2(&mut world, sender, 5, "t", "held", 11);
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
    assert_eq!(
        world.fx.dropped.get(&Dropped::Quota),
        Some(&3),
        "each refusal is counted"
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
fn a_message_that_a_full_disk_takes_from_all_is_counted_once_m47() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.call(DURABLE, |it, _, _| it.set_disk_room(DiskRoom::Short));
    // Nobody can be refused: it comes from a partition that does not keep it.
    for topic in ["t", "kept"] {
        let append = Append {
            key: AppendKey::Unanswered,
            publish: &Publish {
                retain: true,
                ..message(topic, "m", QoS::AtLeastOnce)
            },
            keep_retained: true,
            deliver: true,
            cut: Cut::default(),
        };
        world.call(DURABLE, |it, now, fx| it.handle_append(now, &append, fx));
        world.settle();
    }
    assert!(world.got(a).is_empty());
    assert_eq!(world.fx.dropped.get(&Dropped::DiskFull), Some(&2));
}

#[test]
fn while_memory_is_short_only_those_get_messages_who_take_them_i9() {
    let mut world = World::new();
    let away = durable(&mut world, "away");
    world.subscribe(away, to("away/#", QoS::AtLeastOnce));
    world.detach(away, DetachCause::Lost);
    let here = durable(&mut world, "here");
    world.subscribe(here, to("here/#", QoS::AtLeastOnce));
    let before = world.send("away/1", "before", QoS::AtLeastOnce);
    world.settle();
    world.call(DURABLE, |it, _, _| it.set_memory_room(MemoryRoom::Short));
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    let waits = world.send("away/2", "short", QoS::AtLeastOnce);
    let taken = world.send("here/1", "taken", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(before) && world.is_acked(taken));
    assert_eq!(world.publishes[waits].1, refused);
    assert_eq!(world.got(here), ["taken"]);
    // One that stops taking is served up to a bound.
    world.clients[here].acks = Acks::Held;
    let crowd = MemoryRoom::CROWD_MESSAGES as usize;
    let sent: Vec<_> = (0..crowd + 3)
        .map(|n| {
            let ticket = world.send("here/2", &n.to_string(), QoS::AtLeastOnce);
            world.settle();
            ticket
        })
        .collect();
    let acked = sent.iter().filter(|it| world.is_acked(**it)).count();
    assert_eq!(acked, crowd);
    world.attach(away, Options::durable());
    assert_eq!(world.got(away), ["before"], "who comes back gets its own");
    world.call(DURABLE, |it, _, _| it.set_memory_room(MemoryRoom::Enough));
    let after = world.send("away/3", "after", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(after));
}

/// The policy counts for QoS 2 of a session as for QoS 1, wherever the full session is: PUBREC says so, and nothing is dropped behind it.
#[test]
fn i1_a_full_session_refuses_qos2_by_its_policy_m12_m28() {
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    for place in [DURABLE, OTHER] {
        let mut world = limited(Overflow::RefusePublisher);
        let reader = world.client("reader");
        let options = Options {
            place,
            ..Options::durable()
        };
        world.attach(reader, options.clone());
        world.subscribe(reader, to("t", QoS::ExactlyOnce));
        world.detach(reader, DetachCause::Lost);
        let sender = durable(&mut world, "sender");
        for packet_id in 1..=5 {
            publish_qos2(&mut world, sender, packet_id, "t", "m", packet_id.into());
            world.settle();
        }
        let expected = [Settled::Ok, Settled::Ok, Settled::Ok, refused, refused];
        let answers: Vec<_> = world.clients[sender]
            .pubrec
            .iter()
            .map(|answer| answer.1)
            .collect();
        assert_eq!(answers, expected, "{place:?}");
        assert_eq!(world.fx.dropped.get(&Dropped::QueueFull), None, "{place:?}");
        assert_eq!(world.fx.dropped.get(&Dropped::Quota), Some(&2));
        world.attach(reader, options);
        assert_eq!(world.got(reader).len(), 3, "{place:?}");
        publish_qos2(&mut world, sender, 4, "t", "later", 6);
        world.settle();
        assert_eq!(world.got(reader), ["later"], "{place:?}: the id is free");
    }
}

/// Who cannot be told waits: its message is taken as soon as the full session has room.
#[test]
fn i1_what_a_full_session_refuses_to_3_1_1_waits_for_its_room_m28() {
    let mut world = limited(Overflow::RefusePublisher);
    let reader = world.client("reader");
    let options = Options {
        place: OTHER,
        ..Options::durable()
    };
    world.attach(reader, options.clone());
    world.subscribe(reader, to("other/t", QoS::ExactlyOnce));
    world.detach(reader, DetachCause::Lost);
    let sender = durable(&mut world, "sender");
    let publish = |world: &mut World, packet_id: u16| {
        let message = ("other/t", &*packet_id.to_string());
        let named = (packet_id, packet_id.into());
        retain2_as(world, sender, named, message, PubrecCan::OnlyAccept);
        world.settle();
    };
    for packet_id in 1..=4 {
        publish(&mut world, packet_id);
    }
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    let last = world.clients[sender].pubrec.last();
    assert_eq!(last, Some(&(4, refused, true)));
    world.attach(reader, options);
    world.settle();
    world.pass_time(1_000);
    world.settle();
    let last = world.clients[sender].pubrec.last();
    assert_eq!(last, Some(&(4, Settled::Ok, true)));
    assert_eq!(world.got(reader), ["1", "2", "3", "4"]);
}

/// What was admitted and then refused stayed counted as under way, and the next clearing of a topic ended the process.
#[test]
fn a_refused_qos2_publish_leaves_no_room_taken_in_the_retained_store_m4() {
    let mut world = World::new();
    let sender = durable(&mut world, "sender");
    world.call(DURABLE, |it, _, _| it.set_disk_room(DiskRoom::Short));
    retain_qos2(&mut world, sender, 6, "kept", "refused");
    world.settle();
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    assert_eq!(world.clients[sender].pubrec, [(6, refused, true)]);
    world.call(DURABLE, |it, _, _| it.set_disk_room(DiskRoom::Enough));
    let cleared = world.retain("kept", "", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(cleared));
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

/// A member that is there and takes nothing gives back what it gets, whichever group it is of.
#[test]
fn a_group_that_gets_everything_back_slows_nobody_m12() {
    let mut world = World::with_limits(Limits {
        queue_messages_max: 10,
        ..Limits::default()
    });
    let a = durable(&mut world, "a");
    let shared = Subscription {
        share: Some("g".into()),
        ..to("t", QoS::AtLeastOnce)
    };
    world.subscribe(a, shared);
    world.clients[a].acks = Acks::Held;

    for n in 0..9 {
        let pace = world.append_to(DURABLE, &message("t", "m", QoS::AtLeastOnce));
        assert_eq!(pace, Pace::Free, "message {n}");
        world.settle();
        world.give_back(a);
    }
    world.makes_room(a);
    world.ack(a, 1);
    let pace = world.append_to(DURABLE, &message("t", "m", QoS::AtLeastOnce));
    assert_eq!(pace, Pace::Slow, "it takes");
}

/// QoS 2 of a durable session goes by way of its home, to sessions there, by an outbox, and straight to a volatile partition.
#[test]
fn publishers_of_qos2_are_slowed_wherever_the_slow_session_is_m12() {
    let elsewhere = Options {
        place: OTHER,
        ..Options::durable()
    };
    for options in [Options::durable(), elsewhere, Options::clean()] {
        let mut world = World::with_limits(Limits {
            queue_messages_max: 10,
            ..Limits::default()
        });
        let reader = world.client("reader");
        world.attach(reader, options);
        world.subscribe(reader, to("t", QoS::ExactlyOnce));
        world.clients[reader].acks = Acks::Held;
        let sender = durable(&mut world, "sender");
        let front = world.clients[sender].front.expect("it is connected");
        let slowed = |world: &mut World, packet_ids: std::ops::RangeInclusive<u16>| {
            for packet_id in packet_ids {
                publish_qos2(world, sender, packet_id, "t", "m", u64::from(packet_id));
                world.settle();
            }
            std::mem::take(&mut world.fx.slowed)
        };
        assert_eq!(slowed(&mut world, 1..=5), [], "up to its half");
        assert_eq!(slowed(&mut world, 6..=8), [front; 3]);
        assert_eq!(slowed(&mut world, 8..=8), [], "a repeat stores nothing");
        world.pass_time(1_000);
        assert_eq!(
            slowed(&mut world, 9..=9),
            [],
            "who has stopped slows nobody"
        );
    }
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
fn what_was_acknowledged_before_it_was_dropped_gives_its_room_back_once_m4() {
    let mut world = limited(Overflow::DropOldest);
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    for n in 0..3 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    world.commits = Commits::Held;
    world.ack(a, 3);
    world.detach(a, DetachCause::Lost);
    // The acknowledgements are not committed: for a session that has gone the oldest is to go as well.
    world.send("t", "3", QoS::AtLeastOnce);
    world.settle();
    for n in 4..10 {
        world.send("t", &n.to_string(), QoS::AtLeastOnce);
        world.settle();
    }
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(counts.queued_messages, 3);
    world.got(a);
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["7", "8", "9"]);
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
