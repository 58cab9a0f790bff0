//! The rows of the record table, in pages: the table grows without moving, and holds at most a page that nobody needs.

use std::ops::{Index, IndexMut};

use super::Address;

/// Rows of a page.
const PAGE: usize = 1_024;

/// Where a live record is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) block: u32,
    pub(super) offset: u32,
    /// Places that need it; in a free row the next free one.
    pub(super) refs: u32,
    /// Packed, in halves: as one word it would take four bytes more of each row.
    address: [u32; 2],
}

const _: () = assert!(
    size_of::<Row>() == 20,
    "a row is what the memory goal counts with"
);

impl Row {
    pub(super) fn new(block: u32, offset: u32, refs: u32, address: Address) -> Self {
        let packed = address.pack();
        Self {
            block,
            offset,
            refs,
            address: [packed as u32, (packed >> 32) as u32],
        }
    }

    pub(super) const fn address(&self) -> Address {
        let [low, high] = self.address;
        Address::unpack(low as u64 | (high as u64) << 32)
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pages: Vec<Box<[Row; PAGE]>>,
    len: usize,
}

impl Rows {
    /// Rows so far, free ones included.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Adds a row and returns its number.
    pub(super) fn push(&mut self, row: Row) -> u32 {
        let number = u32::try_from(self.len).expect("fewer than 2^32 records are live");
        if self.len.is_multiple_of(PAGE) {
            let page = vec![row; PAGE].into_boxed_slice();
            self.pages
                .push(page.try_into().expect("a page has its size"));
        }
        self.len += 1;
        self[number] = row;
        number
    }

    /// All rows from one on.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = (u32, &Row)> + '_ {
        (first..self.len).map(|at| {
            let number = u32::try_from(at).expect("fewer than 2^32 rows");
            (number, &self[number])
        })
    }

    /// The first row for which `before` is false; all for which it is true come before.
    pub(super) fn partition_point(&self, before: impl Fn(&Row) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low.midpoint(high);
            if before(&self.pages[middle / PAGE][middle % PAGE]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

impl Index<u32> for Rows {
    type Output = Row;

    #[inline]
    fn index(&self, number: u32) -> &Row {
        let at = number as usize;
        &self.pages[at / PAGE][at % PAGE]
    }
}

impl IndexMut<u32> for Rows {
    #[inline]
    fn index_mut(&mut self, number: u32) -> &mut Row {
        let at = number as usize;
        &mut self.pages[at / PAGE][at % PAGE]
    }
}
