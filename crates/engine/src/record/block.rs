//! Blocks of records by age.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_contract::RecordRef;

/// Bytes of entries that stay where they came in, unless less may be in memory. When there are more, the older half moves out at
/// once, so that survivors of many small entries share a block.
pub(super) const YOUNG_BYTES: usize = 256 * 1024;
/// Lists of slots that are kept for the next blocks.
const SPARE_MAX: usize = 64;

/// How a block came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// An entry that is being applied: it stays although nothing lives in it.
    Open,
    /// An entry.
    Young,
    /// A dense block of records that outlived their entries.
    Old,
    /// A dense block of records that were read back from the log.
    Recalled,
    /// A dense block of records that stay in memory.
    Pinned,
    /// No block: a place to use again.
    Free,
}

#[derive(Debug)]
pub(super) struct Block {
    bytes: Bytes,
    pub(super) live_bytes: u64,
    /// Rows that were put here; those that have left are told by their row.
    pub(super) slots: Vec<u32>,
    generation: Generation,
    birth: u64,
}

#[derive(Debug)]
struct Young {
    block: u32,
    birth: u64,
    len: usize,
}

#[derive(Debug)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    free: Vec<u32>,
    spare: Vec<Vec<u32>>,
    /// Young blocks, oldest first; some are gone already and their numbers used again, which the birth tells.
    young: VecDeque<Young>,
    young_bytes: usize,
    young_max: usize,
    /// Blocks of the old generation, and below those that were read back.
    aging: Aging,
    recalled: Aging,
    births: u64,
    held_bytes: usize,
    recalled_bytes: usize,
    pinned_bytes: usize,
}

/// Blocks with their births, oldest first; some are gone already.
#[derive(Debug, Default)]
struct Aging {
    blocks: VecDeque<(u32, u64)>,
    /// When there are more, what is gone is taken out.
    tidy_at: usize,
}

impl Aging {
    fn add(&mut self, block: (u32, u64), all: &[Block]) {
        self.blocks.push_back(block);
        if self.blocks.len() > self.tidy_at {
            self.blocks.retain(|block| is_born(all, *block));
            self.tidy_at = 2 * self.blocks.len() + SPARE_MAX;
        }
    }

    /// The oldest that is there; those before it are forgotten.
    fn first(&mut self, all: &[Block]) -> Option<(u32, u64)> {
        while let Some(block) = self.blocks.front() {
            if is_born(all, *block) {
                return Some(*block);
            }
            self.blocks.pop_front();
        }
        None
    }
}

impl Default for Blocks {
    fn default() -> Self {
        Self {
            blocks: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            young: VecDeque::new(),
            young_bytes: 0,
            young_max: YOUNG_BYTES,
            aging: Aging::default(),
            recalled: Aging::default(),
            births: 0,
            held_bytes: 0,
            recalled_bytes: 0,
            pinned_bytes: 0,
        }
    }
}

impl Blocks {
    /// Of what may be in memory a quarter at most is young.
    pub(super) fn set_hot_max(&mut self, bytes: usize) {
        self.young_max = YOUNG_BYTES.min(bytes / 4);
    }

    /// Takes in an entry without records.
    pub(super) fn add_young(&mut self, bytes: Bytes) -> u32 {
        let len = bytes.len();
        let block = self.add(bytes, Generation::Open);
        self.young.push_back(Young {
            block,
            birth: self.births,
            len,
        });
        self.young_bytes += len;
        block
    }

    /// Takes in a dense block.
    pub(super) fn add_dense(&mut self, bytes: Bytes, slots: &[u32], generation: Generation) -> u32 {
        let len = bytes.len();
        let number = self.add(bytes, generation);
        let block = &mut self.blocks[number as usize];
        block.live_bytes = len as u64;
        block.slots.extend_from_slice(slots);
        if let Some(count) = self.bytes_of(generation) {
            *count += len;
        }
        match generation {
            Generation::Old => self.aging.add((number, self.births), &self.blocks),
            Generation::Recalled => self.recalled.add((number, self.births), &self.blocks),
            Generation::Pinned | Generation::Open | Generation::Young | Generation::Free => {}
        }
        number
    }

    /// What counts the bytes of a generation besides.
    const fn bytes_of(&mut self, generation: Generation) -> Option<&mut usize> {
        match generation {
            Generation::Recalled => Some(&mut self.recalled_bytes),
            Generation::Pinned => Some(&mut self.pinned_bytes),
            Generation::Open | Generation::Young | Generation::Old | Generation::Free => None,
        }
    }

    /// The oldest block whose records may leave memory. It is given once.
    pub(super) fn take_oldest(&mut self) -> Option<u32> {
        let old = self.aging.first(&self.blocks);
        let recalled = self.recalled.first(&self.blocks);
        match (old, recalled) {
            (Some((_, old)), Some((_, recalled))) if recalled < old => self.take_oldest_recalled(),
            (None, Some(_)) => self.take_oldest_recalled(),
            (old, _) => {
                let (number, _) = old?;
                self.aging.blocks.pop_front();
                Some(number)
            }
        }
    }

    /// The same of those that were read back.
    pub(super) fn take_oldest_recalled(&mut self) -> Option<u32> {
        let (number, _) = self.recalled.first(&self.blocks)?;
        self.recalled.blocks.pop_front();
        Some(number)
    }

