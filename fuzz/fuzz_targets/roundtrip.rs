//! Any packet made of the input is written and read back.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courser_fuzz::roundtrip(bytes));
