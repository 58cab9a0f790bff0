//! What sessions and what they have subscribed to take is counted, and the leader refuses what there is no room for (M4).

use courser_contract::{
    ConnectRefusal, DetachCause, QoS, Refusal, RequestPart, Settled, SubscribeResult, Subscription,
    ToHome,
};
use courser_engine::SessionRoom;

use crate::people::{clean, durable, publish_qos2, release, will};
use crate::world::{DURABLE, Options, VOLATILE, World, to};

const GRANTED: SubscribeResult = SubscribeResult::Granted(QoS::AtLeastOnce);
const FULL: SubscribeResult = SubscribeResult::QuotaExceeded;

fn qos1(filter: &str) -> Subscription {
    to(filter, QoS::AtLeastOnce)
}

/// The answers to one SUBSCRIBE.
fn subscribed(world: &mut World, at: usize, wanted: &[&str]) -> Vec<SubscribeResult> {
    world.clients[at].suback.clear();
    let wanted = wanted.iter().map(|filter| qos1(filter)).collect();
    let (home, message) = world.clients[at].subscribe(wanted);
    world.send_home(home, message);
    world.settle();
    world.clients[at].suback.remove(0).1
}

fn unsubscribe(world: &mut World, at: usize, filters: &[&str]) {
    let home = world.home(at);
    let filters = filters.iter().map(|&filter| (None, filter.into()));
    let message = ToHome::Unsubscribe {
        session: home.session,
        epoch: world.clients[at].epoch,
        part: RequestPart::whole(70),
        filters: filters.collect(),
    };
    world.send_home(home.partition, message);
    world.settle();
}

/// What sessions of the durable partition take. Its checks count again.
fn held(world: &mut World) -> u64 {
    world.check();
    world.call(DURABLE, |it, _, _| it.counts().session_bytes)
}

/// Says how much room there is, in all partitions.
fn room(world: &mut World, room: SessionRoom) {
    for place in [DURABLE, VOLATILE] {
        world.call(place, |it, _, _| it.set_session_room(room));
    }
}

fn comes(world: &mut World, at: usize, options: Options) -> Result<(), ConnectRefusal> {
    world.clients[at].refused = None;
    world.connect(at, options);
    world.settle();
    world.clients[at].refused.map_or(Ok(()), Err)
}

#[test]
fn what_sessions_hold_is_counted_and_given_back_m4() {
    let mut world = World::new();
    let none = held(&mut world);
    let a = durable(&mut world, "a");
    let alone = held(&mut world);
    assert!(alone > none);
    for filter in ["x".repeat(1_000), "y/+".to_owned()] {
        world.subscribe(a, qos1(&filter));
    }
    let group = Subscription {
        share: Some("g".into()),
        ..qos1("t")
    };
    world.subscribe(a, group);
    let all = held(&mut world);
    assert!(all > alone + 4_000, "a filter is in four places: {all}");
    world.subscribe(a, qos1("y/+"));
    assert_eq!(held(&mut world), all, "it is there already");
    unsubscribe(&mut world, a, &["y/+", "no"]);
    assert!(held(&mut world) < all);
    world.detach(a, DetachCause::Disconnect);
    assert!(held(&mut world) > alone, "it stays");
    let clean = Options {
        clean_start: true,
        ..Options::durable()
    };
    world.attach(a, clean);
    assert_eq!(held(&mut world), alone);
}

#[test]
fn wills_and_packet_ids_of_a_session_count_while_they_are_there_m4() {
    let mut world = World::new();
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("t", QoS::ExactlyOnce));
    let a = durable(&mut world, "a");
    let alone = held(&mut world);
    publish_qos2(&mut world, a, 1, "t", "one", 1);
    world.settle();
    assert!(held(&mut world) >= alone + 200, "a list begins");
    for packet_id in 2..=30 {
        publish_qos2(&mut world, a, packet_id, "t", "more", packet_id.into());
    }
    world.settle();
    assert!(held(&mut world) >= alone + 30 * 20);
    // The same packet id for another message.
    publish_qos2(&mut world, a, 2, "t", "three", 3);
    world.settle();
    held(&mut world);
    for packet_id in 1..=30 {
        release(&mut world, a, packet_id);
    }
    world.settle();
    assert_eq!(held(&mut world), alone);
    let mut large = will("gone", 5);
    large.will.as_mut().unwrap().payload = vec![0; 1_000].into();
    world.detach(a, DetachCause::Lost);
    world.attach(a, large);
    assert!(held(&mut world) > alone + 1_000);
    world.detach(a, DetachCause::Disconnect);
    assert_eq!(held(&mut world), alone);
}

