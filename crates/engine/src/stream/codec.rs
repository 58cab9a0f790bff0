//! Chunks of a stream in a checkpoint: what is not done, by address.
//!
//! ```text
//! u64 seq of the first   u16 positions   u8 flags: 1 some are done, 2 some are received
//! 4 u64 done, if some are   4 u64 received, if some are
//! looks: u16 n, then n times (u8 QoS and RETAIN << 2, identifiers); with n > 1 a byte for each reference that is not done
//! for each reference that is not done: its record's address, as a difference to the one before, and the record's length
//! ```

use std::sync::Arc;

use courser_contract::QoS;

use super::{
    Stream,
    chunk::{CHUNK, Chunk, Looks as ChunkLooks, WORDS},
};
use crate::{
    canonical::{DecodeError, Reader},
    checkpoint::AddressReader,
    look::Looks,
    record::Slot,
};

pub(super) const SOME_DONE: u8 = 1;
pub(super) const SOME_RECEIVED: u8 = 2;

impl Chunk {
    /// Reads what a [`save`](super::save) of it wrote. Each reference becomes a place in `found`, which stands where its slot will.
    pub(crate) fn read(
        reader: &mut Reader<'_>,
        looks: &mut Looks,
        addresses: &mut AddressReader<'_>,
    ) -> Result<Self, DecodeError> {
        let mut chunk = Self::new(reader.read()?);
        let len: u16 = reader.read()?;
        let flags: u8 = reader.read()?;
        if len == 0 || u64::from(len) > CHUNK || flags > (SOME_DONE | SOME_RECEIVED) {
            return Err(DecodeError::Invalid("head of a chunk"));
        }
        chunk.base.checked_add(CHUNK).ok_or(POSITIONS)?;
        chunk.done = read_words(reader, flags & SOME_DONE != 0, len)?;
        chunk.received = read_words(reader, flags & SOME_RECEIVED != 0, len)?;
        let both = chunk.done.iter().zip(&chunk.received);
        if both
            .into_iter()
            .any(|(done, received)| done & received != 0)
        {
            return Err(DecodeError::Invalid("received and done"));
        }
        let done: u32 = chunk.done.iter().map(|word| word.count_ones()).sum();
        chunk.len = len;
        chunk.open = len - u16::try_from(done).expect("at most 256");
        if chunk.open == 0 {
            return chunk.read_spent(reader);
        }
        chunk.read_references(reader, looks, addresses)?;
        Ok(chunk)
    }

    /// A chunk behind others of which all is done: full, or the last one, which may grow.
    fn read_spent(mut self, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if reader.read::<u16>()? != 0 {
            return Err(DecodeError::Invalid("chunk of which all is done"));
        }
        if !self.is_full() {
            self.slots = vec![Slot::NONE; usize::from(self.len)];
        }
        Ok(self)
    }

    fn read_references(
        &mut self,
        reader: &mut Reader<'_>,
        looks: &mut Looks,
        addresses: &mut AddressReader<'_>,
    ) -> Result<(), DecodeError> {
        let distinct = read_looks(reader)?;
        let each = if distinct.len() > 1 {
            reader.take(usize::from(self.open))?
        } else {
            &[]
        };
        let mut numbers = Vec::new();
        self.slots = vec![Slot::NONE; usize::from(self.len)];
        let mut seq = self.base;
        for n in 0..usize::from(self.open) {
            let found = self.next_not_done(seq).expect("they were counted");
            seq = found + 1;
            let at = (found - self.base) as usize;
            let look = each.get(n).map_or(0, |&look| usize::from(look));
            let (qos, retain, identifiers) =
                distinct.get(look).ok_or(DecodeError::Invalid("look"))?;
            let number = looks.make(*qos, *retain, identifiers.as_ref());
            if each.is_empty() {
                self.looks = ChunkLooks::All(number);
            } else {
                numbers.resize(at + 1, 0);
                numbers[at] = number;
            }
            self.slots[at] = addresses.read(reader)?;
        }
        if !each.is_empty() {
            numbers.resize(self.slots.len(), 0);
            self.looks = ChunkLooks::Each(numbers);
        }
        Ok(())
    }
}

const POSITIONS: DecodeError = DecodeError::Invalid("positions of a stream");

