//! What happens to the disk.

use std::io::ErrorKind;

use courser_contract::ShardId;
use courser_log::SpaceState;
use courser_log::testing::{Call, MemDisk};

use super::super::{Event, World};
use super::DiskEvent;
use crate::rng::Rng;

/// On fewer than these and the reserve there is never room again: 2 that end a shortage, the one that is written, and some with what is still
/// needed when everything is taken.
const SEGMENTS_LEAST: u64 = 8;

/// How often a node with nothing but its reserve saves what is due, slice by slice.
const HURRY_MS: u64 = 20;

/// So long after the last message was taken there is room.
const DRAINED_MS: u64 = 20_000;

/// Before that there is little that may rot.
const ROTS_FROM_MS: u64 = 700;

/// Longest time for which a disk is full.
const FULL_MS: u64 = 1_500;

impl World {
    pub(in super::super) fn plan_disk_faults(&mut self) {
        let Some(disk) = &mut self.disk else { return };
        let last = self.plan.faulty_ms.saturating_sub(500).max(1_000);
        let mut events = Vec::new();
        for _ in 0..disk.plan.failures {
            events.push((disk.rng.between(300, last), DiskEvent::Fail));
        }
        for _ in 0..disk.plan.full {
            let from = disk.rng.between(300, last);
            events.push((from, DiskEvent::Full(true)));
            events.push((from + disk.rng.between(50, FULL_MS), DiskEvent::Full(false)));
        }
        for _ in 0..disk.plan.copies {
            events.push((disk.rng.between(300, last), DiskEvent::Hold));
        }
        for _ in 0..disk.plan.backups {
            events.push((disk.rng.between(300, last), DiskEvent::BackUp));
        }
        for _ in 0..disk.plan.losses {
            events.push((disk.rng.between(last / 3, last), DiskEvent::LoseDisk));
        }
        for _ in 0..disk.plan.poisons {
            events.push((disk.rng.between(300, last / 2), DiskEvent::Poison));
        }
        if disk.plan.drains {
            events.push((disk.rng.between(300, last / 2), DiskEvent::Fill));
        }
        // Drawn apart: what a scrub finds changes nothing of the world.
        let mut rng = Rng::new(self.plan.seed ^ 0x0000_5C2B_0000);
        for _ in 0..disk.plan.scrubs {
            events.push((rng.between(300, last), DiskEvent::Scrub));
        }
        for _ in 0..disk.plan.rots {
            events.push((disk.rotten.between(ROTS_FROM_MS, last), DiskEvent::Rot));
        }
        for (at, event) in events {
            self.at(at, Event::Disk(event));
        }
    }

    /// One of the next calls fails, or the process dies in the middle of them.
    pub(super) fn disk_will_fail(&mut self) {
        let healing = self.healing;
        let Some(disk) = self.disk.as_deref_mut().filter(|_| !healing) else {
            return;
        };
        let folder = if disk.rng.chance(75) {
            &disk.log_folder
        } else {
            &disk.checkpoint_folder
        };
        folder.seed_faults(disk.rng.next());
        let after = disk.rng.below(6);
        let call = *disk.rng.pick(&[
            Call::Write,
            Call::Sync,
            Call::Sync,
            Call::SyncDir,
            Call::Create,
            Call::Rename,
            Call::Read,
        ]);
        let text = if disk.rng.chance(30) {
            folder.die_at(after + 1);
            format!("the process dies at call {after} of its disk")
        } else {
            folder.fail(call, after, 1, ErrorKind::Other);
            format!("{call:?} {after} of the disk fails")
        };
        self.note(format_args!("{text}"));
    }

    /// No more faults, nor those that were to come.
    pub(in super::super) fn heal_disk(&mut self) {
        self.heal_program();
        if let Some(disk) = &self.disk {
            disk.log_folder.forget_faults();
            disk.checkpoint_folder.forget_faults();
        }
    }

    /// The disk fills up, or has room again.
    pub(super) fn disk_full(&mut self, full: bool) {
        let full = full && !self.healing;
        let Some(disk) = self.disk.as_deref_mut() else {
            return;
        };
        let segment = disk.plan.segment_bytes;
        for folder in [&disk.log_folder, &disk.checkpoint_folder] {
            let room = disk.rng.below(3 * segment);
            set_room(folder, full.then_some(room));
        }
        if let Some(running) = &mut disk.running {
            running.log.refresh_space();
        }
        self.note(format_args!("the disk is full: {full}"));
        self.tell_room();
        self.disk_later(1, DiskEvent::Write);
    }

    /// The log's disk has little more room than it has segments, from now on.
    pub(super) fn disk_fills(&mut self) {
        let Some(disk) = self.disk.as_deref_mut() else {
            return;
        };
        let segment = disk.plan.segment_bytes;
        let room = disk.rng.below(3 * segment);
        let least = (u64::from(disk.plan.reserve_segments) + SEGMENTS_LEAST) * segment;
        let used = disk.log_folder.used().max(least);
        disk.log_folder.set_capacity(Some(used + room));
        if let Some(running) = &mut disk.running {
            running.log.refresh_space();
        }
        self.note(format_args!("the disk gets no larger"));
        self.tell_room();
        self.disk_hurries();
    }

    /// While there is only the reserve, all partitions are saved again and again, so that what was taken frees segments.
    pub(super) fn disk_hurries(&mut self) {
        let Some(running) = self.station() else {
            return;
        };
        running.log.refresh_space();
        running.hurries = running.log.space().state == SpaceState::Low;
        self.tell_room();
        self.prepare_segments();
        for shard in (0..self.plan.shards).map(ShardId) {
            self.take_checkpoint_slices(shard);
        }
        self.wake_cleaner(20);
        self.disk_later(HURRY_MS, DiskEvent::Hurry);
    }

    /// M47: everything is taken, and there is room again without anybody's help.
    pub(in super::super) fn has_drained(&mut self) -> bool {
        let is_low = |world: &mut Self| {
            let running = world.station();
            running.is_some_and(|it| it.log.space().state == SpaceState::Low)
        };
        let end = self.now + DRAINED_MS;
        while self.now < end && is_low(self) {
            self.run_until(self.now + 250);
        }
        let drains = self.plan.disk.as_ref().is_some_and(|disk| disk.drains);
        if drains && is_low(self) {
            self.oracle
                .fail("M47: all is taken, and the disk has only its reserve".to_owned());
        }
        !self.failed()
    }

    /// A call failed for good: the process ends with code 74 and is started again.
    pub(super) fn stop_for_disk(&mut self, why: &str) {
        self.note(format_args!("exit 74: {why}"));
        self.counts.failures += 1;
        self.die();
    }
}

fn set_room(folder: &MemDisk, room: Option<u64>) {
    folder.set_capacity(room.map(|room| folder.used() + room));
}
