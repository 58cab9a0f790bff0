//! The programs that count: valgrind, and the one that the benchmarks call.

use crate::cargo_tool;
use crate::process::{command, output, run, succeeds};
use crate::repo::Repo;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const RUNNER: &str = "gungraun-runner";

/// Does nothing when valgrind is there.
///
/// # Errors
/// When it is not and cannot be installed.
pub(super) fn install_valgrind() -> Result<()> {
    let there = || succeeds(&mut command("valgrind", &["--version"]));
    if there() {
        return Ok(());
    }
    let installed = apt_get(&["update", "-qq"]).and_then(|()| {
        apt_get(&[
            "install",
            "-y",
            "-qq",
            "--no-install-recommends",
            "valgrind",
        ])
    });
    match installed {
        Ok(()) if there() => Ok(()),
        Ok(()) => bail!("valgrind does not run"),
        Err(error) => Err(error.context("valgrind cannot be installed")),
    }
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let root = output(&mut command("id", &["-u"]))?.trim() == "0";
    let mut command = if root {
        Command::new("apt-get")
    } else {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "apt-get"]);
        sudo
    };
    run(command
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// The runner in the version that the benchmarks are built with: they refuse any other.
///
/// # Errors
/// When it cannot be installed.
pub(super) fn find(repo: &Repo) -> Result<PathBuf> {
    let lock = fs::read_to_string(repo.path("Cargo.lock"))?;
    let version = locked(&lock).context("Cargo.lock has the runner of the benchmarks")?;
    cargo_tool::find(repo, RUNNER, version)
}

/// The version of the runner in a lock file.
fn locked(lock: &str) -> Option<&str> {
    let (_, package) = lock.split_once(&format!("name = \"{RUNNER}\"\nversion = \""))?;
    package.split_once('"').map(|(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::locked;

    #[test]
    fn the_version_in_the_lock_file() {
        let lock = "[[package]]\nname = \"gungraun\"\nversion = \"0.20.1\"\n\n[[package]]\n\
                    name = \"gungraun-runner\"\nversion = \"0.20.0\"\nsource = \"registry\"\n";
        assert_eq!(locked(lock), Some("0.20.0"));
        assert_eq!(
            locked("[[package]]\nname = \"gungraun\"\nversion = \"1\"\n"),
            None
        );
    }
}
