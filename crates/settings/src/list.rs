//! Lists: `[[name]]` in the file, or a value `[{ … }, { … }]`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use crate::Applies;
use crate::error::{Origin, SettingError};
use crate::table::lists;
use crate::value::{Raw, Refused, Value, Written, accept, quoted};

/// A kind of item.
pub(crate) trait Item: Sized {
    /// The name in `[[name]]`.
    const LIST: &'static str;
    /// The field that tells the items apart.
    const IDENTITY: &'static str;
    /// Most items.
    const ITEMS_MAX: usize;

    /// None when something is wrong, which `fields` then knows.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;

    /// The value of the field that tells the items apart, as it is written in the file.
    fn identity(&self) -> String;

    /// Gives one field another value, but for the one that tells the items apart.
    fn assign(&mut self, field: &str, written: &Written) -> Result<(), NotAssigned>;
}

/// A field of an item that is there already: `list["identity"].field`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldKey<'a> {
    pub(crate) list: &'static str,
    /// As in a file.
    pub(crate) identity: String,
    pub(crate) field: &'a str,
}

impl<'a> FieldKey<'a> {
    /// None where it is no such key. The quotes may be left out, which shells take away.
    pub(crate) fn parse(key: &'a str) -> Option<Self> {
        let (name, rest) = key.split_once('[')?;
        let (identity, field) = rest.rsplit_once("].")?;
        let list = lists().into_iter().find(|list| list.name == name)?;
        let bare = identity
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'));
        Some(Self {
            list: list.name,
            identity: bare.map_or_else(|| quoted(identity), |bare| format!("\"{bare}\"")),
            field,
        })
    }
}

impl fmt::Display for FieldKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}].{}", self.list, self.identity, self.field)
    }
}

/// Why a field of an item has no other value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotAssigned {
    /// There is no such item.
    NoItem,
    /// Items have no such field.
    NoField,
    /// Another one would make it another item.
    IsIdentity,
    /// The value is wrong.
    Refused(Refused),
}

/// What is done with the items that are there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// They stay.
    Also,
    /// They go.
    Instead,
}

/// One key of a table with its value.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) key_place: Origin,
    /// What is wrong with it already, or the value.
    pub(crate) value: Result<Written, String>,
    pub(crate) value_place: Origin,
}

/// One table, as it was written.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) place: Origin,
    pub(crate) entries: Vec<Entry>,
}

impl Table {
    /// What its item is called in keys: `list["identity"]` where it has a name that is a text and was not drawn from elsewhere, which may be a
    /// secret; else `list`.
    fn item_of(&self, list: &str, identity: &str) -> String {
        let named = self.entries.iter().find(|entry| entry.name == identity);
        match named.map(|entry| &entry.value) {
            Some(Ok(Written {
                raw: Raw::Text(name),
                reference: None,
                ..
            })) => format!("{list}[{}]", quoted(name)),
            _ => list.to_owned(),
        }
    }
}

/// The tables of a list, and where to say what is found.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    pub(crate) tables: Vec<Table>,
    pub(crate) origins: &'a mut BTreeMap<String, Origin>,
    pub(crate) references: &'a mut BTreeMap<String, String>,
    pub(crate) errors: &'a mut Vec<SettingError>,
}

impl Tables<'_> {
    /// Reads every table; each fault is an error, and an item with one is left out.
    pub(crate) fn read_into<T: Item>(self, items: &mut Vec<T>, given: Given) {
        let list = T::LIST;
        if given == Given::Instead {
            items.clear();
            let of_list = format!("{list}[");
            self.origins.retain(|key, _| !key.starts_with(&of_list));
            self.references.retain(|key, _| !key.starts_with(&of_list));
        }
        for table in self.tables {
            let place = table.place.clone();
            let mut fields = Fields {
                list,
                item: table.item_of(list, T::IDENTITY),
                table,
                taken: Vec::new(),
                errors: self.errors,
            };
            let item = T::read(&mut fields);
            let taken = fields.end();
            let Some(item) = item else { continue };
            let identity = item.identity();
            let key = format!("{list}[{identity}]");
            let named = taken.iter().find(|it| it.name == T::IDENTITY);
            let drawn = named.and_then(|it| it.reference.as_deref());
            let shown = drawn.map_or_else(|| identity.clone(), quoted);
            let fault = if let Some(other) = self.origins.get(&key) {
                format!(
                    "there are two [[{list}]] with {} = {shown}; the other one: {other}",
                    T::IDENTITY
                )
            } else if items.len() == T::ITEMS_MAX {
                format!("there may be at most {} [[{list}]]", T::ITEMS_MAX)
            } else {
                for Taken {
                    name,
                    place,
                    reference,
                } in taken
                {
                    let key = format!("{key}.{name}");
                    if let Some(reference) = reference {
                        self.references.insert(key.clone(), reference);
                    }
                    self.origins.insert(key, place);
                }
                self.origins.insert(key, place);
                items.push(item);
                continue;
            };
            // The field that tells it apart is what is wrong with the second of a name.
            let named = taken.into_iter().find(|it| it.name == T::IDENTITY);
            let twice = self.origins.contains_key(&key);
            self.errors.push(SettingError {
                origin: named.filter(|_| twice).map_or(place, |it| it.place),
                message: fault,
                key: Some(format!("{list}[{shown}]")),
            });
        }
    }
}

