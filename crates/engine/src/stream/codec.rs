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
    chunk::{CHUNK, Chunk, Looks as ChunkLooks, Reference, TAIL, WORDS},
};
use crate::{
    canonical::{Canonical, DecodeError, Reader},
    checkpoint::{AddressReader, Addresses, Names},
    look::{self, Looks},
    record::{Said, Slot},
};

/// Records that are looked at before the first of them is named: most are in no cache, and so they are waited for together. With one after the
/// other the next look begins when the number of the one before is written.
const AT_ONCE: usize = 16;

const SOME_DONE: u8 = 1;
const SOME_RECEIVED: u8 = 2;

/// Positions of a chunk that follow each other, as a checkpoint says them: all that it had when that began, or some of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    chunk: &'a Chunk,
    from: u64,
    end: u64,
}

impl<'a> Span<'a> {
    /// Where the chunk begins.
    pub(crate) const fn base(&self) -> u64 {
        self.chunk.base
    }

    /// Where the next chunk begins.
    pub(crate) const fn chunk_end(&self) -> u64 {
        self.chunk.end()
    }

    /// Appends it.
    pub(crate) fn write(&self, names: &Names<'_>, addresses: &mut Addresses<'_>) {
        self.write_head(names, addresses.out);
        self.write_names(self.from, usize::MAX, names, addresses);
    }

    /// Appends what comes before the addresses.
    pub(crate) fn write_head(&self, names: &Names<'_>, out: &mut Vec<u8>) {
        let some = |words: &[u64; WORDS], flag| if *words == [0; WORDS] { 0 } else { flag };
        let done = self.bits(&self.chunk.done);
        let received = self.bits(&self.chunk.received);
        let flags = some(&done, SOME_DONE) | some(&received, SOME_RECEIVED);
        self.from.write(out);
        ((self.end - self.from) as u16).write(out);
        flags.write(out);
        if flags & SOME_DONE != 0 {
            done.iter().for_each(|word| word.write(out));
        }
        if flags & SOME_RECEIVED != 0 {
            received.iter().for_each(|word| word.write(out));
        }
        self.write_looks(names.looks, out);
    }

    /// Bits of its positions, the first one lowest.
    fn bits(&self, words: &[u64; WORDS]) -> [u64; WORDS] {
        let skip = (self.from - self.chunk.base) as usize;
        let len = (self.end - self.from) as usize;
        let (word, bit) = (skip / 64, skip % 64);
        std::array::from_fn(|at| {
            let low = words.get(at + word).copied().unwrap_or(0);
            let high = words.get(at + word + 1).copied().unwrap_or(0);
            let high = high.checked_shl(64 - bit as u32).unwrap_or(0);
            match len.saturating_sub(at * 64) {
                0 => 0,
                inside => (low >> bit | high) & u64::MAX >> (64 - inside.min(64)),
            }
        })
    }

    /// Appends the next addresses, from the one of a position on, so many at most. Where the others begin; none: these were the last.
    pub(crate) fn write_names(
        &self,
        from: u64,
        count: usize,
        names: &Names<'_>,
        addresses: &mut Addresses<'_>,
    ) -> Option<u64> {
        let mut next = from;
        let mut left = count;
        while left > 0 {
            let mut said = [Said::NOTHING; AT_ONCE];
            let mut count = 0;
            let at_once = left.min(AT_ONCE);
            let live = self.live_from(next).take(at_once);
            for (said, (seq, reference)) in said.iter_mut().zip(live) {
                *said = names.records.said(reference.slot);
                next = seq + 1;
                count += 1;
            }
            said[..count].iter().for_each(|said| addresses.write(*said));
            if count < at_once {
                return None;
            }
            left -= count;
        }
        self.live_from(next).next().map(|(seq, _)| seq)
    }

    /// References that are not done, with their positions, from one on.
    fn live_from(&self, mut seq: u64) -> impl Iterator<Item = (u64, Reference)> + use<'a> {
        let Self { chunk, end, .. } = *self;
        std::iter::from_fn(move || {
            let found = chunk.next_not_done(seq).filter(|found| *found < end)?;
            seq = found + 1;
            Some((found, chunk.get(found)?))
        })
    }

    fn write_looks(&self, looks: &Looks, out: &mut Vec<u8>) {
        let mut distinct: Vec<u32> = Vec::new();
        let mut each = Vec::new();
        match &self.chunk.looks {
            ChunkLooks::All(look) => {
                distinct.extend(self.live_from(self.from).next().map(|_| *look));
            }
            ChunkLooks::Each(_) => {
                for (_, reference) in self.live_from(self.from) {
                    let at = distinct.iter().position(|&look| look == reference.look);
                    let at = at.unwrap_or_else(|| {
                        distinct.push(reference.look);
                        distinct.len() - 1
                    });
                    each.push(at as u8);
                }
            }
        }
        (distinct.len() as u16).write(out);
        for &each in &distinct {
            (look::qos(each) as u8 | u8::from(look::retain(each)) << 2).write(out);
            looks.identifiers(each).cloned().write(out);
        }
        if distinct.len() > 1 {
            out.extend_from_slice(&each);
        }
    }
}

