//! A small recorded log, cut at every byte and with every bit changed: what is found is exactly what was written up to some
//! batch, or the damage is said; never a wrong record (I5, D3, D9).

use std::collections::BTreeMap;

use crate::support::{entry, open, write};
use courser_contract::PartitionId;
use courser_log::{
    Log, Manifests, Recovered, SEGMENT_BYTES_MIN,
    testing::{Choices, MemDisk},
};

/// Entries of each partition after each batch.
type History = Vec<BTreeMap<u16, Vec<Vec<u8>>>>;

struct Recording {
    disk: MemDisk,
    /// By batch, the first is that of the empty log.
    history: History,
    /// Where each batch of the history ends.
    ends: Vec<u64>,
    name: String,
}

/// Batches of one or two records, each synced, in one segment; a witness at the end when asked for.
fn record(witness: bool) -> Recording {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    let mut choices = Choices::new(7);
    let mut history: History = vec![BTreeMap::new()];
    // The segment's header, and the empty head.
    let mut ends = vec![8192];
    for round in 0..7_u64 {
        let mut state = history[history.len() - 1].clone();
        let mut records = Vec::new();
        for id in [round % 2, 2] {
            let entries = state.entry(id as u16).or_default();
            let len = choices.below(700);
            let data: Vec<u8> = (0..len).map(|_| choices.next_u64() as u8).collect();
            entries.push(data.clone());
            records.push(entry(id as u16, entries.len() as u64, &data));
        }
        write(&mut log, &mut batch, &records);
        log.sync().expect("synced");
        history.push(state);
        ends.push(ends[ends.len() - 1] + batch.bytes() as u64);
    }
    if witness {
        log.witness().expect("written");
    }
    let name = disk.names().remove(0);
    let disk = disk.kill();
    Recording {
        disk,
        history,
        ends,
        name,
    }
}

fn found(recovered: &Recovered) -> BTreeMap<u16, Vec<Vec<u8>>> {
    let entries = |(id, partition): (&PartitionId, &courser_log::RecoveredPartition)| {
        let entries: Vec<Vec<u8>> = partition
            .entries
            .iter()
            .map(|entry| entry.data.to_vec())
            .collect();
        (id.0, entries)
    };
    let all = recovered.partitions.iter().map(entries);
    all.filter(|(_, entries)| !entries.is_empty()).collect()
}

fn goes_on(mut log: Log<MemDisk>, recovered: &Recovered, disk: &MemDisk) {
    let last = recovered
        .partitions
        .get(&PartitionId(9))
        .map_or(0, |partition| partition.entries.len() as u64);
    let mut batch = log.new_batch();
    write(&mut log, &mut batch, &[entry(9, last + 1, b"more")]);
    log.sync().expect("synced");
    let (_, again) = open(&disk.kill(), 3, &Manifests::new()).expect("opens again");
    assert_eq!(
        again.partitions[&PartitionId(9)].entries.len() as u64,
        last + 1
    );
    for (id, partition) in &recovered.partitions {
        let again = &again.partitions[id];
        assert_eq!(again.entries, partition.entries, "the same once more");
        assert_eq!(again.damage.is_some(), partition.damage.is_some());
    }
}

#[test]
fn d3_a_log_that_ends_at_any_byte_gives_exactly_the_batches_before_it() {
    let recording = record(false);
    let whole = recording.disk.bytes(&recording.name).expect("it is there");
    for cut in 4096..recording.ends[recording.ends.len() - 1] + 10 {
        let disk = recording.disk.fork();
        let mut bytes = whole.clone();
        bytes[cut as usize..].fill(0);
        disk.replace(&recording.name, bytes);
        let (log, recovered) = open(&disk, 2, &Manifests::new()).expect("opens");
        assert_eq!(recovered.report.damages, [], "cut at {cut}");
        // A batch is whole when the bytes that are cut off are only the zeros that fill its last block.
        let state = found(&recovered);
        let at = recording.history.iter().position(|then| *then == state);
        let at = at.unwrap_or_else(|| panic!("cut at {cut}: no state that was written"));
        let complete = recording.ends.iter().filter(|end| **end <= cut).count();
        assert!(at + 1 >= complete, "cut at {cut}: what was whole is there");
        assert!(at <= complete, "cut at {cut}");
        if at + 1 > complete && at > 0 {
            let end = recording.ends[at] as usize;
            assert!(whole[cut as usize..end].iter().all(|byte| *byte == 0));
        }
        if cut % 512 == 0 {
            goes_on(log, &recovered, &disk);
        }
    }
}

#[test]
fn a_file_cut_short_at_any_byte_is_said_and_gives_no_wrong_record() {
    let recording = record(true);
    for cut in (0..SEGMENT_BYTES_MIN).step_by(37) {
        let disk = recording.disk.fork();
        disk.truncate(&recording.name, cut);
        let (_, recovered) = open(&disk, 2, &Manifests::new()).expect("opens");
        let state = found(&recovered);
        let all = &recording.history[recording.history.len() - 1];
        for (id, entries) in &state {
            assert!(all[id].starts_with(entries), "cut at {cut}: wrong record");
        }
        let is_all = recording.history.last() == Some(&state);
        let is_said = !recovered.report.damages.is_empty();
        assert!(is_all || is_said, "cut at {cut}");
    }
}

