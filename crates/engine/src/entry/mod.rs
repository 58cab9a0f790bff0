//! Entries: one step of a partition's log, a batch of facts (M4).
//!
//! ```text
//! entry   0 u16 layout version   2 u16 engine version   4 u32 facts   8 u64 wall_ms (M6)   16 u64 term   24 u64 number in the term
//!        32 facts, one after the other
//! fact    0 u8 kind   1 u8 flags   2 u16 depends on the kind   4 u32 length of all, a multiple of 8
//! ```
//!
//! An entry that is one message for a set has a form of its own, of which the first byte says 2 ([`lone`]).
//!
//! All little endian. The two facts of the data path, a publish and an outcome, have a fixed layout; the others are written
//! field by field ([`Rare`]). Whoever reads an entry that this process did not write first checks it whole
//! ([`Entry::check`]): a disk may hand over anything.

mod gather;
mod hot;
mod key;
mod lone;
mod packed;
mod rare;
mod skipped;
mod target;
mod view;

use bytes::Bytes;
use courser_contract::{Term, WallMs};

pub(crate) use gather::{Gather, Haste};
pub(crate) use hot::{Fate, OutcomeFact, PublishFact};
pub(crate) use key::Key;
pub(crate) use packed::PackedTargets;
pub(crate) use rare::{AttachFact, Rare, ScanState};
pub use skipped::left_of_skipped;
pub(crate) use target::{
    IDENTIFIERS_MAX, RetainMark, SETS_MAX, SettledAs, Target, TargetList, Targets, TargetsAt,
};
pub use view::{EntryView, FactView};

use self::lone::Lone;
use crate::canonical::{DecodeError, Reader};

/// Version of the layout; the short form has its own.
const LAYOUT: u16 = 1;
/// Version of the rules by which facts are applied. Entries of all versions up to it are read.
///
/// 2: sessions may belong to users. 3: sets are packed, and what is one message for a set is short. 4: sessions may belong to accounts,
/// and records have authors. 5: a message of QoS 1 may be owed to one member of a group.
pub const ENGINE_VERSION: u16 = 5;
pub(crate) const HEADER_BYTES: usize = 32;
const FACT_BYTES: usize = 8;
/// Where a fact of the short form is looked for: its head ends where no other one does.
const AT_LONE: usize = lone::LONE_BYTES;
const _: () = assert!(AT_LONE < HEADER_BYTES);

/// Kinds of facts.
const PUBLISH: u8 = 1;
const OUTCOME: u8 = 2;
const RARE: u8 = 3;

/// Why bytes are no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("byte {at} of an entry: {cause}")]
pub struct EntryError {
    /// Where the fact begins that cannot be read.
    pub at: usize,
    cause: DecodeError,
}

impl EntryError {
    fn new(at: usize, cause: DecodeError) -> Self {
        Self { at, cause }
    }
}

/// Who wrote the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// This leader, in this process: records are not looked at again.
    Own,
    /// Somebody else.
    Foreign,
}

/// One fact.
#[derive(Clone, Debug)]
pub(crate) enum Fact<'a> {
    /// A record and where it goes.
    Publish(PublishFact<'a>),
    /// What became of deliveries.
    Outcome(OutcomeFact),
    /// All that does not happen per message.
    Rare(Rare),
}

/// The head of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) facts: u32,
    pub(crate) wall: WallMs,
    pub(crate) term: Term,
    pub(crate) number: u64,
}

/// An entry to read.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    bytes: &'a Bytes,
    head: Head,
    trust: Trust,
    at: usize,
    left: u32,
    /// Key of the last publish: the next one may refer to it.
    key: Option<Key>,
}

impl<'a> Entry<'a> {
    /// Reads the head.
    pub(crate) fn open(bytes: &'a Bytes, trust: Trust) -> Result<Self, EntryError> {
        let is_lone = lone::engine_of(bytes).is_some();
        let (head, at) = match is_lone {
            true => (Lone::read(bytes).map(|lone| lone.head), AT_LONE),
            false => (read_head(bytes), HEADER_BYTES),
        };
        let head = head.map_err(|cause| EntryError::new(0, cause))?;
        Ok(Self {
            bytes,
            head,
            trust,
            at,
            left: head.facts,
            key: None,
        })
    }

    /// Reads all of a foreign entry, so that applying it cannot fail half-way.
    pub(crate) fn check(bytes: &Bytes) -> Result<(), EntryError> {
        Entry::open(bytes, Trust::Foreign)?.for_each(|_| {})
    }

    pub(crate) const fn head(&self) -> Head {
        self.head
    }

