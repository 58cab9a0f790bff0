//! Counting tests from what test runners print, and the names of those that failed or did not run.

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::AddAssign;

/// How many tests passed and failed, and how many the runner left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// For a run that failed: at least one failure.
    pub(crate) fn ensure_failed(&mut self) {
        self.failed = self.failed.max(1);
    }
}

/// What ran: how many, which of them failed and which were left out, so that the end of a long run says what to look at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tests {
    pub(crate) counts: Counts,
    /// As the runner names them, where it does.
    pub(crate) failed: Vec<String>,
    /// With the reason that the runner says: a test that nobody runs proves nothing.
    pub(crate) skipped: Vec<String>,
}

impl Tests {
    /// Adds what a line reports, if it is the result line of cargo's test runner or the last line of pytest, or names a
    /// test that failed or was left out.
    pub(crate) fn take_line(&mut self, line: &str) {
        if let Some(found) = cargo_line(line).or_else(|| pytest_line(line)) {
            self.counts += found;
        } else if let Some(name) = failed_test(line) {
            self.failed.push(name.to_owned());
        } else if let Some(named) = skipped_test(line) {
            self.skipped.push(named);
        }
    }

    /// One more test.
    pub(crate) fn take(&mut self, name: &str, passed: bool) {
        if passed {
            self.counts.passed += 1;
        } else {
            self.counts.failed += 1;
            self.failed.push(name.to_owned());
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// Without those that were left out: the last line of a run has these two numbers and nothing else.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// `test result: ok. 26 passed; 0 failed; 0 ignored; …`
fn cargo_line(line: &str) -> Option<Counts> {
    let (_, counts) = line
        .trim()
        .strip_prefix("test result: ")?
        .split_once(". ")?;
    Some(sum(counts.split(';')))
}

/// `test engine::tests::order ... FAILED` of cargo, or `FAILED test_qos.py::test_order - …` and `ERROR …` of pytest.
fn failed_test(line: &str) -> Option<&str> {
    let line = line.trim();
    let of_cargo = || line.strip_prefix("test ")?.strip_suffix(" ... FAILED");
    let of_pytest = || {
        let named = line
            .strip_prefix("FAILED ")
            .or_else(|| line.strip_prefix("ERROR "))?;
        named.contains(".py").then_some(named)
    };
    of_cargo().or_else(of_pytest)
}

/// `test engine::bench::walk ... ignored, takes seconds` of cargo, or `SKIPPED [1] test_disk.py:28: strace is not installed` of
/// pytest: in the words of the runner, but for the ornaments.
fn skipped_test(line: &str) -> Option<String> {
    let line = line.trim();
    let of_cargo = || {
        let (name, why) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
        Some(format!("{name}{}", why.replacen(',', ":", 1)))
    };
    let of_pytest = || {
        let named = line.strip_prefix("SKIPPED ")?;
        named.contains(".py").then(|| named.to_owned())
    };
    of_cargo().or_else(of_pytest)
}

/// `=== 2 failed, 12 passed, 1 skipped in 3.21s (0:00:03) ===`, with or without the signs around it.
fn pytest_line(line: &str) -> Option<Counts> {
    let line = line.trim().trim_matches('=').trim();
    let (counts, time) = line.rsplit_once(" in ")?;
    let seconds = time.split(' ').next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    let numbered = |part: &str| {
        part.trim()
            .split_once(' ')
            .is_some_and(|(number, _)| number.parse::<u64>().is_ok())
    };
    counts
        .split(',')
        .all(numbered)
        .then(|| sum(counts.split(',')))
}

/// Adds up parts such as `12 passed`. An error outside of a test counts as a failure.
fn sum<'a>(parts: impl Iterator<Item = &'a str>) -> Counts {
    let mut counts = Counts::default();
    for part in parts {
        let Some((number, word)) = part.trim().split_once(' ') else {
            continue;
        };
        let number: u64 = number.parse().unwrap_or(0);
        match word {
            "passed" => counts.passed += number,
            "failed" | "error" | "errors" => counts.failed += number,
            "skipped" | "ignored" => counts.skipped += number,
            _ => {}
        }
    }
    counts
}
