//! A raft group on this node.

mod check;
mod planted;
mod ready;

use std::collections::VecDeque;
use std::sync::LazyLock;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use raft::eraftpb::{Entry, Message, MessageType};
use raft::{Config, RawNode, SnapshotStatus, StateRole};
use slog::Logger;

use crate::config::{GroupConfig, RestoreError, Restored};
use crate::consensus::{
    BadMessage, Consensus, ConsensusEffects, NotLeading, Polled, SnapshotResult,
};
use crate::ids::NodeId;
use crate::message::{PeerBody, PeerMessage, to_raft};
use crate::snapshot::SnapshotDescriptor;
use crate::storage::GroupStorage;
use crate::timeouts::{ELECTION_TICKS, HEARTBEAT_TICKS, Timeouts};

pub use planted::PlantedConsensus;

/// Bytes of entries in one message to a follower, and of committed entries that one poll hands over; one entry always fits.
const BYTES_PER_STEP: u64 = 1 << 20;

/// Messages with entries on their way to one follower.
const IN_FLIGHT_MAX: usize = 64;

/// The library's log goes nowhere, at no cost: its levels are switched off at compile time.
fn silence() -> &'static Logger {
    static SILENCE: LazyLock<Logger> = LazyLock::new(|| Logger::root(slog::Discard, slog::o!()));
    &SILENCE
}

/// Where this node stands in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Another node leads, or nobody.
    Follower,
    /// It won the election of this term, whose first entry is not applied yet (M5).
    Elected(Term),
    /// It leads and has said so.
    Leader(Term),
}

/// What waits for the disk of a node with peers; a group of one makes no promises to anybody.
#[derive(Debug, Default)]
struct Waiting {
    /// Messages that claim something durable, with the number that must be durable first.
    held: VecDeque<(u64, Message)>,
    /// A checkpoint takes the place of the log: the number of its record, and its index.
    restoring: Option<(u64, u64)>,
}

/// Consensus of one partition, see [`Consensus`] and the crate.
pub struct Group {
    partition: PartitionId,
    node: NodeId,
    raft: RawNode<GroupStorage>,
    timeouts: Timeouts,
    standing: Standing,
    /// Last number that the library gave, last one that was handed out with records, and the last of which all is durable.
    number: u64,
    written: u64,
    persisted: u64,
    waiting: Option<Box<Waiting>>,
    planted: Option<PlantedConsensus>,
}

impl Group {
    /// A group as its log left it. A group of one stands for election at once and leads after the first `persisted`.
    ///
    /// # Errors
    /// When the log holds what no group writes.
    pub fn new(config: &GroupConfig, restored: Restored) -> Result<Self, RestoreError> {
        let alone = config.peers.is_empty();
        let applied = restored.snapshot.0;
        let storage = GroupStorage::new(config, restored)?;
        let settings = Config {
            id: config.node.raft_id(),
            election_tick: ELECTION_TICKS,
            heartbeat_tick: HEARTBEAT_TICKS,
            applied: applied.0,
            max_size_per_msg: BYTES_PER_STEP,
            // The library makes room for all of them in advance, for each member.
            max_inflight_msgs: if alone { 1 } else { IN_FLIGHT_MAX },
            check_quorum: true,
            pre_vote: true,
            max_committed_size_per_ready: BYTES_PER_STEP,
            ..Config::default()
        };
        let raft = RawNode::new(&settings, storage, silence())
            .expect("constant settings are valid, and the storage answers from memory");
        let mut group = Self {
            partition: config.partition,
            node: config.node,
            raft,
            timeouts: Timeouts::new(config.seed, config.partition, config.node),
            standing: Standing::Follower,
            number: 0,
            written: 0,
            persisted: 0,
            waiting: None,
            planted: None,
        };
        if alone {
            group
                .raft
                .campaign()
                .expect("a group of one may always stand for election");
        }
        group.settle();
        Ok(group)
    }

    /// Its partition.
    #[must_use]
    pub const fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Current term.
    #[must_use]
    pub fn term(&self) -> Term {
        Term(self.raft.raft.term)
    }

    /// The leader as far as this node knows.
    #[must_use]
    pub fn leader(&self) -> Option<NodeId> {
        NodeId::of_raft_id(self.raft.raft.leader_id)
    }

    /// Index of the last committed entry that this node knows of.
    #[must_use]
    pub fn commit(&self) -> LogIndex {
        LogIndex(self.raft.raft.raft_log.committed)
    }

    /// Index of the last entry that was handed to the partition, or was the consensus' own.
    #[must_use]
    pub fn applied(&self) -> LogIndex {
        LogIndex(self.raft.raft.raft_log.applied())
    }

    /// Index of the last entry of the log.
    #[must_use]
    pub fn last(&self) -> LogIndex {
        LogIndex(self.raft.raft.raft_log.last_index())
    }

    /// Term of an entry of the log; none when it is compacted or not there yet.
    #[must_use]
    pub fn term_of(&self, index: LogIndex) -> Option<Term> {
        let log = &self.raft.raft.raft_log;
        if index.0 + 1 < log.first_index() || index.0 > log.last_index() {
            return None;
        }
        log.term(index.0).ok().map(Term)
    }

    /// Peers that lag behind the compacted log are sent to this checkpoint from now on (M43); to be called after a restart, too.
    pub fn offer_snapshot(&mut self, snapshot: SnapshotDescriptor) {
        self.raft.mut_store().offer(snapshot);
    }

    /// What [`ConsensusEffects::fetch`] asked for, from its first entry on; fewer or none when they cannot be read, then
    /// the peer is tried again later.
    pub fn fetched(&mut self, first: LogIndex, entries: Vec<(Term, Bytes)>) {
        if let Some(context) = self.raft.mut_store().fetched(first, entries) {
            self.raft.on_entries_fetched(context);
            self.raft.mut_store().forget_fetched();
        }
        self.settle();
    }

