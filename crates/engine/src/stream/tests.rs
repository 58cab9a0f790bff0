use proptest::prelude::*;

use super::*;
use crate::record::Slot;

fn reference(slot: u32, look: u32) -> Reference {
    Reference {
        slot: Slot(slot),
        look,
    }
}

#[test]
fn one_stuck_reference_pins_its_chunk_only_m17() {
    let mut spare = SpareChunks::default();
    let mut stream = Stream::default();
    for slot in 0..1_000 {
        stream.push(reference(slot, 1), 10, &mut spare);
    }
    for seq in 1..1_000 {
        assert!(stream.mark_done(seq).is_some());
        stream.forget_bytes(10);
    }
    stream.settle(&mut spare);
    stream.check();
    assert!(
        stream.held_slots() <= 256 + 232,
        "what is wholly done is an empty place"
    );
    assert_eq!(
        (stream.floor(), stream.next(), stream.live(), stream.bytes()),
        (0, 1_000, 1, 10)
    );
    stream.mark_done(0);
    stream.forget_bytes(10);
    stream.settle(&mut spare);
    stream.check();
    assert_eq!(stream.floor(), 1_000);
    assert!(
        stream.chunks.is_empty(),
        "nothing is held by a stream that is done"
    );
    assert_eq!(
        stream.push(reference(0, 1), 10, &mut spare),
        1_000,
        "positions are never reused"
    );
}

#[test]
fn what_is_done_is_not_received_and_not_done_again() {
    let mut spare = SpareChunks::default();
    let mut stream = Stream::default();
    stream.push(reference(7, 2), 1, &mut spare);
    assert!(stream.mark_received(0) && !stream.mark_received(0) && stream.is_received(0));
    assert_eq!(stream.mark_done(0), Some(reference(7, 2)));
    assert_eq!(stream.mark_done(0), None);
    assert!(!stream.mark_received(0) && !stream.is_received(0));
}

proptest! {
    /// Against a plain list.
    #[test]
    fn a_stream_is_a_list_with_holes(steps in prop::collection::vec((0..4u8, 0..600u64, 0..9u32), 1..900)) {
        let mut spare = SpareChunks::default();
        let mut stream = Stream::default();
        let mut model: Vec<Option<Reference>> = Vec::new();
        for (kind, seq, look) in steps {
            if kind < 3 {
                let pushed = reference(u32::try_from(model.len()).expect("few"), look);
                prop_assert_eq!(stream.push(pushed, 1, &mut spare), model.len() as u64);
                model.push(Some(pushed));
            } else {
                let done = model.get_mut(usize::try_from(seq).expect("few")).and_then(Option::take);
                prop_assert_eq!(stream.mark_done(seq), done);
                if done.is_some() {
                    stream.forget_bytes(1);
                }
                stream.settle(&mut spare);
                stream.check();
            }
        }
        let expected: Vec<_> = model
            .iter()
            .enumerate()
            .filter_map(|(seq, reference)| Some((seq as u64, (*reference)?)))
            .collect();
        prop_assert_eq!(stream.iter().collect::<Vec<_>>(), expected);
        prop_assert_eq!(stream.live() as usize, model.iter().flatten().count());
    }
}
