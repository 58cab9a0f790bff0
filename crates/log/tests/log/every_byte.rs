//! A small recorded log, cut at every byte and with every bit changed: what is found is exactly what was written up to some
//! batch, or the damage is said; never a wrong record (I5, D3, D9). It has entries, also one in pieces, and hard states; a log of two
//! segments has what heads say, records that were kept and a segment that was cleaned besides.

use std::{collections::BTreeMap, ops::Range};

use crate::support::{NODE, checkpoint_at, entry, open, write};
use bytes::Bytes;
use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{
    CheckpointStore, Disk as _, HardState, LiveEntries, Log, Manifests, Place, Push, Record,
    Recovered, SEGMENT_BYTES_MIN, SegmentNumber,
    inspect::{Found as Seen, SegmentInspector, told_end},
    testing::{Choices, MemDisk},
};

/// What one partition has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    hard_state: HardState,
    entries: Vec<Vec<u8>>,
}

type State = BTreeMap<u16, Found>;

/// The next entry of a partition, whose first one has this index.
fn next(state: &mut State, id: u16, first: u64, data: Vec<u8>) -> Record {
    let found = state.entry(id).or_default();
    let index = first + found.entries.len() as u64;
    found.entries.push(data.clone());
    entry(id, index, &data)
}

fn vote(state: &mut State, id: u16, commit: u64) -> Record {
    let hard_state = HardState {
        term: Term(1),
        vote: 1,
        commit: LogIndex(commit),
    };
    state.entry(id).or_default().hard_state = hard_state;
    let HardState { term, vote, commit } = hard_state;
    Record::HardState {
        partition: PartitionId(id),
        term,
        vote,
        commit,
    }
}

fn random(choices: &mut Choices, len: usize) -> Vec<u8> {
    (0..len).map(|_| choices.next_u64() as u8).collect()
}

struct Recording {
    disk: MemDisk,
    /// What there is after each batch, the first is that of the empty log. A batch with a piece that is not the last adds nothing.
    history: Vec<State>,
    /// Where each batch of the history ends.
    ends: Vec<u64>,
    /// Batches of the entry in pieces.
    pieces: Range<u64>,
    name: String,
}

/// More than a batch of these segments may hold.
const LARGE: usize = 17_000;

impl Recording {
    fn end(&self) -> u64 {
        *self.ends.last().expect("there is always one")
    }

    fn state(&self) -> State {
        self.history.last().expect("there is always one").clone()
    }

    /// A synced batch, or as many as a large entry needs; then there is `state`.
    fn write(&mut self, log: &mut Log<MemDisk>, records: &[Record], state: State) {
        let mut batch = log.new_batch();
        for record in records {
            assert_eq!(batch.push(record), Push::Taken);
        }
        while batch.is_unfinished() {
            log.write(&mut batch).expect("written");
            self.history.push(self.state());
            self.ends.push(self.end() + batch.bytes() as u64);
            batch.clear();
        }
        log.write(&mut batch).expect("written");
        log.sync().expect("synced");
        self.history.push(state);
        self.ends.push(self.end() + batch.bytes() as u64);
    }

    /// The bits of a byte that are changed: all of them, and one where there is nothing but more of a large entry's data.
    fn bits(&self, at: u64) -> Range<u64> {
        match self.pieces.contains(&at) && at % 4096 >= 160 {
            true => at % 8..at % 8 + 1,
            false => 0..8,
        }
    }
}

