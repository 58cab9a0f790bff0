//! Listeners with TLS, WebSocket, PROXY headers and Unix sockets, end to end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use courser_broker::{Anonymous, Broker, Config, Reread};
use courser_settings::Sources;
use courser_transport::Tunnel;
use courser_transport::tls::{self, ClientMaterial};
use rcgen::{CertificateParams, KeyPair};

use crate::support::{broker, counter, publish, text};

const PATIENCE: Duration = Duration::from_secs(20);

/// Writes a new certificate of the name and its key; the text of the certificate, which is its own authority.
fn new_certificate(folder: &Path, name: &str) -> Vec<u8> {
    let key = KeyPair::generate().expect("keys can be made");
    let params = CertificateParams::new(vec![name.to_owned()]).expect("a DNS name");
    let certificate = params.self_signed(&key).expect("it can be signed").pem();
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).expect("a file");
    std::fs::write(folder.join("certificate.pem"), &certificate).expect("a file");
    certificate.into_bytes()
}

/// A listener as `--set` takes it.
fn listener(folder: &Path, name: &str, protocol: &str, more: &str) -> String {
    let tls = if protocol.ends_with('s') && protocol != "ws" {
        format!(
            r#"certificate = "{0}/certificate.pem", key = "{0}/key.pem", "#,
            folder.display()
        )
    } else {
        String::new()
    };
    format!(r#"{{ name = "{name}", protocol = "{protocol}", {tls}{more} }}"#)
}

const LOOPBACK: &str = r#"address = "127.0.0.1:0""#;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// A client through layers.
struct Client {
    stream: Box<dyn Stream>,
    tunnel: Option<Tunnel>,
    received: Vec<u8>,
}

impl Client {
    fn new(stream: impl Stream + 'static, tunnel: Option<Tunnel>) -> Self {
        let mut client = Self {
            stream: Box::new(stream),
            tunnel,
            received: Vec::new(),
        };
        while client
            .tunnel
            .as_ref()
            .is_some_and(|tunnel| !tunnel.is_open())
        {
            client.flush();
            assert!(client.read(), "the handshake ends well");
        }
        client
    }

    fn tcp(broker: &Broker, name: &str, tunnel: Option<Tunnel>) -> Self {
        Self::new(tcp(broker, name), tunnel)
    }

    fn flush(&mut self) {
        if let Some(tunnel) = &mut self.tunnel {
            tunnel
                .write(&mut self.stream)
                .expect("the broker takes what it is sent");
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        let Some(tunnel) = &mut self.tunnel else {
            return self
                .stream
                .write_all(bytes)
                .expect("the broker takes what it is sent");
        };
        let mut left = bytes;
        while !left.is_empty() {
            let taken = tunnel.send(std::iter::once(left));
            left = &left[taken..];
            tunnel
                .write(&mut self.stream)
                .expect("the broker takes what it is sent");
        }
    }

    /// False at the end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        let Ok(count @ 1..) = self.stream.read(&mut bytes) else {
            return false;
        };
        match &mut self.tunnel {
            None => self.received.extend_from_slice(&bytes[..count]),
            Some(tunnel) => {
                let mut room = vec![0; 64 * 1024];
                let Ok(mut count) = tunnel.receive(&bytes[..count], &mut room) else {
                    return false;
                };
                while count > 0 {
                    self.received.extend_from_slice(&room[..count]);
                    count = tunnel.take(&mut room);
                }
                if !self.tunnel.as_ref().is_some_and(Tunnel::has_ended) {
                    self.flush();
                }
            }
        }
        true
    }

    /// The next bytes, exactly so many.
    fn expect(&mut self, count: usize) -> Vec<u8> {
        while self.received.len() < count {
            assert!(self.read(), "more must come");
        }
        self.received.drain(..count).collect()
    }

    fn connect(&mut self, client_id: &str) {
        let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60];
        body.extend(text(client_id));
        self.send(&crate::support::encode(0x10, &body));
        assert_eq!(self.expect(4), [0x20, 2, 0, 0]);
    }

    fn ping(&mut self) {
        self.send(&[0xC0, 0]);
        assert_eq!(self.expect(2), [0xD0, 0]);
    }
}