impl Chunk {
    /// Its first positions, so many.
    fn span(&self, len: u16) -> Span<'_> {
        Span {
            chunk: self,
            from: self.base,
            end: self.base + u64::from(len),
        }
    }

    /// Reads what [`Span::write`] wrote. Each reference becomes a place in `found`, which stands where its slot will.
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

/// What of a stream a checkpoint has not.
pub(crate) enum Unsaved<'a> {
    /// What this chunk had.
    Chunk(Span<'a>),
    /// Nothing before this position, as a look at so many chunks has shown.
    From(u64, usize),
    /// Nothing.
    None,
}

impl Stream {
    /// Something is about to be appended: notes where the stream ended when the checkpoint began, if it is not known yet.
    #[inline]
    pub(crate) fn note_end(&mut self, mark: u32) {
        if let Some(chunk) = self.chunks.back_mut()
            && !chunk.is_full()
            && chunk.saved & !TAIL != mark
        {
            chunk.saved = mark | TAIL;
            self.tail = chunk.len;
        }
    }

    /// Where the stream ended when the checkpoint began, as long as it has nothing of the stream and nothing was ended since: all chunks with its
    /// mark are later ones. Cost: O(log n).
    pub(crate) fn end_at(&self, mark: u32) -> u64 {
        let old = self.chunks.partition_point(|chunk| chunk.saved != mark);
        match old.checked_sub(1).map(|last| &self.chunks[last]) {
            Some(last) => last.base + u64::from(self.len_at(last, mark)),
            None => self.chunks.front().map_or(self.next, |first| first.base),
        }
    }

    /// Positions that a chunk had when the checkpoint began that does not have it.
    fn len_at(&self, chunk: &Chunk, mark: u32) -> u16 {
        match chunk.saved == mark | TAIL {
            true => self.tail,
            false => chunk.len,
        }
    }

    /// Hands each chunk that holds a position of `first..end` and does not carry `mark` to `save`, and marks it.
    pub(crate) fn save(
        &mut self,
        (first, end): (u64, u64),
        mark: u32,
        mut save: impl FnMut(Span<'_>),
    ) {
        let Some(front) = self.chunks.front() else {
            return;
        };
        let base = front.base;
        let from = first.saturating_sub(base) / CHUNK;
        let count = end.saturating_sub(base).div_ceil(CHUNK);
        let from = usize::try_from(from).unwrap_or(usize::MAX);
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let to = count.min(self.chunks.len());
        for at in from.min(to)..to {
            let chunk = &self.chunks[at];
            if chunk.saved != mark {
                save(chunk.span(self.len_at(chunk, mark)));
                self.chunks[at].saved = mark;
            }
        }
    }

    /// The first chunk at or after `seq` that does not carry `mark`, of so many that are looked at.
    pub(crate) fn next_unsaved(&self, seq: u64, mark: u32, looks: usize) -> Unsaved<'_> {
        let Some(base) = self.chunks.front().map(|first| first.base) else {
            return Unsaved::None;
        };
        let from = usize::try_from(seq.saturating_sub(base) / CHUNK).unwrap_or(usize::MAX);
        let from = from.min(self.chunks.len());
        let end = from.saturating_add(looks).min(self.chunks.len());
        match self
            .chunks
            .range(from..end)
            .find(|chunk| chunk.saved != mark)
        {
            Some(chunk) => Unsaved::Chunk(chunk.span(self.len_at(chunk, mark))),
            None if from == end => Unsaved::None,
            None => Unsaved::From(base + end as u64 * CHUNK, end - from),
        }
    }

    /// The checkpoint of this number has the chunk with this position.
    pub(crate) fn mark_chunk(&mut self, seq: u64, mark: u32) {
        if let Some(chunk) = self.chunk_of_mut(seq) {
            chunk.saved = mark;
        }
    }

    /// Puts back a chunk; they come in any order, and [`Stream::restore`] puts them in theirs.
    pub(crate) fn restore_chunk(&mut self, chunk: Chunk) {
        self.chunks.push_back(Box::new(chunk));
    }

    /// All chunks are back: whether they make a stream that ends before `next`.
    pub(crate) fn restore(&mut self, next: u64) -> Result<(), DecodeError> {
        let chunks = self.chunks.make_contiguous();
        chunks.sort_unstable_by_key(|chunk| chunk.base);
        let mut base = chunks.first().map_or(next, |chunk| chunk.base);
        for (at, chunk) in chunks.iter().enumerate() {
            if chunk.base != base || !(chunk.is_full() || at + 1 == chunks.len()) {
                return Err(POSITIONS);
            }
            base += chunk.len();
            self.live += u32::from(chunk.open);
        }
        self.floor = match chunks.first() {
            Some(first) => first.first_not_done().ok_or(POSITIONS)?,
            None => next,
        };
        if base != next {
            return Err(POSITIONS);
        }
        self.next = next;
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
