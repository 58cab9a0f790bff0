//! What a fact is about to change goes into the checkpoint first (M42). Whatever is written here is as it was when the
//! checkpoint began, since nothing has changed it since; it is written once, here or by the walk.

use courser_contract::{Seq, SessionUid};

use super::{
    items::After,
    save::{OpenSet, Saving},
    unit::Names,
    walk::Walk,
};
use crate::{
    entry::{Fact, Fate, OutcomeFact, PublishFact, Rare, TargetsAt},
    group::Fact as GroupFact,
    ids::{self, Owner},
    retained,
    session::Session,
    state::{SharedGroup, State},
};

impl State {
    /// Writes what a fact is about to change.
    #[cold]
    pub(crate) fn save_before(&mut self, fact: &Fact<'_>) {
        let Some(mut saving) = self.saving.take() else {
            return;
        };
        if !saving.is_planted() {
            match fact {
                Fact::Publish(publish) => saving.before_publish(self, publish),
                Fact::Outcome(outcome) => saving.before_outcome(self, outcome),
                Fact::Rare(rare) => saving.before_rare(self, rare),
            }
        }
        self.saving = Some(saving);
    }
}

impl State {
    /// Writes what ends with a message of a group, within another fact.
    #[cold]
    pub(crate) fn save_before_shared_end(&mut self, number: u64, seq: u64) {
        let Some(mut saving) = self.saving.take() else {
            return;
        };
        if !saving.is_planted() {
            saving.before_left(self, number, seq);
        }
        self.saving = Some(saving);
    }
}

impl Saving {
    /// Whether the bug is planted: never without the feature.
    pub(super) const fn is_planted(&self) -> bool {
        cfg!(feature = "planted") && self.late
    }

    fn before_publish(&mut self, state: &mut State, publish: &PublishFact<'_>) {
        match publish.targets {
            // Written before the publish that named them.
            TargetsAt::Same => {}
            TargetsAt::Inline(count, at) => {
                for target in publish.inline(count, at) {
                    self.note_end(state, target.stream);
                }
            }
            TargetsAt::Set(set) => {
                let targets = state.sets.get(set as usize).cloned().flatten();
                for target in targets.iter().flat_map(|targets| targets.iter()) {
                    self.note_end(state, target.stream);
                }
            }
        }
        if publish.keep_retained {
            self.before_retained(state, publish.record().view().topic);
        }
    }

    /// What is appended changes nothing that is written, once it is known where the stream ended.
    fn note_end(&self, state: &mut State, number: u64) {
        match ids::owner(number) {
            Owner::Session => {
                if let Some(session) = state.sessions.get_mut(number) {
                    session.stream.note_end(self.mark);
                }
            }
            Owner::Group => {
                if let Some(group) = state.groups.get_mut(number) {
                    group.stream.note_end(self.mark);
                }
            }
        }
    }

    fn before_outcome(&mut self, state: &mut State, outcome: &OutcomeFact) {
        let range = (outcome.first, outcome.last.saturating_add(1));
        let number = outcome.stream;
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        match ids::owner(number) {
            Owner::Session => {
                let Some(session) = state.sessions.get_mut(number) else {
                    return;
                };
                self.session(session);
                let stream = &mut session.stream;
                match outcome.fate {
                    Fate::Received => self.before_received(number, stream, range, names),
                    Fate::Done | Fate::Rejected | Fate::Skipped | Fate::Expired | Fate::Dropped => {
                        self.before_end(number, stream, range, names);
                    }
                }
            }
            Owner::Group => self.before_shared_end(state, number, range),
        }
    }

    /// References of a group are about to end, and with them what it knows of their messages.
    fn before_shared_end(&mut self, state: &mut State, number: u64, range: (u64, u64)) {
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        if let Some(group) = state.groups.get_mut(number) {
            self.group(number, group);
            self.before_messages(number, group, range);
            self.before_end(number, &mut group.stream, range, names);
        }
    }

    /// The same of one message, and of what the group knows of it even where its reference has ended.
    fn before_left(&mut self, state: &mut State, number: u64, seq: u64) {
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        if let Some(group) = state.groups.get_mut(number) {
            self.group(number, group);
            self.before_group_fact(number, group, &GroupFact::Done { seq: Seq(seq) });
            self.before_end(number, &mut group.stream, (seq, seq + 1), names);
        }
    }

    fn before_session(
        &mut self,
        state: &mut State,
        session: SessionUid,
        before: impl FnOnce(&mut Self, &mut Session),
    ) {
        if let Some(session) = state.sessions.get_mut(session.0) {
            self.session(session);
            before(self, session);
        }
    }

