//! What goes over a ring at once: messages, and the bytes that they refer to.

use bytes::Bytes;
use courser_contract::{
    Append, AppendKey, AppendNumber, Cut, DeliverTo, Delivery, Fence, FrontId, IndexToken, Origin,
    PartitionId, RecordRef, RecordView, Settled, ShardId, ToFront, ToHome, ToPartition,
};
use courser_shard::{FenceId, RoundId};

use crate::index::IndexRequest;
use crate::latency::Moment;
use crate::sys::ShardReport;

/// Bytes of a batch in its arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    len: u32,
}

/// Where the record of a delivery is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordPlace {
    /// Copied into the arena: QoS 0, which nobody keeps.
    Arena(Span),
    /// In a shared block: number of the block in the batch, place in it.
    Block { block: u32, start: u32, len: u32 },
}

/// One delivery of a batch: its record and its receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliverSpan {
    record: RecordPlace,
    first: u32,
    count: u32,
    /// When it was received; none: it has waited somewhere.
    received: Option<Moment>,
}

/// From one shard to another.
#[derive(Debug)]
pub(crate) enum Message {
    /// A publish for a partition of the receiver.
    Append {
        /// The partition.
        partition: PartitionId,
        /// Who waits for the answer.
        key: AppendKey,
        /// Whether this partition keeps the topic's retained message.
        keep_retained: bool,
        /// Whether its streams get it.
        deliver: bool,
        /// The last cut of the receiver that the sender had heard of.
        cut: Cut,
        /// The encoded record.
        record: Span,
        /// Whose it is.
        front: Option<FrontId>,
    },
    /// A publish of this front went to a session that is slower than it (M12).
    Slow(FrontId),
    /// A message for fronts of the receiver.
    Deliver(DeliverSpan),
    /// To a partition from a front.
    Home(PartitionId, ToHome),
    /// To a front.
    Front(FrontId, ToFront),
    /// From a partition to another.
    Partition {
        /// Who sends.
        from: PartitionId,
        /// Who gets it.
        to: PartitionId,
        /// What.
        message: ToPartition,
    },
    /// Answer to the appends `first..=last` of the receiver's origin.
    Settled {
        /// Who answers.
        partition: PartitionId,
        /// Start of the receiver that numbered.
        origin: Origin,
        /// First number.
        first: AppendNumber,
        /// Last number.
        last: AppendNumber,
        /// What became of them.
        result: Settled,
    },
    /// Beside the data path.
    Control(Control),
}

/// What shards say to each other about the index, fences and reports.
#[derive(Debug)]
pub(crate) enum Control {
    /// To the writer of L1.
    Index(Box<IndexRequest>),
    /// From the writer of L1: use the index of this round from now on, and say so.
    IndexPublished(RoundId),
    /// To the writer of L1: the sender uses it.
    IndexUsed(RoundId),
    /// From the writer of L1: every shard uses this change (M38).
    IndexConfirmed(PartitionId, IndexToken),
    /// Say when all that was matched before this message is pushed and settled (M34), and what else the fence waits for; what is matched
    /// from now on for partitions of the asker's shard is behind its cut, if it has one (M36).
    FenceAsk(FenceId, Fence),
    /// It is.
    FencePassed(FenceId),
    /// Say what you count.
    ReportAsk(u64),
    /// The answer.
    Report(u64, ShardId, Box<ShardReport>),
}

/// Messages for one peer with the bytes that they refer to. Emptied, it keeps its memory.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    messages: Vec<Message>,
    arena: Vec<u8>,
    targets: Vec<DeliverTo>,
    blocks: Vec<Bytes>,
    /// Bytes of requests: what credit is for.
    weight: usize,
    /// When the oldest of its appends was received.
    received: Option<Moment>,
}

/// An emptied batch keeps at most this much of its arena, so that one burst does not hold memory for ever.
const ARENA_KEPT_MAX: usize = 256 * 1024;
/// The same for its messages and receivers, in elements.
const MESSAGES_KEPT_MAX: usize = 8 * 1024;
/// What a request weighs beside its bytes.
const REQUEST_WEIGHT: usize = 64;

impl Batch {
    /// Whether it has no message.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that it holds for records, whether something is in it or not.
    #[cfg(test)]
    pub(crate) const fn arena_bytes(&self) -> usize {
        self.arena.capacity()
    }

