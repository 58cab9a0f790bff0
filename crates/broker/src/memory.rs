//! The memory that the process may have, and how much of it is used.
//!
//! What is allocated is counted by the allocator of the binary ([`courser_memory`]); what waits in streams is counted by the
//! partitions. In a binary that does not count, the budget is never used up.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use courser_access::{HashMemory, Room};
use courser_contract::Tick;
use courser_engine::{MemoryRoom, SessionRoom};
use courser_mqtt::front::AliasRoom;

/// How near the budget is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Far.
    #[default]
    Free,
    /// Publishers are read less.
    Tight,
    /// Publishes and connections are refused; clients that do not read are closed.
    Full,
    /// Sockets are closed as soon as they are accepted.
    Over,
}

/// Sixteenths of the budget from which on a level is reached. What is counted is what was asked of the allocator; it takes up to
/// two fifths more from the machine (its size classes, and pages that it has not given back yet), which is left free here.
const TIGHT: u64 = 10;
pub(crate) const FULL: u64 = 11;
const OVER: u64 = 13;
/// A level is left only this much below, so that it does not come and go with each message.
const BACK: u64 = 1;

impl Level {
    const ALL: [Self; 4] = [Self::Free, Self::Tight, Self::Full, Self::Over];

    /// The level that follows on `self` when `used` of `max` bytes are used.
    pub(crate) fn next(self, used: u64, max: u64) -> Self {
        let sixteenths = used.saturating_mul(16) / max.max(1);
        let reached = |sixteenths| match sixteenths {
            OVER.. => Self::Over,
            FULL.. => Self::Full,
            TIGHT.. => Self::Tight,
            _ => Self::Free,
        };
        // Up at once, down with a distance.
        reached(sixteenths).max(self.min(reached(sixteenths + BACK)))
    }
}

/// The budget of the process and what its shards say of their parts. What they are told is the same for all of them: of two
/// that look at different moments around a bound, one would otherwise refuse what the other takes.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    max: u64,
    shares: Shares,
    /// A [`Level`], the last that was told.
    level: AtomicU8,
    /// Bytes of messages that wait, by shard.
    stored: Vec<AtomicU64>,
    /// Whether they have used up their share.
    short: AtomicBool,
    /// Bytes of sessions and subscriptions, by shard.
    sessions: Vec<AtomicU64>,
    /// Whether they have used up what those may have that outlive their connections.
    kept_short: AtomicBool,
    /// Whether they have used up what all may have.
    sessions_short: AtomicBool,
    /// Bytes of topic aliases of connections, by shard.
    aliases: Vec<AtomicU64>,
    /// Whether they have used up half of their share.
    aliases_scarce: AtomicBool,
    /// Whether they have used it up.
    aliases_short: AtomicBool,
    /// Bytes of users and roles.
    accounts: AtomicU64,
    /// Since when [`Level::Over`] has been told, in milliseconds of the shards' clock and one more; 0: it is not.
    over_since: AtomicU64,
}

/// Bytes that all shards may keep on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// In messages that wait.
    pub(crate) messages: u64,
    /// In sessions and what they have subscribed to: from there on messages lend what they take.
    pub(crate) sessions_own: u64,
    /// In them until those that outlive their connections get no more.
    pub(crate) sessions_kept: u64,
    /// In them until all get no more.
    pub(crate) sessions: u64,
}

impl Shares {
    /// Where there is enough memory.
    pub(crate) const fn whole(max: u64) -> Self {
        Self {
            messages: messages_share(max),
            sessions_own: sessions_own_share(max),
            sessions_kept: sessions_kept_share(max),
            sessions: sessions_share(max),
        }
    }

    /// For topic aliases of connections, an eighth of what messages that wait may have, which lend it: a part of 24 of all where there is enough.
    const fn aliases(self) -> u64 {
        self.messages / 8
    }

    /// What all sessions leave of what messages may lend.
    const fn beside_sessions(self) -> u64 {
        let lent = self.sessions.saturating_sub(self.sessions_own);
        self.messages.saturating_sub(lent)
    }
}

