//! What fronts and partitions of a shard share: everything but themselves.

use std::collections::{BTreeMap, VecDeque};

use courser_contract::{
    Append, AppendKey, AppendNumber, CloseCause, DeliverTo, Destinations, FrontId, IndexChange,
    IndexToken, Now, Origin, PartitionId, Publish, QoS, Record, RecordView, Routed, Settled,
    ShardId, Term, Ticket, ToFront, ToHome, ToPartition,
};
use router::Matcher;

use super::appends::{Appends, Kept};
use super::fences::{FenceId, Fences, Marks};
use super::index::{IndexWriter, Round};
use super::last_words::LastWords;
use super::parcels::Parcels;
use super::places::Places;
use crate::bug::Bug;
use crate::rng::Rng;

/// What shards say to each other and to themselves.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Append {
        partition: PartitionId,
        term: Term,
        key: AppendKey,
        keep_retained: bool,
        deliver: bool,
        record: Record,
    },
    Deliver {
        record: Record,
        stored: bool,
        to: Vec<DeliverTo>,
    },
    Home(PartitionId, ToHome),
    Front(FrontId, ToFront),
    Partition {
        from: PartitionId,
        to: PartitionId,
        term: Term,
        message: ToPartition,
    },
    Settled {
        partition: PartitionId,
        origin: Origin,
        number: AppendNumber,
        result: Settled,
    },
    Index(PartitionId, IndexToken, IndexChange),
    IndexPublished(u64, Round),
    IndexUsed(u64),
    IndexConfirmed(PartitionId, IndexToken),
    FenceAsk(FenceId),
    FencePassed(FenceId),
    /// A partition has a leader again: what it has not answered is sent once more.
    Led(PartitionId, Term),
}

