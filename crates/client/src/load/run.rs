//! A load run from connecting to the verdict.

#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use courser_mqtt::codec::{EncodeError, Limits, QoS, Receiver, Rules};

use super::arrivals::{Arrivals, Faults, GroupArrivals};
use super::plan::{Plan, PlanError, Stop, Threads};
use super::process::{self, Usage};
use super::publisher::{Publisher, Templates};
use super::result::{Acknowledged, Outcome, Resources};
use super::subscriber::{Ledger, Subscriber};
use super::worker::{Connection, Course, Phase, Role, Totals, Worker};
use crate::{Client, ClientError, Filter, Options};

/// Filters of one SUBSCRIBE.
const FILTERS_MAX: usize = 200;
/// Longest time for deliveries to come after the last message was sent.
const DRAIN_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(2);
const SESSION_EXPIRY_SECONDS: u32 = 3600;

/// Why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The plan is impossible.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A topic or payload cannot be said in MQTT.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Connecting or subscribing failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system refused something.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// What is watched while a run goes on.
#[derive(Default)]
pub struct Watch<'a> {
    /// Processes of the broker, for its CPU time and memory.
    pub pids: &'a [u32],
    /// Called about once a second.
    pub progress: Option<&'a mut dyn FnMut(Progress)>,
}

/// Where a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since sending began.
    pub elapsed: Duration,
    /// Messages sent.
    pub sent: u64,
    /// Messages received.
    pub received: u64,
}

/// Runs a plan.
///
/// # Errors
/// When it is impossible, or a connection cannot be made. Connections that fail later are in [`Outcome::failures`].
pub fn run(plan: &Plan, watch: Watch<'_>) -> Result<Outcome, LoadError> {
    plan.check()?;
    let templates = Arc::new(Templates::new(plan)?);
    let mut subscribers = Vec::with_capacity(plan.subscribers);
    for index in 0..plan.subscribers {
        subscribers.push(subscriber(plan, index)?);
    }
    let mut publishers = Vec::with_capacity(plan.publishers);
    for index in 0..plan.publishers {
        publishers.push(publisher(plan, &templates, index)?);
    }
    let group = GroupArrivals::new(if plan.share.is_some() {
        plan.streams()
    } else {
        0
    });
    let workers = match plan.threads {
        Threads::Two if !subscribers.is_empty() => {
            vec![
                Worker::new(publishers, GroupArrivals::default())?,
                Worker::new(subscribers, group)?,
            ]
        }
        Threads::Two | Threads::One => {
            publishers.append(&mut subscribers);
            vec![Worker::new(publishers, group)?]
        }
    };
    let outcome = drive(plan, watch, workers)?;
    forget_sessions(plan)?;
    Ok(outcome)
}

/// Ends the stored sessions that a run made.
pub(crate) fn forget_sessions(plan: &Plan) -> Result<(), LoadError> {
    let publishers = (0..plan.publishers)
        .filter(|_| plan.persistent_publishers)
        .map(|i| ('p', i));
    let subscribers = (0..plan.subscribers)
        .filter(|_| plan.persistent_subscribers)
        .map(|j| ('s', j));
    for (kind, index) in publishers.chain(subscribers) {
        Client::connect(&options(plan, kind, index, false))?.disconnect()?;
    }
    Ok(())
}

/// Options of one connection.
pub(crate) fn options(plan: &Plan, kind: char, index: usize, persistent: bool) -> Options {
    Options {
        clean_start: !persistent,
        session_expiry: if persistent {
            SESSION_EXPIRY_SECONDS
        } else {
            0
        },
        ..plan
            .target
            .options(format!("{}{kind}{index}", plan.client_prefix))
    }
}

fn rules(plan: &Plan) -> Rules {
    Rules::from_server(plan.target.version).with_limits(Limits::STANDARD)
}

fn publisher(
    plan: &Plan,
    templates: &Arc<Templates>,
    index: usize,
) -> Result<Connection, LoadError> {
    let client = Client::connect(&options(plan, 'p', index, plan.persistent_publishers))?;
    let receive_maximum = client.receive_maximum();
    let publisher = Publisher::new(plan, Arc::clone(templates), index, receive_maximum);
    let role = Role::Publisher(publisher);
    Ok(Connection::new(client.into_parts(), rules(plan), role)?)
}

/// A connection of subscriber `index` that has subscribed.
fn subscriber(plan: &Plan, index: usize) -> Result<Connection, LoadError> {
    let mut client = Client::connect(&options(plan, 's', index, plan.persistent_subscribers))?;
    subscribe(plan, index, &mut client)?;
    let ledger = if !plan.is_checked() {
        Ledger::Count
    } else if plan.share.is_some() {
        Ledger::Member(index as u32)
    } else {
        Ledger::Alone(Arrivals::new(plan.streams()))
    };
    let measured_from_ns = u64::try_from(warmup(plan).as_nanos()).unwrap_or(u64::MAX);
    let subscriber = Subscriber::new(ledger, Receiver::new(plan.target.version), measured_from_ns);
    let role = Role::Subscriber(subscriber);
    Ok(Connection::new(client.into_parts(), rules(plan), role)?)
}

