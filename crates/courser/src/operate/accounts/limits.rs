//! Limits of users and roles on the command line: `--quota messages_per_second=100`, and `none` takes one away.

use serde_json::{Map, Value};

/// A limit and its value; none: not limited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    name: String,
    value: Option<u32>,
}

impl Limit {
    /// Whether it is of what waits for sessions.
    fn is_of_what_waits(&self) -> bool {
        self.name.starts_with("queued_")
    }
}

/// Reads `NAME=NUMBER` or `NAME=none`. Which names there are is known to the server.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let expected = || format!("expected NAME=NUMBER or NAME=none, found \"{text}\"");
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let value = match value {
        "none" => None,
        number => Some(number.parse().map_err(|_| expected())?),
    };
    if value == Some(0) {
        // Elsewhere 0 stands for no limit, and a limit that lets nothing through would be a way to lock somebody out by mistake.
        return Err(format!("a limit is at least 1: {name}=none takes it away"));
    }
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

/// What is above the limits of somebody, and counts where they say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Above {
    /// Limits of roles or the domain, which may be smaller.
    Others,
    /// The settings of the process, which count in any case.
    Settings,
}

/// Whether some of these may lower what may wait, which somebody who has it already loses.
pub(super) fn may_drop(limits: &[Limit]) -> bool {
    limits.iter().any(Limit::is_of_what_waits)
}

/// Those of them that lower what may wait of somebody who has these now, in words: what waits beyond them goes at once.
pub(super) fn lowered(limits: &[Limit], now: &Value, above: Above) -> Option<String> {
    let lowers = |limit: &&Limit| {
        let before = now[&limit.name].as_u64();
        let after = limit.value.map(u64::from);
        limit.is_of_what_waits()
            && match (before, after) {
                (Some(before), Some(after)) => after < before,
                (None, Some(_)) => true,
                (Some(_), None) => above == Above::Others,
                (None, None) => false,
            }
    };
    let lowered = limits.iter().filter(lowers).map(|limit| match limit.value {
        Some(value) => format!("{} to {value}", limit.name),
        None => format!("{} to none", limit.name),
    });
    let lowered: Vec<_> = lowered.collect();
    (!lowered.is_empty()).then(|| lowered.join(" and "))
}

/// What is another between these limits and those, in words.
pub(super) fn differences(before: &Value, after: &Value) -> Vec<String> {
    let none = Map::new();
    let [before, after] = [before, after].map(|limits| limits.as_object().unwrap_or(&none));
    let set = after
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value));
    let set = set.map(|(name, value)| format!("set {name} to {value} for"));
    let taken = before.keys().filter(|name| !after.contains_key(*name));
    let taken = taken.map(|name| format!("take the limit {name} from"));
    set.chain(taken).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_none() {
        let read = |text| limit(text).map(|limit| as_json(&[limit]).to_string());
        assert_eq!(read("a=1"), Ok(r#"{"a":1}"#.to_owned()));
        assert_eq!(read("a=none"), Ok(r#"{"a":null}"#.to_owned()));
        for zero in ["a=0", "a=00"] {
            let why = "a limit is at least 1: a=none takes it away";
            assert_eq!(read(zero), Err(why.to_owned()));
        }
        for wrong in ["", "a", "a=", "a=-1", "a=1.5", "a=4294967296", "a=NONE"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_may_wait_is_lowered_by_less_or_by_what_may_be_less() {
        let check = |texts: &[&str], above, expected: Option<&str>| {
            let limits: Vec<_> = texts
                .iter()
                .map(|text| limit(text).expect("a limit"))
                .collect();
            let now = serde_json::json!({"queued_messages": 10, "in_flight": 10});
            let said = lowered(&limits, &now, above);
            assert_eq!(said.as_deref(), expected, "{texts:?}");
            assert!(said.is_none() || may_drop(&limits));
        };
        for above in [Above::Others, Above::Settings] {
            check(&["queued_messages=9"], above, Some("queued_messages to 9"));
            check(&["queued_bytes=9"], above, Some("queued_bytes to 9"));
            check(&["queued_messages=10", "in_flight=1"], above, None);
            check(&["queued_messages=11", "queued_bytes=none"], above, None);
            let both = ["queued_messages=1", "queued_seconds=2"];
            let said = "queued_messages to 1 and queued_seconds to 2";
            check(&both, above, Some(said));
        }
        let taken = ["queued_messages=none"];
        check(&taken, Above::Others, Some("queued_messages to none"));
        check(&taken, Above::Settings, None);
    }

    #[test]
    fn only_what_is_another_would_change() {
        let before = serde_json::json!({"a": 1, "b": 1, "c": 1});
        let after = serde_json::json!({"a": 1, "b": 2, "d": 3});
        let said = ["set b to 2 for", "set d to 3 for", "take the limit c from"];
        assert_eq!(differences(&before, &after), said);
        assert!(differences(&before, &before).is_empty());
        assert!(differences(&Value::Null, &Value::Null).is_empty());
    }
}
