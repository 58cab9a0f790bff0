//! `courser user|role|domain|acl|access` on running servers, and who asks: what is done, what is not there, what is refused, and no server at all. Each case of
//! `tests/accounts/` has a server of its own, whose clients must log in.

mod server;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use server::{COURSER, run, server};

const ACCOUNTS: &[&str] = &["--set", "mqtt.authentication=accounts"];

/// A folder with what the cases name: a password file, and one of Mosquitto's.
fn files(folder: &Path) {
    fs::write(folder.join("secret"), "correct horse\nnot this line\n").expect("written");
    fs::write(folder.join("empty"), "\n").expect("written");
    fs::write(
        folder.join("mosquitto"),
        "# two users\nmo:$7$101$SEGJaNNC6hi4EC5Y$o6QJe/KGTZTkjSoAhtYpTZRBoXB5H6iFPFDnFw4ZEoP/Bpwjuua87cl1AjmQvpnrwwO2GJ1lPXmIVF1LsAv8iQ==\n",
    )
    .expect("written");
    fs::write(folder.join("malformed"), "mo:nothing\nma\n").expect("written");
}

fn cases(name: &str) {
    cases_with(name, ACCOUNTS);
}

fn cases_with(name: &str, settings: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_server, _, _) = server(&data, settings);
    // The folder in which the case runs.
    let own = folder.path().join(format!("{name}.in"));
    fs::create_dir(&own).expect("made");
    files(&own);
    let case = format!("{name}.trycmd");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/accounts");
    fs::copy(from.join(&case), folder.path().join(&case)).expect("copied");
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(COURSER));
    let socket = data.join("admin.sock").display().to_string();
    tests.env("COURSER_SERVER", &socket);
    tests.env("XDG_CONFIG_HOME", folder.path().display().to_string());
    tests.case(folder.path().join(&case));
    tests.run();
}

#[test]
fn users() {
    cases("user");
}

#[test]
fn roles() {
    cases("role");
}

#[test]
fn domains() {
    cases("domain");
}

#[test]
fn rules() {
    cases("acl");
}

#[test]
fn operators() {
    cases("operator");
}

#[test]
fn everything_at_once() {
    cases("access");
}

/// Where nobody logs in, what changes nothing for clients says so; where only one listener asks, it does not.
#[test]
fn what_decides_nothing_is_said() {
    cases_with("open", &[]);
    let one =
        r#"listener=[{ name = "asks", address = "127.0.0.1:0", authentication = "accounts" }]"#;
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_server, _, _) = server(&data, &["--set", one]);
    let socket = data.join("admin.sock").display().to_string();
    let (code, said) = with_input(&["role", "add", "device", "--server", &socket], "");
    assert_eq!((code, said.as_str()), (Some(0), "added device\n"));
}

