//! Failed logins by address: whoever fails again and again waits longer and longer, and nobody has more than a few passwords hashed, or
//! a share of the tokens verified, at once. What comes beyond that waits for its turn ([`super::lanes`]), which may be refused to it: what is wrong
//! of those before it counts for it too. Addresses whose last login was right ([`super::regulars`]) have turns of their own.
//!
//! Invariants:
//! - of one address no more is under way than [`Kind::of_one`], of all no more than [`Kind::of_all`], whoever waits
//! - who is admitted or given a turn is under way until [`Throttle::finished`], and that gives the next turn: nobody waits while nothing is under way

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use courser_contract::{Tick, WhyRefused};
use courser_mqtt::codec::ReasonCode;
use courser_mqtt::front::AuthStep;
use courser_settings::LOGIN_ADDRESSES_MAX;

use super::backoff::Backoff;
use super::drain::{Drain, ms_between};
use super::lanes::{Amount, Bounds, Lanes, Rank, Ticket, Turn};
use super::regulars::Regulars;
use crate::memory::waiting_logins_share;

/// Passwords of one address that are under way at once: so many may turn out to be guesses before the address waits for the first of them.
const HASHING_MAX: u32 = 8;
/// Of all: as much as keeps the threads at work while shards hear of what is done. Behind them nobody waits for longer than a second of one thread,
/// and has its turn by address.
const HASHING_OF_ALL_MAX: u32 = 32;
/// Passwords that wait for their turn, of each rank: some eight seconds of work for one thread, of which whoever waits for longer than it has time leaves.
const HASHES_WAITING_MAX: usize = 256;
/// Tokens of one address that are under way at once: an eighth of all, and more than a shard reads in a turn from a fleet behind one address
/// that comes back.
const VERIFYING_MAX: u32 = 128;
/// Of all: 30 to 150 ms of work for one thread where each is held against one key, 1.2 s at most, and 8 MiB.
const VERIFYING_OF_ALL_MAX: u32 = 1_024;
/// Tokens that wait for their turn, of each rank.
const TOKENS_WAITING_MAX: usize = 1_024;
/// The part of those who may wait that may be of one address, one divided by this.
const PART_OF_ONE: usize = 2;
/// What one who waits takes beside what it came with: its place in a lane, and what wakes it.
const WAITER_BYTES: u64 = 512;
/// Addresses that are remembered. When there are more, those that do not wait at the moment are forgotten, so that only somebody who
/// makes all of these wait at once keeps new ones out: the longer they wait, the easier that is, which is doubted of settings.
const ADDRESSES_MAX: usize = LOGIN_ADDRESSES_MAX as usize;
/// Room is looked for this often, in milliseconds: it takes a look at all of them.
const ROOM_MS: u64 = 1_000;

/// A guess that was wrong: its number among those of its address, and when it was.
#[derive(Clone, Copy, Debug, Default)]
struct Failure {
    number: u32,
    at: Tick,
}

/// What is known of one address.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Its number is 0 where it is forgotten.
    last: Failure,
    /// The one that it waits for longest: an earlier one where it was forgotten while it waits.
    waits_for: Failure,
    /// Passwords and tokens that were admitted and have not been looked at.
    under_way: [u32; 2],
}

/// What is looked at on the threads for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Password,
    Token,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Password, Self::Token];

    /// Of one address under way at once.
    const fn of_one(self) -> u32 {
        match self {
            Self::Password => HASHING_MAX,
            Self::Token => VERIFYING_MAX,
        }
    }

    /// Of all addresses.
    const fn of_all(self) -> u32 {
        match self {
            Self::Password => HASHING_OF_ALL_MAX,
            Self::Token => VERIFYING_OF_ALL_MAX,
        }
    }

    /// Of those who wait, in a process that may have so many bytes.
    const fn waiting(self, memory_max: u64) -> Bounds {
        let count = match self {
            Self::Password => HASHES_WAITING_MAX,
            Self::Token => TOKENS_WAITING_MAX,
        };
        let parts = Self::ALL.len() * Rank::ALL.len();
        let bytes = waiting_logins_share(memory_max) / parts as u64;
        Bounds {
            of_all: Amount { count, bytes },
            of_one: Amount {
                count: count / PART_OF_ONE,
                bytes: bytes / PART_OF_ONE as u64,
            },
        }
    }
}

