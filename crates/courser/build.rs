//! Says which commit the program is built of: `COURSER_COMMIT`, or what the repository around it has checked out.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=COURSER_COMMIT");
    let commit = std::env::var("COURSER_COMMIT").ok().or_else(checked_out);
    if let Some(commit) = commit {
        println!("cargo::rustc-env=COURSER_COMMIT={commit}");
    }
}

/// None: this is no repository, or there is no git.
fn checked_out() -> Option<String> {
    // Both change with a commit; a branch that was packed has no file of its own, and gets one with its next commit.
    let head = git(&["rev-parse", "--git-path", "HEAD"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    for file in [head, log] {
        if Path::new(&file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}
