//! What a partition waits for: by stream, in order; its room; and its answer while that gathers.
//!
//! Invariant: each stream with wants has its first one, its **head**, in exactly one of three sets: those in entries, those in kept
//! records, and those of which nobody knows where they are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use courser_contract::{LogIndex, Need, PartitionId, Recalled, StreamWants, Want};

use super::hand::Part;
use crate::ids::Place;

/// An answer is given out when it has so many bytes: what a consumer takes at once, and little beside what it may have in memory.
pub(super) const ANSWER_BYTES: usize = 16 << 10;

/// The first want of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Head {
    pub(super) index: LogIndex,
    pub(super) byte: u32,
    pub(super) stream: u64,
}

impl Head {
    /// Before all of an entry.
    pub(super) const fn first_of(index: LogIndex) -> Self {
        Self {
            index,
            byte: 0,
            stream: 0,
        }
    }

    /// Behind all of an entry.
    pub(super) const fn last_of(index: LogIndex) -> Self {
        Self {
            index,
            byte: u32::MAX,
            stream: u64::MAX,
        }
    }
}

/// Which places somebody has: they count up.
pub(super) type Generation = u32;

/// Where a head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// In its entry.
    Entry,
    /// Among the kept records of the batch there.
    Kept(Place),
    /// Unknown until kept records are indexed, or newer places are there.
    Unknown,
    /// Nowhere, by newer places than it was asked for.
    Nowhere,
}

/// What became of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This is its head now.
    Head(Head),
    /// It has no wants any more.
    Dry,
}

/// What is known of a head besides its address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// Places that were there when it was asked for.
    pub(super) asked: Generation,
    /// It was not there.
    pub(super) doubt: Option<Doubt>,
}

/// Where a head was not although places said so.
#[derive(Clone, Copy, Debug)]
pub(super) struct Doubt {
    /// By these, or older ones.
    pub(super) by: Generation,
    /// A cleaner may have moved it again: at another place it is looked for anew.
    pub(super) at: Place,
}

/// A want, and the places that were there when it came.
#[derive(Clone, Copy, Debug)]
struct Asked {
    want: Want,
    generation: Generation,
}

#[derive(Debug, Default)]
struct Stream {
    wants: VecDeque<Asked>,
    /// Of its head.
    doubt: Option<Doubt>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Asking {
    room: i64,
    streams: BTreeMap<u64, Stream>,
    pub(super) entries: BTreeSet<Head>,
    pub(super) kept: BTreeSet<(Place, Head)>,
    pub(super) unknown: BTreeSet<Head>,
    out: Out,
}

/// The answer that gathers.
#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    records: Vec<(Want, u32)>,
    lost: Vec<Need>,
}

impl Asking {
    pub(super) const fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Whether somebody waits for something.
    pub(super) fn waits(&self) -> bool {
        !self.streams.is_empty()
    }

    pub(super) fn add_room(&mut self, room: u64) {
        let room = i64::try_from(room).unwrap_or(i64::MAX);
        self.room = self.room.saturating_add(room);
    }

    /// Takes wants of a stream. True: it has another head, which is in no set.
    ///
    /// What it asks for again, since it has left memory unused, lies before what it has asked for since. Wants stand in the order of the
    /// log, or each record that can only be used later would take the room of the one that is needed now, until it is dropped as untaken.
    pub(super) fn ask(&mut self, more: StreamWants, generation: Generation) -> bool {
        let Some(first) = more.wants.first().map(address) else {
            return false;
        };
        let before = self.head_of(more.stream).map(|(head, _)| head);
        let stream = self.streams.entry(more.stream).or_default();
        let follows = stream
            .wants
            .back()
            .is_none_or(|last| address(&last.want) < first);
        let asked = more.wants.into_iter();
        let asked = asked.map(|want| Asked { want, generation });
        stream.wants.extend(asked);
        let Some(before) = before else {
            return true;
        };
        if follows {
            return false;
        }
        let wants = stream.wants.make_contiguous();
        wants.sort_by_key(|asked| address(&asked.want));
        if address(&wants[0].want) == (before.index, before.byte) {
            return false;
        }
        stream.doubt = None;
        self.unplace(before);
        true
    }

