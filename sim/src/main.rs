//! Runs many seeds: `cargo run --release -p courser-sim -- --seeds 10000 --from 1`.
#![allow(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use courser_sim::{Bug, Counts, Plan, Planted, replay_command, run_plan};

struct Arguments {
    seeds: u64,
    from: u64,
    trace: bool,
    keep_going: bool,
    bug: Option<Bug>,
    /// Every planted bug instead of none.
    bank: bool,
    /// Nodes with a disk.
    disk: bool,
    /// Nodes with a disk whose sessions keep messages for a second or two.
    aging: bool,
    /// Nodes with a disk that live long.
    long_life: bool,
    /// Such on a disk that fills up and gets no larger.
    draining: bool,
    /// Such that are backed up, lose their disk and come out of a backup.
    backups: bool,
    /// Nodes with a disk whose program panics at some entry.
    poisoned: bool,
    /// Nodes with a disk that keep next to nothing of what waits in memory.
    cold: bool,
    /// With these.
    groups: bool,
    /// Without these.
    no_groups: bool,
    /// One group that changes its class often.
    one_group: bool,
    /// Two busy groups in partitions that often lose their leader.
    two_groups: bool,
    /// Limits that are reached.
    tight: bool,
    /// There, sessions that drop their oldest message.
    drop_oldest: bool,
    /// There, sessions that refuse their publishers.
    refuse: bool,
    /// Worlds where one topic of each partition may be retained.
    retain_few: bool,
    /// Clients that do not wait for answers about filters.
    hasty: bool,
    /// Nothing but the consensus of three members.
    members: bool,
    /// Deposals instead of those that the seed draws.
    deposals: Option<u64>,
    no_kills: bool,
    /// Milliseconds with faults, instead of those that the seed draws.
    faulty_ms: Option<u64>,
}

fn arguments() -> Result<Arguments> {
    let mut found = Arguments {
        seeds: 1_000,
        from: 1,
        trace: false,
        keep_going: false,
        bug: None,
        bank: false,
        disk: false,
        aging: false,
        long_life: false,
        draining: false,
        backups: false,
        poisoned: false,
        cold: false,
        groups: false,
        no_groups: false,
        one_group: false,
        two_groups: false,
        tight: false,
        drop_oldest: false,
        refuse: false,
        retain_few: false,
        hasty: false,
        members: false,
        deposals: None,
        no_kills: false,
        faulty_ms: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .with_context(|| format!("{word} wants a value"))
        };
        match word.as_str() {
            "--seeds" => found.seeds = value()?.parse().context("--seeds wants a number")?,
            "--from" => found.from = value()?.parse().context("--from wants a number")?,
            "--bug" => found.bug = Some(value()?.parse().map_err(anyhow::Error::msg)?),
            "--bank" => found.bank = true,
            "--disk" => found.disk = true,
            "--aging" => found.aging = true,
            "--long-life" => found.long_life = true,
            "--draining" => found.draining = true,
            "--backups" => found.backups = true,
            "--poisoned" => found.poisoned = true,
            "--cold" => found.cold = true,
            "--one-group" => found.one_group = true,
            "--two-groups" => found.two_groups = true,
            "--tight" => found.tight = true,
            "--drop-oldest" => found.drop_oldest = true,
            "--refuse" => found.refuse = true,
            "--retain-few" => found.retain_few = true,
            "--hasty" => found.hasty = true,
            "--members" => found.members = true,
            "--groups" => found.groups = true,
            "--no-groups" => found.no_groups = true,
            "--no-deposals" => found.deposals = Some(0),
            "--deposals" => {
                found.deposals = Some(value()?.parse().context("--deposals wants a number")?);
            }
            "--faulty-ms" => {
                found.faulty_ms = Some(value()?.parse().context("--faulty-ms wants a number")?);
            }
            "--no-kills" => found.no_kills = true,
            "--trace" => found.trace = true,
            "--keep-going" => found.keep_going = true,
            other => {
                bail!(
                    "{other}: known are --seeds N, --from S, --bug NAME, --bank, --disk, --aging, --long-life, --draining, --backups, --poisoned, --cold, --trace, --keep-going, --groups, --no-groups, --one-group, --two-groups, --tight, --drop-oldest, --refuse, --retain-few, --hasty, --members, --deposals N, --no-deposals, --no-kills, --faulty-ms N"
                )
            }
        }
    }
    Ok(found)
}

/// Searches for every planted bug, and says at which seed it shows.
fn search_bank(from: u64, seeds: u64) -> ExitCode {
    let mut missed = 0_u64;
    for bug in Bug::ALL.iter().copied() {
        let planted = Planted::of(bug);
        match planted.search(from, seeds) {
            Ok((seed, violation)) => {
                println!("{bug} ({:?}): seed {seed}: {violation}", planted.layer)
            }
            Err(not_found) => {
                missed += 1;
                println!("{not_found}");
            }
        }
    }
    println!("{missed} of {} bugs were not found", Bug::ALL.len());
    ExitCode::from(u8::from(missed > 0))
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    if arguments.bank {
        return Ok(search_bank(arguments.from, arguments.seeds));
    }
    let mut sum = Counts::default();
    let mut failed = 0_u64;
    for seed in arguments.from..arguments.from.saturating_add(arguments.seeds) {
        let plan = if arguments.cold {
            Plan::cold(seed)
        } else if arguments.backups {
            Plan::backed_up(seed)
        } else if arguments.poisoned {
            Plan::poisoned(seed)
        } else if arguments.draining {
            Plan::draining(seed)
        } else if arguments.long_life {
            Plan::long_life(seed)
        } else if arguments.aging {
            Plan::aging(seed)
        } else if arguments.hasty {
            Plan::hasty(seed)
        } else if arguments.disk {
            Plan::on_disk(seed)
        } else if arguments.members {
            Plan::members(seed)
        } else if arguments.tight {
            Plan::tight(seed)
        } else if arguments.two_groups {
            Plan::two_groups(seed)
        } else if arguments.one_group {
            Plan::one_group(seed)
        } else {
            Plan::new(seed)
        };
        let mut plan = plan.with_bug(arguments.bug);
        if arguments.drop_oldest {
            plan = plan.dropping_oldest();
        }
        if arguments.refuse {
            plan = plan.refusing();
        }
        if arguments.retain_few {
            plan = plan.retaining_few();
        }
        plan.groups |= arguments.groups;
        plan.groups &= !arguments.no_groups;
        // On a disk groups of one never lose their leader.
        if plan.disk.is_none() {
            plan.deposals = arguments.deposals.unwrap_or(plan.deposals);
        }
        plan.faulty_ms = arguments.faulty_ms.unwrap_or(plan.faulty_ms);
        plan.kills *= u64::from(!arguments.no_kills);
        let again = replay_command(&plan);
        let outcome = run_plan(plan);
        sum.add(&outcome.counts);
        if arguments.trace {
            print!("{}", outcome.trace);
        }
        if let Some(violation) = outcome.violation {
            failed += 1;
            println!("seed {seed}: {violation}");
            println!("  again: {again}");
            if !arguments.keep_going {
                break;
            }
        }
    }
    println!("{failed} seeds failed; {sum:?}");
    Ok(ExitCode::from(u8::from(failed > 0)))
}
