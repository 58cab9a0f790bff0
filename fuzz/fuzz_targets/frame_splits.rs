//! A stream cut in two at any place gives the same packets.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| courser_fuzz::frame_splits(bytes));
