//! `cargo xtask ci`: what must hold before a change goes in.

use crate::process::{command, run as run_program};
use crate::repo::Repo;
use crate::report::Report;
use crate::{steps, tidy};
use anyhow::Result;

/// Workspaces beside the main one, each with its own lock file.
const OTHER_WORKSPACES: [&str; 2] = ["fuzz/Cargo.toml", "tests/differential/Cargo.toml"];

/// Everything, from what fails fastest on. A check that fails does not hide what the tests say.
pub(crate) fn run(repo: &Repo, report: &mut Report) {
    report.check("format", || format(repo));
    report.check("tidy", || tidy::run(repo));
    report.check("clippy", || {
        cargo(
            repo,
            &[
                "clippy",
                "--locked",
                "--workspace",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ],
        )
    });
    report.check("documentation", || documentation(repo));
    steps::run(repo, &[], report);
}

fn cargo(repo: &Repo, arguments: &[&str]) -> Result<()> {
    run_program(command("cargo", arguments).current_dir(&repo.root))
}

fn format(repo: &Repo) -> Result<()> {
    cargo(repo, &["fmt", "--all", "--check"])?;
    for workspace in OTHER_WORKSPACES
        .into_iter()
        .filter(|workspace| repo.has(workspace))
    {
        cargo(repo, &["fmt", "--check", "--manifest-path", workspace])?;
    }
    Ok(())
}

/// Links in the documentation lead somewhere.
fn documentation(repo: &Repo) -> Result<()> {
    let mut doc = command(
        "cargo",
        &[
            "doc",
            "--locked",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ],
    );
    run_program(
        doc.current_dir(&repo.root)
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}
