//! From names to places (M2): name → slot → partition → shard.
//!
//! The hash is stored for ever: changing it would lose every session and retained message, so it is documented to be stable
//! (rapidhash v3, its fixed default seed) and a test pins its values.

use courser_contract::{PartitionId, ShardId};
use rapidhash::v3::rapidhash_v3;

/// Number of slots, fixed for ever.
pub(crate) const SLOTS: u16 = 4096;

/// What kind of name is hashed: the same text of two kinds has two places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A client id.
    Session,
    /// A topic, for its retained message.
    Topic,
    /// A shared group: share name, 0x00, filter.
    Group,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Session => b's',
            Self::Topic => b't',
            Self::Group => b'g',
        }
    }
}

/// Slot of a name given in parts, below [`SLOTS`]. No allocation up to 256 bytes.
#[must_use]
pub(crate) fn slot(kind: Kind, parts: &[&str]) -> u16 {
    let mut bytes: smallvec::SmallVec<[u8; 256]> = smallvec::smallvec![kind.byte()];
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            bytes.push(0);
        }
        bytes.extend_from_slice(part.as_bytes());
    }
    (rapidhash_v3(&bytes) % u64::from(SLOTS)) as u16
}

/// Whether a topic is for the broker's own values: clients may read but not write it.
#[inline]
#[must_use]
pub(crate) fn is_own_topic(topic: &str) -> bool {
    topic.as_bytes().first() == Some(&b'$') && topic.starts_with(SYS)
}

/// Which partitions there are and on which shard each is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Durable partitions besides partition 0.
    partitions: u16,
    shards: u16,
}

/// Filters and topics of the broker's own values live in the volatile partition of the first shard.
const SYS: &str = "$SYS/";

impl Places {
    /// A map for `partitions` durable partitions (besides partition 0) on `shards` shards.
    ///
    /// # Panics
    /// When one of them is 0.
    #[must_use]
    pub(crate) fn new(partitions: u16, shards: u16) -> Self {
        assert!(partitions > 0, "names need a partition");
        assert!(shards > 0, "partitions need a shard");
        Self { partitions, shards }
    }

    /// Number of shards.
    #[must_use]
    pub(crate) const fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard that owns a partition.
    #[must_use]
    pub(crate) const fn shard_of(&self, partition: PartitionId) -> ShardId {
        match partition.volatile_shard() {
            Some(shard) => shard,
            None => ShardId(partition.0 % self.shards),
        }
    }

    /// Place of a partition among those of its shard: the volatile one first, then by number.
    #[inline]
    #[must_use]
    pub(crate) fn on_shard(&self, partition: PartitionId) -> usize {
        if partition.is_volatile() {
            return 0;
        }
        // Of shard 0 the first durable one is number `shards`, of shard s > 0 it is s: partition 0 is nobody's.
        usize::from(partition.0.div_ceil(self.shards))
    }

    /// The durable partitions with names, in order; partition 0 is not one of them.
    pub(crate) fn durable(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (1..=self.partitions).map(PartitionId)
    }

    /// The partition of a client id's slot (M23).
    #[must_use]
    pub(crate) fn session(&self, client_id: &str) -> PartitionId {
        self.partition(slot(Kind::Session, &[client_id]))
    }

    /// The partition that keeps a topic's retained message (M33).
    #[must_use]
    pub(crate) fn retained(&self, topic: &str) -> PartitionId {
        if is_own_topic(topic) {
            return PartitionId::volatile_of(ShardId(0));
        }
        self.partition(slot(Kind::Topic, &[topic]))
    }

    /// All partitions that keep retained messages.
    pub(crate) fn retained_all(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.durable().chain([PartitionId::volatile_of(ShardId(0))])
    }

    /// The partition of a shared group (M35, M36): that of its slot, or the volatile one of the shard that leads the slot.
    #[must_use]
    pub(crate) fn group(&self, share: &str, filter: &str, volatile: bool) -> PartitionId {
        let durable = self.partition(slot(Kind::Group, &[share, filter]));
        if volatile {
            PartitionId::volatile_of(self.shard_of(durable))
        } else {
            durable
        }
    }

    /// Slots in a row go to partitions in turn.
    const fn partition(&self, slot: u16) -> PartitionId {
        PartitionId(1 + slot % self.partitions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// M2: places are stored; these values may never change.
    #[test]
    fn m2_slots_are_pinned() {
        let slots = [
            slot(Kind::Session, &["client-1"]),
            slot(Kind::Topic, &["client-1"]),
            slot(Kind::Group, &["share", "a/+/b"]),
            slot(Kind::Session, &[""]),
        ];
        assert_eq!(slots, PINNED);
    }
    const PINNED: [u16; 4] = [4023, 3699, 3217, 2164];

    #[test]
    fn m2_every_partition_is_used_and_belongs_to_its_number_mod_shards() {
        let places = Places::new(16, 3);
        let mut used = [0_u32; 17];
        for client in 0..10_000 {
            let partition = places.session(&format!("client-{client}"));
            used[usize::from(partition.0)] += 1;
            assert_eq!(places.shard_of(partition), ShardId(partition.0 % 3));
        }
        assert_eq!(used[0], 0, "partition 0 holds metadata only");
        assert!(
            used[1..].iter().all(|&used| (400..900).contains(&used)),
            "{used:?}"
        );
    }

    #[test]
    fn m36_a_volatile_group_is_on_the_shard_that_leads_its_slot() {
        let places = Places::new(16, 2);
        for filter in ["a", "b/#", "+/c", "d/e/f"] {
            let durable = places.group("g", filter, false);
            let volatile = places.group("g", filter, true);
            assert!(!durable.is_volatile() && volatile.is_volatile());
            assert_eq!(places.shard_of(durable), places.shard_of(volatile));
        }
        assert_ne!(
            slot(Kind::Group, &["a", "bc"]),
            slot(Kind::Group, &["ab", "c"])
        );
    }

    #[test]
    fn values_of_the_broker_itself_stay_on_the_first_shard() {
        let places = Places::new(16, 2);
        assert_eq!(
            places.retained("$SYS/broker/uptime"),
            PartitionId::volatile_of(ShardId(0))
        );
        assert!(!places.retained("SYS/broker/uptime").is_volatile());
        assert_eq!(places.retained_all().count(), 17);
    }
}
