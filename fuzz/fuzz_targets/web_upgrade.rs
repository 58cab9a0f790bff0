//! The upgrade to WebSocket, and what follows it. See `courser_fuzz::fuzzed_doors::web_upgrade`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_doors::web_upgrade(data));