/// Bytes that the partitions and the connections of a shard keep on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// In messages that wait.
    pub(crate) messages: u64,
    /// In sessions and what they have subscribed to.
    pub(crate) sessions: u64,
    /// In topic aliases of connections.
    pub(crate) aliases: u64,
}

/// Room for what they keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rooms {
    pub(crate) messages: MemoryRoom,
    pub(crate) sessions: SessionRoom,
    pub(crate) aliases: AliasRoom,
}

impl MemoryBudget {
    /// Of `max` bytes for so many shards.
    pub(crate) fn new(max: u64, shares: Shares, shards: u16) -> Self {
        Self {
            max,
            shares,
            level: AtomicU8::new(Level::Free as u8),
            stored: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            short: AtomicBool::new(false),
            sessions: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            kept_short: AtomicBool::new(false),
            sessions_short: AtomicBool::new(false),
            aliases: (0..shards).map(|_| AtomicU64::new(0)).collect(),
            aliases_scarce: AtomicBool::new(false),
            aliases_short: AtomicBool::new(false),
            accounts: AtomicU64::new(0),
            over_since: AtomicU64::new(0),
        }
    }

    /// Says what users and roles take: messages that wait lend it.
    pub(crate) fn keep_accounts(&self, bytes: u64) {
        self.accounts.store(bytes, Relaxed);
    }

    /// Says which level was told at a moment.
    pub(crate) fn note_level(&self, level: Level, now: Tick) {
        if level < Level::Over {
            self.over_since.store(0, Relaxed);
        } else {
            // Whoever was first says since when.
            let since = now.0.saturating_add(1);
            let _ = self.over_since.compare_exchange(0, since, Relaxed, Relaxed);
        }
    }

    /// For how long sockets have been closed as soon as they are accepted; none while they are not.
    pub(crate) fn over_for(&self, now: Tick) -> Option<Duration> {
        match self.over_since.load(Relaxed) {
            0 => None,
            since => Some(Duration::from_millis(now.0.saturating_sub(since - 1))),
        }
    }

    /// The level before and now that `used` bytes are used.
    pub(crate) fn look(&self, used: u64) -> (Level, Level) {
        let next = |level: u8| Level::ALL[usize::from(level)].next(used, self.max);
        let before = self
            .level
            .update(Relaxed, Relaxed, |level| next(level) as u8);
        (Level::ALL[usize::from(before)], next(before))
    }

    /// The level that would be told now, of one who asks and tells nobody.
    pub(crate) fn glance(&self, used: u64) -> Level {
        Level::ALL[usize::from(self.level.load(Relaxed))].next(used, self.max)
    }

    /// Says what a shard keeps, and is told whether there is room for what all of them have.
    pub(crate) fn keep(&self, shard: usize, kept: Kept) -> Rooms {
        let all = |parts: &[AtomicU64], part: u64| -> u64 {
            parts[shard].store(part, Relaxed);
            parts.iter().map(|it| it.load(Relaxed)).sum()
        };
        let sessions = all(&self.sessions, kept.sessions);
        let aliases = all(&self.aliases, kept.aliases);
        // Beside sessions, messages lend to these.
        let others = self.accounts.load(Relaxed) + aliases;
        let lent = sessions.saturating_sub(self.shares.sessions_own) + others;
        let messages = all(&self.stored, kept.messages) + lent;
        let messages = match is_short(&self.short, messages, self.shares.messages) {
            true => MemoryRoom::Short,
            false => MemoryRoom::Enough,
        };
        let was_kept_short = self.kept_short.load(Relaxed);
        // The others beyond what sessions leave of what messages lend are in the place of sessions: all together borrow no more than there is.
        let judged = sessions + others.saturating_sub(self.shares.beside_sessions());
        let kept_short = is_short(&self.kept_short, judged, self.shares.sessions_kept);
        if kept_short && !was_kept_short {
            tracing::warn!(
                event = "sessions_full",
                held_bytes = sessions,
                "sessions have used up their part of memory.max: new ones that outlive their connections, and new subscriptions of such, are refused"
            );
        }
        let short = is_short(&self.sessions_short, judged, self.shares.sessions);
        let sessions = match Level::ALL[usize::from(self.level.load(Relaxed))] {
            Level::Full | Level::Over => SessionRoom::None,
            Level::Free | Level::Tight if short => SessionRoom::Short,
            Level::Free | Level::Tight if kept_short => SessionRoom::Clean,
            Level::Free | Level::Tight => SessionRoom::Enough,
        };
        Rooms {
            messages,
            sessions,
            aliases: self.room_of_aliases(aliases),
        }
    }

