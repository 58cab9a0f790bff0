//! Checked values with their origins: what is printed, compared, and told apart by a digest.

#[cfg(test)]
mod tests;

use crate::error::{Origin, SettingError};
use crate::table::{Settings, lists};
use crate::value::quoted;
use crate::{Applies, SettingValue};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;

/// Checked values, and where each comes from.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Resolved {
    /// The values.
    pub settings: Settings,
    /// What works and should be changed, each with its place.
    pub warnings: Vec<SettingError>,
    /// What works and is hardly meant, each with its place.
    pub doubts: Vec<SettingError>,
    /// Files that were read for them, and folders whose files are included: what reading them again needs.
    pub files: Vec<PathBuf>,
    pub(crate) origins: BTreeMap<String, Origin>,
    pub(crate) references: BTreeMap<String, String>,
}

/// One value with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// `section.name` or `list["identity"].name`.
    pub key: String,
    /// As it is written in a file; what was drawn by `${…}` is not shown, but that text. Empty where it is not set.
    pub value: String,
    /// Where it was set.
    pub origin: Origin,
}

/// One value that is another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `section.name`, `list["identity"].name`; `list["identity"]` for an item that came or went, `list` for another order.
    pub key: String,
    /// As in [`Effective::value`]; empty where there was none.
    pub before: String,
    /// The same of what it is now.
    pub after: String,
    /// When it takes effect.
    pub applies: Applies,
}

/// What [`Resolved::show`] says of each value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// The value.
    Values,
    /// The value and where it was set.
    Origins,
}

/// A TOML file of keys, values as they are written there (empty: not set) and origins.
pub fn as_file(
    settings: impl IntoIterator<Item = (String, String, String)>,
    shown: Shown,
) -> String {
    let mut text = String::new();
    let mut heading = String::new();
    for (key, value, origin) in settings {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", &key));
        if table != heading {
            heading = table.to_owned();
            let gap = if text.is_empty() { "" } else { "\n" };
            // Writing to a string cannot fail.
            let _ = match table.split_once('[') {
                Some((list, _)) => writeln!(text, "{gap}[[{list}]]"),
                None => writeln!(text, "{gap}[{table}]"),
            };
        }
        let line = if value.is_empty() {
            format!("# {name} is not set")
        } else {
            format!("{name} = {value}")
        };
        let _ = match shown {
            Shown::Values => writeln!(text, "{line}"),
            Shown::Origins => writeln!(text, "{line:<44} # {origin}"),
        };
    }
    text
}

impl Resolved {
    /// Every value with its origin, in the order of the table.
    #[must_use]
    pub fn effective(&self) -> Vec<Effective> {
        let values = self.settings.values().into_iter();
        values
            .map(|SettingValue { key, value, .. }| Effective {
                value: self.shown(&key, value),
                origin: self.origin(&key),
                key,
            })
            .collect()
    }

    /// Where a value comes from.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The place to name where a value is wrong: where it comes from, or where nobody set it the item that it is a field of.
    #[must_use]
    pub fn place(&self, key: &str) -> Origin {
        let item = || Some(format!("{}]", key.rsplit_once("].")?.0));
        let own = self.origins.get(key).cloned();
        own.or_else(|| self.origins.get(&item()?).cloned())
            .unwrap_or(Origin::Default)
    }

    /// Whether a value was drawn from elsewhere by `${…}`: it is not to be shown then, nor any part of it.
    #[must_use]
    pub fn is_drawn(&self, key: &str) -> bool {
        self.references.contains_key(key)
    }

    /// The values as a TOML file that says the same.
    #[must_use]
    pub fn show(&self, shown: Shown) -> String {
        let effective = self.effective().into_iter();
        as_file(
            effective.map(|it| (it.key, it.value, it.origin.to_string())),
            shown,
        )
    }

    /// Sixteen hexadecimal digits that are the same for the same values, whatever they come from.
    #[must_use]
    pub fn digest(&self) -> String {
        let mut text = String::new();
        for SettingValue { key, value, .. } in self.settings.values() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{key} = {value}");
        }
        format!("{:016x}", rapidhash::v3::rapidhash_v3(text.as_bytes()))
    }

    /// What is another value in `after`, in the order of the table.
    #[must_use]
    pub fn changes(&self, after: &Self) -> Vec<Change> {
        let mut changes = Vec::new();
        let values = |of: &Self| -> BTreeMap<String, String> {
            let values = of.settings.values().into_iter();
            values.map(|value| (value.key, value.value)).collect()
        };
        let old = values(self);
        for SettingValue {
            key,
            value,
            applies,
        } in after.settings.values()
        {
            // Of an item that was not there the item is the change.
            if let Some(before) = old.get(&key)
                && *before != value
            {
                changes.push(Change {
                    before: self.shown(&key, before.clone()),
                    after: after.shown(&key, value),
                    key,
                    applies,
                });
            }
        }
        self.item_changes(after, &mut changes);
        changes
    }

    /// What a running process has after a change to `new`: values that need a restart stay. See [`Settings::adopt`].
    #[must_use]
    pub fn adopted(&self, new: &Self) -> Self {
        let mut settings = self.settings.clone();
        settings.adopt(&new.settings);
        let mut adopted = Self {
            settings,
            ..new.clone()
        };
        // What stayed has the origin that it had.
        for change in new.changes(&adopted) {
            adopted.origins.remove(&change.key);
            adopted.references.remove(&change.key);
            if let Some(origin) = self.origins.get(&change.key) {
                adopted.origins.insert(change.key.clone(), origin.clone());
            }
            if let Some(reference) = self.references.get(&change.key) {
                adopted
                    .references
                    .insert(change.key.clone(), reference.clone());
            }
        }
        adopted
    }

    fn item_changes(&self, after: &Self, changes: &mut Vec<Change>) {
        let old = self.settings.identities().into_iter();
        let new = after.settings.identities().into_iter();
        for ((setting, (list, old)), (_, new)) in lists().into_iter().zip(old).zip(new) {
            let mut change = |key: String, before: &str, after: &str| {
                changes.push(Change {
                    key,
                    before: before.to_owned(),
                    after: after.to_owned(),
                    applies: setting.applies,
                });
            };
            for gone in old.iter().filter(|item| !new.contains(item)) {
                change(format!("{list}[{gone}]"), gone, "");
            }
            for come in new.iter().filter(|item| !old.contains(item)) {
                change(format!("{list}[{come}]"), "", come);
            }
            let stayed = |of: &[String], other: &[String]| -> Vec<String> {
                let stayed = of.iter().filter(|item| other.contains(item));
                stayed.cloned().collect()
            };
            let (before, after) = (stayed(&old, &new), stayed(&new, &old));
            if before != after {
                change(list.to_owned(), &before.join(", "), &after.join(", "));
            }
        }
    }

    /// The text that draws a value instead of the value.
    fn shown(&self, key: &str, value: String) -> String {
        self.references.get(key).map_or(value, |text| quoted(text))
    }
}
