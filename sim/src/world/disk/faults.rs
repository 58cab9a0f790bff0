//! What happens to the disk.

use std::io::ErrorKind;

use courser_log::testing::{Call, MemDisk};

use super::super::{Event, World};
use super::DiskEvent;
use crate::rng::Rng;

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
        // Drawn apart: what a scrub finds changes nothing of the world.
        let mut rng = Rng::new(self.plan.seed ^ 0x0000_5C2B_0000);
        for _ in 0..disk.plan.scrubs {
            events.push((rng.between(300, last), DiskEvent::Scrub));
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
