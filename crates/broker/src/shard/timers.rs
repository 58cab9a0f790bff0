//! What fires on a shard's wheel.

use courser_contract::Tick;

use super::Shard;
use super::budget::Budget;
use super::ready::Place;
use crate::timer::Advanced;

/// Timers that one turn works off.
const WORK_MAX: usize = 256;
/// Timers between two looks at the budget: most move a keep-alive on, some end a connection.
const PIECE: usize = 16;
/// Partitions and the shard's own timers begin here; connections are below.
const PARTITIONS: u32 = 0xFFFF_0000;

/// A timer in four bytes: with a million of them on the wheel that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timer(u32);

/// What a [`Timer`] is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The front, or the end, of the connection at a place.
    Front(Place),
    /// The partition at a place.
    Partition(usize),
    /// Values of the broker are published again.
    Report,
    /// Listeners are tried again that had no descriptors.
    Accept,
    /// Links and last words are looked at.
    Watch,
    /// Publishers that were slowed down are read again.
    Pace,
    /// It is looked how much memory is used.
    Memory,
    /// A token has ended.
    Token,
    /// Which streams have stopped is looked at.
    Losses,
}

impl Timer {
    pub(crate) const REPORT: Self = Self(u32::MAX);
    pub(crate) const ACCEPT: Self = Self(u32::MAX - 1);
    pub(crate) const WATCH: Self = Self(u32::MAX - 2);
    pub(crate) const PACE: Self = Self(u32::MAX - 3);
    pub(crate) const MEMORY: Self = Self(u32::MAX - 4);
    pub(crate) const TOKEN: Self = Self(u32::MAX - 5);
    pub(crate) const LOSSES: Self = Self(u32::MAX - 6);

    /// Of a connection.
    pub(crate) const fn front(slot: Place) -> Self {
        assert!(slot < PARTITIONS, "connections are bounded by descriptors");
        Self(slot)
    }

    /// Of a partition.
    pub(crate) const fn partition(place: usize) -> Self {
        Self(PARTITIONS + place as u32)
    }

    /// What it is for.
    pub(crate) const fn due(self) -> Due {
        match self {
            Self::REPORT => Due::Report,
            Self::ACCEPT => Due::Accept,
            Self::WATCH => Due::Watch,
            Self::PACE => Due::Pace,
            Self::MEMORY => Due::Memory,
            Self::TOKEN => Due::Token,
            Self::LOSSES => Due::Losses,
            Self(value) if value >= PARTITIONS => Due::Partition((value - PARTITIONS) as usize),
            Self(slot) => Due::Front(slot),
        }
    }
}

/// How often links and last words are looked at while there is something to see, in milliseconds.
const WATCH_MS: u64 = 100;

impl Shard {
    /// Does what is due. True when a limit was met before the end: thousands of clients that fall silent together end over many turns.
    pub(crate) fn handle_timers(&mut self) -> bool {
        for _ in 0..WORK_MAX / PIECE {
            if !self.handle_some_timers() {
                return false;
            }
            if self.hub.budget.is_spent() {
                break;
            }
        }
        true
    }

    /// The next few. True when there may be more.
    fn handle_some_timers(&mut self) -> bool {
        let now = self.hub.now.tick;
        let mut due = std::mem::take(&mut self.due);
        let advanced = self.timers.advance(now, PIECE, |timer| due.push(timer));
        for timer in due.drain(..) {
            self.hub.budget.spend(Budget::STEP);
            match timer.due() {
                Due::Front(slot) => self.front_timeout(slot),
                Due::Partition(place) => self.partition_timeout(place),
                Due::Report => self.begin_reports(),
                Due::Accept => self.accepting.resume(),
                Due::Watch => self.watch(),
                Due::Pace => self.resume_paced(),
                Due::Memory => self.memory_timeout(),
                Due::Token => self.end_tokens(),
                Due::Losses => self.losses_timeout(),
            }
        }
        self.due = due;
        advanced == Advanced::Cut
    }

    /// Arms a partition's timer if it must fire earlier than it does.
    pub(crate) fn arm_partition(&mut self, place: usize) {
        let owned = self.partitions.at(place);
        let partition = owned
            .partition
            .as_ref()
            .expect("a partition is at home between calls");
        let Some(deadline) = partition.poll_timeout() else {
            return;
        };
        if deadline >= owned.armed {
            return;
        }
        owned.armed = deadline;
        owned.timer = Some(match owned.timer {
            Some(key) if self.timers.rearm(key, deadline) => key,
            Some(_) | None => self.timers.insert(deadline, Timer::partition(place)),
        });
    }

    fn partition_timeout(&mut self, place: usize) {
        let owned = self.partitions.at(place);
        owned.timer = None;
        owned.armed = Tick(u64::MAX);
        let id = owned.id;
        // Called early it does what is due, and its timer is armed again at the end of the turn.
        self.with_partition(id, |partition, now, fx| partition.handle_timeout(now, fx));
    }

    /// Looks at links that are full, at last words, and whether a checkpoint that failed may be tried again, as long as there are some.
    fn watch(&mut self) {
        self.watching = false;
        self.hub.send_overdue_words();
        self.refuse_early();
        self.watch_soon();
    }

    /// Arms the watch when there is something to watch.
    pub(crate) fn watch_soon(&mut self) {
        let full = self.hub.links.are_congested();
        let waiting = !self.hub.books.last_words.is_empty()
            || !self.hub.early.is_empty()
            || self.hub.disk.as_ref().is_some_and(|disk| disk.wants_room())
            || self.has_failed_save();
        if !self.watching && (full || waiting) {
            self.watching = true;
            self.timers
                .insert(self.hub.now.tick.after_ms(WATCH_MS), Timer::WATCH);
        }
    }
}
