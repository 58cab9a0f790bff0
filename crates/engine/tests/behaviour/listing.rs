//! What an operator sees of a partition, and may end.

use courser_contract::{DetachCause, QoS};
use courser_engine::Deletion;

use crate::people::{durable, will};
use crate::world::{DURABLE, World, to};

fn delete(world: &mut World, name: &str) -> Deletion {
    world.call(DURABLE, |it, now, fx| it.delete_session(now, name, fx))
}

#[test]
fn a_session_without_a_connection_is_ended_and_its_will_goes_out() {
    let mut world = World::new();
    let watcher = durable(&mut world, "watcher");
    world.subscribe(watcher, to("wills/#", QoS::AtLeastOnce));
    let a = world.client("a");
    world.attach(a, will("wills/a", 3600));
    world.subscribe(a, to("t", QoS::AtLeastOnce));
    assert_eq!(
        delete(&mut world, "a"),
        Deletion::InUse,
        "it has a connection"
    );
    world.detach(a, DetachCause::Lost);
    world.send("t", "kept", QoS::AtLeastOnce);
    world.settle();
    let partition = &world.nodes[&DURABLE].partition;
    let session = partition.stored_session("a").expect("it is kept");
    assert_eq!(
        (session.queued().0, session.front(), session.has_will()),
        (1, None, true)
    );
    let filters: Vec<_> = session.subscriptions(0).map(|made| made.filter).collect();
    assert_eq!(filters, ["t"]);
    assert_eq!(delete(&mut world, "a"), Deletion::Proposed);
    assert_eq!(
        delete(&mut world, "a"),
        Deletion::Proposed,
        "once is enough"
    );
    world.settle();
    assert_eq!(delete(&mut world, "a"), Deletion::Unknown);
    assert_eq!(world.got(watcher), ["gone"]);
    let partition = &world.nodes[&DURABLE].partition;
    assert!(partition.stored_session("a").is_none());
    assert_eq!(partition.counts().subscriptions, 1, "the watcher's");
    partition.check();
}

#[test]
fn who_holds_a_client_id_is_found_while_it_does() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let partition = &world.nodes[&DURABLE].partition;
    let front = partition.holder("a").expect("it is connected");
    let places = 0..partition.session_places();
    let found = places.filter_map(|place| partition.session_at(place));
    let of_a: Vec<_> = found.filter(|session| session.client_id() == "a").collect();
    assert_eq!(of_a.len(), 1);
    assert_eq!(of_a[0].front(), Some(front));
    world.detach(a, DetachCause::Lost);
    assert_eq!(world.nodes[&DURABLE].partition.holder("a"), None);
}
