//! What waits for a shared group leaves memory as well, and comes back for whichever member is next (M17, M35).

use courser_contract::{DetachCause, Dropped, Publish, QoS, Seq, SharedStrategy, WallMs};
use courser_engine::{Limits, LostStream, Overflow};

use crate::cold::{COUNT, away, cold, numbers, start};
use crate::people::{durable, leave_group};
use crate::world::{Acks, Commits, DURABLE, Options, Recalling, Subscription, World, message, to};

const STRATEGIES: [SharedStrategy; 4] = [
    SharedStrategy::RoundRobin,
    SharedStrategy::Sticky,
    SharedStrategy::HashTopic,
    SharedStrategy::LeastOutstanding,
];

fn shared(qos: QoS) -> Subscription {
    Subscription {
        share: Some("g".into()),
        ..to("t/#", qos)
    }
}

fn window(receive_maximum: u16) -> Options {
    Options {
        receive_maximum,
        ..Options::durable()
    }
}

/// Members of a group that are away.
fn members(world: &mut World, count: usize, qos: QoS) -> Vec<usize> {
    let members = (0..count).map(|number| {
        let at = durable(world, &format!("m{number}"));
        world.subscribe(at, shared(qos));
        at
    });
    let members: Vec<usize> = members.collect();
    for &at in &members {
        world.detach(at, DetachCause::Lost);
    }
    members
}

/// Messages of five topics in turn.
fn publish(world: &mut World, range: std::ops::Range<usize>, qos: QoS) {
    for number in range {
        let topic = format!("t/{}", number % 5);
        world.send(&topic, &number.to_string(), qos);
    }
    world.settle();
}

/// A member comes and its messages are read back, and nothing of whose they are is committed.
fn connect_while_held(world: &mut World, member: usize) {
    world.commits = Commits::Held;
    world.connect(member, window(3));
    while world.clients[member].home.is_none() {
        assert!(world.commit_one(DURABLE));
        world.turn();
    }
    for _ in 0..3 {
        world.pass_time(1);
    }
}

fn sorted(mut payloads: Vec<String>) -> Vec<usize> {
    payloads.sort_by_key(|payload| payload.parse::<usize>().expect("a number"));
    let numbers = payloads.iter().map(|it| it.parse().expect("a number"));
    numbers.collect()
}

fn with(strategy: SharedStrategy, hot_bytes: u64) -> World {
    let limits = Limits {
        shared_strategy: strategy,
        ..Limits::default()
    };
    World::with_hot(limits, hot_bytes)
}

#[test]
fn m17_what_waits_for_an_absent_group_leaves_memory_and_comes_back_by_each_strategy() {
    for strategy in STRATEGIES {
        for (qos, hot_bytes) in [
            (QoS::AtLeastOnce, 400),
            (QoS::ExactlyOnce, 400),
            (QoS::AtLeastOnce, 0),
        ] {
            let mut world = with(strategy, hot_bytes);
            let members = members(&mut world, 3, qos);
            publish(&mut world, 0..COUNT, qos);
            let counts = world.nodes[&DURABLE].partition.counts();
            assert!(counts.cold_records > COUNT as u64 / 2, "{strategy:?}");
            assert!(
                counts.record_bytes <= hot_bytes,
                "{} bytes",
                counts.record_bytes
            );
            for &at in &members {
                world.attach(at, window(4));
            }
            world.settle();
            let mut all = Vec::new();
            for &at in &members {
                let got = std::mem::take(&mut world.clients[at].got);
                for topic in 0..5 {
                    let topic = format!("t/{topic}");
                    let same = got.iter().filter(|got| got.topic == topic);
                    let order: Vec<usize> = same
                        .map(|got| got.payload.parse().expect("a number"))
                        .collect();
                    assert!(
                        order.is_sorted(),
                        "{strategy:?}: {topic} in order: {order:?}"
                    );
                }
                assert!(got.iter().all(|got| !got.duplicate && got.shared));
                all.extend(got.into_iter().map(|got| got.payload));
            }
            assert_eq!(sorted(all), (0..COUNT).collect::<Vec<_>>(), "{strategy:?}");
            assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
        }
    }
}

