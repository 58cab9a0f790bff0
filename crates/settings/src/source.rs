//! What the user said: files, the environment and arguments, later ones over earlier ones.

mod draw;
mod file;
#[cfg(test)]
mod tests;

pub use draw::Surroundings;
pub(crate) use file::raw;

use self::draw::Elsewhere;

use crate::Setting;
use crate::check::{contradictions, doubts};
use crate::error::{Errors, Origin, SettingError};
use crate::list::{DrawnItems, FieldKey, Given, NotAssigned, Table, Tables};
use crate::moved::{Fate, MOVED, Moved};
use crate::resolved::Resolved;
use crate::table::{SECTIONS, Settings, lists, table};
use crate::value::{ALIKE, Raw, Written};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

/// How variables of the environment begin that are settings: `COURSER__MQTT__LISTEN` is `mqtt.listen`.
const VARIABLE: &str = "COURSER__";

/// Collects values and what is wrong with them; [`check`](Self::check) ends it.
#[derive(Debug)]
pub struct Sources {
    settings: Settings,
    origins: BTreeMap<String, Origin>,
    /// Texts that draw from elsewhere, by key.
    references: BTreeMap<String, String>,
    warnings: Vec<SettingError>,
    errors: Vec<SettingError>,
    /// Files that are being read, each included by the one before it.
    reading: Vec<PathBuf>,
    /// Files that were read.
    files: usize,
    /// See [`Resolved::files`].
    read: Vec<PathBuf>,
    moved: &'static [Moved],
    surroundings: Surroundings,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            origins: BTreeMap::new(),
            references: BTreeMap::new(),
            warnings: Vec::new(),
            errors: Vec::new(),
            reading: Vec::new(),
            files: 0,
            read: Vec::new(),
            moved: MOVED,
            surroundings: Surroundings::default(),
        }
    }
}

impl Sources {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What `${…}` in all that comes behind this draws from, in place of those of this process.
    #[must_use]
    pub const fn drawing_from(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = surroundings;
        self
    }

