//! Shared subscriptions: the home's half (joining, leaving, telling of connections) and the group's half (picking members).
//!
//! A group lives in the partition with a log of its slot, or, while all its members have sessions that end with their connections, in
//! the volatile partition beside it; see [`parts`].

mod facts;
mod fronts;
mod give;
mod members;
mod owing;
mod parts;

pub(crate) use self::{
    give::end_of_group,
    owing::Owing,
    parts::{Leaver, Parts},
};

use courser_contract::{
    Epoch, FrontId, GroupRef, HomeRef, Join, JoinResult, LeaveCause, MemberConnection,
    PartitionEffects, PartitionId, Refusal, SessionUid, SubscribeResult, ToFront, ToPartition,
    Uptake,
};

use crate::{
    Partition,
    entry::{Haste, Rare},
    lead::{After, Asked, Awaited, Joining, OpenJoin, Subscribing},
    session::group_name,
    state::Leaving,
};

impl Partition {
    pub(crate) fn home_ref(&self, uid: SessionUid) -> HomeRef {
        HomeRef {
            partition: self.config.id,
            session: uid,
        }
    }

    /// The groups of a SUBSCRIBE that is committed hear of it.
    pub(crate) fn join_groups(
        &mut self,
        subscribing: &Subscribing,
        fx: &mut impl PartitionEffects,
    ) {
        for join in &subscribing.joins {
            self.send_join(subscribing.session, join, Awaited::BySuback, fx);
        }
    }

    fn send_join(
        &mut self,
        uid: SessionUid,
        join: &Joining,
        awaited: Awaited,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(session) = self.state.sessions.get(uid.0) else {
            return;
        };
        let Some(at) = session.find(Some(&join.share), &join.filter) else {
            return;
        };
        let subscription = &session.subscriptions[at];
        let message = Join {
            share: join.share.clone(),
            filter: join.filter.clone(),
            member: self.home_ref(uid),
            front: session.member_front(),
            options: subscription.options,
            identifier: subscription.identifier,
            strategy: self.config.limits.shared_strategy,
            request: join.request,
        };
        let open = OpenJoin {
            share: join.share.clone(),
            filter: join.filter.clone(),
            awaited,
        };
        self.lead.sharing.open_joins.insert(join.request, open);
        let to = fx.group_partition(&join.share, &join.filter);
        fx.send_partition(to, ToPartition::Join(Box::new(message)));
    }

    /// A group has answered, or a new leader of it asks for the connection. It is told of the connection in any case: that
    /// may have come or gone since the question left.
    pub(crate) fn joined(
        &mut self,
        member: HomeRef,
        request: u64,
        result: JoinResult,
        fx: &mut impl PartitionEffects,
    ) {
        let open = self.lead.sharing.open_joins.remove(&request);
        if open.is_none()
            && let JoinResult::Joined(group) = result
        {
            self.leave_again(member.session, Some(group), fx);
        }
        if let (JoinResult::Joined(group), Some(session)) =
            (result, self.state.sessions.get_mut(member.session.0))
        {
            let front = session.member_front();
            let share = match &open {
                Some(open) => session
                    .find(Some(&open.share), &open.filter)
                    .and_then(|at| session.subscriptions.share_mut(at)),
                None => session
                    .subscriptions
                    .shares_mut()
                    .find(|share| share.group == Some(group)),
            };
            if let Some(share) = share {
                // A late word of the volatile part (M36): the session is a member of the durable one.
                let late = group.partition.is_volatile()
                    && share
                        .group
                        .is_some_and(|known| !known.partition.is_volatile());
                if !late {
                    share.group = Some(group);
                }
                tell_group(group, member, front, fx);
            }
        }
        if open.is_some_and(|open| open.awaited == Awaited::BySuback) {
            self.lead.sharing.join_answers.insert(request, result);
            let waiting = std::mem::take(&mut self.lead.sharing.joining);
            for subscribing in waiting {
                self.finish_subscribe(subscribing, fx);
            }
        }
    }

    /// Takes the answers of groups that have come into a SUBACK.
    pub(crate) fn take_join_answers(&mut self, subscribing: &mut Subscribing) {
        let uid = subscribing.session;
        let joins = std::mem::take(&mut subscribing.joins);
        for join in joins {
            match self.lead.sharing.join_answers.remove(&join.request) {
                None => subscribing.joins.push(join),
                Some(JoinResult::Joined(_)) => {}
                Some(JoinResult::Refused(refusal)) => {
                    subscribing.results[join.at] = match refusal {
                        Refusal::QuotaExceeded => SubscribeResult::QuotaExceeded,
                        Refusal::NotAuthorized => SubscribeResult::NotAuthorized,
                        Refusal::TooLarge | Refusal::Unavailable | Refusal::Unspecified => {
                            SubscribeResult::Failed
                        }
                    };
                    subscribing.takes_back |= self.take_join_back(uid, join);
                }
            }
        }
    }

