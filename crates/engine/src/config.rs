//! What a partition is told when it is made, and what it counts.

use std::cell::Cell;
use std::ops::AddAssign;
use std::rc::Rc;

use courser_contract::{Class, PartitionId, SharedStrategy};

/// What a partition is told when it is made.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// Its number.
    pub id: PartitionId,
    /// How much of it survives (M1).
    pub class: Class,
    /// For a volatile one, which has no log that tells: how often its node was started, so that what it forwards is never taken
    /// for what it forwarded in an earlier life (M19). Below 2^24.
    pub start: u32,
    /// Its limits.
    pub limits: Limits,
}

impl PartitionConfig {
    /// A partition with the default limits.
    #[must_use]
    pub fn new(id: PartitionId, class: Class) -> Self {
        Self {
            id,
            class,
            start: 0,
            limits: Limits::default(),
        }
    }

    /// Bytes of messages that wait which may be in memory: a partition without a log has nowhere else to have them.
    pub(crate) fn hot_max(&self) -> usize {
        match self.class {
            Class::Volatile => usize::MAX,
            Class::Durable | Class::Relaxed => {
                usize::try_from(self.limits.hot_bytes).unwrap_or(usize::MAX)
            }
        }
    }
}

/// What happens to a message for a session whose queue is full (M12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Overflow {
    /// The new message is dropped for this session.
    #[default]
    DropNewest,
    /// The oldest message that was never sent is dropped; without one, the new message.
    DropOldest,
    /// The publisher is refused, and nobody in this partition gets the message.
    RefusePublisher,
}

/// Room on the disk of a partition's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskRoom {
    /// For everything.
    #[default]
    Enough,
    /// Only for what was let in before: its results, releases and forwards, and connections that take it away or end it (M47).
    Short,
}

impl DiskRoom {
    /// Bytes of wills that clients with a session may bring to a partition while its disk is short. Each may be written once more in every
    /// partition when it goes: with 16 partitions that is little more than 1 MiB in all, of a reserve of at least three segments of that size.
    /// Some forty clients that say where they are gone have room in it.
    pub const WILL_BYTES: usize = 4 << 10;
}

/// Bytes that the partitions of a shard may still let in before the reserve of their disk had to pay for them (M4, M47). They share one, and
/// take from it what they let in, so that what is admitted and not yet written is counted; whoever knows the disk fills it again. Clones are
/// the same budget. One that nobody fills has no end.
#[derive(Clone, Debug, Default)]
pub struct DiskBudget(Rc<Budget>);

#[derive(Debug)]
struct Budget {
    left: Cell<u64>,
    refused: Cell<bool>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: Cell::new(u64::MAX),
            refused: Cell::new(false),
        }
    }
}

impl DiskBudget {
    /// Fills it: so many bytes may be let in from now on.
    pub fn fill(&self, bytes: u64) {
        self.0.left.set(bytes);
    }

    /// Bytes that may still be let in.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.0.left.get()
    }

    /// Whether something was refused for want of it since this was asked last.
    pub fn has_refused(&self) -> bool {
        self.0.refused.take()
    }

    #[inline]
    pub(crate) fn has(&self, bytes: usize) -> bool {
        self.left() >= bytes as u64
    }

    /// Takes bytes, or what is left: what was let in before is written in any case.
    #[inline]
    pub(crate) fn take(&self, bytes: usize) {
        self.fill(self.left().saturating_sub(bytes as u64));
    }

    #[cold]
    pub(crate) fn note_refused(&self) {
        self.0.refused.set(true);
    }
}

/// Room in the memory of the process for messages that wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryRoom {
    /// For everything that the limits allow.
    #[default]
    Enough,
    /// Only for sessions that take their messages: a publish that would wait for one that is away, or has
    /// [`CROWD_MESSAGES`](Self::CROWD_MESSAGES) or [`CROWD_BYTES`](Self::CROWD_BYTES) waiting, is refused.
    Short,
}

impl MemoryRoom {
    /// Messages that may wait for a session while memory is short.
    pub const CROWD_MESSAGES: u32 = 64;
    /// Their bytes.
    pub const CROWD_BYTES: u64 = 64 * 1024;
}

/// Room in the memory of the process for sessions and their subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionRoom {
    /// For everything that the limits allow.
    #[default]
    Enough,
    /// Those that outlive their connections have used up what they may have: there are no new ones of them, nor new subscriptions of theirs.
    Clean,
    /// All together have: there are no new subscriptions of others either.
    Short,
    /// The memory of the process is: besides, nobody comes in who has no session.
    None,
}

