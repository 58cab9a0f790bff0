//! What little memory leaves for what is kept.
//!
//! Messages that wait, retained ones, and sessions have shares of `memory.max`. A server that keeps nothing takes some megabytes as well, which of much memory is
//! nothing, and of little the greater part: with the shares it would fill it up, and everybody would be refused, also who comes to take away what
//! fills it, and after a restart too. So what is kept has no more than there is above the least memory with which anybody is served
//! ([`memory_least`](courser_settings::memory_least)).

use crate::memory::{FULL, Shares, hot_share, retained_share};

/// The part of the memory, one divided by this, that may hold messages however little there is: as much as lies between an idle server with
/// the least memory and `TIGHT` there.
const PART_LEAST: u64 = 16;
/// The part of the least memory that sessions have for themselves however little there is: with that of messages it ends below [`FULL`].
const SESSIONS_PART_LEAST: u64 = 48;

/// Bytes for what is kept, where memory is scant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scant {
    max: u64,
    least: u64,
    /// What there is above the least memory until connections are refused. The least memory is that of which an idle server, and a login where
    /// there are accounts, take up to [`FULL`].
    spare: u64,
}

impl Scant {
    /// Of `max` bytes, of which `least` serve clients.
    pub(crate) const fn new(max: u64, least: u64) -> Self {
        let spare = max.saturating_sub(least) / 16 * FULL;
        Self { max, least, spare }
    }

    /// For messages that wait and retained ones together.
    fn room(self) -> u64 {
        self.spare.max(self.max / PART_LEAST)
    }

    /// For what is kept in memory by partitions, but for retained messages. Sessions have for themselves what the others leave; and messages that wait
    /// lend them no more than five eighths, and an eighth and a bit to those that end with their connections, so that somebody's messages may still wait.
    pub(crate) fn shares(self) -> Shares {
        let whole = Shares::whole(self.max);
        // As messages that wait have twice as much as retained ones.
        let messages = whole.messages.min(self.room() / 3 * 2);
        let others = messages + self.retained();
        let sessions_own = self.spare.saturating_sub(others);
        let sessions_own = sessions_own.max(self.least / SESSIONS_PART_LEAST);
        let sessions_own = sessions_own.min(whole.sessions_own);
        let lent = |eighths| sessions_own.saturating_add(messages / 8 * eighths);
        Shares {
            messages,
            sessions_own,
            sessions_kept: whole.sessions_kept.min(lent(5)),
            sessions: whole.sessions.min(lent(7)),
        }
    }

    /// For messages that wait and are not only in the log: three quarters of all that may wait, as where there is more memory.
    pub(crate) fn hot(self) -> u64 {
        hot_share(self.max).min(self.room() / 2)
    }

    /// For retained messages.
    pub(crate) fn retained(self) -> u64 {
        retained_share(self.max).min(self.room() / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Level, room_of_accounts};

    const MIB: u64 = 1 << 20;
    const LEAST: u64 = 24 * MIB;
    const LEAST_WITH_ACCOUNTS: u64 = 48 * MIB;
    /// As `memory_least` was measured, with two shards.
    const IDLE: u64 = 13 * MIB;
    const LOGIN: u64 = 19 * MIB;

    /// The most that is kept on purpose, whatever it is.
    fn kept(scant: Scant) -> u64 {
        let Shares {
            messages,
            sessions_own,
            sessions_kept: _,
            sessions,
        } = scant.shares();
        let accounts = room_of_accounts(scant.max, messages).bytes * 2;
        assert!(sessions - sessions_own < messages, "something may wait");
        assert!(accounts < messages, "something may wait");
        // What sessions have beyond their own, and users and roles, messages have less.
        messages + sessions_own + scant.retained()
    }

    #[test]
    fn what_is_kept_never_fills_little_memory() {
        for (least, idle, login) in [
            (LEAST, IDLE, 0),
            (LEAST_WITH_ACCOUNTS, IDLE, LOGIN),
            // 64 shards.
            (55 * MIB, 33 * MIB, 0),
            (79 * MIB, 33 * MIB, LOGIN),
        ] {
            for max in (least / MIB..=2_048).map(|mib| mib * MIB) {
                let scant = Scant::new(max, least);
                let Shares {
                    messages,
                    sessions_kept,
                    sessions,
                    ..
                } = scant.shares();
                assert!(scant.hot() < messages, "they leave memory before");
                assert!(sessions_kept < sessions, "those that stay end before");
                let used = idle + kept(scant);
                let level = Level::Free.next(used, max);
                assert!(level < Level::Full, "{level:?} with {} MiB", max / MIB);
                // For its moment others may be refused, and come again.
                let level = Level::Free.next(used + login, max);
                assert!(level < Level::Over, "{level:?} with {} MiB", max / MIB);
            }
        }
    }

    #[test]
    fn what_is_kept_alone_never_slows_publishers() {
        for least in [LEAST, LEAST_WITH_ACCOUNTS] {
            for max in (least / MIB..=2_048).map(|mib| mib * MIB) {
                let kept = kept(Scant::new(max, least));
                assert_eq!(Level::Free.next(kept.saturating_sub(16), max), Level::Free);
            }
        }
    }

    #[test]
    fn where_there_is_enough_the_shares_are_whole() {
        for (max, least, is_scant) in [
            (24, LEAST, true),
            (64, LEAST, true),
            (96, LEAST, false),
            (256, LEAST, false),
            (96, LEAST_WITH_ACCOUNTS, true),
            (256, LEAST_WITH_ACCOUNTS, false),
        ] {
            let max = max * MIB;
            let scant = Scant::new(max, least);
            let messages = scant.shares().messages;
            assert_eq!(messages < Shares::whole(max).messages, is_scant, "{max}");
            assert_eq!(scant.hot() < hot_share(max), is_scant, "{max}");
            assert_eq!(scant.retained() < retained_share(max), is_scant, "{max}");
        }
        // Those of sessions later, as theirs come on top.
        for (least, kept, all) in [(LEAST, 198, 264), (LEAST_WITH_ACCOUNTS, 396, 528)] {
            for mib in (least / MIB)..=2_048 {
                let max = mib * MIB;
                let whole = Shares::whole(max);
                let shares = Scant::new(max, least).shares();
                assert_eq!(shares == whole, mib >= all, "{mib}");
                let is_kept_whole = shares.sessions_kept == whole.sessions_kept;
                assert_eq!(is_kept_whole, mib >= kept, "{mib}");
            }
        }
        assert_eq!(
            Scant::new(u64::MAX, LEAST).shares(),
            Shares::whole(u64::MAX)
        );
    }
}
