//! Tables for people, JSON for programs. What a client has named itself cannot move a terminal's cursor: everything that is not
//! plain text is escaped.
//!
//! A JSON document is one object, whatever the verb: one thing is that thing, as the API has it, and what there may be several of stands in
//! `items`, as in the API. A listing has `next` beside it, behind which there is more, or null. Lines have the same objects without that frame.

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use crate::cli::exit::Exit;
use crate::cli::headings;
pub(super) use crate::cli::plain::plain;
use crate::cli::plain::plain_json;
use crate::cli::{Reader, write};

/// Form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A table for people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
}

/// The flag for it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct OutputFlags {
    /// Form of the output; names of fields are those of the API
    #[arg(short = 'o', long, value_enum, default_value_t, value_name = "FORM", help_heading = headings::OUTPUT)]
    output: Output,
}

impl OutputFlags {
    /// What was chosen.
    pub(crate) const fn output(&self) -> Output {
        self.output
    }
}

/// Says something; a closed pipe is the reader's way to say that it is enough.
///
/// # Errors
/// How the command ends when not all can be written.
pub(crate) fn say(text: &str) -> Result<(), Exit> {
    write(text.as_bytes()).map(|_| ())
}

/// The same of what has no end of its own.
///
/// # Errors
/// As of [`say`]; and the command is done when nobody reads any more.
pub(super) fn say_on(text: &str) -> Result<(), Exit> {
    match write(text.as_bytes())? {
        Reader::There => Ok(()),
        Reader::Gone => Err(Exit::Done),
    }
}

/// Letters of the longest cell: whoever names itself with a thousand of them makes no line of others so long.
const CELL_LETTERS_MAX: usize = 100;

/// A cell that is not too long, and says so where it was. JSON has all of it.
fn cut(text: String) -> String {
    match text.char_indices().nth(CELL_LETTERS_MAX) {
        None => text,
        Some(_) => {
            let kept = text.chars().take(CELL_LETTERS_MAX - 1);
            kept.chain(['…']).collect()
        }
    }
}

/// A value in a table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) if text.is_empty() => "\"\"".to_owned(),
        Value::String(text) => plain(text),
        Value::Number(number) => number.to_string(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => joined(items.iter().map(cell)),
        Value::Object(fields) if fields.is_empty() => "-".to_owned(),
        Value::Object(fields) => joined(
            fields
                .iter()
                .map(|(name, value)| format!("{}={}", plain(name), cell(value))),
        ),
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    parts.collect::<Vec<_>>().join(", ")
}

impl Output {
    /// Says some rows, of which there may be none. The table has these columns, JSON has all fields.
    ///
    /// # Errors
    /// As of [`say`].
    pub(crate) fn rows(self, rows: &[Value], columns: &[&str]) -> Result<(), Exit> {
        say(&self.text_of_rows(rows, columns))
    }

    /// Says what was or would be done: for people a sentence a line, of the fields `done` and `what`.
    ///
    /// # Errors
    /// As of [`say`].
    pub(crate) fn deeds(self, deeds: &[Value]) -> Result<(), Exit> {
        let sentence = |deed: &Value| format!("{} {}\n", cell(&deed["done"]), cell(&deed["what"]));
        match self {
            Self::Table => say(&deeds.iter().map(sentence).collect::<String>()),
            Self::Json | Self::Jsonl => self.rows(deeds, &[]),
        }
    }

    /// Says one thing: name and value a line, or JSON.
    ///
    /// # Errors
    /// As of [`say`].
    pub(crate) fn value(self, value: &Value) -> Result<(), Exit> {
        say(&self.text(value))
    }

    /// What [`rows`](Self::rows) says.
    pub(super) fn text_of_rows(self, rows: &[Value], columns: &[&str]) -> String {
        match self {
            Self::Table => table(rows, columns),
            Self::Json => self.text(&json!({"items": rows})),
            Self::Jsonl => rows.iter().map(|row| self.text(row)).collect(),
        }
    }

    /// What [`value`](Self::value) says.
    pub(super) fn text(self, value: &Value) -> String {
        match (self, value.as_object()) {
            (Self::Table, Some(fields)) => {
                let width = fields.keys().map(String::len).max().unwrap_or(0);
                let lines = fields
                    .iter()
                    .map(|(name, value)| format!("{name:width$}  {}\n", cell(value)));
                lines.collect()
            }
            (Self::Table | Self::Jsonl, _) => plain_json(&value.to_string()) + "\n",
            (Self::Json, _) => {
                let json = serde_json::to_string_pretty(value).unwrap_or_default();
                plain_json(&json) + "\n"
            }
        }
    }
}

/// Without frames, so that it can be cut and searched.
fn table(rows: &[Value], columns: &[&str]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(columns.iter().map(|&name| cut(cell(&row[name]))));
    }
    let lines = table.lines().map(|line| line.trim().to_owned() + "\n");
    lines.collect()
}

/// Whether a person is at the other end.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_for_people() {
        for (value, expected) in [
            (
                json!(["127.0.0.1:1883", "[::1]:1883"]),
                "127.0.0.1:1883, [::1]:1883",
            ),
            (
                json!({"connections": 2, "bytes": null}),
                "connections=2, bytes=-",
            ),
            (json!([]), "-"),
            (json!({}), "-"),
            (json!(["a\nb"]), "a\\nb"),
            (json!(null), "-"),
            (json!(false), "no"),
            (json!(7), "7"),
        ] {
            assert_eq!(cell(&value), expected, "{value}");
        }
    }

    #[test]
    fn a_long_name_makes_no_line_of_others_long() {
        let long = "ä".repeat(1024);
        let rows = [json!({"id": long, "n": 1}), json!({"id": "b", "n": 2})];
        let table = table(&rows, &["id", "n"]);
        let widths: Vec<usize> = table.lines().map(|line| line.chars().count()).collect();
        assert!(widths.iter().all(|width| *width < 110), "{widths:?}");
        assert!(
            table.contains(&format!("{}…  1", "ä".repeat(99))),
            "{table}"
        );
        let whole = "b".repeat(CELL_LETTERS_MAX);
        assert_eq!(cut(whole.clone()), whole);
        assert!(
            Output::Jsonl.text_of_rows(&rows, &[]).contains(&long),
            "JSON has all of it"
        );
    }

    #[test]
    fn a_name_cannot_write_on_the_console() {
        for (name, expected) in [
            ("\x1b[2J\x1b]0;owned\x07", "\\u{1b}[2J\\u{1b}]0;owned\\u{7}"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("abc\u{202e}fed", "abc\\u{202e}fed"),
            ("\u{200b}\u{feff}", "\\u{200b}\\u{feff}"),
            ("größe-7", "größe-7"),
        ] {
            assert_eq!(plain(name), expected);
            let table = table(&[json!({"client_id": name})], &["client_id"]);
            assert_eq!(
                table,
                format!("CLIENT_ID\n{expected}\n"),
                "a row stays one line"
            );
        }
        let json = plain_json(&json!({"id": "\u{1b}\u{9b}\u{202e}\u{e0041}"}).to_string());
        assert_eq!(json, r#"{"id":"\u001b\u009b\u202e\udb40\udc41"}"#);
        let back: Value = serde_json::from_str(&json).expect("it is still JSON");
        assert_eq!(back["id"], "\u{1b}\u{9b}\u{202e}\u{e0041}");
    }
}
