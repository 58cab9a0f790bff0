//! The partitions that a shard owns: its volatile one, and those with a log whose number mod shards is the shard's.

use std::collections::VecDeque;

use courser_contract::{LogIndex, PartitionId, ShardId, Term, Tick, WallMs};
use courser_engine::{
    Counts, DiskBudget, DiskRoom, Limits, MemoryRoom, Partition, PartitionConfig, Proposed,
    SessionRoom,
};
use courser_log::CheckpointAt;

use super::recovery::Damaged;
use crate::latency::Moment;
use crate::memory::Kept;
use crate::partition_limits::PartitionLimits;
use crate::slots::Places;
use crate::timer::TimerKey;

/// A partition with what the shell keeps of it.
#[derive(Debug)]
pub(crate) struct Owned {
    pub(crate) id: PartitionId,
    /// Taken out while it handles something.
    pub(crate) partition: Option<Box<Partition>>,
    /// Whether it is in the list of those that may have an entry.
    pub(crate) dirty: bool,
    /// The last entry that was applied, of one with a log.
    pub(crate) applied: CheckpointAt,
    /// Bytes of entries that were applied and are in no checkpoint.
    pub(crate) unsaved_bytes: u64,
    /// What is wrong with it; almost always nothing.
    pub(crate) damaged: Option<Box<Damaged>>,
    /// What it had lost when that was said last, see `Partition::losses`.
    pub(crate) told_losses: u64,
    pub(crate) timer: Option<TimerKey>,
    pub(crate) armed: Tick,
    /// When the first publish was received that goes into the next entry.
    received: Option<Moment>,
    /// The same of entries that were proposed, with their bytes, in order; none: there was no publish.
    proposed: VecDeque<(usize, Option<Moment>)>,
}

/// Entries under way whose moments are kept; of more nothing is told.
const PROPOSED_MAX: usize = 1_024;

impl Owned {
    /// Bytes of the entry in the making; of one that handles something nobody knows.
    #[inline]
    pub(crate) fn entry_bytes(&self) -> usize {
        let partition = self.partition.as_ref();
        partition.map_or(0, |partition| partition.entry_bytes())
    }

    /// A publish goes into the next entry.
    #[inline]
    pub(crate) fn note_received(&mut self, received: Option<Moment>) {
        if self.received.is_none() {
            self.received = received;
        }
    }

    /// When the first publish of the entry was received that is taken now.
    pub(crate) fn take_received(&mut self) -> Option<Moment> {
        self.received.take()
    }

    /// An entry of so many bytes is proposed.
    pub(crate) fn note_proposed(&mut self, bytes: usize) {
        let received = self.received.take();
        if self.proposed.len() < PROPOSED_MAX {
            self.proposed.push_back((bytes, received));
        }
    }

    /// When the first publish of a committed entry of so many bytes was received, if it was proposed here and had one.
    pub(crate) fn take_proposed(&mut self, bytes: usize) -> Option<Moment> {
        let at = self.proposed.iter().position(|(of, _)| *of == bytes)?;
        // Those before it were never committed.
        let (_, received) = self.proposed.drain(..=at).next_back()?;
        received
    }

    /// Whether the disk has lost records that it needs.
    pub(crate) fn has_lost_records(&self) -> bool {
        let partition = self.partition.as_ref();
        partition.is_some_and(|partition| partition.has_lost())
    }

    /// Whether an entry is not to be applied, as the operator has ordered.
    #[inline]
    pub(crate) fn skips(&self, index: LogIndex) -> bool {
        self.damaged.as_deref().is_some_and(|it| match it {
            Damaged::Serves(serves) => serves.skips.contains(&index),
            Damaged::Aside(..) => false,
        })
    }
}

/// Before the first entry.
const NOTHING: CheckpointAt = CheckpointAt {
    index: LogIndex(0),
    term: Term(0),
};

/// What a partition is told when it is made.
pub(crate) fn config(
    id: PartitionId,
    places: &Places,
    limits: &PartitionLimits,
) -> PartitionConfig {
    PartitionConfig {
        limits: limits.of(id),
        ..PartitionConfig::new(id, places.class_of(id))
    }
}

/// A shard's partitions: the volatile one first, then by number.
#[derive(Debug)]
pub(crate) struct Partitions {
    owned: Vec<Owned>,
    places: Places,
    /// Places of those that were touched since the last commit step.
    pub(crate) dirty: Vec<usize>,
    /// Empty: the list that takes the place of that one while it is worked off.
    pub(crate) spare: Vec<usize>,
}

