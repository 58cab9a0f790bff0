//! Bugs that are planted on purpose: the runs of `crashes.rs` and the rows of `m44/` find each of them, so they can fail.

use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::thread;

use crate::support::{entry, fail_and_restart, lose_power, open, plant, run, write};
use courser_log::{
    Manifests,
    testing::{Call, Choices, MemDisk, Planted},
};

/// Whether a run with this seed ends in a failed check.
fn finds(seed: u64, planted: Planted) -> bool {
    let found = catch_unwind(AssertUnwindSafe(|| match planted {
        Planted::SyncNothing
        | Planted::ForgetOlderSegment
        | Planted::ClaimTooMuch
        | Planted::SkipFolderSync
        | Planted::HeadWithoutHardStates
        | Planted::FreeLiveSegments
        | Planted::ReadVoid
        | Planted::CountVoid
        | Planted::ReadRecycled => {
            run(seed, lose_power);
        }
        Planted::TrustTheCache => {
            run(seed, |world, choices| {
                fail_and_restart(world, choices, Call::Sync);
            });
        }
        Planted::CutRot | Planted::TakeDamaged => rot(seed),
        Planted::CutLost
        | Planted::ForgetLost
        | Planted::FreeKept
        | Planted::ForgetKeptAtStart
        | Planted::CleanUncovered
        | Planted::IgnoreHold
        | Planted::LowForEver
        | Planted::CutShort
        | Planted::HeldTooShort
        | Planted::StaleSummary
        | Planted::PassUncovered
        | Planted::SummaryWithoutKept
        | Planted::RecallDamaged
        | Planted::RecallNeighbours
        | Planted::CleanDamaged => unreachable!("{planted:?} is looked for by the simulator"),
    }));
    found.is_err()
}

/// A bit of something that was synced changes: nothing wrong is delivered, and what is missing is said.
fn rot(seed: u64) {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    for index in 1..=8 {
        write(
            &mut log,
            &mut batch,
            &[entry(1, index, &[index as u8; 2_000])],
        );
        log.sync().expect("synced");
    }
    log.witness().expect("written");
    let mut choices = Choices::new(seed);
    let at = 8192 + choices.below(7 * 4096);
    disk.rot(&disk.names()[0], at, 1 << choices.below(8));
    let (_, recovered) = open(&disk.kill(), 2, &Manifests::new()).expect("opens");
    let found = &recovered.partitions[&courser_contract::PartitionId(1)];
    for entry in &found.entries {
        assert!(
            entry.data == vec![entry.index.0 as u8; 2_000],
            "a wrong record"
        );
    }
    assert!(found.entries.len() == 8 || found.damage.is_some());
}

#[test]
fn every_planted_bug_is_found() {
    // The failed checks that are looked for need not be shown; those of tests beside this one do.
    let (me, shown) = (thread::current().id(), panic::take_hook());
    panic::set_hook(Box::new(move |failed| {
        if thread::current().id() != me {
            shown(failed);
        }
    }));
    for planted in Planted::ALL {
        plant(None);
        assert!(
            (0..3).all(|seed| !finds(seed, planted)),
            "sound without a bug"
        );
        plant(Some(planted));
        let seed = (0..2_000).find(|seed| finds(*seed, planted));
        eprintln!("{planted:?}: seed {seed:?}");
        assert!(seed.is_some(), "{planted:?} is found within 2,000 seeds");
    }
}
