//! What a node's disk holds for sure, by the rules of records: an entry replaces all from its index on.

use std::collections::BTreeMap;

use bytes::Bytes;
use courser_cluster::Restored;
use courser_contract::{LogIndex, Term};
use courser_log::{HardState, Record, RecoveredEntry};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    hard_state: HardState,
    pub(crate) snapshot: (LogIndex, Term),
    pub(crate) entries: BTreeMap<LogIndex, (Term, Bytes)>,
}

impl Default for Durable {
    fn default() -> Self {
        let nothing = Restored::nothing();
        Self {
            hard_state: nothing.hard_state,
            snapshot: nothing.snapshot,
            entries: BTreeMap::new(),
        }
    }
}

impl Durable {
    pub(crate) fn apply(&mut self, record: Record) {
        match record {
            Record::Entry {
                term, index, data, ..
            } => {
                self.entries.split_off(&index);
                self.entries.insert(index, (term, data));
            }
            Record::HardState {
                term, vote, commit, ..
            } => {
                self.hard_state = HardState { term, vote, commit };
            }
            Record::Kept { .. } | Record::Cleaned { .. } => panic!("a group cleans nothing"),
        }
    }

    /// A checkpoint that takes the place of the log.
    pub(crate) fn replace(&mut self, index: LogIndex, term: Term) {
        self.snapshot = (index, term);
        self.entries.clear();
    }

    /// A checkpoint of the node's own state: entries up to it go.
    pub(crate) fn checkpoint(&mut self, index: LogIndex, term: Term) {
        self.snapshot = (index, term);
        self.entries = self.entries.split_off(&LogIndex(index.0 + 1));
    }

    /// Whether an entry is held, itself or in the checkpoint.
    pub(crate) fn holds(&self, index: LogIndex, term: Term) -> bool {
        index <= self.snapshot.0
            || self
                .entries
                .get(&index)
                .is_some_and(|found| found.0 == term)
    }

    pub(crate) fn restored(&self) -> Restored {
        Restored {
            hard_state: self.hard_state,
            snapshot: self.snapshot,
            entries: self
                .entries
                .iter()
                .map(|(&index, (term, data))| RecoveredEntry {
                    index,
                    term: *term,
                    data: data.clone(),
                })
                .collect(),
        }
    }
}
