//! The kept inputs of the fuzz target `checkpoint_state`, and each of them cut and changed.

#[allow(
    unreachable_pub,
    reason = "the fuzz targets, in another crate, use it too"
)]
mod fuzzed;
#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../fuzz/src/kept.rs"]
mod kept;

use fuzzed::checkpoint_state;

#[test]
fn checkpoints_of_states_are_taken() {
    let (mut all, mut taken) = (0, 0);
    kept::each("checkpoint_state", |bytes| {
        all += 1;
        taken += u32::from(checkpoint_state(bytes));
    });
    assert!(taken * 2 > all, "{taken} of {all}: most of them are whole");
}

#[test]
fn what_is_cut_is_refused() {
    kept::each("checkpoint_state", |bytes| {
        if checkpoint_state(bytes) {
            for end in 0..bytes.len() {
                assert!(!checkpoint_state(&bytes[..end]), "cut at {end}");
            }
        }
    });
}

#[test]
fn what_is_changed_is_refused_or_is_a_state() {
    kept::each("checkpoint_state", |bytes| {
        for at in 0..bytes.len() {
            for change in [1, 0x80] {
                let mut changed = bytes.to_vec();
                changed[at] ^= change;
                checkpoint_state(&changed);
            }
        }
    });
}
