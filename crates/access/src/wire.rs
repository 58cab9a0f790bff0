//! Changes and tables as bytes of entries and checkpoints: fields can be added, none changes its number.

use std::sync::Arc;

use prost::Message;

use crate::index::Indexed;
use crate::{
    Administration, Command, Domain, DomainName, Effect, Limits, RetainedLimits, Role, RoleName,
    Room, Rule, Scope, Table, User, UserName, UserState,
};

/// Why bytes are no change or table of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Not a message of ours.
    #[error("not in the form of an access entry")]
    Form(#[from] prost::DecodeError),
    /// A field that says what no field of this version says.
    #[error("an access entry has a {0} that this version does not know")]
    Unknown(&'static str),
}

#[derive(Clone, PartialEq, Message)]
struct WireLimits {
    #[prost(uint32, optional, tag = "1")]
    messages_per_second: Option<u32>,
    #[prost(uint32, optional, tag = "2")]
    bytes_per_second: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    subscriptions: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    in_flight: Option<u32>,
    #[prost(uint32, optional, tag = "5")]
    connections: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    queued_messages: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    queued_bytes: Option<u32>,
    #[prost(uint32, optional, tag = "8")]
    queued_seconds: Option<u32>,
    #[prost(uint32, optional, tag = "9")]
    sessions: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireUser {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bool, tag = "2")]
    disabled: bool,
    #[prost(string, optional, tag = "3")]
    password: Option<String>,
    #[prost(string, optional, tag = "4")]
    scram: Option<String>,
    #[prost(string, repeated, tag = "5")]
    roles: Vec<String>,
    #[prost(message, optional, tag = "6")]
    limits: Option<WireLimits>,
    #[prost(uint64, tag = "7")]
    since: u64,
    #[prost(uint64, tag = "8")]
    account: u64,
}

#[derive(Clone, PartialEq, Message)]
struct WireRule {
    /// 1 allow, 2 deny.
    #[prost(uint32, tag = "1")]
    effect: u32,
    /// 1 publish, 2 subscribe, 3 all.
    #[prost(uint32, tag = "2")]
    action: u32,
    #[prost(string, tag = "3")]
    topic: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireRole {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    rules: Vec<WireRule>,
    /// 0 none, 1 read, 2 full.
    #[prost(uint32, tag = "3")]
    administration: u32,
    #[prost(message, optional, tag = "4")]
    limits: Option<WireLimits>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireDomain {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    limits: Option<WireLimits>,
    #[prost(uint32, optional, tag = "3")]
    retained_messages: Option<u32>,
    #[prost(uint32, optional, tag = "4")]
    retained_bytes: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireTable {
    #[prost(uint64, tag = "1")]
    pub(crate) revision: u64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) roles: Vec<WireRole>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) users: Vec<WireUser>,
    /// Those that were changed.
    #[prost(message, repeated, tag = "4")]
    pub(crate) domains: Vec<WireDomain>,
}

#[derive(Clone, PartialEq, Message)]
struct WireCommand {
    #[prost(oneof = "WireChange", tags = "1, 2, 3, 4, 5, 6")]
    change: Option<WireChange>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum WireChange {
    #[prost(message, tag = "1")]
    PutUser(WireUser),
    #[prost(string, tag = "2")]
    RemoveUser(String),
    #[prost(message, tag = "3")]
    PutRole(WireRole),
    #[prost(string, tag = "4")]
    RemoveRole(String),
    #[prost(message, tag = "5")]
    Replace(WireTable),
    #[prost(message, tag = "6")]
    PutDomain(WireDomain),
}

impl Command {
    /// As bytes of an entry.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let change = match self {
            Self::PutUser(name, user) => WireChange::PutUser(wire_user(name, user)),
            Self::RemoveUser(name) => WireChange::RemoveUser(name.to_string()),
            Self::PutRole(name, role) => WireChange::PutRole(wire_role(name, role)),
            Self::RemoveRole(name) => WireChange::RemoveRole(name.to_string()),
            Self::Replace(table) => WireChange::Replace(wire_table(table)),
            Self::PutDomain(name, domain) => WireChange::PutDomain(wire_domain(*name, *domain)),
        };
        let change = Some(change);
        WireCommand { change }.encode_to_vec()
    }

