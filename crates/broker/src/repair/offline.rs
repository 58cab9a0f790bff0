//! The damage of a folder that nobody serves, and orders for its next start.
//!
//! The folder is opened as a start opens it: it is locked, the start is counted, a torn end is cut. Partitions are made as a
//! start makes them and thrown away, so that what is said is what the next start would do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use courser_contract::{LogIndex, PartitionId, Term};
use courser_engine::{LostReference, Partition, left_of_skipped};
use courser_log::inspect::SegmentInspector;
use courser_log::{
    CheckpointStore, LiveEntries, Log, LogConfig, RealFile, Recovered, RecoveredPartition,
    SegmentNumber,
};

use super::judge::{Fault, Given, Serves};
use super::orders::{Cause, Order, Orders};
use super::state::{SetAside, StoppedStream, by_stream};
use crate::causes::with_causes;
use crate::node::{DataFolder, FolderError, layout};
use crate::partition_limits::PartitionLimits;
use crate::shard::making::{Made, MadeFor, Making, is_of_partition};
use crate::slots::{Places, Relaxed};
use crate::stations::{DiskFailure, Medium, found_in};

/// Segments of a folder that has none, or none with an intact header.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Why a folder cannot be examined or repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// There is none.
    #[error("{} is no data folder: there is no file `node` in it", path.display())]
    NoFolder {
        /// What was named.
        path: PathBuf,
    },
    /// It cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Its files cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The log refuses to open.
    #[error("{0}")]
    Log(DiskFailure),
    /// Nothing to do it to.
    #[error("partition {} {}", partition.0, why)]
    Nothing {
        /// Of which partition it was wanted.
        partition: PartitionId,
        /// What is not so.
        why: &'static str,
    },
    /// An entry cannot be applied any more.
    #[error(
        "partition {} has served without entry {}: what came later was decided without it, so that it can be applied no more. Put the \
         folder back from a backup of before, if the entry is needed", partition.0, index.0
    )]
    Decided {
        /// Of which partition.
        partition: PartitionId,
        /// The entry.
        index: LogIndex,
    },
}

/// What was found in a folder.
#[derive(Clone, Debug, Default)]
pub struct Examined {
    /// What the log said, for people.
    pub report: String,
    /// What is damaged, by partition. What was ordered is not taken into account.
    pub findings: Vec<Finding>,
    /// What is ordered: see [`Examined::standing`].
    pub orders: Vec<Order>,
    /// Of that, entries that starts have not applied.
    pub skipped: Vec<Order>,
}

/// What becomes of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The next start obeys.
    Next,
    /// A start has obeyed, and those to come do.
    Obeyed,
    /// Each start obeys that finds the partition set aside for this.
    WhileAside,
    /// There is nothing left that it is for.
    Over,
}

impl Examined {
    /// What becomes of one of the orders.
    #[must_use]
    pub fn standing(&self, order: Order) -> Standing {
        match order {
            Order::Skip(..) if self.skipped.contains(&order) => Standing::Obeyed,
            Order::Skip(..) => Standing::Next,
            Order::Release(id, cause) => match cause.is_some_and(|it| self.is_aside(id, it)) {
                true => Standing::WhileAside,
                false => Standing::Over,
            },
            Order::Missing(..) | Order::Doubt(..) | Order::State(..) | Order::Records(..) => {
                let mut ends = self.findings.iter().flat_map(Finding::ends_by);
                match ends.any(|it| it == order) {
                    true => Standing::Next,
                    false => Standing::Over,
                }
            }
        }
    }

    /// Whether a partition is set aside for this.
    fn is_aside(&self, id: PartitionId, cause: Cause) -> bool {
        let mut aside = self.findings.iter();
        aside.any(|it| match it {
            Finding::Aside(aside) => aside.partition == id && aside.fault.cause() == cause,
            Finding::Stopped { .. } => false,
        })
    }
}

/// What starts have done with the partitions of a folder.
#[derive(Debug, Default)]
struct Led {
    /// The last term of each partition.
    terms: BTreeMap<PartitionId, Term>,
    /// Entries that the operator has skipped, without which something was decided.
    decided: BTreeSet<(PartitionId, LogIndex)>,
}

