//! A world in one thread: the pure crates that the broker is made of, under virtual time, with faults, and an oracle that
//! watches what clients see.
//!
//! - [`Plan::new`] makes a world of a seed, [`run`] lets it live: a phase with faults, then one without, in which everything
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

pub use bank::{Layer, NotFound, Planted};
pub use bug::Bug;
pub use oracle::Excuse;
pub use rng::Rng;
pub use seeds::{DiskPlan, Life, Plan};
pub use world::{Counts, Outcome, run};

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
    let is_long = plan
        .disk
        .as_ref()
        .is_some_and(|disk| disk.life == Life::Long);
    let drains = plan.disk.as_ref().is_some_and(|disk| disk.drains);
    let is_backed_up = plan.disk.as_ref().is_some_and(|disk| disk.backups > 0);
    let is_poisoned = plan.disk.as_ref().is_some_and(|disk| disk.poisons > 0);
    let drawn = match plan.disk {
        _ if plan.hasty => Plan::hasty(plan.seed),
        Some(_) if plan.is_cold() => Plan::cold(plan.seed),
        Some(_) if drains => Plan::draining(plan.seed),
        Some(_) if is_backed_up => Plan::backed_up(plan.seed),
        Some(_) if is_poisoned => Plan::poisoned(plan.seed),
        Some(_) if is_long => Plan::long_life(plan.seed),
        Some(_) if plan.ages() => Plan::aging(plan.seed),
        Some(_) => Plan::on_disk(plan.seed),
        None if plan.members > 0 => Plan::members(plan.seed),
        None if plan.is_tight() => Plan::tight(plan.seed),
        None if plan.busy_groups > 1 => Plan::two_groups(plan.seed),
        None if plan.one_group > 0 => Plan::one_group(plan.seed),
        None => Plan::new(plan.seed),
    };
    let is_cold = plan.is_cold();
    let is_short = plan.disk.is_some() && !is_long && !is_cold && !is_poisoned && !plan.hasty;
    let mut command = format!(
        "cargo run --release -p courser-sim -- --seeds 1 --from {} --trace",
        plan.seed
    );
    for (changed, argument) in [
        (is_short && !plan.ages(), " --disk"),
        (is_short && plan.ages(), " --aging"),
        (
            is_long && !is_cold && !drains && !is_backed_up,
            " --long-life",
        ),
        (drains, " --draining"),
        (is_backed_up, " --backups"),
        (is_poisoned, " --poisoned"),
        (is_cold, " --cold"),
        (plan.hasty, " --hasty"),
        (plan.members > 0, " --members"),
        (plan.is_tight(), " --tight"),
        (
            plan.limits.overflow == Overflow::DropOldest,
            " --drop-oldest",
        ),
        (plan.refuses_publishers(), " --refuse"),
        (plan.retains_few(), " --retain-few"),
        (plan.busy_groups > 1, " --two-groups"),
        (plan.one_group > 0 && plan.busy_groups == 1, " --one-group"),
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
    if plan.faulty_ms != drawn.faulty_ms {
        command.push_str(&format!(" --faulty-ms {}", plan.faulty_ms));
    }
    if let Some(bug) = plan.bug {
        command.push_str(&format!(" --bug {bug}"));
    }
    command
}
