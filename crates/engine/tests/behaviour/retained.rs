//! Retained messages, as subscribers see them.

use courser_contract::{
    Append, AppendKey, DetachCause, Dropped, Publish, QoS, Record, RecordView, RequestPart,
    RetainHandling, RetainedFound, ScanRef, Settled, ToHome, ToPartition,
};
use courser_engine::Limits;

use crate::people::{publish_qos2, retain_qos2};
use crate::world::{Acks, Commits, DURABLE, OTHER, Options, World, to};

fn client(world: &mut World, name: &str) -> usize {
    let at = world.client(name);
    world.attach(at, Options::durable());
    at
}

#[test]
fn a_subscriber_gets_the_retained_messages_of_all_partitions() {
    // v3 [MQTT-3.3.1-5], v3 [MQTT-3.3.1-6], v3 [MQTT-3.3.1-8], v5 [MQTT-3.3.1-5], v5 [MQTT-3.3.1-8], v5 [MQTT-3.3.1-9]
    let mut world = World::new();
    world.retain("t/1", "old", QoS::AtLeastOnce);
    world.retain("t/1", "1", QoS::AtLeastOnce);
    world.retain("other/2", "2", QoS::AtMostOnce);
    world.retain("$SYS/x", "hidden", QoS::AtMostOnce);
    world.settle();
    let a = client(&mut world, "a");
    let mut subscription = to("#", QoS::ExactlyOnce);
    subscription.identifier = Some(4);
    world.subscribe(a, subscription);
    let mut got = std::mem::take(&mut world.clients[a].got);
    got.sort_by(|a, b| a.payload.cmp(&b.payload));
    let seen: Vec<_> = got
        .iter()
        .map(|got| (&*got.payload, got.qos, got.retain, &got.identifiers[..]))
        .collect();
    let expected = [
        ("1", QoS::AtLeastOnce, true, &[4][..]),
        ("2", QoS::AtMostOnce, true, &[4][..]),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn an_empty_payload_clears_the_topic() {
    // v3 [MQTT-3.3.1-10], v3 [MQTT-3.3.1-11], v5 [MQTT-3.3.1-6], v5 [MQTT-3.3.1-7]
    let mut world = World::new();
    world.retain("t", "1", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(
        world.nodes[&DURABLE].partition.counts().retained_messages,
        1
    );
    world.retain("t", "", QoS::AtLeastOnce);
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.retained_messages, counts.records), (0, 0));
}

#[test]
fn retain_handling_says_when_they_come() {
    // v5 [MQTT-3.3.1-9], v5 [MQTT-3.3.1-10], v5 [MQTT-3.3.1-11], v3 [MQTT-3.8.4-3]
    for (handling, first, again) in [
        (RetainHandling::Send, 1, 1),
        (RetainHandling::SendIfNew, 1, 0),
        (RetainHandling::DoNotSend, 0, 0),
    ] {
        let mut world = World::new();
        world.retain("t", "1", QoS::AtLeastOnce);
        world.settle();
        let a = client(&mut world, "a");
        let mut subscription = to("t", QoS::AtLeastOnce);
        subscription.options.retain_handling = handling;
        world.subscribe(a, subscription.clone());
        assert_eq!(world.got(a).len(), first, "{handling:?}");
        world.subscribe(a, subscription);
        assert_eq!(world.got(a).len(), again, "{handling:?}");
    }
}

#[test]
fn a_scan_stays_within_the_sessions_window_m34() {
    let mut world = World::new();
    for n in 0..200 {
        world.retain(&format!("t/{n:03}"), &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let a = client(&mut world, "a");
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    let mut seen = Vec::new();
    for _ in 0..200 {
        let counts = world.nodes[&DURABLE].partition.counts();
        assert!(
            counts.queued_messages <= 10,
            "{} wait",
            counts.queued_messages
        );
        seen.extend(world.got(a));
        world.ack(a, 1);
    }
    let expected: Vec<_> = (0..200).map(|n| n.to_string()).collect();
    assert_eq!(seen, expected, "each once, in topic order");
}

/// v5 [MQTT-3.3.1-9]: what goes at QoS 0 has no place in the window, and an output drops what is above its bound.
#[test]
fn a_scan_at_qos_0_waits_for_its_reader_m34() {
    const MESSAGES: usize = 300;
    let mut world = World::new();
    for n in 0..MESSAGES {
        // One alone is more than a page.
        let bytes = if n == 100 { 100_000 } else { 2_000 };
        let payload = format!("{n:03}{}", "x".repeat(bytes));
        world.retain(&format!("t/{n:03}"), &payload, QoS::AtMostOnce);
    }
    world.settle();
    let a = client(&mut world, "a");
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    let mut seen = Vec::new();
    loop {
        let got = world.got(a);
        let bytes: usize = got.iter().map(String::len).sum();
        let largest = got.iter().map(String::len).max().unwrap_or_default();
        assert!(bytes < (64 << 10) + largest, "{bytes} at once");
        seen.extend(got.into_iter().map(|payload| payload[..3].to_owned()));
        if !world.clients[a].page_untaken {
            break;
        }
        world.take_page(a);
    }
    let expected: Vec<_> = (0..MESSAGES).map(|n| format!("{n:03}")).collect();
    assert_eq!(seen, expected, "each once, in topic order");
}

/// The reader that was waited for is gone: the next connection has room.
#[test]
fn a_scan_at_qos_0_goes_on_with_the_next_connection_m34() {
    let mut world = World::new();
    for n in 0..100 {
        let payload = format!("{n:03}{}", "x".repeat(2_000));
        world.retain(&format!("t/{n:03}"), &payload, QoS::AtMostOnce);
    }
    world.settle();
    let a = client(&mut world, "a");
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    let before = world.got(a).len();
    assert!(before < 50 && world.clients[a].page_untaken);
    world.detach(a, DetachCause::Lost);
    world.clients[a].page_untaken = false;
    world.clients[a].acks = Acks::Auto;
    world.attach(a, Options::durable());
    world.settle();
    assert!(before + world.got(a).len() >= 100);
}

#[test]
fn a_scan_goes_on_after_a_restart_m34() {
    let mut world = World::new();
    for n in 0..30 {
        world.retain(&format!("t/{n:02}"), &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let a = client(&mut world, "a");
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    world.restart(DURABLE);
    world.settle();
    world.clients[a].acks = Acks::Auto;
    world.clients[a].taken.clear();
    world.attach(a, Options::durable());
    world.settle();
    let got: Vec<_> = world.clients[a]
        .taken
        .iter()
        .map(|got| got.payload.clone())
        .collect();
    let expected: Vec<_> = (0..30).map(|n| n.to_string()).collect();
    assert_eq!(got, expected);
}

/// What an earlier leader had asked for comes to the next one, which asks for it itself.
#[test]
fn an_answer_to_an_earlier_leader_is_not_taken_m34() {
    let mut world = World::new();
    world.retain("other/t", "1", QoS::AtLeastOnce);
    world.settle();
    let a = client(&mut world, "a");
    let home = world.home(a);
    world.commits = Commits::Held;
    let (to_home, message) = world.clients[a].subscribe(vec![to("other/t", QoS::AtLeastOnce)]);
    world.send_home(to_home, message);
    world.commit_one(DURABLE);
    world.depose(DURABLE, 0);
    world.elect(DURABLE);
    // Holds back the fence of the scan that the new leader goes on with.
    world.retain("other/u", "2", QoS::AtLeastOnce);
    world.commit_one(DURABLE);
    world.turn();
    let late = RetainedFound {
        scan: ScanRef {
            home,
            scan: 1,
            question: 1 << 32 | 1,
        },
        partition: OTHER,
        records: vec![Record::copy_of(&RecordView::from(&Publish {
            retain: true,
            ..crate::world::message("other/t", "1", QoS::AtLeastOnce)
        }))],
        next: None,
        at: world.now.wall,
    };
    let late = ToPartition::RetainedFound(Box::new(late));
    world.call(DURABLE, |it, now, fx| {
        it.handle_partition(now, OTHER, late, fx)
    });
    world.settle();
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["1"]);
}

/// The answer to a scan whose subscription is gone lets the next scan of the session ask.
#[test]
fn a_scan_goes_on_behind_one_that_nobody_wants_any_more_m34() {
    let mut world = World::new();
    world.retain("t", "1", QoS::AtLeastOnce);
    world.settle();
    let a = client(&mut world, "a");
    world.commits = Commits::Held;
    let filters = ["other/t", "t"].map(|filter| to(filter, QoS::AtLeastOnce));
    let (home, message) = world.clients[a].subscribe(filters.to_vec());
    world.send_home(home, message);
    world.commit_one(DURABLE);
    // The fence waits for the first of these, and the answer of that partition for the second one.
    world.retain("other/u", "2", QoS::AtLeastOnce);
    world.commit_one(OTHER);
    world.retain("other/u", "3", QoS::AtLeastOnce);
    let unsubscribe = ToHome::Unsubscribe {
        session: world.home(a).session,
        epoch: world.clients[a].epoch,
        part: RequestPart::whole(9),
        filters: vec![(None, "other/t".into())],
    };
    world.send_home(home, unsubscribe);
    world.settle();
    assert_eq!(world.got(a), ["1"]);
}

#[test]
fn a_live_message_that_overtakes_a_find_drops_it_m34() {
    let mut world = World::new();
    world.retain("other/t", "old", QoS::AtLeastOnce);
    world.settle();
    let a = client(&mut world, "a");
    world.commits = Commits::Held;
    let (home, message) = world.clients[a].subscribe(vec![to("other/t", QoS::AtLeastOnce)]);
    world.send_home(home, message);
    world.commit_one(DURABLE);
    // The index has it; the scan waits for the fence. Now a newer one reaches the home, but not yet its keeper.
    world.retain("other/t", "new", QoS::AtLeastOnce);
    while world.commit_one(DURABLE) {}
    world.settle();
    assert_eq!(world.got(a), ["new"]);
}

#[test]
fn a_message_that_l1_did_not_bring_is_found_m34() {
    // Matched before L1 had the filter, it comes to its keeper alone, which here is the partition of the subscriber.
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        let mut world = World::new();
        let a = client(&mut world, "a");
        world.commits = Commits::Held;
        let (home, message) = world.clients[a].subscribe(vec![to("t", QoS::AtLeastOnce)]);
        world.send_home(home, message);
        world.commit_one(DURABLE);
        let append = Append {
            key: AppendKey::Unanswered,
            publish: &Publish {
                retain: true,
                ..crate::world::message("t", "1", qos)
            },
            keep_retained: true,
            deliver: false,
            cut: courser_contract::Cut(0),
        };
        world.call(DURABLE, |it, now, fx| it.handle_append(now, &append, fx));
        world.settle();
        assert_eq!(world.got(a), ["1"], "{qos:?}");
    }
}

/// Found by the simulator: the session's own partition, or a shard that has the filter already, gives it a live message; a later one for the same
/// topic was matched where nobody had heard of the filter, and comes to its keeper alone. The later one is owed.
#[test]
fn m34_a_find_that_is_newer_than_what_came_live_is_not_dropped() {
    for (wait, first) in [(false, "old"), (true, "old"), (true, "")] {
        let mut world = World::new();
        world.retain("other/t", first, QoS::AtLeastOnce);
        world.settle();
        let a = client(&mut world, "a");
        world.commits = Commits::Held;
        let (home, message) = world.clients[a].subscribe(vec![to("other/t", QoS::AtLeastOnce)]);
        world.send_home(home, message);
        world.commit_one(DURABLE);
        let mut append = |id, payload, keep_retained, deliver| {
            let append = Append {
                key: AppendKey::Unanswered,
                publish: &Publish {
                    retain: true,
                    ..crate::world::message("other/t", payload, QoS::AtLeastOnce)
                },
                keep_retained,
                deliver,
                cut: courser_contract::Cut(0),
            };
            world.call(id, |it, now, fx| it.handle_append(now, &append, fx));
        };
        append(DURABLE, "first", false, true);
        append(OTHER, "first", true, false);
        append(OTHER, "last", true, false);
        if wait {
            world.commit_one(OTHER);
        }
        world.settle();
        assert_eq!(world.got(a), ["first", "last"]);
        let again = to("other/t", QoS::AtLeastOnce);
        world.subscribe(a, again);
        assert_eq!(world.got(a), ["last"], "it is asked for anew");
    }
}

/// 20 retained messages below `t/`, and a client that takes so many at once.
fn twenty_for_a_window_of(receive_maximum: u16) -> (World, usize) {
    let mut world = World::new();
    for n in 0..20 {
        world.retain(&format!("t/{n:02}"), &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let a = world.client("a");
    let options = Options {
        receive_maximum,
        ..Options::durable()
    };
    world.attach(a, options);
    (world, a)
}

#[test]
fn a_scan_goes_on_with_a_window_of_one_m34() {
    let (mut world, a) = twenty_for_a_window_of(1);
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    let expected: Vec<_> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(world.got(a), expected);
}

/// The entry that says what was taken waits for company; the next question does not wait for it.
#[test]
fn a_scan_goes_on_at_once_when_a_small_window_is_empty_m34() {
    let (mut world, a) = twenty_for_a_window_of(2);
    world.commits = Commits::AtOnce;
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    for n in (0..20).step_by(2) {
        let expected = [n, n + 1].map(|n: u32| n.to_string());
        assert_eq!(world.got(a), expected, "no time has passed");
        for (home, taken) in world.clients[a].ack(2) {
            world.send_home(home, taken);
        }
        (0..8).for_each(|_| world.turn());
    }
}

/// Live messages of the same filter come as fast as the reader takes any, and more wait than its window holds: what is retained comes all the same.
#[test]
fn m34_a_scan_does_not_starve_behind_live_messages() {
    const RETAINED: usize = 60;
    let limits = Limits {
        queue_messages_max: 2_000,
        ..Limits::default()
    };
    for (window, acks_a_turn) in [(1_u16, 1), (10, 5), (80, 40)] {
        let mut world = World::with_limits(limits.clone());
        for n in 0..RETAINED {
            world.retain(&format!("t/{n:03}"), &n.to_string(), QoS::AtLeastOnce);
        }
        world.settle();
        let a = world.client("a");
        world.clients[a].acks = Acks::Held;
        let options = Options {
            receive_maximum: window,
            ..Options::durable()
        };
        world.attach(a, options);
        world.subscribe(a, to("t/#", QoS::AtLeastOnce));
        let burst = usize::from(window) + 20;
        for n in 0..burst {
            world.send("t/live", &n.to_string(), QoS::AtLeastOnce);
        }
        let (mut found, mut live) = (Vec::new(), 0);
        let mut waiting_max = 0;
        for turn in 0..(2 * RETAINED + burst) / acks_a_turn + 10 {
            for n in 0..acks_a_turn {
                world.send("t/live", &format!("{turn} {n}"), QoS::AtLeastOnce);
            }
            for got in std::mem::take(&mut world.clients[a].got) {
                match got.retain {
                    true => found.push(got.payload),
                    false => live += 1,
                }
            }
            let counts = world.nodes[&DURABLE].partition.counts();
            waiting_max = waiting_max.max(counts.queued_messages);
            world.ack(a, acks_a_turn);
        }
        let expected: Vec<_> = (0..RETAINED).map(|n| n.to_string()).collect();
        assert_eq!(found.len(), expected.len(), "window {window}, {live} live");
        assert_eq!(found, expected, "each once, in topic order");
        let most = (burst + RETAINED + 2 * usize::from(window)) as u64;
        assert!(waiting_max <= most, "{waiting_max} wait");
    }
}

#[test]
fn m34_a_scan_asks_for_nothing_while_the_stream_is_half_full() {
    let limits = Limits {
        queue_messages_max: 40,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    for n in 0..100 {
        world.retain(&format!("t/{n:03}"), &n.to_string(), QoS::AtLeastOnce);
    }
    world.settle();
    let a = client(&mut world, "a");
    world.clients[a].acks = Acks::Held;
    world.subscribe(a, to("t/#", QoS::AtLeastOnce));
    let found = |world: &World| world.clients[a].got.iter().filter(|it| it.retain).count();
    assert_eq!(found(&world), 10, "a window");
    for n in 0..40 {
        world.send("t/live", &n.to_string(), QoS::AtLeastOnce);
    }
    // 40 wait, and 21 when these are taken.
    for _ in 0..19 {
        world.ack(a, 1);
    }
    assert_eq!(found(&world), 10);
    for _ in 0..150 {
        world.ack(a, 1);
    }
    assert_eq!(found(&world), 100);
}

#[test]
fn a_full_store_refuses_and_counts_m4() {
    let limits = Limits {
        retained_messages_max: 2,
        ..Limits::default()
    };
    let mut world = World::with_limits(limits);
    world.commits = Commits::Held;
    let tickets = ["a", "b", "c", "b"].map(|topic| world.retain(topic, "x", QoS::AtLeastOnce));
    world.retain("d", "x", QoS::AtMostOnce);
    world.settle();
    let ok = tickets.map(|ticket| world.publishes[ticket].1 == Settled::Ok);
    assert_eq!(ok, [true, true, false, true]);
    assert_eq!(world.fx.dropped[&Dropped::RetainedFull], 1);
    world.retain("a", "", QoS::AtLeastOnce);
    let ticket = world.retain("c", "x", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(ticket));
}

#[test]
fn a_retained_message_expires() {
    // v5 [MQTT-3.3.2-5]
    let mut world = World::new();
    let publish = courser_contract::Publish {
        retain: true,
        expires_at: Some(courser_contract::WallMs(world.now.wall.0 + 2_000)),
        ..crate::world::message("other/t", "x", QoS::AtLeastOnce)
    };
    world.publish(&publish);
    world.settle();
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
    world.pass_time(2_000);
    world.settle();
    let counts = world.nodes[&OTHER].partition.counts();
    assert_eq!((counts.retained_messages, counts.records), (0, 0));
}

#[test]
fn an_absent_session_still_gets_its_finds() {
    let mut world = World::new();
    world.retain("t", "1", QoS::AtLeastOnce);
    world.settle();
    let a = client(&mut world, "a");
    world.commits = Commits::Held;
    let (home, message) = world.clients[a].subscribe(vec![to("t", QoS::AtLeastOnce)]);
    world.send_home(home, message);
    for (to, message) in world.clients[a].detach(DetachCause::Lost) {
        world.send_home(to, message);
    }
    world.settle();
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["1"]);
}

/// Found by the simulator: a message with RETAIN was matched before somebody subscribed, and still in an outbox when its keeper was asked.
#[test]
fn m34_a_fence_waits_for_what_is_forwarded_to_its_keeper() {
    let mut world = World::new();
    let publisher = client(&mut world, "publisher");
    let standing = |world: &World| world.nodes[&DURABLE].partition.forwarding();
    assert_eq!(standing(&world), None, "nothing goes on");
    world.commits = Commits::Held;
    retain_qos2(&mut world, publisher, 1, "other/t", "1");
    let mut mark = standing(&world).expect("it is proposed");
    let passed = |world: &World, mark: &mut _| world.nodes[&DURABLE].partition.has_applied(mark);
    assert!(!passed(&world, &mut mark));
    world.commit_one(DURABLE);
    world.turn();
    assert!(!passed(&world, &mut mark), "it is in the outbox");
    // What comes later is not waited for.
    retain_qos2(&mut world, publisher, 2, "other/t", "2");
    world.commit_one(OTHER);
    world.turn();
    world.pass_time(100);
    while world.commit_one(DURABLE) {}
    assert!(passed(&world, &mut mark), "its keeper has it");
    assert!(standing(&world).is_some(), "and not the later one");
}

/// What an earlier leader proposed may be in the log and in no outbox yet.
#[test]
fn m34_a_fence_waits_for_the_next_leader_of_who_may_forward() {
    let mut world = World::new();
    let publisher = client(&mut world, "publisher");
    world.commits = Commits::Held;
    retain_qos2(&mut world, publisher, 1, "other/t", "1");
    world.call(DURABLE, |it, now, fx| it.handle_follower(now, fx));
    let standing = |world: &World| world.nodes[&DURABLE].partition.forwarding();
    let mut mark = standing(&world).expect("nobody knows");
    let passed = |world: &World, mark: &mut _| world.nodes[&DURABLE].partition.has_applied(mark);
    assert!(!passed(&world, &mut mark));
    world.commit_one(DURABLE);
    world.elect(DURABLE);
    assert!(!passed(&world, &mut mark), "its first entry tells");
    world.turn();
    world.commit_one(DURABLE);
    assert!(!passed(&world, &mut mark), "it is in the outbox");
    world.commits = Commits::AtOnce;
    world.settle();
    assert!(passed(&world, &mut mark));
    assert_eq!(standing(&world), None, "nothing goes on");
}

/// To a keeper without a log a message goes when its entry is applied, by no outbox (M13).
#[test]
fn m34_a_fence_waits_for_what_goes_straight_to_its_keeper() {
    let mut world = World::new();
    let publisher = client(&mut world, "publisher");
    world.commits = Commits::Held;
    let standing = |world: &World| world.nodes[&DURABLE].partition.forwarding();
    publish_qos2(&mut world, publisher, 1, "$SYS/t", "0", 1);
    assert_eq!(standing(&world), None, "it is kept nowhere");
    retain_qos2(&mut world, publisher, 2, "$SYS/t", "1");
    let mut mark = standing(&world).expect("it is proposed");
    let passed = |world: &World, mark: &mut _| world.nodes[&DURABLE].partition.has_applied(mark);
    assert!(!passed(&world, &mut mark));
    while world.commit_one(DURABLE) {}
    assert!(passed(&world, &mut mark), "it has left");
}

/// Looking is work for the turn's budget also where nothing is found.
#[test]
fn i10_a_search_of_retained_messages_is_told_to_cost_what_it_looks_at() {
    let mut world = World::new();
    for number in 0..200 {
        world.retain(&format!("a/{number}/b"), "1", QoS::AtLeastOnce);
    }
    world.settle();
    let a = client(&mut world, "a");
    let visited = |world: &mut World| -> u64 {
        let nodes = world.nodes.values_mut();
        nodes.map(|node| node.partition.take_visited().0).sum()
    };
    visited(&mut world);
    world.subscribe(a, to("x/y/none", QoS::AtLeastOnce));
    let exact = visited(&mut world);
    world.subscribe(a, to("+/+/none", QoS::AtLeastOnce));
    let wild = visited(&mut world);
    assert!(wild >= exact + 200, "{wild}, and {exact} for one topic");
    assert!(world.clients[a].got.is_empty());
}
