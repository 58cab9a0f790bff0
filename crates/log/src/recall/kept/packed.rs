//! A run of kept frames, sorted by address, packed in pages.
//!
//! Of a frame a page stores how far it is behind the one before: entries, and bytes if it is the same entry, else the byte itself; then its
//! length and its batch as distances from the least ones of the page. Each column has as many bits as its largest value takes. So a
//! page is read from its beginning: 256 frames are some hundreds of nanoseconds, and a find reads one page.

use super::Kept;

/// Frames of a page, the last one perhaps less.
const PAGE: usize = 256;
const WORD: usize = u64::BITS as usize;
/// Entries, bytes, length, batch.
const COLUMNS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Page {
    /// Address of the first frame.
    index: u64,
    byte: u32,
    least_len: u32,
    least_batch: u32,
    /// Where its bits begin.
    word: u32,
    widths: [u8; COLUMNS],
}

impl Page {
    const fn key(&self) -> (u64, u32) {
        (self.index, self.byte)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Packed {
    pages: Box<[Page]>,
    /// Two more than there are bits for, so that a value is always in two, also one of no bits behind the last.
    words: Box<[u64]>,
    len: usize,
}

impl FromIterator<Kept> for Packed {
    /// Of sorted frames.
    fn from_iter<I: IntoIterator<Item = Kept>>(frames: I) -> Self {
        let (mut pages, mut words) = (Vec::new(), Vec::new());
        let mut page: Vec<Kept> = Vec::with_capacity(PAGE);
        let mut len = 0;
        for frame in frames {
            len += 1;
            page.push(frame);
            if page.len() == PAGE {
                pages.push(Page::of(&page, &mut words));
                page.clear();
            }
        }
        if !page.is_empty() {
            pages.push(Page::of(&page, &mut words));
        }
        words.extend([0; 2]);
        Self {
            pages: pages.into_boxed_slice(),
            words: words.into_boxed_slice(),
            len,
        }
    }
}

impl Page {
    /// Of frames, whose bits go behind what is there.
    fn of(frames: &[Kept], words: &mut Vec<u64>) -> Self {
        let first = frames[0];
        let least = |value: fn(&Kept) -> u32| frames.iter().map(value).min().unwrap_or_default();
        let mut page = Self {
            index: first.index,
            byte: first.byte,
            least_len: least(|frame| frame.len),
            least_batch: least(|frame| frame.batch),
            word: u32::try_from(words.len()).expect("a run has fewer than 2^32 words"),
            widths: [0; COLUMNS],
        };
        let mut before = first;
        let rows = frames.iter().map(|frame| {
            let row = page.row(&before, frame);
            before = *frame;
            row
        });
        let rows: Vec<[u64; COLUMNS]> = rows.collect();
        let all = |column: usize| rows.iter().fold(0, |all, row| all | row[column]);
        page.widths =
            std::array::from_fn(|column| (WORD as u32 - all(column).leading_zeros()) as u8);
        let bits = page
            .widths
            .iter()
            .map(|width| usize::from(*width))
            .sum::<usize>()
            * rows.len();
        let begin = words.len();
        let end = begin + bits.div_ceil(WORD);
        words.resize(end + 2, 0);
        let mut at = begin * WORD;
        for row in rows {
            for (value, width) in row.into_iter().zip(page.widths) {
                let pair = u128::from(value) << (at % WORD);
                words[at / WORD] |= pair as u64;
                words[at / WORD + 1] |= (pair >> WORD) as u64;
                at += usize::from(width);
            }
        }
        words.truncate(end);
        page
    }

    /// What is stored of a frame.
    fn row(&self, before: &Kept, frame: &Kept) -> [u64; COLUMNS] {
        let byte = match frame.index == before.index {
            true => frame.byte - before.byte,
            false => frame.byte,
        };
        [
            frame.index - before.index,
            byte.into(),
            (frame.len - self.least_len).into(),
            (frame.batch - self.least_batch).into(),
        ]
    }
}

impl Packed {
    /// Frames in it.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn held_bytes(&self) -> usize {
        size_of_val(&*self.pages) + size_of_val(&*self.words)
    }

    /// All frames, sorted.
    pub(super) fn iter(&self) -> impl Iterator<Item = Kept> + '_ {
        (0..self.pages.len()).flat_map(|page| self.page(page))
    }

    fn page(&self, number: usize) -> impl Iterator<Item = Kept> + '_ {
        let page = &self.pages[number];
        let mut at = page.word as usize * WORD;
        let mut before = (page.index, page.byte);
        let frames = PAGE.min(self.len - number * PAGE);
        (0..frames).map(move |_| {
            let [entries, bytes, len, batch] = page.widths.map(|width| {
                let pair = u128::from(self.words[at / WORD])
                    | u128::from(self.words[at / WORD + 1]) << WORD;
                let value = (pair >> (at % WORD)) as u64;
                at += usize::from(width);
                value & (u64::MAX.checked_shr(u32::from(64 - width)).unwrap_or(0))
            });
            let byte = match entries {
                0 => before.1 + bytes as u32,
                _ => bytes as u32,
            };
            before = (before.0 + entries, byte);
            Kept {
                index: before.0,
                byte,
                len: page.least_len + len as u32,
                batch: page.least_batch + batch as u32,
            }
        })
    }

    /// The frame that has a byte of an entry: of several the last of those that begin next to it.
    pub(super) fn find(&self, index: u64, byte: u32) -> Option<Kept> {
        let behind = self
            .pages
            .partition_point(|page| page.key() <= (index, byte));
        for number in (0..behind).rev() {
            let before = self
                .page(number)
                .take_while(|kept| (kept.index, kept.byte) <= (index, byte));
            let has = |kept: &Kept| kept.index == index && byte - kept.byte < kept.len;
            if let Some(found) = before.filter(has).last() {
                return Some(found);
            }
            // One that begins in a page before may reach here.
            if self.pages[number].index < index {
                return None;
            }
        }
        None
    }
}
