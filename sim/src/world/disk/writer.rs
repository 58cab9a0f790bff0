//! The stations: the writer, which makes one batch of all that gathered while it synced, and the reader, which makes segments
//! ready.

use std::mem;

use courser_contract::{PartitionId, ShardId};
use courser_engine::{DiskRoom, left_of_skipped};
use courser_log::{SpaceState, WriteError};

use super::super::{Event, World};
use super::batch::{Answers, Wrote};
use super::groups::Told;
use super::quarantine::Treated;
use super::{DiskEvent, DiskNode, Mark, Marks, Order, Orders, Running, Waits};
use crate::bug::Bug;
use crate::shell::Inbound;
use courser_cluster::{Consensus, Role};

/// A disk that was idle for so long gets a witness (M44).
const IDLE_MS: u64 = 100;
/// What was only written is synced after so long at the latest (M1).
pub(super) const RELAXED_MS: u64 = 100;
/// Of so many segments that are used again, one is looked behind.
const PROBE_RECYCLED: u64 = 8;

impl World {
    pub(in super::super) fn disk_event(&mut self, event: DiskEvent) {
        match event {
            DiskEvent::Write(life) if self.is_life(life) => self.disk_write(),
            DiskEvent::Sync(life) if self.is_life(life) => self.disk_sync(),
            DiskEvent::Overdue(life, since) if self.is_life(life) => self.disk_overdue(since),
            DiskEvent::Idle(life, syncs) if self.is_life(life) => self.disk_idle(syncs),
            DiskEvent::Prepared(life) if self.is_life(life) => self.disk_prepared(),
            DiskEvent::Persisted(life, marks) if self.is_life(life) => self.persisted(marks),
            DiskEvent::CheckpointDone(life, id) if self.is_life(life) => self.checkpoint_done(id),
            DiskEvent::Clean(life) if self.is_life(life) => self.clean(),
            DiskEvent::CleanerAsks(life, question) if self.is_life(life) => {
                self.cleaner_asks(question);
            }
            DiskEvent::CleanerTold(life, answer) if self.is_life(life) => {
                self.cleaner_told(*answer);
            }
            DiskEvent::Recall(life) if self.is_life(life) => self.recall(),
            DiskEvent::Places(life, places) if self.is_life(life) => self.take_places(*places),
            DiskEvent::Recalled(life, answer) if self.is_life(life) => self.recalled(answer),
            DiskEvent::Hold => self.hold(),
            DiskEvent::Copy(life) if self.is_life(life) => self.copy(),
            DiskEvent::BackUp => self.back_up(),
            DiskEvent::BackUpSegment(life) if self.is_life(life) => self.back_up_segment(),
            DiskEvent::LoseDisk => self.lose_disk(),
            DiskEvent::Poison => self.poison(),
            DiskEvent::Operate(life) if self.is_life(life) => self.operate(),
            DiskEvent::Fill => self.disk_fills(),
            DiskEvent::Hurry(life) if self.is_life(life) => self.disk_hurries(),
            DiskEvent::Scrub => self.scrub(),
            DiskEvent::Scrubbed(life) if self.is_life(life) => self.scrubbed(),
            DiskEvent::Suspect(life, segment) if self.is_life(life) => {
                self.look_at_suspect(segment)
            }
            DiskEvent::Repair(life) if self.is_life(life) => self.repair(),
            DiskEvent::Write(_)
            | DiskEvent::Sync(_)
            | DiskEvent::Overdue(..)
            | DiskEvent::Idle(..)
            | DiskEvent::Prepared(_)
            | DiskEvent::Persisted(..)
            | DiskEvent::CheckpointDone(..)
            | DiskEvent::Copy(_)
            | DiskEvent::BackUpSegment(_)
            | DiskEvent::Operate(_)
            | DiskEvent::Hurry(_)
            | DiskEvent::Scrubbed(_)
            | DiskEvent::Suspect(..)
            | DiskEvent::Repair(_)
            | DiskEvent::Clean(_)
            | DiskEvent::CleanerAsks(..)
            | DiskEvent::CleanerTold(..)
            | DiskEvent::Recall(_)
            | DiskEvent::Places(..)
            | DiskEvent::Recalled(..) => {}
            DiskEvent::Fail => self.disk_will_fail(),
            DiskEvent::Full(full) => self.disk_full(full),
            DiskEvent::Rot => self.rot(),
        }
    }

    fn is_life(&self, life: u32) -> bool {
        self.running && self.life == life
    }

    /// The counter of the next start.
    pub(in super::super) fn next_start(&self) -> u32 {
        self.disk.as_ref().map_or(self.life, |disk| disk.starts) + 1
    }

