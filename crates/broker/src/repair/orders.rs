//! What the operator has ordered for the next start: the file `DATA/repair`.
//!
//! ```text
//! courser repair 1
//! missing PARTITION FIRST [SEGMENT BYTE]   entries from FIRST on are lost: go on with those before
//! doubt PARTITION AFTER [SEGMENT BYTE]     entries after AFTER may be lost: go on with what is there
//! state PARTITION CHECKPOINT               the checkpoint at that entry is lost: begin with nothing
//! records PARTITION FIRST LAST             records of these entries are lost: streams go on behind them
//! skip PARTITION INDEX                     the entry is not applied
//! release PARTITION                        nothing is refused for its filters
//! end CHECKSUM
//! ```
//! Each order names exactly what it is for, so that another damage is never accepted by an old order. Who goes on without entries writes
//! others at their indexes: SEGMENT and BYTE are where the last batch was lost of which the partition lacks something, and what is
//! written later lies behind it. An order of an earlier build has none, and so is for no damage of which that place is known.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use courser_contract::{LogIndex, PartitionId};
use courser_log::{Place, SegmentNumber};

const HEAD: &str = "courser repair 1";

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Entries from this one on are lost, the last of them there: the partition goes on with those before.
    Missing(PartitionId, LogIndex, Option<Place>),
    /// Entries after this one may be lost, the last of them there: it goes on with what is there.
    Doubt(PartitionId, LogIndex, Option<Place>),
    /// Its checkpoint at this entry is lost, and with it its state: it begins with nothing.
    State(PartitionId, LogIndex),
    /// Records that these entries brought are lost: streams go on behind them.
    Records(PartitionId, LogIndex, LogIndex),
    /// The entry is not applied.
    Skip(PartitionId, LogIndex),
    /// While it is set aside, nothing is refused for its filters.
    Release(PartitionId),
}

impl Order {
    /// Of which partition.
    #[must_use]
    pub const fn partition(self) -> PartitionId {
        match self {
            Self::Missing(id, ..)
            | Self::Doubt(id, ..)
            | Self::State(id, _)
            | Self::Records(id, ..)
            | Self::Skip(id, _)
            | Self::Release(id) => id,
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(id, first, at) => {
                write!(f, "missing {} {}", id.0, first.0)?;
                write_place(f, *at)
            }
            Self::Doubt(id, after, at) => {
                write!(f, "doubt {} {}", id.0, after.0)?;
                write_place(f, *at)
            }
            Self::State(id, at) => write!(f, "state {} {}", id.0, at.0),
            Self::Records(id, first, last) => {
                write!(f, "records {} {} {}", id.0, first.0, last.0)
            }
            Self::Skip(id, index) => write!(f, "skip {} {}", id.0, index.0),
            Self::Release(id) => write!(f, "release {}", id.0),
        }
    }
}

fn write_place(f: &mut fmt::Formatter<'_>, at: Option<Place>) -> fmt::Result {
    at.map_or(Ok(()), |at| write!(f, " {} {}", at.segment.0, at.offset))
}

/// All orders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Orders(pub(crate) BTreeSet<Order>);

impl Orders {
    /// Whether something is ordered.
    pub(crate) fn has(&self, order: Order) -> bool {
        self.0.contains(&order)
    }

    /// Records of a partition that were accepted to be lost, as ranges of entries.
    pub(crate) fn records(&self, id: PartitionId) -> Vec<(LogIndex, LogIndex)> {
        let orders = self.0.iter();
        let ranges = orders.filter_map(|order| match *order {
            Order::Records(of, first, last) if of == id => Some((first, last)),
            Order::Records(..)
            | Order::Missing(..)
            | Order::Doubt(..)
            | Order::State(..)
            | Order::Skip(..)
            | Order::Release(_) => None,
        });
        ranges.collect()
    }

