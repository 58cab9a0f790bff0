//! Accounts of a running broker: who comes in, what they may do on every path (I11), and what follows when that changes.

use std::time::Duration;

use crate::support::accounts::{
    ACCOUNTS, Hello, anna, change, delivered, name, publishes, put_role, put_user, role_name,
    subscribe, user, with_anna,
};
use crate::support::{Client, Packet, broker, broker_on, encode, publish, text};
use courser_access::{Command, User, UserState};
use courser_broker::ChangeError;

#[test]
fn only_who_proves_it_comes_in() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let code = |version: u8, login: Option<(&str, &str)>| {
        let hello = Hello {
            version,
            login,
            ..Hello::default()
        };
        hello.code(address)
    };
    for (version, bad, none) in [(5, 0x86, 0x87), (4, 4, 5)] {
        assert_eq!(code(version, Some(("anna", "secret"))), 0);
        // By what is remembered.
        assert_eq!(code(version, Some(("anna", "secret"))), 0);
        assert_eq!(code(version, Some(("anna", "Secret"))), bad);
        assert_eq!(
            code(version, Some(("bert", "secret"))),
            bad,
            "an unknown user"
        );
        assert_eq!(code(version, None), none);
    }
    broker.stop().expect("nothing failed");
}

#[test]
fn s2_after_some_wrong_passwords_an_address_waits() {
    let (broker, address) = with_anna(1, &["allow all #"]);
    put_user(&broker, "bert", "hidden", &[]);
    let code = |user: &str, password: &str| {
        let hello = Hello {
            login: Some((user, password)),
            ..Hello::default()
        };
        hello.code(address)
    };
    assert_eq!(code("anna", "secret"), 0);
    for guess in 0..5 {
        assert_eq!(code("bert", &format!("guess-{guess}")), 0x86);
    }
    assert_eq!(code("bert", "hidden"), 0x9F, "not even looked at");
    assert_eq!(
        code("anna", "secret"),
        0x9F,
        "nor what was right a moment ago: that would tell"
    );
    broker.stop().expect("nothing failed");
}

#[test]
fn i12_before_there_are_accounts_nobody_comes_in() {
    let broker = broker(2, &[ACCOUNTS], |_| {});
    let code = || Hello::default().code(broker.addresses()[0]);
    // Until it is known whether there are any: 0x88.
    let known = std::iter::repeat_with(code).find(|&code| code != 0x88);
    assert_eq!(known, Some(0x86));
    broker.stop().expect("nothing failed");
}

#[test]
fn i11_every_path_asks() {
    let rules = &[
        "allow publish p/#",
        "allow subscribe s/#",
        "deny all s/secret",
    ];
    let (broker, address) = with_anna(2, rules);
    put_role(&broker, "all", &["allow all #"]);
    put_user(&broker, "root", "root", &["all"]);
    let root = Hello {
        client_id: "root",
        login: Some(("root", "root")),
        ..Hello::default()
    };
    let mut root = root.accepted(address);
    // Retained, before the subscription.
    assert_eq!(publishes(&mut root, "s/secret", true, "kept"), 0);
    assert_eq!(publishes(&mut root, "s/open", true, "kept"), 0);
    let mut client = anna(address, "c1");
    assert_eq!(publishes(&mut client, "p/x", false, "1"), 0x10);
    assert_eq!(publishes(&mut client, "s/x", false, "1"), 0x87);
    assert_eq!(subscribe(&mut client, "#"), 0x87);
    assert_eq!(subscribe(&mut client, "s/secret"), 0x87);
    assert_eq!(
        subscribe(&mut client, "$share/g/s/#"),
        0x87,
        "it would give her s/secret"
    );
    assert_eq!(subscribe(&mut client, "s/#"), 1);
    assert_eq!(delivered(&mut client), ("s/open".into(), "kept".into()));
    for topic in ["s/secret", "s/x"] {
        publishes(&mut root, topic, false, "live");
    }
    assert_eq!(delivered(&mut client), ("s/x".into(), "live".into()));
    // A will.
    let mut will = vec![0];
    will.extend(text("s/x"));
    will.extend(text("gone"));
    let hello = Hello {
        client_id: "c2",
        flags: 2 | 4,
        will: &will,
        ..Hello::default()
    };
    assert_eq!(hello.code(address), 0x87);
    // 3.1.1: no word for it but the end (v3 [MQTT-3.3.5-2]).
    let hello = Hello {
        version: 4,
        client_id: "c3",
        ..Hello::default()
    };
    let mut old = hello.accepted(address);
    old.send_raw(&publish("s/x", 1, 7, b"1"));
    assert!(old.is_closed());
    broker.stop().expect("nothing failed");
}

