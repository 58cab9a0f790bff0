//! The record table: where each live message is, and how many places need it (M16, M17).
//!
//! A record is found in a **block**, shared bytes: the entry that brought it, or a block of the old generation. References
//! are slots (`u32`); a row takes 20 bytes, some four once its record and those around it are only in the log ([`rows`]), and a
//! record in memory says its length itself. A block goes when its last live record does. So that one stuck message does
//! not pin the 64 KiB buffer around its entry, an entry ages: once [`block::YOUNG_BYTES`] more have come, what still lives in it is
//! copied, once, into a dense block of the old generation; an old block of which less than half is live is copied again.
//! Held bytes are therefore at most the young window and twice the live bytes (`check`).
//!
//! Addresses (log index, byte in the entry) never change; places are this process's own business (M16). A record need not have
//! one: what waits for long is only in the log, see [`cold`].

mod block;
mod cold;
mod expiry;
mod release;
mod rows;

use bytes::Bytes;
use courser_contract::{Record, RecordRef, RecordView, WallMs};

use self::{
    block::{Block, Blocks, Generation},
    cold::Cold,
    rows::{Row, Rows},
};
pub(crate) use self::{cold::TakenIn, expiry::Expiry};
use crate::lost::is_tombstone;

/// A reference to a live record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    /// No record.
    pub(crate) const NONE: Self = Self(u32::MAX);
}

/// Where a record was born: entry, and byte in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    pub(crate) index: u64,
    pub(crate) ordinal: u32,
}

/// What a checkpoint says of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) address: Address,
    /// Eighths of its bytes. 0: a start has to look at it, since it stands for a lost one.
    pub(crate) eighths: u32,
    pub(crate) expiry: Expiry,
}

impl Said {
    /// A place for what will be said.
    pub(crate) const NOTHING: Self = Self {
        address: Address {
            index: 0,
            ordinal: 0,
        },
        eighths: 0,
        expiry: Expiry::NONE,
    };
}

const ORDINAL_BITS: u32 = 24;

impl Address {
    /// Entries are at lower places.
    pub(crate) const INDEX_END: u64 = 1 << (u64::BITS - ORDINAL_BITS);
    /// An entry has fewer eighths of bytes; records begin at multiples of 8.
    pub(crate) const EIGHTHS_MAX: u32 = 1 << ORDINAL_BITS;

    /// Entries are shorter than 16 MiB, numbered below 2^40.
    pub(crate) fn pack(self) -> u64 {
        assert!(
            self.ordinal >> (ORDINAL_BITS + 3) == 0,
            "an entry is shorter than 128 MiB"
        );
        self.index << ORDINAL_BITS | u64::from(self.ordinal >> 3)
    }

    pub(crate) const fn unpack(packed: u64) -> Self {
        Self {
            index: packed >> ORDINAL_BITS,
            ordinal: ((packed & ((1 << ORDINAL_BITS) - 1)) << 3) as u32,
        }
    }
}

/// A free row is in this block.
const FREE: u32 = u32::MAX;
/// A row on its way from one block to another: a slot that stands twice in the lists is moved once.
const MOVING: u32 = u32::MAX - 1;
/// A row of a checkpoint whose bytes have not come out of the log.
const EXPECTED: u32 = u32::MAX - 2;
/// A record whose bytes are only in the log. Where its offset was is its length, here and in the next two.
const COLD: u32 = u32::MAX - 3;
/// The same, and the log has been asked for it.
const ASKED: u32 = u32::MAX - 4;
/// The log does not give it any more: it stands for itself as a lost one.
const LOST: u32 = u32::MAX - 5;
/// Blocks have lower numbers.
const ABSENT: u32 = LOST;

/// Bit of a row's references: its record stays in memory.
const PINNED: u32 = 1 << 31;

/// All live records of a partition.
#[derive(Debug, Default)]
pub(crate) struct Records {
    rows: Rows,
    live: usize,
    /// Records that stand for lost ones, see `lost`.
    tombstones: usize,
    /// Counts up whenever these, or what needs them, are others.
    losses: u64,
    /// Records that were ever found to be lost.
    lost_ever: u64,
    blocks: Blocks,
    cold: Cold,
}

