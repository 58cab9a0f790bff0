//! What has waited, or was retained, for longer than it may, and what waits beyond a limit that was lowered: ended by the leader, in
//! bounded steps.
//!
//! Nobody has a timer. While there is a limit of age, all streams are looked at again and again, as often as the shortest limit asks for: a
//! message goes at most a 32nd part of that, a second at least, after its time. A limit of size, which is kept whenever a message comes, asks for
//! one round when it was lowered, and when a connection ends for which such a round spared something. Streams come by their places in the tables, and of a stream
//! the oldest messages: behind the first one that is young enough all are. What is under way stays (M30).

use courser_contract::{Dropped, PartitionEffects, SessionLimits, WallMs, is_own_topic};

use crate::{
    Partition, PlantedPartition,
    entry::Fate,
    ids::{self, Owner},
    lead::Due,
    record::{Address, Slot},
    stream::Stream,
};

/// No limit.
const NONE: u32 = u32::MAX;
/// Streams that one step looks at.
const STREAMS: u32 = 256;
/// Messages that one step ends, or looks at in vain.
const MESSAGES: usize = 512;
/// Rounds are apart by the shortest limit divided by this, between a second and an hour.
const SHARE: u64 = 32;
const APART_MIN_MS: u64 = 1_000;
const APART_MAX_MS: u64 = 3_600_000;

/// How far a round is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Between two rounds.
    #[default]
    Begin,
    /// Sessions from a place in their table on; of the first, messages from a position on.
    Sessions(u32, u64),
    /// The same of groups.
    Groups(u32, u64),
    /// Retained messages behind a topic.
    Retained(Option<String>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Aging {
    place: Place,
    /// When the next step is due.
    at: Option<WallMs>,
    /// The shortest limit that is known, in seconds.
    shortest: u32,
    /// The same of the round that is under way.
    found: u32,
    /// The entry with what the last round has forgotten: nothing is forgotten, and counted, twice.
    forgets: u64,
    /// The next round is also for sizes.
    sizes_next: bool,
    /// This one is.
    sizes: bool,
}

impl Default for Aging {
    fn default() -> Self {
        Self {
            place: Place::Begin,
            at: None,
            shortest: NONE,
            found: NONE,
            forgets: 0,
            sizes_next: false,
            sizes: false,
        }
    }
}

/// What counts in a stream.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// For how long a message may wait.
    seconds: u32,
    /// Whether no more may wait than the limits say.
    size: bool,
}

/// Milliseconds from one round to the next for this limit.
fn apart(seconds: u32) -> u64 {
    (u64::from(seconds) * 1_000 / SHARE).clamp(APART_MIN_MS, APART_MAX_MS)
}

impl Partition {
    /// The limits of the settings count from now on.
    pub(crate) fn watch_settings(&mut self) {
        self.watch_age(self.shortest_of_settings());
    }

    fn shortest_of_settings(&self) -> u32 {
        let limits = &self.config.limits;
        limits.queue_seconds_max.min(limits.retained_seconds_max)
    }

    /// A limit counts from now on, in seconds; `u32::MAX` is none. Who does not lead looks at nothing, and begins with the settings when it does.
    pub(crate) fn watch_age(&mut self, seconds: u32) {
        if !self.lead.decides() {
            return;
        }
        let aging = &mut self.lead.aging;
        aging.found = aging.found.min(seconds);
        if seconds >= aging.shortest {
            return;
        }
        aging.shortest = seconds;
        let at = WallMs(self.wall().0 + apart(seconds));
        if self.lead.aging.at.is_none_or(|due| at < due) {
            self.arm_aging(Some(at));
        }
    }

    /// A limit of what may wait counts from now on in all streams: one round ends what is beyond it.
    pub(crate) fn watch_sizes(&mut self) {
        if !self.lead.decides() {
            return;
        }
        let aging = &mut self.lead.aging;
        aging.sizes_next = true;
        if aging.place == Place::Begin {
            let now = self.wall();
            self.arm_aging(Some(now));
        }
    }