    const fn elsewhere<'a>(&self, folder: Option<&'a Path>) -> Elsewhere<'a> {
        Elsewhere {
            surroundings: self.surroundings,
            folder,
        }
    }

    /// Variables of the environment: `COURSER__SECTION__NAME`, and for a list as a whole `COURSER__LIST`, the values as in
    /// [`set`](Self::set). Others are passed over.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        for (name, value) in variables {
            let Some(key) = name.strip_prefix(VARIABLE) else {
                continue;
            };
            let key = key.to_ascii_lowercase().replacen("__", ".", 1);
            self.assign_text(&key, value.trim(), Origin::Environment(name));
        }
        self
    }

    /// An argument `--set KEY=VALUE`: the value as in a file, but text needs no quotes and a list may be written with
    /// commas. A field of an item that is there already is `list["identity"].field`.
    #[must_use]
    pub fn set(mut self, argument: &str) -> Self {
        match split(argument) {
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
    /// Everything that is wrong, in the order of the places: files that cannot be read, text that is not TOML, unknown
    /// keys, values of another kind or out of their range, and values that contradict each other.
    pub fn check(self) -> Result<Settings, Errors> {
        self.resolve().map(|resolved| resolved.settings)
    }

    /// The checked values, each with its origin.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn resolve(mut self) -> Result<Resolved, Errors> {
        self.settings.place_listeners();
        let mut errors = self.errors;
        let mut resolved = Resolved {
            settings: self.settings,
            warnings: self.warnings,
            doubts: Vec::new(),
            origins: self.origins,
            references: self.references,
            files: self.read,
        };
        // What is wrong by itself has left a value that nobody has set, which may contradict others.
        if errors.is_empty() {
            errors = contradictions(&resolved);
            let mut doubts = doubts(&resolved);
            let drawn = DrawnItems::of(&resolved.references);
            for error in errors.iter_mut().chain(&mut doubts) {
                error.message = drawn.hide(&error.message);
                error.key = error.key.as_deref().map(|key| drawn.hide(key));
            }
            resolved.doubts = doubts;
        }
        if errors.is_empty() {
            return Ok(resolved);
        }
        errors.sort();
        Err(Errors(errors))
    }

    fn assign(&mut self, key: &str, written: &Written, key_place: Origin, value_place: Origin) {
        let moved = self.moved.iter().find(|moved| moved.key == key);
        let key = match moved.map(|moved| moved.fate) {
            None => key,
            Some(Fate::Removed(hint)) => {
                let message = format!("{key:?} is no longer a setting; {hint}");
                return self.refuse_key(key, key_place, message);
            }
            Some(Fate::Renamed(name)) => {
                self.warnings.push(SettingError {
                    origin: key_place.clone(),
                    message: format!(
                        "{key:?} is now {name:?}; the old name goes with the next major version"
                    ),
                    key: Some(key.to_owned()),
                });
                name
            }
        };
        self.read.extend_from_slice(&written.files);
        match self.settings.assign(key, written) {
            None => self.refuse_key(key, key_place, unknown(key)),
            Some(Ok(())) => {
                self.origins.insert(key.to_owned(), value_place);
                match &written.reference {
                    Some(reference) => self.references.insert(key.to_owned(), reference.clone()),
                    None => self.references.remove(key),
                };
            }
            Some(Err(refused)) => self.refuse_value(key, value_place, &refused.message),
        }
    }

    fn assign_list(&mut self, list: &str, given: Given, tables: Vec<Table>) {
        let entries = tables.iter().flat_map(|table| &table.entries);
        let written = entries.filter_map(|entry| entry.value.as_ref().ok());
        self.read.extend(written.flat_map(|it| &it.files).cloned());
        let tables = Tables {
            tables,
            origins: &mut self.origins,
            references: &mut self.references,
            errors: &mut self.errors,
        };
        let known = self.settings.assign_list(list, given, tables);
        assert!(known, "a list of the table can be assigned");
    }

    fn assign_list_text(&mut self, list: &str, text: &str, origin: Origin) {
        let found = || {
            let raw = Raw::Text(text.to_owned());
            format!("{list}: expected [{{ … }}, {{ … }}], found {}", raw.show())
        };
        let value = match DeValue::parse(text) {
            Ok(value) => value,
            Err(error) => {
                let message = format!("{}: {}", found(), escaped(error.message()));
                return self.refuse_key(list, origin, message);
            }
        };
        match file::tables(value.get_ref(), self.elsewhere(None), |_| origin.clone()) {
            Some(tables) => self.assign_list(list, Given::Instead, tables),
            None => self.refuse_key(list, origin, found()),
        }
    }

    /// `list["identity"].field`, of an item that is there already.
    fn assign_field(&mut self, key: &FieldKey<'_>, written: &Written, origin: Origin) {
        let name = key.to_string();
        let FieldKey {
            list,
            identity,
            field,
        } = key;
        let message = match self.settings.assign_field(key, written) {
            Ok(()) => {
                match &written.reference {
                    Some(text) => self.references.insert(name.clone(), text.clone()),
                    None => self.references.remove(&name),
                };
                self.origins.insert(name, origin);
                return self.read.extend_from_slice(&written.files);
            }
            Err(NotAssigned::NoItem) => format!("there is no {list}[{identity}]"),
            Err(NotAssigned::NoField) => unknown(&format!("{list}.{field}")),
            Err(NotAssigned::IsIdentity) => {
                format!("{name}: it tells the items apart; another one is another item")
            }
            Err(NotAssigned::Refused(refused)) => format!("{name}: {}", refused.message),
        };
        self.refuse_key(&name, origin, message);
    }

    fn assign_text(&mut self, key: &str, text: &str, origin: Origin) {
        if lists().iter().any(|list| list.name == key) {
            return self.assign_list_text(key, text, origin);
        }
        if let Some(message) = item_needed(key, &origin) {
            return self.refuse_key(key, origin, message);
        }
        let written = match draw::draw(text, self.elsewhere(None)) {
            Ok(Some(drawn)) => file::drawn_value(text, drawn),
            Ok(None) => as_argument(text),
            Err(message) => return self.refuse_value(key, origin, &message),
        };
        match FieldKey::parse(key) {
            Some(key) => self.assign_field(&key, &written, origin),
            None => self.assign(key, &written, origin.clone(), origin),
        }
    }

    /// What is wrong with something that is no setting.
    fn refuse(&mut self, origin: Origin, message: String) {
        self.errors.push(SettingError {
            origin,
            message,
            key: None,
        });
    }

    fn refuse_key(&mut self, key: &str, origin: Origin, message: String) {
        self.errors.push(SettingError {
            origin,
            message,
            key: Some(key.to_owned()),
        });
    }

    fn refuse_value(&mut self, key: &str, origin: Origin, fault: &str) {
        self.refuse_key(key, origin, format!("{key}: {fault}"));
    }
}

