//! Results as a table, as JSON and as a line of CSV: the same rows in all of them.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use courser_client::load::{
    Acknowledged, Latencies, Outcome, Pace, Plan, StoredOutcome, Storm, StormOutcome,
};
use serde_json::{Map, Value, json};

use super::arguments::{Output, Report};
use crate::cli;
use crate::cli::exit::{Exit, usage};

/// Names and values in order; a unit is the last word of a name.
pub(crate) type Rows = Vec<(&'static str, Value)>;

impl Report {
    /// Prints the rows, and appends them to the CSV file if one is named.
    pub(super) fn print(&self, rows: &Rows, label: Option<&str>) -> Exit {
        let mut rows = rows.clone();
        if let Some(label) = label {
            rows.insert(0, ("label", json!(label)));
        }
        let object = || {
            Value::Object(
                rows.iter()
                    .map(|(name, value)| ((*name).to_owned(), value.clone()))
                    .collect::<Map<_, _>>(),
            )
        };
        let text = match self.output {
            Output::Table => table(&rows),
            Output::Json => format!("{:#}\n", object()),
            Output::Jsonl => format!("{}\n", object()),
        };
        let shown = cli::print(&text);
        match self.csv.as_deref().map(|file| append_csv(file, &rows)) {
            Some(Err(error)) => usage(&format!("cannot write the result: {error}")),
            Some(Ok(())) | None => shown,
        }
    }
}

fn table(rows: &Rows) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, value)| format!("{name:width$}  {}\n", plain(value)))
        .collect()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".into(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

fn append_csv(file: &Path, rows: &Rows) -> io::Result<()> {
    let mut out = OpenOptions::new().create(true).append(true).open(file)?;
    let line = |fields: Vec<String>| {
        let quoted = fields
            .iter()
            .map(|field| match field.contains([',', '"', '\n']) {
                true => format!("\"{}\"", field.replace('"', "\"\"")),
                false => field.clone(),
            });
        quoted.collect::<Vec<_>>().join(",") + "\n"
    };
    if out.metadata()?.len() == 0 {
        out.write_all(line(rows.iter().map(|(name, _)| (*name).to_owned()).collect()).as_bytes())?;
    }
    out.write_all(line(rows.iter().map(|(_, value)| plain(value)).collect()).as_bytes())
}

/// A line of CSV for each acknowledgement, those of one publisher behind those of another.
pub(super) fn write_timeline(file: &Path, timeline: &[Acknowledged]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(file)?);
    writeln!(out, "at_unix_ns,took_ns")?;
    for one in timeline {
        writeln!(out, "{},{}", one.at_unix_ns, one.took_ns)?;
    }
    out.flush()
}

fn rounded(number: f64, digits: i32) -> Value {
    let scale = 10f64.powi(digits);
    json!((number * scale).round() / scale)
}

fn microseconds(time: Duration) -> Value {
    rounded(time.as_secs_f64() * 1e6, 1)
}

const DELIVERY: [&str; 5] = [
    "delivery_p50_us",
    "delivery_p99_us",
    "delivery_p99_9_us",
    "delivery_p99_99_us",
    "delivery_max_us",
];
const ACKNOWLEDGEMENT: [&str; 5] = [
    "acknowledgement_p50_us",
    "acknowledgement_p99_us",
    "acknowledgement_p99_9_us",
    "acknowledgement_p99_99_us",
    "acknowledgement_max_us",
];

