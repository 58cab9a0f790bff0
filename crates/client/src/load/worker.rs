//! One thread of a load run: sockets, readiness, and the machines behind them.

use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use courser_mqtt::codec::{Frame, PACKET_BYTES_MAX, Packet, Rules, Split};
use courser_transport::Tunnel;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use super::arrivals::GroupArrivals;
use super::pipe::{Got, Pipe};
use super::publisher::Publisher;
use super::result::Latencies;
use super::subscriber::Subscriber;
use crate::socket::Socket;

/// A publisher stops adding packets to its output at this size, writes, and goes on when it is written.
const OUTPUT_BYTES: usize = 64 * 1024;
const INPUT_BYTES: usize = 256 * 1024;
/// Reads of one socket in a row before others have their turn.
const READS_MAX: usize = 4;
/// How often a thread looks at the phase when nothing happens.
const IDLE: Duration = Duration::from_millis(50);
const WAKE: Token = Token(usize::MAX);

/// What the threads of a run do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Send and receive.
    Sending = 0,
    /// Send nothing new, take what still comes.
    Draining = 1,
    /// End.
    Over = 2,
}

/// What the threads of a run share. Written once a batch.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    phase: AtomicU8,
    pub(crate) sent: AtomicU64,
    pub(crate) expected: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) acknowledged: AtomicU64,
    /// Publishers wait for deliveries (bounded messages under way).
    waiting: AtomicBool,
    /// Connections that have failed: the run cannot become whole again.
    pub(crate) failed: AtomicU64,
    pub(crate) publishers_done: AtomicU64,
    /// Threads that have not yet seen that nothing new is to be sent: until all have, `sent` and `expected` may grow.
    pub(crate) sending: AtomicU64,
}

impl Totals {
    /// Of a run of so many threads that are about to send.
    pub(crate) fn of(threads: usize) -> Self {
        Self {
            sending: AtomicU64::new(threads as u64),
            ..Self::default()
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Sending,
            1 => Phase::Draining,
            _ => Phase::Over,
        }
    }

    fn outstanding(&self) -> u64 {
        let received = self.received.load(Ordering::Relaxed);
        self.expected
            .load(Ordering::Relaxed)
            .saturating_sub(received)
    }
}

/// Who is at a connection.
#[derive(Debug)]
pub(crate) enum Role {
    Publisher(Publisher),
    Subscriber(Subscriber),
}

#[derive(Debug)]
pub(crate) struct Connection {
    pipe: Pipe,
    pub(crate) role: Role,
    rules: Rules,
    /// Bytes of a packet that is not whole.
    rest: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// The socket takes no more until it says so.
    blocked: bool,
    done: bool,
    pub(crate) failure: Option<String>,
}

impl Connection {
    pub(crate) fn new(
        (stream, tunnel, rest): (Socket, Option<Box<Tunnel>>, Vec<u8>),
        rules: Rules,
        role: Role,
    ) -> io::Result<Self> {
        stream.set_nonblocking()?;
        Ok(Self {
            pipe: Pipe::new(stream, tunnel),
            role,
            rules,
            rest,
            output: Vec::new(),
            written: 0,
            blocked: false,
            done: false,
            failure: None,
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.blocked {
            let taken = self.pipe.write(&self.output[self.written..])?;
            self.written += taken.bytes;
            self.blocked = taken.full;
        }
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
        Ok(())
    }
}

/// What a thread needs to know of the run.
pub(crate) struct Course<'a> {
    pub(crate) totals: &'a Totals,
    pub(crate) start: Instant,
    pub(crate) in_flight_max: u64,
    /// Deliveries of an average message, to turn a bound on deliveries into one on messages.
    pub(crate) fan_out: u64,
    /// Wakes the thread of the publishers, if that is another one.
    pub(crate) publishers: Option<&'a Waker>,
}

/// A thread's sockets and what they measured.
pub(crate) struct Worker {
    poll: Poll,
    pub(crate) connections: Vec<Connection>,
    pub(crate) group: GroupArrivals,
    pub(crate) delivery: Latencies,
    pub(crate) acknowledgement: Latencies,
    input: Vec<u8>,
    /// What came through a socket with layers.
    raw: Vec<u8>,
    /// Connections with unread input.
    again: Vec<usize>,
    /// A publisher could send at once.
    can_send: bool,
}

impl Worker {
    pub(crate) fn new(mut connections: Vec<Connection>, group: GroupArrivals) -> io::Result<Self> {
        let poll = Poll::new()?;
        for (index, connection) in connections.iter_mut().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let descriptor = connection.pipe.descriptor();
            let mut source = SourceFd(&descriptor);
            poll.registry()
                .register(&mut source, Token(index), interest)?;
        }
        let again = (0..connections.len()).filter(|&index| connections[index].pipe.has_more());
        Ok(Self {
            again: again.collect(),
            poll,
            connections,
            group,
            delivery: Latencies::default(),
            acknowledgement: Latencies::default(),
            input: vec![0; INPUT_BYTES],
            raw: vec![0; INPUT_BYTES],
            can_send: false,
        })
    }