impl Led {
    fn of(recovered: &Recovered, orders: &Orders) -> Self {
        let partitions = recovered.partitions.iter();
        let terms = partitions.map(|(id, found)| (*id, last_term(found)));
        let skips = orders.0.iter().filter_map(|order| match *order {
            Order::Skip(id, index, since) => Some((id, index, since)),
            Order::Missing(..)
            | Order::Doubt(..)
            | Order::State(..)
            | Order::Records(..)
            | Order::Release(..) => None,
        });
        let decided = skips.filter(|(id, index, since)| {
            let found = recovered.partitions.get(id);
            found.is_some_and(|found| is_decided_without(found, *index, *since))
        });
        Self {
            terms: terms.collect(),
            decided: decided.map(|(id, index, _)| (id, index)).collect(),
        }
    }

    fn term(&self, id: PartitionId) -> Term {
        self.terms.get(&id).copied().unwrap_or(Term(0))
    }

    /// Whether a start has led a partition without an entry.
    fn is_obeyed(&self, order: Order) -> bool {
        match order {
            Order::Skip(id, index, since) => {
                let is_led = since.is_some_and(|since| self.term(id) > since);
                is_led || self.decided.contains(&(id, index))
            }
            Order::Missing(..)
            | Order::Doubt(..)
            | Order::State(..)
            | Order::Records(..)
            | Order::Release(..) => false,
        }
    }
}

fn last_term(found: &RecoveredPartition) -> Term {
    let entries = found.entries.iter().chain(&found.behind);
    let entries = entries.map(|entry| entry.term);
    let all = entries.chain(found.checkpoint.map(|at| at.term));
    all.max().unwrap_or(Term(0)).max(found.hard_state.term)
}

/// Whether something was decided after an entry was skipped: it is of a later term than the last one before the order. Entries without
/// data decide nothing: a term begins with one. A partition that is set aside is not saved, so a checkpoint behind the entry is one without it.
fn is_decided_without(found: &RecoveredPartition, index: LogIndex, since: Option<Term>) -> bool {
    if found.checkpoint.is_some_and(|at| at.index >= index) {
        return true;
    }
    let entries = || found.entries.iter().chain(&found.behind);
    // An earlier build has not said since when.
    let since = since.or_else(|| {
        let skipped = entries().find(|entry| entry.index == index);
        skipped.map(|entry| entry.term)
    });
    entries()
        .filter(|entry| entry.index > index && is_of_partition(entry))
        .any(|entry| since.is_none_or(|since| entry.term > since))
}

/// A damage, and which order ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A partition is set aside.
    Aside(SetAside),
    /// Streams of a partition stop at records that are lost, with the entries that brought those.
    Stopped {
        /// Where.
        partition: PartitionId,
        /// Which.
        streams: Vec<StoppedStream>,
        /// Ranges of entries, both ends included.
        entries: LiveEntries,
    },
}

impl Finding {
    /// Where it is.
    #[must_use]
    pub const fn partition(&self) -> PartitionId {
        match self {
            Self::Aside(aside) => aside.partition,
            Self::Stopped { partition, .. } => *partition,
        }
    }

    /// The orders that end it.
    #[must_use]
    pub fn ends_by(&self) -> Vec<Order> {
        match self {
            Self::Aside(aside) => vec![aside.fault.ends_by(aside.partition)],
            Self::Stopped {
                partition, entries, ..
            } => {
                let ranges = entries.ranges();
                ranges
                    .map(|(first, last)| Order::Records(*partition, first, last))
                    .collect()
            }
        }
    }

    /// Whether it ends by accepting that something is lost: a panic is not a loss.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        match self {
            Self::Aside(SetAside {
                fault: Fault::Apply(_),
                ..
            }) => false,
            Self::Aside(_) | Self::Stopped { .. } => true,
        }
    }
}

/// What the operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Go on without what is lost; everywhere, or in one partition.
    AcceptLoss(Option<PartitionId>),
    /// Apply the entry that made the program panic once more.
    Retry(PartitionId),
    /// Go on without the entry that made the program panic.
    Skip(PartitionId),
    /// Refuse nothing for the filters of a partition that is set aside.
    Release(PartitionId),
}

/// Says what is damaged in a data folder.
///
/// # Errors
/// When there is no folder, it is in use, or its log does not open at all.
pub fn examine(path: &Path) -> Result<Examined, RepairError> {
    let folder = open(path)?;
    examine_folder(&folder).map(|(examined, _)| examined)
}

