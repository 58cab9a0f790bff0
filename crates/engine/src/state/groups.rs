//! Shared groups as the log keeps them (M35).

use std::collections::BTreeMap;

use courser_contract::{
    Cut, FrontId, GroupRef, HomeRef, QoS, Record, Seq, SessionUid, SharedStrategy,
    SubscriptionOptions, Tick,
};

use super::{IndexChanged, Sink, State};
use crate::{
    canonical::{Canonical, write_count},
    checkpoint::Saved,
    emptied::Emptied,
    entry::OutcomeFact,
    group::{Dispatch, Fact, Group, Leave, Part},
    ids,
    l2::{Entry, FilterChange},
    lost::Unlost,
    room::Reserved,
    share::Owing,
    stream::Stream,
};

/// A shared group with its stream.
#[derive(Debug)]
pub(crate) struct SharedGroup {
    pub(crate) group: Group,
    pub(crate) stream: Stream,
    pub(crate) lead: GroupLead,
    /// What the last checkpoint has of the group, and where the stream ended when it began, once it has the head; not replicated.
    pub(crate) saved: Saved,
    pub(crate) saved_end: u64,
}

/// What the leader keeps beside a group.
#[derive(Debug, Default)]
pub(crate) struct GroupLead {
    /// None at a follower.
    pub(crate) dispatch: Option<Dispatch>,
    pub(crate) reserved: Reserved,
    /// How far its stream is known to have nothing that is lost.
    pub(crate) unlost: Unlost,
    /// Connections of members; set by [`Partition::set_front`](crate::Partition::set_front).
    pub(crate) fronts: BTreeMap<HomeRef, FrontId>,
    /// Those of them for which messages come out of the log that are theirs already.
    pub(crate) owing: BTreeMap<HomeRef, Owing>,
    /// Its end is proposed.
    pub(crate) ending: bool,
    /// Joins that are proposed.
    pub(crate) joining: u32,
    /// When a member took something last: what it gave back it did not take.
    pub(crate) taken_at: Option<Tick>,
    /// Sessions that have left and have something under way, with the numbers under which their homes hear when it is over.
    pub(crate) departed: BTreeMap<HomeRef, u64>,
    /// What a volatile part passes on to the durable one (M36).
    pub(crate) passing: Option<Passing>,
    /// Of a durable part: below this number it has decided on what was passed on to it.
    pub(crate) took: Option<u64>,
    /// Where that is in its stream: first position and the one behind the last.
    pub(crate) inherited: Vec<(u64, u64)>,
    /// Joins that are answered when it has all.
    pub(crate) waiting_joins: Vec<(HomeRef, u64)>,
}

impl GroupLead {
    /// No member has a connection any more: what only connected members need is given back.
    pub(crate) fn rest(&mut self) {
        self.fronts.give_back_if_empty();
        self.owing.give_back_if_empty();
        self.departed.give_back_if_empty();
        if let Some(dispatch) = &mut self.dispatch {
            dispatch.rest();
        }
    }
}

/// A volatile part on its way out.
#[derive(Debug)]
pub(crate) struct Passing {
    /// The durable part.
    pub(crate) to: GroupRef,
    /// Number of the first message that is not taken there.
    pub(crate) next: u64,
    /// Messages that were sent and not answered.
    pub(crate) sent: Option<Vec<(Seq, Record)>>,
    /// Whether it was said that nothing else waits.
    pub(crate) said_all: bool,
}

impl Passing {
    /// To a durable part that has taken nothing.
    pub(crate) const fn to(to: GroupRef) -> Self {
        Self {
            to,
            next: 0,
            sent: None,
            said_all: false,
        }
    }

    /// Whether the durable part has all that it was told of.
    pub(crate) const fn is_idle(&self) -> bool {
        self.said_all && self.sent.is_none()
    }
}

/// A session that left a group which has not confirmed it, or has something of it that is not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leaving {
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    pub(crate) member: SessionUid,
    pub(crate) ended: bool,
    /// The volatile part that it left, if it left only that (M36).
    pub(crate) part: Option<GroupRef>,
    /// The group that has something of it; the leader's memory.
    pub(crate) group: Option<GroupRef>,
}

/// What L2 says of a group: the highest QoS, RETAIN kept; each member's own options count when it is picked.
const OPTIONS: SubscriptionOptions = SubscriptionOptions {
    qos: QoS::ExactlyOnce,
    no_local: false,
    retain_as_published: true,
    retain_handling: courser_contract::RetainHandling::DoNotSend,
};

