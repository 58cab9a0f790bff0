use std::{collections::BTreeSet, sync::Arc};

use courser_contract::{LogIndex, PartitionId};
use proptest::prelude::*;

use super::{OfPartition, Summary};
use crate::{
    batch::Run,
    ids::{NodeIdentity, Place, SegmentNumber},
    kept::KeptEntries,
    places::{Places, RunFound},
};

const SEGMENT: SegmentNumber = SegmentNumber(7);

fn at(block: u64) -> Place {
    Place {
        segment: SEGMENT,
        offset: block * 4_096,
    }
}

prop_compose! {
    fn of_partition()(
        lengths in prop::collection::vec((1..50u64, 0..3usize, 1..1_000u64), 0..12),
        kept in prop::collection::vec(1..1_000u64, 0..12),
        kept_at in prop::collection::btree_set(1..1_000u64, 0..4),
    ) -> OfPartition {
        let mut said = OfPartition::default();
        let mut next = 1;
        for (length, pieces, block) in lengths {
            let in_pieces = pieces > 0;
            let last = if in_pieces { next } else { next + length };
            if in_pieces {
                said.pieces.push((0..=pieces as u64).map(|piece| at(block + piece)).collect());
            }
            said.runs.push(RunFound {
                first: LogIndex(next),
                last: LogIndex(last),
                place: at(block),
                in_pieces,
            });
            said.range = Some((LogIndex(1), LogIndex(last)));
            next = last + 2;
        }
        let mut entries = KeptEntries::default();
        kept.iter().for_each(|index| entries.add(LogIndex(*index), LogIndex(*index)));
        entries.close();
        said.kept = Arc::new(entries);
        said.kept_at = kept_at.into_iter().map(at).collect();
        said
    }
}

prop_compose! {
    fn summary()(
        partitions in prop::collection::btree_map(0..40u16, of_partition(), 0..4),
        cleaned in prop::collection::vec(1..9u64, 0..3),
        (last_at, last_crc) in (1..1_000u64, any::<u32>()),
    ) -> Summary {
        Summary {
            node: NodeIdentity(42),
            segment: SEGMENT,
            last_at: last_at * 4_096,
            last_crc,
            cleaned: cleaned.into_iter().map(SegmentNumber).collect(),
            partitions: partitions.into_iter().map(|(id, said)| (PartitionId(id), said)).collect(),
        }
    }
}

proptest! {
    #[test]
    fn d9_a_summary_is_read_as_it_was_written(summary in summary()) {
        prop_assert_eq!(Summary::decode(&summary.encode()), Some(summary));
    }

    /// With the right checksum, as from a fault of the program that wrote it.
    #[test]
    fn d9_no_bytes_with_a_checksum_make_the_reader_panic(
        summary in summary(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in 0..20usize,
    ) {
        let mut bytes = summary.encode();
        bytes.truncate(bytes.len() - 4 - cut);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        if let Some(found) = Summary::decode(&bytes) {
            let mut places = Places::default();
            for (id, said) in &found.partitions {
                places.take(*id, said);
            }
        }
    }
}

/// Entries that were replaced are in no run, and nobody reads on to one from the batch that has them still.
#[test]
fn m41_places_out_of_a_summary_are_those_that_were_written() {
    let mut written = Places::default();
    let id = PartitionId(3);
    let run = |first, last| Run {
        partition: id,
        first: LogIndex(first),
        last: LogIndex(last),
    };
    written.add(run(1, 5), at(1));
    written.add(run(6, 9), at(2));
    written.add(run(4, 6), at(3));
    written.add(run(7, 8), at(4));
    written.add_pieces(id, LogIndex(9), vec![at(5), at(6)]);
    written.add(run(10, 12), at(7));
    written.add_kept(id, at(8));
    let of = written.of(id).expect("it has some");
    let (runs, pieces) = of.all_in(SEGMENT);
    let said = OfPartition {
        range: Some((LogIndex(1), LogIndex(12))),
        runs,
        pieces,
        kept_at: of.kept().to_vec(),
        ..OfPartition::default()
    };
    let mut taken = Places::default();
    taken.take(id, &said);
    let taken = taken.of(id).expect("it has some");
    for index in 0..14 {
        assert_eq!(
            taken.find(LogIndex(index)),
            of.find(LogIndex(index)),
            "{index}"
        );
    }
    assert_eq!(taken.kept(), of.kept());
    let none = BTreeSet::new();
    let mut again = taken.clone();
    again.forget(&none);
    assert_eq!(again.last(), of.last());
}