    fn before_group(
        &mut self,
        state: &mut State,
        number: u64,
        before: impl FnOnce(&mut Self, &mut SharedGroup),
    ) {
        if let Some(group) = state.groups.get_mut(number) {
            self.group(number, group);
            before(self, group);
        }
    }

    fn before_subscribed(&mut self, session: &mut Session, name: (Option<&str>, &str), scan: u64) {
        let at = session.find(name.0, name.1);
        let place = at.unwrap_or(session.subscriptions.len());
        self.before_subscription(session, place, After::There);
        if scan != 0 {
            if at.is_some() {
                self.before_scans_of(session, name.1);
            }
            self.before_scan(session, scan, After::There);
        }
    }

    /// The last subscription gets the place of the one that goes.
    fn before_unsubscribed(&mut self, session: &mut Session, name: (Option<&str>, &str)) {
        if let Some(at) = session.find(name.0, name.1) {
            let last = session.subscriptions.len() - 1;
            if at != last {
                self.before_subscription(session, at, After::There);
            }
            self.before_subscription(session, last, After::Gone);
            if name.0.is_none() {
                self.before_scans_of(session, name.1);
            }
        }
    }

    fn before_group_fact(&mut self, number: u64, group: &SharedGroup, fact: &GroupFact) {
        match *fact {
            GroupFact::Assigned { seq, .. } => {
                self.before_owed(number, group, (seq, After::There));
            }
            GroupFact::Unassigned { seq } => self.before_owed(number, group, (seq, After::Gone)),
            GroupFact::Received { seq } => {
                let after = After::there_if(group.group.owed(seq).is_some());
                self.before_owed(number, group, (seq, after));
            }
            GroupFact::Attempts { seq, .. } => {
                self.before_attempts(number, group, (seq, After::There));
            }
            GroupFact::Done { seq } => {
                self.before_owed(number, group, (seq, After::Gone));
                self.before_attempts(number, group, (seq, After::Gone));
            }
        }
    }

    fn before_retained(&mut self, state: &State, topic: &str) {
        let walked = match &self.walk {
            Walk::Sets(_) | Walk::Sessions(..) | Walk::Groups(..) | Walk::Retained(None) => false,
            Walk::Retained(Some(after)) => !retained::is_behind(topic, after),
            Walk::Outboxes(..) | Walk::Leaves(_) | Walk::Done => true,
        };
        if walked {
            return;
        }
        if let Some(slot) = state.retained.get(topic)
            && state.records.address(slot).index <= self.index
        {
            let names = Names {
                records: &state.records,
                looks: &state.looks,
            };
            self.retained([(topic, slot)], names);
        }
    }

    /// Whether the walk has passed the place of a set.
    const fn has_walked_set(&self, set: u32) -> bool {
        match &self.walk {
            Walk::Sets(at) => set < *at,
            Walk::Sessions(..)
            | Walk::Groups(..)
            | Walk::Retained(_)
            | Walk::Outboxes(..)
            | Walk::Leaves(_)
            | Walk::Done => true,
        }
    }

    fn before_set_defined(&mut self, set: u32) {
        if !self.has_walked_set(set) {
            self.new_sets.insert(set);
        }
    }

    fn before_set_dropped(&mut self, state: &State, set: u32) {
        if self.has_walked_set(set) || self.new_sets.remove(&set) {
            return;
        }
        if let Some(targets) = state.sets.get(set as usize).cloned().flatten() {
            let from = 0;
            self.open_sets.push(OpenSet { set, targets, from });
        }
    }

    fn before_forward_done(&mut self, state: &State, to: courser_contract::PartitionId, seq: Seq) {
        let walked = match &self.walk {
            Walk::Sets(_) | Walk::Sessions(..) | Walk::Groups(..) | Walk::Retained(_) => false,
            Walk::Outboxes(at, from) => (to, seq) < (*at, *from),
            Walk::Leaves(_) | Walk::Done => true,
        };
        let old = self.outboxes.get(&to).is_some_and(|end| seq < *end);
        if walked || !old {
            return;
        }
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        if let Some(forward) = state.outboxes.get(to).and_then(|outbox| outbox.get(seq)) {
            self.forward(to, seq, forward, names);
        }
    }

