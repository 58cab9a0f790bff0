//! The reference page, made of the table.

use std::fmt::Write as _;

use super::detailed::SHAPES;
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
    detailed(&mut page);
    page
}

fn detailed(page: &mut String) {
    page.push_str(
        "\n## Single clients, sessions and listeners\n\n\
         `GET /metrics/detailed?family=FAMILY` gives these gauges; `filter=FIELD=PATTERN` (as `courser client list --filter` and `courser \
         session list --filter` have them), `sort`, `limit` (10000, or as many as fill a page) and `cursor` say of whom. It needs the token of the API, also from this \
         machine, since client ids and user names stand in its labels. `courser_detailed_whole` is 0 when there are more: the header `Link` has the \
         cursor of the next page.\n\n| family | name | labels | what |\n|---|---|---|---|\n",
    );
    for shape in SHAPES {
        let labels: Vec<String> = shape.labels.iter().map(|it| format!("`{it}`")).collect();
        for figure in shape.figures {
            let _ = writeln!(
                page,
                "| `{}` | `courser_{}{}` | {} | {} |",
                shape.family,
                figure.name,
                figure.of.word(),
                labels.join(", "),
                figure.help
            );
        }
    }
}
