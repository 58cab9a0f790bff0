//! Heads of segments: what older segments held is in them once those are gone.

use std::{collections::BTreeSet, ops::Range};

use courser_contract::{LogIndex, PartitionId, Term};
use courser_log::{BLOCK_BYTES, Manifests, Push, Record, testing::MemDisk};

use super::recorded::Recorded;
use crate::support::{SEGMENT, manifest, open};

const BLOCK: u64 = BLOCK_BYTES as u64;

/// A head of several batches was torn behind the first. It was taken for whole, and what only the others would have said went with older segments.
#[test]
fn m42_votes_stay_when_a_head_is_torn_behind_its_first_batch() {
    // The head that is written again fits behind the torn one, or not.
    for last in [400, 600] {
        tear_head_of(2..last);
    }
}

fn tear_head_of(voters: Range<u16>) {
    let mut recorded = Recorded::new();
    recorded.batch.clear();
    for id in voters.clone() {
        let vote = Record::HardState {
            partition: PartitionId(id),
            term: Term(3),
            vote: 1,
            commit: LogIndex(0),
        };
        if recorded.batch.push(&vote) == Push::Full {
            recorded.log.write(&mut recorded.batch).expect("written");
            recorded.batch.clear();
            assert_eq!(recorded.batch.push(&vote), Push::Taken);
        }
    }
    recorded.log.write(&mut recorded.batch).expect("written");
    while recorded.write_synced(&[1]).place.offset < SEGMENT - BLOCK {}
    let last = recorded.last[&1];
    let manifests = manifest(last, 1, recorded.log.synced());
    let next = recorded.write(&[1]);
    let most = recorded.log.config().batch_bytes_max() as u64;
    assert!(next.place.offset > BLOCK + most, "its head has several");
    let name = next.place.segment.file_name();
    let mut torn = recorded.disk.bytes(&name).expect("it is there");
    torn[(BLOCK + most) as usize..].fill(0);
    recorded.disk.replace(&name, torn);

    let disk = recorded.disk.kill();
    let (mut second, found) = open(&disk, 2, &manifests).expect("opens");
    assert_eq!(found.report.damages, [], "{}", found.report);
    while let Some(job) = second.prepare() {
        second.prepared(job.run()).expect("synced");
    }
    assert!(second.counts().recycled > 0, "older segments are gone");
    let (_, found) = open(&disk.kill(), 3, &manifests).expect("opens");
    assert_eq!(found.report.damages, [], "{}", found.report);
    for id in voters {
        let state = found
            .partitions
            .get(&PartitionId(id))
            .map(|it| it.hard_state);
        let state = state.map(|it| (it.term, it.vote));
        assert_eq!(state, Some((Term(3), 1)), "{id}");
    }
}

/// The witness that found no room had the log's own batch while the next segment's head was written: that came out of another one with the same tags.
#[test]
fn i5_batches_have_tags_of_their_own_where_a_witness_begins_a_segment() {
    let mut recorded = Recorded::on(MemDisk::new(), 1);
    while recorded.write_synced(&[1]).place.offset < SEGMENT - BLOCK {}
    assert!(recorded.log.witness().expect("written"));
    assert_eq!(recorded.log.counts().rolls, 1);
    recorded.write_synced(&[1]);
    let (mut tags, mut batches) = (BTreeSet::new(), 0);
    for name in recorded.disk.names() {
        let bytes = recorded.disk.bytes(&name).expect("it is there");
        for block in bytes.chunks(BLOCK_BYTES).skip(1) {
            if block.starts_with(b"CBCH") {
                batches += 1;
                tags.insert(block[48..56].to_vec());
            }
        }
    }
    assert_eq!(recorded.log.counts().batches, batches);
    assert_eq!(tags.len() as u64, batches);
    let found = open(&recorded.disk.kill(), 2, &Manifests::new());
    assert_eq!(found.expect("opens").1.report.damages, []);
}