    /// A snapshot that was sent to this peer is there, or is not.
    pub fn snapshot_sent(&mut self, to: NodeId, result: SnapshotResult) {
        let status = match result {
            SnapshotResult::Done => SnapshotStatus::Finish,
            SnapshotResult::Failed => SnapshotStatus::Failure,
        };
        self.raft.report_snapshot(to.raft_id(), status);
        self.settle();
    }

    /// A peer could not be reached: nothing more is sent ahead of its answers.
    pub fn unreachable(&mut self, peer: NodeId) {
        self.raft.report_unreachable(peer.raft_id());
        self.settle();
    }

    /// Asks this member to take over the leadership. Nothing happens when this node does not lead, or the member lags.
    pub fn transfer(&mut self, to: NodeId) {
        self.raft.transfer_leader(to.raft_id());
        self.settle();
    }

    /// Ends every call into the library: its own random timeout is replaced, see [`Timeouts`].
    fn settle(&mut self) {
        let raft = &mut self.raft.raft;
        let role = match raft.state {
            StateRole::Follower => 0,
            StateRole::Candidate => 1,
            StateRole::PreCandidate => 2,
            StateRole::Leader => 3,
        };
        let ticks = self.timeouts.draw(raft.term, role);
        raft.set_randomized_election_timeout(ticks);
    }

    /// Numbers without records are durable with the last one that had some; the library keeps a note of each until it hears so.
    fn library_persisted(&mut self, number: u64) {
        let all = self.persisted == self.written;
        self.raft
            .on_persist_ready(if all { self.number } else { number });
    }

    /// Gives back what only a group with something under way needs: there may be thousands of idle ones.
    fn rest(&mut self) {
        self.raft.mut_store().rest();
        self.raft.raft.raft_log.unstable.entries = Vec::new();
    }

    fn waiting(&mut self) -> &mut Waiting {
        self.waiting.get_or_insert_default()
    }

    fn is_restoring(&self) -> bool {
        self.waiting
            .as_ref()
            .is_some_and(|waiting| waiting.restoring.is_some())
    }

    fn leads(&self) -> bool {
        self.raft.raft.state == StateRole::Leader
    }

    /// Asserts what must hold between calls, see the modules; for tests and the simulator.
    ///
    /// # Panics
    /// When it does not hold.
    pub fn check(&self) {
        self.raft.store().check();
        assert!(
            self.persisted <= self.written,
            "only what was written is durable"
        );
        let log = &self.raft.raft.raft_log;
        assert!(
            log.applied() <= log.committed.min(log.persisted),
            "only committed and durable entries are applied"
        );
        assert!(
            self.waiting
                .iter()
                .flat_map(|waiting| &waiting.held)
                .all(|(number, _)| *number > self.persisted),
            "messages wait only for what is not durable"
        );
        if let Standing::Elected(term) | Standing::Leader(term) = self.standing {
            assert!(
                term.0 <= self.raft.raft.term,
                "a leadership is of a known term"
            );
        }
    }
}

impl Consensus for Group {
    fn propose(&mut self, entry: Bytes) -> Result<(), NotLeading> {
        assert!(!entry.is_empty(), "empty entries are the consensus' own");
        if self.standing != Standing::Leader(self.term()) || !self.leads() {
            return Err(NotLeading);
        }
        let proposed = Entry {
            data: entry,
            ..Entry::default()
        };
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgPropose);
        message.from = self.node.raft_id();
        message.set_entries(vec![proposed].into());
        // Refused while the leadership is being handed over.
        let taken = self.raft.step(message);
        self.settle();
        taken.map_err(|_| NotLeading)
    }

    fn tick(&mut self) {
        // The library cannot stand for election before a restored checkpoint is durable.
        if !self.is_restoring() {
            self.raft.tick();
        }
        self.settle();
    }

    fn step(&mut self, from: NodeId, message: PeerMessage) -> Result<(), BadMessage> {
        self.check_message(from, &message)?;
        if self.is_restoring() && message.body == PeerBody::TimeoutNow {
            return Ok(());
        }
        let message = to_raft(from, self.node, message, self.raft.store().members());
        // What the library still refuses (answers of a member that it does not expect) is as good as lost.
        let _ = self.raft.step(message);
        self.settle();
        Ok(())
    }

    fn persisted(&mut self, number: u64) {
        assert!(
            number <= self.written,
            "record number {number} was never handed out"
        );
        let number = match self.is_planted(PlantedConsensus::PersistedTooFar) {
            true => self.written,
            false => number,
        };
        self.persisted = self.persisted.max(number);
        self.library_persisted(number);
        if let Some(waiting) = &mut self.waiting
            && let Some((_, index)) = waiting.restoring.take_if(|(record, _)| *record <= number)
        {
            self.raft.advance_apply_to(index);
        }
        self.settle();
    }

    fn poll(&mut self, fx: &mut impl ConsensusEffects) -> Polled {
        self.release_held(fx);
        if self.raft.has_ready() {
            self.handle_ready(fx);
            self.settle();
        }
        self.ask_for_entries(fx);
        if self.raft.has_ready() {
            return Polled::More;
        }
        if self.is_idle() {
            self.rest();
        }
        Polled::Quiet
    }

    fn compact(&mut self, index: LogIndex) {
        self.raft.mut_store().compact(index);
    }

    fn is_idle(&self) -> bool {
        self.raft.store().is_alone() && self.persisted == self.written && !self.raft.has_ready()
    }
}
