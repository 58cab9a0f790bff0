//! The leader's memory: what is decided and not yet applied, who waits for what, and which connections there are.
//!
//! Nothing of it is replicated; a new leader starts with an empty one (M5).

mod forwards;
mod registry;
mod sharing;

use std::{
    collections::{BTreeMap, VecDeque},
    rc::Rc,
};

use compact_str::CompactString;
use courser_contract::{
    ClientHash, DeliverTo, Epoch, FrontId, GroupRef, HomeRef, IndexToken, Join, MemberConnection,
    Now, PartitionId, RequestPart, RetainedScan, SessionLimits, SessionUid, SubscribeResult, Term,
    ToPartition, WallMs,
};
use hashbrown::{HashMap, HashSet};

pub(crate) use self::{
    forwards::{Forwards, Holding, OpenForwards, Waiter},
    registry::{Client, Holder, Registry, Waiting},
    sharing::{Asked, Awaited, Joining, OpenJoin, Sharing},
};
use crate::{
    aging::Aging,
    due::DueIndex,
    entry::TargetList,
    group::{Fact, News},
    ids::Numbers,
    origins::Origins,
    orphans::Orphans,
    outbox::Inbox,
    retained::Projection,
    room::{Coming, Pace, Passed},
    route::Routed,
    scan::OpenScans,
    session::{Held, OpenRequests, Sizes},
    share::Leaver,
};

type Hasher = foldhash::fast::RandomState;

/// Whether this partition decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another one does, or nobody.
    #[default]
    Follower,
    /// It does, and has not applied the first entry of its term (M5).
    Elected,
    /// Its filters are on their way into L1: publishes are taken, connections are not (M39).
    Indexing,
    /// It serves.
    Leading,
    /// Nobody does: it is set aside, and refuses (M39, M44).
    Aside,
}

/// When a leader began: what lived in the memory of the process is gone, or goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Began {
    /// It is the first of its process: sessions of volatile partitions, that others have heard of before, are gone.
    WithProcess,
    /// The partition was led in this process before.
    InProcess,
}

/// What happens once an entry is applied.
#[derive(Debug)]
pub(crate) enum After {
    /// The session is attached.
    Attached(Box<Attaching>),
    /// What was stored for a client id is gone; the session is opened elsewhere.
    Claimed {
        client_id: CompactString,
        front: FrontId,
        epoch: Epoch,
    },
    /// The front of a session has let go.
    Detached {
        client_id: CompactString,
        session: SessionUid,
        open: Vec<PartitionId>,
    },
    /// A will went into this many outboxes.
    WillForwarded {
        client_id: CompactString,
        forwards: usize,
    },
    /// SUBACK, after L1.
    Subscribed(Box<Subscribing>),
    /// The same of one that groups have refused, once that is undone.
    TakenBack(Box<Subscribing>),
    /// UNSUBACK, with whose it is and what it names.
    Unsubscribed(Box<Unsubscribing>, SessionUid, Held),
    /// A QoS 2 publish is stored.
    Held(Holding),
    /// A hold is gone.
    Released {
        front: FrontId,
        session: SessionUid,
        packet_id: u16,
    },
    /// A session joined a group of this partition.
    GroupJoined(u64, Box<Join>),
    /// A session left one.
    GroupLeft(u64, Leaver),
    /// The same, and what is under way with it is committed.
    GroupParted(u64, Leaver),
    /// A member of a group has a connection, and all that it was given before is applied.
    GroupOwed {
        group: u64,
        member: HomeRef,
        front: MemberConnection,
    },
    /// What is known of a message of a group is committed.
    GroupFact(u64, Fact),
    /// What has come to its end in a group is committed.
    GroupNews(u64, News),
    /// A question for retained messages that came behind what is applied now.
    Scan(Box<RetainedScan>),
    /// The durable part of a group is made, for one that was volatile (M36).
    Heir(u64),
    /// It has what was passed on to it, below a number.
    Inherited {
        group: u64,
        from: GroupRef,
        next: u64,
    },
    /// The volatile part has closed.
    Closed(u64),
    /// A message to another partition that waited for the commit.
    Send(PartitionId, Box<ToPartition>),
    /// The same of a leave, for the partition of the group.
    Leave(PartitionId, Box<ToPartition>),
    /// The first entry of the term.
    TermBegun(Began),
}

