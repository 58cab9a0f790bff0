//! What a shard does as the memory of the process runs out: free buffers go, publishers are read less, then publishes and connections are refused
//! and clients are closed that hold much and do not go on. All of it ends by itself with its reason.

use std::sync::Arc;

use courser_contract::{CloseCause, CloseReason, FrontId, Tick, ToFront};
use courser_engine::MemoryRoom;
use courser_memory::{held, snapshot};

use super::Shard;
use super::connection::{Connection, Hold, Life};
use super::fronts::Access;
use super::ready::Place;
use super::timers::Timer;
use crate::memory::{Kept, Level, MemoryBudget, Rooms};

/// How often a shard looks, in milliseconds.
const LOOK_MS: u64 = 10;
/// How often it looks at least while memory is not free.
const LOOK_AGAIN_MS: u64 = 50;
/// Connections that one look goes through.
const ROUND_MAX: Place = 2_048;
/// Bytes from which on what a client does not read, or has sent of a packet that does not end, is much.
const MUCH_BYTES: usize = 16 * 1024;
/// The same of a packet that does not go on, in which there was no progress for [`STUCK_MS`]: thousands of them hold as much as a few large ones, and
/// nobody who sends is as slow.
const SOME_BYTES: usize = 1024;
/// See [`SOME_BYTES`], in milliseconds.
const STUCK_MS: u64 = 30_000;
/// How long a packet with [`SOME_BYTES`] may take at most while memory is full, however it goes on: this at first, in milliseconds, and half of it
/// after each [`PATIENCE_HALVES_MS`], so that no pace holds memory for ever.
const PATIENCE_MS: u64 = 30_000;
/// See [`PATIENCE_MS`], in milliseconds.
const PATIENCE_HALVES_MS: u64 = 10_000;
/// Least patience, in milliseconds: 16 KiB need no more over any network that clients are used on.
const PATIENCE_MIN_MS: u64 = 2_000;

/// What a shard knows of the memory of its process.
pub(crate) struct MemoryWatch {
    budget: Arc<MemoryBudget>,
    looked: Tick,
    /// Of messages that wait.
    room: MemoryRoom,
    /// The next connection to look at.
    cursor: Place,
    armed: bool,
    /// Since when memory is full.
    full_since: Option<Tick>,
}

impl MemoryWatch {
    /// Nothing yet.
    pub(crate) fn new(budget: Arc<MemoryBudget>) -> Self {
        Self {
            budget,
            looked: Tick(0),
            room: MemoryRoom::Enough,
            cursor: 0,
            armed: false,
            full_since: None,
        }
    }
}

/// What is wrong with a connection when memory is short.
enum Burden {
    Nothing,
    /// It does not read what it is sent.
    Stalled,
    /// It has begun a large packet, or asks for more than its home can do at once.
    Unfinished,
}

impl Shard {
    /// Looks how much memory is used, from time to time.
    #[inline]
    pub(super) fn observe_memory(&mut self) {
        if self.hub.now.tick >= self.memory.looked.after_ms(LOOK_MS) {
            self.look_at_memory();
        }
    }

