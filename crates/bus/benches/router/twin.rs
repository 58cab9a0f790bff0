//! The twin on the JVM.

use crate::workload::Shape;
use std::path::Path;
use std::process::Command;

/// So long it is measured, after the three seconds of its warm-up; ours as long.
pub(crate) const SECONDS: f64 = 0.5;

/// CPU nanoseconds a post of the fixed key: the mean over the time that it is measured.
pub(crate) fn cpu_ns(classes: &Path, subscribers: u64, shape: Shape) -> f64 {
    let shape = match shape {
        Shape::Mono => "mono",
        Shape::Mega => "mega",
    };
    let mut java = Command::new("java");
    java.args(["-XX:+UseParallelGC", "-Xms1g", "-Xmx1g", "-cp"])
        .arg(classes);
    java.args([
        "Bench",
        &subscribers.to_string(),
        "1",
        shape,
        "list",
        &SECONDS.to_string(),
    ]);
    let output = java.output().expect("java runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let after = text
        .split(" cpu ")
        .nth(1)
        .unwrap_or_else(|| panic!("unexpected output of the twin: {text}"));
    after
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("a number follows")
}
