//! The PROXY header. See `courser_fuzz::fuzzed_doors::proxy_header`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_doors::proxy_header(data));
