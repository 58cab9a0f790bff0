//! The bank of planted bugs: where each one sits, in which worlds it shows, from which seed on, and which rules it breaks.

use std::fmt;

use crate::bug::Bug;
use crate::run_plan;
use crate::seeds::Plan;
use crate::worlds::Worlds;

/// Where a bug sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Rings, fences, the index, appends: what the broker does around the pure crates.
    Shell,
    /// Between a front and its home.
    Front,
    /// Partitions: their state, timers, forwards, groups, checkpoints, damage.
    Engine,
    /// Terms, votes, and what counts as committed.
    Consensus,
    /// The log, its writer, its files.
    Log,
}

/// A bug, and how it is found.
#[derive(Clone, Copy, Debug)]
pub struct Planted {
    /// Which.
    pub bug: Bug,
    /// Where it sits.
    pub layer: Layer,
    /// A seed that finds it, or one a little before.
    pub seed: u64,
    worlds: Worlds,
    rules: &'static [&'static str],
}

/// No seed showed a bug by its rules.
#[derive(Clone, Debug)]
pub struct NotFound {
    bug: Bug,
    rules: &'static [&'static str],
    /// What was broken instead.
    others: Vec<String>,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bug, rules, others } = self;
        write!(f, "{bug} is not found by {rules:?}")?;
        for other in others {
            write!(f, "; instead: {other}")?;
        }
        Ok(())
    }
}

impl Planted {
    /// What the bank knows of a bug.
    #[must_use]
    pub const fn of(bug: Bug) -> Self {
        let (layer, worlds, seed, rules) = entry(bug);
        Self {
            bug,
            layer,
            seed,
            worlds,
            rules,
        }
    }

    /// The bugs from one on up to another, both with it, in the order in which they are listed: a long search can be run in
    /// parts, and go on where it was ended.
    #[must_use]
    pub fn between(first: Option<Bug>, last: Option<Bug>) -> &'static [Bug] {
        let place = |bug| Bug::ALL.iter().position(|it| *it == bug);
        let from = first.and_then(place).unwrap_or(0);
        let to = last.and_then(place).unwrap_or(Bug::ALL.len() - 1);
        Bug::ALL.get(from..=to).unwrap_or_default()
    }

    /// The world of a seed in which it may show, without the bug.
    #[must_use]
    pub fn plan(&self, seed: u64) -> Plan {
        let mut plan = self.worlds.plan(seed);
        // The recorded seeds are of disks without shared groups.
        plan.groups &= self.worlds != Worlds::Disk;
        // What a bug is about happens with this policy or limit only.
        match self.bug {
            Bug::Unrefused => plan.refusing(),
            Bug::DroppedUnderWay => plan.dropping_oldest(),
            Bug::RetainedUnbounded => plan.retaining_few(),
            Bug::ReturnedUnasked => plan.sharing_cold(),
            Bug::SkipFence => plan.subscribing_last(),
            _ => plan,
        }
    }

    /// Searches for a seed that keeps the rules without the bug and breaks one of its rules with it. Gives the seed, and what
    /// was broken.
    ///
    /// # Errors
    /// None of so many seeds does.
    pub fn search(&self, from: u64, seeds: u64) -> Result<(u64, String), NotFound> {
        let mut others = Vec::new();
        for seed in from..from.saturating_add(seeds) {
            let violation = |bug| run_plan(self.plan(seed).with_bug(bug)).violation;
            let Some(found) = violation(Some(self.bug)) else {
                continue;
            };
            if violation(None).is_some() {
                continue;
            }
            if self
                .rules
                .iter()
                .any(|rule| rule_of(&found).starts_with(rule))
            {
                return Ok((seed, found));
            }
            others.push(format!("seed {seed}: {found}"));
        }
        Err(NotFound {
            bug: self.bug,
            rules: self.rules,
            others,
        })
    }
}

/// On a disk the text begins with the partition.
fn rule_of(violation: &str) -> &str {
    let partition = violation
        .split_once(": ")
        .filter(|(place, _)| place.starts_with("partition "));
    partition.map_or(violation, |(_, text)| text)
}

type Entry = (Layer, Worlds, u64, &'static [&'static str]);

