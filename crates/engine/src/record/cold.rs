//! Records that wait for long leave memory: their bytes are in the log (`docs/adr/0017-cold-records.md`).
//!
//! ```text
//!          cool              ask               take_in
//! in a block ──▶ cold, 0 bytes ──▶ asked for, 0 bytes ──▶ in a block that was recalled, or lost
//! ```
//! What is cold is no state: it follows from how much may be in memory ([`Records::set_hot_max`]) and from who takes what. A row
//! keeps its address, the record's length and, to the second, when it expires. Above the limit the oldest dense blocks go (one that was copied is as old as its copy), without those of their records
//! that may be needed without warning, the pinned ones. What names messages comes off the limit where it takes much ([`Records::hot_max`]): it cannot leave, and
//! the two share what messages that wait may take.

use bytes::Bytes;
use courser_contract::{LogIndex, Need, Recalled, RecordRef, Want};
use hashbrown::HashMap;

use super::{
    ABSENT, ASKED, Address, COLD, Expiry, Generation, LOST, MOVING, PINNED, Records, Row, Slot,
};
use crate::config::name_bytes;

/// Records of so many bytes go at a time: some 4,000 of them.
const STEP_BYTES: usize = 1 << 20;

/// What names messages takes nothing of what may be in memory up to this part of it; what is beyond comes off. By default both have four thirds of it before
/// anybody is refused (a third of `memory.max` to a quarter): the rest is for young entries, of which some come between two looks.
const NAMES_SHARE: usize = 8;
/// This part stays, however much names take.
const HOT_SHARE: usize = 4;
/// Less than that is not worth it.
const HOT_LEAST: usize = 64 * 1024;

/// Fixed seed: the keys are numbers of ours, which no client chooses or sees.
type Hasher = foldhash::fast::FixedState;

/// What is not in memory.
#[derive(Debug)]
pub(super) struct Cold {
    /// Bytes that may be in memory where little names them.
    hot_max: usize,
    /// References to records in streams.
    references: u64,
    /// More are, and some of them can go: the next step is due.
    is_due: bool,
    /// Rows whose bytes are not, lost ones left out.
    records: usize,
    /// Those of them that the log was asked for: packed address and row.
    asked: HashMap<u64, u32, Hasher>,
    /// Rows at which streams have stopped.
    waiting: HashMap<u32, Vec<u64>, Hasher>,
    /// Rows that the log did not give, with [`Records::lost_ever`] then.
    unread: HashMap<u32, u64, Hasher>,
}

/// What an answer has brought.
#[derive(Debug, Default)]
pub(crate) struct TakenIn {
    /// Records that are needed and that the log does not give.
    pub(crate) lost: usize,
    /// Streams that had stopped at records of it, or at lost ones.
    pub(crate) streams: Vec<u64>,
}

impl Default for Cold {
    fn default() -> Self {
        Self {
            hot_max: usize::MAX,
            references: 0,
            is_due: false,
            records: 0,
            asked: HashMap::default(),
            waiting: HashMap::default(),
            unread: HashMap::default(),
        }
    }
}

impl Records {
    /// From now on so many bytes may be in memory, beside those that must be.
    pub(crate) fn set_hot_max(&mut self, bytes: usize) {
        self.cold.hot_max = bytes;
        self.blocks.set_hot_max(bytes);
        self.age();
        self.cool();
    }

    /// Bytes that may be in memory now, beside those that must be.
    pub(crate) fn hot_max(&self) -> usize {
        let most = self.cold.hot_max;
        let least = (most / HOT_SHARE).max(HOT_LEAST).min(most);
        let names = name_bytes(self.row_bytes() as u64, self.cold.references);
        let names = usize::try_from(names).unwrap_or(usize::MAX);
        let beyond = names.saturating_sub(most / NAMES_SHARE);
        most.saturating_sub(beyond).max(least)
    }

    /// Streams have so many references to records.
    pub(crate) const fn note_references(&mut self, references: u64) {
        self.cold.references = references;
    }

    /// Somebody may need it without warning: it stays in memory as long as it lives. It is there now.
    #[inline]
    pub(crate) fn pin(&mut self, slot: Slot) {
        self.rows.pin(slot.0, 0);
    }

