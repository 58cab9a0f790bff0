//! What may rot: a batch in a segment that is below all checkpoints, of which sessions and groups alone need something that is not in memory. What becomes of
//! retained messages and forwards that are lost is tried on copies (`damage`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use courser_contract::{LogIndex, PartitionId};
use courser_engine::{LostStream, Partition, ReferenceSearch};
use courser_log::inspect::{Found, RecordAt, RecordKind, RecordSummary, SegmentInspector};
use courser_log::{Disk, HeldSegment, SegmentNumber};

use super::super::super::World;
use super::super::truth::Truth;
use super::super::{DiskNode, Running};
use crate::rng::Rng;
use crate::shell::Shard;

/// Bytes of a record of the log before those that are the entry's, if the cleaner has moved it.
const KEPT_HEADER_BYTES: u64 = 8;

/// Bytes of an entry that were written together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    partition: PartitionId,
    index: LogIndex,
    first: u32,
    end: u32,
}

impl Span {
    /// Of an entry, a piece of which may be all that is lost, or of what a cleaner has moved.
    fn of(record: &RecordSummary) -> Option<Self> {
        let (first, end) = match record.kind {
            RecordKind::Entry | RecordKind::Piece => (0, u32::MAX),
            RecordKind::Kept => {
                let bytes = record.data_bytes.saturating_sub(KEPT_HEADER_BYTES);
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                (record.byte, record.byte.saturating_add(bytes))
            }
            RecordKind::HardState
            | RecordKind::Checkpoint
            | RecordKind::Sealed
            | RecordKind::Cleaned
            | RecordKind::Last
            | RecordKind::Unknown(_) => return None,
        };
        Some(Self {
            partition: record.partition,
            index: record.index,
            first,
            end,
        })
    }

    pub(super) fn has(&self, (partition, index, byte): RecordAt) -> bool {
        (self.partition, self.index) == (partition, index) && (self.first..self.end).contains(&byte)
    }

    fn needs<'a>(&self, needs: &'a Needs) -> impl Iterator<Item = &'a Need> + use<'a> {
        let at = |byte| (self.partition, self.index, byte);
        needs.range(at(self.first)..at(self.end)).map(|(_, it)| it)
    }
}

/// What rot may take.
#[derive(Clone, Debug, Default)]
pub(super) struct Lost {
    /// All that was in the batch, or less.
    pub(super) spans: Vec<Span>,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for span in &self.spans {
            let (partition, index) = (span.partition.0, span.index.0);
            match span.end {
                u32::MAX => write!(f, "{partition}/{index} ")?,
                end => write!(f, "{partition}/{index}:{}..{end} ", span.first)?,
            }
        }
        Ok(())
    }
}

impl Lost {
    pub(super) fn has(&self, record: RecordAt) -> bool {
        self.spans.iter().any(|span| span.has(record))
    }
}

/// What is needed of a log.
struct Need {
    /// By sessions and groups alone.
    by_streams: bool,
    is_cold: bool,
}

type Needs = BTreeMap<RecordAt, Need>;

/// A batch that may rot.
pub(super) struct Choice {
    pub(super) segment: SegmentNumber,
    /// Where it begins, and its bytes.
    pub(super) from: u64,
    pub(super) bytes: u64,
    lost: Lost,
    /// What of it is needed.
    needed: Vec<Span>,
}

impl Choice {
    /// A byte of it, and what is lost with it at the most. What a bit takes that flips within bytes of an entry is these alone.
    pub(super) fn place(
        &self,
        is_bit: bool,
        truth: &BTreeMap<PartitionId, Truth>,
        bytes: &[u8],
        rng: &mut Rng,
    ) -> (u64, Lost) {
        let anywhere = self.from + rng.below(self.bytes);
        let needed = *rng.pick(&self.needed);
        let (is_within, within) = (rng.chance(70), rng.next());
        let all = || self.lost.clone();
        let entry = truth[&needed.partition].committed_at(needed.index);
        let entry = entry.unwrap_or_default();
        let part = entry.get(needed.first as usize..entry.len().min(needed.end as usize));
        let part = part.unwrap_or_default();
        let batch = &bytes[self.from as usize..(self.from + self.bytes) as usize];
        // One message may be in entries of several partitions.
        let places = batch.windows(part.len().max(1)).enumerate();
        let places: Vec<_> = places.filter(|(_, it)| *it == part).collect();
        match places[..] {
            [(at, _)] if is_within && !part.is_empty() => {
                let at = self.from + at as u64 + within % part.len() as u64;
                match is_bit {
                    true => {
                        let spans = vec![needed];
                        (at, Lost { spans })
                    }
                    false => (at, all()),
                }
            }
            _ => (anywhere, all()),
        }
    }
}

