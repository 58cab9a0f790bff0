//! What a session has subscribed to.

use std::hash::BuildHasher;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Deref, SubAssign};

use hashbrown::HashTable;

use super::{Share, Subscribed};

/// With fewer, all are looked at: most sessions have a handful and shall not pay for a table.
const TABLE_FROM: usize = 16;

/// The subscriptions of a session, in an order that follows from its entries. One is found in constant time.
#[derive(Debug)]
pub(crate) enum Subscriptions {
    Few(Vec<Subscribed>),
    /// From [`TABLE_FROM`] on.
    Many(Box<Many>),
}

const _: () = assert!(
    size_of::<Subscriptions>() == size_of::<Vec<Subscribed>>(),
    "sessions with few do not pay for those with many"
);

/// Subscriptions with their places by share name and filter. Clients choose both: the hash is keyed.
#[derive(Debug)]
pub(crate) struct Many {
    made: Vec<Subscribed>,
    places: HashTable<u32>,
    hasher: foldhash::fast::RandomState,
    sizes: Sizes,
}

/// How much a session has subscribed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// All subscriptions.
    pub(crate) count: u32,
    /// Shared ones of them.
    pub(crate) shared: u32,
    /// Bytes of their filters and share names.
    pub(crate) bytes: u64,
}

impl Sizes {
    /// One subscription.
    pub(crate) fn of(share: Option<&str>, filter: &str) -> Self {
        Self {
            count: 1,
            shared: share.is_some().into(),
            bytes: (filter.len() + share.map_or(0, str::len)) as u64,
        }
    }

    fn of_made(made: &Subscribed) -> Self {
        Self::of(made.share_name(), &made.filter)
    }

    /// Whether it is no more than that.
    pub(crate) const fn fits(self, most: Self) -> bool {
        self.count <= most.count && self.shared <= most.shared && self.bytes <= most.bytes
    }
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, more: Self) {
        self.count += more.count;
        self.shared += more.shared;
        self.bytes += more.bytes;
    }
}

impl SubAssign for Sizes {
    fn sub_assign(&mut self, less: Self) {
        self.count -= less.count;
        self.shared -= less.shared;
        self.bytes -= less.bytes;
    }
}

impl Add for Sizes {
    type Output = Self;

    fn add(mut self, more: Self) -> Self {
        self += more;
        self
    }
}

impl Sum for Sizes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Self::add)
    }
}

impl Many {
    fn new(made: Vec<Subscribed>) -> Self {
        let mut many = Self {
            places: HashTable::with_capacity(2 * made.len()),
            sizes: made.iter().map(Sizes::of_made).sum(),
            made,
            hasher: foldhash::fast::RandomState::default(),
        };
        (0..many.made.len()).for_each(|at| many.note(at));
        many
    }

    fn hash(&self, share: Option<&str>, filter: &str) -> u64 {
        self.hasher.hash_one((share, filter))
    }

    fn hash_at(&self, at: usize) -> u64 {
        let it = &self.made[at];
        self.hash(it.share_name(), &it.filter)
    }

    fn find(&self, share: Option<&str>, filter: &str) -> Option<usize> {
        let is_it = |at: &u32| self.made[*at as usize].is_named(share, filter);
        let found = self.places.find(self.hash(share, filter), is_it);
        found.map(|&at| at as usize)
    }

    /// One is at this place now.
    fn note(&mut self, at: usize) {
        let (made, hasher) = (&self.made, &self.hasher);
        let hash = |at: usize| hasher.hash_one((made[at].share_name(), &*made[at].filter));
        self.places
            .insert_unique(hash(at), number(at), |&at| hash(at as usize));
    }

    /// One is at this place no more.
    fn forget(&mut self, at: usize) {
        let hash = self.hash_at(at);
        if let Ok(entry) = self.places.find_entry(hash, |&it| it == number(at)) {
            entry.remove();
        }
    }

    fn remove(&mut self, at: usize) -> Subscribed {
        let last = self.made.len() - 1;
        self.forget(at);
        if at != last {
            self.forget(last);
        }
        let gone = self.made.swap_remove(at);
        if at != last {
            self.note(at);
        }
        self.sizes -= Sizes::of_made(&gone);
        gone
    }
}

fn number(at: usize) -> u32 {
    u32::try_from(at).expect("fewer subscriptions than a session may have")
}