/// A value as TOML has it; a path may look like a number, so what is no value of the kind is tried as text.
fn as_argument(text: &str) -> Written {
    let as_text = Raw::Text(text.to_owned());
    let as_toml = DeValue::parse(text)
        .ok()
        .map(|value| file::raw(value.get_ref()));
    let (raw, otherwise) = match as_toml {
        Some(raw) => (raw, Some(as_text)),
        None => (as_text, None),
    };
    Written {
        raw,
        otherwise,
        reference: None,
        files: Vec::new(),
    }
}

/// Key and value. The name of an item may have a `=` too.
fn split(argument: &str) -> Option<(&str, &str)> {
    let (before, _) = argument.split_once('=')?;
    let open = before.contains('[') && !before.contains("].");
    let from = match argument.find("].") {
        Some(at) if open => at,
        Some(_) | None => 0,
    };
    let at = from + argument[from..].find('=')?;
    Some((&argument[..at], &argument[at + 1..]))
}

/// Says how to write a field of a list to who names no item: `listener.path`, or `COURSER__LISTENER__PATH`.
fn item_needed(key: &str, origin: &Origin) -> Option<String> {
    let (list, field) = key.split_once('.')?;
    let setting = lists().into_iter().find(|it| it.name == list)?;
    let all = format!("all as {list} = [{{ … }}, {{ … }}]");
    Some(match origin {
        Origin::Environment(_) => format!(
            "{list:?} is a list: write each item in the file, where a value may be drawn by ${{ENV:NAME}}, or {all} in {VARIABLE}{}",
            list.to_ascii_uppercase()
        ),
        Origin::File { .. } | Origin::Argument(_) | Origin::Default => format!(
            "{list:?} is a list: name one of its items by its {}, as {list}[{}].{field}, or {all}",
            setting.identity,
            setting.identity.to_ascii_uppercase()
        ),
    })
}

fn not_tables(list: &str) -> String {
    format!(
        "{list:?} is a list of tables; write each as [[{list}]], or all as {list} = [{{ … }}, {{ … }}]"
    )
}

/// Says that a key does not exist, and which one may be meant.
pub(crate) fn unknown(key: &str) -> String {
    let lists = lists();
    let sections = SECTIONS.iter().map(|(section, _)| *section);
    let table = table();
    let in_section = |it: &&Setting| it.key.split('.').next() == Some(key);
    if let Some(first) = table.iter().find(in_section) {
        return format!(
            "{key:?} is a section: name a setting of it, such as {:?}",
            first.key
        );
    }
    let proposal = table
        .iter()
        .chain(lists.iter().flat_map(|list| &list.fields))
        .map(|setting| setting.key)
        .chain(lists.iter().map(|list| list.name))
        .chain(sections.filter(|_| !key.contains('.')))
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
