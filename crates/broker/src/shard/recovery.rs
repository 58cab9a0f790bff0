//! The start of a shard's durable partitions, step by step between other work.
//!
//! ```text
//! reading ─▶ restoring ─▶ restored ─▶ replaying ─▶ served ─▶ over
//! the log    from          all shards   entries of   all shards
//! is read    checkpoints   have         the log      serve
//! ```
//! No group stands for election before all partitions of the process are made of their checkpoints: what a leader sends to
//! another partition then finds the one that is to get it. And no CONNECT is taken before all partitions serve: until then L1
//! lacks filters, and a publish would miss their sessions (M39).

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc;

use courser_cluster::{Group, GroupConfig, NodeId, Restored};
use courser_contract::{ConnectRefusal, FrontId, LogIndex, Term, ToFront};
use courser_log::FileDisk;
use rand::Rng;

use super::Shard;
use super::hub::Hub;
use crate::stations::{DiskFailure, Found, RecoveredShard, Stage};
use crate::store::Stores;

/// How far this shard's partitions have come.
pub(crate) enum Recovery {
    /// They serve, and so do those of all other shards. Always so where nothing is kept.
    Over,
    /// The writer reads the log.
    Reading(mpsc::Receiver<RecoveredShard<FileDisk>>),
    /// Partitions are made of what was found.
    Restoring {
        /// Of these.
        left: VecDeque<Found<FileDisk>>,
        /// Groups of those that are made.
        groups: Vec<Group>,
    },
    /// Other shards are not so far.
    Restored(Vec<Group>),
    /// Groups hand over what is in the log, and lead then.
    Replaying,
    /// Other shards are not so far.
    Served,
}

impl Recovery {
    /// Whether it goes on without anything from outside.
    pub(crate) const fn is_at_work(&self) -> bool {
        matches!(self, Self::Restoring { .. })
    }
}

impl Shard {
    /// Takes the recovery a step further. True when there is more to do at once; to be asked again after the shard said that
    /// it is about to sleep. Once it is over this costs one comparison.
    pub(crate) fn recover(&mut self) -> bool {
        let before = mem::discriminant(&self.recovery);
        self.recovery = match mem::replace(&mut self.recovery, Recovery::Over) {
            Recovery::Over => return false,
            Recovery::Reading(recovered) => match recovered.try_recv() {
                Ok(found) => Recovery::Restoring {
                    left: found.into(),
                    groups: Vec::new(),
                },
                Err(_) => Recovery::Reading(recovered),
            },
            Recovery::Restoring { left, groups } => self.restore(left, groups),
            Recovery::Restored(groups) if self.hub.start_has_come_to(Stage::Replaying) => {
                self.begin_groups(groups);
                Recovery::Replaying
            }
            Recovery::Replaying if self.partitions.all_serve() => {
                if self.hub.disk_state().shard_serves() {
                    self.hub.wake_all();
                }
                Recovery::Served
            }
            Recovery::Served if self.hub.start_has_come_to(Stage::Serving) => {
                self.hub.serving = true;
                Recovery::Over
            }
            waits @ (Recovery::Restored(_) | Recovery::Replaying | Recovery::Served) => waits,
        };
        mem::discriminant(&self.recovery) != before || self.recovery.is_at_work()
    }

    /// Makes the next partition. After the last one this shard waits for the others.
    fn restore(&mut self, mut left: VecDeque<Found<FileDisk>>, mut groups: Vec<Group>) -> Recovery {
        let Some(Found { id, found, .. }) = left.pop_front() else {
            if self.hub.disk_state().shard_restored() {
                self.hub.wake_all();
            }
            return Recovery::Restored(groups);
        };
        let config = GroupConfig::alone(id, NodeId(1), self.hub.rng.next_u64());
        let restored = Restored {
            hard_state: found.hard_state,
            snapshot: (LogIndex(0), Term(0)),
            entries: found.entries,
        };
        match Group::new(&config, restored) {
            Ok(group) => groups.push(group),
            Err(error) => self.hub.disk_state().fail(DiskFailure::Refused(format!(
                "the log of partition {} is not in order: {error}",
                id.0
            ))),
        }
        Recovery::Restoring { left, groups }
    }

    fn begin_groups(&mut self, groups: Vec<Group>) {
        let Stores::Disk(store) = &mut self.store else {
            unreachable!("what is not on a disk is not recovered");
        };
        for group in groups {
            store.add(group);
        }
    }

    /// A front asks for its session before there are any: it is told to come again.
    pub(crate) fn refuse_early(&mut self, front: FrontId) {
        self.fronts.note_queued(front);
        let refused = ToFront::ConnectRefused(ConnectRefusal::Unavailable);
        self.hub.send_front(front, refused);
    }
}

impl Hub {
    fn start_has_come_to(&self, stage: Stage) -> bool {
        self.disk_state().stage() >= stage
    }

    /// Wakes every shard that sleeps.
    fn wake_all(&self) {
        for doze in &self.ports.dozes {
            doze.wake();
        }
    }
}
