//! Many connections at once: how fast they are taken, what an idle one costs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use courser_mqtt::codec::{
    Frame, PACKET_BYTES_MAX, Packet, PacketId, Pingreq, ProtocolVersion, QoS, ReasonCode, Receiver,
    Rules, Split,
};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::pipe::{Got, Pipe};
use super::plan::{KEEP_ALIVE_SECONDS, Target};
use super::process;
use super::result::Latencies;
use super::run::LoadError;
use crate::socket::Socket;
use crate::{Client, Filter, Options, packets};

/// Many idle connections.
#[derive(Clone, Debug)]
pub struct Storm {
    /// The broker.
    pub target: Target,
    /// First characters of all client ids.
    pub client_prefix: String,
    /// First levels of the topics.
    pub prefix: String,
    /// Connections in all.
    pub connections: usize,
    /// Connections between the SYN and the last answer at most.
    pub concurrency: usize,
    /// Connections that are begun a second at most.
    pub per_second: Option<f64>,
    /// Subscriptions of each, to topics of its own.
    pub subscriptions: usize,
    /// How long they stay idle before memory is read.
    pub hold: Duration,
    /// Longest time for all of them to connect.
    pub time_max: Duration,
}

/// What a storm measured.
#[derive(Clone, Debug, Default)]
pub struct StormOutcome {
    /// Connections that came through.
    pub connected: usize,
    /// Those that failed, with the first reasons.
    pub failures: Vec<String>,
    /// From the first SYN to the last answer.
    pub took: Duration,
    /// From SYN to CONNACK of each.
    pub handshake: Latencies,
    /// Connections that answered a PINGREQ after the hold.
    pub alive: usize,
    /// CPU seconds of the broker while they connected.
    pub broker_cpu_seconds: Option<f64>,
    /// CPU seconds of the broker during the hold.
    pub idle_cpu_seconds: Option<f64>,
    /// Resident bytes of the broker that each connection added.
    pub resident_each: Option<f64>,
}

/// Longest wait for sockets.
const TURN_MAX: Duration = Duration::from_millis(20);

/// What a connection of a storm waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Tcp,
    Layers,
    Connack,
    Suback,
    Idle,
    Pong,
    Failed,
}

struct One {
    pipe: Pipe,
    step: Step,
    since: Instant,
    input: Vec<u8>,
}

/// Runs a storm, behind one connection that goes again. Refusals and lost connections are counted, not errors.
///
/// # Errors
/// When that first one is not let in, the system gives no sockets at all, or a name cannot be said in MQTT.
pub fn storm(plan: &Storm, pids: &[u32]) -> Result<StormOutcome, LoadError> {
    // Thousands that fail for one reason measure nothing: that nobody is there, or lets this user in, is said as every command does.
    let first = plan.target.options(format!("{}first", plan.client_prefix));
    Client::connect(&first)?.disconnect()?;
    let mut state = State::new(plan)?;
    let before = usage(pids)?;
    let start = Instant::now();
    let each = plan
        .per_second
        .and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
    let pause = each.unwrap_or(TURN_MAX).min(TURN_MAX);
    while !state.is_settled() && start.elapsed() < plan.time_max {
        state.open_more(plan, start.elapsed())?;
        state.turn(plan, pause)?;
    }
    state.outcome.took = start.elapsed();
    state.outcome.connected = state.count(Step::Idle);
    let connected = usage(pids)?;
    thread::sleep(plan.hold);
    let held = usage(pids)?;
    state.ping_all(plan)?;
    if let (Some(before), Some(connected), Some(held)) = (before, connected, held) {
        let grown = held.resident_bytes as f64 - before.resident_bytes as f64;
        state.outcome.broker_cpu_seconds = Some(connected.cpu_seconds - before.cpu_seconds);
        state.outcome.idle_cpu_seconds = Some(held.cpu_seconds - connected.cpu_seconds);
        state.outcome.resident_each = Some(grown / state.outcome.connected.max(1) as f64);
    }
    Ok(state.outcome)
}