#[test]
fn without_room_for_sessions_those_come_in_who_have_one() {
    let mut world = World::new();
    let kept = durable(&mut world, "kept");
    world.subscribe(kept, qos1("t"));
    let new = world.client("new");
    for (said, others) in [
        (SessionRoom::Clean, Ok(())),
        (SessionRoom::Short, Ok(())),
        (SessionRoom::None, Err(ConnectRefusal::NoMemory)),
    ] {
        room(&mut world, said);
        assert_eq!(subscribed(&mut world, kept, &["t", "u"]), [GRANTED, FULL]);
        world.detach(kept, DetachCause::Lost);
        assert_eq!(comes(&mut world, kept, Options::durable()), Ok(()));
        let refused = Err(ConnectRefusal::NoMemory);
        assert_eq!(comes(&mut world, new, Options::durable()), refused);
        assert_eq!(comes(&mut world, new, Options::clean()), others, "{said:?}");
        if others.is_ok() {
            let granted = match said {
                SessionRoom::Clean => GRANTED,
                _ => FULL,
            };
            assert_eq!(subscribed(&mut world, new, &["v"]), [granted], "{said:?}");
            world.detach(new, DetachCause::Disconnect);
        }
    }
    unsubscribe(&mut world, kept, &["t"]);
    assert_eq!(world.clients[kept].unsuback, [(70, vec![true])]);
    let end = Options {
        clean_start: true,
        ..Options::clean()
    };
    world.detach(kept, DetachCause::Disconnect);
    assert_eq!(comes(&mut world, kept, end), Ok(()), "it ends its session");
    room(&mut world, SessionRoom::Enough);
    assert_eq!(comes(&mut world, new, Options::durable()), Ok(()));
}

#[test]
fn without_room_for_sessions_nobody_brings_a_large_will() {
    let with_will = |bytes: usize| {
        let mut options = will("t", 5);
        options.will.as_mut().unwrap().payload = vec![0; bytes].into();
        options
    };
    let mut world = World::new();
    let a = durable(&mut world, "a");
    room(&mut world, SessionRoom::Clean);
    for (bytes, came) in [
        (4_000, Err(ConnectRefusal::NoMemory)),
        (500, Ok(())),
        (4_000, Err(ConnectRefusal::NoMemory)),
    ] {
        world.detach(a, DetachCause::Lost);
        assert_eq!(comes(&mut world, a, with_will(bytes)), came, "{bytes}");
    }
    room(&mut world, SessionRoom::Enough);
    assert_eq!(comes(&mut world, a, with_will(4_000)), Ok(()));
    room(&mut world, SessionRoom::Clean);
    world.detach(a, DetachCause::Lost);
    assert_eq!(comes(&mut world, a, with_will(4_000)), Ok(()), "it had it");
}

#[test]
fn without_room_for_any_session_nobody_brings_a_large_will_to_one_that_ends_either() {
    let with_will = |bytes: usize| {
        let mut options = will("t", 5);
        options.will.as_mut().unwrap().payload = vec![0; bytes].into();
        Options {
            will: options.will,
            ..Options::clean()
        }
    };
    let mut world = World::new();
    let new = world.client("new");
    let refused = Err(ConnectRefusal::NoMemory);
    for (said, large, small) in [
        (SessionRoom::Enough, Ok(()), Ok(())),
        (SessionRoom::Clean, Ok(()), Ok(())),
        (SessionRoom::Short, refused, Ok(())),
        (SessionRoom::None, refused, refused),
    ] {
        room(&mut world, said);
        for (bytes, came) in [(4_000, large), (400, small), (0, small)] {
            assert_eq!(
                comes(&mut world, new, with_will(bytes)),
                came,
                "{said:?}, {bytes}"
            );
            if came.is_ok() {
                world.detach(new, DetachCause::Disconnect);
            }
        }
    }
}

#[test]
fn without_room_for_sessions_each_holds_32_packet_ids_m28() {
    let mut world = World::new();
    let reader = clean(&mut world, "reader");
    world.subscribe(reader, to("t", QoS::ExactlyOnce));
    let a = durable(&mut world, "a");
    room(&mut world, SessionRoom::Clean);
    for packet_id in 1..=33 {
        publish_qos2(&mut world, a, packet_id, "t", "x", packet_id.into());
        world.settle();
    }
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    let answers = std::mem::take(&mut world.clients[a].pubrec);
    assert!(answers[..32].iter().all(|it| it.1 == Settled::Ok));
    assert_eq!(answers[32..], [(33, refused, true)]);
    release(&mut world, a, 1);
    publish_qos2(&mut world, a, 33, "t", "x", 33);
    world.settle();
    assert_eq!(world.clients[a].pubrec, [(33, Settled::Ok, true)]);
}
