//! Every verb of every kind against servers that do it, that do not know who asks, and that are not there; `src/tests.rs` says which verbs
//! must have a case of which kind. In the cases of `tests/verbs/`, `{mqtt}` is the port of a server, `{accounts}` that of one whose
//! clients log in, `{copies}` a folder for backups of the first one.

mod server;

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use courser_client::{
    Client, Endpoint, Filter, Message, MessageProperty, Options, QoS, VersionChoice,
};
use server::{COURSER, Running, run, server};

/// A folder with what cases name: a password and a file of Mosquitto's.
fn files(folder: &Path) {
    fs::create_dir(folder).expect("a new folder");
    for (name, text) in [
        ("secret", "correct horse\n"),
        (
            "mosquitto",
            "mo:$7$101$SEGJaNNC6hi4EC5Y$o6QJe/KGTZTkjSoAhtYpTZRBoXB5H6iFPFDnFw4ZEoP/Bpwjuua87cl1AjmQvpnrwwO2GJ1lPXmIVF1LsAv8iQ==\n",
        ),
        ("export.json", "{\"roles\": {}, \"users\": {}}\n"),
    ] {
        fs::write(folder.join(name), text).expect("written");
    }
}

/// Runs a case of `tests/verbs/` with names in braces filled in, and with these variables.
fn case(name: &str, filled: &[(&str, &str)], variables: &[(&str, &str)]) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = format!("{name}.trycmd");
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verbs");
    let text = fs::read_to_string(from.join(&file)).expect("a case");
    let text = filled.iter().fold(text, |text, (name, value)| {
        text.replace(&format!("{{{name}}}"), value)
    });
    fs::write(folder.path().join(&file), text).expect("written");
    files(&folder.path().join(format!("{name}.in")));
    if filled.iter().any(|(name, _)| *name == "deaf") {
        // More than the buffers of two sockets hold.
        let large = folder.path().join(format!("{name}.in/large"));
        fs::write(large, vec![0; 32 << 20]).expect("written");
    }
    let tests = trycmd::TestCases::new();
    tests.register_bin("courser", Path::new(COURSER));
    let own = folder.path().join("config").display().to_string();
    tests.env("XDG_CONFIG_HOME", &own);
    for (name, value) in variables {
        tests.env(*name, *value);
    }
    tests.case(folder.path().join(&file));
    tests.run();
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').expect("a port").1
}

/// The socket of a server with its data here.
fn socket(data: &Path) -> String {
    data.join("admin.sock").display().to_string()
}

/// One whose clients log in: `reader` may subscribe to `t`, nobody else may anything.
fn with_reader(folder: &Path) -> (Running, String) {
    let data = folder.join("accounts");
    let secret = folder.join("reader.secret");
    fs::write(&secret, "correct horse\n").expect("written");
    let (running, mqtt, _) = server(&data, &["--set", "mqtt.authentication=accounts"]);
    let (socket, secret) = (socket(&data), secret.display().to_string());
    for arguments in [
        &["role", "add", "reader"][..],
        &["acl", "grant", "reader", "subscribe", "t"],
        &[
            "user",
            "add",
            "reader",
            "--role",
            "reader",
            "--password-file",
            &secret,
        ],
    ] {
        let done = run(&[arguments, &["--server", &socket]].concat());
        assert!(done.0, "{arguments:?}: {}", done.1);
    }
    (running, mqtt)
}

/// Answers every question below `service/` with what was asked, until the server ends.
fn answering(port: &str) {
    let options = Options {
        endpoint: Endpoint::Tcp {
            host: "127.0.0.1".to_owned(),
            port: port.parse().expect("a port"),
        },
        version: VersionChoice::V5,
        ..Options::default()
    };
    let mut client = Client::connect(&options).expect("the server is there");
    let filter = Filter {
        filter: "service/#".to_owned(),
        qos: QoS::AtLeastOnce,
        no_local: false,
        retain_as_published: false,
    };
    client.subscribe(&[filter], None).expect("it may subscribe");
    thread::spawn(move || {
        while let Ok(Some(question)) = client.next(None) {
            let (mut topic, mut properties) = (None, Vec::new());
            for property in question.properties {
                match property {
                    MessageProperty::ResponseTopic(to) => topic = Some(to),
                    data @ MessageProperty::CorrelationData(_) => properties.push(data),
                    MessageProperty::PayloadIsText(_)
                    | MessageProperty::MessageExpiry(_)
                    | MessageProperty::ContentType(_)
                    | MessageProperty::SubscriptionId(_)
                    | MessageProperty::TopicAlias(_)
                    | MessageProperty::User(..) => {}
                }
            }
            let answer = Message {
                topic: topic.expect("a question says where it is answered"),
                payload: question.payload,
                qos: QoS::AtLeastOnce,
                retain: false,
                duplicate: false,
                packet_id: None,
                properties,
            };
            if client.publish(&answer).is_err() {
                return;
            }
        }
    });
}