impl State {
    pub(super) fn make_group(
        &mut self,
        number: u64,
        share: &str,
        filter: &str,
        strategy: SharedStrategy,
    ) {
        self.last_group = self.last_group.max(ids::counter(number));
        let made = SharedGroup {
            group: Group::new(share, filter, strategy),
            stream: Stream::default(),
            lead: GroupLead::default(),
            saved: Saved::all(self.saved),
            saved_end: 0,
        };
        self.groups.insert(number, Box::new(made));
        self.by_share.insert((share.into(), filter.into()), number);
        let entry = Entry::new(number, OPTIONS, None);
        if self.l2.insert(filter, entry) == FilterChange::Changed {
            self.index_changes
                .insert(filter.into(), IndexChanged::Added);
        }
    }

    /// Puts back a group at its place, which is free; false: another one has its name.
    pub(crate) fn insert_group(&mut self, number: u64, group: SharedGroup) -> bool {
        let name = (group.group.share().into(), group.group.filter().into());
        let entry = Entry::new(number, OPTIONS, None);
        let new = self.l2.insert_new(group.group.filter(), entry);
        self.groups.insert(number, Box::new(group));
        new && self.by_share.insert(name, number).is_none()
    }

    pub(super) fn leave_group(
        &mut self,
        number: u64,
        member: HomeRef,
        ended: bool,
        sink: &mut impl Sink,
    ) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let why = if ended {
            Leave::SessionEnded
        } else {
            Leave::Unsubscribed
        };
        for seq in group.group.leave(member, why) {
            if self.saving.is_some() {
                self.save_before_shared_end(number, seq.0);
            }
            if let Some(group) = self.groups.get_mut(number) {
                group.group.apply(&Fact::Done { seq });
            }
            self.end_shared(number, (seq.0, seq.0 + 1), sink);
        }
    }

    /// Ends references of a group.
    fn end_shared(&mut self, number: u64, (first, end): (u64, u64), sink: &mut impl Sink) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        let SharedGroup {
            group,
            stream,
            lead,
            saved: _,
            saved_end: _,
        } = &mut **group;
        let mut forgotten = 0;
        stream.end_range(first, end, |seq, reference| {
            group.apply(&Fact::Done { seq: Seq(seq) });
            let bytes = self.records.release_measured(reference.slot);
            forgotten += u64::from(bytes);
            self.looks.release(reference.look);
            self.queued -= 1;
            sink.reference_ended(&mut lead.reserved, number, seq, bytes);
        });
        stream.forget_bytes(forgotten);
        stream.settle(&mut self.spare);
        sink.settled_shared(number, lead);
    }

    pub(super) fn apply_shared_outcome(&mut self, outcome: &OutcomeFact, sink: &mut impl Sink) {
        let number = outcome.stream;
        let range = (outcome.first, outcome.last.saturating_add(1));
        self.end_shared(number, range, sink);
    }

    /// Returns how many connections of members it had.
    pub(super) fn end_group(&mut self, number: u64) -> usize {
        let Some(mut gone) = self.groups.remove(number) else {
            return 0;
        };
        let name = (gone.group.share().into(), gone.group.filter().into());
        if self.by_share.get(&name) == Some(&number) {
            self.by_share.remove(&name);
        }
        self.unmatch_group(gone.group.filter(), number);
        let chunks = self.drain_stream(number, &mut gone.stream);
        let fronts = gone.lead.fronts.len();
        if let Some(saving) = &mut self.saving {
            saving.keep_group(number, gone, chunks);
        }
        fronts
    }

    fn unmatch_group(&mut self, filter: &str, number: u64) {
        if self.l2.remove(filter, number) == FilterChange::Changed {
            self.index_changes
                .insert(filter.into(), IndexChanged::Removed);
        }
    }

    /// A durable part gets messages from a cut on.
    pub(super) fn inherit_group(&mut self, number: u64, cut: Cut) {
        if let Some(group) = self.groups.get_mut(number) {
            let taken = match group.group.part() {
                Part::Heir { taken, .. } => taken,
                Part::Whole | Part::Closed => 0,
            };
            group.group.set_part(match cut {
                Cut(0) => Part::Whole,
                cut => Part::Heir {
                    cut,
                    taken,
                    all: false,
                },
            });
        }
    }

    /// It took what was passed on.
    pub(super) fn take_inheritance(&mut self, number: u64, next: u64, (stored, last): (u32, bool)) {
        if let Some(group) = self.groups.get_mut(number)
            && let Part::Heir { cut, all, .. } = group.group.part()
        {
            group.group.set_part(Part::Heir {
                cut,
                taken: next,
                all: all || last,
            });
            let end = group.stream.next();
            if !all {
                group
                    .lead
                    .inherited
                    .push((end.saturating_sub(u64::from(stored)), end));
            }
        }
    }

    /// A volatile part gets nothing more: neither is it found by its name.
    pub(super) fn close_group(&mut self, number: u64) {
        let Some(group) = self.groups.get_mut(number) else {
            return;
        };
        group.group.set_part(Part::Closed);
        let name = (group.group.share().into(), group.group.filter().into());
        if self.by_share.get(&name) == Some(&number) {
            self.by_share.remove(&name);
        }
        self.unmatch_group(&name.1, number);
    }

    /// A session leaves a group.
    pub(super) fn begin_leave(&mut self, request: u64, leaving: Leaving) {
        if !leaving.ended {
            self.change_weight(leaving.member, |it| it.extra_mut().leaves.push(request));
        }
        self.leaves.insert(request, leaving);
    }

    /// A group has nothing of a session that left.
    pub(super) fn end_leave(&mut self, request: u64) {
        let leaving = self.leaves.remove(&request);
        if let Some(leaving) = leaving {
            self.change_weight(leaving.member, |it| {
                if let Some(extra) = &mut it.extra {
                    extra.leaves.retain(|known| *known != request);
                    it.tidy_extra();
                }
            });
        }
    }

    /// A session subscribes to a group that it has left: it is the subscription again that the group speaks of.
    ///
    /// Of a volatile partition it may be another part of the group (M36): there the one that it left says that the leave is over.
    pub(super) fn take_leave_back(&mut self, member: SessionUid, share: &str, filter: &str) {
        if self.id.is_volatile() {
            return;
        }
        let named = |leaving: &Leaving| &*leaving.share == share && &*leaving.filter == filter;
        let left = self.leaves_of(member).filter(|(_, l)| named(l));
        let left: Vec<u64> = left.map(|(request, _)| request).collect();
        for request in left {
            self.end_leave(request);
        }
    }

    /// Groups that a session has left and that may have something of it, oldest first.
    pub(crate) fn leaves_of(&self, uid: SessionUid) -> impl Iterator<Item = (u64, &Leaving)> {
        let session = self.sessions.get(uid.0);
        let extra = session.and_then(|session| session.extra.as_deref());
        let requests = extra.map_or(&[][..], |extra| &extra.leaves);
        let known = |&request| Some((request, self.leaves.get(&request)?));
        requests.iter().filter_map(known)
    }

    pub(super) fn group_streams(&self) -> impl Iterator<Item = &Stream> {
        self.groups.iter().map(|(_, group)| &group.stream)
    }

    pub(super) fn encode_groups(&self, out: &mut Vec<u8>) {
        write_count(self.groups.len(), out);
        for number in self.groups.sorted() {
            let group = self.groups.get(number).expect("it was listed");
            number.write(out);
            group.group.encode(out);
            self.encode_stream(&group.stream, out);
        }
        write_count(self.leaves.len(), out);
        for (request, leaving) in &self.leaves {
            request.write(out);
            leaving.share.write(out);
            leaving.filter.write(out);
            leaving.member.write(out);
            leaving.ended.write(out);
            leaving.part.write(out);
        }
    }

    fn check_leaves(&self) {
        for (number, session) in self.sessions.iter() {
            let extra = session.extra.as_deref();
            let requests = extra.map_or(&[][..], |extra| &extra.leaves);
            for request in requests {
                assert!(
                    self.leaves
                        .get(request)
                        .is_some_and(|leaving| { leaving.member.0 == number && !leaving.ended }),
                    "a session knows the groups that may have something of it"
                );
            }
        }
        for (request, leaving) in self.leaves.iter().filter(|(_, l)| !l.ended) {
            let session = self.sessions.get(leaving.member.0);
            let extra = session.and_then(|session| session.extra.as_deref());
            assert!(
                extra.is_some_and(|extra| extra.leaves.contains(request)),
                "what a session has left ends with it"
            );
        }
    }

    pub(super) fn check_groups(&self) {
        self.check_leaves();
        for (number, group) in self.groups.iter() {
            group.group.check();
            group.stream.check();
            assert_eq!(
                self.l2.has_stream(group.group.filter(), number),
                group.group.part() != Part::Closed,
                "a group is in L2 until it is closed"
            );
            if let Some(dispatch) = &group.lead.dispatch {
                dispatch.check(&group.group);
            }
        }
        for ((share, filter), number) in &self.by_share {
            let group = &self
                .groups
                .get(*number)
                .expect("a name leads to a group")
                .group;
            assert_eq!(
                (group.share(), group.filter()),
                (&**share, &**filter),
                "by its name"
            );
        }
    }
}
