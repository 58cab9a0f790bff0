//! Topics of which a session has something newer than what its scans may find.

use hashbrown::HashMap;

use super::Hasher;

/// Most topics that are kept of a session, as many as a table of 280 KB holds. A scan may be open for as long as its client takes nothing.
const TOPICS_MAX: usize = 14 * 1_024;

/// Topics by their hashes, with the number of the last live message with RETAIN for each. At [`TOPICS_MAX`] the older half goes: by then
/// thousands of later ones have been kept, so that the partition that is asked finds that message or a newer one, and it comes twice at worst.
#[derive(Debug, Default)]
pub(super) struct Overtaken {
    topics: HashMap<u64, u64, Hasher>,
}

impl Overtaken {
    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(super) fn note(&mut self, topic: u64, number: u64) {
        if self.topics.len() == TOPICS_MAX {
            let mut numbers: Vec<u64> = self.topics.values().copied().collect();
            let (_, &mut middle, _) = numbers.select_nth_unstable(TOPICS_MAX / 2);
            self.topics.retain(|_, number| *number > middle);
        }
        self.topics.insert(topic, number);
    }

    /// Whether there was one for a topic behind the one with this number.
    pub(super) fn has_since(&self, topic: u64, number: u64) -> bool {
        self.topics.get(&topic).is_some_and(|&last| last > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_came_behind_the_question_overtakes() {
        let mut overtaken = Overtaken::default();
        assert!(overtaken.is_empty());
        overtaken.note(7, 3);
        assert!(overtaken.has_since(7, 2));
        assert!(!overtaken.has_since(7, 3) && !overtaken.has_since(8, 0));
        overtaken.note(7, 9);
        assert!(overtaken.has_since(7, 8));
    }

    #[test]
    fn however_many_come_the_latest_are_known_and_the_memory_is_bounded() {
        let mut overtaken = Overtaken::default();
        let all = 10 * TOPICS_MAX as u64;
        for number in 1..=all {
            overtaken.note(number, number);
            assert!(overtaken.topics.len() <= TOPICS_MAX);
        }
        let latest = all - TOPICS_MAX as u64 / 4..=all;
        assert!(
            latest
                .into_iter()
                .all(|topic| overtaken.has_since(topic, 0))
        );
        assert!(!overtaken.has_since(1, 0));
    }
}
