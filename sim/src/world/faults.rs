//! Kills of the node and deposals of leaders.

use courser_contract::{Class, PartitionId};

use super::{Event, World};
use crate::bug::Bug;
use crate::client::group_names;
use crate::shell::{Inbound, class_of_client};

impl World {
    pub(super) fn plan_faults(&mut self) {
        let last = self.plan.faulty_ms.saturating_sub(500).max(1_000);
        for _ in 0..self.plan.kills {
            let at = self.rng.between(500, last);
            self.at(at, Event::Kill);
        }
        self.plan_disk_faults();
        for _ in 0..self.plan.deposals {
            let at = self.rng.between(500, last);
            self.at(at, Event::Depose);
        }
    }

    /// kill -9: what is in memory is gone, sockets break, logs keep what was committed and perhaps more.
    pub(super) fn kill(&mut self) {
        if !self.running || self.healing {
            return;
        }
        self.note(format_args!("kill"));
        self.die();
    }

    /// The process ends: what is in memory is gone, and sockets break.
    pub(super) fn die(&mut self) {
        self.check_replays();
        self.count_log();
        self.running = false;
        self.serving = false;
        let rng = &mut self.rng;
        match &mut self.disk {
            Some(disk) => disk.die(self.now),
            None => {
                let lose = self.plan.bug == Some(Bug::LoseEntry);
                self.store.kill(|end| rng.below(end), lose);
            }
        }
        for client in &mut self.clients {
            if class_of_client(client.id()) == Class::Volatile {
                client.loses_all(&mut self.oracle);
            }
        }
        self.oracle.killed(self.now);
        self.oracle.disk_short(false, self.now);
        self.oracle.released(false, self.now);
        self.break_all();
        self.probe_rot();
        self.probe_summary_rot();
        self.probe_checkpoint_rot();
        let back = self.now + self.rng.between(10, 1_500);
        self.last_fault = back;
        self.at(back, Event::Start);
    }

    /// Any durable partition; where two groups are busy, one of theirs: fronts stay when a group loses its leader, and are closed
    /// when their session does.
    fn partition_to_depose(&mut self) -> PartitionId {
        if self.plan.busy_groups > 1 {
            let (share, filter) = group_names(self.rng.below(self.plan.busy_groups));
            return self.places.group(&share, &filter);
        }
        PartitionId(self.rng.between(1, u64::from(self.plan.partitions)) as u16)
    }

    /// One partition loses its leader for a while.
    pub(super) fn depose(&mut self) {
        if !self.serving || self.healing {
            return;
        }
        let id = self.partition_to_depose();
        // One change of leader at a time: the next leader has applied all of the last one's entries.
        if !self.leaderless.insert(id) {
            return;
        }
        let clients = self.clients.iter().enumerate();
        let here = clients.filter(|(_, client)| self.places.session(client.id()) == id);
        let here: Vec<usize> = here.map(|(client, _)| client).collect();
        self.oracle.deposed(self.now, self.last_fault, &here);
        self.inbound(self.places.shard_of(id), Inbound::Follow(id));
    }
}
