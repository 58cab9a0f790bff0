//! From names to partitions and shards (M2), with the broker's hash.

use courser_contract::{Class, Destinations, PartitionId, ShardId};
use courser_engine::{Limits, PartitionConfig};
use rapidhash::v3::rapidhash_v3;

/// Whether a node has relaxed partitions: one beside each durable one (M1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relaxed {
    None,
    Made,
}

/// Which partitions there are and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Durable partitions besides partition 0. Relaxed ones have numbers that are higher by as many.
    pub(crate) partitions: u16,
    pub(crate) shards: u16,
    pub(crate) relaxed: Relaxed,
}

/// The class of a client's sessions: the first letter of its id says it, as a filter of `[[class]]` would.
pub(crate) fn class_of_client(client_id: &str) -> Class {
    match client_id.as_bytes().first() {
        Some(b'r') => Class::Relaxed,
        Some(b'v') => Class::Volatile,
        Some(_) | None => Class::Durable,
    }
}

impl Places {
    pub(crate) const fn shard_of(&self, partition: PartitionId) -> ShardId {
        match partition.volatile_shard() {
            Some(shard) => shard,
            None => ShardId(partition.0 % self.shards),
        }
    }

    pub(crate) const fn class_of(&self, partition: PartitionId) -> Class {
        if partition.is_volatile() {
            Class::Volatile
        } else if partition.0 > self.partitions {
            Class::Relaxed
        } else {
            Class::Durable
        }
    }

    /// How a partition of the simulator is configured; a volatile one is also told of its node's start.
    pub(crate) fn config(&self, id: PartitionId, limits: &Limits) -> PartitionConfig {
        PartitionConfig {
            limits: limits.clone(),
            ..PartitionConfig::new(id, self.class_of(id))
        }
    }

    /// Number of partitions with a log.
    pub(crate) const fn logs(&self) -> u16 {
        match self.relaxed {
            Relaxed::None => self.partitions,
            Relaxed::Made => 2 * self.partitions,
        }
    }

    /// Partitions with a log.
    pub(crate) fn logged(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (1..=self.logs()).map(PartitionId)
    }

    pub(crate) fn session(&self, client_id: &str) -> PartitionId {
        let durable = self.of('s', client_id);
        match class_of_client(client_id) {
            Class::Durable => durable,
            Class::Relaxed => PartitionId(durable.0 + self.partitions),
            Class::Volatile => PartitionId::volatile_of(self.shard_of(durable)),
        }
    }

    pub(crate) fn retained(&self, topic: &str) -> PartitionId {
        self.of('t', topic)
    }

    /// Retained messages are kept by the class of their topic, too: any partition with a log may have some.
    pub(crate) fn retained_all(&self) -> Destinations {
        self.logged().collect()
    }

    pub(crate) fn group(&self, share: &str, filter: &str) -> PartitionId {
        self.of('g', &format!("{share}\0{filter}"))
    }

    fn of(&self, kind: char, name: &str) -> PartitionId {
        let slot = rapidhash_v3(format!("{kind}{name}").as_bytes()) % 4096;
        PartitionId(1 + (slot % u64::from(self.partitions)) as u16)
    }
}
