//! A checkpoint in the making: what is written of each part of the state.

use std::{
    collections::{BTreeMap, HashSet},
    rc::Rc,
};

use courser_contract::{PartitionId, Seq, SessionUid};

use super::{
    unit::{Addresses, Kind, Names, Needed, Output, START, STATE_VERSION},
    walk::Walk,
};
use crate::{
    canonical::{Canonical, write_count, write_str},
    entry::Target,
    outbox::{Forward, Refusable},
    record::{Said, Slot},
    session::{Session, Subscribed},
    state::{Forwarded, Leaving, SharedGroup, State},
    stream::{Chunk, Stream, Unsaved},
};

/// Targets of a set in one unit.
pub(super) const SET_STEP: usize = 512;
/// Subscriptions in one unit.
const SUBSCRIPTIONS_STEP: usize = 128;
/// References that one step of the walk names: most of their records are in no cache.
const NAMES_STEP: usize = 64;
/// Chunks that one step of the walk looks at, of which most are written where facts have come first.
const CHUNKS_AT_ONCE: usize = 64;
/// What a look at one of them costs, in bytes written: each lies elsewhere, and most in no cache.
const LOOK: usize = 4;
/// What a chunk mostly takes.
const OPEN_BYTES: usize = 1_024;

/// A part of the state that the walk has begun and not finished.
#[derive(Debug)]
pub(super) struct OpenSet {
    pub(super) set: u32,
    pub(super) targets: Rc<[Target]>,
    pub(super) from: usize,
}

/// A chunk of which the walk has named some references. No fact has changed it since, or it would have been written as a whole: then it is
/// not the next one any more.
#[derive(Debug)]
pub(super) struct OpenChunk {
    number: u64,
    base: u64,
    /// Where the next name is.
    next: u64,
    last: Said,
    body: Vec<u8>,
}