    pub(crate) fn waker(&self) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), WAKE)
    }

    /// Runs until the phase is over.
    pub(crate) fn run(&mut self, course: &Course<'_>) -> io::Result<()> {
        // Linux lets a thread sleep 50 µs longer than asked unless told otherwise: by so much a message would leave after it was due.
        set_current_timer_slack(NonZeroU64::new(1))?;
        let mut events = Events::with_capacity(1024);
        let mut ceased = false;
        loop {
            let mut timeout = self.timeout(course);
            if timeout < IDLE {
                self.wait_finely(timeout)?;
                timeout = Duration::ZERO;
            }
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let phase = course.totals.phase();
            if phase == Phase::Over {
                return Ok(());
            }
            if phase == Phase::Draining && !ceased {
                ceased = true;
                course.totals.sending.fetch_sub(1, Ordering::Release);
            }
            for index in std::mem::take(&mut self.again) {
                self.read(index, course);
            }
            for event in &events {
                if event.token() == WAKE {
                    continue;
                }
                let index = event.token().0;
                if event.is_writable() {
                    self.connections[index].blocked = false;
                    self.flush(index, course);
                }
                if event.is_readable() || event.is_read_closed() {
                    self.read(index, course);
                }
            }
            self.can_send = false;
            if phase == Phase::Sending {
                self.send(course);
            }
        }
    }

    /// Waits for sockets, or until the next message is due: the poll counts in milliseconds, a schedule is finer. What comes meanwhile is heard at
    /// once, so that an acknowledgement does not seem to take as long as the pause to the next message.
    fn wait_finely(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let mut sockets = [PollFd::new(self.poll.registry(), PollFlags::IN)];
        let time = Timespec {
            tv_sec: 0,
            tv_nsec: time.subsec_nanos().into(),
        };
        match poll(&mut sockets, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn timeout(&self, course: &Course<'_>) -> Duration {
        if self.can_send || !self.again.is_empty() {
            return Duration::ZERO;
        }
        let now_ns = elapsed_ns(course.start);
        let due = self
            .connections
            .iter()
            .filter_map(|connection| match &connection.role {
                Role::Publisher(publisher) if !publisher.is_done() => publisher.due_in(now_ns),
                Role::Publisher(_) | Role::Subscriber(_) => None,
            });
        due.min().unwrap_or(IDLE).min(IDLE)
    }

    /// Lets every publisher send what its window and schedule allow; again as long as a socket takes all of it.
    fn send(&mut self, course: &Course<'_>) {
        for index in 0..self.connections.len() {
            for _ in 0..READS_MAX {
                let room = self.room(course);
                let connection = &mut self.connections[index];
                let Role::Publisher(publisher) = &mut connection.role else {
                    break;
                };
                if connection.blocked
                    || connection.failure.is_some()
                    || connection.done
                    || room == 0
                {
                    break;
                }
                let now_ns = elapsed_ns(course.start);
                let sent = publisher.fill(now_ns, room, OUTPUT_BYTES, &mut connection.output);
                if publisher.is_done() && publisher.in_flight() == 0 {
                    connection.done = true;
                    course
                        .totals
                        .publishers_done
                        .fetch_add(1, Ordering::Release);
                }
                course
                    .totals
                    .expected
                    .fetch_add(sent.deliveries, Ordering::Relaxed);
                course
                    .totals
                    .sent
                    .fetch_add(sent.messages, Ordering::Relaxed);
                self.flush(index, course);
                if sent.messages == 0 {
                    break;
                }
            }
        }
        // What could still be sent at once must not wait for an event: an edge that has passed does not come again.
        self.can_send = self.could_send(course);
    }

    fn could_send(&self, course: &Course<'_>) -> bool {
        let now_ns = elapsed_ns(course.start);
        self.room(course) > 0
            && self
                .connections
                .iter()
                .any(|connection| match &connection.role {
                    Role::Publisher(publisher) => {
                        !connection.blocked
                            && connection.failure.is_none()
                            && publisher.can_send(now_ns)
                    }
                    Role::Subscriber(_) => false,
                })
    }

    /// Messages that may be added now under the bound on deliveries under way.
    fn room(&self, course: &Course<'_>) -> u64 {
        if course.in_flight_max == 0 || course.fan_out == 0 {
            return u64::MAX;
        }
        let room = |totals: &Totals| {
            course.in_flight_max.saturating_sub(totals.outstanding()) / course.fan_out
        };
        let now = room(course.totals);
        if now > 0 {
            return now;
        }
        // Looked at once more behind the flag, so that a delivery in between is either seen here or wakes this thread.
        course.totals.waiting.store(true, Ordering::SeqCst);
        room(course.totals)
    }

    fn read(&mut self, index: usize, course: &Course<'_>) {
        let Some(connection) = self.connections.get(index) else {
            return;
        };
        if connection.failure.is_some() {
            return;
        }
        for round in 0..READS_MAX {
            match self.read_once(index, course) {
                Ok(true) if round + 1 < READS_MAX => {}
                Ok(true) => {
                    self.again.push(index);
                    break;
                }
                Ok(false) => break,
                Err(failure) => {
                    self.fail(index, failure, course);
                    break;
                }
            }
        }
        self.flush(index, course);
    }

    /// One read and all packets in it. True when there may be more to read.
    fn read_once(&mut self, index: usize, course: &Course<'_>) -> Result<bool, String> {
        let connection = &mut self.connections[index];
        let rest = connection.rest.len();
        if self.input.len() < rest + OUTPUT_BYTES {
            self.input.resize(rest + INPUT_BYTES, 0);
        }
        self.input[..rest].copy_from_slice(&connection.rest);
        let (read, more) = match connection.pipe.read(&mut self.raw, &mut self.input[rest..]) {
            Ok(Got::End) => return Err("the broker closed the connection".into()),
            Ok(Got::Bytes(read, more)) => (read, more),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error.to_string()),
        };
        let used = self.handle(index, rest + read, course)?;
        let connection = &mut self.connections[index];
        connection.rest.clear();
        connection
            .rest
            .extend_from_slice(&self.input[used..rest + read]);
        Ok(more)
    }

    /// Handles the whole packets in the first `len` bytes of the input. Returns how many bytes they have.
    fn handle(&mut self, index: usize, len: usize, course: &Course<'_>) -> Result<usize, String> {
        let connection = &mut self.connections[index];
        let now_ns = elapsed_ns(course.start);
        let (mut used, mut arrived, mut acknowledged) = (0, 0, 0);
        loop {
            let bytes = &self.input[used..len];
            let split = Frame::split(bytes, PACKET_BYTES_MAX).map_err(|error| error.to_string())?;
            let Split::Whole(frame) = split else { break };
            let packet =
                Packet::decode(&frame, &connection.rules).map_err(|error| error.to_string())?;
            let output = &mut connection.output;
            match &mut connection.role {
                Role::Publisher(publisher) => {
                    acknowledged +=
                        publisher.handle(&packet, now_ns, &mut self.acknowledgement, output)?;
                }
                Role::Subscriber(subscriber) => {
                    arrived += subscriber.handle(
                        &packet,
                        now_ns,
                        &mut self.group,
                        &mut self.delivery,
                        output,
                    )?;
                }
            }
            used += frame.len();
        }
        if acknowledged > 0 {
            course
                .totals
                .acknowledged
                .fetch_add(acknowledged, Ordering::Relaxed);
        }
        if arrived > 0 {
            course.totals.received.fetch_add(arrived, Ordering::SeqCst);
            self.wake_publishers(course);
        }
        Ok(used)
    }

    fn wake_publishers(&self, course: &Course<'_>) {
        let Some(waker) = course.publishers else {
            return;
        };
        let low = course.totals.outstanding() * 2 <= course.in_flight_max;
        if low && course.totals.waiting.swap(false, Ordering::SeqCst) {
            // A wake that fails is made up for by the next look at the phase.
            let _ = waker.wake();
        }
    }

    fn flush(&mut self, index: usize, course: &Course<'_>) {
        let connection = &mut self.connections[index];
        if connection.failure.is_some() {
            return;
        }
        if let Err(error) = connection.flush() {
            self.fail(index, error.to_string(), course);
        }
    }

    fn fail(&mut self, index: usize, failure: String, course: &Course<'_>) {
        let connection = &mut self.connections[index];
        connection.failure = Some(failure);
        course.totals.failed.fetch_add(1, Ordering::Release);
        // Nothing to be done about a socket that cannot be deregistered: it is closed with the worker.
        let descriptor = connection.pipe.descriptor();
        let _ = self.poll.registry().deregister(&mut SourceFd(&descriptor));
    }
}

fn elapsed_ns(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
