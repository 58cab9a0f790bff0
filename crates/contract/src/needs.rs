//! What checkpoints need of a log: said by who knows what their pieces and entries mean, asked by who moves bytes (M41).

use bytes::Bytes;

use crate::{LogIndex, PartitionId};

/// Says what checkpoints need. The log does not know what their pieces and entries mean.
pub trait Needs {
    /// Reads one checkpoint.
    type Scan: NeedsScan;

    /// Begins to read a partition's checkpoint.
    fn scan(&self, partition: PartitionId) -> Self::Scan;

    /// Bytes of the record that begins at a byte of an entry, or of bytes of an entry that were kept. `None`: none does.
    fn record_bytes(&self, entry: &Bytes, byte: u32) -> Option<usize>;
}

/// Goes through a checkpoint.
pub trait NeedsScan {
    /// Takes the next piece, and tells each record that is needed: stream by stream, in the order in which they are read.
    ///
    /// # Errors
    /// What is wrong with the checkpoint.
    fn piece(&mut self, bytes: &[u8], need: &mut dyn FnMut(Need)) -> Result<(), String>;

    /// All pieces have come.
    ///
    /// # Errors
    /// What is wrong with the checkpoint.
    fn finish(self) -> Result<(), String>;
}

/// Address of a record in its partition (M16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// The entry that brought it.
    pub index: LogIndex,
    /// Byte of that entry at which it begins.
    pub byte: u32,
}
