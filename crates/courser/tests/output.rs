//! What commands print for programs: one whole document or nothing, and a code that says so.

mod server;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
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

/// What a verb says as one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Document {
    /// One thing, which has no field of that name.
    Thing,
    /// `{"items": […]}`, and nothing else.
    Items,
    /// The same of the server, with `next`.
    Listing,
}

impl Document {
    fn of(text: &str) -> Option<Self> {
        let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
            return None;
        };
        let items = fields.get("items").map(Value::is_array);
        match (items, fields.get("next"), fields.len()) {
            (None, ..) => Some(Self::Thing),
            (Some(true), None, 1) => Some(Self::Items),
            (Some(true), Some(Value::Null | Value::String(_)), 2) => Some(Self::Listing),
            (Some(_), ..) => None,
        }
    }
}

/// A command that succeeds behind those before it. `PORT`, `FOLDER` and `SECRET` stand for what this run has.
type Case = (Document, &'static str);

const OF_CLIENTS: &[Case] = &[
    (Document::Items, "probe 127.0.0.1:PORT"),
    (Document::Thing, "bench mqtt -p PORT -n 20 --quiet"),
    (Document::Thing, "bench connect -p PORT -n 2 --hold 0"),
    (Document::Thing, "bench retained -p PORT --topics 5"),
    (Document::Thing, "bench absent -p PORT -n 5 --topics 1"),
    (Document::Items, "sub -p PORT kept -C 1"),
];

const OF_FILES: &[Case] = &[
    (Document::Thing, "version"),
    (Document::Items, "errors"),
    (Document::Thing, "errors 0x8e"),
    (Document::Thing, "config check"),
    (Document::Thing, "config show"),
    (Document::Items, "config diff --set server.shards=2"),
    (Document::Items, "context list"),
    (Document::Thing, "backup verify FOLDER/copies"),
    (Document::Thing, "backup prune FOLDER/copies --keep 1 --yes"),
    (
        Document::Thing,
        "restore FOLDER/copies --data FOLDER/restored",
    ),
    (Document::Items, "tls show FOLDER/tls/ca.pem"),
];

const OF_OPERATORS: &[Case] = &[
    (Document::Thing, "config show"),
    (Document::Items, "config diff"),
    (Document::Thing, "config reload"),
    (Document::Thing, "inspect damage"),
    (Document::Items, "top -n 1"),
    (Document::Items, "events --no-follow"),
    (Document::Listing, "listener list"),
    (Document::Listing, "client list"),
    (Document::Thing, "client show past"),
    (Document::Items, "client kick --all --yes"),
    (Document::Items, "client redirect --all --to other --yes"),
    (Document::Listing, "session list"),
    (Document::Thing, "session show away"),
    (Document::Listing, "subscription list"),
    (Document::Items, "session delete away --yes"),
    (Document::Listing, "retained list"),
    (Document::Thing, "retained show kept"),
    (Document::Items, "retained delete kept --yes"),
    (Document::Items, "retained delete --match none/# --yes"),
    (Document::Items, "role add some"),
    (Document::Items, "role set some --administration read --yes"),
    (Document::Thing, "role show some"),
    (Document::Listing, "role list"),
    (Document::Items, "acl grant some publish a/#"),
    (Document::Listing, "acl list"),
    (
        Document::Items,
        "user add anna --role some --password-file SECRET",
    ),
    (Document::Thing, "acl test --user anna --publish a/b"),
    (Document::Items, "acl revoke some publish a/# --yes"),
    (Document::Thing, "user show anna"),
    (Document::Items, "user set anna --remove-role some --yes"),
    (
        Document::Items,
        "user set-password anna --password-file SECRET --yes",
    ),
    (Document::Items, "user disable anna --yes"),
    (Document::Items, "user enable anna"),
    (Document::Items, "user import SECRET.none"),
    (Document::Listing, "user list"),
    (Document::Items, "user remove anna --yes"),
    (Document::Items, "role remove some --yes"),
    (Document::Thing, "domain show default"),
    (
        Document::Items,
        "domain set default --quota queued_messages=1000 --yes",
    ),
    (Document::Listing, "domain list"),
    (Document::Thing, "access import SECRET.json --yes"),
    (Document::Thing, "backup create FOLDER/copies"),
    (Document::Thing, "backup status"),
];

/// Verbs that no case is for, with why.
const ELSEWHERE: [(&str, &str); 4] = [
    ("bench", "the same as `bench mqtt`"),
    (
        "client trace",
        "ends with 27, when its time is over: `tests/operate/watch.trycmd`",
    ),
    (
        "backup stop",
        "there is none that is under way for long enough",
    ),
    (
        "request",
        "somebody has to answer: `tests/verbs/mqtt.trycmd`",
    ),
];

/// Verbs without the flag, as docs/operating.md names them.
const WITHOUT: [&str; 17] = [
    "access export",
    "completions",
    "config schema",
    "context add",
    "context remove",
    "context use",
    "diagnose",
    "init",
    "inspect checkpoint",
    "inspect entry",
    "inspect folder",
    "inspect segment",
    "pub",
    "repair",
    "server",
    "tls new-ca",
    "tls new-cert",
];

/// All verbs with this flag, and those without it, by what `--help` says.
fn verbs_by_output(path: &[&str], found: &mut [BTreeSet<String>; 2]) {
    let (_, help) = run(&[path, &["--help"]].concat());
    let commands = help
        .split_once("\nCommands:\n")
        .map_or("", |(_, rest)| rest);
    for line in commands.lines().take_while(|line| !line.is_empty()) {
        let name = line
            .strip_prefix("  ")
            .and_then(|it| it.split_whitespace().next());
        if let Some(name) = name.filter(|it| line.starts_with(&format!("  {it}")) && *it != "help")
        {
            verbs_by_output(&[path, &[name]].concat(), found);
        }
    }
    let has = help.contains("-o, --output <");
    if has || commands.is_empty() {
        found[usize::from(!has)].insert(path.join(" "));
    }
}

/// What a client sees of `-o json` is one object, of one of three shapes, whatever the verb.
#[test]
fn one_document_has_one_shape_whatever_the_verb() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let copies = format!(
        "backup.folders=[\"{}\"]",
        folder.path().join("copies").display()
    );
    fs::create_dir(folder.path().join("copies")).expect("a folder");
    let (_server, mqtt, _) = server(&data, &["--set", &copies]);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let secret = folder.path().join("secret").display().to_string();
    for (end, text) in [
        ("", "correct horse\n"),
        (".none", ""),
        (".json", "{\"roles\": {}, \"users\": {}}\n"),
    ] {
        fs::write(format!("{secret}{end}"), text).expect("written");
    }
    let here = folder.path().display().to_string();
    assert!(run(&["tls", "new-ca", "--folder", &format!("{here}/tls")]).0);
    let socket = data.join("admin.sock").display().to_string();
    assert!(
        run(&[
            "pub", "-p", port, "-i", "past", "-r", "-q", "1", "kept", "m"
        ])
        .0
    );
    let away = ["-i", "away", "-c", "-x", "600", "-t", "a", "-E"];
    assert!(run(&[&["sub", "-p", port], &away[..]].concat()).0);
    let mut seen: BTreeSet<String> = ELSEWHERE
        .iter()
        .map(|(verb, _)| (*verb).to_owned())
        .collect();
    let mut by_output = [BTreeSet::new(), BTreeSet::new()];
    verbs_by_output(&[], &mut by_output);
    let [found, without] = by_output;
    let expected: BTreeSet<String> = WITHOUT.map(str::to_owned).into();
    assert_eq!(without, expected, "verbs without the flag");
    let at = ["--server", socket.as_str()];
    let all = [
        (OF_CLIENTS, &[][..]),
        (OF_OPERATORS, &at[..]),
        (OF_FILES, &[][..]),
    ];
    let mut wrong = Vec::new();
    for (cases, more) in all {
        for (expected, words) in cases {
            let words = words.replace("PORT", port).replace("FOLDER", &here);
            let words = words.replace("SECRET", &secret);
            let words: Vec<&str> = words
                .split(' ')
                .chain(["-o", "json"])
                .chain(more.iter().copied())
                .collect();
            let (done, text) = run(&words);
            if !done || Document::of(&text) != Some(*expected) {
                wrong.push(format!("{words:?} ({done}), not {expected:?}: {text}"));
            }
            let verb = (1..=2).rev().map(|count| words[..count].join(" "));
            seen.extend(verb.into_iter().find(|verb| found.contains(verb)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(seen, found, "each verb has a case");
}

/// `courser config check 2>&1 | head` ended with 101.
#[test]
fn a_command_whose_errors_nobody_reads_ends_with_its_own_code() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let done = Command::new(COURSER)
        .args(["config", "check", "--config", "/nowhere/courser.toml"])
        .stderr(writer)
        .status()
        .expect("it runs");
    assert_eq!(done.code(), Some(2));
}

#[test]
fn what_a_command_was_told_wrong_is_told_back_without_moving_the_cursor() {
    for told in [
        &["errors", "x\x1b[31m"][..],
        &["config", "check", "--config", "/nowhere/\x1b[31m.toml"],
    ] {
        let done = Command::new(COURSER).args(told).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said:?}");
        assert!(
            !said.contains('\x1b') && said.contains("\\u{1b}[31m"),
            "{said:?}"
        );
    }
}

#[test]
fn a_role_for_a_user_that_is_there_is_asked_for_by_the_flag_that_there_is() {
    let done = Command::new(COURSER)
        .args(["user", "set", "anna", "--role", "device"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("gets a role by --add-role"), "{said}");
}
