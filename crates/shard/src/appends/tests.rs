//! M10, M11, M14: numbers, floors, worst answers; M25: who is still open, and last words.

use super::*;
use crate::LastWords;
use courser_contract::{Epoch, Refusal, ShardId, Tick, ToHome};
use proptest::prelude::*;

const ORIGIN: Origin = Origin {
    node: 0,
    shard: ShardId(0),
    start: 1,
};
const REFUSED: Settled = Settled::Refused(Refusal::QuotaExceeded);

fn front(slot: u32) -> FrontId {
    FrontId {
        shard: ShardId(0),
        slot,
        generation: 1,
    }
}

fn publish(appends: &mut Appends<u32, ()>, slot: u32, ticket: u32, to: &[u16]) -> Vec<(u64, u64)> {
    let waiting = appends.begin(front(slot), Ticket(ticket), ticket);
    to.iter()
        .map(
            |&partition| match appends.number(waiting, PartitionId(partition), ()) {
                AppendKey::Numbered { number, floor, .. } => (number.0, floor.0),
                AppendKey::Unanswered | AppendKey::Outbox { .. } => unreachable!("it is numbered"),
            },
        )
        .collect()
}

fn settle(
    appends: &mut Appends<u32, ()>,
    partition: u16,
    number: u64,
    result: Settled,
) -> Option<Done<u32>> {
    let done = appends.settled(PartitionId(partition), ORIGIN, AppendNumber(number), result);
    appends.check();
    done
}

#[test]
fn m14_numbers_count_per_partition_and_carry_the_lowest_unsettled() {
    let mut appends = Appends::new(ORIGIN, 4, 1);
    assert_eq!(publish(&mut appends, 0, 1, &[1]), [(1, 1)]);
    assert_eq!(publish(&mut appends, 0, 2, &[1]), [(2, 1)]);
    assert_eq!(publish(&mut appends, 0, 3, &[2]), [(1, 1)]);
    assert!(settle(&mut appends, 1, 2, Settled::Ok).is_some());
    assert_eq!(
        publish(&mut appends, 0, 4, &[1]),
        [(3, 1)],
        "number 1 still waits"
    );
    assert!(settle(&mut appends, 1, 1, Settled::Ok).is_some());
    assert_eq!(publish(&mut appends, 0, 5, &[1]), [(4, 3)]);
}

#[test]
fn m13_volatile_partitions_that_may_refuse_are_numbered_too() {
    let mut appends = Appends::new(ORIGIN, 4, 2);
    let volatile = PartitionId::volatile_of(ShardId(1));
    assert_eq!(
        publish(&mut appends, 0, 1, &[1, volatile.0]),
        [(1, 1), (1, 1)]
    );
    assert_eq!(appends.open(front(0)), [PartitionId(1), volatile]);
    assert_eq!(settle(&mut appends, 1, 1, Settled::Ok), None);
    assert!(settle(&mut appends, volatile.0, 1, REFUSED).is_some());
}

#[test]
fn m10_a_publish_settles_with_the_last_and_worst_answer() {
    let mut appends = Appends::new(ORIGIN, 4, 1);
    publish(&mut appends, 7, 9, &[1, 2, 3]);
    assert_eq!(settle(&mut appends, 2, 1, REFUSED), None);
    assert_eq!(
        settle(&mut appends, 2, 1, Settled::Ok),
        None,
        "a second answer changes nothing"
    );
    assert_eq!(settle(&mut appends, 1, 1, Settled::Ok), None);
    let done = Done {
        front: front(7),
        ticket: Ticket(9),
        result: REFUSED,
        noted: 9,
    };
    assert_eq!(settle(&mut appends, 3, 1, Settled::Ok), Some(done));
    assert_eq!(appends.waiting(), 0);
}

#[test]
fn m14_answers_of_another_start_or_to_numbers_never_given_change_nothing() {
    let mut appends = Appends::new(ORIGIN, 2, 1);
    publish(&mut appends, 0, 1, &[1]);
    let earlier = Origin { start: 0, ..ORIGIN };
    assert_eq!(
        appends.settled(PartitionId(1), earlier, AppendNumber(1), Settled::Ok),
        None
    );
    for (partition, number) in [(1, 0), (1, 2), (0, 1), (9, 1)] {
        assert_eq!(settle(&mut appends, partition, number, Settled::Ok), None);
    }
    assert_eq!(appends.waiting(), 1);
}

