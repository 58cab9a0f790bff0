//! Between the table's users and roles and those of the API.

use courser_access::{
    Administration, Decision, Domain, DomainName, Role, RoleName, Rule, SALT_BYTES, Table, User,
    UserName, UserState,
};
use courser_broker::{Credentials, MakeError};
use rand::TryRng;
use rand::rngs::SysRng;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use zeroize::Zeroizing;

use super::bad;
use crate::AppState;
use crate::api;
use crate::error::{ApiError, Code};
use crate::routes::body::How;

/// How names of limits begin that all clients of a domain have together.
const RETAINED: &str = "retained_";

pub(super) fn user_name(text: &str) -> Result<UserName, ApiError> {
    UserName::new(text).map_err(|error| bad(format!("user {text:?}: {error}")))
}

pub(super) fn role_name(text: &str) -> Result<RoleName, ApiError> {
    RoleName::new(text).map_err(|error| bad(format!("role {text:?}: {error}")))
}

pub(super) fn rule(text: &str) -> Result<Rule, ApiError> {
    text.parse()
        .map_err(|error| bad(format!("rule {text:?}: {error}")))
}

pub(super) fn state(state: api::UserState) -> UserState {
    match state {
        api::UserState::Enabled => UserState::Enabled,
        api::UserState::Disabled => UserState::Disabled,
    }
}

pub(super) fn administration(administration: api::Administration) -> Administration {
    match administration {
        api::Administration::None => Administration::None,
        api::Administration::Read => Administration::Read,
        api::Administration::Full => Administration::Full,
    }
}

fn limits_shown(limits: impl Serialize) -> api::Limits {
    match serde_json::to_value(limits) {
        Ok(Value::Object(fields)) => fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, Some(u32::try_from(value.as_u64()?).ok()?))))
            .collect(),
        Ok(_) | Err(_) => unreachable!("limits are a plain struct"),
    }
}

/// A limit lets something through: 0 stands for no limit in settings, and here for neither.
fn no_zero(whose: &str, limits: &api::Limits) -> Result<(), ApiError> {
    match limits.iter().find(|(_, most)| **most == Some(0)) {
        None => Ok(()),
        Some((name, _)) => Err(bad(format!(
            "{whose}: {name} is 0, and a limit is at least 1: none (null) takes it away"
        ))),
    }
}

/// The same of all that a table sets, which comes as a whole.
pub(super) fn no_zeros(table: &Table) -> Result<(), ApiError> {
    let users = table
        .users()
        .map(|(name, user)| (format!("user {name}"), limits_shown(user.limits)));
    let roles = table
        .roles()
        .map(|(name, role)| (format!("role {name}"), limits_shown(role.limits)));
    let domains = DomainName::ALL.into_iter().map(|name| {
        let shown = domain(name, table.domain(name));
        (format!("domain {name}"), shown.limits)
    });
    for (whose, limits) in users.chain(roles).chain(domains) {
        no_zero(&whose, &limits)?;
    }
    Ok(())
}

/// Limits with some of them another way.
pub(super) fn limits<T: Serialize + DeserializeOwned>(
    before: T,
    change: &api::Limits,
) -> Result<T, ApiError> {
    no_zero("limits", change)?;
    let mut all = limits_shown(before);
    all.extend(change.iter().map(|(name, value)| (name.clone(), *value)));
    let fields = serde_json::to_value(all).map_err(|error| bad(format!("limits: {error}")))?;
    serde_json::from_value(fields).map_err(|error| bad(format!("limits: {error}")))
}

pub(super) fn user(name: &UserName, user: &User) -> api::User {
    api::User {
        name: name.to_string(),
        state: match user.state {
            UserState::Enabled => api::UserState::Enabled,
            UserState::Disabled => api::UserState::Disabled,
        },
        password: user
            .password
            .as_ref()
            .map(|hash| hash.algorithm().to_owned()),
        scram: user.scram.is_some(),
        roles: user.roles.iter().map(ToString::to_string).collect(),
        limits: limits_shown(user.limits),
    }
}

