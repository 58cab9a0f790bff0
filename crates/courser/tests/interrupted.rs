//! Commands that go on until somebody ends them: what they have printed by then, and the code that a shell sees. And scripts for shells.

mod server;

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use server::{COURSER, Running, run, server};

/// What a shell says of the end: a process that a signal has ended counts as 128 and its number.
fn code(status: ExitStatus) -> Option<i32> {
    status.code().or(status.signal().map(|number| 128 + number))
}

/// Which stream of a command tells that it has begun.
#[derive(Clone, Copy)]
enum Tells {
    Output,
    Errors,
}

/// Starts a command, waits for so many lines that contain `text`, sends the signal; the code that a shell sees.
fn ended_by(
    signal: Signal,
    arguments: &[&str],
    tells: Tells,
    (text, times): (&str, usize),
) -> Option<i32> {
    let child = Command::new(COURSER)
        .args(arguments)
        // Open, and nothing comes: a command that reads it waits.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut running = Running(child);
    let child = &mut running.0;
    let lines: Box<dyn BufRead> = match tells {
        Tells::Output => Box::new(BufReader::new(child.stdout.take().expect("it was piped"))),
        Tells::Errors => Box::new(BufReader::new(child.stderr.take().expect("it was piped"))),
    };
    let said = lines
        .lines()
        .map_while(Result::ok)
        .filter(|line| line.contains(text))
        .take(times)
        .count();
    assert_eq!(said, times, "{arguments:?} says {text:?}");
    let id = Pid::from_child(child);
    kill_process(id, signal).expect("it runs");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(status) = child.try_wait().expect("it is our child") {
            return code(status);
        }
        assert!(Instant::now() < deadline, "{arguments:?} goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every command that repeats or waits ends with 130 when it is interrupted, whatever it is about.
#[test]
fn what_goes_on_ends_with_130_when_it_is_interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, mqtt, _) = server(folder.path(), &[]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let socket = folder.path().join("admin.sock").display().to_string();
    let at = ["--server", &socket];
    for (noun, column) in [
        ("client", "CLIENT_ID"),
        ("session", "CLIENT_ID"),
        ("subscription", "CLIENT_ID"),
        ("retained", "TOPIC"),
        ("user", "NAME"),
        ("role", "NAME"),
        ("domain", "NAME"),
        ("acl", "ROLE"),
    ] {
        // Each look is a table, which begins with the names of its columns.
        let list = [noun, "list", "--watch", "1"];
        let ended = ended_by(
            Signal::INT,
            &[&list[..], &at].concat(),
            Tells::Output,
            (column, 2),
        );
        assert_eq!(ended, Some(130), "{noun} list --watch");
    }
    let top = ["top", "-d", "1", "-o", "jsonl"];
    let ended = ended_by(
        Signal::INT,
        &[&top[..], &at].concat(),
        Tells::Output,
        ("received_per_second", 1),
    );
    assert_eq!(ended, Some(130), "top");
    assert!(run(&["pub", "-p", port, "-q", "1", "-r", "t", "kept"]).0);
    let events = ["events", "--past", "-o", "jsonl"];
    let ended = ended_by(
        Signal::INT,
        &[&events[..], &at].concat(),
        Tells::Output,
        ("disconnected", 1),
    );
    assert_eq!(ended, Some(130), "events");
    let publish = ["pub", "-p", port, "-l", "-d", "t"];
    let ended = ended_by(Signal::INT, &publish, Tells::Errors, ("connected", 1));
    assert_eq!(ended, Some(130), "pub");
}

/// What came is printed whole, and the session of a subscriber that is ended stays as long as it was to.
#[test]
fn a_subscriber_is_ended_by_either_signal_and_has_printed_what_came() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, mqtt, _) = server(folder.path(), &[]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let socket = folder.path().join("admin.sock").display().to_string();
    assert!(run(&["pub", "-p", port, "-q", "1", "-r", "t", "kept"]).0);
    for (signal, expected) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let subscribe = ["sub", "-p", port, "-i", "s", "-c", "-q", "1", "-v", "t"];
        let ended = ended_by(signal, &subscribe, Tells::Output, ("t kept", 1));
        assert_eq!(ended, Some(expected), "{signal:?}");
        let shown = run(&["session", "show", "s", "-o", "json", "--server", &socket]);
        assert!(shown.0, "its session is kept: {}", shown.1);
    }
}

