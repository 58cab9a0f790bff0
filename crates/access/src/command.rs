//! Changes of a table: checked by the leader, applied by everybody.

use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::index::Indexed;
use crate::table::{ROLES_MAX, RULES_MAX, USER_ROLES_MAX, USERS_MAX};
use crate::{
    Administration, Domain, DomainName, Role, RoleName, Rule, Table, User, UserName, UserState,
};

/// A change of a table. It states all of what it changes, so that applying it asks nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Makes a user, or replaces all of it.
    PutUser(UserName, User),
    /// Removes a user. Its connections and sessions end.
    RemoveUser(UserName),
    /// Makes a role, or replaces all of it.
    PutRole(RoleName, Role),
    /// Removes a role that no user has.
    RemoveRole(RoleName),
    /// Replaces everything, as an import does.
    Replace(Box<Table>),
    /// Replaces all of a domain.
    PutDomain(DomainName, Domain),
}

/// Why the leader does not propose a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such user.
    #[error("there is no user {0}")]
    NoUser(UserName),
    /// There is no such role.
    #[error("there is no role {0}")]
    NoRole(RoleName),
    /// A role that users have is not removed.
    #[error("role {role} is still given to user {user}, and {others} others")]
    RoleInUse {
        /// Which role.
        role: RoleName,
        /// One that has it.
        user: UserName,
        /// How many have it besides.
        others: usize,
    },
    /// More than there may be of something.
    #[error("there may be at most {max} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        max: usize,
    },
    /// A rule that is new has a level that is a placeholder elsewhere. Tables that have such a rule keep it.
    #[error(
        "rule \"{rule}\" of role {role}: `{level}` is no placeholder here, and would match this very text only; write `%c` for the client id, \
         or `%u` for the user name"
    )]
    Placeholder {
        /// Of which role.
        role: RoleName,
        /// The rule.
        rule: Box<Rule>,
        /// The level.
        level: Box<str>,
    },
    /// Comparing a password with this hash would take more memory than a login may.
    #[error(
        "the password hash of user {user} takes {mib} MiB for each login, and may take {max_mib} MiB at most, an eighth of memory.max: \
         set the password anew (courser user set-password), or give more memory.max"
    )]
    DearHash {
        /// Of which user.
        user: UserName,
        /// MiB that it takes.
        mib: u32,
        /// MiB at most.
        max_mib: u32,
    },
    /// The table would take more memory than it may.
    #[error(
        "users and roles would take {needed_kib} KiB of memory, and may take {max_kib} KiB, their part of memory.max: remove some, or give more memory.max"
    )]
    NoRoom {
        /// KiB that it would take.
        needed_kib: u64,
        /// KiB at most.
        max_kib: u64,
    },
    /// Nobody could change anything any more.
    #[error("no enabled user with a password and full administration would be left")]
    LastAdministrator,
}

