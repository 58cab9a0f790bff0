//! One socket with its front, and the moving of bytes between them.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, Waker};

use courser_contract::{CloseCause, Now, Tick, WallMs};
use courser_memory::{Buffer, ReceivePool};
use courser_mqtt::front::Socket::{Full, Open};
use courser_mqtt::front::{Front, Output, Reading};
use courser_transport::Rest;

use super::transport::{Socket, Transport};
use crate::access::Gate;
use crate::control::Tracer;
use crate::doors::{CameFrom, Guest};
use crate::metrics::Counters;
use crate::peer::Peer;
use crate::timer::TimerKey;

/// Slices of one vectored write. More wait for the next one.
const SLICES_MAX: usize = 64;

/// What is read away of a client that was sent away, at most: more than both kernels hold between it and us (4 and 6 MiB as Linux comes).
/// Whoever sends on behind that has not looked at what it was told for as long.
const LINGER_BYTES_MAX: u32 = 16 << 20;
/// The same of one that never got a session: what it has sent behind its CONNECT is no stream of messages.
const LINGER_UNATTACHED_BYTES_MAX: u32 = 1 << 20;
/// A read counts for at least so many of these bytes, however little it brings: it costs as much.
const LINGER_READ_BYTES_MIN: u32 = 4 << 10;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// The front gets events.
    Open,
    /// The socket is gone; the front gets events until it closes.
    Lost,
    /// The front has closed: what it had to say is written out.
    Closing(CloseCause),
    /// All is written and our side is shut; the client's last bytes are read and forgotten, so that they do not make
    /// the kernel throw away what the client has not read yet. So many more, at most.
    Lingering(u32),
    /// Nothing is left to do: the place can be freed.
    Over,
}

/// Why a socket is not read at the moment although it may be readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It is read.
    None,
    /// The front takes no bytes now.
    Front,
    /// Its output is over the bound.
    Output,
    /// A link to another shard is full.
    Link,
    /// It publishes to a session that is slower; until a moment has passed.
    Pace,
    /// Its user may publish no more by now.
    Quota,
}

impl Hold {
    /// What is left of it when one reason is gone, which may be another one than what it is held for by now.
    fn without(self, over: Self) -> Self {
        if self == over { Self::None } else { self }
    }

    /// How its keep-alive goes on after another reason, for which it stood still. A debt can be longer than any keep-alive, and is the
    /// broker's own decision not to read: whoever owes is not at fault for what is not heard of it (v5 [MQTT-3.1.2-22]).
    const fn keep_alive(self) -> Reading {
        match self {
            Self::Quota => Reading::Paused,
            Self::None | Self::Front | Self::Output | Self::Link | Self::Pace => Reading::On,
        }
    }
}

/// A connection of a shard.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) front: Front,
    pub(crate) transport: Transport,
    /// Who it is with.
    pub(crate) peer: Peer,
    /// What it may.
    pub(crate) gate: Gate,
    /// Counts it among those of its address, where that is done.
    pub(crate) guest: Option<Box<Guest>>,
    /// Who has let it in.
    pub(crate) came_from: CameFrom,
    /// Puts this connection into the shard's queue.
    pub(crate) waker: Waker,
    /// When it was accepted.
    pub(crate) since: WallMs,
    /// Received and not parsed.
    pub(crate) rest: Option<Buffer>,
    /// When the first of `rest` came, or when the first of a record of TLS that has not ended was seen; later where it has waited for others than
    /// its client.
    pub(crate) begun: Option<Tick>,
    /// Whether `rest` may hold whole packets: a turn's budget ended, or the front did not take them.
    pub(crate) unparsed: bool,
    pub(crate) life: Life,
    pub(crate) hold: Hold,
    /// Whether it is in the list of outputs to write.
    pub(crate) touched: bool,
    /// Whether it is in the queue of sockets to read.
    pub(crate) queued: bool,
    /// Whether the socket took no more bytes and has not woken since: until it does nothing is written to it, so that a client
    /// that does not read costs a delivery no more than the look at this.
    pub(crate) write_blocked: bool,
    /// Whether the client gave a will.
    pub(crate) has_will: bool,
    /// Whether a session was ever attached to it; the front forgets that when it closes.
    pub(crate) was_attached: bool,
    /// Publishes that wait for their destinations.
    pub(crate) unsettled: u32,
    /// Only while an operator watches its client.
    pub(crate) tracer: Option<Box<Tracer>>,
    pub(crate) timer: Option<TimerKey>,
    /// When the timer fires.
    pub(crate) armed: Tick,
    /// When a closing connection ends whatever is left to write or read.
    pub(crate) end: Tick,
}

/// What a read brought.
#[derive(Debug)]
pub(crate) enum Received {
    /// What there is in all, and how many bytes are new.
    Bytes(Buffer, usize),
    /// Nothing yet: what was there before.
    Nothing(Option<Buffer>),
    /// The socket is at its end.
    End,
}

