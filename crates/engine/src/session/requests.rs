//! SUBSCRIBE and UNSUBSCRIBE of a session, one behind the other where they name the same.
//!
//! What a request finds is what is applied. So one that names what an earlier one names, which is not answered yet, waits for it: a client need
//! not wait for SUBACK before it unsubscribes (v5 [MQTT-3.10.4-2]). All others are under way together.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;

use courser_contract::{Epoch, PartitionEffects, RequestPart, SessionUid, Subscription};
use hashbrown::{HashMap, HashSet};

use super::Sizes;
use crate::{Partition, lead::Lead, planted::PlantedPartition};

/// Requests that are looked at for one that need not wait; a client that sends more behind those waits for them.
const LOOKED_AT: usize = 64;

/// Seeded: clients choose the names.
type Hasher = foldhash::fast::RandomState;

/// Share name and filter.
pub(crate) type Name = (Option<Box<str>>, Box<str>);

/// A part of a SUBSCRIBE or UNSUBSCRIBE.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) epoch: Epoch,
    pub(crate) part: RequestPart,
    pub(crate) what: Wanted,
}

/// What a request wants.
#[derive(Debug)]
pub(crate) enum Wanted {
    Subscribe(Vec<Subscription>),
    Unsubscribe(Vec<Name>),
}

/// What a request that is under way has to give back with its answer.
#[derive(Debug)]
pub(crate) struct Held {
    names: Vec<u64>,
    ends: bool,
}

/// Requests of a session that are not answered.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    /// How often each name is in one that is under way, by its hash: where two names have one, a request waits that need not.
    names: HashMap<u64, u32, Hasher>,
    /// UNSUBSCRIBEs under way: they make room.
    ends: u32,
    /// Subscriptions that are proposed and not yet made.
    pub(super) reserved: Sizes,
    waiting: VecDeque<(Request, Held)>,
    /// Somebody goes through `waiting`.
    is_busy: bool,
}

impl Wanted {
    fn hold(&self, hasher: &Hasher) -> Held {
        let hash =
            |share: &Option<Box<str>>, filter: &str| hasher.hash_one((share.as_deref(), filter));
        let (names, ends) = match self {
            Self::Subscribe(wanted) => {
                let names = wanted.iter().map(|it| hash(&it.share, &it.filter));
                (names.collect(), false)
            }
            Self::Unsubscribe(names) => {
                let names = names.iter().map(|(share, filter)| hash(share, filter));
                (names.collect(), true)
            }
        };
        Held { names, ends }
    }
}

impl OpenRequests {
    fn take(&mut self, held: &Held) {
        for name in &held.names {
            *self.names.entry(*name).or_default() += 1;
        }
        self.ends += u32::from(held.ends);
    }

    fn give_back(&mut self, held: &Held) {
        for name in &held.names {
            if let Some(count) = self.names.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(name);
                }
            }
        }
        self.ends -= u32::from(held.ends);
    }

    fn has_any(&self, held: &Held) -> bool {
        held.names.iter().any(|name| self.names.contains_key(name))
    }

    /// Place of the oldest that names nothing of an earlier one; a session that has so much may have so much.
    fn first_ready(&self, (has, most): (Sizes, Sizes)) -> Option<usize> {
        let mut passed = HashSet::<u64, Hasher>::default();
        let mut ends = self.ends;
        let waiting = self.waiting.iter().take(LOOKED_AT);
        for (at, (request, held)) in waiting.enumerate() {
            let needs_room = match &request.what {
                Wanted::Subscribe(wanted) => ends > 0 && !(has + sizes_of(wanted)).fits(most),
                Wanted::Unsubscribe(_) => false,
            };
            let is_passed = held.names.iter().any(|name| passed.contains(name));
            if !needs_room && !is_passed && !self.has_any(held) {
                return Some(at);
            }
            passed.extend(&held.names);
            ends += u32::from(held.ends);
        }
        None
    }

    fn are_none(&self) -> bool {
        self.names.is_empty() && self.ends == 0 && self.waiting.is_empty()
    }
}

impl Partition {
    /// A part of a SUBSCRIBE or UNSUBSCRIBE has come.
    pub(crate) fn request(
        &mut self,
        uid: SessionUid,
        request: Request,
        fx: &mut impl PartitionEffects,
    ) {
        if self.session_of(uid, request.epoch).is_none() {
            return;
        }
        let open = self.lead.open_requests.entry(uid.0).or_default();
        let held = request.what.hold(open.names.hasher());
        open.waiting.push_back((request, held));
        self.go_on_with_requests(uid, fx);
    }

    /// A request is answered: what it named is free.
    pub(crate) fn request_answered(
        &mut self,
        uid: SessionUid,
        held: &Held,
        fx: &mut impl PartitionEffects,
    ) {
        if let Some(open) = self.lead.open_requests.get_mut(&uid.0) {
            open.give_back(held);
            self.go_on_with_requests(uid, fx);
        }
    }

    /// Begins those that need not wait any more.
    fn go_on_with_requests(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        // An answer that comes at once comes while its request is begun.
        if self.is_busy_with_requests(uid, true) {
            return;
        }
        while let Some((request, held)) = self.next_request_of(uid) {
            let of = (uid, request.epoch);
            match request.what {
                Wanted::Subscribe(wanted) => self.subscribe(of, request.part, (wanted, held), fx),
                Wanted::Unsubscribe(names) => {
                    self.unsubscribe(of, request.part, (names, held), fx);
                }
            }
        }
        self.is_busy_with_requests(uid, false);
        let open = &mut self.lead.open_requests;
        if open.get(&uid.0).is_some_and(OpenRequests::are_none) {
            open.remove(&uid.0);
        }
    }

    /// Whether somebody was; from now on somebody is, or nobody.
    fn is_busy_with_requests(&mut self, uid: SessionUid, is_busy: bool) -> bool {
        let open = self.lead.open_requests.get_mut(&uid.0);
        open.is_some_and(|open| std::mem::replace(&mut open.is_busy, is_busy))
    }

    /// Takes the oldest one that need not wait.
    fn next_request_of(&mut self, uid: SessionUid) -> Option<(Request, Held)> {
        let session = self.state.sessions.get(uid.0)?;
        let most = session.subscriptions_max(&self.config.limits);
        let made = session.subscriptions.sizes();
        let at_once = self.is_planted(PlantedPartition::RequestsAtOnce);
        let open = self.lead.open_requests.get_mut(&uid.0)?;
        let ready = open.first_ready((made + open.reserved, most));
        let at = ready.or(at_once.then_some(0))?;
        let (request, held) = open.waiting.remove(at)?;
        open.take(&held);
        Some((request, held))
    }
}

fn sizes_of(wanted: &[Subscription]) -> Sizes {
    let each = wanted.iter();
    each.map(|it| Sizes::of(it.share.as_deref(), &it.filter))
        .sum()
}

impl Lead {
    /// A connection is gone: what it has asked for and was not begun is void.
    pub(crate) fn forget_waiting_requests(&mut self, uid: SessionUid) {
        if let Some(open) = self.open_requests.get_mut(&uid.0) {
            open.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i10_nobody_can_choose_filters_whose_names_collide() {
        let wanted = Wanted::Unsubscribe(vec![(None, "a/+".into())]);
        let names = |open: &OpenRequests| wanted.hold(open.names.hasher()).names;
        let (one, other) = (OpenRequests::default(), OpenRequests::default());
        assert_ne!(names(&one), names(&other));
    }
}
