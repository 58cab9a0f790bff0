//! Messages of other shards, and of this one to itself: every kind in one place.

use courser_contract::{
    Append, Delivery, Fence, FrontId, PartitionId, Publish, ShardId, ToFront, ToHome, ToPartition,
};

use courser_engine::Pace;
use courser_shard::{Done, Watermarks};

use super::Shard;
use super::budget::Budget;
use super::effects_partition::{AT_ONCE, Place};
use crate::control::Happened;
use crate::latency::Moment;
use crate::rings::{Batch, Control, DeliverSpan, Message};

/// A batch that is being worked off, and how far.
pub(crate) struct Inbound {
    pub(crate) batch: Batch,
    next: usize,
    /// Receivers of the next message that have it already.
    given: usize,
}

impl Inbound {
    /// From the beginning.
    pub(crate) const fn new(batch: Batch) -> Self {
        Self {
            batch,
            next: 0,
            given: 0,
        }
    }
}

impl Shard {
    /// Works off what peers sent, in rounds over the peers, until the budget is spent.
    pub(crate) fn handle_rings(&mut self) {
        for place in 0..self.inbound.len() {
            let peer = ShardId(place as u16);
            while !self.hub.budget.is_spent() {
                let Some(mut inbound) = self.next_batch(place) else {
                    break;
                };
                if self.handle_batch(peer, &mut inbound) {
                    self.hub.links.ports.give_back(peer, inbound.batch);
                } else {
                    self.inbound[place] = Some(inbound);
                }
            }
        }
    }

    fn next_batch(&mut self, place: usize) -> Option<Inbound> {
        if let Some(inbound) = self.inbound[place].take() {
            return Some(inbound);
        }
        let receiver = self.hub.links.ports.from[place].as_mut()?;
        receiver.take().map(Inbound::new)
    }

    /// Works off the shard's messages to itself until there is none or the budget is spent. True when there is none.
    pub(crate) fn handle_local(&mut self) -> bool {
        loop {
            let mut inbound = match self.local.take() {
                Some(inbound) => inbound,
                None if self.hub.links.local.is_empty() => return true,
                None => {
                    let spare = std::mem::take(&mut self.spare);
                    Inbound::new(std::mem::replace(&mut self.hub.links.local, spare))
                }
            };
            if !self.handle_batch(self.hub.id, &mut inbound) {
                self.local = Some(inbound);
                return false;
            }
            inbound.batch.empty();
            self.spare = inbound.batch;
        }
    }

    /// True when the batch is done, false when the budget was spent before.
    fn handle_batch(&mut self, from: ShardId, inbound: &mut Inbound) -> bool {
        let before = self.hub.latency.handling();
        while let Some(message) = inbound.batch.take(inbound.next) {
            if self.hub.budget.is_spent() {
                inbound.batch.put(inbound.next, message);
                self.hub.handle_received(before);
                return false;
            }
            self.hub.budget.spend(Budget::MESSAGE);
            self.hub.handle_received(received(&message, &inbound.batch));
            if let Message::Deliver(span) = message {
                if !self.hand_out(from, span, inbound) {
                    inbound.batch.put(inbound.next, message);
                    continue;
                }
            } else {
                self.handle(from, message, &inbound.batch);
            }
            inbound.next += 1;
        }
        self.hub.handle_received(before);
        true
    }

    /// Gives a message to its next receivers. True when all have it.
    #[inline]
    fn hand_out(&mut self, from: ShardId, span: DeliverSpan, inbound: &mut Inbound) -> bool {
        let (view, record, to) = inbound.batch.delivery(span);
        let delivery = Delivery {
            view: &view,
            record,
        };
        let end = to.len().min(inbound.given + AT_ONCE);
        let piece = &to[inbound.given..end];
        if to.len() > AT_ONCE {
            self.hub.budget.spend(Budget::FAR * piece.len() as i64);
        }
        if from == self.hub.id {
            piece
                .iter()
                .for_each(|target| self.fronts.note_unqueued(target.front));
        }
        self.deliver(delivery, piece, Place::First);
        inbound.given = if end == to.len() { 0 } else { end };
        inbound.given == 0
    }

