//! Topics of which a session has something newer than what its scans may find.

use hashbrown::HashMap;

use super::Hasher;

/// Most topics that are kept of a session, as many as a table of 280 KB holds. A scan may be open for as long as its client takes nothing.
const TOPICS_MAX: usize = 14 * 1_024;

/// The last live message with RETAIN for a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// Its number among all that were noted.
    pub(super) number: u64,
    /// A hash of what it says; none of one that is too long.
    pub(super) says: Option<u64>,
}

/// Topics by their hashes, with the last live message with RETAIN for each. At [`TOPICS_MAX`] the older half goes: by then
/// thousands of later ones have been kept, so that the partition that is asked finds that message or a newer one, and it comes twice at worst.
#[derive(Debug, Default)]
pub(super) struct Overtaken {
    topics: HashMap<u64, Last, Hasher>,
}

impl Overtaken {
    pub(super) fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    pub(super) fn note(&mut self, topic: u64, last: Last) {
        if self.topics.len() == TOPICS_MAX {
            let mut numbers: Vec<u64> = self.topics.values().map(|it| it.number).collect();
            let (_, &mut middle, _) = numbers.select_nth_unstable(TOPICS_MAX / 2);
            self.topics.retain(|_, last| last.number > middle);
        }
        self.topics.insert(topic, last);
    }

    /// The last one for a topic, if it came behind the one with this number.
    pub(super) fn since(&self, topic: u64, number: u64) -> Option<Last> {
        let last = self.topics.get(&topic).copied();
        last.filter(|last| last.number > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn last(number: u64) -> Last {
        Last { number, says: None }
    }

    #[test]
    fn only_what_came_behind_the_question_overtakes() {
        let mut overtaken = Overtaken::default();
        assert!(overtaken.is_empty());
        overtaken.note(7, last(3));
        assert_eq!(overtaken.since(7, 2), Some(last(3)));
        assert_eq!(overtaken.since(7, 3), None);
        assert_eq!(overtaken.since(8, 0), None);
        overtaken.note(7, last(9));
        assert_eq!(overtaken.since(7, 8), Some(last(9)));
    }

    #[test]
    fn however_many_come_the_latest_are_known_and_the_memory_is_bounded() {
        let mut overtaken = Overtaken::default();
        let all = 10 * TOPICS_MAX as u64;
        for number in 1..=all {
            overtaken.note(number, last(number));
            assert!(overtaken.topics.len() <= TOPICS_MAX);
        }
        let latest = all - TOPICS_MAX as u64 / 4..=all;
        assert!(
            latest
                .into_iter()
                .all(|topic| overtaken.since(topic, 0).is_some())
        );
        assert_eq!(overtaken.since(1, 0), None);
    }
}
