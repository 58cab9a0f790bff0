//! A stream: an ordered list of references to records, and the one subscription on it that a session has (M17).
//!
//! ```text
//!   done  │ done or not: one bit each         │ not yet written
//!   ──────┼───────────────────────────────────┼──────────────▶ seq
//!       floor                                next
//! ```
//!
//! References lie in chunks of 256. A chunk goes when it is wholly done, except that the positions of one in the middle stay
//! as an empty chunk; a stream of which everything is done holds no chunk at all. Invariants (`check`): all chunks but the
//! last are full; chunks follow each other without a gap; `floor` is the first that is not done, or `next`; `live` and
//! `bytes` are those of the references that are not done; what is received is not done.

mod chunk;
mod codec;
mod save;

use std::collections::VecDeque;

use self::chunk::CHUNK;
pub(crate) use self::{
    chunk::{Chunk, Reference},
    save::{Ending, Span, Unsaved},
};

/// Chunks that wait to be used again; shared by all streams of a partition.
#[derive(Debug, Default)]
#[expect(clippy::vec_box, reason = "boxes go from stream to stream")]
pub(crate) struct SpareChunks {
    chunks: Vec<Box<Chunk>>,
    /// The last checkpoint: what comes later is not in it.
    pub(crate) saved: u32,
}

const SPARE_MAX: usize = 64;

impl SpareChunks {
    fn take(&mut self, base: u64) -> Box<Chunk> {
        let mut chunk = match self.chunks.pop() {
            Some(chunk) => chunk,
            None => Box::new(Chunk::new(base)),
        };
        chunk.base = base;
        chunk.saved = self.saved;
        chunk
    }

    /// A chunk is not needed any more.
    pub(crate) fn give(&mut self, mut chunk: Box<Chunk>) {
        if self.chunks.len() < SPARE_MAX {
            chunk.clear();
            self.chunks.push(chunk);
        }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    chunks: VecDeque<Box<Chunk>>,
    floor: u64,
    next: u64,
    live: u32,
    /// Positions that the chunk with the mark of an end had when that checkpoint began; not replicated.
    tail: u16,
    bytes: u64,
}

const _: () = assert!(size_of::<Stream>() == 64, "sessions count with it");

impl Stream {
    /// All below is done.
    pub(crate) const fn floor(&self) -> u64 {
        self.floor
    }

    /// The next one to be written.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// References that are not done.
    pub(crate) const fn live(&self) -> u32 {
        self.live
    }

    /// Bytes of their records, a record that stands twice counted twice.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends a reference to a record of `bytes` bytes and returns its position.
    #[inline]
    pub(crate) fn push(
        &mut self,
        reference: Reference,
        bytes: u32,
        spare: &mut SpareChunks,
    ) -> u64 {
        let seq = self.next;
        match self.chunks.back_mut() {
            Some(chunk) if !chunk.is_full() => chunk.push(reference),
            Some(_) | None => {
                let mut chunk = spare.take(seq);
                chunk.push(reference);
                self.chunks.push_back(chunk);
            }
        }
        self.next += 1;
        self.live += 1;
        self.bytes += u64::from(bytes);
        seq
    }

    fn chunk_of(&self, seq: u64) -> Option<&Chunk> {
        let first = self.chunks.front()?.base;
        let at = usize::try_from(seq.checked_sub(first)? / CHUNK).ok()?;
        self.chunks.get(at).map(|chunk| &**chunk)
    }

    fn chunk_of_mut(&mut self, seq: u64) -> Option<&mut Chunk> {
        let first = self.chunks.front()?.base;
        let at = usize::try_from(seq.checked_sub(first)? / CHUNK).ok()?;
        self.chunks.get_mut(at).map(|chunk| &mut **chunk)
    }

    /// The reference at `seq`, if it is not done.
    pub(crate) fn get(&self, seq: u64) -> Option<Reference> {
        self.chunk_of(seq)?.get(seq)
    }

    /// Whether PUBREC has come for `seq`.
    pub(crate) fn is_received(&self, seq: u64) -> bool {
        self.chunk_of(seq)
            .is_some_and(|chunk| chunk.is_received(seq))
    }

    /// Notes PUBREC. Returns whether that is new.
    pub(crate) fn mark_received(&mut self, seq: u64) -> bool {
        self.chunk_of_mut(seq)
            .is_some_and(|chunk| chunk.mark_received(seq))
    }

