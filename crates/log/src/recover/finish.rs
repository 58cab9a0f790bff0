//! From what was read to a log that can be written.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io::IoSlice,
};

use courser_contract::{LogIndex, PartitionId};

use super::{
    PartitionDamage, Recovered, RecoveredPartition,
    chain::{BLOCK, Scanned, Unproven},
    pass::unsummed,
    picture::{Partition, Picture},
    report::{Damage, DamageKind, RecoveryReport},
    survey::{Found, Survey},
    unseen::unused_are_seen,
};
use crate::{
    checkpoint::Manifests,
    config::{LogConfig, Planted},
    disk::{Disk, DiskFile},
    error::{OpenError, PrepareError, WriteError},
    ids::{BatchNumber, Place, SegmentNumber, StartId},
    live::LiveEntries,
    log::{Active, LastBatch, Log, LogCounts, Ready, Segment, Space, SpaceState},
    places::Places,
    prepare::{Make, NewSegment, Remove, Unwanted, write_header},
    record::HardState,
    summary::forget,
};

/// Makes the log, and what was recovered durable.
pub(super) fn finish<D: Disk>(
    disk: D,
    config: LogConfig,
    start: StartId,
    manifests: &Manifests,
    scanned: Scanned<D::File>,
) -> Result<(Log<D>, Recovered), OpenError> {
    let Scanned {
        mut survey,
        mut picture,
        mut report,
        last,
        tail,
        unproven,
    } = scanned;
    unused_are_seen(&mut survey, &picture)?;
    survey.remove_unfinished(&disk)?;
    report.segments = survey.files.len() as u64;
    report.records = picture.records;
    report.entries = picture.entries;
    report.orphan_pieces = picture.orphan_pieces;
    report.passed_over = picture.passed_over;
    report.leftovers = survey.leftovers;
    report.unproven = unproven.front().map(|batch| batch.place);
    forget_damaged(&disk, &report);
    let unsummed = unsummed(&survey, &picture, &report.damages);
    cleaned(&mut picture, &report);
    picture.finish();
    if !config.has(Planted::TrustTheCache) {
        report.rewritten_bytes = rewrite(&survey.files, &unproven)?;
    }

    if let Some(segment) = survey.gone {
        stand_for(&disk, &config, start, segment)?;
        picture.segments.entry(segment).or_default().bytes = config.segment_bytes();
    }

    let last = last.map_or_else(LastBatch::default, |last| LastBatch {
        number: last.number,
        crc: last.crc.unwrap_or(0),
        partitions: last.partitions,
        is_witness: last.is_witness,
    });
    let mut stock = Stock::new(&mut survey, &mut picture, &config, tail);
    let (active, is_new) = match stock.active.take() {
        Some(active) => (active, false),
        None => (first_segment(&disk, &config, start, &mut stock)?, true),
    };
    if is_new {
        let segment = Segment {
            bytes: active.bytes,
            ..Segment::default()
        };
        picture.segments.insert(active.segment, segment);
    }
    let needs_head = active.offset == BLOCK;
    let recovered = recovered(&mut picture, manifests, report);
    if config.has(Planted::ForgetKeptAtStart) {
        picture
            .segments
            .values_mut()
            .for_each(|segment| segment.kept.clear());
    }
    let mut log = Log {
        own: None,
        disk,
        config,
        start,
        // All that was read was synced again.
        synced: last.number,
        last,
        active,
        dirty: Vec::new(),
        ready: stock.ready,
        free: stock.free,
        unwanted: stock.unwanted,
        stuck: VecDeque::new(),
        leaving_bytes: 0,
        segments: picture.segments,
        partitions: picture
            .partitions
            .into_iter()
            .map(|(id, partition)| (id, partition.known))
            .collect(),
        held: None,
        unsummed,
        discredited: BTreeSet::new(),
        places: picture.places,
        pieces: None,
        next_segment: stock.next_segment,
        preparing: false,
        prepare_blocked: false,
        remove_blocked: false,
        sweep: true,
        space: Space {
            ready_bytes: 0,
            free_bytes: 0,
            state: SpaceState::Enough,
        },
        left_free: 0,
        batches_made: 0,
        failed: false,
        counts: LogCounts::default(),
    };
    log.unsummed.remove(&log.active.segment);
    log.make_certain(needs_head)?;
    log.free_dead();
    log.measure_space();
    Ok((log, recovered))
}

