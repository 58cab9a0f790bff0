//! `courser backup` and `courser restore`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand};
use courser_admin::client::Client;
use courser_broker::{
    BackupError, BackupReport, PruneMode, Pruned, prune_backups, restore_backup, verify_backup,
};
use courser_settings::{ByteSize, Sources};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cli::exit::{Exit, usage};
use crate::cli::sure::Sure;
use crate::operate::{Output, OutputFlags, ServerFlags, Stop, say};

/// How often a backup that is being made is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Copy the data of a running server; read, and remove, the copies
#[derive(Args, Debug)]
pub(crate) struct Backup {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand, Debug)]
enum Verb {
    /// Make a backup of a running server, on its machine and over its socket. In a folder that has backups of it only what is new is
    /// written
    Create(Create),
    /// How far the last backup is
    Status {
        #[command(flatten)]
        server: ServerFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Stop the backup that is being made: it counts as never made
    Stop {
        #[command(flatten)]
        server: ServerFlags,
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Read a backup and say what of it is not what was written. Offline
    Verify(Verify),
    /// Remove old backups, and of what they have what no later one needs. Offline
    Prune(Prune),
}

#[derive(Args, Debug)]
struct Prune {
    /// The folder of backups
    folder: PathBuf,
    /// How many backups are left, the last ones. Every byte of them is read first: if one is not whole, nothing is removed
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    keep: u32,
    #[command(flatten)]
    sure: Sure,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Args, Debug)]
struct Create {
    /// The folder of backups, on the server's machine: a new or empty one, or one with backups of this server
    folder: PathBuf,
    /// Bytes that are read and written in a second at most [default: the setting backup.bytes_per_second]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    rate: Option<ByteSize>,
    /// Do not wait until it is done
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    output: OutputFlags,
}

#[derive(Args, Debug)]
struct Which {
    /// The folder of backups
    folder: PathBuf,
    /// Number of the backup [default: the last]
    #[arg(long, value_name = "NUMBER")]
    backup: Option<u32>,
}

#[derive(Args, Debug)]
struct Verify {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    output: OutputFlags,
}

/// Make a data folder of a backup. Offline
///
/// All of the backup is read and checked before anything is written, and what fails is removed. Exit code 1: the backup is damaged or was not finished, the
/// folder is not empty or among the backups, it cannot be written, or backups are being removed; or it is restored, and has the damage that is named, since the
/// data folder had it when the backup was made; 5: there is no such backup.
#[derive(Args, Debug)]
pub(crate) struct Restore {
    #[command(flatten)]
    which: Which,
    /// The data folder: a new or empty one
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    #[command(flatten)]
    output: OutputFlags,
}

/// As the setting is read, with its limits.
fn size(text: &str) -> Result<ByteSize, String> {
    let sources = Sources::new().set(&format!("backup.bytes_per_second={text}"));
    let settings = sources.check().map_err(|errors| errors.to_string())?;
    Ok(settings.backup.bytes_per_second)
}

/// Runs `courser backup`.
pub(crate) fn run(arguments: &Backup) -> Exit {
    match &arguments.verb {
        Verb::Create(create) => create.run(),
        Verb::Status { server, output } => server.ask(async |client| {
            let state = client.get("/api/v1/backup", &[]).await?;
            output.output().value(&state)?;
            Ok(ended(&state))
        }),
        Verb::Stop { server, output } => server.ask(async |client| {
            let done = client.delete("/api/v1/backup").await?;
            output.output().deeds(&[done])?;
            Ok(Exit::Done)
        }),
        Verb::Verify(verify) => {
            let which = &verify.which;
            match verify_backup(&which.folder, which.backup) {
                Ok(report) => told(&report, None, verify.output.output()),
                Err(error) => refused(&error),
            }
        }
        Verb::Prune(prune) => prune.run(),
    }
}

/// Runs `courser restore`.
pub(crate) fn run_restore(arguments: &Restore) -> Exit {
    let which = &arguments.which;
    match restore_backup(&which.folder, which.backup, &arguments.data) {
        Ok(report) => {
            let what = format!("restored into {}", arguments.data.display());
            told(&report, Some(&what), arguments.output.output())
        }
        Err(error) => refused(&error),
    }
}

impl Prune {
    fn run(&self) -> Exit {
        let mode = match self.dry_run {
            true => PruneMode::Say,
            false => PruneMode::Remove,
        };
        let folder = self.folder.display();
        let what = format!("remove backups in {folder} but the last {}", self.keep);
        if mode == PruneMode::Remove
            && let Err(exit) = self.sure.ask(&what)
        {
            return exit;
        }
        let keep = usize::try_from(self.keep).unwrap_or(usize::MAX);
        let done = match prune_backups(&self.folder, keep, mode) {
            Ok(done) => done,
            Err(error) => return refused(&error),
        };
        let said = match self.output.output() {
            Output::Table => self.in_words(&done),
            output => output.value(&json!({
                "dry_run": self.dry_run,
                "kept": done.kept,
                "damaged": done.damaged,
                "removed": done.removed,
                "files": done.files,
                "bytes": done.bytes,
                "bytes_needed": done.bytes_needed,
            })),
        };
        said.into()
    }

