//! Clients that come with a JSON Web Token: who comes in, what they may do, and when they have to go.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::accounts::{Hello, change, delivered, name, publishes, put_role, subscribe};
use crate::support::{Client, broker, broker_on, text};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use courser_access::{Command, User, UserState};
use courser_broker::{Broker, Config, StartError, TokensError};
use courser_settings::Sources;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const SECRET: &[u8] = b"a secret that is long enough to be one";
const OTHER: &[u8] = b"another secret that is long enough too";
/// No matching subscribers: taken all the same.
const NOBODY: u8 = 0x10;
/// Session Expiry Interval 256 s.
const KEPT: &[u8] = &[17, 0, 0, 1, 0];

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.expect("it is after 1970").as_secs()
}

/// A token by HS256.
fn token(secret: &[u8], claims: &str) -> String {
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#);
    let text = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("a key");
    mac.update(text.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{text}.{signature}")
}

/// One of the user with these roles that ends in so many seconds.
fn token_of(user: &str, roles: &str, seconds: u64) -> String {
    let end = now() + seconds;
    let claims = format!(r#"{{"sub":"{user}","groups":"{roles}","aud":"test","exp":{end}}}"#);
    token(SECRET, &claims)
}

/// The settings of a listener for tokens, with the secret in a file.
fn settings(folder: &Path) -> Vec<String> {
    let file = folder.join("secret");
    std::fs::write(&file, SECRET).expect("a file");
    vec![
        "mqtt.authentication=tokens".to_owned(),
        format!("tokens.secret_file={}", file.display()),
        "tokens.audience=[\"test\"]".to_owned(),
        "tokens.roles_claim=groups".to_owned(),
        "tokens.leeway=0s".to_owned(),
    ]
}

/// With the roles `device`, which may use `d/` and its user's name, and `all`.
fn with_roles(broker: &Broker) -> SocketAddr {
    put_role(broker, "device", &["allow all d/%u/#"]);
    put_role(broker, "all", &["allow all #"]);
    broker.addresses()[0]
}

fn in_memory(folder: &Path) -> (Broker, SocketAddr) {
    let settings = settings(folder);
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = broker(2, &settings, |_| {});
    let address = with_roles(&broker);
    (broker, address)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for a test")
}

/// CONNECT with the token in the password.
fn hello<'a>(client_id: &'a str, user: &'a str, token: &'a str) -> Hello<'a> {
    Hello {
        client_id,
        login: Some((user, token)),
        ..Hello::default()
    }
}