#[test]
fn a_topic_that_has_left_memory_goes_to_its_member() {
    let mut world = with(SharedStrategy::HashTopic, 0);
    let members = members(&mut world, 3, QoS::AtLeastOnce);
    publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
    world.recalling = Recalling::Held;
    for &at in &members {
        world.attach(at, window(2));
    }
    world.recalling = Recalling::AtOnce;
    world.settle();
    let mut topics = Vec::new();
    for &at in &members {
        let mut own: Vec<String> = world.clients[at]
            .got
            .iter()
            .map(|got| got.topic.clone())
            .collect();
        own.sort();
        own.dedup();
        topics.extend(own);
    }
    assert_eq!(topics.len(), 5, "each with one member: {topics:?}");
}

#[test]
fn m35_windows_of_members_hold_for_what_comes_out_of_the_log() {
    for strategy in STRATEGIES {
        let mut world = with(strategy, 0);
        let members = members(&mut world, 3, QoS::AtLeastOnce);
        publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
        for (&at, room) in members.iter().zip(1..) {
            world.clients[at].acks = Acks::Held;
            world.attach(at, window(room));
        }
        world.settle();
        let mut all = Vec::new();
        for _ in 0..COUNT {
            for (&at, room) in members.iter().zip(1..) {
                let client = &world.clients[at];
                assert!(client.waiting.len() <= room, "{strategy:?}");
                all.extend(world.got(at));
                world.ack(at, 1);
            }
        }
        assert_eq!(sorted(all), (0..COUNT).collect::<Vec<_>>(), "{strategy:?}");
    }
}

