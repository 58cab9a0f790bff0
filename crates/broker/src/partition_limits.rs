//! Limits of a shard's partitions: alike for all, but for what the node keeps retained, which is shared out among those that keep it.
//!
//! The shares add up to the limit, so a node never keeps more than it may. A limit below the number of partitions
//! leaves some of them without a share: the topics of those are refused.

use courser_contract::PartitionId;
use courser_engine::{Limits, Overflow};

use crate::classes::KEEPER;
use crate::slots::Places;

/// The partitions that keep what clients retain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keepers {
    /// The last one with a log: all from 1 on keep some.
    pub(crate) last_logged: u16,
    /// Whether the one without a log does: where a class says so. The broker's own values are there in any case and count for no limit.
    pub(crate) volatile: bool,
}

impl Keepers {
    /// How many there are.
    fn count(self) -> u64 {
        u64::from(self.last_logged) + u64::from(self.volatile)
    }

    /// The place of a partition among them; none: it keeps nothing of clients.
    fn place(self, id: PartitionId) -> Option<u64> {
        match id {
            KEEPER => self.volatile.then_some(u64::from(self.last_logged)),
            id if id.is_volatile() => None,
            PartitionId(number) => number.checked_sub(1).map(u64::from),
        }
    }

    /// What of `all` is for a partition: the same for each, and of the rest one more for the first ones.
    fn share(self, id: PartitionId, all: u64) -> u64 {
        let count = self.count();
        self.place(id)
            .map_or(0, |place| all / count + u64::from(place < all % count))
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct PartitionLimits {
    /// What is retained here is the node's.
    node: Limits,
    keepers: Keepers,
}

impl PartitionLimits {
    /// Of these, in which what is retained is the node's.
    pub(crate) const fn new(node: Limits, keepers: Keepers) -> Self {
        Self { node, keepers }
    }

    /// Those of a node that nobody has given any.
    pub(crate) fn ordinary(places: &Places) -> Self {
        let keepers = Keepers {
            last_logged: places.last_logged(),
            volatile: false,
        };
        Self::new(Limits::default(), keepers)
    }

    /// Those of a partition.
    pub(crate) fn of(&self, id: PartitionId) -> Limits {
        let Limits {
            retained_messages_max,
            retained_bytes_max,
            ..
        } = self.node;
        let messages = self.keepers.share(id, retained_messages_max.into());
        Limits {
            // A share is no more than the whole.
            retained_messages_max: u32::try_from(messages).unwrap_or(retained_messages_max),
            retained_bytes_max: self.keepers.share(id, retained_bytes_max),
            ..self.node.clone()
        }
    }

    /// What happens to messages beyond the limits, in all of them.
    pub(crate) const fn overflow(&self) -> Overflow {
        self.node.overflow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use courser_contract::ShardId;

    fn shares(last_logged: u16, volatile: bool, all: u32) -> Vec<u32> {
        let node = Limits {
            retained_messages_max: all,
            retained_bytes_max: u64::from(all) * 1_000,
            ..Limits::default()
        };
        let keepers = Keepers {
            last_logged,
            volatile,
        };
        let limits = PartitionLimits::new(node, keepers);
        let others = (0..3).map(ShardId).map(PartitionId::volatile_of);
        let partitions = (1..=last_logged).map(PartitionId).chain(others);
        let own: Vec<_> = partitions.map(|id| limits.of(id)).collect();
        let bytes: u64 = own.iter().map(|it| it.retained_bytes_max).sum();
        assert_eq!(bytes, u64::from(all) * 1_000, "{all} of {last_logged}");
        own.iter().map(|it| it.retained_messages_max).collect()
    }

    #[test]
    fn i9_the_shares_of_what_is_retained_add_up_to_the_limit() {
        for all in [0, 1, 5, 10, 15, 16, 17, 64, 1_000_000, u32::MAX] {
            for (last_logged, volatile) in [(1, false), (16, false), (16, true), (32, true)] {
                let shares = shares(last_logged, volatile, all);
                let sum: u64 = shares.iter().copied().map(u64::from).sum();
                assert_eq!(sum, u64::from(all), "{last_logged}, {volatile}");
                let of_keepers = &shares[..usize::from(last_logged) + usize::from(volatile)];
                let (least, most) = (of_keepers.iter().min(), of_keepers.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{of_keepers:?}");
            }
        }
    }

    #[test]
    fn what_has_no_log_keeps_some_only_where_a_class_says_so() {
        let logged = [vec![1; 10], vec![0; 6]].concat();
        assert_eq!(shares(16, false, 10), [logged, vec![0; 3]].concat());
        assert_eq!(shares(16, true, 17), [vec![1; 17], vec![0; 2]].concat());
    }
}