    pub(super) fn disk_later(&mut self, ms: u64, event: impl FnOnce(u32) -> DiskEvent) {
        let event = Event::Disk(event(self.life));
        self.at(self.now + ms, event);
    }

    /// The node's disk and stations, while it runs.
    pub(super) fn station(&mut self) -> Option<&mut Running> {
        self.disk.as_deref_mut()?.running.as_mut()
    }

    /// What the groups of a shard want written leaves for the writer.
    pub(in super::super) fn end_disk_turn(&mut self, shard: ShardId) {
        if self.station().is_none() {
            return;
        }
        self.take_checkpoint_slices(shard);
        let partitions = DiskNode::shard_partitions(&self.places, shard);
        self.poll_groups(&partitions);
    }

    /// Polls groups, hands over what they say, and sends what they want written as one order.
    pub(super) fn poll_groups(&mut self, partitions: &[PartitionId]) {
        let mut orders = Orders {
            durable: Order::of(Mark::Synced),
            relaxed: Order::of(Mark::Written),
        };
        let mut told = Vec::new();
        for &id in partitions {
            let Some(disk) = &mut self.disk else { return };
            told.push((id, disk.poll(id, &mut orders, self.now)));
        }
        for order in [orders.durable, orders.relaxed] {
            if order.marks.is_empty() {
                continue;
            }
            let delay = self.rng.below(2);
            if let Some(running) = self.station() {
                running.orders.push_back(order);
            }
            self.disk_later(delay, DiskEvent::Write);
        }
        for (id, told) in told {
            for one in told {
                self.tell(id, one);
            }
        }
    }

    fn tell(&mut self, id: PartitionId, told: Told) {
        // What was told before it may have ended the process (M50).
        if !self.running {
            return;
        }
        let shard = self.places.shard_of(id);
        match told {
            Told::Committed(at, entry) => {
                let count = self.disk.as_ref().map_or(0, |disk| disk.truth[&id].count());
                match self.treat(id, at, &entry) {
                    Treated::Applied => self.hand_over(id, at, entry, count),
                    Treated::Panics => self.inbound(shard, Inbound::Panics(id, at)),
                    Treated::Skipped => {
                        self.note(format_args!(
                            "entry {} of partition {} is skipped",
                            at.0, id.0
                        ));
                        let left = left_of_skipped(&entry);
                        let forgets = self.plan.bug == Some(Bug::SkipTakesSets);
                        if let Some(left) = left.filter(|_| !forgets) {
                            self.hand_over(id, at, left, count);
                        }
                    }
                }
            }
            Told::Role(Role::Leader(term)) => {
                self.note(format_args!("partition {} leads term {}", id.0, term.0));
                self.inbound(shard, Inbound::Lead(id, term));
            }
            Told::Role(Role::Follower) => unreachable!("a group of one leads for ever"),
            Told::Broken(text) => self.oracle.fail(format!("partition {}: {text}", id.0)),
        }
    }

    fn disk_write(&mut self) {
        let bug = self.plan.bug;
        let Some(running) = self.station() else {
            return;
        };
        let wrote = running.write(bug);
        match wrote {
            Wrote::Nothing => return,
            Wrote::Failed(error) => return self.stop_for_disk(&error.to_string()),
            Wrote::NoRoom => {
                running.log.refresh_space();
                self.log_stands(true);
                self.disk_later(20, DiskEvent::Write);
            }
            Wrote::Batch(answers) => {
                running.log.check();
                self.log_stands(false);
                self.disk_written(answers);
            }
        }
        self.prepare_segments();
        self.tell_room();
    }

    /// The log has no room for what waits, its reserve included, or goes on.
    fn log_stands(&mut self, stands: bool) {
        if self.oracle.log_stands(stands, self.now) {
            self.note(format_args!("the log stands: {stands}"));
        }
    }

    /// Those who wait for the write are answered; the sync begins when somebody waits for it.
    fn disk_written(&mut self, answers: Answers) {
        let Answers {
            synced,
            written,
            is_awaited,
        } = answers;
        let is_awaited = is_awaited || !synced.is_empty();
        if !written.is_empty() {
            let delay = self.rng.below(3);
            self.disk_later(delay, |life| DiskEvent::Persisted(life, written));
        }
        let now = self.now;
        let Some(running) = self.station() else {
            return;
        };
        if running.written.is_none() {
            running.written = Some(now);
            if !is_awaited {
                self.disk_later(RELAXED_MS, |life| DiskEvent::Overdue(life, now));
            }
        }
        if is_awaited {
            let ms = self.rng.between(1, self.plan.commit_ms);
            if let Some(running) = self.station() {
                running.writing = Some(synced);
            }
            self.disk_later(ms, DiskEvent::Sync);
        } else {
            self.disk_later(0, DiskEvent::Write);
        }
    }

