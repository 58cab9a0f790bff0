use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{AppendNumber, Origin, Refusal, Settled, ShardId};
use proptest::prelude::*;

use super::*;
use crate::canonical::read_whole;

const REFUSED: Known = Known::Repeat(Settled::Refused(Refusal::Unspecified));
const STORED: Known = Known::Repeat(Settled::Ok);

fn origin(node: u16, shard: u16, start: u32) -> Origin {
    Origin {
        node,
        shard: ShardId(shard),
        start,
    }
}

fn classify(origins: &Origins, from: Origin, number: u64, floor: u64) -> Known {
    origins.classify(from, AppendNumber(number), AppendNumber(floor))
}

fn take(origins: &mut Origins, from: Origin, number: u64, floor: u64) -> bool {
    let new = origins.take(from, AppendNumber(number), AppendNumber(floor));
    origins.check();
    new
}

#[test]
fn m14_repeats_are_known_by_the_set_and_the_last() {
    let mut origins = Origins::default();
    let a = origin(1, 0, 1);
    for number in [1, 2, 4, 5] {
        assert!(take(&mut origins, a, number, 1));
    }
    for (number, floor, expected) in [
        (1, 1, STORED),
        (3, 1, REFUSED), // passed over, so it was refused
        (5, 1, STORED),
        (6, 1, Known::New),
        (9, 1, Known::New),
        (2, 3, Known::Dropped), // its origin has settled it
        (4, 3, STORED),
        (1 + SPAN_MAX, 1, Known::OutOfRange),
        (1 + SPAN_MAX, 2, Known::New),
    ] {
        assert_eq!(
            classify(&origins, a, number, floor),
            expected,
            "{number} with floor {floor}"
        );
    }
    assert!(
        !take(&mut origins, a, 4, 1),
        "a repeat in the log is skipped (M4)"
    );
}

#[test]
fn m14_an_unknown_origin_starts_at_its_floor() {
    let mut origins = Origins::default();
    let a = origin(1, 0, 3);
    assert_eq!(classify(&origins, a, 70, 70), Known::New);
    assert_eq!(classify(&origins, a, 69, 70), Known::Dropped);
    assert!(take(&mut origins, a, 72, 70));
    assert_eq!(classify(&origins, a, 71, 70), REFUSED);
    assert_eq!(
        classify(&origins, a, 69, 60),
        Known::Dropped,
        "a floor never falls"
    );
}

#[test]
fn m14_a_newer_start_of_a_node_ends_all_its_older_origins() {
    let mut origins = Origins::default();
    take(&mut origins, origin(1, 0, 7), 1, 1);
    take(&mut origins, origin(1, 1, 7), 1, 1);
    take(&mut origins, origin(2, 0, 1), 1, 1);
    take(&mut origins, origin(1, 1, 8), 1, 1);
    for shard in [0, 1, 2] {
        assert_eq!(
            classify(&origins, origin(1, shard, 7), 1, 1),
            Known::Dropped
        );
        assert_eq!(
            classify(&origins, origin(1, shard, 7), 9, 1),
            Known::Dropped
        );
    }
    assert_eq!(classify(&origins, origin(1, 0, 8), 1, 1), Known::New);
    assert_eq!(classify(&origins, origin(1, 1, 8), 1, 1), STORED);
    assert_eq!(
        classify(&origins, origin(2, 0, 1), 1, 1),
        STORED,
        "another node"
    );
}

#[test]
fn a_floor_that_passes_everything_forgets_everything() {
    let mut origins = Origins::default();
    let a = origin(1, 0, 1);
    take(&mut origins, a, 3, 1);
    take(&mut origins, a, 40, 39);
    assert_eq!(classify(&origins, a, 39, 39), REFUSED);
    assert_eq!(classify(&origins, a, 3, 1), Known::Dropped);
    assert!(origins.contains(a, AppendNumber(40)));
    assert!(!origins.contains(a, AppendNumber(3)));
}

#[test]
fn numbers_without_gaps_take_one_range() {
    let mut ranges = Ranges::default();
    for number in 1..=100_000 {
        ranges.insert(number);
    }
    assert_eq!(ranges.len(), 1);
}

#[test]
fn bytes_that_break_an_invariant_are_refused() {
    let mut origins = Origins::default();
    take(&mut origins, origin(1, 0, 1), 5, 3);
    let mut bytes = Vec::new();
    origins.encode(&mut bytes);
    assert_eq!(read_whole(&bytes, Origins::read), Ok(origins));
    // Node count 4, node 2, start 4, shard count 4, shard 2: then floor 8, count 4, range 16.
    for (at, value) in [(16, 9), (28, 2), (36, 4)] {
        let mut broken = bytes.clone();
        broken[at] = value;
        assert!(
            matches!(
                read_whole(&broken, Origins::read),
                Err(DecodeError::Invalid(_))
            ),
            "byte {at}"
        );
    }
}

/// All that ever happened to one origin, without any forgetting.
#[derive(Default)]
struct Naive {
    taken: BTreeSet<u64>,
    refused: BTreeSet<u64>,
}