    fn handle(&mut self, from: ShardId, message: Message, batch: &Batch) {
        match message {
            Message::Append {
                partition,
                key,
                keep_retained,
                deliver,
                cut,
                record,
                front,
            } => {
                let publish = Publish::from(batch.record(record));
                let pace = self.append_here(
                    partition,
                    &Append {
                        key,
                        publish: &publish,
                        keep_retained,
                        deliver,
                        cut,
                    },
                );
                if let (Pace::Slow, Some(front)) = (pace, front) {
                    self.hub.batch(from).push_slow(front);
                }
            }
            Message::Slow(front) => self.slow_down(front),
            Message::Deliver(_) => unreachable!("deliveries are handed out in pieces"),
            Message::Home(partition, message) => {
                self.hub.budget.spend(request_units(&message));
                if let ToHome::PublishQos2 { publish, .. } = &message {
                    let place = self.partitions.place(partition);
                    self.make_room_in_entry(place, publish.record.bytes().len());
                }
                self.with_partition(partition, |it, now, fx| it.handle_home(now, message, fx));
            }
            Message::Front(front, message) => {
                if from == self.hub.id {
                    self.fronts.note_unqueued(front);
                }
                self.tell_front(front, message);
            }
            Message::Partition { from, to, message } if self.recovery.holds_messages() => {
                self.hold_message(from, to, message);
            }
            Message::Partition { from, to, message } => {
                self.hub.budget.spend(scanned(&message) * Budget::SCAN);
                self.tell_partition(from, to, message);
            }
            Message::Settled {
                partition,
                origin,
                first,
                last,
                result,
            } => {
                for number in first.0..=last.0 {
                    let number = courser_contract::AppendNumber(number);
                    let done = self
                        .hub
                        .books
                        .appends
                        .settled(partition, origin, number, result);
                    if let Some(done) = done {
                        self.tell_settled(done);
                    }
                }
            }
            Message::Control(control) => self.handle_control(from, control),
        }
    }

    /// A message of another partition, or of this one to itself.
    pub(crate) fn tell_partition(
        &mut self,
        from: PartitionId,
        to: PartitionId,
        message: ToPartition,
    ) {
        if let ToPartition::Append { record, .. } = &message {
            let place = self.partitions.place(to);
            self.make_room_in_entry(place, record.bytes().len());
        }
        self.with_partition(to, |it, now, fx| {
            it.handle_partition(now, from, message, fx)
        });
    }

    /// Messages about the index, fences and reports.
    fn handle_control(&mut self, from: ShardId, control: Control) {
        match control {
            Control::Index(request) => {
                let filters = request.change.add.len() + request.change.remove.len();
                self.hub.budget.spend(filters as i64 * Budget::INDEXED);
                self.hub.change_index(&request);
            }
            Control::IndexPublished(round) => {
                self.hub
                    .batch(from)
                    .push(Message::Control(Control::IndexUsed(round)));
            }
            Control::IndexUsed(round) => self.hub.index_used(from, round),
            Control::IndexConfirmed(partition, token) => {
                self.with_partition(partition, |it, now, fx| {
                    it.handle_index_confirmed(now, token, fx)
                });
            }
            Control::FenceAsk(id, fence) if from != self.hub.id => {
                // What this shard has told itself, and has not come to, was matched before.
                let me = self.hub.id;
                self.hub
                    .batch(me)
                    .push(Message::Control(Control::FenceAsk(id, fence)));
            }
            Control::FenceAsk(id, fence) => {
                let watermarks = match fence {
                    Fence::Matched => self.hub.watermarks(),
                    Fence::Forwarded => Watermarks {
                        proposed: self.partitions.forwarding().collect(),
                        ..Watermarks::default()
                    },
                    Fence::Cut(cut) => {
                        self.hub.books.cuts[usize::from(id.asker.0)] = cut;
                        Watermarks {
                            proposed: self.partitions.proposed().collect(),
                            ..self.hub.watermarks()
                        }
                    }
                };
                self.hub.books.fences.owe(id, fence, watermarks);
            }
            Control::FencePassed(id) => {
                if let Some((partition, token)) = self.hub.fence_passed(id) {
                    self.with_partition(partition, |it, now, fx| it.handle_fence(now, token, fx));
                }
            }
            Control::ReportAsk(round) => {
                let report = Box::new(self.report());
                let me = self.hub.id;
                self.hub
                    .batch(from)
                    .push(Message::Control(Control::Report(round, me, report)));
            }
            Control::Report(round, shard, report) => self.gather_report(round, shard, &report),
        }
    }