impl<D: Disk> Log<D> {
    /// Names and the active segment's header, whatever an earlier process knows of their syncs; and the head that every segment
    /// begins with.
    fn make_certain(&mut self, needs_head: bool) -> Result<(), WriteError> {
        if !self.config.has(Planted::SkipFolderSync) {
            let synced = self.disk.sync_dir();
            self.or_fail("syncing the log's folder", synced)?;
        }
        let mut header = self.new_segment(self.active.segment);
        header.bytes = self.active.bytes;
        let written = write_header(&self.active.file, header);
        self.or_fail("writing a segment's header", written)?;
        if needs_head {
            self.write_head()?;
        }
        let synced = self.active.file.sync();
        self.or_fail("syncing the log", synced)?;
        self.synced = self.last.number;
        Ok(())
    }
}

/// Segments that end before the batch with which they were left, as a later head says.
pub(super) fn sealed_tails<F: DiskFile>(
    picture: &mut Picture,
    survey: &Survey<F>,
    report: &mut RecoveryReport,
) {
    let sealed = std::mem::take(&mut picture.sealed);
    for (number, end) in &sealed {
        let Some(segment) = picture.segments.get(number) else {
            continue;
        };
        let known = |damage: &Damage| damage.first <= *end && *end <= damage.last;
        if segment.last >= *end || report.damages.iter().any(known) {
            continue;
        }
        let offset = survey.files.get(number).map_or(0, |f| f.window.len());
        let place = Place {
            segment: *number,
            offset,
        };
        report.damages.push(Damage {
            place,
            first: segment.last.next(),
            last: *end,
            kind: DamageKind::Rot {
                salvaged: 0,
                lost: None,
            },
        });
        picture.doubt(place, u64::MAX);
        picture.lose(*number, *end);
    }
}

/// Makes a segment in which nothing is: later heads say with which batch it ended, so that later starts find that gone (M44).
fn stand_for<D: Disk>(
    disk: &D,
    config: &LogConfig,
    start: StartId,
    segment: SegmentNumber,
) -> Result<(), OpenError> {
    let make = Make {
        new: new_segment(config, start, segment),
        recycle: None,
    };
    make.run(disk).result.map_err(WriteError::from)?;
    Ok(())
}

fn new_segment(config: &LogConfig, start: StartId, segment: SegmentNumber) -> NewSegment {
    NewSegment {
        segment,
        bytes: config.segment_bytes(),
        node: config.node,
        start,
        syncs_folder: !config.has(Planted::SkipFolderSync),
    }
}

/// The next start looks at what is damaged again.
fn forget_damaged<D: Disk>(disk: &D, report: &RecoveryReport) {
    for damage in &report.damages {
        forget(disk, damage.place.segment);
    }
}

/// Segments of which all that was needed stands elsewhere, if all of that is there: with any damage they are worth keeping.
fn cleaned(picture: &mut Picture, report: &RecoveryReport) {
    for number in std::mem::take(&mut picture.cleaned) {
        if let Some(segment) = picture.segments.get_mut(&number)
            && report.damages.is_empty()
        {
            segment.moved = Some(BatchNumber(0));
        }
    }
}

/// Files whose header is gone. Names are given to files that have one, so each of them had.
pub(super) fn headers<F>(picture: &mut Picture, survey: &Survey<F>, report: &mut RecoveryReport) {
    for (number, found) in survey.files.iter().filter(|(_, f)| !f.has_header) {
        let segment = picture.segments.get(number);
        let last = segment.map_or(BatchNumber(0), |segment| segment.last);
        let is_lost = segment.is_none() && found.is_short;
        let place = Place {
            segment: *number,
            offset: 0,
        };
        report.damages.push(Damage {
            place,
            first: last,
            last,
            kind: if is_lost {
                DamageKind::ShortFile
            } else {
                DamageKind::SegmentHeader
            },
        });
        if is_lost {
            picture.doubt(place, u64::MAX);
        }
    }
}

