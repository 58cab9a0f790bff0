//! Topic patterns of rules. See `courser_fuzz::fuzzed_access::acl_pattern`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_access::acl_pattern(data));
