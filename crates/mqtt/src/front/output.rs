//! Bytes that wait to be written to one socket.
//!
//! Small packets are copied into one buffer of the shard's pool; large payloads are referenced where they are and go out
//! between the bytes before and after them by one vectored write. The buffer goes back to the pool as soon as all is
//! written, so an idle connection holds none.
//!
//! A socket that takes no more makes its output *blocked*. From then on it should grow by references only (M23): thousands of
//! clients that do not read then cost one copy of what they do not read, not one each.
//!
//! Invariants (`check`, run by the tests after every step):
//! - `start <= own.len()`; places of payloads are ascending and lie in `start..=own.len()`
//! - nothing to write means no buffer: `len() == 0` implies `own.capacity() == 0`

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use bytes::Bytes;
use courser_memory::{Component, Scope};

/// Smallest pooled buffer.
const CLASS_BYTES_MIN: usize = 512;
/// Powers of two from 512 B to 64 KiB.
const CLASSES: usize = 8;

/// Free output buffers of one shard, by size. One thread owns it: no lock, no atomic.
#[derive(Debug)]
pub struct OutputPool {
    free: RefCell<Free>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Free {
    classes: [Vec<Vec<u8>>; CLASSES],
    #[expect(clippy::vec_box, reason = "the boxes themselves are used again")]
    lists: Vec<Box<Shared>>,
    bytes: usize,
}

impl OutputPool {
    /// Lists of payloads that are kept free.
    const LISTS_MAX: usize = 256;

    /// A pool that keeps at most `bytes_max` bytes of free buffers; more is given back to the allocator.
    #[must_use]
    pub fn new(bytes_max: usize) -> Rc<Self> {
        Rc::new(Self {
            free: RefCell::default(),
            bytes_max,
        })
    }

    /// Bytes of the free buffers.
    #[must_use]
    pub fn free_bytes(&self) -> usize {
        self.free.borrow().bytes
    }

    /// Frees what is free, for a shard that is short of memory.
    pub fn trim(&self) {
        drop(self.free.take());
    }

    fn take(&self, bytes: usize) -> Vec<u8> {
        let Some(class) = class_for(bytes) else {
            return made(bytes.next_power_of_two());
        };
        let mut free = self.free.borrow_mut();
        if let Some(buffer) = free.classes[class].pop() {
            free.bytes -= buffer.capacity();
            return buffer;
        }
        made(class_bytes(class))
    }

    fn give(&self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let Some(class) = class_for(capacity).filter(|&class| capacity == class_bytes(class))
        else {
            return;
        };
        let mut free = self.free.borrow_mut();
        if free.make_room(class, self.bytes_max) {
            buffer.clear();
            free.bytes += capacity;
            free.classes[class].push(buffer);
        }
    }

    fn take_list(&self) -> Box<Shared> {
        self.free.borrow_mut().lists.pop().unwrap_or_default()
    }

    fn give_list(&self, list: Box<Shared>) {
        let mut free = self.free.borrow_mut();
        if free.lists.len() < Self::LISTS_MAX && list.pieces.capacity() <= 64 {
            free.lists.push(list);
        }
    }
}

/// A buffer that no pool has, whoever writes into it.
fn made(bytes: usize) -> Vec<u8> {
    let _scope = Scope::enter(Component::Output);
    Vec::with_capacity(bytes)
}

impl Free {
    /// Room for a buffer of `class` within `bytes_max`. What is in use changes, so a full pool first lets go of the size of which it
    /// has most; when that is this one, there is enough of it.
    fn make_room(&mut self, class: usize, bytes_max: usize) -> bool {
        while self.bytes + class_bytes(class) > bytes_max {
            let most = (0..CLASSES).max_by_key(|&other| self.classes[other].len() << other);
            let Some(most) = most.filter(|&most| most != class) else {
                return false;
            };
            if self.classes[most].pop().is_none() {
                return false;
            }
            self.bytes -= class_bytes(most);
        }
        true
    }
}

const fn class_bytes(class: usize) -> usize {
    CLASS_BYTES_MIN << class
}

/// Index of the smallest class that holds `bytes`.
fn class_for(bytes: usize) -> Option<usize> {
    let class = bytes
        .max(CLASS_BYTES_MIN)
        .next_power_of_two()
        .trailing_zeros() as usize
        - CLASS_BYTES_MIN.trailing_zeros() as usize;
    (class < CLASSES).then_some(class)
}

/// Payloads that are referenced, in order.
#[derive(Debug, Default)]
struct Shared {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

#[derive(Debug)]
struct Piece {
    /// It goes out after `own[..at]`.
    at: usize,
    bytes: Bytes,
}

/// A size in units of 16 bytes, as large as the largest pooled buffer and more.
#[derive(Clone, Copy, Debug, Default)]
struct Usual(u16);

impl Usual {
    const UNIT_BYTES: usize = 16;

