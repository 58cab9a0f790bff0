//! The other side of an outbox: which forwards of other partitions this one has taken.

use std::collections::BTreeMap;

use courser_contract::{PartitionId, Seq};

use crate::canonical::{Canonical, DecodeError, Reader, write_count};
use crate::origins::Ranges;

/// What a forward is to its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownForward {
    /// Not taken yet; one that was refused stays new, since its source sends it again until it is taken.
    New,
    /// Taken before, or below the source's floor: skipped, and answered Ok.
    Repeat,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Source {
    floor: u64,
    taken: Ranges,
}

/// Taken forwards by source, replicated. As with [`Origins`](crate::origins::Origins), the leader has a second copy that
/// takes them when they are proposed, and [`Inbox::contains`] of the replicated one says whether a repeat may be answered.
///
/// Memory: for each source one range, and one more for each forward that waits there while later ones were taken; the limit
/// of the source's outboxes bounds those.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inbox {
    sources: BTreeMap<PartitionId, Source>,
}

impl Inbox {
    /// What the forward `seq` of `source` is, sent with the source's committed floor.
    pub(crate) fn classify(&self, source: PartitionId, seq: Seq, floor: Seq) -> KnownForward {
        if seq < floor || self.contains(source, seq) {
            KnownForward::Repeat
        } else {
            KnownForward::New
        }
    }

    /// Takes a forward; false when it is a repeat, which changes nothing.
    pub(crate) fn take(&mut self, source: PartitionId, seq: Seq, floor: Seq) -> bool {
        if self.classify(source, seq, floor) == KnownForward::Repeat {
            return false;
        }
        let source = self.sources.entry(source).or_default();
        if floor.0 > source.floor {
            source.floor = floor.0;
            source.taken.remove_below(floor.0);
        }
        source.taken.insert(seq.0)
    }

    /// Whether `seq` of `source` was taken, as far as it is remembered: below the floor everything was.
    pub(crate) fn contains(&self, source: PartitionId, seq: Seq) -> bool {
        self.sources
            .get(&source)
            .is_some_and(|source| seq.0 < source.floor || source.taken.contains(seq.0))
    }

    /// Number of ranges of all sources: what memory goes by.
    #[cfg(test)]
    pub(crate) fn ranges(&self) -> usize {
        self.sources.values().map(|source| source.taken.len()).sum()
    }

    /// Appends the canonical bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        write_count(self.sources.len(), out);
        for (partition, source) in &self.sources {
            partition.write(out);
            source.floor.write(out);
            source.taken.write(out);
        }
    }

    /// Reads what [`Inbox::encode`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut sources = BTreeMap::new();
        for _ in 0..reader.count(14)? {
            let partition: PartitionId = reader.read()?;
            let source = Source {
                floor: reader.read()?,
                taken: reader.read()?,
            };
            if source
                .taken
                .first()
                .is_some_and(|first| first < source.floor)
            {
                return Err(DecodeError::Invalid("taken forwards"));
            }
            let last = sources.last_key_value();
            if last.is_some_and(|(last, _)| *last >= partition) {
                return Err(DecodeError::Invalid("order of sources"));
            }
            sources.insert(partition, source);
        }
        Ok(Self { sources })
    }

    /// Asserts that nothing below a floor is remembered.
    pub(crate) fn check(&self) {
        for source in self.sources.values() {
            source.taken.check();
            assert!(
                source
                    .taken
                    .first()
                    .is_none_or(|first| first >= source.floor),
                "nothing below the floor is remembered"
            );
        }
    }
}
