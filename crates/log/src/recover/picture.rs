//! What the batches say, taken one by one in order.

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use courser_contract::{LogIndex, PartitionId, Term};
use zerocopy::FromBytes;

use super::{PartitionDamage, RecoveredEntry};
use crate::{
    batch::Run,
    checkpoint::Manifests,
    error::OpenError,
    format::{
        FRAME_FLAG_OPTIONAL, KEPT_HEADER_BYTES, Kind, NUMBER_MAX, PieceHeader, partition_bit,
    },
    ids::{BatchNumber, Place, SegmentNumber},
    log::{Known, Segment, replace},
    places::Places,
    record::HardState,
    scan::RawFrame,
};

/// What was read so far.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) partitions: BTreeMap<PartitionId, Partition>,
    pub(super) segments: BTreeMap<SegmentNumber, Segment>,
    pub(super) places: Places,
    /// Last batches of older segments, as heads say.
    pub(super) sealed: BTreeMap<SegmentNumber, BatchNumber>,
    /// Segments of which all that was needed was moved.
    pub(super) cleaned: BTreeSet<SegmentNumber>,
    /// Segments of which that was said, and later that they hold something again.
    pub(super) counted_again: BTreeSet<SegmentNumber>,
    pub(super) records: u64,
    pub(super) entries: u64,
    pub(super) orphan_pieces: u64,
    /// Entries, and pieces of such, in whose place others are.
    pub(super) void: u64,
    pub(super) passed_over: u64,
    /// Whether void entries count: never, but for a planted bug.
    pub(super) counts_void: bool,
    /// The highest term of a checkpoint: no entry of it, or of a higher one, is void.
    saved_term: Term,
    doubts: Vec<Doubt>,
    open: Option<OpenEntry>,
}

/// What was read of one partition.
#[derive(Debug, Default)]
pub(super) struct Partition {
    pub(super) known: Known,
    pub(super) entries: Vec<RecoveredEntry>,
    /// The entry that must come next; below it entries replace what is there.
    next: Option<LogIndex>,
    /// What segments' heads say of a checkpoint.
    pub(super) said_checkpoint: Option<LogIndex>,
    pub(super) damage: Option<PartitionDamage>,
    /// Whole entries behind the first that is missing.
    pub(super) behind: Vec<RecoveredEntry>,
    /// The highest index of an entry that was read, whatever became of it.
    pub(super) seen: LogIndex,
    /// The highest term of one.
    led: Term,
    /// No entry above the checkpoint was written before this place, as a head says: nothing that is lost there is missing.
    covered: Option<Place>,
}

/// Lost batches with something of these partitions.
#[derive(Debug)]
struct Doubt {
    place: Place,
    /// That with the last batch before: it is kept as long as there is doubt, too.
    before: SegmentNumber,
    /// Bits of the partitions that may be concerned.
    partitions: u64,
    /// Partitions with those bits of which nothing is missing, as later entries say.
    cleared: Vec<PartitionId>,
}

/// A large entry of which some pieces were read.
#[derive(Debug)]
struct OpenEntry {
    partition: PartitionId,
    index: LogIndex,
    term: Term,
    total: u64,
    data: BytesMut,
    places: Vec<Place>,
}

impl Doubt {
    /// Whether the lost batch may have held something of the partition that is missing.
    fn concerns(&self, partition: PartitionId) -> bool {
        self.partitions & partition_bit(partition.0) != 0 && !self.cleared.contains(&partition)
    }
}

impl Partition {
    pub(super) fn checkpoint(&self) -> LogIndex {
        self.known.checkpoint.map_or(LogIndex(0), |at| at.index)
    }

    /// The last entry that is there, or the checkpoint.
    fn last(&self) -> LogIndex {
        let last = self.entries.last().map(|entry| entry.index);
        last.unwrap_or_else(|| self.checkpoint())
    }

    /// Whether an entry is one of those in whose place others are, as the checkpoint shows: terms ascend.
    fn is_void(&self, term: Term, index: LogIndex) -> bool {
        let saved = self.known.checkpoint;
        saved.is_some_and(|at| index > at.index && term < at.term)
    }

