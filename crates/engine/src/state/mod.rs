//! The replicated state of a partition, and how entries change it.
//!
//! Applying reads the state and the entry and nothing else: no clock, no limits, no random number (M4). What the leader must
//! do besides (answers, deliveries, timers) it hears through a [`Sink`].

mod ages;
mod apply;
mod check;
mod encode;
mod groups;
mod sessions;
pub(crate) mod weight;

use std::{collections::BTreeMap, rc::Rc};

pub(crate) use self::ages::Ages;
pub(crate) use self::encode::encode_scan;
pub(crate) use self::groups::{GroupLead, Leaving, Passing, SharedGroup};

use bytes::Bytes;
use compact_str::CompactString;
use courser_contract::{
    Cut, LogIndex, PartitionId, QoS, RecordRef, RecordView, Seq, SessionUid, Term, WallMs,
};
use hashbrown::HashMap;

use crate::{
    checkpoint::Saving,
    entry::{Entry, EntryError, Key, Rare, Target, Trust},
    ids::Table,
    l2::L2,
    look::Looks,
    origins::Origins,
    outbox::{Inbox, Outboxes},
    record::{Address, Records, Slot},
    retained::{Retained, Usage},
    room::Reserved,
    session::Session,
    stream::SpareChunks,
};

/// See the module.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) id: PartitionId,
    /// Place of the last entry that was applied; addresses of records begin with it (M16).
    pub(crate) index: u64,
    /// Time of the last one; never goes back (M6).
    pub(crate) wall: WallMs,
    /// Term of the last one.
    pub(crate) term: Term,
    /// When entries came.
    pub(crate) ages: Ages,
    /// Highest counter of a session's number so far.
    pub(crate) last_session: u64,
    pub(crate) sessions: Table<Box<Session>>,
    /// Sessions by client id; empty in a volatile partition.
    pub(crate) by_client: HashMap<CompactString, u64, foldhash::fast::RandomState>,
    pub(crate) records: Records,
    pub(crate) looks: Looks,
    pub(crate) spare: SpareChunks,
    pub(crate) l2: L2,
    /// Target sets by number (M8).
    pub(crate) sets: Vec<Option<Rc<[Target]>>>,
    pub(crate) retained: Retained<Slot>,
    pub(crate) origins: Origins,
    pub(crate) inbox: Inbox,
    pub(crate) outboxes: Outboxes<Forwarded>,
    pub(crate) groups: Table<Box<SharedGroup>>,
    /// Groups by share name and filter.
    pub(crate) by_share: BTreeMap<(Box<str>, Box<str>), u64>,
    pub(crate) last_group: u64,
    /// Sessions that left groups which have not confirmed it, by request.
    pub(crate) leaves: BTreeMap<u64, Leaving>,
    /// Highest number of a scan so far.
    pub(crate) last_scan: u64,
    /// Filters that L1 must hear of, the last word counts; not replicated.
    pub(crate) index_changes: BTreeMap<Box<str>, IndexChanged>,
    /// Subscriptions of all sessions.
    pub(crate) subscriptions: u64,
    /// Shared ones of them.
    pub(crate) shared_subscriptions: u64,
    /// Bytes that sessions and subscriptions take, filters in the indexes not counted ([`weight`]); not replicated.
    pub(crate) session_bytes: u64,
    /// References of all streams that are not done.
    pub(crate) queued: u64,
    /// The checkpoint that is being written (M42); not replicated.
    pub(crate) saving: Option<Box<Saving>>,
    /// Number of the last checkpoint that was begun: an even one.
    pub(crate) saved: u32,
}

/// What an outbox forwards: one reference to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    pub(crate) slot: Slot,
    /// The destination keeps it as the topic's retained message.
    pub(crate) keep_retained: bool,
    /// The last cut of the destination's shard before it was matched (M36).
    pub(crate) cut: Cut,
}

/// What L1 must hear of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexChanged {
    Added,
    Removed,
}

/// A reference that applying a publish made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    pub(crate) seq: u64,
    pub(crate) bytes: u32,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
    pub(crate) expires_at: Option<WallMs>,
}

/// What the leader hears while an entry is applied. A follower hears nothing.
pub(crate) trait Sink {
    /// A reference was put into a session's stream.
    fn stored(&mut self, session: &mut Session, stored: &Stored, target: &Target) {
        let _ = (session, stored, target);
    }

    /// A publish with all its targets was applied.
    fn published(&mut self, record: RecordRef<'_>, view: RecordView<'_>, key: &Key) {
        let _ = (record, view, key);
    }

    /// Outcomes of a session were applied.
    fn settled(&mut self, session: &Session) {
        let _ = session;
    }

    /// A reference has ended, for whatever reason.
    fn reference_ended(&mut self, reserved: &mut Reserved, stream: u64, seq: u64, bytes: u32) {
        let _ = (reserved, stream, seq, bytes);
    }

