//! Records whose bytes the disk has lost: only what needs them stops, at their place, until the loss is accepted (M44).

use courser_contract::{DetachCause, Dropped, LogIndex, QoS, Seq, Source};
#[cfg(feature = "planted")]
use courser_engine::PlantedPartition;
use courser_engine::{LostReference, LostStream, ReferenceSearch};

use crate::world::{Acks, Commits, DURABLE, Got, Options, World, to};

const A: usize = 0;
const B: usize = 1;

/// Two absent sessions; the first has "1", "2", "3", the second "2" and "4". All of that is in a checkpoint.
fn world() -> World {
    let mut world = World::new();
    for (name, filter) in [("a", "a/#"), ("b", "+/b")] {
        let at = world.client(name);
        world.attach(at, Options::durable());
        world.subscribe(at, to(filter, QoS::AtLeastOnce));
        world.detach(at, DetachCause::Lost);
    }
    for (topic, payload) in [("a/x", "1"), ("a/b", "2"), ("a/x", "3"), ("x/b", "4")] {
        world.send(topic, payload, QoS::AtLeastOnce);
        world.settle();
    }
    world.retain("r/1", "kept", QoS::AtLeastOnce);
    world.retain("r/2", "lost", QoS::AtLeastOnce);
    world.settle();
    save(&mut world);
    world
}

/// Turns until a checkpoint has all of it.
fn save(world: &mut World) {
    for _ in 0..10_000 {
        world.pass_time(1);
        let node = &world.nodes[&DURABLE];
        let whole = node.checkpoints.whole();
        if whole.is_some_and(|whole| whole.end.index == node.partition.applied()) {
            return;
        }
    }
    panic!("no checkpoint becomes whole");
}

/// The entry that brought a payload.
fn entry_of(world: &World, payload: &str) -> LogIndex {
    let log = &world.nodes[&DURABLE].log;
    let bytes = payload.as_bytes();
    let holds = |entry: &[u8]| entry.windows(8 + bytes.len()).any(|at| at.ends_with(bytes));
    let found = log.iter().filter(|(at, entry)| {
        let whole = world.nodes[&DURABLE].checkpoints.whole();
        whole.is_some_and(|it| it.end.live.contains(*at)) && holds(entry)
    });
    let found: Vec<_> = found.map(|(at, _)| *at).collect();
    assert_eq!(found.len(), 1, "one entry has {payload:?}");
    found[0]
}

/// The entries in the order of the messages, whatever their bytes are.
fn live(world: &World) -> Vec<LogIndex> {
    let whole = world.nodes[&DURABLE].checkpoints.whole();
    let whole = whole.expect("it was waited for");
    let ranges = whole.end.live.ranges();
    ranges
        .flat_map(|(first, last)| (first.0..=last.0).map(LogIndex))
        .collect()
}

/// Starts without the entry of one of the messages, by their order.
fn restart_without(world: &mut World, message: usize) -> LogIndex {
    let lost = live(world)[message];
    world.restart_without(DURABLE, &[lost]);
    world.settle();
    lost
}

/// A client acknowledges one message and is gone before that is committed.
fn receive_and_leave(world: &mut World, at: usize) {
    world.commits = Commits::Held;
    for (to, message) in world.clients[at].ack(1) {
        world.send_home(to, message);
    }
    for (to, message) in world.clients[at].detach(DetachCause::Lost) {
        world.send_home(to, message);
    }
    world.settle();
    world.commits = Commits::AtOnce;
    world.clients[at].lost();
}

fn attach_all(world: &mut World) {
    for at in [A, B] {
        world.clients[at].acks = Acks::Auto;
        world.attach(at, Options::durable());
    }
    world.settle();
}

#[test]
fn m44_streams_stop_at_the_damaged_record_and_others_go_on() {
    let mut world = world();
    restart_without(&mut world, 1);
    let partition = &world.nodes[&DURABLE].partition;
    assert!(partition.serves());
    let found: Vec<_> = partition.lost().into_iter().map(|it| it.stream).collect();
    assert_eq!(
        found,
        [
            LostStream::Session("a".into()),
            LostStream::Session("b".into())
        ]
    );
    attach_all(&mut world);
    assert_eq!(world.got(A), ["1"], "and not 3, which is behind it");
    assert!(world.got(B).is_empty());
    // What comes now waits behind it; who does not need the record hears everything.
    let other = world.client("c");
    world.attach(other, Options::durable());
    world.subscribe(other, to("a/#", QoS::AtLeastOnce));
    let ticket = world.send("a/x", "5", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(ticket));
    assert_eq!(world.got(other), ["5"]);
    assert!(world.got(A).is_empty());
}