    fn room_of_aliases(&self, held: u64) -> AliasRoom {
        let share = self.shares.aliases();
        let scarce = is_short(&self.aliases_scarce, held, share / 2);
        let was_short = self.aliases_short.load(Relaxed);
        let short = is_short(&self.aliases_short, held, share);
        if short && !was_short {
            tracing::warn!(
                event = "aliases_full",
                held_bytes = held,
                "topic aliases have used up their part of memory.max: clients that connect get none, and those that bind more are closed"
            );
        }
        match (scarce, short) {
            (_, true) => AliasRoom::None,
            (true, false) => AliasRoom::Scarce,
            (false, false) => AliasRoom::Enough,
        }
    }
}

/// Whether a share is used up. Once it has been, it takes a little less to say otherwise.
fn is_short(was: &AtomicBool, used: u64, share: u64) -> bool {
    let was_short = was.load(Relaxed);
    let is_short = used >= if was_short { share / 16 * 15 } else { share };
    was.store(is_short, Relaxed);
    is_short
}

/// A sixteenth, for handshakes at doors.
pub(crate) const fn handshakes_share(max: u64) -> u64 {
    max / 16
}

/// A quarter, for passwords that are compared at once; one of our own hashes fits in any case.
pub(crate) const fn hashing_share(max: u64) -> u64 {
    let own = (HashMemory::OWN_KIB as u64) << 10;
    let share = max / 4;
    if share > own { share } else { own }
}

/// An eighth, for one password: with all that is kept on purpose it ends below [`OVER`], so that nobody's login has the sockets of others closed. One
/// of our own hashes fits in any case.
const fn hash_share(max: u64) -> u64 {
    let own = (HashMemory::OWN_KIB as u64) << 10;
    let share = max / 8;
    if share > own { share } else { own }
}

/// What there is for users and roles, and for each of their logins.
pub(crate) fn room_of_accounts(max: u64, messages: u64) -> Room {
    Room {
        hash_kib: u32::try_from(hash_share(max) >> 10).unwrap_or(u32::MAX),
        bytes: accounts_share(messages),
    }
}

/// Three eighths of what messages that wait may have, which they lend: an eighth of all where there is enough. Users and roles are held twice: as they are
/// proposed, and as they are committed.
const fn accounts_share(messages: u64) -> u64 {
    messages / 8 * 3 / 2
}

/// A part of 32, for what logins came with that wait for their turn.
pub(crate) const fn waiting_logins_share(max: u64) -> u64 {
    max / 32
}

/// A third, for messages that wait. With the share of retained messages it stays below [`TIGHT`], so that stores that are full
/// hold up nobody whose messages do not wait.
const fn messages_share(max: u64) -> u64 {
    max / 3
}

/// Five sixteenths, for sessions and what they have subscribed to: many of those that are away, and little waits then. What is more than
/// [`sessions_own_share`] is lent by messages that wait. A million subscriptions fit into a GiB with it.
const fn sessions_kept_share(max: u64) -> u64 {
    max / 16 * 5
}

/// A sixteenth more where they end with their connections: those that stay shut out nobody who comes and goes.
const fn sessions_share(max: u64) -> u64 {
    max / 8 * 3
}

/// An eighth: with what waits and what is retained it ends where [`TIGHT`] begins, so that what is kept on purpose never shuts anybody out.
const fn sessions_own_share(max: u64) -> u64 {
    max / 8
}

