//! The record table: where each live message is, and how many places need it (M16, M17).
//!
//! A record is found in a **block**, shared bytes: the entry that brought it, or a block of the old generation. References
//! are slots (`u32`); a row takes 24 bytes. A block goes when its last live record does. So that one stuck message does
//! not pin the 64 KiB buffer around its entry, an entry ages: once [`block::YOUNG_BYTES`] more have come, what still lives in it is
//! copied, once, into a dense block of the old generation; an old block of which less than half is live is copied again.
//! Held bytes are therefore at most the young window and twice the live bytes (`check`).
//!
//! Addresses (log index, byte in the entry) never change; places are this process's own business (M16).

mod block;

use bytes::Bytes;
use courser_contract::{Record, RecordRef, RecordView};

use self::block::{Block, Blocks};

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

#[derive(Clone, Copy, Debug)]
struct Row {
    block: u32,
    offset: u32,
    len: u32,
    /// Places that need it; in a free row the next free one.
    refs: u32,
    address: u64,
}

const _: () = assert!(
    size_of::<Row>() == 24,
    "a row is what the memory goal counts with"
);

/// A free row is in this block.
const FREE: u32 = u32::MAX;
/// A row on its way from one block to another: a slot that stands twice in the lists is moved once.
const MOVING: u32 = u32::MAX - 1;

/// Where the bytes of an expected row are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) slot: Slot,
    /// Byte of the block.
    pub(crate) offset: u32,
    /// Bytes of the record.
    pub(crate) len: u32,
}

/// All live records of a partition.
#[derive(Debug, Default)]
pub(crate) struct Records {
    rows: Vec<Row>,
    free: Option<u32>,
    live: usize,
    blocks: Blocks,
}

impl Records {
    /// The block of an entry, for records of it that [`Records::insert`] adds.
    pub(crate) fn begin_entry(&mut self, entry: &Bytes) -> u32 {
        self.blocks.add_young(entry.clone())
    }

    /// No more records of this entry come. Moves what is due to the old generation.
    pub(crate) fn end_entry(&mut self, block: u32) {
        self.blocks.settle(block);
        let aged = self.blocks.take_aged();
        if !aged.is_empty() {
            self.move_out(&aged);
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
        let row = Row {
            block,
            offset,
            len,
            refs: 1,
            address: address.pack(),
        };
        let slot = match self.free {
            Some(slot) => {
                let place = &mut self.rows[slot as usize];
                self.free = (place.refs != u32::MAX).then_some(place.refs);
                *place = row;
                slot
            }
            None => {
                self.rows.push(row);
                u32::try_from(self.rows.len() - 1).expect("fewer than 2^32 records are live")
            }
        };
        self.live += 1;
        self.blocks.get_mut(block).add(slot, len);
        Slot(slot)
    }

    /// One more place needs it.
    #[inline]
    pub(crate) fn keep(&mut self, slot: Slot) {
        self.keep_for(slot, 1);
    }

    /// So many more places need it.
    #[inline]
    pub(crate) fn keep_for(&mut self, slot: Slot, places: u32) {
        self.rows[slot.0 as usize].refs += places;
    }

    /// One place less needs it. Returns whether that was the last one.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) -> bool {
        let row = &mut self.rows[slot.0 as usize];
        assert!(row.block != FREE, "a reference leads to a live record");
        row.refs -= 1;
        if row.refs > 0 {
            return false;
        }
        let (block, len) = (row.block, row.len);
        row.block = FREE;
        row.refs = self.free.unwrap_or(u32::MAX);
        self.free = Some(slot.0);
        self.live -= 1;
        if self.blocks.remove(block, len) {
            self.move_out(&[block]);
        }
        true
    }

    /// The record.
    pub(crate) fn get(&self, slot: Slot) -> RecordRef<'_> {
        let row = &self.rows[slot.0 as usize];
        assert!(row.block != FREE, "a reference leads to a live record");
        RecordRef::trusted(
            self.blocks.bytes(row.block),
            row.offset as usize,
            row.len as usize,
        )
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
    pub(crate) fn len_of(&self, slot: Slot) -> u32 {
        self.rows[slot.0 as usize].len
    }

    /// Whether the slot holds a record.
    pub(crate) fn is_live(&self, slot: Slot) -> bool {
        self.rows
            .get(slot.0 as usize)
            .is_some_and(|row| row.block != FREE)
    }