    /// Entries of a partition that are not applied.
    pub(crate) fn skips(&self, id: PartitionId) -> BTreeSet<LogIndex> {
        let orders = self.0.iter();
        let skips = orders.filter_map(|order| match *order {
            Order::Skip(of, index) if of == id => Some(index),
            Order::Skip(..)
            | Order::Missing(..)
            | Order::Doubt(..)
            | Order::State(..)
            | Order::Records(..)
            | Order::Release(_) => None,
        });
        skips.collect()
    }

    /// The file.
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for order in &self.0 {
            let _ = writeln!(text, "{order}");
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "end {checksum:08x}");
        text
    }

    /// Of a file; none when it is not one that was written.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let (body, end) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let checksum = end.strip_prefix("end ")?;
        let checksum = u32::from_str_radix(checksum, 16).ok()?;
        let checked = &text[..=body.len()];
        if crc32c::crc32c(checked.as_bytes()) != checksum {
            return None;
        }
        let mut lines = body.lines();
        (lines.next()? == HEAD).then_some(())?;
        let orders: Option<BTreeSet<Order>> = lines.map(order).collect();
        orders.map(Self)
    }
}

fn order(line: &str) -> Option<Order> {
    let (what, numbers) = line.split_once(' ')?;
    let (id, numbers) = numbers.split_once(' ').unwrap_or((numbers, ""));
    let id = PartitionId(id.parse().ok()?);
    let numbers: Result<Vec<u64>, _> = numbers.split_terminator(' ').map(str::parse).collect();
    let at = |segment, offset| {
        let segment = SegmentNumber(segment);
        Some(Place { segment, offset })
    };
    Some(match (what, numbers.ok()?.as_slice()) {
        ("missing", &[first]) => Order::Missing(id, LogIndex(first), None),
        ("missing", &[first, segment, byte]) => {
            Order::Missing(id, LogIndex(first), at(segment, byte))
        }
        ("doubt", &[after]) => Order::Doubt(id, LogIndex(after), None),
        ("doubt", &[after, segment, byte]) => Order::Doubt(id, LogIndex(after), at(segment, byte)),
        ("state", &[at]) => Order::State(id, LogIndex(at)),
        ("records", &[first, last]) => Order::Records(id, LogIndex(first), LogIndex(last)),
        ("skip", &[index]) => Order::Skip(id, LogIndex(index)),
        ("release", &[]) => Order::Release(id),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Orders {
        let (id, at) = (PartitionId(3), LogIndex);
        let place = Place {
            segment: SegmentNumber(7),
            offset: 4096,
        };
        Orders(BTreeSet::from([
            Order::Missing(id, at(10), None),
            Order::Missing(id, at(10), Some(place)),
            Order::Doubt(id, at(0), None),
            Order::Doubt(id, at(0), Some(place)),
            Order::State(id, at(7)),
            Order::Records(id, at(2), at(4)),
            Order::Skip(id, at(u64::MAX)),
            Order::Release(PartitionId(16)),
        ]))
    }

    #[test]
    fn orders_are_read_as_they_were_written() {
        for orders in [Orders::default(), all()] {
            assert_eq!(Orders::decode(&orders.encode()), Some(orders));
        }
    }

    #[test]
    fn orders_of_an_earlier_build_are_read() {
        let mut text = "courser repair 1\nmissing 3 10\ndoubt 3 0\nstate 3 7\n".to_owned();
        let checksum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "end {checksum:08x}");
        let (id, at) = (PartitionId(3), LogIndex);
        let orders = Orders(BTreeSet::from([
            Order::Missing(id, at(10), None),
            Order::Doubt(id, at(0), None),
            Order::State(id, at(7)),
        ]));
        assert_eq!(Orders::decode(&text), Some(orders));
    }

    #[test]
    fn a_file_that_was_changed_orders_nothing() {
        let text = all().encode();
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8_lossy(&bytes);
            assert_eq!(Orders::decode(&changed), None, "byte {at}");
            assert_eq!(Orders::decode(&text[..at]), None, "cut at {at}");
        }
    }
}
