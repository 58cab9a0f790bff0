//! The `courser` binary.
fn main() {}
