//! Fact by fact.

use std::rc::Rc;

use courser_contract::{AppendKey, RecordView};
use smallvec::SmallVec;

use super::{
    Forwarded, Leaving, RetainedChange, Sink, State, Stored,
    sessions::{attach_session, set_will_due},
};
use crate::{
    entry::{Fact, Fate, OutcomeFact, PublishFact, Rare, Target, TargetsAt},
    group::Member,
    ids::{self, Owner},
    outbox::{Forward, Refusable},
    record::Slot,
    session::{OwnerName, Session, Share, Subscribed},
    stream::Reference,
};

/// What is known while an entry is applied.
#[derive(Debug)]
pub(super) struct Applying<'a> {
    block: u32,
    /// Record of the last publish, kept for facts that refer to it.
    last: Option<Slot>,
    /// Targets of the last publish: the next one may refer to them.
    targets: TargetsNow,
    /// Topic of the last publish: the next one's is likely to be the same.
    topic: &'a str,
}

/// The targets of a publish.
#[derive(Debug)]
enum TargetsNow {
    Set(Rc<[Target]>),
    Inline(SmallVec<[Target; 1]>),
}

impl TargetsNow {
    fn as_slice(&self) -> &[Target] {
        match self {
            Self::Set(targets) => targets,
            Self::Inline(targets) => targets,
        }
    }
}

impl<'a> Applying<'a> {
    /// Nothing of an entry is applied yet; its records are in `block`.
    pub(super) fn new(block: u32) -> Self {
        Self {
            block,
            last: None,
            targets: TargetsNow::Inline(SmallVec::new()),
            topic: "",
        }
    }

    /// All of the entry is applied.
    pub(super) fn finish(mut self, state: &mut State) -> u32 {
        self.forget_last(state);
        self.block
    }

    /// Lets go of the record that later facts of the entry might have referred to.
    #[inline]
    fn forget_last(&mut self, state: &mut State) {
        if let Some(slot) = self.last.take() {
            state.records.release(slot);
        }
    }

    #[inline]
    fn look_up_targets(&mut self, sets: &[Option<Rc<[Target]>>], publish: &PublishFact<'_>) {
        match publish.targets {
            TargetsAt::Same => {}
            TargetsAt::Inline(count, at) => {
                self.targets = TargetsNow::Inline(publish.inline(count, at).collect());
            }
            TargetsAt::Set(set) => {
                let set = sets.get(set as usize).cloned().flatten();
                self.targets = TargetsNow::Set(set.expect("a set is defined before it is named"));
            }
        }
    }
}

