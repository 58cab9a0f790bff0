//! From names to partitions and shards (M2), with the broker's hash.

use courser_contract::{Destinations, PartitionId, ShardId};
use rapidhash::v3::rapidhash_v3;

/// Which partitions there are and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Durable partitions besides partition 0.
    pub(crate) partitions: u16,
    pub(crate) shards: u16,
}

impl Places {
    pub(crate) const fn shard_of(&self, partition: PartitionId) -> ShardId {
        match partition.volatile_shard() {
            Some(shard) => shard,
            None => ShardId(partition.0 % self.shards),
        }
    }

    pub(crate) fn durable(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (1..=self.partitions).map(PartitionId)
    }

    pub(crate) fn session(&self, client_id: &str) -> PartitionId {
        self.of('s', client_id)
    }

    pub(crate) fn retained(&self, topic: &str) -> PartitionId {
        self.of('t', topic)
    }

    pub(crate) fn retained_all(&self) -> Destinations {
        self.durable().collect()
    }

    pub(crate) fn group(&self, share: &str, filter: &str) -> PartitionId {
        self.of('g', &format!("{share}\0{filter}"))
    }

    fn of(&self, kind: char, name: &str) -> PartitionId {
        let slot = rapidhash_v3(format!("{kind}{name}").as_bytes()) % 4096;
        PartitionId(1 + (slot % u64::from(self.partitions)) as u16)
    }
}
