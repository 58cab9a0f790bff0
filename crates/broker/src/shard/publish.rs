//! Where a publish of a front goes (M37): one append to each destination.

use courser_contract::{
    Append, AppendKey, Dropped, FrontId, PartitionId, Publish, QoS, Refusal, Routed, ShardId,
    Ticket, is_own_topic,
};

use courser_engine::Pace;
use courser_log::batch_bytes_max;
use courser_shard::Waiting;

use super::Shard;
use super::budget::Budget;
use super::effects_partition::PartitionFx;
use crate::failpoint;
use crate::index::Way;
use crate::memory::Level;

/// Facts of so many bytes go as an entry at once, and a message with which they would be more begins another one. So a batch of such segments holds
/// every entry but that of a single message that is larger: a segment with a piece of one that is needed cannot be cleaned (M41, M45).
///
/// An eighth is left for what a fact says besides the message: its key, and targets or the set of them, which is written once.
pub(crate) const fn entry_bytes_max(segment_bytes: u64) -> usize {
    batch_bytes_max(segment_bytes) / 8 * 7
}

/// One destination of a publish.
#[derive(Clone, Copy)]
struct Destination {
    partition: PartitionId,
    keep_retained: bool,
    deliver: bool,
}

impl Shard {
    /// Sends a publish to every partition that L1 names, and to the keeper of the topic's retained message.
    pub(crate) fn publish(
        &mut self,
        front: FrontId,
        publish: &Publish<'_>,
        ticket: Ticket,
    ) -> Routed {
        // The broker's values are its own: a client that could write them could mislead whoever watches.
        if is_own_topic(publish.topic) {
            return Routed::Refused(Refusal::NotAuthorized);
        }
        let way = self.hub.routes.way(publish.topic, &mut self.hub.budget);
        if publish.retain {
            return self.publish_retained(front, publish, ticket, &way);
        }
        if way == Way::Nowhere {
            self.hub.budget.spend(Budget::STEP);
            self.hub.counters.drop_messages(Dropped::NoSubscriber, 1);
            return Routed::Done { matched: false };
        }
        if self.is_refused(way.as_slice().iter().copied()) {
            return self.refuse(publish);
        }
        let mut waiting = None;
        for &partition in way.as_slice() {
            let to = Destination {
                partition,
                keep_retained: false,
                deliver: true,
            };
            self.append(to, publish, (front, ticket), &mut waiting);
        }
        routed(waiting, true)
    }

    fn publish_retained(
        &mut self,
        front: FrontId,
        publish: &Publish<'_>,
        ticket: Ticket,
        way: &Way,
    ) -> Routed {
        let keeper = self.hub.classes.retained(publish.topic);
        let subscribed = way.as_slice();
        if self.is_refused(subscribed.iter().copied().chain([keeper])) {
            return self.refuse(publish);
        }
        let mut waiting = None;
        for &partition in subscribed {
            let to = Destination {
                partition,
                keep_retained: partition == keeper,
                deliver: true,
            };
            self.append(to, publish, (front, ticket), &mut waiting);
        }
        if !subscribed.contains(&keeper) {
            let to = Destination {
                partition: keeper,
                keep_retained: true,
                deliver: false,
            };
            self.append(to, publish, (front, ticket), &mut waiting);
        }
        routed(waiting, !subscribed.is_empty())
    }

