//! The topics `$SYS/broker/…` with the names and forms of Mosquitto 2.0.11, so that its exporters and dashboards work.
//!
//! Pure: sums of counters and the time between two of them come in, changed values come out. What has not changed is not
//! published again, as there.

mod load;
#[cfg(test)]
mod tests;

pub(crate) use load::Load;

use courser_engine::Counts;

use crate::latency::Latencies;
use crate::metrics::{Counters, LoginCounts};

/// What one shard reports; [`add`](Self::add) sums them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShardReport {
    /// What it has counted.
    pub counters: Counters,
    /// What its partitions hold.
    pub held: Counts,
    /// Its connections.
    pub connections: u64,
    /// How long publishes take.
    pub latencies: Latencies,
    /// Microseconds of CPU that its thread has used.
    pub cpu_us: u64,
    /// Part of the time that its thread was busy of late, 0 to 1; in a sum the largest.
    pub busy: f64,
    /// Sockets that wait to be looked at.
    pub queued_sockets: u64,
    /// What has come of its logins.
    pub logins: LoginCounts,
    /// How often its thread has asked for memory; 0 in a binary that does not count.
    pub allocations: u64,
}

impl ShardReport {
    /// Adds another shard's.
    pub fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        self.connections += other.connections;
        self.allocations += other.allocations;
        self.latencies.add(&other.latencies);
        self.cpu_us += other.cpu_us;
        self.busy = self.busy.max(other.busy);
        self.queued_sockets += other.queued_sockets;
        self.logins.add(other.logins);
        self.held += other.held;
    }
}

/// The values as they were published last.
#[derive(Debug, Default)]
pub(crate) struct Values {
    published: std::collections::BTreeMap<&'static str, String>,
    load: Load,
    clients_max: u64,
    heap_max: u64,
}

impl Values {
    /// A value of its own; none when it was published as it is.
    pub(crate) fn changed(&mut self, topic: &'static str, value: String) -> Option<String> {
        if self.published.get(topic) == Some(&value) {
            return None;
        }
        self.published.insert(topic, value.clone());
        Some(value)
    }

    /// Takes the sums of all shards, `elapsed_ms` after the ones before, and gives topics and values that have changed.
    pub(crate) fn update(
        &mut self,
        sums: &ShardReport,
        heap_bytes: u64,
        uptime_seconds: u64,
        elapsed_ms: u64,
    ) -> Vec<(&'static str, String)> {
        self.load.update(&sums.counters, elapsed_ms);
        self.clients_max = self.clients_max.max(sums.held.sessions);
        self.heap_max = self.heap_max.max(heap_bytes);
        let version = format!("courser version {}", env!("CARGO_PKG_VERSION"));
        let mut values = vec![
            ("$SYS/broker/version", version),
            ("$SYS/broker/uptime", format!("{uptime_seconds} seconds")),
        ];
        let numbers = [
            ("$SYS/broker/clients/maximum", self.clients_max),
            ("$SYS/broker/heap/current", heap_bytes),
            ("$SYS/broker/heap/maximum", self.heap_max),
        ];
        let numbers = numbers.into_iter().chain(clients(sums));
        let numbers = numbers.chain(messages(sums));
        values.extend(numbers.map(|(topic, value)| (topic, value.to_string())));
        let loads = self.load.values();
        values.extend(loads.map(|(topic, value)| (topic, format!("{value:.2}"))));
        let mut changed: Vec<_> = values
            .into_iter()
            .filter_map(|(topic, value)| Some((topic, self.changed(topic, value)?)))
            .collect();
        // As in Mosquitto they are retained messages themselves, this one too; `messages/stored` has them as well.
        let topic = "$SYS/broker/retained messages/count";
        let others = self.published.len() - usize::from(self.published.contains_key(topic));
        let retained = sums.held.retained_messages + others as u64 + 1;
        let retained = self.changed(topic, retained.to_string());
        changed.extend(retained.map(|value| (topic, value)));
        changed
    }
}

/// Mosquitto's two words for each: `active` is `connected`, `inactive` is `disconnected`.
fn clients(sums: &ShardReport) -> [(&'static str, u64); 6] {
    let Counts {
        sessions, attached, ..
    } = sums.held;
    let absent = sessions.saturating_sub(attached);
    [
        ("$SYS/broker/clients/total", sessions),
        ("$SYS/broker/clients/connected", attached),
        ("$SYS/broker/clients/active", attached),
        ("$SYS/broker/clients/disconnected", absent),
        ("$SYS/broker/clients/inactive", absent),
        ("$SYS/broker/clients/expired", sums.held.expired_sessions),
    ]
}

fn messages(sums: &ShardReport) -> [(&'static str, u64); 14] {
    let ShardReport { counters, held, .. } = sums;
    [
        ("$SYS/broker/messages/received", counters.packets_received()),
        ("$SYS/broker/messages/sent", counters.packets_sent),
        ("$SYS/broker/messages/stored", held.records),
        ("$SYS/broker/store/messages/count", held.records),
        ("$SYS/broker/store/messages/bytes", held.record_bytes),
        // Shared ones have a count of their own, in Mosquitto and here.
        (
            "$SYS/broker/subscriptions/count",
            held.subscriptions.saturating_sub(held.shared_subscriptions),
        ),
        (
            "$SYS/broker/shared_subscriptions/count",
            held.shared_subscriptions,
        ),
        (
            "$SYS/broker/publish/messages/received",
            counters.publishes_received(),
        ),
        ("$SYS/broker/publish/messages/sent", counters.publishes_sent),
        (
            "$SYS/broker/publish/messages/dropped",
            counters.dropped_total(),
        ),
        (
            "$SYS/broker/publish/bytes/received",
            counters.publish_bytes_received,
        ),
        (
            "$SYS/broker/publish/bytes/sent",
            counters.publish_bytes_sent,
        ),
        ("$SYS/broker/bytes/received", counters.bytes_received),
        ("$SYS/broker/bytes/sent", counters.bytes_sent),
    ]
}
