//! Settings of a running server: read again as at its start, checked whole, then given to the broker and to the log.

use std::sync::Arc;

use courser_admin::settings::{InForce, Reloaded, SettingChange};
use courser_admin::{CurrentToken, TokenError};
use courser_broker::{Anonymous, Broker, Reread, with_causes};
use courser_settings::{Applies, Change, Errors, Resolved};
use serde_json::{Value, json};

use crate::cli::settings::{SettingFlags, fault_json};
use crate::logging::{FACTS, Log};
use crate::preflight::{Files, doubtful, faults, placed, unseen};

/// The flags of the start, and what the server has now.
#[derive(Debug)]
pub(crate) struct Running {
    flags: SettingFlags,
    now: Resolved,
    /// What was read of late and counts after the next start.
    needs_restart: Vec<SettingChange>,
    log: Log,
    held_to: HeldTo,
    /// Of operators, once they are served.
    pub(crate) token: Option<Arc<CurrentToken>>,
}

/// What a server was started with and keeps: settings that are read again are held to it as a start holds them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldTo {
    /// `--insecure-anonymous`.
    pub(crate) anonymous: Anonymous,
    /// How it looks at files.
    pub(crate) files: Files,
}

impl Running {
    /// As they were read at the start.
    pub(crate) fn new(flags: SettingFlags, now: Resolved, log: Log, held_to: HeldTo) -> Self {
        Self {
            flags,
            now,
            needs_restart: Vec::new(),
            log,
            held_to,
            token: None,
        }
    }

    /// A fault with the place of the setting in force that it is of, where somebody set one.
    pub(crate) fn placed(&self, setting: Option<String>, fault: String) -> String {
        placed(&self.now, setting, fault)
    }

    /// What counts now, as the API has it.
    pub(crate) fn in_force(&self) -> InForce {
        in_force(&self.now, self.needs_restart.clone())
    }

    /// Reads files, environment and flags again, and the certificates, keys and the token of operators that the settings name. What is right is in force when
    /// this returns. The log says what came of it.
    ///
    /// # Errors
    /// Everything that is wrong with the settings, one line each, and all that would stop a start with them: then nothing has changed.
    pub(crate) fn reload(&mut self, broker: &Broker) -> Result<Reloaded, String> {
        let answer = self.try_reload(broker);
        if answer.is_err() {
            tracing::error!(
                event = "settings_not_reloaded",
                "settings not reloaded: what was in force stays in force"
            );
        }
        answer
    }

    fn try_reload(&mut self, broker: &Broker) -> Result<Reloaded, String> {
        let new = self.read().map_err(|errors| {
            for error in &errors.0 {
                let facts = fault_json(error).to_string();
                tracing::error!(event = "setting_wrong", { FACTS } = facts, "{error}");
            }
            errors.to_string()
        })?;
        // They are few and small, so nobody waits for long.
        let certificates = self.reread(broker)?;
        let same = certificates.iter().filter(|it| it.1 == Reread::Same);
        for (listener, _) in same {
            tracing::info!(
                event = "certificates_same",
                listener,
                "the certificates are the same"
            );
        }
        for warning in &new.warnings {
            let facts = fault_json(warning).to_string();
            tracing::warn!(event = "setting_deprecated", { FACTS } = facts, "{warning}");
        }
        let unseen = match self.held_to.files {
            Files::LookedConfined => unseen(&new),
            Files::Looked | Files::PassedOver => Vec::new(),
        };
        let doubtful = doubtful(&new);
        for doubt in new.doubts.iter().chain(&unseen).chain(&doubtful) {
            let facts = fault_json(doubt).to_string();
            tracing::warn!(event = "setting_doubtful", { FACTS } = facts, "{doubt}");
        }
        let (answer, adopted) = compare(&self.now, &new);
        broker.reconfigure(adopted.settings.clone());
        self.log.set(&adopted.settings);
        self.now = adopted;
        self.needs_restart.clone_from(&answer.needs_restart);
        note(&answer);
        Ok(answer)
    }

    /// Reads what settings name and a reload takes: all of it, or nothing.
    fn reread(&self, broker: &Broker) -> Result<Vec<(String, Reread)>, String> {
        let files = || {
            let read = broker.reread_files();
            read.map_err(|error| Unread(self.placed(Some(error.setting()), with_causes(&error))))
        };
        let read = match &self.token {
            Some(token) => token.reread_with(files),
            None => files(),
        };
        read.map_err(|Unread(fault)| fault)
    }

    /// What the settings say by now. Also what counts only after a restart must be what a start takes: nobody wants to learn that then.
    fn read(&self) -> Result<Resolved, Errors> {
        let new = self.flags.resolve()?;
        match faults(&new, self.held_to.anonymous, self.held_to.files) {
            faults if faults.is_empty() => Ok(new),
            faults => Err(Errors(faults)),
        }
    }
}

/// What is wrong with a file.
struct Unread(String);

impl From<TokenError> for Unread {
    fn from(error: TokenError) -> Self {
        Self(with_causes(&error))
    }
}

/// What would change, and what a running server then has.
fn compare(now: &Resolved, new: &Resolved) -> (Reloaded, Resolved) {
    let adopted = now.adopted(new);
    let (restart, applied): (Vec<_>, Vec<_>) = now
        .changes(new)
        .into_iter()
        .partition(|change| change.applies == Applies::Restart);
    let is_changed = |key: &str| {
        applied
            .iter()
            .chain(&restart)
            .any(|change| change.key == key)
    };
    let keys = new.effective().into_iter().map(|it| it.key);
    let answer = Reloaded {
        unchanged: keys.filter(|key| !is_changed(key)).collect(),
        applied: applied.into_iter().map(shown).collect(),
        needs_restart: restart.into_iter().map(shown).collect(),
        digest: adopted.digest(),
    };
    (answer, adopted)
}

