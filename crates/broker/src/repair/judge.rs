//! What becomes of a partition at a start.

use std::collections::BTreeSet;
use std::fmt;

use courser_contract::{LogIndex, PartitionId};
use courser_engine::{AsideFilters, EntryView, FactView, left_of_skipped};
use courser_log::{PartitionDamage, Place, RecoveredEntry, RecoveredPartition};

use super::crash::Crashes;
use super::orders::{Cause, Order, Orders};
use crate::slots::Places;

/// Why a partition is set aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Entries that must be replayed are lost, or may be (M44).
    Entries(LostEntries),
    /// The manifest of its checkpoint is damaged.
    Manifest {
        /// The last checkpoint of which its log speaks. There may have been later ones.
        checkpoint: LogIndex,
        /// The file, and what is wrong with it.
        why: String,
    },
    /// Its checkpoint cannot be read.
    Checkpoint {
        /// The entry at which it is valid.
        at: LogIndex,
        /// What is wrong with it.
        why: String,
    },
    /// The program has panicked twice when it applied this entry (M50).
    Apply(LogIndex),
}

/// Entries that are lost, or may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostEntries {
    /// Which.
    pub damage: PartitionDamage,
    /// Where the last batch is lost of which the partition lacks something.
    pub at: Option<Place>,
    /// What is whole and goes with them.
    pub behind: Behind,
}

/// Whole entries behind those that are lost: what they say counts on these, so that nobody can apply them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    /// How many.
    pub entries: u64,
    /// Messages that they brought, each once for however many sessions.
    pub messages: u64,
}

impl Behind {
    /// Of these entries. Those of partition 0 bring no messages.
    pub(crate) fn of(id: PartitionId, entries: &[RecoveredEntry]) -> Self {
        let messages_of = |entry: &RecoveredEntry| {
            let view = EntryView::read(&entry.data).ok();
            let facts = view.into_iter().flat_map(|view| view.facts);
            let messages = facts.filter(|fact| matches!(fact, FactView::Publish { .. }));
            messages.count() as u64
        };
        Self {
            entries: entries.len() as u64,
            messages: match id == Places::METADATA {
                true => 0,
                false => entries.iter().map(messages_of).sum(),
            },
        }
    }
}

impl fmt::Display for LostEntries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Behind { entries, messages } = self.behind;
        match self.damage {
            PartitionDamage::Missing { first, last } if first == last => {
                write!(f, "entry {} is damaged", first.0)?;
            }
            PartitionDamage::Missing { first, last } => {
                write!(f, "entries {} to {} are damaged", first.0, last.0)?;
            }
            damage @ (PartitionDamage::InDoubt { .. } | PartitionDamage::ManifestLost { .. }) => {
                return write!(f, "{damage}");
            }
        }
        let (noun, goes) = match entries {
            1 => ("entry", "goes"),
            _ => ("entries", "go"),
        };
        write!(
            f,
            ", {entries} whole {noun} with {messages} messages behind it {goes} with it"
        )
    }
}

impl Fault {
    /// The order that ends it: the partition goes on without what is lost, or without the entry.
    #[must_use]
    pub const fn ends_by(&self, id: PartitionId) -> Order {
        self.cause().ends_by(id)
    }