impl Records {
    /// The block of an entry, for records of it that [`Records::insert`] adds.
    pub(crate) fn begin_entry(&mut self, entry: &Bytes) -> u32 {
        self.blocks.add_young(entry.clone())
    }

    /// No more records of this entry come; streams have so many references now. Moves what is due to the old generation.
    pub(crate) fn end_entry(&mut self, block: u32, references: u64) {
        self.note_references(references);
        self.blocks.settle(block);
        self.age();
    }

    /// Moves what is due to the old generation.
    fn age(&mut self) {
        let aged = self.blocks.take_aged();
        if !aged.is_empty() {
            self.move_out(&aged, Generation::Old);
            self.cool();
        }
    }

    /// Adds a record of the entry that is being applied, with one reference.
    #[inline]
    pub(crate) fn insert(&mut self, block: u32, offset: usize, len: usize, index: u64) -> Slot {
        let offset = u32::try_from(offset).expect("an entry is shorter than 4 GiB");
        let len = u32::try_from(len).expect("an entry is shorter than 4 GiB");
        let address = Address {
            index,
            ordinal: offset,
        };
        let row = Row::new(block, offset, 1, address);
        let slot = self.rows.add(row);
        self.live += 1;
        self.blocks.get_mut(block).add(slot, len);
        Slot(slot)
    }

    /// So many more places need it.
    #[inline]
    pub(crate) fn keep_for(&mut self, slot: Slot, places: u32) {
        self.rows.get_mut(slot.0).refs += places;
    }

    /// A place that keeps a record does not need its bytes any more.
    pub(crate) fn note_unneeded(&mut self, slot: Option<Slot>) {
        let is_one = slot.is_some_and(|slot| self.is_tombstone(slot));
        self.losses += u64::from(is_one);
    }

