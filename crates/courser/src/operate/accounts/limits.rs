//! Limits of users and roles on the command line: `--quota messages_per_second=100`, and `none` takes one away.

use serde_json::{Map, Value};

/// A limit and its value; none: not limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    name: String,
    value: Option<u32>,
}

/// Reads `NAME=NUMBER` or `NAME=none`. Which names there are is known to the server.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let expected = || format!("expected NAME=NUMBER or NAME=none, found \"{text}\"");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let value = match value {
        "none" => None,
        number => Some(number.parse().map_err(|_| expected())?),
    };
    Ok(Limit {
        name: name.to_owned(),
        value,
    })
}

/// As the API takes them.
pub(super) fn as_json(limits: &[Limit]) -> Value {
    let fields = limits
        .iter()
        .map(|limit| (limit.name.clone(), Value::from(limit.value)));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// What would be another of somebody who has these now.
pub(super) fn would(limits: &[Limit], now: &Value) -> Vec<String> {
    let others = limits
        .iter()
        .filter(|limit| now[&limit.name].as_u64() != limit.value.map(u64::from));
    let said = others.map(|limit| match limit.value {
        Some(value) => format!("set {} to {value} for", limit.name),
        None => format!("take the limit {} from", limit.name),
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_none() {
        let read = |text| limit(text).map(|limit| as_json(&[limit]).to_string());
        assert_eq!(read("a=1"), Ok(r#"{"a":1}"#.to_owned()));
        assert_eq!(read("a=none"), Ok(r#"{"a":null}"#.to_owned()));
        for wrong in ["", "a", "a=", "a=-1", "a=1.5", "a=4294967296", "a=NONE"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_what_is_another_would_change() {
        let limits = ["a=1", "b=2", "c=none", "d=none"].map(|text| limit(text).expect("a limit"));
        let now = serde_json::json!({"a": 1, "b": 1, "c": 1});
        let said = ["set b to 2 for", "take the limit c from"];
        assert_eq!(would(&limits, &now), said);
    }
}
