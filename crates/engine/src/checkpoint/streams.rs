//! Streams, chunk by chunk, and what facts are about to end or to change of them.

use std::collections::VecDeque;

use super::{
    save::Saving,
    unit::{Addresses, Kind, Names, START},
};
use crate::{
    canonical::Canonical,
    record::Said,
    state::State,
    stream::{Ending, Span, Stream, Unsaved},
};

/// References that one step of the walk names: most of their records are in no cache.
const NAMES_STEP: usize = 8;
/// Chunks that one step of the walk looks at, of which most are written where facts have come first.
const CHUNKS_AT_ONCE: usize = 8;
/// What a look at one of them costs, in bytes written: each lies elsewhere, and most in no cache.
const LOOK: usize = 4;
/// What a chunk mostly takes.
const OPEN_BYTES: usize = 1_024;

/// A chunk of which the walk has named some references. No fact has changed what it had since, or the rest was named before that.
#[derive(Debug)]
pub(super) struct OpenChunk {
    number: u64,
    base: u64,
    /// Where the next name is.
    next: u64,
    last: Said,
    pub(super) body: Vec<u8>,
}

impl OpenChunk {
    fn new(number: u64, chunk: Span<'_>, names: Names<'_>) -> Self {
        let mut body = Vec::with_capacity(OPEN_BYTES);
        number.write(&mut body);
        chunk.write_head(&names, &mut body);
        Self {
            number,
            base: chunk.base(),
            next: chunk.base(),
            last: START,
            body,
        }
    }
}

/// A chunk of a stream that is gone: what the checkpoint says of it, without the addresses; and these, as they were when it went.
#[derive(Debug)]
pub(crate) struct GoneChunk {
    body: Vec<u8>,
    said: Vec<Said>,
    next: usize,
    last: Said,
}

impl GoneChunk {
    fn new(number: u64, chunk: Span<'_>, names: Names<'_>) -> Self {
        let mut body = Vec::with_capacity(OPEN_BYTES);
        number.write(&mut body);
        chunk.write_head(&names, &mut body);
        Self {
            body,
            said: chunk.said(&names),
            next: 0,
            last: START,
        }
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.body.capacity() + self.said.len() * size_of::<Said>()
    }
}

impl Saving {
    /// A part of a chunk of a stream, the first from `from` on that is not written; returns what it cost, in bytes, and where to go on. None:
    /// all are written.
    pub(super) fn next_chunk(
        &mut self,
        number: u64,
        stream: &mut Stream,
        from: u64,
        names: Names<'_>,
    ) -> Option<(usize, u64)> {
        let chunk = match stream.next_unsaved(from, self.mark, CHUNKS_AT_ONCE) {
            Unsaved::Chunk(chunk) => chunk,
            Unsaved::From(next, looks) => return Some((LOOK * looks, next)),
            Unsaved::None => return None,
        };
        let (base, end) = (chunk.base(), chunk.chunk_end());
        let begun = self.open_chunk.take();
        let begun = begun.filter(|open| (open.number, open.base) == (number, base));
        let open = begun.unwrap_or_else(|| OpenChunk::new(number, chunk, names));
        let (bytes, is_whole) = self.name(open, chunk, NAMES_STEP, names);
        if is_whole {
            stream.mark_chunk(base, self.mark);
        }
        Some((bytes, if is_whole { end } else { base }))
    }

    /// Names so many references of a chunk; returns bytes, and whether these were the last.
    fn name(
        &mut self,
        mut open: OpenChunk,
        chunk: Span<'_>,
        count: usize,
        names: Names<'_>,
    ) -> (usize, bool) {
        let before = open.body.len();
        let mut addresses = Addresses::behind(open.last, &mut open.body, &mut self.needed);
        let next = chunk.write_names(open.next, count, &names, &mut addresses);
        open.last = addresses.last();
        let bytes = open.body.len() - before;
        if let Some(next) = next {
            open.next = next;
            self.open_chunk = Some(open);
            return (bytes, false);
        }
        let write = |out: &mut Vec<u8>| out.extend_from_slice(&open.body);
        self.output.unit(Kind::Chunk, write);
        (bytes, true)
    }

