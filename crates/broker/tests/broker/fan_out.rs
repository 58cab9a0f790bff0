//! What one message for many sessions takes on the disk (M8).
//!
//! Counted are the bytes of batches in the segments, as `docs/log-format.md` has them: headers, frames and their data, without
//! the zeros that fill the last block of a batch. Witnesses carry nothing and do not count.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Client, broker_on, publish};

const SESSIONS: usize = 1_000;
const PAYLOAD: usize = 128;
/// Partitions of a new folder; a thousand client ids touch them all.
const PARTITIONS: usize = 16;
const BLOCK: usize = 4_096;
const BATCH_HEADER: usize = 88;
/// As long as topics are.
const TOPIC: &str = "plant/7/line/3/cell/12/current";
/// What a message may take in each partition besides its payload and its topic. The batch's header is shared.
const EACH_PARTITION: usize = 64;
/// And for each session, the first time.
const EACH_TARGET: usize = 8;

/// Batches by number, each with its bytes.
fn batches(folder: &Path) -> BTreeMap<u64, usize> {
    let mut found = BTreeMap::new();
    for file in fs::read_dir(folder.join("log")).expect("it is there") {
        let path = file.expect("it is there").path();
        if path.extension().is_none_or(|extension| extension != "seg") {
            continue;
        }
        let bytes = fs::read(&path).expect("a segment can be read");
        let mut at = BLOCK;
        while let Some(header) = bytes.get(at..at + BATCH_HEADER)
            && header.starts_with(b"CBCH")
        {
            let field =
                |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four"));
            let number = u64::from_le_bytes(header[8..16].try_into().expect("eight"));
            let records = field(36);
            let bytes = BATCH_HEADER + field(76) as usize;
            if records > 0 {
                found.insert(number, bytes);
            }
            at += bytes.next_multiple_of(BLOCK);
        }
    }
    found
}

#[test]
fn m8_a_message_for_a_thousand_sessions_is_written_once_a_partition() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let broker = broker_on(
        folder.path(),
        1,
        &["sys.interval=0s", "log.segment_bytes=16MiB"],
    );
    let address = broker.addresses()[0];
    for number in 0..SESSIONS {
        let client_id = format!("absent-{number}");
        let (mut absent, _) = Client::session(address, &client_id, 4, 0, &[]);
        absent.subscribe(TOPIC, 1);
        absent.send(0xE0, &[]);
    }
    let mut publisher = Client::connect(address, "publisher");
    // Sessions that are leaving write, too: everybody is away when the disk has been silent for a moment.
    let mut before = batches(folder.path()).len();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(200));
        let now = batches(folder.path()).len();
        if now == before {
            break;
        }
        before = now;
    }
    let mut costs = Vec::new();
    for packet_id in 1..=5 {
        let before = batches(folder.path());
        publisher.send_raw(&publish(TOPIC, 1, packet_id, &[b'x'; PAYLOAD]));
        assert_eq!(publisher.receive().first, 0x40);
        let after = batches(folder.path());
        let cost: usize = after
            .iter()
            .filter(|(number, _)| !before.contains_key(number))
            .map(|(_, bytes)| bytes)
            .sum();
        costs.push(cost);
    }
    eprintln!(
        "bytes of a message of {PAYLOAD} and a topic of {} for {SESSIONS} sessions of {PARTITIONS} partitions, five times: {costs:?}",
        TOPIC.len()
    );
    let once = BATCH_HEADER + PARTITIONS * (PAYLOAD + TOPIC.len() + EACH_PARTITION);
    assert!(costs[0] > PARTITIONS * PAYLOAD, "all partitions have it");
    // Even with the header.
    let first = once - BATCH_HEADER + EACH_TARGET * SESSIONS;
    assert!(costs[0] <= first, "{costs:?}, the first at most {first}");
    // The others name the list that the first one has brought.
    assert!(
        costs[1..].iter().all(|&cost| cost <= once),
        "{costs:?}, at most {once}"
    );
    broker.stop().expect("nothing failed");
}