/// Subscribes to all filters of subscriber `index`.
pub(crate) fn subscribe(plan: &Plan, index: usize, client: &mut Client) -> Result<(), ClientError> {
    let filters: Vec<_> = plan
        .filters_of(index)
        .into_iter()
        .map(|filter| Filter {
            filter,
            qos: plan.subscribe_qos,
            no_local: false,
            retain_as_published: false,
        })
        .collect();
    filters
        .chunks(FILTERS_MAX)
        .try_for_each(|some| client.subscribe(some, None))
}

/// Nothing of a counted run is warm-up: every message counts.
const fn warmup(plan: &Plan) -> Duration {
    match plan.stop {
        Stop::After(_) => plan.warmup,
        Stop::Count(_) => Duration::ZERO,
    }
}

fn drive(
    plan: &Plan,
    mut watch: Watch<'_>,
    mut workers: Vec<Worker>,
) -> Result<Outcome, LoadError> {
    let totals = Totals::of(workers.len());
    let start = Instant::now();
    let deliveries: u64 = (0..plan.topics).map(|k| plan.fan_out(k)).sum();
    let waker = workers[0].waker()?;
    let course = |publishers| Course {
        totals: &totals,
        start,
        in_flight_max: plan.in_flight_max,
        fan_out: deliveries.div_ceil(plan.topics as u64),
        publishers,
    };
    let own_waker = (workers.len() > 1).then_some(&waker);
    let begin_unix_ns = unix_ns();
    let marks = thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let course = course(own_waker);
                scope.spawn(move || worker.run(&course))
            })
            .collect();
        let marks = supervise(plan, &mut watch, &totals, start);
        totals.set_phase(Phase::Over);
        for thread in threads {
            thread.join().expect("a load thread does not panic")?;
        }
        marks
    })?;
    let mut outcome = conclude(plan, &workers, &totals, &marks);
    outcome.timeline = timeline(&workers, begin_unix_ns);
    Ok(outcome)
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// What publishers have noted, on the system's clock.
fn timeline(workers: &[Worker], begin_unix_ns: u64) -> Vec<Acknowledged> {
    let connections = workers.iter().flat_map(|worker| &worker.connections);
    let noted = connections.flat_map(|connection| match &connection.role {
        Role::Publisher(publisher) => publisher.timeline(),
        Role::Subscriber(_) => &[],
    });
    noted
        .map(|&(at_ns, took_ns)| Acknowledged {
            at_unix_ns: begin_unix_ns.saturating_add(at_ns),
            took_ns,
        })
        .collect()
}

/// Counters at a moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    sent: u64,
    received: u64,
    broker: Option<Usage>,
    own_cpu_seconds: f64,
}

impl Mark {
    fn now(totals: &Totals, pids: &[u32]) -> io::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            sent: totals.sent.load(Ordering::Relaxed),
            received: totals.received.load(Ordering::Relaxed),
            broker: if pids.is_empty() {
                None
            } else {
                Some(process::usage(pids)?)
            },
            own_cpu_seconds: process::own_cpu_seconds()?,
        })
    }
}

struct Marks {
    before: Mark,
    sent: Mark,
    drained: Mark,
}

/// Moves the run through its phases.
fn supervise(
    plan: &Plan,
    watch: &mut Watch<'_>,
    totals: &Totals,
    start: Instant,
) -> io::Result<Marks> {
    let mut look = Look {
        next: start + Duration::from_secs(1),
        start,
    };
    while start.elapsed() < warmup(plan) {
        look.once(watch, totals);
    }
    let before = Mark::now(totals, watch.pids)?;
    let sending = |totals: &Totals| match plan.stop {
        Stop::After(time) => start.elapsed() < warmup(plan) + time,
        Stop::Count(_) => {
            (totals.publishers_done.load(Ordering::Acquire) as usize) < plan.publishers
        }
    };
    while sending(totals) && totals.failed.load(Ordering::Acquire) == 0 {
        look.once(watch, totals);
    }
    totals.set_phase(Phase::Draining);
    let sent = Mark::now(totals, watch.pids)?;
    drain(plan, totals, || look.once(watch, totals));
    Ok(Marks {
        before,
        sent,
        drained: Mark::now(totals, watch.pids)?,
    })
}

