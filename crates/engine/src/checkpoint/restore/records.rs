//! Records of a checkpoint: addresses become rows, entries bring the bytes.

use bytes::Bytes;
use courser_contract::RecordRef;

use super::RestoreError;
use crate::{
    checkpoint::{EntrySet, unit::Named},
    lost::TOMBSTONE,
    record::{Address, Expiry, Records, Slot},
};

/// Bytes of a block into which records are copied.
const BLOCK_BYTES: usize = 256 * 1024;

/// Records whose bytes come from the log.
#[derive(Debug)]
pub(super) struct Filling {
    /// Slot of each record in the order in which the checkpoint names them, and eighths of its bytes if it stays in the log.
    slots: Vec<Slot>,
    eighths: Vec<u32>,
    pub(super) wanted: EntrySet,
    /// Rows whose bytes have not come.
    missing: usize,
    block: Vec<u8>,
    /// Rows of the block, each with its byte there.
    fills: Vec<(Slot, u32)>,
    /// The row that is probably the next to be filled.
    next: u32,
}

impl Filling {
    /// Makes a row of each record, in ascending order of addresses. From `cold_from` bytes on, all told, those of which the checkpoint
    /// says the length are left in the log.
    pub(super) fn new(mut named: Named, cold_from: Option<u64>, records: &mut Records) -> Self {
        let order = in_order(&named.addresses);
        let all = || order.chunk_by(|(one, _), (two, _)| one == two);
        let stay = cold_from.is_some_and(|least| {
            let mut bytes = 0;
            let mut sizes = all().map(|same| u64::from(size_of(same, &named.eighths)) << 3);
            least == 0
                || sizes.any(|size| {
                    bytes += size;
                    bytes >= least
                })
        });
        let mut filling = Self {
            slots: vec![Slot::NONE; order.len()],
            eighths: std::mem::take(&mut named.eighths),
            wanted: EntrySet::default(),
            missing: 0,
            block: Vec::new(),
            fills: Vec::new(),
            next: 0,
        };
        for same in all() {
            let size = match stay {
                true => size_of(same, &filling.eighths),
                false => 0,
            };
            let expiry = named.expiry(same[0].1);
            filling.add(same, (size, expiry), records);
        }
        filling.wanted.settle();
        filling
    }

    /// Makes a row of a record under its address and numbers. It stays in the log, until it expires, if so many eighths of bytes are said, more than none.
    fn add(
        &mut self,
        same: &[(u64, u32)],
        (eighths, expiry): (u32, Expiry),
        records: &mut Records,
    ) {
        let address = Address::unpack(same[0].0);
        let refs = u32::try_from(same.len()).expect("no more than there are");
        let slot = match eighths {
            0 => {
                self.missing += 1;
                self.wanted.insert(address.index);
                records.expect(address, refs)
            }
            _ => records.expect_cold(address, refs, (eighths << 3, expiry)),
        };
        for (_, number) in same {
            self.slots[*number as usize] = slot;
            self.eighths[*number as usize] = eighths;
        }
    }

    /// Slot of each record in the order in which the checkpoint names them.
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
        self.fill((slot, offset));
        Ok(())
    }

    /// An entry is lost: tombstones hold the places of its records. Gives their number.
    pub(super) fn lost(&mut self, index: u64, records: &mut Records) -> usize {
        let mut lost = 0;
        while let Some((slot, _)) = records.take_expected(index, self.next) {
            let offset = u32::try_from(self.block.len()).expect("a block is far below 4 GiB");
            TOMBSTONE.encode(&mut self.block);
            self.fill((slot, offset));
            lost += 1;
        }
        records.note_tombstones(lost);
        self.flush_full(records);
        lost
    }

    fn fill(&mut self, (slot, offset): (Slot, u32)) {
        self.fills.push((slot, offset));
        self.next = slot.0 + 1;
        self.missing -= 1;
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
    pub(super) fn finish(mut self, records: &mut Records) -> Result<Placed, RestoreError> {
        self.flush(records);
        let missing = match self.missing {
            0 => None,
            _ => records.first_expected(),
        };
        match missing {
            Some(address) => Err(RestoreError::EntryMissing {
                index: address.index,
            }),
            None => Ok(Placed {
                slots: self.slots,
                eighths: self.eighths,
            }),
        }
    }
}

/// Where the records of a checkpoint are.
pub(super) struct Placed {
    slots: Vec<Slot>,
    eighths: Vec<u32>,
}

impl Placed {
    /// The slot of a record by its number, and its bytes.
    pub(super) fn find(&self, number: Slot, records: &Records) -> (Slot, u32) {
        let at = number.0 as usize;
        let slot = self.slots[at];
        // Rows of one stream lie far apart: what the checkpoint says saves a look at each.
        match self.eighths[at] {
            0 => (slot, records.len_of(slot)),
            eighths => (slot, eighths << 3),
        }
    }
}

/// Eighths of the bytes of a record. 0: it must be read, as one of its names says.
fn size_of(same: &[(u64, u32)], eighths: &[u32]) -> u32 {
    let sizes = same.iter().map(|(_, number)| eighths[*number as usize]);
    sizes.min().unwrap_or(0)
}

/// Addresses with their numbers, ascending.
fn in_order(addresses: &[u64]) -> Vec<(u64, u32)> {
    let mut order: Vec<_> = addresses.iter().copied().zip(0..).collect();
    // Streams name ascending addresses: a sort that makes use of runs takes little more than a pass. Of one address the numbers
    // ascend already, and stay in their order.
    order.sort_by_key(|(address, _)| *address);
    order
}
