//! What fronts and partitions ask of the shell around them. A shell of tests records it, a shell of the broker does it.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::{
    AppendNumber, Cut, DeliverTo, Delivery, FrontId, IndexToken, ListNumber, Origin, PartitionId,
    Publish, Settled, Ticket, ToFront, ToHome, ToPartition, Will,
};

/// Partitions that a publish goes to.
pub type Destinations = SmallVec<[PartitionId; 4]>;

/// One cut for each destination.
pub type Cuts = SmallVec<[Cut; 4]>;

/// Where a publish went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routed {
    /// Handed over, nothing to wait for (M13).
    Done {
        /// Whether it had a destination.
        matched: bool,
    },
    /// It waits for partitions; the front hears of its ticket (M10).
    Waits,
    /// Refused at once.
    Refused(crate::Refusal),
}

/// Why a connection was refused. A reason on the wire has several of them, which the client is not always told apart; operators are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhyRefused {
    /// What its reason says.
    ByReason,
    /// User name or password.
    WrongPassword,
    /// The hash of its user's password takes more memory than a login may.
    DearHash,
    /// No user has the name that it says.
    UnknownUser,
    /// Its token.
    WrongToken,
    /// Its part of an exchange, as of SCRAM.
    WrongProof,
    /// It came with nothing to prove who it is.
    NothingShown,
    /// It says another name than its certificate or its token.
    OtherName,
    /// The user is not there, or is disabled.
    NotAUser,
    /// It has logged in again, as somebody else.
    OtherUser,
    /// Its user may not publish the will.
    Will,
    /// Its client id is that of another user.
    OtherOwner,
    /// Logins of its address have failed.
    AddressFailed,
    /// Logins of so many addresses have failed that no more of them can be remembered.
    Crowded,
    /// Too many logins wait.
    Full,
    /// Users and roles are not known yet.
    UsersUnknown,
    /// Nobody serves its session at the moment.
    NotServed,
    /// Its session did not answer in time.
    NoAnswer,
    /// Its user has as many connections as it may have.
    UserConnections,
    /// Its user keeps as many sessions as it may keep.
    UserSessions,
    /// Nobody of its user's name may have its client id at this listener.
    ForeignClientId,
    /// It has published more than it may by now, and its will counts as a publish.
    WillRate,
    /// There are as many sessions as there may be.
    Sessions,
    /// Memory is short.
    Memory,
    /// The disk is.
    Disk,
    /// The listener has no such authentication method.
    NoSuchMethod,
}

/// Why a connection ends, for the count by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseCause {
    /// The client said good-bye.
    Disconnect,
    /// The socket closed without a word.
    Lost,
    /// The client broke a rule: the number of its reason on the wire.
    Fault(u8),
    /// Nothing heard for 1.5 times the keep-alive.
    KeepAlive,
    /// No CONNECT in time.
    ConnectTimeout,
    /// The client did not answer in time what its login asked.
    LoginTimeout,
    /// Its proof could not be looked at in time.
    LoginWaited,
    /// Another connection has the client id.
    TakenOver,
    /// The connection was refused: the number of its reason on the wire, and why.
    Refused(u8, WhyRefused),
    /// What it had proved does not hold any more, or allows less: the number of the reason on the wire.
    Revoked(u8),
    /// A shared subscription of its session is not allowed any more.
    ShareRevoked,
    /// A publish was refused to a client whose version cannot say so (M49): the number of the reason that 5.0 has for it.
    PublishRefused(u8),
    /// A publish was not settled in time (M11).
    PublishTimeout,
    /// Memory was short, and it did not read what it was sent.
    Stalled,
    /// Memory was short, and it did not end a large packet that it had begun.
    Unfinished,
    /// Its front has panicked (M50).
    Panicked,
    /// By an operator.
    Administrative,
    /// The server stops.
    ServerStops,
}

impl CloseCause {
    /// The reason code that the client was told, or would have been by 5.0 and on a socket that takes it.
    #[must_use]
    pub const fn reason_code(self) -> Option<u8> {
        match self {
            Self::Disconnect | Self::Lost | Self::ConnectTimeout => None,
            Self::Fault(code)
            | Self::Refused(code, _)
            | Self::Revoked(code)
            | Self::PublishRefused(code) => Some(code),
            Self::Panicked => Some(0x80),
            Self::LoginTimeout | Self::ShareRevoked => Some(0x87),
            Self::LoginWaited | Self::PublishTimeout => Some(0x89),
            Self::ServerStops => Some(0x8B),
            Self::KeepAlive => Some(0x8D),
            Self::TakenOver => Some(0x8E),
            Self::Stalled | Self::Unfinished => Some(0x97),
            Self::Administrative => Some(0x98),
        }
    }
}

