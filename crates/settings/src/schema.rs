//! JSON schema of the file, for editors.

#[cfg(test)]
mod tests;

use crate::table::{SECTIONS, lists, table};
use crate::{Applies, Setting};
use serde_json::{Map, Value, json};

/// JSON schema (draft 2020-12) of a file.
#[must_use]
pub fn schema() -> Value {
    let mut properties = Map::new();
    let files = json!({ "type": "string" });
    properties.insert(
        "include".to_owned(),
        json!({
            "description": "Files and folders of files that are read before this one, relative to it.",
            "anyOf": [files, { "type": "array", "items": files }],
        }),
    );
    let settings = table();
    for (section, doc) in SECTIONS {
        let within = format!("{section}.");
        let of_section = settings.iter().filter(|it| it.key.starts_with(&within));
        properties.insert((*section).to_owned(), object(doc, of_section));
    }
    for list in lists() {
        let mut items = object("", list.fields.iter());
        let needed = list.fields.iter().filter(|field| field.default.is_none());
        items["required"] = needed.map(name).collect();
        let described = json!({
            "description": described(list.doc, list.applies),
            "type": "array",
            "maxItems": list.items_max,
            "items": items,
        });
        properties.insert(list.name.to_owned(), described);
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Courser",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn object<'a>(doc: &str, settings: impl Iterator<Item = &'a Setting>) -> Value {
    let properties: Map<String, Value> = settings
        .map(|setting| {
            let mut schema = setting.schema.clone();
            schema["description"] = described(setting.doc, setting.applies).into();
            if let Some(default) = setting.default.as_deref().filter(|text| !text.is_empty()) {
                schema["default"] = as_json(default);
            }
            (name(setting).to_owned(), schema)
        })
        .collect();
    json!({
        "description": doc.trim(),
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    })
}

fn described(doc: &str, applies: Applies) -> String {
    format!("{} A change applies: {}.", doc.trim(), applies.name())
}

fn name(setting: &Setting) -> &'static str {
    setting.key.split('.').next_back().unwrap_or_default()
}

/// A default of the table: texts, numbers, true or false, and lists of texts are written in TOML as in JSON.
fn as_json(toml: &str) -> Value {
    serde_json::from_str(toml).unwrap_or_else(|_| toml.into())
}
