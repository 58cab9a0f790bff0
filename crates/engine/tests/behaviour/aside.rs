//! A partition that is set aside acknowledges nothing and lets nobody wait for ever (M39, M44).

use courser_contract::{
    DetachCause, Dropped, LogIndex, QoS, Refusal, Settled, SubscribeResult, Subscription,
    SubscriptionOptions,
};
use courser_engine::{AsideFilters, Partition, left_of_skipped};

use crate::people::{publish_qos2, will};
use crate::world::{Acks, DURABLE, OTHER, Options, World, to};

/// A session with a subscription that is away, and the place of the last entry before its messages.
fn absent() -> (World, LogIndex) {
    let mut world = World::new();
    let reader = world.client("reader");
    world.attach(reader, Options::durable());
    world.subscribe(reader, to("t/#", QoS::ExactlyOnce));
    world.detach(reader, DetachCause::Lost);
    let last = world.nodes[&DURABLE].partition.applied();
    let stored = world.send("t/1", "stored", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(stored));
    (world, last)
}

/// What became of a publish.
fn result(world: &mut World, topic: &str) -> (usize, Settled) {
    let ticket = world.send(topic, "later", QoS::AtLeastOnce);
    world.settle();
    world.publishes[ticket]
}

const REFUSED: (usize, Settled) = (0, Settled::Refused(Refusal::Unavailable));

#[test]
fn m39_what_matches_the_filters_of_a_partition_that_is_set_aside_is_refused() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    assert!(!world.nodes[&DURABLE].partition.is_settled(), "L1 first");
    world.settle();
    let partition = &world.nodes[&DURABLE].partition;
    assert!(partition.is_aside() && partition.is_settled() && !partition.serves());
    assert_eq!(partition.applied(), last);
    assert_eq!(result(&mut world, "t/1"), REFUSED);
    assert_eq!(result(&mut world, "elsewhere"), (0, Settled::Ok));
    // Its retained messages cannot be kept, those of others can.
    let mine = world.retain("mine", "x", QoS::AtLeastOnce);
    let others = world.retain("other/s", "x", QoS::AtLeastOnce);
    world.settle();
    assert_eq!(world.publishes[mine], REFUSED);
    assert!(world.is_acked(others));
}

#[test]
fn m39_a_state_that_is_lost_refuses_everything_until_it_is_released() {
    let (mut world, _) = absent();
    world.restart_aside(DURABLE, LogIndex(0), AsideFilters::Unknown);
    world.settle();
    assert_eq!(result(&mut world, "elsewhere"), REFUSED);
    world.restart_aside(DURABLE, LogIndex(0), AsideFilters::Released);
    world.settle();
    assert!(world.nodes[&DURABLE].partition.is_settled());
    assert_eq!(result(&mut world, "t/1"), (0, Settled::Ok));
}

#[test]
fn m44_no_session_of_a_partition_that_is_set_aside_is_let_in() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    for options in [Options::durable(), Options::clean()] {
        let late = world.client("reader");
        world.connect(late, options);
        world.settle();
        assert!(world.clients[late].home.is_none());
        assert!(
            world.clients[late].refused.is_some(),
            "it is told, and does not wait"
        );
    }
    let timeout = world.nodes[&DURABLE].partition.poll_timeout();
    assert_eq!(timeout, None, "nothing comes due in it");
}

/// A session whose home serves publishes with QoS 2 to one whose home does not.
#[test]
fn m28_a_forward_into_a_partition_that_is_set_aside_is_refused_and_kept() {
    let mut world = World::new();
    let publisher = world.client("publisher");
    world.attach(publisher, Options::durable());
    let last = world.nodes[&OTHER].partition.applied();
    world.restart_aside(OTHER, last, AsideFilters::Unknown);
    world.settle();
    publish_qos2(&mut world, publisher, 5, "t", "two", 1);
    world.settle();
    for _ in 0..5 {
        world.pass_time(1_000);
        world.settle();
    }
    let waiting = world.nodes[&DURABLE].partition.counts().outbox_messages;
    assert_eq!(waiting, 1, "nobody has taken it, so nobody forgets it");
}

