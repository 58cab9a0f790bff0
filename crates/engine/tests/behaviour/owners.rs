//! Sessions belong to the user that made them, and wills go out by the rights that count then.

use courser_contract::{ConnectRefusal, DetachCause, Dropped, QoS, SessionLimits, WillPermission};
use courser_engine::Deletion;

use crate::people::{durable, will};
use crate::world::{DURABLE, Options, World, to};

const REFUSED: Option<ConnectRefusal> = Some(ConnectRefusal::NotAuthorized);

fn owner(world: &World) -> Option<String> {
    let partition = &world.nodes[&DURABLE].partition;
    let session = partition.stored_session("same")?;
    session.owner().map(str::to_owned)
}

/// A second user comes with the client id of the first, in every way there is.
fn others_are_refused(world: &mut World) {
    for options in [Options::of("ben"), Options::durable()] {
        for clean_start in [false, true] {
            for expiry_seconds in [0, 60] {
                let other = world.client("same");
                let options = Options {
                    clean_start,
                    expiry_seconds,
                    ..options.clone()
                };
                world.connect(other, options);
                world.settle();
                assert_eq!(world.clients[other].refused, REFUSED);
                assert!(world.clients[other].home.is_none());
            }
        }
    }
}

#[test]
fn i8_another_user_neither_displaces_nor_ends_nor_takes_up_a_session() {
    let mut world = World::new();
    let anna = world.client("same");
    world.attach(anna, Options::of("anna"));
    world.subscribe(anna, to("t", QoS::AtLeastOnce));
    others_are_refused(&mut world);
    assert!(!world.clients[anna].taken_over);
    world.detach(anna, DetachCause::Lost);
    world.send("t", "for anna", QoS::AtLeastOnce);
    world.settle();
    others_are_refused(&mut world);
    world.restart(DURABLE);
    world.settle();
    others_are_refused(&mut world);
    assert_eq!(owner(&world).as_deref(), Some("anna"));
    world.attach(anna, Options::of("anna"));
    world.settle();
    assert_eq!(world.got(anna), ["for anna"]);
}

#[test]
fn i8_what_stands_behind_the_name_of_an_owner_is_kept_and_makes_nobody_else() {
    let mut world = World::new();
    let anna = world.client("same");
    world.attach(anna, Options::of("anna\0device"));
    world.subscribe(anna, to("t", QoS::AtLeastOnce));
    assert_eq!(owner(&world).as_deref(), Some("anna\0device"));
    others_are_refused(&mut world);
    world.detach(anna, DetachCause::Lost);
    world.send("t", "for anna", QoS::AtLeastOnce);
    world.settle();
    world.attach(anna, Options::of("anna\0other"));
    world.settle();
    assert_eq!(world.got(anna), ["for anna"]);
    assert_eq!(owner(&world).as_deref(), Some("anna\0other"));
    world.restart(DURABLE);
    world.settle();
    assert_eq!(owner(&world).as_deref(), Some("anna\0other"));
    others_are_refused(&mut world);
}

/// A session of `anna`'s with a message that waits and a will, left behind, after a crash of its partition.
fn left_by(owner: &str) -> (World, usize) {
    let mut world = World::new();
    let reader = durable(&mut world, "reader");
    world.subscribe(reader, to("will", QoS::AtLeastOnce));
    let anna = world.client("same");
    let options = Options {
        owner: Some(owner.into()),
        ..will("will", 60)
    };
    world.attach(anna, options);
    world.subscribe(anna, to("t", QoS::AtLeastOnce));
    world.detach(anna, DetachCause::Lost);
    world.send("t", "for anna", QoS::AtLeastOnce);
    world.settle();
    world.restart(DURABLE);
    world.settle();
    world.attach(reader, Options::durable());
    (world, reader)
}

/// Whether a connection of `owner` takes the session up that is there.
fn takes_up(world: &mut World, owner: &str) -> bool {
    let again = world.client("same");
    world.attach(again, Options::of(owner));
    world.settle();
    let attached = world.clients[again].attached.clone();
    let present = attached.expect("it is let in").present;
    let expected: &[&str] = if present { &["for anna"] } else { &[] };
    assert_eq!(world.got(again), expected);
    present
}

#[test]
fn i8_a_user_made_again_takes_up_no_session_that_a_crash_has_left_of_the_one_that_is_gone() {
    let (mut world, reader) = left_by("anna\0@3");
    let key = ("anna\0@3".to_owned(), "will".to_owned());
    world.fx.wills.insert(key, WillPermission::Denied);
    assert!(!takes_up(&mut world, "anna\0@7"));
    assert_eq!(owner(&world).as_deref(), Some("anna\0@7"));
    assert!(world.got(reader).is_empty(), "nor does its will go out");
}

#[test]
fn i8_a_session_of_the_same_account_or_of_an_earlier_version_is_taken_up() {
    for (left, asks) in [
        ("anna\0@3", "anna\0@3"),
        ("anna", "anna\0@3"),
        ("anna\0device", "anna\0@3"),
    ] {
        let (mut world, _) = left_by(left);
        assert!(takes_up(&mut world, asks), "{left:?}");
        assert_eq!(owner(&world).as_deref(), Some(asks));
    }
}

