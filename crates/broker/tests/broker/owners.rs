//! Sessions belong to their users, and users keep to their limits.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::accounts::{
    ACCOUNTS, Hello, anna, change, delivered, name, publishes, put_role, put_user, role_name,
    subscribe, user, with_anna,
};
use crate::support::{asked, broker, broker_on, counter, text};
use courser_access::{Command, Domain, DomainName, Limits, Role, User};
use courser_broker::{Broker, Ended};
use courser_settings::Sources;

/// Session Expiry Interval 256 s.
const KEPT: &[u8] = &[17, 0, 0, 1, 0];
/// No matching subscribers: taken all the same.
const NOBODY: u8 = 0x10;

fn hello<'a>(user: &'a str, clean: bool, properties: &'a [u8]) -> Hello<'a> {
    Hello {
        client_id: "same",
        flags: if clean { 2 } else { 0 },
        properties,
        login: Some((user, "secret")),
        ..Hello::default()
    }
}

/// On a disk, with `anna` and `bert`, who may do everything.
fn with_both(folder: &std::path::Path) -> (Broker, SocketAddr) {
    let broker = broker_on(folder, 2, &[ACCOUNTS]);
    let address = broker.addresses()[0];
    put_role(&broker, "all", &["allow all #"]);
    put_user(&broker, "anna", "secret", &["all"]);
    put_user(&broker, "bert", "secret", &["all"]);
    (broker, address)
}

/// A kept session, as operators see it.
fn session_of(broker: &Broker, client_id: &str) -> Option<Option<String>> {
    let row = asked(broker.control().session(client_id)).expect("the shards answer")?;
    Some(row.user.map(Into::into))
}

#[test]
fn a_session_that_ends_with_its_connection_is_shown_and_in_use() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let control = broker.control();
    let show = |id| asked(control.session(id)).expect("the shards answer");
    let end = |id| asked(control.end_session(id)).expect("the shards answer");
    // Some of them are on another shard than the partition of their client id.
    let ids: Vec<_> = (0..8).map(|n| format!("clean-{n}")).collect();
    let mut clients: Vec<_> = ids.iter().map(|id| anna(address, id)).collect();
    for (id, client) in ids.iter().zip(&mut clients) {
        assert_eq!(subscribe(client, "a"), 1);
        let row = show(id).expect("it is there");
        assert_eq!((&*row.client_id, row.subscriptions), (&**id, 1));
        assert!(row.connected);
        assert_eq!(end(id), Ended::InUse);
        client.send(0xC0, &[]);
        assert_eq!(client.receive().first, 0xD0, "it was left alone");
    }
    assert!(show("nobody").is_none());
    assert_eq!(end("nobody"), Ended::Unknown);
    broker.stop().expect("nothing failed");
}

#[test]
fn i8_the_client_id_of_another_user_is_refused() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (broker, address) = with_both(folder.path());
    let mut client = hello("anna", false, KEPT).accepted(address);
    assert_eq!(subscribe(&mut client, "a"), 1);
    let bert_is_refused = || {
        for clean in [false, true] {
            assert_eq!(hello("bert", clean, KEPT).code(address), 0x87);
            assert_eq!(hello("bert", clean, &[]).code(address), 0x87);
            let old = Hello {
                version: 4,
                ..hello("bert", clean, &[])
            };
            assert_eq!(old.code(address), 5);
        }
    };
    bert_is_refused();
    client.send(0xC0, &[]);
    assert_eq!(client.receive().first, 0xD0, "nobody is displaced");
    client.send(0xE0, &[]);
    assert!(client.is_closed());
    publishes(&mut anna(address, "publisher"), "a", false, "kept");
    bert_is_refused();
    assert_eq!(session_of(&broker, "same"), Some(Some("anna".to_owned())));
    let (mut client, answer) = hello("anna", false, KEPT).say(address);
    assert_eq!(answer.body[..2], [1, 0], "the session is there");
    assert_eq!(delivered(&mut client).1, "kept");
    broker.stop().expect("nothing failed");
}

#[test]
fn a_session_without_a_connection_ends_with_its_user() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (broker, address) = with_both(folder.path());
    for user in ["anna", "bert"] {
        let kept = Hello {
            client_id: user,
            ..hello(user, false, KEPT)
        };
        let mut client = kept.accepted(address);
        assert_eq!(subscribe(&mut client, "a"), 1);
        client.send(0xE0, &[]);
        assert!(client.is_closed());
    }
    assert!(session_of(&broker, "anna").is_some());
    change(&broker, Command::RemoveUser(name("anna")));
    let deadline = Instant::now() + Duration::from_secs(20);
    while session_of(&broker, "anna").is_some() {
        assert!(Instant::now() < deadline, "it does not end");
        thread::sleep(Duration::from_millis(10));
    }
    assert!(session_of(&broker, "bert").is_some(), "nobody else's does");
    broker.stop().expect("nothing failed");
}

