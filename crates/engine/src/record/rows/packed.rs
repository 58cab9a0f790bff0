//! A page of rows whose records are only in the log, or will come out of it.
//!
//! A row needs only what differs within its page: entry, byte, length, references and expiry, each as the distance from the least one in
//! as many bits as the farthest takes, one row behind the other. Records that came one after the other differ by little: 1,024 of
//! them from entries of 64 KiB take some 3.5 KiB. Where nothing expires that takes no bits.

use std::array;

use super::{Address, COLD, EXPECTED, Expiries, Expiry, PAGE, Row};

const WORD: usize = u64::BITS as usize;

/// One column.
#[derive(Clone, Copy, Debug, Default)]
struct Field {
    least: u64,
    /// Where in a row, and how many bits: at most 40.
    shift: u32,
    width: u32,
}

/// Index of the entry, byte in it, length, seconds of the expiry, references: the last one has a bit at least, so that each begins within its row.
const FIELDS: usize = 5;
const LEN: usize = 2;
const EXPIRY: usize = 3;
const REFS: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Packed {
    /// Live rows, those that are kept elsewhere included.
    live: u16,
    stored: u16,
    /// Those of a start wait for their records.
    pub(super) is_expected: bool,
    fields: [Field; FIELDS],
    /// Which rows of the page are stored here.
    places: [u64; PAGE / WORD],
    /// Rows that are stored and gone have no references.
    words: Box<[u64]>,
}

/// Values on their way into words, one behind the other: each word is written once.
struct Words {
    full: Vec<u64>,
    open: u128,
    /// Bits of the open one: less than a word.
    bits: usize,
}

impl Words {
    fn with_room(bits: usize) -> Self {
        Self {
            full: Vec::with_capacity(bits.div_ceil(WORD) + 1),
            open: 0,
            bits: 0,
        }
    }

    /// Appends a value of so many bits.
    #[inline]
    fn push(&mut self, value: u64, width: u32) {
        self.open |= u128::from(value) << self.bits;
        self.bits += width as usize;
        if self.bits >= WORD {
            self.full.push(self.open as u64);
            self.open >>= WORD;
            self.bits -= WORD;
        }
    }

    /// With one word more than there are values, so that each is always in two.
    fn finish(mut self) -> Box<[u64]> {
        if self.bits > 0 {
            self.full.push(self.open as u64);
        }
        self.full.push(0);
        self.full.into_boxed_slice()
    }
}

fn values(row: &Row, expiry: Expiry) -> [u64; FIELDS] {
    let Address { index, ordinal } = row.address();
    [
        index,
        u64::from(ordinal),
        row.offset.into(),
        expiry.seconds().into(),
        row.refs.into(),
    ]
}

