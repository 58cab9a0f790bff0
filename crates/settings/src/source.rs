//! What the user said: files and `--set` arguments, later ones over earlier ones.

#[cfg(test)]
mod tests;

use crate::check::contradictions;
use crate::error::{Errors, Origin, SettingError};
use crate::list::{Entry, Given, Table, Tables};
use crate::table::{SECTIONS, Settings, lists, table};
use crate::value::{Mismatch, Raw, Refused};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Likeness (0 to 1) from which a key is proposed for another.
const ALIKE: f64 = 0.7;

/// Collects values and what is wrong with them; [`check`](Self::check) ends it.
#[derive(Debug, Default)]
pub struct Sources {
    settings: Settings,
    origins: BTreeMap<String, Origin>,
    errors: Vec<SettingError>,
}

impl Sources {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The text of a TOML file. `name` is what errors call it.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        let place = Place { name, text };
        let (document, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let origin = place.of(error.span().map_or(text.len(), |span| span.start));
            self.refuse(origin, escaped(error.message()));
        }
        for (section, value) in document.get_ref() {
            self.section(place, section, value);
        }
        self
    }

    /// An argument `--set KEY=VALUE`: the value as in a file, but text needs no quotes and a list may be written with
    /// commas.
    #[must_use]
    pub fn set(mut self, argument: &str) -> Self {
        match argument.split_once('=') {
            Some((key, value)) => self.argument("--set", key.trim(), value),
            None => {
                self.refuse(
                    Origin::Argument("--set".to_owned()),
                    format!("expected KEY=VALUE, found {argument:?}"),
                );
                self
            }
        }
    }

    /// An argument with a flag of its own, such as `--shards 2` for `server.shards`. The value as in [`set`](Self::set);
    /// errors name `flag`.
    #[must_use]
    pub fn argument(mut self, flag: &str, key: &str, value: &str) -> Self {
        self.assign_text(key, value.trim(), Origin::Argument(flag.to_owned()));
        self
    }

    /// The checked values.
    ///
    /// # Errors
    /// Everything that is wrong, in the order of the places: text that is not TOML, unknown keys, values of another
    /// kind or out of their range, and values that contradict each other.
    pub fn check(mut self) -> Result<Settings, Errors> {
        if self.errors.is_empty() {
            for (key, message) in contradictions(&self.settings) {
                let origin = self.origins.get(key).cloned().unwrap_or(Origin::Default);
                self.refuse(origin, message);
            }
        }
        if self.errors.is_empty() {
            return Ok(self.settings);
        }
        self.errors.sort();
        Err(Errors(self.errors))
    }

    /// A table at the top of a file.
    fn section(
        &mut self,
        place: Place<'_>,
        section: &Spanned<toml::de::DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let name = section.get_ref();
        if lists().iter().any(|list| list.name == name) {
            match tables(value.get_ref(), |offset| place.of(offset)) {
                Some(tables) => self.assign_list(name, Given::Also, tables),
                None => self.refuse(place.of(section.span().start), not_tables(name)),
            }
            return;
        }
        let known = SECTIONS.iter().any(|(known, _)| known == name);
        match value.get_ref() {
            DeValue::Table(entries) if known => {
                for (key, value) in entries {
                    let key_place = place.of(key.span().start);
                    let value_place = place.of(value.span().start);
                    self.assign(
                        &format!("{name}.{}", key.get_ref()),
                        &raw(value.get_ref()),
                        key_place,
                        value_place,
                    );
                }
            }
            // Each key of an unknown section, so that every one gets its proposal.
            DeValue::Table(entries) if !entries.is_empty() => {
                for key in entries.keys() {
                    let origin = place.of(section.span().start.max(key.span().start));
                    self.refuse(origin, unknown(&format!("{name}.{}", key.get_ref())));
                }
            }
            _ if known => {
                let message = format!(
                    "{name:?} is a section; write its settings as [{name}] or {name}.NAME = VALUE"
                );
                self.refuse(place.of(section.span().start), message);
            }
            _ => self.refuse(place.of(section.span().start), unknown(name)),
        }
    }

    fn assign(&mut self, key: &str, value: &Raw, key_place: Origin, value_place: Origin) {
        match self.settings.assign(key, value) {
            None => self.refuse(key_place, unknown(key)),
            Some(Ok(())) => {
                self.origins.insert(key.to_owned(), value_place);
            }
            Some(Err(refused)) => self.refuse(value_place, format!("{key}: {}", refused.message)),
        }
    }

    fn assign_list(&mut self, list: &str, given: Given, tables: Vec<Table>) {
        let tables = Tables {
            tables,
            origins: &mut self.origins,
            errors: &mut self.errors,
        };
        let known = self.settings.assign_list(list, given, tables);
        assert!(known, "a list of the table can be assigned");
    }

    fn assign_list_text(&mut self, list: &str, text: &str, origin: Origin) {
        let value = DeValue::parse(text).ok();
        let tables = value.and_then(|value| tables(value.get_ref(), |_| origin.clone()));
        match tables {
            Some(tables) => self.assign_list(list, Given::Instead, tables),
            None => self.refuse(origin, not_tables(list)),
        }
    }

    fn assign_text(&mut self, key: &str, text: &str, origin: Origin) {
        if lists().iter().any(|list| list.name == key) {
            return self.assign_list_text(key, text, origin);
        }
        let as_toml = DeValue::parse(text).ok().map(|value| raw(value.get_ref()));
        let as_text = Raw::Text(text.to_owned());
        // A path may look like a number, so what is no value of the kind is tried as text.
        let value = match &as_toml {
            Some(value) => match self.settings.assign(key, value) {
                Some(Err(Refused {
                    mismatch: Mismatch::Kind,
                    ..
                })) => &as_text,
                None
                | Some(
                    Ok(())
                    | Err(Refused {
                        mismatch: Mismatch::Range,
                        ..
                    }),
                ) => value,
            },
            None => &as_text,
        };
        self.assign(key, value, origin.clone(), origin);
    }

    fn refuse(&mut self, origin: Origin, message: String) {
        self.errors.push(SettingError { origin, message });
    }
}