/// Orders something for the next start of a folder. Gives what is damaged, and all that is ordered then.
///
/// # Errors
/// As [`examine`], and when there is nothing in the partition to do it to.
pub fn repair(path: &Path, verb: Verb) -> Result<Examined, RepairError> {
    let folder = open(path)?;
    let mut given = folder.given()?;
    let (mut examined, led) = examine_folder(&folder)?;
    // An order that ends nothing any more was obeyed.
    given
        .orders
        .0
        .retain(|order| examined.standing(*order) != Standing::Over);
    obey(verb, &examined.findings, &led, &mut given)?;
    forget_lost(&mut given);
    folder.give(&given)?;
    examined.orders = given.orders.0.iter().copied().collect();
    examined.skipped = skipped(&examined.orders, &led);
    Ok(examined)
}

/// Those of the orders by which entries were not applied.
fn skipped(orders: &[Order], led: &Led) -> Vec<Order> {
    let orders = orders.iter().copied();
    orders.filter(|order| led.is_obeyed(*order)).collect()
}

/// Of entries that are lost nothing is kept in mind: others take their indexes.
fn forget_lost(given: &mut Given) {
    let orders = given.orders.0.iter();
    let lost: Vec<_> = orders
        .filter_map(|order| match *order {
            Order::Missing(id, first, _) => Some((id, first)),
            Order::Doubt(id, after, _) => Some((id, after.next())),
            Order::State(..) | Order::Records(..) | Order::Skip(..) | Order::Release(..) => None,
        })
        .collect();
    for (id, first) in lost {
        given.crashes.forget_from(id, first);
        given.orders.0.retain(|order| match order {
            Order::Skip(of, index, _) => *of != id || *index < first,
            Order::Missing(..)
            | Order::Doubt(..)
            | Order::State(..)
            | Order::Records(..)
            | Order::Release(..) => true,
        });
    }
}

/// Whatever else is ordered for a partition takes its release back: that was for as long as it is set aside.
fn obey(verb: Verb, findings: &[Finding], led: &Led, given: &mut Given) -> Result<(), RepairError> {
    let nothing = |partition, why| RepairError::Nothing { partition, why };
    let panics = |id| {
        let mut found = findings.iter();
        found.any(|it| it.partition() == id && !it.is_loss())
    };
    match verb {
        Verb::AcceptLoss(only) => {
            let meant = findings.iter().filter(|it| it.is_loss());
            let meant = meant.filter(|it| only.is_none_or(|id| it.partition() == id));
            let orders: Vec<Order> = meant.flat_map(Finding::ends_by).collect();
            if let (Some(id), true) = (only, orders.is_empty()) {
                return Err(nothing(id, "has lost nothing"));
            }
            for order in &orders {
                given.orders.take_back_release(order.partition());
            }
            given.orders.0.extend(orders);
        }
        Verb::Retry(id) => {
            let is_decided = |index: &LogIndex| led.decided.contains(&(id, *index));
            let skips = given.orders.skips(id).into_iter();
            let (kept, retried): (BTreeSet<_>, BTreeSet<_>) = skips.partition(is_decided);
            if let Some(index) = kept.first().copied()
                && retried.is_empty()
                && !panics(id)
            {
                let partition = id;
                return Err(RepairError::Decided { partition, index });
            }
            let had = given.crashes.forget(id);
            if !had && retried.is_empty() {
                return Err(nothing(id, "has made no panic"));
            }
            given.orders.take_back_release(id);
            given.orders.0.retain(
                |order| !matches!(order, Order::Skip(of, index, _) if *of == id && retried.contains(index)),
            );
        }
        Verb::Skip(id) => {
            if !panics(id) {
                return Err(nothing(id, "is not set aside for a panic"));
            }
            given.orders.take_back_release(id);
            let meant = findings.iter().filter(|it| it.partition() == id);
            let orders = meant.flat_map(Finding::ends_by);
            given.orders.0.extend(orders.map(|order| match order {
                Order::Skip(id, index, _) => Order::Skip(id, index, Some(led.term(id))),
                order => order,
            }));
        }
        Verb::Release(id) => {
            let mut causes = findings.iter().filter_map(|it| match it {
                Finding::Aside(aside) if aside.partition == id => Some(aside.fault.cause()),
                Finding::Aside(_) | Finding::Stopped { .. } => None,
            });
            let Some(cause) = causes.next() else {
                return Err(nothing(id, "is not set aside"));
            };
            given.orders.0.insert(Order::Release(id, Some(cause)));
        }
    }
    Ok(())
}

fn open(path: &Path) -> Result<DataFolder, RepairError> {
    if !path.join(layout::NODE).is_file() {
        let path = path.to_owned();
        return Err(RepairError::NoFolder { path });
    }
    // The number of partitions is that of the folder.
    Ok(DataFolder::open(path, 1, Relaxed::None)?)
}