    /// A lost batch may have held its hard state: an entry or a checkpoint of a newer term shows that this was so. Whom this node voted for in that
    /// term nobody knows any more, so it begins in the next one, in which it voted for nobody. Entries behind those that are lost count, too: what
    /// takes their place must be of a higher term than they.
    fn pass_unknown_votes(&mut self) {
        let saved = self.known.checkpoint.map_or(Term(0), |at| at.term);
        let led = self.led.max(saved);
        let known = self.known.hard_state.unwrap_or(HardState::NONE);
        if led > known.term {
            self.known.hard_state = Some(HardState {
                term: Term(led.0 + 1),
                vote: 0,
                ..known
            });
        }
    }
}

impl Picture {
    pub(super) fn new(manifests: &Manifests) -> Self {
        let partitions = manifests.iter().map(|(id, manifest)| {
            let known = Known {
                hard_state: None,
                checkpoint: Some(manifest.at),
                live: manifest.live.clone(),
                doubted: false,
            };
            let partition = Partition {
                known,
                ..Partition::default()
            };
            (*id, partition)
        });
        let saved_terms = manifests.values().map(|manifest| manifest.at.term);
        Self {
            partitions: partitions.collect(),
            segments: BTreeMap::new(),
            places: Places::default(),
            sealed: BTreeMap::new(),
            cleaned: BTreeSet::new(),
            counted_again: BTreeSet::new(),
            records: 0,
            entries: 0,
            orphan_pieces: 0,
            void: 0,
            passed_over: 0,
            counts_void: false,
            saved_term: saved_terms.max().unwrap_or(Term(0)),
            doubts: Vec::new(),
            open: None,
        }
    }

    /// Takes a record. `false` when it makes no sense.
    pub(super) fn take(&mut self, frame: RawFrame, place: Place) -> Result<bool, OpenError> {
        self.records += 1;
        let Some(kind) = frame.known() else {
            if frame.flags & FRAME_FLAG_OPTIONAL == 0 {
                let kind = frame.kind;
                return Err(OpenError::Kind { place, kind });
            }
            self.passed_over += 1;
            return Ok(true);
        };
        if !(1..=NUMBER_MAX).contains(&frame.index.0)
            && matches!(kind, Kind::Entry | Kind::Piece | Kind::Kept)
        {
            return Ok(false);
        }
        let made_sense = match kind {
            Kind::Entry => {
                self.drop_open(frame.partition);
                if !self.pass_void(&frame, place) {
                    self.take_entry(frame, place);
                }
                true
            }
            Kind::Piece => self.pass_void(&frame, place) || self.take_piece(&frame, place),
            Kind::HardState => self.take_hard_state(&frame),
            Kind::Checkpoint => {
                let partition = self.partitions.entry(frame.partition).or_default();
                let is_an_index = frame.index.0 <= NUMBER_MAX;
                if is_an_index {
                    partition.said_checkpoint = partition.said_checkpoint.max(Some(frame.index));
                }
                is_an_index
            }
            Kind::Last => {
                let partition = self.partitions.entry(frame.partition).or_default();
                if frame.index <= partition.checkpoint() {
                    partition.covered = Some(place);
                }
                true
            }
            Kind::Kept => {
                let run = run_of(&frame);
                self.segments.entry(place.segment).or_default().keep(run);
                self.places.add_kept(frame.partition, place);
                frame.data.len() >= KEPT_HEADER_BYTES
            }
            Kind::Cleaned => {
                let cleaned = SegmentNumber(frame.term.0);
                self.clean(cleaned);
                let segment = self.segments.entry(place.segment).or_default();
                segment.cleaned.push(cleaned);
                true
            }
            Kind::Sealed => {
                let segment = SegmentNumber(frame.term.0);
                self.sealed.insert(segment, BatchNumber(frame.index.0));
                if self.cleaned.remove(&segment) {
                    self.counted_again.insert(segment);
                }
                true
            }
        };
        Ok(made_sense)
    }

    /// All that is needed of a segment was moved by now.
    pub(super) fn clean(&mut self, segment: SegmentNumber) {
        self.cleaned.insert(segment);
        self.counted_again.remove(&segment);
    }

