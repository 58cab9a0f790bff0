//! A checkpoint in the making: what is written of each part of the state.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    rc::Rc,
};

use courser_contract::{PartitionId, Seq};

use super::{
    gone::Gone,
    items::Item,
    streams::OpenChunk,
    unit::{Addresses, Kind, Names, Needed, Output, STATE_VERSION},
    walk::Walk,
};
use crate::{
    canonical::{Canonical, write_count, write_str},
    entry::Target,
    outbox::{Forward, Refusable},
    record::Slot,
    state::{Forwarded, Leaving, State},
};

/// Targets of a set in one unit.
pub(super) const SET_STEP: usize = 512;

/// A part of the state that the walk has begun and not finished.
#[derive(Debug)]
pub(super) struct OpenSet {
    pub(super) set: u32,
    pub(super) targets: Rc<[Target]>,
    pub(super) from: usize,
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
    /// Sets that were defined since, and to which the walk has not come.
    pub(super) new_sets: HashSet<u32, Hasher>,
    /// Sets on their way into units: none of them changes any more.
    pub(super) open_sets: Vec<OpenSet>,
    pub(super) open_chunk: Option<OpenChunk>,
    /// The next item of the part of a session or a group that the walk is in: those before it are written.
    pub(super) open: Option<Item>,
    /// Items that are there and were written by themselves, or came since the checkpoint began: the walk passes over them, and forgets them.
    pub(super) apart: BTreeSet<Item>,
    /// What has ended since and is not written whole.
    pub(super) gone: Vec<Gone>,
    /// Bytes that it takes.
    pub(super) gone_bytes: usize,
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
            open: None,
            apart: BTreeSet::new(),
            gone: Vec::new(),
            gone_bytes: 0,
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

    /// Bytes that wait to be taken, or to become a unit, and what tells which are written.
    pub(super) fn waiting(&self) -> usize {
        let open = self.open_chunk.as_ref();
        let apart = self.apart.len() * size_of::<Item>();
        let open = open.map_or(0, |open| open.body.len());
        self.output.waiting() + self.gone_bytes + apart + open
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