fn tcp(broker: &Broker, name: &str) -> TcpStream {
    let mut doors = broker.doors().iter();
    let place = doors
        .find(|door| door.name == name)
        .map(|door| door.place.clone());
    // A plain listener is among the addresses, after that of `mqtt.listen`.
    let address = match place {
        Some(place) => place.parse().expect("an address"),
        None => broker.addresses()[1],
    };
    let stream = TcpStream::connect(address).expect("the broker listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    stream
}

fn tunnel(trusted: Option<&[u8]>, web: bool) -> Option<Tunnel> {
    let tls = trusted.map(|authorities| {
        let config = tls::client(&ClientMaterial {
            authorities: authorities.to_vec(),
            ..ClientMaterial::default()
        });
        (
            config.expect("a good set-up"),
            tls::server_name("broker.example").expect("a name"),
        )
    });
    Some(Tunnel::client(tls, web.then_some(("broker.example", "/mqtt"))).expect("it begins"))
}

fn with_doors(doors: &[String], more: &[&str]) -> Broker {
    let doors = format!("listener=[{}]", doors.join(", "));
    let settings: Vec<&str> = more.iter().copied().chain([doors.as_str()]).collect();
    broker(2, &settings, |_| {})
}

/// With doors that anyone may reach, as those behind a proxy.
fn with_open_doors(doors: &[String]) -> Broker {
    let doors = format!("listener=[{}]", doors.join(", "));
    broker(2, &[&doors], |config| {
        config.anonymous = Anonymous::Anywhere;
    })
}

#[test]
fn messages_of_any_size_go_through_every_door() {
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = new_certificate(folder.path(), "broker.example");
    let path = folder.path().join("mqtt.sock");
    let doors = [
        listener(folder.path(), "tls", "mqtts", LOOPBACK),
        listener(folder.path(), "web", "ws", LOOPBACK),
        listener(folder.path(), "both", "wss", LOOPBACK),
        listener(
            folder.path(),
            "path",
            "mqtt",
            &format!("unix = \"{}\"", path.display()),
        ),
        listener(
            folder.path(),
            "behind",
            "mqtts",
            r#"address = "127.0.0.1:0", proxies = ["127.0.0.0/8"]"#,
        ),
        listener(folder.path(), "plainly", "mqtt", LOOPBACK),
    ];
    let broker = with_open_doors(&doors);
    let unix = || {
        let stream = UnixStream::connect(&path).expect("the broker listens");
        stream
            .set_read_timeout(Some(PATIENCE))
            .expect("a timeout can be set");
        stream
    };
    let mut behind = tcp(&broker, "behind");
    behind
        .write_all(b"PROXY TCP4 192.0.2.7 127.0.0.1 4 5\r\n")
        .expect("it is taken");
    let clients = [
        Client::tcp(&broker, "tls", tunnel(Some(&trusted), false)),
        Client::tcp(&broker, "web", tunnel(None, true)),
        Client::tcp(&broker, "both", tunnel(Some(&trusted), true)),
        Client::new(unix(), None),
        Client::new(behind, tunnel(Some(&trusted), false)),
        Client::tcp(&broker, "plainly", None),
    ];
    for (at, mut client) in clients.into_iter().enumerate() {
        client.connect(&format!("client-{at}"));
        let topic = format!("t/{at}");
        let mut body = vec![0, 1];
        body.extend(text(&topic));
        body.push(1);
        client.send(&crate::support::encode(0x82, &body));
        assert_eq!(client.expect(5), [0x90, 3, 0, 1, 1]);
        // Of a few bytes, larger than a record of TLS, larger than what a turn reads.
        for size in [0, 10, 20_000, 300_000] {
            let payload: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let sent = publish(&topic, 0, 0, &payload);
            client.send(&sent);
            assert_eq!(client.expect(sent.len()), sent, "door {at}, {size} bytes");
        }
        client.ping();
        // In order to the end: what was said before is answered, and then the broker closes.
        client.send(&[0xC0, 0, 0xE0, 0]);
        assert_eq!(client.expect(2), [0xD0, 0]);
        while client.read() {}
        assert!(client.received.is_empty());
    }
    let summary = broker.stop().expect("an orderly stop");
    assert!(!path.exists(), "the file of the socket is removed");
    assert_eq!(counter(&summary, "door_entered"), 5, "{summary:?}");
}

#[test]
fn new_certificates_are_for_new_connections_and_bad_ones_for_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = new_certificate(folder.path(), "broker.example");
    let broker = with_doors(&[listener(folder.path(), "tls", "mqtts", LOOPBACK)], &[]);
    let mut before = Client::tcp(&broker, "tls", tunnel(Some(&old), false));
    before.connect("before");
    let results = |broker: &Broker| broker.reread_files().map(|mut all| all.remove(0).1);
    assert!(matches!(results(&broker), Ok(Reread::Same)));
    // Half of a pair fits nothing: what is there stays.
    let key = std::fs::read(folder.path().join("key.pem")).expect("it is there");
    let new = new_certificate(folder.path(), "broker.example");
    let new_key = std::fs::read(folder.path().join("key.pem")).expect("it is there");
    std::fs::write(folder.path().join("key.pem"), &key).expect("a file");
    let refused = results(&broker).expect_err("key and certificate do not belong together");
    assert!(refused.to_string().contains("key.pem"), "{refused}");
    Client::tcp(&broker, "tls", tunnel(Some(&old), false)).connect("between");
    // The change of a file is enough.
    std::fs::write(folder.path().join("key.pem"), &new_key).expect("a file");
    let deadline = Instant::now() + PATIENCE;
    let changed = || {
        let mut stream = tcp(&broker, "tls");
        let mut tunnel = tunnel(Some(&new), false).expect("TLS");
        loop {
            tunnel
                .write(&mut stream)
                .expect("the broker takes what it is sent");
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes) {
                Ok(count @ 1..) if tunnel.receive(&bytes[..count], &mut [0; 64]).is_ok() => {}
                _ => return false,
            }
            if tunnel.is_open() {
                return true;
            }
        }
    };
    while !changed() {
        assert!(Instant::now() < deadline, "new certificates are not read");
        thread::sleep(Duration::from_millis(50));
    }
    before.ping();
}

