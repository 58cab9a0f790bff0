//! Checkpoints of partitions.

use std::io::{self, Write};

use courser_contract::Class;
use courser_engine::{EntrySet, PartitionConfig, Restore, RestoreError, Restored};
use courser_log::{CheckpointError, CheckpointReader, CheckpointSummary, RealFile};
use serde_json::json;

use super::{Exit, File, count, fail, print};

/// Why a checkpoint is not whole.
#[derive(Debug)]
enum Bad {
    File(CheckpointError),
    Content(RestoreError),
}

impl From<CheckpointError> for Bad {
    fn from(error: CheckpointError) -> Self {
        Self::File(error)
    }
}

impl From<RestoreError> for Bad {
    fn from(error: RestoreError) -> Self {
        Self::Content(error)
    }
}

/// A checkpoint that was read.
#[derive(Debug)]
struct Read {
    pieces: u64,
    bytes: u64,
    wanted: EntrySet,
    holds: Restored,
}

pub(super) fn run(file: &File, out: &mut impl Write) -> io::Result<Exit> {
    let opened = match RealFile::read_only(&file.path) {
        Ok(opened) => opened,
        Err(error) => return Ok(fail(file, Exit::Usage, &error)),
    };
    let mut reader = match CheckpointReader::new(opened, file.path.display().to_string()) {
        Ok(reader) => reader,
        Err(error) => return Ok(refuse(&error)),
    };
    head(out, file.json, &reader.summary())?;
    match read(&mut reader) {
        Ok(read) => {
            describe(out, file.json, &read)?;
            Ok(Exit::Done)
        }
        Err(bad) => {
            out.flush()?;
            Ok(match bad {
                Bad::File(error) => refuse(&error),
                Bad::Content(error) => fail(file, Exit::Refused, &error),
            })
        }
    }
}

/// Errors of the reader name the file.
fn refuse(error: &CheckpointError) -> Exit {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}"));
    eprintln!("courser: {error}{}", cause.unwrap_or_default());
    match error {
        CheckpointError::Disk { .. } | CheckpointError::Uncertain { .. } => Exit::Disk,
        _ => Exit::Refused,
    }
}

fn head(out: &mut impl Write, json: bool, summary: &CheckpointSummary) -> io::Result<()> {
    let words = format!(
        "checkpoint of partition {} at entry {} of term {}, by node {:016x}",
        summary.partition.0, summary.at.index.0, summary.at.term.0, summary.node.0
    );
    let fields = json!({
        "is": "checkpoint",
        "partition": summary.partition.0,
        "index": summary.at.index.0,
        "term": summary.at.term.0,
        "node": format!("{:016x}", summary.node.0),
    });
    print(out, json, &words, &fields)
}

fn read(reader: &mut CheckpointReader<RealFile>) -> Result<Read, Bad> {
    let config = PartitionConfig::new(reader.summary().partition, Class::Durable);
    let mut restore = Restore::new(config);
    let (mut pieces, mut bytes) = (0, 0);
    while let Some(piece) = reader.next_piece()? {
        pieces += 1;
        bytes += piece.len() as u64;
        restore.piece(&piece)?;
    }
    let wanted = restore.wanted()?;
    let holds = restore.summary();
    Ok(Read {
        pieces,
        bytes,
        wanted,
        holds,
    })
}

fn describe(out: &mut impl Write, json: bool, read: &Read) -> io::Result<()> {
    let holds = &read.holds;
    let parts = [
        ("sessions", holds.sessions),
        ("subscriptions", holds.subscriptions),
        ("shared groups", holds.groups),
        ("waiting messages", holds.queued),
        ("retained messages", holds.retained),
        ("forwards", holds.forwards),
        ("target sets", holds.sets),
    ];
    if !json {
        for (name, number) in parts {
            writeln!(out, "{number:>12}  {name}")?;
        }
    }
    let entries: u64 = read
        .wanted
        .ranges()
        .map(|(first, last)| last.0 - first.0 + 1)
        .sum();
    let words = format!(
        "{} of {} bytes, records in {} of the log: whole",
        count(read.pieces, "piece", "pieces"),
        read.bytes,
        count(entries, "entry", "entries")
    );
    let ranges: Vec<_> = read
        .wanted
        .ranges()
        .map(|(first, last)| [first.0, last.0])
        .collect();
    let mut fields = json!({
        "is": "summary",
        "pieces": read.pieces,
        "bytes": read.bytes,
        "units": holds.units,
        "wall_ms": holds.wall_ms,
        "live_entries": ranges,
    });
    for (name, number) in parts {
        fields[name.replace(' ', "_")] = number.into();
    }
    print(out, json, &words, &fields)
}
