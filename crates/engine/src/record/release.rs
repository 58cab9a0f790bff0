//! How a record is let go: for each message once, so the data path has a way of its own.

use super::{ABSENT, COLD, Records, Slot, rows::Released};

impl Records {
    /// One place less needs it. Returns whether that was the last one.
    #[inline]
    pub(crate) fn release(&mut self, slot: Slot) -> bool {
        let Some(released) = self.release_at_hand(slot) else {
            return self.release_any(slot);
        };
        if released.is_gone {
            let len = self.blocks.record_len(released.block, released.offset);
            self.let_go_of(released.block, len);
        }
        released.is_gone
    }

    /// The same, but returns the bytes of the encoded record.
    #[inline]
    pub(crate) fn release_measured(&mut self, slot: Slot) -> u32 {
        let Some(released) = self.release_at_hand(slot) else {
            let len = self.len_of(slot);
            self.release_any(slot);
            return len;
        };
        let len = self.blocks.record_len(released.block, released.offset);
        if released.is_gone {
            self.let_go_of(released.block, len);
        }
        len
    }

    /// The row of a record in an open page and in memory is told, while no record stands for a lost one: most are. None: nothing is done.
    #[inline]
    fn release_at_hand(&mut self, slot: Slot) -> Option<Released> {
        match self.tombstones {
            0 => self.rows.release_at_hand(slot.0),
            _ => None,
        }
    }

    /// So many bytes of a block are not needed any more: a record that was there has no row.
    #[inline]
    fn let_go_of(&mut self, block: u32, len: u32) {
        self.live -= 1;
        if let Some(generation) = self.blocks.remove(block, len) {
            self.move_out(&[block], generation);
        }
    }

    #[cold]
    #[inline(never)]
    fn release_any(&mut self, slot: Slot) -> bool {
        let is_last = self.rows.release(slot.0);
        if self.tombstones > 0 {
            self.note_released(slot, is_last);
        }
        if is_last {
            self.let_go(slot);
        }
        is_last
    }

    /// Nobody needs it any more.
    fn let_go(&mut self, slot: Slot) {
        let (block, offset) = match self.rows.find(slot.0) {
            Some(row) => (row.block, row.offset),
            None => (COLD, 0),
        };
        if block >= ABSENT {
            self.forget_absent(slot);
        }
        self.rows.remove(slot.0);
        if block >= ABSENT {
            self.live -= 1;
        } else {
            let len = self.blocks.record_len(block, offset);
            self.let_go_of(block, len);
        }
    }

    /// One place less needs a record, while some stand for lost ones.
    #[cold]
    fn note_released(&mut self, slot: Slot, is_last: bool) {
        let is_one = self.is_tombstone(slot);
        self.tombstones -= usize::from(is_one && is_last);
        self.losses += u64::from(is_one);
    }
}
