//! Users, roles and domains at one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;
use serde::{Deserialize, Serialize};

use crate::index::Indexed;
use crate::scram::ScramKeys;
use crate::{DomainName, Limits, PasswordHash, RetainedLimits, RoleName, Room, Rule, UserName};

/// Most users.
pub(crate) const USERS_MAX: usize = 1_000_000;
/// Most roles.
pub(crate) const ROLES_MAX: usize = 10_000;
/// Most rules of a role.
pub(crate) const RULES_MAX: usize = 1_000;
/// Most roles of a user.
pub(crate) const USER_ROLES_MAX: usize = 64;

/// Whether a user may come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UserState {
    /// Yes.
    #[default]
    Enabled,
    /// No, and its connections have ended.
    Disabled,
}

/// What a role may do with the admin interface; what is greater includes what is less.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Administration {
    /// Nothing.
    #[default]
    None,
    /// May look at everything.
    Read,
    /// May change everything.
    Full,
}

/// A user. `Debug` shows no secrets: hashes and keys print as such.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct User {
    /// Whether it may come in.
    pub state: UserState,
    /// What its password is compared with. None: it cannot log in with a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<PasswordHash>,
    /// What its SCRAM-SHA-256 proofs are compared with. None: it cannot log in by SCRAM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scram: Option<ScramKeys>,
    /// Its roles; what any of them allows, and none denies, it may.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<RoleName>,
    /// Its limits, beside those of its roles.
    pub limits: Limits,
    /// Revision of the table since which what it proved at login has been true: connections that logged in before it end. Set by
    /// [`Table::apply`].
    #[serde(skip)]
    pub since: u64,
    /// Number of its account: revision of the table by which it was made. Who is removed and made again has the name and another number.
    /// 0: it was made by a version that did not count. Set by [`Table::apply`].
    #[serde(skip)]
    pub account: u64,
}

/// A role.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Role {
    /// What it allows and denies.
    pub rules: Vec<Rule>,
    /// Whether it may administer.
    pub administration: Administration,
    /// Limits of everybody who has it.
    pub limits: Limits,
}

/// A domain: what lives together, with limits of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Domain {
    /// Limits of everybody in it for whom neither user nor roles say something else.
    pub limits: Limits,
    /// What all of them together may have retained.
    #[serde(skip_serializing_if = "RetainedLimits::is_none")]
    pub retained: RetainedLimits,
}

/// Users, roles and domains at one moment. Cloning shares users and roles, and a change of one copies what leads to it: a table may
/// have a million users, and a copy of it goes to the shards with each change.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Table {
    /// Grows with each change.
    #[serde(skip)]
    pub(crate) revision: u64,
    /// By name.
    pub(crate) roles: RedBlackTreeMapSync<RoleName, Arc<Indexed>>,
    /// By name.
    pub(crate) users: RedBlackTreeMapSync<UserName, Arc<User>>,
    /// Those that are not as they were made.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) domains: BTreeMap<DomainName, Domain>,
    /// Of everybody for whom nothing above says something else. Configuration of this process: no part of what is kept.
    #[serde(skip)]
    pub(crate) process: Limits,
    /// What this process has room for, the same way.
    #[serde(skip)]
    pub(crate) room: Room,
    /// What its users and roles take of memory. Kept by [`Table::apply`]; 0 in a table as it was read from an export.
    #[serde(skip)]
    pub(crate) bytes_held: u64,
    /// Revision by which all of it was replaced last, as far as this process knows. Says whose memory is shared, and no part of what is kept.
    #[serde(skip)]
    pub(crate) replaced_at: u64,
}

impl PartialEq for Table {
    /// What it takes follows from what it says, and what there is room for is said of no table.
    fn eq(&self, other: &Self) -> bool {
        let Self {
            revision,
            roles,
            users,
            domains,
            process,
            room: _,
            bytes_held: _,
            replaced_at: _,
        } = self;
        *revision == other.revision
            && *roles == other.roles
            && *users == other.users
            && *domains == other.domains
            && *process == other.process
    }
}

impl Eq for Table {}

impl Table {
    /// Number of the last change; 0 before the first.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether this table and another one, of the same history, have the memory of most users and roles in common: none of them was replaced as
    /// a whole since the other. To drop the last one of those that have costs some 200 ns a user, and to drop another one next to nothing.
    #[must_use]
    pub const fn shares_memory_with(&self, other: &Self) -> bool {
        self.replaced_at == other.replaced_at
    }

    /// The same table with these limits for everybody for whom it says nothing itself: those of the process's settings.
    #[must_use]
    pub fn with_process(mut self, limits: Limits) -> Self {
        self.process = limits;
        self
    }

    /// Limits of everybody for whom it says nothing itself.
    #[must_use]
    pub const fn process(&self) -> Limits {
        self.process
    }

    /// Limits of who has neither user nor roles: those of the domain, else those of the process.
    #[must_use]
    pub fn everybody(&self) -> Limits {
        self.domain(DomainName::Default).limits.or(self.process)
    }

    /// A user.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// A role.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(|role| role.role())
    }

    /// All users by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = (&UserName, &User)> {
        self.users.iter().map(|(name, user)| (name, &**user))
    }

    /// All roles by name.
    pub fn roles(&self) -> impl ExactSizeIterator<Item = (&RoleName, &Role)> {
        self.roles.iter().map(|(name, role)| (name, role.role()))
    }

    /// What a user may do with the admin interface: the most that one of its roles allows. Nothing if it is unknown or disabled.
    #[must_use]
    pub fn administration(&self, user: &str) -> Administration {
        let Some(user) = self.user(user) else {
            return Administration::None;
        };
        if user.state == UserState::Disabled {
            return Administration::None;
        }
        let roles = user.roles.iter().filter_map(|role| self.roles.get(role));
        let mine = roles.map(|role| role.role().administration);
        mine.max().unwrap_or_default()
    }

    /// A domain.
    #[must_use]
    pub fn domain(&self, name: DomainName) -> Domain {
        self.domains.get(&name).copied().unwrap_or_default()
    }

    /// What may be retained of the domain in which MQTT lives.
    #[must_use]
    pub fn retained(&self) -> RetainedLimits {
        self.domain(DomainName::Default).retained
    }

    /// Limits of a user, each by itself: its own, else the smallest of its roles, else the one of its domain, else the one of the process.
    #[must_use]
    pub fn limits(&self, user: &str) -> Limits {
        self.limits_with(user, &[])
    }

    /// The same of a user, in the table or not, that has more roles.
    pub(crate) fn limits_with(&self, user: &str, more: &[RoleName]) -> Limits {
        let user = self.user(user);
        let own = user.map_or_else(Limits::default, |user| user.limits);
        let names = user.into_iter().flat_map(|user| &user.roles).chain(more);
        let roles = names.filter_map(|role| self.roles.get(role));
        let of_roles = roles.fold(Limits::default(), |sum, role| sum.and(role.role().limits));
        own.or(of_roles).or(self.everybody())
    }

    /// Whether somebody could change this table: an enabled user with a password and full administration. SCRAM does not count, for operators
    /// cannot log in by it.
    #[must_use]
    pub fn has_administrator(&self) -> bool {
        self.users.iter().any(|(name, user)| {
            user.password.is_some() && self.administration(name.as_str()) == Administration::Full
        })
    }
}
