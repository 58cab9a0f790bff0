//! Publishes of fronts on their way to partitions (M37).

use courser_contract::{
    AppendKey, Cut, Destinations, FrontId, PartitionId, Publish, QoS, Record, RecordView, Routed,
    Ticket,
};

use super::hub::Hub;
use super::message::Message;
use crate::bug::Bug;

/// An append with all that sending it again needs.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) record: Record,
    pub(crate) keep_retained: bool,
    pub(crate) deliver: bool,
    pub(crate) cut: Cut,
}

impl Hub {
    /// Partitions with a filter for a topic, in the order of their numbers.
    fn way(&self, topic: &str) -> Destinations {
        let mut found = Destinations::new();
        self.l1.for_each_match(topic, |&partition| {
            if !found.contains(&partition) {
                found.push(partition);
            }
        });
        found.sort_unstable();
        found
    }

    pub(crate) fn destinations(&self, topic: &str, retain: bool) -> Destinations {
        let mut found = self.way(topic);
        let keeper = self.places.retained(topic);
        if retain && !found.contains(&keeper) {
            found.push(keeper);
        }
        found
    }

    /// Sends a publish to every partition that L1 names, and to the keeper of the topic's retained message (M37).
    pub(crate) fn publish(
        &mut self,
        front: FrontId,
        publish: &Publish<'_>,
        ticket: Ticket,
    ) -> Routed {
        let subscribed = self.way(publish.topic);
        let keeper = publish.retain.then(|| self.places.retained(publish.topic));
        let all = self.destinations(publish.topic, publish.retain);
        let early = self.bug == Some(Bug::SettleBeforeCommit);
        let mut wait = None;
        let record = Record::copy_of(&RecordView::from(publish));
        for &partition in &all {
            let kept = Kept {
                record: record.clone(),
                keep_retained: keeper == Some(partition),
                deliver: subscribed.contains(&partition),
                cut: self.plant_cut(partition, self.cut(partition)),
            };
            let volatile = partition.is_volatile() && !self.volatile_answers;
            if publish.qos == QoS::AtMostOnce || volatile {
                self.push_append(partition, AppendKey::Unanswered, &kept);
                continue;
            }
            let wait = *wait.get_or_insert_with(|| self.appends.begin(front, ticket, ()));
            let key = self.appends.number(wait, partition, kept.clone());
            self.push_append(partition, key, &kept);
        }
        match wait {
            Some(_) if !early => Routed::Waits,
            _ => Routed::Done {
                matched: !subscribed.is_empty(),
            },
        }
    }

    pub(super) fn push_append(&mut self, partition: PartitionId, key: AppendKey, kept: &Kept) {
        // Without a leader it stays with the shard until there is one (M11); QoS 0 is dropped.
        let Some(term) = self.term(partition) else {
            return;
        };
        let message = Message::Append {
            partition,
            term,
            key,
            keep_retained: kept.keep_retained,
            deliver: kept.deliver,
            cut: kept.cut,
            record: kept.record.clone(),
        };
        self.push(self.places.shard_of(partition), message);
    }
}
