//! What the fuzz target of the engine does with its input; the kept corpus runs through the same code as a plain test.

use std::collections::BTreeSet;

use bytes::Bytes;
use courser_contract::{Class, LogIndex, PartitionId, QoS, RecordView};
use courser_engine::{NeededRecords, Partition, PartitionConfig, Restore, RestoreError};

fn config() -> PartitionConfig {
    PartitionConfig::new(PartitionId(1), Class::Durable)
}

/// Something that has a record wherever a checkpoint of the corpus says.
fn entry() -> Bytes {
    let record = RecordView {
        topic: "t",
        properties: b"",
        payload: b"",
        qos: QoS::AtLeastOnce,
        retain: false,
        expires_at: None,
        publisher: None,
        author: None,
    };
    let mut bytes = Vec::new();
    for _ in 0..64 {
        record.encode(&mut bytes);
    }
    bytes.into()
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Partition, RestoreError> {
    let mut restore = Restore::new(config());
    for piece in pieces {
        restore.piece(piece)?;
    }
    let entry = entry();
    for (first, last) in restore.wanted()?.ranges() {
        for at in first.0..=last.0 {
            restore.live_entry(LogIndex(at), &entry)?;
        }
    }
    restore.finish()
}

/// Entries of which a cleaner would keep something.
fn needed(bytes: &[u8]) -> Result<BTreeSet<u64>, RestoreError> {
    let mut needed = BTreeSet::new();
    let mut scan = NeededRecords::new(PartitionId(1));
    for piece in bytes.chunks(77) {
        scan.piece(piece, |index, _| {
            needed.insert(index.0);
        })?;
    }
    scan.finish().map(|()| needed)
}

/// A checkpoint of a partition that may be anything: what is taken is a state that keeps its invariants, and writes a checkpoint from
/// which the same state comes back. Says whether it was taken.
pub fn checkpoint_state(bytes: &[u8]) -> bool {
    let needed = needed(bytes);
    let Ok(mut partition) = read(bytes.chunks(100)) else {
        return false;
    };
    partition.check();
    assert!(needed.is_ok(), "what a start reads, a cleaner reads");
    assert!(partition.begin_checkpoint());
    let mut pieces = Vec::new();
    let end = loop {
        pieces.extend(partition.take_checkpoint_piece(1_000));
        if let Some(end) = partition.checkpoint_end() {
            break end;
        }
    };
    assert_eq!(end.index, partition.applied());
    let again = read(pieces.iter().map(|piece| &*piece.bytes)).expect("what was written is read");
    assert!(
        again.encode_state() == partition.encode_state(),
        "a checkpoint brings back the state"
    );
    true
}