/// Batches of a few records, each synced, in one segment; a witness at the end when asked for.
fn record(witness: bool) -> Recording {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut choices = Choices::new(7);
    let mut recording = Recording {
        disk: disk.clone(),
        history: vec![State::new()],
        // The segment's header, and the empty head.
        ends: vec![8192],
        pieces: 0..0,
        name: disk.names().remove(0),
    };
    for round in 0..6 {
        let mut state = recording.state();
        let mut records = Vec::new();
        match round {
            0 => records.extend((0..3).map(|id| vote(&mut state, id, 0))),
            2 => records.push(vote(&mut state, 2, 2)),
            5 => records.push(vote(&mut state, 0, 3)),
            _ => {}
        }
        for id in [round % 2, 2] {
            let len = choices.below(700) as usize;
            let data = random(&mut choices, len);
            records.push(next(&mut state, id, 1, data));
        }
        recording.write(&mut log, &records, state);
        if round == 3 {
            let (begin, mut state) = (recording.end(), recording.state());
            let data = random(&mut choices, LARGE);
            let large = next(&mut state, 1, 1, data);
            recording.write(&mut log, &[large], state);
            recording.pieces = begin..recording.end();
        }
    }
    if witness {
        log.witness().expect("written");
    }
    assert_eq!(log.segments(), 1);
    recording.disk = disk.kill();
    recording
}

fn found(recovered: &Recovered) -> State {
    let found = |(id, partition): (&PartitionId, &courser_log::RecoveredPartition)| {
        let entries = partition.entries.iter();
        let found = Found {
            hard_state: partition.hard_state,
            entries: entries.map(|entry| entry.data.to_vec()).collect(),
        };
        (id.0, found)
    };
    let all = recovered.partitions.iter().map(found);
    all.filter(|(_, found)| *found != Found::default())
        .collect()
}

/// Whether a vote is what was written, or a newer term that was not voted in: nobody may vote twice in one (M44).
fn is_vote_right(found: HardState, written: HardState) -> bool {
    found.term > written.term && found.vote == 0
        || (found.term, found.vote) == (written.term, written.vote)
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
        let state = found(&recovered);
        let complete = recording.ends.iter().filter(|end| **end <= cut).count();
        if state != recording.history[complete.saturating_sub(1)] {
            // A batch is whole when the bytes that are cut off are only the zeros that fill its last block.
            assert!(state == recording.history[complete], "cut at {cut}");
            let end = recording.ends[complete] as usize;
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
        for (id, found) in &state {
            let (all, entries) = (&all[id], &found.entries);
            assert!(all.entries.starts_with(entries), "cut at {cut}");
            let is_right = is_vote_right(found.hard_state, all.hard_state);
            let is_none = found.hard_state == HardState::default();
            assert!(is_right || is_none, "cut at {cut}: {found:?}");
        }
        let is_all = recording.history.last() == Some(&state);
        let is_said = !recovered.report.damages.is_empty();
        assert!(is_all || is_said, "cut at {cut}");
    }
}

/// Bytes that belong to batches behind which something says that they were synced: all of a segment with a `later` one, and what is before the last of another.
fn synced_bytes(disk: &MemDisk, name: &str, later: Option<&str>) -> Vec<Range<u64>> {
    let bytes = disk.bytes(name).expect("it is there");
    let file = disk.open(name).expect("it is there");
    let batches = SegmentInspector::new(file).expect("a segment");
    let batches = batches.filter_map(|found| match found {
        Seen::Batch(batch) => Some(batch.offset),
        Seen::Record(_) | Seen::End { .. } => None,
        Seen::Damage { .. } => panic!("{name} is whole"),
    });
    let range = |from: u64| {
        let body = &bytes[from as usize + 76..][..4];
        let body = u32::from_le_bytes(body.try_into().expect("four bytes"));
        from..from + 88 + u64::from(body)
    };
    let mut ranges: Vec<_> = batches.map(range).collect();
    if later.is_none() {
        ranges.pop();
    }
    ranges
}

/// Whether an inspection, also of what a `later` segment says of the end, finds that something which was durable is lost.
fn is_seen(disk: &MemDisk, name: &str, later: Option<&str>) -> bool {
    let open = |name| disk.open(name).expect("it is there");
    let Ok(mut inspector) = SegmentInspector::new(open(name)) else {
        return true;
    };
    let told = later.and_then(|later| told_end(open(later), &inspector.summary()).ok()?);
    if let Some(told) = told {
        inspector = inspector.with_end(told);
    }
    let mut found = inspector;
    found.any(|found| matches!(found, Seen::Damage { kind, .. } if kind.is_loss()))
}

