//! Checkpoints that are read while the writer's thread still reads the log: a start takes as long as the longer of both, and not as both.
//!
//! What is read ahead decides nothing. Where anything of it is wrong, or the log says that another checkpoint counts or that its records may
//! not stay where they are, it is as if nothing had been read, and [`Making`] begins anew: so what is said of damage is the same.

use std::collections::VecDeque;
use std::sync::mpsc;

use courser_engine::Restore;
use courser_log::{CheckpointReader, Disk};

use super::{Making, Stage, Unmade, take_pieces, wanted};
use crate::partition_limits::PartitionLimits;
use crate::shard::partitions::config;
use crate::slots::Places;
use crate::stations::{Found, Handed, Medium, RecoveredShard, Saved};

/// Those of a shard.
pub(crate) struct ReadAhead {
    handed: mpsc::Receiver<Handed<Medium>>,
    /// Those that can go on without the log, the first one under way.
    left: VecDeque<Ahead>,
    /// Those that cannot.
    read: Vec<Ahead>,
}

impl ReadAhead {
    /// Of what will be handed to the shard.
    pub(crate) const fn new(handed: mpsc::Receiver<Handed<Medium>>) -> Self {
        Self {
            handed,
            left: VecDeque::new(),
            read: Vec::new(),
        }
    }

    /// Whether it goes on without anything from outside.
    pub(crate) fn is_at_work(&self) -> bool {
        !self.left.is_empty()
    }

    /// One slice. The partitions, once the log is read.
    pub(crate) fn go_on(
        &mut self,
        places: &Places,
        limits: &PartitionLimits,
    ) -> Option<VecDeque<Making>> {
        match self.handed.try_recv() {
            Ok(Handed::Saved(saved)) => self.left.extend(saved.into_iter().map(Ahead::new)),
            Ok(Handed::Found(found)) => return Some(self.makings(found)),
            Err(_) => {}
        }
        if let Some(ahead) = self.left.front_mut()
            && !ahead.go_on(places, limits)
        {
            self.read.extend(self.left.pop_front());
        }
        None
    }

    fn makings(&mut self, found: RecoveredShard<Medium>) -> VecDeque<Making> {
        let mut read = std::mem::take(&mut self.read);
        read.extend(self.left.drain(..));
        let makings = found.into_iter().map(|found| {
            let its = |ahead: &Ahead| ahead.saved.manifest.partition == found.id;
            let at = read.iter().position(its);
            Making::with(found, at.map(|at| read.swap_remove(at)))
        });
        makings.collect()
    }
}

/// One of them.
pub(crate) struct Ahead {
    saved: Saved<Medium>,
    /// Once it is open.
    pieces: Option<CheckpointReader<<Medium as Disk>::File>>,
    /// How far it is; none: before the first slice, or something is wrong.
    stage: Option<Stage>,
}

impl Ahead {
    /// Of what a manifest names.
    pub(crate) const fn new(saved: Saved<Medium>) -> Self {
        Self {
            saved,
            pieces: None,
            stage: None,
        }
    }

    /// One slice. Whether there is more to do without the log.
    pub(crate) fn go_on(&mut self, places: &Places, limits: &PartitionLimits) -> bool {
        let next = match self.stage.take() {
            None => self.begin(places, limits),
            Some(Stage::Pieces(restore)) => self.read(restore),
            Some(Stage::Entries(restore, ranges)) if ranges.is_empty() => {
                let partition = restore.finish().map_err(Unmade::from);
                partition.map(|partition| Stage::Replay(Box::new(partition), 0))
            }
            // What is left wants the log.
            Some(stage) => {
                self.stage = Some(stage);
                return false;
            }
        };
        let is_right = next.is_ok();
        self.stage = next.ok();
        is_right
    }

    fn begin(&mut self, places: &Places, limits: &PartitionLimits) -> Result<Stage, Unmade> {
        let Saved { store, manifest } = &self.saved;
        self.pieces = Some(store.reader(manifest)?);
        let config = config(manifest.partition, places, limits);
        Ok(Stage::Pieces(Box::new(Restore::new(config))))
    }

    fn read(&mut self, mut restore: Box<Restore>) -> Result<Stage, Unmade> {
        if let Some(pieces) = &mut self.pieces
            && !take_pieces(pieces, &mut restore)?
        {
            return Ok(Stage::Pieces(restore));
        }
        // Whether its records may stay in the log is not known yet: nearly always they may.
        wanted(restore, true)
    }

    /// Whether there is a partition already although its checkpoint names records.
    #[cfg(test)]
    pub(super) fn is_made_with_records(&self) -> bool {
        let has_records = !self.saved.manifest.live.is_empty();
        has_records && matches!(self.stage, Some(Stage::Replay(..)))
    }

    /// Whether it is the checkpoint of what was found, and what was read is good for that.
    pub(super) fn is_of(&self, found: &Found<Medium>) -> bool {
        let manifest = &self.saved.manifest;
        found.may_stay
            && found.pieces.is_some()
            && found.id == manifest.partition
            && found.found.checkpoint == Some(manifest.at)
            && self.stage.is_some()
    }
}

impl Making {
    /// Of what was found, with what was read ahead of its checkpoint.
    pub(crate) fn with(mut found: Found<Medium>, ahead: Option<Ahead>) -> Self {
        let ahead = ahead.filter(|ahead| ahead.is_of(&found));
        let stage = ahead.and_then(|ahead| {
            found.pieces = ahead.pieces;
            ahead.stage
        });
        Self { found, stage }
    }
}
