//! Values as JSON, for programs.

use serde_json::Value as Json;
use toml::de::DeValue;

use crate::resolved::{Change, Effective};
use crate::source::raw;
use crate::value::Raw;

/// A value that stands as in a file; one that is not set is null.
fn json(shown: &str) -> Json {
    if shown.is_empty() {
        return Json::Null;
    }
    let parsed = DeValue::parse(shown).ok();
    let value = parsed.and_then(|value| of_raw(&raw(value.get_ref())));
    value.unwrap_or_else(|| shown.into())
}

/// None for what no setting has.
fn of_raw(raw: &Raw) -> Option<Json> {
    Some(match raw {
        Raw::Bool(value) => (*value).into(),
        Raw::Integer(value) => (*value).into(),
        Raw::Text(text) => text.as_str().into(),
        Raw::List(items) => Json::Array(items.iter().map(of_raw).collect::<Option<_>>()?),
        Raw::Beyond(_) | Raw::Other(_) => return None,
    })
}

impl Effective {
    /// Its value: numbers and lists are ones, sizes, durations and the like are texts as in a file.
    #[must_use]
    pub fn json(&self) -> Json {
        json(&self.value)
    }
}

impl Change {
    /// Before and after, as of [`Effective::json`]. Where an item came or went, its name; of another order of a list, all names.
    #[must_use]
    pub fn json(&self) -> [Json; 2] {
        let is_order = !self.key.contains(['.', '[']);
        [&self.before, &self.after].map(|shown| match is_order {
            true => json(&format!("[{shown}]")),
            false => json(shown),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::Sources;

    #[test]
    fn values_are_of_their_kind() {
        let text = "[mqtt]\nlisten = [\"127.0.0.1:1\"]\nreceive_maximum = 9\n[log]\nlevel = \"debug\"\n[server]\npin_shards = true\n";
        let resolved = Sources::new().file("f", text).resolve();
        let effective = resolved.expect("all is right").effective();
        let of = |key: &str| {
            let found = effective.iter().find(|it| it.key == key);
            found.expect("there is such a setting").json()
        };
        assert_eq!(of("mqtt.listen"), json!(["127.0.0.1:1"]));
        assert_eq!(of("mqtt.receive_maximum"), json!(9));
        assert_eq!(of("log.level"), json!("debug"));
        assert_eq!(of("server.pin_shards"), json!(true));
        assert_eq!(of("sys.interval"), json!("10s"));
    }

    #[test]
    fn changes_have_what_was_and_what_is() {
        let resolved = |text: &str| Sources::new().file("f", text).resolve().expect("right");
        let class = "[[class]]\nfilter = \"7\"\nclass = \"relaxed\"\n";
        let before = resolved("mqtt.receive_maximum = 16\n");
        let changes = before.changes(&resolved(&format!("mqtt.receive_maximum = 32\n{class}")));
        let found: Vec<_> = changes
            .iter()
            .map(|it| (it.key.as_str(), it.json()))
            .collect();
        assert_eq!(
            found,
            [
                ("mqtt.receive_maximum", [json!(16), json!(32)]),
                ("class[\"7\"]", [json!(null), json!("7")]),
            ]
        );
        let other = "[[class]]\nfilter = \"8\"\nclass = \"relaxed\"\n";
        let before = resolved(&format!("{class}{other}"));
        let changes = before.changes(&resolved(&format!("{other}{class}")));
        assert_eq!(changes[0].json(), [json!(["7", "8"]), json!(["8", "7"])]);
    }
}
