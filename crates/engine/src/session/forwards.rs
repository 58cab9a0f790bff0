//! Forwards of sessions' messages on their way (M19): sent in order, answered, refused and sent again.

use courser_contract::{
    AppendKey, Dropped, PartitionEffects, PartitionId, Refusal, Seq, SessionUid, Settled, Tell,
    Term, ToPartition,
};

use crate::{
    Partition, PlantedPartition,
    entry::{Haste, Rare},
    lead::Waiter,
    outbox::{Refusable, Sender},
};

/// How long a refused forward waits before it is sent again.
const RETRY_MS: u64 = 1_000;

/// An outbox of which nothing was answered for so long is sent again: the destination knows repeats (M11, M19).
pub(crate) const FORWARD_AGAIN_MS: u64 = 5_000;

/// Forwards of one outbox that are looked at in one call; the rest follows at once.
const SENT_MAX: usize = 1_024;

impl Partition {
    /// Sends what the outboxes hold, in order.
    pub(crate) fn send_forwards(&mut self, fx: &mut impl PartitionEffects) {
        if self.state.outboxes.len() == 0 {
            self.lead.forwards.stood.clear();
            self.lead.forwards.more = false;
            return;
        }
        let now = self.lead.now.tick;
        let volatile = self.is_volatile();
        let planted_twice = self.is_planted(PlantedPartition::ForwardedTwice);
        self.lead.forwards.more = false;
        let mut stuck: Vec<(PartitionId, SessionUid)> = Vec::new();
        for (to, outbox) in self.state.outboxes.iter() {
            let is_new = !self.lead.forwards.stood.contains_key(&to);
            let sender = self.lead.forwards.senders.entry(to).or_default();
            let floor = outbox.floor();
            if outbox.len() == 0 {
                self.lead.forwards.stood.remove(&to);
            } else {
                let stood = self.lead.forwards.stood.entry(to).or_insert((floor, now));
                if stood.0 != floor {
                    *stood = (floor, now);
                } else if stood.1.after_ms(FORWARD_AGAIN_MS) <= now {
                    stood.1 = now;
                    sender.restart();
                    let (term, tell) = (self.lead.term, Tell::Asks);
                    fx.send_partition(to, ToPartition::Leads { term, tell });
                }
            }
            // Who it is says so when it begins, but not to volatile partitions: they ask.
            let Some(&leader) = self.lead.forwards.leaders.get(&to) else {
                if volatile && is_new {
                    let (term, tell) = (self.lead.term, Tell::Asks);
                    fx.send_partition(to, ToPartition::Leads { term, tell });
                }
                continue;
            };
            let mut looks = SENT_MAX;
            while let Some((seq, forward)) = sender.next(outbox, &mut looks) {
                if self.state.records.is_tombstone(forward.item.slot) {
                    let session = sender.refused(outbox, seq, now.after_ms(RETRY_MS));
                    stuck.extend(session.map(|session| (to, session)));
                    continue;
                }
                let append = ToPartition::Append {
                    key: AppendKey::Outbox {
                        source: self.state.id,
                        seq,
                        floor,
                    },
                    record: self.state.records.share(forward.item.slot),
                    keep_retained: forward.item.keep_retained,
                    refusable: forward.refusable == Refusable::Yes,
                    leader: Some(leader),
                    cut: forward.item.cut,
                    session: forward.session,
                };
                if planted_twice {
                    fx.send_partition(to, once_more(append.clone()));
                }
                fx.send_partition(to, append);
            }
            self.lead.forwards.more |= looks == 0;
        }
        for (to, session) in stuck {
            self.let_wills_be(to, session, fx);
        }
    }

    /// Says to another partition who leads this one.
    pub(crate) fn tell_leader(&self, to: PartitionId, tell: Tell, fx: &mut impl PartitionEffects) {
        let term = self.lead.term;
        fx.send_partition(to, ToPartition::Leads { term, tell });
    }

