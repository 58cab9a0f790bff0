//! What a front tells the home of its session.

use compact_str::CompactString;

#[cfg(doc)]
use crate::ToFront;
use crate::{
    ClientHash, DetachCause, Epoch, FrontId, HomeRef, PartitionId, PublishedQos2, Seq, SessionUid,
    Subscription, Will,
};

/// Some of the filters of a SUBSCRIBE or UNSUBSCRIBE: a client may ask for as many at once as would keep a shard for long, so they go home in
/// parts, which are answered one by one. The client gets one answer, v5 [MQTT-3.8.4-5].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestPart {
    /// Packet id of the client's packet.
    pub packet_id: u16,
    /// Place of the part's first filter among those of the packet.
    pub first: u32,
}

impl RequestPart {
    /// All filters of a packet.
    #[must_use]
    pub const fn whole(packet_id: u16) -> Self {
        Self {
            packet_id,
            first: 0,
        }
    }
}

/// From a front to a partition.
#[derive(Clone, Debug)]
pub enum ToHome {
    /// Take the client id and attach to its session; answered by [`ToFront::Attached`], [`ToFront::Claimed`] or
    /// [`ToFront::ConnectRefused`].
    Attach(Box<Attach>),
    /// Lets go of a claimed client id for which no session was opened; to the partition that gave [`ToFront::Claimed`].
    Unclaim {
        /// Client id.
        client_id: CompactString,
        /// Epoch of the claim.
        epoch: Epoch,
        /// Partitions with appends of this front that have not settled (M25).
        open: Vec<PartitionId>,
    },
    /// The client has proved anew who it is: the same user, with other rights perhaps.
    Owned {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// As in [`Attach`].
        owner: Box<str>,
        /// As in [`Attach`].
        limits: SessionLimits,
    },
    /// Subscribe; answered by [`ToFront::Subscribed`].
    Subscribe {
        /// Session and attachment.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// Which part of a SUBSCRIBE it is.
        part: RequestPart,
        /// What to, in the client's order.
        subscriptions: Vec<Subscription>,
    },
    /// Unsubscribe; answered by [`ToFront::Unsubscribed`].
    Unsubscribe {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// Which part of an UNSUBSCRIBE it is.
        part: RequestPart,
        /// Filters as the client wrote them, with share names split off.
        filters: Vec<(Option<Box<str>>, Box<str>)>,
    },
    /// Answer to [`ToFront::RetainedPage`], once the client has taken nearly all that was sent before it: there is room for more.
    PageTaken {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
    },
    /// How fast the client reads, for the shared groups of its session: what is stored nowhere should go to other members meanwhile. Said
    /// when it changes, and only of a connection that groups deliver to.
    Uptake {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// How fast.
        uptake: Uptake,
    },
    /// What became of deliveries `first..=last` of the session's own stream.
    Outcome {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// First delivery.
        first: Seq,
        /// Last delivery.
        last: Seq,
        /// What became of them.
        kind: OutcomeKind,
    },
    /// The same for deliveries of a shared group.
    GroupOutcome {
        /// The group.
        group: u64,
        /// Member that had them.
        member: HomeRef,
        /// Its connection.
        front: FrontId,
        /// First delivery.
        first: Seq,
        /// Last delivery.
        last: Seq,
        /// What became of them.
        kind: OutcomeKind,
    },
    /// Room for deliveries of a shared group, which has got something back with [`OutcomeKind::Returned`], or is to leave the next place
    /// to another group of this connection.
    GroupRoom {
        /// The group.
        group: u64,
        /// Its member.
        member: HomeRef,
        /// The member's connection.
        front: FrontId,
        /// How much.
        room: GroupRoom,
    },
    /// Answer to [`ToFront::Name`], to the partition of the group: it commits whose the delivery is, with its packet id, and
    /// then delivers it (M31).
    Named {
        /// The group.
        group: u64,
        /// Member that is to have it.
        member: HomeRef,
        /// Its connection.
        front: FrontId,
        /// The delivery.
        seq: Seq,
        /// Packet id, from 32,768, that is taken until the exchange ends.
        packet_id: u16,
    },
    /// A QoS 2 publish for the home to store; answered by [`ToFront::Received`].
    PublishQos2 {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// What is published.
        publish: Box<PublishedQos2>,
    },
    /// PUBREL of a QoS 2 publish, or a PUBREC answer that ends its hold; answered by [`ToFront::Released`].
    Release {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// Packet id of the hold.
        packet_id: u16,
    },
    /// The front ends. Last message of an attachment.
    Detach {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// Why.
        cause: DetachCause,
        /// New session expiry interval in seconds, from a v5 DISCONNECT.
        expiry_seconds: Option<u32>,
        /// Partitions with appends of this front that have not settled (M25).
        open: Vec<PartitionId>,
        /// What the home lets go of with the session, which is volatile.
        claim: Option<Box<HeldClaim>>,
    },
}