    /// A group has refused: the session has what it had before. What it subscribed to before stays so, also where the group has just not
    /// said so (it is set aside, M39): it has the session as a member, and must hear of its connections when it serves again, or it would
    /// know nothing of what the session names with its packet ids (M31). Whether that takes an entry.
    fn take_join_back(&mut self, uid: SessionUid, join: Joining) -> bool {
        let known = self.group_of(uid, (&join.share, &join.filter)).is_some();
        let session = uid;
        let (filter, share) = (join.filter, Some(join.share));
        match join.before {
            Some(Asked {
                options,
                identifier,
            }) => self.write(&Rare::Subscribed {
                session,
                filter,
                share,
                options,
                identifier,
                scan: 0,
            }),
            // Another SUBSCRIBE that was under way has joined.
            None if known => return false,
            None => self.write(&Rare::Unsubscribed {
                session,
                filter,
                share,
            }),
        }
        true
    }

    /// Tells all groups of a session that its connection came or went, also those that it has left and that have something
    /// of it.
    pub(crate) fn tell_groups(&self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        let Some(session) = self.state.sessions.get(uid.0) else {
            return;
        };
        let front = session.member_front();
        let shares = session
            .subscriptions
            .iter()
            .filter_map(|s| s.share.as_ref());
        for group in shares.filter_map(|share| share.group) {
            tell_group(group, self.home_ref(uid), front, fx);
        }
        let left = self.state.leaves_of(uid);
        if front.is_some() {
            // Asked again: another leader of the group may not know that it must say when it is over.
            return self.leave_again(uid, None, fx);
        }
        for group in left.filter_map(|(_, leaving)| leaving.group) {
            tell_group(group, self.home_ref(uid), front, fx);
        }
    }

    /// The client of a session reads slower or faster than it did: the groups that give it messages hear of it.
    pub(crate) fn uptake(
        &mut self,
        (uid, epoch): (SessionUid, Epoch),
        uptake: Uptake,
        fx: &mut impl PartitionEffects,
    ) {
        let member = self.home_ref(uid);
        let session = self.state.sessions.get_mut(uid.0);
        let Some(session) = session.filter(|session| session.epoch == epoch) else {
            return;
        };
        let Some(live) = &mut session.lead.live else {
            return;
        };
        live.uptake = uptake;
        let front = session.member_front();
        let shares = session.subscriptions.iter();
        for group in shares.filter_map(|s| s.share.as_ref()?.group) {
            tell_group(group, member, front, fx);
        }
    }

    /// Says again that a session has left, to one group or to all that may have something of it.
    fn leave_again(&self, uid: SessionUid, only: Option<GroupRef>, fx: &mut impl PartitionEffects) {
        let left = self.state.leaves_of(uid);
        for (request, leaving) in left.filter(|(_, l)| only.is_none() || l.group == only) {
            self.send_leave(request, leaving, fx);
        }
    }

    fn send_leave(&self, request: u64, leaving: &Leaving, fx: &mut impl PartitionEffects) {
        let cause = if leaving.ended {
            LeaveCause::SessionEnded
        } else {
            LeaveCause::Unsubscribed
        };
        let leave = ToPartition::Leave {
            share: leaving.share.clone(),
            filter: leaving.filter.clone(),
            member: self.home_ref(leaving.member),
            cause,
            request,
            part: leaving.part,
            front: self.front_of(leaving.member),
            known: leaving.group,
        };
        let to = fx.group_partition(&leaving.share, &leaving.filter);
        fx.send_partition(to, leave);
    }

    /// The end of a session: its groups must hear of it, whatever happens (M35).
    pub(crate) fn leave_groups(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        let Some(session) = self.state.sessions.get(uid.0) else {
            return;
        };
        let shares = session.subscriptions.iter();
        let names: Vec<(Box<str>, Box<str>)> = shares
            .filter_map(|s| Some((s.share_name()?.into(), s.filter.clone())))
            .collect();
        let left = self.state.leaves_of(uid);
        // The part that has said that it has something of it: the name may lead to another one by now (M36).
        let part = |leaving: &Leaving| {
            let owing = leaving.group.filter(|group| group.partition.is_volatile());
            leaving.part.or(owing)
        };
        let left: Vec<_> = left
            .map(|(_, l)| ((l.share.clone(), l.filter.clone()), part(l)))
            .collect();
        let how = (uid, LeaveCause::SessionEnded);
        for name in names {
            self.leave_parts(how, name, fx);
        }
        for (name, part) in left {
            self.write_leave(how, name, part, fx);
        }
    }

    /// Notes that a session leaves a group, in every part of it that it may be a member of. Returns the requests.
    pub(crate) fn leave_parts(
        &mut self,
        how: (SessionUid, LeaveCause),
        name: (Box<str>, Box<str>),
        fx: &mut impl PartitionEffects,
    ) -> Vec<u64> {
        let known = self.group_of(how.0, (&name.0, &name.1));
        let volatile = known.filter(|group| group.partition.is_volatile());
        let mut requests = Vec::new();
        if volatile.is_some() {
            requests.push(self.write_leave(how, name.clone(), volatile, fx));
        }
        // Also of the part that is known to be another one: a link says a join again when the leader changes, and the new one may have
        // taken what the volatile part had answered already.
        requests.push(self.write_leave(how, name, None, fx));
        requests
    }

