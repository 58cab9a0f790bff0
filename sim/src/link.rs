//! Message links between shards: random delay, order kept for each pair.

use courser_contract::ShardId;

use crate::rng::Rng;

/// How far the links of all pairs of shards have come.
#[derive(Debug)]
pub(crate) struct Links {
    shards: usize,
    delay_max: u64,
    last: Vec<u64>,
}

impl Links {
    /// Links between this many shards that take at most `delay_max` milliseconds.
    pub(crate) fn new(shards: u16, delay_max: u64) -> Self {
        let shards = usize::from(shards);
        Self {
            shards,
            delay_max,
            last: vec![0; shards * shards],
        }
    }

    /// When something that is sent now arrives: not before what was sent earlier on this link.
    pub(crate) fn arrival(&mut self, now: u64, from: ShardId, to: ShardId, rng: &mut Rng) -> u64 {
        let last = &mut self.last[usize::from(from.0) * self.shards + usize::from(to.0)];
        *last = (*last).max(now + rng.between(0, self.delay_max));
        *last
    }

    /// When the same arrives on a link that does not keep order.
    pub(crate) fn arrival_unordered(&self, now: u64, rng: &mut Rng) -> u64 {
        now + rng.between(0, self.delay_max * 4 + 4)
    }
}