    fn add(&mut self, bytes: Bytes, generation: Generation) -> u32 {
        self.held_bytes += bytes.len();
        self.births += 1;
        let block = Block {
            bytes,
            live_bytes: 0,
            slots: self.spare.pop().unwrap_or_default(),
            generation,
            birth: self.births,
        };
        match self.free.pop() {
            Some(number) => {
                self.blocks[number as usize] = block;
                number
            }
            None => {
                self.blocks.push(block);
                u32::try_from(self.blocks.len() - 1).expect("fewer than 2^32 blocks")
            }
        }
    }

    /// No more records are put into an entry.
    pub(super) fn settle(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        block.generation = Generation::Young;
        if block.live_bytes == 0 {
            self.drop_block(number);
        }
    }

    /// Young blocks that should move out now, oldest first.
    pub(super) fn take_aged(&mut self) -> Vec<u32> {
        let mut aged = Vec::new();
        if self.young_bytes > self.young_max {
            while self.young_bytes > self.young_max / 2
                && let Some(young) = self.young.pop_front()
            {
                self.young_bytes -= young.len;
                if self.is_alive(&young) {
                    aged.push(young.block);
                }
            }
        }
        // What left early is forgotten early, or an idle partition would keep a long list.
        while let Some(young) = self.young.front()
            && !self.is_alive(young)
        {
            self.young_bytes -= young.len;
            self.young.pop_front();
        }
        aged
    }

    fn is_alive(&self, young: &Young) -> bool {
        let block = &self.blocks[young.block as usize];
        block.birth == young.birth && block.generation == Generation::Young
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Block {
        &mut self.blocks[number as usize]
    }

    pub(super) fn bytes(&self, number: u32) -> &Bytes {
        &self.blocks[number as usize].bytes
    }

    pub(super) fn generation(&self, number: u32) -> Generation {
        self.blocks[number as usize].generation
    }

    /// Length of the record that begins at a byte of a block.
    #[inline]
    pub(super) fn record_len(&self, number: u32, offset: u32) -> u32 {
        let block = &self.blocks[number as usize].bytes;
        RecordRef::len_at(block, offset as usize)
    }

    pub(super) fn live_bytes(&self, number: u32) -> usize {
        usize::try_from(self.blocks[number as usize].live_bytes).expect("it is in memory")
    }

    /// Rows that were put into a block, for [`Blocks::drop_block`] to follow.
    pub(super) fn take_slots(&mut self, number: u32) -> Vec<u32> {
        std::mem::take(&mut self.blocks[number as usize].slots)
    }

    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    pub(super) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Bytes of blocks whose records may leave memory, and of young ones.
    pub(super) const fn hot_bytes(&self) -> usize {
        self.held_bytes - self.pinned_bytes
    }

    /// Bytes of blocks that were read back from the log.
    pub(super) const fn recalled_bytes(&self) -> usize {
        self.recalled_bytes
    }

    /// A record of a block is gone. Returns of which generation its rest should make a new block, if it should move.
    pub(super) fn remove(&mut self, number: u32, len: u32) -> Option<Generation> {
        let block = &mut self.blocks[number as usize];
        block.live_bytes -= u64::from(len);
        let generation = block.generation;
        match generation {
            Generation::Open => None,
            Generation::Young | Generation::Old | Generation::Recalled | Generation::Pinned
                if block.live_bytes == 0 =>
            {
                self.drop_block(number);
                None
            }
            Generation::Young => None,
            Generation::Old | Generation::Recalled | Generation::Pinned => {
                (block.live_bytes * 2 < block.bytes.len() as u64).then_some(generation)
            }
            Generation::Free => unreachable!("a record lives in a block"),
        }
    }

    pub(super) fn drop_block(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        let (generation, len) = (block.generation, block.bytes.len());
        self.held_bytes -= len;
        block.bytes = Bytes::new();
        block.live_bytes = 0;
        block.generation = Generation::Free;
        let mut slots = std::mem::take(&mut block.slots);
        if self.spare.len() < SPARE_MAX && slots.capacity() > 0 {
            slots.clear();
            self.spare.push(slots);
        }
        self.free.push(number);
        if let Some(count) = self.bytes_of(generation) {
            *count -= len;
        }
    }

    pub(super) fn check(&self, live_bytes: &[u64]) {
        let mut held = 0;
        for (block, &live) in self.blocks.iter().zip(live_bytes) {
            assert_eq!(block.live_bytes, live, "a block counts its live bytes");
            held += block.bytes.len();
            match block.generation {
                Generation::Old | Generation::Recalled | Generation::Pinned => assert!(
                    live * 2 >= block.bytes.len() as u64,
                    "a dense block is at least half alive"
                ),
                Generation::Young => assert!(live > 0, "an empty block is dropped"),
                Generation::Free => assert!(block.bytes.is_empty(), "a free place holds nothing"),
                Generation::Open => panic!("no entry is being applied between events"),
            }
        }
        assert_eq!(held, self.held_bytes, "held bytes are counted");
        let of = |generation| {
            let blocks = self.blocks.iter();
            let blocks = blocks.filter(|block| block.generation == generation);
            blocks.map(|block| block.bytes.len()).sum::<usize>()
        };
        assert_eq!(
            (of(Generation::Recalled), of(Generation::Pinned)),
            (self.recalled_bytes, self.pinned_bytes),
            "bytes of generations are counted"
        );
        assert!(
            self.young_bytes <= self.young_max,
            "the young window is bounded"
        );
    }
}

/// Whether a place still has the block that was born then.
fn is_born(blocks: &[Block], (number, birth): (u32, u64)) -> bool {
    let block = &blocks[number as usize];
    block.birth == birth && block.generation != Generation::Free
}
