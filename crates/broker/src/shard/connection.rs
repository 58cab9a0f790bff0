//! One socket with its front, and the moving of bytes between them.

use std::io::{self, IoSlice, Read};
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use courser_contract::{CloseCause, Now, Tick, WallMs};
use courser_memory::{Buffer, ReceivePool};
use courser_mqtt::front::{Front, Output, Reading, Socket};
use socket2::SockRef;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;

use crate::access::Gate;
use crate::metrics::Counters;
use crate::peer::Peer;
use crate::timer::TimerKey;

/// Slices of one vectored write. More wait for the next one.
const SLICES_MAX: usize = 64;

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
    /// the kernel throw away what the client has not read yet.
    Lingering,
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
}

/// A connection of a shard.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) front: Front,
    pub(crate) stream: TcpStream,
    /// Who it is with.
    pub(crate) peer: Peer,
    /// What it may.
    pub(crate) gate: Gate,
    /// Puts this connection into the shard's queue.
    pub(crate) waker: Waker,
    /// When it was accepted.
    pub(crate) since: WallMs,
    /// Received and not parsed.
    pub(crate) rest: Option<Buffer>,
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
    /// Publishes that wait for their destinations.
    pub(crate) unsettled: u32,
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

    /// The reason `over` for which it was not read is gone. True when it may be read, false when there is another reason now; then its
    /// keep-alive, which stood still for the first one, runs again all the same.
    pub(crate) fn resume(&mut self, now: Now, over: Hold) -> bool {
        self.front.handle_reading(now, Reading::On);
        if self.hold == over {
            self.hold = Hold::None;
        }
        self.hold == Hold::None
    }

    /// When the timer should fire.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        match self.life {
            Life::Open | Life::Lost => self.front.poll_timeout(),
            Life::Closing(_) | Life::Lingering => Some(self.end),
            Life::Over => None,
        }
    }

    /// Whether a closing connection has had its time.
    pub(crate) const fn is_overdue(&self, now: Tick) -> bool {
        match self.life {
            Life::Open | Life::Lost | Life::Over => false,
            Life::Closing(_) | Life::Lingering => self.end.0 <= now.0,
        }
    }

    /// All is written. A client that was sent away may still be sending: our side is shut, and its bytes are read until it has
    /// seen that. One that said good-bye, or a server that stops, need not wait.
    pub(crate) fn finish(&mut self, cause: CloseCause) {
        let waits = match cause {
            CloseCause::Disconnect | CloseCause::Lost | CloseCause::ServerStops => false,
            CloseCause::Fault(_)
            | CloseCause::KeepAlive
            | CloseCause::ConnectTimeout
            | CloseCause::TakenOver
            | CloseCause::Refused(_)
            | CloseCause::Administrative => true,
        };
        let shut = || SockRef::from(&self.stream).shutdown(Shutdown::Write);
        self.life = if waits && shut().is_ok() {
            Life::Lingering
        } else {
            Life::Over
        };
    }

    /// Reads once, at most what a receive block takes.
    pub(crate) fn receive(&mut self, pool: &ReceivePool) -> Received {
        let mut buffer = pool.resume(self.rest.take());
        let mut context = Context::from_waker(&self.waker);
        let mut room = ReadBuf::new(buffer.room_mut());
        match Pin::new(&mut self.stream).poll_read(&mut context, &mut room) {
            Poll::Pending => Received::Nothing(buffer.settle()),
            Poll::Ready(Err(_)) => Received::End,
            Poll::Ready(Ok(())) => match room.filled().len() {
                0 => Received::End,
                count => {
                    buffer.advance(count);
                    Received::Bytes(buffer, count)
                }
            },
        }
    }

    /// Reads once what the kernel has, also what the runtime has not been told of yet. `None`: nothing, or the end.
    pub(crate) fn receive_at_once(&mut self, pool: &ReceivePool) -> Option<(Buffer, usize)> {
        let mut buffer = pool.resume(self.rest.take());
        let socket = SockRef::from(&self.stream);
        match (&*socket).read(buffer.room_mut()) {
            Ok(count) if count > 0 => {
                buffer.advance(count);
                Some((buffer, count))
            }
            Ok(_) | Err(_) => {
                self.rest = buffer.settle();
                None
            }
        }
    }

    /// Whether there is more to read already; otherwise the waker tells. No system call.
    pub(crate) fn is_readable(&self) -> bool {
        let mut context = Context::from_waker(&self.waker);
        self.stream.poll_read_ready(&mut context).is_ready()
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
    pub(crate) fn send(&mut self, counters: &mut Counters) -> Written {
        counters.packets_sent += u64::from(self.front.output().take_packets());
        if self.write_blocked && !self.front.output().is_empty() {
            return Written::Blocked;
        }
        loop {
            let output = self.front.output();
            if output.is_empty() {
                self.write_blocked = false;
                output.set_socket(Socket::Open);
                return Written::All;
            }
            match write(&self.stream, output) {
                Ok(written) => {
                    output.advance(written);
                    counters.bytes_sent += written as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut context = Context::from_waker(&self.waker);
                    if self.stream.poll_write_ready(&mut context).is_pending() {
                        self.write_blocked = true;
                        output.set_socket(Socket::Full);
                        return Written::Blocked;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Written::Broken,
            }
        }
    }
}

/// One write of what is there; of one piece plainly, which is cheaper.
fn write(stream: &TcpStream, output: &Output) -> io::Result<usize> {
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