#[test]
fn what_waits_behind_a_slow_member_leaves_memory() {
    let mut world = World::with_hot(Limits::default(), 400);
    let slow = members(&mut world, 1, QoS::AtLeastOnce)[0];
    world.clients[slow].acks = Acks::Held;
    world.attach(slow, window(2));
    publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
    assert_eq!(world.got(slow), numbers(0..2));
    assert!(cold(&world) > COUNT as u64 / 2);
    let fast = durable(&mut world, "fast");
    world.subscribe(fast, shared(QoS::AtLeastOnce));
    world.settle();
    assert_eq!(world.got(fast), numbers(2..COUNT));
    world.ack(slow, 2);
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

#[test]
fn a_group_stops_at_a_record_that_is_not_there_for_all_of_its_members() {
    for strategy in STRATEGIES {
        let mut world = with(strategy, 4_000);
        let members = members(&mut world, 2, QoS::AtLeastOnce);
        publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
        let limits = Limits {
            hot_bytes: 400,
            shared_strategy: strategy,
            ..Limits::default()
        };
        let node = world.nodes.get_mut(&DURABLE).expect("it is there");
        node.partition.set_limits(limits);
        world.recalling = Recalling::Held;
        for &at in &members {
            world.attach(at, window(10));
        }
        publish(&mut world, COUNT..COUNT + 1, QoS::AtLeastOnce);
        let got =
            |world: &mut World| sorted(members.iter().flat_map(|&at| world.got(at)).collect());
        assert!(got(&mut world).is_empty(), "the last one is in memory");
        world.recall_some(DURABLE, 2);
        world.settle();
        assert_eq!(got(&mut world), [0, 1]);
        world.recalling = Recalling::AtOnce;
        world.settle();
        assert_eq!(got(&mut world), (2..COUNT + 1).collect::<Vec<_>>());
    }
}

#[test]
fn what_a_member_had_is_read_again_for_the_others_when_it_leaves() {
    for unsubscribes in [false, true] {
        let mut world = World::with_hot(Limits::default(), 0);
        let [a, b] = members(&mut world, 2, QoS::AtLeastOnce)[..] else {
            panic!("two members");
        };
        publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
        world.clients[a].acks = Acks::Held;
        world.attach(a, window(4));
        assert_eq!(world.got(a), numbers(0..4));
        // What it has is not in memory any more, and what it would have next is being read as it goes.
        world.recalling = Recalling::Held;
        if unsubscribes {
            leave_group(&mut world, a);
        }
        world.detach(a, DetachCause::Lost);
        world.attach(b, window(4));
        assert!(world.got(b).is_empty());
        world.recalling = Recalling::AtOnce;
        world.settle();
        let got = std::mem::take(&mut world.clients[b].got);
        let payloads: Vec<String> = got.iter().map(|got| got.payload.clone()).collect();
        assert_eq!(payloads, numbers(0..COUNT), "in order");
        assert!(got.iter().all(|got| !got.duplicate), "to another session");
    }
}

/// It leaves as soon as its end is committed, and is not read for that.
#[test]
fn m17_what_a_group_stops_at_and_is_to_end_is_not_asked_for_and_holds_up_nothing() {
    for was_given in [false, true] {
        let mut world = World::with_hot(Limits::default(), 0);
        let [a, b] = members(&mut world, 2, QoS::AtLeastOnce)[..] else {
            panic!("two members");
        };
        let expires_at = Some(WallMs(world.now.wall.0 + 10_000));
        for number in numbers(0..2) {
            world.publish(&Publish {
                expires_at,
                ..message("t/0", &number, QoS::AtLeastOnce)
            });
        }
        publish(&mut world, 2..COUNT, QoS::AtLeastOnce);
        if was_given {
            world.clients[a].acks = Acks::Held;
            world.attach(a, window(4));
            assert_eq!(world.got(a), numbers(0..4));
            world.detach(a, DetachCause::Lost);
        }
        world.commits = Commits::Held;
        world.recalling = Recalling::Held;
        world.connect(b, window(4));
        // The group stops at the first one, and its time is over before the log is asked.
        while world.commit_one(DURABLE) {
            world.pass_messages();
        }
        world.pass_time(12_000);
        assert_eq!(world.fx.dropped.get(&Dropped::Expired), Some(&2));
        world.commits = Commits::AtOnce;
        world.settle();
        world.recalling = Recalling::AtOnce;
        world.settle();
        assert_eq!(world.got(b), numbers(2..COUNT));
        assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
    }
}

#[test]
fn an_answer_serves_the_others_when_who_it_was_read_for_has_gone() {
    let mut world = World::with_hot(Limits::default(), 0);
    let [a, b] = members(&mut world, 2, QoS::AtLeastOnce)[..] else {
        panic!("two members");
    };
    publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
    world.recalling = Recalling::Held;
    world.attach(a, window(10));
    world.attach(b, window(10));
    world.detach(a, DetachCause::Lost);
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(b), numbers(0..COUNT));
    assert!(world.got(a).is_empty());
}

