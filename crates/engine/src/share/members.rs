//! The group's half of shared subscriptions: who takes part (M35).

use courser_contract::{
    GroupRef, HomeRef, Join, JoinResult, LeaveCause, PartitionEffects, Refusal, Seq,
    SharedStrategy, ToFront, ToPartition,
};

use super::parts::Leaver;
use crate::{
    Partition,
    entry::Rare,
    group::{Dispatch, Leave, News},
    ids::{Numbers, Owner},
    lead::{After, Began, Indexed},
    state::SharedGroup,
};

impl Partition {
    /// A group that takes members.
    pub(super) fn usable_group(&self, name: &(Box<str>, Box<str>)) -> Option<u64> {
        let known = self
            .lead
            .sharing
            .making
            .get(name)
            .or_else(|| self.state.by_share.get(name))
            .copied();
        known.filter(|number| {
            let group = self.state.groups.get(*number);
            group.is_none_or(|group| !group.lead.ending && group.lead.passing.is_none())
        })
    }

    /// A session joins, or changes what it asked for.
    pub(crate) fn group_join(&mut self, join: Box<Join>, fx: &mut impl PartitionEffects) {
        let name = (join.share.clone(), join.filter.clone());
        if self.usable_group(&name).is_none() {
            if !self.is_volatile() {
                return self.join_other_part(join, fx);
            }
            self.make_group(&name, join.strategy);
        }
        self.join_made(&name, join, fx);
    }

    /// Makes a group; none: there are as many as may be.
    pub(super) fn make_group(
        &mut self,
        name: &(Box<str>, Box<str>),
        strategy: SharedStrategy,
    ) -> Option<u64> {
        let group = self.lead.issued.groups.next(Owner::Group)?;
        self.lead.sharing.making.insert(name.clone(), group);
        self.write(&Rare::GroupMade {
            group,
            share: name.0.clone(),
            filter: name.1.clone(),
            strategy,
        });
        Some(group)
    }

    /// A session joins a group that is there, or being made.
    pub(super) fn join_made(
        &mut self,
        name: &(Box<str>, Box<str>),
        mut join: Box<Join>,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(number) = self.usable_group(name) else {
            return answer(&join, JoinResult::Refused(Refusal::QuotaExceeded), fx);
        };
        if let Some(group) = self.state.groups.get_mut(number) {
            group.lead.joining += 1;
            // The home tells of its connections, and may have done so again by the time that this is committed.
            if group.has_something_of(join.member) {
                join.front = None;
            }
        }
        self.write(&Rare::GroupJoined {
            group: number,
            member: join.member,
            options: join.options,
            identifier: join.identifier,
        });
        self.lead.after(After::GroupJoined(number, join));
    }

    /// A join is applied.
    pub(crate) fn group_joined(
        &mut self,
        number: u64,
        join: &Join,
        fx: &mut impl PartitionEffects,
    ) {
        self.lead
            .sharing
            .making
            .remove(&(join.share.clone(), join.filter.clone()));
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        group.lead.joining = group.lead.joining.saturating_sub(1);
        let departed = group.lead.departed.remove(&join.member);
        let dispatch = group.lead.dispatch.as_ref();
        let had_gone = dispatch.is_some_and(|dispatch| !dispatch.knows(join.member));
        group.joined(join.member);
        let expects = group.group.is_mute();
        if had_gone {
            // It had left with nothing: its seat is a new one, without a connection until its home tells of it.
            self.set_front(number, join.member, None);
        }
        if let Some(request) = departed {
            left(join.member, request, None, fx);
        }
        if join.front.is_some() {
            self.group_front(number, join.member, join.front, fx);
        }
        self.pump_group(number, fx);
        let (member, request) = (join.member, join.request);
        if expects {
            // What is published from the answer on is stored: the volatile part gets nothing more by then (M36).
            if let Some(group) = self.state.groups.get_mut(number) {
                group.lead.waiting_joins.push((member, request));
            }
            return;
        }
        match self.lead.index.unconfirmed.last_entry() {
            Some(mut last) => last.get_mut().push(Indexed::Join {
                member,
                request,
                group: number,
            }),
            None => self.answer_join(member, request, number, fx),
        }
    }

    /// L1 has the group's filter.
    pub(crate) fn answer_join(
        &self,
        member: HomeRef,
        request: u64,
        group: u64,
        fx: &mut impl PartitionEffects,
    ) {
        let message = ToPartition::Joined {
            member,
            request,
            result: JoinResult::Joined(self.group_ref(group)),
        };
        fx.send_partition(member.partition, message);
    }

    pub(super) fn group_ref(&self, group: u64) -> GroupRef {
        GroupRef {
            partition: self.config.id,
            group,
        }
    }

