//! Subscriptions: committed, then in L1, then answered (M38).

use courser_contract::{
    Dropped, Epoch, Fence, FrontId, IndexChange, IndexToken, LeaveCause, PartitionEffects,
    RequestPart, RetainHandling, SessionUid, SubscribeResult, Subscription, ToFront,
};

use super::{Going, Held, Name, Session, Sizes};
use crate::{
    DiskRoom, Partition, SessionRoom,
    entry::Rare,
    lead::{After, Asked, Fenced, Indexed, Joining, Role, Subscribing, Unsubscribing},
    state::IndexChanged,
};

/// Filters that L1 hears of at once: it is told of the end of a session with thousands in parts, between which it does other work.
const INDEX_CHANGES_MAX: usize = 128;

/// What an UNSUBSCRIBE costs for each subscription that it ends, as ends of filters with their session: an entry is written (measured: 10 to
/// 40 µs, by how many the session has).
const FILTER_CHANGES: usize = 17;

impl Partition {
    /// The session of a front's message, if the message is of its present attachment.
    pub(crate) fn session_of(&self, uid: SessionUid, epoch: Epoch) -> Option<(&Session, FrontId)> {
        let session = self.state.sessions.get(uid.0)?;
        let front = session.lead.live.as_ref()?.front;
        (session.epoch == epoch).then_some((session, front))
    }

    /// A part of a SUBSCRIBE.
    pub(crate) fn subscribe(
        &mut self,
        (uid, epoch): (SessionUid, Epoch),
        part: RequestPart,
        (subscriptions, held): (Vec<Subscription>, Held),
        fx: &mut impl PartitionEffects,
    ) {
        let Some((_, front)) = self.session_of(uid, epoch) else {
            return self.request_answered(uid, &held, fx);
        };
        let mut subscribing = Subscribing {
            front,
            session: uid,
            part,
            held,
            results: Vec::with_capacity(subscriptions.len()),
            scans: Vec::new(),
            replaces: false,
            joins: Vec::new(),
            takes_back: false,
            reserved: Sizes::default(),
        };
        let mut written = false;
        let earlier: Vec<_> = (0..subscriptions.len())
            .map(|at| {
                let one = &subscriptions[at];
                let is_same = |it: &Subscription| it.filter == one.filter && it.share == one.share;
                subscriptions[..at].iter().position(is_same)
            })
            .collect();
        for (subscription, earlier) in subscriptions.into_iter().zip(earlier) {
            // A packet counts as one SUBSCRIBE a filter, in order: v5 [MQTT-3.8.4-5].
            let is_made = earlier
                .is_some_and(|at| matches!(subscribing.results[at], SubscribeResult::Granted(_)));
            let result = self.subscribe_one((subscription, is_made), &mut subscribing);
            written |= matches!(result, SubscribeResult::Granted(_));
            subscribing.results.push(result);
        }
        if written {
            self.lead.after(After::Subscribed(Box::new(subscribing)));
        } else {
            self.finish_subscribe(subscribing, fx);
        }
    }

    /// One filter; `is_made`: the packet has named it before.
    fn subscribe_one(
        &mut self,
        (subscription, is_made): (Subscription, bool),
        subscribing: &mut Subscribing,
    ) -> SubscribeResult {
        let uid = subscribing.session;
        let limits = &self.config.limits;
        let session = self.state.sessions.get(uid.0).expect("the caller saw it");
        let max = session.subscriptions_max(limits);
        let has_memory = match self.session_room {
            SessionRoom::Enough => true,
            SessionRoom::Clean => session.expiry_seconds == 0,
            SessionRoom::Short | SessionRoom::None => false,
        };
        // One that is there is taken again: clients do so whenever they come back, and it takes the place of the old one (M47).
        let bytes = subscription.filter.len();
        let has_disk = self.disk_room_for(bytes) == DiskRoom::Enough;
        let before = session.find(subscription.share.as_deref(), &subscription.filter);
        let before = before.map(|at| Asked::of(&session.subscriptions[at]));
        let new = before.is_none() && !is_made;
        if new {
            let one = Sizes::of(subscription.share.as_deref(), &subscription.filter);
            let open = self.lead.open_requests.entry(uid.0).or_default();
            let all = session.subscriptions.sizes() + open.reserved + one;
            if !has_disk {
                self.disk_budget.note_refused();
            }
            if !has_memory || !has_disk || !all.fits(max) {
                return SubscribeResult::QuotaExceeded;
            }
            self.disk_budget.take(bytes);
            open.reserved += one;
            subscribing.reserved += one;
        }
        let retained = match subscription.options.retain_handling {
            RetainHandling::Send => true,
            RetainHandling::SendIfNew => new,
            RetainHandling::DoNotSend => false,
        };
        let scan = if retained && subscription.share.is_none() {
            self.lead.issued.last_scan += 1;
            subscribing.scans.push(self.lead.issued.last_scan);
            subscribing.replaces |= !new;
            self.lead.issued.last_scan
        } else {
            0
        };
        if let Some(share) = &subscription.share {
            subscribing.joins.push(Joining {
                request: self.lead.next_request(),
                at: subscribing.results.len(),
                share: share.clone(),
                filter: subscription.filter.clone(),
                before,
            });
        }
        let granted = subscription.options.qos;
        self.write(&Rare::Subscribed {
            session: uid,
            filter: subscription.filter,
            share: subscription.share,
            options: subscription.options,
            identifier: subscription.identifier,
            scan,
        });
        SubscribeResult::Granted(granted)
    }

