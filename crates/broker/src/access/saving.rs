//! A checkpoint of partition 0 on its way: about so many bytes of it in a turn, however many users there are.

use bytes::{Bytes, BytesMut};
use courser_access::{Table, TableBytes};

use super::entry;

/// Bytes of a piece of a checkpoint.
const PIECE_BYTES: usize = 32 << 10;

/// How far it is.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Its bytes are counted: their number stands before them.
    Counting,
    Making,
    Made,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Saving {
    table: TableBytes,
    stage: Stage,
    /// What was made and not taken.
    waits: BytesMut,
}

impl Saving {
    /// Of what is in the table now.
    pub(super) fn new(table: &Table) -> Self {
        Self {
            table: table.bytes(),
            stage: Stage::Counting,
            waits: BytesMut::new(),
        }
    }

    /// Goes on until about so many bytes more are counted or made, or a piece is full. A piece, if one is full or the last.
    pub(super) fn take(&mut self, budget: usize) -> Option<Bytes> {
        let mut left = budget;
        while left > 0 && self.stage != Stage::Made && self.waits.len() < PIECE_BYTES {
            let about = left.min(PIECE_BYTES);
            self.go_on(about);
            left -= about;
        }
        let is_ready = self.waits.len() >= PIECE_BYTES || self.stage == Stage::Made;
        let len = self.waits.len().min(PIECE_BYTES);
        (is_ready && len > 0).then(|| self.waits.split_to(len).freeze())
    }

    /// The table that is saved.
    pub(super) const fn table(&self) -> &Table {
        self.table.table()
    }

    /// Whether all pieces are taken.
    pub(super) fn is_given(&self) -> bool {
        self.stage == Stage::Made && self.waits.is_empty()
    }

    fn go_on(&mut self, about: usize) {
        match self.stage {
            Stage::Counting => {
                if let Some(bytes) = self.table.count(about) {
                    self.waits.extend_from_slice(&entry::checkpoint_head(bytes));
                    self.stage = Stage::Making;
                }
            }
            Stage::Making => match self.table.make(about) {
                Some(part) => self.waits.extend_from_slice(&part),
                None => self.stage = Stage::Made,
            },
            Stage::Made => {}
        }
    }
}
