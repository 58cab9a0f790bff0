//! A world in one thread: the pure crates that the broker is made of, under virtual time, with faults, and an oracle that
//! watches what clients see.
//!
//! - [`Worlds::plan`] makes a world of a seed, [`run`] lets it live: a phase with faults, then one without, in which everything
//!   must converge and every acknowledged message is counted again.
//! - The same seed gives the same run, byte for byte of its trace.
//! - [`Bug`] plants a mistake, [`Planted`] knows where it shows; the tests see to it that the oracle finds each.
#![forbid(unsafe_code)]

mod bank;
mod bug;
mod client;
mod link;
mod members;
mod oracle;
mod rng;
mod seeds;
mod shell;
mod world;
mod worlds;

pub use bank::{Layer, NotFound, Planted};
pub use bug::Bug;
pub use oracle::Excuse;
pub use rng::Rng;
pub use seeds::{DiskPlan, Life, Plan};
pub use world::{Counts, Outcome, run};
pub use worlds::Worlds;

use courser_engine::Overflow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a seed; a failed assertion of the code under test is a violation, too.
#[must_use]
pub fn run_seed(seed: u64, bug: Option<Bug>) -> Outcome {
    run_plan(Plan::new(seed).with_bug(bug))
}

/// The same for a plan that was changed after it was made.
#[must_use]
pub fn run_plan(plan: Plan) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(plan))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()));
        Outcome {
            violation: Some(format!("an assertion failed: {}", text.unwrap_or_default())),
            trace: String::new(),
            counts: Counts::default(),
            uses: oracle::Uses::default(),
        }
    })
}

/// The command that runs a plan again: its seed, and what was changed in it.
#[must_use]
pub fn replay_command(plan: &Plan) -> String {
    let drawn = plan.worlds.plan(plan.seed);
    let mut command = format!(
        "cargo run --release -p courser-sim -- --seeds 1 --from {} --trace",
        plan.seed
    );
    if plan.worlds != Worlds::Plain {
        command.push_str(&format!(" --{}", plan.worlds.name()));
    }
    for (changed, argument) in [
        (
            plan.limits.overflow == Overflow::DropOldest,
            " --drop-oldest",
        ),
        (plan.refuses_publishers(), " --refuse"),
        (plan.retains_few(), " --retain-few"),
        (plan.subscribing_last, " --subscribe-last"),
        (!drawn.groups && plan.groups, " --groups"),
        (drawn.groups && !plan.groups, " --no-groups"),
        (drawn.deposals > 0 && plan.deposals == 0, " --no-deposals"),
        (drawn.kills > 0 && plan.kills == 0, " --no-kills"),
    ] {
        if changed {
            command.push_str(argument);
        }
    }
    if plan.deposals != drawn.deposals && plan.deposals > 0 {
        command.push_str(&format!(" --deposals {}", plan.deposals));
    }
    let rots = |plan: &Plan| plan.disk.as_ref().map(|disk| disk.rots);
    if let Some(rots) = rots(plan).filter(|_| rots(plan) != rots(&drawn)) {
        command.push_str(&format!(" --rots {rots}"));
    }
    if plan.faulty_ms != drawn.faulty_ms {
        command.push_str(&format!(" --faulty-ms {}", plan.faulty_ms));
    }
    if let Some(bug) = plan.bug {
        command.push_str(&format!(" --bug {bug}"));
    }
    command
}