    /// Another partition says who leads it. To a new leader all goes out again that it has not answered, in order (M14).
    pub(crate) fn leads(
        &mut self,
        from: PartitionId,
        term: Term,
        tell: Tell,
        fx: &mut impl PartitionEffects,
    ) {
        match tell {
            Tell::Asks => self.tell_leader(from, Tell::Answers, fx),
            Tell::Answers => {}
        }
        if self
            .lead
            .forwards
            .leaders
            .get(&from)
            .is_none_or(|known| *known < term)
        {
            self.lead.forwards.leaders.insert(from, term);
            self.lead.forwards.stood.remove(&from);
            if let Some(sender) = self.lead.forwards.senders.get_mut(&from) {
                sender.restart();
            }
            self.send_forwards(fx);
        }
    }

    /// Refused forwards whose moment has come are sent again.
    pub(crate) fn forward_timeout(&mut self, fx: &mut impl PartitionEffects) {
        let now = self.lead.now.tick;
        for sender in self.lead.forwards.senders.values_mut() {
            sender.handle_timeout(now);
        }
        self.send_forwards(fx);
    }

    /// A destination has answered.
    pub(crate) fn forward_answered(
        &mut self,
        from: PartitionId,
        seq: Seq,
        result: Settled,
        fx: &mut impl PartitionEffects,
    ) {
        let waiter = match self.lead.forwards.answers.is_empty() {
            true => None,
            false => self.lead.forwards.answers.remove(&(from, seq)),
        };
        match (result, waiter) {
            (Settled::Ok, waiter) => {
                self.end_inherited(from, seq, fx);
                self.end_forward(from, seq);
                self.forward_taken((from, seq), waiter, fx);
            }
            (Settled::Refused(refusal), Some(Waiter::Hold(uid, packet_id))) => {
                self.held_refused((from, seq), (uid, packet_id), refusal, fx);
            }
            (Settled::Refused(refusal), Some(Waiter::Will(client_id))) => {
                match refusal {
                    // It will: who has the client id next does not wait for that.
                    Refusal::Unavailable => self.forward_later(from, seq, fx),
                    Refusal::QuotaExceeded
                    | Refusal::NotAuthorized
                    | Refusal::TooLarge
                    | Refusal::Unspecified => {
                        self.end_forward(from, seq);
                        fx.dropped(Dropped::Rejected, 1);
                    }
                }
                self.forward_taken((from, seq), Some(Waiter::Will(client_id)), fx);
            }
            (Settled::Refused(_), None) if self.is_left_behind(from, seq) => {
                self.end_inherited(from, seq, fx);
                self.end_forward(from, seq);
                fx.dropped(Dropped::Quota, 1);
            }
            (Settled::Refused(_), None) => self.forward_later(from, seq, fx),
        }
        // Only what waited behind this one can go now.
        if self
            .lead
            .forwards
            .senders
            .get(&from)
            .is_some_and(Sender::has_ready)
        {
            self.send_forwards(fx);
        }
    }

    /// Whether a forward of an earlier leader was never answered to its client, since it may be refused, and nobody can ask for that
    /// answer any more: its session is gone.
    fn is_left_behind(&self, to: PartitionId, seq: Seq) -> bool {
        let outbox = self.state.outboxes.get(to);
        let forward = outbox.and_then(|outbox| outbox.get(seq));
        forward.is_some_and(|forward| {
            let session = forward.session;
            forward.refusable == Refusable::Yes
                && session.is_some_and(|uid| self.state.sessions.get(uid.0).is_none())
        })
    }

    pub(crate) fn end_forward(&mut self, to: PartitionId, seq: Seq) {
        if let Some(outbox) = self.state.outboxes.get(to) {
            let session = outbox.get(seq).and_then(|forward| forward.session);
            let sender = self.lead.forwards.senders.entry(to).or_default();
            sender.settled(outbox, seq, session);
        }
        let haste = Haste::Lazy(self.lead.now.tick);
        let fact = Rare::ForwardDone { to, seq };
        fact.write(&mut self.gather, haste, &mut self.lead.scratch);
    }