/// Settings as the API has them.
pub(crate) fn in_force(resolved: &Resolved, needs_restart: Vec<SettingChange>) -> InForce {
    let applies = resolved.settings.values().into_iter().map(|it| it.applies);
    let settings = resolved.effective().into_iter().zip(applies);
    let settings = settings.map(|(setting, applies)| {
        let shown = json!({
            "value": setting.json(),
            "origin": setting.origin.to_string(),
            "applies": applies.name(),
        });
        (setting.key, shown)
    });
    InForce {
        digest: resolved.digest(),
        settings: settings.collect(),
        needs_restart,
    }
}

/// A change as the API has it.
pub(crate) fn shown(change: Change) -> SettingChange {
    let [before, after] = change.json();
    SettingChange {
        key: change.key,
        before,
        after,
        applies: change.applies.name().to_owned(),
    }
}

/// `key: before -> after (when)`; of an item of a list that came or went, `list "name" is new (when)` or `is gone`.
pub(crate) fn line(change: &SettingChange) -> String {
    let item = change.key.strip_suffix(']');
    if let Some((list, name)) = item.and_then(|item| item.split_once('[')) {
        let what = match &change.after {
            Value::Null => "is gone",
            _ => "is new",
        };
        return format!("{list} {name} {what} ({})", change.applies);
    }
    format!(
        "{}: {} -> {} ({})",
        change.key,
        given(&change.before),
        given(&change.after),
        change.applies
    )
}

/// As it stands in a file.
pub(crate) fn given(value: &Value) -> String {
    match value {
        Value::Null => "not set".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(given).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

/// The sum of an answer.
pub(crate) fn sum(answer: &Reloaded) -> String {
    format!(
        "settings reloaded: {} applied, {} unchanged, {} need a restart; digest {}",
        answer.applied.len(),
        answer.unchanged.len(),
        answer.needs_restart.len(),
        answer.digest
    )
}

/// An event for each change, then the sum.
fn note(answer: &Reloaded) {
    for change in &answer.applied {
        tracing::info!(
            event = "setting_applied",
            key = change.key,
            { FACTS } = facts(change),
            "applied: {}",
            line(change)
        );
    }
    for change in &answer.needs_restart {
        tracing::warn!(
            event = "setting_needs_restart",
            key = change.key,
            { FACTS } = facts(change),
            "needs a restart: {}",
            line(change)
        );
    }
    let sums = json!({
        "applied": answer.applied.len(),
        "unchanged": answer.unchanged.len(),
        "needs_restart": answer.needs_restart.len(),
        "digest": answer.digest,
    });
    tracing::info!(
        event = "settings_reloaded",
        { FACTS } = sums.to_string(),
        "{}",
        sum(answer)
    );
}

/// Of one change, for programs.
fn facts(change: &SettingChange) -> String {
    json!({"before": change.before, "after": change.after, "applies": change.applies}).to_string()
}

#[cfg(test)]
mod tests {
    use super::{SettingChange, compare, in_force, line, sum};
    use courser_settings::{Resolved, Sources};
    use serde_json::json;

    fn resolved(text: &str) -> Resolved {
        let sources = Sources::new().file("f", text);
        sources.resolve().expect("all is right")
    }

    #[test]
    fn a_listener_that_has_another_name_is_new_and_the_old_one_is_gone() {
        let now = resolved("[[listener]]\nname = \"web\"\nunix = \"/a\"");
        let new = resolved("[[listener]]\nname = \"web2\"\nunix = \"/a\"");
        let (answer, _) = compare(&now, &new);
        let lines: Vec<_> = answer.needs_restart.iter().map(line).collect();
        let expected = [
            "listener \"web\" is gone (restart)",
            "listener \"web2\" is new (restart)",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn an_answer_lists_what_applied_and_what_did_not() {
        let now = resolved("server.shards = 1");
        let new = resolved("server.shards = 2\nmqtt.receive_maximum = 9\nsys.interval = \"1s\"");
        let (answer, adopted) = compare(&now, &new);
        let lines = |changes: &[SettingChange]| changes.iter().map(line).collect::<Vec<_>>();
        assert_eq!(
            lines(&answer.applied),
            [
                "mqtt.receive_maximum: 1024 -> 9 (new connections)",
                "sys.interval: \"10s\" -> \"1s\" (at once)",
            ]
        );
        assert_eq!(
            lines(&answer.needs_restart),
            ["server.shards: 1 -> 2 (restart)"]
        );
        let all = adopted.effective().len();
        let expected = format!(
            "settings reloaded: 2 applied, {} unchanged, 1 need a restart; digest {}",
            all - 3,
            adopted.digest()
        );
        assert_eq!(sum(&answer), expected);
        let told = in_force(&adopted, answer.needs_restart);
        assert_eq!(told.digest, adopted.digest());
        assert_eq!(told.needs_restart.len(), 1);
        let shards = json!({"value": 1, "origin": "f:1:17", "applies": "restart"});
        assert_eq!(
            told.settings["server.shards"], shards,
            "what counts until then"
        );
        let is_unchanged = |key: &str| answer.unchanged.iter().any(|it| it == key);
        assert!(is_unchanged("mqtt.topic_bytes_max"));
        assert!(!is_unchanged("sys.interval") && !is_unchanged("server.shards"));
        let (again, _) = compare(&adopted, &new);
        assert_eq!((again.applied.len(), again.needs_restart.len()), (0, 1));
    }
}