    fn tell_front(&mut self, front: FrontId, message: ToFront) {
        if matches!(message, ToFront::Attached(_)) {
            self.hub.counters.connects += 1;
            return self.attached(front, message);
        }
        if matches!(message, ToFront::TakenOver) {
            self.read_last(front);
        }
        if let ToFront::Received { packet_id, .. } = message {
            self.hub.latency.answered_by_home(front, packet_id);
        }
        self.with_front(front, |it, now, fx| it.handle_message(now, message, fx));
    }

    fn attached(&mut self, front: FrontId, message: ToFront) {
        self.with_front(front, |it, now, fx| it.handle_message(now, message, fx));
        if let Some(mut connection) = self.fronts.take(front) {
            if connection.front.home().is_some() {
                connection.was_attached = true;
                let version = connection.front.version();
                let client_id = connection.front.client_id();
                let traces = &self.hub.watch.traces;
                let tracer = connection.tracer.take();
                let tracer = tracer.filter(|it| !it.awaits_connect());
                connection.tracer = tracer.or_else(|| traces.tracer(client_id, version, 0));
                self.note_event(&connection, Happened::Connected);
            }
            self.fronts.put(front, connection);
        }
    }

    fn tell_settled(&mut self, done: Done<Moment>) {
        self.hub.latency.acknowledge(done.noted);
        if let super::fronts::Access::Here(connection) = self.fronts.get(done.front) {
            connection.unsettled = connection.unsettled.saturating_sub(1);
        }
        self.with_front(done.front, |it, now, fx| {
            it.handle_settled(now, done.ticket, done.result, fx);
        });
        self.hub.front_settled(done.front);
    }
}

/// When that was received which a message is about; none where its deliveries have waited for it.
fn received(message: &Message, batch: &Batch) -> Option<Moment> {
    match message {
        Message::Append { .. } => batch.received(),
        Message::Deliver(span) => Batch::received_of(span),
        Message::Home(..)
        | Message::Partition { .. }
        | Message::Front(..)
        | Message::Slow(_)
        | Message::Settled { .. }
        | Message::Control(_) => None,
    }
}

/// What filters cost that a front asks its home to add or to remove.
const fn request_units(message: &ToHome) -> i64 {
    match message {
        ToHome::Subscribe { subscriptions, .. } => subscriptions.len() as i64 * Budget::FILTER,
        ToHome::Unsubscribe { filters, .. } => filters.len() as i64 * Budget::NAMED,
        ToHome::Attach(_)
        | ToHome::Unclaim { .. }
        | ToHome::Owned { .. }
        | ToHome::PageTaken { .. }
        | ToHome::Uptake { .. }
        | ToHome::Outcome { .. }
        | ToHome::GroupOutcome { .. }
        | ToHome::GroupRoom { .. }
        | ToHome::Named { .. }
        | ToHome::PublishQos2 { .. }
        | ToHome::Release { .. }
        | ToHome::Detach { .. } => 0,
    }
}

/// What a question for retained messages looks for, or its answer has found, and the question itself.
fn scanned(message: &ToPartition) -> i64 {
    match message {
        ToPartition::ScanRetained(_) => 1,
        ToPartition::RetainedFound(found) => 1 + found.records.len() as i64,
        _ => 0,
    }
}