/// A quarter, for messages that wait and are not only in the log: less than all that wait may take.
pub(crate) const fn hot_share(max: u64) -> u64 {
    max / 4
}

/// A sixth, for retained messages.
pub(crate) const fn retained_share(max: u64) -> u64 {
    max / 6
}

const _: () = assert!(
    messages_share(1 << 20) + retained_share(1 << 20) + sessions_own_share(1 << 20) <= TIGHT << 16
);
const _: () = assert!((TIGHT << 26) + hash_share(1 << 30) < OVER << 26);

/// What a process may have where nobody says it. No limit where nothing can be read.
pub(crate) fn default_max(least: u64) -> u64 {
    there_is().map_or(u64::MAX, |bytes| usual_share(bytes, least))
}

/// What the control group of this process allows, or else what the machine has.
fn there_is() -> Option<u64> {
    [machine_bytes(), group_bytes()].into_iter().flatten().min()
}

/// 60 %; and as much as serves anybody, `least`, up to three quarters: what the allocator takes beside it still fits then, since connections
/// are refused long before all of it is used.
fn usual_share(bytes: u64, least: u64) -> u64 {
    (bytes / 10 * 6).max(least.min(bytes / 4 * 3))
}

/// The memory that there is serves nobody. In MiB.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "memory.max: not set, and of the {there} MiB that the control group or the machine has it gets {most} MiB at most; {shards} shards with what \
     the listeners ask of clients need {least} MiB or more, and every client would be refused: allow {enough} MiB or more, or fewer shards"
)]
pub struct MemoryError {
    there: u64,
    most: u64,
    least: u64,
    enough: u64,
    shards: u16,
}

impl MemoryError {
    fn new(there: u64, most: u64, least: u64, shards: u16) -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            there: there / MIB,
            most: most / MIB,
            least: least.div_ceil(MIB),
            enough: (least.div_ceil(3) * 4).div_ceil(MIB),
            shards,
        }
    }
}

/// Whether so many shards serve anybody with `most`, which nobody has set, where `least` is needed.
pub(crate) fn check_default(most: u64, least: u64, shards: u16) -> Result<(), MemoryError> {
    if most >= least {
        return Ok(());
    }
    let there = there_is().unwrap_or(u64::MAX);
    Err(MemoryError::new(there, most, least, shards))
}

fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// The least of the limits on the way from this process's group to the root, version 2 and 1.
fn group_bytes() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    groups.lines().filter_map(limit_of).min()
}

/// Of a line `number:controllers:path`; version 2 has no controllers. In a container the path may be that of the host: then the
/// root that is mounted there is the group.
fn limit_of(line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (root, name) = if controllers.is_empty() {
        ("/sys/fs/cgroup", "memory.max")
    } else if controllers.split(',').any(|it| it == "memory") {
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
    } else {
        return None;
    };
    let ways = std::iter::successors(Some(path), |path| Some(path.rsplit_once('/')?.0));
    ways.filter_map(|path| read_limit(&format!("{root}{path}/{name}")))
        .min()
}