impl Partitions {
    /// Those of `shard` in a start of the node, empty. Followers until their log says otherwise; see `Shard::lead`.
    #[must_use]
    pub(crate) fn new(
        shard: ShardId,
        start: u32,
        places: &Places,
        limits: &PartitionLimits,
    ) -> Self {
        let logged = places.logged().filter(|&id| places.shard_of(id) == shard);
        let owned = [PartitionId::volatile_of(shard)]
            .into_iter()
            .chain(logged)
            .map(|id| Owned {
                id,
                partition: Some(Box::new(Partition::new(PartitionConfig {
                    start,
                    ..config(id, places, limits)
                }))),
                dirty: false,
                applied: NOTHING,
                unsaved_bytes: 0,
                damaged: None,
                told_losses: 0,
                timer: None,
                armed: Tick(u64::MAX),
                received: None,
                proposed: VecDeque::new(),
            })
            .collect();
        Self {
            owned,
            places: *places,
            dirty: Vec::new(),
            spare: Vec::new(),
        }
    }

    /// Place of a partition of this shard.
    #[inline]
    #[must_use]
    pub(crate) fn place(&self, id: PartitionId) -> usize {
        self.places.on_shard(id)
    }

    /// Their numbers, by place.
    pub(crate) fn ids(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.owned.iter().map(|owned| owned.id)
    }

