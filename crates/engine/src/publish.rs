//! Publishes on their way in: the leader decides whom they are for and whether there is room, and writes one fact (M4, M8).

use std::rc::Rc;

use courser_contract::{
    Append, AppendKey, Cut, Dropped, PartitionEffects, PartitionId, Publish, QoS, RecordView,
    Refusal, Settled, ToPartition,
};

use crate::{
    Overflow, Partition,
    entry::{
        Haste, PackedTargets, PublishFact, Rare, SETS_MAX, SettledAs, Target, TargetList, Targets,
    },
    origins::Known,
    outbox::KnownForward,
    scan::Goes,
    session::Plan,
    state::State,
};

/// More targets than this are always written as a set: packed they take a fifth of what they take in place, and a fact for it.
const INLINE_MAX: usize = 15;

/// What the leader already knows of an append.
enum Repeat {
    /// Nothing.
    No,
    /// Decided before.
    Answer(Settled),
    /// Its first copy is under way, or nobody waits: no answer now.
    Silent,
}

impl Partition {
    /// A publish from a shard or another partition, and whether who has sent it can be refused.
    pub(crate) fn publish(
        &mut self,
        append: &Append<'_>,
        can_refuse: bool,
        fx: &mut impl PartitionEffects,
    ) {
        match self.repeat(&append.key) {
            Repeat::No => {}
            Repeat::Answer(result) => return answer(&append.key, result, fx),
            Repeat::Silent => return,
        }
        let list = if append.deliver {
            self.targets_of(append.publish, append.cut)
        } else {
            self.lead.targets.nobody.clone()
        };
        // Once targets are settled, only who finds it among the retained messages asks who published.
        let (publisher, author) = match append.keep_retained {
            true => (append.publish.publisher, append.publish.author),
            false => (None, None),
        };
        let view = RecordView {
            publisher,
            author,
            ..RecordView::from(append.publish)
        };
        self.take_publish(&list, (append, can_refuse), &view, fx);
    }

    /// The targets of a message, without those that do not want their own.
    #[inline(always)]
    fn targets_of(&mut self, publish: &Publish<'_>, cut: Cut) -> Rc<TargetList> {
        let State { l2, sessions, .. } = &mut self.state;
        let client = |stream| sessions.get(stream).map(|session| session.publisher());
        let list = l2.targets(publish.topic, client);
        let list = match publish.publisher {
            Some(publisher) if list.leaves_out(publisher) => {
                Rc::new(l2.targets_without(publish.topic, client, publisher))
            }
            Some(_) | None => list,
        };
        self.on_their_side(list, cut)
    }

    /// The same for what begins here; apart, so that the data path keeps its own copy in place.
    #[inline(never)]
    fn own_targets(&mut self, view: &RecordView<'_>, cut: Cut) -> Rc<TargetList> {
        self.targets_of(&(*view).into(), cut)
    }

    /// A publish from another partition's outbox, or from a volatile partition without one.
    pub(crate) fn forwarded_append(
        &mut self,
        from: PartitionId,
        append: &Append<'_>,
        refusable: bool,
        fx: &mut impl PartitionEffects,
    ) {
        debug_assert!(
            !matches!(append.key, AppendKey::Outbox { source, .. } if source != from),
            "an outbox speaks for itself"
        );
        let can_refuse = refusable && !matches!(append.key, AppendKey::Unanswered);
        self.publish(append, can_refuse, fx);
    }

    /// What is known of an append already (M14, M19).
    #[inline]
    fn repeat(&self, key: &AppendKey) -> Repeat {
        match *key {
            AppendKey::Unanswered => Repeat::No,
            AppendKey::Numbered {
                origin,
                number,
                floor,
            } => match self.lead.origins.classify(origin, number, floor) {
                Known::New => Repeat::No,
                Known::Repeat(Settled::Ok) if !self.state.origins.contains(origin, number) => {
                    Repeat::Silent
                }
                Known::Repeat(result) => Repeat::Answer(result),
                Known::Dropped => Repeat::Silent,
                Known::OutOfRange => Repeat::Answer(Settled::Refused(Refusal::QuotaExceeded)),
            },
            AppendKey::Outbox { source, seq, floor } => {
                match self.lead.inbox.classify(source, seq, floor) {
                    KnownForward::New => Repeat::No,
                    KnownForward::Repeat
                        if seq < floor || self.state.inbox.contains(source, seq) =>
                    {
                        Repeat::Answer(Settled::Ok)
                    }
                    KnownForward::Repeat => Repeat::Silent,
                }
            }
        }
    }

