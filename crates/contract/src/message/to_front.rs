//! What a home tells the front of its session, and what it delivers.

use crate::{
    Epoch, FrontId, GroupRef, HomeRef, QoS, RecordRef, RecordView, RequestPart, Seq, Settled,
    SubscribeResult,
};
#[cfg(doc)]
use crate::{OutcomeKind, ToHome};

/// From a partition to a front. Deliveries go by [`PartitionEffects::deliver`](crate::PartitionEffects::deliver).
#[derive(Clone, Debug)]
pub enum ToFront {
    /// The session is attached.
    Attached(Attached),
    /// The client id is taken, no session is stored: open a volatile one with this epoch.
    Claimed {
        /// Epoch of the claim.
        epoch: Epoch,
    },
    /// The attach is refused.
    ConnectRefused(ConnectRefusal),
    /// Another connection has the client id: send its protocol's word for it, close, detach.
    TakenOver,
    /// An operator or the end of the session closes the connection.
    Closed(CloseReason),
    /// Answer to [`ToHome::Subscribe`], after the index knows the filters on every shard (M38).
    Subscribed {
        /// Which part of the SUBSCRIBE.
        part: RequestPart,
        /// One a filter, in the client's order.
        results: Vec<SubscribeResult>,
    },
    /// Answer to [`ToHome::Unsubscribe`].
    Unsubscribed {
        /// Which part of the UNSUBSCRIBE.
        part: RequestPart,
        /// Whether each filter was subscribed to.
        existed: Vec<bool>,
    },
    /// As many retained messages of QoS 0 as are sent without a word of the front have gone before this; answered by [`ToHome::PageTaken`]
    /// (M34).
    RetainedPage,
    /// Answer to [`ToHome::PublishQos2`].
    Received {
        /// Packet id of the hold.
        packet_id: u16,
        /// What became of it. `matched`: somebody gets it.
        result: Settled,
        /// Whether it has a destination.
        matched: bool,
    },
    /// Answer to [`ToHome::Release`].
    Released {
        /// Packet id of the hold.
        packet_id: u16,
        /// Whether there was a hold.
        existed: bool,
    },
    /// "Received" is committed: send PUBREL for this delivery (M32). After a reconnect: again.
    Release {
        /// Stream of the delivery.
        source: Source,
        /// The delivery.
        seq: Seq,
        /// Packet id it has (given again after a reconnect for [`Source::Group`]).
        packet_id: Option<u16>,
    },
    /// A shared group wants a packet id for a delivery of QoS 2 (M31); answered by [`ToHome::Named`], or by
    /// [`OutcomeKind::Returned`] when there is no room.
    Name {
        /// The group.
        group: GroupRef,
        /// The delivery.
        seq: Seq,
    },
    /// The client may have a delivery of QoS 2 from an earlier connection, and the group cannot send it, since the disk has lost it: its
    /// packet id is not free (M31). [`ToFront::Release`] follows when the loss is accepted.
    Withheld {
        /// The group.
        group: GroupRef,
        /// The delivery.
        seq: Seq,
        /// Its packet id.
        packet_id: u16,
    },
    /// A shared group has delivered and released again all that it owes the session from before (M31). Deliveries that it had
    /// not named before are void. Comes from each group for each connection.
    Owed {
        /// The group.
        group: GroupRef,
        /// Its name as in [`Attached::groups`].
        name: u64,
    },
    /// The same of a group that the session has left: nothing is owed. Comes from the home.
    NothingOwed {
        /// Its name as in [`Attached::groups`].
        name: u64,
    },
    /// A shared group that the session has left, or that has lost the message, will not deliver what it has asked a packet id for: the place
    /// that was kept for it is free (M31). What it has delivered is not meant.
    Void {
        /// The group.
        group: GroupRef,
        /// The delivery; none: all, the group has nothing of the session.
        seq: Option<Seq>,
    },
    /// A shared group has committed the end of a delivery of QoS 2: its packet id is free (M31).
    Finished {
        /// The group.
        group: GroupRef,
        /// The delivery.
        seq: Seq,
    },
}

/// Why a partition closes a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// By an operator.
    Administrative,
    /// Memory is short, and the client does not end a large packet that it has begun.
    Unfinished,
    /// The server stops.
    ServerStops,
}

/// A session with its front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Home of the session.
    pub home: HomeRef,
    /// This attachment.
    pub epoch: Epoch,
    /// Whether a stored session was taken up.
    pub present: bool,
    /// Packet ids of deliveries are `1 + seq mod 32767` for the home's stream; the first that may be sent.
    pub next: Seq,
    /// Shared groups that may owe the session something, by hashes of their share names and filters: packet ids from 32,768
    /// are free for others once [`ToFront::Owed`] or [`ToFront::NothingOwed`] has come for each of them (M31).
    pub groups: Vec<u64>,
}

/// Why no session was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectRefusal {
    /// The partition is not ready.
    Unavailable,
    /// The client id is another user's.
    NotAuthorized,
    /// As many sessions as may be.
    QuotaExceeded,
    /// As many of its user are kept as that user may keep.
    UserSessions,
    /// Memory is short.
    NoMemory,
    /// The disk is.
    NoDisk,
    /// A newer connection with the same client id is already waiting.
    TakenOver,
}

/// One message for one or more fronts.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// What it says; borrowed, since it goes through several hands that only pass it on.
    pub view: &'a RecordView<'a>,
    /// Its shared bytes, when it is stored: a front that cannot send now keeps a share. QoS 0 that is only routed has none.
    pub record: Option<RecordRef<'a>>,
}

/// One receiver of a delivery.
#[derive(Clone, Debug)]
pub struct DeliverTo {
    /// The front.
    pub front: FrontId,
    /// Which stream, and where in it; none: it is stored for nobody. At QoS 0 only a shared group has one: the front says by it what became
    /// of the message.
    pub source: Option<(Source, Seq)>,
    /// Packet id of a delivery of a shared group with QoS 2: the one that the front named, now or on an earlier connection
    /// (M31). None for all others.
    pub packet_id: Option<u16>,
    /// Lower of published and granted.
    pub qos: QoS,
    /// Marks.
    pub flags: DeliverFlags,
    /// Subscription identifiers of all subscriptions that matched; none is the common case.
    pub identifiers: Option<std::sync::Arc<[u32]>>,
}

impl DeliverTo {
    /// The same without DUP.
    #[must_use]
    pub fn as_first(&self) -> Self {
        let mut first = self.clone();
        first.flags.duplicate = false;
        first
    }
}

/// Marks of a delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DeliverFlags {
    /// RETAIN of the delivery.
    pub retain: bool,
    /// Sent before: DUP.
    pub duplicate: bool,
    /// It comes by a shared subscription, also where [`DeliverTo::source`] says nothing.
    pub shared: bool,
}

/// Stream of a delivery of QoS > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The session's own: packet id `1 + seq mod 32767` (M30).
    Session,
    /// A shared group: packet ids from 32,768, chosen by the front; of QoS 2 before it is delivered (M31).
    Group(GroupRef),
}
