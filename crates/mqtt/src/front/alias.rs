//! Topic aliases, both ways. They end with the connection: v5 [MQTT-3.3.2-7].

use std::cell::Cell;
use std::rc::Rc;

use super::prepared::AliasUse;

/// Bytes that a client's own aliases may take in any case, once it was told of them.
const OWN_BYTES: usize = 1024;

/// How much room there is for topic aliases of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum AliasRoom {
    /// For those of all.
    #[default]
    Enough,
    /// For those of clients that were told of them. Who connects is told of none, and none is bound towards a client.
    Scarce,
    /// For none: who binds more than a KiB is closed.
    None,
}

/// What topic aliases of all fronts of one shard take, both ways, and how much room there is.
#[derive(Clone, Debug, Default)]
pub struct AliasLoad(Rc<AliasCells>);

#[derive(Debug, Default)]
struct AliasCells {
    bytes: Cell<usize>,
    room: Cell<AliasRoom>,
    closed: Cell<u64>,
}

impl AliasLoad {
    /// Bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.get()
    }

    /// Says how much room there is from now on.
    pub fn set_room(&self, room: AliasRoom) {
        self.0.room.set(room);
    }

    /// How many connections were closed for want of room since the last call.
    #[must_use]
    pub fn take_closed(&self) -> u64 {
        self.0.closed.take()
    }

    /// The Topic Alias Maximum that a client is told, where it would be this one.
    pub(super) fn announced(&self, maximum: u16) -> u16 {
        match self.0.room.get() {
            AliasRoom::Enough => maximum,
            AliasRoom::Scarce | AliasRoom::None => 0,
        }
    }

    fn is_scarce(&self) -> bool {
        self.0.room.get() >= AliasRoom::Scarce
    }
}

/// What one front's aliases take of the load: it goes with them.
#[derive(Debug, Default)]
pub(super) struct AliasBytes {
    bytes: usize,
    /// None before there are any: an empty one is made without the heap.
    all: Option<AliasLoad>,
}

impl AliasBytes {
    fn change(&mut self, load: &AliasLoad, (less, more): (usize, usize)) {
        let all = self.all.get_or_insert_with(|| load.clone());
        self.bytes = self.bytes + more - less;
        all.0.bytes.update(|bytes| bytes + more - less);
    }
}

impl Drop for AliasBytes {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.0.bytes.update(|bytes| bytes - self.bytes);
        }
    }
}

/// There is no room for what a client binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// Aliases that the client has bound.
#[derive(Debug, Default)]
pub(super) struct AliasesIn {
    /// Topic of alias `index + 1`.
    topics: Vec<Option<Box<str>>>,
}

