//! What each listener has for itself: limits, where its clients are sent, the address that they know.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use courser_broker::{Authentication, Broker};
use courser_settings::{ListenerProtocol, Settings, Sources};

use crate::support::{Client, broker, text, wait};

const PATIENCE: Duration = Duration::from_secs(20);

/// `mqtt.listen` with these settings, and a plain listener with these of its own.
fn with(own: &str, all: &[&str]) -> Broker {
    let own = listener(own);
    let settings = [&[&*own], all].concat();
    broker(2, &settings, |_| {})
}

fn listener(own: &str) -> String {
    format!(r#"listener=[{{ name = "own", address = "127.0.0.1:0", {own} }}]"#)
}

fn settings(own: &str) -> Settings {
    let sources = Sources::new()
        .set("mqtt.listen=127.0.0.1:0")
        .set("data.store=memory")
        .set(&listener(own));
    sources.check().expect("the settings of a test are right")
}

/// CONNECT of 5.0 with a session expiry of 16 minutes: reason code and properties of the CONNACK; none: the socket was closed.
fn connack(to: SocketAddr, client: &mut Client, id: &str) -> Option<(u8, Vec<u8>)> {
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60];
    body.extend([5, 0x11, 0, 0, 4, 0]);
    body.extend(text(id));
    client.send(0x10, &body);
    let connack = client.receive_within(PATIENCE)?;
    assert_eq!(connack.first, 0x20, "an answer of {to}");
    Some((connack.body[1], connack.body[3..].to_vec()))
}

/// The number that a CONNACK has for a property.
fn number(properties: &[u8], wanted: u8) -> Option<u32> {
    let mut at = 0;
    while let Some(&id) = properties.get(at) {
        let length = match id {
            0x24 | 0x25 | 0x28..=0x2A => 1,
            0x13 | 0x21 | 0x22 => 2,
            0x11 | 0x27 => 4,
            _ => 2 + usize::from(u16::from_be_bytes([properties[at + 1], properties[at + 2]])),
        };
        let value = &properties[at + 1..at + 1 + length];
        if id == wanted {
            return Some(
                value
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u32::from(*byte)),
            );
        }
        at += 1 + length;
    }
    None
}

/// Session expiry, keep-alive, receive maximum, topic aliases, largest packet, as a client is told.
fn told(to: SocketAddr) -> [Option<u32>; 5] {
    let (code, properties) = connack(to, &mut Client::open(to), "someone").expect("an answer");
    assert_eq!(code, 0);
    [0x11, 0x13, 0x21, 0x22, 0x27].map(|id| number(&properties, id))
}