impl OpenChunk {
    fn new(number: u64, chunk: &Chunk, names: Names<'_>) -> Self {
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

/// Fixed seed: the keys are numbers of sets, which no client chooses or sees.
type Hasher = foldhash::fast::FixedState;

/// See the module.
#[derive(Debug)]
pub(crate) struct Saving {
    /// Its number. What carries it has been written, or came after it began.
    pub(super) mark: u32,
    /// Place of the last entry that is in it.
    pub(super) index: u64,
    pub(super) term: courser_contract::Term,
    pub(super) output: Output,
    pub(super) needed: Needed,
    pub(super) walk: Walk,
    /// Where the outboxes ended.
    pub(super) outboxes: BTreeMap<PartitionId, Seq>,
    /// The last request to leave a group.
    pub(super) last_leave: Option<u64>,
    /// Sets that were defined since.
    pub(super) new_sets: HashSet<u32, Hasher>,
    /// Sets on their way into units: none of them changes any more.
    pub(super) open_sets: Vec<OpenSet>,
    pub(super) open_chunk: Option<OpenChunk>,
    /// Session whose subscriptions are written up to a place.
    pub(super) open_session: Option<(SessionUid, usize)>,
    /// A bug for tests that look for it.
    pub(super) late: bool,
}

impl Saving {
    /// Begins with what is small and changes with every message.
    pub(super) fn begin(state: &State, mark: u32) -> Self {
        let boxes = state.outboxes.iter();
        let outboxes: BTreeMap<_, _> = boxes.map(|(to, outbox)| (to, outbox.next())).collect();
        let mut saving = Self {
            mark,
            index: state.index,
            term: state.term,
            output: Output::new(),
            needed: Needed::default(),
            walk: Walk::default(),
            outboxes,
            last_leave: state.leaves.last_key_value().map(|(request, _)| *request),
            new_sets: HashSet::default(),
            open_sets: Vec::new(),
            open_chunk: None,
            open_session: None,
            late: false,
        };
        let output = &mut saving.output;
        output.unit(Kind::Head, |out| write_head(state, out));
        output.unit(Kind::Ages, |out| state.ages.encode(out));
        output.unit(Kind::Origins, |out| state.origins.encode(out));
        output.unit(Kind::Inbox, |out| state.inbox.encode(out));
        for (to, next) in &saving.outboxes {
            output.unit(Kind::Outbox, |out| {
                to.write(out);
                next.write(out);
            });
        }
        saving
    }

    /// A session without subscriptions, extra part and stream; returns bytes.
    pub(super) fn session(&mut self, session: &mut Session) -> usize {
        if session.saved.head == self.mark {
            return 0;
        }
        session.saved.head = self.mark;
        let bytes = self.output.unit(Kind::Session, |out| {
            session.uid.write(out);
            write_str(&session.client_id, out);
            session.epoch.write(out);
            session.attached.write(out);
            session.receive_maximum.write(out);
            session.expiry_seconds.write(out);
            session.ends_at.write(out);
            session.sent_limit.write(out);
            session.stream.next().write(out);
        });
        match session.owner() {
            None => bytes,
            Some(owner) => {
                let owned = self.output.unit(Kind::Owner, |out| {
                    session.uid.write(out);
                    write_str(owner, out);
                });
                bytes + owned
            }
        }
    }

    /// The next subscriptions of a session, or its extra part behind the last of them; returns bytes, 0 at the end.
    pub(super) fn subscriptions(&mut self, session: &mut Session) -> usize {
        if session.saved.rest == self.mark {
            return 0;
        }
        let from = match self.open_session {
            Some((uid, from)) if uid == session.uid => from,
            Some(_) | None => 0,
        };
        let end = session.subscriptions.len().min(from + SUBSCRIPTIONS_STEP);
        let part = &session.subscriptions[from..end];
        let mut bytes = 0;
        if !part.is_empty() {
            bytes = self.output.unit(Kind::Subscriptions, |out| {
                session.uid.write(out);
                write_count(part.len(), out);
                part.iter().for_each(|made| write_subscription(made, out));
            });
        }
        if end < session.subscriptions.len() {
            self.open_session = Some((session.uid, end));
            return bytes;
        }
        session.saved.rest = self.mark;
        // One for leaves alone is made again by them; those of now may have begun since the checkpoint did.
        let extra = session.extra.as_ref();
        if let Some(extra) = extra.filter(|extra| !extra.is_of_leaves()) {
            bytes += self.output.unit(Kind::Extra, |out| {
                session.uid.write(out);
                crate::state::encode_extra(extra, out);
            });
        }
        bytes
    }

    /// A session with all but its stream.
    pub(super) fn whole_session(&mut self, session: &mut Session) {
        self.session(session);
        let walked = self.open_session;
        while session.saved.rest != self.mark {
            self.subscriptions(session);
        }
        self.open_session = walked;
    }

    /// Chunks of a stream with positions of a range.
    pub(super) fn chunks(
        &mut self,
        number: u64,
        stream: &mut Stream,
        range: (u64, u64),
        names: Names<'_>,
    ) {
        let Self {
            mark,
            output,
            needed,
            ..
        } = self;
        stream.save(range, *mark, |chunk| {
            write_chunk(number, chunk, names, output, needed);
        });
    }

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
        let begun = self.open_chunk.take();
        let begun = begun.filter(|open| (open.number, open.base) == (number, chunk.base()));
        let mut open = begun.unwrap_or_else(|| OpenChunk::new(number, chunk, names));
        let before = open.body.len();
        let mut addresses = Addresses::behind(open.last, &mut open.body, &mut self.needed);
        let next = chunk.write_names(open.next, NAMES_STEP, &names, &mut addresses);
        open.last = addresses.last();
        let bytes = open.body.len() - before;
        let Some(next) = next else {
            chunk.mark(self.mark);
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&open.body);
            self.output.unit(Kind::Chunk, write);
            return Some((bytes, chunk.end()));
        };
        open.next = next;
        self.open_chunk = Some(open);
        Some((bytes, chunk.base()))
    }

