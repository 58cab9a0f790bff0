//! The leader's memory: what is decided and not yet applied, who waits for what, and which connections there are.
//!
//! Nothing of it is replicated; a new leader starts with an empty one (M5).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    rc::Rc,
};

use compact_str::CompactString;
use courser_contract::{
    Attach, ClientHash, DeliverTo, Epoch, FrontId, GroupRef, HomeRef, IndexToken, Join, JoinResult,
    Now, PartitionId, PubrecCan, RequestPart, RetainedScan, Seq, SessionLimits, SessionUid,
    Settled, SubscribeResult, SubscriptionOptions, Term, Tick, ToPartition, WallMs,
};
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use crate::{
    aging::Aging,
    due::DueIndex,
    entry::TargetList,
    group::{Fact, News},
    ids::Numbers,
    origins::Origins,
    orphans::Orphans,
    outbox::{Inbox, Sender},
    retained::Projection,
    room::{Pace, Passed},
    route::Routed,
    scan::OpenScans,
    session::{Held, OpenRequests, Subscribed},
    share::{Leaver, Parts},
};

type Hasher = foldhash::fast::RandomState;

/// Whether this partition decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Another one does, or nobody.
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
        front: (FrontId, u16),
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
    pub(crate) reserved: u32,
    /// Shared groups that have not answered.
    pub(crate) joins: Vec<Joining>,
    /// Something that a group has refused is being undone.
    pub(crate) takes_back: bool,
}

/// A shared subscription that waits for its group.
#[derive(Debug)]
pub(crate) struct Joining {
    pub(crate) request: u64,
    /// Place in the results of the SUBSCRIBE.
    pub(crate) at: usize,
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    /// What the session had asked of this group before: it stays, when the group refuses.
    pub(crate) before: Option<Asked>,
}

/// What a subscription asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) options: SubscriptionOptions,
    pub(crate) identifier: Option<u32>,
}

impl Asked {
    pub(crate) const fn of(subscribed: &Subscribed) -> Self {
        Self {
            options: subscribed.options,
            identifier: subscribed.identifier,
        }
    }
}

/// A question to a group.
#[derive(Debug)]
pub(crate) struct OpenJoin {
    pub(crate) share: Box<str>,
    pub(crate) filter: Box<str>,
    pub(crate) awaited: Awaited,
}

/// Who waits for the answer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// A SUBACK.
    BySuback,
    /// Nobody: a new leader asks again.
    ByNobody,
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

/// A QoS 2 publish on its way.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) front: FrontId,
    pub(crate) session: SessionUid,
    pub(crate) packet_id: u16,
    /// Facts that put it into outboxes.
    pub(crate) forwards: usize,
    /// Whether PUBREC waits for their answers (M28).
    pub(crate) must_wait: bool,
    /// Whether it can say that one of them refuses.
    pub(crate) pubrec: PubrecCan,
    pub(crate) result: Settled,
}

/// Forwards of one message without an answer.
pub(crate) type OpenForwards = SmallVec<[(PartitionId, Seq); 2]>;

/// A client id that somebody has or wants (M24, M25).
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) holder: Holder,
    /// The user of the holder, or of the last one.
    pub(crate) owner: Option<Box<str>>,
    /// Whether the holder has been told that another one waits.
    pub(crate) told: bool,
    /// A fence is under way that the next holder waits for.
    pub(crate) fenced: bool,
    /// Forwards of a will that the next holder waits for.
    pub(crate) wills: u32,
    /// The one that waits; a newer one displaces it.
    pub(crate) waiting: Option<Waiting>,
}

/// A connection that waits for its client id.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) attach: Box<Attach>,
    /// When it asked.
    pub(crate) since: WallMs,
}

/// Who has a client id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// An entry is under way that gives it to this front.
    Coming(FrontId),
    /// A front with a session in a volatile partition.
    Clean(FrontId, Epoch),
    /// A front with a session of this partition.
    Home(FrontId, SessionUid),
    /// The last one lets go, which is proposed: nobody may have it before that is applied.
    Leaving,
    /// Nobody; a fence or a will may be under way before the next one has it.
    Left,
}

/// Who waits for the answer to a forward.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A hold's PUBREC.
    Hold(SessionUid, u16),
    /// The next connection of a client id, for a will (M25).
    Will(CompactString),
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
    /// A connection that comes after one with unsettled appends (M25).
    Attach(CompactString),
    /// The end of a volatile part (M36).
    Cut,
}

