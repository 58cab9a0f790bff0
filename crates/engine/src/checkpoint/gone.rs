//! Sessions and groups that are gone, and of which the checkpoint has not all: what is left of them is kept as it was, written in steps, and then
//! given back in steps: a session with 10,000 subscriptions is as many pieces of memory.

use std::collections::VecDeque;

use super::{items::Item, save::Saving, streams::GoneChunk};
use crate::{
    session::Session,
    state::{SharedGroup, weight},
};

/// Items that a step gives back: each is memory of its own, which lies elsewhere.
const FREED_STEP: usize = 32;
/// What it costs to give one back, in bytes written.
const FREE: usize = 4;

/// See the module. Its head is written.
#[derive(Debug)]
pub(super) struct Gone {
    owner: GoneOwner,
    /// Bytes that it takes beside the chunks: they count until it is freed.
    owner_bytes: usize,
    chunks: VecDeque<GoneChunk>,
    /// Where the walk is in it.
    open: Option<Item>,
}

#[derive(Debug)]
enum GoneOwner {
    Session(Box<Session>),
    Group(u64, Box<SharedGroup>),
}

impl GoneOwner {
    /// Gives back some of its items, all of which are written; how many. None are left: the rest is given back at once.
    fn free(&mut self, count: usize) -> usize {
        match self {
            Self::Session(session) => session.drop_items(count),
            Self::Group(_, group) => group.group.drop_items(count),
        }
    }

    /// As the weights of sessions say. A group ends with its last member: it has next to nothing left.
    fn bytes(&self) -> usize {
        match self {
            Self::Session(session) => {
                let made = session.subscriptions.iter();
                let made: u64 = made.map(weight::of_subscription).sum();
                usize::try_from(weight::of_whole(session) + made).unwrap_or(usize::MAX)
            }
            Self::Group(_, group) => size_of_val(&**group),
        }
    }
}

impl Gone {
    const fn number(&self) -> u64 {
        match &self.owner {
            GoneOwner::Session(session) => session.uid.0,
            GoneOwner::Group(number, _) => *number,
        }
    }
}

impl Saving {
    /// A session has ended; its stream is what these chunks say.
    pub(crate) fn keep_session(&mut self, session: Box<Session>, chunks: VecDeque<GoneChunk>) {
        self.keep(GoneOwner::Session(session), chunks);
    }

    /// The same of a group.
    pub(crate) fn keep_group(
        &mut self,
        number: u64,
        group: Box<SharedGroup>,
        chunks: VecDeque<GoneChunk>,
    ) {
        self.keep(GoneOwner::Group(number, group), chunks);
    }

    fn keep(&mut self, owner: GoneOwner, chunks: VecDeque<GoneChunk>) {
        if self.is_planted() {
            return;
        }
        let open = None;
        let mut gone = Gone {
            owner_bytes: owner.bytes(),
            owner,
            chunks,
            open,
        };
        let number = gone.number();
        gone.open = self.open.take_if(|open| open.owner() == number);
        let is_saved = match &gone.owner {
            GoneOwner::Session(session) => self.has_session(session),
            GoneOwner::Group(_, group) => self.has_group(group),
        };
        if !is_saved || !gone.chunks.is_empty() {
            let chunks: usize = gone.chunks.iter().map(GoneChunk::bytes).sum();
            self.gone_bytes += gone.owner_bytes + chunks;
            self.gone.push(gone);
        }
    }

    /// A step with what is gone; returns what it cost, in bytes. None: nothing is left of it.
    pub(super) fn walk_gone(&mut self) -> Option<usize> {
        let mut gone = self.gone.pop()?;
        // The walk may be in the middle of another one.
        std::mem::swap(&mut self.open, &mut gone.open);
        let rest = match &mut gone.owner {
            GoneOwner::Session(session) => self.rest_of_session(session),
            GoneOwner::Group(number, group) => self.rest_of_group(*number, group),
        };
        std::mem::swap(&mut self.open, &mut gone.open);
        if let Some(bytes) = rest {
            self.gone.push(gone);
            return Some(bytes);
        }
        let Some(mut chunk) = gone.chunks.pop_front() else {
            let freed = gone.owner.free(FREED_STEP);
            match freed {
                0 => self.gone_bytes -= gone.owner_bytes,
                _ => self.gone.push(gone),
            }
            return Some(FREE * freed);
        };
        let held = chunk.bytes();
        let (bytes, is_whole) = self.gone_chunk(&mut chunk);
        self.gone_bytes -= held;
        if !is_whole {
            self.gone_bytes += chunk.bytes();
            gone.chunks.push_front(chunk);
        }
        self.gone.push(gone);
        Some(bytes)
    }
}