impl World {
    /// One of all that there are.
    pub(super) fn choose_rot(&mut self) -> Option<Choice> {
        let needs = self.needs();
        let node = self.disk.as_deref_mut()?;
        let mut choices = node.choices(&needs);
        let chosen = node.rotten.rng.below(choices.len() as u64) as usize;
        (!choices.is_empty()).then(|| choices.swap_remove(chosen))
    }

    /// All that is needed of the log.
    fn needs(&self) -> Needs {
        let mut needs = Needs::new();
        for (id, partition) in self.shards.iter().flat_map(Shard::partitions) {
            if !id.is_volatile() {
                add_needs(&mut needs, id, partition);
            }
        }
        needs
    }
}

fn add_needs(needs: &mut Needs, id: PartitionId, partition: &Partition) {
    let hot = partition.records_in_memory();
    let hot: BTreeSet<_> = hot.map(|(index, byte, _)| (index, byte)).collect();
    let all = ReferenceSearch::default();
    let (references, _) = partition.search_references(all, usize::MAX, |_, _| true);
    for it in references {
        let by_stream = matches!(it.stream, LostStream::Session(_) | LostStream::Group { .. });
        let need = needs.entry((id, it.index, it.byte)).or_insert(Need {
            by_streams: true,
            is_cold: !hot.contains(&(it.index, it.byte)),
        });
        need.by_streams &= by_stream;
    }
}

impl DiskNode {
    fn choices(&self, needs: &Needs) -> Vec<Choice> {
        // A copy that is being made has older checkpoints, which may need what these do not.
        let running = self.running.as_ref();
        let Some(running) = running.filter(|running| running.held.is_none()) else {
            return Vec::new();
        };
        let mut held = running.log.held_segments();
        // It is still written.
        held.pop();
        let below = held
            .iter()
            .filter(|segment| running.is_below_checkpoints(segment));
        below
            .flat_map(|segment| self.choices_in(segment, needs))
            .collect()
    }

    fn choices_in(&self, segment: &HeldSegment, needs: &Needs) -> Vec<Choice> {
        let disk = self.log_folder.fork().kill();
        let file = disk.open(&segment.segment.file_name()).ok();
        let inspector = file.and_then(|file| SegmentInspector::new(file).ok());
        let mut choices: Vec<Choice> = Vec::new();
        let mut is_whole = true;
        for found in inspector.into_iter().flatten() {
            match found {
                Found::Batch(batch) if batch.number > segment.last => break,
                Found::Batch(batch) => {
                    is_whole = true;
                    choices.push(Choice {
                        segment: segment.segment,
                        from: batch.offset,
                        bytes: batch.bytes,
                        lost: Lost::default(),
                        needed: Vec::new(),
                    });
                }
                Found::Record(record) if is_whole => {
                    if let (Some(choice), Some(span)) = (choices.last_mut(), Span::of(&record)) {
                        choice.lost.spans.push(span);
                    }
                }
                // What follows is left of a batch that has rotted.
                Found::Damage { .. } => is_whole = false,
                Found::Record(_) | Found::End { .. } => {}
            }
        }
        choices.retain_mut(|choice| choice.is_one(needs));
        choices
    }
}

impl Choice {
    /// Whether something of it is only there, and sessions and groups alone need it.
    fn is_one(&mut self, needs: &Needs) -> bool {
        let all = || self.lost.spans.iter().flat_map(|span| span.needs(needs));
        let is_one = all().any(|need| need.is_cold) && all().all(|need| need.by_streams);
        let spans = self.lost.spans.iter().copied();
        let needed = spans.filter(|span| span.needs(needs).any(|need| need.is_cold));
        self.needed = needed.collect();
        is_one
    }
}

impl Running {
    /// Whether no start replays anything of a segment.
    fn is_below_checkpoints(&self, segment: &HeldSegment) -> bool {
        segment.entries.iter().all(|(id, _, last)| {
            let saved = self.saved.get(id);
            saved.is_some_and(|(index, _)| index >= last)
        })
    }
}
