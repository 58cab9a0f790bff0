//! Where a message goes is fixed when it is matched (M7).

use courser_contract::{DetachCause, Publish, QoS, RetainHandling};

use crate::people::durable;
use crate::world::{Acks, Commits, DURABLE, Options, World, message, to};

/// The second SUBSCRIBE asks for all of it otherwise, while one message is on its way into the stream and others wait in it.
#[test]
fn m7_a_resubscribe_changes_no_message_that_was_matched_before() {
    let mut world = World::new();
    let a = world.client("a");
    let options = Options {
        receive_maximum: 1,
        ..Options::durable()
    };
    world.attach(a, options);
    world.clients[a].acks = Acks::Held;
    let mut first = to("t", QoS::ExactlyOnce);
    first.identifier = Some(4);
    first.options.retain_as_published = true;
    world.subscribe(a, first);
    let publish = |world: &mut World, payload: &str| {
        world.publish(&Publish {
            retain: true,
            ..message("t", payload, QoS::ExactlyOnce)
        })
    };
    publish(&mut world, "sent");
    publish(&mut world, "waits");
    world.settle();
    world.commits = Commits::Held;
    publish(&mut world, "comes");
    let mut second = to("t", QoS::AtLeastOnce);
    second.identifier = Some(9);
    second.options.retain_handling = RetainHandling::DoNotSend;
    let (home, subscribe) = world.clients[a].subscribe(vec![second]);
    world.send_home(home, subscribe);
    world.settle();
    world.commits = Commits::AtOnce;
    publish(&mut world, "behind");
    world.settle();
    world.clients[a].acks = Acks::Auto;
    world.ack(a, 1);
    world.settle();
    let got = world.clients[a].got.iter();
    let looks = got.map(|it| (&*it.payload, it.qos, it.retain, &*it.identifiers));
    let expected: [(_, _, _, &[u32]); 4] = [
        ("sent", QoS::ExactlyOnce, true, &[4]),
        ("waits", QoS::ExactlyOnce, true, &[4]),
        ("comes", QoS::ExactlyOnce, true, &[4]),
        ("behind", QoS::AtLeastOnce, false, &[9]),
    ];
    assert_eq!(looks.collect::<Vec<_>>(), expected);
}

/// Of the same client id, with the same filter: what was matched for the session before is not for this one, nor are its packet ids.
#[test]
fn m7_a_new_session_gets_nothing_of_the_one_before() {
    for is_restarted in [false, true] {
        let mut world = World::new();
        let a = durable(&mut world, "a");
        world.subscribe(a, to("t", QoS::AtLeastOnce));
        let before = world.home(a).session;
        world.detach(a, DetachCause::Lost);
        world.commits = Commits::Held;
        let ticket = world.send("t", "for the one before", QoS::AtLeastOnce);
        if is_restarted {
            world.settle();
            world.restart(DURABLE);
            world.settle();
        }
        let clean = Options {
            clean_start: true,
            ..Options::durable()
        };
        world.connect(a, clean);
        world.settle();
        world.commits = Commits::AtOnce;
        assert!(world.is_acked(ticket));
        let after = world.home(a).session;
        assert!(after > before, "numbers are not used again");
        world.subscribe(a, to("t", QoS::AtLeastOnce));
        world.send("t", "for this one", QoS::AtLeastOnce);
        world.settle();
        assert_eq!(world.got(a), ["for this one"], "{is_restarted}");
    }
}

/// Nor where nothing of the session before is left that could say which numbers there were.
#[test]
fn m7_numbers_of_sessions_are_not_used_again_after_a_restart() {
    let mut world = World::new();
    let a = world.client("a");
    let options = Options {
        expiry_seconds: 1,
        ..Options::durable()
    };
    world.attach(a, options.clone());
    let before = world.home(a).session;
    world.detach(a, DetachCause::Lost);
    world.pass_time(1_000);
    world.settle();
    assert_eq!(world.nodes[&DURABLE].partition.counts().sessions, 0);
    world.restart(DURABLE);
    world.settle();
    world.attach(a, options);
    assert!(world.home(a).session > before);
}
