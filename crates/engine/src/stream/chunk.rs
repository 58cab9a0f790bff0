//! 256 references with what became of them.

use crate::record::Slot;

/// Positions of a chunk.
pub(super) const CHUNK: u64 = 256;
const WORDS: usize = 4;

/// What a position of a stream says: which record, and how its delivery looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) slot: Slot,
    /// See [`crate::look`].
    pub(crate) look: u32,
}

/// Looks of the references of a chunk: mostly all the same.
#[derive(Debug)]
enum Looks {
    All(u32),
    Each(Vec<u32>),
}

#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) base: u64,
    slots: Vec<Slot>,
    looks: Looks,
    done: [u64; WORDS],
    received: [u64; WORDS],
    /// When the leader looks for expired messages; not replicated.
    pub(super) look_at: u64,
}

impl Chunk {
    pub(super) const fn new(base: u64) -> Self {
        Self {
            base,
            slots: Vec::new(),
            looks: Looks::All(0),
            done: [0; WORDS],
            received: [0; WORDS],
            look_at: u64::MAX,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.looks = Looks::All(0);
        self.done = [0; WORDS];
        self.received = [0; WORDS];
        self.look_at = u64::MAX;
    }

    pub(super) fn len(&self) -> u64 {
        self.slots.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() == CHUNK
    }

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
    }

    fn place(&self, seq: u64) -> Option<(usize, usize, u64)> {
        let at = usize::try_from(seq.checked_sub(self.base)?).ok()?;
        (at < self.slots.len()).then_some((at, at / 64, 1 << (at % 64)))
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

    pub(super) fn mark_done(&mut self, seq: u64) -> Option<Reference> {
        let (at, word, bit) = self.place(seq)?;
        if self.done[word] & bit != 0 {
            return None;
        }
        self.done[word] |= bit;
        self.received[word] &= !bit;
        let reference = self.reference(at);
        self.slots[at] = Slot::NONE;
        Some(reference)
    }

    pub(super) fn first_not_done(&self) -> Option<u64> {
        self.next_not_done(self.base)
    }

    pub(super) fn next_not_done(&self, seq: u64) -> Option<u64> {
        let from = usize::try_from(seq.saturating_sub(self.base)).ok()?;
        let len = self.slots.len();
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

    pub(super) fn check(&self) -> u32 {
        assert!(
            self.len() <= CHUNK && !self.slots.is_empty(),
            "a chunk holds 1 to 256"
        );
        if let Looks::Each(each) = &self.looks {
            assert_eq!(each.len(), self.slots.len(), "each reference has its look");
        }
        let mut live = 0;
        for (at, slot) in self.slots.iter().enumerate() {
            let (word, bit) = (at / 64, 1u64 << (at % 64));
            let done = self.done[word] & bit != 0;
            assert_eq!(*slot == Slot::NONE, done, "what is done holds no record");
            assert!(
                !(done && self.received[word] & bit != 0),
                "what is received is not done"
            );
            live += u32::from(!done);
        }
        live
    }
}