/// Writes the batches of which no sync is known once more, as they are, and syncs them.
///
/// After a failed sync the system may hold pages that the disk never got, and call them clean: reading them says nothing
/// about the disk, and syncing them does nothing. Written again they are dirty again.
fn rewrite<F: DiskFile>(
    files: &BTreeMap<SegmentNumber, Found<F>>,
    unproven: &VecDeque<Unproven>,
) -> Result<u64, OpenError> {
    let mut bytes = 0;
    let failed = |what| move |source| WriteError::Failed { what, source };
    for (at, batch) in unproven.iter().enumerate() {
        let Some(found) = files.get(&batch.place.segment) else {
            continue;
        };
        let file = found.window.file();
        let there = found.window.len().saturating_sub(batch.place.offset);
        let len = batch.bytes.min(there);
        let mut buffer = vec![0; usize::try_from(len).expect("a batch fits memory")];
        file.read_at(&mut buffer, batch.place.offset)
            .map_err(failed("reading the end of the log"))?;
        file.write_at(&[IoSlice::new(&buffer)], batch.place.offset)
            .map_err(failed("writing the end of the log again"))?;
        bytes += len;
        let next = unproven.get(at + 1);
        if next.is_none_or(|next| next.place.segment != batch.place.segment) {
            file.sync().map_err(failed("syncing the end of the log"))?;
        }
    }
    Ok(bytes)
}

/// Files by what they are good for.
struct Stock<F> {
    active: Option<Active<F>>,
    ready: VecDeque<Ready<F>>,
    free: VecDeque<SegmentNumber>,
    unwanted: Vec<Unwanted>,
    next_segment: SegmentNumber,
}

impl<F: DiskFile> Stock<F> {
    fn new(
        survey: &mut Survey<F>,
        picture: &mut Picture,
        config: &LogConfig,
        tail: Option<Place>,
    ) -> Self {
        let mut stock = Self {
            active: None,
            ready: VecDeque::new(),
            free: std::mem::take(&mut survey.blank),
            unwanted: Vec::new(),
            next_segment: survey.next_segment,
        };
        let newest = picture.segments.keys().next_back().copied();
        for (number, found) in std::mem::take(&mut survey.files) {
            let bytes = found.window.len();
            let right = bytes == config.segment_bytes();
            if let Some(segment) = picture.segments.get_mut(&number) {
                segment.bytes = bytes;
            }
            let holds = picture.segments.contains_key(&number);
            let is_tail = tail.is_some_and(|tail| tail.segment == number);
            if is_tail && found.has_header && (holds || newest.is_none_or(|newest| newest < number))
            {
                let offset = tail.map_or(BLOCK, |tail| tail.offset);
                picture.segments.entry(number).or_default().bytes = bytes;
                stock.active = Some(Active {
                    segment: number,
                    file: found.window.into_file(),
                    offset,
                    bytes,
                    head: BatchNumber(0),
                });
            } else if holds {
                // Older, or damaged at its end.
            } else if right && found.has_header && newest.is_none_or(|newest| newest < number) {
                stock.ready.push_back(Ready {
                    segment: number,
                    file: found.window.into_file(),
                    bytes,
                });
            } else if right {
                stock.free.push_back(number);
            } else {
                stock.unwanted.push(Unwanted {
                    segment: number,
                    bytes,
                });
            }
        }
        // What was made ready before the active segment is of no use under its number.
        while let (Some(active), Some(ready)) = (&stock.active, stock.ready.front()) {
            if ready.segment > active.segment {
                break;
            }
            stock.free.push_back(ready.segment);
            stock.ready.pop_front();
        }
        stock
    }
}

/// The segment to begin with where there is none to go on in.
fn first_segment<D: Disk>(
    disk: &D,
    config: &LogConfig,
    start: StartId,
    stock: &mut Stock<D::File>,
) -> Result<Active<D::File>, OpenError> {
    let ready = match stock.ready.pop_front() {
        Some(ready) => ready,
        None => {
            let segment = stock.next_segment;
            stock.next_segment = segment.next();
            // They may be what takes the room.
            let spare = Remove {
                files: std::mem::take(&mut stock.unwanted),
                summaries: BTreeSet::new(),
                syncs_folder: !config.has(Planted::SkipFolderSync),
            };
            let removed = spare.run(disk);
            if let Err(error @ PrepareError::Unsynced { .. }) = removed.result {
                return Err(WriteError::from(error).into());
            }
            stock.unwanted = removed.left;
            let make = Make {
                new: new_segment(config, start, segment),
                recycle: stock.free.pop_front(),
            };
            let file = make.run(disk).result.map_err(WriteError::from)?;
            Ready {
                segment,
                file,
                bytes: config.segment_bytes(),
            }
        }
    };
    Ok(Active {
        segment: ready.segment,
        file: ready.file,
        offset: BLOCK,
        bytes: ready.bytes,
        head: BatchNumber(0),
    })
}

