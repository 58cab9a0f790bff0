//! While the disk is short, the reserve is for what was let in before (M47): who takes messages away comes in, and nothing new stays.

use courser_contract::{
    ConnectRefusal, DetachCause, Dropped, QoS, Refusal, Settled, SubscribeResult, Subscription,
};
use courser_engine::{DiskBudget, DiskRoom};

use crate::people::{clean, durable, publish_qos2, release, will};
use crate::world::{DURABLE, OTHER, Options, World, to};

const GRANTED: SubscribeResult = SubscribeResult::Granted(QoS::AtLeastOnce);
const FULL: SubscribeResult = SubscribeResult::QuotaExceeded;
const NO_DISK: Result<(), ConnectRefusal> = Err(ConnectRefusal::NoDisk);

fn qos1(filter: &str) -> Subscription {
    to(filter, QoS::AtLeastOnce)
}

/// Says how much room there is to those with a log: nobody tells the others.
fn room(world: &mut World, room: DiskRoom) {
    for place in [DURABLE, OTHER] {
        world.call(place, |it, _, _| it.set_disk_room(room));
    }
}

fn comes(world: &mut World, at: usize, options: Options) -> Result<(), ConnectRefusal> {
    world.clients[at].refused = None;
    world.connect(at, options);
    world.settle();
    world.clients[at].refused.map_or(Ok(()), Err)
}

/// The answers to one SUBSCRIBE.
fn subscribed(world: &mut World, at: usize, wanted: &[Subscription]) -> Vec<SubscribeResult> {
    world.clients[at].suback.clear();
    let (home, message) = world.clients[at].subscribe(wanted.to_vec());
    world.send_home(home, message);
    world.settle();
    world.clients[at].suback.remove(0).1
}

fn with_will(bytes: usize) -> Options {
    let mut options = will("t", 0);
    options.will.as_mut().unwrap().payload = vec![0; bytes].into();
    options
}

fn anew(options: Options) -> Options {
    Options {
        clean_start: true,
        ..options
    }
}

#[test]
fn on_a_full_disk_only_those_get_sessions_that_are_kept_who_have_one_m47() {
    let mut world = World::new();
    let kept = durable(&mut world, "kept");
    world.subscribe(kept, qos1("t"));
    world.detach(kept, DetachCause::Lost);
    let ends = durable(&mut world, "ends");
    world.detach(ends, DetachCause::Lost);
    let new = world.client("new");
    room(&mut world, DiskRoom::Short);
    assert_eq!(comes(&mut world, new, Options::durable()), NO_DISK);
    assert_eq!(comes(&mut world, new, anew(Options::durable())), NO_DISK);
    assert_eq!(comes(&mut world, new, Options::clean()), Ok(()));
    assert_eq!(comes(&mut world, kept, Options::durable()), Ok(()));
    assert_eq!(subscribed(&mut world, kept, &[qos1("t")]), [GRANTED]);
    world.detach(kept, DetachCause::Lost);
    // The old one goes: it is no more than before.
    assert_eq!(comes(&mut world, kept, anew(Options::durable())), Ok(()));
    assert_eq!(subscribed(&mut world, kept, &[qos1("t")]), [FULL]);
    assert_eq!(comes(&mut world, ends, anew(Options::clean())), Ok(()));
    let sessions = world.call(DURABLE, |it, _, _| it.counts().sessions);
    assert_eq!(sessions, 1, "the one that ended is gone");
    world.detach(new, DetachCause::Disconnect);
    room(&mut world, DiskRoom::Enough);
    assert_eq!(comes(&mut world, new, Options::durable()), Ok(()));
}

#[test]
fn on_a_full_disk_all_wills_together_are_small_m47() {
    let mut world = World::new();
    let a = durable(&mut world, "a");
    let b = durable(&mut world, "b");
    let most = DiskRoom::WILL_BYTES - "t".len();
    room(&mut world, DiskRoom::Short);
    for (at, options, came) in [
        (a, with_will(most + 1), NO_DISK),
        (a, with_will(most), Ok(())),
        // One that was published made room for none: whoever kept it has it still.
        (a, with_will(1), NO_DISK),
        (b, anew(with_will(1)), NO_DISK),
        (a, Options::durable(), Ok(())),
        (b, Options::durable(), Ok(())),
    ] {
        world.detach(at, DetachCause::Lost);
        assert_eq!(comes(&mut world, at, options), came);
    }
    let c = world.client("c");
    let is_clean = Options {
        will: with_will(most).will,
        ..Options::clean()
    };
    assert_eq!(comes(&mut world, c, is_clean), Ok(()), "nothing is written");
    room(&mut world, DiskRoom::Enough);
    room(&mut world, DiskRoom::Short);
    world.detach(b, DetachCause::Lost);
    assert_eq!(comes(&mut world, b, with_will(most)), Ok(()));
}