/// The will of a client whose connection is lost, one second after that.
fn leave_a_will(address: SocketAddr, user: &str, topic: &str) {
    let mut will = vec![5, 0x18, 0, 0, 0, 1];
    will.extend(text(topic));
    will.extend(text(user));
    let hello = Hello {
        client_id: user,
        flags: 0x0C,
        will: &will,
        ..hello(user, false, KEPT)
    };
    drop(hello.accepted(address));
}

#[test]
fn i11_a_delayed_will_goes_out_by_the_rights_of_that_moment() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (broker, address) = with_both(folder.path());
    put_role(&broker, "wills", &["allow publish wills/#"]);
    put_user(&broker, "carl", "secret", &["wills"]);
    let reader = Hello {
        client_id: "reader",
        ..hello("bert", true, &[])
    };
    let mut reader = reader.accepted(address);
    assert_eq!(subscribe(&mut reader, "wills/#"), 1);
    leave_a_will(address, "carl", "wills/carl");
    leave_a_will(address, "anna", "wills/anna");
    put_role(&broker, "wills", &["deny publish wills/#"]);
    let (topic, payload) = delivered(&mut reader);
    assert_eq!((&*topic, &*payload), ("wills/anna", "anna"));
    assert_eq!(reader.receive_within(Duration::from_millis(1_500)), None);
    broker.stop().expect("nothing failed");
}

/// `anna` with limits of her own, and a role with others.
fn limit(broker: &Broker, own: Limits, of_role: Limits) {
    let role = Role {
        limits: of_role,
        ..crate::support::accounts::role(&["allow all #"])
    };
    change(broker, Command::PutRole(role_name("anna"), role));
    let user = User {
        limits: own,
        ..user("secret", &["anna"])
    };
    change(broker, Command::PutUser(name("anna"), user));
}

#[test]
fn i9_a_publisher_over_its_rate_is_read_less() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let limits = Limits {
        messages_per_second: Some(20),
        ..Limits::default()
    };
    limit(&broker, Limits::default(), limits);
    let mut client = anna(address, "fast");
    let begun = Instant::now();
    for number in 0..60 {
        let taken = publishes(&mut client, "a", false, &number.to_string());
        assert_eq!(taken, NOBODY);
    }
    // 20 at once, then 20 a second; the last one is taken before it is paid for.
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1_850), "{took:?}");
    // By bytes.
    let limits = Limits {
        bytes_per_second: Some(1_000),
        ..Limits::default()
    };
    limit(&broker, limits, Limits::default());
    let mut client = anna(address, "large");
    let begun = Instant::now();
    for _ in 0..2 {
        let taken = publishes(&mut client, "a", false, &"x".repeat(2_000));
        assert_eq!(taken, NOBODY);
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(950), "{took:?}");
    let summary = broker.stop().expect("nothing failed");
    let over = counter(&summary, "publishers_over_quota");
    assert!(over >= 20, "{over}");
}

/// The broker has decided not to read: what the client sends meanwhile, or does not send, is not held against it (v5 [MQTT-3.1.2-22]).
#[test]
fn i9_a_client_is_not_cut_by_its_keep_alive_while_it_is_held_for_its_debt() {
    let broker = broker(1, &[ACCOUNTS, "mqtt.keep_alive_max_seconds=1"], |_| {});
    let address = broker.addresses()[0];
    put_role(&broker, "anna", &["allow all #"]);
    let limits = Limits {
        bytes_per_second: Some(1_000),
        ..Limits::default()
    };
    limit(&broker, limits, Limits::default());
    let mut client = anna(address, "owes");
    let begun = Instant::now();
    // Four seconds, of which one and a half would end a client of whom nothing is heard.
    assert_eq!(
        publishes(&mut client, "a", false, &"x".repeat(5_000)),
        NOBODY
    );
    client.send_raw(&[0xC0, 0]);
    assert_eq!(client.receive().first, 0xD0, "PINGRESP");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(3_900), "{took:?}");
    // It has paid, and counts as heard when it was read: from now on silence is its own.
    let begun = Instant::now();
    let last = client.receive();
    assert_eq!((last.first, last.body[0]), (0xE0, 0x8D), "{last:?}");
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1_400), "{took:?}");
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "closed_keep_alive"), 1);
}

