//! 256 references with what became of them.

use crate::record::Slot;

/// Positions of a chunk.
pub(super) const CHUNK: u64 = 256;
pub(super) const WORDS: usize = 4;
/// Numbers of checkpoints are even. With this bit it is said of a chunk that it has grown since then, and is not written.
pub(super) const TAIL: u32 = 1;

/// What a position of a stream says: which record, and how its delivery looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) slot: Slot,
    /// See [`crate::look`].
    pub(crate) look: u32,
}

/// Looks of the references of a chunk: mostly all the same.
#[derive(Debug)]
pub(super) enum Looks {
    All(u32),
    Each(Vec<u32>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(super) base: u64,
    pub(super) len: u16,
    /// Positions that are not done.
    pub(super) open: u16,
    /// The checkpoint that has it, or [`TAIL`] of one that began when a stream ended here; not replicated.
    pub(super) saved: u32,
    /// Empty once all of a full chunk is done: it stays as a place between others.
    pub(super) slots: Vec<Slot>,
    pub(super) looks: Looks,
    pub(super) done: [u64; WORDS],
    pub(super) received: [u64; WORDS],
    /// When the leader looks for expired messages; not replicated.
    pub(super) look_at: u64,
}

impl Chunk {
    pub(super) const fn new(base: u64) -> Self {
        Self {
            base,
            len: 0,
            open: 0,
            saved: 0,
            slots: Vec::new(),
            looks: Looks::All(0),
            done: [0; WORDS],
            received: [0; WORDS],
            look_at: u64::MAX,
        }
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.open = 0;
        self.slots.clear();
        self.looks = Looks::All(0);
        self.done = [0; WORDS];
        self.received = [0; WORDS];
        self.look_at = u64::MAX;
    }

    pub(super) fn len(&self) -> u64 {
        u64::from(self.len)
    }

    /// Its first position.
    pub(crate) const fn base(&self) -> u64 {
        self.base
    }

    /// Where the next chunk begins.
    pub(super) const fn end(&self) -> u64 {
        self.base + CHUNK
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == CHUNK
    }

    #[inline]
    pub(super) fn push(&mut self, reference: Reference) {
        match &mut self.looks {
            Looks::All(look) if self.slots.is_empty() => *look = reference.look,
            Looks::All(look) if *look == reference.look => {}
            Looks::All(look) => {
                let mut each = Vec::with_capacity(self.slots.len() + 1);
                each.resize(self.slots.len(), *look);
                each.push(reference.look);
                self.looks = Looks::Each(each);
            }
            Looks::Each(each) => each.push(reference.look),
        }
        self.slots.push(reference.slot);
        self.len += 1;
        self.open += 1;
    }

    fn place(&self, seq: u64) -> Option<(usize, usize, u64)> {
        let at = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        (at < usize::from(self.len)).then_some((at, at / 64, 1 << (at % 64)))
    }

    pub(super) fn get(&self, seq: u64) -> Option<Reference> {
        let (at, word, bit) = self.place(seq)?;
        (self.done[word] & bit == 0).then(|| self.reference(at))
    }

    fn reference(&self, at: usize) -> Reference {
        Reference {
            slot: self.slots[at],
            look: match &self.looks {
                Looks::All(look) => *look,
                Looks::Each(each) => each[at],
            },
        }
    }

    pub(super) fn is_received(&self, seq: u64) -> bool {
        self.place(seq)
            .is_some_and(|(_, word, bit)| self.received[word] & bit != 0)
    }

    pub(super) fn mark_received(&mut self, seq: u64) -> bool {
        let Some((_, word, bit)) = self.place(seq) else {
            return false;
        };
        let new = (self.done[word] | self.received[word]) & bit == 0;
        if new {
            self.received[word] |= bit;
        }
        new
    }

