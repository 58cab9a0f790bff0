use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use courser_contract::LogIndex;
use proptest::prelude::*;

use super::{Found, PartitionPlaces, STRETCH_BYTES};
use crate::ids::{Place, SegmentNumber};

#[derive(Clone, Debug)]
enum Op {
    /// This many entries; the first is this far back from the end.
    Add { count: u64, back: u64 },
    /// An entry in this many pieces.
    Pieces(u64),
    /// The next batches lie in the next segment.
    Roll,
    /// Everything in the oldest segment is dead.
    ForgetOldest,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1_u64..20, 0_u64..3).prop_map(|(count, back)| Op::Add { count, back: back * back }),
        1 => (1_u64..4).prop_map(Op::Pieces),
        1 => Just(Op::Roll),
        1 => Just(Op::ForgetOldest),
    ]
}

proptest! {
    /// Beside a map from each index to the place of its batch.
    #[test]
    fn an_entry_is_found_at_or_behind_where_the_table_says(ops in prop::collection::vec(op(), 1..120)) {
        let mut places = PartitionPlaces::default();
        let mut naive: BTreeMap<u64, Vec<Place>> = BTreeMap::new();
        let mut place = Place { segment: SegmentNumber(1), offset: 4096 };
        let mut oldest = 1;
        let mut last = 0_u64;
        for op in ops {
            match op {
                Op::Add { count, back } => {
                    let first = last.saturating_sub(back) + 1;
                    last = first + count - 1;
                    naive.split_off(&first);
                    for index in first..=last {
                        naive.insert(index, vec![place]);
                    }
                    places.add(LogIndex(first), LogIndex(last), place);
                    place.offset += 4096 * count;
                }
                Op::Pieces(count) => {
                    last += 1;
                    let all: Vec<Place> = (0..count)
                        .map(|nth| Place { offset: place.offset + nth * 4096, ..place })
                        .collect();
                    place.offset += count * 4096;
                    naive.insert(last, all.clone());
                    places.add_pieces(LogIndex(last), all);
                }
                Op::Roll => place = Place { segment: place.segment.next(), offset: 4096 },
                Op::ForgetOldest if oldest < place.segment.0 => {
                    places.forget(&BTreeSet::from([SegmentNumber(oldest)]));
                    naive.retain(|_, places| places[0].segment.0 != oldest);
                    oldest += 1;
                }
                Op::ForgetOldest => {}
            }
        }
        for index in 0..=last + 2 {
            match (naive.get(&index), places.find(LogIndex(index))) {
                (None, None) => {}
                (Some(exact), Some(Found::From(from))) => {
                    prop_assert_eq!(exact.len(), 1);
                    prop_assert_eq!(exact[0].segment, from.segment);
                    prop_assert!(from.offset <= exact[0].offset);
                    prop_assert!(exact[0].offset < from.offset + STRETCH_BYTES);
                }
                (Some(exact), Some(Found::Pieces(found))) => prop_assert_eq!(&exact[..], found),
                (expected, found) => prop_assert!(false, "{index}: {expected:?} {found:?}"),
            }
        }
        for first in (1..=last).step_by(7) {
            let missing = (first..=last).find(|index| !naive.contains_key(index));
            prop_assert_eq!(
                places.first_missing(LogIndex(first), LogIndex(last)),
                missing.map(LogIndex)
            );
        }
    }
}

/// The writer commits for nobody while it copies the table or takes freed segments out of it (I10).
#[test]
fn i10_a_copy_and_freed_segments_touch_no_place_of_other_segments() {
    const SEGMENTS: u64 = 6;
    let mut places = PartitionPlaces::default();
    let entry = |index: u64| {
        let place = Place {
            segment: SegmentNumber(1 + index / 100),
            offset: 4096 + index % 100 * STRETCH_BYTES,
        };
        (LogIndex(index), place)
    };
    for index in 1..SEGMENTS * 100 {
        let (index, place) = entry(index);
        places.add(index, index, place);
    }
    let copy = places.clone();
    let (next, place) = entry(SEGMENTS * 100 - 1);
    places.add(LogIndex(next.0 + 1), LogIndex(next.0 + 1), place);
    places.forget(&BTreeSet::from([1, 3, 4].map(SegmentNumber)));
    let shared = |of: &PartitionPlaces, segment: u64| {
        let chunk = of.chunks.iter().find(|it| it.segment.0 == segment);
        chunk.map(|chunk| Arc::as_ptr(&chunk.items))
    };
    for segment in 1..=SEGMENTS {
        let found = shared(&places, segment);
        match segment {
            1 | 3 | 4 => assert_eq!(found, None),
            // What is written goes on by itself.
            SEGMENTS => assert_ne!(found, shared(&copy, segment)),
            _ => assert_eq!(found, shared(&copy, segment)),
        }
    }
    for index in 1..SEGMENTS * 100 {
        let (index, place) = entry(index);
        assert_eq!(copy.find(index), Some(Found::From(place)));
        let is_gone = matches!(place.segment.0, 1 | 3 | 4);
        assert_eq!(places.find(index).is_none(), is_gone);
    }
    assert_eq!(copy.last(), Some(next));
}