    /// Out of bytes of an entry.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let change = WireCommand::decode(bytes)?.change;
        Ok(match change.ok_or(WireError::Unknown("change"))? {
            WireChange::PutUser(user) => {
                let (name, user) = user_of(user)?;
                Self::PutUser(name, user)
            }
            WireChange::RemoveUser(name) => Self::RemoveUser(user_name(&name)?),
            WireChange::PutRole(role) => {
                let (name, role) = role_of(role)?;
                Self::PutRole(name, role)
            }
            WireChange::RemoveRole(name) => Self::RemoveRole(role_name(&name)?),
            WireChange::Replace(table) => Self::Replace(Box::new(table_of(table)?)),
            WireChange::PutDomain(domain) => {
                let (name, domain) = domain_of(domain)?;
                Self::PutDomain(name, domain)
            }
        })
    }
}

impl Table {
    /// As bytes of a checkpoint: the same for the same table.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        wire_table(self).encode_to_vec()
    }

    /// Out of bytes of a checkpoint.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        table_of(WireTable::decode(bytes)?)
    }
}

fn wire_limits(limits: Limits) -> Option<WireLimits> {
    let Limits {
        messages_per_second,
        bytes_per_second,
        subscriptions,
        in_flight,
        connections,
        queued_messages,
        queued_bytes,
        queued_seconds,
        sessions,
    } = limits;
    (limits != Limits::default()).then_some(WireLimits {
        messages_per_second,
        bytes_per_second,
        subscriptions,
        in_flight,
        connections,
        queued_messages,
        queued_bytes,
        queued_seconds,
        sessions,
    })
}

fn limits_of(limits: Option<WireLimits>) -> Limits {
    limits.map_or(Limits::default(), |limits| Limits {
        messages_per_second: limits.messages_per_second,
        bytes_per_second: limits.bytes_per_second,
        subscriptions: limits.subscriptions,
        in_flight: limits.in_flight,
        connections: limits.connections,
        queued_messages: limits.queued_messages,
        queued_bytes: limits.queued_bytes,
        queued_seconds: limits.queued_seconds,
        sessions: limits.sessions,
    })
}

pub(crate) fn wire_user(name: &UserName, user: &User) -> WireUser {
    WireUser {
        name: name.to_string(),
        disabled: user.state == UserState::Disabled,
        password: user.password.as_ref().map(ToString::to_string),
        scram: user.scram.as_ref().map(ToString::to_string),
        roles: user.roles.iter().map(ToString::to_string).collect(),
        limits: wire_limits(user.limits),
        since: user.since,
        account: user.account,
    }
}

fn user_of(user: WireUser) -> Result<(UserName, User), WireError> {
    let unknown = |what| move |_| WireError::Unknown(what);
    let password = user.password.map(|text| text.parse()).transpose();
    let scram = user.scram.map(|text| text.parse()).transpose();
    let roles = user.roles.iter().map(|name| role_name(name));
    Ok((
        user_name(&user.name)?,
        User {
            state: if user.disabled {
                UserState::Disabled
            } else {
                UserState::Enabled
            },
            password: password.map_err(unknown("password hash"))?,
            scram: scram.map_err(|_| WireError::Unknown("SCRAM key"))?,
            roles: roles.collect::<Result<_, _>>()?,
            limits: limits_of(user.limits),
            since: user.since,
            account: user.account,
        },
    ))
}

