//! Questions about retained messages.

use courser_contract::PartitionId;

use super::{AskError, Control, Page, Question, RetainedMessage, RetainedRow};

/// Topics whose messages one question takes away: less than half of a turn's work.
const CLEARED_AT_ONCE: usize = 64;

impl Control {
    /// All partitions that keep retained messages.
    pub fn retained_partitions(&self) -> impl Iterator<Item = PartitionId> + use<> {
        self.classes.retained_all()
    }

    /// Where the retained message of a topic is.
    #[must_use]
    pub fn retained_at(&self, topic: &str) -> PartitionId {
        match &self.disk {
            Some(disk) => self.classes.retained_in(&disk.stays(), topic),
            None => self.classes.retained(topic),
        }
    }

    /// Some retained messages of a partition that match a topic filter, in topic order behind a topic.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn retained(
        &self,
        partition: PartitionId,
        filter: &str,
        after: Option<&str>,
    ) -> Result<Page<RetainedRow, Box<str>>, AskError> {
        let (filter, after) = (filter.into(), after.map(Into::into));
        self.ask(self.places.shard_of(partition), |answer| {
            Question::Retained {
                partition,
                filter,
                after,
                answer,
            }
        })
        .await
    }

    /// The retained message of a topic.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn retained_message(&self, topic: &str) -> Result<Option<RetainedMessage>, AskError> {
        self.retained_in(self.retained_at(topic), topic).await
    }

    /// The retained message of a topic in a partition.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn retained_in(
        &self,
        partition: PartitionId,
        topic: &str,
    ) -> Result<Option<RetainedMessage>, AskError> {
        let topic = topic.into();
        self.ask(self.places.shard_of(partition), |answer| {
            Question::RetainedMessage {
                partition,
                topic,
                answer,
            }
        })
        .await
    }

    /// Takes the retained messages of some topics away that are in a partition, without telling subscribers, in steps that are small for a
    /// turn. They are gone as soon as that is committed, in this order.
    ///
    /// # Errors
    /// See [`report`](Self::report).
    pub async fn clear_retained(
        &self,
        partition: PartitionId,
        topics: &[&str],
    ) -> Result<(), AskError> {
        for step in topics.chunks(CLEARED_AT_ONCE) {
            let topics = step.iter().map(|&topic| topic.into()).collect();
            self.ask(self.places.shard_of(partition), |answer| {
                Question::ClearRetained {
                    partition,
                    topics,
                    answer,
                }
            })
            .await?;
        }
        Ok(())
    }
}
