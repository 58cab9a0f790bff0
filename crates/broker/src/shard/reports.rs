//! Gathering what all shards count, and publishing it under `$SYS` (on shard 0).

use std::cell::Cell;

use courser_contract::{Append, AppendKey, Now, PartitionId, Publish, QoS, ShardId, Tick};

use courser_memory::{snapshot, thread_snapshot};

use super::Shard;
use super::timers::Timer;
use crate::config::Config;
use crate::metrics::Counters;
use crate::rings::Control;
use crate::stations::TOPICS;
use crate::sys::{ShardReport, Values};
use crate::timer::TimerKey;

/// The rounds of reports at shard 0.
pub(crate) struct Reports {
    /// 0: never.
    interval_ms: u64,
    timer: Option<TimerKey>,
    round: u64,
    missing: u16,
    sums: ShardReport,
    values: Values,
    started: Tick,
    last: Tick,
}

impl Reports {
    /// None yet.
    pub(crate) fn new(config: &Config, now: Now) -> Self {
        Self {
            interval_ms: interval_ms(config),
            timer: None,
            round: 0,
            missing: 0,
            sums: ShardReport::default(),
            values: Values::default(),
            started: now.tick,
            last: now.tick,
        }
    }
}

/// How busy a shard was of late: over the time between two looks that are a second apart or more.
#[derive(Debug, Default)]
pub(crate) struct Busy(Cell<Look>);

#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: Tick,
    cpu_us: u64,
    busy: f64,
}

/// Looks that follow faster on each other give what the one before gave.
const LOOK_MS: u64 = 1_000;

impl Busy {
    fn look(&self, now: Tick, cpu_us: u64) -> f64 {
        let last = self.0.get();
        let passed = now.0.saturating_sub(last.at.0);
        if passed < LOOK_MS {
            return last.busy;
        }
        let used = cpu_us.saturating_sub(last.cpu_us) as f64;
        let busy = (used / (passed as f64 * 1_000.0)).min(1.0);
        self.0.set(Look {
            at: now,
            cpu_us,
            busy,
        });
        busy
    }
}

/// Milliseconds between two publications.
fn interval_ms(config: &Config) -> u64 {
    let interval = config.settings.sys.interval.as_millis();
    u64::try_from(interval).unwrap_or(u64::MAX)
}

impl Shard {
    /// What this shard has counted and holds.
    pub(crate) fn report(&self) -> ShardReport {
        ShardReport {
            counters: Counters {
                packets_received: self.tuning.packets_received(),
                ..self.hub.counters.clone()
            },
            held: self.partitions.counts(),
            connections: self.fronts.len() as u64,
            latencies: self.hub.latency.all().clone(),
            cpu_us: self.turn_ended_us,
            busy: self.busy.look(self.hub.now.tick, self.turn_ended_us),
            queued_sockets: self.sockets.len() as u64,
            logins: self.hub.access.accounts.counted(),
            allocations: thread_snapshot().allocated().allocations,
        }
    }

    /// Publishes first values and arms the timer for the next, if they are wanted.
    pub(crate) fn begin_reporting(&mut self) {
        if self.reports.interval_ms > 0 && self.hub.id == ShardId(0) {
            self.begin_reports();
        }
    }

    /// The settings may have another interval: it begins now.
    pub(crate) fn retime_reports(&mut self) {
        let interval = interval_ms(&self.hub.config);
        if interval == self.reports.interval_ms {
            return;
        }
        self.reports.interval_ms = interval;
        if let Some(timer) = self.reports.timer.take() {
            self.timers.cancel(timer);
        }
        self.begin_reporting();
    }

    /// Asks every shard for its report.
    pub(crate) fn begin_reports(&mut self) {
        let next = self.hub.now.tick.after_ms(self.reports.interval_ms);
        self.reports.timer = Some(self.timers.insert(next, Timer::REPORT));
        self.reports.round += 1;
        self.reports.missing = self.hub.places.shards();
        self.reports.sums = ShardReport::default();
        let round = self.reports.round;
        self.hub.send_all(|| Control::ReportAsk(round));
    }

    /// A shard has answered. After the last one the values go out; an answer to an earlier round is late and dropped.
    pub(crate) fn gather_report(&mut self, round: u64, _shard: ShardId, report: &ShardReport) {
        if round != self.reports.round || self.reports.missing == 0 {
            return;
        }
        self.reports.sums.add(report);
        self.reports.missing -= 1;
        if self.reports.missing == 0 {
            self.publish_reports();
        }
    }

    fn publish_reports(&mut self) {
        let now = self.hub.now.tick;
        let reports = &mut self.reports;
        let elapsed = now.0 - reports.last.0;
        let uptime = (now.0 - reports.started.0) / 1000;
        reports.last = now;
        let heap = heap_bytes();
        for (topic, value) in reports.values.update(&reports.sums, heap, uptime, elapsed) {
            self.publish_value(topic, value.as_bytes());
        }
        let disk = self.hub.disk.as_ref().map(|disk| disk.counted());
        for (topic, value) in TOPICS.into_iter().zip(disk.into_iter().flatten()) {
            if let Some(value) = self.reports.values.changed(topic, value.to_string()) {
                self.publish_value(topic, value.as_bytes());
            }
        }
    }

    /// A value of the broker: retained in the volatile partition of this shard, and delivered to whoever subscribes.
    fn publish_value(&mut self, topic: &str, payload: &[u8]) {
        let publish = Publish {
            topic,
            properties: &[],
            payload,
            qos: QoS::AtMostOnce,
            retain: true,
            expires_at: None,
            publisher: None,
            author: None,
        };
        let keeper = PartitionId::volatile_of(self.hub.id);
        let subscribed = self.hub.destinations(topic, false);
        for partition in self.hub.destinations(topic, true) {
            let append = Append {
                key: AppendKey::Unanswered,
                publish: &publish,
                keep_retained: partition == keeper,
                deliver: subscribed.contains(&partition),
                cut: self.hub.cut(partition),
            };
            let shard = self.hub.places.shard_of(partition);
            if shard == self.hub.id {
                self.append_here(partition, &append);
            } else {
                self.hub.push_append(shard, partition, &append, None);
            }
        }
    }
}

/// Bytes that the process has allocated and not freed; 0 where the binary does not count.
fn heap_bytes() -> u64 {
    snapshot().live_bytes()
}
