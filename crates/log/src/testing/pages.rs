//! Bytes of a file, in pages that copies share until one of them is written: copies of a whole disk cost as much as what they
//! change, and blocks of zeros cost nothing.

use std::sync::Arc;

const PAGE: usize = 4096;

/// What a page was before it was last written.
#[derive(Clone, Debug, Default)]
struct Before {
    bytes: Option<Arc<[u8; PAGE]>>,
    /// Number of that write; 0: there was none.
    write: u64,
}

/// Bytes of a file. Those of the last page that are behind the end are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Pages {
    /// None: all zeros.
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    before: Vec<Before>,
    /// Writes so far.
    writes: u64,
    len: usize,
}

impl Pages {
    /// Bytes that were always there: no write of them can be lost.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut pages = Self::default();
        pages.write(0, bytes);
        pages.before.fill(Before::default());
        pages
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The file ends here now; what is new are zeros.
    pub(super) fn resize(&mut self, len: usize) {
        self.pages.resize(len.div_ceil(PAGE), None);
        self.before.resize(len.div_ceil(PAGE), Before::default());
        if len < self.len
            && let Some(Some(last)) = self.pages.last_mut()
            && !len.is_multiple_of(PAGE)
        {
            Arc::make_mut(last)[len % PAGE..].fill(0);
        }
        self.len = len;
    }

    /// Fills a buffer from an offset on; false: the file ends before.
    pub(super) fn read(&self, offset: usize, buf: &mut [u8]) -> bool {
        let fits = offset.checked_add(buf.len());
        if fits.is_none_or(|end| end > self.len) {
            return false;
        }
        let mut done = 0;
        while done < buf.len() {
            let (page, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let some = (PAGE - from).min(buf.len() - done);
            let part = &mut buf[done..done + some];
            match &self.pages[page] {
                Some(bytes) => part.copy_from_slice(&bytes[from..from + some]),
                None => part.fill(0),
            }
            done += some;
        }
        true
    }

    /// Writes at an offset; the file grows where that is needed.
    pub(super) fn write(&mut self, offset: usize, data: &[u8]) {
        if self.len < offset + data.len() {
            self.resize(offset + data.len());
        }
        self.writes += 1;
        let mut done = 0;
        while done < data.len() {
            let (page, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
            let some = (PAGE - from).min(data.len() - done);
            let part = &data[done..done + some];
            self.before[page] = Before {
                bytes: self.pages[page].clone(),
                write: self.writes,
            };
            let page = &mut self.pages[page];
            match <[u8; PAGE]>::try_from(part) {
                Ok(_) if is_zeros(part) => *page = None,
                Ok(whole) => *page = Some(Arc::new(whole)),
                Err(_) => {
                    let bytes = page.get_or_insert_with(|| Arc::new([0; PAGE]));
                    Arc::make_mut(bytes)[from..from + some].copy_from_slice(part);
                }
            }
            done += some;
        }
    }

    /// Flips bits of a byte that is there.
    pub(super) fn flip(&mut self, at: usize, bits: u8) {
        if at < self.len {
            let bytes = self.pages[at / PAGE].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(bytes)[at % PAGE] ^= bits;
        }
    }

    /// The page of a byte is as it was before it was last written, with all others of that write or without.
    pub(super) fn bring_back(&mut self, at: usize, whole: bool) {
        if at >= self.len {
            return;
        }
        let page = at / PAGE;
        let write = self.before[page].write;
        if write == 0 {
            return;
        }
        let looked_at = match whole {
            true => 0..self.before.len(),
            false => page..page + 1,
        };
        for (page, before) in self.pages[looked_at.clone()]
            .iter_mut()
            .zip(&self.before[looked_at])
        {
            if before.write == write {
                page.clone_from(&before.bytes);
            }
        }
    }

    pub(super) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        let whole = self.read(0, &mut bytes);
        debug_assert!(whole, "a file has its own length");
        bytes
    }
}

fn is_zeros(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Choices;

    /// Against a plain list of bytes.
    #[test]
    fn pages_are_what_a_list_of_bytes_is() {
        let mut choices = Choices::new(7);
        let (mut pages, mut plain) = (Pages::default(), Vec::new());
        for round in 0..3_000 {
            let at = choices.below(20_000) as usize;
            match choices.below(10) {
                0 => {
                    pages.resize(at);
                    plain.resize(at, 0);
                }
                1 => {
                    pages.flip(at, 3);
                    if let Some(byte) = plain.get_mut(at) {
                        *byte ^= 3;
                    }
                }
                // A copy stays what it was.
                2 => {
                    let copy = pages.clone();
                    let before = plain.clone();
                    pages.write(at, &[9; 100]);
                    assert!(copy.to_vec() == before, "round {round}");
                    plain.resize(plain.len().max(at + 100), 0);
                    plain[at..at + 100].fill(9);
                }
                kind => {
                    let at = if kind < 6 { at / PAGE * PAGE } else { at };
                    let data = vec![choices.below(3) as u8; choices.below(10_000) as usize];
                    pages.write(at, &data);
                    if !data.is_empty() {
                        plain.resize(plain.len().max(at + data.len()), 0);
                        plain[at..at + data.len()].copy_from_slice(&data);
                    } else if plain.len() < at {
                        plain.resize(at, 0);
                    }
                }
            }
            assert!(pages.to_vec() == plain, "round {round}");
        }
        let mut buf = [0; 2];
        assert!(!pages.read(pages.len() - 1, &mut buf));
        assert!(!pages.read(usize::MAX, &mut buf));
    }

    /// The first byte of each page.
    fn bytes(pages: &Pages) -> Vec<u8> {
        pages.to_vec().chunks(PAGE).map(|it| it[0]).collect()
    }

    #[test]
    fn a_page_or_a_whole_write_is_what_it_was_before() {
        let mut pages = Pages::default();
        pages.write(0, &[1; 4 * PAGE]);
        pages.write(PAGE, &[2; 2 * PAGE]);
        let mut one = pages.clone();
        one.bring_back(2 * PAGE + 7, false);
        assert_eq!(bytes(&one), [1, 2, 1, 1]);
        pages.bring_back(2 * PAGE + 7, true);
        assert_eq!(bytes(&pages), [1, 1, 1, 1]);
        pages.bring_back(3 * PAGE, false);
        assert_eq!(bytes(&pages), [1, 1, 1, 0], "it was nothing before");
    }

    /// Also those behind a page that something else has written since, and none of another write that began at the same page.
    #[test]
    fn all_that_is_left_of_a_write_is_lost_together() {
        let mut pages = Pages::default();
        pages.write(0, &[1; 4 * PAGE]);
        pages.write(PAGE, &[2; PAGE]);
        let mut other = pages.clone();
        pages.bring_back(3 * PAGE, true);
        assert_eq!(bytes(&pages), [0, 2, 0, 0]);
        other.write(0, &[3; PAGE]);
        other.bring_back(0, true);
        assert_eq!(bytes(&other), [1, 2, 1, 1]);
        let mut there = Pages::of(&[4; 2 * PAGE]);
        there.write(PAGE, &[5; PAGE]);
        there.bring_back(0, true);
        assert_eq!(bytes(&there), [4, 5], "nobody has written it");
        there.bring_back(PAGE, true);
        assert_eq!(bytes(&there), [4, 4]);
    }
}