    fn in_words(&self, done: &Pruned) -> Result<(), Exit> {
        let removed = match self.dry_run {
            true => "would be removed",
            false => "removed",
        };
        say(&format!(
            "{} backups, {} files, {} bytes {removed}; {} bytes of earlier backups are still needed; {}\n",
            done.removed.len(),
            done.files,
            done.bytes,
            done.bytes_needed,
            left(&done.kept, &done.damaged)
        ))
    }
}

/// What is left, of which some is damaged.
fn left(kept: &[u32], damaged: &[u32]) -> String {
    let whole = kept.iter().filter(|it| !damaged.contains(it)).copied();
    let whole: Vec<u32> = whole.collect();
    let parts = [("whole", &whole[..]), ("DAMAGED", damaged)];
    let parts = parts.iter().filter(|(_, numbers)| !numbers.is_empty());
    let parts: Vec<String> = parts
        .map(|(what, numbers)| format!("left, and {what}: {}", runs(numbers)))
        .collect();
    parts.join("; ")
}

/// Ascending numbers, of which those that follow each other are named by the first and the last.
fn runs(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let runs: Vec<String> = runs
        .map(|run| match run {
            [first, .., last] => format!("{first} to {last}"),
            one => one.iter().map(u32::to_string).collect(),
        })
        .collect();
    runs.join(", ")
}

impl Create {
    fn run(&self) -> Exit {
        // The server stands elsewhere.
        let folder = match std::path::absolute(&self.folder) {
            Ok(folder) => folder,
            Err(error) => return usage(&format!("{}: {error}", self.folder.display())),
        };
        let Some(text) = folder.to_str() else {
            return usage(&format!("{} is no text", folder.display()));
        };
        let rate = self.rate.map(|rate| rate.bytes().to_string());
        let mut query = vec![("folder", text)];
        query.extend(rate.as_deref().map(|rate| ("bytes_per_second", rate)));
        self.server.ask(async |client| {
            let begun = client.post_with("/api/v1/backup", &query).await?;
            if self.no_wait {
                self.output.output().value(&begun)?;
                return Ok(Exit::Done);
            }
            self.wait(&client, &folder, begun).await
        })
    }

    async fn wait(&self, client: &Client, folder: &Path, mut begun: Value) -> Result<Exit, Stop> {
        loop {
            let state = client.get("/api/v1/backup", &[]).await?;
            match verdict(&begun, &state) {
                Verdict::Running => {
                    // Its number comes behind the answer to the request.
                    begun = state;
                    tokio::time::sleep(LOOK).await;
                    continue;
                }
                Verdict::Unknown => {
                    eprintln!(
                        "courser: there may be no backup: the server does not know the one that was begun any more, since it was started again or has begun another one meanwhile; what there is says: courser backup verify {}",
                        folder.display()
                    );
                    return Ok(Exit::Refused);
                }
                Verdict::Ended => {}
            }
            match self.output.output() {
                Output::Table => in_words(&state, folder)?,
                output => output.value(&state)?,
            }
            return Ok(ended(&state));
        }
    }
}

/// What a look says of the backup that was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is being made.
    Running,
    /// It is finished, or has failed.
    Ended,
    /// Nothing.
    Unknown,
}

