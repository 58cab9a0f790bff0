//! Who of a group's members can take a message, and whose turn it is.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{
    FrontId, GroupRoom, HomeRef, MemberConnection, Seq, SharedStrategy, Uptake,
};
use rapidhash::v3::rapidhash_v3;

use super::Member;
use super::bits::Bits;
use crate::emptied::Emptied;
use crate::state::weight;

/// Place of a member in the leader's memory; used again after the member has gone with all that it had.
pub(super) type SeatId = u32;

/// Whether a seat's session is a member still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It takes part.
    Member,
    /// It has left, or never was one of this leader's, and has something under way: it gets nothing new.
    Leaving,
}

/// A member as the leader sees it.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) home: HomeRef,
    pub(super) member: Member,
    pub(super) standing: Standing,
    pub(super) front: Option<FrontId>,
    /// Most stored messages under way.
    pub(super) window: u32,
    /// Stored messages under way, or owed while there is no connection.
    pub(super) outstanding: u32,
    /// What its front has room for, since it gave something back: None, what the window has. So a member whose other groups or own
    /// messages fill its window, or which does not read, gets nothing that comes back at once.
    pub(super) places: Option<u32>,
    /// A delivery of more bytes is not sent.
    pub(super) bytes_max: u32,
    /// How fast its client reads.
    pub(super) uptake: Uptake,
    /// Messages that are for this member only and wait for its window.
    pub(super) aside: BTreeSet<Seq>,
}

impl Seat {
    const fn has_room(&self) -> bool {
        self.outstanding < self.window && !matches!(self.places, Some(0))
    }
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receiver {
    /// The member.
    pub(crate) home: HomeRef,
    /// Its connection.
    pub(crate) front: FrontId,
    /// What it asked for.
    pub(crate) member: Member,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// This one's.
    Seat(SeatId),
    /// This one's and nobody else's, but it has no room.
    Busy(SeatId),
    /// No connected member of the highest priority has room.
    Nobody,
}

/// Most messages that a member gets in a row under [`SharedStrategy::RoundRobin`], while more than that wait for each.
const RUN_MAX: usize = 16;

/// Up to so many seats get their room one by one: most groups have a few members.
const SEATS_FEW: usize = 4;

/// Points of a candidate on the ring of [`SharedStrategy::HashTopic`]: shares of topics then differ by a sixth or so.
const POINTS: u32 = 32;

/// Bytes that a connected member takes there.
pub(crate) const RING_BYTES: u64 =
    (POINTS as usize * weight::of_next::<(u64, SeatId), ()>()) as u64;

/// All seats of a group. A turn costs O(seats / 64), with [`SharedStrategy::HashTopic`] O(log seats), and with
/// [`SharedStrategy::LeastOutstanding`] it looks at those with room until one has nothing. Members and connections come and
/// go in O(log seats); only when another priority takes over all seats are looked at.
#[derive(Clone, Debug)]
pub(super) struct Seats {
    strategy: SharedStrategy,
    seats: Vec<Option<Seat>>,
    free: Vec<SeatId>,
    by_home: BTreeMap<HomeRef, SeatId>,
    /// Connected members by priority.
    levels: BTreeMap<i32, u32>,
    /// Connected members of the highest priority that any connected member has. A higher priority takes all new messages, and
    /// what it has no room for waits: lower ones are for its absence.
    candidates: Bits,
    /// Those of them with room.
    ready: Bits,
    /// Those of them that get what is stored nowhere: their clients read as fast as they are sent. A topic that has an owner stays with it.
    open: Bits,
    cursor: SeatId,
    sticky: Option<SeatId>,
    /// Whose run of turns goes on, and how many of it are left.
    run: (SeatId, usize),
    /// Candidates by the hashes that they own topics from: [`SharedStrategy::HashTopic`] only.
    ring: BTreeSet<(u64, SeatId)>,
    /// Windows of all seats together.
    windows: u64,
}

impl Seats {
    /// No seats.
    pub(super) fn new(strategy: SharedStrategy) -> Self {
        Self {
            strategy,
            seats: Vec::new(),
            free: Vec::new(),
            by_home: BTreeMap::new(),
            levels: BTreeMap::new(),
            candidates: Bits::default(),
            ready: Bits::default(),
            open: Bits::default(),
            cursor: 0,
            sticky: None,
            run: (0, 0),
            ring: BTreeSet::new(),
            windows: 0,
        }
    }

    /// Windows of all connections together.
    pub(super) const fn windows(&self) -> u64 {
        self.windows
    }

