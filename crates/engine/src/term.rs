//! Leadership comes and goes (M5), and what a new leader must know again.

use courser_contract::{
    CloseReason, ConnectRefusal, DetachCause, Fence, IndexChange, Now, PartitionEffects,
    SessionUid, Tell, Term, ToFront,
};

use crate::{
    Partition,
    entry::Rare,
    ids::Numbers,
    lead::{After, Began, Due, Fenced, Holder, Indexed, Lead, Role},
    session::{LastWords, SessionLead},
    state::{GroupLead, IndexChanged},
};

impl Partition {
    pub(crate) fn lead_begins(&mut self, now: Now, term: Term, fx: &mut impl PartitionEffects) {
        self.lead_ends(now, fx);
        let began = match self.lead.term {
            Term(0) => Began::WithProcess,
            Term(_) => Began::InProcess,
        };
        self.lead.term = term;
        self.lead.role = Role::Elected;
        self.write(&Rare::TermBegun {});
        self.lead.after(After::TermBegun(began));
    }

    /// The first entry of the term is applied: everything before it is, too.
    pub(crate) fn term_begun(&mut self, began: Began, fx: &mut impl PartitionEffects) {
        self.lead.orphans.clear();
        self.lead.issued.sessions = Numbers::of(&self.state.sessions, self.state.last_session);
        self.lead.issued.groups = Numbers::of(&self.state.groups, self.state.last_group);
        self.lead.origins = self.state.origins.clone();
        self.lead.inbox = self.state.inbox.clone();
        self.lead.issued.last_scan = self.state.last_scan;
        self.lead.role = Role::Leading;
        self.rename_sets();
        self.find_due();
        self.watch_settings();
        if self.has_more_than_may_wait() {
            // The limits are lower than those of an earlier leader.
            self.watch_sizes();
        }
        self.count_kept(fx);
        self.begin_groups(began, fx);
        self.detach_all(fx);
        self.continue_scans(fx);
        self.tell_whole_index(fx);
        if began == Began::InProcess {
            let heirs = self.heirs();
            match self.lead.index.unconfirmed.last_entry() {
                Some(mut last) => last.get_mut().push(Indexed::Heirs(heirs)),
                None => self.say_inheritances(&heirs, fx),
            }
        }
        self.inherit_forwards();
        self.send_forwards(fx);
        self.tell_partitions(fx);
        self.resend_leaves(fx);
        for (from, message) in std::mem::take(&mut self.lead.early) {
            self.take_message(from, message, fx);
        }
    }

    /// What others forward came to nobody while nobody led: they hear whom to send it to again, and say who leads them.
    fn tell_partitions(&self, fx: &mut impl PartitionEffects) {
        for to in fx.retained_partitions() {
            if to != self.config.id && !to.is_volatile() {
                self.tell_leader(to, Tell::Asks, fx);
            }
        }
    }

    /// Sets of earlier leaders: no list of this one knows them.
    fn rename_sets(&mut self) {
        self.lead.targets.sets_end =
            u32::try_from(self.state.sets.len()).expect("fewer than 2^32 sets");
        for set in 0..self.lead.targets.sets_end {
            match self.state.sets[set as usize] {
                Some(_) => self.drop_set(set),
                None => self.lead.targets.free_sets.push(set),
            }
        }
    }

    /// Everything that has its moment.
    fn find_due(&mut self) {
        let state = &mut self.state;
        for number in state.sessions.sorted() {
            let session = state.sessions.get_mut(number).expect("it was listed");
            if let Some(at) = session.ends_at {
                self.lead.due.insert(at, Due::SessionEnd(number));
            }
            if let Some(at) = session.will_due() {
                self.lead.due.insert(at, Due::Will(number));
            }
            let expiring: Vec<_> = session
                .stream
                .iter()
                .filter_map(|(seq, r)| Some((seq, state.records.expires_at(r.slot)?)))
                .collect();
            for (seq, at) in expiring {
                crate::deliver::note_expiry(&mut self.lead, &mut session.stream, number, seq, at);
            }
        }
        for number in state.groups.sorted() {
            let group = state.groups.get_mut(number).expect("it was listed");
            let expiring: Vec<_> = group
                .stream
                .iter()
                .filter_map(|(seq, r)| Some((seq, state.records.expires_at(r.slot)?)))
                .collect();
            for (seq, at) in expiring {
                crate::deliver::note_expiry(&mut self.lead, &mut group.stream, number, seq, at);
            }
        }
        for slot in state.retained.records() {
            if let Some(at) = state.records.expires_at(slot) {
                let due = Due::retained(slot, state.records.address(slot));
                self.lead.due.insert(at, due);
            }
        }
    }

