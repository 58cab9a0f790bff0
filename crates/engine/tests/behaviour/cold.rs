//! Records that wait for long are only in the log, and come back when somebody takes them (M17).

use courser_contract::{DetachCause, Dropped, QoS};
use courser_engine::{Limits, LostStream, Overflow, Partition};

use crate::checkpoints::whole;
use crate::people::durable;
use crate::world::{Acks, DURABLE, OTHER, Options, Recalling, World, to};

pub(crate) const COUNT: usize = 40;

pub(crate) fn numbers(range: std::ops::Range<usize>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

/// A session that is away, with messages that wait for it.
pub(crate) fn away(world: &mut World, name: &str, topic: &str) -> usize {
    let at = durable(world, name);
    world.subscribe(at, to(topic, QoS::AtLeastOnce));
    world.detach(at, DetachCause::Lost);
    at
}

pub(crate) fn cold(world: &World) -> u64 {
    world.nodes[&DURABLE].partition.counts().cold_records
}

#[test]
fn m17_what_waits_leaves_memory_and_comes_back_in_order() {
    let mut world = World::with_hot(Limits::default(), 400);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert!(counts.cold_records > COUNT as u64 / 2);
    assert!(counts.record_bytes <= 400, "{} bytes", counts.record_bytes);
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), numbers(0..COUNT));
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

#[test]
fn a_lowered_limit_counts_where_nothing_else_happens() {
    let mut world = World::with_hot(Limits::default(), 64 << 20);
    away(&mut world, "a", "t");
    let payload = "x".repeat(100_000);
    for _ in 0..COUNT {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    assert_eq!(cold(&world), 0);
    let limits = Limits {
        hot_bytes: 400,
        ..Limits::default()
    };
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    node.partition.set_limits(limits);
    let first = cold(&world);
    assert!(first < COUNT as u64, "not all at once: {first}");
    world.pass_time(0);
    assert!(cold(&world) > first);
    for _ in 0..COUNT {
        world.pass_time(0);
    }
    assert_eq!(cold(&world), COUNT as u64);
    let due = world.nodes[&DURABLE].partition.poll_timeout();
    assert!(due.is_none_or(|due| due > world.now.tick), "it is done");
}

#[test]
fn a_stream_waits_for_its_record_and_passes_nothing_by() {
    let mut world = World::with_hot(Limits::default(), 400);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.recalling = Recalling::Held;
    world.attach(a, Options::durable());
    world.send("t", &COUNT.to_string(), QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.got(a), [""; 0], "the last one is in memory");
    world.recall_some(DURABLE, 2);
    world.settle();
    assert_eq!(world.got(a), numbers(0..2));
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(a), numbers(2..COUNT + 1));
}

#[test]
fn what_may_be_needed_without_warning_stays_in_memory() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t/#");
    world.send("t/plain", "goes", QoS::AtLeastOnce);
    world.settle();
    let gone = cold(&world);
    assert_eq!(gone, 1);
    world.retain("t/retained", "x", QoS::AtLeastOnce);
    world.settle();
    let kept: usize = [DURABLE, OTHER]
        .map(|id| world.nodes[&id].partition.records_in_memory().count())
        .iter()
        .sum();
    assert!(kept >= 1, "the retained one stays");
    assert!(
        cold(&world) <= gone + 1,
        "the retained one may be stored twice"
    );
    world.restart(DURABLE);
    world.settle();
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["goes", "x"]);
}

#[test]
fn m44_a_record_that_cannot_be_read_back_stops_its_stream_until_the_loss_is_accepted() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    let b = away(&mut world, "b", "u");
    for payload in ["0", "1", "2"] {
        world.send("t", payload, QoS::AtLeastOnce);
        world.send("u", payload, QoS::AtLeastOnce);
    }
    world.settle();
    world.damaged = true;
    let lost = world.damage(DURABLE, b"t1");
    world.attach(a, Options::durable());
    world.attach(b, Options::durable());
    world.settle();
    assert_eq!(world.got(a), ["0"]);
    assert_eq!(world.got(b), ["0", "1", "2"]);
    let named = world.nodes[&DURABLE].partition.lost();
    assert_eq!(named.len(), 1);
    assert_eq!(named[0].stream, LostStream::Session("a".into()));
    assert_eq!(named[0].index, lost);
    world.accept_losses(DURABLE);
    world.settle();
    assert_eq!(world.got(a), ["2"]);
    assert_eq!(world.fx.dropped[&Dropped::Damaged], 1);
}

