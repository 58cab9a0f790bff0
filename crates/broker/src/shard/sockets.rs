//! What comes in: from sockets to fronts, and what follows on every call of a front.

use courser_contract::{CloseCause, FrontId, Now, Tick};
use courser_memory::{Buffer, Detached};
use courser_mqtt::front::Front;

use super::Shard;
use super::connection::{Connection, Hold, Life, Received};
use super::effects_front::FrontFx;
use super::fronts::Access;
use super::placement::Served;
use super::ready::{Place, SocketWaker};
use super::timers::Timer;
use super::transport::Transport;
use crate::doors::{CameFrom, Guest};
use crate::failpoint;
use crate::memory::Level;
use crate::peer::Peer;

/// A connection that a shard begins to serve. It is counted already.
#[derive(Debug)]
pub(crate) struct Newcomer {
    pub(crate) transport: Transport,
    pub(crate) peer: Peer,
    pub(crate) guest: Option<Box<Guest>>,
    pub(crate) came_from: CameFrom,
    /// Its first bytes, if they are there already.
    pub(crate) early: Detached,
}

impl Shard {
    /// Begins to serve a socket.
    pub(crate) fn add_connection(&mut self, newcomer: Newcomer) {
        let Newcomer {
            transport,
            peer,
            guest,
            came_from,
            early,
        } = newcomer;
        self.hub.let_in_in_turn += 1;
        let rest = self.pool.adopt(early);
        let id = self.fronts.reserve();
        let now = self.hub.now;
        let (config, gate) = self.front_door(id, &peer);
        let connection = Box::new(Connection {
            front: Front::new(id, config, now),
            transport,
            guest,
            came_from,
            peer,
            gate,
            waker: SocketWaker::waker(id.slot, &self.ready),
            since: now.wall,
            unparsed: rest.is_some(),
            rest,
            begun: None,
            life: Life::Open,
            hold: Hold::None,
            touched: false,
            queued: false,
            write_blocked: false,
            has_will: false,
            was_attached: false,
            unsettled: 0,
            tracer: self.hub.watch.traces.newcomer(),
            timer: None,
            armed: Tick(u64::MAX),
            end: Tick(u64::MAX),
        });
        self.fronts.put(id, connection);
        self.arm(id);
        self.queue(id.slot);
    }

    /// Puts a connection at the end of the sockets to look at, once.
    pub(crate) fn queue(&mut self, slot: Place) {
        let Some(id) = self.fronts.id(slot) else {
            return;
        };
        if let Access::Here(connection) = self.fronts.get(id)
            && !connection.queued
        {
            connection.queued = true;
            self.sockets.push_back(slot);
        }
    }

    /// Looks at a socket that was woken or waits for its turn: writes what it did not take before, reads once.
    pub(crate) fn serve(&mut self, slot: Place) {
        let Some(id) = self.fronts.id(slot) else {
            return;
        };
        let Some(mut connection) = self.fronts.take(id) else {
            return;
        };
        connection.queued = false;
        // The wake-up may be for reading: then the write finds the socket full, and asks to be woken, once more.
        if std::mem::take(&mut connection.write_blocked) {
            self.touch(&mut connection, slot);
        }
        let served = match connection.life {
            Life::Open => self.read(id, &mut connection),
            Life::Lingering(left) => {
                self.discard(slot, &mut connection, left);
                Served::Here(None)
            }
            Life::Lost | Life::Closing(_) | Life::Over => Served::Here(None),
        };
        match served {
            Served::Here(close) => self.put_back(id, connection, close),
            Served::Goes(there) => self.move_to(id, connection, there),
        }
    }

    /// One read, or what a former read left.
    fn read(&mut self, id: FrontId, connection: &mut Connection) -> Served {
        let before = connection.hold;
        connection.hold = self.hold(connection);
        if connection.hold == Hold::Quota && before != Hold::Quota {
            self.hold_over_quota(id, connection);
        }
        if connection.hold == Hold::None && self.asks_too_much(connection) {
            connection.hold = Hold::Front;
        }
        if connection.hold != Hold::None {
            return Served::Here(None);
        }
        let buffer = if std::mem::take(&mut connection.unparsed) {
            connection.rest.take()
        } else {
            self.hub.spend_read();
            match connection.receive(&self.pool) {
                Received::Bytes(buffer, count) => {
                    self.hub.counters.bytes_received += count as u64;
                    Some(buffer)
                }
                Received::Nothing(rest) => {
                    connection.rest = rest;
                    return Served::Here(None);
                }
                Received::End => return Served::Here(self.lose(id, connection)),
            }
        };
        if connection.transport.wants_write() {
            self.touch(connection, id.slot);
        }
        let close = match buffer {
            None => None,
            Some(buffer) => match self.belongs_to(id, connection, buffer.bytes()) {
                Served::Here(None) => self.parse(id, connection, buffer),
                Served::Here(close) => close,
                Served::Goes(there) => {
                    connection.rest = buffer.settle();
                    return Served::Goes(there);
                }
            },
        };
        if close.is_none() && connection.hold == Hold::None {
            self.read_on(id, connection);
        }
        Served::Here(close)
    }