type Look = (QoS, bool, Option<Arc<[u32]>>);

fn read_looks(reader: &mut Reader<'_>) -> Result<Vec<Look>, DecodeError> {
    let count: u16 = reader.read()?;
    if count == 0 || u64::from(count) > CHUNK {
        return Err(DecodeError::Invalid("looks of a chunk"));
    }
    let mut looks = Vec::new();
    for _ in 0..count {
        let bits: u8 = reader.read()?;
        let qos = QoS::from_bits(bits & 3).filter(|_| bits < 8);
        let identifiers: Option<Arc<[u32]>> = reader.read()?;
        if identifiers.as_ref().is_some_and(|list| list.is_empty()) {
            return Err(DecodeError::Invalid("identifiers"));
        }
        let qos = qos.ok_or(DecodeError::Invalid("look"))?;
        looks.push((qos, bits & 4 != 0, identifiers));
    }
    Ok(looks)
}

fn read_words(reader: &mut Reader<'_>, there: bool, len: u16) -> Result<[u64; WORDS], DecodeError> {
    let mut words = [0; WORDS];
    if !there {
        return Ok(words);
    }
    for (at, word) in words.iter_mut().enumerate() {
        *word = reader.read()?;
        let inside = (usize::from(len)).saturating_sub(at * 64).min(64);
        if inside < 64 && *word >> inside != 0 {
            return Err(DecodeError::Invalid("position behind the end"));
        }
    }
    Ok(words)
}

impl Stream {
    /// Puts back a chunk; they come in any order, and [`Stream::line_up`] puts them in theirs.
    pub(crate) fn restore_chunk(&mut self, chunk: Chunk) {
        self.chunks.push_back(Box::new(chunk));
    }

    /// All chunks are back: whether they make a stream that ends before `next`.
    pub(crate) fn line_up(&mut self, next: u64) -> Result<(), DecodeError> {
        let chunks = self.chunks.make_contiguous();
        chunks.sort_unstable_by_key(|chunk| chunk.base);
        let mut base = chunks.first().map_or(next, |chunk| chunk.base);
        for (at, chunk) in chunks.iter().enumerate() {
            if chunk.base != base || !(chunk.is_full() || at + 1 == chunks.len()) {
                return Err(POSITIONS);
            }
            base += chunk.len();
        }
        if base != next {
            return Err(POSITIONS);
        }
        self.next = next;
        Ok(())
    }

    /// Puts back references that ended before their chunk was written, which says that they are done.
    pub(crate) fn restore_ended(&mut self, ended: &Chunk) -> Result<(), DecodeError> {
        for (seq, reference) in ended.live_from(ended.base) {
            let chunk = self.chunk_of_mut(seq).ok_or(POSITIONS)?;
            if !chunk.put_back(seq, reference, ended.is_received(seq)) {
                return Err(POSITIONS);
            }
        }
        Ok(())
    }

    /// PUBREC of these references came after the checkpoint began.
    pub(crate) fn restore_unreceived(
        &mut self,
        base: u64,
        words: [u64; WORDS],
    ) -> Result<(), DecodeError> {
        let chunk = self.chunk_of_mut(base).filter(|chunk| chunk.base == base);
        let received = &mut chunk.ok_or(POSITIONS)?.received;
        for (received, word) in received.iter_mut().zip(words) {
            *received &= !word;
        }
        Ok(())
    }

    /// All of a stream is back: whether it is one.
    pub(crate) fn restored(&mut self) -> Result<(), DecodeError> {
        self.floor = match self.chunks.front() {
            Some(first) => first.first_not_done().ok_or(POSITIONS)?,
            None => self.next,
        };
        let open = self.chunks.iter().map(|chunk| u32::from(chunk.open));
        self.live = open.sum();
        Ok(())
    }

    /// Gives each reference the slot of its record; `slot` also says the record's bytes.
    pub(crate) fn place(&mut self, mut slot: impl FnMut(Slot) -> (Slot, u32)) {
        for chunk in &mut self.chunks {
            for place in chunk.slots.iter_mut().filter(|slot| **slot != Slot::NONE) {
                let (found, bytes) = slot(*place);
                *place = found;
                self.bytes += u64::from(bytes);
            }
        }
    }
}
