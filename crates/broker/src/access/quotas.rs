//! What clients have published of what they may, for as long as that is not paid for: shared by all shards, touched when somebody whose rates are
//! limited comes and goes. A message takes no lock: each connection has its client's [`Quota`].
//!
//! A client is a user with a client id, or a client id where nobody logs in, and all its connections take from one quota: it gains nothing by
//! coming again, taken over or not, on whichever shard. Those that leave their name to the server have a new one each time, and nobody can tell
//! one that comes again from another one: all of one address (and user) are one client here.
//!
//! What a client of a user owes when it goes is its user's: the next new client of that user takes the debt over, of several the one that is paid first. So
//! a user publishes no more under ever new client ids than as many clients as it has at once may, and each debt is paid once.
//!
//! Invariants:
//! - of those who are gone no more than [`GONE_MAX`] are remembered; the one that went first is forgotten for another
//! - one that is here is never forgotten
//! - `debts` has who is gone, owes and had logged in, and nobody else

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use courser_access::{Quota, Rates};
use courser_contract::Tick;
use courser_mqtt::front::is_assigned_client_id;

use super::throttle::Origin;

/// Clients that are gone and have not paid: some 200 bytes each.
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

/// Of a client or a user, keyed by the process: nobody outside can find two that are the same.
type Key = u64;

/// Who it is, without names.
#[derive(Clone, Copy, Debug)]
struct Keys {
    client: Key,
    user: Option<Key>,
}

#[derive(Debug)]
struct Known {
    quota: Arc<Quota>,
    user: Option<Key>,
    /// Connections that take from it.
    here: u32,
    /// Its number in the list of those who are gone, where it is, or was when it came again.
    listed: Option<u64>,
}

impl Known {
    /// What it owes on behalf of its user, which stays as it is while it is gone.
    fn debt(&self, client: Key) -> Option<Debt> {
        let paid_by = self.quota.paid_by();
        self.user.map(|user| (user, paid_by, client))
    }
}

/// User, by when it is paid, client.
type Debt = (Key, u64, Key);

#[derive(Debug, Default)]
struct Clients {
    known: HashMap<Key, Known>,
    /// Who is gone, by number. Of a client that has another number, or none, it says nothing.
    gone: VecDeque<(u64, Key)>,
    /// The number of the next one.
    number: u64,
    debts: BTreeSet<Debt>,
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
        let client = self.0.hasher.hash_one(whose);
        let user = whose.user.map(|user| self.0.hasher.hash_one(user));
        let mut clients = self.clients();
        clients.forget_paid(now);
        Joined {
            quotas: self.clone(),
            key: client,
            quota: clients.join(Keys { client, user }, rates),
        }
    }
}

impl Clients {
    fn join(&mut self, keys: Keys, rates: Rates) -> Arc<Quota> {
        let mut known = match self.known.remove(&keys.client) {
            Some(known) => {
                self.forgive(keys.client, &known);
                known
            }
            None => Known {
                quota: self
                    .take_over(keys.user)
                    .unwrap_or_else(|| Arc::new(Quota::new(rates))),
                user: keys.user,
                here: 0,
                listed: None,
            },
        };
        known.here += 1;
        if known.quota.rates() != rates {
            known.quota = Arc::new(Quota::renewed(&known.quota, rates));
        }
        let quota = Arc::clone(&known.quota);
        self.known.insert(keys.client, known);
        quota
    }

    /// What another client of the user has left behind, which is forgotten for it. If that is paid by now it is as good as nothing.
    fn take_over(&mut self, user: Option<Key>) -> Option<Arc<Quota>> {
        let user = user?;
        let mut debts = self
            .debts
            .range((user, 0, Key::MIN)..=(user, u64::MAX, Key::MAX));
        let debt = *debts.next()?;
        self.debts.remove(&debt);
        let (_, _, client) = debt;
        self.known.remove(&client).map(|known| known.quota)
    }

    /// Nobody is to take over what a client owes.
    fn forgive(&mut self, key: Key, known: &Known) {
        if known.here == 0
            && let Some(debt) = known.debt(key)
        {
            self.debts.remove(&debt);
        }
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
        } else {
            self.debts.extend(known.debt(key));
            if known.listed.is_none() {
                self.number += 1;
                known.listed = Some(self.number);
                self.gone.push_back((self.number, key));
            }
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
            if let Some(place) = self.gone.pop_front()
                && !self.unlist(place, |quota| quota.is_paid(now.0))
            {
                self.gone.push_back(place);
            }
        }
    }

    /// Somebody is out of the list, and is forgotten if it is gone and `may` be; false: it has to stay in it.
    fn unlist(&mut self, (number, key): (u64, Key), may: impl Fn(&Quota) -> bool) -> bool {
        let Some(known) = self.known.get_mut(&key) else {
            return true;
        };
        if known.listed != Some(number) {
            return true;
        }
        if known.here > 0 {
            known.listed = None;
        } else if may(&known.quota) {
            if let Some(known) = self.known.remove(&key) {
                self.forgive(key, &known);
            }
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
