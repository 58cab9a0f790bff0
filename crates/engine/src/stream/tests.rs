use proptest::prelude::*;

use super::*;
use crate::record::Slot;

fn reference(slot: u32, look: u32) -> Reference {
    Reference {
        slot: Slot(slot),
        look,
    }
}

fn end(stream: &mut Stream, first: u64, end: u64) -> Vec<(u64, Reference)> {
    let mut ended = Vec::new();
    stream.end_range(first, end, |seq, reference| ended.push((seq, reference)));
    ended
}

#[test]
fn one_stuck_reference_pins_its_chunk_only_m17() {
    let mut spare = SpareChunks::default();
    let mut stream = Stream::default();
    for slot in 0..1_000 {
        stream.push(reference(slot, 1), 10, &mut spare);
    }
    assert_eq!(end(&mut stream, 1, 1_000).len(), 999);
    stream.forget_bytes(9_990);
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
    end(&mut stream, 0, 1);
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
    assert_eq!(end(&mut stream, 0, 1), [(0, reference(7, 2))]);
    assert_eq!(end(&mut stream, 0, 9), []);
    assert!(!stream.mark_received(0) && !stream.is_received(0));
}

proptest! {
    /// Against a plain list.
    #[test]
    fn a_stream_is_a_list_with_holes(steps in prop::collection::vec((0..9u8, 0..900u64, 0..400u64, 0..9u32), 1..1_500)) {
        let mut spare = SpareChunks::default();
        let mut stream = Stream::default();
        let mut model: Vec<Option<Reference>> = Vec::new();
        for (kind, first, count, look) in steps {
            if kind < 8 {
                let pushed = reference(u32::try_from(model.len()).expect("few"), look);
                prop_assert_eq!(stream.push(pushed, 1, &mut spare), model.len() as u64);
                model.push(Some(pushed));
            } else {
                let ended = (first..first + count).filter_map(|seq| {
                    let place = model.get_mut(usize::try_from(seq).expect("few"))?;
                    Some((seq, place.take()?))
                });
                let ended: Vec<_> = ended.collect();
                prop_assert_eq!(&end(&mut stream, first, first + count), &ended);
                stream.forget_bytes(ended.len() as u64);
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
