//! Memory that begins at a multiple of the block size.

use crate::format::{BLOCK_BYTES, padded};

/// Bytes of at most one length, in memory that is taken once. Pages that were never used cost nothing.
#[derive(Debug)]
pub(super) struct Aligned {
    memory: Vec<u8>,
    /// Of the first byte in `memory`.
    from: usize,
    len: usize,
}

impl Aligned {
    /// Empty, with room for `limit` bytes, which are whole blocks.
    pub(super) fn new(limit: usize) -> Self {
        assert!(
            limit.is_multiple_of(BLOCK_BYTES),
            "a batch is at most some whole blocks"
        );
        let memory = vec![0; limit + BLOCK_BYTES];
        // The vector is never made longer, so it stays where it is.
        let from = memory.as_ptr().align_offset(BLOCK_BYTES);
        assert!(
            from < BLOCK_BYTES,
            "memory has a block's beginning in any block"
        );
        Self {
            memory,
            from,
            len: 0,
        }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends; whoever calls has asked for the room.
    pub(super) fn extend(&mut self, bytes: &[u8]) {
        let at = self.from + self.len;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    pub(super) fn zeros(&mut self, count: usize) {
        let at = self.from + self.len;
        self.memory[at..at + count].fill(0);
        self.len += count;
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.len]
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.from..self.from + self.len]
    }

    /// The bytes, and zeros up to a whole block.
    pub(super) fn blocks(&mut self) -> &[u8] {
        let end = padded(self.len as u64) as usize;
        self.memory[self.from + self.len..self.from + end].fill(0);
        &self.memory[self.from..self.from + end]
    }
}
