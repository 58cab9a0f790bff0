//! Election timeouts that a seed decides.
//!
//! The library draws them from a generator of the thread. A run of the simulator must depend on its seed alone, so after
//! every call the drawn timeout is replaced by one that follows from (seed, partition, node, term, role).

use courser_contract::PartitionId;

use crate::ids::NodeId;

/// Ticks without a leader's sign before the first election; the drawn timeout is this to twice this.
pub(crate) const ELECTION_TICKS: usize = 10;

/// Ticks between two signs of a leader.
pub(crate) const HEARTBEAT_TICKS: usize = 2;

const _: () = assert!(ELECTION_TICKS > HEARTBEAT_TICKS);

/// The timeouts of one group on one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts(u64);

impl Timeouts {
    pub(crate) fn new(seed: u64, partition: PartitionId, node: NodeId) -> Self {
        let place = u64::from(partition.0) << 16 | u64::from(node.0);
        Self(mix(seed ^ mix(place)))
    }

    /// Ticks until an election, in `ELECTION_TICKS..2 * ELECTION_TICKS`.
    pub(crate) fn draw(self, term: u64, role: u64) -> usize {
        let drawn = mix(self.0 ^ mix(term << 3 | role));
        ELECTION_TICKS + (drawn % ELECTION_TICKS as u64) as usize
    }
}

/// The last step of SplitMix64: every bit of the input reaches every bit of the result.
const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_group_rarely_draw_the_same() {
        let mut same = 0;
        for term in 0..1_000 {
            let drawn =
                [0, 1, 2].map(|node| Timeouts::new(7, PartitionId(3), NodeId(node)).draw(term, 0));
            assert!(
                drawn
                    .iter()
                    .all(|ticks| (ELECTION_TICKS..2 * ELECTION_TICKS).contains(ticks))
            );
            same += usize::from(drawn[0] == drawn[1] && drawn[1] == drawn[2]);
        }
        // One in a hundred by chance.
        assert!(same < 30, "{same} of 1,000 terms");
    }
}
