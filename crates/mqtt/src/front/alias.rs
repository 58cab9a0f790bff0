//! Topic aliases, both ways. They end with the connection: v5 [MQTT-3.3.2-7].

use super::prepared::AliasUse;

/// Aliases that the client has bound.
#[derive(Debug, Default)]
pub(super) struct AliasesIn {
    /// Topic of alias `index + 1`.
    topics: Vec<Option<Box<str>>>,
}

impl AliasesIn {
    /// Binds an alias that is within the announced maximum.
    pub(super) fn bind(&mut self, alias: u16, topic: &str) {
        let index = usize::from(alias) - 1;
        if self.topics.len() <= index {
            self.topics.resize(index + 1, None);
        }
        match &mut self.topics[index] {
            Some(bound) if **bound == *topic => {}
            place => *place = Some(topic.into()),
        }
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
}

#[derive(Debug)]
struct Bound {
    topic: Box<str>,
    /// Message that used it last.
    used: u32,
}

impl AliasesOut {
    /// With the lower of the client's and our own maximum, at least 1; as many of them are used as are worth looking through.
    pub(super) fn new(max: u16) -> Self {
        Self {
            max: max.min(USED_MAX),
            hashes: Vec::new(),
            bound: Vec::new(),
            recent: Box::new([0; RECENT]),
            hand: 0,
            messages: 0,
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
        if index == self.bound.len() {
            self.bound.push(bound);
            self.hashes.push(hash);
        } else {
            self.bound[index] = bound;
            self.hashes[index] = hash;
        }
    }
}

fn alias_at(index: usize) -> u16 {
    u16::try_from(index + 1).expect("there are at most as many aliases as their maximum")
}
