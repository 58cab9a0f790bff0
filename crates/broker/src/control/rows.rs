//! What listings are made of.

use std::net::SocketAddr;

use courser_contract::{FrontId, LogIndex, PartitionId, QoS, RetainHandling, SessionUid, WallMs};

/// Connections that one question looks at: about 100 µs of a turn.
pub(crate) const CLIENTS_AT_ONCE: u32 = 256;

/// A part of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// What was found; may be nothing although there is more.
    pub rows: Vec<T>,
    /// Where to go on; none: that was all.
    pub next: Option<C>,
}

/// A connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// Its place.
    pub front: FrontId,
    /// Empty before CONNECT.
    pub client_id: Box<str>,
    /// 4 for 3.1.1, 5 for 5.0; none before CONNECT.
    pub version: Option<u8>,
    /// The other end.
    pub address: Option<SocketAddr>,
    /// Name of the listener that let it in.
    pub listener: Box<str>,
    /// Who its certificate says it is.
    pub identity: Option<std::sync::Arc<str>>,
    /// The user that it has logged in as.
    pub user: Option<Box<str>>,
    /// When the socket was accepted.
    pub since: WallMs,
    /// 0: none.
    pub keep_alive_seconds: u16,
    /// Its session; none before that is attached.
    pub session: Option<SessionPlace>,
    /// Whether it gave a will.
    pub has_will: bool,
    /// Bytes that wait to be written.
    pub output_bytes: u64,
    /// Its publishes that wait for their destinations.
    pub unsettled: u32,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPlace {
    /// The partition.
    pub partition: PartitionId,
    /// Its number there.
    pub session: SessionUid,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// Where it is.
    pub at: SessionPlace,
    /// Where a walk goes on behind it.
    pub behind: u32,
    /// Empty where its connection is about to end.
    pub client_id: Box<str>,
    /// The user to whom it belongs; none where nobody logs in, and of a session that ends with its connection.
    pub user: Option<Box<str>>,
    /// Whether it has a connection.
    pub connected: bool,
    /// Seconds that it outlives its connection; `u32::MAX`: for ever.
    pub expiry_seconds: u32,
    /// When it ends; none while it has a connection.
    pub ends_at: Option<WallMs>,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Messages that wait, those under way included.
    pub queued_messages: u32,
    /// Their encoded bytes.
    pub queued_bytes: u64,
    /// Messages under way to the client.
    pub in_flight: u32,
    /// Whether it has a will.
    pub has_will: bool,
}

/// A subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriptionRow {
    /// Whose.
    pub client_id: Box<str>,
    /// Where a walk goes on behind it.
    pub behind: SubscriptionStop,
    /// Topic filter, without the share name.
    pub filter: Box<str>,
    /// Share name.
    pub share: Option<Box<str>>,
    /// Highest QoS.
    pub qos: QoS,
    /// Not its own messages.
    pub no_local: bool,
    /// Deliveries keep the publisher's RETAIN.
    pub retain_as_published: bool,
    /// Which retained messages came when it was made.
    pub retain_handling: RetainHandling,
    /// Subscription identifier.
    pub identifier: Option<u32>,
}

/// Where a walk over subscriptions stopped: the place of a session, and how many of its subscriptions are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionStop {
    /// Place of the session.
    pub session: u32,
    /// Its subscriptions that are done.
    pub done: u32,
}

/// A retained message without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedRow {
    /// Its topic.
    pub topic: Box<str>,
    /// QoS of the publish.
    pub qos: QoS,
    /// Bytes of the payload.
    pub payload_bytes: u64,
    /// When it expires.
    pub expires_at: Option<WallMs>,
    /// Which message of its topic it is: another one has another entry, or another number there.
    pub address: (LogIndex, u32),
    /// The disk has lost it: nothing else than its topic is known.
    pub is_lost: bool,
}

/// A retained message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetainedMessage {
    /// All but the payload.
    pub row: RetainedRow,
    /// The first 64 KiB of the payload.
    pub payload: Vec<u8>,
}

/// What became of the wish to end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is none.
    Unknown,
    /// It has a connection, or one is coming or going.
    InUse,
    /// It is gone once that is committed.
    Proposed,
    /// Its partition does not serve.
    Unavailable,
}
