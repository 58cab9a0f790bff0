//! What fronts and partitions of a shard share: everything but themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use courser_contract::{
    AppendKey, AppendNumber, Cut, DeliverTo, Fence, FrontId, GroupRef, IndexToken, Now, Origin,
    PartitionId, Settled, ShardId, Source, Term, ToHome, ToPartition,
};
use courser_engine::Proposed;
use courser_shard::{Appends, FenceBook, FenceId, LastWords, Passed, Watermarks};
use router::Matcher;

use super::index::IndexWriter;
use super::message::{Action, Control, Message};
use super::parcels::Parcels;
use super::places::Places;
use super::publish::Kept;
use crate::bug::Bug;
use crate::rng::Rng;

/// See the module.
pub(crate) struct Hub {
    pub(crate) id: ShardId,
    pub(crate) now: Now,
    pub(crate) places: Places,
    pub(crate) l1: Matcher<PartitionId>,
    pub(crate) local: VecDeque<Message>,
    pub(crate) out: Vec<Vec<Message>>,
    pub(crate) sent: Vec<u64>,
    pub(crate) returned: Vec<u64>,
    pub(crate) appends: Appends<(), Kept>,
    /// Volatile partitions may refuse publishers, so that a publish waits for their answers (M13).
    pub(crate) volatile_answers: bool,
    pub(crate) parcels: Parcels,
    pub(crate) last_words: LastWords,
    /// A mark of a link is the number of a batch.
    pub(crate) fences: FenceBook<u64>,
    pub(crate) cuts: Vec<Cut>,
    /// Durable parts that have asked the volatile one and have not heard that it has nothing left (M36).
    heirs: BTreeSet<GroupRef>,
    pub(crate) index: Option<IndexWriter>,
    /// Term of each durable partition's leader, as this shard has heard.
    pub(crate) terms: BTreeMap<PartitionId, Term>,
    /// The node serves: all filters are in L1.
    pub(crate) serves: bool,
    pub(crate) index_asked: u64,
    pub(crate) index_confirmed: u64,
    pub(crate) rng: Rng,
    pub(crate) actions: Vec<Action>,
    pub(crate) dropped: BTreeMap<courser_contract::Dropped, u64>,
    pub(crate) bug: Option<Bug>,
}

impl Hub {
    pub(crate) fn new(id: ShardId, start: u32, places: Places, rng: Rng, bug: Option<Bug>) -> Self {
        let shards = usize::from(places.shards);
        let origin = Origin {
            node: 1,
            shard: id,
            start,
        };
        Self {
            id,
            now: Now::default(),
            places,
            l1: Matcher::new(),
            local: VecDeque::new(),
            out: vec![Vec::new(); shards],
            sent: vec![0; shards],
            returned: vec![0; shards],
            appends: Appends::new(origin, places.logs() + 1, places.shards),
            volatile_answers: false,
            parcels: Parcels::default(),
            last_words: LastWords::default(),
            fences: FenceBook::new(id, places.shards),
            cuts: vec![Cut(0); shards],
            heirs: BTreeSet::new(),
            index: (id.0 == 0).then(|| IndexWriter::new(places.shards)),
            terms: BTreeMap::new(),
            serves: false,
            index_asked: 0,
            index_confirmed: 0,
            rng,
            actions: Vec::new(),
            dropped: BTreeMap::new(),
            bug,
        }
    }

    /// Queues a message for a shard, this one included.
    pub(crate) fn push(&mut self, shard: ShardId, message: Message) {
        if shard == self.id {
            self.local.push_back(message);
        } else {
            self.out[usize::from(shard.0)].push(message);
        }
    }

    pub(crate) fn push_all(&mut self, control: &Control) {
        for shard in (0..self.places.shards).map(ShardId) {
            self.push(shard, Message::Control(control.clone()));
        }
    }

    /// Whether messages to this partition have somebody to take them. Volatile ones always lead.
    pub(super) fn term(&self, partition: PartitionId) -> Option<Term> {
        if partition.is_volatile() {
            return Some(Term(0));
        }
        self.terms.get(&partition).copied()
    }

    pub(crate) fn send_home(&mut self, partition: PartitionId, message: ToHome) {
        let shard = self.places.shard_of(partition);
        self.push(shard, Message::Home(partition, message));
    }

    /// A front's message; its last ones wait for its appends (M25).
    pub(crate) fn send_from_front(
        &mut self,
        front: FrontId,
        unsettled: u32,
        partition: PartitionId,
        message: ToHome,
    ) {
        let is_last = matches!(message, ToHome::Detach { .. } | ToHome::Unclaim { .. });
        if is_last && unsettled > 0 {
            let now = self.now.tick;
            self.last_words
                .hold(now, front, unsettled, (partition, message));
        } else {
            self.send_home(partition, message);
        }
    }

    /// A publish of a front that is gone, or not, is settled.
    pub(crate) fn front_settled(&mut self, front: FrontId) {
        let leaving = self.last_words.settled(front);
        for (partition, message) in leaving.into_iter().flat_map(|it| it.messages) {
            self.send_home(partition, message);
        }
    }

    pub(crate) fn send_overdue_words(&mut self) {
        while let Some(leaving) = self.last_words.overdue(self.now.tick) {
            let still_open = self.appends.open(leaving.front);
            for (partition, mut message) in leaving.messages {
                if let ToHome::Detach { open, .. } | ToHome::Unclaim { open, .. } = &mut message {
                    open.clone_from(&still_open);
                }
                self.send_home(partition, message);
            }
        }
    }