    /// One append; numbered when somebody waits for its answer. Volatile partitions answer only where they may refuse (M13).
    #[inline]
    fn append(
        &mut self,
        to: Destination,
        publish: &Publish<'_>,
        (front, ticket): (FrontId, Ticket),
        waiting: &mut Option<Waiting>,
    ) {
        let volatile = to.partition.is_volatile() && !self.hub.volatile_answers;
        let key = if publish.qos == QoS::AtMostOnce || volatile {
            AppendKey::Unanswered
        } else {
            let (appends, turn) = (&mut self.hub.books.appends, self.hub.latency.turn());
            let waiting = *waiting.get_or_insert_with(|| appends.begin(front, ticket, turn));
            appends.number(waiting, to.partition, ())
        };
        let shard = self.hub.places.shard_of(to.partition);
        let append = Append {
            key,
            publish,
            keep_retained: to.keep_retained,
            deliver: to.deliver,
            cut: self.hub.books.cuts[usize::from(shard.0)],
        };
        self.hub.budget.spend(Budget::STEP);
        if shard == self.hub.id {
            self.hub.links.overfull |=
                !to.partition.is_volatile() && self.hub.links.is_congested(shard);
            self.hub.slow |= self.append_here(to.partition, &append) == Pace::Slow;
        } else {
            self.hub
                .push_append(shard, to.partition, &append, Some(front));
        }
    }

    /// An append to a partition of this shard, by plain call.
    #[inline]
    pub(crate) fn append_here(&mut self, id: PartitionId, append: &Append<'_>) -> Pace {
        let place = self.partitions.place(id);
        let publish = append.publish;
        let bytes = publish.topic.len() + publish.properties.len() + publish.payload.len();
        self.make_room_in_entry(place, bytes);
        let received = self.hub.latency.handling();
        self.partitions.at(place).note_received(received);
        self.call_partition(place, |partition, now, fx| {
            failpoint::in_partition(publish.payload);
            partition.handle_append(now, append, fx)
        })
    }

    /// Before something of so many bytes: sends the entry in the making off if a batch would not hold it with that.
    #[inline]
    pub(crate) fn make_room_in_entry(&mut self, place: usize, bytes: usize) {
        if self.partitions.at(place).entry_bytes() + bytes > self.hub.entry_bytes_max {
            self.commit_partition(place);
        }
    }

    /// Takes a partition out, does something with it, and puts it back.
    #[inline]
    pub(crate) fn with_partition<R>(
        &mut self,
        id: PartitionId,
        act: impl FnOnce(
            &mut courser_engine::Partition,
            courser_contract::Now,
            &mut PartitionFx<'_>,
        ) -> R,
    ) -> R {
        let place = self.partitions.place(id);
        let result = self.call_partition(place, act);
        self.make_room_in_entry(place, 0);
        result
    }

    /// The same, for what has made room in the entry before.
    #[inline]
    fn call_partition<R>(
        &mut self,
        place: usize,
        act: impl FnOnce(
            &mut courser_engine::Partition,
            courser_contract::Now,
            &mut PartitionFx<'_>,
        ) -> R,
    ) -> R {
        let id = self.partitions.at(place).id;
        let mut partition = self.partitions.take(place);
        let now = self.hub.now;
        let result = act(&mut partition, now, &mut PartitionFx { shard: self, id });
        self.hub.budget.spend_on(partition.take_visited());
        self.partitions.put(place, partition);
        result
    }

    /// Whether the memory is full, or one of the destinations is behind a link that has been full for too long (M49).
    #[inline]
    pub(crate) fn is_refused(&self, partitions: impl Iterator<Item = PartitionId>) -> bool {
        if self.hub.memory >= Level::Full {
            return true;
        }
        if !self.hub.links.are_congested() {
            return false;
        }
        // What the disk cannot take at once stops nothing that is not kept.
        let here = PartitionId::volatile_of(self.hub.id);
        let mut shards = partitions
            .filter(|&partition| partition != here)
            .map(|partition| self.hub.places.shard_of(partition));
        shards.any(|shard: ShardId| self.hub.links.refuses(shard, self.hub.now.tick))
    }

    #[cold]
    fn refuse(&mut self, publish: &Publish<'_>) -> Routed {
        if publish.qos == QoS::AtMostOnce {
            self.hub.counters.drop_messages(Dropped::QueueFull, 1);
            return Routed::Done { matched: true };
        }
        Routed::Refused(Refusal::QuotaExceeded)
    }
}

const fn routed(waiting: Option<Waiting>, matched: bool) -> Routed {
    match waiting {
        Some(_) => Routed::Waits,
        None => Routed::Done { matched },
    }
}
