//! Segments of the log.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Write},
    path::Path,
};

use courser_log::{
    RealFile, SegmentNumber,
    inspect::{
        BatchRole, BatchSummary, Found, InspectError, RecordKind, RecordSummary, SegmentInspector,
        SegmentSummary, ToldEnd, told_end,
    },
};
use serde_json::{Value, json};

use super::{Exit, Segment, count, fail, print};

/// What a segment holds of one partition.
#[derive(Clone, Copy, Debug, Default)]
struct OfPartition {
    entries: u64,
    bytes: u64,
    first: u64,
    last: u64,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Totals {
    batches: u64,
    records: u64,
    partitions: BTreeMap<u16, OfPartition>,
    torn: u64,
    damaged: u64,
}

pub(super) fn run(arguments: &Segment, out: &mut impl Write) -> io::Result<Exit> {
    let file = &arguments.file;
    let opened = match RealFile::read_only(&file.path) {
        Ok(opened) => opened,
        Err(error) => return Ok(fail(file, Exit::Usage, &error)),
    };
    let inspector = match SegmentInspector::new(opened) {
        Ok(inspector) => inspector,
        Err(error @ InspectError::Read(_)) => return Ok(fail(file, Exit::Disk, &error)),
        Err(error) => return Ok(fail(file, Exit::Refused, &error)),
    };
    head(out, file.json, &inspector.summary())?;
    let inspector = match end_of(&inspector.summary(), &file.path) {
        Some(told) => inspector.with_end(told),
        None => inspector,
    };
    let mut totals = Totals::default();
    for found in inspector {
        totals.add(&found);
        let is_record = matches!(found, Found::Record(_));
        if !is_record || arguments.records {
            let (words, fields) = describe(&found);
            print(out, file.json, &words, &fields)?;
        }
    }
    totals.print(out, file.json)
}

/// What the segments beside it say of its end. One that cannot be read says nothing: it is not the one that was asked for.
fn end_of(segment: &SegmentSummary, path: &Path) -> Option<ToldEnd> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let names = fs::read_dir(folder).ok()?.flatten();
    let numbers = names.filter_map(|it| SegmentNumber::of_file_name(it.file_name().to_str()?));
    let later: BTreeSet<_> = numbers.filter(|it| *it > segment.segment).collect();
    later.iter().find_map(|number| {
        let later = RealFile::read_only(&folder.join(number.file_name())).ok()?;
        told_end(later, segment).ok()?
    })
}

fn head(out: &mut impl Write, json: bool, summary: &SegmentSummary) -> io::Result<()> {
    let words = format!(
        "segment {} of node {:016x}, made by start {}: {} bytes",
        summary.segment.0, summary.node.0, summary.start, summary.file_bytes
    );
    let fields = json!({
        "is": "segment",
        "segment": summary.segment.0,
        "node": format!("{:016x}", summary.node.0),
        "start": summary.start,
        "bytes": summary.file_bytes,
        "made_with_bytes": summary.segment_bytes,
    });
    print(out, json, &words, &fields)
}

fn describe(found: &Found) -> (String, Value) {
    match found {
        Found::Batch(batch) => describe_batch(batch),
        Found::Record(record) => describe_record(record),
        Found::Damage { offset, kind } => {
            let verdict = if kind.is_loss() { "DAMAGE" } else { "torn" };
            let words = format!("{offset:>10}  {verdict}: {kind}");
            let fields = json!({
                "is": "damage",
                "offset": offset,
                "loss": kind.is_loss(),
                "what": kind.to_string(),
            });
            (words, fields)
        }
        Found::End { offset, rest } => {
            let stale = match rest.stale_batches {
                0 => String::new(),
                stale => format!(", {} of before", count(stale, "batch", "batches")),
            };
            let words = format!("{offset:>10}  end, {} bytes follow{stale}", rest.bytes);
            let fields = json!({
                "is": "end",
                "offset": offset,
                "rest_bytes": rest.bytes,
                "stale_batches": rest.stale_batches,
            });
            (words, fields)
        }
    }
}

