//! What clients have published of what they may, for as long as that is not paid for: shared by all shards, touched when somebody whose rates are
//! limited comes and goes. A message takes no lock: each connection has its client's [`Quota`].
//!
//! A client is a user with a client id, or a client id where nobody logs in, and all its connections take from one quota: it gains nothing by
//! coming again, taken over or not, on whichever shard. Those that leave their name to the server have a new one each time, and nobody can tell
//! one that comes again from another one: all of one address (and user) are one client here.
//!
//! Invariants:
//! - of those who are gone no more than [`GONE_MAX`] are remembered; the one that went first is forgotten for another
//! - one that is here is never forgotten

use std::collections::hash_map::{Entry, RandomState};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use courser_access::{Quota, Rates};
use courser_contract::Tick;
use courser_mqtt::front::is_assigned_client_id;

use super::throttle::Origin;

/// Clients that are gone and have not paid: some 100 bytes each.
const GONE_MAX: usize = 65_536;
/// So many of them are looked at whenever somebody comes or goes, of which each adds one at most.
const LOOKED_AT: usize = 4;

/// Whose messages are counted.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct Whose<'a> {
    /// As whom it has logged in.
    pub(crate) user: Option<&'a str>,
    pub(crate) name: Name<'a>,
}

/// What it is known by.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) enum Name<'a> {
    /// The client id that it came with.
    ClientId(&'a str),
    /// The address that it came from without one.
    Address(Origin),
}

impl<'a> Name<'a> {
    /// Of a client with this client id at this address.
    pub(crate) fn of(client_id: &'a str, address: Option<SocketAddr>) -> Self {
        if is_assigned_client_id(client_id) {
            Self::Address(Origin::of(address.map(|address| address.ip())))
        } else {
            Self::ClientId(client_id)
        }
    }
}

/// Of a client, keyed by the process: nobody outside can find two that are the same.
type Key = u64;

#[derive(Debug)]
struct Known {
    quota: Arc<Quota>,
    /// Connections that take from it.
    here: u32,
    /// Whether it is in the list of those who are gone, or was when it came again.
    listed: bool,
}

#[derive(Debug, Default)]
struct Clients {
    known: HashMap<Key, Known>,
    gone: VecDeque<Key>,
}

#[derive(Debug, Default)]
struct Shared {
    hasher: RandomState,
    clients: Mutex<Clients>,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quotas(Arc<Shared>);

/// One connection's part in what its client may publish, until it [leaves](Self::leave).
#[derive(Debug)]
pub(crate) struct Joined {
    quotas: Quotas,
    key: Key,
    pub(crate) quota: Arc<Quota>,
}

impl Quotas {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        // Nothing is half done in it when somebody panics.
        let clients = self.0.clients.lock();
        clients.unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection of a client begins to publish, with what the client has not paid for.
    pub(crate) fn join(&self, whose: &Whose<'_>, rates: Rates, now: Tick) -> Joined {
        let key = self.0.hasher.hash_one(whose);
        let mut clients = self.clients();
        clients.forget_paid(now);
        Joined {
            quotas: self.clone(),
            key,
            quota: clients.join(key, rates),
        }
    }
}

impl Clients {
    fn join(&mut self, key: Key, rates: Rates) -> Arc<Quota> {
        let known = match self.known.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(Known {
                quota: Arc::new(Quota::new(rates)),
                here: 0,
                listed: false,
            }),
        };
        known.here += 1;
        if known.quota.rates() != rates {
            known.quota = Arc::new(Quota::renewed(&known.quota, rates));
        }
        Arc::clone(&known.quota)
    }

    /// Somebody has gone: if nobody else of that client is here it is remembered as long as it owes something.
    fn leave(&mut self, key: Key, now: Tick) {
        let Some(known) = self.known.get_mut(&key) else {
            return;
        };
        known.here = known.here.saturating_sub(1);
        if known.here > 0 {
            return;
        }
        if known.quota.is_paid(now.0) {
            self.known.remove(&key);
        } else if !std::mem::replace(&mut known.listed, true) {
            self.gone.push_back(key);
        }
        if self.gone.len() > GONE_MAX
            && let Some(first) = self.gone.pop_front()
        {
            self.unlist(first, |_| true);
        }
    }

    /// Looks at some of those who are gone, and forgets who has paid.
    fn forget_paid(&mut self, now: Tick) {
        for _ in 0..LOOKED_AT.min(self.gone.len()) {
            if let Some(key) = self.gone.pop_front()
                && !self.unlist(key, |quota| quota.is_paid(now.0))
            {
                self.gone.push_back(key);
            }
        }
    }

    /// Somebody is out of the list, and is forgotten if it is gone and `may` be; false: it has to stay in it.
    fn unlist(&mut self, key: Key, may: impl Fn(&Quota) -> bool) -> bool {
        let Some(known) = self.known.get_mut(&key) else {
            return true;
        };
        if known.here > 0 {
            known.listed = false;
        } else if may(&known.quota) {
            self.known.remove(&key);
        } else {
            return false;
        }
        true
    }
}

impl Joined {
    /// The connection publishes nothing any more by this quota.
    pub(crate) fn leave(self, now: Tick) {
        let mut clients = self.quotas.clients();
        clients.forget_paid(now);
        clients.leave(self.key, now);
    }
}

#[cfg(test)]
mod tests;
