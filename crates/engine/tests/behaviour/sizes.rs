//! What a message takes in the log of a partition.

use courser_contract::{DetachCause, Publish, QoS};
use courser_engine::{EntryView, FactView};

use crate::world::{DURABLE, Options, World, message, to};

/// Sessions of one partition when a thousand of them are spread over sixteen.
const SESSIONS: usize = 63;
const TOPIC: &str = "fan/out";
const PAYLOAD: [u8; 128] = [b'x'; 128];
/// What an entry with small numbers takes before it in a batch of the log (`docs/log-format.md`).
const FRAME_BYTES: usize = 16;

/// Sessions that are away, so that nothing goes with a message but the message.
fn away(world: &mut World, sessions: usize) {
    for _ in 0..sessions {
        let at = world.client(&format!("away-{}", world.clients.len()));
        world.attach(at, Options::durable());
        world.subscribe(at, to("fan/#", QoS::AtLeastOnce));
        world.detach(at, DetachCause::Lost);
    }
    world.settle();
}

/// Bytes in the log of one message more.
fn stored(world: &mut World) -> usize {
    let before = world.nodes[&DURABLE].log.len();
    let payload = str::from_utf8(&PAYLOAD).expect("a text");
    world.send(TOPIC, payload, QoS::AtLeastOnce);
    world.settle();
    let added = &world.nodes[&DURABLE].log[before..];
    let [(_, entry)] = added else {
        panic!("one entry for one message, not {}", added.len());
    };
    FRAME_BYTES + entry.len()
}

#[test]
fn m8_a_message_for_many_sessions_is_small_beside_its_payload() {
    let mut world = World::new();
    away(&mut world, SESSIONS);
    let first = stored(&mut world);
    let limit = PAYLOAD.len() + 64 + 8 * SESSIONS;
    assert!(
        first <= limit,
        "{first} bytes with the list, at most {limit}"
    );
    for nth in 2..200 {
        let again = stored(&mut world);
        let limit = PAYLOAD.len() + 64;
        assert!(
            again <= limit,
            "{again} bytes for the message {nth}, at most {limit}"
        );
    }
    world.check();
}

#[test]
fn m8_a_list_is_written_once() {
    let mut world = World::new();
    away(&mut world, SESSIONS);
    let first = stored(&mut world);
    let again = stored(&mut world);
    assert!(
        first - again >= 2 * SESSIONS,
        "the list is in the first message"
    );
    assert_eq!(stored(&mut world), again, "and in no other one");
    // With one session more it is another list, and then that.
    away(&mut world, 1);
    let other = stored(&mut world);
    assert!(other > again);
    assert_eq!(stored(&mut world), again);
}

/// Sets that the log of the partition has defined and not dropped.
fn sets(world: &World) -> usize {
    let (mut defined, mut dropped) = (0, 0);
    for (_, entry) in &world.nodes[&DURABLE].log {
        let view = EntryView::read(entry).expect("an entry of this program");
        for fact in view.facts {
            if let FactView::Other(text) = fact {
                defined += usize::from(text.starts_with("SetPacked"));
                dropped += usize::from(text.starts_with("SetDropped"));
            }
        }
    }
    assert!(defined > 0, "a long list is written as a set");
    defined - dropped
}

/// v5 [MQTT-3.8.3-3]: for who does not want its own messages they have a list of their own, which no topic keeps.
#[test]
fn m8_the_list_of_one_message_is_dropped_again() {
    let mut world = World::new();
    away(&mut world, SESSIONS);
    let publisher = world.client("no-local");
    world.attach(publisher, Options::durable());
    let mut subscription = to("fan/#", QoS::AtLeastOnce);
    subscription.options.no_local = true;
    world.subscribe(publisher, subscription);
    let hash = world.clients[publisher].hash();
    for _ in 0..20 {
        let publish = Publish {
            publisher: Some(hash),
            author: None,
            ..message(TOPIC, "mine", QoS::AtLeastOnce)
        };
        world.publish(&publish);
        world.settle();
    }
    assert!(world.got(publisher).is_empty());
    assert!(sets(&world) <= 1, "{} sets are left", sets(&world));
    world.check();
}