    #[cold]
    fn look_at_memory(&mut self) {
        self.memory.looked = self.hub.now.tick;
        let budget = Arc::clone(&self.memory.budget);
        let before;
        (before, self.hub.memory) = budget.look(snapshot().live_bytes());
        budget.note_level(self.hub.memory, self.hub.now.tick);
        let is_full = self.hub.memory >= Level::Full;
        let since = self.memory.full_since.unwrap_or(self.hub.now.tick);
        self.memory.full_since = is_full.then_some(since);
        budget.keep_accounts(self.hub.access.process.bytes_held());
        if self.hub.memory >= Level::Tight {
            // As long as memory is short: what comes back between two looks goes with the next one.
            self.pool.trim();
            self.tuning.trim_output();
            // Those of all links hold more than a little memory is.
            self.hub.links.ports.trim();
            self.hub.links.local.trim();
            self.spare.trim();
        }
        if before < self.hub.memory && self.hub.memory >= Level::Tight {
            // A shard that sleeps may have free buffers, and what is to be closed.
            for doze in &self.hub.links.ports.dozes {
                doze.wake();
            }
        }
        if before < Level::Full && self.hub.memory >= Level::Full {
            let held = held();
            let (largest, largest_bytes) = held.largest();
            tracing::warn!(
                event = "memory_full",
                held_bytes = held.total(),
                %largest,
                largest_bytes,
                "memory.max is nearly used up: publishes and connections are refused"
            );
        }
        let aliases = self.tuning.alias_load();
        self.hub.counters.closed_for_memory += aliases.take_closed();
        let kept = Kept {
            aliases: aliases.bytes() as u64,
            ..self.partitions.kept()
        };
        let rooms = budget.keep(self.hub.id.0.into(), kept);
        aliases.set_room(rooms.aliases);
        // Also those that have come since.
        self.partitions.set_session_room(rooms.sessions);
        let room = rooms.messages;
        if room != self.memory.room {
            self.memory.room = room;
            self.partitions
                .set_memory_room(room, &self.hub.partition_limits());
        }
        if self.hub.memory >= Level::Full {
            self.hub.watch.history.forget_refused();
        }
        if self.hub.memory >= Level::Tight {
            self.go_round();
        }
        let calm = self.hub.memory == Level::Free && rooms == Rooms::default();
        if !calm && !self.memory.armed {
            self.memory.armed = true;
            let again = self.hub.now.tick.after_ms(LOOK_AGAIN_MS);
            self.timers.insert(again, Timer::MEMORY);
        }
    }

    /// The timer has fired; the turn has looked already.
    pub(super) fn memory_timeout(&mut self) {
        self.memory.armed = false;
        self.look_at_memory();
    }

    /// What partitions keep in memory, under other limits too.
    pub(super) fn limit_partitions(&mut self) {
        let limits = self.hub.partition_limits();
        self.partitions.set_limits(&limits);
        self.partitions.set_memory_room(self.memory.room, &limits);
    }

    /// Has connections give back what can be made again, and room that nothing is in, and closes those that hold much memory and do not go on where it is nearly used up:
    /// a bounded number of them a look.
    fn go_round(&mut self) {
        let now = self.hub.now.tick;
        let patience = self.memory.full_since.map(|since| patience(since, now));
        for _ in 0..self.fronts.places().min(ROUND_MAX) {
            let slot = self.memory.cursor;
            self.memory.cursor = match slot + 1 < self.fronts.places() {
                true => slot + 1,
                false => 0,
            };
            let Some(id) = self.fronts.id(slot) else {
                continue;
            };
            let Access::Here(connection) = self.fronts.get(id) else {
                continue;
            };
            connection.gate.forget_decisions();
            if let Some(rest) = &mut connection.rest {
                rest.fit();
            }
            connection.begun = begun(connection.begun, bytes_begun(connection), now);
            if waits_for_others(connection) {
                connection.begun = connection.begun.map(|_| now);
            }
            let burden = patience.map(|patience| burden(connection, now, patience));
            match burden.unwrap_or(Burden::Nothing) {
                Burden::Nothing => {}
                Burden::Stalled => self.drop_stalled(id),
                Burden::Unfinished => {
                    self.hub.counters.closed_for_memory += 1;
                    let closed = ToFront::Closed(CloseReason::Unfinished);
                    self.with_front(id, |front, now, fx| front.handle_message(now, closed, fx));
                }
            }
        }
    }

    /// What it was sent cannot be written, and neither can a good-bye: it is as if its socket had gone.
    fn drop_stalled(&mut self, id: FrontId) {
        if let Some(mut connection) = self.fronts.take(id) {
            self.hub.counters.closed_for_memory += 1;
            let close = self.abandon(id, &mut connection, CloseCause::Stalled);
            self.put_back(id, connection, close);
        }
    }
}

/// How long a packet may take now that memory has been full for some time, in milliseconds.
fn patience(full_since: Tick, now: Tick) -> u64 {
    let halves = now.0.saturating_sub(full_since.0) / PATIENCE_HALVES_MS;
    let shift = u32::try_from(halves).unwrap_or(u32::MAX);
    let left = PATIENCE_MS.checked_shr(shift).unwrap_or(0);
    left.max(PATIENCE_MIN_MS)
}

/// Whether what is received waits for the broker or for what this client does not read, and not for its next bytes. A pause after a publish,
/// which is short and follows on whatever comes, is no such reason.
fn waits_for_others(connection: &mut Connection) -> bool {
    match connection.hold {
        Hold::Front | Hold::Output | Hold::Link | Hold::Quota => true,
        Hold::None => connection.unparsed || connection.front.silent_since().is_none(),
        Hold::Pace => connection.unparsed,
    }
}

