//! All metrics: names, texts, units and labels in one table, from which the answer of `/metrics` and the reference page are made.
//!
//! Counters are plain numbers of the shards, summed when somebody asks. Labels come from closed sets: never a client id or a topic.

pub(crate) mod detailed;
mod reference;
mod table;

use std::fmt::{self, Write};

use axum::http::{HeaderMap, header};
use courser_broker::latency::{BOUNDS_US, Histogram, LogTimes};
use courser_broker::{ShardReport, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::AppState;
use crate::error::ApiError;

pub use reference::reference_markdown;
use table::METRICS;

/// What kind of number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only grows; its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Durations by size.
    Histogram,
    /// Text as labels of the value 1.
    Info,
}

/// A unit, which is the last word of the name before `_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// A count of things: no unit.
    Things,
    Bytes,
    Seconds,
    /// A part of a whole: 0 to 1.
    Ratio,
}

/// One family of numbers.
struct Metric {
    /// Without `courser_`, unit and `_total`.
    name: &'static str,
    kind: Kind,
    of: Of,
    help: &'static str,
    /// Names of the labels; their values come from closed sets.
    labels: &'static [&'static str],
    samples: Samples,
}

/// Where the numbers of a family come from.
enum Samples {
    /// One for each set of labels.
    Numbers(fn(&Snapshot) -> Vec<Sample>),
    /// Durations, without labels.
    Durations(fn(&Snapshot) -> &Histogram),
}

/// Values of the labels, and the number.
type Sample = (Vec<String>, f64);

/// Everything that was asked for one answer.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// One a shard.
    shards: Vec<ShardReport>,
    sum: ShardReport,
    disk: Vec<(&'static str, u64)>,
    log: LogTimes,
    /// The commit that the program is built of, as far as it is known.
    commit: Option<&'static str>,
    ready: bool,
    disk_failed: bool,
    /// Seconds.
    waits_for_room: f64,
    /// Partitions that are set aside, and places whose record the disk has lost.
    set_aside: u64,
    stopped_places: u64,
    /// Places of segments in use, and files beside them, that the scrub has found damaged.
    rotten: u64,
    /// Listeners with the second until which their certificates are valid.
    certificates: Vec<(String, i64)>,
    /// Connections that doors did not let in, by reason.
    refused_at_doors: Vec<(&'static str, u64)>,
    /// Logins of operators, by what came of them.
    operator_logins: Vec<(&'static str, u64)>,
    /// Bytes that the process may have.
    memory_max: u64,
    /// What it holds, by component.
    held: courser_memory::Held,
    /// What the process has allocated, by component.
    allocated: courser_memory::Snapshot,
    /// Bytes that the system says are resident.
    resident: u64,
}

impl Snapshot {
    /// Asks every shard once.
    ///
    /// # Errors
    /// When a shard does not answer.
    pub(crate) async fn take(state: &AppState, ready: bool) -> Result<Self, ApiError> {
        let control = &state.control;
        let mut shards = Vec::new();
        let mut sum = ShardReport::default();
        for shard in control.shards() {
            let report = control.report(shard).await?;
            sum.add(&report);
            shards.push(report);
        }
        let damage = control.damage();
        Ok(Self {
            shards,
            sum,
            disk: control.disk_counters(),
            log: control.log_times(),
            commit: state.commit,
            ready,
            disk_failed: matches!(control.status(), Status::Failed(_)),
            waits_for_room: control.waits_for_room().map_or(0.0, |it| it.as_secs_f64()),
            set_aside: damage.set_aside.len() as u64,
            stopped_places: damage.stopped_places,
            rotten: (damage.rotten.len() + damage.rotten_files.len()) as u64,
            certificates: control.certificates(),
            refused_at_doors: control.refused_at_doors(),
            operator_logins: control.operator_logins(),
            memory_max: control.memory_max(),
            held: courser_memory::held(),
            allocated: courser_memory::snapshot(),
            resident: resident_bytes(),
        })
    }

    /// What the stations of the disk counted under a name.
    fn disk(&self, name: &str) -> Option<u64> {
        let found = self.disk.iter().find(|(counter, _)| *counter == name);
        found.map(|&(_, value)| value)
    }
}

/// What the system says; 0 where it says nothing.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

impl Of {
    fn unit(self) -> Option<Unit> {
        match self {
            Self::Things => None,
            Self::Bytes => Some(Unit::Bytes),
            Self::Seconds => Some(Unit::Seconds),
            // The library's own is the plural, which the standard does not have.
            Self::Ratio => Some(Unit::Other("ratio".to_owned())),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Things => "",
            Self::Bytes => "_bytes",
            Self::Seconds => "_seconds",
            Self::Ratio => "_ratio",
        }
    }
}

impl Metric {
    /// Its whole name as a query has it.
    fn full_name(&self) -> String {
        let end = match self.kind {
            Kind::Counter => "_total",
            Kind::Gauge | Kind::Histogram => "",
            Kind::Info => "_info",
        };
        format!("courser_{}{}{end}", self.name, self.of.word())
    }
}

/// One family with its numbers.
struct Family<'a>(&'a Metric, &'a Snapshot);

impl EncodeMetric for Family<'_> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let Self(metric, snapshot) = self;
        let samples = match &metric.samples {
            Samples::Durations(of) => return encode_durations(&mut encoder, of(snapshot)),
            Samples::Numbers(of) => of(snapshot),
        };
        for (values, number) in samples {
            let labels: Vec<(&str, String)> = metric.labels.iter().copied().zip(values).collect();
            if metric.kind == Kind::Info {
                encoder.encode_info(&labels)?;
            } else if labels.is_empty() {
                encode_number(&mut encoder, metric.kind, number)?;
            } else {
                encode_number(&mut encoder.encode_family(&labels)?, metric.kind, number)?;
            }
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        match self.0.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
            Kind::Info => MetricType::Info,
        }
    }
}

