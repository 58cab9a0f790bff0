//! Which class a name has (M1), and which partition that makes of it.
//!
//! The first `[[class]]` whose filter matches a client id decides for that session, the first that matches a topic for its
//! retained message; what no filter matches is durable. A partition keeps its class for ever, so what is there when the
//! settings change stays where it is until it has ended ([`Stays`]): a class never loses or doubles what was promised under
//! another one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use courser_contract::{Class, PartitionId, ShardId, is_own_topic};
use courser_settings::Durability;
use router::Matcher;

use crate::slots::{Kind, Places, slot};

/// Retained messages without a log, and those of the broker's own values, are in the volatile partition of the first shard:
/// the one that is there with any number of shards.
pub(crate) const KEEPER: PartitionId = PartitionId::volatile_of(ShardId(0));

/// See the module. Each shard has its own.
pub(crate) struct Classes {
    places: Places,
    /// Filters, each with its place in the settings.
    filters: Matcher<u16>,
    classes: Vec<Class>,
    stays: Option<Arc<Stays>>,
}

impl fmt::Debug for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Classes");
        out.field("classes", &self.classes).finish_non_exhaustive()
    }
}

impl Classes {
    /// As the settings say.
    pub(crate) fn new(places: Places, settings: &[courser_settings::Class]) -> Self {
        let mut filters = Matcher::new();
        for (item, at) in settings.iter().zip(0..) {
            filters.insert(item.filter.as_str(), at);
        }
        let class = |item: &courser_settings::Class| match item.class {
            Durability::Durable => Class::Durable,
            Durability::Relaxed => Class::Relaxed,
            Durability::Volatile => Class::Volatile,
        };
        Self {
            places,
            filters,
            classes: settings.iter().map(class).collect(),
            stays: None,
        }
    }

    /// The class of a client id or topic. One match in a trie, where there are classes.
    fn of(&self, name: &str) -> Class {
        let mut first = u16::MAX;
        if !self.classes.is_empty() {
            self.filters
                .for_each_match(name, |&at| first = first.min(at));
        }
        let class = self.classes.get(usize::from(first));
        class.copied().unwrap_or(Class::Durable)
    }

    /// The partition of a client id (M23): of its slot, in its class.
    #[must_use]
    pub(crate) fn session(&self, client_id: &str) -> PartitionId {
        match &self.stays {
            Some(stays) => self.session_in(stays, client_id),
            None => self.session_by_class(client_id),
        }
    }

    /// The same with what the start found, for those who ask before or without [`set_stays`](Self::set_stays).
    #[must_use]
    pub(crate) fn session_in(&self, stays: &Stays, client_id: &str) -> PartitionId {
        let stays = stays.sessions.get(client_id).copied();
        stays.unwrap_or_else(|| self.session_by_class(client_id))
    }

    fn session_by_class(&self, client_id: &str) -> PartitionId {
        let slot = slot(Kind::Session, &[client_id]);
        self.places.partition(slot, self.of(client_id))
    }

    /// The partition that keeps a topic's retained message (M33).
    #[must_use]
    pub(crate) fn retained(&self, topic: &str) -> PartitionId {
        match &self.stays {
            Some(stays) => self.retained_in(stays, topic),
            None => self.retained_by_class(topic),
        }
    }

    /// See [`session_in`](Self::session_in).
    #[must_use]
    pub(crate) fn retained_in(&self, stays: &Stays, topic: &str) -> PartitionId {
        let stays = stays.retained.get(topic).copied();
        stays.unwrap_or_else(|| self.retained_by_class(topic))
    }

    fn retained_by_class(&self, topic: &str) -> PartitionId {
        if is_own_topic(topic) {
            return KEEPER;
        }
        match self.of(topic) {
            Class::Volatile => KEEPER,
            class @ (Class::Durable | Class::Relaxed) => {
                self.places.partition(slot(Kind::Topic, &[topic]), class)
            }
        }
    }

    /// All partitions that may keep retained messages.
    pub(crate) fn retained_all(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.places.logged().chain([KEEPER])
    }

    /// Whether what is kept can be elsewhere than its class says: never where no class was named, now or before.
    #[must_use]
    pub(crate) fn may_differ(&self) -> bool {
        !self.classes.is_empty() || self.places.has_relaxed()
    }

    /// From now on these are found where they are.
    pub(crate) fn set_stays(&mut self, stays: Arc<Stays>) {
        self.stays = (!stays.is_empty()).then_some(stays);
    }
}

/// What a start found in partitions of another class than the settings name: it stays there, under its name, until the next
/// start finds that it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stays {
    sessions: HashMap<Box<str>, PartitionId>,
    retained: HashMap<Box<str>, PartitionId>,
}

impl Stays {
    /// Notes a session in a partition, where that is not what its class says.
    pub(crate) fn note_session(&mut self, classes: &Classes, client_id: &str, at: PartitionId) {
        if !at.is_volatile() && classes.session_by_class(client_id) != at {
            self.sessions.insert(client_id.into(), at);
        }
    }

    /// The same for a topic with a retained message.
    pub(crate) fn note_retained(&mut self, classes: &Classes, topic: &str, at: PartitionId) {
        if !at.is_volatile() && classes.retained_by_class(topic) != at {
            self.retained.insert(topic.into(), at);
        }
    }

    /// Adds those of another shard.
    pub(crate) fn add(&mut self, other: Self) {
        self.sessions.extend(other.sessions);
        self.retained.extend(other.retained);
    }

    fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.retained.is_empty()
    }
}

#[cfg(test)]
mod tests;