    /// What orders call it.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        match *self {
            Self::Entries(LostEntries { damage, at, .. }) => match damage {
                PartitionDamage::Missing { first, .. } => Cause::Missing(first, at),
                PartitionDamage::InDoubt { after } => Cause::Doubt(after, at),
                PartitionDamage::ManifestLost { checkpoint } => Cause::State(checkpoint),
            },
            Self::Manifest { checkpoint, .. } => Cause::State(checkpoint),
            Self::Checkpoint { at, .. } => Cause::State(at),
            Self::Apply(index) => Cause::Apply(index),
        }
    }

    /// Whether nothing of the partition's state is known.
    pub(crate) const fn is_of_the_state(&self) -> bool {
        match self {
            Self::Entries(LostEntries { damage, .. }) => match damage {
                PartitionDamage::ManifestLost { .. } => true,
                PartitionDamage::Missing { .. } | PartitionDamage::InDoubt { .. } => false,
            },
            Self::Manifest { .. } | Self::Checkpoint { .. } => true,
            Self::Apply(_) => false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries(lost) => write!(f, "{lost}"),
            Self::Manifest { checkpoint, why } => write!(
                f,
                "the manifest of the checkpoint at {} or of a later one cannot be read: DATA/checkpoints/{why}",
                checkpoint.0
            ),
            Self::Checkpoint { at, why } => {
                write!(f, "the checkpoint at {} cannot be read: {why}", at.0)
            }
            Self::Apply(index) => write!(
                f,
                "the program has panicked twice when it applied entry {}",
                index.0
            ),
        }
    }
}

/// What becomes of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It serves.
    Serves(Serves),
    /// It begins with nothing: its state is lost, and the operator has accepted that.
    Empty,
    /// It is set aside.
    Aside {
        /// Why.
        fault: Fault,
        /// What it refuses.
        filters: AsideFilters,
    },
}

/// A partition that serves, and what it must know of earlier damage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Serves {
    /// Entries whose lost records the operator has accepted.
    pub(crate) records: Vec<(LogIndex, LogIndex)>,
    /// Entries that are not applied.
    pub(crate) skips: BTreeSet<LogIndex>,
    /// What was accepted of its entries.
    pub(crate) accepted: Option<LostEntries>,
}

/// What a folder says of damage, besides the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) orders: Orders,
    pub(crate) crashes: Crashes,
}

impl Given {
    /// Judges a partition, and takes out of what was found of it what must not be applied. `start` is the counter of this start.
    pub(crate) fn judge(
        &self,
        id: PartitionId,
        found: &mut RecoveredPartition,
        lost: Option<LostEntries>,
        start: u32,
    ) -> Fate {
        let checkpoint = found.checkpoint.map(|at| at.index);
        if checkpoint.is_some_and(|at| self.orders.has(Order::State(id, at))) {
            return Fate::Empty;
        }
        let mut serves = Serves {
            records: self.orders.records(id),
            skips: self.orders.skips(id),
            accepted: None,
        };
        if let Some(lost) = lost {
            let fault = Fault::Entries(lost);
            let accepted = self.orders.has(fault.ends_by(id));
            if accepted && fault.is_of_the_state() {
                return Fate::Empty;
            }
            if !accepted {
                return self.aside(id, found, fault);
            }
            // A term that is lost may have been led: no start has led a higher one than its own number.
            found.hard_state.term.0 = found.hard_state.term.0.max(u64::from(start));
            serves.accepted = Some(lost);
        }
        let above = checkpoint.unwrap_or(LogIndex(0));
        let is_skipped = |index| serves.skips.contains(&index);
        match self.crashes.bad_entry(id, above, is_skipped) {
            Some(index) if found.entries.iter().any(|entry| entry.index == index) => {
                found.entries.retain(|entry| entry.index < index);
                self.aside(id, found, Fault::Apply(index))
            }
            Some(_) | None => Fate::Serves(serves),
        }
    }