#[test]
fn only_who_has_a_token_comes_in() {
    let folder = folder();
    let (broker, address) = in_memory(folder.path());
    let right = token_of("anna", "device", 600);
    let old = token_of("anna", "device", 0);
    let end = now() + 600;
    let elsewhere = token(
        SECRET,
        &format!(r#"{{"sub":"anna","aud":"shop","exp":{end}}}"#),
    );
    let forged = token(
        OTHER,
        &format!(r#"{{"sub":"anna","aud":"test","exp":{end}}}"#),
    );
    for (version, bad, denied) in [(5, 0x86, 0x87), (4, 4, 5)] {
        let code = |login: Option<(&str, &str)>| {
            let hello = Hello {
                version,
                login,
                ..Hello::default()
            };
            hello.code(address)
        };
        assert_eq!(code(Some(("anna", &right))), 0);
        assert_eq!(code(Some(("", &right))), 0, "an empty name is none");
        assert_eq!(code(Some(("", &old))), bad, "and no proof");
        assert_eq!(code(Some(("bert", &right))), denied, "another name");
        assert_eq!(code(None), denied);
        assert_eq!(code(Some(("anna", &old))), bad);
        assert_eq!(code(Some(("anna", &elsewhere))), bad);
        assert_eq!(code(Some(("anna", "secret"))), bad, "no token at all");
    }
    assert_eq!(hello("c1", "anna", &forged).code(address), 0x86);
    assert_eq!(
        hello("c1", "anna", &right).code(address),
        0x9F,
        "after five that were no tokens of ours; the one that has ended was no attack"
    );
    broker.stop().expect("nothing failed");
}

#[test]
fn i11_a_token_gives_the_roles_that_it_names() {
    let folder = folder();
    let (broker, address) = in_memory(folder.path());
    let device = token_of("anna", "device other", 600);
    let mut client = hello("c1", "anna", &device).accepted(address);
    assert_eq!(publishes(&mut client, "d/anna/x", false, "1"), NOBODY);
    assert_eq!(publishes(&mut client, "d/bert/x", false, "1"), 0x87);
    assert_eq!(subscribe(&mut client, "#"), 0x87);
    assert_eq!(subscribe(&mut client, "d/anna/#"), 1);
    let nothing = token_of("bert", "", 600);
    let mut bert = hello("c2", "bert", &nothing).accepted(address);
    assert_eq!(publishes(&mut bert, "d/bert/x", false, "1"), 0x87);
    // What a role may changes under who has it.
    put_role(&broker, "other", &["allow publish news"]);
    assert_eq!(publishes(&mut client, "news", false, "1"), NOBODY);
    // Who is disabled here may not be here, whatever a token says.
    let disabled = User {
        state: UserState::Disabled,
        ..User::default()
    };
    change(&broker, Command::PutUser(name("anna"), disabled));
    assert_eq!(client.receive().first, 0xE0);
    assert_eq!(hello("c1", "anna", &device).code(address), 0x87);
    // Who is not here at all is whom the token says, and stays that when somebody of this name comes and goes.
    change(&broker, Command::RemoveUser(name("anna")));
    let mut client = hello("c1", "anna", &device).accepted(address);
    change(&broker, Command::PutUser(name("anna"), User::default()));
    change(&broker, Command::RemoveUser(name("anna")));
    assert_eq!(publishes(&mut client, "d/anna/x", false, "1"), NOBODY);
    broker.stop().expect("nothing failed");
}

#[test]
fn a_connection_ends_with_its_token() {
    let folder = folder();
    let (broker, address) = in_memory(folder.path());
    let all = token_of("watcher", "all", 600);
    let mut watcher = hello("watcher", "watcher", &all).accepted(address);
    assert_eq!(subscribe(&mut watcher, "d/#"), 1);
    let mut will = vec![0];
    will.extend(text("d/anna/gone"));
    will.extend(text("bye"));
    let short = token_of("anna", "device", 2);
    let hello = Hello {
        // A will of QoS 1.
        flags: 2 | 4 | 8,
        will: &will,
        ..hello("c1", "anna", &short)
    };
    let mut client = hello.accepted(address);
    let end = client.receive();
    // Maximum connect time.
    assert_eq!((end.first, end.body[0]), (0xE0, 0xA0));
    assert!(client.is_closed());
    // The client did not take leave, so its will is sent, by the roles that it had.
    assert_eq!(
        delivered(&mut watcher),
        ("d/anna/gone".into(), "bye".into())
    );
    broker.stop().expect("nothing failed");
}

/// Properties with the method and the token.
fn by_method(token: &str) -> Vec<u8> {
    let mut properties = vec![0x15];
    properties.extend(text("JWT"));
    properties.push(0x16);
    properties.extend(text(token));
    properties
}

fn authenticate_again(client: &mut Client, token: &str) -> u8 {
    let mut body = vec![0x19];
    body.extend(crate::support::counted(&by_method(token)));
    client.send(0xF0, &body);
    let answer = client.receive();
    match answer.first {
        // AUTH without a body is Success.
        0xF0 => answer.body.first().copied().unwrap_or(0),
        0xE0 => answer.body[0],
        other => panic!("packet {other:#x}"),
    }
}

#[test]
fn a_newer_token_in_time_prolongs_a_connection() {
    let folder = folder();
    let (broker, address) = in_memory(folder.path());
    let short = by_method(&token_of("anna", "device", 3));
    let method = |client_id, properties| Hello {
        client_id,
        properties,
        login: None,
        ..Hello::default()
    };
    let mut client = method("c1", &short).accepted(address);
    assert_eq!(publishes(&mut client, "d/anna/x", false, "1"), NOBODY);
    assert_eq!(publishes(&mut client, "news", false, "1"), 0x87);
    let longer = token_of("anna", "all", 600);
    assert_eq!(authenticate_again(&mut client, &longer), 0);
    assert_eq!(publishes(&mut client, "news", false, "1"), NOBODY);
    let after_the_first = client.receive_within(Duration::from_millis(3_500));
    assert_eq!(after_the_first, None, "the first token has ended");
    assert_eq!(publishes(&mut client, "news", false, "1"), NOBODY);
    // It stays who it is, and shows nothing that is worth less than what it has.
    let other = token_of("bert", "all", 600);
    assert_eq!(authenticate_again(&mut client, &other), 0x87);
    let longer = by_method(&longer);
    let mut client = method("c2", &longer).accepted(address);
    assert_eq!(authenticate_again(&mut client, "garbage"), 0x87);
    broker.stop().expect("nothing failed");
}

#[test]
fn a_session_stays_with_the_user_of_a_token() {
    let folder = folder();
    let settings = settings(folder.path());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let data = folder.path().join("data");
    let broker = broker_on(&data, 2, &settings);
    let address = with_roles(&broker);
    let kept = |user, token| Hello {
        flags: 0,
        properties: KEPT,
        ..hello("same", user, token)
    };
    let (device, all) = (
        token_of("anna", "device", 600),
        token_of("anna", "all", 600),
    );
    let bert = token_of("bert", "all", 600);
    let mut client = kept("anna", &device).accepted(address);
    assert_eq!(subscribe(&mut client, "d/anna/#"), 1);
    drop(client);
    // A change makes the shards look for sessions whose user is gone: this one's user was never there.
    put_role(&broker, "more", &[]);
    broker.stop().expect("nothing failed");
    let broker = broker_on(&data, 2, &settings);
    let address = broker.addresses()[0];
    assert_eq!(kept("bert", &bert).code(address), 0x87, "it is Anna's");
    let (_, connack) = kept("anna", &all).say(address);
    assert_eq!(
        connack.body[..2],
        [1, 0],
        "session present, with other roles"
    );
    broker.stop().expect("nothing failed");
}

#[test]
fn i11_the_will_of_a_kept_session_goes_by_the_roles_of_its_token() {
    let folder = folder();
    let settings = settings(folder.path());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let broker = broker_on(&folder.path().join("data"), 2, &settings);
    let address = with_roles(&broker);
    put_role(&broker, "stays", &["allow publish wills/#"]);
    put_role(&broker, "changes", &["allow publish wills/#"]);
    let all = token_of("watcher", "all", 600);
    let mut watcher = hello("watcher", "watcher", &all).accepted(address);
    assert_eq!(subscribe(&mut watcher, "wills/#"), 1);
    let mut clients = [("anna", "stays"), ("bert", "changes")].map(|(user, role)| {
        // Two seconds after the end of the connection.
        let mut will = vec![5, 0x18, 0, 0, 0, 2];
        will.extend(text(&format!("wills/{user}")));
        will.extend(text("bye"));
        let short = token_of(user, role, 2);
        let kept = Hello {
            // A will of QoS 1, and the session that there is.
            flags: 4 | 8,
            will: &will,
            properties: KEPT,
            ..hello(user, user, &short)
        };
        kept.accepted(address)
    });
    for client in &mut clients {
        let end = client.receive();
        assert_eq!((end.first, end.body[0]), (0xE0, 0xA0));
    }
    put_role(&broker, "changes", &["deny publish wills/#"]);
    assert_eq!(delivered(&mut watcher), ("wills/anna".into(), "bye".into()));
    let other = watcher.receive_within(Duration::from_millis(1_500));
    assert_eq!(other, None, "whose role may not any more");
    broker.stop().expect("nothing failed");
}

#[test]
fn i11_the_newest_token_says_what_a_session_leaves_behind() {
    let folder = folder();
    let settings = settings(folder.path());
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let data = folder.path().join("data");
    let broker = broker_on(&data, 2, &settings);
    let address = with_roles(&broker);
    put_role(&broker, "wills", &["allow publish wills/#"]);
    let all = token_of("watcher", "all", 600);
    let mut watcher = hello("watcher", "watcher", &all).accepted(address);
    assert_eq!(subscribe(&mut watcher, "wills/#"), 1);
    // Both may leave a will, by their first token and by a newer one that they show.
    let clients =
        [("anna", "all", "wills"), ("bert", "wills", "all")].map(|(user, first, newer)| {
            // Five seconds after the end of the connection.
            let mut will = vec![5, 0x18, 0, 0, 0, 5];
            will.extend(text(&format!("wills/{user}")));
            will.extend(text("bye"));
            let mut properties = KEPT.to_vec();
            properties.extend(by_method(&token_of(user, first, 600)));
            let hello = Hello {
                client_id: user,
                // A will of QoS 1, and the session that there is.
                flags: 4 | 8,
                will: &will,
                properties: &properties,
                login: None,
                ..Hello::default()
            };
            let mut client = hello.accepted(address);
            let newer = token_of(user, newer, 600);
            assert_eq!(authenticate_again(&mut client, &newer), 0);
            client
        });
    drop(clients);
    put_role(&broker, "wills", &[]);
    assert_eq!(delivered(&mut watcher), ("wills/bert".into(), "bye".into()));
    let other = watcher.receive_within(Duration::from_millis(1_500));
    assert_eq!(other, None, "whose first token alone would allow it");
    broker.stop().expect("nothing failed");
}

#[test]
fn keys_are_read_again_and_only_as_a_whole() {
    let folder = folder();
    let (broker, address) = in_memory(folder.path());
    let file = folder.path().join("secret");
    let end = now() + 600;
    let claims = format!(r#"{{"sub":"anna","aud":"test","exp":{end}}}"#);
    let (old, new) = (token(SECRET, &claims), token(OTHER, &claims));
    let code = |token: &str| hello("c1", "anna", token).code(address);
    assert_eq!((code(&old), code(&new)), (0, 0x86));
    std::fs::write(&file, "short").expect("a file");
    broker.reread_files().expect_err("it is too short");
    assert_eq!(
        code(&old),
        0,
        "a secret that cannot be used changes nothing"
    );
    std::fs::write(&file, OTHER).expect("a file");
    broker.reread_files().expect("it is right");
    assert_eq!((code(&old), code(&new)), (0x86, 0));
    broker.stop().expect("nothing failed");
}

#[test]
fn a_key_set_without_a_key_takes_back_those_that_it_had() {
    let folder = folder();
    let file = folder.path().join("keys");
    let write = |text: &str| std::fs::write(&file, text).expect("a file");
    let of = |secret: &[u8]| {
        let key = URL_SAFE_NO_PAD.encode(secret);
        format!(r#"{{"keys":[{{"kty":"oct","k":"{key}"}}]}}"#)
    };
    write(&of(SECRET));
    let key_set = format!("tokens.key_set={}", file.display());
    let settings = [
        "mqtt.authentication=tokens",
        "tokens.audience=[\"test\"]",
        &*key_set,
    ];
    let broker = broker(1, &settings, |_| {});
    let address = broker.addresses()[0];
    let claims = format!(r#"{{"sub":"anna","aud":"test","exp":{}}}"#, now() + 600);
    let (old, new) = (token(SECRET, &claims), token(OTHER, &claims));
    let code = |token: &str| hello("c1", "anna", token).code(address);
    let mut before = hello("c2", "anna", &old).accepted(address);
    for (text, is_right, expected) in [
        (&*of(SECRET), true, 0),
        ("{", false, 0),
        ("{}", false, 0),
        (r#"{"keys":[]}"#, true, 0x86),
        (&*of(SECRET), true, 0),
        (r#"{"keys":[{"kty":"PQ"},7]}"#, true, 0x86),
        // What cannot be read brings back nothing.
        ("{", false, 0x86),
    ] {
        write(text);
        assert_eq!(broker.reread_files().is_ok(), is_right, "{text}");
        assert_eq!(code(&old), expected, "{text}");
    }
    write(&of(OTHER));
    broker.reread_files().expect("they are right");
    assert_eq!((code(&new), code(&old)), (0, 0x86));
    assert_eq!(
        publishes(&mut before, "x", false, "1"),
        0x87,
        "who is there stays"
    );
    broker.stop().expect("nothing failed");
}

#[test]
fn keys_that_cannot_be_used_stop_the_start() {
    let folder = folder();
    let file = folder.path().join("keys");
    let start = |more: &[&str]| {
        let mut sources = Sources::new()
            .set("mqtt.listen=127.0.0.1:0")
            .set("data.store=memory")
            .set("mqtt.authentication=tokens")
            .set("tokens.audience=[\"test\"]");
        for setting in more {
            sources = sources.set(setting);
        }
        let settings = sources.check().expect("the settings are right");
        match Broker::start(Config::new(settings)) {
            Err(StartError::Tokens(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let key_set = format!("tokens.key_set={}", file.display());
    let public = format!("tokens.public_keys=[\"{}\"]", file.display());
    let secret = format!("tokens.secret_file={}", file.display());
    assert!(matches!(start(&[&key_set]), TokensError::Read { .. }));
    std::fs::write(&file, "x").expect("a file");
    for setting in [&key_set, &public, &secret] {
        let error = start(&[setting]);
        assert!(matches!(error, TokensError::Keys { .. }), "{error:?}");
    }
    std::fs::write(&file, r#"{"keys":[]}"#).expect("a file");
    let error = start(&[&key_set]);
    assert!(matches!(error, TokensError::Keys { .. }), "{error:?}");
    std::fs::write(&file, SECRET).expect("a file");
    let error = start(&[&secret, "tokens.roles=[\"a b\"]"]);
    assert!(matches!(error, TokensError::Role { .. }), "{error:?}");
}
