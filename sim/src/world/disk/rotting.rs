//! What a disk does to a place of the log that it should have kept.

use courser_log::SegmentNumber;
use courser_log::testing::MemDisk;

/// Where batches begin, and what a disk does not give at once.
const BLOCK: u64 = 4_096;

/// What happens to a segment at a place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rot {
    /// Bits of a byte flip.
    Bit(u8),
    /// The block was not written the last time, although the disk said so.
    Block,
    /// Nor was anything else of that write.
    Write,
    /// Nor was anything behind it, in this segment and in all later ones.
    End,
    /// The disk does not give the block.
    Unreadable,
}

impl Rot {
    pub(super) fn happen(self, log: &MemDisk, name: &str, at: u64) {
        match self {
            Self::Bit(bits) => log.rot(name, at, bits),
            Self::Block => log.lose_block(name, at),
            Self::Write => log.lose_write(name, at),
            Self::End => lose_end(log, name, at),
            Self::Unreadable => {
                let first = at & !(BLOCK - 1);
                log.make_unreadable(name, first, first + BLOCK - 1);
            }
        }
    }
}

/// Zeros, from a block on: only a checkpoint knows that there was more.
fn lose_end(log: &MemDisk, name: &str, at: u64) {
    for later in segments(log).into_iter().filter(|it| it[..] >= *name) {
        let from = match later == name {
            true => (at & !(BLOCK - 1)).max(BLOCK),
            false => BLOCK,
        };
        let mut bytes = log.bytes(&later).expect("it is there");
        let from = bytes.len().min(from as usize);
        bytes[from..].fill(0);
        log.replace(&later, bytes);
    }
}

/// Names of all segments.
pub(super) fn segments(log: &MemDisk) -> Vec<String> {
    let names = log.names().into_iter();
    names
        .filter(|name| SegmentNumber::of_file_name(name).is_some())
        .collect()
}
