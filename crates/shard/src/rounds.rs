//! Publishing L1 in rounds.
//!
//! The writer gathers the changes of a turn, publishes them as one round and tells every shard. A shard answers when it uses
//! that index, which is as soon as it handles the message: between two reads it holds no match. A round is confirmed when
//! every shard has answered it or a later one.

use std::collections::VecDeque;

use courser_contract::{IndexToken, PartitionId, ShardId};

/// Names a round; they count up from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoundId(pub u64);

/// Whom to tell that a round is confirmed.
type Asker = (PartitionId, IndexToken);

/// The writer's book of rounds.
#[derive(Debug)]
pub struct Rounds {
    /// Highest round that each shard said it uses.
    used: Vec<RoundId>,
    last: RoundId,
    /// Changes that were not published yet.
    gathering: Vec<Asker>,
    /// Published, not confirmed, oldest first.
    open: VecDeque<(RoundId, Vec<Asker>)>,
}

impl Rounds {
    /// A book for this many shards.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self {
            used: vec![RoundId(0); usize::from(shards)],
            last: RoundId(0),
            gathering: Vec::new(),
            open: VecDeque::new(),
        }
    }

    /// Notes a change that the next round publishes.
    pub fn add(&mut self, partition: PartitionId, token: IndexToken) {
        self.gathering.push((partition, token));
    }

    /// Whether there is a change to publish.
    #[must_use]
    pub const fn has_changes(&self) -> bool {
        !self.gathering.is_empty()
    }

    /// Opens the round of the changes that are being published now: every shard is to be told its number.
    pub fn publish(&mut self) -> RoundId {
        self.last.0 += 1;
        let askers = std::mem::take(&mut self.gathering);
        self.open.push_back((self.last, askers));
        self.last
    }

    /// A shard uses the index of `round`. Calls `confirmed` for each change that all shards use now.
    pub fn used(
        &mut self,
        shard: ShardId,
        round: RoundId,
        mut confirmed: impl FnMut(PartitionId, IndexToken),
    ) {
        let used = &mut self.used[usize::from(shard.0)];
        *used = (*used).max(round);
        let all = self.used.iter().min().copied().unwrap_or_default();
        while let Some((round, _)) = self.open.front()
            && *round <= all
        {
            let (_, askers) = self.open.pop_front().expect("a front was just seen");
            for (partition, token) in askers {
                confirmed(partition, token);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(rounds: &mut Rounds, shard: u16, round: RoundId) -> Vec<u64> {
        let mut tokens = Vec::new();
        rounds.used(ShardId(shard), round, |_, token| tokens.push(token.0));
        tokens
    }

    #[test]
    fn m38_a_change_is_confirmed_once_every_shard_uses_it() {
        let mut rounds = Rounds::new(3);
        rounds.add(PartitionId(1), IndexToken(10));
        rounds.add(PartitionId(2), IndexToken(11));
        let first = rounds.publish();
        assert!(!rounds.has_changes());
        assert!(used(&mut rounds, 0, first).is_empty());
        assert!(used(&mut rounds, 2, first).is_empty());
        assert!(
            used(&mut rounds, 2, first).is_empty(),
            "a repeated answer counts once"
        );
        assert_eq!(used(&mut rounds, 1, first), [10, 11]);
        assert!(
            used(&mut rounds, 1, first).is_empty(),
            "a change is confirmed once"
        );
    }

    #[test]
    fn m38_a_later_answer_covers_earlier_rounds_and_none_is_confirmed_early() {
        let mut rounds = Rounds::new(2);
        rounds.add(PartitionId(1), IndexToken(1));
        let first = rounds.publish();
        rounds.add(PartitionId(1), IndexToken(2));
        let second = rounds.publish();
        assert!(used(&mut rounds, 0, second).is_empty());
        assert_eq!(used(&mut rounds, 1, first), [1]);
        assert_eq!(used(&mut rounds, 1, second), [2]);
    }
}
