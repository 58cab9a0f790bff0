//! Requests of a front, SUBSCRIBE and UNSUBSCRIBE, that its home has not answered.
//!
//! What they take is bounded by filters and bytes, since a packet may name hundreds of thousands. Parts of a packet go home while the window of
//! the connection has room; what is left of it is kept as it came and goes as earlier parts are answered, and nothing is read meanwhile. While
//! fronts of a shard have much open together, each has one part at a time: they take turns, and nobody's queue at a home becomes long.
//!
//! Invariants:
//! - at most one packet is not wholly asked for, the last one;
//! - filters that are open are less than a part more than [`FILTERS_OPEN_MAX`], while homes answer.

use std::cell::Cell;
use std::rc::Rc;

use courser_contract::{RequestPart, Tick};
use smallvec::SmallVec;

use crate::codec::{ReasonCode, Subscription, Subscriptions, TopicFilter, TopicFilters};

/// Requests that wait for the home at once; later packets wait in front of them.
const REQUESTS_MAX: usize = 256;

/// Filters that go home together. Between two parts a shard may turn to others: one filter takes a home some 10 µs (both indexes, the entry).
pub(super) const PART_FILTERS: usize = 32;
/// Bytes of filters with which a part ends before.
const PART_BYTES: usize = 16 * 1024;

/// Filters of a connection without an answer with which no more go home: some 5 ms of its home, and a log with a slow disk commits ten
/// thousand in forty rounds.
const FILTERS_OPEN_MAX: usize = 256;
/// Their bytes.
const FILTER_BYTES_OPEN_MAX: usize = 64 * 1024;
/// Filters of all fronts of a shard without an answer from which on each front has one part at a time: some 40 ms of a home.
const FILTERS_CROWD: usize = 2_048;
/// Reason codes that are kept for answers with which nothing more is read.
const CODES_MAX: usize = 16 * 1024;

/// A PUBLISH waits no longer than this for the requests before it, as a socket is not read for no longer (M49). After as long without
/// an answer one part more goes home.
pub(super) const PUBLISH_WAITS_MS: u64 = 5_000;

/// Filters that fronts of one shard have asked their homes for and that are not answered.
#[derive(Clone, Debug, Default)]
pub struct RequestLoad(Rc<Cell<usize>>);

impl RequestLoad {
    /// How many.
    #[must_use]
    pub fn filters(&self) -> usize {
        self.0.get()
    }
}

/// The filters of one front in the load: they go with it.
#[derive(Debug, Default)]
struct Loaded {
    filters: usize,
    all: RequestLoad,
}

impl Loaded {
    fn add(&mut self, filters: usize) {
        self.filters += filters;
        self.all.0.update(|all| all + filters);
    }

    fn sub(&mut self, filters: usize) {
        debug_assert!(filters <= self.filters, "what is answered was asked for");
        self.filters = self.filters.saturating_sub(filters);
        self.all.0.update(|all| all.saturating_sub(filters));
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.sub(self.filters);
    }
}

/// SUBSCRIBE and UNSUBSCRIBE packets that the home has not answered.
#[derive(Debug, Default)]
pub(super) struct Requests {
    waiting: Vec<Request>,
    open: Vec<OpenPart>,
    loaded: Loaded,
    /// Bytes of the filters that are open.
    bytes: usize,
    /// Of all that wait.
    codes: usize,
    unsent: Option<Unsent>,
    /// When a part went home or was answered last.
    moved: Tick,
    publishes: Publishes,
}

/// What becomes of publishes that come behind requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Publishes {
    /// The next one waits.
    #[default]
    ToWait,
    /// One has waited since then, and nothing is read.
    Wait(Tick),
    /// They have waited long enough, or can wait no longer.
    Pass,
}

#[derive(Debug)]
struct Request {
    packet_id: u16,
    /// Parts that the home has not answered.
    parts: u32,
    /// One a filter; [`ASKED`] where the home has not decided.
    codes: Codes,
}

