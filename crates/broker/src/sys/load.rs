//! Rates a minute, averaged over one, five and fifteen minutes with exponential weights, as the load of a Unix machine.

use crate::metrics::Counters;

/// Kinds of events with a load.
const KINDS: usize = 9;
const SPANS: usize = 3;
const SPAN_SECONDS: [f64; SPANS] = [60.0, 300.0, 900.0];

macro_rules! topics {
    ($($name:literal),+ $(,)?) => {
        [$([
            concat!("$SYS/broker/load/", $name, "/1min"),
            concat!("$SYS/broker/load/", $name, "/5min"),
            concat!("$SYS/broker/load/", $name, "/15min"),
        ]),+]
    };
}

const TOPICS: [[&str; SPANS]; KINDS] = topics![
    "messages/received",
    "messages/sent",
    "publish/dropped",
    "publish/received",
    "publish/sent",
    "bytes/received",
    "bytes/sent",
    "sockets",
    "connections",
];

/// In the order of the topics.
fn totals(counters: &Counters) -> [u64; KINDS] {
    [
        counters.packets_received(),
        counters.packets_sent,
        counters.dropped_total(),
        counters.publishes_received(),
        counters.publishes_sent,
        counters.bytes_received,
        counters.bytes_sent,
        counters.sockets,
        counters.connects,
    ]
}

/// The averages, and the sums that they were made from.
#[derive(Debug, Default)]
pub(crate) struct Load {
    last: [u64; KINDS],
    averages: [[f64; SPANS]; KINDS],
}

impl Load {
    /// Takes the sums, `elapsed_ms` after the ones before.
    pub(crate) fn update(&mut self, counters: &Counters, elapsed_ms: u64) {
        let seconds = elapsed_ms as f64 / 1000.0;
        if seconds <= 0.0 {
            return;
        }
        let totals = totals(counters);
        for ((average, total), last) in self.averages.iter_mut().zip(totals).zip(self.last) {
            let per_minute = total.saturating_sub(last) as f64 * 60.0 / seconds;
            for (average, span) in average.iter_mut().zip(SPAN_SECONDS) {
                let kept = (-seconds / span).exp();
                *average = *average * kept + per_minute * (1.0 - kept);
            }
        }
        self.last = totals;
    }

    /// Topics and averages.
    pub(crate) fn values(&self) -> impl Iterator<Item = (&'static str, f64)> {
        TOPICS
            .iter()
            .flatten()
            .copied()
            .zip(self.averages.iter().flatten().copied())
    }
}
