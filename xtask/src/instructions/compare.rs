//! Recorded counts against new ones.

#[cfg(test)]
mod tests;

use super::measure::{Case, Counted};
use crate::counts::Tests;
use std::collections::BTreeSet;
use std::fmt;

/// How much a count may grow before somebody has to say so.
const GROWTH_PERCENT: u64 = 3;

/// What became of the cases.
#[derive(Debug)]
pub(super) struct Comparison {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    case: Case,
    change: Change,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Recorded and counted.
    Both { old: u64, new: u64 },
    /// Not recorded yet.
    Added { new: u64 },
    /// Recorded, but there is no such case any more.
    Gone { old: u64 },
}

impl Change {
    /// Whether somebody has to look at it and record it.
    fn fails(self) -> bool {
        match self {
            Self::Both { old, new } => grew(old, new),
            Self::Added { .. } | Self::Gone { .. } => true,
        }
    }
}

/// Whether `new` is above `old` by more than [`GROWTH_PERCENT`].
fn grew(old: u64, new: u64) -> bool {
    new.saturating_mul(100) > old.saturating_mul(100 + GROWTH_PERCENT)
}

impl Comparison {
    pub(super) fn new(recorded: &Counted, counted: &Counted) -> Self {
        let cases: BTreeSet<&Case> = recorded.keys().chain(counted.keys()).collect();
        let row = |case: &Case| {
            let change = match (recorded.get(case), counted.get(case)) {
                (Some(&old), Some(&new)) => Change::Both { old, new },
                (None, Some(&new)) => Change::Added { new },
                (Some(&old), None) => Change::Gone { old },
                (None, None) => unreachable!("the case is from one of them"),
            };
            Row {
                case: case.clone(),
                change,
            }
        };
        Self {
            rows: cases.into_iter().map(row).collect(),
        }
    }

    /// The same with a second count where that is less: what a lock or a clock added to one of them is not of the code.
    pub(super) fn or_least(recorded: &Counted, first: &Counted, second: &Counted) -> Self {
        let mut least = first.clone();
        for (case, count) in &mut least {
            *count = second
                .get(case)
                .map_or(*count, |again| (*again).min(*count));
        }
        Self::new(recorded, &least)
    }

    /// How many cases grew too much, are not recorded, or are gone.
    pub(super) fn failed(&self) -> u64 {
        self.rows.iter().filter(|row| row.change.fails()).count() as u64
    }

    /// Each case as a test; those that failed with their counts.
    pub(super) fn tests(&self) -> Tests {
        let mut tests = Tests::default();
        for row in &self.rows {
            tests.take(&row.to_string(), !row.change.fails());
        }
        tests
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<44}{:>10}{:>10}", "instructions", "recorded", "now")?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        match self.failed() {
            0 => write!(f, "none grew by more than {GROWTH_PERCENT} %"),
            failed => write!(
                f,
                "{failed} grew by more than {GROWTH_PERCENT} %, or are new or gone: make them cheaper, or record them \
                 with `cargo xtask instructions --bless` and say why in the commit"
            ),
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.case.to_string();
        match self.change {
            Change::Both { old, new } => {
                let percent = 100.0 * (new as f64 - old as f64) / old.max(1) as f64;
                let verdict = if self.change.fails() { "  GREW" } else { "" };
                write!(f, "{name:<44}{old:>10}{new:>10}{percent:>+8.1} %{verdict}")
            }
            Change::Added { new } => write!(f, "{name:<44}{:>10}{new:>10}  NOT RECORDED", "-"),
            Change::Gone { old } => write!(f, "{name:<44}{old:>10}{:>10}  GONE", "-"),
        }
    }
}
