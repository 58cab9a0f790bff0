//! What a start has found in the log.

use std::fmt;
use std::time::Duration;

use courser_log::RecoveryReport;

/// What was read of the log, and what is to be applied of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundInLog {
    pub(super) report: RecoveryReport,
    /// Entries behind the checkpoints of their partitions.
    pub(super) behind: u64,
    /// How long it took.
    pub(super) took: Duration,
}

impl FoundInLog {
    /// Its numbers with their names.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let report = &self.report;
        let cut = report.cut.map_or((0, 0), |cut| (cut.batches, cut.bytes));
        vec![
            ("segments", report.segments),
            ("batches", report.batches),
            ("entries", report.entries),
            ("bytes", report.bytes),
            ("segments_not_read", report.passed_segments),
            ("bytes_not_read", report.passed_bytes),
            ("cut_batches", cut.0),
            ("cut_bytes", cut.1),
            ("dropped_pieces", report.orphan_pieces),
            ("damaged_places", report.damages.len() as u64),
            ("entries_to_apply", self.behind),
            ("read_ms", self.took_ms()),
        ]
    }

    fn took_ms(&self) -> u64 {
        u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for FoundInLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { report, behind, .. } = self;
        let took = self.took_ms();
        write!(f, "{report}, {behind} entries to apply, read in {took} ms")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever people are told, programs are told too.
    #[test]
    fn each_number_of_the_words_has_a_name() {
        let mut report = RecoveryReport::default();
        (report.segments, report.batches) = (3, 5);
        (report.entries, report.bytes) = (7, 1_009);
        (report.passed_segments, report.passed_bytes) = (11, 1_013);
        report.orphan_pieces = 13;
        let found = FoundInLog {
            report,
            behind: 17,
            took: Duration::from_millis(1_019),
        };
        let counters = found.counters();
        for number in found.to_string().split(|it: char| !it.is_ascii_digit()) {
            if let Ok(number) = number.parse::<u64>() {
                assert!(counters.iter().any(|it| it.1 == number), "{number}");
            }
        }
    }
}
