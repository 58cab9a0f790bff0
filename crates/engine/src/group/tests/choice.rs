//! Whom each strategy picks.

use super::*;

#[test]
fn round_robin_takes_turns_within_windows() {
    let mut bench = Bench::with_members(SharedStrategy::RoundRobin, 3, 2);
    bench.push(10, QoS::AtLeastOnce);
    assert_eq!(
        bench.receivers(),
        [0, 1, 2, 0, 1, 2],
        "then all windows are full"
    );
    bench.outcome(1, 1..=1, OutcomeKind::Done);
    assert_eq!(bench.receivers(), [1]);
    bench.outcome(0, 0..=3, OutcomeKind::Done);
    assert_eq!(bench.receivers(), [0, 0]);
    assert_eq!(bench.dispatch.under_way(), 6);
}

#[test]
fn sticky_stays_while_there_is_room() {
    let mut bench = Bench::with_members(SharedStrategy::Sticky, 2, 2);
    bench.push(3, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 0, 1]);
    bench.push(1, QoS::AtLeastOnce);
    bench.outcome(0, 0..=1, OutcomeKind::Done);
    assert_eq!(bench.receivers(), [1], "the new one stays as well");
    bench.detach(1);
    assert_eq!(bench.receivers(), [0, 0]);
}

#[test]
fn least_outstanding_evens_out() {
    let mut bench = Bench::with_members(SharedStrategy::LeastOutstanding, 2, 9);
    bench.push(4, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [0, 1, 0, 1]);
    bench.outcome(1, 1..=3, OutcomeKind::Done);
    bench.push(2, QoS::AtLeastOnce);
    assert_eq!(bench.receivers(), [1, 1]);
}

#[test]
fn hash_keeps_a_topic_with_a_member_and_waits_for_its_room() {
    let mut bench = Bench::with_members(SharedStrategy::HashTopic, 4, 1);
    bench.push(9, QoS::AtLeastOnce);
    let mut by_topic: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    let mut given = bench.send();
    while !given.is_empty() {
        for (seq, session, _) in given {
            by_topic.entry(seq % 3).or_default().push((seq, session));
            bench.outcome(session, seq..=seq, OutcomeKind::Done);
        }
        given = bench.send();
    }
    for (topic, deliveries) in by_topic {
        let expected: Vec<_> = (0..3).map(|n| (topic + 3 * n, deliveries[0].1)).collect();
        assert_eq!(deliveries, expected, "one member, in order");
    }
}

#[test]
fn hash_moves_only_the_topics_of_who_leaves() {
    let owners = |absent: Option<u64>| -> Vec<u64> {
        let mut bench = Bench::with_members(SharedStrategy::HashTopic, 5, 1);
        if let Some(session) = absent {
            bench.detach(session);
        }
        (0..200)
            .map(|topic| {
                let receiver = bench.dispatch.pick_unstored(topic, 100);
                receiver.expect("somebody is there").home.session.0
            })
            .collect()
    };
    let all = owners(None);
    for session in 0..5 {
        let share = all.iter().filter(|&&owner| owner == session).count();
        assert!((20..=60).contains(&share), "{session} has {share} of 200");
    }
    for (before, after) in all.iter().zip(owners(Some(2))) {
        assert!(*before == 2 || *before == after);
        assert_ne!(after, 2);
    }
}

/// It held up all others once 1,024 messages waited for it.
#[test]
fn m35_hash_goes_on_beside_a_member_that_takes_nothing() {
    let mut bench = Bench::with_members(SharedStrategy::HashTopic, 2, 1);
    bench.detach(1);
    bench.attach(1, u32::MAX);
    bench.push(9_000, QoS::AtLeastOnce);
    let (stuck, others): (Vec<_>, Vec<_>) =
        bench.send().into_iter().partition(|given| given.1 == 0);
    assert_eq!(stuck.len(), 1);
    let topics: std::collections::BTreeSet<u64> = others.iter().map(|given| given.0 % 3).collect();
    assert_eq!(others.len(), 3_000 * topics.len());
}

#[test]
fn hash_sets_a_bounded_number_aside() {
    let mut bench = Bench::with_members(SharedStrategy::HashTopic, 2, 1);
    bench.push(3, QoS::AtLeastOnce);
    bench.send();
    bench
        .stream
        .extend(std::iter::repeat_n(QoS::AtLeastOnce, 3 * ASIDE_MAX_SEEN));
    let before = bench.dispatch.under_way();
    bench.send();
    assert!(bench.dispatch.under_way() <= 2);
    assert!(before <= 2);
    bench.detach(0);
    bench.detach(1);
    bench.commit();
    bench.attach(0, u32::MAX);
    let mut order: Vec<u64> = Vec::new();
    loop {
        let given: Vec<u64> = bench.send().into_iter().map(|(seq, ..)| seq).collect();
        let (Some(&first), Some(&last)) = (given.first(), given.last()) else {
            break;
        };
        bench.outcome(0, first..=last, OutcomeKind::Done);
        order.extend(given);
    }
    assert_eq!(order.len(), bench.stream.len(), "nothing is left aside");
    assert!(order.is_sorted());
}

const ASIDE_MAX_SEEN: usize = super::super::dispatch::ASIDE_MAX;

#[test]
fn the_highest_priority_present_gets_everything() {
    let mut bench = Bench::new(SharedStrategy::RoundRobin);
    for (session, priority) in [(0, 1), (1, 2), (2, 2), (3, -5)] {
        bench.join(session, member(QoS::AtLeastOnce, priority));
        bench.attach(session, 2);
    }
    bench.push(9, QoS::AtLeastOnce);
    assert_eq!(
        bench.receivers(),
        [1, 2, 1, 2],
        "then it waits; lower ones stay idle"
    );
    bench.detach(1);
    assert_eq!(bench.receivers(), [] as [u64; 0]);
    bench.detach(2);
    assert_eq!(bench.receivers(), [0, 0], "the next level takes over");
    bench.attach(2, 0);
    bench.outcome(0, 0..=9, OutcomeKind::Done);
    assert_eq!(bench.receivers(), [] as [u64; 0], "who pauses is present");
    bench.leave(2, Leave::Unsubscribed);
    bench.leave(0, Leave::SessionEnded);
    assert_eq!(bench.receivers(), [3, 3]);
}
