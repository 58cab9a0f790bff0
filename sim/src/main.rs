//! Runs many seeds: `cargo run --release -p courser-sim -- --seeds 10000 --from 1`.
#![allow(
    clippy::print_stdout,
    reason = "a command-line tool speaks on its standard output"
)]

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use courser_sim::{Bug, Counts, Planted, Worlds, replay_command, run_plan};

struct Arguments {
    seeds: u64,
    from: u64,
    trace: bool,
    keep_going: bool,
    bug: Option<Bug>,
    /// The bank of planted bugs is searched: all of it, `bug` alone, or the part between the next two.
    bank: bool,
    /// The first planted bug that is searched for.
    bug_from: Option<Bug>,
    /// The last one.
    bug_to: Option<Bug>,
    /// Of this kind.
    worlds: Worlds,
    /// With shared groups.
    groups: bool,
    /// Without them.
    no_groups: bool,
    /// Sessions without room that drop their oldest message.
    drop_oldest: bool,
    /// Such that refuse their publishers.
    refuse: bool,
    /// Worlds where one topic of each partition may be retained.
    retain_few: bool,
    /// Worlds where some clients subscribe while the others send their last messages.
    subscribe_last: bool,
    /// Deposals instead of those that the seed draws.
    deposals: Option<u64>,
    /// Places that rot, instead of those that the seed draws.
    rots: Option<u64>,
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
        bug_from: None,
        bug_to: None,
        worlds: Worlds::Plain,
        groups: false,
        no_groups: false,
        drop_oldest: false,
        refuse: false,
        retain_few: false,
        subscribe_last: false,
        deposals: None,
        rots: None,
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
            "--bug-from" => found.bug_from = Some(value()?.parse().map_err(anyhow::Error::msg)?),
            "--bug-to" => found.bug_to = Some(value()?.parse().map_err(anyhow::Error::msg)?),
            "--drop-oldest" => found.drop_oldest = true,
            "--refuse" => found.refuse = true,
            "--retain-few" => found.retain_few = true,
            "--subscribe-last" => found.subscribe_last = true,
            "--groups" => found.groups = true,
            "--no-groups" => found.no_groups = true,
            "--no-deposals" => found.deposals = Some(0),
            "--deposals" => {
                found.deposals = Some(value()?.parse().context("--deposals wants a number")?);
            }
            "--rots" => {
                found.rots = Some(value()?.parse().context("--rots wants a number")?);
            }
            "--faulty-ms" => {
                found.faulty_ms = Some(value()?.parse().context("--faulty-ms wants a number")?);
            }
            "--no-kills" => found.no_kills = true,
            "--trace" => found.trace = true,
            "--keep-going" => found.keep_going = true,
            other => found.worlds = worlds(other)?,
        }
    }
    if !found.bank && (found.bug_from.is_some() || found.bug_to.is_some()) {
        bail!("--bug-from and --bug-to want --bank");
    }
    Ok(found)
}

/// The kind of worlds that an argument asks for.
fn worlds(argument: &str) -> Result<Worlds> {
    let named = argument.strip_prefix("--").and_then(Worlds::named);
    let Some(worlds) = named else {
        let mut kinds = String::new();
        for worlds in Worlds::ALL {
            kinds.push_str(&format!("\n  --{:<11} {}", worlds.name(), worlds.about()));
        }
        bail!(
            "{argument}: known are --seeds N, --from S, --bug NAME, --bank (with --bug NAME, or --bug-from NAME and --bug-to NAME: a part of it, by the order in which it is listed), --trace, --keep-going, --groups, --no-groups, --drop-oldest, --refuse, --retain-few, --subscribe-last, --deposals N, --no-deposals, --no-kills, --rots N, --faulty-ms N, and one kind of worlds:{kinds}"
        )
    };
    Ok(worlds)
}

/// Searches for planted bugs, and says of each in one line at which seed it shows and how many were looked at.
fn search_bank(arguments: &Arguments) -> Result<ExitCode> {
    let first = arguments.bug.or(arguments.bug_from);
    let last = arguments.bug.or(arguments.bug_to);
    let part = Planted::between(first, last);
    if part.is_empty() {
        bail!("--bug-to is listed before --bug-from");
    }
    let mut missed = 0_u64;
    for bug in part.iter().copied() {
        let planted = Planted::of(bug);
        let layer = planted.layer;
        match planted.search(arguments.from, arguments.seeds) {
            Ok((seed, violation)) => {
                let looked_at = seed - arguments.from + 1;
                println!("{bug} ({layer:?}): seed {seed}, {looked_at} looked at: {violation}");
            }
            Err(not_found) => {
                missed += 1;
                let looked_at = arguments.seeds;
                println!("{bug} ({layer:?}): no seed, {looked_at} looked at: {not_found}");
            }
        }
    }
    println!("{missed} of {} bugs were not found", part.len());
    Ok(ExitCode::from(u8::from(missed > 0)))
}

fn main() -> Result<ExitCode> {
    let arguments = arguments()?;
    if arguments.bank {
        return search_bank(&arguments);
    }
    let mut sum = Counts::default();
    let mut failed = 0_u64;
    for seed in arguments.from..arguments.from.saturating_add(arguments.seeds) {
        let mut plan = arguments.worlds.plan(seed).with_bug(arguments.bug);
        if arguments.drop_oldest {
            plan = plan.dropping_oldest();
        }
        if arguments.refuse {
            plan = plan.refusing();
        }
        if arguments.retain_few {
            plan = plan.retaining_few();
        }
        if arguments.subscribe_last {
            plan = plan.subscribing_last();
        }
        plan.groups |= arguments.groups;
        plan.groups &= !arguments.no_groups;
        // On a disk groups of one never lose their leader.
        if plan.disk.is_none() {
            plan.deposals = arguments.deposals.unwrap_or(plan.deposals);
        }
        // A disk that is lost comes back as it was before something rotted.
        if let Some(disk) = plan.disk.as_mut().filter(|disk| disk.losses == 0) {
            disk.rots = arguments.rots.unwrap_or(disk.rots);
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