    /// Where it was born.
    pub(crate) fn address(&self, slot: Slot) -> Address {
        Address::unpack(self.rows[slot.0 as usize].address)
    }

    /// Live records.
    pub(crate) const fn live(&self) -> usize {
        self.live
    }

    /// Bytes of all blocks, buffers shared by several entries counted by their parts.
    pub(crate) fn held_bytes(&self) -> usize {
        self.blocks.held_bytes()
    }

    /// References of a live record; for `check`.
    pub(crate) fn references(&self, slot: Slot) -> u32 {
        self.rows[slot.0 as usize].refs
    }

    /// All live records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| row.block != FREE)
            .map(|(slot, _)| Slot(u32::try_from(slot).expect("fewer than 2^32 rows")))
    }

    /// A row whose bytes come later, by [`Records::fill`]. In ascending order of addresses, before any other row.
    pub(crate) fn expect(&mut self, address: Address, refs: u32) -> Slot {
        let row = Row {
            block: MOVING,
            offset: 0,
            len: 0,
            refs,
            address: address.pack(),
        };
        self.rows.push(row);
        self.live += 1;
        Slot(u32::try_from(self.rows.len() - 1).expect("fewer than 2^32 records are live"))
    }

    /// Rows of an entry whose bytes have not come; `near` is where they probably begin.
    pub(crate) fn expected(&self, index: u64, near: usize) -> impl Iterator<Item = Slot> + use<> {
        let of = |row: &Row| Address::unpack(row.address).index;
        let begins = |at: usize| {
            self.rows.get(at).is_some_and(|row| of(row) == index)
                && at
                    .checked_sub(1)
                    .is_none_or(|before| of(&self.rows[before]) < index)
        };
        let first = if begins(near) {
            near
        } else {
            self.rows.partition_point(|row| of(row) < index)
        };
        let rows = self.rows[first..].iter();
        let count = rows
            .take_while(|row| of(row) == index && row.block == MOVING)
            .count();
        (first..first + count).map(|at| Slot(u32::try_from(at).expect("fewer than 2^32 rows")))
    }

    /// Takes in a dense block that has the bytes of some expected rows.
    pub(crate) fn fill(&mut self, bytes: Bytes, fills: &[Fill]) {
        let slots: Vec<u32> = fills.iter().map(|fill| fill.slot.0).collect();
        let block = self.blocks.add_old(bytes, &slots);
        for fill in fills {
            let row = &mut self.rows[fill.slot.0 as usize];
            (row.block, row.offset, row.len) = (block, fill.offset, fill.len);
        }
    }

    /// The first row whose bytes have not come.
    pub(crate) fn first_expected(&self) -> Option<Address> {
        let row = self.rows.iter().find(|row| row.block == MOVING)?;
        Some(Address::unpack(row.address))
    }

    /// Copies what lives in some blocks into one new block of the old generation and lets them go.
    fn move_out(&mut self, from: &[u32]) {
        let live = from
            .iter()
            .map(|&block| self.blocks.live_bytes(block))
            .sum();
        let mut bytes = Vec::with_capacity(live);
        let mut slots = Vec::new();
        for &block in from {
            for slot in self.blocks.take_slots(block) {
                let row = &mut self.rows[slot as usize];
                if row.block != block {
                    continue;
                }
                let start = row.offset as usize;
                row.offset = u32::try_from(bytes.len()).expect("an entry is shorter than 4 GiB");
                let record = &self.blocks.bytes(block)[start..start + row.len as usize];
                bytes.extend_from_slice(record);
                row.block = MOVING;
                slots.push(slot);
            }
            self.blocks.drop_block(block);
        }
        if slots.is_empty() {
            return;
        }
        let to = self.blocks.add_old(bytes.into(), &slots);
        for slot in slots {
            self.rows[slot as usize].block = to;
        }
    }

    /// Asserts the invariants of the module.
    pub(crate) fn check(&self) {
        let mut live_bytes = vec![0u64; self.blocks.len()];
        for slot in self.iter() {
            let row = &self.rows[slot.0 as usize];
            assert!(row.refs > 0, "a live record is needed somewhere");
            live_bytes[row.block as usize] += u64::from(row.len);
            let view = self.get(slot).view();
            assert_eq!(
                view.encoded_len(),
                row.len as usize,
                "a row knows its record's length"
            );
        }
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
