//! Messages that expire while they are only in the log (v5 [MQTT-3.3.2-5], M17, M20): in time, and without being read for it.

use courser_contract::{DetachCause, Dropped, Publish, QoS, WallMs};

use crate::cold::{away, cold, numbers, start};
use crate::people::durable;
use crate::world::{Acks, Commits, DURABLE, Options, Recalling, World, message, to};
use courser_engine::Limits;

/// A message that expires so many milliseconds from now.
fn send_for(world: &mut World, topic: &str, payload: &str, ms: u64) {
    let expires_at = Some(WallMs(world.now.wall.0 + ms));
    world.publish(&Publish {
        expires_at,
        ..message(topic, payload, QoS::AtLeastOnce)
    });
}

/// More than one chunk of them.
const COUNT: u64 = 300;

fn queued(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().queued_messages
}

fn expired(world: &World) -> u64 {
    let dropped = &world.fx.dropped;
    dropped.get(&Dropped::Expired).copied().unwrap_or_default()
}

/// When some messages expire, by when it was said of them: at any part of a second.
fn lives() -> impl Iterator<Item = u64> {
    (0..COUNT).map(|at| 2_000 + at * 79)
}

/// That of what waits everything goes within a second of its time, and nothing before it.
fn goes_in_time(world: &mut World, mut moments: Vec<u64>) {
    moments.sort_unstable();
    let before = expired(world);
    let last = moments[moments.len() - 1] + 1_000;
    while world.now.wall.0 < last {
        world.pass_time(190);
        let now = world.now.wall.0;
        let gone = (moments.len() as u64 - queued(world)) as usize;
        let due = moments.partition_point(|at| *at <= now);
        let overdue = moments.partition_point(|at| at + 1_000 <= now);
        assert!(
            (overdue..=due).contains(&gone),
            "{gone} are gone, of {overdue} to {due}"
        );
        assert_eq!(expired(world) - before, gone as u64);
    }
    assert_eq!(queued(world), 0);
}

#[test]
fn m20_what_expires_leaves_memory_and_goes_in_time_without_being_read() {
    for hot_bytes in [0, 300, 64 << 20] {
        let mut world = World::with_hot(Limits::default(), hot_bytes);
        away(&mut world, "a", "t");
        let begin = world.now.wall.0;
        for ms in lives() {
            send_for(&mut world, "t", "x", ms);
        }
        world.settle();
        match hot_bytes {
            0 => assert_eq!(cold(&world), COUNT),
            300 => assert!(cold(&world) > COUNT / 2),
            _ => assert_eq!(cold(&world), 0),
        }
        // Nobody reads it for the timer.
        world.recalling = Recalling::Held;
        goes_in_time(&mut world, lives().map(|ms| begin + ms).collect());
        let node = world.nodes.get_mut(&DURABLE).expect("it is there");
        assert!(node.partition.take_question(world.now).is_none());
        assert_eq!(node.partition.counts().records, 0);
    }
}

/// A backlog that expires in one moment holds up nothing else for long.
#[test]
fn i10_of_what_expires_at_once_a_call_ends_some() {
    const ALL: u64 = 6_000;
    const SOME: u64 = 4_096 + 256;
    let mut world = World::with_hot(Limits::default(), 0);
    away(&mut world, "a", "t");
    let expires_at = Some(WallMs(world.now.wall.0 + 10_000));
    for _ in 0..ALL {
        let publish = Publish {
            expires_at,
            ..message("t", "x", QoS::AtLeastOnce)
        };
        world.append_to(DURABLE, &publish);
    }
    world.settle();
    assert_eq!((cold(&world), queued(&world)), (ALL, ALL));
    world.pass_time(10_000);
    let ended = expired(&world);
    assert!((1..SOME).contains(&ended), "{ended} in one call");
    world.pass_time(0);
    world.settle();
    assert_eq!((expired(&world), queued(&world)), (ALL, 0));
}

#[test]
fn a_start_knows_when_what_it_leaves_in_the_log_expires() {
    // Whether its bytes were in memory when the checkpoint was written, or not.
    for hot_bytes in [0, 64 << 20] {
        let mut world = World::with_hot(Limits::default(), hot_bytes);
        away(&mut world, "a", "t");
        for (at, ms) in lives().enumerate() {
            if at % 5 == 0 {
                world.send("t", "stays", QoS::AtLeastOnce);
            } else {
                send_for(&mut world, "t", "x", ms);
            }
        }
        let (started, read) = start(&mut world, 0);
        assert_eq!((started.counts().cold_records, read), (COUNT, 0));
        world.put(DURABLE, started);
        world.elect(DURABLE);
        world.settle();
        world.recalling = Recalling::Held;
        world.pass_time(30_000);
        world.settle();
        let stay = COUNT / 5;
        assert_eq!((queued(&world), expired(&world)), (stay, COUNT - stay));
    }
}