/// A client id that a partition has given to a session elsewhere, with [`ToFront::Claimed`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldClaim {
    /// Who gave it.
    pub partition: PartitionId,
    /// Client id.
    pub client_id: CompactString,
}

/// Request of a connection for the session of its client id.
#[derive(Clone, Debug)]
pub struct Attach {
    /// Where the connection is.
    pub front: FrontId,
    /// Whose session.
    pub client_id: CompactString,
    /// What the client's messages carry of it: [`ClientHash::of`] its id.
    pub publisher: ClientHash,
    /// Which of the two partitions of M23 is asked.
    pub stage: AttachStage,
    /// Forget what is stored, v5 Clean Start, v3 CleanSession.
    pub clean_start: bool,
    /// Seconds that the session outlives the connection, already capped; 0: it ends with it.
    pub expiry_seconds: u32,
    /// Most deliveries of QoS > 0 under way, at least 1.
    pub receive_maximum: u16,
    /// A delivery of more bytes is not sent.
    pub delivery_bytes_max: u32,
    /// Will of this connection.
    pub will: Option<Box<Will>>,
    /// The user that it has logged in as, to whom the session belongs from then on, and what else the shell wants to find with the session
    /// ([`owner_name`](crate::owner_name)); none: nobody logs in where it came in.
    pub owner: Option<Box<str>>,
    /// What the session may use, beside what any session may.
    pub limits: SessionLimits,
    /// Most sessions that its user may keep, this one among them; `u32::MAX`: as many as there may be.
    pub user_sessions_max: u32,
}

impl Attach {
    /// The will of this connection, if it is to be retained.
    #[must_use]
    pub fn retained_will(&self) -> Option<&Will> {
        self.will.as_deref().filter(|will| will.retain)
    }
}

/// What a session may use by the limits of whom it belongs to; `u32::MAX`: as much as any session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// Most subscriptions.
    pub subscriptions_max: u32,
    /// Most messages that wait.
    pub queued_messages_max: u32,
    /// Most bytes of messages that wait.
    pub queued_bytes_max: u32,
    /// Seconds that a message may wait.
    pub queued_seconds_max: u32,
}

impl SessionLimits {
    /// As much as any session.
    pub const NONE: Self = Self {
        subscriptions_max: u32::MAX,
        queued_messages_max: u32::MAX,
        queued_bytes_max: u32::MAX,
        queued_seconds_max: u32::MAX,
    };
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self::NONE
    }
}

/// How fast a client reads what it is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uptake {
    /// As fast as it is sent, as far as is known.
    #[default]
    Prompt,
    /// Its output is half full: what is stored nowhere will soon be dropped.
    Behind,
}

/// What a shared group may give to a member that has given something back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRoom {
    /// So many messages more than it was told of before. None at all: nothing before the next word.
    Places(u16),
    /// As many as the connection takes, as before.
    Enough,
}

/// Which partition an [`Attach`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachStage {
    /// The partition of the client id's slot: takes the client id, and is the home of sessions with expiry > 0.
    Claim,
    /// The volatile partition of the front's shard, after [`ToFront::Claimed`] with this epoch.
    Open(Epoch),
}

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutcomeKind {
    /// Acknowledged for good: PUBACK or PUBCOMP. Of a shared group at QoS 0: in the output of the connection.
    Done,
    /// QoS 2: PUBREC; answered by [`ToFront::Release`] once committed (M32).
    Received,
    /// Refused by the client: PUBACK or PUBREC of 0x80 or more; settled, not sent again.
    Rejected,
    /// Never sent, for example longer than the client's Maximum Packet Size: settled.
    Skipped,
    /// Of a shared group only: not sent, give it to another member without counting an attempt (M31). This one gets nothing more before
    /// [`ToHome::GroupRoom`].
    Returned,
    /// Of a shared group only: not sent, since it is longer than the client's Maximum Packet Size. Others may have it.
    TooLarge,
}
