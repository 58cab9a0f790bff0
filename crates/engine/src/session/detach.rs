//! Connections go, sessions end.

use compact_str::CompactString;
use courser_contract::{
    AppendKey, Cut, DetachCause, Epoch, HeldClaim, PartitionEffects, PartitionId, QoS, Record,
    RecordView, SessionUid, ToPartition, WallMs,
};
use smallvec::SmallVec;

use super::{Going, Session, wills::WillFate};
use crate::{
    Overflow, Partition,
    entry::Rare,
    lead::{After, Due, Holder, Lead},
};

/// What a front says as the last of its session.
#[derive(Clone, Debug)]
pub(crate) struct LastWords {
    /// Why it goes.
    pub(crate) cause: DetachCause,
    /// A new session expiry interval, in seconds.
    pub(crate) expiry_seconds: Option<u32>,
    /// Partitions with appends of it that have not settled.
    pub(crate) open: Vec<PartitionId>,
    /// What the session held elsewhere.
    pub(crate) claim: Option<Box<HeldClaim>>,
}

impl LastWords {
    /// Of a front that has nothing else to say.
    pub(crate) const fn new(cause: DetachCause) -> Self {
        Self {
            cause,
            expiry_seconds: None,
            open: Vec::new(),
            claim: None,
        }
    }
}

impl Partition {
    /// A front lets go of its session.
    pub(crate) fn detach(
        &mut self,
        uid: SessionUid,
        epoch: Epoch,
        words: LastWords,
        fx: &mut impl PartitionEffects,
    ) {
        let session = self.state.sessions.get(uid.0).filter(|session| {
            session.epoch == epoch && session.attached && session.lead.going == Going::Nowhere
        });
        let Some(session) = session else {
            return self.unclaim_elsewhere(epoch, words, fx);
        };
        let LastWords {
            cause,
            expiry_seconds,
            mut open,
            claim,
        } = words;
        let client_id = session.client_id.clone();
        let owner = session.owner.as_deref().cloned();
        let expiry = expiry_seconds.unwrap_or(session.expiry_seconds);
        let expiry = expiry.min(self.config.limits.session_expiry_seconds_max);
        let leaves_will = cause != DetachCause::Disconnect && self.will(uid).is_some();
        self.stop_live(uid, fx);
        if expiry == 0 {
            if cause == DetachCause::Disconnect {
                self.write(&Rare::WillTaken { session: uid });
                self.forget_will(uid);
            }
            self.hand_place_to_waiting(uid, &client_id);
            self.end_session(uid, fx);
        } else {
            self.write_detach(uid, cause, expiry, fx);
        }
        if !client_id.is_empty() {
            // Also when a new leader detaches what it found attached: a connection that comes meanwhile waits (M25).
            self.hold(&client_id, Holder::Leaving, owner.as_ref().map(|it| &*it.0));
        }
        if let Some(claim) = claim {
            // Behind its will, which goes straight: the one that gave the claim waits until that has come to where it goes.
            open.extend(leaves_will.then_some(self.config.id));
            let (to, unclaim) = unclaim(*claim, epoch, std::mem::take(&mut open));
            self.lead.after(After::Send(to, Box::new(unclaim)));
        }
        self.lead.after(After::Detached {
            client_id,
            session: uid,
            open,
        });
    }

    /// A front lets go of a session that is not here, or not any more: what it holds elsewhere nobody else gives back.
    pub(crate) fn unclaim_elsewhere(
        &self,
        epoch: Epoch,
        words: LastWords,
        fx: &mut impl PartitionEffects,
    ) {
        let LastWords { open, claim, .. } = words;
        if let Some(claim) = claim {
            // A will may have gone with the session.
            let open = open.into_iter().chain([self.config.id]).collect();
            let (to, unclaim) = unclaim(*claim, epoch, open);
            fx.send_partition(to, unclaim);
        }
    }

    fn write_detach(
        &mut self,
        uid: SessionUid,
        cause: DetachCause,
        expiry: u32,
        fx: &mut impl PartitionEffects,
    ) {
        let wall = self.wall();
        let fate = self.will_fate(uid, cause, expiry, wall, fx);
        let session = self.state.sessions.get(uid.0).expect("the caller saw it");
        let ends_at = WallMs(wall.0 + u64::from(expiry) * 1_000);
        let will_due = match fate {
            WillFate::At(at) => Some(at),
            WillFate::Deleted | WillFate::Now => None,
        };
        let fact = Rare::SessionDetached {
            session: uid,
            expiry_seconds: expiry,
            sent_limit: session.lead.sent_by_last,
            ends_at: Some(ends_at),
            will_due,
        };
        match fate {
            WillFate::Deleted => self.write(&Rare::WillTaken { session: uid }),
            WillFate::Now => self.publish_will(uid, fx),
            WillFate::At(at) => {
                self.lead.due.insert(at, Due::Will(uid.0));
            }
        }
        self.write(&fact);
        self.lead.due.insert(ends_at, Due::SessionEnd(uid.0));
        if let Some(session) = self.state.sessions.get_mut(uid.0) {
            session.lead.going = Going::Detached;
        }
    }

