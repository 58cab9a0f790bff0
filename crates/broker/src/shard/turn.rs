//! One turn of a shard: everything that can happen, in order.

use std::ops::Range;
use std::task::Context;

use bytes::Bytes;
use courser_contract::ShardId;

use courser_contract::{LogIndex, PartitionId};
use courser_engine::left_of_skipped;
use courser_memory::{Component, Scope};

use super::Shard;
use super::accept::LISTENERS;
use super::budget::Budget;
use super::recalls::Recalls;
use super::stop::Saves;
use crate::clock::thread_cpu_us;
use crate::failpoint;
use crate::latency::Moment;
use crate::repair::Accepted;
use crate::slots::Places;
use crate::stations::Counter;
use crate::store::{Store, Stored, Stores};

/// Commits and messages may lead to each other: so many rounds of both end a turn at the latest.
const ROUNDS_MAX: usize = 16;

/// What waits in outboxes is asked of all partitions only while less than this is left: it is bounded (M47), and a turn would look at each.
const FORWARDS_COUNT_BELOW: u64 = 1 << 30;

/// What follows a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The next one at once.
    Turn,
    /// Sleep until something happens.
    Sleep,
    /// The shard has stopped.
    End,
}

/// Counts what `act` allocates for a component: by the part of a turn, never by the message.
fn counted<T>(component: Component, act: impl FnOnce() -> T) -> T {
    let _scope = Scope::enter(component);
    act()
}

impl Shard {
    /// One turn.
    pub(crate) fn turn(&mut self, context: &mut Context<'_>) -> Next {
        self.doze.get_up();
        self.hub.now = self.clock.now();
        let delivered = self.hub.counters.publishes_sent;
        self.hub.latency.begin_turn(self.clock.last(), delivered);
        if let Some(apart_ms) = self.clock.news() {
            self.tell_of_clock(apart_ms);
        }
        let work = self.work_of_turn();
        self.hub.budget = Budget::of(work);
        self.observe_settings();
        self.observe_memory();
        self.observe_stop();
        self.observe_disk();
        self.store.begin_turn();
        self.fill_disk_budget();
        counted(Component::Partitions, || {
            self.handle_commits();
            self.handle_recalled();
        });
        self.observe_access();
        self.hub.budget = Budget::of(work / 2);
        counted(Component::Rings, || self.handle_rings());
        counted(Component::Partitions, || self.handle_local());
        // What other shards did not need is for the shard's own sockets.
        self.hub.budget.grant(work / 2);
        let timers_left = self.handle_timers();
        counted(Component::Control, || self.answer_questions());
        counted(Component::Connections, || {
            // Who is there already gets as much of a turn as those who come, however many these are.
            let aside = self.hub.budget.halve();
            self.welcome();
            self.accept();
            self.hub.budget.grant(aside);
            self.handle_sockets();
        });
        self.end_turn();
        let next = self.next(timers_left, context);
        self.count_turn(delivered);
        next
    }

    /// Units of work that a turn has for what comes in: none while too much waits to be handed out or written.
    fn work_of_turn(&self) -> i64 {
        let begun = self.local.as_ref().map_or(0, |it| it.batch.receivers());
        let queued = self.hub.links.local.receivers() + begun;
        let delivered = self.hub.counters.publishes_sent;
        if self.hub.output.unwritten.is_full(delivered, queued as u64) {
            0
        } else {
            Budget::TURN
        }
    }

    /// Time goes on from where it was (M6); every shard sees it, the first one says it.
    #[cold]
    fn tell_of_clock(&self, apart_ms: u64) {
        if self.hub.id == ShardId(0) {
            tracing::warn!(
                event = "clock_apart",
                apart_ms,
                "the system's clock is too far away to be followed: expiry goes by the time that has passed; restart the broker \
                 to take over a clock that was set forward"
            );
        }
    }

