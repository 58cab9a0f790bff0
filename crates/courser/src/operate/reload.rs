//! `courser config reload`: has a running server read its settings again.

use clap::Args;
use courser_admin::settings::{Reloaded, SettingChange};

use super::print::{Output, OutputFlags, plain, say};
use super::server::ServerFlags;
use crate::cli::exit::Exit;
use crate::reload::{line, sum};

/// Flags of `courser config reload`.
#[derive(Args, Debug)]
pub(crate) struct Reload {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command. The server reads its own files, with the flags and the environment of its start.
pub(crate) fn run(arguments: &Reload) -> Exit {
    arguments.server.ask(async |client| {
        let answer = client.post("/api/v1/config/reload").await?;
        match arguments.output.output() {
            Output::Table => say(&serde_json::from_value(answer).map_or_else(
                |error| format!("the server's answer is of another version: {error}\n"),
                |answer| text(&answer),
            ))?,
            other => other.value(&answer)?,
        }
        Ok(Exit::Done)
    })
}

fn text(answer: &Reloaded) -> String {
    let lines = |what: &'static str, changes: &[SettingChange]| -> String {
        let line = |change| format!("{what}: {}\n", plain(&line(change)));
        changes.iter().map(line).collect()
    };
    let applied = lines("applied", &answer.applied);
    let restart = lines("needs a restart", &answer.needs_restart);
    format!("{applied}{restart}{}\n", sum(answer))
}
