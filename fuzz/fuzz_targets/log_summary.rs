//! See `courser_fuzz::fuzzed::summary`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed::summary(data));
