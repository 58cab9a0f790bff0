//! A partition out of a checkpoint.
//!
//! ```text
//! new ─▶ piece, for each ─▶ wanted ─▶ live_entry, for each entry that is wanted ─▶ finish ─▶ replay_entry, for each behind
//! ```
//!
//! Bytes come from a disk and may be anything: what the writer never writes is an error. Memory follows the bytes that were
//! received, except for tables by number, which have their own limits ([`crate::ids::PLACES_MAX`], 16 bytes each; [`crate::entry::SETS_MAX`]).

mod parts;
mod records;

use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId};

pub(super) use self::parts::Parts;
use self::records::{Filling, Placed};
use super::{
    EntrySet,
    unit::{Kind, STATE_VERSION, UNIT_HEADER_BYTES},
};
use crate::{
    Partition, PartitionConfig,
    canonical::{DecodeError, Reader},
    record::{Records, Slot},
    state::State,
};

/// Why a checkpoint makes no partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Bytes that no writer writes.
    #[error("unit {unit} of the checkpoint: {cause}")]
    Damaged {
        /// Which unit, from 0.
        unit: u64,
        /// What is wrong with it.
        cause: String,
    },
    /// Written in another form.
    #[error(
        "the checkpoint has format version {found}; this program reads versions 1 to {STATE_VERSION}"
    )]
    Version {
        /// The version that it names.
        found: u16,
    },
    /// Of another partition.
    #[error("the checkpoint is of partition {found}")]
    OtherPartition {
        /// Which.
        found: u16,
    },
    /// Its end is missing.
    #[error("the checkpoint has no end")]
    Incomplete,
    /// An entry that holds a live record was not given.
    #[error("entry {index} of the log is missing: the checkpoint needs a record of it")]
    EntryMissing {
        /// Its place.
        index: u64,
    },
    /// An entry has no record where the checkpoint names one.
    #[error("entry {index} of the log has no record at byte {byte}")]
    NoRecord {
        /// Its place.
        index: u64,
        /// Where the record should begin.
        byte: u32,
    },
}

/// What a checkpoint holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Of which partition.
    pub partition: u16,
    /// The last entry that is in it.
    pub index: u64,
    /// The term of that entry.
    pub term: u64,
    /// Its time, milliseconds since 1970.
    pub wall_ms: u64,
    /// Units, the last one included.
    pub units: u64,
    /// Sessions.
    pub sessions: u64,
    /// Subscriptions, shared ones included.
    pub subscriptions: u64,
    /// Shared groups.
    pub groups: u64,
    /// Messages that wait in streams.
    pub queued: u64,
    /// Retained messages.
    pub retained: u64,
    /// Forwards that wait.
    pub forwards: u64,
    /// Target sets.
    pub sets: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Restore {
    config: PartitionConfig,
    /// A unit that has not come whole.
    rest: Vec<u8>,
    parts: Parts,
    cold_from: Option<u64>,
    filling: Option<Filling>,
}

impl Restore {
    /// Takes the pieces of a checkpoint of the partition that `config` describes.
    #[must_use]
    pub fn new(config: PartitionConfig) -> Self {
        Self {
            parts: Parts::new(config.id),
            config,
            rest: Vec::new(),
            cold_from: None,
            filling: None,
        }
    }

    /// The next piece, in order; it may be cut anywhere.
    ///
    /// # Errors
    /// When it cannot be what a partition wrote; nothing more is to be expected of this checkpoint then.
    pub fn piece(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        each_unit(&mut self.rest, bytes, |kind, body| {
            self.parts.unit(kind, body)
        })
    }

    /// Records may stay in the log, if it has all of them, until somebody asks for them ([`Partition::take_question`]): those of which the
    /// checkpoint says enough, if they have `bytes` or more together. Fewer are read, so that they are there when their streams come.
    /// To be called before [`wanted`](Self::wanted).
    pub const fn leave_cold(&mut self, bytes: u64) {
        self.cold_from = Some(bytes);
    }

    /// What has been read so far.
    #[must_use]
    pub fn summary(&self) -> Restored {
        self.parts.summary()
    }

    /// All pieces have come: entries of the log whose bytes are wanted, to be given to [`live_entry`](Self::live_entry).
    ///
    /// # Errors
    /// When the end is missing, or the parts do not fit each other.
    pub fn wanted(&mut self) -> Result<EntrySet, RestoreError> {
        let filling = match &mut self.filling {
            Some(filling) => filling,
            None => {
                if !self.rest.is_empty() {
                    return Err(RestoreError::Incomplete);
                }
                let mut named = self.parts.seal()?;
                let state = &mut self.parts.state;
                each_pinned(state, |number, _| named.must_be_read(number));
                state.records.note_references(state.queued);
                state.records.set_hot_max(self.config.hot_max());
                let filling = Filling::new(named, self.cold_from, &mut state.records);
                let slots = filling.slots();
                each_pinned(state, |number, records| {
                    records.pin_expected(slots[number.0 as usize]);
                });
                self.filling.insert(filling)
            }
        };
        Ok(filling.wanted.clone())
    }

    /// The bytes of an entry; one that is not wanted changes nothing. Entries may come in any order, fastest in ascending
    /// one.
    ///
    /// # Errors
    /// When a record is not where the checkpoint says, or [`wanted`](Self::wanted) fails.
    pub fn live_entry(&mut self, at: LogIndex, bytes: &Bytes) -> Result<(), RestoreError> {
        self.wanted_once()?;
        let filling = self.filling.as_mut().expect("it was just made");
        filling.entry(at.0, bytes, &mut self.parts.state.records)
    }

