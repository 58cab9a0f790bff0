//! The text of a TOML file, and the files that it includes.

use super::draw::{Drawn, Elsewhere, draw};
use super::{Sources, escaped, not_tables, unknown};
use crate::bounded::{NoText, read_text};
use crate::error::Origin;
use crate::list::{Entry, Given, Table};
use crate::table::{SECTIONS, lists};
use crate::value::{Raw, Written};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Most bytes of a file.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Files that include each other, from the first to the last.
const DEPTH_MAX: usize = 8;
/// Files in all.
const FILES_MAX: usize = 256;

/// The key that names other files.
const INCLUDE: &str = "include";

/// A file, for places in it.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    text: &'a str,
    elsewhere: Elsewhere<'a>,
}

impl Place<'_> {
    fn of(self, offset: usize) -> Origin {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin::File {
            name: self.name.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl Sources {
    /// The text of a TOML file. `name` is what errors call it. It cannot include others.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        let elsewhere = self.elsewhere(None);
        self.read_text(Place {
            name,
            text,
            elsewhere,
        });
        self
    }

    /// A TOML file and those that it includes. `flag` is what named it: a file that cannot be read is an error there.
    #[must_use]
    pub fn load(mut self, flag: &str, path: &Path) -> Self {
        self.load_from(path, &Origin::Argument(flag.to_owned()));
        self
    }

    fn load_from(&mut self, path: &Path, named: &Origin) {
        let name = path.display().to_string();
        // One that cannot be found is told below.
        let whole = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if self.reading.contains(&whole) {
            return self.refuse(named.clone(), format!("{name} includes itself"));
        }
        if self.reading.len() == DEPTH_MAX || self.files == FILES_MAX {
            let message = format!(
                "{name} is too much: at most {DEPTH_MAX} files include each other, and {FILES_MAX} are read in all"
            );
            return self.refuse(named.clone(), message);
        }
        let text = match read_text(path, FILE_BYTES_MAX) {
            Ok(text) => text,
            Err(error) => return self.refuse_file(name, named, &error),
        };
        self.files += 1;
        self.read.push(path.to_owned());
        self.reading.push(whole);
        let elsewhere = self.elsewhere(Some(path.parent().unwrap_or(Path::new(""))));
        self.read_text(Place {
            name: &name,
            text: &text,
            elsewhere,
        });
        self.reading.pop();
    }

    /// What cannot be read is wrong where it is named, and what is no text where it is none.
    fn refuse_file(&mut self, name: String, named: &Origin, error: &io::Error) {
        let why = error.get_ref().and_then(|why| why.downcast_ref());
        let Some(&NoText { line, column }) = why else {
            let message = format!("cannot read {}: {error}", escaped(&name));
            return self.refuse(named.clone(), message);
        };
        let origin = Origin::File { name, line, column };
        self.refuse(origin, "it is not valid UTF-8".to_owned());
    }

    fn read_text(&mut self, place: Place<'_>) {
        let (document, errors) = DeTable::parse_recoverable(place.text);
        let mut unplaced = BTreeSet::new();
        for error in errors {
            let span = error.span();
            let start = match &span {
                Some(span) => span.start,
                // The first is looked for; those behind it are found once it is mended.
                None if unplaced.insert(error.message().to_owned()) => {
                    first_of(place.text, error.message())
                }
                None => continue,
            };
            let origin = place.of(start);
            let message = match error.message() {
                "duplicate key" => match span.and_then(|span| place.text.get(span)) {
                    Some(key) => format!("duplicate key {key}"),
                    None => "duplicate key".to_owned(),
                },
                message => message.to_owned(),
            };
            self.refuse(origin, escaped(&message));
        }
        // First of all, so that the file wins over what it includes.
        if let Some(value) = document.get_ref().get(INCLUDE) {
            self.include(place, value);
        }
        for (section, value) in document.get_ref() {
            if section.get_ref() != INCLUDE {
                self.section(place, section, value);
            }
        }
    }

    /// `include = ["other.toml", "folder"]`: of a folder all its `.toml` files by name.
    fn include(&mut self, place: Place<'_>, value: &Spanned<DeValue<'_>>) {
        let at = place.of(value.span().start);
        let Some(folder) = place.elsewhere.folder else {
            return self.refuse_key(INCLUDE, at, "only a file can include others".to_owned());
        };
        let one = std::slice::from_ref(value);
        let names = match value.get_ref() {
            DeValue::Array(names) => &names[..],
            _ => one,
        };
        for name in names {
            let at = place.of(name.span().start);
            let DeValue::String(text) = name.get_ref() else {
                let message = format!("expected a list of files, found {}", shown(name.get_ref()));
                self.refuse_key(INCLUDE, at, message);
                continue;
            };
            let path = folder.join(text.as_ref());
            if path.is_dir() {
                self.read.push(path.clone());
            }
            match files(&path) {
                Ok(paths) => paths.iter().for_each(|path| self.load_from(path, &at)),
                Err(error) => {
                    self.refuse_key(INCLUDE, at, format!("cannot read {text:?}: {error}"));
                }
            }
        }
    }

    /// A table at the top of a file.
    fn section(
        &mut self,
        place: Place<'_>,
        section: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let name = section.get_ref();
        if lists().iter().any(|list| list.name == name) {
            match tables(value.get_ref(), place.elsewhere, |offset| place.of(offset)) {
                Some(tables) => self.assign_list(name, Given::Also, tables),
                None => {
                    self.refuse_key(name, place.of(section.span().start), not_tables(name));
                }
            }
            return;
        }
        let known = SECTIONS.iter().any(|(known, _)| known == name);
        match value.get_ref() {
            DeValue::Table(entries) if known => {
                for (key, value) in entries {
                    let key_place = place.of(key.span().start);
                    let value_place = place.of(value.span().start);
                    let key = format!("{name}.{}", key.get_ref());
                    match written(value.get_ref(), place.elsewhere) {
                        Ok(written) => self.assign(&key, &written, key_place, value_place),
                        Err(message) => self.refuse_value(&key, value_place, &message),
                    }
                }
            }
            // Each key of an unknown section, so that every one gets its proposal.
            DeValue::Table(entries) if !entries.is_empty() => {
                for key in entries.keys() {
                    let origin = place.of(section.span().start.max(key.span().start));
                    let key = format!("{name}.{}", key.get_ref());
                    self.refuse_key(&key, origin, unknown(&key));
                }
            }
            _ if known => {
                let message = format!(
                    "{name:?} is a section; write its settings as [{name}] or {name}.NAME = VALUE"
                );
                self.refuse_key(name, place.of(section.span().start), message);
            }
            _ => self.refuse_key(name, place.of(section.span().start), unknown(name)),
        }
    }
}

/// Where a fault is that the parser gives no place for, as of a table that is nested too deep: at the end of the shortest beginning of the text that has
/// it. Reads a text that is refused some twenty times.
fn first_of(text: &str, message: &str) -> usize {
    let has = |end: usize| {
        let beginning = &text[..text.floor_char_boundary(end)];
        let (_, errors) = DeTable::parse_recoverable(beginning);
        let mut errors = errors.iter();
        errors.any(|error| error.span().is_none() && error.message() == message)
    };
    let (mut without, mut with) = (0, text.len());
    while with - without > 1 {
        let middle = usize::midpoint(without, with);
        match has(middle) {
            true => with = middle,
            false => without = middle,
        }
    }
    text.floor_char_boundary(without)
}

/// One file, or all of a folder.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The tables of a list. None where the value is something else.
pub(super) fn tables(
    value: &DeValue<'_>,
    elsewhere: Elsewhere<'_>,
    place: impl Fn(usize) -> Origin,
) -> Option<Vec<Table>> {
    let DeValue::Array(items) = value else {
        return None;
    };
    let table = |item: &Spanned<DeValue<'_>>| {
        let DeValue::Table(entries) = item.get_ref() else {
            return None;
        };
        let entries = entries.iter().map(|(key, value)| Entry {
            name: key.get_ref().to_string(),
            key_place: place(key.span().start),
            value: written(value.get_ref(), elsewhere),
            value_place: place(value.span().start),
        });
        Some(Table {
            place: place(item.span().start),
            entries: entries.collect(),
        })
    };
    items.iter().map(table).collect()
}