#[test]
fn m34_retained_messages_of_a_partition_that_is_set_aside_come_when_it_serves() {
    let mut world = World::new();
    for (topic, payload) in [("mine", "a"), ("other/s", "b")] {
        world.retain(topic, payload, QoS::AtLeastOnce);
    }
    world.settle();
    let last = world.nodes[&OTHER].partition.applied();
    world.restart_aside(OTHER, last, AsideFilters::Known);
    world.settle();
    let reader = world.client("reader");
    world.attach(reader, Options::durable());
    world.subscribe(reader, to("#", QoS::AtLeastOnce));
    assert_eq!(world.got(reader), ["a"], "the others do not wait for it");
    world.detach(reader, DetachCause::Lost);
    world.restart(OTHER);
    world.restart(DURABLE);
    world.settle();
    world.attach(reader, Options::durable());
    assert_eq!(world.got(reader), ["b"], "nothing was left out");
}

#[test]
fn m35_a_group_of_a_partition_that_is_set_aside_takes_nobody() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    // Sessions without a lifetime live elsewhere, and ask the partition that keeps the group.
    let late = world.client("late");
    world.connect(late, Options::clean());
    world.settle();
    assert!(world.clients[late].home.is_none(), "nor a client id");
}

/// A member of a group that is kept by the first partition, and has its session in the other one.
fn member_elsewhere() -> (World, usize, Subscription) {
    let mut world = World::new();
    let member = world.client("member");
    world.attach(
        member,
        Options {
            place: OTHER,
            ..Options::durable()
        },
    );
    let shared = Subscription {
        share: Some("g".into()),
        ..to("t/#", QoS::ExactlyOnce)
    };
    world.subscribe(member, shared.clone());
    (world, member, shared)
}

/// Groups that its home has it subscribed to.
fn subscribed(world: &World) -> Vec<(String, QoS)> {
    let home = &world.nodes[&OTHER].partition;
    let session = home.stored_session("member").expect("it is kept");
    let subscriptions = session.subscriptions(0);
    subscriptions
        .map(|it| (it.share.expect("a group").to_owned(), it.options.qos))
        .collect()
}

/// Its home took it for unsubscribed, so the group, which had it as a member, never heard of its connections again: packet ids of what it
/// had were used twice.
#[test]
fn m31_who_subscribes_again_to_a_group_that_is_set_aside_stays_its_member() {
    let (mut world, member, shared) = member_elsewhere();
    world.clients[member].acks = Acks::Held;
    world.send("t/1", "one", QoS::ExactlyOnce);
    world.settle();
    assert_eq!(world.got(member), ["one"]);
    let last = world.nodes[&DURABLE].partition.applied();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    world.clients[member].suback.clear();
    let other_options = Subscription {
        options: SubscriptionOptions {
            qos: QoS::AtLeastOnce,
            ..shared.options
        },
        ..shared.clone()
    };
    world.subscribe(member, other_options);
    assert_eq!(world.clients[member].suback[0].1, [SubscribeResult::Failed]);
    assert_eq!(
        subscribed(&world),
        [("g".to_owned(), QoS::ExactlyOnce)],
        "as before"
    );

    world.detach(member, DetachCause::Lost);
    world.restart(DURABLE);
    world.restart(OTHER);
    world.settle();
    world.clients[member].owed.clear();
    world.attach(
        member,
        Options {
            place: OTHER,
            ..Options::durable()
        },
    );
    assert_eq!(
        world.got(member),
        ["one"],
        "the group hears of the connection"
    );
    assert_eq!(world.clients[member].owed.len(), 1, "and says what it owes");
}

#[test]
fn m35_who_is_no_member_of_a_group_that_is_set_aside_does_not_become_one() {
    let (mut world, member, shared) = member_elsewhere();
    let last = world.nodes[&DURABLE].partition.applied();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    world.clients[member].suback.clear();
    let another = Subscription {
        share: Some("h".into()),
        ..shared
    };
    world.subscribe(member, another);
    assert_eq!(world.clients[member].suback[0].1, [SubscribeResult::Failed]);
    assert_eq!(subscribed(&world), [("g".to_owned(), QoS::ExactlyOnce)]);
}

