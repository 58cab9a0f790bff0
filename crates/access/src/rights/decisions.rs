//! Decisions of topics that a client has asked for.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use hashbrown::HashTable;
use siphasher::sip128::SipHasher13;

use super::Verdict;
use crate::rule::Deed;

/// Topics whose decisions one client keeps. A client that uses more of them pays for looking at the rules again, each time for one.
pub(super) const KEPT_MAX: usize = 64;
const _: () = assert!(KEPT_MAX <= u8::MAX as usize + 1 && KEPT_MAX.is_power_of_two());

/// Drawn once for the process, of what the system gives the maps of the standard library. No answer depends on it.
static KEY: LazyLock<SipHasher13> = LazyLock::new(|| {
    let [one, other] = [(); 2].map(|()| RandomState::new().hash_one(0_u64));
    SipHasher13::new_with_keys(one, other)
});

/// A topic, as far as a decision is kept of it: whoever does not know the key finds no two topics that are the same by it, and so no topic
/// that is taken for one which is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopicHash([u64; 2]);

impl TopicHash {
    /// Cost: some 12 ns for 30 bytes.
    #[inline]
    pub(super) fn of(topic: &str) -> Self {
        let hash = KEY.hash(topic.as_bytes());
        Self([hash.h1, hash.h2])
    }
}

/// What was decided of a topic; the other half is decided when it is asked for.
#[derive(Clone, Copy, Debug)]
struct Kept {
    topic: TopicHash,
    publish: Option<Verdict>,
    receive: Option<Verdict>,
}

/// Decisions of the topics of one client: of [`KEPT_MAX`] at most, and some 2 KiB then.
#[derive(Debug, Default)]
pub(super) struct Decisions {
    kept: Vec<Kept>,
    /// Places in `kept`, by the first half of the hash.
    places: HashTable<u8>,
    /// Changes with each that is replaced, so that none is replaced again and again.
    turn: u64,
}

impl Decisions {
    /// What was decided.
    #[inline]
    pub(super) fn get(&self, topic: TopicHash, deed: Deed) -> Option<Verdict> {
        let kept = &self.kept[self.place(topic)?];
        match deed {
            Deed::Publish => kept.publish,
            Deed::Receive => kept.receive,
        }
    }

    #[inline]
    fn place(&self, topic: TopicHash) -> Option<usize> {
        let is_it = |place: &u8| self.kept[usize::from(*place)].topic == topic;
        let place = self.places.find(topic.0[0], is_it)?;
        Some(usize::from(*place))
    }

    /// Keeps a decision, in the place of some other one where there are too many: which one nobody outside can tell, so that who uses some
    /// more topics than are kept in turn still finds most of them.
    pub(super) fn keep(&mut self, topic: TopicHash, deed: Deed, verdict: Verdict) {
        let place = self.place(topic).unwrap_or_else(|| self.take_place(topic));
        let kept = &mut self.kept[place];
        match deed {
            Deed::Publish => kept.publish = Some(verdict),
            Deed::Receive => kept.receive = Some(verdict),
        }
    }

    /// A place for a topic that has none.
    fn take_place(&mut self, topic: TopicHash) -> usize {
        let new = Kept {
            topic,
            publish: None,
            receive: None,
        };
        let place = if self.kept.len() < KEPT_MAX {
            self.kept.push(new);
            self.kept.len() - 1
        } else {
            self.turn += 1;
            let place = (topic.0[1].wrapping_add(self.turn) % KEPT_MAX as u64) as usize;
            let old = std::mem::replace(&mut self.kept[place], new).topic;
            let is_old = |it: &u8| usize::from(*it) == place;
            if let Ok(entry) = self.places.find_entry(old.0[0], is_old) {
                entry.remove();
            }
            place
        };
        let kept = &self.kept[..];
        self.places.insert_unique(topic.0[0], place as u8, |place| {
            kept[usize::from(*place)].topic.0[0]
        });
        place
    }

    /// Forgets all, and gives their memory back.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
impl Decisions {
    pub(super) const fn len(&self) -> usize {
        self.kept.len()
    }

    /// Topics that are found.
    pub(super) fn places(&self) -> usize {
        self.places.len()
    }
}
