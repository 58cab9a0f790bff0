//! Records of a checkpoint: addresses become rows, entries bring the bytes.

use bytes::Bytes;
use courser_contract::RecordRef;

use super::RestoreError;
use crate::{
    checkpoint::EntrySet,
    lost::TOMBSTONE,
    record::{Address, Records, Slot},
};

/// Bytes of a block into which records are copied.
const BLOCK_BYTES: usize = 256 * 1024;

/// Records whose bytes come from the log.
#[derive(Debug)]
pub(super) struct Filling {
    /// Slot of each address in the order in which the checkpoint names them.
    slots: Vec<Slot>,
    pub(super) wanted: EntrySet,
    block: Vec<u8>,
    /// Rows of the block, each with its byte there.
    fills: Vec<(Slot, u32)>,
    /// The row that is probably the next to be filled.
    next: u32,
}

impl Filling {
    /// Makes a row of each address, in ascending order.
    pub(super) fn new(numbers: &[u64], records: &mut Records) -> Self {
        let count = u32::try_from(numbers.len()).expect("they are numbered by 32 bits");
        let mut order: Vec<u32> = (0..count).collect();
        let address_of = |number: &u32| numbers[*number as usize];
        // Streams name ascending addresses: a sort that makes use of runs takes little more than a pass.
        order.sort_by_key(address_of);
        let mut slots = vec![Slot::NONE; numbers.len()];
        let mut wanted = EntrySet::default();
        for same in order.chunk_by(|a, b| address_of(a) == address_of(b)) {
            let address = Address::unpack(address_of(&same[0]));
            let refs = u32::try_from(same.len()).expect("no more than there are");
            let slot = records.expect(address, refs);
            wanted.insert(address.index);
            for number in same {
                slots[*number as usize] = slot;
            }
        }
        wanted.settle();
        Self {
            slots,
            wanted,
            block: Vec::new(),
            fills: Vec::new(),
            next: 0,
        }
    }

    /// Slot of each address in the order in which the checkpoint names them.
    pub(super) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Copies what lives of an entry.
    pub(super) fn entry(
        &mut self,
        index: u64,
        bytes: &Bytes,
        records: &mut Records,
    ) -> Result<(), RestoreError> {
        while let Some((slot, byte)) = records.take_expected(index, self.next) {
            self.record((slot, index, byte), bytes, byte as usize)?;
        }
        self.flush_full(records);
        Ok(())
    }

    /// Copies what lives of bytes that begin at a byte of an entry.
    pub(super) fn kept(
        &mut self,
        (index, from): (u64, u32),
        bytes: &Bytes,
        records: &mut Records,
    ) -> Result<(), RestoreError> {
        let end = u64::from(from) + bytes.len() as u64;
        while let Some((slot, byte)) = records.take_expected_in(index, (from, end)) {
            self.record((slot, index, byte), bytes, (byte - from) as usize)?;
        }
        self.flush_full(records);
        Ok(())
    }

    /// Copies the record that begins at a byte of `bytes`.
    fn record(
        &mut self,
        (slot, index, byte): (Slot, u64, u32),
        bytes: &Bytes,
        at: usize,
    ) -> Result<(), RestoreError> {
        let record = RecordRef::parse(bytes, at);
        let record = record.ok_or(RestoreError::NoRecord { index, byte })?;
        let offset = u32::try_from(self.block.len()).expect("a block is far below 4 GiB");
        let start = record.start();
        self.block
            .extend_from_slice(&bytes[start..start + record.encoded_len()]);
        self.fills.push((slot, offset));
        self.next = slot.0 + 1;
        Ok(())
    }

    /// An entry is lost: tombstones hold the places of its records. Gives their number.
    pub(super) fn lost(&mut self, index: u64, records: &mut Records) -> usize {
        let mut lost = 0;
        while let Some((slot, _)) = records.take_expected(index, self.next) {
            let offset = u32::try_from(self.block.len()).expect("a block is far below 4 GiB");
            TOMBSTONE.encode(&mut self.block);
            self.fills.push((slot, offset));
            self.next = slot.0 + 1;
            lost += 1;
        }
        records.note_tombstones(lost);
        self.flush_full(records);
        lost
    }

    fn flush_full(&mut self, records: &mut Records) {
        if self.block.len() >= BLOCK_BYTES {
            self.flush(records);
        }
    }

    fn flush(&mut self, records: &mut Records) {
        if !self.fills.is_empty() {
            let block = std::mem::take(&mut self.block);
            records.fill(block.into(), &self.fills);
            self.fills.clear();
        }
    }

    /// All entries have come.
    pub(super) fn finish(mut self, records: &mut Records) -> Result<Vec<Slot>, RestoreError> {
        self.flush(records);
        match records.first_expected() {
            Some(address) => Err(RestoreError::EntryMissing {
                index: address.index,
            }),
            None => Ok(self.slots),
        }
    }
}