    fn forward_taken(
        &mut self,
        forward: (PartitionId, Seq),
        waiter: Option<Waiter>,
        fx: &mut impl PartitionEffects,
    ) {
        match waiter {
            None => {}
            Some(Waiter::Will(client_id)) => {
                if let Some(client) = self.lead.registry.clients.get_mut(&client_id) {
                    client.wills = client.wills.saturating_sub(1);
                }
                self.pass_on(&client_id, fx);
            }
            Some(Waiter::Hold(uid, packet_id)) => {
                let hold = (uid, packet_id);
                let Some((_, open)) = self.lead.forwards.holding.get_mut(&hold) else {
                    return;
                };
                open.retain(|it| *it != forward);
                if open.is_empty()
                    && let Some((holding, _)) = self.lead.forwards.holding.remove(&hold)
                {
                    self.answer_held(&holding, fx);
                }
            }
        }
    }

    /// A refused forward stays, and is sent again.
    pub(super) fn forward_later(
        &mut self,
        to: PartitionId,
        seq: Seq,
        fx: &mut impl PartitionEffects,
    ) {
        let retry_at = self.lead.now.tick.after_ms(RETRY_MS);
        let Some(outbox) = self.state.outboxes.get(to) else {
            return;
        };
        let sender = self.lead.forwards.senders.entry(to).or_default();
        if let Some(session) = sender.refused(outbox, seq, retry_at) {
            self.let_wills_be(to, session, fx);
        }
    }

    /// A session waits behind a refusal, which may go on for ever: who has its client id next does not wait for its wills there. They go
    /// when that is over.
    fn let_wills_be(
        &mut self,
        to: PartitionId,
        session: SessionUid,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(sender) = self.lead.forwards.senders.get(&to) else {
            return;
        };
        let answers = &self.lead.forwards.answers;
        let wills = sender
            .parked_of(session)
            .filter_map(|seq| match answers.get(&(to, seq)) {
                Some(Waiter::Will(_)) => Some((to, seq)),
                Some(Waiter::Hold(..)) | None => None,
            });
        for will in wills.collect::<Vec<_>>() {
            let waiter = self.lead.forwards.answers.remove(&will);
            self.forward_taken(will, waiter, fx);
        }
    }

    /// A will is in its outboxes: the client id's next connection waits for their answers (M25), but not for one that goes behind a refusal.
    pub(crate) fn will_forwarded(
        &mut self,
        client_id: &compact_str::CompactString,
        forwards: usize,
    ) {
        let forwards: Vec<_> = self.lead.forwards.pushed.drain(..forwards).collect();
        for (to, seq) in forwards {
            let is_stuck = self.is_behind_refusal(to, seq);
            let Some(client) = self.lead.registry.clients.get_mut(client_id) else {
                return;
            };
            if !is_stuck {
                client.wills += 1;
                let waiter = Waiter::Will(client_id.clone());
                self.lead.forwards.answers.insert((to, seq), waiter);
            }
        }
    }

    /// Whether the session of a forward waits for a destination that has refused an older one.
    fn is_behind_refusal(&self, to: PartitionId, seq: Seq) -> bool {
        let outbox = self.state.outboxes.get(to);
        let session = outbox.and_then(|outbox| outbox.get(seq)?.session);
        session.is_some_and(|session| self.lead.forwards.is_refused_at(to, session))
    }
}

/// The planted bug: a forward under a position that no other one has.
fn once_more(mut append: ToPartition) -> ToPartition {
    if let ToPartition::Append {
        key: AppendKey::Outbox { seq, .. },
        ..
    } = &mut append
    {
        seq.0 += 1 << 20;
    }
    append
}
