//! The commands for operators on a running server: what is done, what is not there, what is refused, and no server at all. The
//! cases are in `tests/operate/`; each has its own clients, sessions and topics.

mod server;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use server::{COURSER, Running, run, server};

/// A client that stays; it is there when this returns.
fn client(port: &str, socket: &str, id: &str, arguments: &[&str]) -> Running {
    let child = Command::new(COURSER)
        .args(["sub", "-p", port, "-i", id])
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program can be started");
    let running = Running(child);
    let deadline = Instant::now() + Duration::from_secs(20);
    let wanted = format!("client_id={id}");
    while !run(&[
        "subscription",
        "list",
        "-o",
        "jsonl",
        "--server",
        socket,
        "--filter",
        &wanted,
    ])
    .1
    .contains(id)
    {
        assert!(Instant::now() < deadline, "{id} does not come");
        thread::sleep(Duration::from_millis(20));
    }
    running
}

#[test]
fn commands_for_operators() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_server, mqtt, http) = server(&data, &[]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let socket = data.join("admin.sock").display().to_string();
    let token = data.join("admin.token").display().to_string();
    let _stays = client(
        port,
        &socket,
        "stays",
        &["-t", "a/#", "-t", "$share/g/b", "-q", "1"],
    );
    let _kicked = client(port, &socket, "kicked", &["-t", "k"]);
    let sent = ["sent-1", "sent-2", "sent-3"];
    let _sent = sent.map(|id| client(port, &socket, id, &["-t", "k"]));
    let _busy = client(port, &socket, "busy", &["-c", "-t", "s", "-q", "1"]);
    for id in ["kept", "kept-2"] {
        let (good, _) = run(&[
            "sub", "-p", port, "-i", id, "-c", "-t", "kept/#", "-q", "1", "-E",
        ]);
        assert!(good, "{id} is made");
    }
    for (topic, message) in [
        ("kept/1", "one"),
        ("r/a", "first"),
        ("r/b", "second"),
        ("r/c d", "third"),
    ] {
        let (good, _) = run(&[
            "pub", "-p", port, "-q", "1", "-r", "-t", topic, "-m", message,
        ]);
        assert!(good, "{topic} is published");
    }
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/operate");
    for case in fs::read_dir(cases).expect("a folder") {
        let case = case.expect("a file");
        fs::copy(case.path(), folder.path().join(case.file_name())).expect("copied");
    }
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(COURSER));
    tests.env("COURSER_SERVER", &socket);
    tests.env(
        "XDG_CONFIG_HOME",
        folder.path().join("config").display().to_string(),
    );
    tests.case(
        folder
            .path()
            .join("*.trycmd")
            .to_str()
            .expect("a path of text"),
    );
    tests.run();
    http_wants_the_token(&http, &token);
}

/// Variables are not filled in inside of cases: what needs the address is here.
fn http_wants_the_token(http: &str, token: &str) {
    let list = |more: &[&str]| {
        let arguments = ["client", "list", "--server", http];
        let done = Command::new(COURSER)
            .args(arguments)
            .args(more)
            .output()
            .expect("it runs");
        (
            done.status.code(),
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )
    };
    let (code, said) = list(&[]);
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("no token was given (error 1001)"), "{said}");
    assert_eq!(list(&["--token-file", token]).0, Some(0));
    assert_eq!(list(&["--token-file", "/nowhere/token"]).0, Some(2));
}
