//! What a start costs: entries replayed, a checkpoint written and read back.
//!
//! `cargo bench -p courser-engine --bench recovery`; under `cargo test` it runs with few sessions and messages.

#[path = "../tests/stored/support.rs"]
mod stored_support;

use std::{collections::BTreeMap, time::Instant};

use courser_contract::{AttachStage, Class, PartitionId, WallMs};
use courser_engine::{CheckpointPiece, Partition, PartitionConfig, Restore};
use stored_support::{NOW, Setup};

/// Messages of an entry.
const BATCH: u64 = 64;
/// Bytes of a checkpoint that a turn of the broker writes (`SLICE_BYTES` there).
const SLICE: usize = 1024;
/// Checkpoints of the same state.
const ROUNDS: usize = 5;

/// Nanoseconds that this thread has run: the machine may be busy with other things.
fn on_cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let first = stat.split(' ').next().expect("three numbers");
    first.parse().expect("nanoseconds")
}

fn config() -> PartitionConfig {
    PartitionConfig::new(PartitionId(1), Class::Durable)
}

/// Whether messages expire: a day after they were sent, a hundred in each second.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expire {
    None,
    All,
}

/// Sessions that are away, each with a share of so many messages; with the entries.
fn stored(sessions: u32, messages: u64, expire: Expire) -> Setup {
    let mut setup = Setup::new(Class::Durable, Some(Vec::new()));
    for number in 0..sessions {
        setup.open(number, AttachStage::Claim, 3_600, None);
    }
    let mut left = messages;
    let mut number = 0;
    while left > 0 {
        let count = left.min(BATCH);
        for _ in 0..count {
            let device = format!("device/{:08}/commands", number % sessions);
            if expire == Expire::All {
                let after = 86_400_000 + u64::from(number) * 10;
                setup.expires_at = Some(WallMs(NOW.wall.0 + after));
            }
            setup.append(&device);
            number += 1;
        }
        setup.turn();
        left -= count;
    }
    setup
}

/// Entries of many sessions and of one, applied again.
fn replay(name: &str, sessions: u32, messages: u64) {
    let setup = stored(sessions, messages, Expire::None);
    let log = setup.log.expect("entries are kept");
    let state = setup.partition.encode_state();
    let mut partition = Partition::new(config());
    let start = on_cpu();
    for (at, entry) in &log {
        let replayed = partition.replay_entry(*at, entry);
        replayed.expect("an entry that was just written");
    }
    let elapsed = on_cpu() - start;
    assert!(partition.encode_state() == state, "the replay is the same");
    eprintln!(
        "replay {name:<22} {:>7.0} ns/message {:>9.0} messages/s",
        elapsed / messages as f64,
        messages as f64 / elapsed * 1e9
    );
}

/// A checkpoint in slices: nanoseconds of each, on the wall; the pieces, and their bytes.
fn written(partition: &mut Partition) -> (Vec<f64>, Vec<CheckpointPiece>, u64) {
    let (mut slices, mut pieces) = (Vec::new(), Vec::new());
    assert!(partition.begin_checkpoint());
    loop {
        let start = Instant::now();
        let piece = partition.take_checkpoint_piece(SLICE);
        let end = partition.checkpoint_end();
        slices.push(start.elapsed().as_nanos() as f64);
        pieces.extend(piece);
        if let Some(end) = end {
            return (slices, pieces, end.bytes);
        }
    }
}

/// A checkpoint in slices, and a partition out of it.
fn checkpoint(sessions: u32, messages: u64, expire: Expire) {
    let mut setup = stored(sessions, messages, expire);
    let (mut slices, mut pieces, bytes) = written(&mut setup.partition);
    let megabytes = bytes as f64 / 1e6;
    let total: f64 = slices.iter().sum();
    // The same again: each slice does the same work, and so the shortest of its times is that of the work.
    let mut shortest = slices.clone();
    for _ in 1..ROUNDS {
        let (again, same, _) = written(&mut setup.partition);
        assert_eq!((again.len(), same.len()), (slices.len(), pieces.len()));
        let both = shortest.iter_mut().zip(again);
        both.for_each(|(shortest, again)| *shortest = shortest.min(again));
        pieces = same;
    }
    let longest_work = shortest.iter().copied().fold(0.0, f64::max) / 1e3;
    slices.sort_by(f64::total_cmp);
    // On the wall: the longest are those in which the machine did something else.
    let percentile = |part: f64| slices[((slices.len() - 1) as f64 * part) as usize] / 1e3;
    eprintln!(
        "checkpoint: {sessions} sessions, {messages} references{}: {megabytes:.1} MB in {:.0} ms, {:.0} MB/s, {} slices, p50 {:.0} µs, p90 {:.0} µs, longest {:.0} µs; longest of the shortest of {ROUNDS} rounds {longest_work:.0} µs",
        if expire == Expire::All {
            " to messages that expire"
        } else {
            ""
        },
        total / 1e6,
        megabytes / total * 1e9,
        slices.len(),
        percentile(0.5),
        percentile(0.9),
        percentile(1.0)
    );
    for (name, cold_from) in [("all is read", u64::MAX), ("all is left in the log", 0)] {
        restore(&setup, &pieces, (name, cold_from), messages);
    }
}

/// A partition out of its checkpoint.
fn restore(
    setup: &Setup,
    pieces: &[CheckpointPiece],
    (name, cold_from): (&str, u64),
    messages: u64,
) {
    let log: BTreeMap<_, _> = setup.log.iter().flatten().cloned().collect();
    let start = on_cpu();
    let mut restore = Restore::new(config());
    restore.leave_cold(cold_from);
    for piece in pieces {
        restore.piece(&piece.bytes).expect("as it was written");
    }
    let read = on_cpu();
    for (first, last) in restore.wanted().expect("whole").ranges() {
        for (at, entry) in log.range(first..=last) {
            restore.live_entry(*at, entry).expect("an entry of the log");
        }
    }
    let restored = restore.finish().expect("nothing is missing");
    let done = on_cpu();
    assert!(restored.encode_state() == setup.partition.encode_state());
    let mut next = Setup::new(Class::Durable, None);
    next.partition = restored;
    let led = on_cpu();
    next.lead(2);
    eprintln!(
        "restore, {name}: pieces {:.0} ms, records {:.0} ms, {:.0} references/s in all, a term begins in {:.0} ms",
        (read - start) / 1e6,
        (done - read) / 1e6,
        messages as f64 / (done - start) * 1e9,
        (on_cpu() - led) / 1e6
    );
}

fn main() {
    let full = std::env::args().any(|arg| arg == "--bench");
    let of = |full_size, small| if full { full_size } else { small };
    replay("to one session", 1, of(100_000, 1_000));
    replay(
        "to 1,000 sessions",
        of(1_000, 10) as u32,
        of(1_000_000, 1_000),
    );
    checkpoint(of(100_000, 100) as u32, of(1_000_000, 1_000), Expire::None);
    // Full chunks, whose records lie far from each other.
    for expire in [Expire::None, Expire::All] {
        checkpoint(of(1_000, 1) as u32, of(1_000_000, 1_000), expire);
    }
    // In one partition, as many as a node is to have.
    checkpoint(of(1_000, 1) as u32, of(10_000_000, 1_000), Expire::None);
}
