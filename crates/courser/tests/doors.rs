//! `courser pub`, `sub` and `bench` through TLS and WebSocket, each way of saying so, and what they say when a door stays shut.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};

const COURSER: &str = env!("CARGO_BIN_EXE_courser");

/// A server that ends with the test, and its files.
struct Server {
    process: Child,
    ports: HashMap<String, u16>,
    folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// As our users make them, `ca.pem` and what it has signed: `server.pem` of a name, `client.pem`. Beside them what the program makes
/// for nobody: `expired.pem` of that authority, and `other.pem`, an authority that signed nothing.
fn certificates(folder: &Path) {
    let make = |arguments: &[&str]| {
        let made = Command::new(COURSER)
            .current_dir(folder)
            .arg("tls")
            .args(arguments)
            .args(["--folder", "."])
            .output()
            .expect("the program can be started");
        assert!(made.status.success(), "{made:?}");
    };
    make(&["new-ca"]);
    make(&["new-cert", "localhost", "--file", "server"]);
    make(&["new-cert", "client", "--client"]);
    let write = |name: &str, params: CertificateParams, ca: Option<&Issuer<'_, KeyPair>>| {
        let key = KeyPair::generate().expect("keys can be made");
        let certificate = match ca {
            Some(ca) => params.signed_by(&key, ca),
            None => params.self_signed(&key),
        };
        let certificate = certificate.expect("it can be signed");
        for (ending, text) in [("pem", certificate.pem()), ("key", key.serialize_pem())] {
            fs::write(folder.join(format!("{name}.{ending}")), text).expect("a file");
        }
    };
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("it was made");
    let key = KeyPair::from_pem(&read("ca.key")).expect("a key");
    let ca = Issuer::from_ca_cert_pem(&read("ca.pem"), key).expect("an authority");
    let names = vec!["localhost".to_owned()];
    let mut expired = CertificateParams::new(names).expect("DNS names");
    expired.not_after = date_time_ymd(2020, 1, 1);
    write("expired", expired, Some(&ca));
    let mut other = CertificateParams::default();
    other.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    other.distinguished_name.push(DnType::CommonName, "other");
    write("other", other, None);
}