/// What is left after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Nothing.
    All,
    /// The socket is full.
    Blocked,
    /// The socket is broken.
    Broken,
}

impl Connection {
    /// Whether the front may be called.
    #[inline]
    pub(crate) const fn takes_events(&self) -> bool {
        matches!(self.life, Life::Open | Life::Lost)
    }

    /// The reason `over` for which it was not read is gone. True when it may be read, false when there is another reason now.
    pub(crate) fn resume(&mut self, now: Now, over: Hold) -> bool {
        self.hold = self.hold.without(over);
        self.front.handle_reading(now, self.hold.keep_alive());
        self.hold == Hold::None
    }

    /// When the timer should fire.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match self.life {
            Life::Open | Life::Lost => self.front.poll_timeout(),
            Life::Closing(_) | Life::Lingering(_) => Some(self.end),
            Life::Over => None,
        }
    }

    /// Whether a closing connection has had its time.
    pub(crate) const fn is_overdue(&self, now: Tick) -> bool {
        match self.life {
            Life::Open | Life::Lost | Life::Over => false,
            Life::Closing(_) | Life::Lingering(_) => self.end.0 <= now.0,
        }
    }

    /// All is written. A client that was sent away may still be sending: our side is shut, and its bytes are read until it has
    /// seen that. One that said good-bye, or a server that stops, need not wait.
    pub(crate) fn finish(&mut self, cause: CloseCause) {
        let waits = match cause {
            CloseCause::Disconnect
            | CloseCause::Lost
            | CloseCause::Stalled
            | CloseCause::Panicked
            | CloseCause::ServerStops => false,
            CloseCause::Fault(_)
            | CloseCause::KeepAlive
            | CloseCause::ConnectTimeout
            | CloseCause::LoginTimeout
            | CloseCause::LoginWaited
            | CloseCause::TakenOver
            | CloseCause::Refused(..)
            | CloseCause::Revoked(_)
            | CloseCause::ShareRevoked
            | CloseCause::PublishRefused(_)
            | CloseCause::PublishTimeout
            | CloseCause::Unfinished
            | CloseCause::Administrative => true,
        };
        self.life = if waits && self.transport.shutdown().is_ok() {
            Life::Lingering(match self.was_attached {
                true => LINGER_BYTES_MAX,
                false => LINGER_UNATTACHED_BYTES_MAX,
            })
        } else {
            Life::Over
        };
    }

    /// Reads once, at most what a receive block takes.
    pub(crate) fn receive(&mut self, pool: &ReceivePool) -> Received {
        let mut buffer = pool.resume(self.rest.take());
        let mut context = Context::from_waker(&self.waker);
        let most = self.gate.read_bytes_max();
        let socket = match &mut self.transport {
            Transport::Plain(socket) => socket,
            Transport::Layered(layered) => {
                return layered.receive(pool, &mut context, (buffer, most));
            }
        };
        match socket.poll_read(&mut context, up_to(most, buffer.room_mut())) {
            Poll::Pending => Received::Nothing(buffer.settle()),
            Poll::Ready(Err(_) | Ok(0)) => Received::End,
            Poll::Ready(Ok(count)) => {
                buffer.advance(count);
                Received::Bytes(buffer, count)
            }
        }
    }

    /// Reads once what the kernel has, also what the runtime has not been told of yet. `None`: nothing, or the end.
    pub(crate) fn receive_at_once(&mut self, pool: &ReceivePool) -> Option<(Buffer, usize)> {
        let mut buffer = pool.resume(self.rest.take());
        let most = self.gate.read_bytes_max();
        let read = match &mut self.transport {
            Transport::Plain(socket) => socket.read_at_once(up_to(most, buffer.room_mut())),
            Transport::Layered(layered) => layered.receive_at_once(pool, (&mut buffer, most)),
        };
        match read {
            Ok(count) if count > 0 => {
                if matches!(self.transport, Transport::Plain(_)) {
                    buffer.advance(count);
                }
                Some((buffer, count))
            }
            Ok(_) | Err(_) => {
                self.rest = buffer.settle();
                None
            }
        }
    }

    /// Reads once of what a client that was sent away still sends, `left` bytes of it at most, and forgets it: how many bytes there were, if it
    /// was not the end.
    pub(crate) fn read_away(&mut self, pool: &ReceivePool, left: u32) -> usize {
        let (life, count) = match self.receive(pool) {
            Received::Bytes(_, count) => {
                let counts = u32::try_from(count).unwrap_or(u32::MAX);
                let left = left.checked_sub(counts.max(LINGER_READ_BYTES_MIN));
                (left.map_or(Life::Over, Life::Lingering), count)
            }
            Received::Nothing(_) => (Life::Lingering(left), 0),
            Received::End => (Life::Over, 0),
        };
        self.life = life;
        count
    }

    /// Whether there is more to read already; otherwise the waker tells. No system call.
    pub(crate) fn is_readable(&self) -> bool {
        let mut context = Context::from_waker(&self.waker);
        self.transport.has_more() || self.transport.socket().poll_read_ready(&mut context)
    }

    /// Writes before the end of the turn what has become much, so that a client that does not read is known before it has cost more
    /// than it may (M23). The end of the turn does what follows on a write.
    #[inline]
    pub(crate) fn send_early(&mut self, counters: &mut Counters) {
        if !self.write_blocked && self.front.output().own_bytes() >= Output::OWN_BYTES_MAX {
            self.send(counters);
        }
    }

    /// Writes the front's output until it is empty or the socket is full, and counts what goes.
    #[inline]
    pub(crate) fn send(&mut self, counters: &mut Counters) -> Written {
        if self.tracer.is_some() {
            return self.send_traced(counters);
        }
        self.send_plainly(counters)
    }

    #[cold]
    fn send_traced(&mut self, counters: &mut Counters) -> Written {
        if let Some(tracer) = &mut self.tracer {
            tracer.look_at(self.front.output());
        }
        let written = self.send_plainly(counters);
        if let Some(tracer) = &mut self.tracer {
            tracer.wrote_up_to(self.front.output().len());
        }
        written
    }

    fn send_plainly(&mut self, counters: &mut Counters) -> Written {
        counters.packets_sent += u64::from(self.front.output().take_packets());
        if self.write_blocked && !self.is_drained() {
            return Written::Blocked;
        }
        let socket = match &mut self.transport {
            Transport::Plain(socket) => socket,
            Transport::Layered(_) => return self.send_layered(counters),
        };
        loop {
            let output = self.front.output();
            if output.is_empty() {
                self.write_blocked = false;
                output.set_socket(Open);
                return Written::All;
            }
            match write(socket, output) {
                Ok(written) => {
                    output.advance(written);
                    counters.bytes_sent += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut context = Context::from_waker(&self.waker);
                    if !socket.poll_write_ready(&mut context) {
                        self.write_blocked = true;
                        output.set_socket(Full);
                        return Written::Blocked;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Broken,
            }
        }
    }
}

impl Connection {
    /// Whether all is written, also by the layers.
    #[inline]
    pub(crate) fn is_drained(&mut self) -> bool {
        self.front.output().is_empty() && !self.transport.wants_write()
    }

    /// The same as [`send`](Self::send) through layers. A closing connection says good-bye in them last.
    fn send_layered(&mut self, counters: &mut Counters) -> Written {
        let Transport::Layered(layered) = &mut self.transport else {
            unreachable!("the caller has looked");
        };
        loop {
            let output = self.front.output();
            let Ok(sent) = layered.flush() else {
                return Written::Broken;
            };
            counters.bytes_sent += sent.bytes as u64;
            if sent.rest == Rest::Waits {
                let mut context = Context::from_waker(&self.waker);
                if layered.socket.poll_write_ready(&mut context) {
                    continue;
                }
                self.write_blocked = true;
                output.set_socket(Full);
                return Written::Blocked;
            }
            if !output.is_empty() {
                let taken = layered.tunnel.send(output.slices());
                output.advance(taken);
                continue;
            }
            if matches!(self.life, Life::Closing(_)) {
                layered.tunnel.close();
                if layered.tunnel.wants_write() {
                    continue;
                }
            }
            self.write_blocked = false;
            output.set_socket(Open);
            return Written::All;
        }
    }
}

/// The beginning of `room`.
pub(super) fn up_to(most: usize, room: &mut [u8]) -> &mut [u8] {
    let most = most.min(room.len());
    &mut room[..most]
}

/// One write of what is there; of one piece plainly, which is cheaper.
fn write(stream: &Socket, output: &Output) -> io::Result<usize> {
    let mut slices = output.slices();
    let Some(first) = slices.next() else {
        return Ok(0);
    };
    let Some(second) = slices.next() else {
        return stream.try_write(first);
    };
    let mut all: smallvec::SmallVec<[IoSlice<'_>; SLICES_MAX]> =
        smallvec::smallvec![IoSlice::new(first), IoSlice::new(second)];
    all.extend(slices.take(SLICES_MAX - 2).map(IoSlice::new));
    stream.try_write_vectored(&all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It waited for room on a link, and came to owe before its place in the list of those who do was looked at.
    #[test]
    fn keep_alive_does_not_run_while_a_client_is_held_for_its_debt() {
        for over in [Hold::Link, Hold::Pace] {
            let left = Hold::Quota.without(over);
            assert_eq!((left, left.keep_alive()), (Hold::Quota, Reading::Paused));
            let left = over.without(over);
            assert_eq!((left, left.keep_alive()), (Hold::None, Reading::On));
        }
        assert_eq!(Hold::Quota.without(Hold::Quota), Hold::None);
    }
}
