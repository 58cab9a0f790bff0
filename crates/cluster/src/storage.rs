//! What the library reads of a group's log: terms of all entries that are not compacted, data of those that may be asked
//! for, the rest out of the files.
//!
//! ```text
//!   floor        cache_first       applied        last
//!     │ in the files │  for peers     │  not applied │
//! ────┴──────────────┴────────────────┴──────────────┘   index →
//!   terms known in runs ................................
//! ```
//! Invariants (`check`):
//! - `floor < cache_first <= last + 1`, and `cache_first <= applied + 1`: what the library reads synchronously is here
//! - the cache has exactly the entries `cache_first..=last`
//! - terms of runs ascend, the first run begins at the floor
//!
//! Data is the bytes of the proposer's block, shared and never copied.

mod for_peers;
mod library;

use std::cell::RefCell;
use std::collections::VecDeque;

use bytes::Bytes;
use courser_contract::LogIndex;
use courser_log::HardState;
use raft::eraftpb::{ConfState, Entry};

use self::for_peers::ForPeers;
use crate::config::{GroupConfig, RestoreError, Restored};
use crate::ids::NodeId;
use crate::snapshot::SnapshotDescriptor;

/// An entry as it is kept: half as large as the library's own.
#[derive(Clone, Debug)]
struct Cached {
    term: u64,
    data: Bytes,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct GroupStorage {
    hard_state: HardState,
    /// Ascending, this node among them, as the library numbers them.
    members: Box<[u64]>,
    floor: u64,
    last: u64,
    applied: u64,
    /// First index and term of each run of entries of one term.
    terms: Vec<(u64, u64)>,
    cache_first: u64,
    cache: VecDeque<Cached>,
    /// Bytes of applied entries in the cache, and how many there may be.
    kept: usize,
    kept_max: usize,
    /// In a cell because the library asks through a shared reference.
    peers: RefCell<Option<Box<ForPeers>>>,
}

impl GroupStorage {
    pub(crate) fn new(config: &GroupConfig, restored: Restored) -> Result<Self, RestoreError> {
        let (floor, term) = restored.snapshot;
        let nodes = config.peers.iter().chain([&config.node]);
        let mut members: Vec<u64> = nodes.map(|node| node.raft_id()).collect();
        members.sort_unstable();
        let mut storage = Self {
            hard_state: restored.hard_state,
            members: members.into(),
            floor: floor.0,
            last: floor.0,
            applied: floor.0,
            terms: vec![(floor.0, term.0)],
            cache_first: floor.0 + 1,
            cache: VecDeque::with_capacity(restored.entries.len()),
            kept: 0,
            kept_max: if config.peers.is_empty() {
                0
            } else {
                config.cache_bytes
            },
            peers: RefCell::default(),
        };
        let found = restored.hard_state;
        if found.vote != 0 && NodeId::of_raft_id(found.vote).is_none() {
            return Err(RestoreError::Vote { vote: found.vote });
        }
        if term > found.term {
            return Err(RestoreError::Term {
                index: floor.0,
                found: term.0,
                current: found.term.0,
            });
        }
        for entry in restored.entries {
            storage.take_restored(entry.index.0, entry.term.0, entry.data, found.term.0)?;
        }
        // At start the larger of what was stored and of the checkpoint (M42); what was stored may speak of entries that a
        // power loss took with it before anybody heard of them.
        storage.hard_state.commit = LogIndex(found.commit.0.clamp(floor.0, storage.last));
        Ok(storage)
    }

    fn take_restored(
        &mut self,
        index: u64,
        term: u64,
        data: Bytes,
        current: u64,
    ) -> Result<(), RestoreError> {
        if index != self.last + 1 {
            return Err(RestoreError::Gap {
                last: self.last,
                found: index,
            });
        }
        if term < self.last_term() || term > current {
            return Err(RestoreError::Term {
                index,
                found: term,
                current,
            });
        }
        self.push(index, term, data);
        Ok(())
    }

    fn push(&mut self, index: u64, term: u64, data: Bytes) {
        if term != self.last_term() {
            self.terms.push((index, term));
        }
        self.cache.push_back(Cached { term, data });
        self.last = index;
    }