impl AliasesIn {
    /// Binds an alias that is within the announced maximum. What all of them take is counted in `held`, and in `load` of all.
    pub(super) fn bind(
        &mut self,
        (alias, topic): (u16, &str),
        held: &mut AliasBytes,
        load: &AliasLoad,
    ) -> Result<(), NoRoom> {
        let index = usize::from(alias) - 1;
        let bound = self.topics.get(index).and_then(|it| it.as_deref());
        if bound == Some(topic) {
            return Ok(());
        }
        const PLACE: usize = size_of::<Option<Box<str>>>();
        let less = bound.map_or(0, str::len);
        let more = topic.len() + PLACE * (index + 1).saturating_sub(self.topics.len());
        // What is bound to something no longer takes nothing of others.
        if more > less
            && load.0.room.get() == AliasRoom::None
            && held.bytes + more - less > OWN_BYTES
        {
            load.0.closed.update(|closed| closed + 1);
            return Err(NoRoom);
        }
        if self.topics.len() <= index {
            self.topics.resize(index + 1, None);
        }
        self.topics[index] = Some(topic.into());
        held.change(load, (less, more));
        Ok(())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(super) fn topic(&self, alias: u16) -> Option<&str> {
        self.topics.get(usize::from(alias) - 1)?.as_deref()
    }
}

/// Topics shorter than this stay names: an alias itself takes three bytes of properties.
const TOPIC_BYTES_MIN: usize = 8;

/// Aliases that are used at most: all of them are looked through for each delivery.
const USED_MAX: u16 = 256;

/// Topics of which it is remembered that they came lately; a power of two.
const RECENT: usize = 64;

/// An alias that was not used for this many messages may be bound to another topic. Binding sooner would cost bytes where more
/// topics than aliases take turns.
const STALE_MESSAGES: u32 = 64;

/// Aliases towards a client. A topic gets one when it comes a second time within a short while; when all are bound, a hand goes round
/// and gives away those that are stale, one look a message.
///
/// Lookup is a scan over at most 32 (by default) hashes in a row; texts are compared, so that equal hashes do no harm.
#[derive(Debug)]
pub(super) struct AliasesOut {
    max: u16,
    hashes: Vec<u64>,
    bound: Vec<Bound>,
    recent: Box<[u32; RECENT]>,
    hand: usize,
    /// Messages so far, round and round.
    messages: u32,
    held: AliasBytes,
    load: AliasLoad,
}

#[derive(Debug)]
struct Bound {
    topic: Box<str>,
    /// Message that used it last.
    used: u32,
}

impl AliasesOut {
    /// With the lower of the client's and our own maximum, at least 1; as many of them are used as are worth looking through.
    pub(super) fn new(max: u16, load: &AliasLoad) -> Self {
        let mut held = AliasBytes::default();
        held.change(load, (0, size_of::<[u32; RECENT]>()));
        Self {
            max: max.min(USED_MAX),
            hashes: Vec::new(),
            bound: Vec::new(),
            recent: Box::new([0; RECENT]),
            hand: 0,
            messages: 0,
            held,
            load: load.clone(),
        }
    }

    /// How a topic should be said next. A [`AliasUse::Bind`] counts only once [`AliasesOut::commit`] is called.
    pub(super) fn choose(&mut self, hash: u64, topic: &str) -> AliasUse {
        if topic.len() < TOPIC_BYTES_MIN {
            return AliasUse::None;
        }
        self.messages = self.messages.wrapping_add(1);
        let known = self.hashes.iter().position(|&other| other == hash);
        if let Some(index) = known
            && *self.bound[index].topic == *topic
        {
            self.bound[index].used = self.messages;
            return AliasUse::Use(alias_at(index));
        }
        let mark = (hash >> 32) as u32;
        let recent = &mut self.recent[hash as usize % RECENT];
        if *recent != mark {
            *recent = mark;
            return AliasUse::None;
        }
        if self.load.is_scarce() {
            return AliasUse::None;
        }
        // Two texts of one hash take turns in one place.
        match known.or_else(|| self.free_index()) {
            Some(index) => AliasUse::Bind(alias_at(index)),
            None => AliasUse::None,
        }
    }

    fn free_index(&mut self) -> Option<usize> {
        if self.bound.len() < usize::from(self.max) {
            return Some(self.bound.len());
        }
        self.hand = (self.hand + 1) % self.bound.len();
        let unused = self.messages.wrapping_sub(self.bound[self.hand].used);
        (unused > STALE_MESSAGES).then_some(self.hand)
    }

    /// A packet that binds `alias` leaves.
    pub(super) fn commit(&mut self, alias: u16, hash: u64, topic: &str) {
        let index = usize::from(alias) - 1;
        let bound = Bound {
            topic: topic.into(),
            used: self.messages,
        };
        let change = if index == self.bound.len() {
            self.bound.push(bound);
            self.hashes.push(hash);
            (0, topic.len() + size_of::<Bound>() + size_of::<u64>())
        } else {
            let before = std::mem::replace(&mut self.bound[index], bound);
            self.hashes[index] = hash;
            (before.topic.len(), topic.len())
        };
        self.held.change(&self.load, change);
    }
}

fn alias_at(index: usize) -> u16 {
    u16::try_from(index + 1).expect("there are at most as many aliases as their maximum")
}
