//! The writer of L1: changes gathered into rounds, confirmed once every shard uses them (M38).

use std::collections::VecDeque;

use courser_contract::{IndexChange, IndexToken, PartitionId, ShardId};

/// Changes of one round.
pub(crate) type Round = Vec<(PartitionId, IndexChange)>;

/// Only shard 0 has it.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    used: Vec<u64>,
    last: u64,
    gathering: Vec<(PartitionId, IndexToken, IndexChange)>,
    open: VecDeque<(u64, Vec<(PartitionId, IndexToken)>)>,
}

impl IndexWriter {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            used: vec![0; usize::from(shards)],
            last: 0,
            gathering: Vec::new(),
            open: VecDeque::new(),
        }
    }

    pub(crate) fn add(&mut self, partition: PartitionId, token: IndexToken, change: IndexChange) {
        self.gathering.push((partition, token, change));
    }

    /// The next round, if something was gathered.
    pub(crate) fn publish(&mut self) -> Option<(u64, Round)> {
        if self.gathering.is_empty() {
            return None;
        }
        self.last += 1;
        let mut askers = Vec::new();
        let mut round = Vec::new();
        for (partition, token, change) in self.gathering.drain(..) {
            askers.push((partition, token));
            round.push((partition, change));
        }
        self.open.push_back((self.last, askers));
        Some((self.last, round))
    }

    /// A shard uses a round: the changes that all shards use now.
    pub(crate) fn used(&mut self, shard: ShardId, round: u64) -> Vec<(PartitionId, IndexToken)> {
        let used = &mut self.used[usize::from(shard.0)];
        *used = (*used).max(round);
        let all = self.used.iter().min().copied().unwrap_or_default();
        let mut confirmed = Vec::new();
        while self.open.front().is_some_and(|(round, _)| *round <= all) {
            confirmed.extend(
                self.open
                    .pop_front()
                    .into_iter()
                    .flat_map(|(_, askers)| askers),
            );
        }
        confirmed
    }
}