    /// What was to happen while nobody is connected does not happen any more. Its moment may be far away: until then it would only take
    /// room (I9).
    pub(super) fn cancel_due(&mut self, uid: SessionUid) {
        self.cancel_will(uid);
        let session = self.state.sessions.get(uid.0);
        if let Some(at) = session.and_then(|session| session.ends_at) {
            self.lead.due.remove(at, Due::SessionEnd(uid.0));
        }
    }

    /// The connection is gone: nothing is pushed any more.
    fn stop_live(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        let Some(session) = self.state.sessions.get_mut(uid.0) else {
            return;
        };
        session.lead.sent_by_last = session.was_sent_below();
        self.lead.streams.passed.remove(&uid.0);
        self.lead.targets.routed.forget();
        self.lead.forget_waiting_requests(uid);
        if session.lead.live.take().is_some() {
            self.lead.registry.attached -= 1;
            self.tell_groups(uid, fx);
        }
    }

    /// Ends a session: its will goes out, its groups hear of it, all that it has is dropped.
    pub(crate) fn end_session(&mut self, uid: SessionUid, fx: &mut impl PartitionEffects) {
        self.stop_live(uid, fx);
        self.publish_will(uid, fx);
        self.cancel_due(uid);
        self.leave_groups(uid, fx);
        self.lead.registry.will_authors.remove(&uid);
        self.write(&Rare::SessionEnded { session: uid });
        if let Some(session) = self.state.sessions.get_mut(uid.0) {
            session.lead.going = Going::Ended;
            self.state.l2.note_changes(session.subscriptions.len());
        }
        self.give_place_back(uid, fx);
    }

    /// Decides how a message that begins here goes to its destinations: to the own streams by the entry that is gathered,
    /// through outboxes to partitions with a log, straight after the commit to volatile ones (M13, M19). A will of a volatile
    /// partition has nobody who waits for its end: it goes straight, too.
    pub(crate) fn plan_spread(
        &mut self,
        view: &RecordView<'_>,
        (destinations, cuts): (&[PartitionId], &[Cut]),
        awaited: Awaited,
        fx: &mut impl PartitionEffects,
    ) -> Plan {
        let id = self.config.id;
        let keeper = view.retain.then(|| fx.retained_partition(view.topic));
        let mut plan = Plan {
            keeper,
            can_refuse: awaited != Awaited::ByNobody,
            ..Plan::default()
        };
        let straight =
            view.qos == QoS::AtMostOnce || awaited == Awaited::ByNobody && self.is_volatile();
        for (at, &to) in destinations.iter().enumerate() {
            let cut = cuts.get(at).copied().unwrap_or_default();
            if to == id {
                plan.own = true;
                plan.own_cut = cut;
            } else if straight || to.is_volatile() {
                plan.straight.push((to, cut));
            } else {
                plan.outbox.push((to, cut));
            }
        }
        if let Awaited::ByClient(session) = awaited
            && self.is_held_back(session, &plan)
        {
            plan.refused = true;
            return plan;
        }
        // What nobody waits for is dropped where there is no room.
        if plan.own && plan.can_refuse && self.own_refuse(view, plan.own_cut) {
            plan.refused = true;
            return plan;
        }
        if plan.own && keeper == Some(id) {
            plan.keep_here = self.admit_retained(view).is_ok();
            plan.refused = !plan.keep_here;
        }
        plan
    }

    /// Whether a message may be refused where some of its session is refused already and asks again: it would only wait behind that,
    /// and after it another one, without a bound (I9).
    fn is_held_back(&self, session: SessionUid, plan: &Plan) -> bool {
        let forwards = &self.lead.forwards;
        let mut outbox = plan.outbox.iter();
        outbox.any(|&(to, _)| self.may_refuse(plan, to) && forwards.is_refused_at(to, session))
    }