impl Default for Subscriptions {
    fn default() -> Self {
        Self::Few(Vec::new())
    }
}

impl Deref for Subscriptions {
    type Target = [Subscribed];

    fn deref(&self) -> &[Subscribed] {
        match self {
            Self::Few(made) => made,
            Self::Many(many) => &many.made,
        }
    }
}

impl IntoIterator for Subscriptions {
    type Item = Subscribed;
    type IntoIter = std::vec::IntoIter<Subscribed>;

    fn into_iter(self) -> Self::IntoIter {
        match self {
            Self::Few(made) => made.into_iter(),
            Self::Many(many) => many.made.into_iter(),
        }
    }
}

impl Subscriptions {
    /// Place of a subscription.
    pub(crate) fn find(&self, share: Option<&str>, filter: &str) -> Option<usize> {
        match self {
            Self::Few(made) => made.iter().position(|it| it.is_named(share, filter)),
            Self::Many(many) => many.find(share, filter),
        }
    }

    /// Adds one that is not there.
    pub(crate) fn push(&mut self, made: Subscribed) {
        match self {
            Self::Few(few) => {
                // Most sessions have one: no room for three more.
                if few.len() < 4 {
                    few.reserve_exact(1);
                }
                few.push(made);
                if few.len() >= TABLE_FROM {
                    *self = Self::Many(Box::new(Many::new(std::mem::take(few))));
                }
            }
            Self::Many(many) => {
                many.sizes += Sizes::of_made(&made);
                many.made.push(made);
                many.note(many.made.len() - 1);
            }
        }
    }

    /// How much there is. In constant time.
    pub(crate) fn sizes(&self) -> Sizes {
        match self {
            Self::Few(made) => made.iter().map(Sizes::of_made).sum(),
            Self::Many(many) => many.sizes,
        }
    }

    /// Room for so many more, and for no others.
    pub(crate) fn reserve_exact(&mut self, count: usize) {
        match self {
            Self::Few(made) => made.reserve_exact(count),
            Self::Many(many) => many.made.reserve_exact(count),
        }
    }

    /// Takes one out; the last one gets its place.
    pub(crate) fn remove(&mut self, at: usize) -> Subscribed {
        match self {
            Self::Few(made) => made.swap_remove(at),
            Self::Many(many) => {
                let gone = many.remove(at);
                // Half: sessions that go to and fro at the border shall not make a table each time.
                if many.made.len() <= TABLE_FROM / 2 {
                    *self = Self::Few(std::mem::take(&mut many.made));
                }
                gone
            }
        }
    }

    /// Drops so many of those that came last, of a session that is gone: none of them is looked for any more. How many.
    pub(crate) fn drop_last(&mut self, count: usize) -> usize {
        let made = match self {
            Self::Few(made) => made,
            Self::Many(many) => &mut many.made,
        };
        let left = made.len().saturating_sub(count);
        let dropped = made.len() - left;
        made.truncate(left);
        dropped
    }

    fn made_mut(&mut self) -> &mut [Subscribed] {
        match self {
            Self::Few(made) => made,
            Self::Many(many) => &mut many.made,
        }
    }

    /// Puts another subscription of the same name in its place. Gives what was there.
    pub(crate) fn replace(&mut self, at: usize, made: Subscribed) -> Subscribed {
        std::mem::replace(&mut self.made_mut()[at], made)
    }

    /// The shared part of one.
    pub(crate) fn share_mut(&mut self, at: usize) -> Option<&mut Share> {
        self.made_mut()[at].share.as_deref_mut()
    }

    /// The shared parts of all that have one.
    pub(crate) fn shares_mut(&mut self) -> impl Iterator<Item = &mut Share> {
        let made = self.made_mut().iter_mut();
        made.filter_map(|it| it.share.as_deref_mut())
    }

    /// Asserts that each is found where it is.
    pub(crate) fn check(&self) {
        for (at, it) in self.iter().enumerate() {
            let found = self.find(it.share_name(), &it.filter);
            assert_eq!(found, Some(at), "a subscription is found where it is");
        }
        if let Self::Many(many) = self {
            assert_eq!(many.places.len(), many.made.len(), "each has one place");
            let sizes = many.made.iter().map(Sizes::of_made).sum();
            assert_eq!(many.sizes, sizes, "and is counted");
        }
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
        assert!(
            matches!(subscriptions, Subscriptions::Few(_)),
            "no table for so few"
        );
    }
}
