//! The twin on the JVM.

use crate::workload::Shape;
use std::path::Path;
use std::process::Command;

/// CPU nanoseconds a post of the fixed key: the mean over a second after its warm-up.
pub(crate) fn cpu_ns(classes: &Path, subscribers: u64, shape: Shape) -> f64 {
    let shape = match shape {
        Shape::Mono => "mono",
        Shape::Mega => "mega",
    };
    let mut java = Command::new("java");
    java.args(["-XX:+UseParallelGC", "-Xms1g", "-Xmx1g", "-cp"])
        .arg(classes);
    java.args(["Bench", &subscribers.to_string(), "1", shape, "list", "1"]);
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