    /// Sets a partition aside. Of entries that the operator has skipped only that is left on which later ones count: nobody hands it
    /// its entries one by one, as the group of one that serves does.
    pub(crate) fn aside(
        &self,
        id: PartitionId,
        found: &mut RecoveredPartition,
        fault: Fault,
    ) -> Fate {
        let is_empty = found.checkpoint.is_none() && found.entries.is_empty();
        let skips = self.orders.skips(id);
        let entries = found.entries.iter_mut();
        for entry in entries.filter(|entry| skips.contains(&entry.index)) {
            // Without data it is one that says nothing to the partition.
            entry.data = left_of_skipped(&entry.data).unwrap_or_default();
        }
        let filters = if self.orders.releases(id, fault.cause()) {
            AsideFilters::Released
        } else if fault.is_of_the_state() || is_empty {
            AsideFilters::Unknown
        } else {
            AsideFilters::Known
        };
        Fate::Aside { fault, filters }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use courser_contract::Term;
    use courser_log::{CheckpointAt, SegmentNumber};

    use super::*;

    const ID: PartitionId = PartitionId(2);

    fn found() -> RecoveredPartition {
        let entries = (5..9).map(|index| RecoveredEntry {
            index: LogIndex(index),
            term: Term(1),
            data: Bytes::new(),
        });
        RecoveredPartition {
            checkpoint: Some(CheckpointAt {
                index: LogIndex(4),
                term: Term(1),
            }),
            entries: entries.collect(),
            ..RecoveredPartition::default()
        }
    }

    fn at(offset: u64) -> Option<Place> {
        let segment = SegmentNumber(1);
        Some(Place { segment, offset })
    }

    fn lost(damage: PartitionDamage) -> LostEntries {
        LostEntries {
            damage,
            at: at(4096),
            behind: Behind::default(),
        }
    }

    fn judge(order: Option<Order>, damage: Option<LostEntries>) -> (Fate, RecoveredPartition) {
        let given = Given {
            orders: Orders(order.into_iter().collect()),
            ..Given::default()
        };
        let mut found = found();
        (given.judge(ID, &mut found, damage, 9), found)
    }

    #[test]
    fn m44_a_damage_sets_aside_until_this_very_one_is_accepted() {
        let missing = PartitionDamage::Missing {
            first: LogIndex(9),
            last: LogIndex(11),
        };
        let doubt = PartitionDamage::InDoubt { after: LogIndex(8) };
        let lost = PartitionDamage::ManifestLost {
            checkpoint: LogIndex(4),
        };
        for (damage, filters) in [
            (missing, AsideFilters::Known),
            (doubt, AsideFilters::Known),
            (lost, AsideFilters::Unknown),
        ] {
            let damage = self::lost(damage);
            let fault = Fault::Entries(damage);
            let aside = |filters| Fate::Aside {
                fault: fault.clone(),
                filters,
            };
            assert_eq!(judge(None, Some(damage)).0, aside(filters));
            let released = judge(Some(Order::Release(ID, Some(fault.cause()))), Some(damage)).0;
            assert_eq!(released, aside(AsideFilters::Released));
            for cause in [
                None,
                Some(Cause::Missing(LogIndex(9), at(2048))),
                Some(Cause::Doubt(LogIndex(8), None)),
                Some(Cause::State(LogIndex(3))),
                Some(Cause::Apply(LogIndex(9))),
            ] {
                let others = judge(Some(Order::Release(ID, cause)), Some(damage)).0;
                assert_eq!(others, aside(filters), "another fault was released");
            }
            for other in [
                Order::Missing(ID, LogIndex(7), at(4096)),
                // Of what was written at these indexes before.
                Order::Missing(ID, LogIndex(9), at(2048)),
                Order::Doubt(ID, LogIndex(8), at(2048)),
                Order::Missing(ID, LogIndex(9), None),
                Order::Doubt(ID, LogIndex(8), None),
            ] {
                let others = judge(Some(other), Some(damage)).0;
                assert_eq!(others, aside(filters), "another damage was accepted");
            }
            let (fate, found) = judge(Some(fault.ends_by(ID)), Some(damage));
            match fate {
                Fate::Serves(serves) => {
                    assert_eq!(serves.accepted, Some(damage));
                    assert_eq!(found.hard_state.term, Term(9), "above any that was led");
                }
                Fate::Empty => assert!(fault.is_of_the_state()),
                Fate::Aside { .. } => panic!("{damage:?} was accepted"),
            }
        }
        assert_eq!(judge(None, None).0, Fate::Serves(Serves::default()));
    }

    #[test]
    fn m44_a_loss_says_what_goes_with_it() {
        let said = |first, last, entries| {
            let (first, last) = (LogIndex(first), LogIndex(last));
            let damage = PartitionDamage::Missing { first, last };
            let messages = 2 * entries;
            let behind = Behind { entries, messages };
            let lost = LostEntries {
                behind,
                ..lost(damage)
            };
            lost.to_string()
        };
        assert_eq!(
            said(35, 35, 29),
            "entry 35 is damaged, 29 whole entries with 58 messages behind it go with it"
        );
        assert_eq!(
            said(35, 36, 1),
            "entries 35 to 36 are damaged, 1 whole entry with 2 messages behind it goes with it"
        );
    }

    #[test]
    fn m39_a_partition_is_replayed_up_to_the_entry_before_the_bad_one() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        for _ in 0..2 {
            super::super::crash::note(&path, ID, LogIndex(7)).expect("there is room");
        }
        let crashes = Crashes::read(&path).expect("it can be read");
        let mut given = Given {
            crashes,
            ..Given::default()
        };
        let mut found = found();
        let fate = given.judge(ID, &mut found, None, 9);
        let fault = Fault::Apply(LogIndex(7));
        let filters = AsideFilters::Known;
        assert_eq!(fate, Fate::Aside { fault, filters });
        let kept: Vec<_> = found.entries.iter().map(|entry| entry.index.0).collect();
        assert_eq!(kept, [5, 6]);
        let release = |index| Order::Release(ID, Some(Cause::Apply(LogIndex(index))));
        given.orders.0.insert(release(6));
        let mut found = self::found();
        let fate = given.judge(ID, &mut found, None, 9);
        let fault = Fault::Apply(LogIndex(7));
        let filters = AsideFilters::Known;
        assert_eq!(fate, Fate::Aside { fault, filters }, "it was another entry");
        given.orders.0.insert(release(7));
        let mut found = self::found();
        let fate = given.judge(ID, &mut found, None, 9);
        let fault = Fault::Apply(LogIndex(7));
        let filters = AsideFilters::Released;
        assert_eq!(fate, Fate::Aside { fault, filters });
        assert_eq!(found.entries.len(), 2, "it does not serve");
        given.orders.0.insert(Order::Skip(ID, LogIndex(7), None));
        let mut found = self::found();
        let fate = given.judge(ID, &mut found, None, 9);
        let Fate::Serves(serves) = fate else {
            panic!("the entry is skipped: {fate:?}");
        };
        assert!(serves.skips.contains(&LogIndex(7)));
        assert_eq!(found.entries.len(), 4);
    }

