//! What fronts and homes of sessions say to each other.
//!
//! A session has two halves. The **front** is at the socket: codec, window, output, tickets. The **home** is in a
//! partition: subscriptions, stream, outcomes, will, expiry. They exchange only the messages of this crate, the same ones by
//! plain call within a shard, on a ring between shards and on a link between nodes, so that takeover, roaming and proxies are
//! one thing. Protocol crates and the engine both know this crate and never each other.
//!
//! Here are types and two traits of effects, no behaviour but the encoding of a record: [`FrontEffects`] is what a front asks of the shell around it,
//! [`PartitionEffects`] what a partition asks of its shell. A third trait, [`Needs`], lets a log ask what checkpoints need of it. Nothing here knows a protocol's bytes, a socket, a file or a clock.
//!
//! # Order
//! - Messages from one sender to one receiver arrive in the order in which they were sent.
//! - A front sends to its home only after [`Attached`], and nothing after [`ToHome::Detach`].
//! - Every message of a front to its home carries the [`Epoch`] of its attachment; a home drops those of older epochs.
#![forbid(unsafe_code)]

mod client_hash;
mod effects;
mod ids;
mod message;
mod needs;
mod owner;
mod recall;
mod record;
mod session;

pub use client_hash::ClientHash;
pub use effects::{
    Asked, CloseCause, Cuts, Destinations, Dropped, Fence, FrontEffects, IndexChange,
    PartitionEffects, Permission, Routed, WhyRefused, WillPermission,
};
pub use ids::{
    AppendNumber, Class, Cut, Epoch, FrontId, IndexToken, ListNumber, LogIndex, Now, Origin,
    PartitionId, Seq, SessionUid, ShardId, Term, Tick, Ticket, WallMs, is_own_topic,
};
pub use message::{
    Append, AppendKey, Attach, AttachStage, Attached, CloseReason, ConnectRefusal, DeliverFlags,
    DeliverTo, Delivery, GroupName, GroupRef, GroupRoom, HeldClaim, HomeRef, Inheritance, Join,
    JoinResult, LeaveCause, MemberConnection, OutcomeKind, PassedOn, PublishedQos2, PubrecCan,
    Refusal, RequestPart, RetainedFound, RetainedScan, ScanRef, SessionLimits, Settled, Source,
    Tell, ToFront, ToHome, ToPartition, Uptake, VolatilePart,
};
pub use needs::{Need, Needs, NeedsScan};
pub use owner::{
    ACCOUNT, BEHIND_NAME, are_different_accounts, author_of, author_parts, owner_account,
    owner_name,
};
pub use recall::{Question, Recalled, StreamWants, Want};
pub use record::{Publish, QoS, RECORD_VERSION, Record, RecordRef, RecordView};
pub use session::{
    DetachCause, RetainHandling, SharedStrategy, SubscribeResult, Subscription,
    SubscriptionOptions, Will,
};