    /// Bytes of an entry that were moved in the log, from one of its bytes on: whole records, and perhaps what lay between them.
    /// What is not wanted of them changes nothing. In any order, before the entries that are still
    /// [wanting](Self::is_wanting).
    ///
    /// # Errors
    /// When a record is not where the checkpoint says, or [`wanted`](Self::wanted) fails.
    pub fn kept(&mut self, at: LogIndex, byte: u32, bytes: &Bytes) -> Result<(), RestoreError> {
        self.wanted_once()?;
        let filling = self.filling.as_mut().expect("it was just made");
        filling.kept((at.0, byte), bytes, &mut self.parts.state.records)
    }

    /// Whether an entry has records that have not come.
    #[must_use]
    pub fn is_wanting(&self, at: LogIndex) -> bool {
        self.parts.state.records.is_expecting(at.0)
    }

    /// The log has lost an entry: its records hold their places and are not delivered, see [`Partition::lost`]. Says how many
    /// they are.
    ///
    /// # Errors
    /// When [`wanted`](Self::wanted) fails.
    pub fn lost_entry(&mut self, at: LogIndex) -> Result<usize, RestoreError> {
        self.wanted_once()?;
        let filling = self.filling.as_mut().expect("it was just made");
        Ok(filling.lost(at.0, &mut self.parts.state.records))
    }

    fn wanted_once(&mut self) -> Result<(), RestoreError> {
        if self.filling.is_none() {
            self.wanted()?;
        }
        Ok(())
    }

    /// The partition as it was, a follower.
    ///
    /// # Errors
    /// When an entry is missing, or [`wanted`](Self::wanted) fails.
    pub fn finish(mut self) -> Result<Partition, RestoreError> {
        self.wanted_once()?;
        let mut state = self.parts.state;
        let filling = self.filling.expect("it was just made");
        let placed = filling.finish(&mut state.records)?;
        place_records(&mut state, &placed);
        Ok(Partition::from_state(self.config, state))
    }
}

/// Gives `unit` all units that are whole with a further piece; what has begun stays in `rest`.
pub(super) fn each_unit(
    rest: &mut Vec<u8>,
    piece: &[u8],
    mut unit: impl FnMut(u8, &[u8]) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    rest.extend_from_slice(piece);
    let mut at = 0;
    while let Some((kind, body)) = next_unit(&rest[at..]) {
        at += UNIT_HEADER_BYTES + body.len();
        unit(kind, body)?;
    }
    rest.drain(..at);
    Ok(())
}

/// The kind of a unit.
pub(super) fn kind_of(unit: u64, kind: u8) -> Result<Kind, RestoreError> {
    let kind = Kind::from_bits(kind).ok_or(DecodeError::Invalid("kind of a unit"));
    kind.map_err(|cause| damaged(unit, cause))
}

/// What the first unit begins with: a version that is known, and the partition `id`. Gives the version.
pub(super) fn check_head(reader: &mut Reader<'_>, id: PartitionId) -> Result<u16, RestoreError> {
    let at = |cause| damaged(0, cause);
    let version: u16 = reader.read().map_err(at)?;
    if !(1..=STATE_VERSION).contains(&version) {
        return Err(RestoreError::Version { found: version });
    }
    let found: PartitionId = reader.read().map_err(at)?;
    if found != id {
        return Err(RestoreError::OtherPartition { found: found.0 });
    }
    Ok(version)
}

/// Version of a checkpoint that a later version of this program has written, by its first piece: nobody may guess what it says, nor take it
/// for damage.
#[must_use]
pub fn later_checkpoint(first_piece: &[u8]) -> Option<u16> {
    let (kind, body) = next_unit(first_piece)?;
    let found: u16 = Reader::new(body).read().ok()?;
    (kind == Kind::Head as u8 && found > STATE_VERSION).then_some(found)
}

/// The first whole unit.
fn next_unit(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (&kind, rest) = bytes.split_first()?;
    let (len, rest) = rest.split_first_chunk()?;
    let len = usize::try_from(u32::from_le_bytes(*len)).ok()?;
    Some((kind, rest.get(..len)?))
}

/// What may be needed without warning stays in memory: gives the number of each record of that kind.
fn each_pinned(state: &mut State, mut pin: impl FnMut(Slot, &mut Records)) {
    let State {
        records,
        retained,
        outboxes,
        ..
    } = state;
    let mut pin = |number| pin(number, records);
    retained.records().for_each(&mut pin);
    outboxes.for_each_item(|item| pin(item.slot));
}

/// Gives each reference its slot, and counts bytes.
fn place_records(state: &mut State, placed: &Placed) {
    let records = &state.records;
    let place = |number| placed.find(number, records);
    for (_, session) in state.sessions.iter_mut() {
        session.stream.place(place);
    }
    for (_, group) in state.groups.iter_mut() {
        group.stream.place(place);
    }
    state.retained.place(place);
    state
        .outboxes
        .for_each_item(|item| item.slot = place(item.slot).0);
}

pub(super) fn damaged(unit: u64, cause: DecodeError) -> RestoreError {
    RestoreError::Damaged {
        unit,
        cause: cause.to_string(),
    }
}
