//! What is known of a partition outside of the node.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use courser_cluster::Role;
use courser_contract::{LogIndex, Term};
use courser_engine::left_of_skipped;
use courser_log::{PartitionDamage, Record, RecoveredEntry, RecoveredPartition};

/// An entry that was handed to its partition.
#[derive(Clone, Debug)]
struct Committed {
    term: Term,
    entry: Bytes,
    /// When that was.
    at: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Truth {
    /// What was handed to the partition, in order.
    committed: BTreeMap<LogIndex, Committed>,
    /// Entries that the operator has ordered not to be applied.
    skipped: BTreeSet<LogIndex>,
    /// What went to the disk, by place and term.
    written: BTreeMap<(LogIndex, Term), Bytes>,
    /// The newest term that was led, and since when.
    led: (u64, u64),
    /// Whom this node voted for, by term.
    votes: BTreeMap<u64, u64>,
}

impl Truth {
    pub(super) fn written(&mut self, record: &Record) {
        match record {
            Record::Entry {
                term, index, data, ..
            } => {
                self.written.insert((*index, *term), data.clone());
            }
            Record::HardState { term, vote, .. } => {
                self.votes.insert(term.0, *vote);
            }
            Record::Kept { .. } | Record::Cleaned { .. } => {}
        }
    }

    /// An entry is committed; twice only after a restart, and then the same.
    pub(super) fn committed(
        &mut self,
        index: LogIndex,
        term: Term,
        entry: &Bytes,
        at: u64,
    ) -> Result<(), String> {
        let known = self.committed.entry(index).or_insert_with(|| Committed {
            term,
            entry: entry.clone(),
            at,
        });
        if (known.term, &known.entry) != (term, entry) {
            return Err(format!("I6: two entries are committed at {}", index.0));
        }
        Ok(())
    }

    pub(super) fn led(&mut self, role: Role, at: u64) {
        match role {
            Role::Leader(term) if term.0 > self.led.0 => self.led = (term.0, at),
            Role::Leader(_) | Role::Follower => {}
        }
    }

    /// An entry is not applied any more.
    pub(super) fn skip(&mut self, index: LogIndex) {
        self.skipped.insert(index);
    }

    /// Of what was found, what is to be applied.
    pub(super) fn applied_of(&self, entries: &[RecoveredEntry]) -> Vec<RecoveredEntry> {
        let applied = entries.iter().map(|entry| RecoveredEntry {
            data: self.applied(entry.index, &entry.data),
            ..entry.clone()
        });
        applied.collect()
    }

    /// What of an entry is to be applied.
    fn applied(&self, index: LogIndex, entry: &Bytes) -> Bytes {
        match self.skipped.contains(&index) {
            true => left_of_skipped(entry).unwrap_or_default(),
            false => entry.clone(),
        }
    }

    /// What is to be applied.
    pub(super) fn committed_entries(&self) -> Vec<(LogIndex, Bytes)> {
        self.committed_to(LogIndex(u64::MAX))
    }

    /// Those up to an index.
    pub(super) fn committed_to(&self, index: LogIndex) -> Vec<(LogIndex, Bytes)> {
        let upto = self.committed.range(..=index);
        upto.map(|(index, it)| (*index, self.applied(*index, &it.entry)))
            .collect()
    }

    /// The entry that was committed at an index, if it says something.
    pub(super) fn committed_at(&self, index: LogIndex) -> Option<Bytes> {
        let entry = self.committed.get(&index).map(|it| it.entry.clone());
        entry.filter(|entry| !entry.is_empty())
    }

    /// How many they are.
    pub(super) fn count(&self) -> u64 {
        self.committed.len() as u64
    }

    pub(super) fn last_committed(&self) -> LogIndex {
        self.committed
            .last_key_value()
            .map_or(LogIndex(0), |(index, _)| *index)
    }

