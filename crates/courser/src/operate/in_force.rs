//! `courser config show|diff --server`: the settings that a running server has.

use courser_admin::client::Client;
use courser_admin::settings::{InForce, SettingChange};
use courser_settings::{Shown, as_file, lists};
use serde_json::{Value, json};

use super::print::{Output, OutputFlags, plain, say};
use super::server::{ServerFlags, Stop};
use crate::cli::exit::Exit;
use crate::cli::plain::plain_lines;
use crate::reload::{given, line};

/// What a server is compared with, by the side on which that stands.
#[derive(Debug)]
pub(crate) enum Side {
    /// What the server has differs from this.
    Before(InForce),
    /// What the server has would become this.
    After(InForce),
}

/// Prints what a server has: as a file, or as the API has it. What waits for a restart is said too.
pub(crate) fn show_of_server(server: &ServerFlags, shown: Shown, output: Output) -> Exit {
    server.ask(async |client| {
        let document = ask(&client).await?;
        if output != Output::Table {
            output.value(&document)?;
            return Ok(Exit::Done);
        }
        let found = read(document)?;
        let settings = found.settings.iter().map(|(key, setting)| {
            let value = match &setting["value"] {
                Value::Null => String::new(),
                value => given(value),
            };
            let origin = setting["origin"].as_str().unwrap_or_default().to_owned();
            (key.clone(), value, origin)
        });
        say(&plain_lines(&as_file(settings, shown)))?;
        for change in &found.needs_restart {
            eprintln!("courser: needs a restart: {}", plain(&line(change)));
        }
        Ok(Exit::Done)
    })
}

/// Prints what differs between a server and something else.
pub(crate) fn compare_with_server(server: &ServerFlags, other: Side, output: &OutputFlags) -> Exit {
    server.ask(async |client| {
        let found = read(ask(&client).await?)?;
        let (before, after) = match other {
            Side::After(after) => (found, after),
            Side::Before(before) => (before, found),
        };
        let changes = differences(&before, &after);
        if changes.is_empty() && before.digest != after.digest {
            eprintln!(
                "courser: the digests differ: in values that are drawn by ${{…}}, or in the order of a list"
            );
        }
        say_changes(&changes, output)?;
        Ok(Exit::Done)
    })
}

async fn ask(client: &Client) -> Result<Value, Stop> {
    Ok(client.get("/api/v1/config", &[]).await?)
}

fn read(document: Value) -> Result<InForce, Exit> {
    serde_json::from_value(document).map_err(|error| {
        eprintln!("courser: the server's answer is of another version: {error}");
        Exit::Refused
    })
}

/// Says changes: for people a line each.
pub(crate) fn say_changes(changes: &[SettingChange], output: &OutputFlags) -> Result<(), Exit> {
    let rows: Vec<Value> = changes.iter().map(|change| json!(change)).collect();
    match output.output() {
        Output::Table => say(&in_words(changes)),
        other => other.rows(&rows, &[]),
    }
}

/// `key: before -> after (applies: when)`, a line each.
fn in_words(changes: &[SettingChange]) -> String {
    if changes.is_empty() {
        return "no difference\n".to_owned();
    }
    let words = changes.iter().map(|change| {
        let text = format!(
            "{}: {} -> {} (applies: {})",
            change.key,
            given(&change.before),
            given(&change.after),
            change.applies
        );
        plain(&text) + "\n"
    });
    words.collect()
}

/// What has another value, then items that are gone. Where only one side has an item, the item is the difference.
fn differences(before: &InForce, after: &InForce) -> Vec<SettingChange> {
    let mut changes: Vec<SettingChange> = Vec::new();
    let mut push = |change: SettingChange| {
        if !changes.iter().any(|there| there.key == change.key) {
            changes.push(change);
        }
    };
    for (key, now) in &after.settings {
        match before.settings.get(key) {
            Some(old) if old["value"] == now["value"] => {}
            Some(old) => push(SettingChange {
                key: key.clone(),
                before: old["value"].clone(),
                after: now["value"].clone(),
                applies: now["applies"].as_str().unwrap_or_default().to_owned(),
            }),
            None => push(of_one_side(key, now, |name| (Value::Null, name))),
        }
    }
    for (key, old) in &before.settings {
        if !after.settings.contains_key(key) {
            push(of_one_side(key, old, |name| (name, Value::Null)));
        }
    }
    changes
}

/// That only one side has the item of a field: of the item. One that is of no item is a setting that one side does not know.
fn of_one_side(
    key: &str,
    setting: &Value,
    sides: impl FnOnce(Value) -> (Value, Value),
) -> SettingChange {
    let item = key.rsplit_once("].").and_then(|(item, _)| {
        let (list, identity) = item.split_once('[')?;
        let name = serde_json::from_str(identity).ok()?;
        let list = lists().into_iter().find(|it| it.name == list)?;
        Some((format!("{item}]"), name, list.applies.name().to_owned()))
    });
    let (key, value, applies) = item.unwrap_or_else(|| {
        let applies = setting["applies"].as_str().unwrap_or_default();
        (key.to_owned(), setting["value"].clone(), applies.to_owned())
    });
    let (before, after) = sides(value);
    SettingChange {
        key,
        before,
        after,
        applies,
    }
}

#[cfg(test)]
mod tests {
    use courser_settings::Sources;

    use super::*;
    use crate::reload::in_force;

    fn settings(text: &str) -> InForce {
        let resolved = Sources::new().file("f", text).resolve();
        in_force(&resolved.expect("all is right"), Vec::new())
    }

    #[test]
    fn an_item_that_only_one_side_has_is_one_difference() {
        let class = |filter| format!("[[class]]\nfilter = \"{filter}\"\nclass = \"relaxed\"\n");
        let before = settings(&format!("mqtt.receive_maximum = 16\n{}", class("a/#")));
        let after = settings(&class("b/#"));
        let expected = "mqtt.receive_maximum: 16 -> 1024 (applies: new connections)\n\
                        class[\"b/#\"]: not set -> \"b/#\" (applies: restart)\n\
                        class[\"a/#\"]: \"a/#\" -> not set (applies: restart)\n";
        assert_eq!(in_words(&differences(&before, &after)), expected);
        assert_eq!(in_words(&differences(&after, &after)), "no difference\n");
    }
}
