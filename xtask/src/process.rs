//! Running other programs.

use crate::counts::Tests;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// A command that reads nothing from the terminal.
pub(crate) fn command<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// Seconds of all cores that programs which ended, and what they started, have worked so far. 0 where the system does not tell.
pub(crate) fn worked_seconds() -> f64 {
    /// Of a second: what Linux counts in, whatever its own clock does.
    const TICKS: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in brackets, may have spaces. What children worked is in fields 16 and 17, the first one behind the name is 3.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(13).take(2);
    ticks.filter_map(|it| it.parse::<f64>().ok()).sum::<f64>() / TICKS
}

/// Runs to the end with its output shown; an error when it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command
        .status()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs to the end; what it printed is shown only when it fails, which is an error.
pub(crate) fn run_quietly(command: &mut Command) -> Result<()> {
    run_quietly_or(command, |_| None)
}

/// The same. Of what a command printed that failed, `explain` makes what the error says beside its status.
pub(crate) fn run_quietly_or(
    command: &mut Command,
    explain: impl FnOnce(&str) -> Option<String>,
) -> Result<()> {
    println!("$ {}", shown(command));
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let said = said.concat();
    print!("{said}");
    match explain(&said) {
        Some(why) => bail!("{why} ({})", output.status),
        None => bail!("{} ended with {}", shown(command), output.status),
    }
}

/// Runs to the end; what it printed, or an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} ended with {}", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} printed no UTF-8", shown(command)))
}

/// Whether it can be run and ends well; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs tests with their output shown, and counts them. A run that fails without naming a failed test counts as one.
pub(crate) fn count_tests(command: &mut Command) -> Result<Tests> {
    println!("$ {}", shown(command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    let mut tests = Tests::default();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            let text = String::from_utf8_lossy(&line);
            print!("{text}");
            tests.take_line(&text);
            line.clear();
        }
    }
    let status = child.wait()?;
    if !status.success() {
        println!("{} ended with {status}", shown(command));
        tests.counts.ensure_failed();
    }
    Ok(tests)
}
