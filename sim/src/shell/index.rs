//! The writer of L1: changes gathered into rounds, confirmed once every shard uses them (M38).

use courser_contract::{IndexChange, IndexToken, PartitionId, ShardId};
use courser_shard::{RoundId, Rounds};

/// Changes of one round.
pub(crate) type Round = Vec<(PartitionId, IndexChange)>;

/// Only shard 0 has it.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    rounds: Rounds,
    gathering: Round,
}

impl IndexWriter {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            rounds: Rounds::new(shards),
            gathering: Round::new(),
        }
    }

    pub(crate) fn add(&mut self, partition: PartitionId, token: IndexToken, change: IndexChange) {
        self.rounds.add(partition, token);
        self.gathering.push((partition, change));
    }

    /// The next round, if something was gathered.
    pub(crate) fn publish(&mut self) -> Option<(RoundId, Round)> {
        if !self.rounds.has_changes() {
            return None;
        }
        Some((self.rounds.publish(), std::mem::take(&mut self.gathering)))
    }

    /// A shard uses a round: the changes that all shards use now.
    pub(crate) fn used(
        &mut self,
        shard: ShardId,
        round: RoundId,
    ) -> Vec<(PartitionId, IndexToken)> {
        let mut confirmed = Vec::new();
        self.rounds.used(shard, round, |partition, token| {
            confirmed.push((partition, token));
        });
        confirmed
    }
}
