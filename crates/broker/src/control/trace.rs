//! Traces of single clients: each packet that one client sends or gets, for an operator who watches.
//!
//! A trace lives as long as somebody asks for it: [`LEASE_MS`] after the last question it ends by itself. There are few, each keeps
//! its last lines only, and connections of other clients pay nothing but the look whether they have one. What a client has sent
//! as its password or as a payload is not in it.

mod packet;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use courser_contract::{Now, Tick, WallMs};
use courser_mqtt::codec::{Frame, Limits, PACKET_BYTES_MAX, ProtocolVersion, Rules, Split};
use courser_mqtt::front::Output;

/// Traces of one shard at once.
const TRACES_MAX: usize = 16;
/// Lines that a trace keeps for whoever asks next.
const LINES_MAX: usize = 1_000;
/// Lines of one answer.
const LINES_AT_ONCE: usize = 256;
/// How long a trace goes on that nobody asks for, in milliseconds.
const LEASE_MS: u64 = 10_000;
/// Bytes of one turn's output that are looked at; more is told as bytes.
const OUTPUT_MAX: usize = 1 << 20;

/// Which way a packet went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client sent it.
    Received,
    /// The client was sent it.
    Sent,
    /// No packet: the connection came or went.
    Connection,
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracedLine {
    /// When: the beginning of the shard's turn.
    pub at: WallMs,
    /// Which way.
    pub direction: Direction,
    /// The packet in words. Names are those of the client, as they came.
    pub what: String,
}

/// Lines of a trace, and where to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The lines.
    pub lines: Vec<TracedLine>,
    /// Number of the line behind them.
    pub next: u64,
    /// Lines that were pushed out before anybody asked for them.
    pub lost: u64,
}

/// The trace of one client id on one shard.
#[derive(Debug)]
struct Trace {
    client_id: Box<str>,
    until: Tick,
    lines: VecDeque<TracedLine>,
    next: u64,
}

impl Trace {
    fn add(&mut self, now: Now, direction: Direction, what: String) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(TracedLine {
            at: now.wall,
            direction,
            what,
        });
        self.next += 1;
    }

    fn page(&self, from: u64) -> TracePage {
        let first = self.next - self.lines.len() as u64;
        let begin = from.clamp(first, self.next);
        let skip = usize::try_from(begin - first).unwrap_or(usize::MAX);
        let lines: Vec<_> = self
            .lines
            .iter()
            .skip(skip)
            .take(LINES_AT_ONCE)
            .cloned()
            .collect();
        TracePage {
            next: begin + lines.len() as u64,
            lost: first.saturating_sub(from),
            lines,
        }
    }
}

/// The traces of one shard.
#[derive(Debug, Default)]
pub(crate) struct Traces(Vec<Rc<RefCell<Trace>>>);

impl Traces {
    /// Lines of the trace of a client id from number `from` on; `u64::MAX` is from now on. The trace begins if there is none, and
    /// goes on for a while. `None`: there are as many as may be.
    pub(crate) fn ask(&mut self, now: Tick, client_id: &str, from: u64) -> Option<TracePage> {
        self.0.retain(|trace| trace.borrow().until >= now);
        let found = self.find(client_id);
        let trace = match found {
            Some(trace) => trace,
            None if self.0.len() == TRACES_MAX => return None,
            None => {
                let trace = Rc::new(RefCell::new(Trace {
                    client_id: client_id.into(),
                    until: now,
                    lines: VecDeque::new(),
                    next: 0,
                }));
                self.0.push(Rc::clone(&trace));
                trace
            }
        };
        let mut trace = trace.borrow_mut();
        trace.until = now.after_ms(LEASE_MS);
        Some(trace.page(from))
    }

    /// For a new connection while anything is traced: whose it is, its CONNECT says.
    pub(crate) fn newcomer(&self) -> Option<Box<Tracer>> {
        (!self.0.is_empty()).then(|| Box::new(Tracer::of(None, ProtocolVersion::V311, 0)))
    }

