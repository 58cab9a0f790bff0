//! The volatile and the durable part of a shared group (M36).
//!
//! A group whose members all have sessions that end with their connections lives in the volatile partition of the shard that leads its
//! slot, and never touches the disk. The first member whose session outlives its connection makes it durable, until it ends. The
//! partition of the slot hears of every join and leave, so it knows which part a session belongs to:
//!
//! ```text
//! home ── Join, Leave ──▶ durable partition ── passed on while it has no part ──▶ volatile partition
//! ```
//!
//! # The change
//! L1 may lead a message to both partitions, for other subscriptions with the same filter. So that each message is taken by exactly one
//! part, whichever of the two copies comes first, late or twice, both decide by what the message carries: the last **cut** that the
//! publisher's shard had heard of when it matched.
//! 1. The durable partition asks the volatile one (`AskPart`), which offers a number that no shard has heard of. Below it messages are
//!    for the volatile part, from it on for the durable one, which is made and noted with that number.
//! 2. Once L1 leads to the durable part (`Inherit`), the volatile one asks for a fence with that cut: whatever a shard matches after it
//!    has heard of it carries it. When the fence has passed there is nothing below the cut any more.
//! 3. The volatile part closes: it gives nothing new out, finishes what it has begun, and sends its members to the durable part
//!    (`Elsewhere`). When all have gone there, it passes on, in order, what nobody has (`PassOn`), and later what comes back.
//! 4. The durable part gives nothing out, and lets nobody's SUBACK go, before it has that (`all`); it comes first.
//!
//! One change at a time for each volatile partition: a message that carries a cut carries all lower ones. All steps can be said again:
//! a new leader of the durable partition says what it expects (`Inheritances`), and what else was offered before it led is void. So a
//! question and its answer name the term of who asked: an answer may find a later leader, which does not take it.

mod heir;
mod volatile;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use courser_contract::{
    Cut, FrontId, GroupName, GroupRef, HomeRef, Join, LeaveCause, PartitionEffects, PartitionId,
    QoS, SessionUid, Term, ToPartition,
};

use crate::{
    Partition,
    entry::TargetList,
    group::Part,
    ids::{self, Owner},
    session::Going,
    state::SharedGroup,
};

/// Which messages a part of a group gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The volatile part.
    Below(Cut),
    /// The durable one.
    From(Cut),
}

impl Side {
    const fn takes(self, cut: Cut) -> bool {
        match self {
            Self::Below(end) => cut.0 < end.0,
            Self::From(start) => cut.0 >= start.0,
        }
    }
}

/// A join or leave that waits for the volatile partition's word.
#[derive(Debug)]
pub(crate) enum Membership {
    Join(Box<Join>),
    Leave(Leaver),
}

/// Who leaves, and how it is told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaver {
    pub(crate) member: HomeRef,
    pub(crate) cause: LeaveCause,
    pub(crate) request: u64,
    /// The volatile part that is meant; none: whichever is there.
    pub(crate) part: Option<GroupRef>,
    /// Its connection.
    pub(crate) front: Option<FrontId>,
    /// The group as its home knew it.
    pub(crate) known: Option<GroupRef>,
}

/// A cut that a volatile partition has offered.
#[derive(Debug)]
pub(crate) struct Offer {
    name: GroupName,
    /// Partition of the durable part.
    to: PartitionId,
    /// Term of its leader that asked last.
    term: Term,
    cut: Cut,
    /// The volatile part.
    group: u64,
    /// The durable part, once that is there: a fence is under way.
    heir: Option<u64>,
}

/// A group whose volatile part was asked for while another change was under way.
#[derive(Debug)]
struct Asked {
    by: PartitionId,
    term: Term,
    name: GroupName,
}

/// What a leader knows of groups in two parts.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Parts that do not get all that matches.
    sides: Vec<(u64, Side)>,
    /// Groups whose volatile part was asked for, with what waits for the answer.
    asking: BTreeMap<GroupName, Vec<Membership>>,
    /// The change under way in a volatile partition.
    offer: Option<Offer>,
    /// Those behind it.
    queue: VecDeque<Asked>,
    /// Cuts so far.
    cuts: u32,
}

impl Parts {
    pub(crate) fn forget(&mut self, group: u64) {
        self.sides.retain(|(stream, _)| *stream != group);
    }

    fn is_offered(&self, group: u64) -> bool {
        self.offer
            .as_ref()
            .is_some_and(|offer| offer.group == group)
    }
}

impl Partition {
    /// The list without parts of groups that do not get what carries this cut.
    #[inline]
    pub(crate) fn on_their_side(&self, list: Rc<TargetList>, cut: Cut) -> Rc<TargetList> {
        if self.lead.sharing.parts.sides.is_empty() {
            return list;
        }
        self.without_others(list, cut)
    }

    #[cold]
    fn without_others(&self, list: Rc<TargetList>, cut: Cut) -> Rc<TargetList> {
        let excluded = |stream: u64| {
            ids::owner(stream) == Owner::Group
                && self
                    .lead
                    .sharing
                    .parts
                    .sides
                    .iter()
                    .any(|(of, side)| *of == stream && !side.takes(cut))
        };
        if !list.targets.iter().any(|target| excluded(target.stream)) {
            return list;
        }
        let mut targets = list.targets.to_vec();
        targets.retain(|target| !excluded(target.stream));
        let stored = targets.partition_point(|target| target.qos > QoS::AtMostOnce);
        Rc::new(TargetList::passing(targets, stored, list.no_local.clone()))
    }

    /// Whether a group may not end yet because its other part is not done with it.
    pub(crate) fn is_between_parts(&self, number: u64, group: &SharedGroup) -> bool {
        let expects = matches!(group.group.part(), Part::Heir { all: false, .. });
        let passes = group.lead.passing.as_ref().is_some_and(|p| !p.is_idle());
        expects || passes || self.lead.sharing.parts.is_offered(number)
    }
}

impl Partition {
    /// The group of a member is durable from now on: it joins that part and leaves the other, which finishes what it has begun.
    pub(crate) fn go_elsewhere(
        &mut self,
        member: SessionUid,
        (name, part): (GroupName, GroupRef),
        fx: &mut impl PartitionEffects,
    ) {
        let session = self.state.sessions.get_mut(member.0);
        let lives = session.filter(|session| session.lead.going != Going::Ended);
        let Some(session) = lives else {
            let leave = ToPartition::Leave {
                member: self.home_ref(member),
                cause: LeaveCause::SessionEnded,
                request: 0,
                part: Some(part),
                share: name.share,
                filter: name.filter,
                front: None,
                known: None,
            };
            return fx.send_partition(part.partition, leave);
        };
        if let Some(at) = session.find(Some(&name.share), &name.filter)
            && let Some(share) = session.subscriptions.share_mut(at)
            && share
                .group
                .is_none_or(|group| group.partition.is_volatile())
        {
            share.group = None;
            self.join_again(member, (name.share.clone(), name.filter.clone()), fx);
        }
        let key = (name.share, name.filter);
        self.write_leave((member, LeaveCause::Unsubscribed), key, Some(part), fx);
    }
}

fn name_of(share: &str, filter: &str) -> GroupName {
    GroupName {
        share: share.into(),
        filter: filter.into(),
    }
}
