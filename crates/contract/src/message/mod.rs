//! The messages between fronts, homes and partitions (M22).

mod publish;
mod to_front;
mod to_home;
mod to_partition;

use crate::{PartitionId, SessionUid};

pub use publish::{Append, AppendKey, PublishedQos2, PubrecCan, Refusal, Settled};
pub use to_front::{
    Attached, CloseReason, ConnectRefusal, DeliverFlags, DeliverTo, Delivery, Source, ToFront,
};
pub use to_home::{
    Attach, AttachStage, GroupRoom, HeldClaim, OutcomeKind, RequestPart, SessionLimits, ToHome,
    Uptake,
};
pub use to_partition::{
    GroupName, Inheritance, Join, JoinResult, LeaveCause, MemberConnection, PassedOn,
    RetainedFound, RetainedScan, ScanRef, Tell, ToPartition, VolatilePart,
};

/// A session by the partition of its home.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HomeRef {
    /// Partition of the home.
    pub partition: PartitionId,
    /// Session there.
    pub session: SessionUid,
}

/// A shared group by the partition in which it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupRef {
    /// Partition of the group.
    pub partition: PartitionId,
    /// Its number there, never reused.
    pub group: u64,
}