/// Who is asking: an IPv4 address, or the /64 of an IPv6 one, of which anybody has as many as they like. Unix sockets are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    V4([u8; 4]),
    V6([u8; 8]),
    Local,
}

impl Origin {
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V4(address)) => Self::V4(address.octets()),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// Whether a password or token may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Yes; [`Throttle::finished`] must follow.
    Go,
    /// When its turn comes, of which it hears; or it gives up by this.
    Queued(Ticket),
    /// No.
    Refused(Why),
}

/// A password or token that somebody comes with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coming {
    pub(crate) origin: Origin,
    pub(crate) kind: Kind,
    /// Of what has to be kept while it waits.
    pub(crate) bytes: usize,
    /// After this nobody waits for it any more.
    pub(crate) until: Option<Tick>,
}

/// Tells somebody who waits that it may go on, after which [`Throttle::finished`] must follow, or why not. Called once, by whoever is done with
/// another one, and must return at once.
pub(crate) type Wake = Box<dyn FnOnce(Result<(), Why>) + Send>;

/// Why somebody has to come again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Logins of its address have failed.
    Failed,
    /// As many as may be, of its address or of all, wait to be looked at, or more than are done within its time: it has done nothing wrong.
    Full,
    /// Logins of so many addresses have failed that another one could not be remembered: neither has it.
    Crowded,
}

impl Why {
    /// What a client is told.
    pub(crate) const fn code(self) -> ReasonCode {
        match self {
            Self::Failed => ReasonCode::ConnectionRateExceeded,
            Self::Full | Self::Crowded => ReasonCode::ServerBusy,
        }
    }