    /// Whether more waits in some stream than may.
    pub(crate) fn has_more_than_may_wait(&self) -> bool {
        let sessions = self.state.sessions.iter().map(|(number, _)| number);
        let groups = self.state.groups.iter().map(|(number, _)| number);
        sessions.chain(groups).any(|number| self.is_over(number))
    }

    /// The limits of a session count from now on.
    pub(crate) fn watch_session(&mut self, number: u64, limits: SessionLimits) {
        self.watch_age(limits.queued_seconds_max);
        if self.is_over(number) {
            self.watch_sizes();
        }
    }

    fn arm_aging(&mut self, at: Option<WallMs>) {
        let before = std::mem::replace(&mut self.lead.aging.at, at);
        self.lead.due.change(Due::Aging, before, at);
    }

    /// One step of a round.
    pub(crate) fn look_at_ages(&mut self, wall: WallMs, fx: &mut impl PartitionEffects) {
        self.lead.aging.at = None;
        let place = std::mem::take(&mut self.lead.aging.place);
        let next = match place {
            Place::Begin if self.lead.applied < self.lead.aging.forgets => {
                return self.arm_aging(Some(WallMs(wall.0 + APART_MIN_MS)));
            }
            Place::Begin => {
                let of_settings = self.shortest_of_settings();
                let aging = &mut self.lead.aging;
                // They count for whoever comes after this round, also where it meets nobody.
                aging.found = of_settings;
                aging.sizes = std::mem::take(&mut aging.sizes_next);
                Place::Sessions(0, 0)
            }
            Place::Sessions(from, seq) => self.end_aged(Owner::Session, (from, seq), wall, fx),
            Place::Groups(from, seq) => self.end_aged(Owner::Group, (from, seq), wall, fx),
            Place::Retained(after) => self.forget_aged(after.as_deref(), wall, fx),
        };
        let is_over = next == Place::Begin;
        self.lead.aging.place = next;
        if !is_over {
            return self.arm_aging(Some(wall));
        }
        let aging = &mut self.lead.aging;
        aging.shortest = aging.found;
        let next = match aging.shortest {
            _ if aging.sizes_next => Some(wall),
            NONE => None,
            shortest => Some(WallMs(wall.0 + apart(shortest))),
        };
        self.arm_aging(next);
    }

    /// Ends what has waited too long in streams from a place on.
    fn end_aged(
        &mut self,
        owner: Owner,
        (from, mut seq): (u32, u64),
        wall: WallMs,
        fx: &mut impl PartitionEffects,
    ) -> Place {
        let places = match owner {
            Owner::Session => self.state.sessions.places(),
            Owner::Group => self.state.groups.places(),
        };
        let places = u32::try_from(places).expect("a table has at most 2^24 places");
        let mut left = MESSAGES;
        for place in from..places.min(from.saturating_add(STREAMS)) {
            if let Some((number, bounds)) = self.limited_at(owner, place) {
                self.lead.aging.found = self.lead.aging.found.min(bounds.seconds);
                seq = self.end_aged_in(number, (seq, bounds), (&mut left, wall), fx);
            }
            if left == 0 {
                return Place::of(owner, place, seq);
            }
            seq = 0;
        }
        let next = from.saturating_add(STREAMS);
        match owner {
            _ if next < places => Place::of(owner, next, 0),
            Owner::Session => Place::Groups(0, 0),
            Owner::Group => Place::Retained(None),
        }
    }

    /// The stream at a place of a table, if something of it may have to go.
    fn limited_at(&mut self, owner: Owner, place: u32) -> Option<(u64, Bounds)> {
        let any = self.config.limits.queue_seconds_max;
        let (number, seconds) = match owner {
            Owner::Session => {
                let (number, session) = self.state.sessions.numbered_at_mut(place)?;
                (number, any.min(session.lead.limits.queued_seconds_max))
            }
            Owner::Group => (self.state.groups.numbered_at_mut(place)?.0, any),
        };
        let size = self.lead.aging.sizes;
        (seconds != NONE || size).then_some((number, Bounds { seconds, size }))
    }