    /// Ends those of `first..end` that lie here and are not done, and tells `ended` each with its position. Returns how many
    /// they were.
    #[inline]
    pub(super) fn end_range(
        &mut self,
        first: u64,
        end: u64,
        mut ended: impl FnMut(u64, Reference),
    ) -> u32 {
        let from = usize::try_from(first.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let to = usize::try_from(end.saturating_sub(self.base)).unwrap_or(usize::MAX);
        let to = to.min(usize::from(self.len));
        let mut count = 0;
        let mut at = from;
        while at < to {
            let (word, bit) = (at / 64, at % 64);
            let bits = (to - at).min(64 - bit);
            let mask = (u64::MAX >> (64 - bits)) << bit;
            let mut open = mask & !self.done[word];
            self.done[word] |= mask;
            self.received[word] &= !mask;
            count += open.count_ones();
            while open != 0 {
                let place = word * 64 + open.trailing_zeros() as usize;
                open &= open - 1;
                let reference = self.reference(place);
                self.slots[place] = Slot::NONE;
                ended(self.base + place as u64, reference);
            }
            at += bits;
        }
        self.open -= count as u16;
        count
    }

    /// Whether nothing will be asked of it any more.
    pub(super) fn is_spent(&self) -> bool {
        self.open == 0 && self.is_full()
    }

    /// Gives its memory back and keeps its place.
    pub(super) fn empty(&mut self) {
        self.slots = Vec::new();
        self.looks = Looks::All(0);
    }

    #[cfg(test)]
    pub(super) fn held_slots(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn first_not_done(&self) -> Option<u64> {
        self.next_not_done(self.base)
    }

    pub(super) fn next_not_done(&self, seq: u64) -> Option<u64> {
        let from = usize::try_from(seq.saturating_sub(self.base)).ok()?;
        let len = usize::from(self.len);
        let mut word = from / 64;
        let mut mask = u64::MAX << (from % 64);
        while word * 64 < len {
            let open = !self.done[word] & mask;
            if open != 0 {
                let at = word * 64 + open.trailing_zeros() as usize;
                return (at < len).then_some(self.base + at as u64);
            }
            word += 1;
            mask = u64::MAX;
        }
        None
    }

    /// References that are not done, with their positions, from one on.
    pub(crate) fn live_from(&self, mut seq: u64) -> impl Iterator<Item = (u64, Reference)> + '_ {
        std::iter::from_fn(move || {
            let found = self.next_not_done(seq)?;
            seq = found + 1;
            Some((found, self.get(found)?))
        })
    }

    /// A position is not done after all. False: it is not done already, or none of this chunk.
    pub(super) fn put_back(&mut self, seq: u64, reference: Reference, received: bool) -> bool {
        let Some((at, word, bit)) = self.place(seq) else {
            return false;
        };
        if self.done[word] & bit == 0 {
            return false;
        }
        if self.slots.is_empty() {
            self.slots.resize(usize::from(self.len), Slot::NONE);
        }
        self.slots[at] = reference.slot;
        match &mut self.looks {
            Looks::All(look) if self.open == 0 => *look = reference.look,
            Looks::All(look) if *look == reference.look => {}
            Looks::All(look) => {
                let mut each = vec![*look; self.slots.len()];
                each[at] = reference.look;
                self.looks = Looks::Each(each);
            }
            Looks::Each(each) => each[at] = reference.look,
        }
        self.open += 1;
        self.done[word] &= !bit;
        if received {
            self.received[word] |= bit;
        }
        true
    }

    pub(super) fn check(&self) -> u32 {
        assert!((1..=CHUNK).contains(&self.len()), "a chunk holds 1 to 256");
        if self.is_spent() && self.slots.is_empty() {
            assert_eq!(self.next_not_done(self.base), None, "it is wholly done");
            return 0;
        }
        assert_eq!(
            self.slots.len() as u64,
            self.len(),
            "each position has its slot"
        );
        if let Looks::Each(each) = &self.looks {
            assert_eq!(each.len(), self.slots.len(), "each reference has its look");
        }
        let mut open = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            let (word, bit) = (at / 64, 1u64 << (at % 64));
            let done = self.done[word] & bit != 0;
            assert_eq!(*slot == Slot::NONE, done, "what is done holds no record");
            assert!(
                !(done && self.received[word] & bit != 0),
                "what is received is not done"
            );
            open += u32::from(!done);
        }
        assert_eq!(open, u32::from(self.open), "what is not done is counted");
        open
    }
}
