//! The least memory with which anybody is served.
//!
//! Measured of a server in which nothing happens: it holds 13 MiB, with a log in its folder, and 4 KiB for each shard that each shard
//! sends to. Connections are refused from 11/16 of `memory.max` on. A login by password holds another 19 MiB for a moment, in which
//! the next ones would be refused.

use std::num::NonZero;

use super::{Fault, View};
use crate::table::Settings;
use crate::value::{ByteSize, Login};

/// Where nobody logs in by password. With two shards 20 MiB serve, 16 MiB do not.
const WITHOUT_ACCOUNTS: u64 = 23 << 20;
/// Where somebody does. With two shards 48 MiB serve, 40 MiB do not.
const WITH_ACCOUNTS: u64 = 47 << 20;
/// For each shard as often as there are shards. At 64 shards an idle server holds 33 MiB, at 256 it holds 281.
const OF_TWO_SHARDS: u64 = 8 << 10;

/// The least `memory.max` with which clients of these settings are served by so many shards.
#[must_use]
pub fn memory_least(settings: &Settings, shards: u16) -> ByteSize {
    let shards = u64::from(shards);
    let base = match settings.logins().any(|login| login == Login::Accounts) {
        true => WITH_ACCOUNTS,
        false => WITHOUT_ACCOUNTS,
    };
    let bytes = base + shards * shards * OF_TWO_SHARDS;
    ByteSize::new(bytes.next_multiple_of(1 << 20))
}

/// What is wrong with `memory.max`.
pub(super) fn fault(view: &View<'_>) -> Option<Fault> {
    const MAX: &str = "memory.max";
    let settings = view.settings();
    let max = settings.memory.max;
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let shards = match settings.server.shards {
        0 => u16::try_from(cores()).unwrap_or(u16::MAX),
        shards => shards,
    };
    let least = memory_least(settings, shards);
    // Nothing said is a share of what the machine has, which a start looks at.
    (max.bytes() > 0 && max < least).then(|| {
        let fault = format!(
            "found {}, with which every client would be refused: {shards} shards with what the listeners ask of clients need {least} or more",
            view.said(MAX)
        );
        Fault::of(MAX, &fault)
    })
}

#[cfg(test)]
mod tests {
    use crate::Sources;

    #[test]
    fn memory_with_which_nobody_is_served_is_refused() {
        for (memory, shards, login, least) in [
            ("1KiB", 1, "none", Some("24MiB")),
            ("23MiB", 1, "none", Some("24MiB")),
            ("24MiB", 1, "none", None),
            ("24MiB", 2, "accounts", Some("48MiB")),
            ("48MiB", 2, "accounts", None),
            ("48MiB", 256, "accounts", Some("559MiB")),
            ("0B", 256, "accounts", None),
        ] {
            let set = [
                format!("memory.max={memory}"),
                format!("server.shards={shards}"),
                format!("mqtt.authentication={login}"),
            ];
            let sources = set.iter().fold(Sources::new(), |all, one| all.set(one));
            let checked = sources.check();
            let said = checked.err().map(|errors| errors.to_string());
            assert_eq!(said.is_some(), least.is_some(), "{set:?}: {said:?}");
            if let (Some(said), Some(least)) = (said, least) {
                assert!(
                    said.contains(&format!("memory.max: found \"{memory}\"")),
                    "{said}"
                );
                assert!(said.contains(&format!("need {least} or more")), "{said}");
            }
        }
    }
}
