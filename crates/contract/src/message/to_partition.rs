//! What partitions tell each other: forwards, retained messages, shared groups.

use compact_str::CompactString;

#[cfg(doc)]
use crate::{Append, ToHome};
use crate::{
    AppendKey, Cut, Epoch, FrontId, GroupRef, HomeRef, PartitionId, Record, Refusal, Seq,
    SessionUid, Settled, SharedStrategy, SubscriptionOptions, Term, Uptake, WallMs,
};

/// Between partitions.
#[derive(Clone, Debug)]
pub enum ToPartition {
    /// Lets go of a claimed client id whose session was volatile and has ended: all that it left behind is on its way.
    Unclaim {
        /// Client id.
        client_id: CompactString,
        /// Epoch of the claim.
        epoch: Epoch,
        /// Partitions with appends of its front that have not settled, and the sender where a will has left it (M25).
        open: Vec<PartitionId>,
    },
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
        /// Whether somebody waits for it who can be refused. Of another one that has no room is dropped what has none, not all of it (M12).
        refusable: bool,
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
        /// Connection of the session, which must hear when nothing is left of what was begun with it.
        front: Option<FrontId>,
        /// The group as the home knew it.
        known: Option<GroupRef>,
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
    /// A member's connection came or went, or takes less or more than it did.
    MemberFront {
        /// The group.
        group: u64,
        /// The member.
        member: HomeRef,
        /// Its connection; none: it has none.
        front: Option<MemberConnection>,
    },
    /// To the volatile partition of the sender's shard: a session with a lifetime is about to join this group, which then is
    /// durable. Answered by [`ToPartition::Part`].
    AskPart {
        /// The group.
        name: GroupName,
        /// Term of the leader that asks.
        term: Term,
    },
    /// Answer to it.
    Part {
        /// The group.
        name: GroupName,
        /// Term of the leader that asked: to another one it says nothing.
        term: Term,
        /// The part of it that is there.
        part: VolatilePart,
    },
    /// The sender has no room for a durable part of this group: what it was offered is void.
    Decline(GroupName),
    /// The durable part of a group is made, and L1 leads to it: the volatile part asks for its cut, and passes on what it has.
    Inherit(Inheritance),
    /// The sender leads: these are the groups with a volatile part that it has found, and whatever else was offered to leaders before it
    /// is void.
    Inheritances {
        /// Its term.
        term: Term,
        /// The groups.
        groups: Vec<Inheritance>,
    },
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
    /// Its connection.
    pub front: Option<MemberConnection>,
    /// What it chose.
    pub options: SubscriptionOptions,
    /// Subscription identifier.
    pub identifier: Option<u32>,
    /// How the group takes turns, from configuration; the first member decides.
    pub strategy: SharedStrategy,
    /// Number of the asker for the answer.
    pub request: u64,
}

/// A connection of a member of a shared group, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberConnection {
    /// Its front.
    pub front: FrontId,
    /// Most stored messages under way.
    pub window: u16,
    /// As in [`Attach`](crate::Attach).
    pub delivery_bytes_max: u32,
    /// As [`ToHome::Uptake`] said last.
    pub uptake: Uptake,
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
