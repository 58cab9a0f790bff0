//! An array that only grows and is read without a lock: segments of doubling size.

use std::sync::OnceLock;

/// log2 of the size of the first segment.
const FIRST: u32 = 6;
const SEGMENTS: usize = 27;

pub(crate) struct Segments<T> {
    segments: [OnceLock<Box<[T]>>; SEGMENTS],
}

impl<T: Default> Segments<T> {
    pub(crate) fn new() -> Self {
        Segments {
            segments: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// The element at `at`, if its segment was made.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        let (segment, offset) = split(at);
        Some(&self.segments[segment].get()?[offset])
    }

    /// The element at `at`, whose segment is made if need be.
    pub(crate) fn get_or_grow(&self, at: u32) -> &T {
        let (segment, offset) = split(at);
        let make = || {
            (0..1usize << (segment as u32 + FIRST))
                .map(|_| T::default())
                .collect()
        };
        &self.segments[segment].get_or_init(make)[offset]
    }
}

/// Segment and place in it: segment `k` holds the indices from `2^(k+FIRST) - 2^FIRST` on.
#[inline]
fn split(at: u32) -> (usize, usize) {
    let shifted = u64::from(at) + (1 << FIRST);
    let top = 63 - shifted.leading_zeros();
    ((top - FIRST) as usize, (shifted - (1 << top)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn every_index_has_a_place_of_its_own() {
        let numbers: Segments<AtomicU32> = Segments::new();
        assert!(numbers.get(0).is_none() && numbers.get(u32::MAX).is_none());
        (0..10_000).for_each(|at| numbers.get_or_grow(at).store(at + 1, Ordering::Relaxed));
        for at in 0..10_000 {
            assert_eq!(
                numbers.get(at).map(|n| n.load(Ordering::Relaxed)),
                Some(at + 1)
            );
        }
    }
}
