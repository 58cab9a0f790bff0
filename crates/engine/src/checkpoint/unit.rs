//! The form of a checkpoint: units, one after the other, cut into pieces wherever a piece is full.
//!
//! ```text
//! unit   0 u8 kind   1 u32 length of what follows, little endian   5 the parts, as in `canonical`
//! ```

use std::collections::VecDeque;

use bytes::Bytes;

use super::entry_set::EntrySet;
use crate::{
    canonical::{DecodeError, Reader},
    look::Looks,
    record::{Address, Expiry, Records, Said, Slot},
    varint,
};

/// Version of this form. All up to it are read, later ones are refused by name.
///
/// 2: sessions may have owners. 3: when entries came. 4: how long records are. 5: owners may be accounts. 6: what a session or a group may have much
/// of is in units of its own, references that ended by themselves, and when records expire.
pub const STATE_VERSION: u16 = 6;
/// Bytes of a piece, the last one excepted.
pub(super) const PIECE_BYTES: usize = 64 * 1024;
/// Room behind a full piece for the unit that fills it. Where that is enough, what is written never moves: to copy a piece into memory that
/// nobody has touched before takes longer than all that a turn may do for a checkpoint.
const SPARE_BYTES: usize = 16 * 1024;
pub(super) const UNIT_HEADER_BYTES: usize = 5;

/// What a unit holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// Version, partition, place in the log, counters. The first one.
    Head = 1,
    /// Appends that were taken (M14).
    Origins = 2,
    /// Forwards that were taken (M19).
    Inbox = 3,
    /// Some targets of a set; a set may take several (M8).
    Set = 4,
    /// A session without what follows in units of their own.
    Session = 5,
    /// Some subscriptions of a session, in their order.
    Subscriptions = 6,
    /// The will of a session; before version 6 its holds and scans too.
    Extra = 7,
    /// 256 references of a stream of a session or a group.
    Chunk = 8,
    /// A shared group without its stream, and since version 6 without what follows in units of their own.
    Group = 9,
    /// A session that left a group which has not confirmed it.
    Leave = 10,
    /// Retained messages.
    Retained = 11,
    /// An outbox without its forwards.
    Outbox = 12,
    /// A forward.
    Forward = 13,
    /// How many units there were. The last one.
    End = 14,
    /// The user to whom a session belongs.
    Owner = 15,
    /// When entries came.
    Ages = 16,
    /// Some subscriptions of a session, with their places.
    Places = 17,
    /// Some holds of a session.
    Holds = 18,
    /// Some scans of a session.
    Scans = 19,
    /// Some members of a group.
    Members = 20,
    /// Some QoS 2 deliveries of a group.
    Owed = 21,
    /// How often some messages of a group were tried.
    Attempts = 22,
    /// References of a stream that their chunk says to be done.
    Ended = 23,
    /// References of a stream that their chunk, or the unit of those that ended, may say to be received and that were not.
    Unreceived = 24,
}

impl Kind {
    pub(super) const fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Head,
            2 => Self::Origins,
            3 => Self::Inbox,
            4 => Self::Set,
            5 => Self::Session,
            6 => Self::Subscriptions,
            7 => Self::Extra,
            8 => Self::Chunk,
            9 => Self::Group,
            10 => Self::Leave,
            11 => Self::Retained,
            12 => Self::Outbox,
            13 => Self::Forward,
            14 => Self::End,
            15 => Self::Owner,
            16 => Self::Ages,
            17 => Self::Places,
            18 => Self::Holds,
            19 => Self::Scans,
            20 => Self::Members,
            21 => Self::Owed,
            22 => Self::Attempts,
            23 => Self::Ended,
            24 => Self::Unreceived,
            _ => return None,
        })
    }
}

/// Of which form the checkpoint is that is read, and how far it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Naming {
    /// Highest place in the log that may be named.
    pub(super) end: u64,
    said: Saying,
}

/// What comes with each address.
#[derive(Clone, Copy, Debug)]
enum Saying {
    Nothing,
    /// The length of its record.
    Length,
    /// The same, and when it expires.
    LengthAndExpiry,
}

impl Naming {
    /// Of a checkpoint of this version, with entries up to `end`.
    pub(super) const fn new(version: u16, end: u64) -> Self {
        Self {
            end,
            said: match version {
                ..4 => Saying::Nothing,
                4 | 5 => Saying::Length,
                _ => Saying::LengthAndExpiry,
            },
        }
    }
}

/// Records that a checkpoint names, in its order.
#[derive(Debug)]
pub(crate) struct Named {
    /// Addresses, packed.
    pub(super) addresses: Vec<u64>,
    /// Eighths of the bytes of each record; 0: a start has to read it.
    pub(super) eighths: Vec<u32>,
    /// When each expires; shorter than the others where no later one does.
    expiries: Vec<Expiry>,
}