    /// A session leaves.
    pub(crate) fn group_leave(
        &mut self,
        name: (Box<str>, Box<str>),
        leaver: Leaver,
        fx: &mut impl PartitionEffects,
    ) {
        let member = leaver.member;
        let group = match leaver.part {
            Some(part) if part.partition == self.config.id => Some(part.group),
            Some(_) => None,
            None if member.partition.is_volatile() => self.usable_group(&name),
            None => {
                let known = self.lead.sharing.making.get(&name);
                known.or_else(|| self.state.by_share.get(&name)).copied()
            }
        };
        let Some(group) = group else {
            return self.leave_other_part(&name, leaver, fx);
        };
        self.write(&Rare::GroupLeft {
            group,
            member,
            ended: leaver.cause == LeaveCause::SessionEnded,
        });
        self.lead.after(After::GroupLeft(group, leaver));
    }

    /// A leave is applied.
    pub(crate) fn group_left(
        &mut self,
        number: Option<u64>,
        leaver: Leaver,
        fx: &mut impl PartitionEffects,
    ) {
        // What was named on this connection it knows, if it has said to it what it owes.
        let known = number.is_some_and(|number| {
            let group = self.state.groups.get(number);
            let dispatch = group.and_then(|group| group.lead.dispatch.as_ref());
            dispatch.is_some_and(|dispatch| dispatch.is_attached(leaver.member, leaver.front))
        });
        if let Some(number) = number
            && self.take_leave(number, leaver, fx)
        {
            // A leader that does not know of what is not committed yet must hear of the leave as well: it is answered after that.
            if self.gather.facts() > 0 {
                self.gather.hurry();
            }
            return self.after_all(After::GroupParted(number, leaver), fx);
        }
        // Named for an earlier leader, which has not committed it.
        let group = number.map(|number| self.group_ref(number));
        let group = group.or(leaver.known);
        if let Some(group) = group.filter(|group| group.partition == self.config.id)
            && let Some(front) = leaver.front
            && !known
        {
            fx.send_front(front, ToFront::Void { group, seq: None });
        }
        left(leaver.member, leaver.request, None, fx);
    }

    /// What was begun with a session that has left is committed: its home must tell of its connections until that is over.
    pub(crate) fn group_parted(&self, number: u64, leaver: Leaver, fx: &mut impl PartitionEffects) {
        let group = self.state.groups.get(number);
        let departed = group.and_then(|group| group.lead.departed.get(&leaver.member));
        // Else it was answered when it was over, or when the session came back.
        if departed == Some(&leaver.request) {
            let group = self.group_ref(number);
            left(leaver.member, leaver.request, Some(group), fx);
        }
    }

    /// Whether the group still has something of the session that has left.
    fn take_leave(&mut self, number: u64, leaver: Leaver, fx: &mut impl PartitionEffects) -> bool {
        let (member, request) = (leaver.member, leaver.request);
        let mut facts = Vec::new();
        let at = self.group_ref(number);
        if let Some(group) = self.state.groups.get_mut(number) {
            let why = match leaver.cause {
                LeaveCause::Unsubscribed => Leave::Unsubscribed,
                LeaveCause::SessionEnded => Leave::SessionEnded,
            };
            if let Some(dispatch) = &mut group.lead.dispatch {
                let withdrawn = dispatch.left(&group.group, member, why, &mut facts);
                if let Some(&front) = group.lead.fronts.get(&member) {
                    for seq in withdrawn.into_iter().map(Some) {
                        fx.send_front(front, ToFront::Void { group: at, seq });
                    }
                }
            }
            match why {
                Leave::SessionEnded => {
                    group.lead.departed.remove(&member);
                    self.set_front(number, member, None);
                }
                Leave::Unsubscribed if group.has_something_of(member) => {
                    let earlier = group.lead.departed.insert(member, request);
                    if let Some(request) = earlier.filter(|earlier| *earlier != request) {
                        // The later leave stands for both.
                        left(member, request, None, fx);
                    }
                }
                Leave::Unsubscribed => self.set_front(number, member, None),
            }
        }
        self.write_group_facts(number, &facts);
        self.pump_group(number, fx);
        self.tell_group_news(number, fx);
        self.end_group_if_over(number);
        let group = self.state.groups.get(number);
        group.is_some_and(|group| group.lead.departed.contains_key(&member))
    }

    /// What has come to its end is committed: packet ids are free (M31), and homes hear of sessions that are done with (M35).
    pub(crate) fn group_news(&mut self, number: u64, news: &News, fx: &mut impl PartitionEffects) {
        let group_ref = self.group_ref(number);
        let Some(group) = self.state.groups.get(number) else {
            return;
        };
        for &(member, seq) in &news.finished {
            if let Some(&front) = group.lead.fronts.get(&member) {
                let group = group_ref;
                fx.send_front(front, ToFront::Finished { group, seq });
            }
        }
        for &(member, seq) in &news.unsent {
            if let Some(&front) = group.lead.fronts.get(&member) {
                let (group, seq) = (group_ref, Some(seq));
                fx.send_front(front, ToFront::Void { group, seq });
            }
        }
        self.give_unsent(number, &news.unsent, fx);
        for &member in &news.cleared {
            let Some(group) = self.state.groups.get_mut(number) else {
                return;
            };
            let again = group.lead.dispatch.as_ref();
            if again.is_some_and(|dispatch| dispatch.knows(member)) {
                continue;
            }
            if let Some(request) = group.lead.departed.remove(&member) {
                left(member, request, None, fx);
            }
            self.set_front(number, member, None);
        }
        self.end_group_if_over(number);
    }