    /// The fronts of sessions that were attached are gone (M26).
    fn detach_all(&mut self, fx: &mut impl PartitionEffects) {
        for number in self.state.sessions.sorted() {
            let session = self.state.sessions.get(number).expect("it was listed");
            if session.attached {
                let epoch = session.epoch;
                let uid = SessionUid(number);
                self.detach(uid, epoch, LastWords::new(DetachCause::Lost), fx);
            }
        }
    }

    /// Scans that an earlier leader began go on behind a new fence (M34).
    fn continue_scans(&mut self, fx: &mut impl PartitionEffects) {
        for number in self.state.sessions.sorted() {
            let session = self.state.sessions.get(number).expect("it was listed");
            let Some(extra) = &session.extra else {
                continue;
            };
            let uid = SessionUid(number);
            let scans: Vec<u64> = extra.scans.keys().copied().collect();
            for (&scan, open) in &extra.scans {
                self.lead.scans.open(uid, scan, open.filter.clone());
            }
            if !scans.is_empty() {
                let token = self.lead.next_token();
                let session = uid;
                self.lead
                    .index
                    .fences
                    .insert(token, Fenced::Scans { session, scans });
                fx.fence(token, Fence::Forwarded);
            }
        }
    }

    /// L1 hears of all filters of this partition, and of those that went while another led.
    fn tell_whole_index(&mut self, fx: &mut impl PartitionEffects) {
        let changes = std::mem::take(&mut self.state.index_changes);
        let gone = changes
            .into_iter()
            .filter(|(_, changed)| *changed == IndexChanged::Removed);
        let change = IndexChange {
            add: self.state.l2.filters(),
            remove: gone.map(|(filter, _)| filter).collect(),
        };
        if !change.add.is_empty() || !change.remove.is_empty() {
            self.lead.role = Role::Indexing;
            self.change_index(change, fx);
        }
    }

    pub(crate) fn lead_ends(&mut self, now: Now, fx: &mut impl PartitionEffects) {
        self.gather.clear();
        self.state.l2.forget_sets();
        let mut orphans = std::mem::take(&mut self.lead.orphans);
        let after = std::mem::take(&mut self.lead.after);
        orphans.adopt(self.lead.term, self.lead.number, after);
        let mut lead = Lead {
            now,
            orphans,
            term: self.lead.term,
            early: std::mem::take(&mut self.lead.early),
            ..Lead::default()
        };
        // Tokens of an earlier leadership may still be answered.
        lead.index.tokens = self.lead.index.tokens;
        lead.targets.routed = self.lead.targets.routed.ended();
        for (client_id, mut client) in self.lead.registry.clients.drain() {
            if let Some(waiting) = client.waiting.take() {
                let refused = ToFront::ConnectRefused(ConnectRefusal::Unavailable);
                fx.send_front(waiting.attach.front, refused);
            }
            if std::mem::take(&mut client.place)
                && let Some(owner) = &client.owner
            {
                fx.forget_session(owner);
            }
            match client.holder {
                // Its session is elsewhere and goes on.
                Holder::Clean(..) => {
                    client.told = false;
                    client.wills = 0;
                    lead.registry.clients.insert(client_id, client);
                }
                Holder::Coming(front) => {
                    let refused = ToFront::ConnectRefused(ConnectRefusal::Unavailable);
                    fx.send_front(front, refused);
                }
                Holder::Home(..) | Holder::Leaving | Holder::Left => {}
            }
        }
        for number in self.state.sessions.sorted() {
            let session = self.state.sessions.get_mut(number).expect("it was listed");
            let before = std::mem::take(&mut session.lead);
            session.lead = SessionLead::default();
            session.will_forgotten = false;
            session.stream.forget_expiry();
            if before.has_place
                && let Some(owner) = session.owner()
            {
                fx.forget_session(owner);
            }
            if let Some(live) = before.live {
                let closed = ToFront::Closed(CloseReason::Administrative);
                fx.send_front(live.front, closed);
            }
        }
        for number in self.state.groups.sorted() {
            let group = self.state.groups.get_mut(number).expect("it was listed");
            group.lead = GroupLead::default();
            group.stream.forget_expiry();
        }
        self.lead = lead;
    }
}