impl Server {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        certificates(folder.path());
        let at = folder.path().display();
        let with =
            |name: &str| format!(r#"certificate = "{at}/{name}.pem", key = "{at}/{name}.key""#);
        let (tls, expired, authority) = (with("server"), with("expired"), with("ca"));
        let asked = format!(
            r#"client_certificates = "required", client_authorities = "{at}/ca.pem", identity = "fingerprint""#
        );
        let here = r#"address = "127.0.0.1:0""#;
        let listeners = [
            format!(r#"{{ name = "tls", protocol = "mqtts", {here}, {tls} }}"#),
            format!(r#"{{ name = "mutual", protocol = "mqtts", {here}, {tls}, {asked} }}"#),
            format!(r#"{{ name = "ws", protocol = "ws", {here}, path = "/other" }}"#),
            format!(r#"{{ name = "wss", protocol = "wss", {here}, {tls} }}"#),
            format!(r#"{{ name = "expired", protocol = "mqtts", {here}, {expired} }}"#),
            format!(r#"{{ name = "authority", protocol = "mqtts", {here}, {authority} }}"#),
        ];
        let mut process = Command::new(COURSER)
            .args([
                "server",
                "--mqtt",
                "127.0.0.1:0",
                "--http",
                "127.0.0.1:0",
                "--in-memory",
            ])
            .args(["--shards", "2", "--set"])
            .arg(format!("listener=[{}]", listeners.join(", ")))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let output = process.stdout.take().expect("it was piped");
        let mut ports = HashMap::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if line == "ready" {
                break;
            }
            let Some((_, place)) = line.split_once("127.0.0.1:") else {
                continue;
            };
            let (port, name) = place.split_once(" (").unwrap_or((place, "plain)"));
            let name = match line.split_once(' ') {
                Some(("MQTT", _)) => name.trim_end_matches(')'),
                Some(("API,", _)) => "http",
                Some(_) | None => continue,
            };
            ports.insert(name.to_owned(), port.parse().expect("a port"));
        }
        assert_eq!(ports.len(), 8, "a server says where it listens: {ports:?}");
        Self {
            process,
            ports,
            folder,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `courser` in the folder of the certificates; `{name}` in an argument is the port of a listener.
    fn command(&self, arguments: &[&str]) -> Command {
        let with_ports = arguments.iter().map(|argument| {
            let ports = self.ports.iter();
            ports.fold((*argument).to_owned(), |text, (name, port)| {
                text.replace(&format!("{{{name}}}"), &port.to_string())
            })
        });
        let mut command = Command::new(COURSER);
        command
            .args(with_ports)
            .current_dir(self.folder.path())
            .env("XDG_CONFIG_HOME", self.folder.path())
            .env_remove("SSL_CERT_FILE")
            .stdin(Stdio::null());
        command
    }

    /// Runs it.
    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("it runs")
    }

    fn succeeds(&self, arguments: &[&str]) -> Vec<u8> {
        let done = self.run(arguments);
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {said}");
        done.stdout
    }
}

/// Ways to the same broker.
const WAYS: [&[&str]; 7] = [
    &["-L", "mqtt://localhost:{plain}"],
    &["-L", "mqtts://localhost:{tls}", "--cafile", "ca.pem"],
    &["-h", "localhost", "-p", "{tls}", "--cafile", "ca.pem"],
    &[
        "-h",
        "127.0.0.1",
        "-p",
        "{tls}",
        "--cafile",
        "ca.pem",
        "--insecure",
    ],
    &[
        "-p",
        "{mutual}",
        "-h",
        "localhost",
        "--cafile",
        "ca.pem",
        "--cert",
        "client.pem",
        "--key",
        "client.key",
    ],
    &["-L", "ws://127.0.0.1:{ws}", "--ws-path", "/other"],
    &[
        "-L",
        "wss://localhost:{wss}",
        "--capath",
        ".",
        "--tls-alpn",
        "http/1.1",
    ],
];

#[test]
fn messages_go_through_every_door() {
    let server = Server::start();
    let large: Vec<u8> = (0..300_000_u32).map(|at| at as u8).collect();
    fs::write(server.file("large"), &large).expect("a file");
    for (number, way) in WAYS.into_iter().enumerate() {
        for (qos, payload) in [("0", b"hi".to_vec()), ("2", large.clone())] {
            fs::write(server.file("payload"), &payload).expect("a file");
            let topic = format!("door/{number}/{qos}");
            let publish = ["pub", "-t", &topic, "-f", "payload", "-r", "-q", qos];
            server.succeeds(&[&publish[..], way].concat());
            let subscribe = ["sub", "-t", &topic, "-C", "1", "-W", "20", "-N", "-q", qos];
            assert!(
                server.succeeds(&[&subscribe[..], way].concat()) == payload,
                "{way:?}"
            );
        }
    }
}

/// It has files that were named from another folder, and every command that speaks MQTT goes by it.
#[test]
fn a_context_knows_the_way_through_a_door() {
    let server = Server::start();
    let add = [
        "context",
        "add",
        "door",
        "--mqtt",
        "mqtts://localhost:{mutual}",
    ];
    let files = [
        "--cafile",
        "ca.pem",
        "--cert",
        "client.pem",
        "--key",
        "client.key",
    ];
    server.succeeds(&[&add[..], &files].concat());
    for words in [
        &["pub", "-r", "-q", "1", "door/context", "hi"][..],
        &["sub", "-C", "1", "-W", "20", "door/context"],
        &["probe", "--context", "door"],
        &["bench", "mqtt", "-n", "100", "--quiet"],
        &["bench", "connect", "-n", "5", "--hold", "0", "--quiet"],
    ] {
        let done = server.command(words).current_dir("/").output();
        let done = done.expect("it runs");
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{words:?}: {said}");
    }
    for (variable, value) in [
        ("COURSER_URL", "mqtts://localhost:{plain}"),
        ("COURSER_CONTEXT", "other"),
    ] {
        let port = server.ports["plain"].to_string();
        let mut asked = server.command(&["pub", "door/variable", "hi"]);
        asked.env(variable, value.replace("{plain}", &port));
        let done = asked.output().expect("it runs");
        assert!(
            !done.status.success(),
            "{variable} goes before what is used"
        );
    }
    server.succeeds(&["pub", "-p", "{plain}", "door/place", "hi"]);
}

#[test]
fn loads_go_through_every_door() {
    let server = Server::start();
    for way in WAYS {
        for qos in ["0", "1", "2"] {
            let bench = [
                "bench",
                "mqtt",
                "-n",
                "3000",
                "-q",
                qos,
                "-o",
                "jsonl",
                "--quiet",
                "--in-flight-max",
                "500",
            ];
            let said = server.succeeds(&[&bench[..], way].concat());
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains(r#""received":3000"#), "{way:?}: {said}");
        }
    }
    for way in [WAYS[1], WAYS[5], WAYS[6]] {
        let storm = [
            "bench",
            "connect",
            "-n",
            "60",
            "--rate",
            "300",
            "--subscriptions",
            "1",
            "--hold",
            "0",
            "-o",
            "jsonl",
        ];
        let said = server.succeeds(&[&storm[..], way].concat());
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains(r#""alive_after_hold":60"#), "{way:?}: {said}");
        // Sixty at 300 a second take a fifth of a second.
        let rate = said
            .split(r#""connections_per_second":"#)
            .nth(1)
            .expect("a rate");
        let rate: f64 = rate
            .split([',', '}'])
            .next()
            .and_then(|rate| rate.parse().ok())
            .expect("a number");
        assert!(rate < 320.0, "{said}");
    }
}

/// What is told in CONNACK is behind the same door as what is tried.
#[test]
fn a_broker_is_probed_through_a_door() {
    let server = Server::start();
    let said = server.succeeds(&[&["probe", "-o", "jsonl"], WAYS[1]].concat());
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(r#""known":"told""#), "{said}");
}

/// The port of another protocol is told with its address and what to do, by every command that speaks MQTT.
#[test]
fn who_knocks_at_a_door_of_another_protocol_hears_which_one_it_is() {
    let server = Server::start();
    for (port, expected) in [
        ("{tls}", " answers TLS, not MQTT: add --tls"),
        ("{mutual}", " answers TLS, not MQTT: add --tls"),
        ("{ws}", " answers HTTP, not MQTT: add --ws"),
        ("{http}", " answers HTTP, not MQTT: add --ws"),
    ] {
        for words in [
            &["pub", "t/a", "x"][..],
            &["sub", "t/a"],
            &["request", "t/a", "x"],
            &["probe"],
        ] {
            let done = server.run(&[words, &["-p", port]].concat());
            let said = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.status.code(), Some(3), "{words:?} {port}: {said}");
            assert!(said.contains("courser: 127.0.0.1:"), "{words:?}: {said}");
            assert!(said.contains(expected), "{words:?} {port}: {said}");
        }
    }
}

#[test]
fn a_door_that_stays_shut_says_why() {
    let server = Server::start();
    let publish = ["pub", "-t", "a", "-m", "b"];
    for (way, code, reason) in [
        (
            &["-L", "mqtts://localhost:{tls}", "--cafile", "other.pem"][..],
            3,
            ": TLS: the server's certificate was signed by nobody who is trusted here (name the file of its authority with --cafile)",
        ),
        (
            &["-L", "mqtts://127.0.0.1:{tls}", "--cafile", "ca.pem"],
            3,
            ": TLS: the server's certificate is for localhost, and not for 127.0.0.1 (name the server as its certificate does; \
             --insecure passes over the name)",
        ),
        (
            &["-L", "mqtts://localhost:{expired}", "--cafile", "ca.pem"],
            3,
            " days ago (the server needs another one; or is the clock here right?)",
        ),
        (
            &["-L", "mqtts://localhost:{authority}", "--cafile", "ca.pem"],
            3,
            ": TLS: the server's certificate is that of an authority, which signs others and serves nobody itself (give the server one \
             that its authority has signed)",
        ),
        (
            &["-L", "mqtts://localhost:{plain}", "--cafile", "ca.pem"],
            3,
            ": the server closed the connection in the handshake (is this the port of plain MQTT?)",
        ),
        (
            &["-L", "ws://127.0.0.1:{plain}"],
            3,
            ": the server closed the connection in the handshake (is this the port of plain MQTT?)",
        ),
        (
            &["-L", "mqtts://localhost:{mutual}", "--cafile", "ca.pem"],
            3,
            "(show a certificate with --cert and --key)",
        ),
        (
            &["-L", "ws://127.0.0.1:{ws}"],
            3,
            "404 to the upgrade (name the path with --ws-path)",
        ),
        (
            &["-L", "ws://127.0.0.1:{tls}"],
            3,
            "cannot connect to 127.0.0.1:",
        ),
        (
            &["-L", "mqtts://localhost:{tls}", "--cafile", "none.pem"],
            2,
            "cannot read none.pem",
        ),
        (
            &["-L", "mqtts://localhost:{tls}", "--cafile", "server.key"],
            2,
            "cannot use server.key: no certificate",
        ),
        (&["-p", "{tls}", "--cert", "client.pem"], 2, "--key"),
        (&["-L", "http://localhost/x"], 2, "mqtts, ws, wss"),
    ] {
        let done = server.run(&[&publish[..], way].concat());
        let said = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{way:?}: {said}");
        assert!(said.contains(reason), "{way:?}: {said}");
    }
}
