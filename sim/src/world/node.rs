//! The life of the node: how it begins, who leads, when it serves.

use std::num::NonZeroU16;
use std::rc::Rc;

use courser_contract::{PartitionId, ShardId};
use courser_mqtt::front::{FrontConfig, OutputPool};

use super::World;
use crate::link::Links;
use crate::shell::{Inbound, Make, Shard};

impl World {
    pub(super) fn look_whether_serving(&mut self) {
        let counts = self.shards.iter().map(Shard::index_counts);
        let (asked, confirmed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if asked == confirmed && self.shards.iter().all(Shard::knows_leaders) {
            self.serving = true;
            self.note(format_args!("the node serves"));
        }
    }

    /// A node begins: its partitions come out of their logs.
    pub(super) fn start(&mut self) {
        self.life += 1;
        self.running = true;
        let life = self.life;
        self.note(format_args!("start {life}"));
        let pool = OutputPool::new(1 << 20);
        let mut fronts = FrontConfig::new(pool);
        fronts.receive_maximum =
            NonZeroU16::new(self.plan.receive_maximum).unwrap_or(NonZeroU16::MIN);
        let fronts = Rc::new(fronts);
        self.links = Links::new(self.plan.shards, self.plan.link_ms);
        self.turn_at.fill(None);
        self.timer_at.fill(u64::MAX);
        self.shards.clear();
        for id in (0..self.plan.shards).map(ShardId) {
            let make = Make {
                id,
                start: self.life,
                places: self.places,
                limits: &self.plan.limits,
                fronts: fronts.clone(),
                bug: self.plan.bug,
            };
            let rng = self.rng.split();
            let store = &self.store;
            self.shards
                .push(Shard::new(make, rng, |id| store.entries(id).to_vec()));
        }
        for partition in self.places.durable() {
            self.elect(partition);
        }
    }

    pub(super) fn elect(&mut self, partition: PartitionId) {
        if !self.running {
            return;
        }
        self.leaderless.insert(partition);
        let term = self.store.next_term(partition);
        self.note(format_args!(
            "partition {} elects term {}",
            partition.0, term.0
        ));
        self.last_fault = self.now;
        self.inbound(
            self.places.shard_of(partition),
            Inbound::Lead(partition, term),
        );
    }
}