fn usage(pids: &[u32]) -> io::Result<Option<process::Usage>> {
    if pids.is_empty() {
        Ok(None)
    } else {
        process::usage(pids).map(Some)
    }
}

struct State {
    poll: Poll,
    events: Events,
    all: Vec<One>,
    pending: usize,
    /// Indices still to be opened.
    to_open: VecDeque<usize>,
    input: Vec<u8>,
    /// What came through a socket with layers.
    raw: Vec<u8>,
    outcome: StormOutcome,
}

impl State {
    fn new(plan: &Storm) -> io::Result<Self> {
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(4096),
            all: Vec::with_capacity(plan.connections),
            pending: 0,
            to_open: (0..plan.connections).collect(),
            input: vec![0; 64 * 1024],
            raw: vec![0; 64 * 1024],
            outcome: StormOutcome::default(),
        })
    }

    fn is_settled(&self) -> bool {
        self.to_open.is_empty() && self.pending == 0
    }

    fn count(&self, step: Step) -> usize {
        self.all.iter().filter(|one| one.step == step).count()
    }

    fn open_more(&mut self, plan: &Storm, elapsed: Duration) -> Result<(), LoadError> {
        let due = plan.per_second.map_or(usize::MAX, |rate| {
            (elapsed.as_secs_f64() * rate) as usize + 1
        });
        while self.pending < plan.concurrency
            && self.all.len() < due
            && let Some(index) = self.to_open.pop_front()
        {
            let stream = match Socket::begin(&plan.target.endpoint) {
                Ok(stream) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.to_open.push_front(index);
                    break;
                }
                Err(error) => return Err(error.into()),
            };
            let interest = Interest::READABLE | Interest::WRITABLE;
            let descriptor = stream.as_raw_fd();
            let mut source = SourceFd(&descriptor);
            self.poll
                .registry()
                .register(&mut source, Token(index), interest)?;
            self.all.push(One {
                pipe: Pipe::new(
                    stream,
                    plan.target.layers.begin().map_err(io::Error::other)?,
                ),
                step: Step::Tcp,
                since: Instant::now(),
                input: Vec::new(),
            });
            self.pending += 1;
        }
        Ok(())
    }

    fn turn(&mut self, plan: &Storm, timeout: Duration) -> Result<(), LoadError> {
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let ready: Vec<_> = self
            .events
            .iter()
            .map(|event| (event.token().0, event.is_writable()))
            .collect();
        for (index, writable) in ready {
            if let Err(failure) = self.advance(plan, index, writable) {
                self.fail(index, failure);
            }
        }
        Ok(())
    }

    fn fail(&mut self, index: usize, failure: String) {
        let one = &mut self.all[index];
        if matches!(
            one.step,
            Step::Tcp | Step::Layers | Step::Connack | Step::Suback
        ) {
            self.pending -= 1;
        }
        one.step = Step::Failed;
        let descriptor = one.pipe.descriptor();
        let _ = self.poll.registry().deregister(&mut SourceFd(&descriptor));
        if self.outcome.failures.len() < 1000 {
            self.outcome.failures.push(failure);
        }
    }

    fn advance(&mut self, plan: &Storm, index: usize, writable: bool) -> Result<(), String> {
        let one = &mut self.all[index];
        if one.step == Step::Failed {
            return Ok(());
        }
        if one.step == Step::Tcp && writable {
            let stream = one.pipe.stream();
            if let Some(error) = stream.error().map_err(|error| error.to_string())? {
                return Err(format!("cannot connect: {error}"));
            }
            let _ = stream.set_nodelay();
            one.step = Step::Layers;
        }
        one.log_in(plan, index)?;
        loop {
            match one.pipe.read(&mut self.raw, &mut self.input) {
                Ok(Got::End) => return Err("the broker closed the connection".into()),
                Ok(Got::Bytes(read, _)) => {
                    one.input.extend_from_slice(&self.input[..read]);
                    one.log_in(plan, index)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.handle(plan, index)
    }

    fn handle(&mut self, plan: &Storm, index: usize) -> Result<(), String> {
        let one = &mut self.all[index];
        let rules = Rules::from_server(plan.target.version);
        loop {
            let input = std::mem::take(&mut one.input);
            let split =
                Frame::split(&input, PACKET_BYTES_MAX).map_err(|error| error.to_string())?;
            let Split::Whole(frame) = split else {
                one.input = input;
                return Ok(());
            };
            let packet = Packet::decode(&frame, &rules).map_err(|error| error.to_string())?;
            let next = match (one.step, &packet) {
                (Step::Connack, Packet::Connack(connack))
                    if connack.reason == ReasonCode::Success =>
                {
                    self.outcome
                        .handshake
                        .note(one.since.elapsed().as_nanos() as u64);
                    if plan.subscriptions > 0 {
                        one.send(&subscribe(plan, index).map_err(|error| error.to_string())?)?;
                        Step::Suback
                    } else {
                        Step::Idle
                    }
                }
                (Step::Connack, Packet::Connack(connack)) => {
                    return Err(format!("refused: {}", connack.reason.name()));
                }
                (Step::Suback, Packet::Suback(suback))
                    if suback.codes.iter().all(|code| !code.is_error()) =>
                {
                    Step::Idle
                }
                (Step::Pong, Packet::Pingresp(_)) => Step::Idle,
                (_, other) => return Err(format!("{} was not expected", other.packet_type())),
            };
            if next == Step::Pong || (next == Step::Idle && one.step == Step::Pong) {
                self.outcome.alive += 1;
            } else if next == Step::Idle {
                self.pending -= 1;
            }
            one.step = next;
            let used = frame.len();
            one.input = input;
            one.input.drain(..used);
            if one.input.is_empty() {
                one.input = Vec::new();
            }
        }
    }

    /// Proves that every idle connection still works.
    fn ping_all(&mut self, plan: &Storm) -> Result<(), LoadError> {
        let mut ping = Vec::new();
        Packet::Pingreq(Pingreq).encode(&Receiver::new(plan.target.version), &mut ping)?;
        for index in 0..self.all.len() {
            let one = &mut self.all[index];
            if one.step == Step::Idle {
                one.step = Step::Pong;
                if let Err(failure) = one.send(&ping) {
                    self.fail(index, failure);
                }
            }
        }
        let start = Instant::now();
        while self.count(Step::Pong) > 0 && start.elapsed() < Duration::from_secs(10) {
            self.turn(plan, Duration::from_millis(20))?;
        }
        Ok(())
    }
}

impl One {
    /// The packets of a storm are small: a fresh socket takes them whole.
    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        match self.pipe.write(bytes) {
            Ok(taken) if !taken.full => Ok(()),
            Ok(_) => Err("the socket took part of a small packet only".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Goes on with the handshakes; once they are over CONNECT is sent.
    fn log_in(&mut self, plan: &Storm, index: usize) -> Result<(), String> {
        if self.step != Step::Layers {
            return Ok(());
        }
        self.send(&[])?;
        if self.pipe.is_open() {
            self.send(&connect(plan, index).map_err(|error| error.to_string())?)?;
            self.step = Step::Connack;
        }
        Ok(())
    }
}

fn connect(plan: &Storm, index: usize) -> Result<Vec<u8>, LoadError> {
    let options = Options {
        client_id: format!("{}{index}", plan.client_prefix),
        keep_alive: KEEP_ALIVE_SECONDS,
        username: plan.target.username.clone(),
        password: plan.target.password.clone(),
        ..Options::default()
    };
    let mut out = Vec::new();
    packets::connect(&options, plan.target.version, &mut out)?;
    Ok(out)
}

fn subscribe(plan: &Storm, index: usize) -> Result<Vec<u8>, LoadError> {
    let filters: Vec<_> = (0..plan.subscriptions)
        .map(|k| Filter {
            filter: format!("{}/{index}/{k}", plan.prefix),
            qos: QoS::AtLeastOnce,
            no_local: false,
            retain_as_published: false,
        })
        .collect();
    let mut out = Vec::new();
    let version: ProtocolVersion = plan.target.version;
    packets::subscribe(
        &filters,
        None,
        PacketId::MIN,
        &Receiver::new(version),
        &mut out,
    )?;
    Ok(out)
}
