//! Sizes in bytes: `16MiB`, `1500B`, `2GB`.

use super::Mismatch;
use std::fmt;

/// A number of bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// So many bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many times 1,024 bytes.
    ///
    /// # Panics
    /// From 2^54 on.
    #[must_use]
    pub const fn kib(count: u64) -> Self {
        Self(count * 1024)
    }

    /// So many times 1,024 KiB.
    ///
    /// # Panics
    /// From 2^44 on.
    #[must_use]
    pub const fn mib(count: u64) -> Self {
        Self::kib(count * 1024)
    }

    /// So many times 1,024 MiB.
    ///
    /// # Panics
    /// From 2^34 on.
    #[must_use]
    pub const fn gib(count: u64) -> Self {
        Self::mib(count * 1024)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

/// Largest first, so that [`fmt::Display`] takes the first that divides.
const BINARY: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];
const OTHER: [(&str, u64); 5] = [
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("B", 1),
];

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match BINARY
            .iter()
            .find(|(_, unit)| self.0 >= *unit && self.0.is_multiple_of(*unit))
        {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A whole number and a unit in any case, with or without a space between them; without a unit it is bytes.
pub(super) fn parse(text: &str) -> Result<ByteSize, Mismatch> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, name) = text.split_at(digits);
    if number.is_empty() {
        return Err(Mismatch::Kind);
    }
    let name = name.trim_start();
    let unit = BINARY
        .iter()
        .chain(&OTHER)
        .find(|(unit, _)| unit.eq_ignore_ascii_case(name));
    let unit = match unit {
        Some((_, unit)) => *unit,
        None if name.is_empty() => 1,
        None => return Err(Mismatch::Kind),
    };
    let number: u64 = number.parse().map_err(|_| Mismatch::Range)?;
    number
        .checked_mul(unit)
        .map(ByteSize)
        .ok_or(Mismatch::Range)
}