/// Items whose name was drawn from elsewhere, which may be a secret: what each is called in keys, and what it is called where somebody reads it.
#[derive(Debug)]
pub(crate) struct DrawnItems(Vec<(String, String)>);

impl DrawnItems {
    /// Of these texts that draw, by key.
    pub(crate) fn of(references: &BTreeMap<String, String>) -> Self {
        let lists = lists();
        let named = references.iter().filter_map(|(key, text)| {
            let FieldKey {
                list,
                identity,
                field,
            } = FieldKey::parse(key)?;
            let is_name = lists
                .iter()
                .any(|it| it.name == list && it.identity == field);
            let called = |name: &str| format!("{list}[{name}]");
            is_name.then(|| (called(&identity), called(&quoted(text))))
        });
        Self(named.collect())
    }

    /// A text without the names.
    pub(crate) fn hide(&self, text: &str) -> String {
        let hidden = |text: String, (item, shown): &(String, String)| text.replace(item, shown);
        self.0.iter().fold(text.to_owned(), hidden)
    }
}

/// Gives a field of one of the items another value.
pub(crate) fn assign_field<T: Item>(
    items: &mut [T],
    key: &FieldKey<'_>,
    written: &Written,
) -> Result<(), NotAssigned> {
    if key.field == T::IDENTITY {
        return Err(NotAssigned::IsIdentity);
    }
    let item = items
        .iter_mut()
        .find(|item| item.identity() == key.identity);
    item.ok_or(NotAssigned::NoItem)?.assign(key.field, written)
}

/// A field that had a value.
#[derive(Debug)]
struct Taken {
    name: &'static str,
    place: Origin,
    reference: Option<String>,
}

/// The items of a running process after a change to `new`: its own, unless the list itself applies before a restart; then
/// those of `new`, where an item that is in both is the one of `kept`.
pub(crate) fn adopt<T: Item + Clone>(kept: Vec<T>, new: &[T], applies: Applies) -> Vec<T> {
    match applies {
        Applies::Restart => kept,
        Applies::NewConnections | Applies::NewSessions | Applies::AtOnce => new
            .iter()
            .map(|item| {
                let identity = item.identity();
                let mine = kept.iter().find(|mine| mine.identity() == identity);
                mine.unwrap_or(item).clone()
            })
            .collect(),
    }
}

/// The fields of one item while it is read.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    list: &'static str,
    /// `list["identity"]`, as far as one is named.
    item: String,
    /// What is left of it.
    table: Table,
    taken: Vec<Taken>,
    errors: &'a mut Vec<SettingError>,
}

impl Fields<'_> {
    /// The value of a field; None when it is wrong or missing without a default.
    pub(crate) fn take<T: Value>(
        &mut self,
        name: &'static str,
        range: Option<RangeInclusive<T>>,
        default: Option<T>,
    ) -> Option<T> {
        let entries = &mut self.table.entries;
        let Some(at) = entries.iter().position(|entry| entry.name == name) else {
            if default.is_none() {
                let message = format!("[[{}]] needs {name:?}", self.list);
                self.refuse(name, self.table.place.clone(), message);
            }
            return default;
        };
        let entry = entries.remove(at);
        let place = entry.value_place;
        let read = entry.value.and_then(|written| {
            let value = accept(&written, range).map_err(|refused| refused.message)?;
            Ok((value, written.reference))
        });
        match read {
            Ok((value, reference)) => {
                self.taken.push(Taken {
                    name,
                    place,
                    reference,
                });
                Some(value)
            }
            Err(message) => {
                self.refuse(name, place, format!("{}.{name}: {message}", self.list));
                None
            }
        }
    }

    /// What was not taken is unknown. Gives what was, with its places.
    fn end(mut self) -> Vec<Taken> {
        for entry in std::mem::take(&mut self.table.entries) {
            let key = format!("{}.{}", self.list, entry.name);
            self.refuse(&entry.name, entry.key_place, crate::source::unknown(&key));
        }
        self.taken
    }

    fn refuse(&mut self, name: &str, origin: Origin, message: String) {
        self.errors.push(SettingError {
            origin,
            message,
            key: Some(format!("{}.{name}", self.item)),
        });
    }
}
