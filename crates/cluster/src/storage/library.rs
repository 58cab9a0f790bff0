//! The questions of the library.

use raft::eraftpb::{Entry, HardState, Snapshot};
use raft::{Error, GetEntriesContext, RaftState, Result, Storage, StorageError};

use super::{Cached, GroupStorage};

/// Entries as the library wants them: at least one, and no more than fit.
fn gather<'a>(low: u64, entries: impl Iterator<Item = &'a Cached>, most: u64) -> Vec<Entry> {
    let mut size = 0_u64;
    let fitting = entries.zip(low..).take_while(|(entry, index)| {
        size += entry.data.len() as u64;
        size <= most || *index == low
    });
    let made = fitting.map(|(cached, index)| Entry {
        index,
        term: cached.term,
        data: cached.data.clone(),
        ..Entry::default()
    });
    made.collect()
}

impl Storage for GroupStorage {
    fn initial_state(&self) -> Result<RaftState> {
        let hard_state = HardState {
            term: self.hard_state.term.0,
            vote: self.hard_state.vote,
            commit: self.hard_state.commit.0,
            ..HardState::default()
        };
        Ok(RaftState::new(hard_state, self.members()))
    }

    fn entries(
        &self,
        low: u64,
        high: u64,
        max_size: impl Into<Option<u64>>,
        context: GetEntriesContext,
    ) -> Result<Vec<Entry>> {
        let most = max_size.into().unwrap_or(u64::MAX);
        if low <= self.floor {
            return Err(Error::Store(StorageError::Compacted));
        }
        if low >= self.cache_first {
            let first = (low - self.cache_first) as usize;
            let last = (high - self.cache_first) as usize;
            return Ok(gather(low, self.cache.range(first..last), most));
        }
        if let Some(entries) = self.read_of(low, high) {
            return Ok(gather(low, entries.iter(), most));
        }
        assert!(context.can_async(), "what is read at once is in memory");
        self.want(low, high, context);
        Err(Error::Store(StorageError::LogTemporarilyUnavailable))
    }

    fn term(&self, index: u64) -> Result<u64> {
        if index < self.floor {
            return Err(Error::Store(StorageError::Compacted));
        }
        if index > self.last {
            return Err(Error::Store(StorageError::Unavailable));
        }
        let run = self.terms.partition_point(|&(begin, _)| begin <= index) - 1;
        Ok(self.terms[run].1)
    }

    fn first_index(&self) -> Result<u64> {
        Ok(self.floor + 1)
    }

    fn last_index(&self) -> Result<u64> {
        Ok(self.last)
    }

    fn snapshot(&self, request_index: u64, _to: u64) -> Result<Snapshot> {
        let needed = request_index.max(self.floor);
        let Some(offered) = self.offered().filter(|offered| offered.index.0 >= needed) else {
            return Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
        };
        let mut snapshot = Snapshot {
            data: offered.data(),
            ..Snapshot::default()
        };
        let metadata = snapshot.mut_metadata();
        metadata.index = offered.index.0;
        metadata.term = offered.term.0;
        metadata.set_conf_state(self.members());
        Ok(snapshot)
    }
}
