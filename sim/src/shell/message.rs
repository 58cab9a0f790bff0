//! What shards say to each other, and what a turn asks of the world.

use courser_contract::{
    AppendKey, AppendNumber, CloseCause, Cut, DeliverTo, Fence, FrontId, IndexChange, IndexToken,
    LogIndex, Need, Origin, PartitionId, Question, Record, Settled, ShardId, Term, ToFront, ToHome,
    ToPartition,
};
use courser_engine::LostReference;
use courser_shard::{FenceId, RoundId};

use super::index::Round;

/// What shards say to each other and to themselves.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Append {
        partition: PartitionId,
        term: Term,
        key: AppendKey,
        keep_retained: bool,
        deliver: bool,
        cut: Cut,
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
    /// Beside the data path.
    Control(Control),
}

/// What shards say to each other about L1, fences and leaders.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Index(PartitionId, IndexToken, IndexChange),
    IndexPublished(RoundId, Round),
    IndexUsed(RoundId),
    IndexConfirmed(PartitionId, IndexToken),
    FenceAsk(FenceId, Fence),
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
    /// A partition asks for records that are only in its log.
    Ask(Question),
    Deposed(PartitionId),
    /// Records that a partition needs could not be read back.
    Unreadable(PartitionId, Vec<Need>),
    /// What needed these records goes on without them, and so many are counted.
    LossAccepted(PartitionId, Vec<LostReference>, u64),
    /// Applying the entry at this place has panicked.
    Panicked(PartitionId, LogIndex),
    Led(PartitionId),
    /// A rule is broken that only the shell sees.
    Broken(String),
    /// A line for the trace.
    Note(String),
}