fn encode_number(encoder: &mut MetricEncoder<'_>, kind: Kind, number: f64) -> fmt::Result {
    match kind {
        Kind::Counter => encoder.encode_counter::<NoLabelSet, f64, f64>(&number, None),
        Kind::Gauge | Kind::Info | Kind::Histogram => encoder.encode_gauge(&number),
    }
}

/// In seconds; the encoder adds the counts up.
fn encode_durations(encoder: &mut MetricEncoder<'_>, durations: &Histogram) -> fmt::Result {
    let bounds = BOUNDS_US.iter().map(|&us| us as f64 / 1e6);
    let buckets: Vec<(f64, u64)> = bounds
        .chain([f64::INFINITY])
        .zip(durations.counts().iter().copied())
        .collect();
    let count = durations.counts().iter().sum();
    let sum = durations.sum_us() as f64 / 1e6;
    encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
}

#[derive(Debug)]
struct All(Snapshot);

impl Collector for All {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let family = Family(metric, &self.0);
            let unit = metric.of.unit();
            let encoder = encoder.encode_descriptor(
                metric.name,
                metric.help,
                unit.as_ref(),
                family.metric_type(),
            )?;
            family.encode(encoder)?;
        }
        Ok(())
    }
}

/// The content type of [`encode`]'s text.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The older text format, for those who know no other.
const TEXT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// In which text format figures are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    /// That of Prometheus 0.0.4, which `promtool check metrics` reads.
    Text,
}

impl Format {
    /// What a request takes: the older one only if it asks for text and says nothing of OpenMetrics.
    pub(crate) fn wanted(headers: &HeaderMap) -> Self {
        let takes = |kind: &str| {
            let accepted = headers.get_all(header::ACCEPT).iter();
            let accepted = accepted.filter_map(|value| value.to_str().ok());
            accepted.flat_map(|value| value.split(',')).any(|range| {
                let named = range.split(';').next().unwrap_or_default();
                named.trim().eq_ignore_ascii_case(kind)
            })
        };
        match takes("text/plain") && !takes("application/openmetrics-text") {
            true => Self::Text,
            false => Self::OpenMetrics,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => CONTENT_TYPE,
            Self::Text => TEXT_TYPE,
        }
    }

    /// OpenMetrics text in this format.
    pub(crate) fn of(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Text => older(&text),
        }
    }
}

/// The older format has neither units nor an end, names a counter and an info as their samples are named, and knows no info.
fn older(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut help = "";
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next()) {
            (Some("#"), Some("HELP")) => help = line,
            (Some("#"), Some("TYPE")) => {
                let name = words.next().unwrap_or_default();
                let (suffix, kind) = match words.next().unwrap_or_default() {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    "unknown" => ("", "untyped"),
                    kind => ("", kind),
                };
                let said = help.splitn(4, ' ').nth(3).unwrap_or_default();
                // Writing to a string cannot fail.
                let _ = writeln!(out, "# HELP {name}{suffix} {said}");
                let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
            }
            (Some("#"), _) => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out
}

/// OpenMetrics text.
pub(crate) fn encode(snapshot: Snapshot) -> String {
    let mut registry = Registry::with_prefix("courser");
    registry.register_collector(Box::new(All(snapshot)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)
        .expect("a string takes everything");
    text
}

#[cfg(test)]
mod tests;
