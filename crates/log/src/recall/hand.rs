//! A batch in hand: what streams may want of it, found by address.

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId};

use crate::{
    format::Kind,
    ids::Place,
    read::kept_of,
    scan::{Check, Frames, RawBatch},
};

/// Bytes of an entry: all of them, or what was kept.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) partition: PartitionId,
    pub(super) index: LogIndex,
    /// Byte of the entry at which they begin.
    pub(super) byte: u32,
    pub(super) data: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Hand {
    pub(super) place: Place,
    /// One entry that was joined, instead of a batch.
    pub(super) is_joined: bool,
    /// By partition and index, each once.
    entries: Vec<Part>,
    /// By partition, index and byte.
    kept: Vec<Part>,
}

impl Hand {
    /// Of a batch. Its memory is held until the hand is dropped.
    pub(super) fn new(place: Place, batch: &RawBatch, check: Check) -> Self {
        let (mut entries, mut kept) = (Vec::new(), Vec::new());
        let frames = Frames::new(&batch.body, batch.header.tag.get(), check);
        for frame in frames.flatten() {
            match frame.known() {
                Some(Kind::Entry) => entries.push(Part {
                    partition: frame.partition,
                    index: frame.index,
                    byte: 0,
                    data: frame.data,
                }),
                Some(Kind::Kept) => kept.extend(kept_of(&frame).map(|it| Part {
                    partition: frame.partition,
                    index: it.index,
                    byte: it.byte,
                    data: it.data,
                })),
                Some(
                    Kind::HardState
                    | Kind::Checkpoint
                    | Kind::Piece
                    | Kind::Sealed
                    | Kind::Cleaned
                    | Kind::Last,
                )
                | None => {}
            }
        }
        entries.sort_by_key(|part: &Part| part.partition);
        kept.sort_by_key(|part: &Part| (part.partition, part.index, part.byte));
        Self {
            place,
            is_joined: false,
            entries: without_replaced(entries),
            kept,
        }
    }

    /// Of an entry that lay in pieces, the first of them at `place`.
    pub(super) fn joined(
        place: Place,
        partition: PartitionId,
        index: LogIndex,
        data: Bytes,
    ) -> Self {
        Self {
            place,
            is_joined: true,
            entries: vec![Part {
                partition,
                index,
                byte: 0,
                data,
            }],
            kept: Vec::new(),
        }
    }

    /// Entries of a partition, ascending.
    pub(super) fn entries_of(&self, partition: PartitionId) -> &[Part] {
        of(&self.entries, partition)
    }

    /// Partitions that have entries in it.
    pub(super) fn each_partition(&self, mut take: impl FnMut(PartitionId)) {
        for parts in self
            .entries
            .chunk_by(|one, two| one.partition == two.partition)
        {
            take(parts[0].partition);
        }
    }

    /// Kept records of a partition, ascending.
    pub(super) fn kept_of(&self, partition: PartitionId) -> &[Part] {
        of(&self.kept, partition)
    }

    /// The kept bytes that have a byte of an entry.
    pub(super) fn kept_at(
        &self,
        partition: PartitionId,
        index: LogIndex,
        byte: u32,
    ) -> Option<&Part> {
        let kept = self.kept_of(partition);
        let behind = kept.partition_point(|part| (part.index, part.byte) <= (index, byte));
        let before = kept[..behind].iter().rev();
        let mut of_entry = before.take_while(|part| part.index == index);
        of_entry.find(|part| ((byte - part.byte) as usize) < part.data.len())
    }
}

fn of(parts: &[Part], partition: PartitionId) -> &[Part] {
    let from = parts.partition_point(|part| part.partition < partition);
    let to = parts.partition_point(|part| part.partition <= partition);
    &parts[from..to]
}

/// Without those that another one of the same partition has replaced: it and all above it.
fn without_replaced(parts: Vec<Part>) -> Vec<Part> {
    let mut left: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        let is_replaced = |it: &Part| it.partition == part.partition && it.index >= part.index;
        while left.last().is_some_and(is_replaced) {
            left.pop();
        }
        left.push(part);
    }
    left
}