fn flip(witness: bool) {
    let recording = record(witness);
    let last = recording.history.len() - 1;
    let end = recording.ends[last] + if witness { 4096 } else { 0 };
    for at in 0..end {
        for bit in 0..8 {
            let disk = recording.disk.fork();
            disk.rot(&recording.name, at, 1 << bit);
            let opened = open(&disk, 2, &Manifests::new());
            let (log, recovered) = opened.unwrap_or_else(|e| panic!("byte {at} bit {bit}: {e}"));
            let state = found(&recovered);
            let report = &recovered.report;
            for (id, entries) in &recording.history[last] {
                let none = Vec::new();
                let found = state.get(id).unwrap_or(&none);
                assert!(
                    entries.starts_with(found),
                    "byte {at} bit {bit}: wrong record of {id}"
                );
                let is_said = recovered.damage(PartitionId(*id)).is_some();
                // Nothing but what precedes the last batch says that it was synced, unless a witness does.
                let was_last = recording.history[last - 1].get(id) == Some(found);
                let is_cut = report.cut.is_some() || at >= recording.ends[last - 1];
                let is_excused = !witness && was_last && is_cut;
                assert!(
                    found == entries || is_said || is_excused,
                    "byte {at} bit {bit}: {id} lost something and nobody says so: {report}"
                );
            }
            assert!(
                state
                    .keys()
                    .all(|id| recording.history[last].contains_key(id))
            );
            if at % 512 == 17 {
                goes_on(log, &recovered, &disk);
            }
        }
    }
}

#[test]
fn d9_any_bit_changed_is_said_or_changes_nothing() {
    flip(true);
}

#[test]
fn d9_without_a_witness_only_the_last_batch_can_be_taken_for_torn() {
    flip(false);
}

/// A synced log of two segments, a witness at its end; what it holds.
fn record_two() -> (MemDisk, BTreeMap<u16, Vec<Vec<u8>>>) {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    let mut choices = Choices::new(11);
    let mut all: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    let mut behind = 0;
    while behind < 3 {
        let id = choices.below(3) as u16;
        let data = vec![choices.next_u64() as u8 | 1; 5_000 + choices.below(6_000) as usize];
        let entries = all.entry(id).or_default();
        entries.push(data.clone());
        write(
            &mut log,
            &mut batch,
            &[entry(id, entries.len() as u64, &data)],
        );
        log.sync().expect("synced");
        behind += u64::from(log.segments() > 1);
    }
    log.witness().expect("written");
    let bytes: usize = all.values().flatten().map(Vec::len).sum();
    assert!(bytes as u64 > SEGMENT_BYTES_MIN / 2 && log.segments() == 2);
    (disk.kill(), all)
}

/// Bytes of headers, and some of those of entries, which are all alike.
fn places(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let used = bytes.iter().rposition(|byte| *byte != 0);
    let used = used.map_or(0, |at| at + 1);
    (0..used).filter(|at| at % 4_096 < 160 || at % 61 == 0)
}

/// What a start finds of it is what was written, up to some entry, and it says so where something is missing.
fn is_all_or_said(disk: &MemDisk, all: &BTreeMap<u16, Vec<Vec<u8>>>, what: &str) {
    let opened = open(disk, 2, &Manifests::new());
    let (_, recovered) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    let state = found(&recovered);
    for (id, entries) in all {
        let none = Vec::new();
        let found = state.get(id).unwrap_or(&none);
        assert!(entries.starts_with(found), "{what}: wrong record of {id}");
        assert!(
            found == entries || recovered.damage(PartitionId(*id)).is_some(),
            "{what}: {id} lost something and nobody says so: {}",
            recovered.report
        );
    }
}

#[test]
fn d9_a_bit_of_any_byte_of_two_segments_is_said_or_changes_nothing() {
    let (recorded, all) = record_two();
    for name in recorded.names() {
        let bytes = recorded.bytes(&name).expect("it is there");
        for at in places(&bytes) {
            let disk = recorded.fork();
            disk.rot(&name, at as u64, 1 << (at % 8));
            is_all_or_said(&disk, &all, &format!("{name}, byte {at}"));
        }
    }
}

/// What is behind the cut is known from the second one.
#[test]
fn d3_the_first_of_two_segments_cut_at_any_place_is_said() {
    let (recorded, all) = record_two();
    let name = recorded.names().remove(0);
    let bytes = recorded.bytes(&name).expect("it is there");
    for cut in places(&bytes) {
        let disk = recorded.fork();
        let mut cut_off = bytes.clone();
        cut_off[cut..].fill(0);
        disk.replace(&name, cut_off);
        is_all_or_said(&disk, &all, &format!("cut at {cut}"));
    }
}
