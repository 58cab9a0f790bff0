//! `courser version`: which program this is, and what it speaks and writes. Asks no server.

use clap::Args;
use courser_broker::FORMATS;
use courser_broker::metrics::VERSIONS;
use serde_json::json;

use crate::cli::exit::Exit;
use crate::operate::OutputFlags;

/// The commit that this was built of; none of sources without a repository. From the build script.
pub(crate) const COMMIT: Option<&str> = option_env!("COURSER_COMMIT");

/// Flags of `courser version`.
#[derive(Args, Debug)]
pub(crate) struct Version {
    #[command(flatten)]
    output: OutputFlags,
}

/// Runs the command.
pub(crate) fn run(arguments: &Version) -> Exit {
    let mut all = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": COMMIT,
        "mqtt_versions": VERSIONS,
    });
    for (format, version) in FORMATS {
        all[format!("{format}_version")] = version.into();
    }
    arguments.output.output().value(&all).into()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_build_in_a_repository_knows_its_commit() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.git");
        let is_hex = |it: &str| it.len() >= 12 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(super::COMMIT.is_none_or(is_hex));
        assert_eq!(super::COMMIT.is_some(), repository.exists());
    }
}