    /// Notes that a session leaves a group, and tells the group after the commit. Returns the request.
    fn write_leave(
        &mut self,
        (uid, cause): (SessionUid, LeaveCause),
        (share, filter): (Box<str>, Box<str>),
        part: Option<GroupRef>,
        fx: &mut impl PartitionEffects,
    ) -> u64 {
        let request = self.lead.next_request();
        let known = self.group_of(uid, (&share, &filter));
        self.write(&Rare::LeaveBegun {
            request,
            share: share.clone(),
            filter: filter.clone(),
            member: uid,
            ended: cause == LeaveCause::SessionEnded,
            part,
        });
        let to = fx.group_partition(&share, &filter);
        let leave = ToPartition::Leave {
            share,
            filter,
            member: self.home_ref(uid),
            cause,
            request,
            part,
            front: self.front_of(uid),
            known,
        };
        self.lead.after(After::Leave(to, Box::new(leave)));
        request
    }

    /// A leave is applied, and its group hears of it. The session may have ended with the same entry: nobody finishes what it has then. What
    /// it leaves in a part that it was about to leave (M36) is told by this message only.
    pub(crate) fn leave_begun(
        &self,
        to: PartitionId,
        mut leave: ToPartition,
        fx: &mut impl PartitionEffects,
    ) {
        if let ToPartition::Leave { member, cause, .. } = &mut leave
            && self.state.sessions.get(member.session.0).is_none()
        {
            *cause = LeaveCause::SessionEnded;
        }
        fx.send_partition(to, leave);
    }

    fn front_of(&self, uid: SessionUid) -> Option<FrontId> {
        let front = self.state.sessions.get(uid.0)?.member_front();
        front.map(|connection| connection.front)
    }

    /// The group that a session subscribes to, as far as it has answered.
    fn group_of(&self, uid: SessionUid, (share, filter): (&str, &str)) -> Option<GroupRef> {
        let session = self.state.sessions.get(uid.0)?;
        let at = session.find(Some(share), filter)?;
        session.subscriptions[at].share.as_ref()?.group
    }

    /// Joins a group that it subscribes to once more: nobody waits for the answer.
    fn join_again(
        &mut self,
        uid: SessionUid,
        (share, filter): (Box<str>, Box<str>),
        fx: &mut impl PartitionEffects,
    ) {
        let join = Joining {
            request: self.lead.next_request(),
            at: 0,
            share,
            filter,
            before: None,
        };
        self.send_join(uid, &join, Awaited::ByNobody, fx);
    }

    /// A group has heard that a session left. While it has something of it, it is told of the session's connections.
    pub(crate) fn left(
        &mut self,
        request: u64,
        owing: Option<GroupRef>,
        fx: &mut impl PartitionEffects,
    ) {
        if let Some(leaving) = self.state.leaves.get_mut(&request) {
            let uid = leaving.member;
            let session = self.state.sessions.get(uid.0);
            let front = session.and_then(|session| session.member_front());
            match owing {
                Some(group) => {
                    leaving.group = Some(group);
                    tell_group(group, self.home_ref(uid), front, fx);
                }
                None => {
                    let name = group_name(&leaving.share, &leaving.filter);
                    if let Some(connection) = front {
                        fx.send_front(connection.front, ToFront::NothingOwed { name });
                    }
                    let haste = Haste::Lazy(self.lead.now.tick);
                    let fact = Rare::LeaveDone { request };
                    fact.write(&mut self.gather, haste, &mut self.lead.scratch);
                }
            }
        }
        let waiting = std::mem::take(&mut self.lead.sharing.leaving);
        for mut unsubscribing in waiting {
            unsubscribing.leaves.retain(|leave| *leave != request);
            self.finish_unsubscribe(unsubscribing, fx);
        }
    }

    /// A new leader says again what groups must hear.
    pub(crate) fn resend_leaves(&mut self, fx: &mut impl PartitionEffects) {
        for (&request, leaving) in &self.state.leaves {
            self.send_leave(request, leaving, fx);
        }
        for number in self.state.sessions.sorted() {
            let session = self.state.sessions.get(number).expect("it was listed");
            let shares = session.subscriptions.iter();
            let names: Vec<(Box<str>, Box<str>)> = shares
                .filter_map(|s| Some((s.share_name()?.into(), s.filter.clone())))
                .collect();
            for name in names {
                self.join_again(SessionUid(number), name, fx);
            }
        }
    }
}

fn tell_group(
    group: GroupRef,
    member: HomeRef,
    front: Option<MemberConnection>,
    fx: &mut impl PartitionEffects,
) {
    let to: PartitionId = group.partition;
    let message = ToPartition::MemberFront {
        group: group.group,
        member,
        front,
    };
    fx.send_partition(to, message);
}