pub(super) fn role(name: &RoleName, role: &Role) -> api::Role {
    api::Role {
        name: name.to_string(),
        administration: match role.administration {
            Administration::None => api::Administration::None,
            Administration::Read => api::Administration::Read,
            Administration::Full => api::Administration::Full,
        },
        rules: role.rules.iter().map(ToString::to_string).collect(),
        limits: limits_shown(role.limits),
    }
}

pub(super) fn domain(name: DomainName, domain: Domain) -> api::Domain {
    let retained = limits_shown(domain.retained).into_iter();
    let retained = retained.map(|(what, most)| (format!("{RETAINED}{what}"), most));
    api::Domain {
        name: name.to_string(),
        limits: limits_shown(domain.limits)
            .into_iter()
            .chain(retained)
            .collect(),
    }
}

/// A domain with some limits another way.
pub(super) fn domain_changed(before: Domain, change: &api::Limits) -> Result<Domain, ApiError> {
    let (mut of_each, mut retained) = (api::Limits::new(), api::Limits::new());
    for (name, most) in change {
        match name.strip_prefix(RETAINED) {
            Some(what) => retained.insert(what.to_owned(), *most),
            None => of_each.insert(name.clone(), *most),
        };
    }
    no_zero("limits", change)?;
    Ok(Domain {
        limits: limits(before.limits, &of_each)?,
        retained: limits(before.retained, &retained)?,
    })
}

/// What became of something, or would, which was the first of these and is the second.
pub(super) fn changed<T: Serialize + PartialEq>(
    how: How,
    name: &impl ToString,
    (before, after): (T, T),
) -> api::Changed {
    let shown = |it: &T| {
        how.dry_run
            .then(|| serde_json::to_value(it).unwrap_or_default())
    };
    let done = match before == after {
        true => "unchanged",
        false => how.said("changed", "would change"),
    };
    api::Changed {
        done: done.to_owned(),
        what: name.to_string(),
        before: shown(&before),
        after: shown(&after),
    }
}

pub(super) fn rule_of(name: &RoleName, number: usize, rule: &Rule) -> api::Rule {
    let text = rule.to_string();
    let mut words = text.splitn(3, ' ').map(str::to_owned);
    let mut word = || words.next().unwrap_or_default();
    api::Rule {
        role: name.to_string(),
        number: number as u32,
        effect: word(),
        action: word(),
        topic: word(),
    }
}

pub(super) fn decision(decision: &Decision) -> api::Decision {
    let by = match decision {
        Decision::ByRule { role, number, rule } => Some((role, number, rule)),
        Decision::NoRule | Decision::NoUser | Decision::Disabled => None,
    };
    api::Decision {
        allowed: decision.verdict().is_allowed(),
        reason: decision.to_string(),
        role: by.map(|(role, ..)| role.to_string()),
        number: by.map(|(_, number, _)| *number as u32),
        rule: by.map(|(.., rule)| rule.to_string()),
    }
}

fn salt() -> Result<[u8; SALT_BYTES], ApiError> {
    let mut salt = [0; SALT_BYTES];
    SysRng.try_fill_bytes(&mut salt).map_err(|error| {
        ApiError::new(
            Code::Unavailable,
            format!("the system gives no random numbers: {error}"),
        )
    })?;
    Ok(salt)
}

/// What is kept of a password: its hash, and SCRAM keys if they are wanted.
pub(super) async fn credentials(
    app: &AppState,
    password: api::Password,
    scram: bool,
) -> Result<Credentials, ApiError> {
    let scram_salt = scram.then(self::salt).transpose()?;
    let text = Zeroizing::new(password.text().as_bytes().to_vec());
    let made = app.control.hash_password(text, salt()?, scram_salt).await;
    made.map_err(|error| match error {
        MakeError::Hash(_) => bad(error),
        MakeError::Unavailable => ApiError::new(Code::Unavailable, error.to_string()),
    })
}