/// A part that the home has not answered.
#[derive(Debug)]
struct OpenPart {
    part: RequestPart,
    filters: u32,
    bytes: u32,
}

/// What is left of the last packet.
#[derive(Debug)]
struct Unsent {
    packet_id: u16,
    wants: Wants,
    block: Box<[u8]>,
    /// Where its next filter begins, which it is in the packet, and how many there are from it on.
    at: usize,
    index: usize,
    left: usize,
}

/// What a packet wants of its filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// SUBSCRIBE, with its identifier.
    Subscribe(Option<u32>),
    /// UNSUBSCRIBE.
    Unsubscribe,
}

/// Filters of a packet that have not gone home, in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filters<'a> {
    pub(super) wants: Wants,
    block: &'a [u8],
    /// Which one of the packet the first one is.
    index: usize,
    left: usize,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked<'a> {
    Subscribe(Subscription<'a>),
    Unsubscribe(TopicFilter<'a>),
}

pub(super) type Codes = SmallVec<[u8; 16]>;

/// No reason code.
pub(super) const ASKED: u8 = 0xFF;

impl<'a> Filters<'a> {
    pub(super) const fn of_subscribe(list: &Subscriptions<'a>, identifier: Option<u32>) -> Self {
        Self {
            wants: Wants::Subscribe(identifier),
            block: list.as_bytes(),
            index: 0,
            left: list.len(),
        }
    }

    pub(super) const fn of_unsubscribe(list: &TopicFilters<'a>) -> Self {
        Self {
            wants: Wants::Unsubscribe,
            block: list.as_bytes(),
            index: 0,
            left: list.len(),
        }
    }

    fn next(&mut self) -> Option<Asked<'a>> {
        if self.left == 0 {
            return None;
        }
        let (asked, rest) = match self.wants {
            Wants::Subscribe(_) => {
                let list = Subscriptions::from_checked(self.block, self.left);
                let (first, rest) = list.split_first()?;
                (Asked::Subscribe(first), rest.as_bytes())
            }
            Wants::Unsubscribe => {
                let list = TopicFilters::from_checked(self.block, self.left);
                let (first, rest) = list.split_first()?;
                (Asked::Unsubscribe(first), rest.as_bytes())
            }
        };
        self.block = rest;
        self.index += 1;
        self.left -= 1;
        Some(asked)
    }
}

impl Request {
    /// Takes what the home has decided of a part: codes of those of its filters that it was asked for.
    fn decide(&mut self, part: RequestPart, decided: impl Iterator<Item = ReasonCode>) {
        let first = (part.first as usize).min(self.codes.len());
        let asked = self.codes[first..].iter_mut();
        for (code, decided) in asked.filter(|code| **code == ASKED).zip(decided) {
            *code = decided.byte();
        }
        self.parts = self.parts.saturating_sub(1);
    }
}

impl Requests {
    /// None, of a front of a shard with this load.
    pub(super) fn new(load: &RequestLoad, now: Tick) -> Self {
        Self {
            loaded: Loaded {
                filters: 0,
                all: load.clone(),
            },
            moved: now,
            ..Self::default()
        }
    }

