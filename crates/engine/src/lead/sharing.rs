//! Shared subscriptions on their way between homes and groups (M35, M36).

use std::collections::BTreeMap;

use courser_contract::{JoinResult, SubscriptionOptions};
use hashbrown::HashMap;

use super::{Hasher, Subscribing, Unsubscribing};
use crate::{group::Fact, session::Subscribed, share::Parts};

/// What is under way of shared subscriptions, of sessions that live here and of groups that do.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    pub(crate) open_joins: HashMap<u64, OpenJoin, Hasher>,
    /// Answers of groups that no SUBACK has taken yet.
    pub(crate) join_answers: HashMap<u64, JoinResult, Hasher>,
    /// SUBSCRIBEs that wait for shared groups.
    pub(crate) joining: Vec<Subscribing>,
    /// UNSUBSCRIBEs that wait for shared groups.
    pub(crate) leaving: Vec<Unsubscribing>,
    /// Groups that are proposed, by share name and filter.
    pub(crate) making: BTreeMap<(Box<str>, Box<str>), u64>,
    /// Groups in two parts.
    pub(crate) parts: Parts,
    /// Facts about a group that are on their way into the entry.
    pub(crate) facts: Vec<Fact>,
    /// Connections of members, over all groups.
    pub(crate) fronts: usize,
}

/// A shared subscription that waits for its group.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) request: u64,
    /// Place in the results of the SUBSCRIBE.
    pub(crate) at: usize,
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    /// What the session had asked of this group before: it stays, when the group refuses.
    pub(crate) before: Option<Asked>,
}

/// What a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) options: SubscriptionOptions,
    pub(crate) identifier: Option<u32>,
}

impl Asked {
    pub(crate) const fn of(subscribed: &Subscribed) -> Self {
        Self {
            options: subscribed.options,
            identifier: subscribed.identifier,
        }
    }
}

/// A question to a group.
#[derive(Debug)]
pub(crate) struct OpenJoin {
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    pub(crate) awaited: Awaited,
}

/// Who waits for the answer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A SUBACK.
    BySuback,
    /// Nobody: a new leader asks again.
    ByNobody,
}