/// QoS 2 messages that a session has before it has them, with the ids under which it has them.
#[test]
fn m31_what_is_owed_comes_out_of_the_log_before_all_that_is_new() {
    // v5 [MQTT-4.4.0-1], v5 [MQTT-4.8.2-4], v3 [MQTT-4.4.0-1]
    let mut world = World::with_hot(Limits::default(), 0);
    let [a, b] = members(&mut world, 2, QoS::ExactlyOnce)[..] else {
        panic!("two members");
    };
    world.clients[a].acks = Acks::Held;
    world.attach(a, window(4));
    publish(&mut world, 0..8, QoS::ExactlyOnce);
    let first = std::mem::take(&mut world.clients[a].got);
    assert_eq!(first.len(), 4);
    world.detach(a, DetachCause::Lost);
    assert!(cold(&world) >= 7, "all but one that was read ahead");
    world.recalling = Recalling::Held;
    world.clients[a].owed.clear();
    world.clients[a].acks = Acks::Auto;
    world.attach(a, window(10));
    world.attach(b, window(1));
    assert!(world.clients[a].got.is_empty() && world.clients[a].owed.is_empty());
    world.recall_some(DURABLE, 1);
    world.settle();
    world.recalling = Recalling::AtOnce;
    world.settle();
    let again = std::mem::take(&mut world.clients[a].got);
    let own: Vec<_> = again
        .iter()
        .take(4)
        .map(|got| (&got.payload, got.packet_id, got.duplicate))
        .collect();
    let had: Vec<_> = first
        .iter()
        .map(|got| (&got.payload, got.packet_id, true))
        .collect();
    assert_eq!(own, had, "what it had comes first, under its ids");
    assert_eq!(
        world.clients[a].owed.len(),
        1,
        "then it hears that this was all"
    );
    let mut rest: Vec<String> = again[4..].iter().map(|got| got.payload.clone()).collect();
    rest.extend(world.got(b));
    assert_eq!(sorted(rest), [4, 5, 6, 7], "nobody else has what it had");
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

/// Another connection asks for other records, and the group has not heard from the one before.
#[test]
fn what_was_read_for_a_connection_that_has_gone_is_read_for_the_next_one() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = members(&mut world, 1, QoS::ExactlyOnce)[0];
    world.clients[a].acks = Acks::Held;
    world.attach(a, window(3));
    publish(&mut world, 0..3, QoS::ExactlyOnce);
    world.got(a);
    for kept in 0..3 {
        world.recalling = Recalling::Held;
        world.detach(a, DetachCause::Lost);
        world.attach(a, window(3));
        world.recall_some(DURABLE, kept);
        world.settle();
        assert_eq!(world.got(a), numbers(0..kept.min(1)));
    }
    world.recalling = Recalling::AtOnce;
    world.detach(a, DetachCause::Lost);
    world.clients[a].owed.clear();
    world.attach(a, window(3));
    world.settle();
    assert_eq!(world.got(a), numbers(0..3));
    assert_eq!(world.clients[a].owed.len(), 1);
}

/// What has been read makes room for others before it is committed whose it is.
#[test]
fn m31_a_message_that_leaves_memory_before_it_is_committed_whose_it_is_leaves_in_order() {
    let mut world = World::with_hot(Limits::default(), 0);
    let other = away(&mut world, "other", "o");
    world.send("o", "x", QoS::AtLeastOnce);
    let a = members(&mut world, 1, QoS::ExactlyOnce)[0];
    publish(&mut world, 0..3, QoS::ExactlyOnce);
    connect_while_held(&mut world, a);
    assert!(
        world.nodes[&DURABLE].partition.records_in_memory().count() > 0,
        "it was read"
    );
    world.connect(other, Options::durable());
    for _ in 0..4 {
        world.pass_time(100);
    }
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(world.got(a), numbers(0..3));
    assert_eq!(world.got(other), ["x"]);
}

/// Its packet id was named and is free again: nothing was sent with it. Who gets it is decided when it can be read, or nobody does.
#[test]
fn m31_a_message_that_is_lost_before_it_leaves_gives_its_packet_id_back() {
    for is_mended in [false, true] {
        let mut world = World::with_hot(Limits::default(), 0);
        let other = away(&mut world, "other", "o");
        world.send("o", "x", QoS::AtLeastOnce);
        let [a, b] = members(&mut world, 2, QoS::ExactlyOnce)[..] else {
            panic!("two members");
        };
        for number in 0..3 {
            publish(&mut world, number..number + 1, QoS::ExactlyOnce);
        }
        connect_while_held(&mut world, a);
        world.connect(other, Options::durable());
        for _ in 0..4 {
            world.pass_time(100);
        }
        world.damaged = true;
        world.damage(DURABLE, b"t/11");
        world.commits = Commits::AtOnce;
        world.settle();
        assert_eq!(world.got(a), ["0", "2"]);
        let void = world.clients[a].void.iter().map(|(_, seq)| *seq);
        assert_eq!(void.collect::<Vec<_>>(), [Some(Seq(1))]);
        assert_eq!(world.nodes[&DURABLE].partition.lost().len(), 1);
        publish(&mut world, 3..4, QoS::ExactlyOnce);
        assert_eq!(world.got(a), [""; 0], "nothing new behind what is lost");
        match is_mended {
            true => {
                world.mend(DURABLE);
                world.attach(b, window(3));
                world.settle();
                let got = [a, b].into_iter().flat_map(|at| world.got(at)).collect();
                assert_eq!(sorted(got), [1, 3]);
            }
            false => {
                world.accept_losses(DURABLE);
                world.settle();
                assert_eq!(world.got(a), ["3"]);
                assert_eq!(world.clients[a].released.len(), 3, "what it got");
            }
        }
        assert!(world.nodes[&DURABLE].partition.lost().is_empty());
    }
}

