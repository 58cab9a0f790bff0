//! Sets of seats, as bits.

use super::seats::SeatId;

/// A set of seats.
#[derive(Clone, Debug, Default)]
pub(super) struct Bits {
    pub(super) words: Vec<u64>,
}

impl Bits {
    /// Room for a number of seats, those that are new not in the set.
    pub(super) fn grow(&mut self, seats: usize) {
        let words = seats.div_ceil(64);
        // One at a time: most groups have a few members.
        self.words
            .reserve_exact(words.saturating_sub(self.words.len()));
        self.words.resize(words, 0);
    }

    /// Whether a seat is in it.
    pub(super) fn contains(&self, seat: SeatId) -> bool {
        self.words
            .get(seat as usize / 64)
            .is_some_and(|word| word & (1 << (seat % 64)) != 0)
    }

    /// Puts a seat in, or takes it out.
    pub(super) fn set(&mut self, seat: SeatId, on: bool) {
        let word = &mut self.words[seat as usize / 64];
        if on {
            *word |= 1 << (seat % 64);
        } else {
            *word &= !(1 << (seat % 64));
        }
    }

    /// Whether no seat is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// How many are in it.
    pub(super) fn len(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The first from `seat` on.
    pub(super) fn next_from(&self, seat: SeatId) -> Option<SeatId> {
        let first = seat as usize / 64;
        let mut mask = u64::MAX << (seat % 64);
        for (index, word) in self.words.iter().enumerate().skip(first) {
            let word = word & mask;
            if word != 0 {
                return Some(index as u32 * 64 + word.trailing_zeros());
            }
            mask = u64::MAX;
        }
        None
    }

    /// The first from `seat` on, and then from the beginning.
    pub(super) fn next_round(&self, seat: SeatId) -> Option<SeatId> {
        self.next_from(seat).or_else(|| self.next_from(0))
    }

    /// All from `seat` on, and then those before it.
    pub(super) fn round(&self, seat: SeatId) -> impl Iterator<Item = SeatId> + '_ {
        let from = |at, end| {
            std::iter::successors(self.next_from(at), |&at| self.next_from(at + 1))
                .take_while(move |&at| at < end)
        };
        from(seat, SeatId::MAX).chain(from(0, seat))
    }
}