#[test]
fn limits_of_a_listener_are_its_own_and_change_while_it_runs() {
    let own = r#"packet_bytes_max = "32KiB", receive_maximum = 7, topic_alias_max = 5, keep_alive_max_seconds = 30,
        session_expiry_max = "1m""#;
    let broker = with(own, &["mqtt.receive_maximum=99"]);
    let (all, own) = (broker.addresses()[0], broker.addresses()[1]);
    assert_eq!(
        told(all),
        [None, None, Some(99), Some(32), Some(1 << 20)],
        "what is said for all"
    );
    let before = [Some(60), Some(30), Some(7), Some(5), Some(32 << 10)];
    assert_eq!(told(own), before);
    let mut stays = Client::open(own);
    assert!(connack(own, &mut stays, "stays").is_some());
    // Shards take other settings at their next turn, each for itself.
    broker.reconfigure(settings(r#"receive_maximum = 8"#));
    let after = [None, None, Some(8), Some(32), Some(1 << 20)];
    wait("the change happens", || told(own) == after);
    wait("the change of all happens", || told(all)[2] == Some(1024));
    stays.send(0xC0, &[]);
    assert_eq!(stays.receive().first, 0xD0, "nobody is dropped");
    broker.stop().expect("nothing failed");
}

#[test]
fn time_and_size_of_connect_are_those_of_the_listener() {
    let broker = with(
        r#"connect_timeout = "100ms", connect_bytes_max = "64B""#,
        &["mqtt.connect_timeout=5m", "mqtt.client_id_bytes_max=23"],
    );
    let (all, own) = (broker.addresses()[0], broker.addresses()[1]);
    let mut silent = Client::open(own);
    assert!(silent.is_closed(), "it has said nothing");
    let long = |to| {
        let mut client = Client::open(to);
        let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 4, 6, 0, 60];
        body.extend(text("a"));
        body.extend(text("will"));
        body.extend(text(&"x".repeat(500)));
        client.send(0x10, &body);
        client.receive_within(PATIENCE).is_some()
    };
    assert!(long(all) && !long(own));
    broker.stop().expect("nothing failed");
}

/// How many of these, the first of which came at `begun`, were let in.
fn assert_two_a_second(to: SocketAddr, begun: Instant, sockets: Vec<Client>) {
    let answers = sockets.into_iter().enumerate();
    let came_in = answers
        .filter_map(|(number, mut client)| connack(to, &mut client, &format!("c{number}")))
        .count() as u64;
    let seconds = begun.elapsed().as_secs() + 1;
    assert!(
        (2..=2 + 2 * seconds).contains(&came_in),
        "{came_in} in {seconds} s"
    );
}

/// A burst of an address: as many as a second's come in, and more only as time goes by.
#[test]
fn an_address_has_only_so_many_new_connections_a_second() {
    const BURST: usize = 200;
    let broker = with("", &["listeners.address_connects_per_second=2"]);
    let to = broker.addresses()[0];
    let begun = Instant::now();
    let sockets: Vec<Client> = (0..BURST).map(|_| Client::open(to)).collect();
    assert_two_a_second(to, begun, sockets);
    wait("a place comes", || {
        connack(to, &mut Client::open(to), "later").is_some()
    });
    broker.stop().expect("nothing failed");
}

/// Its own number of new connections, whatever addresses they come from; the other listener has its own.
#[test]
fn a_listener_has_only_so_many_new_connections_a_second() {
    const BURST: u8 = 200;
    let broker = with("connects_per_second = 2", &[]);
    let (all, own) = (broker.addresses()[0], broker.addresses()[1]);
    let begun = Instant::now();
    let open = |to, number| Client::open_from([127, 0, 0, number], to);
    let sockets: Vec<Client> = (1..=BURST).map(|number| open(own, number)).collect();
    assert_two_a_second(own, begun, sockets);
    for number in 1..=BURST {
        let answer = connack(all, &mut open(all, number), &format!("d{number}"));
        assert!(answer.is_some(), "another listener");
    }
    broker.stop().expect("nothing failed");
}

#[test]
fn a_listener_has_only_so_many_connections_and_the_others_have_theirs() {
    let broker = with("connections_max = 1", &[]);
    let (all, own) = (broker.addresses()[0], broker.addresses()[1]);
    let mut first = Client::open(own);
    assert!(connack(own, &mut first, "first").is_some());
    let comes_in = |to, id| {
        let mut client = Client::open(to);
        let answer = connack(to, &mut client, id);
        answer.is_some().then_some(client)
    };
    assert!(comes_in(own, "second").is_none());
    let third = comes_in(all, "third");
    assert!(third.is_some(), "another listener");
    broker.reconfigure(settings("connections_max = 2"));
    let mut second = None;
    wait("the change happens", || {
        second = comes_in(own, "second");
        second.is_some()
    });
    drop(first);
    wait("a place comes", || comes_in(own, "fourth").is_some());
    let rows = broker.control().listeners();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].connections, rows[1].connections_max), (1, 2));
    broker.stop().expect("nothing failed");
}

#[test]
fn clients_of_one_listener_are_sent_elsewhere() {
    let broker = with(r#"redirect_to = "other.example.org:8883""#, &[]);
    let (all, own) = (broker.addresses()[0], broker.addresses()[1]);
    let code = |to| {
        connack(to, &mut Client::open(to), "someone")
            .expect("an answer")
            .0
    };
    assert_eq!((code(all), code(own)), (0, 0x9C));
    broker.stop().expect("nothing failed");
    let broker = with(r#"redirect_to = """#, &["mqtt.redirect_to=elsewhere"]);
    let (all, own) = (broker.addresses()[0], broker.addresses()[1]);
    let code = |to| {
        connack(to, &mut Client::open(to), "someone")
            .expect("an answer")
            .0
    };
    assert_eq!(
        (code(all), code(own)),
        (0x9C, 0),
        "an empty one is its own, too"
    );
    broker.stop().expect("nothing failed");
}

#[test]
fn each_listener_is_listed_with_the_address_that_clients_know() {
    let broker = with(
        r#"advertised = "mqtt.example.org:8883", protocol = "ws", authentication = "accounts", connections_max = 5"#,
        &["listeners.connections_max=9"],
    );
    let row = |at: usize| broker.control().listeners().remove(at);
    let address = broker.addresses()[0].to_string();
    let all = row(0);
    assert_eq!((&*all.name, all.places), ("mqtt", vec![address]));
    assert_eq!((all.advertised, all.connections_max), (None, 9));
    let own = row(1);
    assert_eq!((&*own.name, own.protocol), ("own", ListenerProtocol::Ws));
    assert_eq!(own.places, [broker.doors()[0].place.clone()]);
    assert_eq!(own.advertised.as_deref(), Some("mqtt.example.org:8883"));
    assert_eq!(own.authentication, Authentication::Accounts);
    assert_eq!((own.connections, own.connections_max), (0, 5));
    let mut changed = settings(r#"advertised = "elsewhere""#);
    changed.mqtt.advertised = Some("inside.example.org".to_owned());
    broker.reconfigure(changed);
    let advertised = [0, 1].map(|at| row(at).advertised);
    let told = ["inside.example.org", "elsewhere"].map(|it| Some(it.to_owned()));
    assert_eq!(advertised, told);
    broker.stop().expect("nothing failed");
}
