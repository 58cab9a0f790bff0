//! A node that loses its disk and comes out of a backup: all that happened behind the cut has never been. Clients, oracle and truth are what they were at
//! the cut, as if the process had been killed there; then the rules are the same as before, also for what is committed from there on.

use std::collections::BTreeMap;

use courser_contract::{Class, LogIndex, PartitionId};

use super::super::World;
use super::truth::Truth;
use crate::client::Client;
use crate::oracle::Oracle;
use crate::shell::class_of_client;

/// More shards than this make no other worlds.
const SHARDS_MAX: u64 = 3;

/// What is known at a cut.
#[derive(Clone)]
pub(super) struct Memory {
    at: u64,
    /// The start counter.
    pub(super) starts: u32,
    pub(super) truth: BTreeMap<PartitionId, Truth>,
    /// The state of each partition in memory, and its last entry.
    pub(super) states: BTreeMap<PartitionId, (LogIndex, Vec<u8>)>,
    clients: Vec<Client>,
    oracle: Oracle,
    /// Messages that were dropped since they were too old, since there was no room, and since they had expired.
    dropped: [u64; 3],
}

impl World {
    /// What is known now.
    pub(super) fn remember(&mut self) -> Memory {
        self.count_dropped();
        let node = self.disk.as_ref().expect("worlds with a disk only");
        let partitions = self.shards.iter().flat_map(|shard| shard.partitions());
        let logged = partitions.filter(|(id, _)| !id.is_volatile());
        let states = logged.map(|(id, it)| (id, (it.applied(), it.encode_state())));
        Memory {
            at: self.now,
            starts: node.starts,
            truth: node.truth.clone(),
            states: states.collect(),
            clients: self.clients.clone(),
            oracle: self.oracle.clone(),
            dropped: [
                self.counts.too_old,
                self.counts.overflowed,
                self.counts.expired,
            ],
        }
    }

    /// The disk is lost with all that is on it, and the node is made anew from a backup, often the last one, with any number of shards.
    pub(super) fn lose_disk(&mut self) {
        if self.healing {
            return;
        }
        if self.running {
            self.note(format_args!("the disk is lost"));
            self.die();
        }
        if self.failed() {
            return;
        }
        let shards = self.rng.between(1, SHARDS_MAX) as u16;
        let Some(node) = self.disk.as_deref_mut() else {
            return;
        };
        let Some(last) = node.backups.len().checked_sub(1) else {
            return;
        };
        let which = match node.rng.chance(50) {
            true => last,
            false => node.rng.below(last as u64 + 1) as usize,
        };
        let backup = &node.backups[which];
        let memory = backup.memory.clone();
        (node.log_folder, node.checkpoint_folder) = backup.folders();
        node.truth = memory.truth;
        node.starts = memory.starts;
        node.down = None;
        self.places.shards = shards;
        node.places.shards = shards;
        self.plan.shards = shards;
        self.count_dropped();
        let counts = &mut self.counts;
        [counts.too_old, counts.overflowed, counts.expired] = memory.dropped;
        let abandoned = std::mem::replace(&mut self.oracle, memory.oracle);
        self.oracle.goes_on_from(memory.at, &abandoned);
        self.clients = memory.clients;
        self.forget_connections();
        for place in 0..self.clients.len() {
            let client = &mut self.clients[place];
            if class_of_client(client.id()) == Class::Volatile {
                client.loses_all(&mut self.oracle);
            }
            self.with_client(place, |it, ctx| it.breaks(ctx));
        }
        self.counts.restored += 1;
        self.note(format_args!(
            "backup {which} is restored for {shards} shards: it is as it was at {}",
            memory.at
        ));
    }
}
