//! What goes out: outputs at the end of a turn, and the ends of connections.

use std::collections::VecDeque;

use courser_contract::{CloseCause, FrontId};
use courser_mqtt::front::Output;

use super::Shard;
use super::budget::Budget;
use super::connection::{Connection, Hold, Life, Written};
use super::ready::Place;
use super::strangers;
use crate::access::Gate;
use crate::control::Happened;
use crate::metrics::close_index;

/// How long a closed socket may take for its last bytes, in milliseconds.
const LINGER_MS: u64 = 2_000;
/// Sockets that a turn writes of those it has touched itself, and as many again of those that earlier turns have left. One write takes 5 to 13 µs on
/// loopback, where it does the receiver's part too.
const WRITES_MAX: usize = 64;
/// Deliveries that may be made while earlier ones are not written, and be queued: with more of them nothing new is read before all is written, so
/// that what waits in outputs is bounded by something else than the number of connections.
const DELIVERIES_AHEAD_MAX: u64 = 32 * 1024;

/// Connections that a turn has given something to write, each once.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// Those whose first output of the turn was a delivery. They are written first: a write that wakes a sleeping client takes 15 µs and more, and
    /// who waits for a message is to have it before its publisher hears that it was taken.
    deliveries: Vec<Place>,
    answers: Vec<Place>,
}

impl Touched {
    /// Notes one that gets a delivery. The caller has seen that it was not noted yet.
    #[inline]
    pub(crate) fn note_delivery(&mut self, place: Place) {
        self.deliveries.push(place);
    }

    /// Notes one that gets anything else.
    fn note_answer(&mut self, place: Place) {
        self.answers.push(place);
    }

    /// Whether nothing is to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.deliveries.is_empty() && self.answers.is_empty()
    }

    /// How many deliveries and answers one turn writes: answers have half of the room if they need it, so that who is answered does not wait
    /// for the thousands of another one's message.
    fn of_one_turn(&self) -> (usize, usize) {
        let answers = self.answers.len().min(WRITES_MAX / 2);
        let deliveries = self.deliveries.len().min(WRITES_MAX - answers);
        (deliveries, self.answers.len().min(WRITES_MAX - deliveries))
    }

    fn drain(&mut self, deliveries: usize, answers: usize) -> impl Iterator<Item = Place> {
        let deliveries = self.deliveries.drain(..deliveries);
        deliveries.chain(self.answers.drain(..answers))
    }

    fn drain_all(&mut self) -> impl Iterator<Item = Place> {
        self.drain(self.deliveries.len(), self.answers.len())
    }
}

/// Connections with output that a turn had no room to write. They are marked as touched, and get more output meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Unwritten {
    places: VecDeque<Place>,
    /// Deliveries of this shard when the first one was left.
    since: u64,
}

/// What waits to be written.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    /// Of this turn.
    pub(crate) touched: Touched,
    /// Of earlier turns.
    pub(crate) unwritten: Unwritten,
}

impl Unwritten {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether so much has been delivered since, or is queued for that, that nothing new is to be read.
    pub(crate) fn is_full(&self, delivered: u64, queued: u64) -> bool {
        let unwritten = if self.is_empty() {
            0
        } else {
            delivered.saturating_sub(self.since)
        };
        unwritten + queued > DELIVERIES_AHEAD_MAX
    }

    /// Takes what a turn leaves.
    fn extend(&mut self, places: impl Iterator<Item = Place>, delivered: u64) {
        if self.is_empty() {
            self.since = delivered;
        }
        self.places.extend(places);
    }
}

impl Shard {
    /// Notes that a connection has something to write.
    pub(super) fn touch(&mut self, connection: &mut Connection, slot: Place) {
        if !connection.touched {
            connection.touched = true;
            self.hub.output.touched.note_answer(slot);
            self.hub.budget.spend(Budget::ANSWER);
        }
    }

