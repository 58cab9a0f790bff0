//! `courser diagnose`: what somebody who helps needs to see, in one JSON document. Payloads, passwords and tokens are not in it, nor what
//! settings draw from elsewhere; client ids, topics and addresses of clients are left out unless they are asked for.

use std::fs;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};

use clap::Args;
use courser_admin::client::{Client, ClientError};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::server::ServerFlags;
use crate::cli::exit::Exit;
use crate::cli::{new_file, print};

/// Flags of `courser diagnose`.
#[derive(Args, Debug)]
pub(crate) struct Diagnose {
    #[command(flatten)]
    server: ServerFlags,
    /// File for the document; "-" is standard output [default: courser-diagnose-TIME.json]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// With client ids, filters and addresses of clients
    #[arg(long)]
    with_names: bool,
}

/// Fields that name a client or what it deals with.
const NAMES: [&str; 11] = [
    "client_id",
    "user",
    "address",
    "identity",
    "filter",
    "share",
    "session",
    "stream",
    "streams",
    "accepted",
    "place",
];
/// Most rows that the server gives at once.
const MANY: &str = "10000";
/// Files of the system that say what the machine is, with the part of them that is wanted.
const MACHINE: [(&str, &str); 6] = [
    ("kernel", "/proc/sys/kernel/osrelease"),
    ("load", "/proc/loadavg"),
    ("somaxconn", "/proc/sys/net/core/somaxconn"),
    ("swappiness", "/proc/sys/vm/swappiness"),
    ("huge_pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    ("memory_limit", "/sys/fs/cgroup/memory.max"),
];

/// Runs the command.
pub(crate) fn run(arguments: &Diagnose) -> Exit {
    arguments.server.ask(async |client| {
        let mut document = gather(&client).await?;
        if !arguments.with_names {
            hide_classes(&mut document["settings"]);
            hide(&mut document);
        }
        let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
        Ok(arguments.write(&text))
    })
}

async fn gather(client: &Client) -> Result<Value, ClientError> {
    let largest = |field| [("limit", "20"), ("sort", field)];
    let every = [("limit", MANY)];
    Ok(json!({
        "made_at": Timestamp::now().to_string(),
        "program": env!("CARGO_PKG_VERSION"),
        "commit": crate::version::COMMIT,
        "machine": machine(),
        "node": client.get("/api/v1/node", &[]).await?,
        "settings": part(client.get("/api/v1/config", &[]).await)?,
        "listeners": part(client.get("/api/v1/listeners", &every).await)?,
        "users": count(client, "/api/v1/users").await?,
        "roles": count(client, "/api/v1/roles").await?,
        "damage": part(client.get("/api/v1/damage", &[]).await)?,
        "backup": part(client.get("/api/v1/backup", &[]).await)?,
        "metrics": client.text("/metrics").await?.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>(),
        "clients_with_most_output": client.get("/api/v1/clients", &largest("-output_bytes")).await?["items"],
        "fullest_sessions": client.get("/api/v1/sessions", &largest("-queued_messages")).await?["items"],
        "events": client.get("/api/v1/events", &[("after", "0")]).await?["items"],
    }))
}

/// What a server that is asked for it refuses, as one of another version or one that is not ready does, is said in its place.
fn part(answer: Result<Value, ClientError>) -> Result<Value, ClientError> {
    match answer {
        Err(error @ ClientError::Refused { .. }) => Ok(json!({"error": error.to_string()})),
        other => other,
    }
}

/// How many rows a listing has.
async fn count(client: &Client, path: &str) -> Result<Value, ClientError> {
    let mut count = 0;
    let mut next: Option<String> = None;
    loop {
        let mut query = vec![("limit", MANY)];
        query.extend(next.as_deref().map(|next| ("cursor", next)));
        let page = part(client.get(path, &query).await)?;
        let Some(rows) = page["items"].as_array() else {
            return Ok(page);
        };
        count += rows.len();
        next = page["next"].as_str().map(str::to_owned);
        if next.is_none() {
            return Ok(json!(count));
        }
    }
}

/// Of this machine: where the server is elsewhere, of the one that asks.
fn machine() -> Value {
    let mut machine = Map::new();
    for (name, path) in MACHINE {
        if let Ok(text) = fs::read_to_string(path) {
            machine.insert(name.to_owned(), json!(text.trim()));
        }
    }
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let lines = memory.lines().take(3).map(str::to_owned);
    machine.insert("memory".to_owned(), lines.collect());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    machine.insert("cores".to_owned(), json!(cores));
    Value::Object(machine)
}

/// Takes the names out.
fn hide(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(fields) => {
            for (name, value) in fields {
                if NAMES.contains(&name.as_str()) {
                    hide_text(value);
                }
                hide(value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A text, or each of a list.
fn hide_text(value: &mut Value) {
    match value {
        Value::String(_) => *value = json!("…"),
        Value::Array(items) => items.iter_mut().for_each(hide_text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
}

/// Filters of classes name clients or topics: each class is told by a number instead.
fn hide_classes(settings: &mut Value) {
    if let Some(all) = settings.get_mut("settings").and_then(Value::as_object_mut) {
        let mut classes: Vec<String> = Vec::new();
        let mut unnamed = |(key, mut setting): (String, Value)| {
            let Some((class, field)) = key.rsplit_once('.').filter(|(it, _)| is_class(it)) else {
                return (key, setting);
            };
            let place = classes.iter().position(|it| it == class);
            let place = place.unwrap_or_else(|| {
                classes.push(class.to_owned());
                classes.len() - 1
            });
            if NAMES.contains(&field) {
                setting.get_mut("value").into_iter().for_each(hide_text);
            }
            (format!("class[{}].{field}", place + 1), setting)
        };
        *all = mem::take(all).into_iter().map(&mut unnamed).collect();
    }
    let changes = settings.get_mut("needs_restart");
    let changes = changes.and_then(Value::as_array_mut);
    for change in changes.into_iter().flatten() {
        if change["key"].as_str().is_some_and(is_class) {
            *change = json!({"key": "class", "applies": change["applies"]});
        }
    }
}

fn is_class(key: &str) -> bool {
    key == "class" || key.starts_with("class[")
}

impl Diagnose {
    fn write(&self, text: &str) -> Exit {
        let file = match &self.file {
            Some(file) if file.as_os_str() == "-" => return print(text),
            Some(file) => file.clone(),
            None => PathBuf::from(format!(
                "courser-diagnose-{}.json",
                Timestamp::now().as_second()
            )),
        };
        write_new(&file, text)
    }
}

/// It says much of a server: nobody else of the machine may read it.
fn write_new(file: &Path, text: &str) -> Exit {
    match new_file::write(file, text) {
        Ok(()) => print(&format!("{}\n", file.display())),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => new_file::there_already(file),
        Err(error) => {
            eprintln!("courser: cannot write {}: {error}", file.display());
            Exit::Refused
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn names_are_taken_out_wherever_they_stand() {
        let mut value = json!({"clients": [{"client_id": "secret", "user": "anna", "address": null, "output_bytes": 3}], "node": {"version": "1"}});
        hide(&mut value);
        let expected = json!({"clients": [{"client_id": "…", "user": "…", "address": null, "output_bytes": 3}], "node": {"version": "1"}});
        assert_eq!(value, expected);
    }

    #[test]
    fn the_filter_of_a_class_is_a_name() {
        let setting = |value| json!({"value": value, "origin": "f:1:1"});
        let mut value = json!({
            "settings": {"class[\"car-7/#\"].filter": setting("car-7/#"), "class[\"car-7/#\"].class": setting("relaxed")},
            "needs_restart": [{"key": "class[\"car-8\"]", "before": null, "after": "car-8"}],
            "damage": {"stopped": [{"stream": "session car-7", "position": 3}], "rotten": [{"streams": ["session car-7"]}]},
        });
        hide_classes(&mut value);
        hide(&mut value);
        assert!(!value.to_string().contains("car-"), "{value}");
        assert_eq!(value["settings"]["class[1].class"]["value"], "relaxed");
        assert_eq!(value["settings"]["class[1].filter"]["value"], "…");
    }

    #[test]
    fn a_file_is_for_nobody_else_and_never_in_place_of_another() {
        let folder = tempfile::tempdir().expect("a folder for a test");
        let path = folder.path().join("d.json");
        assert_eq!(write_new(&path, "{}"), Exit::Done);
        assert_eq!(write_new(&path, "[]"), Exit::Conflict);
        assert_eq!(fs::read_to_string(&path).expect("it can be read"), "{}");
        let mode = fs::metadata(&path)
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
