//! What a turn does for the checkpoint that is under way: so much of the state, in so much time.
//!
//! How long a step takes is not known before it is done: each of its names is a look at a record that lies elsewhere, which takes a tenth of a
//! microsecond where memory is as it should be, and 10 to 15 on a virtual machine whose pages the host has taken away and gives back one by one.

use bytes::Bytes;

use crate::shard::metadata::Saveable;

/// Bytes of state that a turn writes at most, of messages those with which the engine charges a look at each as well: so it names less than a chunk of
/// 256 of them.
const SLICE_BYTES: usize = 1 << 10;
/// Those of a step, which is not cut short: mostly eight names; of the table of users it is as much as the time allows.
const STEP_BYTES: usize = 1 << 7;
/// Microseconds after which no further step begins: more than all steps of a slice of messages take, as a rule.
const SLICE_US: u64 = 50;

/// Goes on with it; a piece, if one is full. `spent_us` tells for how long.
pub(super) fn take(saved: &mut dyn Saveable, mut spent_us: impl FnMut() -> u64) -> Option<Bytes> {
    for _ in 0..SLICE_BYTES / STEP_BYTES {
        let piece = saved.take_piece(STEP_BYTES);
        if piece.is_some() || spent_us() >= SLICE_US {
            return piece;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use courser_contract::PartitionId;
    use courser_engine::{AbandonedCheckpoint, EntrySet};
    use courser_log::CheckpointAt;

    use super::*;

    /// A partition that gives a piece in its `full`th step, if ever.
    struct Steps {
        taken: usize,
        full: usize,
    }

    impl Saveable for Steps {
        fn id(&self) -> PartitionId {
            unreachable!("a slice does not ask")
        }

        fn applied(&self) -> CheckpointAt {
            unreachable!("a slice does not ask")
        }

        fn unsaved_bytes(&mut self) -> &mut u64 {
            unreachable!("a slice does not ask")
        }

        fn begin(&mut self) -> bool {
            unreachable!("it has begun")
        }

        fn take_piece(&mut self, bytes: usize) -> Option<Bytes> {
            assert_eq!(bytes, STEP_BYTES);
            self.taken += 1;
            (self.taken == self.full).then(Bytes::new)
        }

        fn end(&mut self) -> Option<EntrySet> {
            unreachable!("a slice does not end it")
        }

        fn cancel(&mut self) -> Option<AbandonedCheckpoint> {
            unreachable!("a slice does not end it")
        }
    }

    /// Steps of one slice where each takes so long.
    fn steps(each_us: u64, full: usize) -> usize {
        let (mut saved, mut spent) = (Steps { taken: 0, full }, 0);
        let piece = take(&mut saved, || {
            spent += each_us;
            spent
        });
        assert_eq!(piece.is_some(), saved.taken == full);
        saved.taken
    }

    #[test]
    fn m42_a_slice_ends_after_its_bytes_or_its_time() {
        let never = usize::MAX;
        assert_eq!(steps(2, never), SLICE_BYTES / STEP_BYTES);
        assert_eq!(steps(20, never), 3);
        assert_eq!(steps(1_000, never), 1);
        assert_eq!(steps(2, 5), 5);
        assert_eq!(steps(1_000, 1), 1);
    }
}