/// A value with what its text draws from elsewhere.
fn written(value: &DeValue<'_>, elsewhere: Elsewhere<'_>) -> Result<Written, String> {
    let plain = |raw| Written {
        raw,
        otherwise: None,
        reference: None,
        files: Vec::new(),
    };
    let DeValue::String(text) = value else {
        return Ok(plain(raw(value)));
    };
    Ok(match draw(text, elsewhere)? {
        None => plain(Raw::Text(text.to_string())),
        Some(drawn) => drawn_value(text, drawn),
    })
}

/// What was drawn is a text, or whatever it is in TOML.
pub(super) fn drawn_value(text: &str, drawn: Drawn) -> Written {
    Written {
        otherwise: DeValue::parse(&drawn.text)
            .ok()
            .map(|value| raw(value.get_ref())),
        raw: Raw::Text(drawn.text),
        reference: Some(text.to_owned()),
        files: drawn.files,
    }
}

fn shown(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

pub(crate) fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Integer(value) => {
            let (text, radix) = (value.as_str(), value.radix());
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            match i64::from_str_radix(text, radix) {
                Ok(number) => Raw::Integer(number),
                Err(_) if digits.chars().all(|it| it.is_digit(radix)) => {
                    Raw::Beyond(value.to_string())
                }
                // The parser has refused it where it stands, and gives what it looks like.
                Err(_) => Raw::Other("no number"),
            }
        }
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}
