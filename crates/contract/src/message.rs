//! The messages between fronts, homes and partitions (M22).

use compact_str::CompactString;

use crate::{
    AppendNumber, ClientHash, Cut, DetachCause, Epoch, FrontId, Origin, PartitionId, Publish, QoS,
    Record, RecordRef, RecordView, Seq, SessionUid, SharedStrategy, SubscribeResult, Subscription,
    SubscriptionOptions, Term, WallMs, Will,
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

// ---------------------------------------------------------------------------------------------------------- publishing

/// A publish on its way into one partition. The partition's leader resolves the streams (M37).
#[derive(Clone, Copy, Debug)]
pub struct Append<'a> {
    /// Who waits for the answer.
    pub key: AppendKey,
    /// The message.
    pub publish: Publish<'a>,
    /// Whether this partition keeps the topic's retained message (M33): RETAIN is set and the topic's slot is here.
    pub keep_retained: bool,
    /// Whether its streams get it; false when only the retained message is meant.
    pub deliver: bool,
    /// The last cut of the receiver's shard that the publisher's shard had heard of when it matched.
    pub cut: Cut,
}

/// Who waits for the answer to an append, and what makes a repeat known (M14, M19).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendKey {
    /// Nobody: QoS 0, and volatile partitions that refuse nothing (M13).
    Unanswered,
    /// A shard: answered by [`PartitionEffects::settled`](crate::PartitionEffects::settled).
    Numbered {
        /// Who numbers.
        origin: Origin,
        /// Its number.
        number: AppendNumber,
        /// The origin's lowest unsettled number: everything below may be forgotten.
        floor: AppendNumber,
    },
    /// An outbox of a partition: answered by [`ToPartition::Forwarded`].
    Outbox {
        /// Partition of the outbox.
        source: PartitionId,
        /// Position in the outbox that leads here.
        seq: Seq,
        /// The source's committed floor.
        floor: Seq,
    },
}

/// What became of a publish at a destination (M11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Stored as its class says, or handed over.
    Ok,
    /// Not stored.
    Refused(Refusal),
}

/// Why something was not taken; each protocol has its own code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refusal {
    /// A stream, the retained store or the disk is full.
    QuotaExceeded,
    /// Not allowed.
    NotAuthorized,
    /// Longer than this place takes.
    TooLarge,
    /// The partition cannot serve now.
    Unavailable,
    /// Anything else.
    Unspecified,
}

/// A QoS 2 publish of a durable session: its home stores message, hold and places in the outboxes by one entry (M28).
#[derive(Clone, Debug)]
pub struct Published2 {
    /// Packet id of the hold.
    pub packet_id: u16,
    /// Hash of topic and payload: the same id with another hash is a client that lost its state.
    pub hash: u64,
    /// The message.
    pub record: Record,
    /// Where L1 sends it, the home's own partition included.
    pub destinations: crate::Destinations,
    /// For each of them what [`Append::cut`] says.
    pub cuts: crate::Cuts,
}

// ------------------------------------------------------------------------------------------------------ front -> home

/// From a front to a partition.
#[derive(Clone, Debug)]
pub enum ToHome {
    /// Take the client id and attach to its session; answered by [`ToFront::Attached`], [`ToFront::Claimed`] or
    /// [`ToFront::ConnectRefused`].
    Attach(Box<Attach>),
    /// Lets go of a claimed client id whose session was volatile; to the partition that gave [`ToFront::Claimed`].
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
        /// Packet id of the SUBSCRIBE.
        packet_id: u16,
        /// What to, in the client's order.
        subscriptions: Vec<Subscription>,
    },
    /// Unsubscribe; answered by [`ToFront::Unsubscribed`].
    Unsubscribe {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// Packet id of the UNSUBSCRIBE.
        packet_id: u16,
        /// Filters as the client wrote them, with share names split off.
        filters: Vec<(Option<Box<str>>, Box<str>)>,
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
    Publish2 {
        /// Session.
        session: SessionUid,
        /// Attachment.
        epoch: Epoch,
        /// What is published.
        publish: Box<Published2>,
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
    },
}

/// The user in the text of an owner: what is before its first NUL, which no name of a user has. Who comes again as the same user has the
/// same session, whatever is behind it.
#[must_use]
pub fn owner_name(owner: &str) -> &str {
    owner.split_once('\0').map_or(owner, |(name, _)| name)
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
    /// Will of this connection.
    pub will: Option<Box<Will>>,
    /// The user that it has logged in as, to whom the session belongs from then on, and what else the shell wants to find with the session
    /// ([`owner_name`]); none: nobody logs in where it came in.
    pub owner: Option<Box<str>>,
    /// What the session may use, beside what any session may.
    pub limits: SessionLimits,
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
    /// Acknowledged for good: PUBACK or PUBCOMP.
    Done,
    /// QoS 2: PUBREC; answered by [`ToFront::Release`] once committed (M32).
    Received,
    /// Refused by the client: PUBACK or PUBREC of 0x80 or more; settled, not sent again.
    Rejected,
    /// Never sent, for example longer than the client's Maximum Packet Size: settled.
    Skipped,
    /// Of a shared group only: not sent, give it to another member without counting an attempt (M31).
    Returned,
}