    /// How a login ends by it.
    pub(crate) const fn step(self) -> AuthStep {
        let why = match self {
            Self::Failed => WhyRefused::AddressFailed,
            Self::Full => WhyRefused::Full,
            Self::Crowded => WhyRefused::Crowded,
        };
        AuthStep::Refused(self.code(), why)
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookedAt {
    /// It was wrong.
    Guess,
    /// It was right.
    Right,
    /// It was wrong in a way that tells who guesses nothing; or nothing was done.
    NoGuess,
}

/// See the module. Shared by all shards, asked once a login.
#[derive(Debug)]
pub(crate) struct Throttle {
    addresses: Mutex<Addresses>,
}

#[derive(Debug)]
struct Addresses {
    backoff: Backoff,
    known: HashMap<Origin, Known>,
    regulars: Regulars,
    /// Before this nobody looks for room.
    look_at: Tick,
    /// By kind.
    work: [Work; Kind::ALL.len()],
}

/// Of one kind: what is looked at, and what waits for that.
struct Work {
    under_way: u32,
    waiting: Lanes<Wake>,
    /// While somebody waits.
    drain: Drain,
}

impl Work {
    /// Whether one more that has to wait would have its turn, and be done, by then.
    fn comes_in_time(
        &self,
        (origin, rank): (Origin, Rank),
        until: Option<Tick>,
        now: Tick,
    ) -> bool {
        let Some(until) = until else {
            return true;
        };
        let turns = self.under_way as usize + self.waiting.ahead_of(origin, rank) + 1;
        self.drain.brings(turns, ms_between(now, until), now)
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Work({} under way)", self.under_way)
    }
}

impl Addresses {
    /// Whether an address is remembered, or can be. Regular ones always can: there are no more of them than of the others.
    fn has_room(&mut self, origin: Origin, now: Tick) -> bool {
        let is_known = self.known.contains_key(&origin) || self.regulars.has(origin);
        if self.known.len() < ADDRESSES_MAX || is_known {
            return true;
        }
        if now < self.look_at {
            return false;
        }
        self.look_at = now.after_ms(ROOM_MS);
        let backoff = &self.backoff;
        self.known
            .retain(|_, it| it.is_busy() || it.waits(backoff, now));
        self.known.len() < ADDRESSES_MAX
    }

    fn come(&mut self, coming: Coming, now: Tick, wake: impl FnOnce() -> Wake) -> Admission {
        let Coming {
            origin,
            kind,
            bytes,
            until,
        } = coming;
        if !self.has_room(origin, now) {
            return Admission::Refused(Why::Crowded);
        }
        if let Some(it) = self.known.get_mut(&origin) {
            it.forget(&self.backoff, now);
        }
        let it = self.known.get(&origin).copied().unwrap_or_default();
        if it.is_kept_out(&self.backoff, now) {
            return Admission::Refused(Why::Failed);
        }
        let rank = match self.regulars.has(origin) {
            true => Rank::Regular,
            false => Rank::Other,
        };
        let work = &mut self.work[kind as usize];
        // Nobody overtakes the others of its address.
        if it.has_room(kind) && work.under_way < kind.of_all() && !work.waiting.has(origin) {
            self.begin(origin, kind);
            return Admission::Go;
        }
        if work.waiting.is_empty() {
            work.drain.begin(now);
        } else if !work.comes_in_time((origin, rank), until, now) {
            return Admission::Refused(Why::Full);
        }
        let bytes = (bytes as u64).saturating_add(WAITER_BYTES);
        match work.waiting.push((origin, rank), bytes, wake) {
            Some(ticket) => Admission::Queued(ticket),
            None => Admission::Refused(Why::Full),
        }
    }

    fn begin(&mut self, origin: Origin, kind: Kind) {
        let it = self.known.entry(origin).or_default();
        it.under_way[kind as usize] += 1;
        self.work[kind as usize].under_way += 1;
    }

    fn finished(&mut self, origin: Origin, kind: Kind, looked_at: LookedAt, now: Tick) {
        let work = &mut self.work[kind as usize];
        work.under_way = work.under_way.saturating_sub(1);
        if !work.waiting.is_empty() {
            work.drain.note(now);
        }
        work.waiting.ready(origin);
        match looked_at {
            LookedAt::Right => self.regulars.note(origin),
            LookedAt::Guess => self.regulars.forget(origin),
            LookedAt::NoGuess => {}
        }
        let Some(it) = self.known.get_mut(&origin) else {
            return;
        };
        let under_way = &mut it.under_way[kind as usize];
        *under_way = under_way.saturating_sub(1);
        match looked_at {
            LookedAt::Guess => it.note_failure(&self.backoff, now),
            LookedAt::Right | LookedAt::NoGuess => {
                if it.last.number == 0 && !it.is_busy() {
                    self.known.remove(&origin);
                }
            }
        }
    }

    /// Gives turns to those who wait, as far as there is room: who is to be told, and what.
    fn hand_on(&mut self, kind: Kind, now: Tick) -> Vec<(Wake, Result<(), Why>)> {
        let mut told = Vec::new();
        while self.work[kind as usize].under_way < kind.of_all() {
            let next = self.work[kind as usize].waiting.take(|origin| {
                let it = self.known.get(&origin).copied().unwrap_or_default();
                match it.is_kept_out(&self.backoff, now) {
                    true => Turn::Over(Err(Why::Failed)),
                    false if it.has_room(kind) => Turn::Over(Ok(())),
                    false => Turn::NotYet,
                }
            });
            let Some((origin, wake, may)) = next else {
                break;
            };
            if may.is_ok() {
                self.begin(origin, kind);
            }
            told.push((wake, may));
        }
        told
    }
}

impl Throttle {
    /// For a process that may have so many bytes.
    pub(crate) fn new(memory_max: u64, backoff: Backoff) -> Self {
        let work = |kind: Kind| Work {
            under_way: 0,
            waiting: Lanes::new(kind.waiting(memory_max)),
            drain: Drain::default(),
        };
        Self {
            addresses: Mutex::new(Addresses {
                backoff,
                known: HashMap::new(),
                regulars: Regulars::default(),
                look_at: Tick(0),
                work: Kind::ALL.map(work),
            }),
        }
    }

    /// From now on addresses wait so long, those that wait already too, from the failure on that they wait for: who makes waits shorter does it
    /// because of somebody who is kept out now.
    pub(crate) fn set_backoff(&self, backoff: Backoff) {
        self.addresses().backoff = backoff;
    }

    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks before a password is hashed or a token verified. Who has to wait for its turn hears of it by `wake`.
    pub(crate) fn come(&self, coming: Coming, now: Tick, wake: impl FnOnce() -> Wake) -> Admission {
        self.addresses().come(coming, now, wake)
    }

    /// Who waited has gone; false: it has been told that it has its turn, or why not.
    pub(crate) fn leave(&self, kind: Kind, ticket: Ticket) -> bool {
        self.addresses().work[kind as usize].waiting.remove(ticket)
    }

    /// What was admitted has been looked at, and the next ones that wait have their turn. A success takes no failure back: an account of one's own
    /// is no way to guess those of others.
    pub(crate) fn finished(&self, origin: Origin, kind: Kind, looked_at: LookedAt, now: Tick) {
        let told = {
            let mut addresses = self.addresses();
            addresses.finished(origin, kind, looked_at, now);
            addresses.hand_on(kind, now)
        };
        // Not under the lock, which who is told may take.
        for (wake, may) in told {
            wake(may);
        }
    }

    /// A guess that nothing had to be done for.
    pub(crate) fn failed(&self, origin: Origin, now: Tick) {
        let mut addresses = self.addresses();
        if addresses.has_room(origin, now) {
            let backoff = addresses.backoff;
            let it = addresses.known.entry(origin).or_default();
            it.note_failure(&backoff, now);
        }
        addresses.regulars.forget(origin);
    }

    /// A proof that nothing had to be done for was right.
    pub(crate) fn succeeded(&self, origin: Origin) {
        self.addresses().regulars.note(origin);
    }

    /// Why the address waits, if it does or could not be made to.
    pub(crate) fn waits(&self, origin: Origin, now: Tick) -> Option<Why> {
        let mut addresses = self.addresses();
        match addresses.known.get(&origin) {
            Some(it) => it.waits(&addresses.backoff, now).then_some(Why::Failed),
            None => (!addresses.has_room(origin, now)).then_some(Why::Crowded),
        }
    }
}

impl Known {
    /// Until when nothing of it is looked at.
    fn until(&self, backoff: &Backoff) -> Tick {
        let [of_last, of_other] =
            [self.last, self.waits_for].map(|it| backoff.until(it.number, it.at));
        of_last.max(of_other)
    }

    fn waits(&self, backoff: &Backoff, now: Tick) -> bool {
        now < self.until(backoff)
    }

    /// Whether nothing of it is looked at because of what has failed. Each guess beyond the free ones has its own wait: what comes with it waits
    /// for what becomes of it.
    fn is_kept_out(&self, backoff: &Backoff, now: Tick) -> bool {
        self.waits(backoff, now) || backoff.is_one_by_one(self.last.number) && self.is_busy()
    }

    /// Whether less of it is under way than may be.
    const fn has_room(&self, kind: Kind) -> bool {
        self.under_way[kind as usize] < kind.of_one()
    }

    const fn is_busy(&self) -> bool {
        self.under_way[0] != 0 || self.under_way[1] != 0
    }

    /// Long after its last failure it is as good as new, but for a wait that has not ended.
    fn forget(&mut self, backoff: &Backoff, now: Tick) {
        if backoff.forgets(self.last.at, now) {
            self.last.number = 0;
            if !self.waits(backoff, now) {
                self.waits_for = self.last;
            }
        }
    }

    fn note_failure(&mut self, backoff: &Backoff, now: Tick) {
        self.forget(backoff, now);
        let before = self.until(backoff);
        self.last = Failure {
            number: self.last.number.saturating_add(1),
            at: now,
        };
        if backoff.until(self.last.number, now) >= before {
            self.waits_for = self.last;
        }
    }
}

#[cfg(test)]
mod tests;
