//! Users, roles and rules, as they go over the wire.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

/// Limits by name, as in docs/security.md; none: not limited here.
pub type Limits = BTreeMap<String, Option<u32>>;

/// Whether a user may come in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UserState {
    /// Yes.
    #[default]
    Enabled,
    /// No, and its connections have ended.
    Disabled,
}

/// What a role may do with the interface of operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Administration {
    /// Nothing.
    #[default]
    None,
    /// Look at everything.
    Read,
    /// Change everything.
    Full,
}

/// A password on its way in. Never on its way out.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(from = "String")]
#[schema(value_type = String)]
pub struct Password(Zeroizing<String>);

impl From<String> for Password {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(…)")
    }
}

impl Password {
    /// Its text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// A user. What it proves itself with is not shown, only of what kind it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct User {
    /// Its name, as in CONNECT.
    pub name: String,
    /// Whether it may come in.
    pub state: UserState,
    /// `argon2id` or `pbkdf2-sha512`; none: it cannot log in with a password.
    pub password: Option<String>,
    /// Whether it can log in by SCRAM-SHA-256.
    pub scram: bool,
    /// Its roles.
    pub roles: Vec<String>,
    /// Its limits, beside those of its roles.
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// A user that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewUser {
    /// Its name: 1 to 256 bytes without control characters.
    pub name: String,
    /// Its password.
    #[serde(default)]
    pub password: Option<Password>,
    /// Instead of a password its hash, `$argon2id$…` or `$7$…` of mosquitto_passwd.
    #[serde(default)]
    pub password_hash: Option<Password>,
    /// Whether it may log in by SCRAM-SHA-256 with the password.
    #[serde(default)]
    pub scram: bool,
    /// Whether it may come in.
    #[serde(default)]
    pub state: UserState,
    /// Its roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Its limits.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// What is to be another way with a user; what is not named stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct UserChange {
    /// Whether it may come in.
    pub state: Option<UserState>,
    /// Roles that it gets.
    pub add_roles: Vec<String>,
    /// Roles that it loses; those that it does not have are not missed.
    pub remove_roles: Vec<String>,
    /// Limits that it gets, and with null loses.
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// Another password.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPassword {
    /// The password; none: the user cannot log in with one any more.
    pub password: Option<Password>,
    /// Whether it may log in by SCRAM-SHA-256 with it.
    #[serde(default)]
    pub scram: bool,
}

/// A role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// What it may do with the interface of operators.
    pub administration: Administration,
    /// Its rules, as `allow publish sensors/%c/#`.
    pub rules: Vec<String>,
    /// Limits of everybody who has it.
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// A role that is to be made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRole {
    /// Its name: 1 to 64 letters, digits, `.`, `-` and `_`.
    pub name: String,
    /// What it may do with the interface of operators.
    #[serde(default)]
    pub administration: Administration,
    /// Its rules.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Limits of everybody who has it.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// What is to be another way with a role; what is not named stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoleChange {
    /// What it may do with the interface of operators.
    pub administration: Option<Administration>,
    /// Rules that it gets; those that it has already stay.
    pub add_rules: Vec<String>,
    /// Rules that it loses; they must be there.
    pub remove_rules: Vec<String>,
    /// Limits that it gets, and with null loses.
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Limits of everybody in it for whom neither user nor roles say something else, and of what all of them together may have retained.
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// What is to be another way with a domain; what is not named stays.
#[derive(Clone, Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DomainChange {
    /// Limits that it gets, and with null loses.
    #[schema(value_type = Object)]
    pub limits: Limits,
}

/// A rule of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rule {
    /// The role.
    pub role: String,
    /// Its place there, from 1.
    pub number: u32,
    /// `allow` or `deny`.
    pub effect: String,
    /// `publish`, `subscribe` or `all`.
    pub action: String,
    /// Which topics.
    pub topic: String,
}

/// What is decided of something that a user wants, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Whether it may.
    pub allowed: bool,
    /// Why, in words.
    pub reason: String,
    /// The role of the rule that decides; none: no rule does.
    pub role: Option<String>,
    /// The place of the rule in the role, from 1.
    pub number: Option<u32>,
    /// The rule.
    pub rule: Option<String>,
}

/// What an import changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Imported {
    /// Whether it was only asked what it would change.
    pub dry_run: bool,
    /// Users that there were not.
    pub users_added: u64,
    /// Users that are another way.
    pub users_changed: u64,
    /// Users that there are no more: their connections and sessions end.
    pub users_removed: u64,
    /// Roles that there were not.
    pub roles_added: u64,
    /// Roles that are another way.
    pub roles_changed: u64,
    /// Roles that there are no more.
    pub roles_removed: u64,
    /// Domains that are another way.
    pub domains_changed: u64,
}
