//! The stations: the writer, which makes one batch of all that gathered while it synced, and the reader, which makes segments
//! ready.

use std::mem;

use courser_contract::{PartitionId, ShardId};
use courser_engine::DiskRoom;
use courser_log::{Push, SpaceState, WriteError};

use super::super::{Event, World};
use super::groups::Told;
use super::{DiskEvent, DiskNode, Marks, Order, Running};
use crate::bug::Bug;
use crate::shell::Inbound;
use courser_cluster::{Consensus, Role};

/// A disk that was idle for so long gets a witness (M44).
const IDLE_MS: u64 = 100;

/// How a write went.
enum Wrote {
    Nothing,
    Batch,
    NoRoom,
    Failed(WriteError),
}

impl Running {
    /// Writes one batch of what waits, with all that a large entry needs.
    fn write(&mut self, bug: Option<Bug>) -> Wrote {
        if self.writing.is_some() || self.orders.is_empty() {
            return Wrote::Nothing;
        }
        let mut marks = Marks::new();
        while let Some(order) = self.orders.front_mut() {
            if bug == Some(Bug::SwapRecords) {
                order.records.make_contiguous().reverse();
            }
            while let Some(record) = order.records.front() {
                match self.batch.push(record) {
                    Push::Taken => drop(order.records.pop_front()),
                    Push::Full => break,
                }
            }
            if !order.records.is_empty() || self.batch.is_unfinished() {
                break;
            }
            marks.append(&mut order.marks);
            self.orders.pop_front();
        }
        self.put(marks)
    }

    fn put(&mut self, mut marks: Marks) -> Wrote {
        if self.batch.is_empty() {
            return Wrote::Nothing;
        }
        loop {
            match self.log.write(&mut self.batch) {
                Ok(_) => {}
                Err(WriteError::NoSpace) => {
                    // The same batch again, later: its marks wait with it.
                    self.orders.push_front(Order {
                        marks,
                        ..Order::default()
                    });
                    return Wrote::NoRoom;
                }
                Err(error) => return Wrote::Failed(error),
            }
            let unfinished = self.batch.is_unfinished();
            self.batch.clear();
            if !unfinished {
                break;
            }
        }
        // The entry that was large has been written to its end.
        if let Some(order) = self
            .orders
            .front_mut()
            .filter(|order| order.records.is_empty())
        {
            marks.append(&mut order.marks);
            self.orders.pop_front();
        }
        self.writing = Some(marks);
        Wrote::Batch
    }

    pub(super) fn marks_waiting(&self) -> Marks {
        self.orders
            .iter()
            .flat_map(|order| order.marks.iter().copied())
            .collect()
    }
}

impl World {
    pub(in super::super) fn disk_event(&mut self, event: DiskEvent) {
        match event {
            DiskEvent::Write(life) if self.is_life(life) => self.disk_write(),
            DiskEvent::Sync(life) if self.is_life(life) => self.disk_sync(),
            DiskEvent::Idle(life, syncs) if self.is_life(life) => self.disk_idle(syncs),
            DiskEvent::Prepared(life) if self.is_life(life) => self.disk_prepared(),
            DiskEvent::Persisted(life, marks) if self.is_life(life) => self.persisted(marks),
            DiskEvent::CheckpointDone(life, id) if self.is_life(life) => self.checkpoint_done(id),
            DiskEvent::Write(_)
            | DiskEvent::Sync(_)
            | DiskEvent::Idle(..)
            | DiskEvent::Prepared(_)
            | DiskEvent::Persisted(..)
            | DiskEvent::CheckpointDone(..) => {}
            DiskEvent::Fail => self.disk_will_fail(),
            DiskEvent::Full(full) => self.disk_full(full),
        }
    }

    fn is_life(&self, life: u32) -> bool {
        self.running && self.life == life
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
        let mut order = Order::default();
        let mut told = Vec::new();
        for &id in partitions {
            let Some(disk) = &mut self.disk else { return };
            told.push((id, disk.poll(id, &mut order)));
        }
        if !order.marks.is_empty() {
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
        let shard = self.places.shard_of(id);
        match told {
            Told::Committed(at, entry) => {
                let count = self.disk.as_ref().map_or(0, |disk| disk.truth[&id].count());
                self.hand_over(id, at, entry, count);
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
                self.disk_later(20, DiskEvent::Write);
            }
            Wrote::Batch => {
                if bug == Some(Bug::AckBeforeSync) {
                    let marks = running.writing.clone().unwrap_or_default();
                    self.disk_later(0, |life| DiskEvent::Persisted(life, marks));
                }
                let ms = self.rng.between(1, self.plan.commit_ms);
                self.disk_later(ms, DiskEvent::Sync);
            }
        }
        self.prepare_segments();
        self.tell_room();
    }

    fn disk_sync(&mut self) {
        let bug = self.plan.bug;
        let Some(running) = self.station() else {
            return;
        };
        if let Err(error) = running.log.sync() {
            return self.stop_for_disk(&error.to_string());
        }
        running.syncs += 1;
        let syncs = running.syncs;
        let mut marks = running.writing.take().unwrap_or_default();
        if bug == Some(Bug::CommitBeyondSynced) {
            marks.extend(running.marks_waiting());
        }
        let waits = !running.orders.is_empty();
        let probe = self
            .disk
            .as_ref()
            .is_some_and(|disk| syncs.is_multiple_of(disk.plan.probe_every));
        let delay = self.rng.below(3);
        self.disk_later(delay, |life| DiskEvent::Persisted(life, marks));
        if waits {
            self.disk_later(0, DiskEvent::Write);
        } else {
            self.disk_later(IDLE_MS, |life| DiskEvent::Idle(life, syncs));
        }
        if probe {
            self.probe_power_loss();
        }
    }

    fn disk_idle(&mut self, syncs: u64) {
        let Some(running) = self.station() else {
            return;
        };
        if running.syncs != syncs || running.writing.is_some() || !running.orders.is_empty() {
            return;
        }
        match running.log.witness() {
            Ok(_) | Err(WriteError::NoSpace) => {}
            Err(error) => self.stop_for_disk(&error.to_string()),
        }
    }

    fn prepare_segments(&mut self) {
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
        let Some(running) = self.station() else {
            return;
        };
        if let Some(job) = running.job.take() {
            running.log.prepared(job.run());
            running.log.check();
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
        for shard in (0..self.plan.shards).map(ShardId) {
            self.inbound(shard, Inbound::Room(room));
        }
    }

    fn persisted(&mut self, marks: Marks) {
        let mut partitions: Vec<PartitionId> = Vec::new();
        let Some(running) = self.station() else {
            return;
        };
        for (id, number) in marks {
            let group = running
                .groups
                .get_mut(&id)
                .expect("every partition has a group");
            group.persisted(number);
            partitions.push(id);
        }
        partitions.sort_unstable();
        partitions.dedup();
        self.poll_groups(&partitions);
    }
}
