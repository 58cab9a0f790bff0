//! What one turn does for a checkpoint, in steps.

use crate::support::Setup;
use courser_contract::{AttachStage, Class};

/// Sessions that each get all messages.
const SESSIONS: u32 = 16;
/// Chunks of 256 messages for each of them.
const CHUNKS: u32 = 64;
/// What a turn of the broker writes at most (`SLICE_BYTES` there).
const SLICE: usize = 1 << 10;
/// Chunks that a slice looks at, at most.
const LOOKS: u32 = 256;

/// Each lies elsewhere in memory, so a look at it is not for nothing, although it is of later entries, or facts have come first.
#[test]
fn m42_a_slice_looks_at_few_chunks_that_are_written_already() {
    let mut setup = Setup::new(Class::Durable, None);
    for number in 0..SESSIONS {
        setup.open(number, AttachStage::Claim, 3_600, Some("all"));
    }
    assert!(setup.partition.begin_checkpoint());
    for _ in 0..CHUNKS * 256 / 64 {
        for _ in 0..64 {
            setup.append("all");
        }
        setup.turn();
    }
    let mut slices = 0;
    while setup.partition.checkpoint_end().is_none() {
        setup.partition.take_checkpoint_piece(SLICE);
        slices += 1;
    }
    assert!(slices * LOOKS >= SESSIONS * CHUNKS, "{slices} slices");
}

/// A message for sessions that nothing was written of yet: where each stream ended is noted, and what it had is written in steps.
#[test]
fn m42_a_message_for_a_thousand_sessions_writes_nothing_of_them() {
    const RECEIVERS: u32 = 1_000;
    let mut setup = Setup::new(Class::Durable, None);
    for number in 0..RECEIVERS {
        setup.open(number, AttachStage::Claim, 3_600, Some("all"));
    }
    for _ in 0..10 {
        setup.append("all");
    }
    setup.turn();
    assert!(setup.partition.begin_checkpoint());
    let before = setup.partition.checkpoint_bytes();
    setup.append("all");
    setup.turn();
    assert_eq!(setup.partition.checkpoint_bytes(), before);
}
