//! Orders: what a turn of a shard gives to the log writer, and the same orders on their way back when they are durable.
//!
//! One order a turn (two where the shard has relaxed partitions), one wake. An order comes back as the answer and keeps its
//! memory, so that nothing is allocated for a message after warm-up. At most `ORDERS_MAX` of them (and `QUESTIONS_MAX` without a record) are away from their
//! shard, and both rings have room for all of them: nobody ever waits at a ring. Without an order at hand a shard keeps
//! gathering in the one that is next.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use courser_contract::PartitionId;
use courser_log::{BatchNumber, CheckpointAt, LiveEntries, Record, Synced};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::rings::Doze;

/// Orders of one shard that may be under way. Each is a turn's work, and a sync takes as long as some turns.
const ORDERS_MAX: usize = 64;
/// Orders without a record that may be under way besides: what frees room on a full disk does not wait behind what needs some (M47).
const QUESTIONS_MAX: usize = 2;
/// An order that came back keeps memory for so many records.
const RECORDS_KEPT_MAX: usize = 1_024;

/// When an order is answered (M1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Once its records are synced.
    #[default]
    Synced,
    /// Once they are written; the sync follows within 100 ms.
    Written,
}

/// A checkpoint is durable: what is below it is not needed any more, but for its live entries.
#[derive(Debug)]
pub(crate) struct Checkpointed {
    /// Of which partition.
    pub(crate) partition: PartitionId,
    /// The entry at which it is valid.
    pub(crate) at: CheckpointAt,
    /// Entries at or below the index that hold records which are still needed.
    pub(crate) live: LiveEntries,
}

/// Records that are to be durable.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// When it is answered.
    pub(crate) mark: Mark,
    /// What is written, in this order.
    pub(crate) records: Vec<Record>,
    /// Bytes of the records' data.
    pub(crate) bytes: usize,
    /// Which groups of the shard wait for it: place and number, for `Consensus::persisted`.
    pub(crate) groups: Vec<(u16, u64)>,
    /// Whether the log is to be synced before the answer whatever the mark says; the answer's `log` is the proof.
    pub(crate) sync: bool,
    /// What the log may forget.
    pub(crate) checkpoints: Vec<Checkpointed>,
    /// In the answer: what is written and what is synced; its own records are in both where that was asked for.
    pub(crate) log: Option<(BatchNumber, Synced)>,
}

impl Order {
    /// An empty one.
    pub(crate) fn of(mark: Mark) -> Self {
        Self {
            mark,
            ..Self::default()
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.checkpoints.is_empty() && !self.sync
    }

    /// Adds a record.
    pub(crate) fn push(&mut self, record: Record) {
        match &record {
            Record::Entry { data, .. } => self.bytes += data.len(),
            // Terms and votes are synced in every class (M44).
            Record::HardState { .. } => self.sync = true,
            Record::Kept { data, .. } => self.bytes += data.len(),
            Record::Cleaned { .. } => {}
        }
        self.records.push(record);
    }

    /// Forgets everything but the memory.
    fn empty(&mut self) {
        self.records.clear();
        self.records.shrink_to(RECORDS_KEPT_MAX);
        self.groups.clear();
        self.checkpoints.clear();
        self.bytes = 0;
        self.sync = false;
    }
}

/// What a shard may order, as both ends know it (M4): both numbers count from the start of the process, so that an answer changes nothing.
#[derive(Debug)]
struct Allowance {
    /// Bytes that the shard has ordered, with what gathers for its next orders.
    ordered: AtomicU64,
    /// Up to so many it may let in what is new.
    limit: AtomicU64,
}

/// Makes the rings between a shard, which is woken by `shard`, and the writer, which is woken by `writer`.
pub(crate) fn orders(shard: Arc<Doze>, writer: Arc<Doze>) -> (OrderSender, OrderReceiver) {
    let (orders, arrivals) = RingBuffer::new(ORDERS_MAX + QUESTIONS_MAX);
    let (done, answers) = RingBuffer::new(ORDERS_MAX + QUESTIONS_MAX);
    let allowance = Arc::new(Allowance {
        ordered: AtomicU64::new(0),
        limit: AtomicU64::new(u64::MAX),
    });
    let sender = OrderSender {
        allowance: Arc::clone(&allowance),
        ordered: 0,
        orders,
        answers,
        writer,
        spare: Vec::with_capacity(ORDERS_MAX),
        away: 0,
        away_bytes: 0,
    };
    let receiver = OrderReceiver {
        allowance,
        answered: 0,
        ordered: 0,
        arrivals,
        done,
        shard,
    };
    (sender, receiver)
}

/// The shard's end.
#[derive(Debug)]
pub(crate) struct OrderSender {
    allowance: Arc<Allowance>,
    /// Bytes of all orders.
    ordered: u64,
    orders: Producer<Order>,
    answers: Consumer<Order>,
    writer: Arc<Doze>,
    spare: Vec<Order>,
    away: usize,
    away_bytes: usize,
}

impl OrderSender {
    /// Sends what gathered in `order` and leaves an empty one; leaves it as it is while too many are under way.
    pub(crate) fn send(&mut self, order: &mut Order) {
        let most = match order.records.is_empty() {
            true => ORDERS_MAX + QUESTIONS_MAX,
            false => ORDERS_MAX,
        };
        if order.is_empty() || self.away >= most {
            return;
        }
        let next = self.spare.pop().unwrap_or_default();
        let order = std::mem::replace(
            order,
            Order {
                mark: order.mark,
                ..next
            },
        );
        self.away += 1;
        self.away_bytes += order.bytes;
        self.ordered += order.bytes as u64;
        self.orders
            .push(order)
            .expect("no more orders are under way than the ring has places");
        self.writer.wake();
    }