/// Why a message did not reach a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Dropped {
    /// Nobody subscribes.
    NoSubscriber,
    /// A session's queue is full.
    QueueFull,
    /// The time was over that its publisher gave it.
    Expired,
    /// Longer than the receiver takes.
    TooLarge,
    /// QoS 0 beyond the bound of a connection's output.
    OutputFull,
    /// QoS 0 for a session without a connection.
    Offline,
    /// A receiver refused it.
    Rejected,
    /// The retained store is full.
    RetainedFull,
    /// The disk has lost its bytes, and the operator has accepted that.
    Damaged,
    /// The client has no right to it.
    Denied,
    /// It has waited, or was retained, for longer than may be.
    TooOld,
    /// Its publisher was refused, by the quota code where the protocol has one: no room on the disk, in memory, in a session of that
    /// policy or for retained messages.
    Quota,
    /// The disk has no room for it, and nobody could be told.
    DiskFull,
    /// It was among more than may wait, since a limit was lowered.
    OverLimit,
    /// It is retained, and who published it has no right to its topic any more.
    AuthorDenied,
}

/// What a front asks before it goes on: the one gate of a client (I11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked<'a> {
    /// A message of the client, or its will, to this topic.
    Publish(&'a str),
    /// A message of this topic to the client, from wherever it comes.
    Receive(&'a str),
    /// A subscription to this filter.
    Subscribe(&'a str),
    /// A shared subscription to this filter, the one behind the share name.
    SubscribeShared(&'a str),
}

/// Its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Go on.
    Granted,
    /// The client has no right to it.
    Denied,
}

/// What a front asks of its shell.
pub trait FrontEffects {
    /// Whether the client may. Asked for each publish, subscription and delivery, and cheap where nobody has to log in.
    fn may(&mut self, asked: Asked<'_>) -> Permission;

    /// Says what the client has asked for and may not have, once for each publish and each filter. Deliveries that a client has no right to are
    /// only counted: to leave out some of what a wide filter matches is what its rights are for.
    fn denied(&mut self, _client_id: &str, _asked: Asked<'_>) {}

    /// Who publishes here, for what is to be retained: [`Publish::author`]. None: nobody has logged in.
    fn author(&mut self) -> Option<Arc<str>> {
        None
    }

    /// Counts a publish of the client that the front has taken, whatever becomes of it; once for each time it was sent.
    fn received(&mut self, _publish: &Publish<'_>) {}

    /// Counts the will of a CONNECT as a publish, also if nobody ever gets it, unless the client has published more than it may by now: then it is
    /// denied, and the client is not let in. Asked once for each CONNECT, when it is known who it is.
    fn charge_will(&mut self, _client_id: &str, _will: &Will) -> Permission {
        Permission::Granted
    }

    /// Whether nothing new can be taken for these places now: the memory is full, or a way there has been full for too long (M49).
    fn refuses(&mut self, _destinations: &Destinations) -> bool {
        false
    }

    /// Sends a publish to its destinations. With [`Routed::Waits`] the shell later calls the front's `handle_settled` with
    /// this ticket, once. QoS 0 never waits.
    fn publish(&mut self, publish: &Publish<'_>, ticket: Ticket) -> Routed;

    /// Where L1 sends a topic now: for a QoS 2 publish that goes by way of a durable home (M28).
    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations;

    /// The last cut of the shard of a partition that the front's shard has heard of (M36).
    fn cut(&self, partition: PartitionId) -> Cut;

    /// Partition of the slot of a client id (M2).
    fn home_partition(&self, client_id: &str) -> PartitionId;

    /// The volatile partition of the shard on which the front runs.
    fn volatile_partition(&self) -> PartitionId;

    /// Sends a message to a partition.
    fn send_home(&mut self, partition: PartitionId, message: ToHome);

    /// Closes the socket once the output before this call is written; the front gets no more events.
    fn close(&mut self, cause: CloseCause);

    /// Counts messages that this front did not deliver.
    fn dropped(&mut self, why: Dropped, messages: u64);

    /// What a client id that the server assigns is made of: from the shell's seeded generator, so that nobody has it. The shell may be able to tell
    /// what it has given from what somebody has made up.
    fn assigned_bits(&mut self) -> [u64; 2];

    /// Whether this is enough for one turn: the front begins no further packet of the bytes that it was given. Asked behind each packet, so
    /// it always gets on. A shell without turns never has enough.
    fn is_spent(&self) -> bool {
        false
    }
}

/// What a fence waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// For what shards have matched: it is pushed and settled (M25).
    Matched,
    /// Also for what partitions have forwarded, in an entry or an outbox: it is taken where it goes (M34). Not for partitions that refuse it
    /// or are set aside; while nobody leads one that has to do with it, there is no end to it. So nobody may wait for this one to connect.
    Forwarded,
    /// From the moment at which a shard hears of this fence, what it matches for partitions of the asker's shard carries this cut, and the fence
    /// speaks of everything that does not. It also waits for the entries that partitions have proposed: messages that begin in a partition
    /// were matched before they are stored (M36).
    Cut(Cut),
}

/// A change of L1 by one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexChange {
    /// Filters that lead here from now on.
    pub add: Vec<Box<str>>,
    /// Filters that do no longer.
    pub remove: Vec<Box<str>>,
}

/// Whether a will may be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WillPermission {
    /// Yes.
    Granted,
    /// No: it is dropped.
    Denied,
    /// Users and roles are not known yet: it is asked again.
    NotYet,
}

/// What a partition asks of its shell.
pub trait PartitionEffects {
    /// Delivers a message to fronts.
    fn deliver(&mut self, delivery: Delivery<'_>, to: &[DeliverTo]);

    /// The same for a message that is not stored, to a list of receivers with a number: as long as the number of a partition stays
    /// the same, so does the list, and a shell may gather the messages. The order of what a front gets is that of the calls all the
    /// same.
    fn deliver_to_list(&mut self, delivery: Delivery<'_>, to: &[DeliverTo], _list: ListNumber) {
        self.deliver(delivery, to);
    }

    /// Sends a message to a front. A front that is gone: the message is dropped.
    fn send_front(&mut self, front: FrontId, message: ToFront);

    /// Sends a message to another partition, or to this one, after the call that asks for it.
    fn send_partition(&mut self, to: PartitionId, message: ToPartition);

    /// Answers an append of an origin (M11, M14).
    fn settled(&mut self, origin: Origin, number: AppendNumber, result: Settled);

    /// Changes L1; the shell answers by `handle_index_confirmed` once every shard uses the new index (M38).
    fn change_index(&mut self, token: IndexToken, change: IndexChange);

    /// Answers by `handle_fence` once every shard has pushed and settled all publishes that it matched before this call (M34), and what
    /// else this fence waits for.
    fn fence(&mut self, token: IndexToken, fence: Fence);

    /// The last cut of the shard of a partition that this shard has heard of (M36).
    fn cut(&self, partition: PartitionId) -> Cut;

    /// Where L1 sends a topic now, for wills and other messages that begin in a partition (M37).
    fn destinations(&mut self, topic: &str, retain: bool) -> Destinations;

    /// Partition of the slot of a topic, for retained messages (M33).
    fn retained_partition(&self, topic: &str) -> PartitionId;

    /// All partitions that keep retained messages, for scans with wildcards.
    fn retained_partitions(&self) -> Destinations;

    /// Partition of a shared group's slot (M35): the one with a log.
    fn group_partition(&self, share: &str, filter: &str) -> PartitionId;

    /// The volatile partition of the shard on which this partition is led.
    fn volatile_partition(&self) -> PartitionId;

    /// What a front publishes through its home goes to a session that is slower than it: a shell that can reads it less for a moment
    /// (M12).
    fn slow_down(&mut self, _front: FrontId) {}

    /// Whether L1 has the filters of all partitions. Until then, at a start, what begins here would miss sessions elsewhere: wills and the ends
    /// of sessions that have one wait.
    fn routes_all(&self) -> bool {
        true
    }

    /// Whether the user to whom a session belongs may publish its will now: its rights may have changed since it left it (I11).
    fn permits_will(&mut self, owner: &str, client_id: &str, topic: &str) -> WillPermission;

    /// Whether the author of a retained message may publish to its topic now, so that it is replayed (I11). Asked for each that has an author
    /// and would go to a new subscription, only while a client is connected to get it: users and roles are known then.
    fn permits_retained(&mut self, author: &str, topic: &str) -> Permission;

    /// Whether a user to whom sessions belong may keep one more of them, where `most` is its limit: asked before somebody is displaced for it.
    fn may_keep_session(&mut self, _owner: &str, _most: u32) -> Permission {
        Permission::Granted
    }

    /// Counts one more session that outlives its connections for the user to whom it belongs, over all partitions that are led on this node,
    /// until [`Self::forget_session`]; not where that user has `most` of them already.
    fn keep_session(&mut self, _owner: &str, _most: u32) -> Permission {
        Permission::Granted
    }

    /// One of them is one less: it ends, or this node does not lead it any more.
    fn forget_session(&mut self, _owner: &str) {}

    /// Counts messages that were not delivered.
    fn dropped(&mut self, why: Dropped, messages: u64);
}
