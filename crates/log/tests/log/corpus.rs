//! The kept inputs of the fuzz targets (`fuzz/corpus/log_*`) and some that a generator makes.

#[allow(unreachable_pub, reason = "the same file serves other crates")]
#[path = "../../../../fuzz/src/kept.rs"]
mod kept;

use courser_log::testing::Choices;

use crate::fuzzed;

fn generated(count: u64, run: fn(&[u8])) {
    for seed in 0..count {
        let mut choices = Choices::new(seed);
        let len = choices.below(40);
        let mut bytes: Vec<u8> = (0..len).map(|_| choices.next_u64() as u8).collect();
        // Most changes would fall into zeros: steer half of them into headers.
        for place in bytes.iter_mut().skip(1).step_by(3) {
            if choices.below(2) == 0 {
                *place &= 0x30;
            }
        }
        run(&bytes);
    }
}

#[test]
fn segments() {
    kept::each("log_segment", fuzzed::segment);
    generated(4_000, fuzzed::segment);
}

#[test]
fn raw_segments() {
    kept::each("log_segment_raw", fuzzed::segment_raw);
    generated(500, fuzzed::segment_raw);
}

#[test]
fn checkpoints() {
    kept::each("log_checkpoint", fuzzed::checkpoint);
    generated(4_000, fuzzed::checkpoint);
}

#[test]
fn summaries() {
    kept::each("log_summary", fuzzed::summary);
    generated(300, fuzzed::summary);
}