    /// Whether the front reads no further.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_full() || self.holds_publish()
    }

    /// Whether no further packet fits.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= REQUESTS_MAX || self.codes >= CODES_MAX || self.has_unsent()
    }

    /// Whether a packet is not wholly asked for.
    pub(super) const fn has_unsent(&self) -> bool {
        self.unsent.is_some()
    }

    /// Bytes that it holds of packets.
    pub(super) fn held_bytes(&self) -> usize {
        let unsent = self.unsent.as_ref().map_or(0, |unsent| unsent.block.len());
        unsent + self.codes + self.bytes
    }

    /// Whether a PUBLISH waits.
    pub(super) const fn holds_publish(&self) -> bool {
        matches!(self.publishes, Publishes::Wait(_))
    }

    /// A PUBLISH has come. Whether it waits.
    pub(super) fn hold_publish(&mut self, now: Tick) -> bool {
        if self.publishes == Publishes::ToWait {
            self.publishes = Publishes::Wait(now);
        }
        self.holds_publish()
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    pub(super) fn deadline(&self) -> Option<Tick> {
        let publish = match self.publishes {
            Publishes::Wait(since) => Some(since.after_ms(PUBLISH_WAITS_MS)),
            Publishes::ToWait | Publishes::Pass => None,
        };
        let stuck = self.has_unsent();
        let stuck = stuck.then(|| self.moved.after_ms(PUBLISH_WAITS_MS));
        publish.into_iter().chain(stuck).min()
    }

    /// A publish that has waited long enough goes on. Whether a part is to go home although there is no room.
    pub(super) fn handle_timeout(&mut self, now: Tick) -> bool {
        if let Publishes::Wait(since) = self.publishes
            && since.after_ms(PUBLISH_WAITS_MS) <= now
        {
            self.let_publishes_pass();
        }
        self.has_unsent() && self.moved.after_ms(PUBLISH_WAITS_MS) <= now
    }

    /// Until all are answered, publishes do not wait.
    pub(super) const fn let_publishes_pass(&mut self) {
        self.publishes = Publishes::Pass;
    }

    /// Nothing is read after this: what has not gone home is void, as at the home what it has not begun.
    pub(super) fn handle_last_read(&mut self) {
        self.let_publishes_pass();
        if let Some(unsent) = self.unsent.take() {
            self.forget(unsent.packet_id);
        }
    }

    pub(super) fn are_none(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether one with this packet id waits.
    pub(super) fn has(&self, packet_id: u16) -> bool {
        self.waiting.iter().any(|it| it.packet_id == packet_id)
    }

    #[cfg(test)]
    pub(super) fn packet_ids(&self) -> impl Iterator<Item = u16> {
        self.waiting.iter().map(|request| request.packet_id)
    }

    /// Asserts what holds between events.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let filters = self.open.iter().map(|it| it.filters as usize);
        assert_eq!(filters.sum::<usize>(), self.loaded.filters);
        let bytes = self.open.iter().map(|it| it.bytes as usize);
        assert_eq!(bytes.sum::<usize>(), self.bytes);
        let codes = self.waiting.iter().map(|it| it.codes.len());
        assert_eq!(codes.sum::<usize>(), self.codes);
        assert!(!self.are_none(), "it goes with the last answer");
        if let Some(unsent) = &self.unsent {
            let last = self.waiting.last();
            assert_eq!(last.map(|it| it.packet_id), Some(unsent.packet_id));
            assert!(unsent.left > 0 && unsent.at < unsent.block.len());
        }
    }

    /// Filters that are open, and their bytes.
    #[cfg(test)]
    pub(super) const fn open(&self) -> (usize, usize) {
        (self.loaded.filters, self.bytes)
    }

    fn get(&mut self, packet_id: u16) -> Option<&mut Request> {
        let mut waiting = self.waiting.iter_mut();
        waiting.find(|request| request.packet_id == packet_id)
    }

    fn forget(&mut self, packet_id: u16) -> Codes {
        let at = self.waiting.iter().position(|it| it.packet_id == packet_id);
        let codes = at.map(|at| self.waiting.remove(at).codes);
        let codes = codes.unwrap_or_default();
        self.codes -= codes.len();
        codes
    }

    /// A packet has come.
    pub(super) fn begin(&mut self, packet_id: u16, codes: Codes) {
        self.codes += codes.len();
        self.waiting.push(Request {
            packet_id,
            parts: 0,
            codes,
        });
    }

    /// Whether a part may go home.
    pub(super) fn has_room(&self) -> bool {
        let window = match self.loaded.all.filters() >= FILTERS_CROWD {
            true => PART_FILTERS,
            false => FILTERS_OPEN_MAX,
        };
        self.loaded.filters < window && self.bytes < FILTER_BYTES_OPEN_MAX
    }

    /// Takes the next part of a packet: gives those of its filters to `take` that the home is asked for. None when there are none.
    pub(super) fn next_part<'a>(
        &mut self,
        packet_id: u16,
        filters: &mut Filters<'a>,
        now: Tick,
        mut take: impl FnMut(Asked<'a>),
    ) -> Option<RequestPart> {
        let request = self.get(packet_id)?;
        let part = RequestPart {
            packet_id,
            first: number(filters.index),
        };
        let (mut count, mut bytes) = (0, 0);
        while count < PART_FILTERS && bytes < PART_BYTES {
            let (at, before) = (filters.index, filters.block.len());
            let Some(asked) = filters.next() else {
                break;
            };
            if request.codes.get(at) == Some(&ASKED) {
                count += 1;
                bytes += before - filters.block.len();
                take(asked);
            }
        }
        if count == 0 {
            return None;
        }
        request.parts += 1;
        self.open.push(OpenPart {
            part,
            filters: number(count),
            bytes: number(bytes),
        });
        self.loaded.add(count);
        self.bytes += bytes;
        self.moved = now;
        Some(part)
    }

    /// Keeps what did not go home, up to the last filter that is to.
    pub(super) fn keep(&mut self, packet_id: u16, filters: &Filters<'_>) {
        debug_assert!(self.unsent.is_none(), "one packet at a time");
        let request = self.get(packet_id);
        let end = request.and_then(|it| it.codes.iter().rposition(|code| *code == ASKED));
        let end = end.map_or(0, |last| last + 1);
        let mut behind = *filters;
        behind.left = end.saturating_sub(filters.index);
        let left = behind.left;
        while behind.next().is_some() {}
        let bytes = filters.block.len() - behind.block.len();
        self.unsent = (left > 0).then(|| Unsent {
            packet_id,
            wants: filters.wants,
            block: filters.block[..bytes].into(),
            at: 0,
            index: filters.index,
            left,
        });
    }

    /// Does something with what is kept, and keeps what is left of it.
    pub(super) fn go_on(&mut self, act: impl FnOnce(&mut Self, u16, &mut Filters<'_>)) {
        let Some(mut unsent) = self.unsent.take() else {
            return;
        };
        let mut filters = Filters {
            wants: unsent.wants,
            block: &unsent.block[unsent.at..],
            index: unsent.index,
            left: unsent.left,
        };
        act(self, unsent.packet_id, &mut filters);
        unsent.at = unsent.block.len() - filters.block.len();
        unsent.index = filters.index;
        unsent.left = filters.left;
        self.unsent = (unsent.left > 0).then_some(unsent);
    }

    /// The home has answered a part.
    pub(super) fn answered(
        &mut self,
        part: RequestPart,
        decided: impl Iterator<Item = ReasonCode>,
        now: Tick,
    ) {
        let Some(at) = self.open.iter().position(|it| it.part == part) else {
            return;
        };
        let open = self.open.swap_remove(at);
        self.loaded.sub(open.filters as usize);
        self.bytes -= open.bytes as usize;
        self.moved = now;
        if let Some(request) = self.get(part.packet_id) {
            request.decide(part, decided);
        }
    }

    /// The codes of a packet of which all is answered.
    pub(super) fn finish(&mut self, packet_id: u16) -> Option<Codes> {
        let is_unsent = self
            .unsent
            .as_ref()
            .is_some_and(|it| it.packet_id == packet_id);
        let is_done = !is_unsent && self.get(packet_id)?.parts == 0;
        is_done.then(|| self.forget(packet_id))
    }
}

const fn number(filters: usize) -> u32 {
    debug_assert!(filters <= u32::MAX as usize, "a packet is smaller");
    filters as u32
}
