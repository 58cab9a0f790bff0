use courser_contract::WallMs;
use proptest::prelude::*;

use super::*;

fn drained(index: &mut DueIndex<u64>, now: u64, max: usize) -> (Vec<(u64, u64)>, bool) {
    let mut out = Vec::new();
    let more = index.pop_due(WallMs(now), max, &mut out);
    (out.into_iter().map(|(at, key)| (at.0, key)).collect(), more)
}

#[test]
fn earliest_first_then_by_key_and_never_early() {
    let mut index = DueIndex::default();
    for (at, key) in [(30, 1), (10, 9), (10, 2), (20, 5)] {
        assert!(index.insert(WallMs(at), key));
    }
    assert!(!index.insert(WallMs(10), 2), "already there");
    assert_eq!(index.next(), Some(WallMs(10)));
    assert_eq!(drained(&mut index, 9, 10), (vec![], false));
    assert_eq!(drained(&mut index, 20, 2), (vec![(10, 2), (10, 9)], true));
    assert_eq!(drained(&mut index, 20, 10), (vec![(20, 5)], false));
    assert_eq!(index.entries.len(), 1);
}

#[test]
fn a_budget_of_nothing_takes_nothing_and_says_that_more_is_due() {
    let mut index = DueIndex::default();
    index.insert(WallMs(1), 1);
    assert_eq!(drained(&mut index, 1, 0), (vec![], true));
    assert_eq!(drained(&mut index, 0, 0), (vec![], false));
}

#[test]
fn a_change_moves_or_removes() {
    let mut index = DueIndex::default();
    index.change(7_u64, None, Some(WallMs(5)));
    index.change(7, Some(WallMs(5)), Some(WallMs(9)));
    assert_eq!(index.entries, BTreeSet::from([(WallMs(9), 7)]));
    index.change(7, Some(WallMs(9)), None);
    assert!(index.entries.is_empty());
}

proptest! {
    #[test]
    fn behaves_like_a_sorted_list(
        steps in prop::collection::vec((0_u8..4, 0_u64..40, 0_u64..6), 1..200)
    ) {
        let mut index = DueIndex::default();
        let mut model: Vec<(u64, u64)> = Vec::new();
        for (kind, at, key) in steps {
            match kind {
                0 | 1 => {
                    let new = !model.contains(&(at, key));
                    prop_assert_eq!(index.insert(WallMs(at), key), new);
                    if new {
                        model.push((at, key));
                        model.sort_unstable();
                    }
                }
                2 => {
                    let place = model.iter().position(|&entry| entry == (at, key));
                    prop_assert_eq!(index.remove(WallMs(at), key), place.is_some());
                    place.map(|place| model.remove(place));
                }
                _ => {
                    let due = model.iter().filter(|entry| entry.0 <= at).count();
                    let taken = due.min(key as usize);
                    let expected: Vec<_> = model.drain(..taken).collect();
                    prop_assert_eq!(drained(&mut index, at, key as usize), (expected, due > taken));
                }
            }
            prop_assert_eq!(index.entries.len(), model.len());
            prop_assert_eq!(index.next().map(|at| at.0), model.first().map(|entry| entry.0));
        }
    }
}
