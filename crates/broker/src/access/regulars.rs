//! Addresses whose last login was right: they have turns of their own, so that those who guess from many addresses keep only strangers out.
//!
//! It is no proof of anything: who has the turn of a regular address still has to show its password.

use std::collections::HashSet;

use super::throttle::Origin;

/// Those of the newer half. With the older one 65,536 addresses at most, and some 2 MiB.
const NEWER_MAX: usize = 32_768;

/// See the module. When the newer half is full the older one goes. Time makes nobody a stranger: a device that was connected for weeks is known
/// when it comes back, unless so many others came since.
#[derive(Debug, Default)]
pub(super) struct Regulars {
    newer: HashSet<Origin>,
    older: HashSet<Origin>,
}

impl Regulars {
    pub(super) fn has(&self, origin: Origin) -> bool {
        self.newer.contains(&origin) || self.older.contains(&origin)
    }

    /// A login of it was right.
    pub(super) fn note(&mut self, origin: Origin) {
        if self.newer.len() >= NEWER_MAX && !self.newer.contains(&origin) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(origin);
    }

    /// A login of it was wrong.
    pub(super) fn forget(&mut self, origin: Origin) {
        self.newer.remove(&origin);
        self.older.remove(&origin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> Origin {
        Origin::V4((number as u32).to_be_bytes())
    }

    #[test]
    fn i9_no_more_addresses_are_known_than_may_be() {
        let mut regulars = Regulars::default();
        regulars.note(Origin::Local);
        for number in 0..10 * NEWER_MAX {
            regulars.note(address(number));
            assert!(regulars.newer.len() + regulars.older.len() <= 2 * NEWER_MAX);
        }
        assert!(!regulars.has(Origin::Local), "the oldest went");
        let last = 10 * NEWER_MAX - 1;
        assert!(regulars.has(address(last)) && regulars.has(address(last - NEWER_MAX)));
    }

    #[test]
    fn a_wrong_login_makes_an_address_a_stranger() {
        let mut regulars = Regulars::default();
        regulars.note(Origin::Local);
        (0..NEWER_MAX).for_each(|number| regulars.note(address(number)));
        regulars.note(Origin::Local);
        regulars.forget(Origin::Local);
        assert!(!regulars.has(Origin::Local), "neither half has it");
    }
}