    /// What they have proposed, for a fence with a cut.
    pub(crate) fn proposed(&self) -> impl Iterator<Item = (PartitionId, Proposed)> + '_ {
        let owned = self.owned.iter();
        owned.filter_map(|owned| Some((owned.id, owned.partition.as_ref()?.proposed())))
    }

    /// What they forward, for another one.
    pub(crate) fn forwarding(&self) -> impl Iterator<Item = (PartitionId, Proposed)> + '_ {
        let owned = self.owned.iter();
        owned.filter_map(|owned| Some((owned.id, owned.partition.as_ref()?.forwarding()?)))
    }

    /// Whether a partition of this shard has applied what it had proposed.
    pub(crate) fn has_applied(&self, id: PartitionId, proposed: &mut Proposed) -> bool {
        let partition = self.owned[self.place(id)].partition.as_ref();
        partition.is_some_and(|partition| partition.has_applied(proposed))
    }

    /// Number of partitions.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.owned.len()
    }

    /// The partition at a place.
    pub(crate) fn at(&mut self, place: usize) -> &mut Owned {
        &mut self.owned[place]
    }

    /// Takes a partition out to work on it.
    #[inline]
    pub(crate) fn take(&mut self, place: usize) -> Box<Partition> {
        self.owned[place]
            .partition
            .take()
            .expect("a partition's effects never call a partition")
    }

    /// It may have an entry, or want to be called at another time.
    #[inline]
    pub(crate) fn touch(&mut self, place: usize) {
        let owned = &mut self.owned[place];
        if !owned.dirty {
            owned.dirty = true;
            self.dirty.push(place);
        }
    }

    /// The same for all that are here.
    pub(crate) fn touch_all(&mut self) {
        for place in 0..self.owned.len() {
            if self.owned[place].partition.is_some() {
                self.touch(place);
            }
        }
    }

    /// Puts it back, as one that may have an entry.
    #[inline]
    pub(crate) fn put(&mut self, place: usize, partition: Box<Partition>) {
        self.owned[place].partition = Some(partition);
        self.touch(place);
    }

    /// Gives all of them other limits.
    pub(crate) fn set_limits(&mut self, limits: &PartitionLimits) {
        for place in 0..self.owned.len() {
            let owned = &mut self.owned[place];
            if let Some(partition) = &mut owned.partition {
                partition.set_limits(limits.of(owned.id));
                self.touch(place);
            }
        }
    }

    /// Bytes that the messages that wait in all of them take in memory, also those of which only the names are there, and bytes of sessions.
    /// Retained messages are records too, and have a share of their own.
    pub(crate) fn kept(&self) -> Kept {
        let partitions = self.owned.iter().filter_map(|it| it.partition.as_ref());
        let counts = partitions.map(|it| it.counts());
        counts.fold(Kept::default(), |all, it| {
            let records = it.record_bytes.saturating_sub(it.retained_bytes);
            let messages = records + it.name_bytes();
            Kept {
                messages: all.messages + messages,
                sessions: all.sessions + it.session_bytes,
                ..all
            }
        })
    }

    /// Tells all of them how much memory there is for sessions.
    pub(crate) fn set_session_room(&mut self, room: SessionRoom) {
        let partitions = self.owned.iter_mut();
        for partition in partitions.filter_map(|it| it.partition.as_mut()) {
            partition.set_session_room(room);
        }
    }

    /// Tells all of them how much memory there is for messages that wait. Volatile ones do not answer publishers and may not
    /// refuse them: while memory is short their sessions have less room than `limits` say.
    pub(crate) fn set_memory_room(&mut self, room: MemoryRoom, limits: &PartitionLimits) {
        let squeezed = |limits: Limits| match room {
            MemoryRoom::Enough => limits,
            MemoryRoom::Short => Limits {
                queue_messages_max: limits.queue_messages_max.min(MemoryRoom::CROWD_MESSAGES),
                queue_bytes_max: limits.queue_bytes_max.min(MemoryRoom::CROWD_BYTES),
                ..limits
            },
        };
        for owned in &mut self.owned {
            let Some(partition) = &mut owned.partition else {
                continue;
            };
            partition.set_memory_room(room);
            if owned.id.is_volatile() {
                partition.set_limits(squeezed(limits.of(owned.id)));
            }
        }
    }

    /// Tells those with a log how much room the disk has.
    pub(crate) fn set_disk_room(&mut self, room: DiskRoom) {
        for owned in &mut self.owned {
            if let Some(partition) = &mut owned.partition
                && !owned.id.is_volatile()
            {
                partition.set_disk_room(room);
            }
        }
    }

    /// Gives those with a log the budget of the shard.
    pub(crate) fn share_disk_budget(&mut self, budget: &DiskBudget) {
        for owned in &mut self.owned {
            if let Some(partition) = &mut owned.partition
                && !owned.id.is_volatile()
            {
                partition.share_disk_budget(budget);
            }
        }
    }

    /// Bytes of messages that wait in outboxes of all of them.
    pub(crate) fn forward_bytes(&self) -> u64 {
        let partitions = self.owned.iter().filter_map(|it| it.partition.as_ref());
        partitions.map(|it| it.forward_bytes()).sum()
    }

    /// The place of the one with the most bytes of entries in no checkpoint, if these are so many.
    #[must_use]
    pub(crate) fn longest_unsaved(&self, bytes_min: u64) -> Option<usize> {
        (0..self.owned.len())
            .filter(|&place| self.owned[place].unsaved_bytes >= bytes_min)
            .max_by_key(|&place| self.owned[place].unsaved_bytes)
    }

    /// The moment of the last entry of all of them.
    #[must_use]
    pub(crate) fn last_wall(&self) -> WallMs {
        let partitions = self.owned.iter().flat_map(|owned| &owned.partition);
        let last = partitions.map(|partition| partition.last_wall()).max();
        last.unwrap_or(WallMs(0))
    }

    /// Whether all with a log take connections, or are set aside.
    #[must_use]
    pub(crate) fn all_are_settled(&self) -> bool {
        self.owned
            .iter()
            .flat_map(|owned| &owned.partition)
            .all(|partition| partition.is_settled())
    }

    /// How many of them do.
    #[must_use]
    pub(crate) fn settled(&self) -> u64 {
        let logged = self.owned.iter().filter(|owned| !owned.id.is_volatile());
        let partitions = logged.flat_map(|owned| &owned.partition);
        partitions.filter(|it| it.is_settled()).count() as u64
    }

    /// What all of them hold.
    #[must_use]
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        for partition in self.owned.iter().filter_map(|it| it.partition.as_ref()) {
            sum += partition.counts();
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::Relaxed;

    #[test]
    fn every_partition_is_found_at_its_place() {
        for (shards, relaxed) in (1..=5).zip([Relaxed::None, Relaxed::Made].into_iter().cycle()) {
            let places = Places::new(16, shards, relaxed);
            let limits = PartitionLimits::ordinary(&places);
            let mut seen = 0;
            for shard in (0..shards).map(ShardId) {
                let mut mine = Partitions::new(shard, 1, &places, &limits);
                for place in 0..mine.len() {
                    let id = mine.at(place).id;
                    assert_eq!(mine.place(id), place, "{id:?} of {shards} shards");
                    assert_eq!(places.shard_of(id), shard);
                }
                seen += mine.len();
            }
            assert_eq!(seen, usize::from(places.last_logged() + shards));
        }
    }
}
