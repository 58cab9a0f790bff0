//! The table at the end of a run: what failed and what did not run by name, a line for each check and step, then the counts alone
//! on the last line.

use crate::counts::{Counts, Tests};
use crate::process::worked_seconds;
use crate::skips;
use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::Instant;

/// What a step came to.
pub(crate) enum Outcome {
    /// Tests ran.
    Counted(Tests),
    /// It held; there was nothing to count, and this is what to say.
    Held(String),
    /// It did not run, and why: listed at the end with the tests that did not.
    NotRun(String),
    /// A part of it held, and another one did not run.
    Partly { held: String, not_run: String },
}

impl Outcome {
    /// Of a script that says in lines what held (`held: …`) and what did not run (`not run: …`).
    ///
    /// # Errors
    /// When it says neither.
    pub(crate) fn said_by(script: &str) -> Result<Self> {
        let said = |what: &str| -> Option<String> {
            let mut lines = script.lines();
            lines.find_map(|line| line.trim().strip_prefix(what).map(str::to_owned))
        };
        match (said("held: "), said("not run: ")) {
            (Some(held), Some(not_run)) => Ok(Self::Partly { held, not_run }),
            (Some(held), None) => Ok(Self::Held(held)),
            (None, Some(not_run)) => Ok(Self::NotRun(not_run)),
            (None, None) => bail!("it says neither what held nor what did not run"),
        }
    }
}

/// Collects what ran.
#[derive(Default)]
pub(crate) struct Report {
    lines: Vec<String>,
    /// Tests that failed, behind their step, and checks that did not hold.
    failed: Vec<String>,
    /// Tests that did not run, with the reason, behind their step.
    skipped: Vec<String>,
    /// Those of them that should have run.
    unexcused: Vec<String>,
    total: Counts,
    checks_failed: bool,
}

impl Report {
    /// Runs a check that is no test: it holds or it does not.
    pub(crate) fn check(&mut self, name: &str, run: impl FnOnce() -> Result<()>) {
        let failed = self.timed(
            name,
            || run().map(|()| "holds".to_owned()),
            |_| "FAILED".to_owned(),
        );
        if failed {
            self.failed.push(format!("{name}: it does not hold"));
        }
        self.checks_failed |= failed;
    }

    /// Runs tests. A run that ends with an error counts as a failed test.
    pub(crate) fn tests(&mut self, name: &str, run: impl FnOnce() -> Result<Outcome>) {
        let mut tests = Tests::default();
        let say = |outcome: Outcome, tests: &mut Tests| match outcome {
            Outcome::Counted(found) => {
                *tests = found;
                match tests.counts.skipped {
                    0 => tests.counts.to_string(),
                    skipped => format!("{}, {skipped} skipped", tests.counts),
                }
            }
            Outcome::Held(text) => text,
            Outcome::NotRun(why) => {
                tests.skipped.push(why.clone());
                format!("not run: {why}")
            }
            Outcome::Partly { held, not_run } => {
                tests.skipped.push(not_run.clone());
                format!("{held}; not run: {not_run}")
            }
        };
        let failed = self.timed(
            name,
            || run().map(|outcome| say(outcome, &mut tests)),
            |error| format!("FAILED: {error:#}"),
        );
        if failed {
            tests.counts.ensure_failed();
        }
        self.total += tests.counts;
        let of_step = |tests: &[String]| -> Vec<String> {
            tests.iter().map(|test| format!("{name}: {test}")).collect()
        };
        self.failed.extend(of_step(&tests.failed));
        self.skipped.extend(of_step(&tests.skipped));
    }

    fn timed(
        &mut self,
        name: &str,
        run: impl FnOnce() -> Result<String>,
        failure: impl FnOnce(&anyhow::Error) -> String,
    ) -> bool {
        println!("\n=== {name}");
        let (start, worked) = (Instant::now(), worked_seconds());
        let result = run();
        let seconds = start.elapsed().as_secs_f64();
        // On several cores it may be more.
        let worked = worked_seconds() - worked;
        let text = match &result {
            Ok(text) => text.clone(),
            Err(error) => {
                println!("{name}: {error:#}");
                failure(error)
            }
        };
        self.lines.push(format!(
            "{name:<14}{seconds:>8.1} s {worked:>8.1} s of CPU   {text}"
        ));
        result.is_err()
    }

    /// What did not run and has no excuse fails the run.
    pub(crate) fn judge_skipped(&mut self) {
        let skipped = self.skipped.iter();
        let unexcused = skipped.filter(|named| !skips::is_excused(named));
        self.unexcused = unexcused.cloned().collect();
        self.checks_failed |= !self.unexcused.is_empty();
    }

