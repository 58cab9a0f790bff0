//! Fact by fact.

mod rare;

use std::rc::Rc;

use courser_contract::{AppendKey, RecordView};
use smallvec::SmallVec;

use super::{RetainedChange, Sink, State, Stored};
use crate::{
    entry::{Fact, Fate, OutcomeFact, PublishFact, Target, TargetsAt},
    ids::{self, Owner},
    record::Slot,
    session::Session,
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
            sink.unkept(old, &self.records);
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
                // Where the loss was accepted there is no limit, and no front that waits for it: a connection comes to it, or its client says
                // that it has the message.
                let is_said = outcome.sent_limit > 0;
                for seq in first..end {
                    let is_new = session.stream.mark_received(seq);
                    if is_new && records.tombstones() > 0 {
                        records.note_unneeded(session.stream.get(seq).map(|it| it.slot));
                    }
                    // Again: its loss was accepted before PUBREC came.
                    if is_said && (is_new || session.stream.is_received(seq)) {
                        sink.received(session, seq);
                    }
                }
            }
            Fate::Done | Fate::Rejected | Fate::Skipped | Fate::Expired | Fate::Dropped => {
                let Session { stream, lead, .. } = &mut **session;
                let mut forgotten = 0;
                stream.end_range(first, end, |seq, reference| {
                    let bytes = records.release_measured(reference.slot);
                    forgotten += u64::from(bytes);
                    sink.reference_ended(&mut lead.reserved, outcome.stream, seq, bytes);
                    looks.release(reference.look);
                    *queued -= 1;
                });
                stream.forget_bytes(forgotten);
                stream.settle(spare);
            }
        }
        sink.settled(session);
    }
}