    /// What the stations say that concerns the shard's decisions.
    fn observe_disk(&mut self) {
        let Some(disk) = &self.hub.disk else {
            return;
        };
        let room = disk.room();
        if room != self.disk_room {
            self.disk_room = room;
            self.partitions.set_disk_room(room);
        }
        self.recover();
    }

    /// What the turn may let in: what the disk has for this shard, without what was let in and is not written, and what outboxes will have written
    /// once more. Once a turn: within it the budget counts what is let in.
    fn fill_disk_budget(&mut self) {
        let Stores::Disk(store) = &self.store else {
            return;
        };
        let mut left = store.room_left();
        if left < FORWARDS_COUNT_BELOW {
            left = left.saturating_sub(self.partitions.forward_bytes());
        }
        // Entries that the last turn has left are in no order yet.
        if !self.partitions.dirty.is_empty() {
            left = left.min(self.disk_budget.left());
        }
        self.disk_budget.fill(left);
        if self.disk_budget.has_refused() && self.hub.disk_state().want_room() {
            // Those that sleep may have what keeps segments (M47).
            store.wake_writer();
            for doze in &self.hub.links.ports.dozes {
                doze.wake();
            }
        }
    }

    /// What the store has for partitions, until the budget is spent.
    pub(crate) fn handle_commits(&mut self) {
        while !self.hub.budget.is_spent()
            && let Some(stored) = self.store.next()
        {
            self.handle_stored(stored);
        }
    }

    fn handle_stored(&mut self, stored: Stored) {
        if matches!(stored, Stored::Leads(..) | Stored::Follows(_)) {
            self.hub.counters.leader_changes += 1;
        }
        if stored.partition() == Places::METADATA {
            return self.handle_metadata(stored);
        }
        match stored {
            Stored::Unlogged(id, entry) => {
                self.with_partition(id, |it, now, fx| it.handle_unlogged(now, entry, fx));
                self.note_attached();
            }
            Stored::Committed(id, at, entry) => {
                let bytes = i64::try_from(entry.len()).unwrap_or(i64::MAX);
                self.hub.budget.spend(bytes / Budget::ENTRY_BYTES);
                let owned = self.partitions.at(self.partitions.place(id));
                owned.applied = at;
                owned.unsaved_bytes += entry.len() as u64;
                if owned.skips(at.index) {
                    return self.skip_entry(id, at.index, &entry);
                }
                let received = owned.take_proposed(entry.len());
                self.hub.applying.entry = Some((id, at.index));
                self.apply(received, place_of(&entry), |shard| {
                    shard.with_partition(id, |it, now, fx| {
                        failpoint::in_apply(&entry);
                        it.handle_committed(now, at.index, entry, fx);
                    });
                });
                self.hub.applying.entry = None;
                self.note_attached();
            }
            // The partition's own first entry of the term follows.
            Stored::Opened(..) => {}
            Stored::Leads(id, term) => {
                self.with_partition(id, |it, now, fx| it.handle_leader(now, term, fx));
            }
            Stored::Follows(id) => {
                self.with_partition(id, |it, now, fx| it.handle_follower(now, fx))
            }
        }
    }

    /// Applies the entry at a place in memory, whose publishes were received then: what is delivered out of it has not waited.
    fn apply(
        &mut self,
        received: Option<Moment>,
        entry: Range<usize>,
        act: impl FnOnce(&mut Self),
    ) {
        let outer = std::mem::replace(&mut self.hub.applying.bytes, entry);
        let before = self.hub.handle_received(received);
        act(self);
        self.hub.handle_received(before);
        self.hub.applying.bytes = outer;
    }

    /// The operator has ordered that an entry is not applied: it made the program panic (M50). What entries behind it count on is.
    #[cold]
    fn skip_entry(&mut self, id: PartitionId, index: LogIndex, entry: &Bytes) {
        if let Some(left) = left_of_skipped(entry) {
            self.with_partition(id, |it, now, fx| it.handle_committed(now, index, left, fx));
        }
        self.note_skipped(id, index);
    }