    /// For a connection of a client that is traced, of whose output the first `seen` bytes are not of interest.
    pub(crate) fn tracer(
        &self,
        client_id: &str,
        version: Option<ProtocolVersion>,
        seen: usize,
    ) -> Option<Box<Tracer>> {
        if self.0.is_empty() {
            return None;
        }
        let trace = self.find(client_id)?;
        Some(Box::new(Tracer::of(Some(trace), version?, seen)))
    }

    /// A line that is neither a packet nor an end, in the trace of a client if there is one.
    pub(crate) fn note(&self, now: Now, client_id: &str, what: impl FnOnce() -> String) {
        if let Some(trace) = self.find(client_id) {
            trace.borrow_mut().add(now, Direction::Connection, what());
        }
    }

    fn find(&self, client_id: &str) -> Option<Rc<RefCell<Trace>>> {
        let mut all = self.0.iter();
        all.find(|trace| &*trace.borrow().client_id == client_id)
            .cloned()
    }
}

/// What a connection has whose client is traced.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// None: its CONNECT has not come yet.
    trace: Option<Rc<RefCell<Trace>>>,
    version: ProtocolVersion,
    /// Bytes at the front of the output that were looked at and are not written yet.
    seen: usize,
    /// What this turn has sent: whole packets.
    output: Vec<u8>,
    /// Bytes beyond [`OUTPUT_MAX`].
    left_out: usize,
}

impl Tracer {
    const fn of(trace: Option<Rc<RefCell<Trace>>>, version: ProtocolVersion, seen: usize) -> Self {
        Self {
            trace,
            version,
            seen,
            output: Vec::new(),
            left_out: 0,
        }
    }

    /// Whether it is of a connection whose CONNECT has not come yet.
    pub(crate) const fn awaits_connect(&self) -> bool {
        self.trace.is_none()
    }

    /// Whether nobody asks for it any more.
    pub(crate) fn is_over(&self, now: Tick) -> bool {
        let trace = self.trace.as_ref();
        trace.is_some_and(|trace| trace.borrow().until < now)
    }

    /// Whole packets of the client.
    pub(crate) fn received(&self, now: Now, bytes: &[u8]) {
        let rules = Rules::from_client(self.version);
        self.add(now, Direction::Received, bytes, &rules);
    }

    /// Looks at what is new in the output, before it is written.
    pub(crate) fn look_at(&mut self, output: &Output) {
        let new = output.len().saturating_sub(self.seen);
        if self.output.len() + new > OUTPUT_MAX {
            self.left_out += new;
        } else {
            let mut skip = self.seen;
            for slice in output.slices() {
                let from = skip.min(slice.len());
                skip -= from;
                self.output.extend_from_slice(&slice[from..]);
            }
        }
        self.seen = output.len();
    }

    /// So many bytes of the output are left after it was written.
    pub(crate) fn wrote_up_to(&mut self, left: usize) {
        self.seen = left;
    }

    /// The turn ends: what it has sent becomes lines.
    pub(crate) fn end_turn(&mut self, now: Now) {
        if !self.output.is_empty() {
            let output = std::mem::take(&mut self.output);
            let rules = Rules::from_server(self.version);
            self.add(now, Direction::Sent, &output, &rules);
        }
        if self.left_out > 0 {
            let what = format!("{} bytes more at once", std::mem::take(&mut self.left_out));
            self.line(now, Direction::Sent, what);
        }
    }

    /// The connection came or went.
    pub(crate) fn note(&self, now: Now, what: String) {
        self.line(now, Direction::Connection, what);
    }

    fn line(&self, now: Now, direction: Direction, what: String) {
        if let Some(trace) = &self.trace {
            trace.borrow_mut().add(now, direction, what);
        }
    }

    fn add(&self, now: Now, direction: Direction, mut bytes: &[u8], rules: &Rules) {
        let rules = rules.with_limits(Limits::STANDARD);
        let Some(trace) = &self.trace else {
            return;
        };
        let mut trace = trace.borrow_mut();
        while let Ok(Split::Whole(frame)) = Frame::split(bytes, PACKET_BYTES_MAX) {
            trace.add(now, direction, packet::in_words(&frame, &rules));
            bytes = &bytes[frame.len()..];
        }
        if !bytes.is_empty() {
            trace.add(now, direction, format!("{} bytes", bytes.len()));
        }
    }
}
