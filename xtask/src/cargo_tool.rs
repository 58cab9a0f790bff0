//! Programs that cargo installs, each in the one version whose output is known.

use crate::process::{command, run};
use crate::repo::Repo;
use anyhow::Result;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The user's own program if it has this version, else one below the target folder, installed if need be.
///
/// # Errors
/// When it cannot be installed.
pub(crate) fn find(repo: &Repo, name: &str, version: &str) -> Result<PathBuf> {
    let root = repo.target()?.join("tools");
    let ours = root.join("bin").join(name);
    for candidate in [Path::new(name), &ours] {
        if is_version(candidate, name, version) {
            return Ok(candidate.to_owned());
        }
    }
    // Unoptimised: none of them has much to do, and they build in half the time.
    run(command(
        "cargo",
        &["install", "--locked", "--quiet", "--debug", name],
    )
    .args(["--version", &format!("={version}"), "--root"])
    .arg(root)
    .current_dir(&repo.root))?;
    Ok(ours)
}

fn is_version(program: &Path, name: &str, version: &str) -> bool {
    let printed = Command::new(program).arg("--version").output();
    printed.is_ok_and(|printed| {
        String::from_utf8_lossy(&printed.stdout).trim() == format!("{name} {version}")
    })
}
