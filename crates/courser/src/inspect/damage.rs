//! What of a running server's data is damaged.

use clap::Args;
use serde_json::Value;

use super::Exit;
use crate::operate::{Output, OutputFlags, ServerFlags, say};

/// Flags.
#[derive(Args, Debug)]
pub(super) struct Damage {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    output: OutputFlags,
}

pub(super) fn run(arguments: &Damage) -> Exit {
    arguments.server.ask(async |client| {
        let found = client.get("/api/v1/damage", &[]).await?;
        let output = arguments.output.output();
        match output {
            Output::Table => parts(&found, output)?,
            Output::Json | Output::Jsonl => output.value(&found)?,
        }
        let is_whole = ["set_aside", "stopped", "rotten", "rotten_files"]
            .iter()
            .all(|part| rows(&found, part).is_empty());
        Ok(if is_whole { Exit::Done } else { Exit::Refused })
    })
}

fn rows<'a>(found: &'a Value, part: &str) -> &'a [Value] {
    found[part].as_array().map_or(&[], Vec::as_slice)
}

/// Each part with its own columns, if there is something in it.
fn parts(found: &Value, output: Output) -> Result<(), Exit> {
    let all = [
        (
            "set_aside",
            "partitions that are set aside",
            &["partition", "sessions", "refuses", "why", "ends_by"][..],
        ),
        (
            "stopped",
            "streams that have stopped at a record which the disk has lost",
            &["partition", "stream", "position", "records"][..],
        ),
        (
            "rotten",
            "damaged places of segments in use; what waits there is served from memory, and a start would stop it there",
            &["segment", "offset", "messages", "what", "streams"][..],
        ),
        (
            "rotten_files",
            "damaged files beside the segments; what they say is in memory, and a start would need them",
            &["file", "what", "ends_by"][..],
        ),
    ];
    let mut is_whole = true;
    for (part, title, columns) in all {
        let rows = rows(found, part);
        if !rows.is_empty() {
            is_whole = false;
            say(&format!("{title}:\n"))?;
            output.rows(rows, columns)?;
        }
    }
    for done in rows(found, "accepted") {
        say(&format!(
            "accepted at this start: {}\n",
            done.as_str().unwrap_or_default()
        ))?;
    }
    if is_whole {
        say("nothing that is needed is damaged\n")?;
    }
    Ok(())
}