#[test]
fn on_a_full_disk_a_session_that_is_kept_subscribes_only_to_what_it_has_m47() {
    let mut world = World::new();
    let kept = durable(&mut world, "kept");
    world.subscribe(kept, qos1("t"));
    let other = clean(&mut world, "other");
    room(&mut world, DiskRoom::Short);
    let shared = Subscription {
        share: Some("g".into()),
        ..qos1("t")
    };
    let wanted = [qos1("t"), qos1("u"), qos1("u"), shared.clone()];
    let answers = subscribed(&mut world, kept, &wanted);
    assert_eq!(answers, [GRANTED, FULL, FULL, FULL]);
    let answers = subscribed(&mut world, other, &[qos1("u"), shared]);
    assert_eq!(answers, [GRANTED; 2], "nothing of it is written");
    room(&mut world, DiskRoom::Enough);
    assert_eq!(subscribed(&mut world, kept, &[qos1("u")]), [GRANTED]);
}

#[test]
fn on_a_full_disk_a_retained_message_can_be_cleared_m47() {
    let mut world = World::new();
    for topic in ["one", "two", "kept"] {
        world.retain(topic, "before", QoS::AtLeastOnce);
    }
    let away = durable(&mut world, "away");
    world.subscribe(away, qos1("kept"));
    world.settle();
    world.detach(away, DetachCause::Lost);
    let live = clean(&mut world, "live");
    let retained =
        |world: &mut World| world.call(DURABLE, |it, _, _| it.counts().retained_messages);
    room(&mut world, DiskRoom::Short);
    let cleared = world.retain("one", "", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(cleared));
    assert_eq!(retained(&mut world), 2);
    world.subscribe(live, qos1("two"));
    world.settle();
    assert_eq!(world.got(live), ["before"]);
    world.retain("two", "", QoS::AtMostOnce);
    world.settle();
    assert_eq!(retained(&mut world), 1);
    assert_eq!(world.got(live), [""], "who is there hears of it");
    // It would wait for somebody.
    let waits = world.retain("kept", "", QoS::AtLeastOnce);
    let new = world.retain("new", "new", QoS::AtLeastOnce);
    world.settle();
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    assert_eq!(world.publishes[waits].1, refused);
    assert_eq!(world.publishes[new].1, refused);
    assert_eq!(retained(&mut world), 1);
    assert_eq!(world.fx.dropped.get(&Dropped::DiskFull), None);
}

/// What was let in and not yet written was counted nowhere, so a burst was let in that was larger than the reserve.
#[test]
fn m4_a_burst_is_let_in_as_far_as_the_disk_has_room_for_all_of_it() {
    let mut world = World::new();
    let budget = DiskBudget::default();
    for place in [DURABLE, OTHER] {
        world.call(place, |it, _, _| it.share_disk_budget(&budget));
    }
    let a = durable(&mut world, "a");
    world.subscribe(a, qos1("t"));
    world.detach(a, DetachCause::Lost);
    let sender = durable(&mut world, "sender");
    publish_qos2(&mut world, sender, 5, "t", "held", 11);
    world.settle();
    let large = "x".repeat(1_000);
    budget.fill(2_500);
    let sent = [0, 1, 2].map(|_| world.send("t", &large, QoS::AtLeastOnce));
    // Those that are written once more elsewhere need the room for that, too.
    publish_qos2(&mut world, sender, 6, "t", &large, 12);
    let small = world.send("t", "small", QoS::AtLeastOnce);
    assert!(budget.has_refused() && !budget.has_refused());
    world.settle();
    let refused = Settled::Refused(Refusal::QuotaExceeded);
    let results = sent.map(|at| world.publishes[at].1);
    assert_eq!(results, [Settled::Ok, Settled::Ok, refused]);
    assert!(world.is_acked(small), "what fits is taken");
    assert_eq!(world.clients[sender].pubrec[1], (6, refused, true));
    // What ends something is not asked for room, and there is no shortage behind the burst.
    budget.fill(0);
    release(&mut world, sender, 5);
    assert_eq!(world.clients[sender].pubcomp, [(5, true)]);
    world.attach(a, Options::durable());
    assert_eq!(world.got(a), ["held", &large, &large, "small"]);
    budget.fill(2_500);
    let after = world.send("t", "after", QoS::AtLeastOnce);
    world.settle();
    assert!(world.is_acked(after));
}

