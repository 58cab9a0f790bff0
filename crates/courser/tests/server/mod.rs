//! A server as a process of its own, for tests of commands.
#![allow(unreachable_pub)] // each test is a crate of its own

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program.
pub const COURSER: &str = env!("CARGO_BIN_EXE_courser");

/// A server with its data in `folder` and more arguments, ready; and the addresses of its MQTT and its HTTP.
pub fn server(folder: &Path, more: &[&str]) -> (Running, String, String) {
    let mut child = Command::new(COURSER)
        .args(["server", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .args([
            "--set",
            "log.segment_bytes=1MiB",
            "--set",
            "sys.interval=0s",
            "--data",
        ])
        .arg(folder)
        .args(more)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let output = child.stdout.take().expect("it was piped");
    let running = Running(child);
    let (mut mqtt, mut http) = (None, None);
    for line in BufReader::new(output).lines() {
        let line = line.expect("text");
        if let Some(address) = line.strip_prefix("MQTT 3.1.1 and 5.0 on ") {
            mqtt = Some(address.to_owned());
        }
        if let Some(address) = line.strip_prefix("API, metrics and health on ") {
            http = Some(address.to_owned());
        }
        if line == "ready" {
            break;
        }
    }
    let said = "a server says where it listens before it is ready";
    (running, mqtt.expect(said), http.expect(said))
}

/// `courser` with these arguments, to its end.
pub fn run(arguments: &[&str]) -> (bool, String) {
    let done = Command::new(COURSER)
        .args(arguments)
        .output()
        .expect("it runs");
    (
        done.status.success(),
        String::from_utf8_lossy(&done.stdout).into_owned(),
    )
}