    /// A front that was closed within a delivery.
    pub(crate) fn close_front(&mut self, id: FrontId, cause: CloseCause) {
        if let Some(mut connection) = self.fronts.take(id) {
            if connection.takes_events() {
                self.begin_close(id, &mut connection, cause);
            }
            self.put_back(id, connection, None);
        }
    }

    /// The front has closed: what it had to say is written, then the socket ends.
    pub(super) fn begin_close(
        &mut self,
        id: FrontId,
        connection: &mut Connection,
        cause: CloseCause,
    ) {
        // A thousand that go at once are spread over turns.
        self.hub.budget.spend(Budget::CLOSE);
        self.hub.closed_in_turn += 1;
        self.hub.counters.closes[close_index(cause)] += 1;
        self.hub.counters.reasons.count(cause);
        self.note_event(connection, Happened::Closed(cause));
        if let CloseCause::Fault(_) = cause {
            strangers::tell(connection);
        }
        connection.gate.end_publishing(self.hub.now.tick);
        if !matches!(connection.gate, Gate::Open(_)) {
            self.hub.access.accounts.end(id);
        }
        connection.rest = None;
        connection.unparsed = false;
        connection.life = match connection.life {
            // Nobody is there to hear the last words.
            Life::Lost | Life::Over => Life::Over,
            Life::Open | Life::Closing(_) | Life::Lingering(_) => Life::Closing(cause),
        };
        connection.end = self.hub.now.tick.after_ms(LINGER_MS);
    }

    /// Writes what the turn has produced, one write a socket, as far as a turn may: some of this turn's and some of those that wait, in their
    /// order.
    pub(crate) fn write_touched(&mut self) {
        self.fronts.end_turn_of_runs();
        let mut touched = std::mem::take(&mut self.hub.output.touched);
        let (deliveries, answers) = touched.of_one_turn();
        let waiting = self.hub.output.unwritten.places.len().min(WRITES_MAX);
        let most = &mut self.hub.counters.most_written_in_turn;
        *most = (*most).max((deliveries + answers + waiting) as u64);
        for slot in touched.drain(deliveries, answers) {
            self.write_place(slot);
        }
        for _ in 0..waiting {
            if let Some(slot) = self.hub.output.unwritten.places.pop_front() {
                self.write_place(slot);
            }
        }
        if !touched.is_empty() {
            let delivered = self.hub.counters.publishes_sent;
            self.hub
                .output
                .unwritten
                .extend(touched.drain_all(), delivered);
        }
        // What was held may have come in meanwhile; both lists keep their memory.
        if self.hub.output.touched.is_empty() {
            self.hub.output.touched = touched;
        }
    }

    fn write_place(&mut self, slot: Place) {
        if let Some(id) = self.fronts.id(slot) {
            self.write(id);
        }
    }

    fn write(&mut self, id: FrontId) {
        let Some(mut connection) = self.fronts.take(id) else {
            return;
        };
        connection.touched = false;
        let mut close = None;
        loop {
            let before = connection.front.output().len();
            let made_room = match connection.send(&mut self.hub.counters) {
                // Also when nothing is left here and what layers below still had is out at last.
                Written::All => true,
                Written::Blocked => connection.front.output().len() < before,
                Written::Broken => {
                    close = match connection.life {
                        Life::Open => self.lose(id, &mut connection),
                        Life::Lost | Life::Closing(_) | Life::Lingering(_) | Life::Over => {
                            connection.front.output().clear();
                            connection.life = Life::Over;
                            None
                        }
                    };
                    break;
                }
            };
            let left = connection.front.output().len();
            if left >= Output::LOW_BYTES || !made_room || !connection.takes_events() {
                break;
            }
            let now = self.hub.now;
            (_, close) = self.call_front(id, &mut connection, |connection, fx| {
                connection.front.handle_output_room(now, fx);
            });
            if close.is_some()
                || connection.front.output().len() == left
                || connection.write_blocked
            {
                break;
            }
        }
        if let Some(tracer) = &mut connection.tracer {
            tracer.end_turn(self.hub.now);
        }
        self.after_write(id, connection, close);
    }

