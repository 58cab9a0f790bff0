//! `courser version`: which program this is, and what it speaks and writes. Asks no server.

use clap::Args;
use courser_broker::metrics::VERSIONS;
use courser_log::{CHECKPOINT_VERSION, SEGMENT_VERSION};
use serde_json::json;

use crate::cli::exit::Exit;
use crate::operate::OutputFlags;

/// The commit that this was built of, where the build was told.
const COMMIT: Option<&str> = option_env!("COURSER_COMMIT");

/// Flags of `courser version`.
#[derive(Args, Debug)]
pub(crate) struct Version {
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &Version) -> Exit {
    arguments.output.output().value(&json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
        "mqtt_versions": VERSIONS,
        "segment_version": SEGMENT_VERSION,
        "checkpoint_version": CHECKPOINT_VERSION,
    }));
    Exit::Done
}
