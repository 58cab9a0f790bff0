//! The rows of the record table, in pages.
//!
//! ```text
//!   open page ──── all rows are cold or stay ────▶ packed page ──── nothing lives ────▶ none
//!       ▲                                                                                │
//!       └──────────────────────── its number is used again ──────────────────────────────┘
//! ```
//! An open page has 20 bytes for each row, and its free rows are used for new records. Once the record of each row of a page is only in
//! the log (`cold`), or stays in memory for good, the page is packed, see [`packed`]: some four bytes a row. The rows of a packed page whose records
//! are in memory, or asked for, are kept besides. At a start pages are packed as soon as their rows are known, and open while their records come; of those
//! whose records stay in the log, the few rows that are expected are kept besides.
//!
//! When a record expires that is only in the log ([`Expiry`]) its packed page says. For those of an open page there is a list besides, once one of them
//! does; while a record is in memory, it says so itself, and what is written here is of no meaning.

mod packed;
#[cfg(test)]
mod tests;

use hashbrown::HashMap;

use self::packed::Packed;
use super::{ABSENT, Address, COLD, EXPECTED, Expiry, FREE, PINNED};

/// Rows of a page.
const PAGE: usize = 1_024;
/// A page with fewer cold rows stays open: the others would be kept besides, and take more there.
const COLD_MIN: u16 = PAGE as u16 / 4 * 3;
/// Bytes of an open one.
const PAGE_BYTES: usize = PAGE * size_of::<Row>();
/// The end of the free rows.
const END: u32 = u32::MAX;

/// Where a live record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) block: u32,
    pub(super) offset: u32,
    /// Places that need it, and [`PINNED`]; in a free row of an open page the next free one.
    pub(super) refs: u32,
    /// Packed, in halves: as one word it would take four bytes more of each row.
    address: [u32; 2],
}

const _: () = assert!(
    size_of::<Row>() == 20,
    "a row is what the memory goal counts with"
);

impl Row {
    /// No record.
    const GONE: Self = Self {
        block: FREE,
        offset: 0,
        refs: END,
        address: [0; 2],
    };

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

    /// One place less needs it. Whether that was the last one; then it is still counted.
    #[inline]
    fn release(&mut self) -> bool {
        assert!(self.block != FREE, "a reference leads to a live record");
        let left = self.refs - 1;
        if left & !PINNED == 0 {
            return true;
        }
        self.refs = left;
        false
    }
}

/// What became of a record in memory that one place less needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Released {
    /// Where it is, or was.
    pub(super) block: u32,
    pub(super) offset: u32,
    /// Nothing needs it any more: it has no row.
    pub(super) is_gone: bool,
}

type Page = [Row; PAGE];
/// When the records of an open page expire.
type Expiries = [Expiry; PAGE];

/// A row of a packed page that is not as the page says.
#[derive(Clone, Copy, Debug)]
struct Out {
    row: Row,
    expiry: Expiry,
}

/// Fixed seed: the keys are numbers of ours, which no client chooses or sees, and how large the map is, which counts among what is held in memory, is
/// the same in each run.
type Hasher = foldhash::fast::FixedState;

/// Rows of an open page whose records are only in the log, and live ones whose records stay in memory for good.
#[derive(Clone, Copy, Debug, Default)]
struct Calm {
    cold: u16,
    pinned: u16,
}

impl Calm {
    /// Whether nothing of the page is likely to be needed soon.
    const fn is_all(self) -> bool {
        self.cold >= COLD_MIN && self.cold + self.pinned == PAGE as u16
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Rows {
    /// Open ones; at the others' places is none.
    pages: Vec<Option<Box<Page>>>,
    calm: Vec<Calm>,
    /// Of open pages of which a record in the log expires.
    expiries: Vec<Option<Box<Expiries>>>,
    packed: Vec<Option<Box<Packed>>>,
    out: HashMap<u32, Out, Hasher>,
    /// Numbers of pages in which nothing lives, to be used again.
    absent: Vec<u32>,
    /// The first free row of those that have had a record, all of open pages.
    free: u32,
    /// The next one that has had none: the first of a page that is not there, if that has come to its end.
    next: u32,
    /// Bytes of all pages.
    held_bytes: usize,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            calm: Vec::new(),
            expiries: Vec::new(),
            packed: Vec::new(),
            out: HashMap::default(),
            absent: Vec::new(),
            free: END,
            next: 0,
            held_bytes: 0,
        }
    }
}

