//! What a table takes of the memory of its process, and what it may take: its users and roles themselves, and each look at a password.

use crate::index::{Indexed, RuleIndex};
use crate::scram::ScramKeys;
use crate::table::{Role, User};
use crate::{Command, HashMemory, PasswordHash, Refusal, RoleName, Rule, Table, UserName};

/// What a process has room for. Configuration, as [`Table::process`]: no part of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Memory in KiB that comparing one password may take. Our own hashes fit in any case.
    pub hash_kib: u32,
    /// Bytes of users and roles, as [`Table::bytes_held`] counts them.
    pub bytes: u64,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            hash_kib: u32::MAX,
            bytes: u64::MAX,
        }
    }
}

impl Room {
    /// Whether a password may be compared with this hash.
    #[must_use]
    pub fn has_room_for(&self, hash: &PasswordHash) -> bool {
        hash.cost().memory_kib <= self.hash_kib.max(HashMemory::OWN_KIB)
    }
}

/// Bytes of a name's place in a table: a node, its entry and what counts who refers to them. Measured, with [`of_user`] and [`of_role`], by
/// `tests/bytes_held.rs`.
const PLACE_BYTES: usize = 104;
/// Bytes of a leaf of a set of roles, which has room for eleven.
const LEAF_BYTES: usize = 11 * size_of::<RoleName>() + 16;
/// Of those at least so many are used in a set that has more than one leaf.
const LEAF_USED: usize = 5;
/// Longest name that takes no memory of its own.
const INLINE_BYTES: usize = size_of::<UserName>();

/// Bytes of a text beside its place.
const fn beyond(len: usize) -> usize {
    if len > INLINE_BYTES { len } else { 0 }
}

fn of_user(name: &UserName, user: &User) -> u64 {
    let secrets = user.password.as_ref().map_or(0, PasswordHash::heap_bytes)
        + user.scram.as_ref().map_or(0, ScramKeys::heap_bytes);
    let leaves = match user.roles.len() {
        0 => 0,
        count => count.div_ceil(LEAF_USED) * LEAF_BYTES,
    };
    let long: usize = user
        .roles
        .iter()
        .map(|role| beyond(role.as_str().len()))
        .sum();
    let bytes = PLACE_BYTES + size_of::<User>() + beyond(name.as_str().len());
    (bytes + secrets + leaves + long) as u64
}

fn of_role(name: &RoleName, role: &Role) -> u64 {
    let of_rule = |rule: &Rule| rule.heap_bytes() + RuleIndex::bytes_of(rule.topic.depth());
    let rules: usize = role.rules.iter().map(of_rule).sum();
    let bytes = PLACE_BYTES + size_of::<Indexed>() + beyond(name.as_str().len());
    (bytes + rules + size_of_val(&*role.rules)) as u64
}

impl Table {
    /// The same table in a process with this much room.
    #[must_use]
    pub fn within(mut self, room: Room) -> Self {
        self.room = room;
        self
    }

    /// What its process has room for.
    #[must_use]
    pub const fn room(&self) -> Room {
        self.room
    }

    /// Bytes that its users and roles take of memory. Cost: none.
    #[must_use]
    pub const fn bytes_held(&self) -> u64 {
        self.bytes_held
    }

    /// Counts all of it. Cost: some 100 ns a user.
    pub(crate) fn count_bytes(&self) -> u64 {
        let users = self.users().map(|(name, user)| of_user(name, user));
        let roles = self.roles().map(|(name, role)| of_role(name, role));
        users.sum::<u64>() + roles.sum::<u64>()
    }

    fn user_bytes(&self, name: &UserName) -> u64 {
        self.users.get(name).map_or(0, |user| of_user(name, user))
    }

    fn role_bytes(&self, name: &RoleName) -> u64 {
        self.roles
            .get(name)
            .map_or(0, |role| of_role(name, role.role()))
    }

    /// What it will take after a change.
    pub(crate) fn bytes_after(&self, command: &Command) -> u64 {
        let (gone, new) = match command {
            Command::PutUser(name, user) => (self.user_bytes(name), of_user(name, user)),
            Command::RemoveUser(name) => (self.user_bytes(name), 0),
            Command::PutRole(name, role) => (self.role_bytes(name), of_role(name, role)),
            Command::RemoveRole(name) => (self.role_bytes(name), 0),
            Command::Replace(table) => (self.bytes_held, table.count_bytes()),
            Command::PutDomain(..) => (0, 0),
        };
        self.bytes_held.saturating_sub(gone) + new
    }

    /// Whether there is room for a change. What makes less of a table that is too large, as one of a process that had more memory may be, is
    /// never refused for it; nor is who keeps a hash that is too dear, whose user no longer comes in by it.
    pub(crate) fn check_room(&self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::PutUser(name, user) => self.check_hash(name, user)?,
            Command::Replace(table) => {
                for (name, user) in table.users() {
                    self.check_hash(name, user)?;
                }
            }
            Command::RemoveUser(_)
            | Command::PutRole(..)
            | Command::RemoveRole(_)
            | Command::PutDomain(..) => {}
        }
        let needed = self.bytes_after(command);
        if needed > self.room.bytes && needed > self.bytes_held {
            return Err(Refusal::NoRoom {
                needed_kib: needed.div_ceil(1 << 10),
                max_kib: self.room.bytes >> 10,
            });
        }
        Ok(())
    }

    fn check_hash(&self, name: &UserName, user: &User) -> Result<(), Refusal> {
        let Some(hash) = &user.password else {
            return Ok(());
        };
        let before = self.users.get(name).and_then(|user| user.password.as_ref());
        if self.room.has_room_for(hash) || before == Some(hash) {
            return Ok(());
        }
        Err(Refusal::DearHash {
            user: name.clone(),
            mib: hash.cost().memory_kib.div_ceil(1 << 10),
            max_mib: self.room.hash_kib.max(HashMemory::OWN_KIB) >> 10,
        })
    }
}

#[cfg(test)]
mod tests;
