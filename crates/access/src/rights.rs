//! What one client may do.

use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use smallvec::SmallVec;

use self::decisions::{Decisions, TopicHash};
use crate::index::{Indexed, Way};
use crate::rule::Deed;
use crate::{Effect, Limits, RoleName, Rule, Table, UserName, UserState};

mod decisions;

/// Who somebody has proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// The user.
    pub user: UserName,
    /// Roles that a token gave, besides those that the table gives the user, who need not be in it. None: it was no token.
    pub granted: Option<Arc<[RoleName]>>,
}

impl From<UserName> for Principal {
    fn from(user: UserName) -> Self {
        Self {
            user,
            granted: None,
        }
    }
}

impl Principal {
    /// Roles that it has from elsewhere than the table.
    fn granted_roles(&self) -> &[RoleName] {
        self.granted.as_deref().unwrap_or_default()
    }

    /// Limits that a table sets for it.
    #[must_use]
    pub fn limits(&self, table: &Table) -> Limits {
        table.limits_with(self.user.as_str(), self.granted_roles())
    }
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    client_id: CompactString,
    principal: Principal,
    /// Whether they can stand for a level of a topic.
    client_id_is_level: bool,
    user_is_level: bool,
}

impl Identity {
    /// Of this client id and user.
    #[must_use]
    pub fn new(client_id: &str, who: impl Into<Principal>) -> Self {
        let principal = who.into();
        Self {
            client_id_is_level: is_level(client_id),
            user_is_level: is_level(principal.user.as_str()),
            client_id: client_id.into(),
            principal,
        }
    }

    /// The user.
    #[must_use]
    pub const fn user(&self) -> &UserName {
        &self.principal.user
    }

    /// The user, and what a token gave it.
    #[must_use]
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The client id.
    #[must_use]
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    pub(crate) fn client_id_level(&self) -> Option<&str> {
        self.client_id_is_level.then_some(&*self.client_id)
    }

    pub(crate) fn user_level(&self) -> Option<&str> {
        self.user_is_level.then_some(self.principal.user.as_str())
    }
}

/// A name with a character that means something in filters stands for no level: it never widens a rule.
fn is_level(name: &str) -> bool {
    !name.is_empty() && !name.contains(['/', '+', '#']) && !name.contains(char::is_control)
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Go on.
    Allowed,
    /// No.
    Denied,
}

impl Verdict {
    /// Whether it is [`Verdict::Allowed`].
    #[must_use]
    pub const fn is_allowed(self) -> bool {
        matches!(self, Self::Allowed)
    }
}

/// Who reads a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// The one client.
    Own,
    /// A group.
    Shared,
}

/// Whether who has logged in may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Yes.
    Valid,
    /// Its user is gone.
    NoUser,
    /// Its user is disabled.
    Disabled,
    /// Its user has other credentials than those that it proved.
    OtherCredentials,
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// By this rule of this role.
    ByRule {
        /// The role.
        role: RoleName,
        /// Place in the role, from 1.
        number: usize,
        /// The rule.
        rule: Rule,
    },
    /// No rule speaks of it.
    NoRule,
    /// The user does not exist.
    NoUser,
    /// The user may not come in.
    Disabled,
}

impl Decision {
    /// What it comes to.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::ByRule { rule, .. } => match rule.effect {
                Effect::Allow => Verdict::Allowed,
                Effect::Deny => Verdict::Denied,
            },
            Self::NoRule | Self::NoUser | Self::Disabled => Verdict::Denied,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict() {
            Verdict::Allowed => "allowed",
            Verdict::Denied => "denied",
        };
        match self {
            Self::ByRule { role, number, rule } => {
                write!(f, "{verdict} by rule {number} of role {role}: {rule}")
            }
            Self::NoRule => write!(f, "{verdict}: no rule allows it"),
            Self::NoUser => write!(f, "{verdict}: there is no such user"),
            Self::Disabled => write!(f, "{verdict}: the user is disabled"),
        }
    }
}

