//! What a broker keeps: retained messages, and messages for a session that is away.

use std::io;
use std::time::{Duration, Instant};

use super::plan::{Pattern, Plan, Stop};
use super::process;
use super::result::Outcome;
use super::run::{LoadError, Watch, forget_sessions, options, run, subscribe};
use crate::{Client, ClientError, Filter, Message};

/// Longest time without a message while stored ones are taken out.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// One way of a stored message: in, or out.
#[derive(Clone, Debug, Default)]
pub struct Phase {
    /// Messages.
    pub messages: u64,
    /// Time from the first to the last.
    pub took: Duration,
    /// CPU seconds of the broker for a million of them, if its process was named.
    pub broker_cpu_seconds_per_million: Option<f64>,
}

/// What was stored and came back.
#[derive(Clone, Debug, Default)]
pub struct StoredOutcome {
    /// Into the broker.
    pub stored: Phase,
    /// Out of it.
    pub replayed: Phase,
    /// Stored and never delivered.
    pub lost: u64,
    /// Delivered twice, in another order, or not ours.
    pub wrong: u64,
}

/// Publishes one retained message on each topic of the plan, takes all of them by one wildcard subscription, and clears them.
///
/// # Errors
/// As [`run`].
pub fn retained(plan: &Plan, pids: &[u32]) -> Result<StoredOutcome, LoadError> {
    let plan = Plan {
        retain: true,
        subscribers: 0,
        stop: Stop::Count(plan.topics as u64),
        ..plan.clone()
    };
    let mut outcome = StoredOutcome {
        stored: fill(&plan, pids)?,
        ..StoredOutcome::default()
    };
    let mut client = Client::connect(&options(&plan, 's', 0, false))?;
    let filter = Filter {
        filter: format!("{}/#", plan.prefix),
        qos: plan.subscribe_qos,
        no_local: false,
        retain_as_published: false,
    };
    let before = cpu(pids)?;
    let start = Instant::now();
    client.subscribe(&[filter], None)?;
    let mut seen = vec![false; plan.topics];
    outcome.replayed = take(&mut client, plan.topics as u64, start, |message| {
        let topic = message
            .topic
            .rsplit('/')
            .next()
            .and_then(|k| k.parse::<usize>().ok());
        match topic.and_then(|k| seen.get_mut(k)) {
            Some(seen) if message.retain && !*seen => *seen = true,
            _ => outcome.wrong += 1,
        }
    })?;
    outcome.replayed.broker_cpu_seconds_per_million =
        per_million(before, cpu(pids)?, outcome.replayed.messages);
    outcome.lost = seen.iter().filter(|&&seen| !seen).count() as u64;
    client.disconnect()?;
    let clear = Plan {
        payload_bytes: 0,
        ..plan
    };
    run(&clear, Watch::default())?;
    Ok(outcome)
}

/// Publishes a counted plan for a session that is away, then takes the messages out.
///
/// # Errors
/// As [`run`].
pub fn absent(plan: &Plan, pids: &[u32]) -> Result<StoredOutcome, LoadError> {
    let away = Plan {
        subscribers: 1,
        persistent_subscribers: true,
        pattern: Pattern::Wildcard,
        ..plan.clone()
    };
    let mut client = Client::connect(&options(&away, 's', 0, false))?;
    client.disconnect()?;
    client = Client::connect(&options(&away, 's', 0, true))?;
    subscribe(&away, 0, &mut client)?;
    client.disconnect()?;
    let alone = Plan {
        subscribers: 0,
        ..plan.clone()
    };
    let mut outcome = StoredOutcome {
        stored: fill(&alone, pids)?,
        ..StoredOutcome::default()
    };
    let before = cpu(pids)?;
    let start = Instant::now();
    let mut client = Client::connect(&options(&away, 's', 0, true))?;
    let mut next = vec![0; away.streams()];
    outcome.replayed = take(&mut client, outcome.stored.messages, start, |message| {
        let stamp = super::stamp::Stamp::decode(&message.payload);
        match stamp.and_then(|stamp| {
            next.get_mut(stamp.stream as usize)
                .map(|next| (stamp.number, next))
        }) {
            Some((number, next)) if number == *next => *next += 1,
            _ => outcome.wrong += 1,
        }
    })?;
    outcome.replayed.broker_cpu_seconds_per_million =
        per_million(before, cpu(pids)?, outcome.replayed.messages);
    outcome.lost = outcome.stored.messages.saturating_sub(next.iter().sum());
    client.disconnect()?;
    forget_sessions(&away)?;
    Ok(outcome)
}

fn fill(plan: &Plan, pids: &[u32]) -> Result<Phase, LoadError> {
    let Outcome {
        sent_in_all,
        measured,
        resources,
        ..
    } = run(
        plan,
        Watch {
            pids,
            progress: None,
        },
    )?;
    Ok(Phase {
        messages: sent_in_all,
        took: measured,
        broker_cpu_seconds_per_million: resources.map(|used| used.broker_cpu_seconds_per_million),
    })
}

/// Takes messages until `wanted` have come or none comes any more.
fn take(
    client: &mut Client,
    wanted: u64,
    start: Instant,
    mut check: impl FnMut(&Message),
) -> Result<Phase, ClientError> {
    let mut phase = Phase::default();
    while phase.messages < wanted {
        let Some(message) = client.next(Some(Instant::now() + SILENCE_MAX))? else {
            break;
        };
        check(&message);
        phase.messages += 1;
        phase.took = start.elapsed();
    }
    Ok(phase)
}

fn cpu(pids: &[u32]) -> io::Result<Option<f64>> {
    if pids.is_empty() {
        Ok(None)
    } else {
        process::usage(pids).map(|usage| Some(usage.cpu_seconds))
    }
}

fn per_million(before: Option<f64>, after: Option<f64>, messages: u64) -> Option<f64> {
    Some((after? - before?) * 1e6 / messages.max(1) as f64)
}
