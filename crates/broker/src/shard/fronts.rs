//! The table of a shard's connections.
//!
//! A connection is taken out while its front handles bytes or messages, because that may lead to a delivery to itself; such a
//! delivery finds the place [`Access::Taken`] and is kept for after the call.
//!
//! A place is used again with another generation, so that a message for a connection that is gone finds nobody.

use courser_contract::{FrontId, ShardId};

use super::connection::Connection;
use super::ready::Place;
use super::runs::Runs;

#[derive(Debug)]
enum Entry {
    Free(Option<Place>),
    Here(Box<Connection>),
    Taken,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    /// Messages and deliveries for it in the shard's own queue: what a partition gives it now must not overtake them.
    queued: u32,
    /// Whether the open run has messages for it: it ends before anything else happens to the connection.
    in_run: bool,
    entry: Entry,
}

/// What is at a place.
#[derive(Debug)]
pub(crate) enum Access<'a> {
    /// The connection.
    Here(&'a mut Connection),
    /// It is being worked on.
    Taken,
    /// It is gone.
    Gone,
}

/// Connections of one shard by place.
#[derive(Debug)]
pub(crate) struct Fronts {
    shard: ShardId,
    slots: Vec<Slot>,
    free: Option<Place>,
    len: usize,
    pub(super) runs: Runs,
}

impl Fronts {
    /// No connection, of this shard.
    #[must_use]
    pub(crate) fn new(shard: ShardId) -> Self {
        Self {
            shard,
            slots: Vec::new(),
            free: None,
            len: 0,
            runs: Runs::default(),
        }
    }

    /// Connections.
    #[must_use]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Places of the table, free ones included; a walk goes over them.
    #[must_use]
    pub(crate) fn places(&self) -> Place {
        self.slots.len() as Place
    }

    /// Whether there is none.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reserves a place; [`put`](Self::put) must follow.
    pub(crate) fn reserve(&mut self) -> FrontId {
        self.len += 1;
        let slot = match self.free {
            Some(place) => {
                let slot = &mut self.slots[place as usize];
                let Entry::Free(next) = slot.entry else {
                    panic!("the free list names free places");
                };
                self.free = next;
                slot.entry = Entry::Taken;
                place
            }
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    queued: 0,
                    in_run: false,
                    entry: Entry::Taken,
                });
                Place::try_from(self.slots.len() - 1)
                    .expect("connections are bounded by descriptors")
            }
        };
        FrontId {
            shard: self.shard,
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// The id of whatever is at a place now; `None` when it is free.
    #[must_use]
    pub(crate) fn id(&self, slot: Place) -> Option<FrontId> {
        let Slot {
            generation, entry, ..
        } = self.slots.get(slot as usize)?;
        match entry {
            Entry::Free(_) => None,
            Entry::Here(_) | Entry::Taken => Some(FrontId {
                shard: self.shard,
                slot,
                generation: *generation,
            }),
        }
    }

    /// Takes a connection out to work on it; it must come back by [`put`](Self::put) or [`remove`](Self::remove).
    pub(crate) fn take(&mut self, id: FrontId) -> Option<Box<Connection>> {
        self.settle(id);
        let slot = self.slots.get_mut(id.slot as usize)?;
        if slot.generation != id.generation || !matches!(slot.entry, Entry::Here(_)) {
            return None;
        }
        match std::mem::replace(&mut slot.entry, Entry::Taken) {
            Entry::Here(connection) => Some(connection),
            Entry::Free(_) | Entry::Taken => None,
        }
    }

    /// Puts a connection where it was taken.
    pub(crate) fn put(&mut self, id: FrontId, connection: Box<Connection>) {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert!(
            matches!(slot.entry, Entry::Taken),
            "a connection comes back to its place"
        );
        slot.entry = Entry::Here(connection);
    }

    /// Frees the place of a connection that was taken out.
    pub(crate) fn remove(&mut self, id: FrontId) {
        let slot = &mut self.slots[id.slot as usize];
        debug_assert!(
            matches!(slot.entry, Entry::Taken),
            "only what was taken out is removed"
        );
        slot.generation = slot.generation.wrapping_add(1);
        slot.queued = 0;
        slot.entry = Entry::Free(self.free.replace(id.slot));
        self.len -= 1;
    }

    /// Looks at a connection.
    #[inline]
    pub(crate) fn get(&mut self, id: FrontId) -> Access<'_> {
        self.settle(id);
        match self.slots.get_mut(id.slot as usize) {
            Some(slot) if slot.generation == id.generation => match &mut slot.entry {
                Entry::Here(connection) => Access::Here(connection),
                Entry::Taken => Access::Taken,
                Entry::Free(_) => Access::Gone,
            },
            Some(_) | None => Access::Gone,
        }
    }

    /// Something for this connection is put into the shard's own queue.
    pub(crate) fn note_queued(&mut self, id: FrontId) {
        self.settle(id);
        if let Some(slot) = self.slot_mut(id) {
            slot.queued += 1;
        }
    }

    /// Something for this connection has left the shard's own queue.
    pub(crate) fn note_unqueued(&mut self, id: FrontId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.queued = slot.queued.saturating_sub(1);
        }
    }

    /// Whether something for this connection waits in the shard's own queue.
    #[inline]
    pub(crate) fn has_queued(&self, id: FrontId) -> bool {
        let slot = self.slots.get(id.slot as usize);
        slot.is_some_and(|slot| slot.generation == id.generation && slot.queued > 0)
    }

    /// Ends the run if it has messages for this connection.
    #[inline]
    fn settle(&mut self, id: FrontId) {
        let slot = self.slots.get(id.slot as usize);
        if slot.is_some_and(|slot| slot.in_run) {
            self.end_run();
        }
    }

    /// The connection of a receiver for which nothing is queued, for a run to begin; it is not to be in one.
    pub(super) fn candidate(&mut self, id: FrontId) -> Option<&mut Connection> {
        let slot = self.slot_mut(id)?;
        match &mut slot.entry {
            Entry::Here(connection) if slot.queued == 0 && !slot.in_run => Some(connection),
            Entry::Here(_) | Entry::Taken | Entry::Free(_) => None,
        }
    }

    /// Notes that the open run has messages for a connection.
    pub(super) fn join_run(&mut self, place: Place) {
        self.slots[place as usize].in_run = true;
    }

    /// A connection leaves the run that ends.
    pub(super) fn leave_run(&mut self, place: Place) -> &mut Connection {
        let slot = &mut self.slots[place as usize];
        slot.in_run = false;
        match &mut slot.entry {
            Entry::Here(connection) => connection,
            Entry::Taken | Entry::Free(_) => panic!("a run ends before a receiver is taken out"),
        }
    }

    fn slot_mut(&mut self, id: FrontId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        (slot.generation == id.generation).then_some(slot)
    }

    /// Ids of all connections.
    #[must_use]
    pub(crate) fn ids(&self) -> Vec<FrontId> {
        (0..self.slots.len() as Place)
            .filter_map(|slot| self.id(slot))
            .collect()
    }
}
