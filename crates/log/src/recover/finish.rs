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
    report::RecoveryReport,
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
    log::{Active, LastBatch, Log, Opened, Ready, Segment},
    places::Places,
    prepare::{Make, NewSegment, Remove, Unwanted},
    record::HardState,
    summary::forget,
};

/// Makes the log, and what was recovered durable.
pub(super) fn finish<D: Disk>(
    disk: D,
    config: LogConfig,
    start: StartId,
    manifests: &Manifests,
    mut scanned: Scanned<D::File>,
) -> Result<(Log<D>, Recovered), OpenError> {
    unused_are_seen(&mut scanned.survey, &scanned.picture)?;
    scanned.survey.remove_unfinished(&disk)?;
    let has_whole_head = scanned.has_whole_head();
    let is_whole = scanned.picture.cleaned.is_empty() || !lacks_anything(&scanned, manifests);
    let mut report = scanned.take_report();
    let Scanned {
        mut survey,
        mut picture,
        last,
        tail,
        unproven,
        ..
    } = scanned;
    forget_damaged(&disk, &report);
    let unsummed = unsummed(&survey, &picture, &report.damages);
    let counts_again = cleaned(&mut picture, is_whole);
    picture.finish();
    if !config.has(Planted::TrustTheCache) {
        report.rewritten_bytes = rewrite(&survey.files, &unproven)?;
    }

    if let Some(segment) = survey.gone {
        stand_for(&disk, &config, start, segment)?;
        picture.segments.entry(segment).or_default().bytes = config.segment_bytes();
    }

    let mut stock = Stock::new(&mut survey, &mut picture, &config, tail);
    let active = match stock.active.take() {
        Some(active) => active,
        None => {
            let active = first_segment(&disk, &config, start, &mut stock)?;
            let segment = Segment {
                bytes: active.bytes,
                ..Segment::default()
            };
            picture.segments.insert(active.segment, segment);
            active
        }
    };
    let needs_head = active.offset == BLOCK || !has_whole_head;
    let damaged = report.damages.iter().map(|damage| damage.place.segment);
    let damaged = (counts_again && !needs_head).then(|| damaged.collect());
    let recovered = recovered(&mut picture, manifests, report);
    if config.has(Planted::ForgetKeptAtStart) {
        picture
            .segments
            .values_mut()
            .for_each(|segment| segment.kept.clear());
    }
    let full = picture.segments.range_mut(..active.segment);
    full.for_each(|(_, segment)| segment.close());
    let partitions = picture.partitions.into_iter();
    let mut log = Log::opened(Opened {
        disk,
        config,
        start,
        last: last.map_or_else(LastBatch::default, LastBatch::from),
        active,
        ready: stock.ready,
        free: stock.free,
        unwanted: stock.unwanted,
        next_segment: stock.next_segment,
        segments: picture.segments,
        partitions: partitions
            .map(|(id, partition)| (id, partition.known))
            .collect(),
        unsummed,
        places: picture.places,
    });
    settle(&mut log, needs_head, damaged)?;
    Ok((log, recovered))
}

/// Makes certain what the log says from now on, and gives back what is of no use. `damaged`: segments count again, because of these.
fn settle<D: Disk>(
    log: &mut Log<D>,
    needs_head: bool,
    damaged: Option<BTreeSet<SegmentNumber>>,
) -> Result<(), WriteError> {
    log.make_certain(needs_head)?;
    if let Some(damaged) = damaged {
        log.count_again(damaged)?;
    }
    log.free_dead();
    log.measure_space();
    Ok(())
}

impl<F> Scanned<F> {
    /// The report with the numbers of what was read, before anything is made of it.
    fn take_report(&mut self) -> RecoveryReport {
        RecoveryReport {
            segments: self.survey.files.len() as u64,
            records: self.picture.records,
            entries: self.picture.entries,
            orphan_pieces: self.picture.orphan_pieces,
            void: self.picture.void,
            passed_over: self.picture.passed_over,
            leftovers: self.survey.leftovers,
            unproven: self.unproven.front().map(|batch| batch.place),
            ..std::mem::take(&mut self.report)
        }
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
        leaves: 0,
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

/// Segments of which all that was needed stands elsewhere, if all of that is there: with any damage they are worth keeping, and count again. So they are
/// where a manifest is lost: an older one may need what the last did not. Gives whether there are such of which the log does not say so yet.
fn cleaned(picture: &mut Picture, is_whole: bool) -> bool {
    let mut is_news = false;
    for number in std::mem::take(&mut picture.cleaned) {
        let Some(segment) = picture.segments.get_mut(&number) else {
            continue;
        };
        if is_whole {
            segment.moved = Some(BatchNumber(0));
        } else {
            segment.counts_again = true;
            is_news = true;
        }
    }
    for number in std::mem::take(&mut picture.counted_again) {
        if let Some(segment) = picture.segments.get_mut(&number) {
            segment.counts_again = true;
        }
    }
    is_news
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
            unwanted: std::mem::take(&mut survey.unfit),
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
                leaves: 0,
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
        let damage = manifest_lost.or(partition.damage);
        partition.known.doubted = damage.is_some();
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
            damage,
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
        let mut from = first;
        while let Some(missing) = places
            .of(id)
            .map_or(Some(from), |places| places.first_missing(from, last))
        {
            if !kept.contains(missing) {
                missing_live.push(missing);
            }
            if missing >= last {
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