    /// What was written at that moment has waited long enough, unless a sync has come since then or is under way.
    fn disk_overdue(&mut self, since: u64) {
        let waits = self
            .station()
            .is_some_and(|running| running.written == Some(since) && running.writing.is_none());
        if waits {
            self.disk_sync();
        }
    }

    fn disk_sync(&mut self) {
        let Some(running) = self.station() else {
            return;
        };
        if let Err(error) = running.log.sync() {
            return self.stop_for_disk(&error.to_string());
        }
        running.log.check();
        running.syncs += 1;
        running.written = None;
        let syncs = running.syncs;
        let marks = running.writing.take().unwrap_or_default();
        let waits = !running.orders.is_empty();
        let plan = self.disk.as_ref().map(|disk| &disk.plan);
        let probe = plan.is_some_and(|plan| syncs.is_multiple_of(plan.probe_every));
        let probe_log = plan.is_some_and(|plan| plan.every_sync);
        let delay = self.rng.below(3);
        self.disk_later(delay, |life| DiskEvent::Persisted(life, marks));
        if waits {
            self.disk_later(0, DiskEvent::Write);
        } else {
            self.disk_later(IDLE_MS, |life| DiskEvent::Idle(life, syncs));
        }
        if probe {
            self.probe_power_loss();
        } else if probe_log {
            self.probe_sync();
        }
    }

    fn disk_idle(&mut self, syncs: u64) {
        let Some(running) = self.station() else {
            return;
        };
        let is_busy = running.writing.is_some() || running.written.is_some();
        if running.syncs != syncs || is_busy || !running.orders.is_empty() {
            return;
        }
        match running.log.witness() {
            Ok(_) | Err(WriteError::NoSpace) => {}
            Err(error) => self.stop_for_disk(&error.to_string()),
        }
    }

    /// What a file that is used again has of rot nobody knows of.
    fn forget_unnoticed(&self) {
        let Some(node) = self.disk.as_deref().filter(|node| node.rotten.is_some()) else {
            return;
        };
        if let Some(running) = &node.running {
            let held = running.log.held_segments();
            node.rotten.forget_unnoticed(&held, &node.log_folder);
        }
    }

    pub(super) fn prepare_segments(&mut self) {
        let Some(running) = self.station() else {
            return;
        };
        if running.job.is_none() {
            running.job = running.log.prepare();
            if running.job.is_some() {
                let ms = self.rng.between(1, 5);
                self.disk_later(ms, DiskEvent::Prepared);
            }
        }
    }

    fn disk_prepared(&mut self) {
        self.forget_unnoticed();
        let Some(running) = self.station() else {
            return;
        };
        let mut is_probed = false;
        if let Some(job) = running.job.take() {
            if let Err(error) = running.log.prepared(job.run()) {
                return self.stop_for_disk(&error.to_string());
            }
            running.log.check();
            let recycled = running.log.counts().recycled;
            is_probed = recycled.is_multiple_of(PROBE_RECYCLED);
        }
        // What was in the file has just gone: a loss of power now shows whether it was needed.
        if is_probed {
            self.probe_power_loss();
        }
        self.prepare_segments();
        self.tell_room();
    }

    /// Shards hear when the disk has only its reserve left, and when that is over (M47).
    pub(super) fn tell_room(&mut self) {
        let Some(running) = self.station() else {
            return;
        };
        let state = running.log.space().state;
        if mem::replace(&mut running.space, state) == state {
            return;
        }
        let room = match state {
            SpaceState::Enough => DiskRoom::Enough,
            SpaceState::Low => DiskRoom::Short,
        };
        self.note(format_args!("the disk has room: {room:?}"));
        let now = self.now;
        self.oracle.disk_short(state == SpaceState::Low, now);
        if state == SpaceState::Low {
            self.give_up_backup();
        }
        for shard in (0..self.plan.shards).map(ShardId) {
            self.inbound(shard, Inbound::Room(room));
        }
    }

    fn persisted(&mut self, marks: Marks) {
        let mut partitions: Vec<PartitionId> = Vec::new();
        let Some(running) = self.station() else {
            return;
        };
        let mut has_cleaned = false;
        for waits in marks {
            let (id, number) = match waits {
                Waits::Group(id, number) => (id, number),
                Waits::Cleaner => {
                    running.cleaning.cleaner.written();
                    has_cleaned = true;
                    continue;
                }
            };
            let group = running
                .groups
                .get_mut(&id)
                .expect("every partition has a group");
            group.persisted(number);
            partitions.push(id);
        }
        partitions.sort_unstable();
        partitions.dedup();
        if has_cleaned {
            self.wake_cleaner(3);
        }
        self.poll_groups(&partitions);
    }
}