#[test]
fn a_start_ends_in_time_what_expires() {
    let mut world = World::with_hot(Limits::default(), 0);
    away(&mut world, "a", "t");
    let begin = world.now.wall.0;
    for ms in lives() {
        send_for(&mut world, "t", "x", ms);
    }
    let (started, _) = start(&mut world, 0);
    world.put(DURABLE, started);
    world.elect(DURABLE);
    world.settle();
    world.recalling = Recalling::Held;
    goes_in_time(&mut world, lives().map(|ms| begin + ms).collect());
}

#[test]
fn a_message_that_was_read_back_says_exactly_when_it_expires() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    let begin = world.now.wall.0;
    for (payload, ms) in [("0", 10_001), ("1", 10_700), ("2", 10_999)] {
        send_for(&mut world, "t", payload, ms);
    }
    world.settle();
    assert_eq!(cold(&world), 3);
    world.attach(a, Options::durable());
    world.settle();
    let said: Vec<_> = world.clients[a]
        .got
        .iter()
        .map(|got| got.expires_at)
        .collect();
    let moments = [10_001, 10_700, 10_999].map(|ms| Some(WallMs(begin + ms)));
    assert_eq!(said, moments);
    assert_eq!(world.got(a), numbers(0..3));
}

#[test]
fn what_expires_while_it_is_read_back_is_not_delivered() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    for (payload, ms) in [("0", 10_400), ("1", 10_600), ("2", 10_700)] {
        send_for(&mut world, "t", payload, ms);
    }
    world.send("t", "3", QoS::AtLeastOnce);
    world.settle();
    world.recalling = Recalling::Held;
    world.attach(a, Options::durable());
    // To the timer none of them is over before the second is.
    world.pass_time(10_500);
    assert_eq!((queued(&world), expired(&world)), (4, 0));
    // There is room for one at a time.
    for _ in 0..2 {
        world.recall_some(DURABLE, 1);
        world.settle();
    }
    assert_eq!(world.got(a), ["1"]);
    assert_eq!(expired(&world), 1);
    // It stands at a record that goes before it comes, and goes on behind it.
    world.pass_time(500);
    world.settle();
    assert_eq!((queued(&world), expired(&world)), (1, 2));
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(a), ["3"]);
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

#[test]
fn m44_what_could_not_be_read_back_goes_in_its_time() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    world.send("t", "0", QoS::AtLeastOnce);
    send_for(&mut world, "t", "1", 10_000);
    world.send("t", "2", QoS::AtLeastOnce);
    world.settle();
    world.damaged = true;
    world.damage(DURABLE, b"t1");
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["0"]);
    assert!(world.nodes[&DURABLE].partition.has_lost());
    world.pass_time(10_000);
    world.settle();
    assert_eq!(expired(&world), 1);
    assert_eq!(world.got(a), ["2"]);
    assert!(!world.nodes[&DURABLE].partition.has_lost());
}

#[test]
fn what_is_tried_again_goes_in_its_time() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    send_for(&mut world, "t", "0", 10_000);
    world.settle();
    world.damaged = true;
    world.damage(DURABLE, b"t0");
    world.attach(a, Options::durable());
    world.settle();
    assert!(world.nodes[&DURABLE].partition.has_lost());
    world.recalling = Recalling::Held;
    world.detach(a, courser_contract::DetachCause::Lost);
    world.attach(a, Options::durable());
    assert!(!world.nodes[&DURABLE].partition.has_lost());
    world.pass_time(10_000);
    world.settle();
    assert_eq!((queued(&world), expired(&world)), (0, 1));
}

/// So far away that its moment is not known while it is in the log: neither forgotten nor taken for another one.
#[test]
fn what_expires_behind_2106_waits_in_the_log_and_is_delivered() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    let far = u64::from(u32::MAX) * 1_000;
    send_for(&mut world, "t", "0", far);
    let farthest = u64::MAX - world.now.wall.0;
    send_for(&mut world, "t", "1", farthest);
    world.settle();
    assert_eq!(cold(&world), 2);
    let moment = Some(WallMs(world.now.wall.0 + far));
    let (started, read) = start(&mut world, 0);
    assert_eq!((started.counts().cold_records, read), (2, 0));
    world.put(DURABLE, started);
    world.elect(DURABLE);
    world.settle();
    world.pass_time(10_000);
    world.attach(a, Options::durable());
    world.settle();
    let said = world.clients[a].got.iter().map(|got| got.expires_at);
    assert!(said.eq([moment, Some(WallMs(u64::MAX))]));
    assert_eq!(world.got(a), numbers(0..2));
}

/// The timer of what is only in the log looks at full seconds; nobody gets it meanwhile.
#[test]
fn a_member_of_a_group_gets_nothing_that_has_expired() {
    for (hot_bytes, waiting) in [(0, 2), (u64::MAX, 1)] {
        let mut world = World::with_hot(Limits::default(), hot_bytes);
        let a = durable(&mut world, "a");
        let mut shared = to("t", QoS::AtLeastOnce);
        shared.share = Some("g".into());
        world.subscribe(a, shared);
        world.detach(a, DetachCause::Lost);
        for (payload, ms) in [("0", 10_400), ("1", 20_000)] {
            send_for(&mut world, "t", payload, ms);
        }
        world.settle();
        world.pass_time(10_500);
        assert_eq!(queued(&world), waiting, "{hot_bytes}");
        world.attach(a, Options::durable());
        world.settle();
        assert_eq!(world.got(a), ["1"], "{hot_bytes}");
        world.pass_time(1_000);
        world.settle();
        assert_eq!((queued(&world), expired(&world)), (0, 1), "{hot_bytes}");
    }
}

