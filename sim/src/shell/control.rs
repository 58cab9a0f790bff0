//! Messages beside the data path: changes of L1, fences, news of leaders.

use courser_contract::{Fence, ShardId};
use courser_shard::Watermarks;

use super::Shard;
use super::message::{Control, Message};
use crate::bug::Bug;

impl Shard {
    pub(super) fn handle_control(&mut self, from: ShardId, control: Control) {
        match control {
            Control::Index(partition, token, change) => {
                if self.hub.bug == Some(Bug::ConfirmIndexEarly) {
                    let home = self.hub.places.shard_of(partition);
                    self.hub.push(
                        home,
                        Message::Control(Control::IndexConfirmed(partition, token)),
                    );
                }
                let index = self.hub.index.as_mut().expect("shard 0 writes the index");
                index.add(partition, token, change);
            }
            Control::IndexPublished(round, changes) => {
                for (partition, change) in changes {
                    for filter in &change.remove {
                        self.hub.l1.remove(filter, &partition);
                    }
                    for filter in &change.add {
                        self.hub.l1.insert(filter, partition);
                    }
                }
                self.hub
                    .push(from, Message::Control(Control::IndexUsed(round)));
            }
            Control::IndexUsed(round) => {
                let index = self.hub.index.as_mut().expect("shard 0 writes the index");
                for (partition, token) in index.used(from, round) {
                    let home = self.hub.places.shard_of(partition);
                    self.hub.push(
                        home,
                        Message::Control(Control::IndexConfirmed(partition, token)),
                    );
                }
            }
            Control::IndexConfirmed(id, token) => {
                self.hub.index_confirmed += 1;
                self.with_partition(id, |it, now, fx| it.handle_index_confirmed(now, token, fx));
            }
            Control::FenceAsk(id, fence) if from != self.hub.id => {
                // What this shard has told itself, and has not come to, was matched before.
                let me = self.hub.id;
                self.hub
                    .push(me, Message::Control(Control::FenceAsk(id, fence)));
            }
            Control::FenceAsk(id, fence) => {
                let mut marks = match fence {
                    Fence::Matched | Fence::Cut(_) => self.hub.watermarks(),
                    Fence::Forwarded => Watermarks::default(),
                };
                if let Fence::Cut(cut) = fence {
                    self.hub.cuts[usize::from(id.asker.0)] = cut;
                }
                let proposed = self.partitions.iter().filter_map(|(&id, owned)| {
                    let proposed = match fence {
                        Fence::Matched => None,
                        Fence::Forwarded => owned.partition.forwarding(),
                        Fence::Cut(_) => Some(owned.partition.proposed()),
                    };
                    Some((id, proposed?))
                });
                marks.proposed = proposed.collect();
                self.hub.fences.owe(id, fence, marks);
            }
            Control::FencePassed(id) => {
                if let Some((id, token)) = self.hub.fence_passed(id) {
                    self.with_partition(id, |it, now, fx| it.handle_fence(now, token, fx));
                }
            }
            Control::Led(partition, term) => self.hub.led(partition, term),
        }
    }
}
