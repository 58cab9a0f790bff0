//! Messages in a row to one list of receivers, gathered for all of them at once.
//!
//! The second message in a row to a list opens a run, later ones are appended to it; each receiver gets the run as one piece when it
//! ends: with another list, when it is full, with the turn, and before anything else happens to one of its receivers
//! ([`Fronts`] sees to that), so that each gets everything in the order of the deliveries. While it is open its receivers are in the
//! table, attached, take bytes, and have nothing queued.

use courser_contract::{DeliverTo, Delivery, FrontId, ListNumber, PartitionId};
use courser_mqtt::front::{Output, Prepared, Run, RunBlocks, SHARED_PAYLOAD_BYTES_MIN};

use super::Shard;
use super::budget::Budget;
use super::connection::Connection;
use super::effects_partition::Place as Order;
use super::fronts::Fronts;
use super::hub::Hub;
use super::ready::Place;
use crate::access::Gate;

/// A list of receivers: its partition, and its number there.
pub(crate) type ListKey = (PartitionId, ListNumber);

/// Fewer receivers get each message by itself.
const RECEIVERS_MIN: usize = 4;
/// More of them would be too much for one turn, whose end hands the run to all.
const RECEIVERS_MAX: usize = 1_024;
/// Receivers that differ in what they get (version, RETAIN, subscription identifiers) in so many ways at most.
const PARTS_MAX: usize = 4;
/// A delivery within a run costs this part of one that is made by itself.
const CHEAPER: i64 = 4;

/// The run of a shard.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    open: Option<ListKey>,
    /// Of the last message that went to a list.
    last: Option<ListKey>,
    /// Too few of its receivers get the same, or a message of it fits in no run: not asked again in this turn.
    unfit: Option<ListKey>,
    parts: Vec<Part>,
    spare: Vec<Part>,
    receivers: usize,
    /// Those of the list that get each message by itself.
    others: Vec<DeliverTo>,
    blocks: RunBlocks,
}

/// Receivers of the same bytes.
#[derive(Debug, Default)]
struct Part {
    run: Run,
    members: Vec<Place>,
}

impl Runs {
    /// Finds the part of a receiver. False: there is none for it.
    fn admit(&mut self, connection: &Connection, to: &DeliverTo) -> bool {
        for part in &mut self.parts {
            if part.run.admit(&connection.front, to) {
                part.members.push(to.front.slot);
                return true;
            }
        }
        if self.parts.len() == PARTS_MAX {
            return false;
        }
        let mut part = self.spare.pop().unwrap_or_default();
        let begun = part.run.begin(&connection.front, to);
        if begun {
            part.members.push(to.front.slot);
            self.parts.push(part);
        } else {
            self.spare.push(part);
        }
        begun
    }

    fn fits(&self, prepared: &Prepared<'_>) -> bool {
        self.parts.iter().all(|part| part.run.fits(prepared))
    }
}

impl Fronts {
    /// Hands the run to its receivers.
    #[cold]
    pub(super) fn end_run(&mut self) {
        self.runs.open = None;
        self.runs.receivers = 0;
        while let Some(mut part) = self.runs.parts.pop() {
            let packed = part.run.pack(&mut self.runs.blocks);
            for place in part.members.drain(..) {
                let connection = self.leave_run(place);
                part.run.hand_over(&packed, &mut connection.front);
            }
            self.runs.spare.push(part);
        }
    }

    /// The turn ends, and its run; lists are looked at anew in the next one.
    pub(super) fn end_turn_of_runs(&mut self) {
        self.end_run();
        (self.runs.last, self.runs.unfit) = (None, None);
    }

    /// Opens a run for the receivers of a list that can be in one. False when they are too few.
    fn open_run(&mut self, hub: &mut Hub, key: ListKey, to: &[DeliverTo]) -> bool {
        let mut runs = std::mem::take(&mut self.runs);
        runs.others.clear();
        for target in to {
            let admitted = self
                .ready_for_run(hub, target.front)
                .is_some_and(|connection| runs.admit(connection, target));
            if admitted {
                self.join_run(target.front.slot);
                runs.receivers += 1;
            } else {
                runs.others.push(target.clone());
            }
        }
        runs.open = Some(key);
        let enough = runs.receivers >= RECEIVERS_MIN && runs.receivers >= runs.others.len();
        if !enough {
            runs.unfit = Some(key);
        }
        self.runs = runs;
        if !enough {
            self.end_run();
        }
        enough
    }

    /// A receiver that may be in a run. Its output will be written, and is now if it has become much: it would be as well if it got
    /// each message by itself.
    fn ready_for_run(&mut self, hub: &mut Hub, id: FrontId) -> Option<&mut Connection> {
        if id.shard != hub.id {
            return None;
        }
        let connection = self.candidate(id)?;
        // One that has logged in is asked for each topic.
        if !connection.takes_events() || !matches!(connection.gate, Gate::Open(_)) {
            return None;
        }
        if connection.front.output().len() >= Output::OWN_BYTES_MAX {
            connection.send(&mut hub.counters);
        }
        if !connection.touched {
            connection.touched = true;
            hub.output.touched.note_delivery(id.slot);
        }
        Some(connection)
    }
}

impl Shard {
    /// A message that is not stored, to a list of receivers.
    #[inline]
    pub(crate) fn deliver_to_list(
        &mut self,
        delivery: Delivery<'_>,
        to: &[DeliverTo],
        key: ListKey,
    ) {
        if !(RECEIVERS_MIN..=RECEIVERS_MAX).contains(&to.len())
            || !self.extend_run(&delivery, to, key)
        {
            return self.deliver(delivery, to, Order::BehindQueued);
        }
        if !self.fronts.runs.others.is_empty() {
            let others = std::mem::take(&mut self.fronts.runs.others);
            self.deliver(delivery, &others, Order::BehindQueued);
            self.fronts.runs.others = others;
        }
    }

    /// Appends a message to the run of its list. False when it has none, or the message is not for one.
    fn extend_run(&mut self, delivery: &Delivery<'_>, to: &[DeliverTo], key: ListKey) -> bool {
        let Self {
            fronts,
            hub,
            scratch,
            ..
        } = self;
        let again = fronts.runs.last.replace(key) == Some(key);
        let large = delivery.view.payload.len() >= SHARED_PAYLOAD_BYTES_MIN;
        if !again || large || fronts.runs.unfit == Some(key) {
            return false;
        }
        let prepared = Prepared::new(delivery, hub.now, scratch);
        if fronts.runs.open != Some(key) || !fronts.runs.fits(&prepared) {
            fronts.end_run();
            if !fronts.open_run(hub, key, to) {
                return false;
            }
            if !fronts.runs.fits(&prepared) {
                fronts.end_run();
                fronts.runs.unfit = Some(key);
                return false;
            }
        }
        for part in &mut fronts.runs.parts {
            part.run.append(&prepared);
        }
        let receivers = fronts.runs.receivers as u64;
        hub.budget
            .spend(Budget::DELIVERY * (1 + receivers as i64 / CHEAPER));
        hub.counters.deliveries_gathered += receivers;
        hub.counters.publishes_sent += receivers;
        hub.counters.publish_bytes_sent += receivers * delivery.view.payload.len() as u64;
        true
    }
}
