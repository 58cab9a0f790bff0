//! What little memory leaves for what is kept.
//!
//! Messages that wait and retained ones have shares of `memory.max`. A server that keeps nothing takes some megabytes as well, which of much memory is
//! nothing, and of little the greater part: with the shares it would fill it up, and everybody would be refused, also who comes to take away what
//! fills it, and after a restart too. So what is kept has no more than there is above the least memory with which anybody is served
//! ([`memory_least`](courser_settings::memory_least)).

use crate::memory::{hot_share, retained_share};

/// Sixteenths of the memory from which on publishes and connections are refused (`memory.rs`, `FULL`). The least memory is that of which an idle
/// server, and a login where there are accounts, take so much.
const REFUSED_FROM: u64 = 11;
/// The part of the memory, one divided by this, that may hold what is kept however little there is: as much as lies between an idle server with
/// the least memory and `TIGHT` there.
const PART_LEAST: u64 = 16;

/// Bytes for what is kept, where memory is scant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scant {
    max: u64,
    /// For messages that wait and retained ones together.
    room: u64,
}

impl Scant {
    /// Of `max` bytes, of which `least` serve clients.
    pub(crate) const fn new(max: u64, least: u64) -> Self {
        let room = max.saturating_sub(least) / 16 * REFUSED_FROM;
        let room_least = max / PART_LEAST;
        Self {
            max,
            room: if room < room_least { room_least } else { room },
        }
    }

    /// For messages that wait, as they have twice as much as retained ones.
    const fn messages(self) -> u64 {
        self.room / 3 * 2
    }

    /// What messages that wait have less of their third than where there is more memory: of all shards.
    pub(crate) fn withheld(self) -> u64 {
        (self.max / 3).saturating_sub(self.messages())
    }

    /// For those of them that are not only in the log: three quarters, as where there is more memory.
    pub(crate) fn hot(self) -> u64 {
        hot_share(self.max).min(self.messages() / 4 * 3)
    }

    /// For retained messages.
    pub(crate) fn retained(self) -> u64 {
        retained_share(self.max).min(self.room / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Level;

    const MIB: u64 = 1 << 20;
    const LEAST: u64 = 24 * MIB;
    const LEAST_WITH_ACCOUNTS: u64 = 48 * MIB;

    #[test]
    fn what_is_kept_never_fills_little_memory() {
        for least in [LEAST, LEAST_WITH_ACCOUNTS] {
            // As memory_least was measured with two shards.
            let (idle, login) = (13 * MIB, 19 * MIB);
            for max in (least / MIB..1_024).map(|mib| mib * MIB) {
                let scant = Scant::new(max, least);
                let messages = max / 3 - scant.withheld();
                assert!(scant.hot() < messages, "they leave memory before");
                let used = idle + messages + scant.retained();
                let level = Level::Free.next(used, max);
                assert!(level < Level::Full, "{level:?} with {} MiB", max / MIB);
                if least == LEAST_WITH_ACCOUNTS {
                    // For its moment others may be refused, and come again.
                    let level = Level::Free.next(used + login, max);
                    assert!(level < Level::Over, "{level:?} with {} MiB", max / MIB);
                }
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
            assert_eq!(scant.withheld() > 0, is_scant, "{max}");
            assert_eq!(scant.hot() < hot_share(max), is_scant, "{max}");
            assert_eq!(scant.retained() < retained_share(max), is_scant, "{max}");
        }
        assert_eq!(Scant::new(u64::MAX, LEAST).withheld(), 0);
    }
}
