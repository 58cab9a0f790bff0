//! Who is asked, and what is sent to whom: tokens, passwords and names of clients.

mod server;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;

use server::{COURSER, run, server};

/// The token of the data folder that happened to be here went to whoever listened at an address of this machine.
#[test]
fn no_token_goes_to_a_stranger() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("a new folder");
    let token = folder.path().join("data/admin.token");
    let secret = "canary-canary-canary-canary";
    fs::write(&token, secret).expect("written");
    fs::set_permissions(&token, Permissions::from_mode(0o600)).expect("it is ours");
    let stranger = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = stranger.local_addr().expect("it has an address");
    let heard = thread::spawn(move || {
        let (mut asking, _) = stranger.accept().expect("somebody asks");
        let mut head = Vec::new();
        let mut part = [0; 1024];
        while !head.windows(4).any(|it| it == b"\r\n\r\n") {
            let read = asking.read(&mut part).expect("it asks");
            assert!(read > 0, "it goes on asking");
            head.extend_from_slice(&part[..read]);
        }
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
        asking.write_all(answer).expect("it listens");
        String::from_utf8_lossy(&head).to_lowercase()
    });
    let done = Command::new(COURSER)
        .args(["client", "list", "--server", &format!("http://{address}")])
        .current_dir(folder.path())
        .env("XDG_CONFIG_HOME", folder.path())
        .env_remove("COURSER_TOKEN_FILE")
        .output()
        .expect("it runs");
    let head = heard.join().expect("it was asked");
    assert!(head.contains("get /api/v1/clients"), "{head}");
    assert!(
        !head.contains("authorization") && !head.contains(secret),
        "{head}"
    );
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "no courser: {said}");
    assert!(said.contains("something else than a courser"), "{said}");
}

/// The answer was plain text, which no program that reads the API expects.
#[test]
fn a_name_that_is_no_text_is_answered_as_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_running, _, http) = server(&data, &[]);
    let token = fs::read_to_string(data.join("admin.token")).expect("a token");
    let token = token.trim();
    let mut stream = TcpStream::connect(http.trim_start_matches("http://")).expect("it is there");
    let request = format!(
        "GET /api/v1/clients/%ff HTTP/1.1\r\nhost: {http}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.contains(r#"{"error":{"code":1000,"#), "{answer}");
}

/// `-` was a file of that name, as it is for no other command.
#[test]
fn a_password_comes_from_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_running, mqtt, _) = server(&data, &["--set", "mqtt.authentication=accounts"]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let secret = folder.path().join("secret");
    fs::write(&secret, "correct horse\n").expect("written");
    let place = |path: &std::path::Path| path.display().to_string();
    let (data, secret) = (place(&data), place(&secret));
    for words in [
        &["role", "add", "r"][..],
        &["acl", "grant", "r", "all", "t"],
        &[
            "user",
            "add",
            "u",
            "--role",
            "r",
            "--password-file",
            &secret,
        ],
    ] {
        let done = run(&[words, &["--server", &data]].concat());
        assert!(done.0, "{words:?}: {}", done.1);
    }
    for (typed, code) in [("correct horse\n", 0), ("wrong\n", 4)] {
        let mut publishing = Command::new(COURSER)
            .args(["pub", "-p", port, "-u", "u", "--password-file", "-"])
            .args(["-q", "1", "-t", "t", "-m", "x"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let mut stdin = publishing.stdin.take().expect("it was piped");
        stdin.write_all(typed.as_bytes()).expect("it reads");
        drop(stdin);
        let done = publishing.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{typed:?}: {said}");
    }
}

/// A name with a line end in it could be kept, and a listing showed two lines of it.
#[test]
fn a_context_has_a_name_of_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a\nb", "\u{1b}[2J", ""] {
        let done = Command::new(COURSER)
            .args(["context", "add", name, "--server", "http://h:1"])
            .env("XDG_CONFIG_HOME", folder.path())
            .output()
            .expect("it runs");
        assert_eq!(done.status.code(), Some(2), "{name:?}");
    }
    assert!(!folder.path().join("courser/contexts.json").exists());
}