    /// So much was needed this time; what was needed before counts less and less.
    fn note(&mut self, bytes: usize) {
        let units = u16::try_from(bytes.div_ceil(Self::UNIT_BYTES)).unwrap_or(u16::MAX);
        self.0 = units.max(self.0 / 2);
    }

    fn bytes(self) -> usize {
        usize::from(self.0) * Self::UNIT_BYTES
    }
}

/// What is still to be written to one socket. See the module's text.
#[derive(Debug)]
pub struct Output {
    pool: Rc<OutputPool>,
    own: Vec<u8>,
    /// Bytes of `own` that are written.
    start: usize,
    shared: Option<Box<Shared>>,
    /// What the last turns needed: a busy connection takes a buffer of this size at once instead of growing to it.
    usual: Usual,
    /// Packets since the last [`take_packets`](Self::take_packets).
    packets: u32,
    socket: Socket,
}

/// Whether a socket takes bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Socket {
    /// It does, as far as is known.
    #[default]
    Open,
    /// It took no more at the last write.
    Full,
}

impl Output {
    /// Below this many bytes the shell calls [`Front::handle_output_room`](super::Front::handle_output_room).
    pub const LOW_BYTES: usize = 32 * 1024;
    /// What a blocked output has of its own at most, besides answers to what its client sends (M23). An output that is not blocked
    /// should be written as soon as it has so much, so that a client that does not read is known as such.
    pub const OWN_BYTES_MAX: usize = 64 * 1024;
    /// What a reference takes of it: their list grows by doubling.
    pub(super) const REFERENCE_BYTES: usize = 2 * size_of::<Piece>();

    /// An output with nothing in it.
    #[must_use]
    pub fn new(pool: Rc<OutputPool>) -> Self {
        Self {
            pool,
            own: Vec::new(),
            start: 0,
            shared: None,
            usual: Usual::default(),
            packets: 0,
            socket: Socket::Open,
        }
    }

    /// To be called by the shell with what a write has shown.
    pub const fn set_socket(&mut self, socket: Socket) {
        self.socket = socket;
    }

    /// Whether the socket took no more at the last write.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.socket == Socket::Full
    }

    /// Bytes of memory that only this output needs: what is copied into it, and its references.
    #[must_use]
    #[inline]
    pub fn own_bytes(&self) -> usize {
        let own = self.own.len() - self.start;
        match &self.shared {
            None => own,
            Some(shared) => own + shared.pieces.len() * Self::REFERENCE_BYTES,
        }
    }