/// "max" is no limit, and so is the huge number of version 1.
fn read_limit(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_reached_at_once_and_left_with_a_distance() {
        let mut level = Level::default();
        let mut seen = Vec::new();
        for percent in [50, 62, 63, 69, 82, 80, 74, 66, 62, 58, 56] {
            level = level.next(percent, 100);
            seen.push(level);
        }
        use Level::{Free, Full, Over, Tight};
        assert_eq!(
            seen,
            [
                Free, Free, Tight, Full, Over, Over, Full, Full, Tight, Tight, Free
            ]
        );
    }

    #[test]
    fn all_shards_are_told_the_same_level() {
        use Level::{Free, Full, Tight};
        let budget = MemoryBudget::new(1_600, Shares::whole(1_600), 2);
        assert_eq!(budget.look(1_100), (Free, Full));
        // Another one that looks a moment later has not seen the peak.
        assert_eq!(budget.look(1_050), (Full, Full));
        assert_eq!(budget.look(990), (Full, Tight));
        // Who only asks changes nothing.
        assert_eq!(budget.glance(1_500), Level::Over);
        assert_eq!(budget.glance(990), Tight);
    }

    #[test]
    fn the_share_of_what_waits_is_that_of_all_shards() {
        let budget = MemoryBudget::new(1_200, Shares::whole(1_200), 2);
        let store = |shard, messages| {
            let kept = Kept {
                messages,
                ..Kept::default()
            };
            budget.keep(shard, kept).messages
        };
        use MemoryRoom::{Enough, Short};
        assert_eq!(store(0, 200), Enough);
        assert_eq!(store(1, 199), Enough);
        assert_eq!(store(1, 200), Short);
        assert_eq!(store(0, 199), Short, "it was used up a moment ago");
        assert_eq!(store(0, 0), Enough);
    }

    /// The distance at which they are told otherwise is a part of what they may have, not of what they would have of more memory.
    #[test]
    fn where_memory_is_scant_what_waits_is_short_until_less_of_its_own_share_waits() {
        let shares = Shares {
            messages: 160,
            ..Shares::whole(4_800)
        };
        let budget = MemoryBudget::new(4_800, shares, 2);
        let store = |messages| {
            let kept = Kept {
                messages,
                ..Kept::default()
            };
            budget.keep(1, kept).messages
        };
        use MemoryRoom::{Enough, Short};
        for (messages, room) in [
            (159, Enough),
            (160, Short),
            (150, Short),
            (149, Enough),
            (159, Enough),
        ] {
            assert_eq!(store(messages), room, "{messages}");
        }
    }

    #[test]
    fn kept_sessions_have_five_sixteenths_all_one_more_and_messages_lend_it() {
        let budget = MemoryBudget::new(1_200, Shares::whole(1_200), 2);
        let keep = |shard, messages, sessions| {
            let kept = Kept {
                messages,
                sessions,
                aliases: 0,
            };
            let rooms = budget.keep(shard, kept);
            (rooms.messages, rooms.sessions)
        };
        use MemoryRoom::{Enough, Short};
        assert_eq!(keep(0, 0, 200), (Enough, SessionRoom::Enough));
        assert_eq!(keep(1, 0, 174), (Enough, SessionRoom::Enough));
        assert_eq!(keep(1, 0, 175), (Enough, SessionRoom::Clean));
        assert_eq!(keep(1, 0, 250), (Enough, SessionRoom::Short));
        assert_eq!(
            keep(1, 0, 225),
            (Enough, SessionRoom::Short),
            "a moment ago"
        );
        assert_eq!(
            keep(1, 0, 150),
            (Enough, SessionRoom::Clean),
            "a moment ago"
        );
        assert_eq!(keep(1, 0, 100), (Enough, SessionRoom::Enough));
        assert_eq!(keep(1, 249, 100), (Enough, SessionRoom::Enough));
        assert_eq!(
            keep(1, 250, 100),
            (Short, SessionRoom::Enough),
            "150 are lent"
        );
        budget.look(900);
        assert_eq!(keep(1, 0, 0), (Enough, SessionRoom::None), "memory is full");
    }

    #[test]
    fn topic_aliases_have_an_eighth_of_what_messages_lend() {
        let budget = MemoryBudget::new(2_400, Shares::whole(2_400), 2);
        let keep = |shard, aliases| {
            let kept = Kept {
                aliases,
                ..Kept::default()
            };
            budget.keep(shard, kept).aliases
        };
        use AliasRoom::{Enough, None, Scarce};
        for (shard, aliases, room) in [
            (0, 49, Enough),
            (1, 1, Scarce),
            (1, 50, Scarce),
            (1, 51, None),
            (1, 46, None),
            (1, 40, Scarce),
            (0, 5, Scarce),
            (0, 4, Enough),
        ] {
            assert_eq!(keep(shard, aliases), room, "{aliases}");
        }
        let both = |messages| {
            let kept = Kept {
                messages,
                aliases: 99,
                ..Kept::default()
            };
            budget.keep(0, kept).messages
        };
        assert_eq!(both(660), MemoryRoom::Enough, "40 are of the other shard");
        assert_eq!(both(661), MemoryRoom::Short);
    }

    #[test]
    fn users_and_roles_are_lent_by_messages_that_wait() {
        let budget = MemoryBudget::new(1_200, Shares::whole(1_200), 2);
        let messages = |messages| {
            let kept = Kept {
                messages,
                ..Kept::default()
            };
            budget.keep(0, kept).messages
        };
        assert_eq!(messages(399), MemoryRoom::Enough);
        budget.keep_accounts(150);
        assert_eq!(messages(250), MemoryRoom::Short);
        assert_eq!(messages(200), MemoryRoom::Enough);
        // Sessions may borrow 225 of 400. Beyond the others, users and roles are in their place.
        let sessions = |sessions| {
            let kept = Kept {
                sessions,
                ..Kept::default()
            };
            budget.keep(1, kept).sessions
        };
        budget.keep_accounts(175);
        assert_eq!(sessions(374), SessionRoom::Clean);
        budget.keep_accounts(176);
        assert_eq!(sessions(374), SessionRoom::Short);
    }

    #[test]
    fn since_when_sockets_are_closed_is_known_until_they_are_not() {
        let budget = MemoryBudget::new(1_200, Shares::whole(1_200), 2);
        let after = |level, ms| {
            budget.note_level(level, Tick(ms));
            budget.over_for(Tick(ms))
        };
        assert_eq!(after(Level::Full, 0), None);
        assert_eq!(after(Level::Over, 1_000), Some(Duration::ZERO));
        assert_eq!(after(Level::Over, 7_000), Some(Duration::from_secs(6)));
        assert_eq!(after(Level::Full, 7_010), None);
        assert_eq!(after(Level::Over, 7_020), Some(Duration::ZERO));
    }

    #[test]
    fn one_password_may_take_an_eighth_all_at_once_a_quarter_and_ours_always_fit() {
        let own = u64::from(HashMemory::OWN_KIB) << 10;
        for (mib, one, all) in [
            (48, own, own),
            (64, own, own),
            (128, own, 32 << 20),
            (256, 32 << 20, 64 << 20),
            (2_048, 256 << 20, 512 << 20),
        ] {
            let max = mib << 20;
            assert_eq!((hash_share(max), hashing_share(max)), (one, all), "{mib}");
        }
        let unlimited = room_of_accounts(u64::MAX, 0).hash_kib;
        assert_eq!(unlimited, u32::MAX);
    }

    #[test]
    fn without_a_setting_it_is_sixty_percent_or_what_serves_anybody() {
        const MIB: u64 = 1 << 20;
        for (there, least, expected) in [
            (10_000 * MIB, 24 * MIB, 6_000 * MIB),
            (80 * MIB, 48 * MIB, 48 * MIB),
            (64 * MIB, 48 * MIB, 48 * MIB),
            (32 * MIB, 24 * MIB, 24 * MIB),
            // Too little, and said so.
            (31 * MIB, 24 * MIB, 31 * MIB / 4 * 3),
            (1_000, 24 * MIB, 750),
            (u64::MAX, 24 * MIB, u64::MAX / 10 * 6),
        ] {
            let found = usual_share(there, least) >> 10;
            assert_eq!(found, expected >> 10, "{there} {least}");
        }
    }

    #[test]
    fn memory_that_serves_nobody_stops_the_start() {
        assert_eq!(check_default(24 << 20, 24 << 20, 2), Ok(()));
        let fault = MemoryError::new(31 << 20, 24_379_392, 24 << 20, 2);
        assert_eq!(
            fault.to_string(),
            "memory.max: not set, and of the 31 MiB that the control group or the machine has it gets 23 MiB at most; 2 shards with what \
             the listeners ask of clients need 24 MiB or more, and every client would be refused: allow 32 MiB or more, or fewer shards"
        );
        assert!(check_default(23 << 20, 24 << 20, 2).is_err());
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(default_max(0) < 1 << 50);
        assert!(default_max(0) > 1 << 20);
    }
}
