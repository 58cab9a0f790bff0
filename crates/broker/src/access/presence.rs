//! How many clients users have connected, where that is limited: shared by all shards, touched when somebody comes and goes.
//!
//! Counted are client ids: who comes again before its old connection has ended displaces itself and nobody else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compact_str::CompactString;
use courser_access::UserName;

/// Connections by user and client id.
type Counts = HashMap<UserName, HashMap<CompactString, u32>>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence(Arc<Mutex<Counts>>);

/// One connection of a user; counted as long as it is kept.
#[derive(Debug)]
pub(crate) struct Present {
    presence: Presence,
    user: UserName,
    client_id: CompactString,
}

impl Presence {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing is half done in it when somebody panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection; none: there are as many clients as may be. A limit of 0 counts as 1.
    pub(crate) fn come(&self, user: &UserName, client_id: &str, max: u32) -> Option<Present> {
        let mut counts = self.counts();
        let clients = counts.get(user);
        let known = clients.is_some_and(|clients| clients.contains_key(client_id));
        let others = clients.map_or(0, HashMap::len);
        if !known && others >= max.max(1) as usize {
            return None;
        }
        let clients = counts.entry(user.clone()).or_default();
        *clients.entry(client_id.into()).or_default() += 1;
        Some(Present {
            presence: self.clone(),
            user: user.clone(),
            client_id: client_id.into(),
        })
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        let mut counts = self.presence.counts();
        let Some(clients) = counts.get_mut(&self.user) else {
            return;
        };
        if let Some(count) = clients.get_mut(&self.client_id) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client_id);
            }
        }
        if clients.is_empty() {
            counts.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i9_a_user_has_no_more_clients_than_it_may() {
        let presence = Presence::default();
        let user = UserName::new("anna").unwrap();
        let come = |id: &str, max| presence.come(&user, id, max);
        let first = come("1", 2).unwrap();
        let second = come("2", 2).unwrap();
        assert!(come("3", 2).is_none());
        let again = come("1", 2).unwrap();
        drop(first);
        assert!(come("3", 2).is_none(), "the first one came again");
        let other = UserName::new("ben").unwrap();
        assert!(presence.come(&other, "3", 1).is_some());
        drop(again);
        let third = come("3", 2).unwrap();
        assert!(come("4", 0).is_none());
        drop((second, third));
        assert!(presence.counts().is_empty(), "who is gone costs nothing");
        assert!(come("4", 0).is_some(), "0 counts as 1");
    }
}