    /// Outcomes of a group were applied.
    fn settled_shared(&mut self, number: u64, lead: &GroupLead) {
        let _ = (number, lead);
    }

    /// A reference was put into a group's stream.
    fn stored_shared(&mut self, number: u64, group: &mut SharedGroup, stored: &Stored) {
        let _ = (number, group, stored);
    }

    /// A forward got its position.
    fn forwarded(&mut self, to: PartitionId, seq: Seq) {
        let _ = (to, seq);
    }

    /// A forward is at its end.
    fn forward_ended(&mut self, session: SessionUid, bytes: u32) {
        let _ = (session, bytes);
    }

    /// The retained message of a topic changed; `slot` is the new one.
    fn retained(&mut self, change: &RetainedChange<'_>) {
        let _ = change;
    }

    /// What `slot` holds is no longer the retained message of its topic; its record is let go next.
    fn unkept(&mut self, slot: Slot, records: &Records) {
        let _ = (slot, records);
    }

    /// QoS 2: PUBREC for this delivery is committed.
    fn received(&mut self, session: &Session, seq: u64) {
        let _ = (session, seq);
    }

    /// A rare fact was applied.
    fn applied(&mut self, fact: &Rare) {
        let _ = fact;
    }

    /// A session is gone; this is the last of it.
    fn ended(&mut self, session: &Session) {
        let _ = session;
    }

    /// The same of a group, which had so many connections of members.
    fn group_ended(&mut self, number: u64, fronts: usize) {
        let _ = (number, fronts);
    }
}

/// A change of the retained store.
#[derive(Debug)]
pub(crate) struct RetainedChange<'a> {
    pub(crate) topic: &'a str,
    pub(crate) slot: Option<Slot>,
    /// Bytes of the new record.
    pub(crate) bytes: Option<u32>,
    pub(crate) address: Option<Address>,
    /// Nobody published: its time was over.
    pub(crate) expired: bool,
    pub(crate) expires_at: Option<WallMs>,
    pub(crate) before: Usage,
    pub(crate) after: Usage,
}

/// Hears nothing.
#[derive(Debug)]
pub(crate) struct NoSink;

impl Sink for NoSink {}

impl State {
    pub(crate) fn new(id: PartitionId) -> Self {
        Self {
            id,
            index: 0,
            wall: WallMs(0),
            term: Term(0),
            ages: Ages::default(),
            last_session: 0,
            sessions: Table::default(),
            by_client: HashMap::default(),
            records: Records::default(),
            looks: Looks::default(),
            spare: SpareChunks::default(),
            l2: L2::new(),
            sets: Vec::new(),
            retained: Retained::default(),
            origins: Origins::default(),
            inbox: Inbox::default(),
            outboxes: Outboxes::default(),
            groups: Table::default(),
            by_share: BTreeMap::new(),
            last_group: 0,
            leaves: BTreeMap::new(),
            last_scan: 0,
            index_changes: BTreeMap::new(),
            subscriptions: 0,
            shared_subscriptions: 0,
            session_bytes: 0,
            queued: 0,
            saving: None,
            saved: 0,
        }
    }

    /// Applies the entry that is committed at `at`. An error leaves the state as it was.
    pub(crate) fn apply(
        &mut self,
        at: LogIndex,
        bytes: &Bytes,
        trust: Trust,
        sink: &mut impl Sink,
    ) -> Result<(), EntryError> {
        if trust == Trust::Foreign {
            Entry::check(bytes)?;
        }
        let entry = Entry::open(bytes, trust)?;
        let head = entry.head();
        assert!(
            at.0 > self.index,
            "entries are applied in the order of the log"
        );
        self.index = at.0;
        self.wall = self.wall.max(head.wall);
        self.ages.note(at.0, self.wall);
        self.term = head.term;
        let mut applying = apply::Applying::new(self.records.begin_entry(bytes));
        entry.for_each(|fact| self.apply_fact(&mut applying, fact, sink))?;
        let block = applying.finish(self);
        self.records.end_entry(block, self.queued);
        Ok(())
    }

    /// Changes a session that is still there, and what it takes.
    fn change_weight(&mut self, session: SessionUid, change: impl FnOnce(&mut Session)) {
        if let Some(session) = self.sessions.get_mut(session.0) {
            self.session_bytes -= weight::of_session(session);
            change(session);
            self.session_bytes += weight::of_session(session);
        }
    }

    /// QoS of a delivery: the lower of published and granted (v3 [MQTT-3.8.4-6], v5 [MQTT-3.8.4-8]).
    pub(crate) fn delivered_qos(record: &RecordView<'_>, granted: QoS) -> QoS {
        record.qos.min(granted)
    }
}