    /// A start has found no more of a relaxed partition than this: what was behind it is gone. When the first of it was committed.
    pub(super) fn forget_behind(&mut self, found: Option<&RecoveredPartition>) -> Option<u64> {
        let checkpoint = found.and_then(|found| found.checkpoint).map(|at| at.index);
        let last = found.and_then(|found| found.entries.last());
        let last = last.map(|entry| entry.index).max(checkpoint);
        let gone = self
            .committed
            .split_off(&last.unwrap_or(LogIndex(0)).next());
        gone.values().map(|it| it.at).min()
    }

    /// Holds what a recovery found against what is known. `damage` is what it says itself is wrong.
    pub(super) fn compare(
        &self,
        found: Option<&RecoveredPartition>,
        damage: Option<PartitionDamage>,
        (may_rot, may_lose): (MayRot, MayLose),
    ) -> Result<(), String> {
        if let Some(damage) = damage {
            return match may_rot {
                MayRot::Yes | MayRot::Unproven => self.is_nothing_made_up(found),
                MayRot::No => Err(format!("I7: damage where nothing rotted: {damage:?}")),
            };
        }
        self.is_nothing_made_up(found)?;
        match may_rot {
            MayRot::Yes | MayRot::No => self.is_nothing_gone(found, may_lose),
            MayRot::Unproven => Ok(()),
        }
    }

    /// I5: what is there was written.
    fn is_nothing_made_up(&self, found: Option<&RecoveredPartition>) -> Result<(), String> {
        for entry in found.iter().flat_map(|found| &found.entries) {
            let written = self.written.get(&(entry.index, entry.term));
            if written != Some(&entry.data) {
                return Err(format!(
                    "I5: entry {} of term {} is not what was written there",
                    entry.index.0, entry.term.0
                ));
            }
        }
        Ok(())
    }

    /// I1: what was committed is there, and I6: so is the newest term.
    fn is_nothing_gone(
        &self,
        found: Option<&RecoveredPartition>,
        may_lose: MayLose,
    ) -> Result<(), String> {
        let checkpoint = found
            .and_then(|found| found.checkpoint)
            .map_or(LogIndex(0), |at| at.index);
        let entries: BTreeMap<LogIndex, &Bytes> = found
            .iter()
            .flat_map(|found| &found.entries)
            .map(|entry| (entry.index, &entry.data))
            .collect();
        let above = self.committed.range(LogIndex(checkpoint.0 + 1)..);
        for (index, Committed { entry, at, .. }) in above {
            if entries.get(index) == Some(&entry) {
                continue;
            }
            match may_lose {
                MayLose::Since(since) | MayLose::Behind(since) if *at >= since => break,
                MayLose::Since(_) | MayLose::Behind(_) | MayLose::Nothing => {}
            }
            return Err(format!(
                "I1: entry {} that was committed at {at} is gone after a restart",
                index.0
            ));
        }
        let state = found.map_or_else(Default::default, |found| found.hard_state);
        let (term, vote) = (state.term.0, state.vote);
        let (led, since) = self.led;
        let is_behind = matches!(may_lose, MayLose::Behind(cut) if since >= cut);
        if term < led && !is_behind {
            return Err(format!("I6: term {term} after a restart, {led} was led"));
        }
        // A vote of a term that was led was durable.
        if term == led && self.votes.get(&term).is_some_and(|given| *given != vote) {
            return Err(format!(
                "I6: the vote of term {term} is {vote} after a restart"
            ));
        }
        Ok(())
    }
}

/// What of the end of a log may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayLose {
    Nothing,
    /// Of a relaxed partition, by a loss of power: what was committed since then (M1).
    Since(u64),
    /// Of a copy: all that came after its cut, a term that a start with no room for it has led since then too.
    Behind(u64),
}

/// Whether something may be wrong with a disk that was written rightly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MayRot {
    Yes,
    /// Where nothing says that it was synced: rot looks like a torn end.
    Unproven,
    No,
}