    #[cold]
    pub(super) fn note_skipped(&self, id: PartitionId, index: LogIndex) {
        tracing::warn!(event = "entry_skipped", partition = id.0, index = index.0);
        let state = self.hub.disk_state();
        state.add(Counter::EntriesSkipped, 1);
        state.damage().accepted(Accepted::Skipped(id, index));
    }

    /// Sockets in the order in which they became ready; what is left waits for the next turn.
    fn handle_sockets(&mut self) {
        let mut woken = std::mem::take(&mut self.woken);
        self.ready.drain(&mut woken);
        for place in woken.drain(..) {
            if place >= LISTENERS {
                self.accepting.wake(place);
            } else {
                self.queue(place);
            }
        }
        self.woken = woken;
        // A socket that is queued again by its own read comes in the next turn.
        for _ in 0..self.sockets.len() {
            if self.hub.budget.is_spent() {
                break;
            }
            let Some(place) = self.sockets.pop_front() else {
                break;
            };
            self.serve(place);
            self.handle_local();
        }
    }

    fn settle_fences(&mut self) {
        let partitions = &self.partitions;
        self.hub
            .settle_fences(|partition, proposed| partitions.has_applied(partition, proposed));
    }

    /// What the turn has gathered goes its way: entries, the index, rings, sockets.
    fn end_turn(&mut self) {
        self.hub.budget = Budget::of(Budget::TURN);
        for _ in 0..ROUNDS_MAX {
            counted(Component::Partitions, || {
                self.handle_local();
                self.commit();
            });
            counted(Component::Router, || self.hub.publish_index());
            self.settle_fences();
            if self.local.is_some()
                || (self.hub.links.local.is_empty() && self.partitions.dirty.is_empty())
            {
                break;
            }
        }
        counted(Component::Partitions, || {
            self.save();
            self.store.end_turn();
        });
        if let Stores::Disk(store) = &self.store {
            self.hub
                .links
                .watch_disk(store.backlog_bytes(), self.hub.now.tick);
        }
        for sender in self.hub.links.ports.to.iter_mut().flatten() {
            sender.collect();
        }
        self.settle_fences();
        self.hub.links.watch(self.hub.now.tick);
        self.resume_links();
        // Other shards begin while this one writes.
        counted(Component::Rings, || self.hub.links.ports.flush());
        counted(Component::Output, || self.write_touched());
        let delivered = self.hub.counters.publishes_sent;
        let clock = &self.clock;
        self.hub.latency.end_turn(delivered, || clock.moment());
        // What room in an output has brought.
        counted(Component::Rings, || self.hub.links.ports.flush());
        self.watch_soon();
    }

    /// Entries of partitions that were touched: volatile ones commit at once (M13), durable ones go to the store.
    pub(crate) fn commit(&mut self) {
        // Two lists in turn: a partition is dirty again by what its own entry does, so that one list would be made anew each time.
        let spare = std::mem::take(&mut self.partitions.spare);
        let mut dirty = std::mem::replace(&mut self.partitions.dirty, spare);
        for place in dirty.drain(..) {
            self.partitions.at(place).dirty = false;
            self.commit_partition(place);
            self.arm_partition(place);
        }
        self.partitions.spare = dirty;
    }

    /// The entry of one partition, if it has one that is due.
    pub(crate) fn commit_partition(&mut self, place: usize) {
        // At the end nothing waits for company any more: a step is over when nothing is under way, whatever waits for its time.
        let at_once = self.is_stopping();
        let owned = self.partitions.at(place);
        let id = owned.id;
        let partition = owned
            .partition
            .as_mut()
            .expect("a partition is at home between calls");
        if (at_once || partition.has_entry())
            && let Some(entry) = partition.take_entry(self.hub.now)
        {
            if id.is_volatile() {
                let received = owned.take_received();
                self.apply(received, place_of(&entry), |shard| {
                    shard.with_partition(id, |it, now, fx| it.handle_unlogged(now, entry, fx));
                });
            } else {
                owned.note_proposed(entry.len());
                self.store.propose(id, entry);
            }
        }
        let partition = self.partitions.at(place).partition.as_ref();
        if partition.is_some_and(|it| it.has_question()) {
            self.ask_for_records(place);
        }
    }