#[test]
fn m44_an_accepted_loss_is_counted_and_streams_go_on_behind_it() {
    let mut world = world();
    let all = live(&world);
    let (lost, retained) = (all[1], entry_of(&world, "lost"));
    world.restart_without(DURABLE, &[lost, retained]);
    world.settle();
    let said = world.call(DURABLE, |partition, now, fx| {
        partition.accept_loss(now, |index| index == lost, fx)
    });
    world.settle();
    assert_eq!(said.len(), 2);
    assert_eq!(world.fx.dropped.get(&Dropped::Damaged), Some(&2));
    attach_all(&mut world);
    assert_eq!(world.got(A), ["1", "3"]);
    assert_eq!(world.got(B), ["4"]);
    // What was not accepted stays as it is.
    let left = world.nodes[&DURABLE].partition.lost();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].stream, LostStream::Retained("r/2".into()));
    let said = world.accept_losses(DURABLE);
    world.settle();
    assert_eq!(said, left);
    assert!(world.nodes[&DURABLE].partition.lost().is_empty());
    // All is as its entries make it again: the loss is in the log.
    world.damaged = false;
    world.check();
}

/// A search for what is lost, so many places at a time, and how many calls that takes.
fn search(world: &mut World, steps: usize) -> (usize, Vec<LostReference>) {
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    for calls in 1.. {
        if let Some((losses, found)) = node.partition.search_lost(steps) {
            assert_eq!(losses, node.partition.losses());
            return (calls, found);
        }
    }
    unreachable!("a search comes to its end");
}

#[test]
fn i10_a_search_for_what_is_lost_is_work_of_many_turns() {
    let mut world = world();
    let lost = [live(&world)[1], entry_of(&world, "lost")];
    world.restart_without(DURABLE, &lost);
    world.settle();
    let all = world.nodes[&DURABLE].partition.lost();
    assert_eq!(all.len(), 3);
    // Five messages that wait, two that are retained, two sessions at their end.
    for (steps, calls) in [(1, 10), (2, 5), (5, 2), (100, 1)] {
        let (took, found) = search(&mut world, steps);
        assert_eq!(found, all, "{steps} at a time");
        assert!(
            took.abs_diff(calls) <= 1,
            "{took} calls for {steps} at a time"
        );
    }
}

/// Places that need records of some entries, so many places at a time, and how many calls that takes.
fn references(
    world: &World,
    steps: usize,
    is_meant: impl Fn(LogIndex) -> bool,
) -> (usize, Vec<LostReference>) {
    let partition = &world.nodes[&DURABLE].partition;
    let mut found = Vec::new();
    let mut next = Some(ReferenceSearch::default());
    let mut calls = 0;
    while let Some(from) = next {
        let (more, behind) = partition.search_references(from, steps, |index, _| is_meant(index));
        assert!(more.len() <= steps, "no more is named than looked at");
        found.extend(more);
        (next, calls) = (behind, calls + 1);
    }
    found.sort();
    (calls, found)
}

/// A report of damage walked over all that a partition stores in one turn, for each damage once.
#[test]
fn i10_what_needs_damaged_records_is_found_in_many_turns() {
    let mut world = world();
    let lost = [live(&world)[1], entry_of(&world, "lost")];
    world.restart_without(DURABLE, &lost);
    world.settle();
    let expected = world.nodes[&DURABLE].partition.lost();
    assert_eq!(expected.len(), 3);
    for (steps, calls) in [(1, 10), (2, 5), (5, 2), (100, 1)] {
        let (took, found) = references(&world, steps, |index| lost.contains(&index));
        assert_eq!(found, expected, "{steps} at a time");
        assert!(
            took.abs_diff(calls) <= 1,
            "{took} calls for {steps} at a time"
        );
    }
    let (_, all) = references(&world, 3, |_| true);
    assert_eq!(
        all.len(),
        7,
        "five messages that wait, two that are retained"
    );
}

