//! What the fuzz targets do with their input, apart from libFuzzer; each part is also a plain test of the crate that it is about.

mod codec;
pub use codec::*;

/// The readers of the log's files.
#[path = "../../crates/log/tests/log/fuzzed/mod.rs"]
pub mod fuzzed;

/// The checkpoint of a partition's state.
#[path = "../../crates/engine/tests/fuzzed/mod.rs"]
pub mod fuzzed_engine;

/// What doors read before anybody has logged in.
#[path = "../../crates/transport/tests/fuzzed/mod.rs"]
pub mod fuzzed_doors;

/// The configuration file.
#[path = "../../crates/settings/tests/fuzzed/mod.rs"]
pub mod fuzzed_settings;

/// Topic patterns of rules.
#[path = "../../crates/access/tests/fuzzed/mod.rs"]
pub mod fuzzed_access;

/// Tokens, and the keys that verify them.
#[path = "../../crates/token/tests/fuzzed/mod.rs"]
pub mod fuzzed_token;

/// Manifests of backups, orders and the file `node`.
#[path = "../../crates/broker/tests/fuzzed/mod.rs"]
pub mod fuzzed_broker;