#[test]
fn m44_a_record_that_cannot_be_read_back_stops_a_group_until_the_loss_is_accepted() {
    for strategy in STRATEGIES {
        let mut world = with(strategy, 0);
        let [a, b] = members(&mut world, 2, QoS::AtLeastOnce)[..] else {
            panic!("two members");
        };
        for number in 0..5 {
            publish(&mut world, number..number + 1, QoS::AtLeastOnce);
        }
        world.damaged = true;
        let lost = world.damage(DURABLE, b"t/22");
        world.attach(a, window(10));
        world.attach(b, window(10));
        let got =
            |world: &mut World| sorted([a, b].into_iter().flat_map(|at| world.got(at)).collect());
        assert_eq!(got(&mut world), [0, 1], "{strategy:?}");
        let named = world.nodes[&DURABLE].partition.lost();
        assert_eq!(named.len(), 1);
        let (share, filter) = ("g".into(), "t/#".into());
        assert_eq!(named[0].stream, LostStream::Group { share, filter });
        assert_eq!(named[0].index, lost);
        world.accept_losses(DURABLE);
        world.settle();
        assert_eq!(got(&mut world), [3, 4], "{strategy:?}");
        assert_eq!(world.fx.dropped[&Dropped::Damaged], 1);
        assert!(!world.nodes[&DURABLE].partition.has_lost());
    }
}

/// One that a session has by what is committed: it does not keep its place when the loss is accepted, and its packet id is free when it is
/// released (M31).
#[test]
fn m44_a_message_that_is_owed_and_cannot_be_read_back_ends_when_the_loss_is_accepted() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = members(&mut world, 1, QoS::ExactlyOnce)[0];
    world.clients[a].acks = Acks::Held;
    world.attach(a, window(2));
    for number in 0..4 {
        publish(&mut world, number..number + 1, QoS::ExactlyOnce);
    }
    let places: Vec<_> = world.clients[a].got.iter().map(|it| it.source).collect();
    let packet_id = world.clients[a].got[1].packet_id.expect("it was named");
    assert_eq!(world.got(a), numbers(0..2));
    world.detach(a, DetachCause::Lost);
    world.damaged = true;
    world.damage(DURABLE, b"t/11");
    world.clients[a].acks = Acks::Auto;
    world.attach(a, window(2));
    world.settle();
    assert_eq!(
        world.got(a),
        numbers(0..1),
        "nothing new behind what is lost"
    );
    assert_eq!(world.nodes[&DURABLE].partition.lost().len(), 1);
    let (_, seq) = places[1].expect("it has a place");
    assert_eq!(world.clients[a].withheld, [(seq, packet_id)]);
    world.accept_losses(DURABLE);
    world.settle();
    assert!(world.nodes[&DURABLE].partition.lost().is_empty());
    let released = world.clients[a].released[..2].iter().copied().map(Some);
    assert_eq!(released.collect::<Vec<_>>(), places);
    assert!(world.clients[a].held.is_empty());
    assert_eq!(world.got(a), numbers(2..4));
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
    // Its window is open again.
    world.clients[a].acks = Acks::Held;
    publish(&mut world, 4..8, QoS::ExactlyOnce);
    assert_eq!(world.got(a), numbers(4..6));
}