    /// Handles what a client had sent before another connection took its client id: it was said in time, and a script that
    /// publishes under one client id again and again must not lose by being fast.
    pub(crate) fn read_last(&mut self, id: FrontId) {
        let Some(mut connection) = self.fronts.take(id) else {
            return;
        };
        let mut close = self.parse_last(id, &mut connection);
        if close.is_none() && !connection.unparsed && self.may_read_last(&mut connection) {
            let received = connection.receive_at_once(&self.pool);
            close = received.and_then(|(buffer, count)| {
                self.hub.counters.bytes_received += count as u64;
                self.parse(id, &mut connection, buffer)
            });
            close = close.or_else(|| self.parse_last(id, &mut connection));
        }
        self.put_back(id, connection, close);
    }

    /// Reads once what the kernel has of a client that would be closed for its silence: what it sent while the process stood still (the machine
    /// was suspended, a debugger held it) or was too busy to read, it sent in time.
    fn read_in_time(&mut self, id: FrontId) {
        let Some(mut connection) = self.fronts.take(id) else {
            return;
        };
        let may_read = connection.life == Life::Open
            && !connection.unparsed
            && self.hold(&mut connection) == Hold::None;
        let received = may_read.then(|| connection.receive_at_once(&self.pool));
        let close = received.flatten().and_then(|(buffer, count)| {
            self.hub.counters.bytes_received += count as u64;
            self.parse(id, &mut connection, buffer)
        });
        if close.is_none() && connection.hold == Hold::None {
            self.read_on(id, &mut connection);
        }
        self.put_back(id, connection, close);
    }

    /// Has it looked at again if there is more to read or to parse.
    fn read_on(&mut self, id: FrontId, connection: &mut Connection) {
        if !connection.queued && (connection.unparsed || connection.is_readable()) {
            connection.queued = true;
            self.sockets.push_back(id.slot);
        }
    }

    /// Handles what was received and is left: a turn's budget ended, or it waited for the attachment or for a SUBACK. Each pass takes a packet at least.
    fn parse_last(&mut self, id: FrontId, connection: &mut Connection) -> Option<CloseCause> {
        loop {
            connection.front.handle_last_read();
            if !connection.unparsed || !self.may_read_last(connection) {
                return None;
            }
            connection.unparsed = false;
            let buffer = connection.rest.take()?;
            let close = self.parse(id, connection, buffer);
            if close.is_some() {
                return close;
            }
        }
    }

    fn may_read_last(&self, connection: &mut Connection) -> bool {
        connection.life == Life::Open && matches!(self.hold(connection), Hold::None | Hold::Pace)
    }

    /// Gives received bytes to the front until they are used up, the front takes no more, its client may publish no more by now, or the budget
    /// is spent.
    fn parse(
        &mut self,
        id: FrontId,
        connection: &mut Connection,
        mut buffer: Buffer,
    ) -> Option<CloseCause> {
        let now = self.hub.now;
        let published = self.hub.counters.publishes_received();
        let (used, close) = self.call_front(id, connection, |connection, fx| {
            let used = feed(connection, now, buffer.bytes(), fx);
            connection.front.handle_read_end(now, fx);
            used
        });
        let Some(used) = used else {
            return close;
        };
        debug_assert!(
            used <= buffer.bytes().len(),
            "a front takes what it was given"
        );
        if connection.tracer.is_some() {
            self.trace_received(connection, &buffer.bytes()[..used]);
        }
        buffer.consume(used);
        connection.rest = buffer.settle();
        let begun = connection.begun.filter(|_| used == 0);
        let is_left = connection.rest.is_some();
        connection.begun = is_left.then(|| begun.unwrap_or(now.tick));
        connection.unparsed &= connection.rest.is_some();
        self.hub.slow |= match self.hub.memory {
            Level::Free => false,
            Level::Tight => self.hub.counters.publishes_received() != published,
            Level::Full | Level::Over => true,
        };
        if connection.hold == Hold::Quota {
            self.hold_over_quota(id, connection);
        } else {
            self.hold_publisher(id, connection);
        }
        close
    }

    /// The socket is at its end.
    pub(super) fn lose(&mut self, id: FrontId, connection: &mut Connection) -> Option<CloseCause> {
        self.abandon(id, connection, CloseCause::Lost)
    }

