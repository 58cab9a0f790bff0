//! What a fact is about to change goes into the checkpoint first (M42). Whatever is written here is as it was when the
//! checkpoint began, since nothing has changed it since; it is written once, here or by the walk.

use courser_contract::SessionUid;

use super::{
    save::{OpenSet, Saving},
    unit::Names,
    walk::Walk,
};
use crate::{
    entry::{Fact, OutcomeFact, PublishFact, Rare, TargetsAt},
    ids::{self, Owner},
    retained,
    state::State,
    stream::Stream,
};

/// All positions of a stream.
const ALL: (u64, u64) = (0, u64::MAX);

/// The last position of a stream: what is pushed changes the chunk that holds it.
const fn last_of(stream: &Stream) -> (u64, u64) {
    (stream.next().saturating_sub(1), stream.next())
}

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

impl Saving {
    /// Whether the bug is planted: never without the feature.
    const fn is_planted(&self) -> bool {
        cfg!(feature = "planted") && self.late
    }

    fn before_publish(&mut self, state: &mut State, publish: &PublishFact<'_>) {
        match publish.targets {
            // Written before the publish that named them.
            TargetsAt::Same => {}
            TargetsAt::Inline(count, at) => {
                for target in publish.inline(count, at) {
                    self.stream(state, target.stream, last_of);
                }
            }
            TargetsAt::Set(set) => {
                let targets = state.sets.get(set as usize).cloned().flatten();
                for target in targets.iter().flat_map(|targets| targets.iter()) {
                    self.stream(state, target.stream, last_of);
                }
            }
        }
        if publish.keep_retained {
            self.before_retained(state, publish.record().view().topic);
        }
    }

    fn before_outcome(&mut self, state: &mut State, outcome: &OutcomeFact) {
        let range = (outcome.first, outcome.last.saturating_add(1));
        self.stream(state, outcome.stream, |_| range);
    }

    /// The chunks of a stream in a range, and what says where the stream ends.
    fn stream(&mut self, state: &mut State, number: u64, range: impl Fn(&Stream) -> (u64, u64)) {
        let names = Names {
            records: &state.records,
            looks: &state.looks,
        };
        match ids::owner(number) {
            Owner::Session => {
                if let Some(session) = state.sessions.get_mut(number) {
                    self.session(session);
                    let range = range(&session.stream);
                    self.chunks(number, &mut session.stream, range, names);
                }
            }
            Owner::Group => {
                if let Some(group) = state.groups.get_mut(number) {
                    self.group(number, group);
                    let range = range(&group.stream);
                    self.chunks(number, &mut group.stream, range, names);
                }
            }
        }
    }

    fn before_session(&mut self, state: &mut State, session: SessionUid) {
        if let Some(session) = state.sessions.get_mut(session.0) {
            self.whole_session(session);
        }
    }

    fn before_group(&mut self, state: &mut State, number: u64) {
        if let Some(group) = state.groups.get_mut(number) {
            self.group(number, group);
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

    fn before_set_dropped(&mut self, state: &State, set: u32) {
        let walked = match &self.walk {
            Walk::Sets(at) => set < *at,
            Walk::Sessions(..)
            | Walk::Groups(..)
            | Walk::Retained(_)
            | Walk::Outboxes(..)
            | Walk::Leaves(_)
            | Walk::Done => true,
        };
        if walked || self.new_sets.remove(&set) {
            return;
        }
        if let Some(targets) = state.sets.get(set as usize).cloned().flatten() {
            let from = 0;
            self.open_sets.push(OpenSet { set, targets, from });
        }
    }

    fn before_forward_done(
        &mut self,
        state: &State,
        to: courser_contract::PartitionId,
        seq: courser_contract::Seq,
    ) {
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
                self.new_sets.insert(*set);
            }
            Rare::SetDropped { set } => self.before_set_dropped(state, *set),
            Rare::SessionAttached { session, .. }
            | Rare::SessionOwned { session, .. }
            | Rare::SessionDetached { session, .. }
            | Rare::WillTaken { session }
            | Rare::Unsubscribed { session, .. }
            | Rare::ScanMoved { session, .. }
            | Rare::ScanEnded { session, .. }
            | Rare::Held { session, .. }
            | Rare::Released { session, .. } => self.before_session(state, *session),
            Rare::Subscribed {
                session,
                share,
                filter,
                ..
            } => {
                self.before_session(state, *session);
                if let Some(share) = share {
                    self.before_leaves(state, *session, Some((share, filter)));
                }
            }
            Rare::SessionEnded { session } => {
                self.before_session(state, *session);
                self.before_leaves(state, *session, None);
                self.stream(state, session.0, |_| ALL);
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
            Rare::GroupJoined { group, .. }
            | Rare::GroupInherits { group, .. }
            | Rare::GroupTook { group, .. }
            | Rare::GroupClosed { group } => self.before_group(state, *group),
            // Who leaves for good takes messages of any position along.
            Rare::GroupLeft { group, .. } | Rare::GroupEnded { group } => {
                self.stream(state, *group, |_| ALL);
            }
            Rare::GroupFact { group, .. } => self.before_group(state, *group),
            Rare::LeaveDone { request } => self.before_leave_done(state, *request),
        }
    }
}