#[test]
fn files_are_read_again_all_or_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    for folder in [&one, &other] {
        std::fs::create_dir(folder).expect("a folder");
        new_certificate(folder, "broker.example");
    }
    let doors = [(&one, "one"), (&other, "other")];
    let doors = doors.map(|(folder, name)| listener(folder, name, "mqtts", LOOPBACK));
    let broker = with_doors(&doors, &[]);
    std::fs::write(other.join("key.pem"), "nothing").expect("a file");
    let refused = broker.reread_files().expect_err("the other one is wrong");
    assert!(refused.to_string().contains("\"other\""), "{refused}");
    new_certificate(&other, "broker.example");
    let read = broker.reread_files().expect("both are right");
    assert_eq!(read[0], ("one".to_owned(), Reread::Same));
    assert_eq!(read[1].0, "other");
    broker.stop().expect("nothing failed");
}

#[test]
fn a_proxy_is_believed_only_where_it_is_named_and_must_say_something() {
    let folder = tempfile::tempdir().expect("a folder");
    let doors = [
        listener(
            folder.path(),
            "behind",
            "mqtt",
            r#"address = "127.0.0.1:0", proxies = ["127.0.0.1"]"#,
        ),
        listener(
            folder.path(),
            "elsewhere",
            "mqtt",
            r#"address = "127.0.0.1:0", proxies = ["192.0.2.0/24"]"#,
        ),
    ];
    let broker = with_open_doors(&doors);
    let header = b"PROXY TCP4 192.0.2.7 127.0.0.1 4 5\r\n";
    // CONNECT in one piece with the header, cut anywhere.
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60];
    body.extend(text("proxied"));
    let bytes = [&header[..], &crate::support::encode(0x10, &body)].concat();
    for cut in [1, 5, header.len(), header.len() + 3, bytes.len()] {
        let mut stream = tcp(&broker, "behind");
        stream.write_all(&bytes[..cut]).expect("it is taken");
        thread::sleep(Duration::from_millis(5));
        stream.write_all(&bytes[cut..]).expect("it is taken");
        let mut connack = [0; 4];
        stream.read_exact(&mut connack).expect("an answer");
        assert_eq!(connack, [0x20, 2, 0, 0], "cut at {cut}");
    }
    for (name, first) in [("elsewhere", &header[..]), ("behind", &[0x10, 0x0C][..])] {
        let mut stream = tcp(&broker, name);
        // It may be closed before it has taken all.
        let _ = stream.write_all(first);
        assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)), "{name}");
    }
}

