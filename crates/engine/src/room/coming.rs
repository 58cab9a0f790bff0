//! What is proposed for streams and is not in them yet: where it will be, and how large it is, so that the oldest of it may be dropped.
//!
//! A stream is dense, and what is proposed is applied in the order in which it was: the position of a message is known before the message is in
//! its stream.
//!
//! ```text
//!   in the stream │ coming                              │
//!                 │ dropped, or of no known size │ known │
//!   ──────────────┴──────────────────────────────┴───────┴──▶ seq
//!               next
//! ```
//!
//! Sizes are noted from the moment on in which the oldest message goes for a new one ([`Overflow::DropOldest`](crate::Overflow)): what came before has
//! none, and is left alone until it is in its stream. Messages that come to one stream at a time are mostly of one size, which stands beside their
//! count; others have a list. Sessions have no room for either, and need none where another policy counts.

use std::collections::VecDeque;

use hashbrown::HashMap;

/// Lists that wait to be used again, and the longest of them.
const SPARE_MAX: usize = 64;
const SPARE_RUNS_MAX: usize = 4_096;

type Hasher = foldhash::fast::RandomState;

/// What is proposed and not yet in a stream, less what is proposed to be ended in it (M4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reserved {
    pub(super) bytes: i64,
    pub(crate) messages: i32,
    /// What is not yet in the stream, also that of it which is proposed to be ended.
    coming: u32,
}

impl Reserved {
    #[cfg(test)]
    pub(super) const fn of(messages: i32, bytes: i64) -> Self {
        Self {
            bytes,
            messages,
            coming: 0,
        }
    }

    /// A message is proposed.
    #[inline]
    pub(super) const fn comes(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes.cast_signed();
        self.coming += 1;
    }

    /// A message of the stream is proposed to be ended.
    pub(super) fn dooms(&mut self, bytes: u32) {
        self.messages -= 1;
        self.bytes -= i64::from(bytes);
    }

    /// It has ended.
    pub(crate) fn ended(&mut self, bytes: u32) {
        self.messages += 1;
        self.bytes += i64::from(bytes);
    }
}

/// So many messages in a row, each of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    messages: u32,
    bytes: u32,
}

/// The newest messages that come to a stream, those whose sizes are known and which are not to end.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// At least one.
    messages: u32,
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sizes {
    /// Each has so many bytes.
    Same(u32),
    /// They have a list.
    Mixed,
}

/// What comes to streams and may be dropped.
#[derive(Debug, Default)]
pub(crate) struct Coming {
    /// It is noted, and stays so whatever the policy is then: else what is known would not be the newest.
    noted: bool,
    known: HashMap<u64, Known, Hasher>,
    /// The lists of those of different sizes.
    mixed: HashMap<u64, VecDeque<Run>, Hasher>,
    spare: Vec<VecDeque<Run>>,
}

impl Coming {
    /// Whether [`Coming::note`] is to be called for whatever comes.
    #[inline]
    pub(super) const fn is_noted(&self) -> bool {
        self.noted
    }

    /// The message that [`Reserved::comes`] has just counted may be dropped.
    pub(super) fn note(&mut self, stream: u64, bytes: u64) {
        let bytes = u32::try_from(bytes).expect("a packet is far below 4 GiB");
        self.noted = true;
        let known = self.known.entry(stream).or_insert(Known {
            messages: 0,
            sizes: Sizes::Same(bytes),
        });
        let before = *known;
        known.messages += 1;
        if before.sizes != Sizes::Same(bytes) {
            known.sizes = Sizes::Mixed;
            self.note_mixed(stream, before, bytes);
        }
    }

    fn note_mixed(&mut self, stream: u64, before: Known, bytes: u32) {
        let runs = self
            .mixed
            .entry(stream)
            .or_insert_with(|| self.spare.pop().unwrap_or_default());
        if let Sizes::Same(bytes) = before.sizes {
            runs.push_back(Run {
                messages: before.messages,
                bytes,
            });
        }
        match runs.back_mut() {
            Some(last) if last.bytes == bytes => last.messages += 1,
            Some(_) | None => runs.push_back(Run { messages: 1, bytes }),
        }
    }

    /// The oldest message that comes to a stream is there.
    #[inline]
    pub(crate) fn arrives(&mut self, stream: u64, reserved: &mut Reserved, bytes: u32) {
        if !self.known.is_empty() && self.known_of(stream) == reserved.coming {
            self.take_oldest(stream);
        }
        reserved.coming -= 1;
        reserved.messages -= 1;
        reserved.bytes -= i64::from(bytes);
    }

    /// Drops the oldest message that comes to a stream, if one may be; `next` is the next position of that stream. Its own position.
    pub(super) fn drop_oldest(
        &mut self,
        stream: u64,
        next: u64,
        reserved: &mut Reserved,
    ) -> Option<u64> {
        let seq = next + u64::from(reserved.coming - self.known_of(stream));
        let bytes = self.take_oldest(stream)?;
        reserved.dooms(bytes);
        Some(seq)
    }

    fn known_of(&self, stream: u64) -> u32 {
        self.known.get(&stream).map_or(0, |known| known.messages)
    }

    /// Takes the oldest of those that are known; its bytes.
    fn take_oldest(&mut self, stream: u64) -> Option<u32> {
        let known = self.known.get_mut(&stream)?;
        known.messages -= 1;
        let (left, sizes) = (known.messages, known.sizes);
        let bytes = match sizes {
            Sizes::Same(bytes) => bytes,
            Sizes::Mixed => self.take_mixed(stream),
        };
        if left == 0 {
            self.forget(stream);
        }
        Some(bytes)
    }

    fn take_mixed(&mut self, stream: u64) -> u32 {
        let runs = self.mixed.get_mut(&stream);
        let runs = runs.expect("sizes that differ have a list");
        let first = runs.front_mut().expect("a list has what is counted");
        let bytes = first.bytes;
        first.messages -= 1;
        if first.messages == 0 {
            runs.pop_front();
        }
        bytes
    }

    /// Nothing is known of what comes to a stream any more.
    pub(crate) fn forget(&mut self, stream: u64) {
        let Some(known) = self.known.remove(&stream) else {
            return;
        };
        if known.sizes == Sizes::Mixed
            && let Some(mut runs) = self.mixed.remove(&stream)
            && self.spare.len() < SPARE_MAX
            && runs.capacity() <= SPARE_RUNS_MAX
        {
            runs.clear();
            self.spare.push(runs);
        }
    }

    /// Asserts what holds when nothing is under way.
    pub(crate) fn check_idle(&self) {
        assert!(self.known.is_empty(), "nothing is known of what has come");
        assert!(self.mixed.is_empty(), "no list is left behind");
    }
}

#[cfg(test)]
mod tests;
