//! What the operator has ordered for the next start: the file `DATA/repair`.
//!
//! ```text
//! courser repair 1
//! missing PARTITION FIRST [SEGMENT BYTE]   entries from FIRST on are lost: go on with those before
//! doubt PARTITION AFTER [SEGMENT BYTE]     entries after AFTER may be lost: go on with what is there
//! state PARTITION CHECKPOINT               the checkpoint at that entry is lost: begin with nothing
//! records PARTITION FIRST LAST             records of these entries are lost: streams go on behind them
//! skip PARTITION INDEX [TERM]              the entry is not applied; TERM was the last that had been led
//! release PARTITION [CAUSE]                nothing is refused for its filters while it is set aside for this: `missing FIRST [SEGMENT BYTE]`,
//!                                          `doubt AFTER [SEGMENT BYTE]`, `state CHECKPOINT` or `apply INDEX`
//! end CHECKSUM
//! ```
//! Each order names exactly what it is for, so that another damage is never accepted by an old order. Who goes on without entries writes
//! others at their indexes: SEGMENT and BYTE are where the last batch was lost of which the partition lacks something, and what is
//! written later lies behind it. An order of an earlier build has none, and so is for no damage of which that place is known. In the same way a
//! release of an earlier build, which names no cause, is for none.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{Place, SegmentNumber};

const HEAD: &str = "courser repair 1";

/// For what exactly a partition is set aside: what is equal is one damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Entries from this one on are lost, the last of them there.
    Missing(LogIndex, Option<Place>),
    /// Entries after this one may be lost, the last of them there.
    Doubt(LogIndex, Option<Place>),
    /// Its checkpoint at this entry is lost, or the manifest of that.
    State(LogIndex),
    /// The entry makes the program panic when it is applied.
    Apply(LogIndex),
}

impl Cause {
    /// The order by which the partition goes on in spite of it.
    #[must_use]
    pub const fn ends_by(self, id: PartitionId) -> Order {
        match self {
            Self::Missing(first, at) => Order::Missing(id, first, at),
            Self::Doubt(after, at) => Order::Doubt(id, after, at),
            Self::State(at) => Order::State(id, at),
            Self::Apply(index) => Order::Skip(id, index, None),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(first, at) => {
                write!(f, "missing {}", first.0)?;
                write_place(f, *at)
            }
            Self::Doubt(after, at) => {
                write!(f, "doubt {}", after.0)?;
                write_place(f, *at)
            }
            Self::State(at) => write!(f, "state {}", at.0),
            Self::Apply(index) => write!(f, "apply {}", index.0),
        }
    }
}

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
    /// The entry is not applied. When that was ordered, this was the last term that had been led: what is of a later one was decided without
    /// the entry. None: of an earlier build.
    Skip(PartitionId, LogIndex, Option<Term>),
    /// While it is set aside for this, nothing is refused for its filters. None: of an earlier build, and good for nothing any more.
    Release(PartitionId, Option<Cause>),
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
            | Self::Skip(id, ..)
            | Self::Release(id, _) => id,
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
            // The term says nothing to people.
            Self::Skip(id, index, _) => write!(f, "skip {} {}", id.0, index.0),
            Self::Release(id, None) => write!(f, "release {}", id.0),
            Self::Release(id, Some(cause)) => write!(f, "release {} {cause}", id.0),
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

    /// Whether nothing is refused for a partition that is set aside for this.
    pub(crate) fn releases(&self, id: PartitionId, cause: Cause) -> bool {
        self.has(Order::Release(id, Some(cause)))
    }

    /// Nothing is released any more of a partition for which something else is ordered.
    pub(crate) fn take_back_release(&mut self, id: PartitionId) {
        self.0
            .retain(|order| !matches!(order, Order::Release(of, _) if *of == id));
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
            | Order::Release(..) => None,
        });
        ranges.collect()
    }

    /// Entries of a partition that are not applied.
    pub(crate) fn skips(&self, id: PartitionId) -> BTreeSet<LogIndex> {
        let orders = self.0.iter();
        let skips = orders.filter_map(|order| match *order {
            Order::Skip(of, index, _) if of == id => Some(index),
            Order::Skip(..)
            | Order::Missing(..)
            | Order::Doubt(..)
            | Order::State(..)
            | Order::Records(..)
            | Order::Release(..) => None,
        });
        skips.collect()
    }

    /// The file.
    pub(crate) fn encode(&self) -> String {
        let mut text = format!("{HEAD}\n");
        for order in &self.0 {
            let _ = match order {
                Order::Skip(_, _, Some(term)) => writeln!(text, "{order} {}", term.0),
                _ => writeln!(text, "{order}"),
            };
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
    let mut words = line.split(' ');
    let (what, id) = (words.next()?, words.next()?);
    let id = PartitionId(id.parse().ok()?);
    if what == "release" {
        return Some(match words.next() {
            None => Order::Release(id, None),
            Some(kind) => Order::Release(id, Some(cause(kind, &numbers(words)?)?)),
        });
    }
    let numbers = numbers(words)?;
    Some(match (what, numbers.as_slice()) {
        ("missing" | "doubt" | "state", numbers) => cause(what, numbers)?.ends_by(id),
        ("records", &[first, last]) => Order::Records(id, LogIndex(first), LogIndex(last)),
        ("skip", &[index]) => Order::Skip(id, LogIndex(index), None),
        ("skip", &[index, term]) => Order::Skip(id, LogIndex(index), Some(Term(term))),
        _ => return None,
    })
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Option<Vec<u64>> {
    words.map(|word| word.parse().ok()).collect()
}

fn cause(kind: &str, numbers: &[u64]) -> Option<Cause> {
    let at = |segment, offset| {
        let segment = SegmentNumber(segment);
        Some(Place { segment, offset })
    };
    Some(match (kind, numbers) {
        ("missing", &[first]) => Cause::Missing(LogIndex(first), None),
        ("missing", &[first, segment, byte]) => Cause::Missing(LogIndex(first), at(segment, byte)),
        ("doubt", &[after]) => Cause::Doubt(LogIndex(after), None),
        ("doubt", &[after, segment, byte]) => Cause::Doubt(LogIndex(after), at(segment, byte)),
        ("state", &[at]) => Cause::State(LogIndex(at)),
        ("apply", &[index]) => Cause::Apply(LogIndex(index)),
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
            Order::Skip(id, at(u64::MAX), None),
            Order::Skip(id, at(8), Some(Term(5))),
            Order::Release(PartitionId(16), None),
            Order::Release(id, Some(Cause::Missing(at(10), Some(place)))),
            Order::Release(id, Some(Cause::Missing(at(10), None))),
            Order::Release(id, Some(Cause::Doubt(at(0), Some(place)))),
            Order::Release(id, Some(Cause::State(at(7)))),
            Order::Release(id, Some(Cause::Apply(at(8)))),
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
        let mut text =
            "courser repair 1\nmissing 3 10\ndoubt 3 0\nstate 3 7\nskip 3 8\nrelease 3\n"
                .to_owned();
        let checksum = crc32c::crc32c(text.as_bytes());
        let _ = writeln!(text, "end {checksum:08x}");
        let (id, at) = (PartitionId(3), LogIndex);
        let orders = Orders(BTreeSet::from([
            Order::Missing(id, at(10), None),
            Order::Doubt(id, at(0), None),
            Order::State(id, at(7)),
            Order::Skip(id, at(8), None),
            Order::Release(id, None),
        ]));
        for cause in [Cause::Missing(at(10), None), Cause::Apply(at(8))] {
            assert!(
                !orders.releases(id, cause),
                "it does not say which it is for"
            );
        }
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