proptest! {
    #[test]
    fn ranges_behave_like_a_set(
        steps in prop::collection::vec((any::<bool>(), 0_u64..64), 1..200)
    ) {
        let mut ranges = Ranges::default();
        let mut model = BTreeSet::new();
        for (insert, number) in steps {
            if insert {
                prop_assert_eq!(ranges.insert(number), model.insert(number));
            } else if number < 16 {
                let floor = model.first().copied().unwrap_or(0) + number;
                ranges.remove_below(floor);
                model = model.split_off(&floor);
            }
            ranges.check();
            for number in 0..80 {
                prop_assert_eq!(ranges.contains(number), model.contains(&number));
            }
            prop_assert_eq!(ranges.first(), model.first().copied());
            prop_assert_eq!(ranges.last(), model.last().copied());
            let mut bytes = Vec::new();
            ranges.write(&mut bytes);
            prop_assert_eq!(Reader::new(&bytes).read::<Ranges>(), Ok(ranges.clone()));
        }
    }

    /// One origin, one partition whose leader changes: what was proposed and has not committed is lost with the leader, and
    /// the origin sends all unsettled again in number order. Nothing is stored twice, and what the origin hears is true.
    #[test]
    fn m14_resends_after_a_leader_change_are_stored_once(
        steps in prop::collection::vec((0_u8..12, any::<bool>()), 1..300)
    ) {
        let a = origin(1, 0, 1);
        let mut committed = Origins::default();
        let mut leader = committed.clone();
        let mut naive = Naive::default();
        let mut under_way: Vec<(u64, u64)> = Vec::new();
        let mut unsettled: BTreeMap<u64, Option<bool>> = BTreeMap::new();
        let mut next = 1;
        for (kind, accept) in steps {
            let floor = unsettled.keys().next().copied().unwrap_or(next);
            let mut sends = Vec::new();
            match kind {
                // A new append.
                0..=4 => {
                    sends.push(next);
                    unsettled.insert(next, None);
                    next += 1;
                }
                // The oldest entry commits and is answered.
                5..=7 if !under_way.is_empty() => {
                    let (number, floor) = under_way.remove(0);
                    prop_assert!(take(&mut committed, a, number, floor));
                    prop_assert!(naive.taken.insert(number), "{} is stored once", number);
                    unsettled.remove(&number);
                }
                // The leader changes: the new one knows what is committed.
                8 => {
                    under_way.clear();
                    leader = committed.clone();
                    sends.extend(unsettled.keys());
                }
                // The link breaks: the same leader gets everything again.
                9 => sends.extend(unsettled.keys()),
                _ => {}
            }
            for number in sends {
                let floor = unsettled.keys().next().copied().unwrap_or(floor);
                match classify(&leader, a, number, floor) {
                    Known::New if accept => {
                        prop_assert!(take(&mut leader, a, number, floor));
                        under_way.push((number, floor));
                    }
                    Known::New => {
                        naive.refused.insert(number);
                        unsettled.remove(&number);
                    }
                    Known::Repeat(Settled::Ok) => {
                        let stored = committed.contains(a, AppendNumber(number));
                        let coming = under_way.iter().any(|entry| entry.0 == number);
                        prop_assert!(stored != coming, "either stored or under way");
                        if stored {
                            unsettled.remove(&number);
                        }
                    }
                    Known::Repeat(Settled::Refused(_)) => {
                        prop_assert!(!naive.taken.contains(&number));
                        unsettled.remove(&number);
                    }
                    other @ (Known::Dropped | Known::OutOfRange) => {
                        prop_assert!(false, "{:?} for an unsettled number", other);
                    }
                }
            }
            let mut bytes = Vec::new();
            committed.encode(&mut bytes);
            prop_assert_eq!(read_whole(&bytes, Origins::read), Ok(committed.clone()));
        }
        prop_assert!(naive.taken.is_disjoint(&naive.refused));
    }

    /// Against a model that remembers everything: taken, passed over, forgotten by the floor.
    #[test]
    fn m14_agrees_with_a_model_that_forgets_nothing(
        steps in prop::collection::vec((1_u64..6, 0_u64..3, 1_u32..4, 0_u16..2), 1..120)
    ) {
        let mut origins = Origins::default();
        let mut model: BTreeMap<(u16, u32), (u64, BTreeSet<u64>)> = BTreeMap::new();
        let mut newest = 0;
        for (ahead, floor_ahead, start, shard) in steps {
            let from = origin(1, shard, start);
            let known = model.get(&(shard, start)).cloned();
            let (floor, taken) = known.unwrap_or((1, BTreeSet::new()));
            let last = taken.last().copied().unwrap_or(floor - 1);
            let number = (last + ahead).saturating_sub(2).max(1);
            let floor = (floor + floor_ahead).min(number.max(floor));
            let expected = if start < newest || number < floor {
                Known::Dropped
            } else if taken.contains(&number) {
                STORED
            } else if number < last {
                REFUSED
            } else {
                Known::New
            };
            prop_assert_eq!(classify(&origins, from, number, floor), expected);
            prop_assert_eq!(take(&mut origins, from, number, floor), expected == Known::New);
            if expected == Known::New {
                newest = start;
                let (at, set) = model.entry((shard, start)).or_default();
                *at = floor;
                set.insert(number);
            }
        }
    }
}
