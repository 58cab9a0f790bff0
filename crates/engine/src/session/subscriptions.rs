//! What a session has subscribed to.

use std::hash::BuildHasher;
use std::ops::Deref;

use hashbrown::HashTable;

use super::{Share, Subscribed};

/// With fewer, all are looked at: most sessions have a handful and shall not pay for a table.
const TABLE_FROM: usize = 16;

/// The subscriptions of a session, in an order that follows from its entries. One is found in constant time.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    made: Vec<Subscribed>,
    /// From [`TABLE_FROM`] on.
    places: Option<Box<Places>>,
}

/// Places by share name and filter. Clients choose both: the hash is keyed.
#[derive(Debug, Default)]
struct Places {
    table: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
}

impl Places {
    fn hash(&self, share: Option<&str>, filter: &str) -> u64 {
        self.hasher.hash_one((share, filter))
    }

    fn hash_of(&self, subscribed: &Subscribed) -> u64 {
        self.hash(subscribed.share_name(), &subscribed.filter)
    }

    fn insert(&mut self, at: usize, made: &[Subscribed]) {
        let hash = self.hash_of(&made[at]);
        let hasher = &self.hasher;
        self.table.insert_unique(hash, number(at), |&at| {
            let other = &made[at as usize];
            hasher.hash_one((other.share_name(), &*other.filter))
        });
    }

    fn remove(&mut self, at: usize, made: &[Subscribed]) {
        let hash = self.hash_of(&made[at]);
        if let Ok(entry) = self.table.find_entry(hash, |&it| it == number(at)) {
            entry.remove();
        }
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("fewer subscriptions than a session may have")
}

impl Deref for Subscriptions {
    type Target = [Subscribed];

    fn deref(&self) -> &[Subscribed] {
        &self.made
    }
}

impl IntoIterator for Subscriptions {
    type Item = Subscribed;
    type IntoIter = std::vec::IntoIter<Subscribed>;

    fn into_iter(self) -> Self::IntoIter {
        self.made.into_iter()
    }
}

impl Subscriptions {
    /// Place of a subscription.
    pub(crate) fn find(&self, share: Option<&str>, filter: &str) -> Option<usize> {
        let is_it = |it: &Subscribed| &*it.filter == filter && it.share_name() == share;
        match &self.places {
            None => self.made.iter().position(is_it),
            Some(places) => places
                .table
                .find(places.hash(share, filter), |&at| {
                    is_it(&self.made[at as usize])
                })
                .map(|&at| at as usize),
        }
    }

    /// Adds one that is not there.
    pub(crate) fn push(&mut self, made: Subscribed) {
        // Most sessions have one: no room for three more.
        if self.made.len() < 4 {
            self.made.reserve_exact(1);
        }
        self.made.push(made);
        match &mut self.places {
            Some(places) => places.insert(self.made.len() - 1, &self.made),
            None if self.made.len() >= TABLE_FROM => {
                let mut places = Box::<Places>::default();
                (0..self.made.len()).for_each(|at| places.insert(at, &self.made));
                self.places = Some(places);
            }
            None => {}
        }
    }

    /// Room for so many more, and for no others.
    pub(crate) fn reserve_exact(&mut self, count: usize) {
        self.made.reserve_exact(count);
    }

    /// Takes one out; the last one gets its place.
    pub(crate) fn remove(&mut self, at: usize) -> Subscribed {
        let last = self.made.len() - 1;
        if let Some(places) = &mut self.places {
            places.remove(at, &self.made);
            if at != last {
                places.remove(last, &self.made);
            }
        }
        let gone = self.made.swap_remove(at);
        match &mut self.places {
            // Half: sessions that go to and fro at the border shall not make a table each time.
            Some(_) if last <= TABLE_FROM / 2 => self.places = None,
            Some(places) if at != last => places.insert(at, &self.made),
            Some(_) | None => {}
        }
        gone
    }

    /// Puts another subscription of the same name in its place. Gives what was there.
    pub(crate) fn replace(&mut self, at: usize, made: Subscribed) -> Subscribed {
        std::mem::replace(&mut self.made[at], made)
    }

    /// The shared part of one.
    pub(crate) fn share_mut(&mut self, at: usize) -> Option<&mut Share> {
        self.made[at].share.as_deref_mut()
    }

    /// The shared parts of all that have one.
    pub(crate) fn shares_mut(&mut self) -> impl Iterator<Item = &mut Share> {
        self.made
            .iter_mut()
            .filter_map(|it| it.share.as_deref_mut())
    }

    /// Asserts that each is found where it is.
    pub(crate) fn check(&self) {
        for (at, it) in self.made.iter().enumerate() {
            let found = self.find(it.share_name(), &it.filter);
            assert_eq!(found, Some(at), "a subscription is found where it is");
        }
        let places = self.places.as_ref().map(|places| places.table.len());
        assert!(
            places.is_none_or(|places| places == self.made.len()),
            "each has one place"
        );
    }
}

#[cfg(test)]
mod tests {
    use courser_contract::SubscriptionOptions;

    use super::{Subscribed, Subscriptions, TABLE_FROM};
    use crate::session::Share;

    fn subscribed(share: Option<&str>, filter: &str) -> Subscribed {
        Subscribed {
            filter: filter.into(),
            share: share.map(|name| {
                Box::new(Share {
                    name: name.into(),
                    group: None,
                })
            }),
            options: SubscriptionOptions::default(),
            identifier: None,
        }
    }

    #[test]
    fn each_is_found_while_they_come_and_go() {
        let mut subscriptions = Subscriptions::default();
        for count in 0..3 * TABLE_FROM {
            let filter = format!("a/{count}");
            assert_eq!(subscriptions.find(None, &filter), None);
            subscriptions.push(subscribed(None, &filter));
            subscriptions.push(subscribed(Some("g"), &filter));
            subscriptions.check();
        }
        while !subscriptions.is_empty() {
            let at = subscriptions.len() / 3;
            let gone = subscriptions.remove(at);
            assert_eq!(subscriptions.find(gone.share_name(), &gone.filter), None);
            subscriptions.check();
        }
        assert!(subscriptions.places.is_none(), "no table for so few");
    }
}