    /// The record, which is in memory.
    pub(crate) fn get(&self, slot: Slot) -> RecordRef<'_> {
        let row = self.rows.find(slot.0).filter(|row| row.block < ABSENT);
        let row = row.expect("a reference leads to a live record in memory");
        self.record(row)
    }

    #[inline]
    fn record(&self, row: &Row) -> RecordRef<'_> {
        RecordRef::trusted_at(self.blocks.bytes(row.block), row.offset as usize)
    }

    /// When it expires; if it is not in memory, up to a second later, or never where that is behind what an [`Expiry`] says.
    pub(crate) fn expires_at(&self, slot: Slot) -> Option<WallMs> {
        match self.rows.find(slot.0).filter(|row| row.block < ABSENT) {
            Some(row) => self.record(row).expires_at(),
            None => self.rows.expiry(slot.0).moment(),
        }
    }

    /// Its parts.
    pub(crate) fn view(&self, slot: Slot) -> RecordView<'_> {
        self.get(slot).view()
    }

    /// A share of it.
    pub(crate) fn share(&self, slot: Slot) -> Record {
        self.get(slot).to_record()
    }

    /// Bytes of the encoded record.
    #[inline]
    pub(crate) fn len_of(&self, slot: Slot) -> u32 {
        match self.rows.find(slot.0) {
            Some(row) if row.block < ABSENT => self.blocks.record_len(row.block, row.offset),
            Some(row) => row.offset,
            None => self.rows.len_of_cold(slot.0),
        }
    }

    /// Whether the slot holds a record.
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        (slot.0 as usize) < self.rows.end() && self.rows.get(slot.0).block != FREE
    }

    /// Where it was born.
    pub(crate) fn address(&self, slot: Slot) -> Address {
        match self.rows.find(slot.0) {
            Some(row) => row.address(),
            None => self.rows.get(slot.0).address(),
        }
    }

    /// What a checkpoint says of it.
    pub(crate) fn said(&self, slot: Slot) -> Said {
        let row = self.rows.get(slot.0);
        let (len, expiry) = match row.block {
            COLD | ASKED => (row.offset, self.rows.expiry(slot.0)),
            _ if self.tombstones > 0 && self.stands_for_lost(&row) => (0, Expiry::NONE),
            _ => {
                let record = self.record(&row);
                let expiry = Expiry::of(record.expires_at());
                (record.encoded_len() as u32, expiry)
            }
        };
        Said {
            address: row.address(),
            eighths: len >> 3,
            expiry,
        }
    }

    /// Live records whose bytes are lost.
    #[inline]
    pub(crate) const fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Whether the bytes of a record are lost.
    #[inline]
    pub(crate) fn is_tombstone(&self, slot: Slot) -> bool {
        self.tombstones > 0 && self.stands_for_lost(&self.rows.get(slot.0))
    }

    fn stands_for_lost(&self, row: &Row) -> bool {
        match row.block {
            LOST => true,
            COLD | ASKED => false,
            _ => is_tombstone(&self.record(row).view()),
        }
    }

    /// So many of the records that came in last stand for lost ones.
    pub(crate) const fn note_tombstones(&mut self, count: usize) {
        self.tombstones += count;
        self.losses += count as u64;
        self.lost_ever += count as u64;
    }

    /// A higher number whenever more are lost.
    pub(crate) const fn lost_ever(&self) -> u64 {
        self.lost_ever
    }

    /// Another number whenever other records are lost, or others need them.
    pub(crate) const fn losses(&self) -> u64 {
        self.losses
    }

    /// Live records.
    pub(crate) const fn live(&self) -> usize {
        self.live
    }

    /// Bytes of all blocks, buffers shared by several entries counted by their parts.
    pub(crate) fn held_bytes(&self) -> usize {
        self.blocks.held_bytes()
    }

    /// Bytes of the rows of all records.
    pub(crate) fn row_bytes(&self) -> usize {
        self.rows.held_bytes()
    }

    /// References of a live record; for `check`.
    pub(crate) fn references(&self, slot: Slot) -> u32 {
        self.rows.get(slot.0).refs & !PINNED
    }

    /// All live records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let rows = self.rows.from(0);
        rows.filter(|(_, row)| row.block != FREE)
            .map(|(slot, _)| Slot(slot))
    }

    /// A row whose bytes come later, by [`Records::fill`]. In ascending order of addresses, before any other row.
    pub(crate) fn expect(&mut self, address: Address, refs: u32) -> Slot {
        self.live += 1;
        Slot(self.rows.expect(address, refs))
    }

    /// A row of a record of so many bytes that stays in the log, until it expires. In the same order.
    pub(crate) fn expect_cold(
        &mut self,
        address: Address,
        refs: u32,
        known: (u32, Expiry),
    ) -> Slot {
        self.live += 1;
        self.note_cold();
        Slot(self.rows.expect_cold(address, refs, known))
    }

    /// The next row of an entry whose bytes have not come, with the byte of the entry at which its record begins. It no longer
    /// counts as such. `near` is where it probably is.
    pub(crate) fn take_expected(&mut self, index: u64, near: u32) -> Option<(Slot, u32)> {
        let is_next = |row: &Row| row.block == EXPECTED && row.address().index == index;
        let at = if (near as usize) < self.rows.end() && is_next(&self.rows.get(near)) {
            near
        } else {
            let first = self.rows.partition_point(|row| row.address().index < index);
            let mut rows = self.rows.from(first);
            let same = rows
                .by_ref()
                .take_while(|(_, row)| row.address().index == index);
            let (at, _) = same.into_iter().find(|(_, row)| is_next(row))?;
            at
        };
        let row = self.rows.get_expected(at);
        row.block = MOVING;
        Some((Slot(at), row.address().ordinal))
    }

    /// The same for records that begin within some bytes of the entry, the end not included.
    pub(crate) fn take_expected_in(
        &mut self,
        index: u64,
        (from, end): (u32, u64),
    ) -> Option<(Slot, u32)> {
        let first = Address {
            index,
            ordinal: from,
        };
        let at = self.first_expected_from(first)?;
        let row = self.rows.get_expected(at);
        let ordinal = row.address().ordinal;
        if u64::from(ordinal) >= end {
            return None;
        }
        row.block = MOVING;
        Some((Slot(at), ordinal))
    }

    /// Whether bytes of an entry have not come.
    pub(crate) fn is_expecting(&self, index: u64) -> bool {
        let first = Address { index, ordinal: 0 };
        self.first_expected_from(first).is_some()
    }

    /// The first row at or behind an address, of the same entry, whose bytes have not come.
    fn first_expected_from(&self, address: Address) -> Option<u32> {
        let first = self.rows.partition_point(|row| row.address() < address);
        let mut rows = self.rows.from(first);
        let rows = rows.by_ref();
        let mut rows = rows.take_while(|(_, row)| row.address().index == address.index);
        let (at, _) = rows.find(|(_, row)| row.block == EXPECTED)?;
        Some(at)
    }

    /// Takes in a dense block that has the bytes of some rows that were taken: each with its byte in the block.
    pub(crate) fn fill(&mut self, bytes: Bytes, fills: &[(Slot, u32)]) {
        let slots: Vec<u32> = fills.iter().map(|(slot, _)| slot.0).collect();
        let block = self.blocks.add_dense(bytes, &slots, Generation::Old);
        for (slot, offset) in fills {
            let row = self.rows.get_mut(slot.0);
            (row.block, row.offset) = (block, *offset);
        }
        self.cool();
    }

    /// The first row whose bytes have not come.
    pub(crate) fn first_expected(&self) -> Option<Address> {
        let mut rows = self.rows.from(0);
        let (_, row) = rows.find(|(_, row)| row.block == EXPECTED)?;
        Some(row.address())
    }

    /// Copies what lives in some blocks into one new dense block and lets them go.
    fn move_out(&mut self, from: &[u32], generation: Generation) {
        let live = from
            .iter()
            .map(|&block| self.blocks.live_bytes(block))
            .sum();
        let mut bytes = Vec::with_capacity(live);
        let mut slots = Vec::new();
        for &block in from {
            for slot in self.blocks.take_slots(block) {
                // One that has left may be in a page that should not be touched for it.
                if self.rows.find(slot).is_none_or(|row| row.block != block) {
                    continue;
                }
                let row = self.rows.get_mut(slot);
                let start = row.offset as usize;
                let len = self.blocks.record_len(block, row.offset) as usize;
                row.offset = u32::try_from(bytes.len()).expect("an entry is shorter than 4 GiB");
                bytes.extend_from_slice(&self.blocks.bytes(block)[start..start + len]);
                row.block = MOVING;
                slots.push(slot);
            }
            self.blocks.drop_block(block);
        }
        if slots.is_empty() {
            return;
        }
        let to = self.blocks.add_dense(bytes.into(), &slots, generation);
        for slot in slots {
            self.rows.get_mut(slot).block = to;
        }
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        let mut live_bytes = vec![0u64; self.blocks.len()];
        for slot in self.iter() {
            let row = self.rows.get(slot.0);
            assert!(
                self.references(slot) > 0,
                "a live record is needed somewhere"
            );
            if row.block >= ABSENT {
                continue;
            }
            let len = self.get(slot).view().encoded_len();
            assert_eq!(self.len_of(slot) as usize, len, "a record says its length");
            live_bytes[row.block as usize] += len as u64;
        }
        let lost = self.iter().filter(|slot| self.is_tombstone(*slot));
        assert_eq!(lost.count(), self.tombstones, "tombstones are counted");
        self.check_cold();
        self.rows.check();
        self.blocks.check(&live_bytes);
        assert_eq!(self.iter().count(), self.live, "live records are counted");
    }
}

impl Block {
    fn add(&mut self, slot: u32, len: u32) {
        self.slots.push(slot);
        self.live_bytes += u64::from(len);
    }
}

#[cfg(test)]
mod tests;