/// A session on its way to being attached.
#[derive(Debug)]
pub(crate) struct Attaching {
    pub(crate) front: FrontId,
    pub(crate) client_id: CompactString,
    pub(crate) publisher: ClientHash,
    pub(crate) session: SessionUid,
    pub(crate) present: bool,
    /// Below it everything counts as sent before.
    pub(crate) sent_before: u64,
    pub(crate) limits: SessionLimits,
    pub(crate) delivery_bytes_max: u32,
}

/// A SUBSCRIBE on its way.
#[derive(Debug)]
pub(crate) struct Subscribing {
    pub(crate) front: FrontId,
    pub(crate) session: SessionUid,
    pub(crate) part: RequestPart,
    pub(crate) held: Held,
    pub(crate) results: Vec<SubscribeResult>,
    /// Scans that begin once L1 is ready.
    pub(crate) scans: Vec<u64>,
    /// One of them is for a filter that the session had: what an earlier one still looks for is not wanted any more.
    pub(crate) replaces: bool,
    /// New subscriptions that count as reserved.
    pub(crate) reserved: Sizes,
    /// Shared groups that have not answered.
    pub(crate) joins: Vec<Joining>,
    /// Something that a group has refused is being undone.
    pub(crate) takes_back: bool,
}

/// Who waits for a change of L1.
#[derive(Debug)]
pub(crate) enum Indexed {
    /// A SUBACK.
    Subscribe(Subscribing),
    /// A session that joined a group here.
    Join {
        member: HomeRef,
        request: u64,
        group: u64,
    },
    /// The durable part of a group that was volatile.
    Heir(u64),
    /// Groups that a new leader has found.
    Heirs(Vec<u64>),
}

/// An UNSUBSCRIBE on its way.
#[derive(Debug)]
pub(crate) struct Unsubscribing {
    pub(crate) front: FrontId,
    pub(crate) part: RequestPart,
    pub(crate) existed: Vec<bool>,
    /// Shared groups that have not confirmed.
    pub(crate) leaves: Vec<u64>,
}

/// What is due (M20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Due {
    /// References of a chunk of a stream may have expired.
    Expiry { stream: u64, chunk: u64 },
    /// A retained message may have expired.
    Retained { slot: u32, index: u64, ordinal: u32 },
    /// A detached session ends.
    SessionEnd(u64),
    /// A will is due.
    Will(u64),
    /// Some streams are to be looked at for what has waited too long.
    Aging,
}

/// What waits for a fence.
#[derive(Debug)]
pub(crate) enum Fenced {
    /// Scans of a session.
    Scans {
        session: SessionUid,
        scans: Vec<u64>,
    },
    /// A find of a session of which nobody knows whether it is newer than what came live; under its own token.
    Order {
        session: SessionUid,
        token: IndexToken,
    },
    /// A connection that comes after one with unsettled appends (M25).
    Attach(CompactString),
    /// The end of a volatile part (M36).
    Cut,
}

/// Changes of L1 that are not confirmed and fences that have not passed, with who waits for each.
#[derive(Debug, Default)]
pub(crate) struct IndexTokens {
    pub(crate) tokens: u64,
    pub(crate) unconfirmed: BTreeMap<IndexToken, Vec<Indexed>>,
    pub(crate) fences: HashMap<IndexToken, Fenced, Hasher>,
}

/// Numbers that this leader gives out; applying puts them into the state.
#[derive(Debug, Default)]
pub(crate) struct Issued {
    pub(crate) sessions: Numbers,
    pub(crate) groups: Numbers,
    pub(crate) last_scan: u64,
    pub(crate) epochs: u32,
    pub(crate) requests: u64,
}