/// A file, for places in it.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    name: &'a str,
    text: &'a str,
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

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::Boolean(value) => Raw::Bool(*value),
        DeValue::Integer(value) => {
            let parsed = i64::from_str_radix(value.as_str(), value.radix());
            let beyond = if value.as_str().starts_with('-') {
                i64::MIN
            } else {
                i64::MAX
            };
            Raw::Integer(parsed.unwrap_or(beyond))
        }
        DeValue::String(text) => Raw::Text(text.to_string()),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("a number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("a date"),
        DeValue::Table(_) => Raw::Other("a table"),
    }
}

/// The tables of a list. None where the value is something else.
fn tables(value: &DeValue<'_>, place: impl Fn(usize) -> Origin) -> Option<Vec<Table>> {
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
            value: raw(value.get_ref()),
            value_place: place(value.span().start),
        });
        Some(Table {
            place: place(item.span().start),
            entries: entries.collect(),
        })
    };
    items.iter().map(table).collect()
}

fn not_tables(list: &str) -> String {
    format!(
        "{list:?} is a list of tables; write each as [[{list}]], or all as {list} = [{{ … }}, {{ … }}]"
    )
}

/// Says that a key does not exist, and which one may be meant.
pub(crate) fn unknown(key: &str) -> String {
    let lists = lists();
    let proposal = table()
        .iter()
        .chain(lists.iter().flat_map(|list| &list.fields))
        .map(|setting| setting.key)
        .chain(lists.iter().map(|list| list.name))
        .map(|known| (likeness(key, known), known))
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|one, other| one.0.total_cmp(&other.0));
    match proposal {
        Some((_, meant)) => format!("unknown key {key:?}; did you mean {meant:?}?"),
        None => format!("unknown key {key:?}"),
    }
}

/// How alike two keys are; also when the section is missing or another one.
fn likeness(key: &str, known: &str) -> f64 {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let whole = strsim::normalized_damerau_levenshtein(key, known);
    if last(key) == last(known) {
        whole.max(ALIKE)
    } else {
        whole
    }
}

/// One line without control characters.
fn escaped(message: &str) -> String {
    message
        .trim()
        .escape_debug()
        .to_string()
        .replace("\\n", "; ")
        .replace("\\'", "'")
        .replace("\\\"", "\"")
}
