//! The flags that give settings, the same for `courser server` and `courser config`.

use std::path::PathBuf;

use super::headings;
use clap::Args;
use courser_broker::redirect_of;
use courser_settings::{Errors, Origin, Resolved, SettingError, Sources, help_text, listener_key};
use serde_json::{Value, json};

/// Flags that give settings. Later ones win: file, environment, `--set`, flags of their own.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct SettingFlags {
    /// Configuration file (TOML); without it all settings have their defaults
    #[arg(long, value_name = "FILE", help_heading = headings::SETTINGS)]
    pub(crate) config: Option<PathBuf>,
    /// One setting, as often as wanted; goes before the file. One of a list item: KEY is like listener[NAME].path
    #[arg(long, value_name = "KEY=VALUE", help_heading = headings::SETTINGS)]
    pub(crate) set: Vec<String>,
    /// Folder of all files that the broker writes
    #[arg(long, value_name = "DIR", help_heading = headings::SETTINGS)]
    pub(crate) data: Option<String>,
    /// Keep everything in memory and write no file: nothing survives a stop
    #[arg(long, help_heading = headings::SETTINGS)]
    pub(crate) in_memory: bool,
    /// Address and port for MQTT over TCP, as often as wanted [default: 127.0.0.1:1883 and [::1]:1883]
    #[arg(long, value_name = "ADDRESS", help_heading = headings::SETTINGS)]
    pub(crate) mqtt: Vec<String>,
    /// Address and port for API, metrics and health over HTTP, as often as wanted [default: 127.0.0.1:18080 and [::1]:18080]
    #[arg(long, value_name = "ADDRESS", help_heading = headings::SETTINGS)]
    pub(crate) http: Vec<String>,
    /// Threads that serve connections [default: one for each core]
    #[arg(long, value_name = "N", help_heading = headings::SETTINGS)]
    pub(crate) shards: Option<String>,
}

impl SettingFlags {
    /// Whether one of them says something.
    pub(crate) const fn are_given(&self) -> bool {
        self.config.is_some()
            || !self.set.is_empty()
            || self.data.is_some()
            || self.in_memory
            || !self.mqtt.is_empty()
            || !self.http.is_empty()
            || self.shards.is_some()
    }

    /// Default, file, environment, flag: reads the file again each time.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(crate) fn resolve(&self) -> Result<Resolved, Errors> {
        let mut sources = Sources::new();
        if let Some(path) = &self.config {
            sources = sources.load("--config", path);
        }
        // A variable that is not UTF-8 is no value of a setting, and its name is none of a setting.
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        sources = sources.environment(variables);
        for argument in &self.set {
            sources = sources.set(argument);
        }
        if let Some(data) = &self.data {
            sources = sources.argument("--data", "data.path", data);
        }
        if self.in_memory {
            sources = sources.argument("--in-memory", "data.store", "memory");
        }
        if !self.mqtt.is_empty() {
            sources = sources.argument("--mqtt", "mqtt.listen", &self.mqtt.join(","));
        }
        if !self.http.is_empty() {
            sources = sources.argument("--http", "http.listen", &self.http.join(","));
        }
        if let Some(shards) = &self.shards {
            sources = sources.argument("--shards", "server.shards", shards);
        }
        let resolved = sources.resolve()?;
        let faults = redirect_faults(&resolved);
        match faults.is_empty() {
            true => Ok(resolved),
            false => Err(Errors(faults)),
        }
    }
}

/// What `--help` says behind the flags: every setting.
pub(crate) fn settings_help() -> String {
    format!(
        "Settings, for the file, --set KEY=VALUE or COURSER__SECTION__KEY in the environment, with their defaults:\n{}",
        help_text()
    )
}

/// What is wrong with where the settings send clients, at all listeners.
fn redirect_faults(resolved: &Resolved) -> Vec<SettingError> {
    let settings = &resolved.settings;
    let of_all = ("mqtt.redirect_to".to_owned(), settings.mqtt.clone());
    let own = settings.doors.iter().filter(|it| it.redirect_to.is_some());
    let own = own.map(|listener| {
        let key = listener_key(&listener.name, "redirect_to");
        (key, settings.mqtt_at(listener))
    });
    let all = std::iter::once(of_all).chain(own);
    let mut faults: Vec<_> = all
        .filter_map(|(key, mqtt)| {
            let fault = redirect_of(&mqtt).err()?;
            let fault = match resolved.is_drawn(&key) {
                true => fault.without_text(),
                false => fault,
            };
            Some(SettingError {
                origin: resolved.origin(&key),
                message: format!("{key}: {fault}"),
                key: Some(key),
            })
        })
        .collect();
    faults.sort();
    faults
}

/// A fault for programs: the setting, its place in a file, or the variable or flag that it comes from, and what is wrong.
pub(crate) fn fault_json(error: &SettingError) -> Value {
    let mut fault = json!({ "message": error.message });
    if let Some(key) = &error.key {
        fault["key"] = key.as_str().into();
    }
    match &error.origin {
        Origin::File { name, line, column } => {
            fault["file"] = name.as_str().into();
            fault["line"] = (*line).into();
            fault["column"] = (*column).into();
        }
        Origin::Environment(variable) => fault["variable"] = variable.as_str().into(),
        Origin::Argument(flag) => fault["flag"] = flag.as_str().into(),
        Origin::Default => {}
    }
    fault
}
