//! Summaries: what the log has to know of a segment that is full, in a file beside it, so that a start need not read the segment.
//!
//! A summary says nothing that the segment does not say: whoever has none, or one that does not fit, reads the segment. So it is never
//! synced, and that it cannot be written is no failure. It fits when the last batch of the segment is the one that it names by place and
//! checksum: what is in front of a batch is never written again before the file gets another number.
//!
//! A segment that is known to be damaged has none: the next start looks at that damage again.

use std::{
    collections::BTreeMap,
    io::{self, IoSlice},
    sync::Arc,
};

use courser_contract::{LogIndex, PartitionId};
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout,
    little_endian::{U16, U32, U64},
};

#[cfg(test)]
mod tests;

use crate::{
    config::SEGMENT_BYTES_MAX,
    disk::{Disk, DiskFile},
    format::{
        NUMBER_MAX, SUMMARY_MAGIC, SUMMARY_VERSION, SummaryHeader, SummaryPartition, SummaryRun,
    },
    ids::{NodeIdentity, Place, SegmentNumber},
    kept::KeptEntries,
    places::RunFound,
};

/// A longer one is neither written nor read. A segment of the usual size has some 100 KiB, one of 16 GiB some 30 MiB.
const SUMMARY_BYTES_MAX: u64 = 128 << 20;

/// What the log has to know of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) node: NodeIdentity,
    pub(crate) segment: SegmentNumber,
    /// Byte of its last batch, and the checksum of that one's header.
    pub(crate) last_at: u64,
    pub(crate) last_crc: u32,
    /// Segments of which it says that all that was needed of them was moved.
    pub(crate) cleaned: Vec<SegmentNumber>,
    pub(crate) partitions: BTreeMap<PartitionId, OfPartition>,
}

/// What it has of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfPartition {
    /// Lowest and highest index of its entries, pieces of entries included.
    pub(crate) range: Option<(LogIndex, LogIndex)>,
    /// Entries that begin in it, without what was replaced.
    pub(crate) runs: Vec<RunFound>,
    /// Places of the entries among those that lie in pieces, in the same order.
    pub(crate) pieces: Vec<Vec<Place>>,
    /// Entries of which it has kept records.
    pub(crate) kept: Arc<KeptEntries>,
    /// Batches with those.
    pub(crate) kept_at: Vec<Place>,
}

impl Summary {
    /// Where its last batch is.
    pub(crate) const fn last(&self) -> Place {
        Place {
            segment: self.segment,
            offset: self.last_at,
        }
    }

    /// Writes it. Without one a start reads the segment, so that this fails is of no account.
    pub(crate) fn write<D: Disk>(&self, disk: &D) {
        let bytes = self.encode();
        if bytes.len() as u64 > SUMMARY_BYTES_MAX {
            return;
        }
        let file = disk.create(&self.segment.summary_name());
        let written = file.and_then(|file| file.write_at(&[IoSlice::new(&bytes)], 0));
        if written.is_err() {
            // Its room is wanted for more than this.
            forget(disk, self.segment);
        }
    }