#[test]
fn messages_and_loads() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_server, mqtt, _) = server(&folder.path().join("data"), &[]);
    let (_accounts, accounts) = with_reader(folder.path());
    answering(port(&mqtt));
    let secret = folder.path().join("reader.secret").display().to_string();
    let places = [
        ("mqtt", port(&mqtt)),
        ("accounts", port(&accounts)),
        ("secret", &secret),
    ];
    case("mqtt", &places, &[]);
}

#[test]
fn nobody_is_there() {
    case("no_server", &[], &[]);
}

/// Lets clients of 3.1.1 in and then reads nothing, so that a large message never goes out; its port.
fn deaf() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        let mut guests = Vec::new();
        for guest in listener.incoming() {
            let mut guest = guest.expect("a guest");
            let mut connect = [0; 1];
            guest.read_exact(&mut connect).expect("CONNECT");
            guest.write_all(&[0x20, 2, 0, 0]).expect("CONNACK");
            guests.push(guest);
        }
    });
    port
}

#[test]
fn servers_that_do_not_answer() {
    // The system takes connections for it.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("it is bound").port().to_string();
    case(
        "silent",
        &[("silent", &port), ("deaf", &deaf().to_string())],
        &[],
    );
}

#[test]
fn what_needs_no_server() {
    case("offline", &[], &[]);
}

#[test]
fn copies_of_the_data() {
    let folder = tempfile::tempdir().expect("a folder");
    let copies = folder.path().join("copies");
    fs::create_dir(&copies).expect("a new folder");
    let allowed = format!("backup.folders=[\"{}\"]", copies.display());
    let data = folder.path().join("data");
    let (_server, mqtt, _) = server(&data, &["--set", &allowed]);
    // A minute of copying for the backup that is slow, so that it is still being made when it is stopped.
    let large = folder.path().join("large");
    fs::write(&large, vec![7; 200 << 10]).expect("written");
    let large = large.display().to_string();
    for number in 0..20 {
        let topic = format!("large/{number}");
        let keep = ["-q", "1", "-r", "-t", &topic, "-f", &large];
        assert!(run(&[&["pub", "-p", port(&mqtt)], &keep[..]].concat()).0);
    }
    let copies = copies.display().to_string();
    case(
        "backup",
        &[("copies", &copies)],
        &[("COURSER_SERVER", &socket(&data))],
    );
}

/// The server knows nobody by this token, and has not done what was asked.
#[test]
fn whoever_has_another_token_gets_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let (_server, _, http) = server(&data, &[]);
    let token = folder.path().join("other.token");
    fs::write(&token, "0".repeat(64)).expect("written");
    // As a file with a secret must be.
    fs::set_permissions(&token, Permissions::from_mode(0o600)).expect("its owner may");
    let token = token.display().to_string();
    let home = folder.path().display().to_string();
    let named = Command::new(COURSER)
        .args(["context", "add", "stranger", "--server", &http])
        .args(["--token-file", &token])
        .env("XDG_CONFIG_HOME", &home)
        .status();
    assert!(named.expect("it runs").success());
    case("stranger", &[], &[("XDG_CONFIG_HOME", &home)]);
    let (_, said) = run(&["access", "export", "--server", &socket(&data)]);
    let left: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(left, serde_json::json!({"roles": {}, "users": {}}));
}

/// An earlier version kept what was said behind `--mqtt`.
#[test]
fn a_password_in_the_file_of_contexts_is_not_shown_and_goes_with_the_next_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("courser/contexts.json");
    fs::create_dir(folder.path().join("courser")).expect("made");
    let earlier = r#"{"used": "old", "contexts": {"old": {"server": null, "token_file": null,
        "mqtt": {"url": "mqtt://u:hunter2@127.0.0.1:1", "username": null, "password_file": null}}}}"#;
    fs::write(&file, earlier).expect("written");
    let ask = |words: &[&str]| {
        let mut command = Command::new(COURSER);
        let command = command.args(words).env("XDG_CONFIG_HOME", folder.path());
        let done = command.output().expect("it runs");
        let said = String::from_utf8([done.stdout, done.stderr].concat()).expect("text");
        assert!(!said.contains("hunter2"), "{said}");
        (done.status.code(), said)
    };
    for (words, code, warnings) in [
        (&["context", "list"][..], 0, 1),
        (&["pub", "t", "x"], 3, 1),
        (&["context", "use", "old"], 0, 1),
        (&["context", "list"], 0, 0),
    ] {
        let (ended, said) = ask(words);
        assert_eq!(ended, Some(code), "{words:?}: {said}");
        let warned = said.matches("a password in the URL of context \"old\"");
        assert_eq!(warned.count(), warnings, "{words:?}: {said}");
    }
    let (_, listed) = ask(&["context", "list"]);
    assert!(listed.contains("mqtt://u@127.0.0.1:1"), "{listed}");
    let text = fs::read_to_string(&file).expect("text");
    assert!(!text.contains("hunter2"), "{text}");
    let mode = fs::metadata(&file).expect("it is there").permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
}
