//! One entry of a partition: what made the program panic, in words.

use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use courser_broker::layout;
use courser_contract::{LogIndex, PartitionId};
use courser_engine::{EntryView, FactView};
use courser_log::{
    RealFile, SegmentNumber,
    inspect::{EntryFinder, FoundEntry, InspectError},
};
use serde_json::{Value, json};

use super::{Exit, File, count, fail, print};

/// Which entry.
#[derive(Args, Debug)]
pub(super) struct Entry {
    /// The data folder
    #[command(flatten)]
    file: File,
    /// Its partition
    partition: u16,
    /// Its index
    index: u64,
}

pub(super) fn run(arguments: &Entry, out: &mut impl Write) -> io::Result<Exit> {
    let file = &arguments.file;
    let segments = match segments(&file.path.join(layout::LOG)) {
        Ok(segments) => segments,
        Err(error) => return Ok(fail(file, Exit::Usage, &error)),
    };
    let (id, index) = (PartitionId(arguments.partition), LogIndex(arguments.index));
    let mut finder = EntryFinder::new(id, index);
    for (number, path) in segments {
        let looked = RealFile::read_only(&path)
            .map_err(InspectError::from)
            .and_then(|opened| finder.segment(number, opened));
        match looked {
            // Its header may be damaged, or it is just being used again: the others may have the entry.
            Ok(()) | Err(InspectError::NotASegment) => {}
            Err(InspectError::Read(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                let file = File { path, json: false };
                return Ok(fail(&file, Exit::Refused, &error));
            }
        }
    }
    let Some(found) = finder.finish() else {
        eprintln!(
            "courser: {}: the log has no entry {} of partition {}",
            file.path.display(),
            index.0,
            id.0
        );
        return Ok(Exit::NotFound);
    };
    describe(out, file.json, (id, index), &found)
}

/// Segments of a log by number.
fn segments(log: &std::path::Path) -> io::Result<Vec<(SegmentNumber, PathBuf)>> {
    let mut segments = Vec::new();
    for file in fs::read_dir(log)? {
        let file = file?;
        let name = file.file_name();
        if let Some(number) = name.to_str().and_then(SegmentNumber::of_file_name) {
            segments.push((number, file.path()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

fn describe(
    out: &mut impl Write,
    json: bool,
    (id, index): (PartitionId, LogIndex),
    found: &FoundEntry,
) -> io::Result<Exit> {
    let bytes = found.data.len();
    let words = format!(
        "entry {} of partition {}, term {}, {bytes} bytes, in {}",
        index.0, id.0, found.term.0, found.place
    );
    let fields = json!({
        "is": "entry",
        "partition": id.0,
        "index": index.0,
        "term": found.term.0,
        "bytes": bytes,
        "segment": found.place.segment.0,
        "offset": found.place.offset,
    });
    print(out, json, &words, &fields)?;
    if bytes == 0 {
        // The first entry of a term of consensus.
        print(
            out,
            json,
            "  it says nothing",
            &json!({"is": "facts", "facts": 0}),
        )?;
        return Ok(Exit::Done);
    }
    if id.0 == 0 {
        // Users and roles: nothing of them is shown.
        print(out, json, "  users and roles", &json!({"is": "metadata"}))?;
        return Ok(Exit::Done);
    }
    match EntryView::read(&found.data) {
        Ok(view) => {
            for fact in &view.facts {
                print(out, json, &format!("  {fact}"), &fields_of(fact))?;
            }
            let facts = count(view.facts.len() as u64, "fact", "facts");
            let words = format!("{facts}, at {} ms since 1970", view.wall.0);
            let fields = json!({"is": "facts", "facts": view.facts.len(), "wall_ms": view.wall.0});
            print(out, json, &words, &fields)?;
            Ok(Exit::Done)
        }
        Err(error) => {
            let words = format!("  it cannot be read: {error}");
            print(
                out,
                json,
                &words,
                &json!({"is": "unreadable", "why": error.to_string()}),
            )?;
            Ok(Exit::Refused)
        }
    }
}

fn fields_of(fact: &FactView) -> Value {
    match fact {
        FactView::Publish {
            topic,
            qos,
            payload_bytes,
            kept,
            targets,
        } => json!({
            "is": "publish",
            "topic": topic,
            "qos": *qos as u8,
            "payload_bytes": payload_bytes,
            "kept_as_retained": kept,
            "targets": targets,
        }),
        FactView::Outcome {
            stream,
            first,
            last,
            what,
        } => json!({"is": "outcome", "stream": stream, "first": first, "last": last, "what": what}),
        other => json!({"is": "fact", "says": other.to_string()}),
    }
}