    pub(super) fn get(&self, seat: SeatId) -> &Seat {
        self.seats[seat as usize]
            .as_ref()
            .expect("whoever has something under way has a seat")
    }

    pub(super) fn get_mut(&mut self, seat: SeatId) -> &mut Seat {
        self.seats[seat as usize]
            .as_mut()
            .expect("whoever has something under way has a seat")
    }

    pub(super) fn seat_of(&self, home: HomeRef) -> Option<SeatId> {
        self.by_home.get(&home).copied()
    }

    /// All seats in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SeatId, &Seat)> {
        (0..)
            .zip(&self.seats)
            .filter_map(|(id, seat)| Some((id, seat.as_ref()?)))
    }

    /// Gives a session a seat, or changes what its member asked for.
    pub(super) fn place(&mut self, home: HomeRef, member: Member, standing: Standing) -> SeatId {
        let id = self.seat_of(home).unwrap_or_else(|| self.free_seat(home));
        let before = self.priority_present(id);
        match &mut self.seats[id as usize] {
            Some(seat) => {
                seat.member = member;
                seat.standing = standing;
            }
            place @ None => {
                *place = Some(Seat {
                    home,
                    member,
                    standing,
                    front: None,
                    window: 0,
                    outstanding: 0,
                    places: None,
                    bytes_max: u32::MAX,
                    uptake: Uptake::Prompt,
                    aside: BTreeSet::new(),
                });
            }
        }
        self.changed(id, before);
        id
    }

    fn free_seat(&mut self, home: HomeRef) -> SeatId {
        let id = self.free.pop().unwrap_or_else(|| {
            if self.seats.len() < SEATS_FEW {
                self.seats.reserve_exact(1);
            }
            self.seats.push(None);
            self.candidates.grow(self.seats.len());
            self.ready.grow(self.seats.len());
            self.open.grow(self.seats.len());
            SeatId::try_from(self.seats.len() - 1).expect("a group has fewer than 2^32 members")
        });
        self.by_home.insert(home, id);
        id
    }

    /// Takes a seat away.
    pub(super) fn remove(&mut self, seat: SeatId) {
        let before = self.priority_present(seat);
        if self.candidates.contains(seat) {
            self.set_candidate(seat, false);
            self.open.set(seat, false);
        }
        let Some(gone) = self.seats[seat as usize].take() else {
            return;
        };
        self.windows -= u64::from(gone.window);
        self.by_home.remove(&gone.home);
        self.free.push(seat);
        self.forget_favour(seat);
        self.changed(seat, before);
    }

    /// A connection came, or went.
    pub(super) fn connect(&mut self, seat: SeatId, connection: Option<MemberConnection>) {
        let before = self.priority_present(seat);
        let window = connection.map_or(0, |it| u32::from(it.window));
        let place = self.get_mut(seat);
        place.front = connection.map(|it| it.front);
        place.places = None;
        let window_before = std::mem::replace(&mut place.window, window);
        place.bytes_max = connection.map_or(u32::MAX, |it| it.delivery_bytes_max);
        self.windows += u64::from(window);
        self.windows -= u64::from(window_before);
        self.changed(seat, before);
    }

    /// Nobody has a connection any more: what only connected members need is given back.
    pub(super) fn rest(&mut self) {
        self.levels.give_back_if_empty();
        self.ring.give_back_if_empty();
        for seat in self.seats.iter_mut().flatten() {
            seat.aside.give_back_if_empty();
        }
    }

    /// How fast a member's client reads.
    pub(super) fn set_uptake(&mut self, seat: SeatId, uptake: Uptake) {
        self.get_mut(seat).uptake = uptake;
        self.refresh(seat);
    }

    /// A member's front has room for so many messages more.
    pub(super) fn has_places(&mut self, seat: SeatId, room: GroupRoom) {
        let place = self.get_mut(seat);
        place.places = match room {
            GroupRoom::Enough => None,
            GroupRoom::Places(0) => Some(0),
            GroupRoom::Places(more) => Some(place.places.unwrap_or(0) + u32::from(more)),
        };
        self.refresh(seat);
    }

    /// A member was given a message.
    #[inline]
    pub(super) fn took_place(&mut self, seat: SeatId) {
        if let Some(places) = &mut self.get_mut(seat).places {
            *places = places.saturating_sub(1);
            self.refresh(seat);
        }
    }

    /// Counts messages under way.
    pub(super) fn count(&mut self, seat: SeatId, change: i32) {
        let place = self.get_mut(seat);
        place.outstanding = place
            .outstanding
            .checked_add_signed(change)
            .expect("only what is under way ends");
        let room = place.has_room();
        if self.candidates.contains(seat) {
            self.ready.set(seat, room);
        }
    }