impl State {
    #[inline(always)]
    pub(super) fn apply_fact<'a>(
        &mut self,
        applying: &mut Applying<'a>,
        fact: &Fact<'a>,
        sink: &mut impl Sink,
    ) {
        if self.saving.is_some() {
            self.save_before(fact);
        }
        match fact {
            Fact::Publish(publish) => self.apply_publish(applying, publish, sink),
            Fact::Outcome(outcome) => self.apply_outcome(outcome, sink),
            Fact::Rare(rare) => {
                self.apply_rare(applying, rare, sink);
                sink.applied(rare);
            }
        }
    }

    #[inline]
    fn apply_publish<'a>(
        &mut self,
        applying: &mut Applying<'a>,
        publish: &PublishFact<'a>,
        sink: &mut impl Sink,
    ) {
        applying.forget_last(self);
        applying.look_up_targets(&self.sets, publish);
        if !self.take_key(&publish.key) {
            return;
        }
        let slot = self.records.insert(
            applying.block,
            publish.record_at,
            publish.record_len,
            self.index,
        );
        applying.last = Some(slot);
        let record = publish.record();
        let view = record.view_like(applying.topic);
        applying.topic = view.topic;
        let bytes = u32::try_from(publish.record_len).expect("a packet is far below 4 GiB");
        let mut places = 0;
        for target in applying.targets.as_slice() {
            if self.store(target, (slot, bytes), &view, sink) {
                places += 1;
            }
        }
        self.records.keep_for(slot, places);
        self.queued += u64::from(places);
        if publish.keep_retained {
            self.keep_retained(slot, &view, sink);
        }
        sink.published(record, view, &publish.key);
    }

    /// Whether an append is new (M14).
    fn take_key(&mut self, key: &AppendKey) -> bool {
        match *key {
            AppendKey::Unanswered => true,
            AppendKey::Numbered {
                origin,
                number,
                floor,
            } => self.origins.take(origin, number, floor),
            AppendKey::Outbox { source, seq, floor } => self.inbox.take(source, seq, floor),
        }
    }

    /// Puts a reference to a record into a stream. False: the stream has ended (M7).
    #[inline]
    fn store(
        &mut self,
        target: &Target,
        (slot, bytes): (Slot, u32),
        view: &RecordView<'_>,
        sink: &mut impl Sink,
    ) -> bool {
        let qos = Self::delivered_qos(view, target.qos);
        let retain = target.retain.of(view.retain);
        let mut stored = Stored {
            seq: 0,
            bytes,
            qos,
            retain,
            expires_at: view.expires_at,
        };
        let number = target.stream;
        match ids::owner(number) {
            Owner::Session => {
                let Some(session) = self.sessions.get_mut(number) else {
                    return false;
                };
                let look = self.looks.make(qos, retain, target.identifiers.as_ref());
                let reference = Reference { slot, look };
                stored.seq = session.stream.push(reference, bytes, &mut self.spare);
                sink.stored(session, &stored, target);
            }
            Owner::Group => {
                let Some(group) = self.groups.get_mut(number) else {
                    return false;
                };
                self.records.pin(slot);
                let look = self.looks.make(qos, retain, None);
                let reference = Reference { slot, look };
                stored.seq = group.stream.push(reference, bytes, &mut self.spare);
                sink.stored_shared(number, group, &stored);
            }
        }
        true
    }

    /// Keeps or clears the retained message of a topic (v3 [MQTT-3.3.1-5], v5 [MQTT-3.3.1-5]; an empty payload clears:
    /// v3 [MQTT-3.3.1-10], v5 [MQTT-3.3.1-6]).
    fn keep_retained(&mut self, slot: Slot, view: &RecordView<'_>, sink: &mut impl Sink) {
        let before = self.retained.usage();
        let (old, kept) = if view.payload.is_empty() {
            (self.retained.clear(view.topic), None)
        } else {
            self.records.keep_pinned(slot);
            let bytes = self.records.len_of(slot);
            let old = self.retained.set(view.topic, slot, bytes);
            (old, Some((slot, bytes)))
        };
        if let Some(old) = old {
            self.records.release(old);
        }
        sink.retained(&RetainedChange {
            topic: view.topic,
            slot: kept.map(|(slot, _)| slot),
            bytes: kept.map(|(_, bytes)| bytes),
            address: kept.map(|(slot, _)| self.records.address(slot)),
            expired: false,
            expires_at: view.expires_at,
            before,
            after: self.retained.usage(),
        });
    }

    fn apply_outcome(&mut self, outcome: &OutcomeFact, sink: &mut impl Sink) {
        if ids::owner(outcome.stream) == Owner::Group {
            return self.apply_shared_outcome(outcome, sink);
        }
        let Self {
            sessions,
            records,
            looks,
            spare,
            queued,
            ..
        } = self;
        let Some(session) = sessions.get_mut(outcome.stream) else {
            return;
        };
        session.sent_limit = session.sent_limit.max(outcome.sent_limit);
        let first = outcome.first.max(session.stream.floor());
        let end = outcome.last.saturating_add(1).min(session.stream.next());
        match outcome.fate {
            Fate::Received => {
                for seq in first..end {
                    if session.stream.mark_received(seq) {
                        sink.received(session, seq);
                    }
                }
            }
            Fate::Done | Fate::Rejected | Fate::Skipped | Fate::Expired | Fate::Dropped => {
                let Session { stream, lead, .. } = &mut **session;
                let mut forgotten = 0;
                stream.end_range(first, end, |seq, reference| {
                    let bytes = records.len_of(reference.slot);
                    forgotten += u64::from(bytes);
                    sink.reference_ended(&mut lead.reserved, outcome.stream, seq, bytes);
                    records.release(reference.slot);
                    looks.release(reference.look);
                    *queued -= 1;
                });
                stream.forget_bytes(forgotten);
                stream.settle(spare);
            }
        }
        sink.settled(session);
    }

    fn apply_rare(&mut self, applying: &mut Applying<'_>, fact: &Rare, sink: &mut impl Sink) {
        match fact {
            Rare::TermBegun {} => {
                let start = u32::try_from(self.term.0).expect("terms fit the positions (M19)");
                self.outboxes.begin(start);
            }
            Rare::SetDefined { set, targets } => self.define_set(*set, targets),
            Rare::SetPacked { set, targets } => self.define_set(*set, &targets.0),
            Rare::SetDropped { set } => self.sets[*set as usize] = None,
            Rare::Taken { key } => {
                self.take_key(key);
            }
            Rare::SessionOpened {
                session,
                client_id,
                attach,
            } => self.open_session(*session, client_id, attach),
            Rare::SessionAttached { session, attach } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    attach_session(session, attach);
                }
            }
            Rare::SessionDetached {
                session,
                expiry_seconds,
                sent_limit,
                ends_at,
                will_due,
            } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    session.attached = false;
                    session.expiry_seconds = *expiry_seconds;
                    session.sent_limit = *sent_limit;
                    session.ends_at = *ends_at;
                    set_will_due(session, *will_due);
                }
            }
            Rare::SessionOwned { session, owner } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    session.owner = Some(Box::new(OwnerName(owner.clone())));
                }
            }
            Rare::SessionEnded { session } => self.end_session(*session, sink),
            Rare::WillTaken { session } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    let extra = session.extra_mut();
                    extra.will = None;
                    extra.will_due = None;
                    session.tidy_extra();
                }
            }
            Rare::Subscribed {
                session,
                filter,
                share,
                options,
                identifier,
                scan,
            } => {
                let made = Subscribed {
                    filter: filter.clone(),
                    share: share
                        .clone()
                        .map(|name| Box::new(Share { name, group: None })),
                    options: *options,
                    identifier: *identifier,
                };
                self.subscribe(*session, made, *scan);
            }
            Rare::Unsubscribed {
                session,
                filter,
                share,
            } => self.unsubscribe(*session, share.as_deref(), filter),
            Rare::ScanMoved {
                session,
                scan,
                partition,
                state,
            } => {
                let session = self.sessions.get_mut(session.0);
                let extra = session.and_then(|session| session.extra.as_mut());
                if let Some(scan) = extra.and_then(|extra| extra.scans.get_mut(scan)) {
                    scan.cursors.insert(*partition, state.clone());
                }
            }
            Rare::ScanEnded { session, scan } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    session.extra_mut().scans.remove(scan);
                    session.tidy_extra();
                }
            }
            Rare::Held {
                session,
                packet_id,
                hash,
            } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    session.extra_mut().holds.insert(*packet_id, *hash);
                }
            }
            Rare::Released { session, packet_id } => {
                if let Some(session) = self.sessions.get_mut(session.0) {
                    session.extra_mut().holds.remove(packet_id);
                    session.tidy_extra();
                }
            }
            Rare::RetainedExpired {
                topic,
                index,
                ordinal,
            } => self.expire_retained(topic, index.0, *ordinal, sink),
            Rare::Forward {
                to,
                keep_retained,
                session,
                refusable,
                cut,
            } => {
                let slot = applying.last.expect("a forward follows its record");
                self.records.keep_pinned(slot);
                let forward = Forward {
                    item: Forwarded {
                        slot,
                        keep_retained: *keep_retained,
                        cut: *cut,
                    },
                    session: *session,
                    refusable: if *refusable {
                        Refusable::Yes
                    } else {
                        Refusable::No
                    },
                };
                let seq = self.outboxes.push(*to, forward);
                sink.forwarded(*to, seq);
            }
            Rare::ForwardDone { to, seq } => {
                if let Some(forward) = self.outboxes.settle(*to, *seq) {
                    self.records.release(forward.item.slot);
                }
            }
            Rare::GroupMade {
                group,
                share,
                filter,
                strategy,
            } => self.make_group(*group, share, filter, *strategy),
            Rare::GroupJoined {
                group,
                member,
                options,
                identifier,
            } => {
                let asked = Member {
                    options: *options,
                    identifier: *identifier,
                    priority: 0,
                };
                if let Some(group) = self.groups.get_mut(*group) {
                    group.group.join(*member, asked);
                }
            }
            Rare::GroupLeft {
                group,
                member,
                ended,
            } => self.leave_group(*group, *member, *ended, sink),
            Rare::GroupEnded { group } => {
                self.end_group(*group);
                sink.group_ended(*group);
            }
            Rare::GroupInherits { group, cut } => self.inherit_group(*group, *cut),
            Rare::GroupTook {
                group,
                next,
                stored,
                all,
            } => self.take_inheritance(*group, *next, (*stored, *all)),
            Rare::GroupClosed { group } => self.close_group(*group),
            Rare::GroupFact { group, fact } => {
                if let Some(group) = self.groups.get_mut(*group) {
                    group.group.apply(fact);
                }
            }
            Rare::LeaveBegun {
                request,
                share,
                filter,
                member,
                ended,
                part,
            } => {
                let leaving = Leaving {
                    share: share.clone(),
                    filter: filter.clone(),
                    member: *member,
                    ended: *ended,
                    part: *part,
                    group: None,
                };
                self.begin_leave(*request, leaving);
            }
            Rare::LeaveDone { request } => self.end_leave(*request),
        }
    }

    fn define_set(&mut self, set: u32, targets: &[Target]) {
        let at = set as usize;
        if at >= self.sets.len() {
            self.sets.resize(at + 1, None);
        }
        assert!(
            self.sets[at].is_none(),
            "a set's number is free before it is given"
        );
        self.sets[at] = Some(Rc::from(targets));
    }

    fn expire_retained(&mut self, topic: &str, index: u64, ordinal: u32, sink: &mut impl Sink) {
        let before = self.retained.usage();
        let Some(slot) = self.retained.get(topic) else {
            return;
        };
        let address = self.records.address(slot);
        if (address.index, address.ordinal) != (index, ordinal) {
            return;
        }
        self.retained.clear(topic);
        self.records.release(slot);
        sink.retained(&RetainedChange {
            topic,
            slot: None,
            bytes: None,
            address: None,
            expired: true,
            expires_at: None,
            before,
            after: self.retained.usage(),
        });
    }
}