/// Connecting with a will and dropping the socket is a publish, and cost nothing.
#[test]
fn i9_wills_are_paid_for_like_publishes() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let limits = Limits {
        messages_per_second: Some(5),
        ..Limits::default()
    };
    limit(&broker, Limits::default(), limits);
    let mut will = vec![0];
    will.extend(text("gone"));
    will.extend(text("x"));
    let hello = Hello {
        client_id: "same",
        flags: 2 | 4,
        will: &will,
        ..Hello::default()
    };
    let begun = Instant::now();
    let codes: Vec<u8> = (0..40).map(|_| hello.code(address)).collect();
    let most = 5.0 * (begun.elapsed().as_secs_f64() + 1.0) + 1.0;
    let taken = codes.iter().filter(|code| **code == 0).count();
    assert!(taken >= 5 && taken as f64 <= most, "{taken} of {most}");
    assert!(
        codes.iter().all(|code| [0, 0x97].contains(code)),
        "{codes:?}"
    );
    // Without one it is let in, and waits.
    let without = Hello {
        client_id: "same",
        ..Hello::default()
    };
    assert_eq!(without.code(address), 0);
    broker.stop().expect("nothing failed");
}

#[test]
fn i9_qos_2_of_a_kept_session_is_paid_for_and_counted() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let limits = Limits {
        messages_per_second: Some(20),
        ..Limits::default()
    };
    limit(&broker, Limits::default(), limits);
    let mut client = hello("anna", true, KEPT).accepted(address);
    let begun = Instant::now();
    for id in 1..=60 {
        // To the topic "a", without properties.
        client.send_raw(&[0x34, 6, 0, 1, b'a', 0, id, 0]);
        assert_eq!(client.receive().first, 0x50, "PUBREC");
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(1_850), "{took:?}");
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "publishes_received"), 60);
}

/// Two publishers of one shard, one of whom may publish twice a second. What it gets through is what the other one is measured by, not a
/// clock: if both waited for the same, they would be level.
#[test]
fn i9_a_neighbour_of_a_publisher_over_its_rate_is_served() {
    const ROUNDS: u32 = 100;
    let (broker, address) = with_anna(1, &["allow all #"]);
    let limits = Limits {
        messages_per_second: Some(2),
        ..Limits::default()
    };
    limit(&broker, Limits::default(), limits);
    put_role(&broker, "all", &["allow all #"]);
    put_user(&broker, "bert", "secret", &["all"]);
    let (taken, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut fast = anna(address, "fast");
            // So that a failure of the other one ends, too.
            while !is_over.load(Relaxed) && taken.load(Relaxed) < 60 {
                assert_eq!(publishes(&mut fast, "a", false, "x"), NOBODY);
                taken.fetch_add(1, Relaxed);
            }
        });
        let neighbour = Hello {
            client_id: "neighbour",
            login: Some(("bert", "secret")),
            ..Hello::default()
        };
        let mut neighbour = neighbour.accepted(address);
        // Two at once, and one more before it is paid for: from now on it waits.
        let deadline = Instant::now() + Duration::from_secs(20);
        while taken.load(Relaxed) < 4 {
            assert!(Instant::now() < deadline, "it is served, too");
            thread::sleep(Duration::from_millis(10));
        }
        let before = taken.load(Relaxed);
        for _ in 0..ROUNDS {
            assert_eq!(publishes(&mut neighbour, "a", false, "x"), NOBODY);
        }
        let beside = taken.load(Relaxed) - before;
        is_over.store(true, Relaxed);
        assert!(beside < ROUNDS / 2, "{beside} beside {ROUNDS}");
    });
    let summary = broker.stop().expect("nothing failed");
    assert!(counter(&summary, "publishers_over_quota") > 0);
}

#[test]
fn i9_subscriptions_and_connections_of_a_user_are_limited() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let own = Limits {
        subscriptions: Some(2),
        ..Limits::default()
    };
    // What the user has of its own goes before this.
    let of_role = Limits {
        subscriptions: Some(9),
        connections: Some(2),
        ..Limits::default()
    };
    limit(&broker, own, of_role);
    let mut first = anna(address, "first");
    assert_eq!(subscribe(&mut first, "a"), 1);
    assert_eq!(subscribe(&mut first, "b"), 1);
    assert_eq!(subscribe(&mut first, "c"), 0x97);
    assert_eq!(subscribe(&mut first, "b"), 1, "it is there");
    let _second = anna(address, "second");
    let third = Hello {
        client_id: "third",
        ..Hello::default()
    };
    assert_eq!(third.code(address), 0x97);
    first.send(0xE0, &[]);
    assert!(first.is_closed());
    let deadline = Instant::now() + Duration::from_secs(20);
    while third.code(address) != 0 {
        assert!(Instant::now() < deadline, "one has gone");
        thread::sleep(Duration::from_millis(10));
    }
    broker.stop().expect("nothing failed");
}