/// It has reached its client before it is lost for another one: the client's half of the exchange goes on.
#[test]
fn m30_a_message_that_was_pushed_and_is_lost_is_released_when_the_client_has_it() {
    let mut world = World::with_hot(Limits::default(), 0);
    let [a, b] = ["a", "b"].map(|name| {
        let at = durable(&mut world, name);
        world.subscribe(at, to("t", QoS::ExactlyOnce));
        world.clients[at].acks = Acks::Held;
        at
    });
    world.detach(b, DetachCause::Lost);
    world.send("t", "1", QoS::ExactlyOnce);
    world.settle();
    let first = world.clients[a].got[0].source.expect("it has a place");
    world.damaged = true;
    world.damage(DURABLE, b"t1");
    world.attach(b, Options::durable());
    world.settle();
    assert!(world.got(b).is_empty());
    assert_eq!(world.nodes[&DURABLE].partition.lost().len(), 2);
    world.accept_losses(DURABLE);
    world.settle();
    assert!(world.nodes[&DURABLE].partition.lost().is_empty());
    assert!(world.clients[a].released.is_empty(), "no PUBREC has come");
    for (to, message) in world.clients[a].ack(1) {
        world.send_home(to, message);
    }
    world.settle();
    assert_eq!(world.clients[a].released, [first]);
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

#[test]
fn an_answer_for_what_is_gone_changes_nothing() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..4) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.recalling = Recalling::Held;
    world.attach(a, Options::durable());
    // A clean start ends the session; rows of its records are used again.
    world.detach(a, DetachCause::Lost);
    world.attach(
        a,
        Options {
            clean_start: true,
            ..Options::durable()
        },
    );
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.detach(a, DetachCause::Lost);
    for payload in numbers(4..8) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    world.recalling = Recalling::AtOnce;
    world.settle();
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), numbers(4..8));
}

#[test]
fn who_does_not_take_keeps_nobodys_room() {
    let mut world = World::with_hot(Limits::default(), 600);
    let (a, b) = (away(&mut world, "a", "t"), away(&mut world, "b", "t"));
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    world.clients[a].acks = Acks::Held;
    world.attach(
        a,
        Options {
            receive_maximum: 1,
            ..Options::durable()
        },
    );
    world.attach(b, Options::durable());
    world.settle();
    assert_eq!(world.got(b), numbers(0..COUNT));
    assert_eq!(world.got(a), numbers(0..1));
}

#[test]
fn what_was_asked_for_comes_to_the_next_leader() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.recalling = Recalling::Held;
    world.attach(a, Options::durable());
    world.depose(DURABLE, 0);
    world.recall_some(DURABLE, 3);
    world.turn();
    world.elect(DURABLE);
    world.settle();
    world.recalling = Recalling::AtOnce;
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), numbers(0..COUNT));
}

#[test]
fn m12_what_is_on_its_way_out_of_the_log_is_not_what_a_full_session_drops() {
    let limits = Limits {
        queue_messages_max: 100,
        overflow: Overflow::DropOldest,
        ..Limits::default()
    };
    let mut world = World::with_hot(limits, 400);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..100) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.recalling = Recalling::Held;
    world.attach(a, Options::durable());
    for payload in numbers(100..160) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.recall_some(DURABLE, 3);
    world.settle();
    assert_eq!(world.got(a), numbers(0..3));
}

#[test]
fn m44_a_connection_that_comes_again_tries_what_could_not_be_read() {
    let mut world = World::with_hot(Limits::default(), 0);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..4) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    world.damaged = true;
    world.damage(DURABLE, b"t2");
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), numbers(0..2));
    assert!(world.nodes[&DURABLE].partition.has_lost());
    world.mend(DURABLE);
    world.detach(a, DetachCause::Lost);
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.got(a), numbers(2..4));
    assert!(!world.nodes[&DURABLE].partition.has_lost());
}