#[test]
fn m44_what_has_ended_while_it_is_searched_for_is_not_named() {
    let mut world = world();
    let lost = [live(&world)[1], entry_of(&world, "lost")];
    world.restart_without(DURABLE, &lost);
    world.settle();
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    let before = node.partition.losses();
    for _ in 0..5 {
        assert!(node.partition.search_lost(1).is_none());
    }
    world.call(DURABLE, |partition, now, fx| {
        partition.accept_loss(now, |index| index == lost[0], fx)
    });
    world.settle();
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    let (losses, found) = node.partition.search_lost(100).expect("it is through");
    assert_eq!(found, node.partition.lost());
    assert_eq!((found.len(), losses), (1, before));
    assert_ne!(losses, node.partition.losses(), "another search is due");
}

/// One of two sessions that need a lost message ends: the other one is all that is left.
#[test]
fn m44_what_is_lost_for_one_session_less_is_another_loss() {
    let mut world = world();
    restart_without(&mut world, 1);
    let partition = &world.nodes[&DURABLE].partition;
    let (before, losses) = (partition.lost().len(), partition.losses());
    let anew = Options {
        clean_start: true,
        ..Options::durable()
    };
    world.attach(A, anew);
    world.settle();
    let partition = &world.nodes[&DURABLE].partition;
    assert_eq!((before, partition.lost().len()), (2, 1));
    assert_ne!(partition.losses(), losses);
}

#[test]
fn m44_a_damaged_retained_message_is_not_found_and_counted_once_when_its_loss_is_accepted() {
    let mut world = world();
    let lost = entry_of(&world, "lost");
    world.restart_without(DURABLE, &[lost]);
    world.settle();
    let reader = world.client("reader");
    world.attach(reader, Options::durable());
    world.subscribe(reader, to("r/#", QoS::AtLeastOnce));
    assert_eq!(world.got(reader), ["kept"]);
    let other = world.client("other");
    world.attach(other, Options::durable());
    world.subscribe(other, to("#", QoS::AtLeastOnce));
    let dropped = |world: &World| world.fx.dropped.get(&Dropped::Damaged).copied();
    assert_eq!(dropped(&world), None, "however many ask for it");
    let shown = |world: &World| {
        let partition = &world.nodes[&DURABLE].partition;
        let lost = partition.retained_of("r/2")?.lost;
        let page = partition.retained_page("r/#", None, (9, 99));
        let listed: Vec<_> = page.found.iter().filter_map(|it| it.lost.clone()).collect();
        assert_eq!(listed, Vec::from_iter(lost.clone()));
        lost
    };
    assert_eq!(shown(&world).as_deref(), Some("r/2"), "by its topic");
    world.accept_losses(DURABLE);
    world.settle();
    assert_eq!(dropped(&world), Some(1));
    assert_eq!(shown(&world), None);
    // A newer one takes its place.
    world.retain("r/2", "new", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.got(reader), ["new"]);
    assert!(world.nodes[&DURABLE].partition.lost().is_empty());
}

#[test]
fn m44_a_damage_is_there_again_after_each_restart_until_it_is_accepted() {
    let mut world = world();
    let lost = live(&world)[1];
    for _ in 0..3 {
        world.restart_without(DURABLE, &[lost]);
        world.settle();
        save(&mut world);
        assert_eq!(world.nodes[&DURABLE].partition.lost().len(), 2);
    }
    world.accept_losses(DURABLE);
    world.settle();
    save(&mut world);
    assert!(!live(&world).contains(&lost), "nobody needs it any more");
}

/// Found by the simulator: the exchange was ended behind the client's back when the loss was accepted.
#[test]
fn m44_an_exchange_that_needs_no_bytes_is_not_lost() {
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::durable());
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    for payload in ["1", "2"] {
        world.send("t", payload, QoS::ExactlyOnce);
        world.settle();
    }
    receive_and_leave(&mut world, a);
    save(&mut world);
    let lost = restart_without(&mut world, 0);
    assert!(world.nodes[&DURABLE].partition.lost().is_empty());
    let (_, needed) = references(&world, 1, |index| index == lost);
    assert!(needed.is_empty());
    let said = world.accept_losses(DURABLE);
    world.settle();
    assert!(said.is_empty());
    world.clients[a].got.clear();
    world.attach(a, Options::durable());
    assert_eq!(world.clients[a].released.len(), 1, "PUBREL of the first");
    assert_eq!(world.got(a), ["2"]);
}