/// Limits of the sessions and stores of a partition. The leader enforces them when it proposes (M4).
#[derive(Clone, Debug)]
pub struct Limits {
    /// Messages that wait for one session, those under way included.
    pub queue_messages_max: u32,
    /// Their encoded bytes.
    pub queue_bytes_max: u64,
    /// Seconds that a message may wait for one session or group; `u32::MAX`: no limit.
    pub queue_seconds_max: u32,
    /// What happens beyond the first two.
    pub overflow: Overflow,
    /// Subscriptions of one session, shared ones included.
    pub subscriptions_max: u32,
    /// Shared ones of them.
    pub shared_subscriptions_max: u32,
    /// Bytes of the filters and share names of one session.
    pub subscription_bytes_max: u64,
    /// Sessions of this partition.
    pub sessions_max: u32,
    /// Deliveries of QoS > 0 that a home has under way to one front, at most 32,767 (M30).
    pub outbound_window_max: u16,
    /// QoS 2 publishes of one session that wait for their PUBREL. By default as many as there are packet ids: less than the Receive Maximum
    /// that its front announces would refuse what the client may send (v5 [MQTT-3.3.4-7]).
    pub holds_max: u32,
    /// Retained messages of this partition.
    pub retained_messages_max: u32,
    /// Their encoded bytes.
    pub retained_bytes_max: u64,
    /// Seconds that a message is retained; `u32::MAX`: no limit.
    pub retained_seconds_max: u32,
    /// Longest time that a session outlives its connection (M26).
    pub session_expiry_seconds_max: u32,
    /// Forwards that may wait in all outboxes (M47).
    pub outbox_messages_max: u32,
    /// How shared groups made by a session of this partition take turns.
    pub shared_strategy: SharedStrategy,
    /// Bytes of messages that wait which may be in memory, half of them read back from its log; above it the oldest are only
    /// there. What expires, is retained or is on its way to another partition is in memory besides.
    /// A volatile partition has all in memory.
    pub hot_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue_messages_max: 100_000,
            queue_bytes_max: 16 << 20,
            queue_seconds_max: u32::MAX,
            overflow: Overflow::DropNewest,
            subscriptions_max: 10_000,
            shared_subscriptions_max: 256,
            subscription_bytes_max: 1 << 20,
            sessions_max: 1_000_000,
            outbound_window_max: 1_024,
            holds_max: 65_535,
            retained_messages_max: 1_000_000,
            retained_bytes_max: 1 << 30,
            retained_seconds_max: u32::MAX,
            session_expiry_seconds_max: 7 * 24 * 3600,
            outbox_messages_max: 100_000,
            shared_strategy: SharedStrategy::RoundRobin,
            hot_bytes: u64::MAX,
        }
    }
}

/// What a partition holds now. Read in constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions, with and without a connection.
    pub sessions: u64,
    /// Those with a connection.
    pub attached: u64,
    /// Client ids that are claimed for sessions which live elsewhere.
    pub claims: u64,
    /// Subscriptions, shared ones included.
    pub subscriptions: u64,
    /// Shared ones of them.
    pub shared_subscriptions: u64,
    /// Bytes that sessions and their subscriptions take, also in indexes, but no messages.
    pub session_bytes: u64,
    /// Sessions that ended because their time was over, since this partition leads.
    pub expired_sessions: u64,
    /// Retained messages.
    pub retained_messages: u64,
    /// Their encoded bytes.
    pub retained_bytes: u64,
    /// Messages that wait in streams of sessions and groups: references, not records.
    pub queued_messages: u64,
    /// Records that are held, each once.
    pub records: u64,
    /// Those of them that are not in memory.
    pub cold_records: u64,
    /// Bytes of the blocks that hold those that are.
    pub record_bytes: u64,
    /// Bytes of the table that says where each of them is.
    pub row_bytes: u64,
    /// Forwards that wait in outboxes.
    pub outbox_messages: u64,
}

/// What a stream keeps for each message, about: 4.6 bytes in chunks that are full.
const REFERENCE_BYTES: u64 = 5;

/// Bytes of rows, and of so many references to them.
pub(crate) const fn name_bytes(rows: u64, references: u64) -> u64 {
    rows + REFERENCE_BYTES * references
}

impl Counts {
    /// Bytes that stay in memory for messages that wait when they are only in the log.
    #[must_use]
    pub const fn name_bytes(&self) -> u64 {
        name_bytes(self.row_bytes, self.queued_messages)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        let Self {
            sessions,
            attached,
            claims,
            subscriptions,
            shared_subscriptions,
            session_bytes,
            expired_sessions,
            retained_messages,
            retained_bytes,
            queued_messages,
            records,
            cold_records,
            record_bytes,
            row_bytes,
            outbox_messages,
        } = other;
        self.sessions += sessions;
        self.attached += attached;
        self.claims += claims;
        self.subscriptions += subscriptions;
        self.shared_subscriptions += shared_subscriptions;
        self.session_bytes += session_bytes;
        self.expired_sessions += expired_sessions;
        self.retained_messages += retained_messages;
        self.retained_bytes += retained_bytes;
        self.queued_messages += queued_messages;
        self.records += records;
        self.cold_records += cold_records;
        self.record_bytes += record_bytes;
        self.row_bytes += row_bytes;
        self.outbox_messages += outbox_messages;
    }
}
