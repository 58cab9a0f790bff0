//! Leadership, repeats, and what is kept once.

use courser_contract::{ConnectRefusal, QoS};

use crate::people::durable;
use crate::world::{Acks, Commits, DURABLE, Options, World, message, to};

#[test]
fn a_repeat_of_an_append_is_stored_once_m14() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.commits = Commits::Held;
    let ticket = world.send("t", "1", QoS::AtLeastOnce);
    world.resend(DURABLE);
    world.turn();
    world.commit_one(DURABLE);
    // The answer is lost with the leader; the new one knows the number.
    world.fx.settled.clear();
    world.depose(DURABLE, 9);
    world.elect(DURABLE);
    world.settle();
    world.resend(DURABLE);
    world.settle();
    assert!(world.is_acked(ticket));
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(
        counts.queued_messages + world.clients[a].got.len() as u64,
        1
    );
}

#[test]
fn a_new_leader_admits_nothing_before_its_first_entry_m5() {
    let mut world = World::new();
    durable(&mut world, "a");
    world.commits = Commits::Held;
    world.depose(DURABLE, 0);
    world.elect(DURABLE);
    let b = world.client("b");
    world.connect(b, Options::durable());
    assert_eq!(world.clients[b].refused, Some(ConnectRefusal::Unavailable));
    world.settle();
    world.attach(b, Options::durable());
}

#[test]
fn a_message_for_many_is_one_record_with_a_set_that_is_named_again_m8() {
    let mut world = World::new();
    let names = ["a", "b", "c", "d"];
    let clients = names.map(|name| durable(&mut world, name));
    for at in clients {
        world.subscribe(at, to("t", QoS::AtLeastOnce));
        world.clients[at].acks = Acks::Held;
    }
    let log = |world: &World| {
        world.nodes[&DURABLE]
            .log
            .last()
            .map_or(0, |(_, entry)| entry.len())
    };
    world.fx.deliver_calls = 0;
    world.send("t", "1", QoS::AtLeastOnce);
    let first = log(&world);
    world.send("t", "1", QoS::AtLeastOnce);
    world.send("t", "1", QoS::AtLeastOnce);
    let third = log(&world);
    assert!(third < first, "{third} < {first}: named, not written");
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!((counts.records, counts.queued_messages), (3, 12));
    assert_eq!(
        world.fx.deliver_calls, 3,
        "one call a message for all of its fronts"
    );
}

#[test]
fn one_stuck_message_does_not_pin_what_came_around_it_m17() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    world.clients[a].acks = Acks::Held;
    world.send("t", "stuck", QoS::AtLeastOnce);
    let stuck = world.clients[a].waiting.pop_front();
    world.clients[a].acks = Acks::Auto;
    let payload = "x".repeat(4_000);
    for _ in 0..400 {
        world.call(DURABLE, |partition, now, fx| {
            let append = courser_contract::Append {
                key: courser_contract::AppendKey::Unanswered,
                publish: &message("t", &payload, QoS::AtLeastOnce),
                keep_retained: false,
                deliver: true,
                cut: courser_contract::Cut(0),
            };
            partition.handle_append(now, &append, fx);
            let entry = partition.take_entry(now).expect("a publish was gathered");
            fx.entries.push(entry);
        });
        for entry in std::mem::take(&mut world.fx.entries) {
            let node = world.nodes.get_mut(&DURABLE).expect("it is there");
            node.proposed.push_back(entry);
            world.commit_one(DURABLE);
        }
        let got = std::mem::take(&mut world.fx.deliveries);
        for (_, got) in got {
            for (home, message) in world.clients[a].take(got) {
                world.call(home, |partition, now, fx| {
                    partition.handle_home(now, message, fx)
                });
            }
        }
    }
    world.settle();
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(counts.records, 1);
    assert!(
        counts.record_bytes < 1_000,
        "{} bytes are held",
        counts.record_bytes
    );
    assert!(stuck.is_some());
}