/// Who ends a client has it say good-bye: its will is not published, and it does not count as lost.
#[test]
fn a_client_that_is_ended_says_good_bye() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, mqtt, _) = server(folder.path(), &[]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let socket = folder.path().join("admin.sock").display().to_string();
    let will = ["--will-topic", "gone", "--will-retain"];
    // Ends of those that wait for the broker, for their input, for an answer, and for the time.
    let subscribe = ["sub", "-d", "t"];
    let lines = ["pub", "-d", "-l", "t"];
    let request = ["request", "-d", "-W", "60", "t", "question"];
    let repeated = [
        "pub",
        "-d",
        "--repeat",
        "2",
        "--repeat-delay",
        "60",
        "t",
        "m",
    ];
    let (int, term) = (Signal::INT, Signal::TERM);
    for (number, (arguments, says, signal, code)) in [
        (&subscribe[..], "subscribed", term, 143),
        (&subscribe, "subscribed", int, 130),
        (&lines, "connected", term, 143),
        (&repeated, "sent", term, 143),
        (&request, "asked", term, 143),
    ]
    .into_iter()
    .enumerate()
    {
        let client_id = format!("c{number}");
        let whole = [arguments, &["-p", port, "-i", &client_id], &will].concat();
        let ended = ended_by(signal, &whole, Tells::Errors, (says, 1));
        assert_eq!(ended, Some(code), "{arguments:?}");
        let show = [
            "client", "show", &client_id, "-o", "json", "--server", &socket,
        ];
        let deadline = Instant::now() + Duration::from_secs(60);
        while !run(&show).1.contains("\"disconnected\"") {
            assert!(Instant::now() < deadline, "{arguments:?}: {:?}", run(&show));
        }
    }
    let willed = run(&["retained", "show", "gone", "--server", &socket]);
    assert!(!willed.0, "nobody's will was published: {}", willed.1);
}

/// In each shell that the program has a script for; those that are here run it.
#[test]
fn scripts_complete_commands_and_flags() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let (good, script) = run(&["completions", shell]);
        assert!(good, "{shell}");
        for word in ["subscription", "set-password", "token-file", "watch"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    let (_, script) = run(&["completions", "bash"]);
    let completed = |words: &[&str]| {
        let last = words.len() - 1;
        let asks = format!(
            "\nCOMP_WORDS=({}); COMP_CWORD={last}; _courser courser {:?} {:?}; printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
            words.join(" "),
            words[last],
            words[last - 1],
        );
        with_bash(&(script.clone() + &asks))
    };
    let Some(found) = completed(&["courser", "subs"]) else {
        // Without bash there is nobody to ask.
        assert!(!Path::new("/bin/bash").exists());
        return;
    };
    assert_eq!(found.lines().collect::<Vec<_>>(), ["subscription"]);
    let found = completed(&["courser", "client", "list", "--wa"]).expect("bash is there");
    assert_eq!(found.lines().collect::<Vec<_>>(), ["--watch"]);
}

/// What bash prints when it runs this; none: there is no bash.
fn with_bash(script: &str) -> Option<String> {
    let child = Command::new("bash")
        .arg("-s")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut child = child.ok()?;
    let mut input = child.stdin.take().expect("it was piped");
    input.write_all(script.as_bytes()).expect("bash reads it");
    drop(input);
    let done = child.wait_with_output().expect("bash ends");
    assert!(done.status.success());
    Some(String::from_utf8(done.stdout).expect("text"))
}

/// A terminal: the side of the person, and that of the program.
fn terminal() -> (OwnedFd, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&person).expect("ours");
    unlockpt(&person).expect("ours");
    let name = ptsname(&person, Vec::new()).expect("it has a name");
    let name = name.into_string().expect("it is ASCII");
    let program = OpenOptions::new().read(true).write(true).open(name);
    (person, program.expect("the other side"))
}

/// The first bytes that `courser sub -v` writes there for a message that another client sends, up to the payload.
fn printed(port: &str, topic: &str, to: impl Into<Stdio>, from: &mut impl Read) -> String {
    let said = Command::new(COURSER)
        .args(["sub", "-p", port, "-v", "-d", "-C", "1", "#"])
        .stdin(Stdio::null())
        .stdout(to)
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut running = Running(said);
    let errors = running.0.stderr.take().expect("it was piped");
    let begun = BufReader::new(errors).lines().map_while(Result::ok);
    assert!(begun.into_iter().any(|line| line.contains("subscribed")));
    assert!(run(&["pub", "-p", port, "-q", "1", "-t", topic, "-m", "the end"]).0);
    let (mut all, mut one) = (Vec::new(), [0]);
    while !all.ends_with(b"the end") {
        from.read_exact(&mut one).expect("the message comes");
        all.push(one[0]);
    }
    String::from_utf8(all).expect("text")
}

/// Anybody who may publish chooses the topic: on a terminal it cannot clear the screen or overwrite a line.
#[test]
fn a_topic_moves_no_cursor_and_is_as_it_was_for_programs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, mqtt, _) = server(&folder.path().join("data"), &[]);
    let (_, port) = mqtt.rsplit_once(':').expect("a port");
    let topic = "a\u{1b}[2J\rb";
    let (person, program) = terminal();
    let seen = printed(port, topic, program, &mut File::from(person));
    assert_eq!(seen, "a\\u{1b}[2J\\rb the end");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let seen = printed(port, topic, writer, &mut reader);
    assert_eq!(seen, format!("{topic} the end"));
}