fn examine_folder(folder: &DataFolder) -> Result<(Examined, Led), RepairError> {
    let given = folder.given()?;
    // Entries that are not applied stay so; what was accepted is said again, until a start has obeyed.
    let skips = given.orders.0.iter().copied();
    let judged = Given {
        orders: Orders(skips.filter(|it| matches!(it, Order::Skip(..))).collect()),
        crashes: given.crashes.clone(),
    };
    let read =
        |path: PathBuf| Medium::open(&path).map_err(|source| RepairError::Read { path, source });
    let refused =
        |error: &dyn std::error::Error| RepairError::Log(DiskFailure::Refused(with_causes(error)));
    let bytes = segment_bytes(&folder.log())?;
    let mut config = LogConfig::new(folder.identity(), bytes).map_err(|error| refused(&error))?;
    // What is damaged gets no summary then, so that the next start sees what is said here.
    config.reads_all = true;
    let (store, loaded) = CheckpointStore::look(read(folder.checkpoints())?, folder.identity())
        .map_err(|error| refused(&error))?;
    let (mut log, recovered) = Log::open(
        read(folder.log())?,
        config,
        folder.start(),
        &loaded.manifests,
    )
    .map_err(|error| refused(&error))?;
    let report = recovered.report.to_string();
    let led = Led::of(&recovered, &given.orders);
    let places = Places::new(folder.node().partitions, 1, folder.node().relaxed);
    let found = found_in(
        (&mut log, &store),
        (recovered, &loaded),
        (&judged, folder.node().start),
        &places,
    )
    .map_err(RepairError::Log)?;
    let limits = PartitionLimits::ordinary(&places);
    let mut findings = Vec::new();
    for found in found {
        let mut making = Making::new(found);
        let made = loop {
            let made = making.go_on(&places, &limits);
            let made = made.map_err(|error| {
                let failure = DiskFailure::Io(with_causes(&error));
                RepairError::Log(failure)
            })?;
            if let Some(made) = made {
                break made;
            }
        };
        findings.extend(finding(made));
    }
    let orders: Vec<Order> = given.orders.0.into_iter().collect();
    let skipped = skipped(&orders, &led);
    let examined = Examined {
        report,
        findings,
        orders,
        skipped,
    };
    Ok((examined, led))
}

fn finding(made: Made) -> Option<Finding> {
    let id = made.id;
    let partition = made.partition.map(|(partition, _)| partition);
    match made.fate {
        MadeFor::Aside(fault, filters) => {
            let counts = partition.as_ref().map(|it| it.counts()).unwrap_or_default();
            Some(Finding::Aside(SetAside {
                partition: id,
                fault,
                filters,
                applied: partition.map_or(courser_contract::LogIndex(0), |it| it.applied()),
                sessions: counts.sessions,
                retained: counts.retained_messages,
                queued: counts.queued_messages,
            }))
        }
        MadeFor::Group(restored, serves) => {
            let mut partition = partition?;
            if !partition.has_lost() {
                return None;
            }
            // What was taken since the checkpoint is not needed any more.
            let entries = restored.entries.iter();
            for entry in entries.filter(|entry| is_of_partition(entry)) {
                if !apply(&mut partition, entry, &serves) {
                    break;
                }
            }
            stopped(id, &partition.lost())
        }
    }
}

/// False when the entry cannot be applied.
fn apply(partition: &mut Partition, entry: &courser_log::RecoveredEntry, serves: &Serves) -> bool {
    let data = match serves.skips.contains(&entry.index) {
        true => left_of_skipped(&entry.data),
        false => Some(entry.data.clone()),
    };
    let Some(data) = data else {
        return true;
    };
    let applied = catch_unwind(AssertUnwindSafe(|| {
        partition.replay_entry(entry.index, &data).is_ok()
    }));
    applied.unwrap_or(false)
}

fn stopped(id: PartitionId, lost: &[LostReference]) -> Option<Finding> {
    let mut indexes: Vec<_> = lost.iter().map(|it| it.index).collect();
    indexes.sort_unstable();
    let streams = by_stream(lost).map(|(stream, position, records)| StoppedStream {
        partition: id,
        stream,
        position,
        records,
    });
    (!lost.is_empty()).then(|| Finding::Stopped {
        partition: id,
        streams: streams.collect(),
        entries: indexes.into_iter().collect(),
    })
}