impl Table {
    /// Whether a change may be proposed. It is to be asked of the table that has applied all that was proposed before.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn check(&self, command: &Command) -> Result<(), Refusal> {
        match command {
            Command::PutUser(name, user) => {
                if !self.users.contains_key(name) {
                    at_most(self.users.size() + 1, USERS_MAX, "users")?;
                }
                self.check_user(user)?;
            }
            Command::RemoveUser(name) => {
                if !self.users.contains_key(name) {
                    return Err(Refusal::NoUser(name.clone()));
                }
            }
            Command::PutRole(name, role) => {
                if !self.roles.contains_key(name) {
                    at_most(self.roles.size() + 1, ROLES_MAX, "roles")?;
                }
                check_role(role)?;
                self.check_placeholders(name, role)?;
            }
            Command::RemoveRole(name) => self.check_role_unused(name)?,
            // There are few, and all are there.
            Command::PutDomain(..) => {}
            Command::Replace(table) => {
                at_most(table.users.size(), USERS_MAX, "users")?;
                at_most(table.roles.size(), ROLES_MAX, "roles")?;
                for (_, user) in table.users() {
                    table.check_user(user)?;
                }
                for (name, role) in table.roles() {
                    check_role(role)?;
                    self.check_placeholders(name, role)?;
                }
            }
        }
        self.check_room(command)?;
        self.check_administrator(command)
    }

    fn check_user(&self, user: &User) -> Result<(), Refusal> {
        at_most(user.roles.len(), USER_ROLES_MAX, "roles of a user")?;
        match user
            .roles
            .iter()
            .find(|role| !self.roles.contains_key(*role))
        {
            Some(role) => Err(Refusal::NoRole(role.clone())),
            None => Ok(()),
        }
    }

    /// A deny rule that denies nothing is noticed by nobody, so it is refused; but not what the role has, which can be changed otherwise.
    fn check_placeholders(&self, name: &RoleName, role: &Role) -> Result<(), Refusal> {
        let before = self
            .roles
            .get(name)
            .map_or(&[][..], |role| &role.role().rules);
        for rule in &role.rules {
            if let Some(level) = rule.topic.foreign_placeholder()
                && !before.contains(rule)
            {
                return Err(Refusal::Placeholder {
                    role: name.clone(),
                    rule: Box::new(rule.clone()),
                    level: level.into(),
                });
            }
        }
        Ok(())
    }

    fn check_role_unused(&self, name: &RoleName) -> Result<(), Refusal> {
        if !self.roles.contains_key(name) {
            return Err(Refusal::NoRole(name.clone()));
        }
        let mut owners = self.users().filter(|(_, user)| user.roles.contains(name));
        match owners.next() {
            None => Ok(()),
            Some((user, _)) => Err(Refusal::RoleInUse {
                role: name.clone(),
                user: user.clone(),
                others: owners.count(),
            }),
        }
    }

    /// Whoever could administer before must have a successor: a table without one is closed for good.
    fn check_administrator(&self, command: &Command) -> Result<(), Refusal> {
        if !self.may_take_administrator(command) || !self.has_administrator() {
            return Ok(());
        }
        let is_left = match command {
            // What it is about to be is there already.
            Command::Replace(table) => table.has_administrator(),
            Command::PutUser(..)
            | Command::RemoveUser(_)
            | Command::PutRole(..)
            | Command::RemoveRole(_)
            | Command::PutDomain(..) => {
                let mut after = self.clone();
                after.apply(command);
                after.has_administrator()
            }
        };
        if is_left {
            Ok(())
        } else {
            Err(Refusal::LastAdministrator)
        }
    }

    /// Whether a change is about somebody who may administer, or gives that up for a role: the others need no look at all users.
    fn may_take_administrator(&self, command: &Command) -> bool {
        match command {
            Command::PutUser(name, _) | Command::RemoveUser(name) => {
                self.administration(name.as_str()) == Administration::Full
            }
            Command::PutRole(name, role) => {
                let before = self.roles.get(name).map(|role| role.role().administration);
                before == Some(Administration::Full) && role.administration != Administration::Full
            }
            // Nobody has a role that may be removed.
            Command::RemoveRole(_) | Command::PutDomain(..) => false,
            Command::Replace(_) => true,
        }
    }

    /// A change is left out. It counts as a revision all the same: accounts that are made later keep their numbers.
    pub const fn pass_over(&mut self) {
        self.revision += 1;
    }

    /// Applies a change. Deterministic; a change that says nothing new, or speaks of what is not there, still counts as a revision.
    pub fn apply(&mut self, command: &Command) {
        self.revision += 1;
        let bytes_held = self.bytes_after(command);
        match command {
            Command::PutUser(name, user) => {
                let [since, account] = [self.since_of(name, user), self.account_of(name)];
                self.put_user(name, user, (since, account));
            }
            Command::RemoveUser(name) => {
                self.users.remove_mut(name);
            }
            Command::PutRole(name, role) => {
                let role = Indexed::from(role.clone());
                self.roles.insert_mut(name.clone(), Arc::new(role));
            }
            Command::RemoveRole(name) => {
                self.roles.remove_mut(name);
            }
            Command::PutDomain(name, domain) => {
                // As it was made it is not kept, so that equal tables have equal bytes.
                self.domains.remove(name);
                if *domain != Domain::default() {
                    self.domains.insert(*name, *domain);
                }
            }
            Command::Replace(table) => {
                let before = std::mem::replace(
                    self,
                    Self {
                        revision: self.revision,
                        roles: table.roles.clone(),
                        users: RedBlackTreeMapSync::default(),
                        domains: table.domains.clone(),
                        process: self.process,
                        room: self.room,
                        bytes_held: 0,
                        replaced_at: self.revision,
                    },
                );
                for (name, user) in &table.users {
                    let since = before.since_of(name, user).min(self.revision);
                    self.put_user(name, user, (since, before.account_of(name)));
                }
            }
        }
        self.bytes_held = bytes_held;
    }

    fn put_user(&mut self, name: &UserName, user: &User, (since, account): (u64, u64)) {
        let user = User {
            since,
            account,
            ..user.clone()
        };
        self.users.insert_mut(name.clone(), Arc::new(user));
    }

    /// Who has the name has the account, whatever changes of it.
    fn account_of(&self, name: &UserName) -> u64 {
        self.users
            .get(name)
            .map_or(self.revision, |user| user.account)
    }

    /// A user stays the same to its connections as long as its credentials and its right to come in do.
    fn since_of(&self, name: &UserName, new: &User) -> u64 {
        match self.users.get(name) {
            Some(old)
                if old.password == new.password
                    && old.scram == new.scram
                    && old.state == UserState::Enabled =>
            {
                old.since
            }
            Some(_) | None => self.revision,
        }
    }
}

fn check_role(role: &Role) -> Result<(), Refusal> {
    at_most(role.rules.len(), RULES_MAX, "rules of a role")
}

fn at_most(count: usize, max: usize, what: &'static str) -> Result<(), Refusal> {
    if count <= max {
        Ok(())
    } else {
        Err(Refusal::TooMany { what, max })
    }
}

#[cfg(test)]
mod tests;