/// What each partition gets.
fn recovered(picture: &mut Picture, manifests: &Manifests, report: RecoveryReport) -> Recovered {
    let in_doubt = picture.open_doubts();
    let lost_at: BTreeMap<_, _> = picture
        .partitions
        .keys()
        .map(|id| (*id, picture.lost_at(*id)))
        .collect();
    let mut partitions = BTreeMap::new();
    for (id, partition) in &mut picture.partitions {
        let live = partition.known.live.clone();
        let missing_live = missing_live(*id, &live, &picture.places, &picture.segments);
        let manifest_lost = lost_manifest(partition, manifests.get(id).map(|m| m.at.index));
        let known = &partition.known;
        let mut hard_state = known.hard_state.unwrap_or(HardState::NONE);
        if let Some(at) = known.checkpoint {
            hard_state.commit = hard_state.commit.max(at.index);
            hard_state.term = hard_state.term.max(at.term);
        }
        let found = RecoveredPartition {
            hard_state,
            checkpoint: known.checkpoint,
            entries: std::mem::take(&mut partition.entries),
            live,
            missing_live,
            // What a lost manifest stood for may be gone with its segments: only heads of later ones say up to where it was.
            seen: partition
                .seen
                .max(hard_state.commit)
                .max(partition.said_checkpoint.unwrap_or(LogIndex(0))),
            damage: manifest_lost.or(partition.damage),
            lost_at: lost_at.get(id).copied().flatten(),
            behind: std::mem::take(&mut partition.behind),
        };
        partitions.insert(*id, found);
    }
    Recovered {
        partitions,
        report,
        in_doubt,
    }
}

/// Entries that a checkpoint needs and the log does not have.
fn missing_live(
    id: PartitionId,
    live: &LiveEntries,
    places: &Places,
    segments: &BTreeMap<SegmentNumber, Segment>,
) -> LiveEntries {
    let kept = kept_of(id, segments);
    let mut missing_live = LiveEntries::NONE;
    for (first, last) in live.ranges() {
        let mut from = *first;
        while let Some(missing) = places
            .of(id)
            .map_or(Some(from), |places| places.first_missing(from, *last))
        {
            if !kept.contains(missing) {
                missing_live.push(missing);
            }
            if missing >= *last {
                break;
            }
            from = LogIndex(missing.0 + 1);
        }
    }
    missing_live
}

/// Whether anything is missing or damaged, as far as was read.
pub(super) fn lacks_anything<F>(scanned: &Scanned<F>, manifests: &Manifests) -> bool {
    let picture = &scanned.picture;
    let mut partitions = picture.partitions.iter();
    !scanned.report.damages.is_empty()
        || partitions.any(|(id, partition)| {
            let live = &partition.known.live;
            let manifest = manifests.get(id).map(|manifest| manifest.at.index);
            partition.damage.is_some()
                || lost_manifest(partition, manifest).is_some()
                || !missing_live(*id, live, &picture.places, &picture.segments).is_empty()
        })
}

/// Entries of a partition of which something was kept.
fn kept_of(id: PartitionId, segments: &BTreeMap<SegmentNumber, Segment>) -> LiveEntries {
    let kept = segments.values().filter_map(|it| it.kept.get(&id));
    let mut runs: Vec<_> = kept.flat_map(|kept| kept.runs()).collect();
    runs.sort_unstable();
    let mut entries = LiveEntries::NONE;
    for (first, last) in runs {
        entries.push_range(first, last);
    }
    entries
}

fn lost_manifest(partition: &Partition, manifest: Option<LogIndex>) -> Option<PartitionDamage> {
    let said = partition.said_checkpoint?;
    let lost = manifest.is_none_or(|manifest| manifest < said);
    lost.then_some(PartitionDamage::ManifestLost { checkpoint: said })
}