/// `patience`: how long a packet may take, in milliseconds.
fn burden(connection: &mut Connection, now: Tick, patience: u64) -> Burden {
    if connection.life != Life::Open {
        return Burden::Nothing;
    }
    let unwritten = connection.front.output().len() + connection.transport.unwritten_bytes();
    if connection.write_blocked && unwritten >= MUCH_BYTES {
        return Burden::Stalled;
    }
    // Filters that its home is not asked for yet, and what came behind them: of packets that have ended, and bounded for one connection only.
    let asks = connection.front.has_unsent_requests();
    let asked = if asks {
        connection.front.request_bytes()
    } else {
        0
    };
    let asked = asked + connection.transport.unfinished_bytes();
    // What layers hold of it beside that has its own bounds: what one read brought.
    let rest = connection.rest.as_ref();
    let rest = rest.filter(|_| asks || !connection.unparsed);
    let rest = rest.map_or(0, |rest| rest.bytes().len());
    let unfinished = asked + rest;
    let silent = connection.front.silent_since();
    let is_stuck = connection.hold == Hold::None
        && !asks
        && silent.is_some_and(|since| since.after_ms(STUCK_MS) <= now);
    let is_slow = connection.hold == Hold::None
        && !asks
        && silent.is_some()
        && is_late(connection.begun, now, patience);
    let most = if is_stuck || is_slow {
        SOME_BYTES
    } else {
        MUCH_BYTES
    };
    match unfinished >= most {
        true => Burden::Unfinished,
        false => Burden::Nothing,
    }
}

/// Bytes of a packet that has not ended, and of a record of TLS.
fn bytes_begun(connection: &Connection) -> usize {
    let rest = connection
        .rest
        .as_ref()
        .map_or(0, |rest| rest.bytes().len());
    rest + connection.transport.unfinished_bytes()
}

/// Since when there are bytes of what has not ended. Those of a packet were seen as they came. A record of TLS gives nothing to the front before its
/// end: it counts from the first look that finds it, and what it gave has ended it.
fn begun(before: Option<Tick>, bytes: usize, now: Tick) -> Option<Tick> {
    (bytes > 0).then(|| before.unwrap_or(now))
}

fn is_late(begun: Option<Tick>, now: Tick, patience: u64) -> bool {
    begun.is_some_and(|begun| begun.after_ms(patience) <= now)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever ends each packet just in time, and begins the next one, must not hold the memory of others for ever.
    #[test]
    fn the_longer_memory_is_full_the_sooner_a_packet_has_to_end() {
        let full = Tick(5_000);
        for (seconds, patience_ms) in [
            (0, 30_000),
            (9, 30_000),
            (10, 15_000),
            (20, 7_500),
            (30, 3_750),
            (40, 2_000),
            (100_000, 2_000),
            (u64::MAX / 2_000, 2_000),
        ] {
            let now = full.after_ms(seconds * 1_000);
            assert_eq!(patience(full, now), patience_ms, "{seconds} s");
        }
        assert_eq!(patience(Tick(1), Tick(0)), PATIENCE_MS);
    }

    #[test]
    fn a_record_of_tls_is_late_from_the_look_that_finds_it_however_it_goes_on() {
        let mut since = None;
        for (second, bytes) in [(1, 5), (2, 4_000), (30, 14_000), (31, 15_010)] {
            since = begun(since, bytes, Tick(second * 1_000));
            assert_eq!(since, Some(Tick(1_000)), "{second} s");
        }
        assert!(is_late(since, Tick(31_000), PATIENCE_MS));
        since = begun(since, 0, Tick(32_000));
        assert_eq!(since, None, "it has ended");
        assert_eq!(begun(since, 7, Tick(33_000)), Some(Tick(33_000)));
    }

    #[test]
    fn a_packet_is_late_from_its_first_byte_on_however_it_goes_on() {
        let begun = Some(Tick(1_000));
        assert!(!is_late(begun, Tick(30_999), PATIENCE_MS));
        assert!(is_late(begun, Tick(31_000), PATIENCE_MS));
        assert!(!is_late(None, Tick(u64::MAX), PATIENCE_MIN_MS));
    }
}