    /// Whether there is more to do now; if not, how long the shard may sleep.
    fn next(&mut self, timers_left: bool, context: &mut Context<'_>) -> Next {
        if self.has_stopped() {
            return Next::End;
        }
        if timers_left || self.has_work() || self.accepting.has_work() || self.inbox.has_some() {
            return Next::Turn;
        }
        self.want_returns();
        self.doze.lie_down();
        if self.hub.links.ports.has_work()
            || self.store.has_work()
            || self.recover()
            || self.is_save_due()
            || self.recalls.as_mut().is_some_and(Recalls::has_some)
            || self.desk.has_question()
            || self.has_access_work()
            || self.stop.is_new()
            || self.tuning.is_new()
            || self.inbox.has_some()
        {
            return Next::Turn;
        }
        match self.timers.next_deadline() {
            Some(deadline) if deadline <= self.hub.now.tick => Next::Turn,
            deadline => {
                self.alarm
                    .set(deadline, self.hub.now.tick, &self.clock, context);
                Next::Sleep
            }
        }
    }

    /// Whether something is left that needs nothing from outside to go on.
    pub(crate) fn has_work(&self) -> bool {
        !self.sockets.is_empty()
            || self.local.is_some()
            || !self.hub.links.local.is_empty()
            || !self.hub.output.touched.is_empty()
            || !self.hub.output.unwritten.is_empty()
            || !self.partitions.dirty.is_empty()
            || self.inbound.iter().any(Option::is_some)
            || self.store.has_work()
            || self.recovery.is_at_work()
            || self.revoking.is_some()
            || self.sweep.is_at_work()
            || self
                .checkpoints
                .as_ref()
                .is_some_and(|it| it.is_at_work() && self.saving() != Saves::Nothing)
            || self.hub.has_index_changes()
    }

    /// Asks for a wake when a batch comes back, where something waits for that.
    fn want_returns(&mut self) {
        let waits = self.hub.books.fences.owes() || self.is_stopping();
        for sender in self.hub.links.ports.to.iter_mut().flatten() {
            if waits || sender.waits_for_credit() {
                sender.want_return();
            }
        }
    }

    /// A turn reaches from the end of the one before it to its own end, the poll of the sockets included.
    /// Until it began so much had been delivered.
    fn count_turn(&mut self, delivered: u64) {
        let now = thread_cpu_us();
        let counters = &mut self.hub.counters;
        counters.turns += 1;
        let delivered = counters.publishes_sent.saturating_sub(delivered);
        counters.most_delivered_in_turn = counters.most_delivered_in_turn.max(delivered);
        let closed = std::mem::take(&mut self.hub.closed_in_turn);
        counters.most_closed_in_turn = counters.most_closed_in_turn.max(closed);
        let let_in = std::mem::take(&mut self.hub.let_in_in_turn);
        counters.most_let_in_in_turn = counters.most_let_in_in_turn.max(let_in);
        let read = std::mem::take(&mut self.hub.read_in_turn);
        counters.most_read_in_turn = counters.most_read_in_turn.max(read);
        if counters.turns > 1 {
            let took = now - self.turn_ended_us;
            counters.longest_turn_us = counters.longest_turn_us.max(took);
            self.hub.latency.note_turn(took);
        }
        self.turn_ended_us = now;
    }
}

/// Where the bytes of an entry are.
fn place_of(entry: &Bytes) -> Range<usize> {
    let first = entry.as_ptr() as usize;
    first..first + entry.len()
}