/// What was decided, with the rule where it stands.
enum Found<'a> {
    Rule {
        role: &'a RoleName,
        /// From 0.
        place: usize,
        rule: &'a Rule,
    },
    NoRule,
    /// Nothing is allowed.
    Refused,
}

impl Found<'_> {
    const fn verdict(&self) -> Verdict {
        match self {
            Self::Rule { rule, .. } => match rule.effect {
                Effect::Allow => Verdict::Allowed,
                Effect::Deny => Verdict::Denied,
            },
            Self::NoRule | Self::Refused => Verdict::Denied,
        }
    }
}

/// What rules are held against.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Topic(&'a str),
    Filter(&'a str, Sharing),
}

impl<'a> Asked<'a> {
    const fn text(self) -> &'a str {
        match self {
            Self::Topic(text) | Self::Filter(text, _) => text,
        }
    }

    /// What a rule of this effect must do with it to speak of it.
    const fn way(self, effect: Effect) -> Way {
        match (self, effect) {
            (Self::Topic(_), _) => Way::Matching,
            (Self::Filter(_, Sharing::Shared), Effect::Deny) => Way::Meeting,
            (Self::Filter(_, Sharing::Own), Effect::Deny) | (Self::Filter(..), Effect::Allow) => {
                Way::Covering
            }
        }
    }
}

/// Roles of a user.
type Roles = SmallVec<[(RoleName, Arc<Indexed>); 2]>;

/// What one client may do by one table. Decisions of topics are kept; a changed table makes new rights.
#[derive(Debug)]
pub struct Rights {
    who: Identity,
    /// None: the user may not be here at all, so nothing is allowed.
    roles: Option<Roles>,
    limits: Limits,
    /// [`crate::User::since`] of the user.
    since: u64,
    /// [`crate::User::account`] of the user; none: it came with a token, or there is no such user.
    account: Option<u64>,
    refused: Decision,
    kept: Decisions,
}

impl Rights {
    /// Of a client by a table. Nothing is allowed to a user that is disabled in it, or that is not in it and came without a token.
    #[must_use]
    pub fn new(table: &Table, who: Identity) -> Self {
        let user = table.user(who.user().as_str());
        let may_be_here = match user {
            Some(user) => user.state == UserState::Enabled,
            None => who.principal.granted.is_some(),
        };
        let roles = may_be_here.then(|| {
            let of_user = user.map(|user| &user.roles);
            let is_new = |role: &&RoleName| of_user.is_none_or(|mine| !mine.contains(*role));
            let granted = who.principal.granted_roles().iter().filter(is_new);
            let names = of_user.into_iter().flatten().chain(granted);
            names
                .filter_map(|name| Some((name.clone(), Arc::clone(table.roles.get(name)?))))
                .collect::<Roles>()
        });
        let limits = who.principal.limits(table);
        Self {
            since: user.map_or(0, |user| user.since),
            account: user
                .filter(|_| who.principal.granted.is_none())
                .map(|user| user.account),
            refused: user.map_or(Decision::NoUser, |_| Decision::Disabled),
            roles,
            limits,
            who,
            kept: Decisions::default(),
        }
    }

    /// The same client by a newer table.
    #[must_use]
    pub fn renewed(&self, table: &Table) -> Self {
        Self::new(table, self.who.clone())
    }

    /// What a newer table says to what the client proved at its login. A token is as good as it was, whatever credentials its user has
    /// here; only who is disabled may not be here by one.
    #[must_use]
    pub fn standing_in(&self, table: &Table) -> Standing {
        let by_token = self.who.principal.granted.is_some();
        match table.user(self.who.user().as_str()) {
            None if by_token => Standing::Valid,
            None => Standing::NoUser,
            Some(user) if user.state == UserState::Disabled => Standing::Disabled,
            Some(user) if by_token || user.since == self.since => Standing::Valid,
            Some(_) => Standing::OtherCredentials,
        }
    }

