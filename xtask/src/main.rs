//! `cargo xtask`: what CI runs.
fn main() {}