fn describe_batch(batch: &BatchSummary) -> (String, Value) {
    let role = match batch.role {
        BatchRole::Data => "data",
        BatchRole::Head => "head",
        BatchRole::Witness => "witness",
    };
    let words = format!(
        "{:>10}  batch {} of start {}, {role}, {}, {} bytes, synced to {}",
        batch.offset,
        batch.number.0,
        batch.start,
        count(u64::from(batch.records), "record", "records"),
        batch.bytes,
        batch.synced.0
    );
    let fields = json!({
        "is": "batch",
        "offset": batch.offset,
        "batch": batch.number.0,
        "start": batch.start,
        "role": role,
        "records": batch.records,
        "bytes": batch.bytes,
        "synced": batch.synced.0,
    });
    (words, fields)
}

fn describe_record(record: &RecordSummary) -> (String, Value) {
    let kind = match record.kind {
        RecordKind::Entry => "entry".to_owned(),
        RecordKind::Piece => "piece".to_owned(),
        RecordKind::HardState => "hard state".to_owned(),
        RecordKind::Checkpoint => "checkpoint".to_owned(),
        RecordKind::Sealed => "sealed".to_owned(),
        RecordKind::Kept => "kept".to_owned(),
        RecordKind::Cleaned => "cleaned".to_owned(),
        RecordKind::Last => "last entry".to_owned(),
        RecordKind::Unknown(kind) => format!("unknown kind {kind}"),
    };
    let words = format!(
        "            {kind} of partition {}, term {}, index {}, {} bytes",
        record.partition.0, record.term.0, record.index.0, record.data_bytes
    );
    let fields = json!({
        "is": "record",
        "kind": kind,
        "partition": record.partition.0,
        "term": record.term.0,
        "index": record.index.0,
        "bytes": record.data_bytes,
    });
    (words, fields)
}

impl Totals {
    fn add(&mut self, found: &Found) {
        match found {
            Found::Batch(_) => self.batches += 1,
            Found::Record(record) => {
                self.records += 1;
                if record.kind == RecordKind::Entry {
                    let of = self.partitions.entry(record.partition.0).or_default();
                    let index = record.index.0;
                    of.first = if of.entries == 0 { index } else { of.first };
                    of.last = index;
                    of.entries += 1;
                    of.bytes += record.data_bytes;
                }
            }
            Found::Damage { kind, .. } if kind.is_loss() => self.damaged += 1,
            Found::Damage { .. } => self.torn += 1,
            Found::End { .. } => {}
        }
    }

    fn print(&self, out: &mut impl Write, json: bool) -> io::Result<Exit> {
        for (partition, of) in &self.partitions {
            let words = format!(
                "partition {partition}: {}, {} to {}, {} bytes",
                count(of.entries, "entry", "entries"),
                of.first,
                of.last,
                of.bytes
            );
            let fields = json!({
                "is": "partition",
                "partition": partition,
                "entries": of.entries,
                "first": of.first,
                "last": of.last,
                "bytes": of.bytes,
            });
            print(out, json, &words, &fields)?;
        }
        let verdict = match (self.damaged, self.torn) {
            (0, 0) => "whole".to_owned(),
            (0, torn) => format!("whole, {} torn", count(torn, "place", "places")),
            (damaged, _) => format!("DAMAGED in {}", count(damaged, "place", "places")),
        };
        let words = format!(
            "{}, {}: {verdict}",
            count(self.batches, "batch", "batches"),
            count(self.records, "record", "records")
        );
        let fields = json!({
            "is": "summary",
            "batches": self.batches,
            "records": self.records,
            "damaged": self.damaged,
            "torn": self.torn,
        });
        print(out, json, &words, &fields)?;
        Ok(match self.damaged {
            0 => Exit::Done,
            _ => Exit::Refused,
        })
    }
}