    /// Number of messages.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.messages.len()
    }

    /// Receivers of its deliveries, those included that have theirs.
    #[must_use]
    pub(crate) const fn receivers(&self) -> usize {
        self.targets.len()
    }

    /// Bytes of requests in it.
    #[must_use]
    pub(crate) const fn weight(&self) -> usize {
        self.weight
    }

    /// The weight, which is nothing from now on.
    pub(crate) const fn take_weight(&mut self) -> usize {
        std::mem::replace(&mut self.weight, 0)
    }

    /// Adds a message that refers to no bytes of the batch.
    pub(crate) fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Adds an append: its record is encoded into the arena.
    pub(crate) fn push_append(
        &mut self,
        partition: PartitionId,
        append: &Append<'_>,
        front: Option<FrontId>,
    ) {
        let record = self.encode(&RecordView::from(append.publish));
        self.weight += record.len as usize + REQUEST_WEIGHT;
        self.messages.push(Message::Append {
            partition,
            key: append.key,
            keep_retained: append.keep_retained,
            deliver: append.deliver,
            cut: append.cut,
            record,
            front,
        });
    }

    /// An append was received then.
    pub(crate) fn note_received(&mut self, at: Option<Moment>) {
        if let Some(at) = at {
            self.received = Some(self.received.map_or(at, |other| other.earlier(at)));
        }
    }

    /// When the oldest of its appends was received.
    pub(crate) const fn received(&self) -> Option<Moment> {
        self.received
    }

    /// Says that a publish of `front` went to a session that is slower than it; once for several in a row.
    pub(crate) fn push_slow(&mut self, front: FrontId) {
        let said = matches!(self.messages.last(), Some(Message::Slow(last)) if *last == front);
        if !said {
            self.messages.push(Message::Slow(front));
        }
    }

    /// Adds a delivery to `to`, which all are fronts of the receiver. A stored record is shared: one count for all
    /// deliveries in a row out of one block. One that is only routed is copied.
    pub(crate) fn push_delivery<'a>(
        &mut self,
        delivery: &Delivery<'_>,
        to: impl Iterator<Item = &'a DeliverTo>,
        received: Option<Moment>,
    ) {
        let first = self.targets.len();
        self.targets.extend(to.cloned());
        let record = match &delivery.record {
            Some(record) => self.share(record),
            None => {
                let span = self.encode(delivery.view);
                self.weight += span.len as usize + REQUEST_WEIGHT;
                RecordPlace::Arena(span)
            }
        };
        self.messages.push(Message::Deliver(DeliverSpan {
            record,
            first: index(first),
            count: index(self.targets.len() - first),
            received,
        }));
    }

    /// Adds an answer; answers of one kind to numbers in a row become one message.
    pub(crate) fn push_settled(
        &mut self,
        partition: PartitionId,
        origin: Origin,
        number: AppendNumber,
        result: Settled,
    ) {
        if let Some(Message::Settled {
            partition: last_partition,
            origin: last_origin,
            last,
            result: last_result,
            ..
        }) = self.messages.last_mut()
            && (*last_partition, *last_origin, *last_result) == (partition, origin, result)
            && last.0 + 1 == number.0
        {
            *last = number;
            return;
        }
        self.messages.push(Message::Settled {
            partition,
            origin,
            first: number,
            last: number,
            result,
        });
    }

    /// Takes the message at `at` out; each can be taken once.
    pub(crate) fn take(&mut self, at: usize) -> Option<Message> {
        let message = self.messages.get_mut(at)?;
        Some(std::mem::replace(
            message,
            Message::Control(Control::ReportAsk(0)),
        ))
    }

    /// Puts a message back that was taken and cannot be handled yet.
    pub(crate) fn put(&mut self, at: usize, message: Message) {
        self.messages[at] = message;
    }

    /// The record of an append.
    ///
    /// # Panics
    /// When the span is of another batch.
    #[must_use]
    pub(crate) fn record(&self, span: Span) -> RecordView<'_> {
        let start = span.start as usize;
        RecordView::parse(&self.arena[start..start + span.len as usize])
            .expect("a record was encoded by the sender")
    }

    /// When a delivery was received that has not waited.
    pub(crate) const fn received_of(span: &DeliverSpan) -> Option<Moment> {
        span.received
    }

    /// What a delivery says, its shared bytes if it has some, and its receivers.
    ///
    /// # Panics
    /// When the span is of another batch.
    #[must_use]
    pub(crate) fn delivery(
        &self,
        span: DeliverSpan,
    ) -> (RecordView<'_>, Option<RecordRef<'_>>, &[DeliverTo]) {
        let first = span.first as usize;
        let to = &self.targets[first..first + span.count as usize];
        match span.record {
            RecordPlace::Arena(span) => (self.record(span), None, to),
            RecordPlace::Block { block, start, len } => {
                let block = &self.blocks[block as usize];
                let record = RecordRef::trusted(block, start as usize, len as usize);
                (record.view(), Some(record), to)
            }
        }
    }

    /// Forgets everything but the memory (of that what a burst added) and the weight, which the sender still counts.
    pub(crate) fn empty(&mut self) {
        self.received = None;
        self.messages.clear();
        self.arena.clear();
        self.targets.clear();
        self.blocks.clear();
        self.arena.shrink_to(ARENA_KEPT_MAX);
        self.messages.shrink_to(MESSAGES_KEPT_MAX);
        self.targets.shrink_to(MESSAGES_KEPT_MAX);
        self.blocks.shrink_to(MESSAGES_KEPT_MAX);
    }

    /// Gives its memory back where nothing is in it, and not the weight.
    pub(crate) fn trim(&mut self) {
        if self.is_empty() {
            *self = Self {
                weight: self.weight,
                ..Self::default()
            };
        }
    }

    fn encode(&mut self, view: &RecordView<'_>) -> Span {
        let start = self.arena.len();
        view.encode(&mut self.arena);
        Span {
            start: index(start),
            len: index(self.arena.len() - start),
        }
    }

    fn share(&mut self, record: &RecordRef<'_>) -> RecordPlace {
        let block = record.block();
        let shared = self
            .blocks
            .last()
            .is_some_and(|last| last.as_ptr() == block.as_ptr() && last.len() == block.len());
        if !shared {
            self.blocks.push(block.clone());
        }
        RecordPlace::Block {
            block: index(self.blocks.len() - 1),
            start: index(record.start()),
            len: index(record.encoded_len()),
        }
    }
}

/// A place in a batch.
fn index(place: usize) -> u32 {
    u32::try_from(place).expect("a batch stays below 4 GiB: its requests are bounded by credit")
}
