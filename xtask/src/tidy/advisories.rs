//! Every row of `docs/advisories.md` names tests that are there, or says why its input has no place here; what is a test for a CVE bears its
//! number, so that it is the attack and not something near it; and every test that is named for an advisory has its row.

#[cfg(test)]
mod tests;

use crate::repo::TextFile;
use std::collections::BTreeSet;

/// The page.
const PAGE: &str = "docs/advisories.md";
/// How a row begins its reason not to have a test.
const REASON: &str = "Cannot: ";

/// A line for each row and each test that is alone.
pub(super) fn untested(files: &[TextFile]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE}: is not there")];
    };
    let there: BTreeSet<&str> = files.iter().flat_map(functions).collect();
    let mut named = BTreeSet::new();
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(page.text.lines()) {
        let Some(said) = last_column(line) else {
            continue;
        };
        let tests: Vec<&str> = tests_in(said).collect();
        if tests.is_empty() && !said.contains(REASON) {
            broken.push(format!(
                "{PAGE}:{number}: names no test, and does not say \"{REASON}…\""
            ));
        }
        if !said.contains(REASON) && !bears_a_number(line, &tests) {
            broken.push(format!(
                "{PAGE}:{number}: none of its tests has the number of a CVE of the row in its name"
            ));
        }
        let gone = tests.iter().filter(|test| !there.contains(**test));
        broken.extend(gone.map(|test| format!("{PAGE}:{number}: there is no test {test}")));
        named.extend(tests);
    }
    let alone = there.iter().filter(|test| is_of_advisory(test));
    broken.extend(
        alone
            .filter(|test| !named.contains(**test))
            .map(|test| format!("{PAGE}: has no row for {test}")),
    );
    broken
}

/// Names of the functions of tests, in Rust and Python.
fn functions(file: &TextFile) -> impl Iterator<Item = &str> {
    let is_code = ["crates/", "tests/"]
        .iter()
        .any(|folder| file.path.starts_with(folder));
    file.text
        .lines()
        .filter(move |_| is_code)
        .filter_map(|line| {
            let line = line.trim_start();
            let rest = ["fn ", "async fn ", "def "]
                .iter()
                .find_map(|word| line.strip_prefix(word))?;
            rest.split_once('(').map(|(name, _)| name)
        })
}

fn is_of_advisory(test: &str) -> bool {
    test.starts_with("cve_") || test.starts_with("test_cve_")
}

/// What a row of a table says about us; its head and the line below that say nothing.
fn last_column(line: &str) -> Option<&str> {
    let row = line.strip_prefix("| ")?.strip_suffix(" |")?;
    let (_, last) = row.rsplit_once(" | ")?;
    (last != "here").then_some(last)
}

/// Whether one of the tests is named for a CVE of the row, if it has any.
fn bears_a_number(row: &str, tests: &[&str]) -> bool {
    let cves = row.split("CVE-").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '-');
        &rest[..end.unwrap_or(rest.len())]
    });
    let is_for = |test: &str, cve: &str| {
        let mut words = test.split('_').skip_while(|word| *word != "cve");
        cve.split('-')
            .all(|part| words.by_ref().any(|word| word == part))
    };
    let mut cves = cves.peekable();
    cves.peek().is_none() || cves.any(|cve| tests.iter().any(|test| is_for(test, cve)))
}

/// Words between grave accents that can be names of functions.
fn tests_in(said: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        word.contains('_') && word.bytes().all(letter)
    };
    said.split('`').skip(1).step_by(2).filter(is_name)
}
