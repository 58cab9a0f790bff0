//! What a run measured.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::arrivals::Faults;

/// Longest latency that is told apart: two minutes.
const LATENCY_NS_MAX: u64 = 120_000_000_000;

/// Latencies in nanoseconds, three digits exact.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3);
        Self(histogram.expect("the bounds of the latency histogram are in order"))
    }
}

impl Latencies {
    /// Notes one latency; longer than two minutes counts as two minutes.
    pub fn note(&mut self, nanoseconds: u64) {
        self.0.saturating_record(nanoseconds);
    }

    /// Takes over all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0
            .add(&other.0)
            .expect("histograms of equal bounds add up");
    }

    /// How many were noted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Value below which the share `quantile` (0 to 1) of all latencies lies.
    #[must_use]
    pub fn at(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.value_at_quantile(quantile))
    }

    /// The longest.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.max())
    }
}

/// One acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// When it came, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Nanoseconds since its message was sent, or was due.
    pub took_ns: u64,
}

/// What others used during the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Resources {
    /// CPU seconds of the broker's processes.
    pub broker_cpu_seconds: f64,
    /// The same for a million messages in and out.
    pub broker_cpu_seconds_per_million: f64,
    /// Resident bytes of the broker's processes at the start.
    pub broker_resident_before: u64,
    /// At the end.
    pub broker_resident_after: u64,
}

/// What a load run measured and checked.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Time in which it was measured: from the end of the warm-up to the end of sending, or to the last event of a counted run.
    pub measured: Duration,
    /// Messages sent in that time.
    pub sent: u64,
    /// Messages received in that time, repeats not counted.
    pub received: u64,
    /// Messages sent in all.
    pub sent_in_all: u64,
    /// Messages received in all, repeats not counted.
    pub received_in_all: u64,
    /// Messages that should have been received in all.
    pub expected_in_all: u64,
    /// Loss, duplicates, order; of checked payloads only.
    pub faults: Faults,
    /// From sending (or being due) to delivery.
    pub delivery: Latencies,
    /// From sending (or being due) to PUBACK or PUBCOMP.
    pub acknowledgement: Latencies,
    /// Acknowledgements one by one, of one publisher after the other, if the plan wants them.
    pub timeline: Vec<Acknowledged>,
    /// Acknowledgements that refused a message.
    pub refused: u64,
    /// Connections that failed, and how.
    pub failures: Vec<String>,
    /// What the broker used, if its process was named.
    pub resources: Option<Resources>,
    /// CPU seconds of this program.
    pub own_cpu_seconds: f64,
    /// The same for a million messages sent and received.
    pub own_cpu_seconds_per_million: f64,
}

impl Outcome {
    /// Messages sent a second.
    #[must_use]
    pub fn sent_per_second(&self) -> f64 {
        per_second(self.sent, self.measured)
    }

    /// Messages received a second.
    #[must_use]
    pub fn received_per_second(&self) -> f64 {
        per_second(self.received, self.measured)
    }
}

fn per_second(messages: u64, time: Duration) -> f64 {
    let seconds = time.as_secs_f64();
    if seconds > 0.0 {
        messages as f64 / seconds
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_what_was_noted() {
        let mut latencies = Latencies::default();
        let mut more = Latencies::default();
        for k in 1..=1000 {
            if k % 2 == 0 {
                latencies.note(k * 1000)
            } else {
                more.note(k * 1000)
            }
        }
        latencies.merge(&more);
        assert_eq!(latencies.count(), 1000);
        let p50 = latencies.at(0.5).as_micros();
        assert!((499..=501).contains(&p50), "{p50}");
        assert!(latencies.max() >= Duration::from_millis(1));
    }
}
