//! Retained messages whose authors have lost the right to publish them (I11).

use courser_contract::{DetachCause, Dropped, Publish, PubrecCan, QoS, Will};
use courser_engine::Partition;

use crate::people::{durable, hold, will};
use crate::world::{DURABLE, Options, World, message, to};

/// Who publishes.
const ANNA: &str = "c\0anna\0@3";

/// Publishes with RETAIN as the front of a client of `author`'s does.
fn retain_as(world: &mut World, author: &str, topic: &str, payload: &str, qos: QoS) {
    let publish = Publish {
        retain: true,
        author: Some(author),
        ..message(topic, payload, qos)
    };
    world.publish(&publish);
    world.settle();
}

fn deny(world: &mut World, author: &str, topics: &[&str]) {
    let asked = topics.iter().map(|topic| (author.into(), (*topic).into()));
    world.fx.denied_authors.extend(asked);
}

/// What a new subscriber to everything finds.
fn found(world: &mut World, name: &str) -> Vec<String> {
    let at = durable(world, name);
    world.subscribe(at, to("#", QoS::AtLeastOnce));
    let mut got = world.got(at);
    got.sort();
    got
}

#[test]
fn cve_2018_12546_what_its_author_has_lost_the_right_to_is_withheld_and_comes_back() {
    let mut world = World::new();
    let reader = durable(&mut world, "before");
    world.subscribe(reader, to("#", QoS::AtLeastOnce));
    retain_as(&mut world, ANNA, "t/1", "1", QoS::AtLeastOnce);
    retain_as(&mut world, ANNA, "t/2", "2", QoS::AtMostOnce);
    retain_as(&mut world, ANNA, "other/3", "3", QoS::AtLeastOnce);
    retain_as(&mut world, "d\0ben", "t/4", "4", QoS::AtLeastOnce);
    world.retain("t/5", "of nobody", QoS::AtLeastOnce);
    world.settle();
    let all = ["1", "2", "3", "4", "of nobody"];
    assert_eq!(found(&mut world, "a"), all);
    deny(&mut world, ANNA, &["t/1", "t/2", "other/3"]);
    assert_eq!(found(&mut world, "b"), ["4", "of nobody"]);
    let dropped = world.fx.dropped.get(&Dropped::AuthorDenied);
    assert_eq!(dropped, Some(&3), "each is counted");
    world.fx.denied_authors.clear();
    assert_eq!(found(&mut world, "c"), all, "nothing is deleted");
    assert_eq!(world.got(reader), ["1", "2", "3", "4", "of nobody"]);
}

/// As a start makes the partition, from the log or from a checkpoint alone.
#[test]
fn cve_2018_12546_who_wrote_it_outlives_a_restart_and_a_checkpoint() {
    for by_checkpoint in [false, true] {
        let mut world = World::new();
        retain_as(&mut world, ANNA, "t/1", "1", QoS::AtLeastOnce);
        retain_as(&mut world, ANNA, "t/2", "2", QoS::ExactlyOnce);
        if by_checkpoint {
            let saved = until_saved(&mut world, 2);
            world.put(DURABLE, saved);
            world.elect(DURABLE);
        } else {
            world.restart(DURABLE);
        }
        world.settle();
        deny(&mut world, ANNA, &["t/1"]);
        assert_eq!(found(&mut world, "a"), ["2"], "{by_checkpoint}");
    }
}

/// The partition out of the first checkpoint that has so many retained messages.
fn until_saved(world: &mut World, retained: u64) -> Partition {
    for _ in 0..1_000 {
        world.turn();
        let saved = world.saved(DURABLE);
        let has_all = |it: &Partition| it.counts().retained_messages == retained;
        if let Some(saved) = saved.filter(has_all) {
            return saved;
        }
    }
    panic!("no checkpoint has them");
}

#[test]
fn cve_2018_12546_the_next_message_of_a_topic_has_its_own_author() {
    let mut world = World::new();
    retain_as(&mut world, ANNA, "t", "of anna", QoS::AtLeastOnce);
    deny(&mut world, ANNA, &["t"]);
    retain_as(&mut world, "d\0ben", "t", "of ben", QoS::AtLeastOnce);
    assert_eq!(found(&mut world, "a"), ["of ben"]);
    retain_as(&mut world, ANNA, "t", "of anna", QoS::AtLeastOnce);
    assert!(found(&mut world, "b").is_empty());
    retain_as(&mut world, ANNA, "t", "", QoS::AtLeastOnce);
    let counts = world.nodes[&DURABLE].partition.counts();
    assert_eq!(counts.retained_messages, 0);
}

/// Through the home of a durable session, into its own partition and by an outbox into another one.
#[test]
fn cve_2018_12546_a_publish_of_qos_2_keeps_its_author_on_every_way() {
    for topic in ["t", "other/t"] {
        let mut world = World::new();
        let at = durable(&mut world, "c");
        let publish = Publish {
            retain: true,
            author: Some(ANNA),
            ..message(topic, "2", QoS::ExactlyOnce)
        };
        hold(&mut world, at, (1, 11), &publish, PubrecCan::Refuse);
        world.settle();
        assert_eq!(found(&mut world, "a"), ["2"], "{topic}");
        deny(&mut world, ANNA, &[topic]);
        assert!(found(&mut world, "b").is_empty(), "{topic}");
    }
}

/// Of a session that outlives its connection, and of one that does not: that one keeps no client id.
#[test]
fn cve_2018_12546_a_retained_will_has_the_author_of_its_session() {
    for (topic, options) in [
        ("t", Options::durable()),
        ("other/t", Options::durable()),
        ("t", Options::clean()),
    ] {
        let mut world = World::new();
        let at = world.client("c");
        let will = Will {
            retain: true,
            ..will(topic, 0).will.expect("it has one")
        };
        let options = Options {
            owner: Some("anna\0@3".into()),
            will: Some(will),
            ..options
        };
        world.attach(at, options);
        world.detach(at, DetachCause::Lost);
        world.settle();
        assert_eq!(found(&mut world, "a"), ["gone"], "{topic}");
        deny(&mut world, ANNA, &[topic]);
        assert!(found(&mut world, "b").is_empty(), "{topic}");
    }
}
