//! Giving what is in hand to those who want it.

use std::time::Duration;

use courser_contract::PartitionId;

use super::{
    FIRST, RecordReader,
    fail::{Doubts, Missed, fail},
    hand::{Hand, Part},
    known::Known,
    wants::{ANSWER_BYTES, Asking, Head, Next, Spot, Standing},
};
use crate::disk::Disk;

/// A head that is served next, and where.
struct Turn<'a> {
    head: Head,
    /// None: it should be in hand and is not.
    part: Option<&'a Part>,
    is_kept: bool,
}

impl<D: Disk> RecordReader<D> {
    /// Serves all partitions.
    pub(super) fn serve_all(&mut self, now: Duration) {
        let all: Vec<PartitionId> = self.askings.keys().copied().collect();
        for partition in all {
            self.serve(partition, now);
        }
    }

    /// Serves the heads of a partition that are in hand, and those behind them that are as well.
    pub(super) fn serve(&mut self, partition: PartitionId, now: Duration) {
        let (Some(hand), Some(asking)) = (&self.hand, self.askings.get_mut(&partition)) else {
            return;
        };
        let known = &self.known;
        let mut doubts = Doubts::new(partition);
        let mut from = Head::first_of(FIRST);
        while let Some(turn) = next_turn(partition, asking, hand, known, &mut from) {
            let head = turn.head;
            if !asking.has_room() {
                self.linger.lacks_room(partition, now);
                break;
            }
            match turn.is_kept {
                true => drop(asking.kept.remove(&(hand.place, head))),
                false => drop(asking.entries.remove(&head)),
            }
            let given = turn.part.and_then(|part| asking.deliver(head, part));
            let Some((records, bytes)) = given else {
                doubts.damaged(hand.place, head.index);
                let missed = Missed {
                    head,
                    at: hand.place,
                    is_kept: turn.is_kept,
                };
                fail(&mut doubts, known, asking, &missed);
                from = Head::first_of(FIRST);
                continue;
            };
            self.counts.records += records;
            self.counts.bytes += bytes;
            self.ready.extend(asking.answer(partition, ANSWER_BYTES));
            // Streams lie together where they were moved: mostly the index is not needed.
            let spot = |head: Head, standing: Standing| {
                let is_here = || hand.kept_at(partition, head.index, head.byte).is_some();
                match standing.doubt.is_none() && is_here() {
                    true => Spot::Kept(hand.place),
                    false => known.spot(partition, head, standing),
                }
            };
            match asking.place(head.stream, spot) {
                // It may stand before the one that was served.
                Next::Head(next) => from = from.min(next),
                Next::Dry => self.linger.ran_dry(partition, head.stream, now),
            }
        }
        doubts.tell(&mut self.error);
    }
}

/// The first head from `from` on that is in hand; then those in kept records of this batch.
fn next_turn<'a>(
    partition: PartitionId,
    asking: &Asking,
    hand: &'a Hand,
    known: &Known,
    from: &mut Head,
) -> Option<Turn<'a>> {
    let parts = hand.entries_of(partition);
    // Heads and entries both ascend: what one of them has not the other one skips.
    while let Some(head) = asking.entries.range(*from..).next() {
        let at = parts.partition_point(|part| part.index < head.index);
        let Some(part) = parts.get(at) else {
            break;
        };
        if part.index == head.index && known.counts(partition, head.index, hand) {
            *from = *head;
            return Some(Turn {
                head: *head,
                part: Some(part),
                is_kept: false,
            });
        }
        *from = match part.index == head.index {
            true => Head::first_of(courser_contract::LogIndex(head.index.0 + 1)),
            false => Head::first_of(part.index),
        };
    }
    let all = (hand.place, Head::first_of(FIRST))..;
    let (_, head) = asking
        .kept
        .range(all)
        .next()
        .filter(|(place, _)| *place == hand.place)?;
    Some(Turn {
        head: *head,
        part: hand.kept_at(partition, head.index, head.byte),
        is_kept: true,
    })
}