    /// The entry with the subscriptions is applied.
    pub(crate) fn subscribed(&mut self, subscribing: Subscribing, fx: &mut impl PartitionEffects) {
        let uid = subscribing.session;
        let session = self.state.sessions.get_mut(uid.0);
        // Whom nobody waits for joins no group: that would never hear of its end.
        let Some(session) = session.filter(|it| it.lead.going != Going::Ended) else {
            return;
        };
        if let Some(open) = self.lead.open_requests.get_mut(&uid.0) {
            open.reserved -= subscribing.reserved;
        }
        for &number in &subscribing.scans {
            let extra = session.extra.as_ref();
            if let Some(scan) = extra.and_then(|extra| extra.scans.get(&number)) {
                self.lead.scans.open(uid, number, scan.filter.clone());
            }
        }
        if subscribing.replaces {
            self.drop_replaced_scans(uid, fx);
        }
        self.join_groups(&subscribing, fx);
        match self.lead.index.unconfirmed.last_entry() {
            Some(mut last) => last.get_mut().push(Indexed::Subscribe(subscribing)),
            None => self.index_ready(subscribing, fx),
        }
    }

    /// L1 has the filters of a part of a SUBSCRIBE.
    fn index_ready(&mut self, mut subscribing: Subscribing, fx: &mut impl PartitionEffects) {
        if !subscribing.scans.is_empty() {
            let scans = std::mem::take(&mut subscribing.scans);
            let session = subscribing.session;
            let token = self.lead.next_token();
            self.lead
                .index
                .fences
                .insert(token, Fenced::Scans { session, scans });
            fx.fence(token, Fence::Forwarded);
        }
        self.finish_subscribe(subscribing, fx);
    }

    /// The answer, unless shared groups have not answered.
    pub(crate) fn finish_subscribe(
        &mut self,
        mut subscribing: Subscribing,
        fx: &mut impl PartitionEffects,
    ) {
        self.take_join_answers(&mut subscribing);
        if !subscribing.joins.is_empty() {
            self.lead.sharing.joining.push(subscribing);
        } else if subscribing.takes_back {
            // The refusals may have come one by one, each with its entry.
            self.after_all(After::TakenBack(Box::new(subscribing)), fx);
        } else {
            self.answer_subscribe(subscribing, fx);
        }
    }

    /// SUBACK of a part: what a later request finds is what this one has left.
    pub(crate) fn answer_subscribe(
        &mut self,
        subscribing: Subscribing,
        fx: &mut impl PartitionEffects,
    ) {
        let message = ToFront::Subscribed {
            part: subscribing.part,
            results: subscribing.results,
        };
        fx.send_front(subscribing.front, message);
        self.request_answered(subscribing.session, &subscribing.held, fx);
    }

    /// A part of an UNSUBSCRIBE.
    pub(crate) fn unsubscribe(
        &mut self,
        (uid, epoch): (SessionUid, Epoch),
        part: RequestPart,
        (filters, held): (Vec<Name>, Held),
        fx: &mut impl PartitionEffects,
    ) {
        let Some((session, front)) = self.session_of(uid, epoch) else {
            return self.request_answered(uid, &held, fx);
        };
        // The second of two that are the same finds nothing: v5 [MQTT-3.10.4-6].
        let existed: Vec<_> = (0..filters.len())
            .map(|at| {
                let (share, filter) = &filters[at];
                let is_there = session.find(share.as_deref(), filter).is_some();
                is_there && !filters[..at].contains(&filters[at])
            })
            .collect();
        // Names that nobody has subscribed to cost next to nothing.
        let ends = existed.iter().filter(|existed| **existed).count();
        self.state.l2.note_changes(FILTER_CHANGES * ends);
        let mut leaves = Vec::new();
        let mut written = false;
        for ((share, filter), _) in filters
            .into_iter()
            .zip(&existed)
            .filter(|(_, existed)| **existed)
        {
            if let Some(share) = &share {
                let name = (share.clone(), filter.clone());
                leaves.extend(self.leave_parts((uid, LeaveCause::Unsubscribed), name, fx));
            }
            self.write(&Rare::Unsubscribed {
                session: uid,
                filter,
                share,
            });
            written = true;
        }
        if written {
            let unsubscribing = Box::new(Unsubscribing {
                front,
                part,
                existed,
                leaves,
            });
            self.lead
                .after(After::Unsubscribed(unsubscribing, uid, held));
        } else {
            fx.send_front(front, ToFront::Unsubscribed { part, existed });
            self.request_answered(uid, &held, fx);
        }
    }