const fn bits_of(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

impl Packed {
    /// Of an open page of which all rows live: the cold ones are stored here, others only counted.
    pub(super) fn new(page: &[Row; PAGE], expiries: Option<&Expiries>) -> Self {
        let rows = page.iter().enumerate();
        let cold = rows.filter(|(_, row)| row.block == COLD);
        let expiry = |at: usize| expiries.map_or(Expiry::NONE, |all| all[at]);
        let rows = cold.map(|(at, row)| (at, values(row, expiry(at))));
        Self::of(PAGE as u16, rows)
    }

    /// Of an open page whose records are all expected.
    pub(super) fn expected(page: &[Row; PAGE]) -> Self {
        let rows = page.iter().map(|row| values(row, Expiry::NONE)).enumerate();
        Self {
            is_expected: true,
            ..Self::of(PAGE as u16, rows)
        }
    }

    fn of(live: u16, rows: impl Iterator<Item = (usize, [u64; FIELDS])> + Clone) -> Self {
        let mut least = [u64::MAX; FIELDS];
        let mut most = [0; FIELDS];
        let mut places = [0; PAGE / WORD];
        let mut stored = 0;
        let mut first_expiry = u64::MAX;
        for (at, values) in rows.clone() {
            least = array::from_fn(|field| least[field].min(values[field]));
            if values[EXPIRY] > 0 {
                first_expiry = first_expiry.min(values[EXPIRY]);
            }
            most = array::from_fn(|field| most[field].max(values[field]));
            places[at / WORD] |= 1 << (at % WORD);
            stored += 1;
        }
        // They fall to none.
        least[REFS] = 0;
        // No distance: it does not expire.
        least[EXPIRY] = first_expiry - 1;
        let mut row_bits = 0;
        let fields: [Field; FIELDS] = array::from_fn(|field| {
            let least = least[field].min(most[field]);
            let shift = row_bits;
            let width = bits_of(most[field] - least);
            row_bits += width;
            Field {
                least,
                shift,
                width,
            }
        });
        let mut words = Words::with_room(row_bits as usize * usize::from(stored));
        for (_, values) in rows {
            for (field, value) in fields.iter().zip(values) {
                words.push(value.saturating_sub(field.least), field.width);
            }
        }
        Self {
            live,
            stored,
            is_expected: false,
            fields,
            places,
            words: words.finish(),
        }
    }

    pub(super) fn live(&self) -> usize {
        self.live.into()
    }

    pub(super) fn held_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }

    /// Without what has gone.
    fn pack_again(&mut self) {
        let is_stored = |at: &usize| self.places[at / WORD] >> (at % WORD) & 1 == 1;
        let stored = (0..PAGE).filter(is_stored).zip(0..);
        let rows: Vec<_> = stored
            .filter(|(_, place)| self.read(*place, REFS) > 0)
            .map(|(at, place)| (at, self.values_at(place)))
            .collect();
        *self = Self::of(self.live, rows.into_iter());
    }

    /// The row as it was when it was stored; one that is not there, or gone, has no record.
    pub(super) fn get(&self, at: usize) -> Row {
        let Some(place) = self.place(at) else {
            return Row::GONE;
        };
        let [index, ordinal, len, _, refs] = array::from_fn(|field| self.read(place, field));
        if refs == 0 {
            return Row::GONE;
        }
        let address = Address {
            index,
            ordinal: ordinal as u32,
        };
        let block = match self.is_expected {
            true => EXPECTED,
            false => COLD,
        };
        Row::new(block, len as u32, refs as u32, address)
    }

    fn values_at(&self, place: usize) -> [u64; FIELDS] {
        let mut values = array::from_fn(|field| self.read(place, field));
        values[EXPIRY] = self.expiry_at(place).seconds().into();
        values
    }

    fn expiry_at(&self, place: usize) -> Expiry {
        let seconds = self.read(place, EXPIRY);
        match seconds > self.fields[EXPIRY].least {
            true => Expiry::from_seconds(seconds as u32),
            false => Expiry::NONE,
        }
    }

    /// When the record of a row expires; never, of one that is not there.
    pub(super) fn expiry(&self, at: usize) -> Expiry {
        if self.fields[EXPIRY].width == 0 {
            return Expiry::NONE;
        }
        self.place(at)
            .map_or(Expiry::NONE, |place| self.expiry_at(place))
    }

    /// Bytes of the record of a row; 0 of one that is not there.
    pub(super) fn len(&self, at: usize) -> u32 {
        self.place(at)
            .map_or(0, |place| self.read(place, LEN) as u32)
    }

    /// One place less needs a row that is stored here. True: that was the last one, and the row is to be removed.
    pub(super) fn release(&mut self, at: usize) -> bool {
        let place = self.place(at).expect("a live row is here or kept besides");
        let refs = self.read(place, REFS);
        if refs > 1 {
            self.write(place, REFS, refs - 1);
        }
        refs == 1
    }

    /// A row is gone, from here or from where it was kept. Once most of them are, the others move together.
    pub(super) fn remove(&mut self, at: usize) {
        if let Some(place) = self.place(at) {
            self.write(place, REFS, 0);
        }
        self.live -= 1;
        if self.live < self.stored / 2 {
            self.pack_again();
        }
    }

    /// A row that was kept elsewhere is as it was, but for its references. False: it has no place here.
    pub(super) fn put(&mut self, at: usize, row: &Row) -> bool {
        let Some(place) = self.place(at) else {
            return false;
        };
        let refs = row.refs.into();
        let fits = bits_of(refs) <= self.fields[REFS].width;
        if fits {
            self.write(place, REFS, refs);
        }
        fits
    }

    /// The how-manieth of those that are stored.
    fn place(&self, at: usize) -> Option<usize> {
        if usize::from(self.stored) == PAGE {
            return Some(at);
        }
        let (word, bit) = (at / WORD, at % WORD);
        if self.places[word] >> bit & 1 == 0 {
            return None;
        }
        let before = self.places[..word].iter().map(|word| word.count_ones());
        let below = self.places[word] & ((1 << bit) - 1);
        Some((before.sum::<u32>() + below.count_ones()) as usize)
    }

    /// The word, and the bit in it, at which a value begins.
    fn begin(&self, place: usize, field: usize) -> (usize, usize) {
        let last = &self.fields[FIELDS - 1];
        let row_bits = (last.shift + last.width) as usize;
        let bit = place * row_bits + self.fields[field].shift as usize;
        (bit / WORD, bit % WORD)
    }

    fn read(&self, place: usize, field: usize) -> u64 {
        let (word, bit) = self.begin(place, field);
        let Field { least, width, .. } = self.fields[field];
        let pair = u128::from(self.words[word]) | u128::from(self.words[word + 1]) << WORD;
        least + ((pair >> bit) as u64 & ((1 << width) - 1))
    }

    fn write(&mut self, place: usize, field: usize, value: u64) {
        let (word, bit) = self.begin(place, field);
        let Field { least, width, .. } = self.fields[field];
        let mask = ((1u128 << width) - 1) << bit;
        let value = u128::from(value - least) << bit;
        let [low, high] = [0, WORD].map(|half| ((mask >> half) as u64, (value >> half) as u64));
        self.words[word] = self.words[word] & !low.0 | low.1;
        self.words[word + 1] = self.words[word + 1] & !high.0 | high.1;
    }
}
