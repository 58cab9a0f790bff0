//! A log as recovery found it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use courser_contract::PartitionId;

use super::{Active, Known, LastBatch, Log, LogCounts, Ready, Segment, Space, SpaceState};
use crate::{
    config::{LogConfig, Planted},
    disk::{Disk, DiskFile},
    error::WriteError,
    ids::{BatchNumber, SegmentNumber, StartId},
    places::Places,
    prepare::{Unwanted, write_header},
};

/// What was found of a log; the rest of one is as nothing has been done yet.
#[derive(Debug)]
pub(crate) struct Opened<D: Disk> {
    pub(crate) disk: D,
    pub(crate) config: LogConfig,
    pub(crate) start: StartId,
    /// The last batch that counts: what was read up to it was synced again.
    pub(crate) last: LastBatch,
    pub(crate) active: Active<D::File>,
    pub(crate) ready: VecDeque<Ready<D::File>>,
    pub(crate) free: VecDeque<SegmentNumber>,
    pub(crate) unwanted: Vec<Unwanted>,
    pub(crate) next_segment: SegmentNumber,
    pub(crate) segments: BTreeMap<SegmentNumber, Segment>,
    pub(crate) partitions: BTreeMap<PartitionId, Known>,
    /// Segments that have no summary and may have one.
    pub(crate) unsummed: BTreeSet<SegmentNumber>,
    pub(crate) places: Places,
}

impl<D: Disk> Log<D> {
    /// A log as it was found. Before it is used, it is [made certain](Self::make_certain).
    pub(crate) fn opened(found: Opened<D>) -> Self {
        let mut unsummed = found.unsummed;
        unsummed.remove(&found.active.segment);
        Self {
            disk: found.disk,
            config: found.config,
            start: found.start,
            synced: found.last.number,
            last: found.last,
            active: found.active,
            dirty: Vec::new(),
            ready: found.ready,
            free: found.free,
            unwanted: found.unwanted,
            stuck: VecDeque::new(),
            leaving_bytes: 0,
            segments: found.segments,
            has_doubted: found.partitions.values().any(|known| known.doubted),
            partitions: found.partitions,
            unsummed,
            discredited: BTreeSet::new(),
            held: None,
            places: found.places,
            pieces: None,
            next_segment: found.next_segment,
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
            gives_none: false,
            evidence: None,
            own: None,
            batches_made: 0,
            failed: false,
            counts: LogCounts::default(),
        }
    }

    /// Names and the active segment's header, whatever an earlier process knows of their syncs; and the head that every segment
    /// begins with.
    pub(crate) fn make_certain(&mut self, needs_head: bool) -> Result<(), WriteError> {
        if !self.config.has(Planted::SkipFolderSync) {
            let synced = self.disk.sync_dir();
            self.or_fail("syncing the log's folder", synced)?;
        }
        let mut header = self.new_segment(self.active.segment);
        header.bytes = self.active.bytes;
        let written = write_header(&self.active.file, header);
        self.or_fail("writing a segment's header", written)?;
        if needs_head && !self.begins_or_rolls()? {
            // What only a head that is torn says is in older segments, and no other batch may hide that it is.
            self.active.head = BatchNumber(u64::MAX);
            self.evidence = Some(BTreeSet::new());
        }
        let synced = self.active.file.sync();
        self.or_fail("syncing the log", synced)?;
        self.synced = self.last.number;
        Ok(())
    }
}
