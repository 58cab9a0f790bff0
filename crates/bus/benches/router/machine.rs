//! What a figure is worth nothing without.

use std::fs;
use std::process::Command;

/// Prints processor, kernel, compiler, commit, and load.
pub(crate) fn describe() {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = |line: &&str| line.starts_with("model name");
    let model = cpu
        .lines()
        .find(model)
        .and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "machine: {cores} x {}; Linux {}; {}; commit {}",
        model.unwrap_or("an unknown processor"),
        said("uname", &["-r"]),
        said("rustc", &["--version"]),
        said("git", &["rev-parse", "--short", "HEAD"])
    );
    load("at the start");
}

/// Prints the load, which tells whether other processes disturbed the figures.
pub(crate) fn load(when: &str) {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let of_a_minute = load.split(' ').next().unwrap_or_default();
    println!("load average {when}: {of_a_minute}");
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    output.map_or_else(
        |_| "?".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}