    /// What failed and what did not run, the table and the counts.
    fn text(&self) -> String {
        let mut text = String::new();
        for (title, tests) in [
            ("skipped", &self.skipped),
            (
                "skipped without an excuse (xtask/src/skips.rs), which fails the run",
                &self.unexcused,
            ),
            ("failed", &self.failed),
        ] {
            if !tests.is_empty() {
                text += &format!("\n{title}:\n  {}\n", tests.join("\n  "));
            }
        }
        text + &format!("\n{}\n\n{}", self.lines.join("\n"), self.total)
    }

    /// Prints what there is to say.
    pub(crate) fn finish(self) -> ExitCode {
        println!("{}", self.text());
        if self.checks_failed || self.total.failed > 0 {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Outcome, Report};
    use crate::counts::{Counts, Tests};
    use anyhow::bail;
    use std::process::ExitCode;

    fn code(run: impl FnOnce(&mut Report)) -> String {
        let mut report = Report::default();
        run(&mut report);
        format!("{:?}", report.finish())
    }

    #[test]
    fn anything_that_fails_fails_the_run() {
        let good = format!("{:?}", ExitCode::SUCCESS);
        let bad = format!("{:?}", ExitCode::FAILURE);
        let counted = |passed, failed| {
            let counts = Counts {
                passed,
                failed,
                ..Counts::default()
            };
            let tests = Tests {
                counts,
                ..Tests::default()
            };
            move || Ok(Outcome::Counted(tests))
        };
        assert_eq!(code(|report| report.tests("unit", counted(3, 0))), good);
        assert_eq!(code(|report| report.tests("unit", counted(3, 1))), bad);
        assert_eq!(
            code(|report| report.tests("unit", || bail!("does not build"))),
            bad
        );
        assert_eq!(code(|report| report.check("format", || Ok(()))), good);
        assert_eq!(
            code(|report| {
                report.check("format", || bail!("not formatted"));
                report.tests("unit", counted(3, 0));
            }),
            bad,
        );
    }

    /// A run without failed tests may fail by a check alone.
    #[test]
    fn a_check_that_does_not_hold_is_named_at_the_end() {
        let mut report = Report::default();
        report.check("format", || Ok(()));
        report.check("documentation", || bail!("a link leads nowhere"));
        let text = report.text();
        let listed = "\nfailed:\n  documentation: it does not hold\n";
        assert!(text.contains(listed), "{text}");
    }

    #[test]
    fn a_test_that_did_not_run_is_named_at_the_end() {
        let mut report = Report::default();
        report.tests("e2e", || {
            let mut tests = Tests::default();
            tests.take_line("SKIPPED [1] test_disk.py:28: strace is not installed");
            tests.take_line("==== 3 passed, 1 skipped in 0.10s ====");
            Ok(Outcome::Counted(tests))
        });
        report.tests("fuzz", || Ok(Outcome::NotRun("no nightly".to_owned())));
        let text = report.text();
        let listed =
            "skipped:\n  e2e: [1] test_disk.py:28: strace is not installed\n  fuzz: no nightly\n";
        assert!(text.contains(listed), "{text}");
        assert!(text.contains("3 passed, 0 failed, 1 skipped\n"), "{text}");
        assert_eq!(text.lines().last(), Some("3 passed, 0 failed"));
    }

    #[test]
    fn what_did_not_run_without_an_excuse_fails_a_run_of_ci() {
        let with = |why: &str| {
            let mut report = Report::default();
            report.tests("deny", || Ok(Outcome::NotRun(why.to_owned())));
            report.judge_skipped();
            (report.text(), format!("{:?}", report.finish()))
        };
        let (text, code) = with("advisories, whose database is not here");
        assert_eq!(code, format!("{:?}", ExitCode::SUCCESS), "{text}");
        let (text, code) = with("cargo-deny 0.20.2 cannot be installed here");
        assert_eq!(code, format!("{:?}", ExitCode::FAILURE), "{text}");
        let listed = "which fails the run:\n  deny: cargo-deny 0.20.2 cannot be installed here\n";
        assert!(text.contains(listed), "{text}");
    }

    /// What nobody has checked is never among what held.
    #[test]
    fn a_part_that_did_not_run_is_named_beside_what_held() {
        let mut report = Report::default();
        report.tests("deny", || {
            Outcome::said_by(
                "noise\nheld: licences are fine\nnot run: advisories, without a database\n",
            )
        });
        report.tests("bare", || Outcome::said_by("not run: no cargo-deny\n"));
        report.tests("full", || Outcome::said_by("held: all is fine\n"));
        let text = report.text();
        let listed = "skipped:\n  deny: advisories, without a database\n  bare: no cargo-deny\n";
        assert!(text.contains(listed), "{text}");
        for line in [
            "licences are fine; not run: advisories, without a database\n",
            "not run: no cargo-deny\n",
            "   all is fine\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(Outcome::said_by("it ended well\n").is_err());
    }
}