/// Where nothing else is written nobody would look at the disk again: what was refused once was refused for good.
#[test]
fn m47_who_is_refused_for_want_of_room_has_it_looked_for() {
    let mut world = World::new();
    let budget = DiskBudget::default();
    for place in [DURABLE, OTHER] {
        world.call(place, |it, _, _| it.share_disk_budget(&budget));
    }
    let kept = durable(&mut world, "kept");
    budget.fill(0);
    assert_eq!(subscribed(&mut world, kept, &[qos1("t")]), [FULL]);
    assert!(budget.has_refused());
    let new = world.client("new");
    assert_eq!(comes(&mut world, new, with_will(100)), NO_DISK);
    assert!(budget.has_refused());
    budget.fill(1_000);
    assert_eq!(comes(&mut world, new, with_will(100)), Ok(()));
    assert_eq!(subscribed(&mut world, kept, &[qos1("t")]), [GRANTED]);
    assert!(!budget.has_refused());
}

/// Lets in clients with wills, that are away then: their wills are due ten seconds later.
fn with_wills(world: &mut World, names: &[&str], bytes: usize, expiry_seconds: u32) {
    for name in names {
        let at = world.client(name);
        let mut options = with_will(bytes);
        options.will.as_mut().unwrap().delay_seconds = 10;
        options.expiry_seconds = expiry_seconds;
        assert_eq!(comes(world, at, options), Ok(()));
        world.detach(at, DetachCause::Lost);
    }
    world.settle();
}

/// So many wills wait for this session.
fn wills_for(world: &mut World, at: usize) -> usize {
    world.attach(at, Options::durable());
    world.settle();
    let got = world.got(at).len();
    world.detach(at, DetachCause::Lost);
    got
}

/// They were let in while there was room, and nobody counted what they wrote when they went: all together, on a disk that was full by then.
#[test]
fn m47_wills_that_go_at_once_take_no_more_than_there_is_room_for() {
    let mut world = World::new();
    let budget = DiskBudget::default();
    for place in [DURABLE, OTHER] {
        world.call(place, |it, _, _| it.share_disk_budget(&budget));
    }
    let keeper = durable(&mut world, "keeper");
    world.subscribe(keeper, qos1("t"));
    world.detach(keeper, DetachCause::Lost);
    with_wills(&mut world, &["a", "b", "c", "d", "e"], 1_000, 3_600);
    budget.fill(2_500);
    world.pass_time(11_000);
    world.settle();
    assert!(budget.has_refused(), "room is looked for");
    assert_eq!(wills_for(&mut world, keeper), 2);
    budget.fill(u64::MAX);
    world.pass_time(1_000);
    world.settle();
    assert_eq!(
        wills_for(&mut world, keeper),
        3,
        "they have waited for room"
    );
    assert_eq!(world.fx.dropped.get(&Dropped::DiskFull), None);
}

#[test]
fn m47_while_the_disk_is_short_small_wills_go_and_large_ones_wait() {
    let mut world = World::new();
    let keeper = durable(&mut world, "keeper");
    world.subscribe(keeper, qos1("t"));
    world.detach(keeper, DetachCause::Lost);
    let most = DiskRoom::WILL_BYTES / 2 - "t".len();
    with_wills(&mut world, &["a", "b", "c"], most, 3_600);
    with_wills(&mut world, &["large"], 60_000, 3_600);
    room(&mut world, DiskRoom::Short);
    world.pass_time(11_000);
    world.settle();
    assert_eq!(wills_for(&mut world, keeper), 2);
    room(&mut world, DiskRoom::Enough);
    world.pass_time(1_000);
    world.settle();
    assert_eq!(wills_for(&mut world, keeper), 2);
}

/// What ends a session makes room, and does not wait for some.
#[test]
fn m47_a_large_will_whose_session_ends_on_a_full_disk_is_dropped_and_counted() {
    let mut world = World::new();
    let keeper = durable(&mut world, "keeper");
    world.subscribe(keeper, qos1("t"));
    world.detach(keeper, DetachCause::Lost);
    let live = clean(&mut world, "live");
    world.subscribe(live, qos1("t"));
    with_wills(&mut world, &["a"], 60_000, 5);
    let sessions = |world: &mut World| world.call(DURABLE, |it, _, _| it.counts().sessions);
    let before = sessions(&mut world);
    room(&mut world, DiskRoom::Short);
    world.pass_time(11_000);
    world.settle();
    assert_eq!(sessions(&mut world), before - 1);
    assert_eq!(world.fx.dropped.get(&Dropped::DiskFull), Some(&1));
    assert_eq!(world.got(live).len(), 1, "who is there hears of it");
    assert_eq!(wills_for(&mut world, keeper), 0);
}
