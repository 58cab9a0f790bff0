//! The words that lines of the log have as `event`: those of the code and those of `docs/reference/events.md` are the same, with the
//! same levels, so that nobody who looks for one finds it renamed.

#[cfg(test)]
mod tests;

use crate::repo::TextFile;
use std::collections::{BTreeMap, BTreeSet};

/// The page.
const PAGE: &str = "docs/reference/events.md";
/// The level of a word that is written without a macro and stands elsewhere.
const ANY_LEVEL: &str = "";
/// What stands before the word where a line is written, and its level; none: that of the macro.
const WRITERS: [(&str, Option<&str>); 3] = [
    ("event = \"", None),
    ("Said::new(\"", Some("info")),
    ("fields.add(\"event\", \"", Some(ANY_LEVEL)),
];

/// Words with their levels.
type Events<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// A line for each word that is in one of the two only, or has another level.
pub(super) fn unlike(files: &[TextFile]) -> Vec<String> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![format!("{PAGE}: is not there")];
    };
    let said = of_page(&page.text);
    let code: Vec<String> = files.iter().filter(|it| is_code(it)).map(joined).collect();
    let mut written = Events::new();
    for text in &code {
        of_code(text, &mut written);
    }
    let mut broken = Vec::new();
    for (event, levels) in &written {
        match said.get(event) {
            None => broken.push(format!("{PAGE}: does not say what {event} means")),
            Some(said) if said != levels && !levels.contains(ANY_LEVEL) => {
                broken.push(format!(
                    "{PAGE}: {event} is {said:?}, and {levels:?} in the code"
                ));
            }
            Some(_) => {}
        }
    }
    let gone = said.keys().filter(|event| !written.contains_key(*event));
    broken.extend(gone.map(|event| format!("{PAGE}: nobody writes {event}")));
    broken
}

fn is_code(file: &TextFile) -> bool {
    let path = &file.path;
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && path.contains("/src/")
        && !path.contains("tests")
}

/// The text without the white space that a formatter may put behind an open bracket.
fn joined(file: &TextFile) -> String {
    let mut text = String::with_capacity(file.text.len());
    for line in file.text.lines() {
        let line = line.trim();
        // What is said of a word in a comment is no line of the log.
        if !line.starts_with("//") {
            text.push_str(line);
            text.push(if line.ends_with('(') { '\0' } else { '\n' });
        }
    }
    text.replace('\0', "")
}

fn of_code<'a>(text: &'a str, events: &mut Events<'a>) {
    for (before, level) in WRITERS {
        for (at, _) in text.match_indices(before) {
            let rest = &text[at + before.len()..];
            let Some((event, _)) = rest.split_once('"') else {
                continue;
            };
            let level = level.or_else(|| macro_before(&text[..at]));
            events.entry(event).or_default().extend(level);
        }
    }
}

/// The level of the macro that stands last in a text.
fn macro_before(text: &str) -> Option<&str> {
    let (_, last) = text.rsplit_once("tracing::")?;
    last.split_once('!').map(|(level, _)| level)
}

fn of_page(text: &str) -> Events<'_> {
    let rows = text.lines().filter_map(|line| {
        let (event, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (levels, _) = rest.split_once(" | ")?;
        Some((event, levels.split(", ").collect()))
    });
    rows.collect()
}