/// What a turn asks of the world.
#[derive(Debug)]
pub(crate) enum Action {
    Batch(ShardId, Vec<Message>),
    Bytes(u32, Vec<u8>),
    Closed {
        conn: u32,
        cause: CloseCause,
    },
    Attached {
        conn: u32,
    },
    Propose(PartitionId, bytes::Bytes),
    Deposed(PartitionId),
    Led(PartitionId),
    /// A line for the trace.
    Note(String),
}

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
    pub(crate) appends: Appends,
    pub(crate) parcels: Parcels,
    pub(crate) last_words: LastWords,
    pub(crate) fences: Fences,
    pub(crate) index: Option<IndexWriter>,
    /// Term of each durable partition's leader, as this shard has heard.
    pub(crate) terms: BTreeMap<PartitionId, Term>,
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
            appends: Appends::new(origin),
            parcels: Parcels::default(),
            last_words: LastWords::default(),
            fences: Fences::default(),
            index: (id.0 == 0).then(|| IndexWriter::new(places.shards)),
            terms: BTreeMap::new(),
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

    pub(crate) fn push_all(&mut self, message: &Message) {
        for shard in (0..self.places.shards).map(ShardId) {
            self.push(shard, message.clone());
        }
    }

    /// Whether messages to this partition have somebody to take them. Volatile ones always lead.
    fn term(&self, partition: PartitionId) -> Option<Term> {
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
        if is_last && unsettled > 0 && self.bug != Some(Bug::SkipLastWords) {
            let now = self.now.tick;
            self.last_words
                .hold(now, front, unsettled, (partition, message));
        } else {
            self.send_home(partition, message);
        }
    }

    /// A publish of a front that is gone, or not, is settled.
    pub(crate) fn front_settled(&mut self, front: FrontId) {
        for (partition, message) in self.last_words.settled(front) {
            self.send_home(partition, message);
        }
    }

    pub(crate) fn send_overdue_words(&mut self) {
        for (front, messages) in self.last_words.overdue(self.now.tick) {
            let still_open = self.appends.open(front);
            for (partition, mut message) in messages {
                if let ToHome::Detach { open, .. } | ToHome::Unclaim { open, .. } = &mut message {
                    open.clone_from(&still_open);
                }
                self.send_home(partition, message);
            }
        }
    }

    /// Sends a message to a partition, now if it has a leader that this shard knows of; questions are kept until answered.
    pub(crate) fn send_partition(
        &mut self,
        from: PartitionId,
        to: PartitionId,
        message: ToPartition,
    ) {
        self.parcels.note(from, to, &message);
        let Some(term) = self.term(to) else { return };
        self.push_partition(from, to, term, message);
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

    /// Partitions with a filter for a topic, in the order of their numbers.
    fn way(&self, topic: &str) -> Destinations {
        let mut found = Destinations::new();
        self.l1.for_each_match(topic, |&partition| {
            if !found.contains(&partition) {
                found.push(partition);
            }
        });
        found.sort_unstable();
        found
    }

    pub(crate) fn destinations(&self, topic: &str, retain: bool) -> Destinations {
        let mut found = self.way(topic);
        let keeper = self.places.retained(topic);
        if retain && !found.contains(&keeper) {
            found.push(keeper);
        }
        found
    }

    /// Sends a publish to every partition that L1 names, and to the keeper of the topic's retained message (M37).
    pub(crate) fn publish(
        &mut self,
        front: FrontId,
        publish: &Publish<'_>,
        ticket: Ticket,
    ) -> Routed {
        let subscribed = self.way(publish.topic);
        let keeper = publish.retain.then(|| self.places.retained(publish.topic));
        let all = self.destinations(publish.topic, publish.retain);
        let early = self.bug == Some(Bug::SettleBeforeCommit);
        let mut wait = None;
        let record = Record::copy_of(&RecordView::from(publish));
        for &partition in &all {
            let kept = Kept {
                record: record.clone(),
                keep_retained: keeper == Some(partition),
                deliver: subscribed.contains(&partition),
            };
            if publish.qos == QoS::AtMostOnce || partition.is_volatile() {
                self.push_append(partition, AppendKey::Unanswered, &kept);
                continue;
            }
            let wait = *wait.get_or_insert_with(|| self.appends.begin(front, ticket));
            let key = self.appends.number(wait, partition, kept.clone());
            self.push_append(partition, key, &kept);
        }
        match wait {
            Some(_) if !early => Routed::Waits,
            _ => Routed::Done {
                matched: !subscribed.is_empty(),
            },
        }
    }

    fn push_append(&mut self, partition: PartitionId, key: AppendKey, kept: &Kept) {
        // Without a leader it stays with the shard until there is one (M11); QoS 0 is dropped.
        let Some(term) = self.term(partition) else {
            return;
        };
        let message = Message::Append {
            partition,
            term,
            key,
            keep_retained: kept.keep_retained,
            deliver: kept.deliver,
            record: kept.record.clone(),
        };
        self.push(self.places.shard_of(partition), message);
    }

    /// A partition has a leader: all that it has not answered goes out again, before anything new (M14).
    pub(crate) fn led(&mut self, partition: PartitionId, term: Term) {
        self.terms.insert(partition, term);
        if self.bug == Some(Bug::ForgetResend) {
            return;
        }
        for (mut key, kept) in self.appends.unsettled(partition) {
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

    pub(crate) fn ask_fence(&mut self, partition: PartitionId, token: IndexToken) {
        let id = self
            .fences
            .ask(self.id, self.places.shards, partition, token);
        if self.bug == Some(Bug::SkipFence) {
            for _ in 0..self.places.shards {
                self.local.push_back(Message::FencePassed(id));
            }
            return;
        }
        self.push_all(&Message::FenceAsk(id));
    }

    /// How far this shard has come: what is gathered for a peer and not sent counts as one more batch.
    pub(crate) fn marks(&self) -> Marks {
        let peers = self.sent.iter().enumerate();
        let links = peers.map(|(peer, sent)| {
            let gathered = u64::from(!self.out[peer].is_empty());
            (peer, sent + gathered)
        });
        Marks {
            links: links.collect(),
            appends: self.appends.watermarks(),
        }
    }

    pub(crate) fn settle_fences(&mut self) {
        let Self {
            fences,
            returned,
            appends,
            ..
        } = self;
        let passed = fences.settle(
            |peer, mark| returned[peer] >= mark,
            |partition, number| appends.is_settled_below(partition, number),
        );
        for id in passed {
            self.push(id.asker, Message::FencePassed(id));
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

/// An append as a partition takes it.
pub(crate) fn append<'a>(
    key: AppendKey,
    record: &'a Record,
    keep_retained: bool,
    deliver: bool,
) -> Append<'a> {
    Append {
        key,
        publish: Publish::from(record.view()),
        keep_retained,
        deliver,
    }
}