    /// Whether another partition may refuse a message. It decides by the limits that this one has, too.
    fn may_refuse(&self, plan: &Plan, to: PartitionId) -> bool {
        let all_refuse = self.config.limits.overflow == Overflow::RefusePublisher;
        plan.can_refuse && (plan.keeper == Some(to) || all_refuse)
    }

    /// Writes what [`Partition::plan_spread`] decided.
    pub(crate) fn spread(
        &mut self,
        view: &RecordView<'_>,
        plan: &Plan,
        session: SessionUid,
        fx: &mut impl PartitionEffects,
    ) -> Spread {
        if plan.own || !plan.outbox.is_empty() {
            self.store_own(view, plan, fx);
        }
        if plan.keeper.is_some_and(|keeper| keeper != self.config.id) {
            self.lead.forwards.last_kept_elsewhere = self.lead.number + 1;
        }
        let mut some_refuses = false;
        for &(to, cut) in &plan.outbox {
            let keep_retained = plan.keeper == Some(to);
            let refusable = self.may_refuse(plan, to);
            some_refuses |= refusable;
            self.write(&Rare::Forward {
                to,
                keep_retained,
                session: Some(session),
                refusable,
                cut,
            });
            self.lead.forwards.reserved += 1;
            let bytes = view.encoded_len() as u64;
            self.lead.forwards.begun(session, bytes);
        }
        for &(to, cut) in &plan.straight {
            let append = ToPartition::Append {
                key: AppendKey::Unanswered,
                record: Record::copy_of(view),
                keep_retained: plan.keeper == Some(to),
                refusable: false,
                leader: None,
                cut,
                session: Some(session),
            };
            self.lead.after(After::Send(to, Box::new(append)));
        }
        Spread {
            forwards: plan.outbox.len(),
            refusable: some_refuses,
        }
    }

    /// The entry that detached a session is applied.
    pub(crate) fn detached(
        &mut self,
        client_id: CompactString,
        session: SessionUid,
        open: &[PartitionId],
        fx: &mut impl PartitionEffects,
    ) {
        // What a limit that was lowered spared for its connection has nobody now.
        if self.is_over(session.0) {
            self.watch_sizes();
        }
        // What its scans waited for, its window or its front, does not come.
        self.scan_on(session.0, fx);
        if !client_id.is_empty() {
            self.let_go(client_id, open, fx);
        }
    }
}

fn unclaim(claim: HeldClaim, epoch: Epoch, open: Vec<PartitionId>) -> (PartitionId, ToPartition) {
    let HeldClaim {
        partition,
        client_id,
    } = claim;
    let message = ToPartition::Unclaim {
        client_id,
        epoch,
        open,
    };
    (partition, message)
}

/// Who waits for the end of what goes to other partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// The client of a session, for its PUBREC.
    ByClient(SessionUid),
    /// At most a later connection of the same client.
    ByNobody,
}

/// How a message that begins here goes to its destinations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// To streams of this partition.
    pub(crate) own: bool,
    /// The last cut of the own shard before the message was matched (M36).
    pub(crate) own_cut: Cut,
    /// Only a client can be refused, here or at another destination.
    pub(crate) can_refuse: bool,
    /// This partition keeps it as the topic's retained message.
    pub(crate) keep_here: bool,
    /// This partition has no room for it: as the retained message, or in a session that refuses its publishers.
    pub(crate) refused: bool,
    /// Who keeps it as the retained message.
    pub(crate) keeper: Option<PartitionId>,
    /// Through outboxes.
    pub(crate) outbox: SmallVec<[(PartitionId, Cut); 4]>,
    /// Straight after the commit.
    pub(crate) straight: SmallVec<[(PartitionId, Cut); 4]>,
}

/// Where [`Partition::spread`] sent something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    /// Facts that put it into outboxes.
    pub(crate) forwards: usize,
    /// Whether one of those destinations may refuse it (M28).
    pub(crate) refusable: bool,
}

impl Lead {
    /// A session is gone: what was open for it is void.
    pub(crate) fn forget_session(&mut self, session: &Session) {
        let uid = session.uid;
        self.targets.routed.forget();
        if session.lead.live.is_some() {
            self.registry.attached -= 1;
        }
        self.scans.forget(uid, |_| true);
        self.forget_stream(uid.0);
        self.open_requests.remove(&uid.0);
    }

    /// A stream is gone: nothing of it is to end any more, and nothing comes to it.
    pub(crate) fn forget_stream(&mut self, number: u64) {
        self.streams.coming.forget(number);
        if !self.streams.doomed.is_empty() {
            self.streams.doomed.retain(|(stream, _)| *stream != number);
        }
    }
}