// ------------------------------------------------------------------------------------------------------ home -> front

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
        /// Packet id of the SUBSCRIBE.
        packet_id: u16,
        /// One a filter, in the client's order.
        results: Vec<SubscribeResult>,
    },
    /// Answer to [`ToHome::Unsubscribe`].
    Unsubscribed {
        /// Packet id of the UNSUBSCRIBE.
        packet_id: u16,
        /// Whether each filter was subscribed to.
        existed: Vec<bool>,
    },
    /// Answer to [`ToHome::Publish2`].
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
    /// A limit of the session was broken.
    QuotaExceeded,
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
    /// Not allowed; also when the client id is another user's.
    NotAuthorized,
    /// As many sessions as may be.
    QuotaExceeded,
    /// A newer connection with the same client id is already waiting.
    TakenOver,
}

/// One message for one or more fronts.
#[derive(Clone, Copy, Debug)]
pub struct Delivery<'a> {
    /// What it says.
    pub view: RecordView<'a>,
    /// Its shared bytes, when it is stored: a front that cannot send now keeps a share. QoS 0 that is only routed has none.
    pub record: Option<RecordRef<'a>>,
}

/// One receiver of a delivery.
#[derive(Clone, Debug)]
pub struct DeliverTo {
    /// The front.
    pub front: FrontId,
    /// Which stream, and where in it; none for QoS 0.
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
}

/// Stream of a delivery of QoS > 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The session's own: packet id `1 + seq mod 32767` (M30).
    Session,
    /// A shared group: packet ids from 32,768, chosen by the front; of QoS 2 before it is delivered (M31).
    Group(GroupRef),
}

// ------------------------------------------------------------------------------------------- partition -> partition

/// Between partitions.
#[derive(Clone, Debug)]
pub enum ToPartition {
    /// The sender leads, in this term: what it has not answered is forwarded to it again, in order, before anything new (M14).
    /// What came before was lost.
    Leads {
        /// Its term.
        term: Term,
        /// Whether it wants to hear the same of the receiver.
        tell: Tell,
    },
    /// Answer to an append with [`AppendKey::Outbox`].
    Forwarded {
        /// Position in the outbox.
        seq: Seq,
        /// What became of it.
        result: Settled,
    },
    /// A forward of an outbox: a publish.
    Append {
        /// What makes a repeat known.
        key: AppendKey,
        /// The message.
        record: Record,
        /// As in [`Append::keep_retained`].
        keep_retained: bool,
        /// The leader of the receiver that it is for: another one has not heard of older forwards that were lost with that one,
        /// and takes none of them before it has told the sender of itself. None: it comes once, whoever leads takes it.
        leader: Option<Term>,
        /// As in [`Append::cut`].
        cut: Cut,
        /// Session of the sender from which it comes, to be named in [`ToPartition::Slow`].
        session: Option<SessionUid>,
    },
    /// What came from a session of the receiver went to one that is slower than it (M12).
    Slow {
        /// Who publishes.
        session: SessionUid,
    },
    /// Retained messages that match a filter are wanted.
    ScanRetained(Box<RetainedScan>),
    /// Answer to it.
    RetainedFound(Box<RetainedFound>),
    /// Another answer to it: the partition is set aside, and what it keeps is not to be had now.
    RetainedWithheld {
        /// Who asked.
        scan: ScanRef,
        /// Partition that answers.
        partition: PartitionId,
    },
    /// A session joins a shared group, or changes what it asked for; answered by [`ToPartition::Joined`].
    Join(Box<Join>),
    /// Answer to it.
    Joined {
        /// Session that joined.
        member: HomeRef,
        /// The asker's number.
        request: u64,
        /// What became of it.
        result: JoinResult,
    },
    /// A session leaves; answered by [`ToPartition::Left`].
    Leave {
        /// Share name.
        share: Box<str>,
        /// Filter without share name.
        filter: Box<str>,
        /// Session that leaves.
        member: HomeRef,
        /// Why: what was begun with it ends with its session only.
        cause: LeaveCause,
        /// The asker's number.
        request: u64,
        /// The volatile part that is meant (M36); none: whichever the partition of the slot knows.
        part: Option<GroupRef>,
    },
    /// Answer to it; once more when nothing is left of what was begun with the session.
    Left {
        /// Session that left.
        member: HomeRef,
        /// The asker's number.
        request: u64,
        /// The group, while something that was begun with the session is not finished: it must hear of its connections.
        owing: Option<GroupRef>,
    },
    /// A member's connection came or went.
    MemberFront {
        /// The group.
        group: u64,
        /// The member.
        member: HomeRef,
        /// Its front and how much it takes at once; none: it has no connection.
        front: Option<(FrontId, u16)>,
    },
    /// To the volatile partition of the sender's shard: a session with a lifetime is about to join this group, which then is
    /// durable. Answered by [`ToPartition::Part`].
    AskPart(GroupName),
    /// Answer to it.
    Part {
        /// The group.
        name: GroupName,
        /// The part of it that is there.
        part: VolatilePart,
    },
    /// The durable part of a group is made, and L1 leads to it: the volatile part asks for its cut, and passes on what it has.
    Inherit(Inheritance),
    /// The sender leads: these are its groups with a volatile part, and whatever else was offered to it is void.
    Inheritances(Vec<Inheritance>),
    /// Messages that a volatile part has given to nobody; answered by [`ToPartition::Took`].
    PassOn(Box<PassedOn>),
    /// Answer to it, once that is committed.
    Took {
        /// The volatile part.
        group: u64,
        /// Number of the next message that is wanted.
        next: u64,
    },
    /// To the home of a member of a volatile part: the group goes on in its durable part, which it must join, and finishes here
    /// what it has begun with the session.
    Elsewhere {
        /// The member.
        member: HomeRef,
        /// The group.
        name: GroupName,
        /// Its volatile part.
        part: GroupRef,
    },
}