    /// The chunk that is open is written whole if a range of a stream touches it: its head says what was done and received.
    fn close_chunk(
        &mut self,
        number: u64,
        stream: &mut Stream,
        (first, end): (u64, u64),
        names: Names<'_>,
    ) {
        let is_touched = |open: &mut OpenChunk| {
            open.number == number && first < open.base + Span::POSITIONS_MAX && open.base < end
        };
        let Some(open) = self.open_chunk.take_if(is_touched) else {
            return;
        };
        let base = open.base;
        if let Unsaved::Chunk(chunk) = stream.next_unsaved(base, self.mark, 1) {
            self.name(open, chunk, usize::MAX, names);
            stream.mark_chunk(base, self.mark);
        }
    }

    /// References of a range are about to end: they are written by themselves, and with their chunk if nothing of that stays.
    pub(super) fn before_end(
        &mut self,
        number: u64,
        stream: &mut Stream,
        range: (u64, u64),
        names: Names<'_>,
    ) {
        self.close_chunk(number, stream, range, names);
        let Self {
            mark,
            output,
            needed,
            ..
        } = self;
        stream.save_ending(range, *mark, |ending, span| {
            let kind = match ending {
                Ending::Chunk => Kind::Chunk,
                Ending::References => Kind::Ended,
            };
            output.unit(kind, |out| {
                number.write(out);
                span.write(&names, &mut Addresses::new(out, needed));
            });
        });
    }

    /// PUBREC of references of a range is about to be noted.
    pub(super) fn before_received(
        &mut self,
        number: u64,
        stream: &mut Stream,
        range: (u64, u64),
        names: Names<'_>,
    ) {
        self.close_chunk(number, stream, range, names);
        let Self { mark, output, .. } = self;
        stream.unreceived(range, *mark, |base, words| {
            output.unit(Kind::Unreceived, |out| {
                number.write(out);
                base.write(out);
                words.iter().for_each(|word| word.write(out));
            });
        });
    }

    /// Some more names of a chunk of a stream that is gone; returns what that cost, in bytes, and whether these were the last.
    pub(super) fn gone_chunk(&mut self, chunk: &mut GoneChunk) -> (usize, bool) {
        let before = chunk.body.len();
        let end = chunk.said.len().min(chunk.next + NAMES_STEP);
        let mut addresses = Addresses::behind(chunk.last, &mut chunk.body, &mut self.needed);
        let said = &chunk.said[chunk.next..end];
        said.iter().for_each(|said| addresses.write(*said));
        chunk.last = addresses.last();
        chunk.next = end;
        let bytes = chunk.body.len() - before;
        let is_whole = end == chunk.said.len();
        if is_whole {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&chunk.body);
            self.output.unit(Kind::Chunk, write);
        }
        (bytes, is_whole)
    }
}

impl State {
    /// Ends all references of a stream that is gone; returns what the checkpoint under way has not of it.
    pub(crate) fn drain_stream(&mut self, number: u64, stream: &mut Stream) -> VecDeque<GoneChunk> {
        self.queued -= u64::from(stream.live());
        let saving = self.saving.as_ref();
        let mark = saving.filter(|it| !it.is_planted()).map(|it| it.mark);
        let mut gone = VecDeque::new();
        while let Some(chunk) = stream.take_chunk() {
            let span = mark.and_then(|mark| stream.unsaved(&chunk, mark));
            if let Some(span) = span {
                let names = Names {
                    records: &self.records,
                    looks: &self.looks,
                };
                gone.push_back(GoneChunk::new(number, span, names));
            }
            for (_, reference) in chunk.live_from(chunk.base()) {
                self.records.release(reference.slot);
                self.looks.release(reference.look);
            }
            self.spare.give(chunk);
        }
        gone
    }
}