/// What is proposed of streams, and which of them may have something to give out.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// References whose end is proposed.
    pub(crate) doomed: HashSet<(u64, u64), Hasher>,
    /// What was passed of streams on the way to what may be dropped; forgotten with each entry that is applied, and when what stayed in one may go.
    pub(crate) passed: HashMap<u64, Passed, Hasher>,
    /// What is proposed for them, where it may be dropped.
    pub(crate) coming: Coming,
    /// Sessions to which more may be pushed.
    pub(crate) pump: Vec<u64>,
    /// Groups with more to give out than one call may.
    pub(crate) later: Vec<u64>,
}

/// Receivers of messages, as lists that are used again.
#[derive(Debug, Default)]
pub(crate) struct Targets {
    pub(crate) free_sets: Vec<u32>,
    pub(crate) sets_end: u32,
    /// Receivers of what was routed last.
    pub(crate) routed: Routed,
    /// The targets of what is for no stream.
    pub(crate) nobody: Rc<TargetList>,
    /// Receivers of the publish that is being applied.
    pub(crate) receivers: Vec<DeliverTo>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lead {
    pub(crate) role: Role,
    pub(crate) term: Term,
    /// Entries that were taken in this term.
    pub(crate) number: u64,
    /// Those of them that are applied.
    pub(crate) applied: u64,
    pub(crate) now: Now,
    pub(crate) after: VecDeque<(u64, After)>,
    /// What an earlier leader of this process wanted to send after entries that may still commit.
    pub(crate) orphans: Orphans,
    pub(crate) issued: Issued,
    pub(crate) registry: Registry,
    pub(crate) origins: Origins,
    pub(crate) inbox: Inbox,
    pub(crate) projection: Projection,
    pub(crate) due: DueIndex<Due>,
    pub(crate) aging: Aging,
    /// Messages of partitions that came before this one leads.
    pub(crate) early: VecDeque<(PartitionId, ToPartition)>,
    pub(crate) forwards: Forwards,
    pub(crate) sharing: Sharing,
    /// By session, those with a SUBSCRIBE or UNSUBSCRIBE that is not answered.
    pub(crate) open_requests: HashMap<u64, OpenRequests, Hasher>,
    pub(crate) index: IndexTokens,
    pub(crate) scans: OpenScans,
    pub(crate) streams: Streams,
    pub(crate) targets: Targets,
    pub(crate) scratch: Vec<u8>,
    /// What the append that is being handled tells its shard.
    pub(crate) pace: Pace,
}

impl Lead {
    /// Whether publishes are decided here.
    pub(crate) const fn decides(&self) -> bool {
        match self.role {
            Role::Leading | Role::Indexing => true,
            Role::Follower | Role::Elected | Role::Aside => false,
        }
    }

    /// A token that was never used.
    pub(crate) const fn next_token(&mut self) -> IndexToken {
        self.index.tokens += 1;
        IndexToken(self.index.tokens)
    }

    /// A number for a question to another partition: never used before by this leader or an earlier one.
    pub(crate) const fn next_request(&mut self) -> u64 {
        self.issued.requests += 1;
        self.term.0 << 32 | self.issued.requests
    }

    /// The next epoch: above all of earlier terms (M24).
    pub(crate) fn next_epoch(&mut self) -> Epoch {
        self.issued.epochs += 1;
        Epoch(self.term.0 << 32 | u64::from(self.issued.epochs))
    }

    /// Asks for something after the entry that is being gathered.
    pub(crate) fn after(&mut self, after: After) {
        self.after.push_back((self.number + 1, after));
    }

    /// Milliseconds from now to a moment on the wall, for timers.
    pub(crate) const fn wait_for(&self, at: WallMs) -> u64 {
        at.0.saturating_sub(self.now.wall.0)
    }
}
