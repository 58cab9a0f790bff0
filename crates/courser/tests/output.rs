//! What commands print for programs: one whole document or nothing, and a code that says so.

mod server;

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use server::{COURSER, Running, run, server};

/// A listing of several pages whose server is gone behind the first one: no half of it is printed.
#[test]
fn a_listing_that_fails_midway_prints_nothing() {
    for output in ["json", "jsonl", "table"] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let place = listener.local_addr().expect("it is bound");
        let serving = thread::spawn(move || {
            let (stream, _) = listener.accept().expect("it asks");
            // Before the answer, so that the next question finds nobody.
            drop(listener);
            answer(
                &stream,
                r#"{"items":[{"client_id":"first"}],"next":"behind it"}"#,
            );
        });
        let done = Command::new(COURSER)
            .args(["client", "list", "--limit", "100", "-o", output])
            .args(["--server", &format!("http://{place}")])
            .output()
            .expect("it runs");
        serving.join().expect("it was asked");
        assert_eq!(done.status.code(), Some(3), "{output}");
        assert_eq!(String::from_utf8_lossy(&done.stdout), "", "{output}");
        assert!(!done.stderr.is_empty(), "{output}: it says why");
    }
}

/// Answers one question.
fn answer(mut stream: &TcpStream, body: &str) {
    let mut head = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        head.read_line(&mut line).expect("a head of a question");
    }
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .expect("it is read");
}

/// Nobody may take what stands in a full file for all that there is.
#[test]
fn what_cannot_be_written_ends_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, _, _) = server(folder.path(), &[]);
    let socket = folder.path().join("admin.sock").display().to_string();
    let at = ["--server", &socket];
    let with_server = [
        &["client", "list", "-o", "json"][..],
        &["client", "list"],
        &["domain", "show", "default", "-o", "jsonl"],
        &["role", "add", "made", "-o", "json"],
        &["events", "--no-follow", "-o", "json"],
        &["top", "-n", "1"],
        &["diagnose", "-"],
        &["access", "export"],
    ];
    let alone = [
        &["errors", "-o", "json"][..],
        &["version"],
        &["config", "schema"],
        &["completions", "bash"],
    ];
    let with_server = with_server.map(|it| [it, &at].concat());
    for arguments in with_server.into_iter().chain(alone.map(<[&str]>::to_vec)) {
        let full = OpenOptions::new().write(true).open("/dev/full");
        let done = Command::new(COURSER)
            .args(&arguments)
            .stdout(full.expect("it is there"))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains("cannot write to standard output"),
            "{arguments:?}: {said}"
        );
    }
}

/// Who has read enough, as `head`, leaves no command behind that goes on for nobody.
#[test]
fn what_goes_on_ends_when_nobody_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, mqtt, _) = server(folder.path(), &[]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let socket = folder.path().join("admin.sock").display().to_string();
    for arguments in [
        &["top", "-d", "1", "-o", "jsonl"][..],
        &["domain", "list", "--watch", "1"],
        &["events", "--past"],
    ] {
        assert!(run(&["pub", "-p", port, "-q", "1", "t", "m"]).0);
        let child = Command::new(COURSER)
            .args(arguments)
            .args(["--server", &socket])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut running = Running(child);
        let mut output = running.0.stdout.take().expect("it was piped");
        output.read_exact(&mut [0]).expect("it says something");
        drop(output);
        let deadline = Instant::now() + Duration::from_secs(30);
        let code = loop {
            if let Some(status) = running.0.try_wait().expect("it is our child") {
                break status.code();
            }
            assert!(Instant::now() < deadline, "{arguments:?} goes on");
            // Of events there is a next one only when something happens.
            assert!(run(&["pub", "-p", port, "-q", "1", "t", "m"]).0);
        };
        assert_eq!(code, Some(0), "{arguments:?}");
    }
}
