//! The file with the recorded counts.

#[cfg(test)]
mod tests;

use super::environment::Environment;
use super::measure::{Case, Counted};
use anyhow::{Context, Result};
use std::fmt::Write;
use toml::{Table, Value};

const HEAD: &str = "\
# Instructions of each benchmark case, by crate and operation, counted by valgrind. `cargo xtask instructions` counts
# again and fails when one grew by more than 3 %; with `--bless` it writes the file of its processor. The commit says why one grew.
";
const ENVIRONMENT: &str = "environment";

/// Counts, and what they were made with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) environment: Environment,
    pub(super) counts: Counted,
}

impl Record {
    /// Reads what [`Record::text`] wrote.
    ///
    /// # Errors
    /// When it is not such a file.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut crates: Table = text.parse().context("the record is TOML")?;
        let environment = crates
            .remove(ENVIRONMENT)
            .context("the record says what it was made with")?;
        let of = |name: &str| {
            let text = environment.get(name).and_then(Value::as_str);
            text.map(str::to_owned)
                .with_context(|| format!("the record says its {name}"))
        };
        let environment = Environment {
            rustc: of("rustc")?,
            valgrind: of("valgrind")?,
            libc: of("libc")?,
            cpu: of("cpu")?,
        };
        let mut counts = Counted::new();
        for (crate_name, operations) in &crates {
            for (operation, cases) in table(operations, crate_name)? {
                for (name, count) in table(cases, operation)? {
                    let count = count.as_integer().and_then(|count| count.try_into().ok());
                    let case = Case {
                        crate_name: crate_name.clone(),
                        operation: operation.clone(),
                        name: name.clone(),
                    };
                    let count = count.with_context(|| format!("{case} has a count"))?;
                    counts.insert(case, count);
                }
            }
        }
        Ok(Self {
            environment,
            counts,
        })
    }

    /// The file.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{HEAD}\n[{ENVIRONMENT}]\n");
        let line = |text: &mut String, line: std::fmt::Arguments<'_>| {
            text.write_fmt(line).expect("a string takes all text");
        };
        for (name, value) in self.environment.named() {
            // Versions are plain words: quoted as in Rust they are quoted as in TOML.
            line(&mut text, format_args!("{name} = {value:?}\n"));
        }
        let mut section = ("", "");
        for (case, count) in &self.counts {
            if section != (case.crate_name.as_str(), case.operation.as_str()) {
                section = (&case.crate_name, &case.operation);
                line(&mut text, format_args!("\n[{}.{}]\n", section.0, section.1));
            }
            line(&mut text, format_args!("{} = {count}\n", case.name));
        }
        text
    }
}

fn table<'a>(value: &'a Value, name: &str) -> Result<&'a Table> {
    value
        .as_table()
        .with_context(|| format!("{name} is a table in the record"))
}