    /// Who it is.
    #[must_use]
    pub const fn who(&self) -> &Identity {
        &self.who
    }

    /// Number of the account by which it is here. None: it came with a token, whose issuer vouches for it.
    #[must_use]
    pub const fn account(&self) -> Option<u64> {
        self.account
    }

    /// Limits of the user and its roles.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Whether it may publish to a topic. A topic asked for before: some 20 ns.
    #[inline]
    pub fn may_publish(&mut self, topic: &str) -> Verdict {
        self.may(topic, Deed::Publish)
    }

    /// Whether it may get a message of a topic. A topic asked for before: some 20 ns.
    #[inline]
    pub fn may_receive(&mut self, topic: &str) -> Verdict {
        self.may(topic, Deed::Receive)
    }

    #[inline]
    fn may(&mut self, topic: &str, deed: Deed) -> Verdict {
        let hash = TopicHash::of(topic);
        match self.kept.get(hash, deed) {
            Some(verdict) => verdict,
            None => self.look(topic, hash, deed),
        }
    }

    /// Gives back the memory of decisions that are kept; each topic is decided again when it is asked for. Cost: freeing it.
    pub fn forget_decisions(&mut self) {
        self.kept.forget();
    }

    /// Whether it may subscribe to a filter; of a shared subscription the filter behind the share name.
    #[must_use]
    pub fn may_subscribe(&self, filter: &str, sharing: Sharing) -> Verdict {
        let asked = Asked::Filter(filter, sharing);
        self.decide(Deed::Receive, asked).verdict()
    }

    #[cold]
    fn look(&mut self, topic: &str, hash: TopicHash, deed: Deed) -> Verdict {
        let verdict = self.decide(deed, Asked::Topic(topic)).verdict();
        self.kept.keep(hash, deed, verdict);
        verdict
    }

    /// Why it may, or may not, publish to a topic.
    #[must_use]
    pub fn explain_publish(&self, topic: &str) -> Decision {
        self.explain(Deed::Publish, Asked::Topic(topic))
    }

    /// Why it may, or may not, get messages of a topic.
    #[must_use]
    pub fn explain_receive(&self, topic: &str) -> Decision {
        self.explain(Deed::Receive, Asked::Topic(topic))
    }

    /// Why it may, or may not, subscribe to a filter.
    #[must_use]
    pub fn explain_subscribe(&self, filter: &str, sharing: Sharing) -> Decision {
        self.explain(Deed::Receive, Asked::Filter(filter, sharing))
    }

    fn explain(&self, deed: Deed, asked: Asked<'_>) -> Decision {
        match self.decide(deed, asked) {
            Found::Rule { role, place, rule } => Decision::ByRule {
                role: role.clone(),
                number: place + 1,
                rule: rule.clone(),
            },
            Found::NoRule => Decision::NoRule,
            Found::Refused => self.refused.clone(),
        }
    }

    /// The first denying rule that speaks of it, else the first allowing one: of the first role that has one. Allocates nothing.
    fn decide(&self, deed: Deed, asked: Asked<'_>) -> Found<'_> {
        let Some(roles) = &self.roles else {
            return Found::Refused;
        };
        let text = asked.text();
        for effect in [Effect::Deny, Effect::Allow] {
            let way = asked.way(effect);
            for (name, role) in roles {
                let rules = &role.role().rules[..];
                let speaks = |place: usize| {
                    let rule: &Rule = &rules[place];
                    rule.action.is_about(deed) && way.speaks(&rule.topic, text, &self.who)
                };
                if let Some(place) = role.index(effect).first(way, text, speaks) {
                    return Found::Rule {
                        role: name,
                        place,
                        rule: &rules[place],
                    };
                }
            }
        }
        Found::NoRule
    }
}

#[cfg(test)]
mod tests;