/// A session that has begun two exchanges of QoS 2 and is away, after a start that lacks the message of the first. What that is.
fn begun() -> (World, usize, (Source, Seq)) {
    let mut world = World::new();
    let a = world.client("a");
    world.attach(a, Options::durable());
    world.subscribe(a, to("t", QoS::ExactlyOnce));
    world.clients[a].acks = Acks::Held;
    for payload in ["1", "2"] {
        world.send("t", payload, QoS::ExactlyOnce);
        world.settle();
    }
    let first = world.clients[a].got[0].source.expect("it has a place");
    assert_eq!(world.got(a), ["1", "2"]);
    world.detach(a, DetachCause::Lost);
    save(&mut world);
    restart_without(&mut world, 0);
    assert_eq!(world.nodes[&DURABLE].partition.lost().len(), 1);
    (world, a, first)
}

/// The operator accepts the loss of all that is lost: one message.
fn accept(world: &mut World) {
    let before = world.nodes[&DURABLE].partition.losses();
    let said = world.accept_losses(DURABLE);
    world.settle();
    assert_eq!(said.len(), 1);
    assert_eq!(world.fx.dropped.get(&Dropped::Damaged), Some(&1));
    let partition = &world.nodes[&DURABLE].partition;
    assert!(partition.lost().is_empty());
    assert_ne!(partition.losses(), before, "who asks by number looks again");
}

/// All has come to its end, at the client as well, and is as its entries make it again.
fn is_over(world: &mut World, at: usize) {
    let client = &world.clients[at];
    assert!(client.held.is_empty(), "the client holds no packet id");
    assert_eq!(world.nodes[&DURABLE].partition.counts().records, 0);
    world.damaged = false;
    world.check();
}

/// Found by the simulator: the message was dropped behind the back of its client, which took the next one with the packet id for a repeat.
#[test]
fn m30_a_lost_message_that_was_sent_keeps_its_packet_id_until_it_is_released() {
    let (mut world, a, first) = begun();
    accept(&mut world);
    world.attach(a, Options::durable());
    world.settle();
    assert_eq!(world.clients[a].released, [first]);
    assert_eq!(world.got(a), ["2"]);
    for (to, message) in world.clients[a].ack(1) {
        world.send_home(to, message);
    }
    world.settle();
    is_over(&mut world, a);
}

#[test]
fn m30_a_connection_that_stands_at_a_lost_message_releases_it() {
    let (mut world, a, first) = begun();
    world.clients[a].acks = Acks::Auto;
    world.attach(a, Options::durable());
    world.settle();
    assert!(world.got(a).is_empty() && world.clients[a].released.is_empty());
    accept(&mut world);
    assert_eq!(world.clients[a].released[0], first);
    assert_eq!(world.got(a), ["2"]);
    is_over(&mut world, a);
}

/// A search for what is lost that had found it names it no more.
#[test]
fn m44_what_is_received_is_no_loss_any_more() {
    let (mut world, _, _) = begun();
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    let before = node.partition.losses();
    assert!(node.partition.search_lost(1).is_none());
    accept(&mut world);
    let node = world.nodes.get_mut(&DURABLE).expect("it is there");
    let (losses, found) = node.partition.search_lost(100).expect("it is through");
    assert_eq!((found, losses), (Vec::new(), before));
}

fn in_group() -> courser_contract::Subscription {
    courser_contract::Subscription {
        share: Some("g".into()),
        ..to("s", QoS::ExactlyOnce)
    }
}

/// A member of a group has begun two exchanges of QoS 2, under packet ids of its own, and is away.
fn begun_by_member() -> (World, usize, Vec<Got>) {
    let mut world = World::new();
    let member = world.client("member");
    world.attach(member, Options::durable());
    world.subscribe(member, in_group());
    world.clients[member].acks = Acks::Held;
    for payload in ["1", "2"] {
        world.send("s", payload, QoS::ExactlyOnce);
        world.settle();
    }
    let got = std::mem::take(&mut world.clients[member].got);
    assert_eq!(got.len(), 2);
    (world, member, got)
}

