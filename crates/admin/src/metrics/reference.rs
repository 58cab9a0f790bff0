//! The reference page, made of the table.

use std::fmt::Write as _;

use super::{Kind, METRICS};

/// The page `docs/reference/metrics.md`.
#[must_use]
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Metrics\n\n<!-- Made from crates/admin/src/metrics/table.rs; run: COURSER_BLESS=1 cargo test -p courser-admin reference -->\n\n\
         `GET /metrics` on the addresses of `http.listen` answers in the OpenMetrics text format. From this machine nobody needs a token, \
         from elsewhere the token of the API. Counters begin at 0 when the process starts. Labels have few values: there is never a \
         client id or a topic in them.\n\n| name | type | labels | what |\n|---|---|---|---|\n",
    );
    for metric in METRICS {
        let kind = match metric.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        };
        let labels: Vec<String> = metric
            .labels
            .iter()
            .map(|label| format!("`{label}`"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {kind} | {} | {} |",
            metric.full_name(),
            labels.join(", "),
            metric.help
        );
    }
    page
}