    fn last_term(&self) -> u64 {
        self.terms.last().map_or(0, |&(_, term)| term)
    }

    /// Takes entries that are on their way to the disk; those that they replace are gone.
    pub(crate) fn append(&mut self, entries: &[Entry]) {
        let Some(first) = entries.first().map(|entry| entry.index) else {
            return;
        };
        assert!(
            self.cache_first <= first && first <= self.last + 1,
            "entry {first} is appended to entries {} to {}",
            self.cache_first,
            self.last
        );
        self.cache.truncate((first - self.cache_first) as usize);
        self.terms.retain(|&(begin, _)| begin < first);
        self.last = first - 1;
        for entry in entries {
            self.push(entry.index, entry.term, entry.data.clone());
        }
    }

    /// Everything up to here is applied.
    pub(crate) fn applied_to(&mut self, applied: u64) {
        for index in self.applied + 1..=applied {
            self.kept += self.cached(index).data.len();
        }
        self.applied = applied;
        while self.cache_first <= applied && (self.kept > self.kept_max || self.kept_max == 0) {
            self.forget_first();
        }
    }

    /// Gives back room that nothing needs.
    pub(crate) fn rest(&mut self) {
        if self.cache.is_empty() {
            self.cache = VecDeque::new();
        }
        self.terms.shrink_to_fit();
    }

    fn cached(&self, index: u64) -> &Cached {
        &self.cache[(index - self.cache_first) as usize]
    }

    fn forget_first(&mut self) {
        let first = self
            .cache
            .pop_front()
            .expect("the cache reaches to the last entry");
        self.kept -= first.data.len();
        self.cache_first += 1;
    }

    /// Forgets entries up to this index, which is applied; peers may need those behind the offered snapshot.
    pub(crate) fn compact(&mut self, index: LogIndex) {
        let mut to = index.0.min(self.applied);
        if !self.is_alone() {
            to = to.min(self.offered_index());
        }
        if to <= self.floor {
            return;
        }
        while self.cache_first <= to {
            self.forget_first();
        }
        let run = self.terms.partition_point(|&(begin, _)| begin <= to) - 1;
        self.terms.drain(..run);
        self.terms[0].0 = to;
        self.floor = to;
    }

    /// The whole log is replaced by a checkpoint.
    pub(crate) fn restore(&mut self, snapshot: &SnapshotDescriptor) {
        self.floor = snapshot.index.0;
        self.last = snapshot.index.0;
        self.applied = snapshot.index.0;
        self.terms = vec![(snapshot.index.0, snapshot.term.0)];
        self.cache_first = self.floor + 1;
        self.cache.clear();
        self.kept = 0;
        *self.peers.get_mut() = None;
    }

    pub(crate) fn set_hard_state(&mut self, hard_state: HardState) {
        self.hard_state = hard_state;
    }

    pub(crate) const fn hard_state(&self) -> &HardState {
        &self.hard_state
    }

    pub(crate) fn is_member(&self, node: NodeId) -> bool {
        self.members.contains(&node.raft_id())
    }

    /// The members as the library names them.
    pub(crate) fn members(&self) -> ConfState {
        ConfState {
            voters: self.members.to_vec(),
            ..ConfState::default()
        }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.members.len() == 1
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        assert!(
            self.floor < self.cache_first && self.cache_first <= self.last + 1,
            "places of a log are in order: {self:?}"
        );
        assert!(
            self.cache_first <= self.applied + 1,
            "what is not applied is in memory"
        );
        assert_eq!(
            self.cache_first + self.cache.len() as u64,
            self.last + 1,
            "the cache reaches to the last entry"
        );
        assert!(
            self.terms
                .is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1),
            "terms ascend"
        );
        assert_eq!(
            self.terms.first().map(|run| run.0),
            Some(self.floor),
            "the first run begins at the floor"
        );
        let applied = (self.applied + 1 - self.cache_first) as usize;
        let kept: usize = self
            .cache
            .iter()
            .take(applied)
            .map(|entry| entry.data.len())
            .sum();
        assert_eq!(kept, self.kept, "kept bytes are those of applied entries");
    }
}
