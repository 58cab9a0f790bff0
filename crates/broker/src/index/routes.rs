//! Where a shard sends a topic: its reader of L1, and what it remembers of it.

use std::sync::Arc;

use courser_contract::{Destinations, PartitionId};
use router::{CacheLimits, ListPool, Reader, TopicCache, Visited, Weigh};

use crate::shard::Budget;

/// Partitions with a filter that matches a topic, in the order of their numbers. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Nobody subscribes.
    Nowhere,
    /// One partition: the common case, which costs no count of shares.
    One(PartitionId),
    /// Several; equal lists are shared between topics.
    Many(Arc<[PartitionId]>),
}

impl Way {
    /// The partitions.
    #[must_use]
    pub(crate) fn as_slice(&self) -> &[PartitionId] {
        match self {
            Self::Nowhere => &[],
            Self::One(partition) => std::slice::from_ref(partition),
            Self::Many(partitions) => partitions,
        }
    }
}

impl Weigh for Way {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Nowhere | Self::One(_) => 0,
            Self::Many(partitions) => partitions.heap_bytes(),
        }
    }
}

/// A shard's view of L1. Each look-up sees every round that was published before it (three loads of counters), so that a
/// shard which answers a round between two reads uses it from then on.
pub(crate) struct Routes {
    reader: Reader<PartitionId>,
    cache: TopicCache<Way>,
    lists: ListPool<PartitionId>,
}

impl Routes {
    /// A view with an empty cache.
    #[must_use]
    pub(crate) fn new(reader: Reader<PartitionId>) -> Self {
        Self {
            reader,
            cache: TopicCache::new(CacheLimits::default()),
            lists: ListPool::new(),
        }
    }

    /// Where a topic goes now. What it takes to find that out is work of the turn: filters with many wildcards make it long.
    pub(crate) fn way(&mut self, topic: &str, budget: &mut Budget) -> Way {
        let Self {
            reader,
            cache,
            lists,
        } = self;
        cache
            .get_or_insert_with(topic, reader, || {
                let (way, visited) = find(reader, lists, topic);
                budget.spend_on(visited);
                way
            })
            .clone()
    }

    /// The same with the partition that keeps the retained message, if the publish sets RETAIN.
    pub(crate) fn destinations(
        &mut self,
        topic: &str,
        keeper: Option<PartitionId>,
        budget: &mut Budget,
    ) -> Destinations {
        let mut destinations = Destinations::from_slice(self.way(topic, budget).as_slice());
        if let Some(keeper) = keeper
            && !destinations.contains(&keeper)
        {
            destinations.push(keeper);
        }
        destinations
    }
}

#[cold]
fn find(
    reader: &Reader<PartitionId>,
    lists: &mut ListPool<PartitionId>,
    topic: &str,
) -> (Way, Visited) {
    let mut found = Destinations::new();
    let visited = reader.for_each_match(topic, |&partition| {
        if !found.contains(&partition) {
            found.push(partition);
        }
    });
    found.sort_unstable();
    let way = match found.as_slice() {
        [] => Way::Nowhere,
        [one] => Way::One(*one),
        many => Way::Many(lists.share(many)),
    };
    (way, visited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::{Matcher, SharedMatcher};

    #[test]
    fn m37_a_look_up_sees_what_was_published_before_it_and_names_each_partition_once() {
        let (mut writer, reader) = SharedMatcher::new();
        let mut routes = Routes::new(reader);
        let budget = &mut Budget::of(0);
        assert_eq!(routes.way("a/b", budget), Way::Nowhere);
        writer.insert("a/b", PartitionId(2));
        writer.insert("a/+", PartitionId(2));
        writer.publish(std::thread::yield_now);
        assert_eq!(routes.way("a/b", budget), Way::One(PartitionId(2)));
        writer.insert("#", PartitionId(1));
        writer.publish(std::thread::yield_now);
        assert_eq!(
            routes.way("a/b", budget).as_slice(),
            [PartitionId(1), PartitionId(2)]
        );
        assert_eq!(
            routes
                .destinations("a/b", Some(PartitionId(2)), budget)
                .len(),
            2
        );
        assert_eq!(
            routes
                .destinations("a/b", Some(PartitionId(5)), budget)
                .last(),
            Some(&PartitionId(5))
        );
    }

    #[test]
    fn a_topic_that_is_not_known_costs_the_turn_the_nodes_that_are_visited() {
        let (mut writer, reader) = SharedMatcher::new();
        let mut routes = Routes::new(reader);
        let mut matcher = Matcher::new();
        for filter in ["a/a/x", "a/+/x", "+/a/x", "+/+/x"] {
            writer.insert(filter, PartitionId(1));
            matcher.insert(filter, PartitionId(1));
        }
        writer.publish(std::thread::yield_now);
        let mut spent = |topic| {
            let mut budget = Budget::of(0);
            routes.way(topic, &mut budget);
            budget
        };
        for topic in ["a/a/y", "a/a/x"] {
            let visited = matcher.for_each_match(topic, |_| {});
            assert!(
                visited >= Visited(7),
                "the root, two below it, four below these"
            );
            let mut cost = Budget::of(0);
            cost.spend_on(visited);
            assert_eq!(spent(topic), cost);
            assert_eq!(spent(topic), cost, "a topic gets in on its second miss");
            assert_eq!(spent(topic), Budget::of(0), "it is remembered");
        }
    }
}