    /// The entry without the subscriptions is applied. What a later request finds is settled, also while a group that is set aside says
    /// nothing; its answer comes behind this one where no group is asked.
    pub(crate) fn unsubscribed(
        &mut self,
        unsubscribing: Unsubscribing,
        (session, held): (SessionUid, &Held),
        fx: &mut impl PartitionEffects,
    ) {
        self.drop_replaced_scans(session, fx);
        self.finish_unsubscribe(unsubscribing, fx);
        self.request_answered(session, held, fx);
    }

    /// The answer, unless shared groups have not confirmed.
    pub(crate) fn finish_unsubscribe(
        &mut self,
        unsubscribing: Unsubscribing,
        fx: &mut impl PartitionEffects,
    ) {
        if !unsubscribing.leaves.is_empty() {
            self.lead.sharing.leaving.push(unsubscribing);
            return;
        }
        let message = ToFront::Unsubscribed {
            part: unsubscribing.part,
            existed: unsubscribing.existed,
        };
        fx.send_front(unsubscribing.front, message);
    }

    /// Tells L1 what the applied entry changed.
    pub(crate) fn tell_index(&mut self, fx: &mut impl PartitionEffects) {
        if self.state.index_changes.is_empty() {
            return;
        }
        let mut changes = std::mem::take(&mut self.state.index_changes).into_iter();
        while changes.len() > 0 {
            let mut change = IndexChange::default();
            for (filter, changed) in changes.by_ref().take(INDEX_CHANGES_MAX) {
                match changed {
                    IndexChanged::Added => change.add.push(filter),
                    IndexChanged::Removed => change.remove.push(filter),
                }
            }
            self.change_index(change, fx);
        }
    }

    pub(crate) fn change_index(&mut self, change: IndexChange, fx: &mut impl PartitionEffects) {
        let token = self.lead.next_token();
        self.lead.index.unconfirmed.insert(token, Vec::new());
        fx.change_index(token, change);
    }

    /// Every shard uses the index with this change.
    pub(crate) fn index_confirmed(&mut self, token: IndexToken, fx: &mut impl PartitionEffects) {
        let waiting = self
            .lead
            .index
            .unconfirmed
            .remove(&token)
            .unwrap_or_default();
        if self.lead.role == Role::Indexing && self.lead.index.unconfirmed.is_empty() {
            self.lead.role = Role::Leading;
        }
        for indexed in waiting {
            match indexed {
                Indexed::Subscribe(subscribing) => self.index_ready(subscribing, fx),
                Indexed::Join {
                    member,
                    request,
                    group,
                } => self.answer_join(member, request, group, fx),
                Indexed::Heir(group) => self.ask_for_inheritance(group, fx),
                Indexed::Heirs(groups) => self.say_inheritances(&groups, fx),
            }
        }
    }

    /// All that was matched before a fence has settled.
    pub(crate) fn fence_passed(&mut self, token: IndexToken, fx: &mut impl PartitionEffects) {
        match self.lead.index.fences.remove(&token) {
            None => {}
            Some(Fenced::Scans { session, scans }) => self.begin_scans(session, &scans, fx),
            Some(Fenced::Order { session, token }) => self.order_fence_passed(session, token, fx),
            Some(Fenced::Cut) => self.cut_made(fx),
            Some(Fenced::Attach(client_id)) => {
                if let Some(client) = self.lead.registry.clients.get_mut(&client_id) {
                    client.fenced = false;
                }
                self.pass_on(&client_id, fx);
            }
        }
    }

    /// Counts what a policy dropped.
    pub(crate) fn count_dropped(why: Dropped, messages: u64, fx: &mut impl PartitionEffects) {
        if messages > 0 {
            fx.dropped(why, messages);
        }
    }
}