    /// A closing connection whose output is out shuts its side; one that was not read for its output is read again.
    fn after_write(
        &mut self,
        id: FrontId,
        mut connection: Box<Connection>,
        close: Option<CloseCause>,
    ) {
        if let Some(cause) = close {
            self.begin_close(id, &mut connection, cause);
        }
        let empty = connection.is_drained();
        if let (Life::Closing(cause), true) = (connection.life, empty) {
            connection.finish(cause);
        }
        if connection.life == Life::Over {
            return self.drop_connection(id, connection);
        }
        if matches!(connection.life, Life::Lingering(_)) && !connection.queued {
            connection.queued = true;
            self.sockets.push_back(id.slot);
        }
        self.read_again(id, &mut connection);
        self.fronts.put(id, connection);
        self.arm(id);
    }

    /// One that was not read for its output, or because its front took no bytes, is read again once that is over.
    pub(super) fn read_again(&mut self, id: FrontId, connection: &mut Connection) {
        let resumes = match connection.hold {
            Hold::Output => connection.front.output().len() <= self.tuning.output_bytes_max() / 2,
            Hold::Front => connection.front.wants_read() && !self.asks_too_much(connection),
            Hold::None | Hold::Link | Hold::Pace | Hold::Quota => false,
        };
        if resumes {
            connection.hold = Hold::None;
            if !connection.queued {
                connection.queued = true;
                self.sockets.push_back(id.slot);
            }
        }
    }

    /// Frees a connection that was taken out.
    pub(crate) fn drop_connection(&mut self, id: FrontId, connection: Box<Connection>) {
        self.forget(id, &connection);
        self.uncount_connection(&connection.peer.entrance);
    }

    /// Frees the place of a connection that was taken out, and whatever the shard has for it.
    pub(super) fn forget(&mut self, id: FrontId, connection: &Connection) {
        if let Some(key) = connection.timer {
            self.timers.cancel(key);
        }
        self.fronts.remove(id);
        if !matches!(connection.gate, Gate::Open(_)) {
            self.hub.access.accounts.leave(id);
        }
        self.hub.latency.forget(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(deliveries: u32, answers: u32) -> Touched {
        Touched {
            deliveries: (0..deliveries).collect(),
            answers: (1_000..1_000 + answers).collect(),
        }
    }

    #[test]
    fn deliveries_are_written_before_answers() {
        let mut touched = touched(2, 1);
        assert_eq!(touched.of_one_turn(), (2, 1));
        assert_eq!(touched.drain(2, 1).collect::<Vec<_>>(), [0, 1, 1_000]);
        assert!(touched.is_empty());
    }

    #[test]
    fn an_answer_does_not_wait_for_the_thousands_of_another_ones_message() {
        assert_eq!(touched(10_000, 1).of_one_turn(), (WRITES_MAX - 1, 1));
        assert_eq!(touched(10_000, 500).of_one_turn(), (32, 32));
        assert_eq!(touched(3, 500).of_one_turn(), (3, WRITES_MAX - 3));
        assert_eq!(touched(500, 0).of_one_turn(), (WRITES_MAX, 0));
    }

    #[test]
    fn nothing_new_is_read_once_too_much_has_been_delivered_ahead_of_the_writes() {
        let mut unwritten = Unwritten::default();
        assert!(!unwritten.is_full(u64::MAX, 0), "nothing waits");
        assert!(unwritten.is_full(0, DELIVERIES_AHEAD_MAX + 1));
        unwritten.extend([1, 2].into_iter(), 100);
        assert!(!unwritten.is_full(100 + DELIVERIES_AHEAD_MAX, 0));
        unwritten.extend([3].into_iter(), 50_000);
        assert!(unwritten.is_full(101 + DELIVERIES_AHEAD_MAX, 0));
        assert!(unwritten.is_full(101, DELIVERIES_AHEAD_MAX));
        unwritten.places.clear();
        assert!(!unwritten.is_full(101 + DELIVERIES_AHEAD_MAX, 0));
    }
}
