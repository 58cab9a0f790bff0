//! What later steps build, built while earlier ones leave cores idle.
//!
//! Tests wait more than they work, the last crates of a build are built one after the other, and builds take half of a run of everything. So those
//! of the later steps are made beside the earlier ones, by a process to which the kernel gives what nobody else wants. Each step still asks for what
//! it needs: where this process cannot run, or a build of it fails, nothing is lost but time, and the step says what is wrong.

use crate::repo::Repo;
use crate::report::Report;
use crate::{instructions, steps};
use anyhow::{Context, Result};
use std::fs::File;
use std::process::{Child, Command, ExitCode, Stdio};

/// What this program is called with to build.
const COMMAND: &str = "ahead";

/// A process that builds. It ends by itself.
struct Ahead(Option<Child>);

impl Ahead {
    /// Begins. What it says is in `ahead.log` of the target folder.
    fn start(repo: &Repo) -> Self {
        let started = spawn(repo);
        if let Err(error) = &started {
            println!("nothing is built ahead: {error:#}");
        }
        Self(started.ok())
    }

    /// Waits for its end. That it failed is for the steps to say; what it has worked is counted here.
    fn end(self, report: &mut Report) {
        let Some(mut child) = self.0 else { return };
        report.check("built ahead", || {
            if let Err(error) = child.wait() {
                println!("what builds ahead: {error}");
            }
            Ok(())
        });
    }
}

/// Runs steps, and builds beside them what later ones want.
pub(crate) fn beside(repo: &Repo, report: &mut Report, steps: impl FnOnce(&mut Report)) {
    let ahead = Ahead::start(repo);
    steps(report);
    ahead.end(report);
}

fn spawn(repo: &Repo) -> Result<Child> {
    let log = File::create(repo.target()?.join("ahead.log"))?;
    // Of util-linux: what it starts has a core only while nothing else wants it.
    Command::new("chrt")
        .args(["--idle", "0"])
        .arg(std::env::current_exe()?)
        .arg(COMMAND)
        .current_dir(&repo.root)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .context("cannot run chrt")
}

/// Builds, in the order in which the steps want it.
pub(crate) fn run(repo: &Repo) -> ExitCode {
    let builds: [fn(&Repo) -> Result<()>; 5] = [
        steps::build_differential,
        steps::install_cbindgen,
        steps::build_broker,
        instructions::build,
        steps::build_fuzz_targets,
    ];
    let mut code = ExitCode::SUCCESS;
    for build in builds {
        if let Err(error) = build(repo) {
            println!("{error:#}");
            code = ExitCode::FAILURE;
        }
    }
    code
}
