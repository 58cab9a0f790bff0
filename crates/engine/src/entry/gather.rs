//! The entry in the making.

use std::rc::Rc;

use bytes::{BufMut, Bytes, BytesMut};
use courser_contract::{Term, Tick, WallMs};
use courser_memory::{Component, Scope};

use super::{ENGINE_VERSION, HEADER_BYTES, Head, Key, LAYOUT, TargetList, lone};

/// Bytes of a buffer from which entries are split off; the next one is taken when less than [`LEFT_BYTES_MIN`] is left.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;
const LEFT_BYTES_MIN: usize = 4 * 1024;
/// Outcomes that make an entry go although nothing else does (M18).
const LAZY_MAX: u32 = 512;
/// How long outcomes wait for something else to go with (M18).
const LAZY_MS: u64 = 20;

/// How long a fact may wait for company.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Goes with the next entry, which is due at the end of the turn.
    Now,
    /// Goes when something else does, or after [`LAZY_MAX`] of its kind or [`LAZY_MS`] (M18).
    Lazy(Tick),
}

/// Facts that are gathered for the next entry. A buffer serves many entries: each is split off and shares its memory.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    buffer: BytesMut,
    facts: u32,
    lazy: u32,
    urgent: bool,
    lazy_since: Option<Tick>,
    /// What the last publish of this entry said: the next one refers to it where it says the same.
    pub(super) before: Before,
}

/// What a publish may refer to: the one before it in the same entry.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) key: Option<Key>,
    /// The list that it went to the whole of. Held, so that its place is nobody else's meanwhile.
    pub(super) list: Option<Rc<TargetList>>,
}

impl Gather {
    /// Where a fact is to be written: zero bytes, as many as it has.
    #[inline]
    pub(crate) fn fact(&mut self, bytes: usize, haste: Haste) -> &mut [u8] {
        if self.facts == 0 {
            if self.buffer.capacity() < LEFT_BYTES_MIN.max(bytes + HEADER_BYTES) {
                self.grow(bytes + HEADER_BYTES);
            }
            self.buffer.put_bytes(0, HEADER_BYTES);
        } else if self.buffer.capacity() - self.buffer.len() < bytes {
            self.grow(bytes);
        }
        self.facts += 1;
        match haste {
            Haste::Now => self.urgent = true,
            Haste::Lazy(now) => {
                self.lazy += 1;
                self.lazy_since.get_or_insert(now);
            }
        }
        let start = self.buffer.len();
        self.buffer.resize(start + bytes, 0);
        &mut self.buffer[start..]
    }

    /// What an entry leaves is the partition's, whoever's turn it is: it stays when the connection goes that a publish came by. Said
    /// here and not at each call of the partition, so that it costs a message nothing.
    #[cold]
    fn grow(&mut self, bytes: usize) {
        let _scope = Scope::enter(Component::Partitions);
        self.buffer.reserve(BUFFER_BYTES.max(bytes));
    }

    /// Whether the last publish of this entry went to the whole of this list.
    #[inline]
    pub(crate) fn went_to(&self, list: &Rc<TargetList>) -> bool {
        let before = self.before.list.as_ref();
        before.is_some_and(|before| Rc::ptr_eq(before, list))
    }

    /// The publish that was just written goes to the whole of this list.
    pub(crate) fn goes_to(&mut self, list: &Rc<TargetList>) {
        self.before.list = Some(list.clone());
    }

    /// Bytes so far.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Facts so far.
    pub(crate) const fn facts(&self) -> u32 {
        self.facts
    }

    /// Whether the entry should go at the end of this turn.
    pub(crate) const fn is_due(&self) -> bool {
        self.urgent || self.lazy >= LAZY_MAX
    }

    /// When it should go at the latest.
    pub(crate) fn deadline(&self) -> Option<Tick> {
        self.lazy_since
            .filter(|_| !self.is_due())
            .map(|since| since.after_ms(LAZY_MS))
    }

    /// Lets what waits go, if its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Tick) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            self.urgent = true;
        }
    }

    /// Lets what waits go.
    pub(crate) const fn hurry(&mut self) {
        if self.facts > 0 {
            self.urgent = true;
        }
    }

    /// The entry; none if there is no fact.
    pub(crate) fn take(&mut self, wall: WallMs, term: Term, number: u64) -> Option<Bytes> {
        if self.facts == 0 {
            return None;
        }
        let head = Head {
            facts: self.facts,
            wall,
            term,
            number,
        };
        write_head(&mut self.buffer[..HEADER_BYTES], head);
        self.forget_counts();
        let entry = self.buffer.split();
        if head.facts > 1 {
            return Some(entry.freeze());
        }
        Some(lone::shorten(entry, head))
    }

    /// Drops what was gathered: leadership is gone (M5).
    pub(crate) fn clear(&mut self) {
        self.buffer.clear();
        self.forget_counts();
    }

    fn forget_counts(&mut self) {
        self.facts = 0;
        self.lazy = 0;
        self.urgent = false;
        self.lazy_since = None;
        self.before = Before::default();
    }
}

/// Writes the head of an entry in the long form.
pub(super) fn write_head(mut out: &mut [u8], head: Head) {
    out.put_u16_le(LAYOUT);
    out.put_u16_le(ENGINE_VERSION);
    out.put_u32_le(head.facts);
    out.put_u64_le(head.wall.0);
    out.put_u64_le(head.term.0);
    out.put_u64_le(head.number);
}