/// How large the segments of a folder are, as the newest intact header says: a file may have become longer or shorter than it was made.
fn segment_bytes(log: &Path) -> Result<u64, RepairError> {
    let failed = |source| RepairError::Read {
        path: log.to_owned(),
        source,
    };
    let mut segments = Vec::new();
    for file in fs::read_dir(log).map_err(failed)? {
        let name = file.map_err(failed)?.file_name();
        segments.extend(name.to_str().and_then(SegmentNumber::of_file_name));
    }
    segments.sort_unstable();
    let newest = segments.iter().rev();
    let mut said = newest.filter_map(|segment| said_bytes(&log.join(segment.file_name())));
    Ok(said.next().unwrap_or(SEGMENT_BYTES))
}

/// None where that is not known; why, the log says when it is opened.
fn said_bytes(segment: &Path) -> Option<u64> {
    let file = RealFile::read_only(segment).ok()?;
    let inspector = SegmentInspector::new(file).ok()?;
    Some(inspector.summary().segment_bytes)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use bytes::Bytes;
    use courser_log::{CheckpointAt, FileDisk, Manifests, RecoveredEntry};

    use super::*;
    use crate::repair::crash::{self, Crashes};

    /// A folder that a server serves was refused, for a size that no segment has.
    #[test]
    fn a_file_that_has_become_longer_says_nothing_of_the_size_of_segments() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let open = DataFolder::open(folder.path(), 4, Relaxed::None).expect("a new folder");
        let log = open.log();
        assert_eq!(segment_bytes(&log).expect("it is read"), SEGMENT_BYTES);
        let config = LogConfig::new(open.identity(), 1 << 20).expect("a good size");
        let disk = FileDisk::open(&log).expect("a folder");
        let opened = Log::open(disk, config, open.start(), &Manifests::new());
        drop(opened.expect("an empty log"));
        drop(open);
        let name = log.join(SegmentNumber(1).file_name());
        let mut file = OpenOptions::new()
            .append(true)
            .open(&name)
            .expect("it is there");
        file.write_all(&[b'z'; 100]).expect("written");
        fs::write(log.join(SegmentNumber(2).file_name()), "no header").expect("written");
        assert_eq!(segment_bytes(&log).expect("it is read"), 1 << 20);
        fs::remove_file(log.join(SegmentNumber(2).file_name())).expect("removed");
        let examined = examine(folder.path()).expect("it can be examined");
        assert!(examined.findings.is_empty(), "{}", examined.report);
    }

    /// Other entries take the indexes of those that are lost.
    #[test]
    fn m50_what_is_known_of_entries_goes_when_their_loss_is_accepted() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        let (id, other, at) = (PartitionId(2), PartitionId(3), LogIndex);
        for of in [id, other] {
            for index in [6, 6, 9, 9] {
                crash::note(&path, of, at(index)).expect("there is room");
            }
        }
        for lost in [
            Order::Missing(id, at(9), None),
            Order::Doubt(id, at(8), None),
        ] {
            let skips = [id, other].into_iter();
            let skips =
                skips.flat_map(|of| [Order::Skip(of, at(5), None), Order::Skip(of, at(9), None)]);
            let mut given = Given {
                orders: Orders(skips.chain([lost]).collect()),
                crashes: Crashes::read(&path).expect("it can be read"),
            };
            forget_lost(&mut given);
            assert_eq!(given.orders.skips(id), BTreeSet::from([at(5)]));
            assert_eq!(given.orders.skips(other).len(), 2);
            let bad = |of| given.crashes.bad_entry(of, at(6), |_| false);
            assert_eq!((bad(id), bad(other)), (None, Some(at(9))));
            assert_eq!(
                given.crashes.bad_entry(id, at(0), |_| false),
                Some(at(6)),
                "it is before the loss"
            );
        }
    }

    const ID: PartitionId = PartitionId(2);

    /// A partition with an entry of term 3 after index 4, and one of each of these terms behind it.
    fn entries(checkpoint: u64, later: &[(u64, &'static [u8])]) -> RecoveredPartition {
        let entry = |index, term, data| RecoveredEntry {
            index: LogIndex(index),
            term: Term(term),
            data: Bytes::from_static(data),
        };
        let later = (6..).zip(later);
        let later = later.map(|(index, (term, data))| entry(index, *term, *data));
        RecoveredPartition {
            checkpoint: Some(CheckpointAt {
                index: LogIndex(checkpoint),
                term: Term(2),
            }),
            entries: [entry(5, 3, b"bad")].into_iter().chain(later).collect(),
            ..RecoveredPartition::default()
        }
    }

    #[test]
    fn m50_what_is_decided_behind_a_skipped_entry_is_known_by_its_term() {
        let decided = |found: &RecoveredPartition, since: Option<u64>| {
            is_decided_without(found, LogIndex(5), since.map(Term))
        };
        let before: [(u64, &'static [u8]); 2] = [(3, b"x"), (4, b"x")];
        let mut found = entries(4, &before);
        assert!(
            !decided(&found, Some(4)),
            "all of it was there before the order"
        );
        assert!(decided(&found, Some(3)));
        assert!(
            decided(&found, None),
            "an earlier build has not said since when"
        );
        assert_eq!(last_term(&found), Term(4));
        found.hard_state.term = Term(7);
        assert_eq!(last_term(&found), Term(7));
        assert!(!decided(&found, Some(4)), "to lead is to decide nothing");
        assert!(!decided(&entries(4, &[(3, b"x"), (5, b"")]), Some(4)));
        assert!(decided(
            &entries(4, &[(3, b"x"), (5, b""), (5, b"x")]),
            Some(4)
        ));
        assert!(
            decided(&entries(5, &[]), Some(4)),
            "it was saved without the entry"
        );
        // Behind a damage it was decided all the same.
        let mut found = entries(4, &[(5, b"x")]);
        found.behind = found.entries.split_off(1);
        assert!(decided(&found, Some(4)));
    }

    fn panics(index: u64) -> Finding {
        Finding::Aside(SetAside {
            partition: ID,
            fault: Fault::Apply(LogIndex(index)),
            filters: courser_engine::AsideFilters::Known,
            applied: LogIndex(index - 1),
            sessions: 1,
            retained: 0,
            queued: 0,
        })
    }

    fn skip(index: u64) -> Order {
        Order::Skip(ID, LogIndex(index), Some(Term(4)))
    }

    #[test]
    fn m50_an_entry_is_not_retried_once_something_was_decided_without_it() {
        let decided = |index| (ID, LogIndex(index));
        let led = Led {
            decided: BTreeSet::from([decided(5)]),
            ..Led::default()
        };
        let mut given = Given {
            orders: Orders(BTreeSet::from([skip(5)])),
            ..Given::default()
        };
        let refused = obey(Verb::Retry(ID), &[], &led, &mut given).expect_err("it is too late");
        assert!(
            matches!(
                refused,
                RepairError::Decided {
                    partition: ID,
                    index: LogIndex(5)
                }
            ),
            "{refused}"
        );
        assert!(given.orders.has(skip(5)));
        // Another one of the same partition can be tried again.
        given.orders.0.insert(skip(9));
        obey(Verb::Retry(ID), &[], &led, &mut given).expect("no start has gone on without it");
        assert_eq!(given.orders.skips(ID), BTreeSet::from([LogIndex(5)]));
        // And before a start has served, the first as well.
        obey(Verb::Retry(ID), &[], &Led::default(), &mut given).expect("it is in time");
        assert!(given.orders.skips(ID).is_empty());
    }

    #[test]
    fn m39_a_release_names_its_fault_and_ends_with_the_next_order() {
        let released = Order::Release(ID, Some(Cause::Apply(LogIndex(5))));
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        crash::note(&path, ID, LogIndex(5)).expect("there is room");
        for verb in [Verb::Retry(ID), Verb::Skip(ID)] {
            let mut given = Given {
                orders: Orders::default(),
                crashes: Crashes::read(&path).expect("it can be read"),
            };
            let led = Led::default();
            let findings = [panics(5)];
            obey(Verb::Release(ID), &findings, &led, &mut given).expect("it is set aside");
            assert_eq!(given.orders.0, BTreeSet::from([released]));
            obey(verb, &findings, &led, &mut given).expect("it is set aside");
            assert!(!given.orders.has(released), "{verb:?}");
        }
    }

    #[test]
    fn what_becomes_of_an_order_is_told() {
        let at = LogIndex;
        let release = |cause| Order::Release(ID, cause);
        let examined = Examined {
            findings: vec![panics(5)],
            skipped: vec![skip(3)],
            ..Examined::default()
        };
        for (order, standing) in [
            (skip(3), Standing::Obeyed),
            (skip(4), Standing::Next),
            (release(Some(Cause::Apply(at(5)))), Standing::WhileAside),
            (release(Some(Cause::Apply(at(6)))), Standing::Over),
            (release(None), Standing::Over),
            (Order::Missing(ID, at(9), None), Standing::Over),
        ] {
            assert_eq!(examined.standing(order), standing, "{order:?}");
        }
    }
}