    /// Ends those of `first..end` that are not done, in order, and tells `ended` each with its position. The caller then calls
    /// [`Stream::forget_bytes`] and [`Stream::settle`]. Cost: by word and by reference, not by position.
    #[inline]
    pub(crate) fn end_range(
        &mut self,
        first: u64,
        end: u64,
        mut ended: impl FnMut(u64, Reference),
    ) {
        let Some(front) = self.chunks.front() else {
            return;
        };
        let base = front.base;
        let mut seq = first.max(self.floor);
        let end = end.min(self.next);
        while seq < end {
            let at = ((seq - base) / CHUNK) as usize;
            let chunk = &mut self.chunks[at];
            self.live -= chunk.end_range(seq, end, &mut ended);
            if at > 0 && chunk.is_spent() {
                chunk.empty();
            }
            seq = chunk.base + CHUNK;
        }
    }

    /// References that were ended took so many bytes.
    pub(crate) const fn forget_bytes(&mut self, bytes: u64) {
        self.bytes -= bytes;
    }

    /// Moves the floor and lets chunks go after some [`Stream::end_range`].
    pub(crate) fn settle(&mut self, spare: &mut SpareChunks) {
        while let Some(chunk) = self.chunks.front() {
            match chunk.first_not_done() {
                Some(seq) => {
                    self.floor = seq;
                    return;
                }
                None => {
                    let chunk = self.chunks.pop_front().expect("it was just seen");
                    spare.give(chunk);
                }
            }
        }
        self.floor = self.next;
    }

    /// Notes that `seq` expires. Returns the number of its chunk and the earlier moment for which it was to be looked at, if
    /// this one comes before that.
    pub(crate) fn note_expiry(&mut self, seq: u64, at: u64) -> Option<(u64, Option<u64>)> {
        let chunk = self.chunk_of_mut(seq)?;
        if at >= chunk.look_at {
            return None;
        }
        let before = std::mem::replace(&mut chunk.look_at, at);
        Some((chunk.base, (before != u64::MAX).then_some(before)))
    }

    /// Nobody looks for expired messages any more.
    pub(crate) fn forget_expiry(&mut self) {
        for chunk in &mut self.chunks {
            chunk.look_at = u64::MAX;
        }
    }

    /// The chunk that began at `base` is looked at now: all of it that is not done. None: it is gone.
    pub(crate) fn look_at_chunk(&mut self, base: u64) -> Option<Vec<(u64, Reference)>> {
        let chunk = self.chunk_of_mut(base)?;
        if chunk.base != base {
            return None;
        }
        chunk.look_at = u64::MAX;
        let mut found = Vec::new();
        let mut seq = base;
        while let Some(next) = chunk.next_not_done(seq) {
            found.push((next, chunk.get(next)?));
            seq = next + 1;
        }
        Some(found)
    }

    /// The first position at or after `seq` that is not done.
    pub(crate) fn next_live(&self, seq: u64) -> Option<u64> {
        self.next_reference(seq).map(|(seq, _)| seq)
    }

    /// The first reference at or after `seq` that is not done.
    #[inline]
    pub(crate) fn next_reference(&self, seq: u64) -> Option<(u64, Reference)> {
        let mut seq = seq.max(self.floor);
        while seq < self.next {
            let chunk = self.chunk_of(seq)?;
            if let Some(found) = chunk.next_not_done(seq) {
                return Some((found, chunk.get(found)?));
            }
            seq = chunk.base + CHUNK;
        }
        None
    }

    /// All references that are not done, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, Reference)> + '_ {
        self.iter_from(self.floor)
    }

    /// Those at or after `seq` that are not done, in order.
    pub(crate) fn iter_from(&self, mut seq: u64) -> impl Iterator<Item = (u64, Reference)> + '_ {
        std::iter::from_fn(move || {
            let (found, reference) = self.next_reference(seq)?;
            seq = found + 1;
            Some((found, reference))
        })
    }

    /// Lets the first chunk go. None: nothing is left.
    pub(crate) fn take_chunk(&mut self) -> Option<Box<Chunk>> {
        let chunk = self.chunks.pop_front();
        if chunk.is_none() {
            self.floor = self.next;
            self.live = 0;
            self.bytes = 0;
        }
        chunk
    }

    #[cfg(test)]
    fn held_slots(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.held_slots()).sum()
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        let mut live = 0;
        let mut base = self.chunks.front().map_or(self.next, |chunk| chunk.base);
        assert!(base <= self.floor, "the floor is in the first chunk");
        for (at, chunk) in self.chunks.iter().enumerate() {
            assert_eq!(chunk.base, base, "chunks follow each other");
            assert!(
                chunk.is_full() || at + 1 == self.chunks.len(),
                "only the last chunk may grow"
            );
            live += chunk.check();
            base += chunk.len();
        }
        assert_eq!(base, self.next, "chunks reach to the end");
        assert_eq!(live, self.live, "what is not done is counted");
        assert_eq!(
            self.next_live(0).unwrap_or(self.next),
            self.floor,
            "the floor is the first that is not done"
        );
    }
}

#[cfg(test)]
mod tests;