#[test]
fn i8_a_session_that_ends_with_its_connection_is_not_displaced_either() {
    let mut world = World::new();
    let anna = world.client("same");
    let options = Options {
        owner: Some("anna".into()),
        ..Options::clean()
    };
    world.attach(anna, options);
    others_are_refused(&mut world);
    assert!(!world.clients[anna].taken_over);
    world.detach(anna, DetachCause::Disconnect);
    world.settle();
    let ben = world.client("same");
    world.attach(ben, Options::of("ben"));
    assert!(world.clients[ben].home.is_some(), "nothing of it is left");
}

#[test]
fn what_nobody_has_logged_in_for_is_anybodys() {
    let mut world = World::new();
    let first = durable(&mut world, "same");
    world.subscribe(first, to("t", QoS::AtLeastOnce));
    let anna = world.client("same");
    world.attach(anna, Options::of("anna"));
    assert!(world.clients[first].taken_over);
    let attached = world.clients[anna].attached.clone();
    assert!(attached.expect("it is attached").present);
    assert_eq!(owner(&world).as_deref(), Some("anna"));
    others_are_refused(&mut world);
}

/// A reader of wills that stays, and anna's client, whose will goes out so many seconds after its connection.
fn anna_with_a_will(delay_seconds: u32) -> (World, usize, usize) {
    let mut world = World::new();
    let reader = durable(&mut world, "reader");
    world.subscribe(reader, to("will", QoS::AtLeastOnce));
    let a = world.client("a");
    let options = Options {
        owner: Some("anna".into()),
        ..will("will", delay_seconds)
    };
    world.attach(a, options);
    (world, reader, a)
}

/// What the world says when it is asked for that will.
fn answer(world: &mut World, permission: WillPermission) {
    let key = ("anna".to_owned(), "will".to_owned());
    world.fx.wills.insert(key, permission);
}

#[test]
fn i11_a_delayed_will_is_asked_for_again_when_it_goes_out() {
    for said in [WillPermission::Granted, WillPermission::Denied] {
        let (mut world, reader, a) = anna_with_a_will(5);
        world.detach(a, DetachCause::Lost);
        answer(&mut world, WillPermission::NotYet);
        world.pass_time(6_000);
        world.settle();
        assert!(world.got(reader).is_empty(), "nobody knows yet");
        answer(&mut world, said);
        world.pass_time(2_000);
        world.settle();
        let denied = usize::from(said == WillPermission::Denied);
        assert_eq!(world.got(reader).len(), 1 - denied);
        let dropped = world.fx.dropped.get(&Dropped::Denied).copied();
        assert_eq!(dropped.unwrap_or(0), denied as u64);
    }
}

#[test]
fn i11_a_will_of_a_client_that_a_new_leader_finds_waits_until_rights_are_known() {
    let (mut world, reader, _) = anna_with_a_will(0);
    answer(&mut world, WillPermission::NotYet);
    world.restart(DURABLE);
    world.settle();
    world.attach(reader, Options::durable());
    world.pass_time(5_000);
    world.settle();
    assert!(world.got(reader).is_empty(), "nobody knows yet");
    answer(&mut world, WillPermission::Granted);
    world.pass_time(2_000);
    world.settle();
    assert_eq!(world.got(reader), ["gone"]);
}

#[test]
fn i11_the_end_of_a_session_sends_no_will_that_its_owner_may_not_publish() {
    let (mut world, reader, a) = anna_with_a_will(60);
    world.detach(a, DetachCause::Lost);
    answer(&mut world, WillPermission::Denied);
    let deletion = world.call(DURABLE, |it, now, fx| it.delete_session(now, "a", fx));
    assert_eq!(deletion, Deletion::Proposed);
    world.settle();
    assert!(world.got(reader).is_empty());
}

const fn subscriptions(max: u32) -> SessionLimits {
    SessionLimits {
        subscriptions_max: max,
        ..SessionLimits::NONE
    }
}

#[test]
fn i9_a_user_has_no_more_subscriptions_than_it_may() {
    let mut world = World::new();
    let a = world.client("a");
    let options = Options {
        limits: subscriptions(2),
        ..Options::of("anna")
    };
    world.attach(a, options.clone());
    for filter in ["t/1", "t/2", "t/3", "t/2"] {
        world.subscribe(a, to(filter, QoS::AtLeastOnce));
    }
    let count = |world: &World| world.nodes[&DURABLE].partition.counts().subscriptions;
    assert_eq!(
        count(&world),
        2,
        "one that is there is changed all the same"
    );
    world.detach(a, DetachCause::Lost);
    let options = Options {
        limits: subscriptions(3),
        ..options
    };
    world.attach(a, options);
    world.subscribe(a, to("t/3", QoS::AtLeastOnce));
    assert_eq!(count(&world), 3, "its next connection may have more");
}
