//! From names to places (M2): name → slot → partition → shard.
//!
//! The hash is stored for ever: changing it would lose every session and retained message, so it is documented to be stable
//! (rapidhash v3, its fixed default seed) and a test pins its values.

use courser_contract::{Class, PartitionId, ShardId};
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

/// Which partitions there are and on which shard each is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Durable partitions besides partition 0.
    partitions: u16,
    shards: u16,
    /// Whether each of them has a relaxed one beside it.
    relaxed: Relaxed,
}

/// Whether a node has relaxed partitions: one beside each durable one. Once made they stay, since something may be in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Relaxed {
    /// No class has asked for them yet.
    #[default]
    None,
    /// They are there.
    Made,
}

impl Places {
    /// A map for `partitions` durable partitions (besides partition 0) on `shards` shards.
    ///
    /// # Panics
    /// When one of them is 0.
    #[must_use]
    pub(crate) fn new(partitions: u16, shards: u16, relaxed: Relaxed) -> Self {
        assert!(partitions > 0, "names need a partition");
        assert!(shards > 0, "partitions need a shard");
        Self {
            partitions,
            shards,
            relaxed,
        }
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
        // Of shard 0 the first one with a log is number `shards`, of shard s > 0 it is s; partition 0 is at `METADATA_PLACE`.
        usize::from(partition.0.div_ceil(self.shards))
    }

    /// The partition of what is not messages: users, roles, limits (M2).
    pub(crate) const METADATA: PartitionId = PartitionId(0);

    /// Its place on its shard, the first one: that of the volatile partition, which has no log, so that every place has at most one
    /// partition with a log.
    pub(crate) const METADATA_PLACE: usize = 0;

    /// All partitions with a log, in order: partition 0, then those with names.
    pub(crate) fn kept(&self) -> impl Iterator<Item = PartitionId> + use<> {
        [Self::METADATA].into_iter().chain(self.logged())
    }

    /// The number of the last partition with a log.
    #[must_use]
    pub(crate) const fn last_logged(&self) -> u16 {
        match self.relaxed {
            Relaxed::None => self.partitions,
            Relaxed::Made => 2 * self.partitions,
        }
    }

    /// Whether there are relaxed partitions.
    #[must_use]
    pub(crate) fn has_relaxed(&self) -> bool {
        self.relaxed == Relaxed::Made
    }

    /// The partitions with a log and with names, in order: the durable ones, then the relaxed ones. Partition 0 is none of them.
    pub(crate) fn logged(&self) -> impl Iterator<Item = PartitionId> + use<> {
        (1..=self.last_logged()).map(PartitionId)
    }

    /// The class of a partition (M1).
    #[must_use]
    pub(crate) const fn class_of(&self, partition: PartitionId) -> Class {
        if partition.is_volatile() {
            Class::Volatile
        } else if partition.0 > self.partitions {
            Class::Relaxed
        } else {
            Class::Durable
        }
    }

    /// The partition of a slot in a class (M2). Without relaxed partitions what asks for one gets the durable one, which
    /// promises more.
    #[must_use]
    pub(crate) const fn partition(&self, slot: u16, class: Class) -> PartitionId {
        // Slots in a row go to partitions in turn.
        let durable = PartitionId(1 + slot % self.partitions);
        match (class, self.relaxed) {
            (Class::Durable, Relaxed::None | Relaxed::Made) | (Class::Relaxed, Relaxed::None) => {
                durable
            }
            (Class::Relaxed, Relaxed::Made) => PartitionId(durable.0 + self.partitions),
            (Class::Volatile, Relaxed::None | Relaxed::Made) => {
                PartitionId::volatile_of(self.shard_of(durable))
            }
        }
    }

    /// The partition of a shared group's slot (M35): durable, whatever the classes of its members. A volatile part of it is on the
    /// same shard (M36).
    #[must_use]
    pub(crate) fn group(&self, share: &str, filter: &str) -> PartitionId {
        self.partition(slot(Kind::Group, &[share, filter]), Class::Durable)
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
        let places = Places::new(16, 3, Relaxed::None);
        let mut used = [0_u32; 17];
        for client in 0..10_000 {
            let slot = slot(Kind::Session, &[&format!("client-{client}")]);
            let partition = places.partition(slot, Class::Durable);
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
    fn m35_a_group_is_placed_by_both_of_its_names() {
        let places = Places::new(16, 2, Relaxed::Made);
        assert_eq!(places.class_of(places.group("g", "a")), Class::Durable);
        assert_ne!(
            slot(Kind::Group, &["a", "bc"]),
            slot(Kind::Group, &["ab", "c"])
        );
    }

    #[test]
    fn m2_a_slot_has_one_partition_of_each_class() {
        let places = Places::new(16, 3, Relaxed::Made);
        let mut of = std::collections::BTreeSet::new();
        for slot in 0..SLOTS {
            for class in [Class::Durable, Class::Relaxed, Class::Volatile] {
                let partition = places.partition(slot, class);
                assert_eq!(places.class_of(partition), class);
                of.insert(partition);
            }
            let none = Places::new(16, 3, Relaxed::None);
            assert_eq!(
                none.partition(slot, Class::Relaxed),
                places.partition(slot, Class::Durable),
                "what promises more"
            );
        }
        assert_eq!(of.len(), 16 + 16 + 3, "all are used");
        let logged: Vec<_> = of.into_iter().filter(|id| !id.is_volatile()).collect();
        assert!(places.logged().eq(logged));
    }
}