/// A shared group by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupName {
    /// Share name.
    pub share: Box<str>,
    /// Filter without share name.
    pub filter: Box<str>,
}

/// What a volatile partition has of a shared group whose durable part is to be made (M36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VolatilePart {
    /// Nothing: nobody has to be asked.
    Absent,
    /// It gets the messages below this cut, the durable part those from it on.
    UpTo(Cut),
}

/// A durable part with what it expects of the volatile one (M36).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inheritance {
    /// The group.
    pub name: GroupName,
    /// Its durable part, in the partition that sends this.
    pub group: u64,
    /// The cut that was offered.
    pub cut: Cut,
    /// Messages that it has taken.
    pub taken: u64,
}

/// Messages on their way from the volatile part of a group to the durable one (M36).
#[derive(Clone, Debug)]
pub struct PassedOn {
    /// The durable part.
    pub to: u64,
    /// The volatile part.
    pub from: u64,
    /// Number of the first message; they count from 0 without gaps.
    pub first: u64,
    /// The messages, in order.
    pub records: Vec<Record>,
    /// Whether nothing else waits in the volatile part.
    pub all: bool,
}

/// What is wanted with [`ToPartition::Leads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// The sender is new, and wants to hear who leads the receiver.
    Asks,
    /// It answers.
    Answers,
}

/// A session that joins a shared group.
#[derive(Clone, Debug)]
pub struct Join {
    /// Share name.
    pub share: Box<str>,
    /// Filter without share name.
    pub filter: Box<str>,
    /// The session.
    pub member: HomeRef,
    /// Its connection and how much it takes at once.
    pub front: Option<(FrontId, u16)>,
    /// What it chose.
    pub options: SubscriptionOptions,
    /// Subscription identifier.
    pub identifier: Option<u32>,
    /// How the group takes turns, from configuration; the first member decides.
    pub strategy: SharedStrategy,
    /// Number of the asker for the answer.
    pub request: u64,
}

/// Why a session leaves a shared group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaveCause {
    /// It unsubscribed: what was begun with it is finished with it.
    Unsubscribed,
    /// It ended: QoS 1 goes to others, QoS 2 that was begun to nobody (v5 section 4.8.2).
    SessionEnded,
}

/// What became of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinResult {
    /// Member of this group.
    Joined(GroupRef),
    /// Refused.
    Refused(Refusal),
}

/// Names a question of a scan of retained messages at its asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScanRef {
    /// Session that subscribed.
    pub home: HomeRef,
    /// Number of the scan there.
    pub scan: u64,
    /// Number of the question, which no leader of the home's partition gives twice: an answer to another one than the last is
    /// one to an earlier leader, or came twice.
    pub question: u64,
}

/// The next retained messages of one partition, in topic order (M34).
#[derive(Clone, Debug)]
pub struct RetainedScan {
    /// Who asks.
    pub scan: ScanRef,
    /// Filter.
    pub filter: Box<str>,
    /// After this topic; none: from the beginning.
    pub after: Option<Box<str>>,
    /// Most messages of the answer, 1 to 64.
    pub limit: u8,
}

/// Answer to a [`RetainedScan`].
#[derive(Clone, Debug)]
pub struct RetainedFound {
    /// Who asked.
    pub scan: ScanRef,
    /// Partition that answers.
    pub partition: PartitionId,
    /// Messages in topic order, none of them expired.
    pub records: Vec<Record>,
    /// Where to go on; none: that was all.
    pub next: Option<Box<str>>,
    /// Moment of the answer.
    pub at: WallMs,
}
