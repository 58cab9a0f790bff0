//! The start of a shard's durable partitions, step by step between other work.
//!
//! ```text
//! reading ─▶ restoring ─▶ restored ─▶ replaying ─▶ served ─▶ over
//! the log    from          all shards   entries of   all shards
//! is read    checkpoints   have         the log      serve
//! ```
//! While the log is read, checkpoints are read ahead as far as they do not need it.
//!
//! No group stands for election before all partitions of the process are made of their checkpoints: what a leader sends to
//! another partition then finds the one that is to get it. And no CONNECT is taken before all partitions serve: until then L1
//! lacks filters, and a publish would miss their sessions (M39). It waits a moment, and is told then that the server is not
//! available.

mod damage;
pub(crate) mod making;

use std::collections::VecDeque;
use std::mem;

use courser_cluster::{Group, GroupConfig, NodeId};
use courser_contract::{
    Attach, ConnectRefusal, FrontId, PartitionId, Tick, ToFront, ToHome, ToPartition,
};
use courser_log::{CheckpointAt, Place, ReadError, SegmentNumber, SharedBatches};
use courser_memory::{Component, Scope};
use rand::Rng;

pub(crate) use self::damage::Damaged;
pub(crate) use self::making::ReadAhead;
use self::making::{Made, MadeFor, Making};
use super::Shard;
use super::fronts::Access;
use super::hub::Hub;
use crate::causes::with_causes;
use crate::classes::Stays;
use crate::slots::Places;
use crate::stations::{DiskFailure, Medium, Stage, without_metadata};
use crate::store::Stores;

/// How far this shard's partitions have come.
pub(crate) enum Recovery {
    /// They serve, and so do those of all other shards. Always so where nothing is kept.
    Over,
    /// The writer reads the log.
    Reading(Box<ReadAhead>),
    /// Partitions are made of what was found.
    Restoring {
        /// Of these.
        left: VecDeque<Making>,
        /// And of these, which want no more than entries out of the log.
        reading: Box<Reading>,
        /// Groups of those that are made.
        groups: Vec<Group>,
    },
    /// Other shards are not so far.
    Restored(Vec<Group>),
    /// Groups hand over what is in the log, and lead then. So many are counted that do.
    Replaying(u64),
    /// Other shards are not so far.
    Served,
}

impl Recovery {
    /// Whether messages between partitions wait: a partition that does not serve would drop what is sent again later, and then
    /// take the messages behind it first (I3).
    pub(crate) const fn holds_messages(&self) -> bool {
        match self {
            Self::Over | Self::Served => false,
            Self::Reading(_) | Self::Restoring { .. } | Self::Restored(_) | Self::Replaying(_) => {
                true
            }
        }
    }

    /// Whether it goes on without anything from outside.
    pub(crate) fn is_at_work(&self) -> bool {
        match self {
            Self::Restoring { .. } => true,
            Self::Reading(ahead) => ahead.is_at_work(),
            Self::Over | Self::Restored(_) | Self::Replaying(_) | Self::Served => false,
        }
    }
}

impl Shard {
    /// Takes the recovery a step further. True when there is more to do at once; to be asked again after the shard said that
    /// it is about to sleep. Once it is over this costs one comparison.
    pub(crate) fn recover(&mut self) -> bool {
        let before = mem::discriminant(&self.recovery);
        self.recovery = match mem::replace(&mut self.recovery, Recovery::Over) {
            Recovery::Over => return false,
            Recovery::Reading(mut ahead) => {
                let limits = self.hub.partition_limits();
                match ahead.go_on(&self.hub.places, &limits) {
                    Some(left) => Recovery::Restoring {
                        left,
                        reading: Box::default(),
                        groups: Vec::new(),
                    },
                    None => Recovery::Reading(ahead),
                }
            }
            Recovery::Restoring {
                left,
                reading,
                groups,
            } => self.restore(left, reading, groups),
            Recovery::Restored(groups) if self.hub.start_has_come_to(Stage::Replaying) => {
                self.begin_groups(groups);
                self.set_partitions_aside();
                Recovery::Replaying(0)
            }
            // What kept sessions may use is known before anything can come for them.
            Recovery::Replaying(counted)
                if self.all_are_settled() && self.hub.access.process.serves() =>
            {
                self.count_replayed(counted);
                self.limit_kept_sessions();
                self.settle_damage();
                self.give_held();
                self.note_stays();
                self.hub
                    .disk_state()
                    .entries_reach(self.partitions.last_wall());
                if self.hub.disk_state().shard_serves() {
                    self.hub.wake_all();
                }
                Recovery::Served
            }
            Recovery::Served if self.hub.start_has_come_to(Stage::Serving) => {
                self.admit_early();
                Recovery::Over
            }
            Recovery::Replaying(counted) => Recovery::Replaying(self.count_replayed(counted)),
            waits @ (Recovery::Restored(_) | Recovery::Served) => waits,
        };
        mem::discriminant(&self.recovery) != before || self.recovery.is_at_work()
    }

