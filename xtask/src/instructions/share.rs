//! What the two latency histograms cost of the path of a message: less than a hundredth.

use super::measure::{Case, Counted};
use anyhow::{Context, Result};
use std::fmt;

/// Publishes of a turn in the benchmarks of partition and histograms.
const TURN: u64 = 100;

/// What one publish of QoS 1 to one session costs where it is parsed and encoded: the publish, and what is sent of it.
const OF_ONE: [(&str, &str, &str); 2] = [
    ("mqtt", "parse_publish", "v5_qos1"),
    ("mqtt", "encode_publish", "v5_qos1"),
];

fn count(counts: &Counted, crate_name: &str, operation: &str, name: &str) -> Result<u64> {
    let case = Case {
        crate_name: crate_name.to_owned(),
        operation: operation.to_owned(),
        name: name.to_owned(),
    };
    let count = counts.get(&case).copied();
    count.with_context(|| format!("{case} is counted"))
}

/// Instructions of the histograms in one turn, and of the path beside them: codec and partition alone, so that what sockets, rings and
/// timers cost is not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    histograms: u64,
    path: u64,
}

impl Share {
    /// Out of what was counted.
    ///
    /// # Errors
    /// When one of the cases was not.
    pub(super) fn of(counts: &Counted) -> Result<Self> {
        let mut path = count(counts, "engine", "publish_turn", "qos1_to_1")?;
        for (crate_name, operation, name) in OF_ONE {
            path += TURN * count(counts, crate_name, operation, name)?;
        }
        Ok(Self {
            histograms: count(counts, "broker", "latency_turn", "of_100_publishes")?,
            path,
        })
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histograms, path } = self;
        let percent = *histograms as f64 * 100.0 / *path as f64;
        write!(
            f,
            "latency histograms: {histograms} instructions a turn, {percent:.2} % of {path}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Record;
    use super::*;

    #[test]
    fn the_histograms_cost_less_than_a_hundredth_of_the_path() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../bench/instructions");
        let files = std::fs::read_dir(folder).expect("the records are there");
        let mut looked_at = 0;
        for file in files {
            let path = file.expect("a folder can be read").path();
            let text = std::fs::read_to_string(&path).expect("a record can be read");
            let record = Record::parse(&text).expect("it is a record");
            let share = Share::of(&record.counts).expect("all is counted");
            let path = path.display();
            assert!(share.histograms > 0, "{path}: {share}");
            assert!(share.histograms * 100 < share.path, "{path}: {share}");
            looked_at += 1;
        }
        assert!(looked_at > 0, "there is a record");
    }
}
