//! A password and whose it is said to be, on the way to the pool and back: the same for clients and for operators.

use std::collections::HashMap;

use courser_access::{PasswordHash, UserName, UserState};
use courser_contract::Tick;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::accounts::Logins;
use super::hashing::PasswordClaim;
use super::throttle::{Kind, LookedAt, Origin};

/// How long a password that was right is taken for right without being hashed again, in milliseconds.
pub(super) const REMEMBER_MS: u64 = 60_000;
/// Passwords that are remembered by a shard, and for operators.
const REMEMBERED_MAX: usize = 10_000;

/// Passwords that were right of late: until when each is remembered, by its key.
#[derive(Default)]
pub(super) struct Remembered(HashMap<[u8; 32], Tick>);

impl Remembered {
    /// Whether it is the password of this user, and was right of late.
    pub(super) fn has(&self, claim: &PasswordClaim, now: Tick) -> bool {
        let until = self.0.get(&claim.key);
        claim.since.is_some() && until.is_some_and(|until| now < *until)
    }

    /// It is right.
    pub(super) fn note(&mut self, claim: &PasswordClaim, now: Tick) {
        if self.0.len() >= REMEMBERED_MAX {
            self.0.retain(|_, until| now < *until);
        }
        if self.0.len() < REMEMBERED_MAX {
            self.0.insert(claim.key, now.after_ms(REMEMBER_MS));
        }
    }
}

impl Logins {
    /// Whose password somebody comes with, and its hash; none: there is no such user, or none who may log in by a password. One with a hash that takes
    /// more memory than a login may is as one that is not there, at the same cost.
    pub(super) fn claim(
        &self,
        user: UserName,
        password: &[u8],
    ) -> (PasswordClaim, Option<PasswordHash>) {
        let table = self.access.table();
        let known = table
            .user(user.as_str())
            .filter(|user| user.state == UserState::Enabled)
            .and_then(|user| Some((user.since, user.password.as_ref()?)));
        let is_dear = known.is_some_and(|(_, hash)| !table.room().has_room_for(hash));
        let known = known.filter(|_| !is_dear);
        let since = known.map(|(since, _)| since);
        let key = self.key(user.as_str(), since, password);
        let claim = PasswordClaim {
            user,
            since,
            is_dear,
            key,
        };
        (claim, known.map(|(_, hash)| hash.clone()))
    }

    /// Whether a password that was admitted and compared lets its user in. A wrong one counts against where it came from.
    pub(super) fn is_right(
        &self,
        origin: Origin,
        (claim, matched): (&PasswordClaim, bool),
        now: Tick,
    ) -> bool {
        let table = self.access.table();
        // It may have changed while the password was being compared.
        let still = table.user(claim.user.as_str()).is_some_and(|user| {
            user.state == UserState::Enabled && Some(user.since) == claim.since
        });
        let right = matched && still;
        let looked_at = if right {
            LookedAt::Right
        } else {
            LookedAt::Guess
        };
        self.throttle
            .finished(origin, Kind::Password, looked_at, now);
        right
    }

    /// Under which a password is remembered: nobody without the secret can make one, or learn anything of it.
    pub(super) fn key(&self, name: &str, since: Option<u64>, password: &[u8]) -> [u8; 32] {
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&self.secret.0)
            .expect("HMAC takes keys of every length");
        mac.update(&since.unwrap_or(u64::MAX).to_le_bytes());
        mac.update(&(name.len() as u64).to_le_bytes());
        mac.update(name.as_bytes());
        mac.update(password);
        mac.finalize().into_bytes().into()
    }
}