    /// Goes on with the partition that is being made, or takes the next; those that want entries wait for each other and read the log together.
    /// After the last one this shard waits for the others.
    fn restore(
        &mut self,
        mut left: VecDeque<Making>,
        mut reading: Box<Reading>,
        mut groups: Vec<Group>,
    ) -> Recovery {
        let limits = self.hub.partition_limits();
        let next = match left.pop_front() {
            Some(making) if making.is_reading() => {
                reading.add(making);
                None
            }
            Some(mut making) => {
                let made = making.go_on(&self.hub.places, &limits).transpose();
                Some((making, made))
            }
            None => reading.go_on(),
        };
        match next {
            Some((making, None)) => left.push_front(making),
            Some((_, Some(Ok(made)))) => groups.extend(self.take_in(made)),
            Some((_, Some(Err(error)))) => {
                let failure = DiskFailure::Io(with_causes(&error));
                self.hub.disk_state().fail(failure);
            }
            None if left.is_empty() && reading.is_empty() => {
                if self.hub.disk_state().shard_restored() {
                    self.hub.wake_all();
                }
                return Recovery::Restored(groups);
            }
            None => {}
        }
        Recovery::Restoring {
            left,
            reading,
            groups,
        }
    }

    /// A partition is made: the group begins with the entries behind its checkpoint.
    fn take_in(&mut self, made: Made) -> Option<Group> {
        self.hub.disk_state().start().restored();
        let place = self.partitions.place(made.id);
        if let Some((mut partition, at)) = made.partition {
            partition.set_disk_room(self.disk_room);
            partition.share_disk_budget(&self.disk_budget);
            let owned = self.partitions.at(place);
            owned.partition = Some(partition);
            owned.applied = at;
            if let Some(checkpoints) = &mut self.checkpoints {
                checkpoints.restored(place, at);
            }
        }
        if let Some(metadata) = made.metadata {
            self.take_in_metadata(metadata)?;
        }
        let restored = match made.fate {
            MadeFor::Group(restored, serves) if made.id == Places::METADATA => {
                self.note_begun(made.id, made.began_behind);
                self.note_accepted(made.id, &serves);
                let machine = self.metadata.as_mut();
                machine.expect("partition 0 is on the first shard").skips = serves.skips;
                restored
            }
            MadeFor::Aside(fault, _) if made.id == Places::METADATA => {
                self.hub.disk_state().fail(without_metadata(&fault, &[]));
                return None;
            }
            fate => {
                self.note_begun(made.id, made.began_behind);
                self.note_damage(place, fate)?
            }
        };
        let config = GroupConfig::alone(made.id, NodeId(1), self.hub.rng.next_u64());
        match Group::new(&config, restored) {
            Ok(group) => Some(group),
            Err(error) => {
                let text = format!(
                    "the log of partition {} is not in order: {error}",
                    made.id.0
                );
                self.hub.disk_state().fail(DiskFailure::Refused(text));
                None
            }
        }
    }

    /// None: it cannot be, and the process is to end.
    fn take_in_metadata(&mut self, (bytes, at): (Vec<u8>, CheckpointAt)) -> Option<()> {
        let machine = self
            .metadata
            .as_mut()
            .expect("partition 0 is on the first shard");
        let _scope = Scope::enter(Component::Access);
        if let Err(error) = machine.restore(&bytes, at) {
            self.refuse_metadata("the checkpoint", &error);
            return None;
        }
        if let Some(checkpoints) = &mut self.checkpoints {
            checkpoints.restored(Places::METADATA_PLACE, at);
        }
        Some(())
    }

    fn all_are_settled(&self) -> bool {
        self.partitions.all_are_settled() && self.metadata.as_ref().is_none_or(|it| it.serves())
    }

    /// Counts those that have come since the last look. How many there are.
    fn count_replayed(&self, counted: u64) -> u64 {
        let metadata = self.metadata.as_ref().is_some_and(|it| it.serves());
        let settled = self.partitions.settled() + u64::from(metadata);
        let start = self.hub.disk_state().start();
        start.replayed(settled.saturating_sub(counted));
        settled.max(counted)
    }

    fn begin_groups(&mut self, groups: Vec<Group>) {
        let Stores::Disk(store) = &mut self.store else {
            unreachable!("what is not on a disk is not recovered");
        };
        for group in groups {
            store.add(group);
        }
    }