/// The number of a page, and which row of it.
const fn place(number: u32) -> (u32, usize) {
    (number / PAGE as u32, number as usize % PAGE)
}

impl Rows {
    /// All rows have lower numbers.
    pub(super) fn end(&self) -> usize {
        let (page, at) = place(self.next);
        let begun = self.pages.len() * PAGE;
        match at {
            1.. if page as usize + 1 == self.pages.len() => begun - PAGE + at,
            _ => begun,
        }
    }

    /// Bytes that the rows take.
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes + self.out.allocation_size()
    }

    /// The row of a number that one has, or had. None: its record is only in the log, or gone.
    #[inline]
    pub(super) fn find(&self, number: u32) -> Option<&Row> {
        let (page, at) = place(number);
        match &self.pages[page as usize] {
            Some(page) => Some(&page[at]),
            None => self.find_out(number),
        }
    }

    #[cold]
    #[inline(never)]
    fn find_out(&self, number: u32) -> Option<&Row> {
        self.out.get(&number).map(|out| &out.row)
    }

    /// When a record expires that is not in memory.
    pub(super) fn expiry(&self, number: u32) -> Expiry {
        let (page, at) = place(number);
        let page = page as usize;
        if self.pages[page].is_some() {
            let expiries = self.expiries[page].as_ref();
            return expiries.map_or(Expiry::NONE, |all| all[at]);
        }
        if let Some(out) = self.out.get(&number) {
            return out.expiry;
        }
        let packed = self.packed[page].as_ref();
        packed.map_or(Expiry::NONE, |page| page.expiry(at))
    }

    /// The same of all records.
    pub(super) fn get(&self, number: u32) -> Row {
        match self.find(number) {
            Some(row) => *row,
            None => self.get_packed(number),
        }
    }

    fn get_packed(&self, number: u32) -> Row {
        let (page, at) = place(number);
        let packed = self.packed[page as usize].as_ref();
        packed.map_or(Row::GONE, |page| page.get(at))
    }

    /// Bytes of a record that [`Rows::find`] does not find, because it is only in the log.
    pub(super) fn len_of_cold(&self, number: u32) -> u32 {
        let (page, at) = place(number);
        let packed = self.packed[page as usize].as_ref();
        packed.map_or(0, |page| page.len(at))
    }

    /// The row of a live record, to say where that is now. What becomes cold is told by [`Rows::cool`], what stays by [`Rows::pin`],
    /// and what was cold by [`Rows::warm`].
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> &mut Row {
        let (page, at) = place(number);
        match &mut self.pages[page as usize] {
            Some(page) => &mut page[at],
            None => take_out(&mut self.out, &self.packed, number),
        }
    }

    /// The same of a record that may be expected: its page is opened.
    pub(super) fn get_expected(&mut self, number: u32) -> &mut Row {
        self.open_expected(place(number).0);
        self.get_mut(number)
    }

    fn open_expected(&mut self, at_page: u32) {
        let packed = &mut self.packed[at_page as usize];
        let Some(packed) = packed.take_if(|page| page.is_expected) else {
            return;
        };
        let page: Vec<Row> = (0..PAGE).map(|at| packed.get(at)).collect();
        let page = page.into_boxed_slice().try_into();
        self.pages[at_page as usize] = Some(page.expect("a page has its size"));
        self.held_bytes -= packed.held_bytes();
        self.held_bytes += PAGE_BYTES;
    }

    /// Adds a row whose record is expected, behind all others, and returns its number.
    pub(super) fn expect(&mut self, address: Address, refs: u32) -> u32 {
        let (number, row) = self.next_place();
        *row = Row::new(EXPECTED, 0, refs, address);
        self.pack_made(number);
        number
    }

    /// The same of a row whose record, of so many bytes, stays in the log until it expires.
    pub(super) fn expect_cold(
        &mut self,
        address: Address,
        refs: u32,
        (len, expiry): (u32, Expiry),
    ) -> u32 {
        let (number, row) = self.next_place();
        *row = Row::new(COLD, len, refs, address);
        self.calm[place(number).0 as usize].cold += 1;
        self.note_expiry(number, expiry);
        self.pack_made(number);
        number
    }

    /// Packs a page of a start with its last row. One of which some rows are expected, and many, stays open.
    fn pack_made(&mut self, last: u32) {
        let (at_page, at) = place(last);
        if at + 1 < PAGE {
            return;
        }
        match self.calm[at_page as usize].cold {
            0 => self.pack_expected(at_page),
            COLD_MIN.. => self.pack(at_page),
            _ => {}
        }
    }

    fn pack_expected(&mut self, at_page: u32) {
        let page = self.pages[at_page as usize].take();
        let packed = Packed::expected(&page.expect("a page that is made is open"));
        self.held_bytes -= PAGE_BYTES;
        self.held_bytes += packed.held_bytes();
        self.packed[at_page as usize] = Some(Box::new(packed));
    }

    /// Adds a row and returns its number.
    #[inline]
    pub(super) fn add(&mut self, row: Row) -> u32 {
        let (number, place) = self.free_place();
        *place = row;
        number
    }

    /// A place for a row: one that is free, or one behind all others.
    #[inline]
    fn free_place(&mut self) -> (u32, &mut Row) {
        if self.free == END {
            return self.next_place();
        }
        let number = self.free;
        let (page, at) = place(number);
        let page = self.pages[page as usize].as_mut();
        let place = &mut page.expect("a free row is in an open page")[at];
        self.free = place.refs;
        (number, place)
    }

    #[cold]
    #[inline(never)]
    fn next_place(&mut self) -> (u32, &mut Row) {
        if place(self.next).1 == 0 {
            self.next = self.add_page() * PAGE as u32;
        }
        let number = self.next;
        self.next += 1;
        (number, self.get_mut(number))
    }

    #[cold]
    fn add_page(&mut self) -> u32 {
        self.held_bytes += PAGE_BYTES;
        let number = self.absent.pop().unwrap_or_else(|| {
            assert!(
                self.pages.len() < u32::MAX as usize / PAGE,
                "fewer than 2^32 records are live"
            );
            self.pages.push(None);
            self.packed.push(None);
            self.expiries.push(None);
            self.calm.push(Calm::default());
            self.pages.len() as u32 - 1
        });
        let page = vec![Row::GONE; PAGE].into_boxed_slice();
        let page = page.try_into().expect("a page has its size");
        self.pages[number as usize] = Some(page);
        number
    }

    /// One place less needs a record. True: that was the last one, and the row is to be removed.
    #[inline]
    pub(super) fn release(&mut self, number: u32) -> bool {
        let (page, at) = place(number);
        let Some(page) = &mut self.pages[page as usize] else {
            return self.release_packed(number);
        };
        page[at].release()
    }

    #[cold]
    #[inline(never)]
    fn release_packed(&mut self, number: u32) -> bool {
        if let Some(out) = self.out.get_mut(&number) {
            return out.row.release();
        }
        let (page, at) = place(number);
        let page = self.packed[page as usize].as_mut();
        page.expect("a record is in a page").release(at)
    }

    /// The data path's way of [`Rows::release`] and [`Rows::remove`] at once, for a record in memory whose page is open: where it is, and whether it is
    /// gone. None: another one, of which nothing is changed.
    #[inline]
    pub(super) fn release_at_hand(&mut self, number: u32) -> Option<Released> {
        let (at_page, at) = place(number);
        let page = self.pages[at_page as usize].as_mut()?;
        let row = &mut page[at];
        if row.block >= ABSENT {
            return None;
        }
        let (block, offset) = (row.block, row.offset);
        let is_gone = row.release();
        if is_gone {
            if row.refs & PINNED != 0 {
                self.calm[at_page as usize].pinned -= 1;
            }
            (row.block, row.refs) = (FREE, self.free);
            self.free = number;
        }
        Some(Released {
            block,
            offset,
            is_gone,
        })
    }

    /// A record is gone.
    #[inline]
    pub(super) fn remove(&mut self, number: u32) {
        let (at_page, at) = place(number);
        let Some(page) = &mut self.pages[at_page as usize] else {
            return self.remove_packed(number);
        };
        let row = &mut page[at];
        if row.block == COLD || row.refs & PINNED != 0 {
            let calm = &mut self.calm[at_page as usize];
            calm.cold -= u16::from(row.block == COLD);
            calm.pinned -= u16::from(row.refs & PINNED != 0);
        }
        (row.block, row.refs) = (FREE, self.free);
        self.free = number;
    }

    #[cold]
    #[inline(never)]
    fn remove_packed(&mut self, number: u32) {
        let (at_page, at) = place(number);
        let page = self.packed[at_page as usize].as_mut();
        let page = page.expect("a record is in a page");
        self.out.remove(&number);
        if self.out.len() < self.out.capacity() / 8 && self.out.capacity() > PAGE {
            self.out.shrink_to(2 * self.out.len());
        }
        self.held_bytes -= page.held_bytes();
        page.remove(at);
        if page.live() == 0 {
            self.packed[at_page as usize] = None;
            self.absent.push(at_page);
        } else {
            self.held_bytes += page.held_bytes();
        }
    }

    /// The record of a row, of so many bytes, is only in the log from now on, until it expires.
    pub(super) fn cool(&mut self, number: u32, (len, expiry): (u32, Expiry)) {
        let (at_page, at) = place(number);
        let row = self.get_mut(number);
        (row.block, row.offset) = (COLD, len);
        let row = *row;
        if self.pages[at_page as usize].is_some() {
            self.calm[at_page as usize].cold += 1;
            self.note_expiry(number, expiry);
            self.pack_if_calm(at_page);
        } else if self.packed[at_page as usize]
            .as_mut()
            .is_some_and(|page| page.put(at, &row))
        {
            self.out.remove(&number);
        } else if let Some(out) = self.out.get_mut(&number) {
            out.expiry = expiry;
        }
    }

    /// A record of an open page that is in the log expires then.
    #[inline]
    fn note_expiry(&mut self, number: u32, expiry: Expiry) {
        let (page, at) = place(number);
        let expiries = &mut self.expiries[page as usize];
        if expiries.is_none() && expiry == Expiry::NONE {
            return;
        }
        let expiries = expiries.get_or_insert_with(|| {
            self.held_bytes += size_of::<Expiries>();
            Box::new([Expiry::NONE; PAGE])
        });
        expiries[at] = expiry;
    }

    /// The record of a row is only in the log, and will be elsewhere: `block` says so until then. The row, as it is now.
    pub(super) fn warm(&mut self, number: u32, block: u32) -> Row {
        let (page, _) = place(number);
        if self.pages[page as usize].is_some() {
            self.calm[page as usize].cold -= 1;
        }
        let row = self.get_mut(number);
        assert!(row.block == COLD, "a record is asked for once");
        row.block = block;
        *row
    }

    /// So many more places need a record, and it stays in memory for as long as it lives.
    #[inline]
    pub(super) fn pin(&mut self, number: u32, places: u32) {
        let (page, _) = place(number);
        let row = self.get_mut(number);
        row.refs += places;
        if row.refs & PINNED == 0 {
            row.refs |= PINNED;
            let is_open = self.pages[page as usize].is_some();
            self.calm[page as usize].pinned += u16::from(is_open);
        }
    }

    /// A record that would have become cold now stays in memory for as long as it lives.
    pub(super) fn stay(&mut self, number: u32) {
        self.pin(number, 0);
        self.pack_if_calm(place(number).0);
    }

    #[inline]
    fn pack_if_calm(&mut self, at_page: u32) {
        if self.calm[at_page as usize].is_all() {
            self.pack(at_page);
        }
    }

    #[cold]
    fn pack(&mut self, at_page: u32) {
        let Some(page) = self.pages[at_page as usize].take() else {
            return;
        };
        self.calm[at_page as usize] = Calm::default();
        let first = at_page * PAGE as u32;
        for (number, row) in (first..).zip(page.iter()) {
            if row.block != COLD {
                let (row, expiry) = (*row, Expiry::NONE);
                self.out.insert(number, Out { row, expiry });
            }
        }
        let expiries = self.expiries[at_page as usize].take();
        let packed = Box::new(Packed::new(&page, expiries.as_deref()));
        if expiries.is_some() {
            self.held_bytes -= size_of::<Expiries>();
        }
        self.held_bytes -= PAGE_BYTES;
        self.held_bytes += packed.held_bytes();
        self.packed[at_page as usize] = Some(packed);
    }

    /// All rows from one on.
    pub(super) fn from(&self, first: usize) -> impl Iterator<Item = (u32, Row)> + '_ {
        (first..self.end()).map(|at| (at as u32, self.get(at as u32)))
    }

    /// The first row for which `before` is false; all for which it is true come before.
    pub(super) fn partition_point(&self, before: impl Fn(&Row) -> bool) -> usize {
        let (mut low, mut high) = (0, self.end());
        while low < high {
            let middle = low.midpoint(high);
            if before(&self.get(middle as u32)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Asserts what the module says.
    pub(super) fn check(&self) {
        let mut held = 0;
        for (number, page) in (0..).zip(&self.pages) {
            let first = number * PAGE as u32;
            let rows = (first..first + PAGE as u32).map(|at| self.get(at));
            let count = |is: fn(&Row) -> bool| rows.clone().filter(is).count();
            let live = count(|row| row.block != FREE);
            let packed = self.packed[number as usize].as_ref();
            if page.is_some() {
                let calm = &self.calm[number as usize];
                let pinned = count(|row| row.block != FREE && row.refs & PINNED != 0);
                let counted = [calm.cold, calm.pinned].map(usize::from);
                let cold = count(|row| row.block == COLD);
                assert_eq!([cold, pinned], counted, "rows are counted");
                assert!(!calm.is_all(), "a calm page is packed");
                assert!(packed.is_none(), "a page is open or packed");
                let expiries = self.expiries[number as usize].as_ref();
                held += PAGE_BYTES + expiries.map_or(0, |all| size_of_val(&**all));
            } else {
                let expiries = self.expiries[number as usize].as_ref();
                assert!(expiries.is_none(), "a packed page says what expires");
                let counted = packed.map_or(0, |page| page.live());
                assert_eq!(live, counted, "live rows are counted");
                let is_absent = self.absent.contains(&number);
                assert_ne!(
                    is_absent,
                    packed.is_some(),
                    "a page that is not there is known"
                );
                held += packed.map_or(0, |page| page.held_bytes());
            }
        }
        let mut out = self.out.keys();
        assert!(
            out.all(|number| self.packed[place(*number).0 as usize].is_some()),
            "what is kept besides is of packed pages"
        );
        assert_eq!(held, self.held_bytes, "held bytes are counted");
    }
}

/// The row of a packed page as it is, which is kept besides from now on.
#[cold]
#[inline(never)]
fn take_out<'a>(
    out: &'a mut HashMap<u32, Out, Hasher>,
    packed: &[Option<Box<Packed>>],
    number: u32,
) -> &'a mut Row {
    let (page, at) = place(number);
    let page = packed[page as usize].as_ref();
    let page = page.expect("a record is in a page");
    let out = out.entry(number).or_insert_with(|| Out {
        row: page.get(at),
        expiry: page.expiry(at),
    });
    &mut out.row
}