#[test]
fn m31_a_lost_message_of_a_member_keeps_its_packet_id_until_it_is_released() {
    for is_there in [false, true] {
        let (mut world, member, got) = begun_by_member();
        world.detach(member, DetachCause::Lost);
        save(&mut world);
        restart_without(&mut world, 0);
        if is_there {
            world.attach(member, Options::durable());
            world.settle();
            let (_, seq) = got[0].source.expect("it has a place");
            let packet_id = got[0].packet_id.expect("it was named");
            assert_eq!(world.clients[member].withheld, [(seq, packet_id)]);
            world.send("s", "3", QoS::ExactlyOnce);
            world.settle();
            assert_eq!(world.got(member), ["2"], "nothing new behind what is lost");
        }
        accept(&mut world);
        if !is_there {
            world.attach(member, Options::durable());
            world.send("s", "3", QoS::ExactlyOnce);
            world.settle();
            assert_eq!(world.got(member), ["2", "3"]);
        } else {
            assert_eq!(world.got(member), ["3"]);
        }
        let first = got[0].source.expect("it has a place");
        assert_eq!(world.clients[member].released, [first]);
        for (to, message) in world.clients[member].ack(2) {
            world.send_home(to, message);
        }
        world.settle();
        is_over(&mut world, member);
    }
}

/// Who has begun with the message is away, and something else is committed between that its loss is accepted and that this is.
#[test]
fn m44_a_group_goes_on_when_it_is_committed_that_a_loss_is_accepted() {
    let (mut world, member, _) = begun_by_member();
    world.detach(member, DetachCause::Lost);
    save(&mut world);
    restart_without(&mut world, 0);
    let other = world.client("other");
    world.attach(other, Options::durable());
    world.subscribe(other, in_group());
    world.send("s", "3", QoS::ExactlyOnce);
    world.settle();
    assert!(world.got(other).is_empty());
    world.commits = Commits::Held;
    world.send("else", "4", QoS::ExactlyOnce);
    world.retain("else", "4", QoS::AtLeastOnce);
    world.turn();
    world.accept_losses(DURABLE);
    world.turn();
    while world.commit_one(DURABLE) {
        world.turn();
    }
    assert_eq!(world.nodes[&DURABLE].partition.lost(), []);
    world.commits = Commits::AtOnce;
    world.settle();
    assert_eq!(world.got(other), ["3"]);
}

/// As of a session: the client has the message, so nothing of it is lost, and the group does not stop there.
#[test]
fn m44_an_exchange_of_a_member_that_needs_no_bytes_is_not_lost() {
    let (mut world, member, got) = begun_by_member();
    receive_and_leave(&mut world, member);
    save(&mut world);
    let lost = restart_without(&mut world, 0);
    assert!(world.nodes[&DURABLE].partition.lost().is_empty());
    let (_, found) = search(&mut world, 1);
    let (_, needed) = references(&world, 1, |index| index == lost);
    assert!(found.is_empty() && needed.is_empty());
    world.send("s", "3", QoS::ExactlyOnce);
    world.attach(member, Options::durable());
    world.settle();
    let first = got[0].source.expect("it has a place");
    assert_eq!(world.clients[member].released, [first]);
    assert_eq!(world.got(member), ["2", "3"]);
}

#[test]
fn m35_a_group_stops_at_a_damaged_record() {
    let mut world = World::new();
    let member = world.client("member");
    world.attach(member, Options::durable());
    let shared = courser_contract::Subscription {
        share: Some("g".into()),
        ..to("s", QoS::AtLeastOnce)
    };
    world.subscribe(member, shared);
    world.detach(member, DetachCause::Lost);
    for payload in ["1", "2", "3"] {
        world.send("s", payload, QoS::AtLeastOnce);
        world.settle();
    }
    save(&mut world);
    restart_without(&mut world, 1);
    world.clients[member].acks = Acks::Auto;
    world.attach(member, Options::durable());
    assert_eq!(world.got(member), ["1"]);
    world.accept_losses(DURABLE);
    world.settle();
    assert_eq!(world.got(member), ["3"]);
}

/// Each planted bug makes one of the tests above fail: here what shows it.
#[cfg(feature = "planted")]
#[test]
fn planted_bugs_of_damage_show() {
    let got = |planted| {
        let mut world = world();
        let lost = live(&world)[1];
        world.restart_without(DURABLE, &[lost]);
        world.call(DURABLE, |partition, _, _| partition.plant(planted));
        world.settle();
        attach_all(&mut world);
        world.got(A)
    };
    assert_eq!(got(PlantedPartition::Skipped), ["1", "3"]);
    assert_eq!(got(PlantedPartition::Delivered), ["1", "", "3"]);
    assert_eq!(got(PlantedPartition::Uncounted), ["1"]);
}