    #[inline]
    fn take_publish(
        &mut self,
        list: &Rc<TargetList>,
        (append, can_refuse): (&Append<'_>, bool),
        view: &RecordView<'_>,
        fx: &mut impl PartitionEffects,
    ) {
        let stored = if view.qos == QoS::AtMostOnce {
            &[]
        } else {
            list.stored()
        };
        if let Err((refusal, why)) = self.check_room(stored, (append, can_refuse), view) {
            if can_refuse {
                return refuse(&append.key, refusal, fx);
            }
            fx.dropped(why, 1);
            // Without a publisher to refuse, its streams still get it, unless it is for them, too, that there is no room.
            let fits_streams = stored.is_empty() || why == Dropped::RetainedFull;
            if append.keep_retained && append.deliver && fits_streams {
                let without = Append {
                    keep_retained: false,
                    ..*append
                };
                self.publish(&without, can_refuse, fx);
            }
            return;
        }
        self.route(list, view, fx);
        if stored.is_empty() && !append.keep_retained {
            self.take_nothing(&append.key, fx);
            return;
        }
        self.disk_budget.take(view.encoded_len());
        self.note_key(&append.key);
        let all_fit = self.reserve(stored, view.encoded_len() as u64, fx);
        self.note_live_retained(all_fit.as_deref().unwrap_or(stored), view, Goes::Stored);
        let key = &append.key;
        match all_fit {
            None if stored.len() == list.stored().len() => {
                let again = self.gather.went_to(list);
                let targets = match again {
                    true => Targets::Same,
                    false => self.name_targets(list),
                };
                let gather = &mut self.gather;
                PublishFact::write(gather, key, append.keep_retained, targets, view);
                if !again {
                    gather.goes_to(list);
                }
            }
            None => {
                let targets = Targets::Inline(stored);
                PublishFact::write(&mut self.gather, key, append.keep_retained, targets, view);
            }
            Some(fitting) if fitting.is_empty() && !append.keep_retained => {
                self.write_taken(key, Haste::Lazy(self.lead.now.tick));
                answer(key, Settled::Ok, fx);
            }
            Some(fitting) => self.write_publish(key, append.keep_retained, &fitting, view),
        }
    }

    /// Whether a session or group of this partition refuses a message that begins here (M12).
    pub(crate) fn own_refuse(&mut self, view: &RecordView<'_>, cut: Cut) -> bool {
        self.config.limits.overflow == Overflow::RefusePublisher && {
            let list = self.own_targets(view, cut);
            self.is_any_full(list.stored(), view.encoded_len() as u64)
        }
    }

    /// Stores and routes a message that begins here (a will, a QoS 2 publish) for the streams of this partition. The fact is
    /// also written when only the forwards behind it need the record.
    pub(crate) fn store_own(
        &mut self,
        view: &RecordView<'_>,
        plan: &Plan,
        fx: &mut impl PartitionEffects,
    ) {
        let key = AppendKey::Unanswered;
        let list = match plan.own {
            true => self.own_targets(view, plan.own_cut),
            false => self.lead.targets.nobody.clone(),
        };
        let stored = match view.qos {
            QoS::AtMostOnce => &[],
            QoS::AtLeastOnce | QoS::ExactlyOnce => list.stored(),
        };
        self.route(&list, view, fx);
        let fitting = self.reserve(stored, view.encoded_len() as u64, fx);
        let stored = fitting.as_deref().unwrap_or(stored);
        self.note_live_retained(stored, view, Goes::Stored);
        if !stored.is_empty() || plan.keep_here || !plan.outbox.is_empty() {
            self.write_publish(&key, plan.keep_here, stored, view);
        }
    }

    /// Writes a publish with a list of its own.
    pub(crate) fn write_publish(
        &mut self,
        key: &AppendKey,
        keep_retained: bool,
        targets: &[Target],
        view: &RecordView<'_>,
    ) {
        if targets.len() <= INLINE_MAX && fit_in_place(targets) {
            let targets = Targets::Inline(targets);
            PublishFact::write(&mut self.gather, key, keep_retained, targets, view);
            return;
        }
        let set = self.define_set(targets);
        let targets = Targets::Set(set);
        PublishFact::write(&mut self.gather, key, keep_retained, targets, view);
        self.drop_set(set);
    }

    /// Nothing is stored: the sender gets its answer at once; a number is noted with the next entry, since a later number
    /// would make it look refused (M14).
    fn take_nothing(&mut self, key: &AppendKey, fx: &mut impl PartitionEffects) {
        self.note_key(key);
        self.write_taken(key, Haste::Lazy(self.lead.now.tick));
        answer(key, Settled::Ok, fx);
    }

    fn write_taken(&mut self, key: &AppendKey, haste: Haste) {
        if !matches!(key, AppendKey::Unanswered) {
            let fact = Rare::Taken { key: *key };
            fact.write(&mut self.gather, haste, &mut self.lead.scratch);
        }
    }

    #[inline]
    fn note_key(&mut self, key: &AppendKey) {
        match *key {
            AppendKey::Unanswered => {}
            AppendKey::Numbered {
                origin,
                number,
                floor,
            } => {
                self.lead.origins.take(origin, number, floor);
            }
            AppendKey::Outbox { source, seq, floor } => {
                self.lead.inbox.take(source, seq, floor);
            }
        }
    }

    /// The stored part of a list as an entry names it (M8): in place while it is short and new, then as a set.
    fn name_targets<'a>(&mut self, list: &'a TargetList) -> Targets<'a> {
        let count = list.stored().len();
        match list.set.get() {
            SettledAs::Set(set) => Targets::Set(set),
            SettledAs::Unwritten | SettledAs::Once if count <= 1 && fit_in_place(list.stored()) => {
                Targets::Inline(list.stored())
            }
            SettledAs::Passing if count <= INLINE_MAX && fit_in_place(list.stored()) => {
                Targets::Inline(list.stored())
            }
            SettledAs::Unwritten if count <= INLINE_MAX && fit_in_place(list.stored()) => {
                list.set.set(SettledAs::Once);
                Targets::Inline(list.stored())
            }
            settled @ (SettledAs::Unwritten | SettledAs::Once | SettledAs::Passing) => {
                let set = self.define_set(list.stored());
                for unused in self.state.l2.take_unused_sets() {
                    self.drop_set(unused);
                }
                match settled {
                    SettledAs::Passing => self.state.l2.note_unused(set),
                    SettledAs::Unwritten | SettledAs::Once | SettledAs::Set(_) => {
                        list.set.set(SettledAs::Set(set));
                    }
                }
                Targets::Set(set)
            }
        }
    }

    fn define_set(&mut self, targets: &[Target]) -> u32 {
        let set = self.lead.targets.free_sets.pop().unwrap_or_else(|| {
            assert!(
                self.lead.targets.sets_end < SETS_MAX,
                "the cache of lists has fewer than this"
            );
            self.lead.targets.sets_end += 1;
            self.lead.targets.sets_end - 1
        });
        self.write(&Rare::SetPacked {
            set,
            targets: PackedTargets(targets.to_vec()),
        });
        set
    }

    pub(crate) fn drop_set(&mut self, set: u32) {
        self.write(&Rare::SetDropped { set });
        self.lead.targets.free_sets.push(set);
    }
}

fn fit_in_place(targets: &[Target]) -> bool {
    targets.iter().all(Target::fits_in_place)
}

/// Refuses an append.
fn refuse(key: &AppendKey, refusal: Refusal, fx: &mut impl PartitionEffects) {
    // That of an outbox is counted where it came from, unless it comes again.
    if let AppendKey::Numbered { .. } = key {
        fx.dropped(Dropped::Quota, 1);
    }
    answer(key, Settled::Refused(refusal), fx);
}

/// Answers an append.
#[inline]
pub(crate) fn answer(key: &AppendKey, result: Settled, fx: &mut impl PartitionEffects) {
    match *key {
        AppendKey::Unanswered => {}
        AppendKey::Numbered { origin, number, .. } => fx.settled(origin, number, result),
        AppendKey::Outbox { source, seq, .. } => {
            fx.send_partition(source, ToPartition::Forwarded { seq, result });
        }
    }
}