#[test]
fn m25_open_names_the_partitions_that_have_not_answered_a_front() {
    let mut appends = Appends::new(ORIGIN, 4, 1);
    publish(&mut appends, 1, 1, &[1, 3]);
    publish(&mut appends, 2, 1, &[2]);
    assert_eq!(appends.open(front(1)), [PartitionId(1), PartitionId(3)]);
    settle(&mut appends, 1, 1, Settled::Ok);
    assert_eq!(appends.open(front(1)), [PartitionId(3)]);
    assert_eq!(appends.open(front(3)), []);
}

#[test]
fn m25_last_words_wait_for_the_fronts_appends_but_not_for_ever() {
    let detach = || ToHome::Unclaim {
        client_id: "c".into(),
        epoch: Epoch(1),
        open: Vec::new(),
    };
    let mut words = LastWords::default();
    words.hold(Tick(0), front(1), 2, (PartitionId(1), detach()));
    words.hold(Tick(5), front(1), 2, (PartitionId(2), detach()));
    words.hold(Tick(9), front(2), 1, (PartitionId(1), detach()));
    assert!(words.settled(front(3)).is_none());
    assert!(words.settled(front(1)).is_none());
    let leaving = words.settled(front(1)).expect("both are settled");
    assert_eq!(
        leaving
            .messages
            .iter()
            .map(|(to, _)| to.0)
            .collect::<Vec<_>>(),
        [1, 2]
    );
    assert!(words.overdue(Tick(10_008)).is_none());
    assert_eq!(
        words.overdue(Tick(10_009)).map(|leaving| leaving.front),
        Some(front(2))
    );
    assert!(words.is_empty());
}

#[test]
fn m14_a_new_leader_gets_what_was_not_settled_in_its_order() {
    let mut appends = Appends::new(ORIGIN, 2, 1);
    for (ticket, kept) in [(1, "a"), (2, "b"), (3, "c")] {
        let waiting = appends.begin(front(0), Ticket(ticket), ());
        appends.number(waiting, PartitionId(1), kept);
    }
    appends.settled(PartitionId(1), ORIGIN, AppendNumber(2), Settled::Ok);
    let again = |number, kept| {
        let key = AppendKey::Numbered {
            origin: ORIGIN,
            number: AppendNumber(number),
            floor: AppendNumber(1),
        };
        (key, kept)
    };
    let unsettled: Vec<_> = appends.unsettled(PartitionId(1)).collect();
    assert_eq!(unsettled, [again(1, &"a"), again(3, &"c")]);
    assert_eq!(appends.unsettled(PartitionId(0)).count(), 0);
}

proptest! {
    /// Whatever the order of answers: each publish settles once, with its worst answer, and the floor reaches the end.
    #[test]
    fn m14_every_publish_settles_once(
        publishes in prop::collection::vec(prop::collection::btree_set(0u16..3, 1..=3), 1..30),
        order in any::<u64>(),
        refused in any::<u64>(),
    ) {
        let mut appends = Appends::new(ORIGIN, 3, 1);
        let mut answers = Vec::new();
        let mut expected = Vec::new();
        for (ticket, to) in publishes.iter().enumerate() {
            let to: Vec<u16> = to.iter().copied().collect();
            let numbers = publish(&mut appends, 0, ticket as u32, &to);
            let mut worst = Settled::Ok;
            for (&partition, (number, _)) in to.iter().zip(numbers) {
                let result = if refused >> ((number + u64::from(partition)) % 64) & 1 == 1 { REFUSED } else { Settled::Ok };
                worst = worse(worst, result);
                answers.push((partition, number, result));
            }
            expected.push(worst);
        }
        let mut state = order;
        let mut settled = vec![None; publishes.len()];
        while !answers.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (partition, number, result) = answers.swap_remove((state >> 33) as usize % answers.len());
            if let Some(done) = settle(&mut appends, partition, number, result) {
                let ticket = done.ticket.0 as usize;
                prop_assert_eq!(settled[ticket].replace(done.result), None);
            }
        }
        let settled: Vec<Settled> = settled.into_iter().map(|result| result.expect("all have answered")).collect();
        prop_assert_eq!(settled, expected);
        prop_assert_eq!(appends.waiting(), 0);
        prop_assert_eq!(appends.watermarks().count(), 0);
    }
}
