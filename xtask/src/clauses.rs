//! `cargo xtask clauses`: which numbered statements of the MQTT standards a test names.
//!
//! `docs/mqtt-clauses.tsv` lists all of them. Those that bind a server (`server`, `both`) count; one is named when its
//! literal tag, `v3 [MQTT-1.5.3-1]` or `v5 [MQTT-1.5.3-1]`, is in test code. Fuzz targets do not count: they have no
//! expectation about one statement.

#[cfg(test)]
mod tests;

use crate::repo::{Repo, TextFile};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;

/// Share of the statements that tests must name. It only goes up.
const REQUIRED_PERCENT: f64 = 95.0;

/// A statement that binds a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Clause {
    /// As a test names it.
    tag: String,
    rule: String,
}

/// Prints the report.
///
/// # Errors
/// When tests name less than [`REQUIRED_PERCENT`].
pub(crate) fn run(repo: &Repo) -> Result<()> {
    let files = repo.text_files()?;
    let table = files
        .iter()
        .find(|file| file.path == "docs/mqtt-clauses.tsv")
        .context("docs/mqtt-clauses.tsv is missing")?;
    let clauses = parse(&table.text)?;
    let tests: Vec<&str> = files.iter().filter_map(test_code).collect();
    let named = tags(&tests);
    let missing: Vec<&Clause> = clauses
        .iter()
        .filter(|clause| !named.contains(&clause.tag))
        .collect();
    for clause in &missing {
        println!("{}  {}", clause.tag, clause.rule);
    }
    let percent = 100.0 * (clauses.len() - missing.len()) as f64 / clauses.len() as f64;
    println!(
        "{} of {} statements that bind a server are named by a test: {percent:.1} %, at least {REQUIRED_PERCENT} % required",
        clauses.len() - missing.len(),
        clauses.len(),
    );
    if let Some(tag) = named.iter().find(|tag| !known(&table.text, tag)) {
        bail!("a test names {tag}, which is in neither standard");
    }
    if percent < REQUIRED_PERCENT {
        bail!("too few statements are named by tests");
    }
    Ok(())
}

fn tag(version: &str, id: &str) -> Option<String> {
    match version {
        "3.1.1" => Some(format!("v3 [{id}]")),
        "5.0" => Some(format!("v5 [{id}]")),
        _ => None,
    }
}

/// The statements that bind a server.
fn parse(table: &str) -> Result<Vec<Clause>> {
    let mut clauses = Vec::new();
    for line in table
        .lines()
        .skip(1)
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        let columns: Vec<&str> = line.split('\t').collect();
        let [version, id, binds, rule] = columns[..] else {
            bail!("not four columns: {line}")
        };
        let tag = tag(version, id).with_context(|| format!("unknown version: {line}"))?;
        match binds {
            "server" | "both" => clauses.push(Clause {
                tag,
                rule: rule.to_owned(),
            }),
            "client" => {}
            _ => bail!("unknown side: {line}"),
        }
    }
    if clauses.is_empty() {
        bail!("the table of statements is empty");
    }
    Ok(clauses)
}

/// Whether any row of the table, also one that binds clients, has this tag.
fn known(table: &str, wanted: &str) -> bool {
    table.lines().any(|line| {
        let mut columns = line.split('\t');
        match (columns.next(), columns.next()) {
            (Some(version), Some(id)) => tag(version, id).is_some_and(|tag| tag == wanted),
            _ => false,
        }
    })
}

/// The part of a file that is test code: all of it in test folders, `#[cfg(test)]` modules elsewhere.
fn test_code(file: &TextFile) -> Option<&str> {
    let path = file.path.as_str();
    if path.starts_with("fuzz/")
        || path.starts_with("docs/")
        || path.starts_with("xtask/")
        || path.ends_with(".md")
    {
        return None;
    }
    if path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs") {
        return Some(&file.text);
    }
    if !path.ends_with(".rs") {
        return None;
    }
    // Such a module stands at the end of its file (clippy: items_after_test_module).
    let module = file.text.find("#[cfg(test)]\nmod tests {")?;
    Some(&file.text[module..])
}

/// Every tag in these texts.
fn tags(texts: &[&str]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for text in texts {
        for version in ["v3 [MQTT-", "v5 [MQTT-"] {
            for (at, _) in text.match_indices(version) {
                if let Some(end) = text[at..].find(']') {
                    found.insert(text[at..=at + end].to_owned());
                }
            }
        }
    }
    found
}