/// Two have come to what could not be read; the one that comes again has it read for both.
#[test]
fn m44_what_another_connection_has_read_again_goes_to_all_who_stopped_there() {
    let mut world = World::with_hot(Limits::default(), 0);
    let stays = away(&mut world, "stays", "t");
    let comes = away(&mut world, "comes", "t");
    for payload in numbers(0..4) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    world.damaged = true;
    world.damage(DURABLE, b"t2");
    for at in [stays, comes] {
        world.attach(at, Options::durable());
        world.settle();
        assert_eq!(world.got(at), numbers(0..2));
    }
    world.mend(DURABLE);
    world.detach(comes, DetachCause::Lost);
    world.attach(comes, Options::durable());
    world.settle();
    assert_eq!(world.got(comes), numbers(2..4));
    assert_eq!(world.got(stays), numbers(2..4));
}

/// A connection tries what lies far ahead of it as well, and asks for it when it comes to it: it leaves before.
#[test]
fn m44_who_stopped_at_a_record_asks_for_it_when_another_connection_tries_it_again() {
    let mut world = World::with_hot(Limits::default(), 0);
    let stays = away(&mut world, "stays", "t");
    let comes = away(&mut world, "comes", "t");
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
        world.settle();
    }
    world.damaged = true;
    world.damage(DURABLE, b"t30");
    world.attach(stays, Options::durable());
    world.settle();
    assert_eq!(world.got(stays), numbers(0..30));
    world.damage(DURABLE, b"t2");
    world.attach(comes, Options::durable());
    world.settle();
    assert_eq!(world.got(comes), numbers(0..2));
    world.mend(DURABLE);
    world.detach(comes, DetachCause::Lost);
    world.recalling = Recalling::Held;
    let one_by_one = Options {
        receive_maximum: 1,
        ..Options::durable()
    };
    world.attach(comes, one_by_one);
    world.detach(comes, DetachCause::Lost);
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(stays), numbers(30..COUNT));
}

/// What is lost far behind the first loss is tried when the connection comes to it: it takes no look at all that waits when it begins.
#[test]
fn i10_a_connection_tries_what_could_not_be_read_when_it_comes_to_it() {
    const WAITING: usize = 640;
    // Room for all that is asked for ahead: otherwise what comes behind a lost record keeps the room of what is needed before it.
    let mut world = World::with_hot(Limits::default(), 2_000);
    let ahead = away(&mut world, "ahead", "t");
    let behind = away(&mut world, "behind", "t");
    for payload in numbers(0..WAITING) {
        world.send("t", &payload, QoS::AtLeastOnce);
        world.settle();
    }
    let takes = |world: &mut World, at: usize| {
        world.attach(at, Options::durable());
        world.settle();
        world.detach(at, DetachCause::Lost);
        world.got(at)
    };
    let lost = |world: &World| world.nodes[&DURABLE].partition.lost().len();
    world.damaged = true;
    world.damage(DURABLE, b"t530");
    assert_eq!(takes(&mut world, ahead), numbers(0..530));
    world.damage(DURABLE, b"t2");
    assert_eq!(takes(&mut world, behind), numbers(0..2));
    assert_eq!(lost(&world), 3, "one of them for both");
    world.mend(DURABLE);
    world.recalling = Recalling::Held;
    assert!(takes(&mut world, behind).is_empty());
    assert_eq!(lost(&world), 2, "what is far is not looked at");
    world.recalling = Recalling::AtOnce;
    assert_eq!(takes(&mut world, behind), numbers(2..WAITING));
    assert_eq!(lost(&world), 0);
    assert_eq!(takes(&mut world, ahead), numbers(530..WAITING));
}

/// What another connection finds lost meanwhile is no reason not to try what was lost before this one began.
#[test]
fn m44_a_connection_tries_lost_records_although_more_are_lost() {
    let mut world = World::with_hot(Limits::default(), 0);
    let [a, b] = ["a", "b"].map(|name| away(&mut world, name, name));
    for payload in numbers(0..4) {
        world.send("a", &payload, QoS::AtLeastOnce);
        world.send("b", &payload, QoS::AtLeastOnce);
        world.settle();
    }
    let one_by_one = Options {
        receive_maximum: 1,
        ..Options::durable()
    };
    let rests = |world: &mut World| {
        for _ in 0..4 {
            world.pass_time(100);
            world.settle();
        }
    };
    let lost = |world: &World| world.nodes[&DURABLE].partition.lost().len();
    world.damaged = true;
    world.damage(DURABLE, b"a2");
    world.clients[a].acks = Acks::Held;
    world.attach(a, one_by_one.clone());
    rests(&mut world);
    assert_eq!((world.got(a), lost(&world)), (numbers(0..1), 1));
    world.detach(a, DetachCause::Lost);
    world.mend(DURABLE);
    world.attach(a, one_by_one);
    world.damage(DURABLE, b"b1");
    world.attach(b, Options::durable());
    world.settle();
    assert_eq!((world.got(b), lost(&world)), (numbers(0..1), 2));
    world.mend(DURABLE);
    world.clients[a].acks = Acks::Auto;
    for (to, message) in world.clients[a].ack(1) {
        world.send_home(to, message);
    }
    world.settle();
    assert_eq!(world.got(a), numbers(0..4));
    // What the other one has found lost itself is lost for it.
    world.send("b", "4", QoS::AtLeastOnce);
    rests(&mut world);
    assert_eq!((world.got(b), lost(&world)), (vec![], 1));
}