    /// Nothing more is read from the socket or written to it.
    pub(super) fn abandon(
        &mut self,
        id: FrontId,
        connection: &mut Connection,
        cause: CloseCause,
    ) -> Option<CloseCause> {
        connection.life = Life::Lost;
        connection.rest = None;
        connection.unparsed = false;
        connection.front.output().clear();
        let now = self.hub.now;
        let given_up = |connection: &mut Connection, fx: &mut FrontFx<'_>| {
            connection.front.handle_given_up(now, cause, fx);
        };
        self.call_front(id, connection, given_up).1
    }

    /// Reads away what a closed connection still sends, one read a look like those that are open; at its end it is gone.
    fn discard(&mut self, slot: Place, connection: &mut Connection, left: u32) {
        self.hub.spend_read();
        let count = connection.read_away(&self.pool, left);
        self.hub.counters.bytes_received += count as u64;
        if connection.life != Life::Over && connection.is_readable() {
            connection.queued = true;
            self.sockets.push_back(slot);
        }
    }

    /// Takes a front out, does something with it, and puts it back. `None` for one that is gone or gets no more events.
    pub(crate) fn with_front<R>(
        &mut self,
        id: FrontId,
        act: impl FnOnce(&mut Front, Now, &mut FrontFx<'_>) -> R,
    ) -> Option<R> {
        let mut connection = self.fronts.take(id)?;
        if !connection.takes_events() {
            self.fronts.put(id, connection);
            return None;
        }
        let now = self.hub.now;
        let (result, close) = self.call_front(id, &mut connection, |connection, fx| {
            act(&mut connection.front, now, fx)
        });
        self.put_back(id, connection, close);
        result
    }

    /// What follows on every call of a front: its end, its output, its timer, its reading.
    pub(super) fn put_back(
        &mut self,
        id: FrontId,
        mut connection: Box<Connection>,
        close: Option<CloseCause>,
    ) {
        if let Some(cause) = close {
            self.begin_close(id, &mut connection, cause);
        }
        if connection.life == Life::Over {
            return self.drop_connection(id, connection);
        }
        if !connection.front.output().is_empty()
            || matches!(connection.life, Life::Closing(_))
            || connection.transport.wants_write()
        {
            self.touch(&mut connection, id.slot);
        }
        self.read_again(id, &mut connection);
        // What is touched is armed when its output is written, once for all that the turn has done to it.
        let armed_later = connection.touched;
        self.fronts.put(id, connection);
        if !armed_later {
            self.arm(id);
        }
    }

    /// Arms the timer of a connection if it must fire earlier than it does. One that fires early costs a look.
    pub(crate) fn arm(&mut self, id: FrontId) {
        let Access::Here(connection) = self.fronts.get(id) else {
            return;
        };
        let Some(deadline) = connection.deadline() else {
            return;
        };
        if deadline >= connection.armed {
            return;
        }
        connection.armed = deadline;
        let timer = Timer::front(id.slot);
        connection.timer = Some(match connection.timer {
            Some(key) if self.timers.rearm(key, deadline) => key,
            Some(_) | None => self.timers.insert(deadline, timer),
        });
    }

    /// The timer of a connection has fired.
    pub(crate) fn front_timeout(&mut self, slot: Place) {
        let Some(id) = self.fronts.id(slot) else {
            return;
        };
        let now = self.hub.now;
        let Access::Here(connection) = self.fronts.get(id) else {
            return;
        };
        connection.timer = None;
        connection.armed = Tick(u64::MAX);
        if connection.is_overdue(now.tick) {
            if let Some(connection) = self.fronts.take(id) {
                self.drop_connection(id, connection);
            }
            return;
        }
        let due = connection
            .front
            .poll_timeout()
            .is_some_and(|deadline| deadline <= now.tick);
        if due && connection.takes_events() {
            if connection.front.has_been_silent(now.tick) {
                self.read_in_time(id);
            }
            self.with_front(id, |front, now, fx| front.handle_timeout(now, fx));
        } else {
            self.arm(id);
        }
    }
}

/// Gives bytes to a front, which stops where it takes no more, has published more than it may, or the budget is spent. How many it used.
fn feed(connection: &mut Connection, now: Now, data: &[u8], fx: &mut FrontFx<'_>) -> usize {
    failpoint::in_front(data);
    let used = connection.front.handle_bytes(now, data, fx);
    if fx.close.is_some() {
        return used;
    }
    if fx.over_quota {
        connection.hold = Hold::Quota;
        connection.unparsed = used < data.len();
    } else if used == data.len() {
        return used;
    } else if !connection.front.wants_read() {
        connection.hold = Hold::Front;
        connection.unparsed = true;
    } else if used > 0 && fx.shard.hub.budget.is_spent() {
        connection.unparsed = true;
    }
    used
}
