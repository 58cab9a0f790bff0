//! Facts that are not messages: sessions, subscriptions, groups, outboxes.

use std::rc::Rc;

use courser_contract::{PartitionId, Seq, SessionUid};

use super::Applying;
use crate::{
    entry::{Rare, ScanState, Target},
    group::{Fact as GroupFact, Group, Member},
    outbox::{Forward, Refusable},
    session::{OwnerName, Share, Subscribed},
    state::{
        Forwarded, Leaving, RetainedChange, Sink, State,
        sessions::{attach_session, set_will_due},
        weight,
    },
};

impl State {
    pub(super) fn apply_rare(
        &mut self,
        applying: &mut Applying<'_>,
        fact: &Rare,
        sink: &mut impl Sink,
    ) {
        match fact {
            Rare::TermBegun {} => {
                let start = u32::try_from(self.term.0).expect("terms fit the positions (M19)");
                self.outboxes.begin(start);
            }
            Rare::SetDefined { set, targets } => self.define_set(*set, targets),
            Rare::SetPacked { set, targets } => self.define_set(*set, &targets.0),
            Rare::SetDropped { set } => self.sets[*set as usize] = None,
            Rare::Taken { key } => _ = self.take_key(key),
            Rare::SessionOpened {
                session,
                client_id,
                attach,
            } => self.open_session(*session, client_id, attach),
            Rare::SessionAttached { session, attach } => {
                self.change_weight(*session, |it| attach_session(it, attach));
            }
            Rare::SessionDetached {
                session,
                expiry_seconds,
                sent_limit,
                ends_at,
                will_due,
            } => self.change_weight(*session, |it| {
                it.attached = false;
                it.expiry_seconds = *expiry_seconds;
                it.sent_limit = *sent_limit;
                it.ends_at = *ends_at;
                set_will_due(it, *will_due);
            }),
            Rare::SessionOwned { session, owner } => self.change_weight(*session, |it| {
                it.owner = Some(Box::new(OwnerName(owner.clone())));
            }),
            Rare::SessionEnded { session } => self.end_session(*session, sink),
            Rare::WillTaken { session } => self.change_weight(*session, |it| {
                let extra = it.extra_mut();
                extra.will = None;
                extra.will_due = None;
                it.tidy_extra();
            }),
            Rare::Subscribed {
                session,
                filter,
                share,
                options,
                identifier,
                scan,
            } => {
                let share = share.clone();
                let made = Subscribed {
                    filter: filter.clone(),
                    share: share.map(|name| Box::new(Share { name, group: None })),
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
            } => self.move_scan(*session, *scan, (*partition, state)),
            Rare::ScanEnded { session, scan } => self.end_scan(*session, *scan),
            Rare::Held {
                session,
                packet_id,
                hash,
            } => self.hold(*session, *packet_id, *hash),
            Rare::Released { session, packet_id } => self.release(*session, *packet_id),
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
                let forward = Forward {
                    item: Forwarded {
                        slot: applying.last.expect("a forward follows its record"),
                        keep_retained: *keep_retained,
                        cut: *cut,
                    },
                    session: *session,
                    refusable: Refusable::said(*refusable),
                };
                self.push_forward(*to, forward, sink);
            }
            Rare::ForwardDone { to, seq } => self.settle_forward(*to, *seq, sink),
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
                self.change_group(*group, |it| _ = it.join(*member, asked));
            }
            Rare::GroupLeft {
                group,
                member,
                ended,
            } => self.leave_group(*group, *member, *ended, sink),
            Rare::GroupEnded { group } => {
                let fronts = self.end_group(*group);
                sink.group_ended(*group, fronts);
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
                self.change_group(*group, |it| it.apply(fact));
                if self.records.tombstones() > 0
                    && let GroupFact::Received { seq } = fact
                    && let Some(group) = self.groups.get(*group)
                {
                    let reference = group.stream.get(seq.0);
                    self.records.note_unneeded(reference.map(|it| it.slot));
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

    /// Changes a group that is still there.
    fn change_group(&mut self, group: u64, change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.get_mut(group) {
            change(&mut group.group);
        }
    }

    fn push_forward(&mut self, to: PartitionId, forward: Forward<Forwarded>, sink: &mut impl Sink) {
        self.records.keep_pinned(forward.item.slot);
        sink.forwarded(to, self.outboxes.push(to, forward));
    }

    fn settle_forward(&mut self, to: PartitionId, seq: Seq, sink: &mut impl Sink) {
        if let Some(forward) = self.outboxes.settle(to, seq) {
            let bytes = self.records.release_measured(forward.item.slot);
            if let Some(session) = forward.session {
                sink.forward_ended(session, bytes);
            }
        }
    }

    fn move_scan(
        &mut self,
        session: SessionUid,
        scan: u64,
        (partition, state): (PartitionId, &ScanState),
    ) {
        let session = self.sessions.get_mut(session.0);
        let extra = session.and_then(|session| session.extra.as_mut());
        if let Some(scan) = extra.and_then(|extra| extra.scans.get_mut(&scan)) {
            self.session_bytes -= weight::of_scan(scan);
            scan.cursors.insert(partition, state.clone());
            self.session_bytes += weight::of_scan(scan);
        }
    }

    fn end_scan(&mut self, session: SessionUid, scan: u64) {
        let mut ended = None;
        self.change_weight(session, |it| {
            ended = it.extra_mut().scans.remove(&scan);
            it.tidy_extra();
        });
        self.session_bytes -= ended.as_ref().map_or(0, weight::of_scan);
    }

    fn hold(&mut self, session: SessionUid, packet_id: u16, hash: u64) {
        self.change_weight(session, |it| {
            it.extra_mut().holds.insert(packet_id, hash);
        });
    }

    fn release(&mut self, session: SessionUid, packet_id: u16) {
        self.change_weight(session, |it| {
            it.extra_mut().holds.remove(&packet_id);
            it.tidy_extra();
        });
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
        sink.unkept(slot, &self.records);
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
