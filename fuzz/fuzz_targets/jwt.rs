//! Tokens and their keys. See `courser_fuzz::fuzzed_token::jwt`.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| courser_fuzz::fuzzed_token::jwt(data));
