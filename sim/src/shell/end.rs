//! The end of a turn: entries are taken, bytes and batches leave.

use courser_contract::ShardId;

use super::message::Control;
use super::{Action, Shard, take_output};
use crate::bug::Bug;

/// Commits of volatile partitions in one turn.
const ROUNDS_MAX: u32 = 10_000;

impl Shard {
    pub(super) fn end_turn(&mut self) {
        for round in 0.. {
            assert!(round < ROUNDS_MAX, "a turn does not end");
            self.handle_local();
            let committed = self.commit();
            if let Some((round, changes)) =
                self.hub.index.as_mut().and_then(|index| index.publish())
            {
                self.hub.push_all(&Control::IndexPublished(round, changes));
            }
            let partitions = &self.partitions;
            self.hub.settle_fences(|id, proposed| {
                let owned = partitions.get(&id);
                owned.is_none_or(|owned| owned.partition.has_applied(proposed))
            });
            if !committed && self.hub.local.is_empty() {
                break;
            }
        }
        self.flush();
    }

    /// Entries that are due: volatile ones commit at once (M13), durable ones go to the store.
    fn commit(&mut self) -> bool {
        let ids: Vec<_> = self.partitions.keys().copied().collect();
        let mut some = false;
        for id in ids {
            let owned = self.partitions.get_mut(&id).expect("it was listed");
            if let Some(question) = owned.partition.take_question(self.hub.now) {
                self.hub.actions.push(Action::Ask(question));
            }
            if !owned.partition.has_entry() {
                continue;
            }
            let Some(entry) = owned.partition.take_entry(self.hub.now) else {
                continue;
            };
            some = true;
            let early = self.hub.bug == Some(Bug::ApplyBeforeCommit) && !owned.elected;
            if !id.is_volatile() {
                self.hub.actions.push(Action::Propose(id, entry.clone()));
            }
            if id.is_volatile() || early {
                self.committed(id, None, entry);
            }
        }
        some
    }

    fn flush(&mut self) {
        for conn in self.fronts.keys().copied().collect::<Vec<_>>() {
            // Room in the output may bring more of it.
            for _ in 0..64 {
                let Some(connection) = self.fronts.get_mut(&conn).filter(|c| !c.stalled) else {
                    break;
                };
                let bytes = take_output(&mut connection.front);
                if bytes.is_empty() {
                    break;
                }
                self.hub.actions.push(Action::Bytes(conn, bytes));
                self.with_front(conn, |front, now, fx, _| front.handle_output_room(now, fx));
            }
        }
        for peer in 0..self.hub.out.len() {
            let batch = std::mem::take(&mut self.hub.out[peer]);
            if !batch.is_empty() {
                self.hub.sent[peer] += 1;
                self.hub
                    .actions
                    .push(Action::Batch(ShardId(peer as u16), batch));
            }
        }
    }

    /// How many batches of a peer are handled.
    pub(crate) fn handled(&self, peer: ShardId) -> u64 {
        self.handled[usize::from(peer.0)]
    }
}
