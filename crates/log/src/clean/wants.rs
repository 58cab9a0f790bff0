//! What is needed of a segment, as much of it as one pass over the segment moves.
//!
//! A segment may hold millions of small records, and a note of each would be the memory of the cleaner. So a pass takes those with
//! the lowest addresses; the next one goes on above them, with the checkpoints and the segment read again. Passes do not meet: an
//! address is moved by one of them.

use courser_contract::{LogIndex, Need, PartitionId};

use super::{gather::Wanted, sketch::Sketch};

/// Records that a pass moves, unless it is told otherwise. With twice as many notes while checkpoints are read: 6 MiB.
pub(super) const RECORDS_MAX: usize = 1 << 17;

/// Bits of the sketch that says how many later passes have: 4 KiB, and an error of 1.6 %.
const SKETCH_BITS: u32 = 12;

/// Partition, entry, byte.
pub(super) type Address = (PartitionId, LogIndex, u32);

/// See the module.
#[derive(Debug)]
pub(super) struct Wants {
    records_max: usize,
    /// Those below have been moved.
    from: Option<Address>,
    /// Those from here on are for another pass.
    until: Option<Address>,
    list: Vec<Wanted>,
    /// Place of the next need among all of them: by stream.
    order: u64,
    /// Of the segment, and not moved before: those of this pass and of later ones.
    all: Sketch,
}

/// What a pass moves.
#[derive(Debug)]
pub(super) struct Pass {
    /// Ascending by address, each record once, in the place of its first stream (M8).
    pub(super) wanted: Vec<Wanted>,
    /// Records that are left to be moved, about: those of this pass and of later ones.
    pub(super) left: u64,
    /// Where the next pass goes on, if there is one.
    pub(super) next: Option<Address>,
}

impl Wants {
    /// Of a pass over a segment from an address on.
    pub(super) fn new(from: Option<Address>, records_max: usize) -> Self {
        Self {
            records_max,
            from,
            until: None,
            list: Vec::new(),
            order: 0,
            all: Sketch::new(SKETCH_BITS),
        }
    }

    /// The next partition's needs follow: none of them is the neighbour of one before.
    pub(super) const fn next_partition(&mut self) {
        self.order += 2;
    }

    /// The next need of a partition; `is_here`: something of its entry is in the segment.
    pub(super) fn tell(&mut self, partition: PartitionId, need: Need, is_here: bool) {
        self.order += 1;
        let address = (partition, need.index, need.byte);
        if !is_here || self.from.is_some_and(|from| address < from) {
            return;
        }
        self.all.tell(address);
        if self.until.is_some_and(|until| address >= until) {
            return;
        }
        self.list.push(Wanted {
            partition,
            index: need.index,
            byte: need.byte,
            order: self.order,
            is_taken: false,
        });
        if self.list.len() >= 2 * self.records_max {
            self.cut();
        }
    }

    /// All have been told.
    pub(super) fn finish(mut self) -> Pass {
        self.cut();
        let once = self.list.len() as u64;
        let left = match self.until {
            None => once,
            Some(_) => self.all.count().max(once),
        };
        Pass {
            wanted: self.list,
            left,
            next: self.until,
        }
    }

    /// Each record once, and no more of them than a pass moves.
    fn cut(&mut self) {
        // By address, then by place.
        self.list.sort_unstable();
        self.list.dedup_by_key(|it| it.address());
        if let Some(first) = self.list.get(self.records_max) {
            self.until = Some(first.address());
            self.list.truncate(self.records_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(at: u64) -> Need {
        Need {
            index: LogIndex(at / 4),
            byte: (at % 4) as u32 * 8,
        }
    }

    /// What all passes over these needs move, pass by pass.
    fn passes(needs: &[u64], records_max: usize) -> Vec<Pass> {
        let mut passes: Vec<Pass> = Vec::new();
        loop {
            let from = passes.last().map(|pass| pass.next.expect("it goes on"));
            let mut wants = Wants::new(from, records_max);
            for at in needs {
                wants.tell(PartitionId(1), need(*at), at % 5 != 0);
                assert!(wants.list.len() < 2 * records_max, "memory has a limit");
            }
            assert!(
                wants.list.capacity() <= 4 * records_max,
                "memory has a limit"
            );
            passes.push(wants.finish());
            if passes.last().is_some_and(|pass| pass.next.is_none()) {
                return passes;
            }
        }
    }

    #[test]
    fn m41_passes_move_each_record_once_within_their_memory() {
        // Two streams with some records in both, in an order of their own.
        let needs: Vec<u64> = (0..900).rev().chain((0..900).step_by(3)).collect();
        for records_max in [1, 7, 100, 719, 720, 10_000] {
            let passes = passes(&needs, records_max);
            let moved: Vec<_> = passes
                .iter()
                .flat_map(|pass| &pass.wanted)
                .map(|it| (it.index, it.byte))
                .collect();
            let here = (0..900).filter(|at| at % 5 != 0);
            let all: Vec<_> = here.map(need).map(|it| (it.index, it.byte)).collect();
            assert!(moved == all, "{records_max}: ascending, all, and once");
            assert_eq!(passes.len(), all.len().div_ceil(records_max));
            let left: usize = all.len();
            assert!(passes[0].left >= (left as u64).min(records_max as u64));
            assert!(passes[0].left <= 2 * left as u64, "{records_max}: about");
        }
    }

    #[test]
    fn m8_a_record_for_many_streams_has_the_place_of_the_first() {
        let mut wants = Wants::new(None, 10);
        for at in [9, 3, 9, 1, 3] {
            wants.tell(PartitionId(1), need(at), true);
        }
        let pass = wants.finish();
        let orders: Vec<u64> = pass.wanted.iter().map(|it| it.order).collect();
        assert_eq!((orders, pass.left), (vec![4, 2, 1], 3));
    }

    /// They were taken to be named as often as those of the first pass.
    #[test]
    fn m41_records_for_many_streams_count_once_in_later_passes_too() {
        let mut wants = Wants::new(None, 10);
        for at in 0..100 {
            for _ in 0..if at < 50 { 1 } else { 1_600 } {
                wants.tell(PartitionId(1), need(at), true);
            }
        }
        let left = wants.finish().left;
        assert!((95..=105).contains(&left), "{left}");
    }
}