    /// The same of one that is on its way out of the log.
    pub(crate) fn pin_expected(&mut self, slot: Slot) {
        self.rows.get_expected(slot.0);
        self.pin(slot);
    }

    /// The same, and one more place needs it.
    #[inline]
    pub(crate) fn keep_pinned(&mut self, slot: Slot) {
        self.rows.pin(slot.0, 1);
    }

    /// Records that are not in memory.
    #[inline]
    pub(crate) const fn cold(&self) -> usize {
        self.cold.records
    }

    /// Records that the log was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.cold.asked.len()
    }

    /// Bytes of blocks that were read back.
    pub(crate) const fn recalled_bytes(&self) -> usize {
        self.blocks.recalled_bytes()
    }

    /// One more is not in memory.
    pub(super) const fn note_cold(&mut self) {
        self.cold.records += 1;
    }

    /// Whether its bytes are only in the log.
    #[inline]
    pub(crate) fn is_cold(&self, slot: Slot) -> bool {
        let row = self.rows.find(slot.0);
        row.is_none_or(|row| matches!(row.block, COLD | ASKED))
    }

    /// Whether its bytes are in memory.
    pub(crate) fn is_in_memory(&self, slot: Slot) -> bool {
        self.rows.find(slot.0).is_some_and(|row| row.block < ABSENT)
    }

    /// Its bytes are only in the log, and nobody has asked for it.
    pub(crate) fn is_unasked(&self, slot: Slot) -> bool {
        self.rows.find(slot.0).is_none_or(|row| row.block == COLD)
    }

    /// The record, if it is in memory, and whether it was read back for who takes it now.
    #[inline]
    pub(crate) fn find(&self, slot: Slot) -> Option<(RecordRef<'_>, bool)> {
        let row = self.rows.find(slot.0)?;
        if row.block >= ABSENT {
            return None;
        }
        let is_recalled = self.blocks.recalled_bytes() > 0
            && self.blocks.generation(row.block) == Generation::Recalled;
        Some((self.record(row), is_recalled))
    }

    /// The row of a record that was read back.
    fn recalled(&self, slot: Slot) -> Option<Row> {
        let row = *self.rows.find(slot.0)?;
        let is_one =
            row.block < ABSENT && self.blocks.generation(row.block) == Generation::Recalled;
        is_one.then_some(row)
    }

    /// A record that was read back has been handed over: its room is for the next one. Who else needs it, and a connection that
    /// comes again, asks again.
    pub(crate) fn give_back(&mut self, slot: Slot) {
        let Some(row) = self.recalled(slot) else {
            return;
        };
        let block = row.block;
        let known = known_of(self.record(&row));
        let (len, _) = known;
        self.rows.cool(slot.0, known);
        self.cold.records += 1;
        if let Some(generation) = self.blocks.remove(block, len) {
            self.move_out(&[block], generation);
        }
    }

    /// Whether [`Records::cool`] has more to do: a limit was lowered.
    pub(crate) const fn cools_on(&self) -> bool {
        self.cold.is_due
    }

    /// Lets the oldest records go until few enough are in memory, or so many have gone that the rest has time until the next
    /// call.
    pub(crate) fn cool(&mut self) {
        let mut staying = Staying::default();
        let least = self.blocks.hot_bytes().saturating_sub(STEP_BYTES);
        let most = self.hot_max();
        let until = most.max(least);
        self.cold.is_due = false;
        while self.blocks.hot_bytes() > until {
            let Some(block) = self.blocks.take_oldest() else {
                return self.keep_staying(staying);
            };
            self.cool_block(block, &mut staying);
        }
        self.cold.is_due = self.blocks.hot_bytes() > most;
        self.keep_staying(staying);
    }

    /// Lets those that were read back go, oldest first, until at most `bytes` of them are left: who they are for does not
    /// take them. True: that is so; else it goes on with the next call.
    pub(crate) fn cool_recalled(&mut self, bytes: usize) -> bool {
        let mut staying = Staying::default();
        let least = self.blocks.recalled_bytes().saturating_sub(STEP_BYTES);
        while self.blocks.recalled_bytes() > bytes.max(least)
            && let Some(block) = self.blocks.take_oldest_recalled()
        {
            self.cool_block(block, &mut staying);
        }
        self.keep_staying(staying);
        self.blocks.recalled_bytes() <= bytes
    }

    fn cool_block(&mut self, block: u32, staying: &mut Staying) {
        for slot in self.blocks.take_slots(block) {
            let Some(row) = self.rows.find(slot).filter(|row| row.block == block) else {
                continue;
            };
            let bytes = self.blocks.bytes(block);
            let record = RecordRef::trusted_at(bytes, row.offset as usize);
            let must_stay = row.refs & PINNED != 0 || self.is_tombstone(Slot(slot));
            if must_stay {
                let start = record.start();
                staying.add(slot, &bytes[start..start + record.encoded_len()]);
                self.rows.get_mut(slot).block = MOVING;
                self.rows.stay(slot);
                continue;
            }
            let known = known_of(record);
            self.rows.cool(slot, known);
            self.cold.records += 1;
        }
        self.blocks.drop_block(block);
    }

    fn keep_staying(&mut self, staying: Staying) {
        if staying.slots.is_empty() {
            return;
        }
        // No longer than it is: it stays for long.
        let bytes = staying.bytes.into_boxed_slice();
        let block = self
            .blocks
            .add_dense(bytes.into(), &staying.slots, Generation::Pinned);
        for (slot, offset) in staying.slots.into_iter().zip(staying.offsets) {
            let row = self.rows.get_mut(slot);
            (row.block, row.offset) = (block, offset);
        }
    }

    /// The log is asked for a record that is cold and was not asked for.
    pub(crate) fn ask(&mut self, slot: Slot) -> Want {
        let row = self.rows.warm(slot.0, ASKED);
        let (address, len) = (row.address(), row.offset);
        self.cold.asked.insert(address.pack(), slot.0);
        Want {
            index: LogIndex(address.index),
            byte: address.ordinal,
            len,
        }
    }

    /// Takes in what the log has answered. What nobody needs any more of it changes nothing.
    pub(crate) fn take_in(&mut self, recalled: &Recalled) -> TakenIn {
        let mut taken = TakenIn::default();
        let mut fills = Vec::with_capacity(recalled.records.len());
        for (want, offset) in &recalled.records {
            if let Some(slot) = self.take_asked((want.index, want.byte)) {
                if RecordRef::len_at(&recalled.bytes, *offset as usize) != want.len {
                    // No record of what a checkpoint has said.
                    self.note_lost(slot, &mut taken);
                    continue;
                }
                fills.push((slot, *offset, want.len));
                self.wake(slot, &mut taken);
            }
        }
        self.fill_recalled(&recalled.bytes, &mut fills, recalled.records.len());
        for &Need { index, byte } in &recalled.lost {
            if let Some(slot) = self.take_asked((index, byte)) {
                self.note_lost(slot, &mut taken);
            }
        }
        taken
    }

    /// Nobody waits for a record any more.
    fn wake(&mut self, slot: u32, taken: &mut TakenIn) {
        if !self.cold.waiting.is_empty() {
            let streams = self.cold.waiting.remove(&slot);
            taken.streams.extend(streams.into_iter().flatten());
        }
    }

    /// The log does not give a record. Its streams stop there, but for what a member of a group has behind it already.
    fn note_lost(&mut self, slot: u32, taken: &mut TakenIn) {
        self.rows.get_mut(slot).block = LOST;
        self.wake(slot, taken);
        taken.lost += 1;
        self.note_tombstones(1);
        self.cold.unread.insert(slot, self.lost_ever);
    }

    /// Which of all losses it was that the log did not give the record; none: it is not lost, or was when the log was started.
    pub(crate) fn unread(&self, slot: Slot) -> Option<u64> {
        self.cold.unread.get(&slot.0).copied()
    }

    /// A record that could not be read back is cold again: it may be read by now. Whoever had stopped there waits for it, and nobody has asked.
    pub(crate) fn try_again(&mut self, slot: Slot) {
        if self.cold.unread.remove(&slot.0).is_some() {
            let row = self.rows.get(slot.0);
            let expiry = self.rows.expiry(slot.0);
            self.rows.cool(slot.0, (row.offset, expiry));
            self.tombstones -= 1;
            self.losses += 1;
            self.cold.records += 1;
        }
    }

    /// Streams that have stopped at a record.
    pub(crate) fn who_waits(&self, slot: Slot) -> &[u64] {
        let streams = self.cold.waiting.get(&slot.0);
        streams.map_or(&[], Vec::as_slice)
    }

    /// A stream has stopped at a cold record.
    pub(crate) fn wait(&mut self, slot: Slot, stream: u64) {
        let streams = self.cold.waiting.entry(slot.0).or_default();
        if !streams.contains(&stream) {
            streams.push(stream);
        }
    }

    /// Whether it has.
    pub(crate) fn is_waited_for(&self, slot: Slot, stream: u64) -> bool {
        let streams = self.cold.waiting.get(&slot.0);
        streams.is_some_and(|streams| streams.contains(&stream))
    }

    /// The row that asked for an address and still needs it.
    fn take_asked(&mut self, (index, byte): (LogIndex, u32)) -> Option<u32> {
        let address = Address {
            index: index.0,
            ordinal: byte,
        };
        let slot = self.cold.asked.remove(&address.pack())?;
        self.cold.records -= 1;
        Some(slot)
    }

    /// Some of the records of a block are needed: those that are not are left out of what is held.
    fn fill_recalled(&mut self, bytes: &Bytes, fills: &mut [(u32, u32, u32)], all: usize) {
        if fills.is_empty() {
            return;
        }
        let mut block = bytes.clone();
        if fills.len() < all {
            let mut dense = Vec::new();
            for (_, offset, len) in fills.iter_mut() {
                let start = *offset as usize;
                *offset = u32::try_from(dense.len()).expect("it is part of a block");
                dense.extend_from_slice(&bytes[start..start + *len as usize]);
            }
            block = dense.into_boxed_slice().into();
        }
        let slots: Vec<u32> = fills.iter().map(|(slot, ..)| *slot).collect();
        let number = self.blocks.add_dense(block, &slots, Generation::Recalled);
        for (slot, offset, _) in fills {
            let row = self.rows.get_mut(*slot);
            (row.block, row.offset) = (number, *offset);
        }
    }

    /// A record that is not in memory is needed nowhere any more.
    #[cold]
    pub(super) fn forget_absent(&mut self, slot: Slot) {
        if !self.cold.waiting.is_empty() {
            self.cold.waiting.remove(&slot.0);
        }
        // One that is not found is cold: most are.
        let Some(row) = self.rows.find(slot.0) else {
            self.cold.records -= 1;
            return;
        };
        match row.block {
            COLD => self.cold.records -= 1,
            ASKED => {
                self.cold.records -= 1;
                self.cold.asked.remove(&row.address().pack());
            }
            LOST => {
                self.cold.unread.remove(&slot.0);
            }
            _ => {}
        }
    }

    pub(super) fn check_cold(&self) {
        let (mut cold, mut asked, mut unread) = (0, 0, 0);
        for slot in self.iter() {
            let row = self.rows.get(slot.0);
            cold += usize::from(self.is_cold(slot));
            asked += usize::from(row.block == ASKED);
            unread += usize::from(row.block == LOST);
            if row.block == LOST {
                assert!(self.unread(slot).is_some(), "it is known when it was lost");
            }
            if row.block >= ABSENT {
                assert_eq!(row.refs & PINNED, 0, "what is pinned is in memory");
            }
            if row.block == ASKED {
                let found = self.cold.asked.get(&row.address().pack());
                assert_eq!(found, Some(&slot.0), "an answer finds its record");
            }
        }
        assert_eq!(cold, self.cold.records, "what is cold is counted");
        assert_eq!(asked, self.cold.asked.len(), "what is asked for is known");
        assert_eq!(unread, self.cold.unread.len(), "what was not read is lost");
    }
}

/// What stays known of a record whose bytes are only in the log: how many they are, and when it expires.
fn known_of(record: RecordRef<'_>) -> (u32, Expiry) {
    let len = u32::try_from(record.encoded_len()).expect("a packet is far below 4 GiB");
    (len, Expiry::of(record.expires_at()))
}

/// Records that stay although their block goes.
#[derive(Default)]
struct Staying {
    bytes: Vec<u8>,
    slots: Vec<u32>,
    offsets: Vec<u32>,
}

impl Staying {
    fn add(&mut self, slot: u32, record: &[u8]) {
        let offset = u32::try_from(self.bytes.len()).expect("what stays is far below 4 GiB");
        self.slots.push(slot);
        self.offsets.push(offset);
        self.bytes.extend_from_slice(record);
    }
}