#[test]
fn a_revoked_right_stops_what_flows() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let mut publisher = anna(address, "publisher");
    let mut reader = anna(address, "reader");
    assert_eq!(subscribe(&mut reader, "a/#"), 1);
    assert_eq!(subscribe(&mut reader, "b/#"), 1);
    for number in 0..50 {
        publishes(&mut publisher, "a/x", false, &number.to_string());
        assert_eq!(delivered(&mut reader), ("a/x".into(), number.to_string()));
    }
    put_role(
        &broker,
        "anna",
        &["allow all #", "deny subscribe a/#", "deny publish c"],
    );
    for number in 0..50 {
        let payload = number.to_string();
        assert_eq!(publishes(&mut publisher, "a/x", false, &payload), 0);
        assert_eq!(publishes(&mut publisher, "b/x", false, &payload), 0);
        assert_eq!(delivered(&mut reader), ("b/x".into(), payload));
    }
    assert_eq!(publishes(&mut publisher, "c", false, "1"), 0x87);
    // Given again, it flows again: the subscription is there.
    put_role(&broker, "anna", &["allow all #"]);
    publishes(&mut publisher, "a/x", false, "again");
    assert_eq!(delivered(&mut reader), ("a/x".into(), "again".into()));
    broker.stop().expect("nothing failed");
}

/// What came while the client was away is asked for when it is sent.
#[test]
fn cve_2021_34434_a_kept_session_gets_nothing_that_was_revoked_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let broker = broker_on(folder.path(), 2, &[ACCOUNTS]);
    let address = broker.addresses()[0];
    put_role(&broker, "anna", &["allow all #"]);
    put_user(&broker, "anna", "secret", &["anna"]);
    let keep = Hello {
        client_id: "kept",
        flags: 0,
        properties: &[17, 0, 0, 1, 0],
        ..Hello::default()
    };
    let mut reader = keep.accepted(address);
    assert_eq!(subscribe(&mut reader, "a/#"), 1);
    reader.send(0xE0, &[]);
    assert!(reader.is_closed());
    let mut publisher = anna(address, "publisher");
    for topic in ["a/secret", "a/open", "a/secret", "a/last"] {
        publishes(&mut publisher, topic, false, "queued");
    }
    put_role(&broker, "anna", &["allow all #", "deny subscribe a/secret"]);
    let mut reader = keep.accepted(address);
    assert_eq!(delivered(&mut reader).0, "a/open");
    assert_eq!(delivered(&mut reader).0, "a/last");
    broker.stop().expect("nothing failed");
}

#[test]
fn who_is_removed_loses_connection_and_session() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let broker = broker_on(folder.path(), 2, &[ACCOUNTS]);
    let address = broker.addresses()[0];
    put_role(&broker, "anna", &["allow all #"]);
    put_user(&broker, "anna", "secret", &["anna"]);
    put_user(&broker, "bert", "secret", &["anna"]);
    let keep = |login| Hello {
        client_id: "kept",
        flags: 0,
        properties: &[17, 0, 0, 1, 0],
        login: Some(login),
        ..Hello::default()
    };
    let mut client = keep(("anna", "secret")).accepted(address);
    let other = Hello {
        client_id: "other",
        login: Some(("bert", "secret")),
        ..Hello::default()
    };
    let mut other = other.accepted(address);
    change(&broker, Command::RemoveUser(name("anna")));
    let goodbye = client.receive();
    assert_eq!((goodbye.first, goodbye.body[0]), (0xE0, 0x87));
    assert!(client.is_closed());
    assert_eq!(
        keep(("anna", "secret")).code(address),
        0x86,
        "what is remembered is of no use"
    );
    other.send(0xC0, &[]);
    assert_eq!(other.receive().first, 0xD0, "nobody else is dropped");
    put_user(&broker, "anna", "secret", &["anna"]);
    let (mut again, answer) = keep(("anna", "secret")).say(address);
    assert_eq!(answer.body[..2], [0, 0], "a new session");
    // Other credentials end the connection, not the session; disabled is disabled.
    put_user(&broker, "anna", "other", &["anna"]);
    assert_eq!(again.receive().body[0], 0x87);
    let (mut again, answer) = keep(("anna", "other")).say(address);
    assert_eq!(answer.body[..2], [1, 0], "the session is there");
    let disabled = User {
        state: UserState::Disabled,
        ..user("other", &["anna"])
    };
    change(&broker, Command::PutUser(name("anna"), disabled));
    assert_eq!(again.receive().body[0], 0x87);
    assert_eq!(keep(("anna", "other")).code(address), 0x86);
    broker.stop().expect("nothing failed");
}