/// Waits until nobody sends and everything that is expected has come, or nothing has come for a while.
fn drain(plan: &Plan, totals: &Totals, mut wait: impl FnMut()) {
    let began = Instant::now();
    let state = || {
        let received = totals.received.load(Ordering::Relaxed);
        (received, totals.acknowledged.load(Ordering::Relaxed))
    };
    let (mut last, mut last_at) = (state(), began);
    let is_whole = |(received, acknowledged): (u64, u64)| {
        // First: what a thread sent before it saw the new phase has been added before it said so.
        if totals.sending.load(Ordering::Acquire) > 0 {
            return false;
        }
        let sent = totals.sent.load(Ordering::Relaxed);
        received >= totals.expected.load(Ordering::Relaxed)
            && (plan.qos == QoS::AtMostOnce || acknowledged >= sent)
    };
    while !is_whole(last) && last_at.elapsed() < plan.drain_idle && began.elapsed() < DRAIN_MAX {
        wait();
        let now = state();
        if now != last {
            (last, last_at) = (now, Instant::now());
        }
    }
}

struct Look {
    next: Instant,
    start: Instant,
}

impl Look {
    fn once(&mut self, watch: &mut Watch<'_>, totals: &Totals) {
        thread::sleep(LOOK_EVERY);
        if Instant::now() < self.next {
            return;
        }
        self.next += Duration::from_secs(1);
        if let Some(progress) = &mut watch.progress {
            progress(Progress {
                elapsed: self.start.elapsed(),
                sent: totals.sent.load(Ordering::Relaxed),
                received: totals.received.load(Ordering::Relaxed),
            });
        }
    }
}

fn conclude(plan: &Plan, workers: &[Worker], totals: &Totals, marks: &Marks) -> Outcome {
    let counted = matches!(plan.stop, Stop::Count(_));
    let end = if counted { &marks.drained } else { &marks.sent };
    let mut outcome = Outcome {
        measured: end.at - marks.before.at,
        sent: end.sent - marks.before.sent,
        received: end.received - marks.before.received,
        sent_in_all: marks.drained.sent,
        received_in_all: marks.drained.received,
        expected_in_all: totals.expected.load(Ordering::Relaxed),
        ..Outcome::default()
    };
    let connections = || workers.iter().flat_map(|worker| &worker.connections);
    for worker in workers {
        outcome.delivery.merge(&worker.delivery);
        outcome.acknowledgement.merge(&worker.acknowledgement);
    }
    outcome.failures = connections()
        .filter_map(|connection| connection.failure.clone())
        .collect();
    let mut sent = vec![0; plan.streams()];
    for connection in connections() {
        if let Role::Publisher(publisher) = &connection.role {
            outcome.refused += publisher.refused();
            publisher
                .sent()
                .for_each(|(stream, count)| sent[stream as usize] = count);
        }
    }
    outcome.faults = faults(plan, workers, &sent);
    measure_cpu(&mut outcome, marks);
    outcome
}

fn faults(plan: &Plan, workers: &[Worker], sent: &[u64]) -> Faults {
    let all = || {
        sent.iter()
            .enumerate()
            .map(|(stream, &count)| (stream as u32, count))
    };
    if !plan.is_checked() || plan.subscribers == 0 {
        return Faults::default();
    }
    if plan.share.is_some() {
        return workers
            .last()
            .map_or(Faults::default(), |worker| worker.group.faults(all()));
    }
    let subscribers = workers
        .iter()
        .flat_map(|worker| &worker.connections)
        .filter_map(|connection| match &connection.role {
            Role::Subscriber(subscriber) => Some(subscriber),
            Role::Publisher(_) => None,
        });
    subscribers
        .enumerate()
        .fold(Faults::default(), |sum, (j, subscriber)| {
            let mine = all().filter(|&(stream, _)| plan.gets(j, plan.topic_of(stream as usize)));
            sum.plus(subscriber.faults(mine))
        })
}

/// CPU time is taken up to the end of the drain, and so are the messages that it is divided by.
fn measure_cpu(outcome: &mut Outcome, marks: &Marks) {
    let (before, after) = (&marks.before, &marks.drained);
    let messages = (after.sent - before.sent) + (after.received - before.received);
    let per_million = |seconds: f64| {
        if messages > 0 {
            seconds * 1e6 / messages as f64
        } else {
            0.0
        }
    };
    outcome.own_cpu_seconds = after.own_cpu_seconds - before.own_cpu_seconds;
    outcome.own_cpu_seconds_per_million = per_million(outcome.own_cpu_seconds);
    if let (Some(usage_before), Some(usage_after)) = (before.broker, after.broker) {
        let cpu_seconds = usage_after.cpu_seconds - usage_before.cpu_seconds;
        outcome.resources = Some(Resources {
            broker_cpu_seconds: cpu_seconds,
            broker_cpu_seconds_per_million: per_million(cpu_seconds),
            broker_resident_before: usage_before.resident_bytes,
            broker_resident_after: usage_after.resident_bytes,
        });
    }
}