/// The refusal had an entry of its own and the other group's answer came behind it: SUBACK waited for an entry that somebody else would want.
#[test]
fn m35_who_is_refused_by_one_group_and_taken_by_another_hears_of_both() {
    let (mut world, member, shared) = member_elsewhere();
    let last = world.nodes[&DURABLE].partition.applied();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    world.clients[member].suback.clear();
    let of = |filter: &str| Subscription {
        share: Some("h".into()),
        ..to(filter, QoS::ExactlyOnce)
    };
    let both = vec![of("t/#"), of("other/#")];
    let (home, message) = world.clients[member].subscribe(both);
    world.send_home(home, message);
    world.settle();
    let granted = SubscribeResult::Granted(QoS::ExactlyOnce);
    let [(_, results)] = &world.clients[member].suback[..] else {
        panic!("one answer: {:?}", world.clients[member].suback);
    };
    assert_eq!(results[..], [SubscribeResult::Failed, granted]);
    let subscribed = subscribed(&world);
    assert!(subscribed.contains(&(shared.share.expect("a group").into(), QoS::ExactlyOnce)));
    assert_eq!(subscribed.len(), 2);
}

/// Applying the entry behind the skipped one panicked in its turn, and had to be skipped as well.
#[test]
fn m8_an_entry_may_name_a_target_set_that_a_skipped_one_has_defined() {
    let mut world = World::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i"] {
        let reader = world.client(name);
        world.attach(reader, Options::durable());
        world.subscribe(reader, to("t/#", QoS::AtLeastOnce));
        world.detach(reader, DetachCause::Lost);
    }
    let mut defined = Vec::new();
    for n in 0..6 {
        world.send("t/1", &n.to_string(), QoS::AtLeastOnce);
        world.settle();
        let (at, entry) = world.nodes[&DURABLE].log.last().cloned().expect("an entry");
        let view = courser_engine::EntryView::read(&entry).expect("an entry");
        if view
            .facts
            .iter()
            .any(|fact| fact.to_string().contains("SetPacked"))
        {
            defined.push(at);
        }
    }
    let [skipped] = defined[..] else {
        panic!("one entry defines the set that the later ones name: {defined:?}");
    };
    let node = &world.nodes[&DURABLE];
    let queued = node.partition.counts().queued_messages;
    let config = node.partition.config().clone();
    let mut partition = Partition::new(config);
    for (at, entry) in &node.log {
        let entry = match *at == skipped {
            true => left_of_skipped(entry).expect("an entry"),
            false => entry.clone(),
        };
        partition.replay_entry(*at, &entry).expect("an entry");
    }
    partition.check();
    assert_eq!(
        partition.counts().queued_messages,
        queued - 9,
        "its one message"
    );
    assert_eq!(partition.applied(), node.partition.applied());
}

/// A will for it is acknowledged to nobody, and waits as what a restart finds in the outbox does: for as long as it is set aside (I1, M19). The
/// client id does not.
#[test]
fn i1_a_will_for_a_partition_that_is_set_aside_waits_until_it_serves_m39() {
    let mut world = World::new();
    let last = world.nodes[&OTHER].partition.applied();
    world.restart_aside(OTHER, last, AsideFilters::Known);
    world.settle();
    let a = world.client("a");
    let mut options = will("other/will", 0);
    if let Some(will) = &mut options.will {
        will.retain = true;
    }
    world.attach(a, options);
    world.detach(a, DetachCause::Lost);
    world.attach(a, Options::durable());
    let waiting = |world: &World| world.nodes[&DURABLE].partition.counts().outbox_messages;
    for _ in 0..5 {
        world.pass_time(1_000);
        world.settle();
    }
    assert_eq!(waiting(&world), 1);
    assert_eq!(world.fx.dropped.get(&Dropped::Rejected), None);
    world.restart(OTHER);
    world.settle();
    world.pass_time(5_000);
    world.settle();
    assert_eq!(waiting(&world), 0);
    assert_eq!(world.nodes[&OTHER].partition.counts().retained_messages, 1);
}

/// A limit of age made something due that a partition which is set aside never does: its shard never slept again.
#[test]
fn a_limit_of_age_keeps_no_partition_awake_that_is_set_aside() {
    let (mut world, last) = absent();
    world.restart_aside(DURABLE, last, AsideFilters::Known);
    world.settle();
    let limits = courser_engine::Limits {
        queue_seconds_max: 10,
        queue_messages_max: 1,
        ..courser_engine::Limits::default()
    };
    world.call(DURABLE, |it, _, _| it.set_limits(limits));
    for _ in 0..20 {
        world.pass_time(1_000);
        world.settle();
        let due = world.nodes[&DURABLE].partition.poll_timeout();
        assert!(due.is_none_or(|due| due > world.now.tick), "{due:?}");
    }
}
