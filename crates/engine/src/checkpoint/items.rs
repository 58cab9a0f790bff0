//! Parts of sessions and groups, and items of those parts that may have many of them.
//!
//! An item is written once: by the walk, in order and some at a time, or by itself just before the first fact that changes or removes it. What was
//! written by itself, or came after the beginning, is noted, and the walk passes over it. So a fact writes what it changes and no more,
//! however much there is beside it.
//!
//! Invariant: what is noted is there, and the walk has not come to it. So the notes are fewer than the items of the state, however long a checkpoint
//! takes and whatever comes and goes meanwhile, and none is left at its end.

use courser_contract::{HomeRef, Seq};

use super::{
    save::Saving,
    unit::{Kind, Output},
};

/// Items that one unit of the walk looks at.
const ITEMS_STEP: usize = 128;
/// Bytes from which on a unit of the walk takes no more items.
const UNIT_BYTES: usize = 1_024;
/// What it costs to look at an item, in bytes written.
const LOOK: usize = 4;

/// A part of a session or a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Part {
    /// What is small, and where the stream ends.
    Head = 0,
    /// Of a session.
    Subscriptions = 1,
    /// Of a session, with its moment.
    Will = 2,
    /// Of a session.
    Holds = 3,
    /// Of a session.
    Scans = 4,
    /// Of a group.
    Members = 5,
    /// QoS 2 deliveries of a group.
    Owed = 6,
    /// Of a group.
    Attempts = 7,
    /// Nothing by itself: subscriptions of a session say their places from here on, since one of them was written by itself.
    Placed = 8,
}

/// Whether an item is there behind the fact that is about to be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    There,
    Gone,
}

impl After {
    pub(super) const fn there_if(is_there: bool) -> Self {
        if is_there { Self::There } else { Self::Gone }
    }
}

/// Which parts of a session or a group the last checkpoint has; all, if it began before there was one. Not replicated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saved {
    checkpoint: u32,
    parts: u16,
}

impl Saved {
    /// Of what comes after the beginning of a checkpoint.
    pub(crate) const fn all(checkpoint: u32) -> Self {
        let parts = u16::MAX;
        Self { checkpoint, parts }
    }

    /// Whether a checkpoint has a part.
    pub(super) const fn has(self, checkpoint: u32, part: Part) -> bool {
        self.checkpoint == checkpoint && self.parts & 1 << part as u8 != 0
    }

    /// It has it now.
    pub(super) const fn add(&mut self, checkpoint: u32, part: Part) {
        if self.checkpoint != checkpoint {
            *self = Self {
                checkpoint,
                parts: 0,
            };
        }
        self.parts |= 1 << part as u8;
    }
}

/// An item by the number of its owner and what it has there. Those of a part are in the order of the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Item {
    /// By its place.
    Subscription(u64, u32),
    /// By its packet id.
    Hold(u64, u16),
    /// By its number.
    Scan(u64, u64),
    Member(u64, HomeRef),
    Owed(u64, Seq),
    Attempts(u64, Seq),
}

impl Item {
    pub(super) const fn part(self) -> Part {
        match self {
            Self::Subscription(..) => Part::Subscriptions,
            Self::Hold(..) => Part::Holds,
            Self::Scan(..) => Part::Scans,
            Self::Member(..) => Part::Members,
            Self::Owed(..) => Part::Owed,
            Self::Attempts(..) => Part::Attempts,
        }
    }

    pub(super) const fn owner(self) -> u64 {
        match self {
            Self::Subscription(owner, _)
            | Self::Hold(owner, _)
            | Self::Scan(owner, _)
            | Self::Member(owner, _)
            | Self::Owed(owner, _)
            | Self::Attempts(owner, _) => owner,
        }
    }
}

impl Saving {
    /// Whether an item is to be written, if it is there, before a fact changes, removes or adds it. From now on the walk passes over it, or does not
    /// find it: what comes again in its place is noted then.
    pub(super) fn is_due(&mut self, saved: Saved, item: Item, after: After) -> bool {
        if saved.has(self.mark, item.part()) {
            return false;
        }
        let is_walked = self.open.is_some_and(|open| {
            (open.part(), open.owner()) == (item.part(), item.owner()) && item < open
        });
        !is_walked
            && match after {
                After::There => self.apart.insert(item),
                After::Gone => !self.apart.remove(&item),
            }
    }

    /// Writes an item by itself.
    pub(super) fn item(&mut self, kind: Kind, owner: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.output.list(kind, owner, |out| {
            write(out);
            1
        });
    }

    /// Writes the next items of an owner that are written nowhere, and notes where the walk goes on, nowhere if these were the last; returns what that
    /// cost, in bytes.
    pub(super) fn items<T>(
        &mut self,
        (kind, owner): (Kind, u64),
        items: impl Iterator<Item = (Item, T)>,
        write: impl Fn(T, &mut Vec<u8>),
    ) -> usize {
        let Self { apart, output, .. } = self;
        let mut looked = 0;
        let mut next = None;
        let bytes = output.list(kind, owner, |out| {
            let start = out.len();
            let mut count = 0;
            for (item, value) in items {
                if looked == ITEMS_STEP || out.len() - start >= UNIT_BYTES {
                    next = Some(item);
                    break;
                }
                looked += 1;
                if apart.is_empty() || !apart.remove(&item) {
                    write(value, out);
                    count += 1;
                }
            }
            count
        });
        self.open = next;
        bytes + LOOK * looked
    }
}

impl Output {
    /// Appends a unit that is a list of an owner, of which `write` says how many it has; none if that is 0. Returns its bytes.
    fn list(&mut self, kind: Kind, owner: u64, write: impl FnOnce(&mut Vec<u8>) -> u32) -> usize {
        self.unit_unless_empty(kind, |out| {
            out.extend_from_slice(&owner.to_le_bytes());
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            let count = write(out);
            out[at..at + 4].copy_from_slice(&count.to_le_bytes());
            count > 0
        })
    }
}