#[test]
fn an_address_has_only_so_many_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = r#"address = "127.0.0.1:0", address_connections_max = 2"#;
    for protocol in ["mqtt", "ws"] {
        let broker = with_doors(&[listener(folder.path(), "few", protocol, limit)], &[]);
        let web = || (protocol == "ws").then(|| tunnel(None, true)).flatten();
        let mut first = Client::tcp(&broker, "few", web());
        first.connect("first");
        let mut second = Client::tcp(&broker, "few", web());
        second.connect("second");
        let mut third = Client {
            stream: Box::new(tcp(&broker, "few")),
            tunnel: web(),
            received: Vec::new(),
        };
        third.flush();
        while third.read() {}
        assert!(third.received.is_empty());
        drop(first);
        let deadline = Instant::now() + PATIENCE;
        // A place is free again once the broker has seen the end.
        loop {
            let mut next = Client {
                stream: Box::new(tcp(&broker, "few")),
                tunnel: web(),
                received: Vec::new(),
            };
            next.flush();
            let _ = next.stream.write_all(&[]);
            let open = match &next.tunnel {
                Some(_) => next.read() && next.tunnel.as_ref().is_some_and(Tunnel::is_open),
                None => {
                    let _ = next.stream.write_all(&crate::support::encode(
                        0x10,
                        &[
                            &[0, 4, b'M', b'Q', b'T', b'T', 4, 2, 0, 60][..],
                            &text("next"),
                        ]
                        .concat(),
                    ));
                    next.read()
                }
            };
            if open {
                break;
            }
            assert!(Instant::now() < deadline, "the place is not free again");
            thread::sleep(Duration::from_millis(20));
        }
        second.ping();
    }
}

