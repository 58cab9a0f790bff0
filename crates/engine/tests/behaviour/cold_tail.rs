//! Somebody who takes a long backlog out of the log leaves in memory what others wait for in its young end.

use std::collections::BTreeSet;

use courser_contract::QoS;
use courser_engine::Limits;

use crate::cold::{away, cold};
use crate::world::{DURABLE, Options, Recalling, World};

/// Room for some 60 of the messages here.
const HOT_BYTES: u64 = 8 << 10;
const BACKLOG: usize = 200;
/// The youngest messages for somebody else: enough that nothing else is in memory.
const TAIL: usize = 80;

fn payload(number: usize) -> String {
    format!("{number:0>100}")
}

fn send(world: &mut World, topic: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        world.send(topic, &payload(number), QoS::AtLeastOnce);
        world.settle();
    }
}

/// Messages to a topic that are in memory.
fn in_memory(world: &World, topic: &str) -> BTreeSet<Vec<u8>> {
    let partition = &world.nodes[&DURABLE].partition;
    let records = partition.records_in_memory();
    let of_topic = records.filter(|(.., record)| record.topic == topic);
    of_topic
        .map(|(.., record)| record.payload.to_vec())
        .collect()
}

/// Sessions are away: two with a backlog that is only in the log, one with what came last.
fn two_away() -> (World, usize) {
    let mut world = World::with_hot(Limits::default(), HOT_BYTES);
    let behind = away(&mut world, "behind", "old");
    // What the first one has taken is needed on.
    away(&mut world, "later", "old");
    away(&mut world, "near", "new");
    send(&mut world, "old", 0..BACKLOG);
    send(&mut world, "new", 0..TAIL);
    assert!(cold(&world) >= BACKLOG as u64);
    assert!(in_memory(&world, "old").is_empty());
    (world, behind)
}

/// What is read back goes when it is handed over, and takes the place of nothing that has just come; whether the end of the log moves on meanwhile or
/// not.
#[test]
fn m17_a_drain_leaves_in_memory_what_others_wait_for() {
    for moves_on in [false, true] {
        let [(mut drained, behind), (mut still, _)] = [two_away(), two_away()];
        drained.recalling = Recalling::Held;
        drained.attach(behind, Options::durable());
        let mut got = Vec::new();
        for step in 0..BACKLOG {
            drained.recall_some(DURABLE, 4);
            drained.settle();
            got.extend(drained.got(behind));
            if moves_on {
                for world in [&mut drained, &mut still] {
                    send(world, "new", TAIL + step..TAIL + step + 1);
                }
            }
            let wanted = in_memory(&still, "new");
            assert!(wanted.len() > 50, "{} messages", wanted.len());
            let missing = &wanted - &in_memory(&drained, "new");
            assert!(missing.is_empty(), "{} messages have left", missing.len());
            if got.len() == BACKLOG {
                break;
            }
        }
        assert_eq!(got, (0..BACKLOG).map(payload).collect::<Vec<_>>());
    }
}