    /// Takes a head out of the set in which it is.
    fn unplace(&mut self, head: Head) {
        if !self.entries.remove(&head) && !self.unknown.remove(&head) {
            self.kept.retain(|(_, it)| *it != head);
        }
    }

    /// Puts the head of a stream where it is; those that are nowhere are lost. Its head must be in no set.
    pub(super) fn place(&mut self, stream: u64, spot: impl Fn(Head, Standing) -> Spot) -> Next {
        loop {
            let Some((head, standing)) = self.head_of(stream) else {
                self.streams.remove(&stream);
                return Next::Dry;
            };
            match spot(head, standing) {
                Spot::Entry => drop(self.entries.insert(head)),
                Spot::Kept(place) => drop(self.kept.insert((place, head))),
                Spot::Unknown => drop(self.unknown.insert(head)),
                Spot::Nowhere => {
                    self.lose_head(head);
                    continue;
                }
            }
            return Next::Head(head);
        }
    }

    /// Puts all heads where they are.
    pub(super) fn place_all(&mut self, spot: impl Fn(Head, Standing) -> Spot) {
        self.entries.clear();
        self.kept.clear();
        self.unknown.clear();
        let streams: Vec<u64> = self.streams.keys().copied().collect();
        for stream in streams {
            self.place(stream, &spot);
        }
    }

    /// The same with those of which nobody knew where they are.
    pub(super) fn place_unknown(&mut self, spot: impl Fn(Head, Standing) -> Spot) {
        for head in std::mem::take(&mut self.unknown) {
            self.place(head.stream, &spot);
        }
    }

    fn head_of(&self, stream: u64) -> Option<(Head, Standing)> {
        let of = self.streams.get(&stream)?;
        let asked = of.wants.front()?;
        let head = Head {
            index: asked.want.index,
            byte: asked.want.byte,
            stream,
        };
        let standing = Standing {
            asked: asked.generation,
            doubt: of.doubt,
        };
        Some((head, standing))
    }

    /// What is known of the head of a stream.
    pub(super) fn standing(&self, head: Head) -> Option<Standing> {
        self.head_of(head.stream).map(|(_, standing)| standing)
    }

    /// A head is not where it should be, and in no set: it waits for newer places.
    pub(super) fn doubt(&mut self, head: Head, doubt: Doubt) {
        if let Some(stream) = self.streams.get_mut(&head.stream) {
            stream.doubt = Some(doubt);
        }
        self.unknown.insert(head);
    }

