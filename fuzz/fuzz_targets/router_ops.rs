//! See `crates/bus/tests/fuzzed/mod.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/bus/tests/fuzzed/mod.rs"]
mod fuzzed;

fuzz_target!(|data: &[u8]| fuzzed::operations(data));