/// What the settings say is for those of whom users, roles and domain say nothing, and changes with them.
#[test]
fn i9_the_settings_limit_whom_nothing_else_limits() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let given = |connections: &str| {
        let data = format!("data.path={}", folder.path().display());
        let all = ["mqtt.listen=127.0.0.1:0", ACCOUNTS, &data, connections];
        let sources = all.iter().fold(Sources::new(), |all, one| all.set(one));
        sources.check().expect("the settings are right")
    };
    let broker = broker_on(folder.path(), 2, &[ACCOUNTS, "limits.connections=1"]);
    let address = broker.addresses()[0];
    put_role(&broker, "all", &["allow all #"]);
    put_user(&broker, "anna", "secret", &["all"]);
    let code = |client_id| {
        let hello = Hello {
            client_id,
            ..Hello::default()
        };
        hello.code(address)
    };
    let _first = anna(address, "first");
    assert_eq!(code("second"), 0x97, "by the settings");
    // A reload gives her one more.
    broker.reconfigure(given("limits.connections=2"));
    let _second = anna(address, "second");
    assert_eq!(code("third"), 0x97);
    // What an operator says of everybody goes before, also upwards.
    let of_domain = Limits {
        connections: Some(3),
        ..Limits::default()
    };
    let domain = Domain {
        limits: of_domain,
        ..Domain::default()
    };
    change(&broker, Command::PutDomain(DomainName::Default, domain));
    let _third = anna(address, "third");
    assert_eq!(code("fourth"), 0x97, "by the domain");
    // Where nothing is said any more the settings hold again, also those of a reload in between.
    broker.reconfigure(given("limits.connections=0"));
    assert_eq!(code("fourth"), 0x97, "by the domain");
    change(
        &broker,
        Command::PutDomain(DomainName::Default, Domain::default()),
    );
    let _fourth = anna(address, "fourth");
    broker.stop().expect("nothing failed");
}

#[test]
fn i9_deliveries_under_way_to_a_user_are_limited() {
    let (broker, address) = with_anna(1, &["allow all #"]);
    let own = Limits {
        in_flight: Some(3),
        ..Limits::default()
    };
    limit(&broker, own, Limits::default());
    let mut reader = anna(address, "reader");
    assert_eq!(subscribe(&mut reader, "a"), 1);
    let mut publisher = anna(address, "publisher");
    for _ in 0..10 {
        assert_eq!(publishes(&mut publisher, "a", false, "x"), 0);
    }
    let mut open = Vec::new();
    while let Some(packet) = reader.receive_within(Duration::from_millis(500)) {
        open.push(packet);
    }
    assert_eq!(open.len(), 3, "without an acknowledgement no more come");
    broker.stop().expect("nothing failed");
}

#[test]
fn i9_a_limit_that_is_set_while_a_client_comes_holds_for_it() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let broker = broker_on(folder.path(), 2, &[]);
    let address = broker.addresses()[0];
    let limit = |subscriptions| {
        let limits = Limits {
            subscriptions,
            ..Limits::default()
        };
        change(
            &broker,
            Command::PutDomain(
                DomainName::Default,
                Domain {
                    limits,
                    ..Domain::default()
                },
            ),
        );
    };
    for round in 0..30 {
        limit(None);
        let client_id = format!("c{round}");
        let hello = Hello {
            client_id: &client_id,
            flags: 0,
            properties: KEPT,
            login: None,
            ..Hello::default()
        };
        let mut client = thread::scope(|scope| {
            let coming = scope.spawn(|| hello.accepted(address));
            thread::sleep(Duration::from_micros(100 * (round % 10)));
            limit(Some(1));
            coming.join().expect("it is let in")
        });
        // Sessions are told one after the other.
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut filters = 0..;
        while subscribe(&mut client, &format!("a/{:?}", filters.next())) != 0x97 {
            assert!(Instant::now() < deadline, "round {round}");
        }
    }
    broker.stop().expect("nothing failed");
}
