//! `courser config reload` and `courser client trace` on running servers: what is done, what is refused, and no server at all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const COURSER: &str = env!("CARGO_BIN_EXE_courser");

/// A server with its settings and its data in `folder`, ready.
fn server(folder: &Path, settings: &str) -> Running {
    fs::create_dir(folder).expect("a new folder");
    fs::write(folder.join("courser.toml"), settings).expect("written");
    let mut child = Command::new(COURSER)
        .args([
            "server",
            "--config",
            "courser.toml",
            "--http",
            "127.0.0.1:0",
        ])
        .args(["--mqtt", "127.0.0.1:0", "--set", "log.segment_bytes=1MiB"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be started");
    let output = child.stdout.take().expect("it was piped");
    let running = Running(child);
    let mut lines = BufReader::new(output).lines();
    let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line == "ready"));
    assert!(ready.is_some(), "the server ends before it is ready");
    running
}

#[test]
fn settings_are_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let [good, wrong] = ["good", "wrong"].map(|name| folder.path().join(name));
    let _good = server(&good, "mqtt.receive_maximum = 16\n");
    let _wrong = server(&wrong, "");
    let changed = "mqtt.receive_maximum = 32\nserver.pin_shards = true\nlog.level = \"debug\"\n";
    fs::write(good.join("courser.toml"), changed).expect("written");
    fs::write(
        wrong.join("courser.toml"),
        "mqtt.receive_maximum = 0\nnope = 1\n",
    )
    .expect("written");
    let home = folder.path().join("config").display().to_string();
    for (name, place) in [("good", good.join("data")), ("wrong", wrong.join("data"))] {
        let added = Command::new(COURSER)
            .args(["context", "add", name, "--server"])
            .arg(place)
            .env("XDG_CONFIG_HOME", &home)
            .status()
            .expect("it runs");
        assert!(added.success(), "{name} has a name");
    }
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reload/reload.trycmd");
    let copy = folder.path().join("reload.trycmd");
    fs::copy(case, &copy).expect("copied");
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(COURSER));
    tests.env("XDG_CONFIG_HOME", home);
    tests.case(copy.to_str().expect("a path of text"));
    tests.run();
}

/// What a setting draws from a file is in no answer about settings, nor in what is given to somebody who helps.
#[test]
fn what_settings_draw_from_elsewhere_is_never_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let secret = folder.path().join("secret");
    fs::write(&secret, "canary.example").expect("written");
    let place = folder.path().join("drawn");
    let drawn = format!("mqtt.redirect_to = \"${{FILE:{}}}\"\n", secret.display());
    let _server = server(&place, &drawn);
    let data = place.join("data");
    for words in [
        &["config", "show", "--origin"][..],
        &["config", "show", "-o", "json"],
        &["config", "diff"],
        &["config", "diff", "-o", "json"],
        &["diagnose", "-", "--with-names"],
        &["diagnose", "-"],
    ] {
        let done = Command::new(COURSER)
            .args(words)
            .arg("--server")
            .arg(&data)
            .output()
            .expect("it runs");
        let said = [done.stdout, done.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(done.status.success(), "{words:?}: {said}");
        assert!(said.contains("${FILE:"), "{words:?}: {said}");
        assert!(!said.contains("canary"), "{words:?}: {said}");
    }
}