pub(crate) fn wire_role(name: &RoleName, role: &Role) -> WireRole {
    let rules = role.rules.iter().map(|rule| WireRule {
        effect: match rule.effect {
            Effect::Allow => 1,
            Effect::Deny => 2,
        },
        action: match rule.action {
            Scope::Publish => 1,
            Scope::Subscribe => 2,
            Scope::All => 3,
        },
        topic: rule.topic.to_string(),
    });
    WireRole {
        name: name.to_string(),
        rules: rules.collect(),
        administration: match role.administration {
            Administration::None => 0,
            Administration::Read => 1,
            Administration::Full => 2,
        },
        limits: wire_limits(role.limits),
    }
}

fn role_of(role: WireRole) -> Result<(RoleName, Role), WireError> {
    let rules = role.rules.iter().map(rule_of);
    Ok((
        role_name(&role.name)?,
        Role {
            rules: rules.collect::<Result<_, _>>()?,
            administration: match role.administration {
                0 => Administration::None,
                1 => Administration::Read,
                2 => Administration::Full,
                _ => return Err(WireError::Unknown("administration")),
            },
            limits: limits_of(role.limits),
        },
    ))
}

fn rule_of(rule: &WireRule) -> Result<Rule, WireError> {
    Ok(Rule {
        effect: match rule.effect {
            1 => Effect::Allow,
            2 => Effect::Deny,
            _ => return Err(WireError::Unknown("effect")),
        },
        action: match rule.action {
            1 => Scope::Publish,
            2 => Scope::Subscribe,
            3 => Scope::All,
            _ => return Err(WireError::Unknown("action")),
        },
        topic: rule
            .topic
            .parse()
            .map_err(|_| WireError::Unknown("topic pattern"))?,
    })
}

pub(crate) fn wire_domain(name: DomainName, domain: Domain) -> WireDomain {
    WireDomain {
        name: name.as_str().to_owned(),
        limits: wire_limits(domain.limits),
        retained_messages: domain.retained.messages,
        retained_bytes: domain.retained.bytes,
    }
}

fn domain_of(domain: WireDomain) -> Result<(DomainName, Domain), WireError> {
    let name = DomainName::new(&domain.name).ok_or(WireError::Unknown("domain"))?;
    let retained = RetainedLimits {
        messages: domain.retained_messages,
        bytes: domain.retained_bytes,
    };
    let limits = limits_of(domain.limits);
    Ok((name, Domain { limits, retained }))
}

fn wire_table(table: &Table) -> WireTable {
    let domains = table
        .domains
        .iter()
        .map(|(name, it)| wire_domain(*name, *it));
    let roles = table.roles().map(|(name, role)| wire_role(name, role));
    let users = table.users().map(|(name, user)| wire_user(name, user));
    WireTable {
        revision: table.revision,
        roles: roles.collect(),
        users: users.collect(),
        domains: domains.collect(),
    }
}

fn table_of(table: WireTable) -> Result<Table, WireError> {
    let roles = table.roles.into_iter().map(role_of);
    let users = table.users.into_iter().map(user_of);
    let domains = table.domains.into_iter().map(domain_of);
    let mut table = Table {
        domains: domains.collect::<Result<_, _>>()?,
        process: Limits::default(),
        room: Room::default(),
        bytes_held: 0,
        replaced_at: 0,
        revision: table.revision,
        roles: roles
            .map(|it| it.map(|(name, role)| (name, Arc::new(Indexed::from(role)))))
            .collect::<Result<_, _>>()?,
        users: users
            .map(|it| it.map(|(name, user)| (name, Arc::new(user))))
            .collect::<Result<_, _>>()?,
    };
    table.bytes_held = table.count_bytes();
    Ok(table)
}

fn user_name(text: &str) -> Result<UserName, WireError> {
    UserName::new(text).map_err(|_| WireError::Unknown("user name"))
}

fn role_name(text: &str) -> Result<RoleName, WireError> {
    RoleName::new(text).map_err(|_| WireError::Unknown("role name"))
}
