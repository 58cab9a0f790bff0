//! What a group remembers for peers that lag behind: a read out of the files that is under way, and the offered checkpoint.

use bytes::Bytes;
use courser_contract::{LogIndex, Term};
use raft::GetEntriesContext;

use super::{Cached, GroupStorage};
use crate::snapshot::SnapshotDescriptor;

/// Entries that one read out of the files asks for, at most.
const FETCH_ENTRIES: u64 = 1_024;

/// Entries read out of the files.
#[derive(Debug)]
struct Window {
    first: u64,
    entries: Vec<Cached>,
}

/// A read out of the files that the library waits for.
#[derive(Debug)]
struct Wanted {
    context: GetEntriesContext,
    first: LogIndex,
    last: LogIndex,
    asked: bool,
}

/// See the module. Out of the way of the many groups that have no peers.
#[derive(Debug, Default)]
pub(super) struct ForPeers {
    offered: Option<SnapshotDescriptor>,
    window: Option<Window>,
    wanted: Option<Wanted>,
}

impl GroupStorage {
    fn for_peers(&mut self) -> &mut ForPeers {
        self.peers.get_mut().get_or_insert_default()
    }

    /// Peers that lag behind the floor are sent to this checkpoint.
    pub(crate) fn offer(&mut self, snapshot: SnapshotDescriptor) {
        self.for_peers().offered = Some(snapshot);
    }

    /// Index of the offered checkpoint; 0 without one.
    pub(super) fn offered_index(&self) -> u64 {
        self.offered().map_or(0, |offered| offered.index.0)
    }

    pub(super) fn offered(&self) -> Option<SnapshotDescriptor> {
        self.peers.borrow().as_ref()?.offered.clone()
    }

    /// The read that is to be asked for, once.
    pub(crate) fn take_wanted(&mut self) -> Option<(LogIndex, LogIndex)> {
        let wanted = self.peers.get_mut().as_mut()?.wanted.as_mut()?;
        (!std::mem::replace(&mut wanted.asked, true)).then_some((wanted.first, wanted.last))
    }

    /// The library wants entries from `low` on that are in the files. One read at a time: others ask again when their peers
    /// answer the next heartbeat.
    pub(super) fn want(&self, low: u64, high: u64, context: GetEntriesContext) {
        let last = (high - 1)
            .min(self.cache_first - 1)
            .min(low + FETCH_ENTRIES - 1);
        let mut peers = self.peers.borrow_mut();
        peers.get_or_insert_default().wanted.get_or_insert(Wanted {
            context,
            first: LogIndex(low),
            last: LogIndex(last),
            asked: false,
        });
    }

    /// What was read for the library, which asks again in the given context.
    pub(crate) fn fetched(
        &mut self,
        first: LogIndex,
        entries: Vec<(Term, Bytes)>,
    ) -> Option<GetEntriesContext> {
        let peers = self.for_peers();
        let wanted = peers.wanted.take()?;
        if entries.is_empty() {
            return None;
        }
        let entries = entries
            .into_iter()
            .map(|(term, data)| Cached { term: term.0, data });
        peers.window = Some(Window {
            first: first.0,
            entries: entries.collect(),
        });
        Some(wanted.context)
    }

    pub(crate) fn forget_fetched(&mut self) {
        self.for_peers().window = None;
    }

    /// Of `low..high` what was read, if the first one was.
    pub(super) fn read_of(&self, low: u64, high: u64) -> Option<Vec<Cached>> {
        let peers = self.peers.borrow();
        let window = peers.as_ref()?.window.as_ref()?;
        let skip = usize::try_from(low.checked_sub(window.first)?).ok()?;
        let rest = window.entries.get(skip..).filter(|rest| !rest.is_empty())?;
        Some(rest.iter().take((high - low) as usize).cloned().collect())
    }
}
