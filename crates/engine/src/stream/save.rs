//! What a checkpoint says of a stream, while that goes on: chunks as they were, and what facts are about to end of them (M42).
//!
//! A chunk that is not written yet goes on as if there were no checkpoint. What is appended to it lies behind what it had, which is noted; references
//! that end are written by themselves first, so that their chunk may say later that they are done; that PUBREC had not come for them is said too.

use super::{
    Stream,
    chunk::{CHUNK, Chunk, Looks as ChunkLooks, Reference, TAIL, WORDS},
    codec::{SOME_DONE, SOME_RECEIVED},
};
use crate::{
    canonical::Canonical,
    checkpoint::{Addresses, Names},
    look::{self, Looks},
    record::Said,
};

/// Records that are looked at before the first of them is named: most are in no cache, and so they are waited for together. With one after the
/// other the next look begins when the number of the one before is written.
const AT_ONCE: usize = 8;

/// Positions of a chunk that follow each other, as a checkpoint says them: all that it had when that began, or some of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    chunk: &'a Chunk,
    from: u64,
    end: u64,
}

impl<'a> Span<'a> {
    /// Positions of a whole chunk.
    pub(crate) const POSITIONS_MAX: u64 = CHUNK;

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
    fn live_from(&self, seq: u64) -> impl Iterator<Item = (u64, Reference)> + use<'a> {
        let end = self.end;
        let live = self.chunk.live_from(seq);
        live.take_while(move |(seq, _)| *seq < end)
    }

    /// From the first to the last of its references in `first..end` that are not done, if there are some.
    fn live(self, first: u64, end: u64) -> Option<Self> {
        let all = Self {
            end: end.min(self.end),
            ..self
        };
        let mut live = all.live_from(first).map(|(seq, _)| seq);
        let from = live.next()?;
        let end = live.last().unwrap_or(from) + 1;
        Some(Self { from, end, ..self })
    }

    /// What is said of the records of its references that are not done.
    pub(crate) fn said(&self, names: &Names<'_>) -> Vec<Said> {
        let mut said = Vec::with_capacity((self.end - self.from) as usize);
        let live = self.live_from(self.from);
        said.extend(live.map(|(_, reference)| names.records.said(reference.slot)));
        said
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

    /// Whether something of it stays when the references of `first..end` end.
    fn outlives(&self, first: u64, end: u64) -> bool {
        let before = self.first_not_done().is_some_and(|seq| seq < first);
        before || self.next_not_done(end.max(self.base)).is_some()
    }
}

/// What is written before references end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Their chunk.
    Chunk,
    /// Some of them by themselves.
    References,
}

/// What of a stream the walk of a checkpoint finds.
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

    /// References of `first..end` are about to end. Hands over what of them the checkpoint has not: a chunk of which nothing will be left, with
    /// all chunks that go with it, as it is, and is marked; of the others the references by themselves. Cost: as ending them.
    pub(crate) fn save_ending(
        &mut self,
        (first, end): (u64, u64),
        mark: u32,
        mut save: impl FnMut(Ending, Span<'_>),
    ) {
        let Some(front) = self.chunks.front() else {
            return;
        };
        let base = front.base;
        let (first, end) = (first.max(self.floor), end.min(self.next));
        let mut seq = first;
        while seq < end {
            let at = ((seq - base) / CHUNK) as usize;
            let chunk = &self.chunks[at];
            if chunk.outlives(first, end) {
                if let Some(span) = self.unsaved(chunk, mark).and_then(|it| it.live(seq, end)) {
                    save(Ending::References, span);
                }
            } else {
                self.save_chunk(at, mark, &mut save);
            }
            seq = self.chunks[at].end();
        }
        // They go from the front on.
        let mut at = 0;
        while self
            .chunks
            .get(at)
            .is_some_and(|chunk| !chunk.outlives(first, end))
        {
            self.save_chunk(at, mark, &mut save);
            at += 1;
        }
    }

    fn save_chunk(&mut self, at: usize, mark: u32, save: &mut impl FnMut(Ending, Span<'_>)) {
        if let Some(span) = self.unsaved(&self.chunks[at], mark) {
            save(Ending::Chunk, span);
            self.chunks[at].saved = mark;
        }
    }

    /// Hands over which references of `first..end` are neither done nor received and in a chunk that the checkpoint has not: where that begins, and
    /// its positions.
    pub(crate) fn unreceived(
        &self,
        (first, end): (u64, u64),
        mark: u32,
        mut say: impl FnMut(u64, [u64; WORDS]),
    ) {
        let Some(front) = self.chunks.front() else {
            return;
        };
        let base = front.base;
        let end = end.min(self.next);
        let mut seq = first.max(self.floor);
        while seq < end {
            let chunk = &self.chunks[((seq - base) / CHUNK) as usize];
            if let Some(span) = self.unsaved(chunk, mark) {
                let mut words = [0; WORDS];
                for (at, _) in span.live_from(seq).take_while(|(at, _)| *at < end) {
                    if !chunk.is_received(at) {
                        let at = (at - chunk.base) as usize;
                        words[at / 64] |= 1 << (at % 64);
                    }
                }
                if words != [0; WORDS] {
                    say(chunk.base, words);
                }
            }
            seq = chunk.end();
        }
    }

    /// What a chunk of this stream, or one that was taken out of it, had when the checkpoint began. None: that has it, or began before the chunk.
    pub(crate) fn unsaved<'a>(&self, chunk: &'a Chunk, mark: u32) -> Option<Span<'a>> {
        (chunk.saved != mark).then(|| chunk.span(self.len_at(chunk, mark)))
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
}
