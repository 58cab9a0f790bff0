//! Frames of WebSocket. See `courser_fuzz::fuzzed_doors::web_frames`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_doors::web_frames(data));