    fn take_hard_state(&mut self, frame: &RawFrame) -> bool {
        let Ok(vote) = <[u8; 8]>::try_from(&*frame.data) else {
            return false;
        };
        let partition = self.partitions.entry(frame.partition).or_default();
        partition.known.hard_state = Some(HardState {
            term: frame.term,
            vote: u64::from_le_bytes(vote),
            commit: frame.index,
        });
        true
    }

    /// Passes over an entry in whose place others are, or a piece of one. All that was written before it is below the checkpoint or as void as it
    /// is, so nothing that is lost there is missing.
    fn pass_void(&mut self, frame: &RawFrame, place: Place) -> bool {
        if frame.term >= self.saved_term {
            return false;
        }
        let id = frame.partition;
        let partition = self.partitions.entry(id).or_default();
        if !partition.is_void(frame.term, frame.index) || self.counts_void {
            return false;
        }
        partition.seen = partition.seen.max(frame.index);
        partition.led = partition.led.max(frame.term);
        self.void += 1;
        clear(&mut self.doubts, id);
        let segment = self.segments.entry(place.segment).or_default();
        segment.note_void(run_of(frame));
        true
    }

    fn take_entry(&mut self, frame: RawFrame, place: Place) {
        let run = run_of(&frame);
        if self.places.add(run, place) {
            replace(&mut self.segments, run.partition, run.first);
        }
        self.segments.entry(place.segment).or_default().note(run);
        self.deliver(frame.partition, frame.term, frame.index, frame.data);
    }

    /// An entry, whole, in the order of the log.
    fn deliver(&mut self, id: PartitionId, term: Term, index: LogIndex, data: bytes::Bytes) {
        self.entries += 1;
        let partition = self.partitions.entry(id).or_default();
        let checkpoint = partition.checkpoint();
        let expected = partition
            .next
            .unwrap_or(LogIndex(checkpoint.0 + 1))
            // Older entries may be gone: their segments were used again.
            .max(LogIndex(checkpoint.0 + 1));
        partition.seen = partition.seen.max(index);
        partition.led = partition.led.max(term);
        match partition.damage {
            // It replaces what is missing and all behind that: who wrote it went on without (M44).
            Some(PartitionDamage::Missing { first, .. }) if index <= first => {
                partition.damage = None;
                partition.behind.clear();
            }
            Some(_) => {
                replace_from(&mut partition.behind, RecoveredEntry { index, term, data });
                return;
            }
            None => {}
        }
        if index > expected {
            partition.damage = Some(PartitionDamage::Missing {
                first: expected,
                last: LogIndex(index.0 - 1),
            });
            partition.behind = vec![RecoveredEntry { index, term, data }];
            return;
        }
        // What is lost before it was below the checkpoint, or is replaced by it.
        clear(&mut self.doubts, id);
        partition.next = Some(LogIndex(index.0 + 1));
        replace_from(&mut partition.entries, RecoveredEntry { index, term, data });
        if index <= checkpoint {
            partition.entries.pop();
        }
    }

    fn take_piece(&mut self, frame: &RawFrame, place: Place) -> bool {
        let Ok((head, part)) = PieceHeader::read_from_prefix(&frame.data) else {
            return false;
        };
        let (offset, total) = (head.offset.get(), head.total.get());
        if offset == 0 {
            self.drop_open(frame.partition);
            self.open = Some(OpenEntry {
                partition: frame.partition,
                index: frame.index,
                term: frame.term,
                total,
                data: BytesMut::new(),
                places: Vec::new(),
            });
        }
        let fits = self.open.as_ref().is_some_and(|open| {
            let same = (open.partition, open.index, open.term, open.total)
                == (frame.partition, frame.index, frame.term, total);
            same && open.data.len() as u64 == offset
        });
        let Some(open) = self.open.as_mut().filter(|_| fits) else {
            // Its beginning was lost with a rotten batch or a recycled segment, or was not read. It lies there all the same, as for who reads all.
            self.orphan_pieces += 1;
            let segment = self.segments.entry(place.segment).or_default();
            segment.note(run_of(frame));
            return true;
        };
        open.data.extend_from_slice(part);
        open.places.push(place);
        let so_far = open.data.len() as u64;
        let run = run_of(frame);
        self.segments.entry(place.segment).or_default().note(run);
        if so_far > total {
            return false;
        }
        if so_far == total
            && let Some(open) = self.open.take()
        {
            if self
                .places
                .add_pieces(open.partition, open.index, open.places)
            {
                replace(&mut self.segments, run.partition, run.first);
            }
            self.deliver(open.partition, open.term, open.index, open.data.freeze());
        }
        true
    }

