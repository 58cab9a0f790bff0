//! One receive buffer.

use super::{BLOCK_BYTES, CLASS_BYTES, ReceivePool, class_for};
use std::mem;

/// Bytes received from one connection and not yet parsed, with room for more behind them.
///
/// ```
/// use courser_memory::{PoolLimits, ReceivePool};
///
/// let pool = ReceivePool::new(PoolLimits::default());
/// let mut buffer = pool.resume(None);
/// buffer.room_mut()[..5].copy_from_slice(b"hello"); // a read from the socket
/// buffer.advance(5);
/// buffer.consume(3); // what the codec parsed
/// let rest = buffer.settle(); // "lo" waits in 512 bytes; the block is free again
/// assert_eq!(rest.as_ref().map(|rest| rest.bytes()), Some(&b"lo"[..]));
/// assert!(pool.resume(rest).room_mut().len() > 60_000);
/// ```
///
/// Invariant: `start <= end <= storage.len()`; only `storage[start..end]` is ever shown.
#[derive(Debug)]
pub struct Buffer {
    storage: Box<[u8]>,
    start: usize,
    end: usize,
    pool: ReceivePool,
}

impl Buffer {
    pub(super) fn over(storage: Box<[u8]>, pool: ReceivePool) -> Self {
        Self {
            storage,
            start: 0,
            end: 0,
            pool,
        }
    }

    /// What was received and not consumed.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    /// Where the next read writes to. What it shows before that has no meaning. Empty when the buffer is full: then
    /// [`settle`](Self::settle) and [`ReceivePool::resume`] make room.
    pub fn room_mut(&mut self) -> &mut [u8] {
        &mut self.storage[self.end..]
    }

    /// Takes the first `count` bytes of the room as received.
    ///
    /// # Panics
    /// When the room is smaller.
    pub fn advance(&mut self, count: usize) {
        assert!(
            count <= self.storage.len() - self.end,
            "a read fits the room that it was given"
        );
        self.end += count;
    }

    /// Takes the first `count` received bytes as parsed.
    ///
    /// # Panics
    /// When fewer were received.
    pub fn consume(&mut self, count: usize) {
        assert!(
            count <= self.end - self.start,
            "only received bytes are parsed"
        );
        self.start += count;
    }

    /// Ends the turn: nothing left gives the storage back and returns `None`; a rest is kept in the smallest size
    /// that holds it.
    ///
    /// Cost: a copy of the rest when it moves to a smaller size.
    #[must_use]
    pub fn settle(mut self) -> Option<Self> {
        if self.bytes().is_empty() {
            return None;
        }
        // A rest moves only when that saves memory: into a smaller class, or out of a large buffer into a block.
        match (class_for(self.bytes().len()), class_for(self.storage.len())) {
            (Some(needed), Some(has)) if needed >= has => {}
            (Some(_), _) => self.move_to(self.bytes().len()),
            (None, _) => {}
        }
        Some(self)
    }

    /// Moves what is held to storage of its size where that frees more than half, for a shard that is short of memory: a block holds up to 16
    /// times the rest in it. What less frees is left, and no more than 512 bytes are: the next read moves it back to a block.
    ///
    /// Cost: an allocation and a copy of what is held when it moves.
    pub fn fit(&mut self) {
        let held = self.bytes().len().max(CLASS_BYTES[0]);
        if held < self.storage.len() / 2 {
            let storage = self.pool.shared.borrow_mut().take_exactly(held);
            self.move_into(storage);
        }
    }

    /// Takes the received bytes out of the pool for good, without a copy when nothing was consumed: for a large payload,
    /// which may outlive the turn (M45). The vector keeps the capacity of the whole buffer; the pool counts the storage
    /// as freed.
    #[must_use]
    pub fn into_vec(mut self) -> Vec<u8> {
        let storage = mem::take(&mut self.storage);
        self.pool.shared.borrow_mut().detach(storage.len());
        let mut bytes = storage.into_vec();
        bytes.truncate(self.end);
        bytes.drain(..self.start);
        bytes
    }

    /// Takes the received bytes out of the pool, for another one that may belong to another thread. No copy; this pool counts the
    /// storage as freed.
    #[must_use]
    pub fn detach(mut self) -> Detached {
        let storage = mem::take(&mut self.storage);
        self.pool.shared.borrow_mut().detach(storage.len());
        Detached {
            storage,
            start: self.start,
            end: self.end,
        }
    }

    /// Storage that the pool counts already.
    pub(super) fn attached(detached: Detached, pool: ReceivePool) -> Self {
        let Detached {
            storage,
            start,
            end,
        } = detached;
        Self {
            storage,
            start,
            end,
            pool,
        }
    }

    /// Moves what is held to the front, and to larger storage when that leaves less than a quarter of it as room.
    pub(super) fn make_room(&mut self) {
        let held = self.bytes().len();
        let has = self.storage.len();
        if has < BLOCK_BYTES {
            self.move_to(BLOCK_BYTES);
        } else if held > has - has / 4 {
            self.move_to(held * 2);
        } else if self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            self.start = 0;
            self.end = held;
        }
    }

    /// Moves what is held to storage of at least `bytes`.
    fn move_to(&mut self, bytes: usize) {
        let storage = self.pool.shared.borrow_mut().take(bytes);
        self.move_into(storage);
    }

    fn move_into(&mut self, mut storage: Box<[u8]>) {
        let held = self.end - self.start;
        storage[..held].copy_from_slice(self.bytes());
        let old = mem::replace(&mut self.storage, storage);
        self.pool.shared.borrow_mut().give_back(old);
        self.start = 0;
        self.end = held;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Taken out by `into_vec` or `detach`.
        if !self.storage.is_empty() {
            let storage = mem::take(&mut self.storage);
            self.pool.shared.borrow_mut().give_back(storage);
        }
    }
}

/// Received bytes between two pools: what [`Buffer::detach`] let go and [`ReceivePool::adopt`] takes in.
#[derive(Debug, Default)]
pub struct Detached {
    storage: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Detached {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    /// Whether its storage is as large as a pool's are.
    pub(super) fn fits_a_pool(&self) -> bool {
        class_for(self.storage.len()).is_none_or(|class| CLASS_BYTES[class] == self.storage.len())
    }

    pub(super) const fn storage_len(&self) -> usize {
        self.storage.len()
    }
}

impl From<Vec<u8>> for Detached {
    fn from(bytes: Vec<u8>) -> Self {
        Self {
            start: 0,
            end: bytes.len(),
            storage: bytes.into_boxed_slice(),
        }
    }
}