fn flip(witness: bool) {
    let recording = record(witness);
    let synced = synced_bytes(&recording.disk, &recording.name, None);
    let last = recording.history.len() - 1;
    let end = recording.ends[last] + if witness { 4096 } else { 0 };
    for at in 0..end {
        for bit in recording.bits(at) {
            let disk = recording.disk.fork();
            disk.rot(&recording.name, at, 1 << bit);
            assert!(
                !synced.iter().any(|batch| batch.contains(&at))
                    || is_seen(&disk, &recording.name, None),
                "byte {at} bit {bit}: an inspection calls it whole"
            );
            let opened = open(&disk, 2, &Manifests::new());
            let (log, recovered) = opened.unwrap_or_else(|e| panic!("byte {at} bit {bit}: {e}"));
            let state = found(&recovered);
            let report = &recovered.report;
            for (id, written) in &recording.history[last] {
                let found = state.get(id).cloned().unwrap_or_default();
                assert!(
                    written.entries.starts_with(&found.entries),
                    "byte {at} bit {bit}: wrong record of {id}"
                );
                let is_said = recovered.damage(PartitionId(*id)).is_some();
                // Nothing but what precedes the last batch says that it was synced, unless a witness does.
                let was_last = recording.history[last - 1].get(id) == Some(&found);
                let is_cut = report.cut.is_some() || at >= recording.ends[last - 1];
                let is_excused = !witness && was_last && is_cut;
                let has_all = found.entries == written.entries
                    && is_vote_right(found.hard_state, written.hard_state);
                assert!(
                    has_all || is_said || is_excused,
                    "byte {at} bit {bit}: {id} lost something and nobody says so: {report}"
                );
                let commit = found.hard_state.commit;
                assert!(commit <= written.hard_state.commit, "byte {at} bit {bit}");
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
fn record_two() -> (MemDisk, State) {
    let disk = MemDisk::new();
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let mut batch = log.new_batch();
    let mut choices = Choices::new(11);
    let mut all = State::new();
    let mut behind = 0;
    while behind < 3 {
        let id = choices.below(3) as u16;
        let data = vec![choices.next_u64() as u8 | 1; 5_000 + choices.below(6_000) as usize];
        let record = next(&mut all, id, 1, data);
        write(&mut log, &mut batch, &[record]);
        log.sync().expect("synced");
        behind += u64::from(log.segments() > 1);
    }
    log.witness().expect("written");
    let entries = all.values().flat_map(|found| &found.entries);
    let bytes: usize = entries.map(Vec::len).sum();
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
fn is_all_or_said(disk: &MemDisk, all: &State, what: &str) {
    let opened = open(disk, 2, &Manifests::new());
    let (_, recovered) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
    are_all_or_said(&recovered, all, what);
}

fn are_all_or_said(recovered: &Recovered, all: &State, what: &str) {
    let state = found(recovered);
    for (id, written) in all {
        let found = state.get(id).cloned().unwrap_or_default();
        let entries = &found.entries;
        assert!(
            written.entries.starts_with(entries),
            "{what}: wrong record of {id}"
        );
        assert!(
            *entries == written.entries || recovered.damage(PartitionId(*id)).is_some(),
            "{what}: {id} lost something and nobody says so: {}",
            recovered.report
        );
    }
}

#[test]
fn d9_a_bit_of_any_byte_of_two_segments_is_said_or_changes_nothing() {
    let (recorded, all) = record_two();
    let names = recorded.names();
    for (number, name) in names.iter().enumerate() {
        let later = names.get(number + 1).map(String::as_str);
        assert!(!is_seen(&recorded, name, later));
        let synced = synced_bytes(&recorded, name, later);
        let bytes = recorded.bytes(name).expect("it is there");
        for at in places(&bytes) {
            let disk = recorded.fork();
            disk.rot(name, at as u64, 1 << (at % 8));
            is_all_or_said(&disk, &all, &format!("{name}, byte {at}"));
            let is_synced = synced.iter().any(|batch| batch.contains(&(at as u64)));
            assert!(
                !is_synced || is_seen(&disk, name, later),
                "{name}, byte {at}: an inspection calls it whole"
            );
        }
    }
}

/// The segment before it was named, and a byte behind its last batch.
#[test]
fn m44_rot_in_the_first_batch_of_a_segment_is_named_in_its_file() {
    let (recorded, all) = record_two();
    let names = recorded.names();
    for (name, bit) in names.iter().flat_map(|name| [(name, 1), (name, 128)]) {
        let disk = recorded.fork();
        disk.rot(name, 4096 + 42, bit);
        let (_, recovered) = open(&disk, 2, &Manifests::new()).expect("opens");
        are_all_or_said(&recovered, &all, name);
        let place = Place {
            segment: SegmentNumber::of_file_name(name).expect("a segment"),
            offset: 4096,
        };
        let report = &recovered.report;
        let places: Vec<Place> = report.damages.iter().map(|damage| damage.place).collect();
        assert_eq!(places, [place], "{report}");
        for (id, found) in &recovered.partitions {
            let expected = found.damage.is_some().then_some(place);
            assert_eq!(found.lost_at, expected, "{id:?}: {report}");
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

/// A synced log of two segments, a witness at its end. Of the first one an entry is needed, which the second one has kept: it says that the
/// first one is cleaned.
struct Cleaned {
    disk: MemDisk,
    manifests: Manifests,
    /// What is behind the checkpoints, and votes.
    all: State,
    /// What is needed before them: entry 1 of partition 1.
    needed: Vec<u8>,
    first: SegmentNumber,
}

fn after(segment: SegmentNumber) -> SegmentNumber {
    SegmentNumber(segment.0 + 1)
}

fn record_cleaned() -> Cleaned {
    let (disk, checkpoints) = (MemDisk::new(), MemDisk::new());
    let (store, _) = CheckpointStore::open(checkpoints.clone(), NODE).expect("an empty folder");
    let (mut log, _) = open(&disk, 1, &Manifests::new()).expect("an empty folder");
    let first = log.held_segments()[0].segment;
    let mut batch = log.new_batch();
    let mut choices = Choices::new(13);
    let mut put = |log: &mut Log<MemDisk>, records: &[Record]| {
        write(log, &mut batch, records);
        log.sync().expect("synced");
    };
    let mut before = State::new();
    let votes = [1, 2].map(|id| vote(&mut before, id, 0));
    put(&mut log, &votes);
    let needed = random(&mut choices, 600);
    put(&mut log, &[next(&mut before, 1, 1, needed.clone())]);
    put(&mut log, &[next(&mut before, 1, 1, vec![5; 90])]);
    for byte in 1..=3 {
        put(&mut log, &[next(&mut before, 2, 1, vec![byte; 9_000])]);
    }
    assert_eq!(log.segments(), 1);
    for (id, index, live) in [(1, 2, Some(1)), (2, 3, None)] {
        let live: LiveEntries = live.into_iter().map(LogIndex).collect();
        let (id, at) = (PartitionId(id), checkpoint_at(index, 1));
        let mut writer = store.writer(id, at).expect("created");
        writer.piece(b"state").expect("written");
        let synced = log.synced();
        writer.finish(live.clone(), synced).expect("finished");
        log.set_checkpoint(id, at, live);
    }
    // It finds no room in the first one.
    let mut all = State::new();
    put(&mut log, &[next(&mut all, 2, 4, vec![9; 9_000])]);
    assert_eq!(log.segments(), 2);
    let kept = Record::Kept {
        partition: PartitionId(1),
        term: Term(1),
        index: LogIndex(1),
        byte: 0,
        data: Bytes::from(needed.clone()),
    };
    put(&mut log, &[kept, Record::Cleaned { segment: first }]);
    assert_eq!(log.held_segments()[0].segment, after(first));
    let data = random(&mut choices, 300);
    put(&mut log, &[next(&mut all, 1, 3, data)]);
    let votes = [(1, 2), (2, 4)].map(|(id, commit)| vote(&mut all, id, commit));
    put(&mut log, &votes);
    put(&mut log, &[next(&mut all, 1, 3, vec![6; 90])]);
    log.witness().expect("written");
    let (_, loaded) = CheckpointStore::open(checkpoints, NODE).expect("opens");
    Cleaned {
        disk: disk.kill(),
        manifests: loaded.manifests,
        all,
        needed,
        first,
    }
}

impl Cleaned {
    /// What a start gets of what is needed: what was kept, or else the entry.
    fn needed_of(log: &Log<MemDisk>) -> Option<Vec<u8>> {
        let mut reader = log.reader(PartitionId(1));
        while let Some(kept) = reader.next_kept() {
            let mut kept = kept.into_iter().flatten();
            if let Some(record) = kept.find(|it| it.index == LogIndex(1)) {
                assert_eq!(record.byte, 0);
                return Some(record.data.to_vec());
            }
        }
        let read = reader.read(LogIndex(1));
        read.ok().map(|read| read.data.to_vec())
    }

    /// What a start finds is what was written, and it says so where something is missing.
    fn is_all_or_said(&self, disk: &MemDisk, what: &str) {
        let opened = open(disk, 2, &self.manifests);
        let (log, recovered) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
        are_all_or_said(&recovered, &self.all, what);
        for (id, written) in &self.all {
            let found = &recovered.partitions[&PartitionId(*id)];
            let is_said = found.damage.is_some();
            let is_right = is_vote_right(found.hard_state, written.hard_state);
            assert!(is_right || is_said, "{what}: {:?}", found.hard_state);
            assert!(found.hard_state.commit <= written.hard_state.commit);
            assert_eq!(found.checkpoint, Some(self.manifests[&PartitionId(*id)].at));
        }
        let is_said = !recovered.partitions[&PartitionId(1)]
            .missing_live
            .is_empty();
        match Self::needed_of(&log) {
            Some(needed) => assert!(needed == self.needed, "{what}: a wrong record"),
            None => assert!(
                is_said,
                "{what}: what is needed is lost, and nobody says so"
            ),
        }
    }
}

#[test]
fn d9_a_bit_of_any_byte_of_a_cleaned_log_is_said_or_changes_nothing() {
    let recorded = record_cleaned();
    let first = recorded.first.file_name();
    for is_gone in [false, true] {
        let whole = recorded.disk.fork();
        if is_gone {
            whole.remove(&first).expect("removed");
        }
        let (log, recovered) = open(&whole.fork(), 2, &recorded.manifests).expect("opens");
        assert_eq!(recovered.report.damages, [], "gone: {is_gone}");
        assert_eq!(found(&recovered), recorded.all);
        assert!(Cleaned::needed_of(&log).is_some_and(|it| it == recorded.needed));
        for name in whole.names() {
            let bytes = whole.bytes(&name).expect("it is there");
            let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
            let all: Vec<usize> = match name == first {
                true => places(&bytes).collect(),
                false => (0..=used).collect(),
            };
            for at in all {
                let disk = whole.fork();
                disk.rot(&name, at as u64, 1 << (at % 8));
                recorded.is_all_or_said(&disk, &format!("{name}, byte {at}, gone: {is_gone}"));
            }
        }
    }
}

/// Without a witness behind it a cut looks like the end of a log; what was moved is still where it came from then.
#[test]
fn d3_a_cleaned_log_that_ends_at_any_byte_has_all_that_is_needed() {
    let recorded = record_cleaned();
    let name = after(recorded.first).file_name();
    let bytes = recorded.disk.bytes(&name).expect("it is there");
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    for cut in 4_096..=used {
        let disk = recorded.disk.fork();
        let mut cut_off = bytes.clone();
        cut_off[cut..].fill(0);
        disk.replace(&name, cut_off);
        let (log, recovered) = open(&disk, 2, &recorded.manifests).expect("opens");
        assert_eq!(recovered.report.damages, [], "cut at {cut}");
        for (id, found) in found(&recovered) {
            let (found, all) = (found.entries, &recorded.all[&id].entries);
            assert!(all.starts_with(&found), "cut at {cut}: wrong record");
        }
        let needed = Cleaned::needed_of(&log);
        assert!(needed.is_some_and(|it| it == recorded.needed), "{cut}");
    }
}