    /// Whether an entry was begun that is not whole yet.
    pub(super) const fn has_open_entry(&self) -> bool {
        self.open.is_some()
    }

    /// An unfinished entry ends when its partition goes on without it.
    fn drop_open(&mut self, partition: PartitionId) {
        let other = |open: &mut OpenEntry| open.partition == partition;
        if let Some(open) = self.open.take_if(other) {
            self.orphan_pieces += open.places.len() as u64;
        }
    }

    /// Batches with something of these partitions are lost; that segment has the last one before them.
    pub(super) fn doubt(&mut self, place: Place, before: SegmentNumber, partitions: u64) {
        if partitions != 0 {
            self.doubts.push(Doubt {
                place,
                before,
                partitions,
                cleared: Vec::new(),
            });
        }
    }

    /// A segment is kept, and named, for a batch that is lost.
    pub(super) fn lose(&mut self, segment: SegmentNumber, last: BatchNumber) {
        let segment = self.segments.entry(segment).or_default();
        segment.lost = segment.lost.max(last);
        segment.is_damaged = true;
    }

    /// Where batches are lost, and bits of the partitions that may have lost something there.
    pub(super) fn open_doubts(&self) -> Vec<(Place, u64)> {
        let doubts = self.doubts.iter();
        doubts
            .map(|doubt| (doubt.place, doubt.partitions))
            .collect()
    }

    /// Where the last batch is lost of which a partition may lack something.
    pub(super) fn lost_at(&self, partition: PartitionId) -> Option<Place> {
        let doubts = self.doubts.iter();
        let of = doubts.filter(|it| it.concerns(partition));
        of.map(|doubt| doubt.place).max()
    }

    /// What is lost before a head that says that all entries of a partition are below its checkpoint was below it, too.
    fn clear_covered(&mut self) {
        for (id, partition) in &self.partitions {
            let before = |doubt: &&mut Doubt| partition.covered.is_some_and(|it| doubt.place < it);
            for doubt in self.doubts.iter_mut().filter(before) {
                if doubt.concerns(*id) {
                    doubt.cleared.push(*id);
                }
            }
        }
    }

    /// Ends the reading: what is still in doubt is damage.
    pub(super) fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            self.orphan_pieces += open.places.len() as u64;
        }
        self.clear_covered();
        for doubt in &self.doubts {
            let (mut open, mut is_known) = (0, false);
            for (id, partition) in &mut self.partitions {
                let bit = partition_bit(id.0);
                if doubt.partitions & bit == 0 {
                    continue;
                }
                is_known = true;
                partition.pass_unknown_votes();
                if doubt.cleared.contains(id) {
                    continue;
                }
                open |= bit;
                let after = partition.last();
                partition
                    .damage
                    .get_or_insert(PartitionDamage::InDoubt { after });
            }
            for segment in [doubt.before, doubt.place.segment] {
                if let Some(segment) = self.segments.get_mut(&segment) {
                    // Partitions of which nothing is left at all are in doubt as well.
                    segment.in_doubt |= if is_known { open } else { doubt.partitions };
                }
            }
        }
    }
}

fn run_of(frame: &RawFrame) -> Run {
    Run {
        partition: frame.partition,
        first: frame.index,
        last: frame.index,
    }
}

/// An entry takes the place of what is there from its index on.
fn replace_from(entries: &mut Vec<RecoveredEntry>, entry: RecoveredEntry) {
    // Nearly always it is the next one.
    if entries.last().is_some_and(|last| last.index >= entry.index) {
        let from = entries.partition_point(|it| it.index < entry.index);
        entries.truncate(from);
    }
    entries.push(entry);
}

fn clear(doubts: &mut [Doubt], partition: PartitionId) {
    for doubt in doubts {
        if doubt.concerns(partition) {
            doubt.cleared.push(partition);
        }
    }
}