    /// What was not sent and has not ended goes to anyone.
    fn give_unsent(
        &mut self,
        number: u64,
        unsent: &[(HomeRef, Seq)],
        fx: &mut impl PartitionEffects,
    ) {
        if unsent.is_empty() {
            return;
        }
        if let Some(group) = self.state.groups.get_mut(number)
            && let Some(dispatch) = &mut group.lead.dispatch
        {
            let stream = &group.stream;
            let is_there = |seq: &Seq| stream.get(seq.0).is_some();
            let seqs = unsent.iter().map(|(_, seq)| *seq);
            seqs.filter(is_there)
                .for_each(|seq| dispatch.give_again(seq));
        }
        self.pump_group(number, fx);
    }

    pub(super) fn end_group_if_over(&mut self, number: u64) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        // Who has left is told so before: nobody could tell it afterwards.
        let busy = !group.lead.departed.is_empty()
            || group
                .lead
                .dispatch
                .as_ref()
                .is_some_and(|d| d.under_way() > 0);
        if !group.group.is_over() || busy || group.lead.ending || group.lead.joining > 0 {
            return;
        }
        let group = self.state.groups.get(number).expect("it was just seen");
        if self.is_between_parts(number, group) {
            return;
        }
        self.lead.sharing.parts.forget(number);
        if let Some(group) = self.state.groups.get_mut(number) {
            group.lead.ending = true;
        }
        self.write(&Rare::GroupEnded { group: number });
    }

    /// A new leader begins to pick, and asks the homes of all members for their connections.
    pub(crate) fn begin_groups(&mut self, began: Began, fx: &mut impl PartitionEffects) {
        self.lead.issued.groups = Numbers::of(&self.state.groups, self.state.last_group);
        for number in self.state.groups.sorted() {
            self.begin_part(number, began == Began::WithProcess);
            let group = self.state.groups.get_mut(number).expect("it was listed");
            group.begin();
            let mut members: Vec<HomeRef> = group.group.members().map(|(home, _)| home).collect();
            // Sessions that have left, and have something: their homes know of it, and say again that they left.
            members.extend(group.group.all_owed().map(|(_, owed)| owed.member));
            members.sort_unstable();
            members.dedup();
            for member in members {
                match began {
                    Began::WithProcess if member.partition.is_volatile() => {
                        self.end_member(number, member);
                    }
                    Began::WithProcess | Began::InProcess => {
                        self.answer_join(member, 0, number, fx);
                    }
                }
            }
            self.after_all(After::GroupNews(number, News::default()), fx);
        }
    }

    /// A member's session ended with the last process; another one will have its number.
    fn end_member(&mut self, group: u64, member: HomeRef) {
        self.write(&Rare::GroupLeft {
            group,
            member,
            ended: true,
        });
        let leaver = Leaver {
            member,
            cause: LeaveCause::SessionEnded,
            request: UNASKED,
            part: None,
            front: None,
            known: None,
        };
        self.lead.after(After::GroupLeft(group, leaver));
    }
}

impl SharedGroup {
    /// Whether something is under way with a session, member or not, or committed to be.
    pub(super) fn has_something_of(&self, member: HomeRef) -> bool {
        let dispatch = self.lead.dispatch.as_ref();
        dispatch.is_some_and(|dispatch| dispatch.knows(member))
            || self.group.owed_to(member).next().is_some()
    }

    fn begin(&mut self) {
        self.lead.dispatch = Some(Dispatch::new(&self.group, Seq(self.stream.floor())));
    }

    fn joined(&mut self, member: HomeRef) {
        if self.lead.dispatch.is_none() {
            self.begin();
        }
        if let Some(dispatch) = &mut self.lead.dispatch {
            dispatch.joined(&self.group, member);
        }
    }
}

/// Number of a leave that no home has asked for; others count from 1 in each term.
const UNASKED: u64 = 0;

/// Tells the home of a session that it has left. Of one that ended with its process nobody has asked, and with fewer shards than before there may be
/// nobody to tell.
fn left(member: HomeRef, request: u64, owing: Option<GroupRef>, fx: &mut impl PartitionEffects) {
    if request == UNASKED {
        return;
    }
    let left = ToPartition::Left {
        member,
        request,
        owing,
    };
    fx.send_partition(member.partition, left);
}

fn answer(join: &Join, result: JoinResult, fx: &mut impl PartitionEffects) {
    let message = ToPartition::Joined {
        member: join.member,
        request: join.request,
        result,
    };
    fx.send_partition(join.member.partition, message);
}