#[test]
fn m2_users_and_roles_survive_with_the_log_and_with_its_checkpoint() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    // So that there are checkpoints of partition 0 after a few changes.
    let settings = &[ACCOUNTS, "log.checkpoint_bytes=1MiB"];
    let mut expected = 0;
    for round in 0..3_u64 {
        let broker = broker_on(folder.path(), 1 + (round % 2) as u16, settings);
        assert_eq!(broker.access().revision(), expected);
        put_role(&broker, "anna", &["allow all #"]);
        put_user(&broker, "anna", &format!("secret-{round}"), &["anna"]);
        let rules: Vec<String> = (0..900)
            .map(|number| format!("allow publish {}/{number}", "x".repeat(200)))
            .collect();
        let rules: Vec<&str> = rules.iter().map(|rule| &**rule).collect();
        for _ in 0..12 {
            put_role(&broker, "large", &rules);
        }
        expected += 14;
        let hello = Hello {
            login: Some(("anna", &format!("secret-{round}"))),
            ..Hello::default()
        };
        assert_eq!(hello.code(broker.addresses()[0]), 0);
        broker.stop().expect("nothing failed");
    }
    let broker = broker_on(folder.path(), 2, settings);
    assert_eq!(
        broker
            .access()
            .table()
            .role("large")
            .map(|role| role.rules.len()),
        Some(900)
    );
    broker.stop().expect("nothing failed");
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() {
    let (broker, _) = with_anna(2, &["allow all #"]);
    let before = broker.access().table();
    let refused = broker.access().change_and_wait(
        Command::RemoveRole(role_name("anna")),
        Duration::from_secs(20),
    );
    assert!(
        matches!(refused, Err(ChangeError::Refused(_))),
        "{refused:?}"
    );
    assert_eq!(broker.access().table(), before);
    broker.stop().expect("nothing failed");
}

/// A user that does not exist has a salt for good, as one that does.
#[test]
fn s2_the_salt_of_nobody_stays_over_a_start() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let salts = [1, 2].map(|shards| {
        let broker = broker_on(folder.path(), shards, &[ACCOUNTS]);
        let mut client = Client::open(broker.addresses()[0]);
        client.send(
            0x10,
            &connect_by_scram("n,,n=nobody,r=fyko+d2lbbFgONRv9qkxdawL"),
        );
        let challenge = auth_data(&client.receive().body[1..]);
        broker.stop().expect("nothing failed");
        let salt = challenge.split(',').find(|it| it.starts_with("s="));
        salt.expect("a salt").to_owned()
    });
    assert_eq!(salts[0], salts[1]);
}

/// A login by SCRAM, and a second one on the same connection.
#[test]
fn scram_logs_in_and_again() {
    let (broker, address) = with_anna(2, &["allow all #"]);
    let mut client = Client::open(address);
    let first = "n,,n=anna,r=fyko+d2lbbFgONRv9qkxdawL";
    client.send(0x10, &connect_by_scram(first));
    let proof = |challenge: &Packet, first: &str, password: &str| {
        assert_eq!(
            (challenge.first, challenge.body[0]),
            (0xF0, 0x18),
            "{challenge:?}"
        );
        crate::support::scram::answer(&auth_data(&challenge.body[1..]), first, password)
    };
    let challenge = client.receive();
    client.send(0xF0, &auth(0x18, &proof(&challenge, first, "secret")));
    let connack = client.receive();
    assert_eq!((connack.first, connack.body[1]), (0x20, 0), "{connack:?}");
    assert_eq!(publishes(&mut client, "t", false, "1"), 0x10);
    client.send(0xF0, &auth(0x19, first));
    let challenge = client.receive();
    client.send(0xF0, &auth(0x18, &proof(&challenge, first, "secret")));
    let done = client.receive();
    assert_eq!((done.first, done.body[0]), (0xF0, 0), "{done:?}");
    // Somebody else on the same connection, although the password is right.
    put_user(&broker, "bert", "secret", &["anna"]);
    let other = first.replace("anna", "bert");
    client.send(0xF0, &auth(0x19, &other));
    let challenge = client.receive();
    client.send(0xF0, &auth(0x18, &proof(&challenge, &other, "secret")));
    let end = client.receive();
    assert_eq!((end.first, end.body[0]), (0xE0, 0x87), "{end:?}");
    let mut client = Client::open(address);
    client.send(0x10, &connect_by_scram(first));
    let challenge = client.receive();
    client.send(0xF0, &auth(0x18, &proof(&challenge, first, "wrong")));
    assert_eq!(client.receive().body[1], 0x87);
    broker.stop().expect("nothing failed");
}

/// Body of a CONNECT that begins with the client's first message.
fn connect_by_scram(first: &str) -> Vec<u8> {
    let mut properties = vec![21];
    properties.extend(text("SCRAM-SHA-256"));
    properties.push(22);
    properties.extend(text(first));
    let mut body = vec![0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60];
    body.push(properties.len() as u8);
    body.extend(&properties);
    body.extend(text("c1"));
    body
}

/// Body of an AUTH.
fn auth(reason: u8, data: &str) -> Vec<u8> {
    let mut properties = vec![21];
    properties.extend(text("SCRAM-SHA-256"));
    properties.push(22);
    properties.extend(text(data));
    let sized = encode(0, &properties);
    [&[reason], &sized[1..]].concat()
}

/// The authentication data of an AUTH, whose properties are the method and it.
fn auth_data(body: &[u8]) -> String {
    let start = if body[0] < 0x80 { 1 } else { 2 };
    let after_method = start + 1 + 2 + "SCRAM-SHA-256".len();
    assert_eq!(body[after_method], 22);
    String::from_utf8(body[after_method + 3..].to_vec()).expect("SCRAM is text")
}
