//! Settings of a running server: read again as at its start, checked whole, then given to the broker.

use std::fmt::Write;

use courser_broker::Broker;
use courser_settings::{Applies, Change, Errors, Resolved};

use crate::cli::settings::SettingFlags;

/// The flags of the start, and what the server has now.
pub(crate) struct Running {
    flags: SettingFlags,
    now: Resolved,
}

/// What a change of settings has done.
#[derive(Debug)]
pub(crate) struct Answer {
    /// In force.
    applied: Vec<Change>,
    /// In force after the next start.
    restart: Vec<Change>,
    /// Values that are as they were.
    unchanged: usize,
    digest: String,
}

impl Running {
    /// As they were read at the start.
    pub(crate) fn new(flags: SettingFlags, now: Resolved) -> Self {
        Self { flags, now }
    }

    /// Reads files, environment and flags again. What is right is in force when this returns.
    ///
    /// # Errors
    /// Everything that is wrong: then nothing has changed.
    pub(crate) fn reload(&mut self, broker: &Broker) -> Result<Answer, Errors> {
        let new = self.flags.resolve()?;
        for warning in &new.warnings {
            eprintln!("courser: warning: {warning}");
        }
        let (answer, adopted) = compare(&self.now, &new);
        broker.reconfigure(adopted.settings.clone());
        self.now = adopted;
        Ok(answer)
    }
}

/// What would change, and what a running server then has.
fn compare(now: &Resolved, new: &Resolved) -> (Answer, Resolved) {
    let adopted = now.adopted(new);
    let (restart, applied): (Vec<_>, Vec<_>) = now
        .changes(new)
        .into_iter()
        .partition(|change| change.applies == Applies::Restart);
    let changed = applied.len() + restart.len();
    let answer = Answer {
        unchanged: new.effective().len().saturating_sub(changed),
        applied,
        restart,
        digest: adopted.digest(),
    };
    (answer, adopted)
}

impl Answer {
    /// One line for each change, then the sum.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, change: &Change| {
            let given = |value: &str| match value {
                "" => "not set".to_owned(),
                value => value.to_owned(),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "courser: {what}: {}: {} -> {} ({})",
                change.key,
                given(&change.before),
                given(&change.after),
                change.applies.name()
            );
        };
        for change in &self.applied {
            line("applied", change);
        }
        for change in &self.restart {
            line("needs a restart", change);
        }
        let _ = writeln!(
            text,
            "courser: settings reloaded: {} applied, {} unchanged, {} need a restart; digest {}",
            self.applied.len(),
            self.unchanged,
            self.restart.len(),
            self.digest
        );
        text
    }
}

#[cfg(test)]
mod tests {
    use super::compare;
    use courser_settings::{Resolved, Sources};

    fn resolved(text: &str) -> Resolved {
        let sources = Sources::new().file("f", text);
        sources.resolve().expect("all is right")
    }

    #[test]
    fn an_answer_lists_what_applied_and_what_did_not() {
        let now = resolved("server.shards = 1");
        let new = resolved("server.shards = 2\nmqtt.receive_maximum = 9\nsys.interval = \"1s\"");
        let (answer, adopted) = compare(&now, &new);
        let text = answer.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "courser: applied: mqtt.receive_maximum: 1024 -> 9 (new connections)",
                "courser: applied: sys.interval: \"10s\" -> \"1s\" (at once)",
                "courser: needs a restart: server.shards: 1 -> 2 (restart)",
            ]
        );
        let all = adopted.effective().len();
        let sum = format!(
            "courser: settings reloaded: 2 applied, {} unchanged, 1 need a restart; digest {}",
            all - 3,
            adopted.digest()
        );
        assert_eq!(lines[3..], [sum]);
        let (again, _) = compare(&adopted, &new);
        assert_eq!((again.applied.len(), again.restart.len()), (0, 1));
    }
}