impl Named {
    /// None.
    pub(super) const fn new() -> Self {
        Self {
            addresses: Vec::new(),
            eighths: Vec::new(),
            expiries: Vec::new(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.addresses.clear();
        self.eighths.clear();
        self.expiries.clear();
    }

    /// One more. The list of those that expire grows where there are some.
    fn add(&mut self, said: Said) {
        if said.expiry != Expiry::NONE {
            self.expiries.resize(self.addresses.len(), Expiry::NONE);
            self.expiries.push(said.expiry);
        }
        self.addresses.push(said.address.pack());
        self.eighths.push(said.eighths);
    }

    /// When a record expires.
    pub(super) fn expiry(&self, number: u32) -> Expiry {
        let expiry = self.expiries.get(number as usize);
        expiry.copied().unwrap_or(Expiry::NONE)
    }

    /// Records so far.
    pub(super) fn len(&self) -> usize {
        self.addresses.len()
    }

    /// A start has to read this one.
    pub(super) fn must_be_read(&mut self, number: Slot) {
        self.eighths[number.0 as usize] = 0;
    }
}

/// Units on their way into pieces.
#[derive(Debug)]
pub(super) struct Output {
    open: Vec<u8>,
    full: VecDeque<Bytes>,
    /// Units so far.
    pub(super) units: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl Output {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self {
            open: room(),
            full: VecDeque::new(),
            units: 0,
            bytes: 0,
        }
    }

    /// Appends a unit; returns its bytes.
    pub(super) fn unit(&mut self, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        self.unit_unless_empty(kind, |out| {
            write(out);
            true
        })
    }

    /// Appends a unit, unless `write` says that there is nothing in it; returns its bytes.
    pub(super) fn unit_unless_empty(
        &mut self,
        kind: Kind,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> usize {
        let start = self.open.len();
        self.open.push(kind as u8);
        self.open.extend_from_slice(&[0; 4]);
        if !write(&mut self.open) {
            self.open.truncate(start);
            return 0;
        }
        let len = self.open.len() - start;
        let body = u32::try_from(len - UNIT_HEADER_BYTES).expect("a unit is far below 4 GiB");
        self.open[start + 1..start + UNIT_HEADER_BYTES].copy_from_slice(&body.to_le_bytes());
        self.units += 1;
        self.bytes += len as u64;
        self.cut();
        len
    }

    fn cut(&mut self) {
        if self.open.len() < PIECE_BYTES {
            return;
        }
        let open = std::mem::replace(&mut self.open, room());
        let open = Bytes::from(open);
        let whole = open.len() / PIECE_BYTES * PIECE_BYTES;
        for start in (0..whole).step_by(PIECE_BYTES) {
            self.full.push_back(open.slice(start..start + PIECE_BYTES));
        }
        self.open.extend_from_slice(&open[whole..]);
    }

    /// The next full piece.
    pub(super) fn take_full(&mut self) -> Option<Bytes> {
        self.full.pop_front()
    }

    /// What is left when no unit follows any more.
    pub(super) fn take_rest(&mut self) -> Option<Bytes> {
        (!self.open.is_empty()).then(|| std::mem::take(&mut self.open).into())
    }

    pub(super) fn has_full(&self) -> bool {
        !self.full.is_empty()
    }

    /// Bytes that wait to be taken.
    pub(super) fn waiting(&self) -> usize {
        self.open.len() + self.full.len() * PIECE_BYTES
    }
}

/// For a piece and what comes behind it.
fn room() -> Vec<u8> {
    Vec::with_capacity(PIECE_BYTES + SPARE_BYTES)
}

/// What gives slots and looks names that last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'a> {
    pub(crate) records: &'a Records,
    pub(crate) looks: &'a Looks,
}

/// Writes addresses of records, each as a difference to the one before, how long the records are, and when they expire.
#[derive(Debug)]
pub(crate) struct Addresses<'a> {
    pub(crate) out: &'a mut Vec<u8>,
    needed: &'a mut Needed,
    last: Said,
}

/// What a checkpoint in the making has named.
#[derive(Debug, Default)]
pub(super) struct Needed {
    /// Entries with records of it.
    pub(super) entries: EntrySet,
    /// How often a record was named.
    pub(super) names: u64,
}

/// Before the first address.
pub(super) const START: Said = Said::NOTHING;

/// Bit below the length of a record that expires.
const EXPIRES: u64 = 1;

impl<'a> Addresses<'a> {
    pub(super) fn new(out: &'a mut Vec<u8>, needed: &'a mut Needed) -> Self {
        Self::behind(START, out, needed)
    }

