//! Bugs that can be planted into the simulator's own shell, to see that the oracle finds them.

use std::fmt;
use std::str::FromStr;

/// A duty of the shell that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Unsettled appends are not sent again to a new leader (M11, M14).
    ForgetResend,
    /// They are sent again under new numbers (M14).
    ResendRenumbered,
    /// Entries are applied when they are proposed (M9).
    ApplyBeforeCommit,
    /// Publishes are answered when they are sent (M9, M10).
    SettleBeforeCommit,
    /// The next connection of a client id is let in before the last one has closed (M25).
    AttachBeforeDetach,
    /// Changes of L1 are confirmed before other shards use them (M38).
    ConfirmIndexEarly,
    /// Batches of a link overtake each other (the contract's order).
    ReorderLink,
    /// A batch between shards is lost now and then.
    LoseBatch,
    /// A payload is changed on its way between shards.
    DamagePayload,
    /// Deliveries come twice.
    DeliverTwice,
    /// Fences pass at once (M34).
    SkipFence,
    /// Timers of partitions never fire (M20).
    NoTimers,
    /// An entry is forgotten at a restart (I1).
    LoseEntry,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::ForgetResend,
        Self::ResendRenumbered,
        Self::ApplyBeforeCommit,
        Self::SettleBeforeCommit,
        Self::AttachBeforeDetach,
        Self::ConfirmIndexEarly,
        Self::ReorderLink,
        Self::LoseBatch,
        Self::DamagePayload,
        Self::DeliverTwice,
        Self::SkipFence,
        Self::NoTimers,
        Self::LoseEntry,
    ];
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl FromStr for Bug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|bug| bug.to_string() == text);
        found.ok_or_else(|| format!("no such bug: {text}"))
    }
}