const fn entry(bug: Bug) -> Entry {
    match bug {
        Bug::ForgetResend => (Layer::Shell, Worlds::Plain, 8, &["I13:"]),
        Bug::ResendRenumbered => (Layer::Shell, Worlds::Plain, 8, &["I4:", "I13:"]),
        Bug::ApplyBeforeCommit => (Layer::Consensus, Worlds::Plain, 1, &["M9/M42:"]),
        Bug::SettleBeforeCommit => (Layer::Shell, Worlds::Plain, 3, &["I1:"]),
        Bug::AttachBeforeDetach => (Layer::Engine, Worlds::Plain, 1, &["I8:"]),
        Bug::ConfirmIndexEarly => (Layer::Shell, Worlds::Plain, 190, &["I1:", "M33:"]),
        Bug::ReorderLink => (Layer::Shell, Worlds::Plain, 3, &["I3:", "M10:"]),
        Bug::LoseBatch => (Layer::Shell, Worlds::Plain, 2, &["I1:", "I13:"]),
        Bug::DamagePayload => (Layer::Shell, Worlds::Plain, 2, &["I5:"]),
        Bug::DeliverTwice => (Layer::Shell, Worlds::Plain, 2, &["I4:", "M30:"]),
        Bug::SkipFence => (Layer::Shell, Worlds::Plain, 12, &["M33:", "M34:"]),
        Bug::NoTimers => (Layer::Engine, Worlds::Plain, 1, &["M26:", "M33:", "I13:"]),
        Bug::LoseEntry => (Layer::Consensus, Worlds::Plain, 18, &["I1:"]),
        Bug::EarlyPubrel => (Layer::Engine, Worlds::Plain, 4, &["I4:", "M30:"]),
        Bug::ForgetHold => (Layer::Engine, Worlds::Plain, 4, &["I4:"]),
        Bug::ForwardTwice => (
            Layer::Engine,
            Worlds::Plain,
            1,
            &["I4:", "I1:", "I13:", "M33:"],
        ),
        Bug::WrongDup => (
            Layer::Engine,
            Worlds::Plain,
            1,
            &["v5 [MQTT-3.3.1-1]:", "M30:"],
        ),
        Bug::FoundLate => (Layer::Engine, Worlds::Plain, 44, &["M34:"]),
        Bug::SameStart => (Layer::Shell, Worlds::Plain, 1, &["I1:", "I13:", "M33:"]),
        Bug::AckBeforeSync => (Layer::Consensus, Worlds::Disk, 1, &["I1:", "I6:"]),
        Bug::CommitBeyondSynced => (Layer::Consensus, Worlds::Disk, 3, &["I1:", "I6:"]),
        Bug::SwapRecords => (Layer::Consensus, Worlds::Disk, 2, &["I1:", "I7:"]),
        Bug::NoDirectorySync => (Layer::Log, Worlds::Disk, 1, &["I1:", "I6:", "I7:"]),
        Bug::OldSegmentNotSynced => (Layer::Log, Worlds::Disk, 1, &["I1:", "I7:"]),
        Bug::SyncErrorIgnored => (Layer::Log, Worlds::Disk, 26, &["I1:", "I6:", "I7:"]),
        Bug::PiecesNotSynced => (Layer::Log, Worlds::Disk, 2, &["I7:"]),
        Bug::LatePieces => (Layer::Engine, Worlds::Disk, 4, &["M42:", "I7:"]),
        Bug::ForgetVote => (Layer::Consensus, Worlds::Disk, 1, &["I6:"]),
        Bug::CutRot => (Layer::Log, Worlds::Disk, 1, &["I1:"]),
        Bug::CutLost => (Layer::Log, Worlds::Disk, 1, &["I1:"]),
        Bug::ForgetLost => (Layer::Log, Worlds::Disk, 1, &["M44:"]),
        Bug::ReadRecycled => (
            Layer::Log,
            Worlds::Disk,
            1,
            &["I1:", "I5:", "I6:", "I7:", "M42:"],
        ),
        Bug::EmptyHeads => (Layer::Log, Worlds::Disk, 4, &["I6:"]),
        Bug::ForgetInbox => (Layer::Engine, Worlds::Disk, 2, &["M9/M42:", "I4:"]),
        Bug::FreeLiveSegments => (Layer::Log, Worlds::Disk, 2, &["I1:", "I7:"]),
        Bug::TrustTheCache => (Layer::Log, Worlds::Disk, 47, &["I1:", "I6:", "I7:"]),
        Bug::ForgetLeavers => (Layer::Engine, Worlds::Plain, 664, &["I13:", "M30:", "M35:"]),
        Bug::FreeIdsEarly => (
            Layer::Front,
            Worlds::TwoGroups,
            1,
            &["v5 [MQTT-3.3.1-1]:", "I1:", "I4:", "I13:", "M30:", "M35:"],
        ),
        Bug::BothParts => (Layer::Engine, Worlds::OneGroup, 12, &["I4:", "M35:"]),
        Bug::CutWithoutFence => (Layer::Engine, Worlds::OneGroup, 19, &["M35:"]),
        Bug::HeirBeforePassed => (Layer::Engine, Worlds::OneGroup, 12, &["M36:"]),
        Bug::SwapOrders => (Layer::Log, Worlds::Disk, 1, &["I1:", "I5:", "I6:", "I7:"]),
        Bug::ClaimTooMuch => (Layer::Log, Worlds::Disk, 106, &["I1:", "I7:"]),
        Bug::TakeDamaged => (Layer::Log, Worlds::Disk, 1, &["I1:", "I5:"]),
        Bug::ServeDamaged => (Layer::Engine, Worlds::Disk, 1, &["I1:", "I6:"]),
        Bug::AsideAcknowledges => (Layer::Engine, Worlds::Disk, 1, &["I1:"]),
        Bug::DeliverLost => (Layer::Engine, Worlds::Disk, 3, &["I3:", "I5:"]),
        Bug::SkipLost => (Layer::Engine, Worlds::Disk, 3, &["I3:"]),
        Bug::UncountedLoss => (Layer::Engine, Worlds::Disk, 2, &["M44:"]),
        Bug::KeptLost => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::KeptElsewhere => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::KeptTooShort => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::NeedForgotten => (Layer::Engine, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::CleanedMisnamed => (Layer::Log, Worlds::LongLife, 1, &["I1:", "I7:", "M42:"]),
        Bug::RestoreWithoutKept => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::FreeKept => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::CleanedFirst => (Layer::Log, Worlds::LongLife, 1, &["I1:", "I7:", "M42:"]),
        Bug::ForgetKeptAtStart => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::CleanUncovered => (Layer::Log, Worlds::LongLife, 1, &["I1:", "I7:"]),
        Bug::HoldIgnored => (Layer::Log, Worlds::LongLife, 1, &["I1:", "I6:", "I7:"]),
        Bug::CutMissesBatch => (Layer::Log, Worlds::BackedUp, 1, &["I1:", "I6:", "I7:"]),
        Bug::OldSegmentKept => (Layer::Log, Worlds::BackedUp, 1, &["I1:", "I7:", "M42:"]),
        Bug::MovedLeftOut => (Layer::Log, Worlds::BackedUp, 1, &["I1:", "I7:", "M42:"]),
        Bug::CheckpointsLate => (Layer::Log, Worlds::BackedUp, 1, &["I1:", "I7:", "M42:"]),
        Bug::WordRepeats => (
            Layer::Log,
            Worlds::BackedUp,
            223,
            &["I1:", "I5:", "I6:", "I7:"],
        ),
        Bug::PanicUnnoted => (Layer::Shell, Worlds::Poisoned, 1, &["M50:"]),
        Bug::ServesBeforePanic => (
            Layer::Engine,
            Worlds::Poisoned,
            1,
            &["I1:", "I6:", "M9/M42:"],
        ),
        Bug::SkipTakesNext => (Layer::Engine, Worlds::Poisoned, 1, &["M9/M42:", "M42:"]),
        Bug::SkipTakesSets => (Layer::Engine, Worlds::Poisoned, 1, &["M9/M42:", "M42:"]),
        Bug::ShortForEver => (Layer::Log, Worlds::Draining, 1, &["I13:", "M47:"]),
        Bug::WillKept => (Layer::Engine, Worlds::Draining, 1, &["M20/M25:"]),
        Bug::WillsAtStart => (Layer::Shell, Worlds::Plain, 53, &["I1:", "M35:"]),
        Bug::ScrubEndsEarly => (Layer::Log, Worlds::LongLife, 1, &["I7:"]),
        Bug::LiveEntryForgotten => (Layer::Engine, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::OldCheckpointRemoved => (Layer::Log, Worlds::LongLife, 1, &["I7:"]),
        Bug::ForgetBeforeManifest => (Layer::Log, Worlds::LongLife, 1, &["I1:", "I7:", "M42:"]),
        Bug::StaleSummary => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::PassUncovered => (Layer::Log, Worlds::LongLife, 10, &["I1:", "I7:", "M42:"]),
        Bug::SummaryWithoutKept => (Layer::Log, Worlds::LongLife, 1, &["I1:", "M42:"]),
        Bug::AgedFromFirst => (Layer::Engine, Worlds::Aging, 1, &["M20:"]),
        Bug::AgedUnderWay => (Layer::Engine, Worlds::Aging, 1, &["I13:", "M30:"]),
        Bug::AgedUncounted => (Layer::Engine, Worlds::Aging, 1, &["I1:"]),
        Bug::RecallSwapped => (Layer::Log, Worlds::Cold, 1, &["I3:", "I4:", "I5:"]),
        Bug::RecallLost => (Layer::Log, Worlds::Cold, 1, &["I1:", "I13:"]),
        Bug::OldPlaces => (Layer::Log, Worlds::Cold, 3, &["I1:"]),
        Bug::SkipCold => (Layer::Engine, Worlds::Cold, 1, &["I1:", "I3:"]),
        Bug::ColdExpiresEarly => (Layer::Engine, Worlds::Cold, 1, &["M20:"]),
        Bug::SharedSkipCold => (Layer::Engine, Worlds::Cold, 1, &["I1:", "M35:"]),
        Bug::ReturnedUnasked => (Layer::Engine, Worlds::Cold, 25, &["I1:", "I13:", "M35:"]),
        Bug::RecallDamaged => (Layer::Log, Worlds::Cold, 6, &["I5:"]),
        Bug::RecallNeighbours => (Layer::Log, Worlds::Cold, 6, &["I1:"]),
        Bug::CleanDamaged => (Layer::Log, Worlds::Cold, 1, &["I1:", "M41:"]),
        Bug::AllRelaxed => (Layer::Log, Worlds::Disk, 1, &["I1:", "I6:"]),
        Bug::RequestsAtOnce => (
            Layer::Engine,
            Worlds::Hasty,
            1,
            &["I5:", "I1:", "M33:", "M38:"],
        ),
        Bug::QueueUnbounded => (Layer::Engine, Worlds::Tight, 1, &["I9:"]),
        Bug::Unrefused => (Layer::Engine, Worlds::Tight, 1, &["I1:"]),
        Bug::DroppedUnderWay => (Layer::Engine, Worlds::Tight, 1, &["I13:", "M30:"]),
        Bug::RetainedUnbounded => (Layer::Engine, Worlds::Plain, 1, &["I9:"]),
        Bug::OutputUnbounded => (Layer::Front, Worlds::Tight, 1, &["I9:"]),
        Bug::RepeatWithoutDup => (Layer::Front, Worlds::Plain, 1, &["v5 [MQTT-3.3.1-1]:"]),
        Bug::WindowIgnored => (Layer::Front, Worlds::Plain, 1, &["v5 [MQTT-3.3.4-9]:"]),
        Bug::PubrelForgotten => (Layer::Front, Worlds::Plain, 1, &["I13:", "M30:"]),
        Bug::IdFreeAtPubrec => (Layer::Front, Worlds::OneGroup, 1, &["I13:", "M30:", "M35:"]),
        Bug::ClaimBeforeSync => (Layer::Consensus, Worlds::Members, 1, &["I2:", "I6:"]),
        Bug::VoteForgotten => (Layer::Consensus, Worlds::Members, 1, &["I6:"]),
        Bug::CommitUnsynced => (Layer::Consensus, Worlds::Members, 1, &["I2:"]),
        Bug::PersistedTooFar => (Layer::Consensus, Worlds::Members, 1, &["I2:"]),
        Bug::LeadsAtOnce => (Layer::Consensus, Worlds::Members, 1, &["M5:"]),
    }
}