    /// Goes on behind what was said last.
    pub(super) const fn behind(last: Said, out: &'a mut Vec<u8>, needed: &'a mut Needed) -> Self {
        Self { out, needed, last }
    }

    /// The address that was written last, and the expiry.
    pub(super) const fn last(&self) -> Said {
        self.last
    }

    /// Appends what is said of a record.
    pub(crate) fn write(&mut self, said: Said) {
        let Said {
            address,
            eighths,
            expiry,
        } = said;
        let last = self.last.address;
        let step = address.index.wrapping_sub(last.index).cast_signed();
        varint::write(varint::zigzag(step), self.out);
        let eighth = i64::from(address.ordinal >> 3);
        let from = if step == 0 {
            i64::from(last.ordinal >> 3)
        } else {
            0
        };
        varint::write(varint::zigzag(eighth - from), self.out);
        let expires = expiry != Expiry::NONE;
        let length = u64::from(eighths) << 1 | if expires { EXPIRES } else { 0 };
        varint::write(length, self.out);
        self.last.address = address;
        if expires {
            let step = seconds(expiry) - seconds(self.last.expiry);
            varint::write(varint::zigzag(step), self.out);
            self.last.expiry = expiry;
        }
        if step != 0 {
            self.needed.entries.insert(address.index);
        }
        self.needed.names += 1;
    }
}

/// Reads what [`Addresses`] wrote. Each address gets a place in a list; its number stands where the slot will.
#[derive(Debug)]
pub(crate) struct AddressReader<'a> {
    found: &'a mut Named,
    naming: Naming,
    last: Said,
}

const ADDRESS: DecodeError = DecodeError::Invalid("address of a record");

const fn seconds(expiry: Expiry) -> i64 {
    expiry.seconds() as i64
}

impl<'a> AddressReader<'a> {
    pub(super) fn new(found: &'a mut Named, naming: Naming) -> Self {
        Self {
            found,
            naming,
            last: START,
        }
    }

    /// Addresses so far.
    pub(super) fn count(&self) -> usize {
        self.found.len()
    }

    /// The next address.
    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<Slot, DecodeError> {
        let step = varint::unzigzag(varint::read(reader)?);
        let eighth = varint::unzigzag(varint::read(reader)?);
        let last = self.last.address;
        let index = last.index.wrapping_add_signed(step);
        let from = if step == 0 {
            i64::from(last.ordinal >> 3)
        } else {
            0
        };
        let ordinal = from.checked_add(eighth).ok_or(ADDRESS)?;
        let ordinal = u32::try_from(ordinal).map_err(|_| ADDRESS)?;
        if index == 0 || index > self.naming.end || ordinal >= Address::EIGHTHS_MAX {
            return Err(ADDRESS);
        }
        let (eighths, expiry) = self.said(reader)?;
        let is_whole = eighths > 0 || expiry == Expiry::NONE;
        if eighths > Address::EIGHTHS_MAX - ordinal || !is_whole {
            return Err(ADDRESS);
        }
        let ordinal = ordinal << 3;
        let address = Address { index, ordinal };
        self.last.address = address;
        let number = u32::try_from(self.found.len()).map_err(|_| ADDRESS)?;
        if Slot(number) == Slot::NONE {
            return Err(ADDRESS);
        }
        self.found.add(Said {
            address,
            eighths,
            expiry,
        });
        Ok(Slot(number))
    }

    /// Eighths of the bytes of the next record, and when it expires.
    #[inline]
    fn said(&mut self, reader: &mut Reader<'_>) -> Result<(u32, Expiry), DecodeError> {
        let eighths = |read: u64| u32::try_from(read).map_err(|_| ADDRESS);
        match self.naming.said {
            Saying::Nothing => Ok((0, Expiry::NONE)),
            Saying::Length => Ok((eighths(varint::read(reader)?)?, Expiry::NONE)),
            Saying::LengthAndExpiry => {
                let read = varint::read(reader)?;
                let expiry = match read & EXPIRES {
                    0 => Expiry::NONE,
                    _ => self.expiry(reader)?,
                };
                Ok((eighths(read >> 1)?, expiry))
            }
        }
    }

    fn expiry(&mut self, reader: &mut Reader<'_>) -> Result<Expiry, DecodeError> {
        let step = varint::unzigzag(varint::read(reader)?);
        let at = seconds(self.last.expiry).checked_add(step);
        let at = at.and_then(|at| u32::try_from(at).ok());
        let at = at.filter(|at| *at > 0).ok_or(ADDRESS)?;
        self.last.expiry = Expiry::from_seconds(at);
        Ok(self.last.expiry)
    }
}
