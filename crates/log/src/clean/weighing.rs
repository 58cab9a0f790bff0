//! All closed segments are weighed by what the checkpoints need of them, and a plan is made of those that are worth it.

use courser_contract::{Need, Needs, PartitionId};

use super::{
    Cleaner, State, Step,
    checkpoint::{CheckpointScan, Scanned},
    choose::{Limits, PLAN_MIN, Weighed, choose, plan_max},
    obstacle::Trouble,
    survey::Survey,
    weigh::{Locator, Weigher},
};
use crate::disk::Disk;

/// All segments are weighed, partition by partition.
#[derive(Debug)]
pub(super) struct Weighing<F, S> {
    weigher: Weigher,
    /// The partition whose checkpoint is being read.
    open: Option<(PartitionId, Locator, CheckpointScan<F, S>)>,
}

impl<F, S> Weighing<F, S> {
    /// Of what the log said, with nothing read yet.
    pub(super) fn new(survey: Survey) -> Self {
        Self {
            weigher: Weigher::new(survey),
            open: None,
        }
    }
}

impl<D: Disk, N: Needs> Cleaner<D, N> {
    /// Reads on in the checkpoints; behind the last of them there is a plan.
    pub(super) fn weigh(&mut self, mut weighing: Box<Weighing<D::File, N::Scan>>) -> Step {
        let Weighing { weigher, open } = &mut *weighing;
        let Some(partition) = open.as_ref().map(|it| it.0).or_else(|| weigher.next()) else {
            self.make_plan(weigher);
            return Step::Again;
        };
        let read = match open.take() {
            Some((_, locator, scan)) => Ok((locator, scan)),
            None => self
                .scan(partition)
                .map(|scan| (weigher.locator(partition), scan)),
        };
        let read = read.and_then(|(mut locator, mut scan)| {
            let mut count = |need: Need| weigher.count(&mut locator, need);
            match scan.step(&mut count)? {
                Scanned::More => *open = Some((partition, locator, scan)),
                Scanned::All => self.counts.read_bytes += scan.finish()?,
            }
            Ok(())
        });
        let step = match read {
            Ok(()) => Step::Again,
            Err(Trouble::Passing(why)) => {
                // Once more from the beginning.
                (self.has_news, self.look_at) = (true, 0);
                return Step::HeldUp { why };
            }
            Err(Trouble::Damaged(why)) => {
                weigher.exclude(partition);
                self.gave_up(None, why)
            }
        };
        self.state = State::Weighing(weighing);
        step
    }

    fn make_plan(&mut self, weigher: &Weigher) {
        self.weights.keep(&weigher.survey.segments);
        let segments = weigher.survey.segments.iter().zip(weigher.counts());
        let weighed: Vec<Weighed> = segments
            .filter(|(it, _)| !self.left_alone.contains(&it.number) && !self.is_pinned(it.number))
            .map(|(it, records)| {
                let (live, least) = self.weights.weigh(it, records);
                Weighed {
                    segment: it.number,
                    bytes: it.bytes,
                    records,
                    live,
                    least,
                }
            })
            .filter(|it: &Weighed| it.least <= weigher.survey.room)
            .collect();
        self.samples_max = match std::mem::take(&mut self.has_hit) {
            true => self.samples_max.saturating_mul(2),
            false => PLAN_MIN,
        };
        let limits = Limits {
            plan: plan_max(self.look_at.div_ceil(self.segment_bytes)),
            samples: self.samples_max,
        };
        self.room = weigher.survey.room;
        let active = weigher.survey.active;
        self.plan = choose(&weighed, active, self.pressure, limits).into();
        if let Some(oldest) = weigher.survey.segments.first() {
            self.left_alone = self.left_alone.split_off(&oldest.number);
            self.pinned = self.pinned.split_off(&oldest.number);
        }
    }
}
