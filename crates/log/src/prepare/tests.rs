use std::cell::RefCell;
use std::io::{self, IoSlice};

use super::{FILL_SYNC_BYTES, Make, NewSegment, PrepareError, Use, fill};
use crate::disk::{Disk, DiskFile};
use crate::format::BLOCK_BYTES;
use crate::ids::{NodeIdentity, SegmentNumber, StartId};

/// A file that notes where each write begins and ends, and how many were made before each sync.
#[derive(Debug, Default)]
struct Noting {
    zeros: RefCell<Vec<(u64, u64)>>,
    unsynced: RefCell<u64>,
    unsynced_max: RefCell<u64>,
}

impl DiskFile for Noting {
    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()> {
        let [bytes] = bufs else {
            panic!("one piece of memory is written");
        };
        let is_header = bytes.iter().any(|&byte| byte != 0);
        if !is_header {
            let is_block = bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
                && bytes.len().is_multiple_of(BLOCK_BYTES);
            assert!(is_block, "{} bytes at {:p}", bytes.len(), bytes.as_ptr());
            let end = offset + bytes.len() as u64;
            self.zeros.borrow_mut().push((offset, end));
        }
        *self.unsynced.borrow_mut() += bytes.len() as u64;
        let most = (*self.unsynced_max.borrow()).max(*self.unsynced.borrow());
        self.unsynced_max.replace(most);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.unsynced.replace(0);
        Ok(())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[test]
fn a_segment_is_filled_by_whole_blocks_at_addresses_that_need_no_copy() {
    for bytes in [64 << 10, 1 << 20, (9 << 20) + BLOCK_BYTES as u64] {
        let file = Noting::default();
        let new = NewSegment {
            segment: SegmentNumber(1),
            bytes,
            node: NodeIdentity(1),
            start: StartId {
                counter: 1,
                word: 2,
            },
            syncs_folder: true,
        };
        fill(&file, new).expect("the file takes all");
        let zeros = file.zeros.borrow();
        assert_eq!(zeros.first().map(|zeros| zeros.0), Some(0));
        assert!(zeros.windows(2).all(|pair| pair[0].1 == pair[1].0));
        assert_eq!(zeros.last().map(|zeros| zeros.1), Some(bytes));
        assert_eq!(*file.unsynced.borrow(), 0, "all of it is durable");
        let most = FILL_SYNC_BYTES + BLOCK_BYTES as u64;
        assert!(*file.unsynced_max.borrow() <= most);
    }
}

/// Whoever takes a file for one of another length than it has.
#[cfg(feature = "testing")]
#[test]
fn m44_a_file_of_another_length_does_not_become_a_segment() {
    const BYTES: u64 = 64 << 10;
    let new = |segment, bytes| NewSegment {
        segment: SegmentNumber(segment),
        bytes,
        node: NodeIdentity(1),
        start: StartId {
            counter: 1,
            word: 2,
        },
        syncs_folder: true,
    };
    let disk = crate::testing::MemDisk::new();
    let make = |segment, bytes, recycle| Make {
        new: new(segment, bytes),
        recycle,
        leaves: 0,
    };
    make(1, BYTES, None)
        .run(&disk)
        .result
        .expect("there is room");
    for (number, bytes) in [(2, 2 * BYTES), (3, BYTES / 2)] {
        let made = make(number, bytes, Some(SegmentNumber(number - 1))).run(&disk);
        assert!(matches!(made.result, Err(PrepareError::Failed { .. })));
        assert_eq!(made.left, Some((SegmentNumber(number), Use::Room)));
        let file = disk
            .open(&SegmentNumber(number).file_name())
            .expect("it is there");
        assert_eq!(file.len().expect("it has one"), BYTES);
    }
    let made = make(4, BYTES, Some(SegmentNumber(3))).run(&disk);
    made.result.expect("it fits");
}