#[test]
fn a_burst_of_an_address_ends_before_its_handshakes() {
    let folder = tempfile::tempdir().expect("a folder");
    let door = listener(
        folder.path(),
        "web",
        "ws",
        &format!(r#"{LOOPBACK}, handshake_timeout = "500ms""#),
    );
    for limit in ["address_connects_per_second", "connects_per_second"] {
        end_a_burst(&door, &format!("listeners.{limit}=1"));
    }
}

fn end_a_burst(door: &str, limit: &str) {
    let broker = with_doors(&[door.to_owned()], &[limit]);
    let burst: Vec<TcpStream> = (0..50).map(|_| tcp(&broker, "web")).collect();
    for mut stream in burst {
        // Who has come in first waits for its handshake, and is closed in its time.
        while let Ok(1..) = stream.read(&mut [0; 64]) {}
    }
    let summary = broker.stop().expect("nothing failed");
    let too_fast = counter(&summary, "door_too_fast");
    assert!(too_fast > 0, "{summary:?}");
    assert_eq!(too_fast + counter(&summary, "door_timed_out"), 50);
}

#[test]
fn frames_of_a_websocket_may_be_as_large_as_packets_are_now() {
    let listener = |most: &str| {
        let more = format!(r#"{LOOPBACK}, packet_bytes_max = "{most}""#);
        listener(Path::new(""), "web", "ws", &more)
    };
    let broker = with_doors(&[listener("32KiB")], &[]);
    let payload = vec![7; 100_000];
    let sent = publish("t", 0, 0, &payload);
    let comes_through = || {
        let mut client = Client::tcp(&broker, "web", tunnel(None, true));
        client.connect("web");
        client.send(&crate::support::encode(
            0x82,
            &[&[0, 1][..], &text("t"), &[1]].concat(),
        ));
        assert_eq!(client.expect(5), [0x90, 3, 0, 1, 1]);
        let mut left = &sent[..];
        let tunnel = client.tunnel.as_mut().expect("a WebSocket");
        while !left.is_empty() {
            left = &left[tunnel.send(std::iter::once(left))..];
            if tunnel.write(&mut client.stream).is_err() {
                return false;
            }
        }
        while client.received.len() < sent.len() && client.read() {}
        client.received == sent
    };
    assert!(!comes_through());
    let sources = Sources::new()
        .set("mqtt.listen=127.0.0.1:0")
        .set("data.store=memory")
        .set(&format!("listener=[{}]", listener("1MiB")));
    broker.reconfigure(sources.check().expect("good settings"));
    let deadline = Instant::now() + PATIENCE;
    while !comes_through() {
        assert!(Instant::now() < deadline, "it is not taken");
    }
}

#[test]
fn who_does_not_finish_a_handshake_is_sent_away_and_holds_nobody_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let trusted = new_certificate(folder.path(), "broker.example");
    let doors = [listener(
        folder.path(),
        "tls",
        "mqtts",
        r#"address = "127.0.0.1:0", handshake_timeout = "500ms""#,
    )];
    let broker = with_doors(&doors, &[]);
    let mut silent: Vec<TcpStream> = (0..200).map(|_| tcp(&broker, "tls")).collect();
    for stream in silent.iter_mut().skip(100) {
        stream.write_all(&[0x16, 3, 1]).expect("it is taken");
    }
    let mut garbage = tcp(&broker, "tls");
    garbage
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("it is taken");
    Client::tcp(&broker, "tls", tunnel(Some(&trusted), false)).connect("patient");
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = garbage.read_to_end(&mut rest);
    for stream in &mut silent {
        assert!(!matches!(stream.read(&mut [0; 1]), Ok(1..)));
    }
    let refused = broker.control().refused_at_doors();
    let counted = |wanted: &str| refused.iter().find(|(reason, _)| *reason == wanted);
    assert_eq!(counted("timed_out"), Some(&("timed_out", 200)));
    assert_eq!(counted("tls"), Some(&("tls", 1)));
}

/// Why a broker with this listener does not start.
fn refused(door: &str) -> String {
    let sources = Sources::new()
        .set("mqtt.listen=")
        .set("data.store=memory")
        .set(&format!("listener=[{door}]"));
    let config = Config::new(sources.check().expect("good settings"));
    Broker::start(config)
        .map(|_| ())
        .expect_err("this listener must not be opened")
        .to_string()
}

#[test]
fn a_public_address_needs_authentication_at_every_listener() {
    let folder = tempfile::tempdir().expect("a folder");
    new_certificate(folder.path(), "broker.example");
    for protocol in ["mqtt", "mqtts", "ws"] {
        let door = listener(folder.path(), "open", protocol, r#"address = "0.0.0.0:0""#);
        let error = refused(&door);
        assert!(
            error.contains("\"open\"") && error.contains("--insecure-anonymous"),
            "{error}"
        );
    }
}

#[test]
fn what_one_listener_lets_in_another_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    new_certificate(folder.path(), "broker.example");
    for protocol in ["mqtt", "mqtts", "ws"] {
        let door = |name: &str, more: &str| {
            let more = format!(r#"address = "0.0.0.0:0"{more}"#);
            listener(folder.path(), name, protocol, &more)
        };
        let open = door("open", ", insecure_anonymous = true");
        let error = refused(&format!("{open},{}", door("shut", "")));
        assert!(
            error.contains("\"shut\"") && error.contains("insecure_anonymous = true"),
            "{error}"
        );
        let broker = with_doors(&[open], &[]);
        broker.stop().expect("nothing failed");
    }
}

/// The address of the socket is the proxy's: its clients are somewhere else.
#[test]
fn clients_behind_a_proxy_need_authentication_also_on_loopback() {
    let folder = tempfile::tempdir().expect("a folder");
    new_certificate(folder.path(), "broker.example");
    for protocol in ["mqtt", "mqtts", "ws"] {
        let door = |more: &str| {
            let more = format!(r#"address = "127.0.0.1:0", proxies = ["127.0.0.1"]{more}"#);
            listener(folder.path(), "behind", protocol, &more)
        };
        let error = refused(&door(""));
        assert!(
            error.contains("\"behind\"")
                && error.contains("proxies")
                && error.contains("give it authentication")
                && error.contains("--insecure-anonymous"),
            "{error}"
        );
        for more in [
            r#", authentication = "accounts""#,
            ", insecure_anonymous = true",
        ] {
            let broker = with_doors(&[door(more)], &[]);
            broker.stop().expect("nothing failed");
        }
        let broker = with_open_doors(&[door("")]);
        broker.stop().expect("nothing failed");
    }
}

#[test]
fn a_listener_that_cannot_be_bound_says_which_and_what_to_change() {
    let folder = tempfile::tempdir().expect("a folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it is bound");
    for protocol in ["mqtt", "ws"] {
        let door = listener(
            folder.path(),
            "web",
            protocol,
            &format!("address = \"{address}\""),
        );
        let error = refused(&door);
        assert!(
            error.contains(&address.to_string()) && error.contains("listener \"web\""),
            "{error}"
        );
    }
}