    /// Sends a message to a partition; questions are kept until answered, and wait until this shard knows of a leader.
    pub(crate) fn send_partition(
        &mut self,
        from: PartitionId,
        to: PartitionId,
        message: ToPartition,
    ) {
        self.parcels.note(from, to, &message);
        self.watch_heir(from, to, &message);
        self.plant_heir(from, to, &message);
        let term = match self.term(to) {
            Some(term) => term,
            None if Parcels::is_question(&message) => return,
            // Who asked leads, or another one will know what to do with the answer.
            None => Term(0),
        };
        self.push_partition(from, to, term, message);
    }

    /// Notes which durable parts may not give anything out yet (M36).
    fn watch_heir(&mut self, from: PartitionId, to: PartitionId, message: &ToPartition) {
        let of = |partition, group| GroupRef { partition, group };
        if let ToPartition::Inherit(heir) = message {
            self.heirs.insert(of(from, heir.group));
        } else if let ToPartition::PassOn(passed) = message
            && passed.all
        {
            self.heirs.remove(&of(to, passed.to));
        }
    }

    /// A durable part gives nothing of QoS > 0 out before it has what waits in the volatile one (M36).
    pub(super) fn check_heirs(&mut self, to: &[DeliverTo]) {
        let early = to.iter().find_map(|to| match to.source {
            Some((Source::Group(group), _)) if self.heirs.contains(&group) => Some(group),
            _ => None,
        });
        if let Some(group) = early {
            let text = format!("M36: {group:?} gave out before the volatile part had passed on");
            self.actions.push(Action::Broken(text));
        }
    }

    fn push_partition(
        &mut self,
        from: PartitionId,
        to: PartitionId,
        term: Term,
        message: ToPartition,
    ) {
        let message = Message::Partition {
            from,
            to,
            term,
            message,
        };
        self.push(self.places.shard_of(to), message);
    }

    /// A partition has a leader: all that it has not answered goes out again, before anything new (M14).
    pub(crate) fn led(&mut self, partition: PartitionId, term: Term) {
        self.terms.insert(partition, term);
        if self.bug == Some(Bug::ForgetResend) {
            return;
        }
        let unsettled = self.appends.unsettled(partition);
        let unsettled: Vec<(AppendKey, Kept)> =
            unsettled.map(|(key, kept)| (key, kept.clone())).collect();
        for (mut key, kept) in unsettled {
            if self.bug == Some(Bug::ResendRenumbered)
                && let AppendKey::Numbered { number, .. } = &mut key
            {
                number.0 += 1_000_000;
            }
            self.push_append(partition, key, &kept);
        }
        for (from, message) in self.parcels.unanswered(partition) {
            self.push_partition(from, partition, term, message);
        }
    }

    /// The last cut of the shard of a partition that this shard has heard of (M36).
    pub(crate) fn cut(&self, partition: PartitionId) -> Cut {
        self.cuts[usize::from(self.places.shard_of(partition).0)]
    }

    pub(crate) fn ask_fence(&mut self, partition: PartitionId, token: IndexToken, fence: Fence) {
        let (id, first) = self.fences.ask(partition, token, fence);
        let skipped = match fence {
            Fence::Cut(_) => Bug::CutWithoutFence,
            Fence::Matched | Fence::Forwarded => Bug::SkipFence,
        };
        if self.bug == Some(skipped) {
            if let Fence::Cut(cut) = fence {
                self.cuts[usize::from(self.id.0)] = cut;
            }
            self.skip_fence(id);
            return;
        }
        self.push_all(&Control::FenceAsk(id, first));
    }

    /// As if every shard had answered.
    fn skip_fence(&mut self, id: FenceId) {
        for _ in 0..self.places.shards {
            self.local
                .push_back(Message::Control(Control::FencePassed(id)));
        }
    }

    /// A shard has answered a fence. Whom to tell, when that was the last answer.
    pub(crate) fn fence_passed(&mut self, id: FenceId) -> Option<(PartitionId, IndexToken)> {
        match self.fences.passed(id)? {
            Passed::Again(_) if self.bug == Some(Bug::SkipFence) => self.skip_fence(id),
            Passed::Again(fence) => self.push_all(&Control::FenceAsk(id, fence)),
            Passed::Wholly(partition, token) => return Some((partition, token)),
        }
        None
    }

    /// How far this shard has come: what is gathered for a peer and not sent counts as one more batch.
    pub(crate) fn watermarks(&self) -> Watermarks<u64> {
        let peers = self.sent.iter().enumerate();
        let links = peers.map(|(peer, sent)| {
            let gathered = u64::from(!self.out[peer].is_empty());
            (ShardId(peer as u16), sent + gathered)
        });
        Watermarks {
            links: links.collect(),
            appends: self.appends.watermarks().collect(),
            proposed: Vec::new(),
        }
    }

    pub(crate) fn settle_fences(&mut self, applied: impl Fn(PartitionId, &mut Proposed) -> bool) {
        let Self {
            fences,
            returned,
            appends,
            ..
        } = self;
        let mut passed = Vec::new();
        fences.settle(
            |peer, mark| returned[usize::from(peer.0)] >= mark,
            |partition, number| appends.is_settled_below(partition, number),
            applied,
            |id, fence| passed.push((id, fence)),
        );
        for (id, fence) in passed {
            match fence {
                Fence::Matched | Fence::Cut(_) => {
                    self.push(id.asker, Message::Control(Control::FencePassed(id)))
                }
                // What partitions sent on without a number until now comes first (M13).
                Fence::Forwarded => self.push(
                    self.id,
                    Message::Control(Control::FenceAsk(id, Fence::Matched)),
                ),
            }
        }
    }

    /// Answers an append that a partition refuses to know because its leader is another one: none.
    pub(crate) fn settle_number(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        number: AppendNumber,
        result: Settled,
    ) {
        let message = Message::Settled {
            partition,
            origin,
            number,
            result,
        };
        self.push(origin.shard, message);
    }
}
