//! When a record expires, as far as that is known of one that is only in the log.

use courser_contract::WallMs;

/// A moment in seconds since 1970, rounded up: a message that is looked at by it never goes early. What expires behind 2106 has none:
/// it goes when it comes to its delivery, which knows the moment itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiry(u32);

impl Expiry {
    /// Never, as far as is known.
    pub(crate) const NONE: Self = Self(0);

    /// That of a record that says so itself.
    pub(crate) fn of(at: Option<WallMs>) -> Self {
        at.map_or(Self::NONE, Self::at)
    }

    fn at(at: WallMs) -> Self {
        // What expired in 1970 has a moment as well.
        Self(u32::try_from(at.0.div_ceil(1_000).max(1)).unwrap_or(0))
    }

    /// By its seconds; 0: never.
    pub(crate) const fn from_seconds(seconds: u32) -> Self {
        Self(seconds)
    }

    /// Its seconds; 0: never.
    pub(crate) const fn seconds(self) -> u32 {
        self.0
    }

    /// The moment.
    pub(crate) fn moment(self) -> Option<WallMs> {
        (self != Self::NONE).then(|| WallMs(u64::from(self.0) * 1_000))
    }
}
