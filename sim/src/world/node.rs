//! The life of the node: how it begins, who leads, when it serves.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::rc::Rc;

use courser_contract::{Dropped, PartitionId, ShardId};
use courser_engine::Partition;
use courser_mqtt::front::{FrontConfig, OutputPool};

use super::World;
use crate::bug::Bug;
use crate::link::Links;
use crate::shell::{Inbound, Make, Shard};

impl World {
    pub(super) fn look_whether_serving(&mut self) {
        let counts = self.shards.iter().map(Shard::index_counts);
        let (asked, confirmed) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if asked == confirmed && self.shards.iter().all(Shard::knows_leaders) {
            self.serving = true;
            self.shards.iter_mut().for_each(Shard::serve);
            self.note(format_args!("the node serves"));
            self.settle_losses();
        }
    }

    /// A node begins: its partitions come out of their logs.
    pub(super) fn start(&mut self) {
        self.life += 1;
        let life = self.life;
        self.note(format_args!("start {life}"));
        let Some(mut recovered) = self.recover() else {
            return;
        };
        self.running = true;
        let start = self.disk.as_ref().map_or(self.life, |disk| disk.starts);
        let pool = OutputPool::new(1 << 20);
        let mut fronts = FrontConfig::new(pool);
        fronts.receive_maximum =
            NonZeroU16::new(self.plan.receive_maximum).unwrap_or(NonZeroU16::MIN);
        fronts.output_bytes_max = self.plan.output_bytes_max;
        if let Some(planted) = self.plan.bug.and_then(Bug::in_front) {
            fronts.plant(planted);
        }
        let fronts = Rc::new(fronts);
        self.links = Links::new(self.plan.shards, self.plan.link_ms);
        self.turn_at = vec![None; usize::from(self.plan.shards)];
        self.timer_at = vec![u64::MAX; usize::from(self.plan.shards)];
        self.count_dropped();
        self.shards.clear();
        for id in (0..self.plan.shards).map(ShardId) {
            let make = Make {
                id,
                start: match self.plan.bug {
                    Some(Bug::SameStart) => 1,
                    _ => start,
                },
                places: self.places,
                limits: &self.plan.limits,
                fronts: fronts.clone(),
                bug: self.plan.bug,
            };
            let rng = self.rng.split();
            let shard = Shard::new(make, rng, |config| {
                recovered
                    .remove(&config.id)
                    .unwrap_or_else(|| Partition::new(config))
            });
            self.shards.push(shard);
        }
        if self.disk.is_some() {
            return self.begin_groups();
        }
        for partition in self.places.logged() {
            self.elect(partition);
        }
    }

    /// The partitions as their logs say; none: the disk does not give them now.
    fn recover(&mut self) -> Option<BTreeMap<PartitionId, Partition>> {
        if self.disk.is_some() {
            return self.recover_from_disk();
        }
        let recovered = self.places.logged().map(|id| {
            let config = self.places.config(id, &self.plan.limits);
            (id, Partition::replay(config, self.committed_entries(id)))
        });
        Some(recovered.collect())
    }

    /// What the shards have counted so far ends with them.
    pub(super) fn count_dropped(&mut self) {
        for shard in &mut self.shards {
            self.counts.too_old += shard.take_dropped(Dropped::TooOld);
            self.counts.overflowed += shard.take_dropped(Dropped::QueueFull);
            self.counts.expired += shard.take_dropped(Dropped::Expired);
            self.counts.missed += shard.take_dropped(Dropped::Damaged);
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