    fn before_leave_done(&mut self, state: &State, request: u64) {
        let walked = match &self.walk {
            Walk::Sets(_)
            | Walk::Sessions(..)
            | Walk::Groups(..)
            | Walk::Retained(_)
            | Walk::Outboxes(..) => false,
            Walk::Leaves(from) => request < *from,
            Walk::Done => true,
        };
        let old = self.last_leave.is_some_and(|last| request <= last);
        if !walked
            && old
            && let Some(leaving) = state.leaves.get(&request)
        {
            self.leave(request, leaving);
        }
    }

    /// Leaves that end with something else of their session.
    fn before_leaves(&mut self, state: &State, session: SessionUid, name: Option<(&str, &str)>) {
        for (request, leaving) in state.leaves_of(session) {
            if name.is_none_or(|name| name == (&*leaving.share, &*leaving.filter)) {
                self.before_leave_done(state, request);
            }
        }
    }

    fn before_rare(&mut self, state: &mut State, fact: &Rare) {
        match fact {
            // What they change was written at the beginning, or is new.
            Rare::TermBegun {}
            | Rare::Taken { .. }
            | Rare::SessionOpened { .. }
            | Rare::Forward { .. }
            | Rare::GroupMade { .. }
            | Rare::LeaveBegun { .. } => {}
            Rare::SetDefined { set, .. } | Rare::SetPacked { set, .. } => {
                self.before_set_defined(*set);
            }
            Rare::SetDropped { set } => self.before_set_dropped(state, *set),
            Rare::SessionOwned { session, .. } => self.before_session(state, *session, |_, _| {}),
            Rare::SessionAttached { session, .. }
            | Rare::SessionDetached { session, .. }
            | Rare::WillTaken { session } => {
                self.before_session(state, *session, Self::before_will);
            }
            Rare::Held {
                session, packet_id, ..
            } => self.before_session(state, *session, |to, it| {
                to.before_hold(it, *packet_id, After::There);
            }),
            Rare::Released { session, packet_id } => {
                self.before_session(state, *session, |to, it| {
                    to.before_hold(it, *packet_id, After::Gone);
                });
            }
            Rare::ScanMoved { session, scan, .. } => {
                self.before_session(state, *session, |to, it| {
                    let after = After::there_if(it.has_scan(*scan));
                    to.before_scan(it, *scan, after);
                });
            }
            Rare::ScanEnded { session, scan } => {
                self.before_session(state, *session, |to, it| {
                    to.before_scan(it, *scan, After::Gone);
                });
            }
            Rare::Unsubscribed {
                session,
                filter,
                share,
            } => self.before_session(state, *session, |to, it| {
                to.before_unsubscribed(it, (share.as_deref(), filter));
            }),
            Rare::Subscribed {
                session,
                share,
                filter,
                scan,
                ..
            } => {
                self.before_session(state, *session, |to, it| {
                    to.before_subscribed(it, (share.as_deref(), filter), *scan);
                });
                if let Some(share) = share {
                    self.before_leaves(state, *session, Some((share, filter)));
                }
            }
            // What is left of it is written in steps ([`super::gone`]).
            Rare::SessionEnded { session } => {
                self.before_session(state, *session, |_, _| {});
                self.before_leaves(state, *session, None);
            }
            Rare::RetainedExpired {
                topic,
                index,
                ordinal,
            } => {
                let expired = state.retained.get(topic);
                let expired = expired.map(|slot| state.records.address(slot));
                // Where another message is kept by now nothing changes, and that would be written again by the walk.
                if expired.is_some_and(|it| (it.index, it.ordinal) == (index.0, *ordinal)) {
                    self.before_retained(state, topic);
                }
            }
            Rare::ForwardDone { to, seq } => self.before_forward_done(state, *to, *seq),
            // What is owed to who leaves for good is written where it ends ([`State::save_before_shared_end`]).
            Rare::GroupLeft { group, member, .. } => self.before_group(state, *group, |to, it| {
                to.before_member(*group, it, (*member, After::Gone));
            }),
            Rare::GroupJoined { group, member, .. } => {
                self.before_group(state, *group, |to, it| {
                    to.before_member(*group, it, (*member, After::There));
                })
            }
            // What is left of one that ends is written in steps ([`super::gone`]).
            Rare::GroupInherits { group, .. }
            | Rare::GroupTook { group, .. }
            | Rare::GroupClosed { group }
            | Rare::GroupEnded { group } => self.before_group(state, *group, |_, _| {}),
            Rare::GroupFact { group, fact } => self.before_group(state, *group, |to, it| {
                to.before_group_fact(*group, it, fact);
            }),
            Rare::LeaveDone { request } => self.before_leave_done(state, *request),
        }
    }
}