    /// It would panic at that entry again, at every start.
    #[test]
    fn m39_what_was_skipped_stays_so_when_the_partition_is_set_aside_for_something_else() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("crash");
        for index in [6, 6, 8, 8] {
            super::super::crash::note(&path, ID, LogIndex(index)).expect("there is room");
        }
        let mut given = Given {
            crashes: Crashes::read(&path).expect("it can be read"),
            ..Given::default()
        };
        given.orders.0.insert(Order::Skip(ID, LogIndex(6), None));
        given
            .orders
            .0
            .insert(Order::Skip(PartitionId(3), LogIndex(5), None));
        let doubt = lost(PartitionDamage::InDoubt { after: LogIndex(8) });
        for (damage, fault, left) in [
            (None, Fault::Apply(LogIndex(8)), &[5, 7][..]),
            (Some(doubt), Fault::Entries(doubt), &[5, 7, 8]),
        ] {
            let mut found = found();
            for entry in &mut found.entries {
                entry.data = Bytes::from_static(b"facts");
            }
            let fate = given.judge(ID, &mut found, damage, 9);
            let filters = AsideFilters::Known;
            assert_eq!(fate, Fate::Aside { fault, filters });
            // An entry without data says nothing to its partition.
            let (said, skipped): (Vec<_>, Vec<_>) = found
                .entries
                .iter()
                .partition(|entry| !entry.data.is_empty());
            let said: Vec<_> = said.iter().map(|entry| entry.index.0).collect();
            assert_eq!(said, left);
            assert_eq!(skipped.len(), 1);
        }
    }
}