    /// Gives each fact to `take`, in order.
    ///
    /// From where it was read, without a move: what has just been written field by field and is then copied sixteen bytes
    /// at a time waits until the fields have left the store buffer, which took longer than to read the fact.
    #[inline(always)]
    pub(crate) fn for_each(mut self, mut take: impl FnMut(&Fact<'a>)) -> Result<(), EntryError> {
        while self.left > 0 {
            let at = self.at;
            self.read_fact(&mut take)
                .map_err(|cause| EntryError::new(at, cause))?;
        }
        match self.bytes.len() - self.at {
            0 => Ok(()),
            rest => Err(EntryError::new(self.at, DecodeError::Trailing(rest))),
        }
    }

    /// The bytes of the facts that are no messages and no outcomes, up to one whose length is wrong.
    fn rare_facts(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = match self.at {
            AT_LONE => &[][..],
            at => self.bytes.get(at..).unwrap_or_default(),
        };
        let facts = std::iter::from_fn(move || {
            let len = read_u32(rest, 4).ok()? as usize;
            let is_one = len >= FACT_BYTES && len.is_multiple_of(8);
            let fact = rest.get(..len).filter(|_| is_one)?;
            rest = &rest[len..];
            Some(fact)
        });
        facts.filter(|fact| fact[0] == RARE)
    }

    #[inline(always)]
    fn read_fact(&mut self, take: &mut impl FnMut(&Fact<'a>)) -> Result<(), DecodeError> {
        if self.at == AT_LONE {
            take(&self.read_lone()?);
            return Ok(());
        }
        let head = read_u64(self.bytes, self.at)?;
        let len = (head >> 32) as usize;
        if len < FACT_BYTES || !len.is_multiple_of(8) {
            return Err(DecodeError::Invalid("length of a fact"));
        }
        let start = self.at;
        let fact = self.bytes.get(start..start + len);
        let fact = fact.ok_or(DecodeError::Short)?;
        self.at += len;
        self.left -= 1;
        match head as u8 {
            PUBLISH => {
                let place = (start, len);
                let publish = PublishFact::read(self.bytes, place, self.key, self.trust)?;
                self.key = Some(publish.key);
                take(&Fact::Publish(publish));
            }
            OUTCOME => take(&Fact::Outcome(OutcomeFact::read(fact)?)),
            RARE => take(&Fact::Rare(Rare::read_framed(&fact[FACT_BYTES..])?)),
            _ => return Err(DecodeError::Invalid("kind of a fact")),
        }
        Ok(())
    }

    /// The one fact of the short form.
    #[cold]
    fn read_lone(&mut self) -> Result<Fact<'a>, DecodeError> {
        let lone = Lone::read(self.bytes)?;
        self.at = self.bytes.len();
        self.left = 0;
        let publish = PublishFact::of_lone(self.bytes, &lone, self.trust)?;
        Ok(Fact::Publish(publish))
    }
}

/// Layout and engine version of an entry that a later version of this program has written: nobody may guess what it says.
#[must_use]
pub fn later_version(entry: &[u8]) -> Option<(u16, u16)> {
    if let Some(engine) = lone::engine_of(entry) {
        return (engine > ENGINE_VERSION).then_some((u16::from(lone::LAYOUT_LONE), engine));
    }
    let layout = read_u16(entry, 0).ok()?;
    let engine = read_u16(entry, 2).ok()?;
    (layout > LAYOUT || engine > ENGINE_VERSION).then_some((layout, engine))
}

fn read_head(bytes: &[u8]) -> Result<Head, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.read::<u16>()? != LAYOUT {
        return Err(DecodeError::Invalid("layout version"));
    }
    if reader.read::<u16>()? > ENGINE_VERSION {
        return Err(DecodeError::Invalid(
            "engine version: written by a newer one",
        ));
    }
    Ok(Head {
        facts: reader.read()?,
        wall: reader.read()?,
        term: Term(reader.read()?),
        number: reader.read()?,
    })
}

fn read_u16(bytes: &[u8], at: usize) -> Result<u16, DecodeError> {
    let bytes = bytes.get(at..at + 2).and_then(|b| b.first_chunk());
    bytes
        .map(|b| u16::from_le_bytes(*b))
        .ok_or(DecodeError::Short)
}

fn read_u32(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    let bytes = bytes.get(at..at + 4).and_then(|b| b.first_chunk());
    bytes
        .map(|b| u32::from_le_bytes(*b))
        .ok_or(DecodeError::Short)
}

fn read_u64(bytes: &[u8], at: usize) -> Result<u64, DecodeError> {
    let bytes = bytes.get(at..at + 8).and_then(|b| b.first_chunk());
    bytes
        .map(|b| u64::from_le_bytes(*b))
        .ok_or(DecodeError::Short)
}

#[cfg(test)]
mod tests;