/// All that waits for a group has expired before a member comes: no call ends more than some of it.
#[test]
fn i10_a_member_that_comes_ends_some_of_what_has_expired_at_once() {
    const WAITING: u64 = 6_000;
    let mut world = World::with_hot(Limits::default(), u64::MAX);
    let a = durable(&mut world, "a");
    let mut shared = to("t", QoS::AtLeastOnce);
    shared.share = Some("g".into());
    world.subscribe(a, shared);
    world.detach(a, DetachCause::Lost);
    let publish = Publish {
        expires_at: Some(WallMs(world.now.wall.0 + 10_400)),
        ..message("t", "x", QoS::AtLeastOnce)
    };
    for _ in 0..WAITING {
        world.append_to(DURABLE, &publish);
    }
    world.settle();
    assert_eq!(queued(&world), WAITING);
    world.now.tick.0 += 10_450;
    world.now.wall.0 += 10_450;
    world.connect(a, Options::durable());
    let mut turns = 0;
    while expired(&world) == 0 {
        world.turn();
        turns += 1;
        assert!(turns < 100, "it ends");
    }
    let ended = expired(&world);
    assert!(ended <= 4_096, "{ended} in one call");
    world.pass_time(0);
    world.settle();
    assert_eq!((queued(&world), expired(&world)), (0, WAITING));
    send_for(&mut world, "t", "new", 10_000);
    world.settle();
    assert_eq!(world.got(a), ["new"]);
}

/// A stream had come to a message that expired before it was asked for. It is not read, and the check of what streams wait for took that for a fault.
#[test]
fn m20_what_expires_before_it_is_asked_for_is_not_read_and_holds_up_nothing() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    send_for(&mut world, "t", "0", 2_000);
    world.send("t", "1", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(cold(&world), 2);
    world.commits = Commits::Held;
    world.recalling = Recalling::Held;
    world.connect(a, Options::durable());
    // All in one turn.
    while world.commit_one(DURABLE) {}
    assert!(world.nodes[&DURABLE].partition.has_question());
    world.now.tick.0 += 3_000;
    world.now.wall.0 += 3_000;
    world.call(DURABLE, |partition, now, fx| {
        partition.handle_timeout(now, fx)
    });
    world.turn();
    assert_eq!((queued(&world), expired(&world)), (2, 1));
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!((world.got(a), queued(&world)), (numbers(1..2), 0));
}

/// A chunk whose messages expire one after the other was looked at again before the end of the first had committed, which was counted once more.
#[test]
fn m20_what_has_expired_is_counted_once_however_long_its_end_takes_to_commit() {
    for hot_bytes in [0, 64 << 20] {
        let mut world = World::with_hot(Limits::default(), hot_bytes);
        away(&mut world, "a", "t");
        for ms in [2_000, 4_000, 6_000] {
            send_for(&mut world, "t", "x", ms);
        }
        world.settle();
        world.commits = Commits::Held;
        for gone in 1..=3 {
            world.pass_time(2_000);
            assert_eq!((expired(&world), queued(&world)), (gone, 3), "{hot_bytes}");
        }
        world.pass_time(2_000);
        world.commits = Commits::AtOnce;
        world.settle();
        assert_eq!((expired(&world), queued(&world)), (3, 0), "{hot_bytes}");
    }
}

/// All that waited up to the limit below which everything counts as sent expired: nobody asked for a higher one, and what came next waited until the
/// client came again.
#[test]
fn m30_a_session_goes_on_behind_what_expired_up_to_its_limit() {
    for (hot_bytes, count) in (0..8).flat_map(|count| [(0, count), (64 << 20, count)]) {
        let mut world = World::with_hot(Limits::default(), hot_bytes);
        let a = away(&mut world, "a", "other");
        let options = Options {
            receive_maximum: 1,
            ..Options::durable()
        };
        world.attach(a, options);
        world.subscribe(a, to("t", QoS::ExactlyOnce));
        world.clients[a].acks = Acks::Held;
        world.send("t", "0", QoS::ExactlyOnce);
        for _ in 0..count {
            send_for(&mut world, "t", "x", 2_000);
        }
        world.settle();
        world.pass_time(4_000);
        world.settle();
        world.clients[a].acks = Acks::Auto;
        world.ack(a, 1);
        world.pass_time(1_000);
        world.settle();
        assert_eq!((queued(&world), expired(&world)), (0, count));
        world.send("t", "1", QoS::AtLeastOnce);
        world.settle();
        assert_eq!(world.got(a), numbers(0..2), "{count} have expired");
    }
}
