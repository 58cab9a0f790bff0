//! Blocks of records by age.

use std::collections::VecDeque;

use bytes::Bytes;
use courser_contract::RecordRef;

/// Bytes of entries that stay where they came in. When there are more, the older half moves out at once, so that survivors of
/// many small entries share a block.
pub(super) const YOUNG_BYTES: usize = 256 * 1024;
/// Lists of slots that are kept for the next blocks.
const SPARE_MAX: usize = 64;

/// How a block came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Generation {
    /// An entry that is being applied: it stays although nothing lives in it.
    Open,
    /// An entry.
    Young,
    /// A dense block of records that outlived their entries.
    Old,
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

#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: Vec<Block>,
    free: Vec<u32>,
    spare: Vec<Vec<u32>>,
    /// Young blocks, oldest first; some are gone already and their numbers used again, which the birth tells.
    young: VecDeque<Young>,
    young_bytes: usize,
    births: u64,
    held_bytes: usize,
}

impl Blocks {
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
    pub(super) fn add_old(&mut self, bytes: Bytes, slots: &[u32]) -> u32 {
        let len = bytes.len();
        let number = self.add(bytes, Generation::Old);
        let block = &mut self.blocks[number as usize];
        block.live_bytes = len as u64;
        block.slots.extend_from_slice(slots);
        number
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
        if self.young_bytes > YOUNG_BYTES {
            while self.young_bytes > YOUNG_BYTES / 2
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

    /// A record of a block is gone. Returns whether the rest of it should move.
    pub(super) fn remove(&mut self, number: u32, len: u32) -> bool {
        let block = &mut self.blocks[number as usize];
        block.live_bytes -= u64::from(len);
        match block.generation {
            Generation::Open => false,
            Generation::Young | Generation::Old if block.live_bytes == 0 => {
                self.drop_block(number);
                false
            }
            Generation::Young => false,
            Generation::Old => block.live_bytes * 2 < block.bytes.len() as u64,
            Generation::Free => unreachable!("a record lives in a block"),
        }
    }

    pub(super) fn drop_block(&mut self, number: u32) {
        let block = &mut self.blocks[number as usize];
        self.held_bytes -= block.bytes.len();
        block.bytes = Bytes::new();
        block.live_bytes = 0;
        block.generation = Generation::Free;
        let mut slots = std::mem::take(&mut block.slots);
        if self.spare.len() < SPARE_MAX && slots.capacity() > 0 {
            slots.clear();
            self.spare.push(slots);
        }
        self.free.push(number);
    }

    pub(super) fn check(&self, live_bytes: &[u64]) {
        let mut held = 0;
        for (block, &live) in self.blocks.iter().zip(live_bytes) {
            assert_eq!(block.live_bytes, live, "a block counts its live bytes");
            held += block.bytes.len();
            match block.generation {
                Generation::Old => assert!(
                    live * 2 >= block.bytes.len() as u64,
                    "an old block is at least half alive"
                ),
                Generation::Young => assert!(live > 0, "an empty block is dropped"),
                Generation::Free => assert!(block.bytes.is_empty(), "a free place holds nothing"),
                Generation::Open => panic!("no entry is being applied between events"),
            }
        }
        assert_eq!(held, self.held_bytes, "held bytes are counted");
        assert!(
            self.young_bytes <= YOUNG_BYTES,
            "the young window is bounded"
        );
    }
}