#[test]
fn m44_a_member_that_comes_tries_what_could_not_be_read() {
    for qos in [QoS::AtLeastOnce, QoS::ExactlyOnce] {
        let mut world = World::with_hot(Limits::default(), 0);
        let [a, b] = members(&mut world, 2, qos)[..] else {
            panic!("two members");
        };
        for number in 0..4 {
            publish(&mut world, number..number + 1, qos);
        }
        world.damaged = true;
        world.damage(DURABLE, b"t/22");
        world.attach(a, window(10));
        world.settle();
        assert_eq!(world.got(a), numbers(0..2));
        world.mend(DURABLE);
        world.settle();
        assert!(world.got(a).is_empty(), "not again and again");
        world.attach(b, window(10));
        world.settle();
        let got = sorted([a, b].into_iter().flat_map(|at| world.got(at)).collect());
        assert_eq!(got, [2, 3]);
        assert!(!world.nodes[&DURABLE].partition.has_lost());
    }
}

/// A session tries what lies far ahead of it as well, and asks for it when it comes to it: it leaves before.
#[test]
fn m44_a_group_that_stopped_at_a_record_asks_for_it_when_a_session_tries_it_again() {
    let mut world = World::with_hot(Limits::default(), 0);
    let stays = members(&mut world, 1, QoS::AtLeastOnce)[0];
    let comes = away(&mut world, "comes", "t/#");
    for number in 0..COUNT {
        publish(&mut world, number..number + 1, QoS::AtLeastOnce);
    }
    world.damaged = true;
    world.damage(DURABLE, b"t/030");
    world.attach(stays, window(10));
    world.settle();
    assert_eq!(world.got(stays), numbers(0..30));
    world.damage(DURABLE, b"t/22");
    world.attach(comes, window(10));
    world.settle();
    assert_eq!(world.got(comes), numbers(0..2));
    world.mend(DURABLE);
    world.detach(comes, DetachCause::Lost);
    world.recalling = Recalling::Held;
    world.attach(comes, window(1));
    world.detach(comes, DetachCause::Lost);
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(stays), numbers(30..COUNT));
}

#[test]
fn m44_what_is_owed_is_tried_again_when_its_member_comes() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = members(&mut world, 1, QoS::ExactlyOnce)[0];
    world.clients[a].acks = Acks::Held;
    world.attach(a, window(2));
    for number in 0..2 {
        publish(&mut world, number..number + 1, QoS::ExactlyOnce);
    }
    world.got(a);
    world.damaged = true;
    world.damage(DURABLE, b"t/00");
    world.detach(a, DetachCause::Lost);
    world.attach(a, window(2));
    assert_eq!(world.got(a), ["1"]);
    world.mend(DURABLE);
    world.detach(a, DetachCause::Lost);
    world.attach(a, window(2));
    assert_eq!(world.got(a), numbers(0..2));
}

#[test]
fn m12_what_is_on_its_way_out_of_the_log_is_not_what_a_full_group_drops() {
    let limits = Limits {
        queue_messages_max: 100,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    };
    let mut world = World::with_hot(limits, 400);
    let a = members(&mut world, 1, QoS::AtLeastOnce)[0];
    publish(&mut world, 0..100, QoS::AtLeastOnce);
    world.recalling = Recalling::Held;
    world.attach(a, window(10));
    publish(&mut world, 100..160, QoS::AtLeastOnce);
    world.recall_some(DURABLE, 3);
    world.settle();
    assert_eq!(world.got(a), numbers(0..3));
}