    /// Whether anyone has room.
    pub(super) fn has_room(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Someone with room for whom something was set aside.
    pub(super) fn ready_with_aside(&self) -> Option<SeatId> {
        self.ready
            .round(self.cursor)
            .find(|&seat| !self.get(seat).aside.is_empty())
    }

    /// A member with a connection that is none of these, from the one on whose turn is next.
    pub(super) fn connected_but(&self, others: &BTreeSet<HomeRef>) -> Option<SeatId> {
        let mut candidates = self.candidates.round(self.cursor);
        candidates.find(|&seat| !others.contains(&self.get(seat).home))
    }

    /// Whose turn it is, among those with room, when so many messages wait.
    ///
    /// Under [`SharedStrategy::RoundRobin`] a turn is one message, or a run of them while many wait: what is acknowledged in a
    /// row then is one range to its front, to the group and in the log, and the shares of the members are as even.
    pub(super) fn turn(&mut self, topic_hash: u64, waiting: usize) -> Turn {
        let seat = match self.strategy {
            SharedStrategy::RoundRobin => match self.run {
                (seat, left @ 1..) if self.ready.contains(seat) => {
                    self.run.1 = left - 1;
                    return Turn::Seat(seat);
                }
                _ => {
                    let seat = self.ready.next_round(self.cursor);
                    let share = waiting / (4 * self.ready.len().max(1) as usize);
                    self.run = (seat.unwrap_or(0), share.clamp(1, RUN_MAX) - 1);
                    seat
                }
            },
            SharedStrategy::Sticky => self
                .sticky
                .filter(|&seat| self.ready.contains(seat))
                .or_else(|| self.ready.next_round(self.cursor)),
            SharedStrategy::LeastOutstanding => self.least_outstanding(),
            SharedStrategy::HashTopic => match self.owner(topic_hash) {
                Some(seat) if !self.ready.contains(seat) => return Turn::Busy(seat),
                owner => owner,
            },
        };
        let Some(seat) = seat else {
            return Turn::Nobody;
        };
        self.took_turn(seat);
        Turn::Seat(seat)
    }

    /// Whose turn it is for a message that takes no room and has at most so many bytes: those with room first, then anyone with a
    /// connection. One that would drop it is passed over, if another one takes it.
    pub(super) fn turn_unstored(&mut self, topic_hash: u64, bytes: usize) -> Option<SeatId> {
        let seat = match self.turn(topic_hash, 1) {
            Turn::Seat(seat) | Turn::Busy(seat) => seat,
            Turn::Nobody => {
                let seat = self.candidates.next_round(self.cursor)?;
                self.cursor = seat + 1;
                seat
            }
        };
        if self.open.contains(seat) && self.fits(seat, bytes) {
            return Some(seat);
        }
        let instead = self.instead_of(seat, bytes);
        self.cursor = instead + 1;
        Some(instead)
    }

    fn fits(&self, seat: SeatId, bytes: usize) -> bool {
        bytes <= self.get(seat).bytes_max as usize
    }

    /// Who takes a message that the one whose turn it is may drop. When it may be too large for all, only their fronts know: it goes to the one
    /// that takes the longest.
    #[cold]
    fn instead_of(&self, seat: SeatId, bytes: usize) -> SeatId {
        let mut open = self.open.round(self.cursor);
        if let Some(other) = open.find(|&other| self.fits(other, bytes)) {
            return other;
        }
        if self.fits(seat, bytes) {
            return seat;
        }
        let mut longest = seat;
        for other in self.candidates.round(self.cursor) {
            if self.get(other).bytes_max > self.get(longest).bytes_max {
                longest = other;
            }
        }
        longest
    }

    /// The next turn is someone else's, if there is anyone: this one has just given a message back.
    pub(super) fn pass_over(&mut self, seat: SeatId) {
        self.cursor = seat + 1;
        self.forget_favour(seat);
    }

    /// What comes next does not go to this one because the last one did.
    fn forget_favour(&mut self, seat: SeatId) {
        if self.sticky == Some(seat) {
            self.sticky = None;
        }
        if self.run.0 == seat {
            self.run.1 = 0;
        }
    }

    fn took_turn(&mut self, seat: SeatId) {
        self.cursor = seat + 1;
        if self.strategy == SharedStrategy::Sticky {
            self.sticky = Some(seat);
        }
    }

    fn least_outstanding(&self) -> Option<SeatId> {
        let mut least: Option<(u32, SeatId)> = None;
        for seat in self.ready.round(self.cursor) {
            let outstanding = self.get(seat).outstanding;
            if least.is_none_or(|(fewest, _)| outstanding < fewest) {
                least = Some((outstanding, seat));
            }
            if outstanding == 0 {
                break;
            }
        }
        least.map(|(_, seat)| seat)
    }

    /// The candidate whose point on the ring follows the topic's hash (consistent hashing): the same for every leader, and
    /// when a member comes or goes only topics of its own move.
    fn owner(&self, topic_hash: u64) -> Option<SeatId> {
        let at = rapidhash_v3(&topic_hash.to_le_bytes());
        let next = self.ring.range((at, 0)..).next();
        next.or_else(|| self.ring.first()).map(|&(_, seat)| seat)
    }

    /// Puts a seat among the candidates, or takes it out.
    fn set_candidate(&mut self, seat: SeatId, on: bool) {
        self.candidates.set(seat, on);
        if self.strategy != SharedStrategy::HashTopic {
            return;
        }
        let home = self.get(seat).home;
        for point in 0..POINTS {
            let mut bytes = [0; 14];
            bytes[..8].copy_from_slice(&home.session.0.to_le_bytes());
            bytes[8..10].copy_from_slice(&home.partition.0.to_le_bytes());
            bytes[10..].copy_from_slice(&point.to_le_bytes());
            let point = (rapidhash_v3(&bytes), seat);
            if on {
                self.ring.insert(point);
            } else {
                self.ring.remove(&point);
            }
        }
    }

    /// The priority of a connected member.
    fn priority_present(&self, seat: SeatId) -> Option<i32> {
        self.seats[seat as usize]
            .as_ref()
            .filter(|seat| seat.front.is_some() && seat.standing == Standing::Member)
            .map(|seat| seat.member.priority)
    }

    fn highest(&self) -> Option<i32> {
        self.levels.last_key_value().map(|(&priority, _)| priority)
    }

    /// A seat has changed, and was present with priority `before`.
    fn changed(&mut self, seat: SeatId, before: Option<i32>) {
        let highest = self.highest();
        if let Some(priority) = self.priority_present(seat) {
            *self.levels.entry(priority).or_default() += 1;
        }
        if let Some(members) = before.and_then(|priority| self.levels.get_mut(&priority)) {
            *members -= 1;
            if *members == 0 {
                self.levels.retain(|_, members| *members > 0);
            }
        }
        if self.highest() == highest {
            self.refresh(seat);
        } else {
            (0..self.seats.len() as SeatId).for_each(|seat| self.refresh(seat));
        }
    }

    /// Puts a seat into the sets to which it belongs. A window of nothing is a member that pauses: it is present, so that
    /// lower priorities stay idle, and given nothing.
    fn refresh(&mut self, id: SeatId) {
        let present = self.priority_present(id);
        let takes_part = present.is_some() && present == self.highest();
        let seat = self.seats[id as usize].as_ref().filter(|_| takes_part);
        let candidate = seat.is_some_and(|seat| seat.window > 0);
        let ready = seat.is_some_and(Seat::has_room);
        let keeps = self.strategy == SharedStrategy::HashTopic;
        let open = seat.is_some_and(|seat| keeps || seat.uptake == Uptake::Prompt);
        self.ready.set(id, ready);
        self.open.set(id, candidate && open);
        if self.candidates.contains(id) != candidate {
            self.set_candidate(id, candidate);
        }
    }

    /// Asserts that the sets say what the seats say.
    pub(super) fn check(&self) {
        let mut fresh = self.clone();
        fresh.levels.clear();
        for seat in 0..self.seats.len() as SeatId {
            if let Some(priority) = self.priority_present(seat) {
                *fresh.levels.entry(priority).or_default() += 1;
            }
        }
        assert_eq!(fresh.levels, self.levels, "connected members are counted");
        (0..self.seats.len() as SeatId).for_each(|seat| fresh.refresh(seat));
        assert_eq!(fresh.ring, self.ring, "the ring holds the candidates");
        assert_eq!(
            fresh.ready.words, self.ready.words,
            "ready are those with room"
        );
        assert_eq!(
            fresh.open.words, self.open.words,
            "open are those that keep up"
        );
        assert_eq!(
            fresh.candidates.words, self.candidates.words,
            "candidates are connected"
        );
        for (id, seat) in self.iter() {
            assert_eq!(self.seat_of(seat.home), Some(id), "a session has one seat");
        }
        let windows = self.iter().map(|(_, seat)| u64::from(seat.window));
        assert_eq!(windows.sum::<u64>(), self.windows, "windows are added up");
        assert_eq!(
            self.iter().count(),
            self.by_home.len(),
            "a session has one seat"
        );
    }
}