    /// Tells the writer how much is ordered or gathers: before what gathers is sent, so that it never knows an order and not its bytes.
    pub(crate) fn tell_ordered(&self, gathering: usize) {
        let ordered = self.ordered + gathering as u64;
        self.allowance.ordered.store(ordered, Ordering::Release);
    }

    /// Bytes of what is new that may be let in besides those that are ordered and those that gather.
    pub(crate) fn left(&self, gathering: usize) -> u64 {
        let limit = self.allowance.limit.load(Ordering::Acquire);
        limit.saturating_sub(self.ordered + gathering as u64)
    }

    /// Has the writer look at its disk.
    pub(crate) fn wake_writer(&self) {
        self.writer.wake();
    }

    /// The next order that is done. It must come back by [`keep`](Self::keep).
    pub(crate) fn next_done(&mut self) -> Option<Order> {
        let order = self.answers.pop().ok()?;
        self.away -= 1;
        self.away_bytes -= order.bytes;
        Some(order)
    }

    /// Keeps the memory of an order whose answer was handled.
    pub(crate) fn keep(&mut self, mut order: Order) {
        order.empty();
        self.spare.push(order);
    }

    /// Whether an answer waits.
    pub(crate) fn has_answer(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Orders that are not answered.
    pub(crate) const fn away(&self) -> usize {
        self.away
    }

    /// Bytes of the orders that are not answered.
    pub(crate) const fn away_bytes(&self) -> usize {
        self.away_bytes
    }
}

/// The writer's end.
#[derive(Debug)]
pub(crate) struct OrderReceiver {
    allowance: Arc<Allowance>,
    /// Bytes of the orders that were answered.
    answered: u64,
    /// What the shard has said last.
    ordered: u64,
    arrivals: Consumer<Order>,
    done: Producer<Order>,
    shard: Arc<Doze>,
}

impl OrderReceiver {
    /// The next order.
    pub(crate) fn take(&mut self) -> Option<Order> {
        self.arrivals.pop().ok()
    }

    /// Whether an order waits.
    pub(crate) fn has_order(&self) -> bool {
        !self.arrivals.is_empty()
    }

    /// Whether the shard has ended and nothing of it is left.
    pub(crate) fn has_ended(&self) -> bool {
        self.arrivals.is_abandoned() && self.arrivals.is_empty()
    }

    /// Bytes that the shard has ordered, or is about to, and that are not written.
    pub(crate) fn under_way(&mut self) -> u64 {
        self.ordered = self.allowance.ordered.load(Ordering::Acquire);
        self.ordered.saturating_sub(self.answered)
    }

    /// Lets the shard order so many bytes more than [`under_way`](Self::under_way) has just found.
    pub(crate) fn allow(&self, bytes: u64) {
        let limit = self.ordered.max(self.answered).saturating_add(bytes);
        self.allowance.limit.store(limit, Ordering::Release);
    }

    /// Answers an order; the shard is to be woken once after the last answer.
    pub(crate) fn answer(&mut self, order: Order) {
        self.answered += order.bytes as u64;
        self.done
            .push(order)
            .expect("an order comes back into a ring with room for all that are away");
    }

    /// Wakes the shard if it sleeps.
    pub(crate) fn wake(&self) {
        self.shard.wake();
    }
}