    /// Keeps a message for a partition of this shard. There are no more of them than partitions send without an answer.
    pub(crate) fn hold_message(
        &mut self,
        from: PartitionId,
        to: PartitionId,
        message: ToPartition,
    ) {
        self.held.push(Held { from, to, message });
    }

    fn give_held(&mut self) {
        for Held { from, to, message } in std::mem::take(&mut self.held) {
            self.tell_partition(from, to, message);
        }
    }

    /// All partitions serve: who came early gets its session.
    fn admit_early(&mut self) {
        self.hub.serving = true;
        let stays = self.hub.disk_state().stays();
        self.hub.classes.set_stays(stays);
        self.clock.begin_at(self.hub.disk_state().last_wall());
        // It was not there yet when they came.
        let table = self.hub.access.process.table();
        for Early {
            front, mut attach, ..
        } in std::mem::take(&mut self.hub.early)
        {
            if let Access::Here(connection) = self.fronts.get(front) {
                connection.gate.limit(&mut attach, &table);
            }
            let partition = self.hub.classes.session(&attach.client_id);
            self.hub.send_home(partition, ToHome::Attach(attach));
        }
    }

    /// What is in a partition of another class than its name has now stays there.
    fn note_stays(&mut self) {
        let mut stays = Stays::default();
        let classes = &self.hub.classes;
        if classes.may_differ() {
            for place in 0..self.partitions.len() {
                let owned = self.partitions.at(place);
                let Some(partition) = &owned.partition else {
                    continue;
                };
                for client_id in partition.client_ids() {
                    stays.note_session(classes, client_id, owned.id);
                }
                for topic in partition.retained_topics() {
                    stays.note_retained(classes, &topic, owned.id);
                }
            }
        }
        self.hub.disk_state().add_stays(stays);
    }

    /// Tells those to come again who have waited long enough.
    pub(crate) fn refuse_early(&mut self) {
        let now = self.hub.now.tick;
        while let Some(Early { front, .. }) =
            self.hub.early.pop_front_if(|early| early.deadline <= now)
        {
            self.fronts.note_queued(front);
            let refused = ToFront::ConnectRefused(ConnectRefusal::Unavailable);
            self.hub.send_front(front, refused);
        }
    }
}

/// Partitions that want entries of the log. They are interleaved in it, so who reads for one alone reads nearly all of it; together
/// they go through it once, from the lowest place on.
#[derive(Default)]
pub(crate) struct Reading {
    /// Each with the place that it has come to.
    of: Vec<(Place, Making)>,
    batches: Option<SharedBatches<Medium>>,
}

/// Batches that one slice looks into, each for one partition.
const LOOKS: usize = 64;

/// One that is taken out, and what has become of it; none: it goes on by itself.
type Taken = (Making, Option<Result<Made, ReadError>>);

impl Reading {
    fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    fn add(&mut self, mut making: Making) {
        let place = making.next_place().unwrap_or(Place {
            segment: SegmentNumber(0),
            offset: 0,
        });
        self.batches.get_or_insert_with(|| making.shared_batches());
        self.of.push((place, making));
    }

    /// One slice. A partition that has all of its entries, or cannot have one.
    fn go_on(&mut self) -> Option<Taken> {
        let batches = self.batches.as_mut()?;
        for _ in 0..LOOKS {
            let all = self.of.iter().enumerate();
            let (at, _) = all.min_by_key(|(_, (place, _))| *place)?;
            let (place, making) = &mut self.of[at];
            let made = making.look(batches).transpose();
            match making.next_place() {
                Some(next) if made.is_none() => *place = next,
                Some(_) | None => return Some((self.of.swap_remove(at).1, made)),
            }
        }
        None
    }
}

/// A message between partitions that came before there is one to take it.
#[derive(Debug)]
pub(crate) struct Held {
    from: PartitionId,
    to: PartitionId,
    message: ToPartition,
}

/// A CONNECT that came before there are sessions.
#[derive(Debug)]
pub(crate) struct Early {
    front: FrontId,
    deadline: Tick,
    attach: Box<Attach>,
}

/// How long a CONNECT waits for the end of a start before it is refused, in milliseconds. An ordinary start is over by then,
/// and no client gives up earlier.
const EARLY_MS: u64 = 2_000;

impl Hub {
    /// A front asks for its session before there are any.
    pub(crate) fn come_early(&mut self, front: FrontId, attach: Box<Attach>) {
        self.early.push_back(Early {
            front,
            deadline: self.now.tick.after_ms(EARLY_MS),
            attach,
        });
    }

    fn start_has_come_to(&self, stage: Stage) -> bool {
        self.disk_state().stage() >= stage
    }

    /// Wakes every shard that sleeps.
    fn wake_all(&self) {
        for doze in &self.links.ports.dozes {
            doze.wake();
        }
    }
}
