//! How many sessions users keep, over all partitions and shards: counted from what partitions say ([`PartitionEffects::keep_session`]), whether a user is limited
//! or not, so that a limit that is set later counts what is there. Locked when a session is opened or ends.
//!
//! Invariant: nobody without a session is in it, so that it takes no more memory than what those sessions are charged for.
//!
//! [`PartitionEffects::keep_session`]: courser_contract::PartitionEffects::keep_session

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use courser_contract::{Permission, owner_name};

/// Sessions by the name of their user.
type Counts = HashMap<Box<str>, u32>;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(Arc<Mutex<Counts>>);

impl Kept {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing is half done in it when somebody panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sessions of a user.
    pub(crate) fn of(&self, user: &str) -> u32 {
        self.counts().get(user).copied().unwrap_or(0)
    }

    /// Whether an owner may have one more, where `most` is the limit of its user.
    pub(crate) fn has_room(&self, owner: &str, most: u32) -> Permission {
        match most == u32::MAX || self.of(owner_name(owner)) < most {
            true => Permission::Granted,
            false => Permission::Denied,
        }
    }

    /// Counts one more, unless there are `most` already.
    pub(crate) fn keep(&self, owner: &str, most: u32) -> Permission {
        let user = owner_name(owner);
        let mut counts = self.counts();
        match counts.get_mut(user) {
            Some(count) if *count >= most => return Permission::Denied,
            Some(count) => *count += 1,
            None if most == 0 => return Permission::Denied,
            None => {
                counts.insert(user.into(), 1);
            }
        }
        Permission::Granted
    }

    /// Counts one less.
    pub(crate) fn forget(&self, owner: &str) {
        let user = owner_name(owner);
        let mut counts = self.counts();
        let count = counts.get_mut(user);
        let count = count.expect("a session that was counted is counted once less");
        *count -= 1;
        if *count == 0 {
            counts.remove(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i9_a_user_keeps_no_more_sessions_than_it_may() {
        let kept = Kept::default();
        let (granted, denied) = (Permission::Granted, Permission::Denied);
        assert_eq!(kept.keep("anna\0@1", 2), granted);
        assert_eq!(kept.keep("anna\0device", 2), granted);
        assert_eq!(kept.has_room("anna", 2), denied);
        assert_eq!(kept.keep("anna", 2), denied);
        assert_eq!(kept.keep("ben", 2), granted);
        assert_eq!(kept.keep("anna", u32::MAX), granted, "one that is found");
        kept.forget("anna");
        assert_eq!(kept.keep("anna", 2), denied);
        kept.forget("anna\0@1");
        assert_eq!(kept.has_room("anna", 2), granted);
        kept.forget("anna");
        kept.forget("ben");
        assert!(kept.counts().is_empty(), "who keeps none costs nothing");
    }
}
