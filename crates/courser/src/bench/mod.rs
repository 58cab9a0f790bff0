//! `courser bench`: load on any MQTT broker, measured and checked.

mod arguments;
mod report;

use std::io::IsTerminal;

use clap::{Args, Subcommand};
use courser_client::load::{self, LoadError, Outcome, Plan, Stop, Storm, Watch};

use crate::cli::exit::{Exit, fail, usage};
use arguments::{Broker, Connect, Mqtt, Report, Stored};
use report::{Rows, stored_rows, storm_rows, traffic_rows};

/// Flags of `courser bench`.
#[derive(Args, Debug)]
#[command(disable_help_flag = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    broker: Broker,
    #[command(flatten)]
    report: Report,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help, global = true)]
    help: Option<bool>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Messages from publishers to subscribers: in an open loop at a --rate, or --closed, as fast as they are taken
    Mqtt(Box<Mqtt>),
    /// Many connections at once, then idle ones
    Connect(Box<Connect>),
    /// Retained messages: stored, then replayed to one wildcard subscription
    Retained(Box<Stored>),
    /// Messages stored for a session that is away, then taken out
    Absent(Box<Stored>),
}

/// Runs the command. Exit 1: something was lost, repeated or out of order, or a connection failed.
pub(crate) fn run(bench: &Bench) -> Exit {
    let done = match &bench.what {
        None => tour(bench),
        Some(What::Mqtt(mqtt)) => traffic(mqtt),
        Some(What::Connect(connect)) => connections(connect),
        Some(What::Retained(stored)) => kept(stored, "retained", load::retained),
        Some(What::Absent(stored)) => kept(stored, "absent", load::absent),
    };
    done.unwrap_or_else(|error| match error {
        LoadError::Client(error) => fail(&error),
        LoadError::Plan(error) => usage(&error.to_string()),
        LoadError::Encode(error) => usage(&error.to_string()),
        LoadError::Io(error) => {
            eprintln!("courser: {error}");
            Exit::Refused
        }
    })
}

/// Without a verb: what this machine does in ten seconds, first as fast as it goes, then at a fixed rate.
fn tour(bench: &Bench) -> Result<Exit, LoadError> {
    let fast = Mqtt::tour(bench.broker.clone(), bench.report.clone(), true);
    let steady = Mqtt::tour(bench.broker.clone(), bench.report.clone(), false);
    let exits = [traffic(&fast)?, traffic(&steady)?];
    Ok(if exits.contains(&Exit::Refused) {
        Exit::Refused
    } else {
        Exit::Done
    })
}

fn traffic(mqtt: &Mqtt) -> Result<Exit, LoadError> {
    let plan = match mqtt.plan() {
        Ok(plan) => plan,
        Err(refusal) => return Ok(refusal.exit()),
    };
    let outcome = with_progress(&mqtt.report, &mqtt.broker.pid, |watch| {
        load::run(&plan, watch)
    })?;
    let label = mqtt.broker.label.as_deref();
    let shown = mqtt.report.print(&traffic_rows(&plan, &outcome), label);
    if let Some(file) = &mqtt.timeline {
        report::write_timeline(file, &outcome.timeline)?;
    }
    Ok(shown.or(verdict(&plan, &outcome)))
}

fn with_progress<T>(
    report: &Report,
    pids: &[u32],
    run: impl FnOnce(Watch<'_>) -> Result<T, LoadError>,
) -> Result<T, LoadError> {
    if report.quiet || !std::io::stderr().is_terminal() {
        return run(Watch {
            pids,
            progress: None,
        });
    }
    let mut last = (0, 0);
    let mut show = |progress: load::Progress| {
        eprint!(
            "\r{:>4} s  {:>9} sent/s  {:>9} received/s ",
            progress.elapsed.as_secs(),
            progress.sent - last.0,
            progress.received - last.1
        );
        last = (progress.sent, progress.received);
    };
    let result = run(Watch {
        pids,
        progress: Some(&mut show),
    });
    eprint!("\r{:60}\r", "");
    result
}

/// QoS 0 may be dropped; what arrives must be in order and once, and above QoS 0 all of it must arrive.
fn verdict(plan: &Plan, outcome: &Outcome) -> Exit {
    let faults = outcome.faults;
    let sure = plan.qos.number().min(plan.subscribe_qos.number()) > 0;
    let lost = sure && faults.lost > 0;
    let repeated =
        faults.duplicates_unmarked > 0 || (plan.qos.number() == 2 && faults.duplicates_marked > 0);
    let wrong = lost || repeated || faults.out_of_order > 0 || faults.foreign > 0;
    if wrong || !outcome.failures.is_empty() {
        Exit::Refused
    } else {
        Exit::Done
    }
}

fn connections(connect: &Connect) -> Result<Exit, LoadError> {
    let target = match connect.broker.target() {
        Ok(target) => target,
        Err(refusal) => return Ok(refusal.exit()),
    };
    let storm: Storm = connect.storm(target);
    let outcome = load::storm(&storm, &connect.broker.pid)?;
    let whole = outcome.connected == storm.connections && outcome.alive == storm.connections;
    let label = connect.broker.label.as_deref();
    let shown = connect.report.print(&storm_rows(&storm, &outcome), label);
    Ok(shown.or(if whole { Exit::Done } else { Exit::Refused }))
}

fn kept(
    stored: &Stored,
    kind: &'static str,
    run: impl FnOnce(&Plan, &[u32]) -> Result<load::StoredOutcome, LoadError>,
) -> Result<Exit, LoadError> {
    let plan = match stored.plan() {
        Ok(plan) => plan,
        Err(refusal) => return Ok(refusal.exit()),
    };
    let outcome = run(&plan, &stored.broker.pid)?;
    let rows: Rows = stored_rows(kind, &outcome);
    let shown = stored.report.print(&rows, stored.broker.label.as_deref());
    Ok(shown.or(match outcome.lost + outcome.wrong {
        0 => Exit::Done,
        _ => Exit::Refused,
    }))
}

fn stop(count: Option<u64>, duration: std::time::Duration) -> Stop {
    count.map_or(Stop::After(duration), Stop::Count)
}
