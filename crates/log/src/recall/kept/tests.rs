use proptest::prelude::*;

use super::*;
use crate::ids::SegmentNumber;

fn place(at: u32) -> Place {
    Place {
        segment: SegmentNumber(u64::from(at / 8)),
        offset: u64::from(1 + at % 8) * 4096,
    }
}

/// Frames, each in the batch at a place.
type Frames = Vec<(u32, Kept)>;

/// Takes newer places, and the frames of what is missing.
fn refresh(index: &mut KeptIndex, frames: &Frames, batches: &[u32]) {
    let places: Vec<Place> = batches.iter().map(|at| place(*at)).collect();
    index.refresh(&places);
    while let Some(next) = index.next_missing() {
        index.missing.pop();
        let batch = index.batches.binary_search(&next).ok().and_then(number);
        let batch = batch.expect("it is one of them");
        for (_, kept) in frames.iter().filter(|(at, _)| place(*at) == next) {
            index.take(Kept { batch, ..*kept });
        }
        index.finish();
    }
    assert!(index.is_whole());
    let sizes: Vec<usize> = index.runs.iter().map(Packed::len).collect();
    let is_less = |pair: &[usize]| pair[0] / 2 >= pair[1];
    assert!(sizes.windows(2).all(is_less), "few runs: {sizes:?}");
    assert_eq!(index.coming.capacity(), 0);
}

/// Where a byte is, by looking at all frames.
fn find(frames: &Frames, batches: &[u32], index: u64, byte: u32) -> Option<Place> {
    let has = |kept: &Kept| {
        let end = u64::from(kept.byte) + u64::from(kept.len);
        kept.index == index && kept.byte <= byte && u64::from(byte) < end
    };
    let here = frames.iter().filter(|(at, _)| batches.contains(at));
    let with = here.filter(|(_, kept)| has(kept));
    let nearest = with.max_by_key(|(at, kept)| (kept.byte, place(*at)));
    nearest.map(|(at, _)| place(*at))
}

fn kept(index: u64, byte: u32, len: u32) -> Kept {
    Kept {
        index,
        byte,
        batch: 0,
        len,
    }
}

prop_compose! {
    fn frame()(
        batch in 0..40u32,
        index in prop_oneof![4 => 0..30u64, 1 => 1 << 40..(1u64 << 40) + 5],
        byte in prop_oneof![8 => 0..2_000u32, 1 => u32::MAX - 500..u32::MAX],
        len in prop_oneof![8 => 1..400u32, 1 => 1..1_000_000_000u32],
    ) -> (u32, Kept) {
        (batch, kept(index, byte, len))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn m41_what_was_kept_is_found_whatever_came_and_went(
        frames in prop::collection::vec(frame(), 0..3_000),
        lives in prop::collection::vec(prop::collection::btree_set(0..40u32, 0..40), 1..4),
    ) {
        let mut index = KeptIndex::default();
        for batches in lives {
            let batches: Vec<u32> = batches.into_iter().collect();
            refresh(&mut index, &frames, &batches);
            for (_, kept) in frames.iter().step_by(37) {
                let middle = kept.byte.saturating_add(kept.len / 2);
                for byte in [kept.byte, middle, kept.byte.saturating_sub(1)] {
                    let found = index.find(LogIndex(kept.index), byte);
                    prop_assert_eq!(found, find(&frames, &batches, kept.index, byte));
                }
            }
        }
    }
}

/// As a cleaner leaves them: entries of 64 KiB whose every third record is needed, moved in passes of 16 MiB, sorted by one of 60 streams.
fn moved(frames: u32) -> Frames {
    let (mut all, mut pass): (Frames, Vec<Kept>) = (Vec::new(), Vec::new());
    let mut batch = 0;
    for at in 0..frames {
        let record = kept(u64::from(at / 100) * 16, 32 + at % 100 * 600, 168 + at % 7);
        pass.push(record);
        if pass.len() == 80_000 || at + 1 == frames {
            pass.sort_by_key(|kept| (kept.byte / 600 % 60, kept.index, kept.byte));
            for chunk in pass.chunks(1_300) {
                all.extend(chunk.iter().map(|kept| (batch, *kept)));
                batch += 1;
            }
            pass.clear();
        }
    }
    all
}

#[test]
fn an_index_takes_less_than_four_bytes_a_record_and_little_more_while_it_is_made() {
    let frames = moved(300_000);
    let last = frames.last().map_or(0, |(at, _)| *at);
    let batches: Vec<Place> = (0..=last).map(place).collect();
    let mut index = KeptIndex::default();
    index.refresh(&batches);
    let mut most = 0;
    for (at, batch) in frames.chunk_by(|one, two| one.0 == two.0).enumerate() {
        index.missing.pop();
        for (_, kept) in batch {
            let batch = at as u32;
            index.take(Kept { batch, ..*kept });
            most = most.max(index.held_bytes());
        }
        index.finish();
    }
    let held = index.held_bytes();
    assert!(held <= 7 * frames.len() / 2, "{held} bytes");
    assert!(most <= held + COMING_MAX * size_of::<Kept>() + (64 << 10));
    assert!(index.runs.len() < 8, "{}", index.runs.len());
    for (at, kept) in frames.iter().step_by(1_001) {
        let found = index.find(LogIndex(kept.index), kept.byte + kept.len - 1);
        assert_eq!(found, Some(place(*at)));
    }
}