#[test]
fn a_message_for_many_who_come_one_after_the_other_keeps_no_room() {
    let mut world = World::with_hot(Limits::default(), 600);
    let names: Vec<usize> = (0..4)
        .map(|name| away(&mut world, &name.to_string(), "t"))
        .collect();
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    world.settle();
    let before = world.now.tick;
    for at in names {
        world.attach(at, Options::durable());
        world.settle();
        assert_eq!(world.got(at), numbers(0..COUNT));
    }
    assert_eq!(world.now.tick, before, "nobody has waited for room");
}

/// A partition as a start makes it that leaves so many bytes of what waits in the log, and how many entries it has read.
pub(crate) fn start(world: &mut World, cold_from: u64) -> (Partition, usize) {
    let whole = whole(world);
    let log = world.nodes[&DURABLE].log.iter().cloned().collect();
    whole.restore_cold(world.config[&DURABLE].clone(), cold_from, &log)
}

#[test]
fn a_start_leaves_what_waits_in_the_log_and_reads_what_may_be_needed_without_warning() {
    let mut world = World::with_hot(Limits::default(), 64 << 20);
    away(&mut world, "a", "t/#");
    for payload in numbers(0..COUNT) {
        world.send("t/plain", &payload, QoS::AtLeastOnce);
    }
    assert_eq!(cold(&world), 0);
    let (started, read) = start(&mut world, 0);
    assert_eq!((started.counts().cold_records, read), (COUNT as u64, 0));
    world.retain("t/retained", "x", QoS::AtLeastOnce);
    let (started, read) = start(&mut world, 0);
    assert_eq!((started.counts().cold_records, read), (COUNT as u64, 1));
    assert_eq!(started.records_in_memory().count(), 1);
    // As much as is read at once, and no more.
    let bytes = world.nodes[&DURABLE].partition.records_in_memory();
    let bytes: usize = bytes.map(|(.., it)| it.encoded_len()).sum();
    let (started, read) = start(&mut world, bytes as u64);
    assert_eq!((started.counts().cold_records, read), (0, COUNT + 1));
}

#[test]
fn m17_what_a_start_has_left_in_the_log_comes_in_order() {
    let mut world = World::with_hot(Limits::default(), 64 << 20);
    let a = away(&mut world, "a", "t");
    for payload in numbers(0..COUNT) {
        world.send("t", &payload, QoS::AtLeastOnce);
    }
    let (started, _) = start(&mut world, 0);
    world.put(DURABLE, started);
    world.elect(DURABLE);
    world.settle();
    world.attach(a, Options::durable());
    world.send("t", &COUNT.to_string(), QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.got(a), numbers(0..COUNT + 1));
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
}

#[test]
fn bytes_that_are_not_the_record_that_was_asked_for_are_not_delivered() {
    let mut world = World::with_hot(Limits::default(), 64 << 20);
    let a = away(&mut world, "a", "t");
    for payload in ["0", "a longer one that makes it 8 bytes more", "2"] {
        world.send("t", payload, QoS::AtLeastOnce);
    }
    let (started, _) = start(&mut world, 0);
    world.damaged = true;
    world.put(DURABLE, started);
    world.elect(DURABLE);
    world.settle();
    world.recalling = Recalling::Held;
    world.attach(a, Options::durable());
    world.settle();
    world.confuse_lengths(DURABLE);
    world.recalling = Recalling::AtOnce;
    world.settle();
    assert_eq!(world.got(a), numbers(0..1));
    assert!(world.nodes[&DURABLE].partition.has_lost());
}