/// `begun` is what the server has said of the backup before, and `status` what it says now of the last one since its start. A server that
/// was started again knows none, and that another one is finished says nothing of this one.
fn verdict(begun: &Value, status: &Value) -> Verdict {
    let is_same = |what: &str| begun[what] == status[what];
    let has_number = begun["number"] == 0 || is_same("number");
    if !(is_same("id") && is_same("folder") && has_number) {
        return Verdict::Unknown;
    }
    match status["state"].as_str() {
        Some("running") => Verdict::Running,
        Some("done" | "failed") => Verdict::Ended,
        _ => Verdict::Unknown,
    }
}

fn in_words(state: &Value, folder: &Path) -> Result<(), Exit> {
    for warning in state["warnings"].as_array().into_iter().flatten() {
        let warning = warning.as_str().unwrap_or_default();
        eprintln!("courser: WARNING: {warning}");
    }
    for damage in state["damaged"].as_array().into_iter().flatten() {
        let damage = damage.as_str().unwrap_or_default();
        eprintln!("courser: DAMAGED, also in the backup: {damage}");
    }
    if let Some(error) = state["error"].as_str() {
        eprintln!("courser: there is no backup: {error}");
        return Ok(());
    }
    say(&format!(
        "backup {} in {}: {} bytes copied, {} bytes of earlier ones used again\n",
        state["number"],
        folder.display(),
        state["bytes_copied"],
        state["bytes_reused"]
    ))
}

/// 1 when it failed, has copied damage, or has found earlier backups damaged.
fn ended(state: &Value) -> Exit {
    let has_none = |what: &str| state[what].as_array().is_none_or(Vec::is_empty);
    let is_whole = has_none("damaged") && has_none("warnings");
    if state["state"] != "failed" && is_whole {
        Exit::Done
    } else {
        Exit::Refused
    }
}

/// Says what a backup is and what was `done` with it beside reading it. 1 when it has problems.
fn told(report: &BackupReport, done: Option<&str>, output: Output) -> Exit {
    let made = i64::try_from(report.made.0).ok();
    let made = made.and_then(|made| Timestamp::from_millisecond(made).ok());
    let made = made.map_or_else(String::new, |made| made.to_string());
    let said = match output {
        Output::Table => {
            for problem in &report.problems {
                eprintln!("courser: {problem}");
            }
            if let Some(number) = report.undamaged {
                eprintln!(
                    "courser: the last backup of a data folder without damage is --backup {number}"
                );
            }
            let problems = match report.problems_total {
                0 => None,
                1 => Some("damaged, 1 problem".to_owned()),
                more => Some(format!("damaged, {more} problems")),
            };
            let what = match (done, problems) {
                (None, None) => "whole".to_owned(),
                (Some(done), None) => done.to_owned(),
                (None, Some(problems)) => problems,
                (Some(done), Some(problems)) => format!("{done}, {problems}"),
            };
            say(&format!(
                "backup {} of {made}: {} files, {} bytes, {} partitions: {what}\n",
                report.number,
                report.files,
                report.bytes,
                report.partitions.len()
            ))
        }
        Output::Json | Output::Jsonl => {
            let partitions = report.partitions.iter();
            let partitions: Vec<Value> = partitions
                .map(|(id, index)| json!({"partition": id.0, "index": index.0}))
                .collect();
            output.value(&json!({
                "number": report.number,
                "made": made,
                "files": report.files,
                "bytes": report.bytes,
                "partitions": partitions,
                "problems": report.problems,
                "problems_total": report.problems_total,
                "undamaged": report.undamaged,
            }))
        }
    };
    Exit::from(said).or(match report.problems_total {
        0 => Exit::Done,
        _ => Exit::Refused,
    })
}

fn refused(error: &BackupError) -> Exit {
    eprintln!("courser: {error}");
    match error {
        BackupError::None { .. } | BackupError::Unknown { .. } => Exit::NotFound,
        BackupError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Exit::NotFound
        }
        BackupError::Read { .. } => Exit::Disk,
        _ => Exit::Refused,
    }
}

#[cfg(test)]
mod tests;