/// Nobody else says that the group goes on.
#[test]
fn what_a_group_waits_for_ends_and_it_goes_on() {
    let limits = Limits {
        queue_seconds_max: 100,
        ..Limits::default()
    };
    let mut world = World::with_hot(limits, 0);
    let a = members(&mut world, 1, QoS::AtLeastOnce)[0];
    publish(&mut world, 0..4, QoS::AtLeastOnce);
    world.pass_time(60_000);
    publish(&mut world, 4..8, QoS::AtLeastOnce);
    world.recalling = Recalling::Held;
    world.attach(a, window(10));
    for _ in 0..12 {
        world.pass_time(5_000);
        world.settle();
    }
    assert_eq!(world.fx.dropped[&Dropped::TooOld], 4);
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(a), numbers(4..8));
}

#[test]
fn what_was_asked_for_a_group_comes_to_the_next_leader() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = members(&mut world, 1, QoS::AtLeastOnce)[0];
    publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
    world.recalling = Recalling::Held;
    world.attach(a, window(10));
    world.depose(DURABLE, 0);
    world.recall_some(DURABLE, 3);
    world.turn();
    world.elect(DURABLE);
    world.settle();
    world.recalling = Recalling::AtOnce;
    world.attach(a, window(10));
    world.settle();
    assert_eq!(world.got(a), numbers(0..COUNT));
}

#[test]
fn a_start_leaves_what_waits_for_a_group_in_the_log() {
    let mut world = World::with_hot(Limits::default(), 64 << 20);
    let a = members(&mut world, 1, QoS::AtLeastOnce)[0];
    publish(&mut world, 0..COUNT, QoS::AtLeastOnce);
    assert_eq!(cold(&world), 0);
    let (started, read) = start(&mut world, 0);
    assert_eq!((started.counts().cold_records, read), (COUNT as u64, 0));
    world.put(DURABLE, started);
    world.elect(DURABLE);
    world.settle();
    world.attach(a, window(10));
    publish(&mut world, COUNT..COUNT + 1, QoS::AtLeastOnce);
    assert_eq!(world.got(a), numbers(0..COUNT + 1));
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

/// What the topic has chosen a busy member for has been read, and is read again for it when it has room.
#[test]
fn what_is_set_aside_for_a_busy_member_leaves_the_others_their_room() {
    let mut world = with(SharedStrategy::HashTopic, 600);
    let members = members(&mut world, 3, QoS::AtLeastOnce);
    publish(&mut world, 0..4 * COUNT, QoS::AtLeastOnce);
    for &at in &members {
        world.clients[at].acks = Acks::Held;
        world.attach(at, window(2));
    }
    let mut some = members.iter().rev();
    let busy = *some
        .find(|&&at| !world.clients[at].got.is_empty())
        .expect("somebody has a topic");
    for &at in members.iter().filter(|&&at| at != busy) {
        world.clients[at].acks = Acks::Auto;
        let waiting = world.clients[at].waiting.len();
        world.ack(at, waiting);
    }
    world.settle();
    let got = |world: &World, is_busy: bool| -> usize {
        let some = members.iter().filter(|&&at| (at == busy) == is_busy);
        some.map(|&at| world.clients[at].got.len()).sum()
    };
    let others = got(&world, false);
    assert_eq!(got(&world, true), 2);
    world.clients[busy].acks = Acks::Auto;
    world.ack(busy, 2);
    world.settle();
    assert_eq!(got(&world, false), others, "they had all that is theirs");
    assert_eq!(got(&world, true) + others, 4 * COUNT);
    assert!(
        others > 2 && others < 4 * COUNT - 2,
        "each has some: {others}"
    );
}

#[test]
fn an_absent_group_of_an_unsubscribed_member_keeps_nothing() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = members(&mut world, 1, QoS::AtLeastOnce)[0];
    publish(&mut world, 0..4, QoS::AtLeastOnce);
    world.recalling = Recalling::Held;
    world.attach(a, window(10));
    leave_group(&mut world, a);
    world.settle();
    world.recalling = Recalling::AtOnce;
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.records, counts.cold_records), (0, 0));
    assert!(world.got(a).is_empty());
}
