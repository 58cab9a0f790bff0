//! Manifests of backups, orders and the file `node`. See `courser_fuzz::fuzzed_broker::small_files`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_broker::small_files(data));