fn latencies(rows: &mut Rows, names: [&'static str; 5], latencies: &Latencies) {
    if latencies.count() == 0 {
        return;
    }
    let values = [0.5, 0.99, 0.999, 0.9999].map(|quantile| latencies.at(quantile));
    let [p50, p99, p99_9, p99_99, max] = names;
    rows.extend(
        [p50, p99, p99_9, p99_99]
            .into_iter()
            .zip(values.map(microseconds)),
    );
    rows.push((max, microseconds(latencies.max())));
}

/// Rows of `courser bench mqtt`.
pub(super) fn traffic_rows(plan: &Plan, outcome: &Outcome) -> Rows {
    let mut rows: Rows = vec![
        ("mqtt", json!(plan.target.version.to_string())),
        ("publishers", json!(plan.publishers)),
        ("subscribers", json!(plan.subscribers)),
        ("topics", json!(plan.topics)),
        ("qos", json!(plan.qos.number())),
        ("payload_bytes", json!(plan.payload_bytes)),
        (
            "loop",
            json!(match plan.pace {
                Pace::Open { .. } => "open",
                Pace::Closed => "closed",
            }),
        ),
        (
            "measured_seconds",
            rounded(outcome.measured.as_secs_f64(), 3),
        ),
        ("sent_per_second", rounded(outcome.sent_per_second(), 0)),
        (
            "received_per_second",
            rounded(outcome.received_per_second(), 0),
        ),
        ("sent", json!(outcome.sent_in_all)),
        ("received", json!(outcome.received_in_all)),
        ("expected", json!(outcome.expected_in_all)),
        ("lost", json!(outcome.faults.lost)),
        ("outstanding", json!(outcome.faults.outstanding)),
        ("duplicates_marked", json!(outcome.faults.duplicates_marked)),
        (
            "duplicates_unmarked",
            json!(outcome.faults.duplicates_unmarked),
        ),
        ("out_of_order", json!(outcome.faults.out_of_order)),
        ("foreign", json!(outcome.faults.foreign)),
        ("refused", json!(outcome.refused)),
    ];
    latencies(&mut rows, DELIVERY, &outcome.delivery);
    latencies(&mut rows, ACKNOWLEDGEMENT, &outcome.acknowledgement);
    if let Some(used) = outcome.resources {
        rows.push((
            "broker_cpu_seconds_per_million",
            rounded(used.broker_cpu_seconds_per_million, 4),
        ));
        rows.push(("broker_cpu_seconds", rounded(used.broker_cpu_seconds, 3)));
        rows.push((
            "broker_resident_before_bytes",
            json!(used.broker_resident_before),
        ));
        rows.push((
            "broker_resident_after_bytes",
            json!(used.broker_resident_after),
        ));
    }
    rows.push((
        "own_cpu_seconds_per_million",
        rounded(outcome.own_cpu_seconds_per_million, 4),
    ));
    failures(&mut rows, &outcome.failures);
    rows
}

/// Rows of `courser bench connect`.
pub(super) fn storm_rows(plan: &Storm, outcome: &StormOutcome) -> Rows {
    let seconds = outcome.took.as_secs_f64().max(1e-9);
    let optional =
        |value: Option<f64>, digits| value.map_or(Value::Null, |value| rounded(value, digits));
    let each = |cpu: f64| cpu * 1e6 / outcome.connected.max(1) as f64;
    let mut rows: Rows = vec![
        ("connections", json!(plan.connections)),
        ("connected", json!(outcome.connected)),
        ("alive_after_hold", json!(outcome.alive)),
        (
            "connections_per_second",
            rounded(outcome.connected as f64 / seconds, 0),
        ),
        ("handshake_p50_us", microseconds(outcome.handshake.at(0.5))),
        ("handshake_p99_us", microseconds(outcome.handshake.at(0.99))),
        ("handshake_max_us", microseconds(outcome.handshake.max())),
        (
            "broker_cpu_us_per_connection",
            optional(outcome.broker_cpu_seconds.map(each), 1),
        ),
        (
            "broker_idle_cpu_seconds",
            optional(outcome.idle_cpu_seconds, 4),
        ),
        (
            "broker_resident_bytes_per_connection",
            optional(outcome.resident_each, 0),
        ),
    ];
    failures(&mut rows, &outcome.failures);
    rows
}

/// Rows of `courser bench retained` and `courser bench absent`.
pub(super) fn stored_rows(kind: &'static str, outcome: &StoredOutcome) -> Rows {
    let rate = |phase: &courser_client::load::Phase| {
        rounded(
            phase.messages as f64 / phase.took.as_secs_f64().max(1e-9),
            0,
        )
    };
    let cpu = |phase: &courser_client::load::Phase| {
        phase
            .broker_cpu_seconds_per_million
            .map_or(Value::Null, |cpu| rounded(cpu, 4))
    };
    vec![
        ("kind", json!(kind)),
        ("stored", json!(outcome.stored.messages)),
        ("stored_per_second", rate(&outcome.stored)),
        (
            "stored_broker_cpu_seconds_per_million",
            cpu(&outcome.stored),
        ),
        ("replayed", json!(outcome.replayed.messages)),
        ("replayed_per_second", rate(&outcome.replayed)),
        (
            "replayed_broker_cpu_seconds_per_million",
            cpu(&outcome.replayed),
        ),
        ("lost", json!(outcome.lost)),
        ("wrong", json!(outcome.wrong)),
    ]
}

fn failures(rows: &mut Rows, failures: &[String]) {
    rows.push(("failures", json!(failures.len())));
    if !failures.is_empty() {
        rows.push((
            "first_failures",
            json!(failures.iter().take(3).collect::<Vec<_>>()),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_has_one_header_and_quotes_what_needs_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("r.csv");
        let rows: Rows = vec![("label", json!("a,\"b\"")), ("sent", json!(3))];
        append_csv(&file, &rows).expect("written");
        append_csv(&file, &rows).expect("written");
        let text = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(text, "label,sent\n\"a,\"\"b\"\"\",3\n\"a,\"\"b\"\"\",3\n");
    }

    #[test]
    fn a_timeline_has_a_line_for_each_acknowledgement() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("t.csv");
        let one = |at_unix_ns, took_ns| Acknowledged {
            at_unix_ns,
            took_ns,
        };
        write_timeline(&file, &[one(7, 2), one(9, 3)]).expect("written");
        let text = std::fs::read_to_string(&file).expect("a file");
        assert_eq!(text, "at_unix_ns,took_ns\n7,2\n9,3\n");
    }

    #[test]
    fn a_table_lines_up() {
        assert_eq!(
            table(&vec![("a", json!(1)), ("long", json!("x"))]),
            "a     1\nlong  x\n"
        );
    }
}
