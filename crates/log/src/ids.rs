//! Names of places and starts.

use std::fmt;

use crate::format::NUMBER_MAX;

/// Number of a segment; in its file's name, in its header and in each of its batches. Never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentNumber(pub u64);

impl SegmentNumber {
    const SUFFIX: &'static str = ".seg";
    const SUMMARY_SUFFIX: &'static str = ".sum";

    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Name of the segment's file.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{:010}{}", self.0, Self::SUFFIX)
    }

    /// The segment that a file of this name is.
    #[must_use]
    pub fn of_file_name(name: &str) -> Option<Self> {
        Self::of_name(name, Self::SUFFIX)
    }

    /// Name of the file with the segment's summary.
    #[must_use]
    pub fn summary_name(self) -> String {
        format!("{:010}{}", self.0, Self::SUMMARY_SUFFIX)
    }

    /// The segment of which a file of this name is the summary.
    #[must_use]
    pub fn of_summary_name(name: &str) -> Option<Self> {
        Self::of_name(name, Self::SUMMARY_SUFFIX)
    }

    fn of_name(name: &str, suffix: &str) -> Option<Self> {
        let digits = name.strip_suffix(suffix)?;
        let number = Self(digits.parse().ok().filter(|number| *number <= NUMBER_MAX)?);
        // One name for each number: "+1.seg" is none of ours.
        let is_ours = name == format!("{:010}{suffix}", number.0);
        is_ours.then_some(number)
    }
}

impl fmt::Display for SegmentNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Number of a batch, from 1, counting up through all segments and starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchNumber(pub u64);

impl BatchNumber {
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Which node's log this is. A file of another one is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeIdentity(pub u64);

/// One start of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartId {
    /// Higher than that of every earlier start that opened this log.
    pub counter: u32,
    /// Random, and known to nobody outside the node.
    pub word: u64,
}

/// Where something is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Segment.
    pub segment: SegmentNumber,
    /// Byte of its file.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "segment {} at byte {}", self.segment, self.offset)
    }
}

/// What a sync made durable; made by [`crate::Log::sync`] alone, so that whoever holds one has waited for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Synced(pub(crate) BatchNumber);

impl Synced {
    /// All batches up to this one are durable.
    #[must_use]
    pub const fn batch(self) -> BatchNumber {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::SegmentNumber;

    #[test]
    fn a_file_name_is_read_as_it_is_written() {
        for number in [0, 1, 42, 9_999_999_999, 10_000_000_000, u64::MAX / 4] {
            let number = SegmentNumber(number);
            assert_eq!(
                SegmentNumber::of_file_name(&number.file_name()),
                Some(number)
            );
            let summary = number.summary_name();
            assert_eq!(SegmentNumber::of_summary_name(&summary), Some(number));
            assert_eq!(SegmentNumber::of_file_name(&summary), None);
        }
        for name in [
            "1.seg",
            "+000000001.seg",
            "0000000001",
            "0000000001.new",
            ".seg",
            "000000000a.seg",
            "18446744073709551615.seg",
        ] {
            assert_eq!(SegmentNumber::of_file_name(name), None, "{name}");
        }
    }
}