    /// A group without its stream; returns bytes.
    pub(super) fn group(&mut self, number: u64, group: &mut SharedGroup) -> usize {
        if group.saved == self.mark {
            return 0;
        }
        group.saved = self.mark;
        self.output.unit(Kind::Group, |out| {
            number.write(out);
            group.stream.next().write(out);
            group.group.encode(out);
        })
    }

    /// Retained messages of some topics; returns bytes.
    pub(super) fn retained<'a>(
        &mut self,
        topics: impl IntoIterator<Item = (&'a str, Slot)>,
        names: Names<'_>,
    ) -> usize {
        let needed = &mut self.needed;
        self.output.unit(Kind::Retained, |out| {
            let start = out.len();
            write_count(0, out);
            let mut count = 0u32;
            let mut addresses = Addresses::new(out, needed);
            for (topic, slot) in topics {
                write_str(topic, addresses.out);
                addresses.write(names.records.said(slot));
                count += 1;
            }
            out[start..start + 4].copy_from_slice(&count.to_le_bytes());
        })
    }

    /// A forward that waits; returns bytes.
    pub(super) fn forward(
        &mut self,
        to: PartitionId,
        seq: Seq,
        forward: &Forward<Forwarded>,
        names: Names<'_>,
    ) -> usize {
        let needed = &mut self.needed;
        self.output.unit(Kind::Forward, |out| {
            to.write(out);
            seq.write(out);
            forward.session.write(out);
            (forward.refusable == Refusable::Yes).write(out);
            forward.item.keep_retained.write(out);
            forward.item.cut.write(out);
            let said = names.records.said(forward.item.slot);
            Addresses::new(out, needed).write(said);
        })
    }

    /// Somebody on the way out of a group; returns bytes.
    pub(super) fn leave(&mut self, request: u64, leaving: &Leaving) -> usize {
        self.output.unit(Kind::Leave, |out| {
            request.write(out);
            leaving.share.write(out);
            leaving.filter.write(out);
            leaving.member.write(out);
            leaving.ended.write(out);
            leaving.part.write(out);
        })
    }

    /// Some more targets of the sets that are open; returns bytes.
    pub(super) fn set(&mut self) -> usize {
        let Some(open) = self.open_sets.last_mut() else {
            return 0;
        };
        let end = open.targets.len().min(open.from + SET_STEP);
        let part = &open.targets[open.from..end];
        let bytes = self.output.unit(Kind::Set, |out| {
            open.set.write(out);
            write_count(part.len(), out);
            part.iter().for_each(|target| target.write(out));
        });
        open.from = end;
        if end == open.targets.len() {
            self.open_sets.pop();
        }
        bytes
    }

    /// Bytes that wait to be taken, or to become a unit.
    pub(super) fn waiting(&self) -> usize {
        let open = self.open_chunk.as_ref();
        self.output.waiting() + open.map_or(0, |open| open.body.len())
    }

    /// The last unit.
    pub(super) fn end(&mut self) {
        self.open_chunk = None;
        let units = self.output.units;
        self.output.unit(Kind::End, |out| units.write(out));
        self.needed.entries.settle();
    }
}

fn write_head(state: &State, out: &mut Vec<u8>) {
    STATE_VERSION.write(out);
    state.id.write(out);
    state.index.write(out);
    state.wall.write(out);
    state.term.0.write(out);
    state.last_session.write(out);
    state.last_group.write(out);
    state.last_scan.write(out);
    state.outboxes.base().write(out);
}

fn write_subscription(made: &Subscribed, out: &mut Vec<u8>) {
    write_str(&made.filter, out);
    made.share.is_some().write(out);
    if let Some(name) = made.share_name() {
        write_str(name, out);
    }
    made.options.write(out);
    made.identifier.write(out);
}

fn write_chunk(
    number: u64,
    chunk: &Chunk,
    names: Names<'_>,
    output: &mut Output,
    needed: &mut Needed,
) -> usize {
    output.unit(Kind::Chunk, |out| {
        number.write(out);
        chunk.write(&names, &mut Addresses::new(out, needed));
    })
}