    /// Bytes to write, payloads included.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        let own = self.own.len() - self.start;
        match &self.shared {
            None => own,
            Some(shared) => own + shared.bytes,
        }
    }

    /// Whether there is nothing to write.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to write, in order, for a vectored write. None of them is empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let pieces = self.shared.iter().flat_map(|shared| &shared.pieces);
        let mut from = self.start;
        let mut last = self.start;
        let body = pieces.clone().flat_map(move |piece| {
            let own = &self.own[from..piece.at];
            from = piece.at;
            [own, &piece.bytes]
        });
        if let Some(piece) = pieces.last() {
            last = piece.at;
        }
        body.chain([&self.own[last..]])
            .filter(|slice| !slice.is_empty())
    }

    /// Forgets the first `written` bytes. When nothing is left the buffer goes back to the pool.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn advance(&mut self, written: usize) {
        assert!(written <= self.len(), "only what was there can be written");
        let mut left = written;
        while left > 0 {
            left -= self.advance_part(left);
        }
        if self.is_empty() {
            self.release();
        }
    }

    /// Forgets at most `left` bytes of the first part and says how many.
    fn advance_part(&mut self, left: usize) -> usize {
        let Some(shared) = &mut self.shared else {
            self.start += left;
            return left;
        };
        let Some(piece) = shared.pieces.front_mut() else {
            self.start += left;
            return left;
        };
        if piece.at > self.start {
            let part = left.min(piece.at - self.start);
            self.start += part;
            return part;
        }
        let part = left.min(piece.bytes.len());
        shared.bytes -= part;
        if part == piece.bytes.len() {
            shared.pieces.pop_front();
        } else {
            bytes::Buf::advance(&mut piece.bytes, part);
        }
        part
    }

    /// Drops what was not written, for a socket that is gone.
    pub fn clear(&mut self) {
        if let Some(shared) = &mut self.shared {
            shared.pieces.clear();
            shared.bytes = 0;
        }
        self.release();
    }

    fn release(&mut self) {
        self.usual.note(self.own.len());
        self.start = 0;
        let own = std::mem::take(&mut self.own);
        if own.capacity() > 0 {
            self.pool.give(own);
        }
        if let Some(list) = self.shared.take() {
            self.pool.give_list(list);
        }
    }

    /// How many packets were appended since the last call, for a count of what is sent.
    pub const fn take_packets(&mut self) -> u32 {
        std::mem::replace(&mut self.packets, 0)
    }

    /// The buffer with room for `room` more bytes behind what is there: append one packet to it, change nothing before.
    #[inline]
    pub(super) fn buffer(&mut self, room: usize) -> &mut Vec<u8> {
        self.packets = self.packets.wrapping_add(1);
        if self.own.capacity() - self.own.len() < room {
            self.grow(room);
        }
        &mut self.own
    }

    #[cold]
    fn grow(&mut self, room: usize) {
        let unsent = self.own.len() - self.start;
        let needed = unsent + room;
        if self.start > 0 && needed <= self.own.capacity() && self.start >= unsent {
            self.own.copy_within(self.start.., 0);
            self.own.truncate(unsent);
        } else {
            let usual = self.usual.bytes().min(class_bytes(CLASSES - 1));
            let twice = match self.socket {
                Socket::Open => unsent * 2,
                Socket::Full => (unsent * 2).min(Self::OWN_BYTES_MAX),
            };
            let bytes = needed.max(twice).max(usual);
            let mut larger = self.pool.take(bytes);
            larger.extend_from_slice(&self.own[self.start..]);
            let own = std::mem::replace(&mut self.own, larger);
            if own.capacity() > 0 {
                self.pool.give(own);
            }
        }
        if let Some(shared) = &mut self.shared {
            for piece in &mut shared.pieces {
                piece.at -= self.start;
            }
        }
        self.start = 0;
    }

    /// Appends a payload by reference.
    pub(super) fn push_shared(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let at = self.own.len();
        let pool = &self.pool;
        let shared = self.shared.get_or_insert_with(|| pool.take_list());
        shared.bytes += bytes.len();
        shared.pieces.push_back(Piece { at, bytes });
    }

    /// Counts packets that were appended as one: `packets` less one behind [`buffer`](Self::buffer), which counts one.
    pub(super) fn count_packets(&mut self, packets: u32) {
        self.packets = self.packets.wrapping_add(packets);
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut at = self.start;
        let mut bytes = 0;
        assert!(
            self.start <= self.own.len(),
            "only what is there is written"
        );
        for piece in self.shared.iter().flat_map(|shared| &shared.pieces) {
            assert!(piece.at >= at, "payloads stand in order");
            at = piece.at;
            bytes += piece.bytes.len();
        }
        assert!(at <= self.own.len(), "payloads stand within the buffer");
        assert_eq!(
            bytes,
            self.shared.as_ref().map_or(0, |shared| shared.bytes),
            "payload bytes are counted"
        );
        assert!(
            !self.is_empty() || self.own.capacity() == 0,
            "nothing to write, no buffer"
        );
    }
}