    /// Ends what is out of bounds in a stream, from a position on; the position to go on at when `left` has run out.
    fn end_aged_in(
        &mut self,
        number: u64,
        (from, bounds): (u64, Bounds),
        (left, wall): (&mut usize, WallMs),
        fx: &mut impl PartitionEffects,
    ) -> u64 {
        let mut seq = from;
        let (mut old, mut over) = (0, 0);
        while *left > 0 {
            let waiting = self.stream_of(number);
            let Some((at, reference)) = waiting.and_then(|stream| stream.next_reference(seq))
            else {
                break;
            };
            let is_old = self.is_too_old(reference.slot, bounds.seconds, wall);
            let is_over = bounds.size && self.is_over(number)
                || over > 0 && self.is_planted(PlantedPartition::TrimmedTooFar);
            if !is_old && !is_over {
                break;
            }
            *left -= 1;
            seq = at + 1;
            // What is on its way out of the log is not in the way of a limit of size for long.
            let stays = self.is_begun(number, at)
                && !self.is_planted(PlantedPartition::AgedUnderWay)
                || !is_old && at < self.asked_to(number);
            if stays || self.lead.streams.doomed.contains(&(number, at)) {
                continue;
            }
            let (fate, ended) = match is_old {
                true => (Fate::Expired, &mut old),
                false => (Fate::Dropped, &mut over),
            };
            *ended += 1;
            self.doom(number, at, fate);
        }
        if !self.is_planted(PlantedPartition::AgedUncounted) {
            Self::count_dropped(Dropped::TooOld, old, fx);
            Self::count_dropped(Dropped::OverLimit, over, fx);
        }
        seq
    }

    /// Whether a record came longer ago than it may have.
    fn is_too_old(&self, slot: Slot, seconds: u32, wall: WallMs) -> bool {
        if seconds == NONE {
            return false;
        }
        let ages = &self.state.ages;
        let index = self.state.records.address(slot).index;
        // What a checkpoint of an earlier version has is as old as the first that this one has seen.
        let came = ages.came_by(index).or_else(|| ages.begin());
        let came = match self.is_planted(PlantedPartition::AgedFromFirst) {
            true => ages.begin(),
            false => came,
        };
        came.is_some_and(|came| wall.0.saturating_sub(came.0) > u64::from(seconds) * 1_000)
    }

    fn stream_of(&self, number: u64) -> Option<&Stream> {
        match ids::owner(number) {
            Owner::Session => self.state.sessions.get(number).map(|it| &it.stream),
            Owner::Group => self.state.groups.get(number).map(|it| &it.stream),
        }
    }

    /// Forgets what was retained for too long behind a topic.
    fn forget_aged(
        &mut self,
        after: Option<&str>,
        wall: WallMs,
        fx: &mut impl PartitionEffects,
    ) -> Place {
        let seconds = self.config.limits.retained_seconds_max;
        if seconds == NONE {
            return Place::Begin;
        }
        let some = self.state.retained.after(after).take(MESSAGES);
        let some: Vec<(String, Slot)> = some.collect();
        let last = some.last().map(|(topic, _)| topic.clone());
        let is_full = some.len() == MESSAGES;
        let mut forgotten = 0;
        for (topic, slot) in some {
            // The broker writes a value again when it changes: one that stands still is not old.
            let is_own = is_own_topic(&topic);
            if !is_own && self.is_too_old(slot, seconds, wall) {
                let address: Address = self.state.records.address(slot);
                self.expire_retained(slot, address);
                forgotten += 1;
            }
        }
        if forgotten > 0 {
            self.lead.aging.forgets = self.lead.number + 1;
            fx.dropped(Dropped::TooOld, forgotten);
        }
        match is_full {
            true => Place::Retained(last),
            false => Place::Begin,
        }
    }
}

impl Place {
    const fn of(owner: Owner, place: u32, seq: u64) -> Self {
        match owner {
            Owner::Session => Self::Sessions(place, seq),
            Owner::Group => Self::Groups(place, seq),
        }
    }
}