/// `courser` with these arguments and an input: its code and what it said.
fn with_input(arguments: &[&str], input: &str) -> (Option<i32>, String) {
    let mut child = Command::new(COURSER)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut stdin = child.stdin.take().expect("it was piped");
    stdin.write_all(input.as_bytes()).expect("it is read");
    drop(stdin);
    let done = child.wait_with_output().expect("it ends");
    let said = [done.stdout, done.stderr].concat();
    (
        done.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// From an empty broker to a device that may do what it should, a password that is never shown, and the end of the user.
#[test]
fn a_user_is_made_comes_in_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_server, mqtt, _) = server(&data, ACCOUNTS);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    let socket = data.join("admin.sock").display().to_string();
    let ask = |arguments: &[&str], input: &str| {
        let arguments = [arguments, &["--server", &socket]].concat();
        with_input(&arguments, input)
    };
    let publish = |password: &str, topic: &str| {
        let arguments = [
            "pub", "-p", port, "-i", "d1", "-u", "dev", "-P", "-", "-q", "1", "-t", topic, "-m",
            "x",
        ];
        with_input(&arguments, &format!("{password}\n")).0
    };
    assert_eq!(publish("canary-1", "d/d1"), Some(4), "nobody is there yet");
    assert_eq!(ask(&["role", "add", "device"], "").0, Some(0));
    assert_eq!(
        ask(&["acl", "grant", "device", "publish", "d/%c"], "").0,
        Some(0)
    );
    let add = [
        "user",
        "add",
        "dev",
        "--role",
        "device",
        "--password-file",
        "-",
    ];
    let (code, said) = ask(&add, "canary-1\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("canary-1"), "{said}");
    assert_eq!(publish("canary-1", "d/d1"), Some(0));
    assert_eq!(publish("canary-1", "d/d2"), Some(4), "not its own topic");
    assert_eq!(publish("canary-2", "d/d1"), Some(4), "another password");

    let change = [
        "user",
        "set-password",
        "dev",
        "--yes",
        "--scram",
        "--password-file",
        "-",
    ];
    assert_eq!(ask(&change, "canary-2\n").0, Some(0));
    assert_eq!(publish("canary-1", "d/d1"), Some(4), "the old password");
    assert_eq!(publish("canary-2", "d/d1"), Some(0));
    for arguments in [
        &["user", "show", "dev", "-o", "json"][..],
        &["user", "list", "-o", "json"],
        &["access", "export"],
    ] {
        let (_, said) = ask(arguments, "");
        assert!(!said.contains("canary"), "I14: {arguments:?} says {said}");
    }
    let log = run(&["user", "show", "dev", "--server", &socket]).1;
    assert!(log.contains("argon2id"), "{log}");

    assert_eq!(ask(&["user", "disable", "dev", "--yes"], "").0, Some(0));
    assert_eq!(publish("canary-2", "d/d1"), Some(4), "it is disabled");
    assert_eq!(ask(&["user", "enable", "dev"], "").0, Some(0));
    assert_eq!(publish("canary-2", "d/d1"), Some(0));
    assert_eq!(
        ask(&["acl", "revoke", "device", "publish", "d/%c", "--yes"], "").0,
        Some(0)
    );
    assert_eq!(publish("canary-2", "d/d1"), Some(4), "the right is gone");
    assert_eq!(ask(&["user", "remove", "dev", "--yes"], "").0, Some(0));
    assert_eq!(publish("canary-2", "d/d1"), Some(4), "it is removed");
}

/// Exported, lost, and imported into another broker: the same passwords count there. Enough users for several batches of the log.
#[test]
fn what_is_exported_is_imported_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("export.json");
    let file = file.display().to_string();
    {
        let data = folder.path().join("first");
        let (_server, _, _) = server(&data, ACCOUNTS);
        let socket = data.join("admin.sock").display().to_string();
        let ask = |arguments: &[&str], input: &str| {
            with_input(&[arguments, &["--server", &socket]].concat(), input)
        };
        assert_eq!(ask(&["role", "add", "all"], "").0, Some(0));
        assert_eq!(ask(&["acl", "grant", "all", "all", "#"], "").0, Some(0));
        let add = [
            "user",
            "add",
            "anna",
            "--role",
            "all",
            "--password-file",
            "-",
        ];
        assert_eq!(ask(&add, "secret\n").0, Some(0));
        assert_eq!(ask(&["access", "export", &file], "").0, Some(0));
        let mode = fs::metadata(&file).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert_eq!(
            ask(&["access", "export", &file], "").0,
            Some(6),
            "one that is there is left"
        );
    }
    let text = fs::read_to_string(&file).expect("text");
    let mut table: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let anna = table["users"]["anna"].clone();
    for number in 0..20_000 {
        table["users"][format!("user-{number}")] = anna.clone();
    }
    fs::write(&file, table.to_string()).expect("written");
    let data = folder.path().join("second");
    let socket = data.join("admin.sock").display().to_string();
    {
        let (_server, _, _) = server(&data, ACCOUNTS);
        let (code, said) = with_input(
            &["access", "import", &file, "--yes", "--server", &socket],
            "",
        );
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("20001"), "{said}");
    }
    // What an answer has said is on the disk.
    let (_server, mqtt, _) = server(&data, ACCOUNTS);
    let port = mqtt.rsplit_once(':').expect("a port").1;
    for user in ["anna", "user-19999"] {
        let arguments = [
            "pub", "-p", port, "-u", user, "-P", "-", "-q", "1", "-t", "a", "-m", "x",
        ];
        assert_eq!(with_input(&arguments, "secret\n").0, Some(0), "{user}");
    }
}