/// See the module.
#[derive(Debug)]
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
    pub(crate) sessions: Numbers,
    pub(crate) groups: Numbers,
    pub(crate) epochs: u32,
    pub(crate) clients: HashMap<CompactString, Client, Hasher>,
    /// Sessions that were proposed and are not yet open.
    pub(crate) reserved_sessions: u32,
    pub(crate) origins: Origins,
    pub(crate) inbox: Inbox,
    pub(crate) projection: Projection,
    pub(crate) due: DueIndex<Due>,
    pub(crate) aging: Aging,
    pub(crate) senders: BTreeMap<PartitionId, Sender>,
    /// Who leads the partitions to which outboxes lead, as they have said.
    pub(crate) leaders: BTreeMap<PartitionId, Term>,
    /// Where the outboxes stood, and since when: one that does not move is sent again.
    pub(crate) stood: BTreeMap<PartitionId, (Seq, Tick)>,
    /// Messages of partitions that came before this one leads.
    pub(crate) early: VecDeque<(PartitionId, ToPartition)>,
    /// Forwards that were proposed and are not yet in an outbox.
    pub(crate) reserved_forwards: u32,
    /// Number of the last entry out of which something goes on to where it is kept as a retained message.
    pub(crate) last_kept_elsewhere: u64,
    /// Positions that the facts since the last hold got.
    pub(crate) forwarded: Vec<(PartitionId, Seq)>,
    /// Forwards whose answers somebody waits for.
    pub(crate) answers: HashMap<(PartitionId, Seq), Waiter, Hasher>,
    /// Holds whose PUBREC waits for answers, with the forwards that have none.
    pub(crate) holding: HashMap<(SessionUid, u16), (Holding, OpenForwards), Hasher>,
    /// Forwards of earlier leaders that may be refused and are not answered, by session: which holds they belong to is not known.
    pub(crate) inherited: BTreeMap<SessionUid, BTreeSet<(PartitionId, Seq)>>,
    /// Holds of earlier leaders whose PUBREC waits for those of their session, with the front that asked again (M28).
    pub(crate) waiting_holds: BTreeMap<(SessionUid, u16), FrontId>,
    /// Authors of wills that are to be retained, of sessions that keep no client id. They end with their connections, and the process.
    pub(crate) will_authors: BTreeMap<SessionUid, Box<str>>,
    pub(crate) tokens: u64,
    pub(crate) requests: u64,
    pub(crate) open_joins: HashMap<u64, OpenJoin, Hasher>,
    /// Answers of groups that no SUBACK has taken yet.
    pub(crate) join_answers: HashMap<u64, JoinResult, Hasher>,
    /// Groups that are proposed, by share name and filter.
    pub(crate) making: BTreeMap<(Box<str>, Box<str>), u64>,
    /// Groups in two parts.
    pub(crate) parts: Parts,
    /// By session, those with a SUBSCRIBE or UNSUBSCRIBE that is not answered.
    pub(crate) open_requests: HashMap<u64, OpenRequests, Hasher>,
    /// SUBSCRIBEs that wait for shared groups.
    pub(crate) joining: Vec<Subscribing>,
    /// UNSUBSCRIBEs that wait for shared groups.
    pub(crate) leaving: Vec<Unsubscribing>,
    /// Changes of L1 that are not confirmed, and who waits for them.
    pub(crate) unconfirmed: BTreeMap<IndexToken, Vec<Indexed>>,
    pub(crate) fences: HashMap<IndexToken, Fenced, Hasher>,
    pub(crate) scans: OpenScans,
    pub(crate) last_scan: u64,
    /// References whose end is proposed.
    pub(crate) doomed: HashSet<(u64, u64), Hasher>,
    /// What was passed of streams on the way to what may be dropped; forgotten with each entry that is applied, and when what stayed in one may go.
    pub(crate) passed: HashMap<u64, Passed, Hasher>,
    /// Sessions to which more may be pushed.
    pub(crate) pump: Vec<u64>,
    pub(crate) free_sets: Vec<u32>,
    /// Receivers of what was routed last.
    pub(crate) routed: Routed,
    /// The targets of what is for no stream.
    pub(crate) nobody: Rc<TargetList>,
    pub(crate) sets_end: u32,
    /// Receivers of the publish that is being applied.
    pub(crate) receivers: Vec<DeliverTo>,
    pub(crate) scratch: Vec<u8>,
    /// Facts about a group that are on their way into the entry.
    pub(crate) group_facts: Vec<Fact>,
    /// Sessions with a connection.
    pub(crate) attached: u64,
    /// Sessions that it ended because their time was over.
    pub(crate) expired: u64,
    /// What the append that is being handled tells its shard.
    pub(crate) pace: Pace,
}

impl Default for Lead {
    fn default() -> Self {
        Self {
            role: Role::Follower,
            term: Term(0),
            number: 0,
            applied: 0,
            requests: 0,
            open_joins: HashMap::default(),
            join_answers: HashMap::default(),
            making: BTreeMap::new(),
            parts: Parts::default(),
            open_requests: HashMap::default(),
            joining: Vec::new(),
            leaving: Vec::new(),
            now: Now::default(),
            after: VecDeque::new(),
            orphans: Orphans::default(),
            sessions: Numbers::default(),
            groups: Numbers::default(),
            epochs: 0,
            clients: HashMap::default(),
            reserved_sessions: 0,
            origins: Origins::default(),
            inbox: Inbox::default(),
            projection: Projection::default(),
            due: DueIndex::default(),
            aging: Aging::default(),
            senders: BTreeMap::new(),
            leaders: BTreeMap::new(),
            stood: BTreeMap::new(),
            early: VecDeque::new(),
            reserved_forwards: 0,
            last_kept_elsewhere: 0,
            forwarded: Vec::new(),
            answers: HashMap::default(),
            holding: HashMap::default(),
            inherited: BTreeMap::new(),
            waiting_holds: BTreeMap::new(),
            will_authors: BTreeMap::new(),
            tokens: 0,
            unconfirmed: BTreeMap::new(),
            fences: HashMap::default(),
            scans: OpenScans::default(),
            last_scan: 0,
            doomed: HashSet::default(),
            passed: HashMap::default(),
            pump: Vec::new(),
            free_sets: Vec::new(),
            routed: Routed::default(),
            nobody: Rc::default(),
            sets_end: 0,
            receivers: Vec::new(),
            scratch: Vec::new(),
            group_facts: Vec::new(),
            attached: 0,
            expired: 0,
            pace: Pace::Free,
        }
    }
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
        self.tokens += 1;
        IndexToken(self.tokens)
    }

    /// A number for a question to another partition: never used before by this leader or an earlier one.
    pub(crate) const fn next_request(&mut self) -> u64 {
        self.requests += 1;
        self.term.0 << 32 | self.requests
    }

    /// The next epoch: above all of earlier terms (M24).
    pub(crate) fn next_epoch(&mut self) -> Epoch {
        self.epochs += 1;
        Epoch(self.term.0 << 32 | u64::from(self.epochs))
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
