//! Turns of shards: when they come, and what is done with what they ask.

use courser_contract::ShardId;

use super::{Event, World};
use crate::bug::Bug;
use crate::shell::{Action, Inbound, Message};

impl World {
    /// Something has come to a shard: it gets a turn soon.
    pub(super) fn inbound(&mut self, shard: ShardId, inbound: Inbound) {
        let place = usize::from(shard.0);
        self.shards[place].inbox.push_back(inbound);
        if self.turn_at[place].is_none() {
            let at = self.now + self.rng.below(3);
            self.turn_at[place] = Some(at);
            self.at(at, Event::Turn(self.life, shard));
        }
    }

    pub(super) fn turn(&mut self, shard: ShardId) {
        let place = usize::from(shard.0);
        if self.turn_at[place].is_some_and(|at| at <= self.now) {
            self.turn_at[place] = None;
        }
        let now = self.clock();
        let before: Vec<_> = (0..self.plan.shards)
            .map(|peer| self.shards[place].handled(ShardId(peer)))
            .collect();
        let actions = self.shards[place].turn(now);
        for (peer, before) in before.into_iter().enumerate() {
            let handled = self.shards[place].handled(ShardId(peer as u16));
            if handled > before {
                let at = self
                    .links
                    .arrival(self.now, shard, ShardId(peer as u16), &mut self.rng);
                let returned = Inbound::Returned(shard, handled);
                self.at(
                    at,
                    Event::Inbound(self.life, ShardId(peer as u16), returned),
                );
            }
        }
        for action in actions {
            self.act(shard, action);
        }
        self.end_disk_turn(shard);
        self.arm(shard);
        self.check_owners();
        self.check_bounds(shard);
        self.check_partition(shard);
        if self.running && !self.serving {
            self.look_whether_serving();
        }
    }

    fn arm(&mut self, shard: ShardId) {
        let place = usize::from(shard.0);
        if let Some(at) = self.shards[place].poll_timeout() {
            let at = at.0.max(self.now + 1);
            if self.timer_at[place] <= self.now || at < self.timer_at[place] {
                self.timer_at[place] = at;
                self.at(at, Event::Turn(self.life, shard));
            }
        }
    }

    fn act(&mut self, shard: ShardId, action: Action) {
        match action {
            Action::Batch(to, mut messages) => {
                self.damage(&mut messages);
                let at = if self.plan.bug == Some(Bug::ReorderLink) {
                    self.links.arrival_unordered(self.now, &mut self.rng)
                } else {
                    self.links.arrival(self.now, shard, to, &mut self.rng)
                };
                if self.plan.bug == Some(Bug::LoseBatch) && !self.healing && self.rng.chance(3) {
                    messages.clear();
                }
                self.at(
                    at,
                    Event::Inbound(self.life, to, Inbound::Batch(shard, messages)),
                );
            }
            Action::Bytes(conn, bytes) => self.send_to_client(conn, bytes),
            Action::Closed { conn, cause } => {
                self.note(format_args!("conn {conn} closed by its front: {cause:?}"));
                self.closed(conn, cause);
            }
            Action::Attached { conn } => {
                self.note(format_args!("conn {conn} attached"));
                self.attached(conn);
            }
            Action::Propose(partition, entry) => self.propose(partition, entry),
            Action::Ask(question) => self.ask_for_records(question),
            Action::Deposed(partition) => self.deposed(partition),
            Action::Panicked(partition, at) => self.panicked(partition, at),
            Action::Unreadable(partition, lost) => self.unreadable(partition, &lost),
            Action::LossAccepted(partition, gone, counted) => {
                self.loss_accepted(partition, &gone, counted);
            }
            Action::Broken(text) => self.oracle.fail(text),
            Action::Note(line) => self.note(format_args!("{line}")),
            Action::Led(partition) => {
                self.leaderless.remove(&partition);
                self.note(format_args!("partition {} is led", partition.0));
            }
        }
    }

    /// The planted bug of a link that changes what it carries.
    fn damage(&mut self, messages: &mut [Message]) {
        if self.plan.bug != Some(Bug::DamagePayload) {
            return;
        }
        for message in messages {
            if let Message::Append { record, .. } = message
                && self.rng.chance(5)
            {
                let mut view = record.view();
                let mut payload = view.payload.to_vec();
                if let Some(last) = payload.last_mut() {
                    *last ^= 1;
                }
                view.payload = &payload;
                *record = courser_contract::Record::copy_of(&view);
            }
        }
    }
}