    /// Heads that were not where places said, whether there are newer ones or not.
    pub(super) fn doubted(&self) -> impl Iterator<Item = Head> + '_ {
        let streams = self.streams.iter().filter(|(_, it)| it.doubt.is_some());
        streams.filter_map(|(stream, _)| self.head_of(*stream).map(|(head, _)| head))
    }

    /// Gives a head, which is in no set, its record out of bytes of its entry, and its stream those of the next ones that are there too,
    /// until an answer is full or there is no room; says how many they are, and their bytes. `None`: there is no such record, and
    /// nothing has changed.
    pub(super) fn deliver(&mut self, head: Head, part: &Part) -> Option<(u64, u64)> {
        let stream = self.streams.get_mut(&head.stream)?;
        let (mut records, mut bytes) = (0, 0);
        while let Some(Asked { want, .. }) = stream.wants.front()
            && want.index == head.index
            && let Some(record) = record_at(*want, part.byte, &part.data)
        {
            let at = u32::try_from(self.out.bytes.len()).expect("an answer is given out before");
            self.out.bytes.extend_from_slice(record);
            self.out.records.push((*want, at));
            stream.wants.pop_front();
            stream.doubt = None;
            records += 1;
            bytes += record.len() as u64;
            self.room = self.room.saturating_sub_unsigned(record.len() as u64);
            if self.room <= 0 || self.out.bytes.len() >= ANSWER_BYTES {
                break;
            }
        }
        (records > 0).then_some((records, bytes))
    }

    /// A head, which is in no set, cannot be had.
    pub(super) fn lose_head(&mut self, head: Head) {
        self.out.lost.push(Need {
            index: head.index,
            byte: head.byte,
        });
        self.pop(head.stream);
    }

    fn pop(&mut self, stream: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.wants.pop_front();
            stream.doubt = None;
        }
    }

    /// Panics when the invariant of the module does not hold.
    pub(super) fn check(&self) {
        let sets = [&self.entries, &self.unknown];
        let placed = sets.iter().map(|set| set.len()).sum::<usize>() + self.kept.len();
        assert_eq!(placed, self.streams.len(), "each stream has one head");
        for stream in self.streams.keys() {
            let head = self.head_of(*stream).map(|(head, _)| head);
            let head = head.expect("a stream has wants");
            let is_kept = self.kept.iter().any(|(_, it)| *it == head);
            let is_placed = is_kept || sets.iter().any(|set| set.contains(&head));
            assert!(is_placed, "a head is in a set");
        }
    }

    /// What is to be given out once it has so many bytes.
    pub(super) fn answer(&mut self, partition: PartitionId, least: usize) -> Option<Recalled> {
        if self.out.is_empty() || self.out.bytes.len() < least {
            return None;
        }
        let Out {
            bytes,
            records,
            lost,
        } = std::mem::take(&mut self.out);
        Some(Recalled {
            partition,
            // No longer than it is: who keeps a record keeps all of this.
            bytes: Bytes::from(bytes.into_boxed_slice()),
            records,
            lost,
            error: None,
        })
    }
}

impl Out {
    const fn is_empty(&self) -> bool {
        self.records.is_empty() && self.lost.is_empty()
    }
}

/// Where in the log it is.
const fn address(want: &Want) -> (LogIndex, u32) {
    (want.index, want.byte)
}

/// The record of a want, by the length with which it begins.
fn record_at(want: Want, base: u32, bytes: &[u8]) -> Option<&[u8]> {
    let from = usize::try_from(want.byte.checked_sub(base)?).ok()?;
    let to = from.checked_add(usize::try_from(want.len).ok()?)?;
    let record = bytes.get(from..to)?;
    let said = u32::from_le_bytes(*record.first_chunk()?);
    (said == want.len).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(indexes: &[u64]) -> StreamWants {
        let wants = indexes.iter().map(|&index| Want {
            index: LogIndex(index),
            byte: 0,
            len: 1,
        });
        StreamWants {
            stream: 7,
            wants: wants.collect(),
        }
    }

    /// Asks, and says whether there is another head, and which heads are placed.
    fn ask(asking: &mut Asking, indexes: &[u64], spot: Spot) -> (bool, Vec<u64>) {
        let is_new = asking.ask(wants(indexes), 1);
        if is_new {
            asking.place(7, |_, _| spot);
        }
        asking.check();
        let kept = asking.kept.iter().map(|(_, head)| head);
        let heads = asking.entries.iter().chain(&asking.unknown).chain(kept);
        (is_new, heads.map(|head| head.index.0).collect())
    }

    #[test]
    fn what_is_asked_for_again_comes_before_what_lies_behind_it() {
        let kept = Spot::Kept(Place {
            segment: crate::ids::SegmentNumber(1),
            offset: 4_096,
        });
        for spot in [Spot::Entry, Spot::Unknown, kept] {
            let mut asking = Asking::default();
            assert_eq!(ask(&mut asking, &[5, 6], spot), (true, vec![5]));
            assert_eq!(ask(&mut asking, &[8], spot), (false, vec![5]));
            assert_eq!(ask(&mut asking, &[7], spot), (false, vec![5]));
            assert_eq!(ask(&mut asking, &[3, 4], spot), (true, vec![3]));
            let stream = &asking.streams[&7];
            let order: Vec<u64> = stream.wants.iter().map(|it| it.want.index.0).collect();
            assert_eq!(order, [3, 4, 5, 6, 7, 8]);
        }
    }
}