    /// The one beside a segment of this node, if there is one and it is whole.
    pub(crate) fn read<D: Disk>(
        disk: &D,
        node: NodeIdentity,
        segment: SegmentNumber,
    ) -> Option<Self> {
        let bytes = bytes_of(disk, segment).ok()??;
        let found = Self::decode(&bytes)?;
        (found.node == node && found.segment == segment).then_some(found)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut header = SummaryHeader::new_zeroed();
        header.magic = SUMMARY_MAGIC;
        header.version = U16::new(SUMMARY_VERSION);
        header.segment = U64::new(self.segment.0);
        header.node = U64::new(self.node.0);
        header.last_at = U64::new(self.last_at);
        header.last_crc = U32::new(self.last_crc);
        header.cleaned = count(self.cleaned.len());
        header.partitions = count(self.partitions.len());
        let mut bytes = header.as_bytes().to_vec();
        for segment in &self.cleaned {
            bytes.extend_from_slice(&segment.0.to_le_bytes());
        }
        for (id, partition) in &self.partitions {
            partition.encode(*id, &mut bytes);
        }
        let crc = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None`: it is not one, not whole, or of another version.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut rest = Rest(body);
        let header: SummaryHeader = rest.one()?;
        if header.magic != SUMMARY_MAGIC || header.version.get() != SUMMARY_VERSION {
            return None;
        }
        let segment = SegmentNumber(header.segment.get());
        let cleaned = rest.many::<U64>(header.cleaned.get())?.iter();
        let cleaned = cleaned.map(|number| SegmentNumber(number.get())).collect();
        let mut partitions = BTreeMap::new();
        for _ in 0..header.partitions.get() {
            let (id, partition) = OfPartition::decode(&mut rest, segment)?;
            partitions.insert(id, partition);
        }
        rest.0.is_empty().then_some(Self {
            node: NodeIdentity(header.node.get()),
            segment,
            last_at: header.last_at.get(),
            last_crc: header.last_crc.get(),
            cleaned,
            partitions,
        })
    }
}

impl OfPartition {
    fn encode(&self, id: PartitionId, bytes: &mut Vec<u8>) {
        let (first, last) = self.range.unwrap_or((LogIndex(1), LogIndex(0)));
        let head = SummaryPartition {
            partition: U16::new(id.0),
            reserved: U16::ZERO,
            runs: count(self.runs.len()),
            kept: count(self.kept.runs().count()),
            kept_at: count(self.kept_at.len()),
            first: U64::new(first.0),
            last: U64::new(last.0),
        };
        bytes.extend_from_slice(head.as_bytes());
        let mut pieces = self.pieces.iter();
        for run in &self.runs {
            let places = if run.in_pieces { pieces.next() } else { None };
            let places = places.map_or(&[][..], |places| places);
            let run = SummaryRun {
                first: U64::new(run.first.0),
                last: U64::new(run.last.0),
                offset: U64::new(run.place.offset),
                pieces: U64::new(places.len() as u64),
            };
            bytes.extend_from_slice(run.as_bytes());
            for place in places {
                bytes.extend_from_slice(&place.segment.0.to_le_bytes());
                bytes.extend_from_slice(&place.offset.to_le_bytes());
            }
        }
        for (first, last) in self.kept.runs() {
            bytes.extend_from_slice(&first.0.to_le_bytes());
            bytes.extend_from_slice(&last.0.to_le_bytes());
        }
        for place in &self.kept_at {
            bytes.extend_from_slice(&place.offset.to_le_bytes());
        }
    }

    fn decode(rest: &mut Rest<'_>, segment: SegmentNumber) -> Option<(PartitionId, Self)> {
        let head: SummaryPartition = rest.one()?;
        let (first, last) = (head.first.get(), head.last.get());
        let mut found = Self {
            range: (first <= last).then_some((LogIndex(first), LogIndex(last))),
            ..Self::default()
        };
        for _ in 0..head.runs.get() {
            let run: SummaryRun = rest.one()?;
            let pieces = run.pieces.get();
            found.runs.push(RunFound {
                first: LogIndex(run.first.get()),
                last: LogIndex(run.last.get()),
                place: Place {
                    segment,
                    offset: run.offset.get(),
                },
                in_pieces: pieces > 0,
            });
            if pieces > 0 {
                let places = rest.many::<[U64; 2]>(u32::try_from(pieces).ok()?)?.iter();
                let places = places.map(|[segment, offset]| Place {
                    segment: SegmentNumber(segment.get()),
                    offset: offset.get(),
                });
                found.pieces.push(places.collect());
            }
        }
        let mut kept = KeptEntries::default();
        for [first, last] in rest.many::<[U64; 2]>(head.kept.get())? {
            kept.add(LogIndex(first.get()), LogIndex(last.get()));
        }
        found.kept = Arc::new(kept);
        let kept_at = rest.many::<U64>(head.kept_at.get())?.iter();
        let place = |offset: &U64| Place {
            segment,
            offset: offset.get(),
        };
        found.kept_at = kept_at.map(place).collect();
        if !found.is_sound() {
            return None;
        }
        Arc::make_mut(&mut found.kept).close();
        Some((PartitionId(head.partition.get()), found))
    }

    /// Whether its numbers are ones that are given.
    fn is_sound(&self) -> bool {
        let sound =
            |first: LogIndex, last: LogIndex| 1 <= first.0 && first <= last && last.0 <= NUMBER_MAX;
        let mut runs = self.runs.iter();
        let mut places = self.pieces.iter().flatten().chain(&self.kept_at);
        self.range.is_none_or(|(first, last)| sound(first, last))
            && runs.all(|run| sound(run.first, run.last) && is_in_a_segment(&run.place))
            && places.all(is_in_a_segment)
            && self.kept.runs().all(|(first, last)| sound(first, last))
    }
}

fn is_in_a_segment(place: &Place) -> bool {
    place.offset < SEGMENT_BYTES_MAX && place.segment.0 <= NUMBER_MAX
}

/// A summary is no longer to be believed, or its segment is no more. Without one the next start reads the segment.
pub(crate) fn forget<D: Disk>(disk: &D, segment: SegmentNumber) {
    // One that stays although it does not fit is found not to.
    let _removed = disk.remove(&segment.summary_name());
}

fn bytes_of<D: Disk>(disk: &D, segment: SegmentNumber) -> io::Result<Option<Vec<u8>>> {
    let file = disk.open(&segment.summary_name())?;
    let len = file.len()?;
    let Some(len) = usize::try_from(len)
        .ok()
        .filter(|_| len <= SUMMARY_BYTES_MAX)
    else {
        return Ok(None);
    };
    let mut bytes = vec![0; len];
    file.read_at(&mut bytes, 0)?;
    Ok(Some(bytes))
}

fn count(len: usize) -> U32 {
    U32::new(u32::try_from(len).expect("a segment has fewer than 2^32 of anything"))
}

/// What is left to be decoded. Nothing is taken that is not there.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn one<T: FromBytes>(&mut self) -> Option<T> {
        let (one, rest) = T::read_from_prefix(self.0).ok()?;
        self.0 = rest;
        Some(one)
    }

    fn many<T: FromBytes + KnownLayout + Immutable>(&mut self, count: u32) -> Option<&'a [T]> {
        let (many, rest) = <[T]>::ref_from_prefix_with_elems(self.0, count as usize).ok()?;
        self.0 = rest;
        Some(many)
    }
}
