//! The configuration file. See `courser_fuzz::fuzzed_settings::config_file`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_settings::config_file(data));
