//! The logs: what is proposed, what is committed.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};

use super::{Event, World, term_after};
use crate::shell::{Inbound, Places};

/// A partition is compared with its replay after so many entries, and after twice, four times as many: a replay is linear.
const REPLAY_FIRST: u64 = 32;

#[derive(Debug)]
struct Log {
    entries: Vec<Bytes>,
    pending: VecDeque<Bytes>,
    /// Raised when pending entries are lost: their commits are void.
    era: u64,
    last: u64,
    term: Term,
}

/// The logs of all partitions that have one.
#[derive(Debug)]
pub(crate) struct Store(BTreeMap<PartitionId, Log>);

impl Store {
    pub(super) fn new(places: &Places) -> Self {
        let logs = places.logged().map(|id| {
            let log = Log {
                entries: Vec::new(),
                pending: VecDeque::new(),
                era: 0,
                last: 0,
                term: Term(0),
            };
            (id, log)
        });
        Self(logs.collect())
    }

    fn log(&mut self, id: PartitionId) -> &mut Log {
        self.0
            .get_mut(&id)
            .expect("every partition with a log is listed")
    }

    pub(super) fn entries(&self, id: PartitionId) -> &[Bytes] {
        self.0.get(&id).map_or(&[], |log| &log.entries)
    }

    pub(super) fn next_term(&mut self, id: PartitionId) -> Term {
        let log = self.log(id);
        log.term = term_after(log.term);
        log.term
    }

    /// The process died: a part of what was proposed is in the log, the rest is not; nothing is on its way.
    pub(super) fn kill(&mut self, mut survive: impl FnMut(u64) -> u64, lose_committed: bool) {
        for log in self.0.values_mut() {
            let survivors = survive(log.pending.len() as u64 + 1) as usize;
            log.entries.extend(log.pending.drain(..survivors));
            log.pending.clear();
            log.era += 1;
            if lose_committed {
                log.entries.pop();
            }
        }
    }
}

impl World {
    /// What is committed of a partition, with its places.
    pub(super) fn committed_entries(&self, id: PartitionId) -> Vec<(LogIndex, Bytes)> {
        match &self.disk {
            Some(disk) => disk.committed_entries(id),
            None => (1..)
                .map(LogIndex)
                .zip(self.store.entries(id).iter().cloned())
                .collect(),
        }
    }

    /// Place of the last of them.
    pub(super) fn last_committed(&self, id: PartitionId) -> LogIndex {
        match &self.disk {
            Some(disk) => disk.last_committed(id),
            None => LogIndex(self.store.entries(id).len() as u64),
        }
    }

    /// Counts an entry that is handed to its partition, and compares the partition with its replay now and then.
    pub(super) fn hand_over(&mut self, id: PartitionId, at: LogIndex, entry: Bytes, count: u64) {
        self.counts.entries += 1;
        let shard = self.places.shard_of(id);
        self.inbound(shard, Inbound::Committed(id, at, entry));
        // The turn that takes it is at this moment or up to two milliseconds later.
        if count >= REPLAY_FIRST && count.is_power_of_two() {
            self.turn(shard);
            self.check_replay(id);
        }
    }

    pub(super) fn propose(&mut self, id: PartitionId, entry: Bytes) {
        if let Some(disk) = &mut self.disk {
            return disk.propose(id, entry);
        }
        let delay = self.rng.between(1, self.plan.commit_ms);
        let now = self.now;
        let log = self.store.log(id);
        log.pending.push_back(entry);
        log.last = log.last.max(now + delay);
        let (at, era) = (log.last, log.era);
        self.at(at, Event::Commit(id, era));
    }

    pub(super) fn commit(&mut self, id: PartitionId, era: u64) {
        let running = self.running;
        let log = self.store.log(id);
        if log.era != era || !running {
            return;
        }
        let Some(entry) = log.pending.pop_front() else {
            return;
        };
        log.entries.push(entry.clone());
        let count = log.entries.len() as u64;
        self.hand_over(id, LogIndex(count), entry, count);
    }

    /// A leader has stepped down: some of what it had proposed is committed all the same, the rest is lost.
    pub(super) fn deposed(&mut self, id: PartitionId) {
        let pending = self.store.log(id).pending.len() as u64;
        let survivors = self.rng.below(pending + 1) as usize;
        let log = self.store.log(id);
        log.pending.truncate(survivors);
        log.era += 1;
        let era = log.era;
        let at = self.now + 1;
        for _ in 0..survivors {
            self.at(at, Event::Commit(id, era));
        }
        let back = self.now + self.rng.between(400, 2_000);
        self.note(format_args!(
            "partition {} lost its leader, {survivors} of {pending} survive",
            id.0
        ));
        self.last_fault = back;
        self.at(back, Event::Elect(self.life, id));
    }
}
