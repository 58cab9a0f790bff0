//! A snapshot as consensus sees it: not the state, but where it is (M43).

use bytes::{BufMut, Bytes, BytesMut};
use courser_contract::{LogIndex, Term};
use courser_log::LiveEntries;

/// A checkpoint, and which entries at or below its index still hold live records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotDescriptor {
    /// The sender's number of the checkpoint.
    pub checkpoint: u64,
    /// The state is valid at this index.
    pub index: LogIndex,
    /// Term of the entry at that index.
    pub term: Term,
    /// Entries at or below that index with live records. A node has the snapshot when it has those, too.
    pub live: LiveEntries,
}

/// Bytes of a range.
const RANGE: usize = 16;

impl SnapshotDescriptor {
    /// What the library carries beside index and term.
    pub(crate) fn data(&self) -> Bytes {
        let mut data = BytesMut::with_capacity(8 + self.live.count() * RANGE);
        data.put_u64_le(self.checkpoint);
        for (first, last) in self.live.ranges() {
            data.put_u64_le(first.0);
            data.put_u64_le(last.0);
        }
        data.freeze()
    }

    /// The descriptor of what [`data`](Self::data) made; none when it did not.
    pub(crate) fn of_data(index: LogIndex, term: Term, data: &[u8]) -> Option<Self> {
        let (checkpoint, ranges) = data.split_first_chunk::<8>()?;
        let (ranges, rest) = ranges.as_chunks::<RANGE>();
        let mut live = LiveEntries::NONE;
        for range in ranges {
            let (first, last) = range.split_at(8);
            live.push_range(number(first), number(last));
        }
        rest.is_empty().then(|| Self {
            checkpoint: u64::from_le_bytes(*checkpoint),
            index,
            term,
            live,
        })
    }
}

fn number(bytes: &[u8]) -> LogIndex {
    let bytes = bytes.try_into().expect("half a range is eight bytes");
    LogIndex(u64::from_le_bytes(bytes))
}
