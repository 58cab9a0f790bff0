//! What is looked at from outside while a world lives: owners of client ids, what is held against its limits, and partitions
//! against their replays.

use std::collections::BTreeMap;

use courser_contract::{PartitionId, ShardId};
use courser_engine::Partition;

use super::World;
use crate::shell::Shard;

impl World {
    /// I8: a client id has at most one attached front.
    pub(super) fn check_owners(&mut self) {
        let mut owners = BTreeMap::new();
        let mut twice = None;
        for (conn, client_id) in self.shards.iter().flat_map(Shard::attached) {
            if let Some(other) = owners.insert(client_id, conn) {
                twice = Some(format!(
                    "I8: {client_id} is attached on connections {other} and {conn}"
                ));
            }
        }
        if let Some(text) = twice {
            self.oracle.fail(text);
        }
    }

    /// I9: nothing that a shard holds is above its limit.
    pub(super) fn check_bounds(&mut self, shard: ShardId) {
        let shard = &mut self.shards[usize::from(shard.0)];
        if let Some(text) = shard.above_limits(&self.plan.limits, self.plan.output_bytes_max) {
            self.oracle.fail(text);
        }
    }

    /// What partitions assert of themselves: one of the shard's after each of its turns, since it looks at all that is stored.
    pub(super) fn check_partition(&mut self, shard: ShardId) {
        self.counts.turns += 1;
        let shard = &self.shards[usize::from(shard.0)];
        let partitions = shard.partitions().count() as u64;
        let at = self.counts.turns.checked_rem(partitions);
        let next = at.and_then(|at| shard.partitions().nth(at as usize));
        if let Some((_, partition)) = next {
            partition.check();
        }
    }

    /// The partition as its log says, compared with the one that lives: byte for byte.
    pub(crate) fn check_replay(&mut self, id: PartitionId) {
        let shard = &self.shards[usize::from(self.places.shard_of(id).0)];
        let Some(live) = shard.partition(id) else {
            return;
        };
        live.check();
        // Entries on their way to it are in the log already.
        if id.is_volatile() || live.applied() < self.last_committed(id) {
            return;
        }
        self.counts.replays += 1;
        let config = self.places.config(id, &self.plan.limits);
        let replayed = Partition::replay(config, self.committed_entries(id));
        // What is lost has no length any more.
        if !live.has_lost() && replayed.encode_state() != live.encode_state() {
            self.oracle.fail(format!(
                "M9/M42: partition {} differs from its replay",
                id.0
            ));
        }
    }

    /// Every partition.
    pub(crate) fn check_replays(&mut self) {
        let ids: Vec<_> = self
            .shards
            .iter()
            .flat_map(Shard::partitions)
            .map(|(id, _)| id)
            .collect();
        for id in ids {
            self.check_replay(id);
        }
    }
}
