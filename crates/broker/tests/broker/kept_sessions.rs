//! How many sessions users keep, and which client ids they have.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use courser_access::{Command, Domain, DomainName, Limits, Role, User};
use courser_broker::{Broker, Ended};
use courser_settings::Sources;

use crate::support::accounts::{
    ACCOUNTS, Hello, change, name, put_role, put_user, role, role_name, user,
};
use crate::support::{asked, broker, broker_on, counter};

/// Session Expiry Interval 256 s.
const KEPT: &[u8] = &[17, 0, 0, 1, 0];
const QUOTA_EXCEEDED: u8 = 0x97;
const CLIENT_ID_NOT_VALID: u8 = 0x85;

/// Comes with a session that is kept, and leaves it.
fn keeps(address: SocketAddr, user: &str, client_id: &str) -> u8 {
    begins(address, user, client_id, 0)
}

fn begins(address: SocketAddr, user: &str, client_id: &str, flags: u8) -> u8 {
    let hello = Hello {
        client_id,
        flags,
        properties: KEPT,
        login: Some((user, "secret")),
        ..Hello::default()
    };
    let (mut client, answer) = hello.say(address);
    assert_eq!(answer.first, 0x20, "{answer:?}");
    if answer.body[1] == 0 {
        client.send(0xE0, &[]);
    }
    assert!(client.is_closed());
    answer.body[1]
}

fn sessions(most: u32) -> Limits {
    Limits {
        sessions: Some(most),
        ..Limits::default()
    }
}

/// `anna`, whose role has a limit, and `bert`, who has none.
fn people(broker: &Broker, of_role: Limits) {
    let limited = Role {
        limits: of_role,
        ..role(&["allow all #"])
    };
    change(broker, Command::PutRole(role_name("limited"), limited));
    put_role(broker, "all", &["allow all #"]);
    put_user(broker, "anna", "secret", &["limited"]);
    put_user(broker, "bert", "secret", &["all"]);
}

fn ended(broker: &Broker, client_id: &str) {
    // Its connection may not be gone yet.
    while asked(broker.control().end_session(client_id)).expect("the shards answer") == Ended::InUse
    {
        thread::sleep(Duration::from_millis(5));
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    while asked(broker.control().session(client_id)).is_ok_and(|row| row.is_some()) {
        assert!(Instant::now() < deadline, "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

const IDS: [&str; 5] = ["c1", "c2", "c3", "c4", "c5"];

/// All five are there, and no sixth one: whatever comes again.
fn are_full(address: SocketAddr) {
    assert_eq!(keeps(address, "anna", "c6"), QUOTA_EXCEEDED);
    let old = Hello {
        version: 4,
        client_id: "c6",
        flags: 0,
        ..Hello::default()
    };
    assert_eq!(old.code(address), 3, "server unavailable");
    for client_id in IDS {
        for flags in [0, 2, 0] {
            assert_eq!(begins(address, "anna", client_id, flags), 0, "{client_id}");
        }
    }
    assert_eq!(keeps(address, "anna", "c6"), QUOTA_EXCEEDED);
    let clean = Hello {
        client_id: "c6",
        ..Hello::default()
    };
    assert_eq!(clean.code(address), 0, "nothing is kept of it");
}

fn on(folder: &Path, shards: u16) -> (Broker, SocketAddr) {
    let broker = broker_on(folder, shards, &[ACCOUNTS]);
    let address = broker.addresses()[0];
    (broker, address)
}

#[test]
fn i9_sessions_of_a_user_are_limited_over_all_shards_and_starts() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let (broker, address) = on(folder.path(), 2);
    people(&broker, sessions(5));
    for client_id in IDS {
        assert_eq!(keeps(address, "anna", client_id), 0);
    }
    are_full(address);
    for number in 0..8 {
        let client_id = format!("b{number}");
        assert_eq!(keeps(address, "bert", &client_id), 0, "he has no limit");
    }
    let summary = broker.stop().expect("nothing failed");
    assert_eq!(counter(&summary, "closed_refused"), 3);
    let (broker, address) = on(folder.path(), 4);
    are_full(address);
    ended(&broker, "c3");
    assert_eq!(keeps(address, "anna", "c6"), 0, "one has ended");
    assert_eq!(keeps(address, "anna", "c3"), QUOTA_EXCEEDED);
    // What the user has of its own goes before its role.
    let more = User {
        limits: sessions(6),
        ..user("secret", &["limited"])
    };
    change(&broker, Command::PutUser(name("anna"), more));
    assert_eq!(keeps(address, "anna", "c3"), 0);
    // Fewer than there are: they stay, and are taken up.
    let fewer = User {
        limits: sessions(1),
        ..user("secret", &["limited"])
    };
    change(&broker, Command::PutUser(name("anna"), fewer));
    assert_eq!(keeps(address, "anna", "c3"), 0);
    assert_eq!(keeps(address, "anna", "c7"), QUOTA_EXCEEDED);
    // Who is made again has none.
    change(&broker, Command::RemoveUser(name("anna")));
    put_user(&broker, "anna", "secret", &["limited"]);
    for client_id in IDS {
        assert_eq!(keeps(address, "anna", client_id), 0);
    }
    are_full(address);
    broker.stop().expect("nothing failed");
}

#[test]
fn i9_of_many_that_come_at_once_as_many_are_kept_as_may_be() {
    const AT_ONCE: usize = 24;
    let broker = broker(3, &[ACCOUNTS], |_| {});
    let address = broker.addresses()[0];
    people(&broker, sessions(5));
    let gate = Barrier::new(AT_ONCE);
    let codes: Vec<u8> = thread::scope(|scope| {
        let comes = |number| {
            let gate = &gate;
            scope.spawn(move || {
                gate.wait();
                keeps(address, "anna", &format!("c{number}"))
            })
        };
        let all: Vec<_> = (0..AT_ONCE).map(comes).collect();
        let all = all.into_iter().map(|it| it.join().expect("it has come"));
        all.collect()
    });
    let of = |code| codes.iter().filter(|it| **it == code).count();
    assert_eq!((of(0), of(QUOTA_EXCEEDED)), (5, AT_ONCE - 5), "{codes:?}");
    broker.stop().expect("nothing failed");
}

#[test]
fn i9_the_settings_limit_the_sessions_of_whom_nothing_else_limits() {
    let folder = tempfile::tempdir().expect("a folder for a test");
    let given = |sessions: &str| {
        let data = format!("data.path={}", folder.path().display());
        let all = ["mqtt.listen=127.0.0.1:0", ACCOUNTS, &data, sessions];
        let sources = all.iter().fold(Sources::new(), |all, one| all.set(one));
        sources.check().expect("the settings are right")
    };
    let broker = broker_on(folder.path(), 2, &[ACCOUNTS, "limits.sessions=1"]);
    let address = broker.addresses()[0];
    people(&broker, Limits::default());
    assert_eq!(keeps(address, "anna", "c1"), 0);
    assert_eq!(keeps(address, "anna", "c2"), QUOTA_EXCEEDED);
    broker.reconfigure(given("limits.sessions=2"));
    assert_eq!(keeps(address, "anna", "c2"), 0);
    assert_eq!(keeps(address, "anna", "c3"), QUOTA_EXCEEDED);
    let domain = Domain {
        limits: sessions(3),
        ..Domain::default()
    };
    change(&broker, Command::PutDomain(DomainName::Default, domain));
    assert_eq!(keeps(address, "anna", "c3"), 0);
    assert_eq!(keeps(address, "anna", "c4"), QUOTA_EXCEEDED);
    broker.stop().expect("nothing failed");
}

#[test]
fn a_client_id_is_one_that_the_listener_gives_its_user() {
    let ids = "mqtt.client_ids=%u,%u-*";
    let broker = broker(2, &[ACCOUNTS, ids], |_| {});
    let address = broker.addresses()[0];
    people(&broker, Limits::default());
    for (user, client_id, code) in [
        ("anna", "anna", 0),
        ("anna", "anna-1", 0),
        ("anna", "anna1", CLIENT_ID_NOT_VALID),
        ("anna", "bert", CLIENT_ID_NOT_VALID),
        ("anna", "bert-1", CLIENT_ID_NOT_VALID),
        ("bert", "bert-1", 0),
    ] {
        assert_eq!(keeps(address, user, client_id), code, "{user} {client_id}");
    }
    let old = Hello {
        version: 4,
        client_id: "bert",
        ..Hello::default()
    };
    assert_eq!(old.code(address), 2, "identifier rejected");
    let assigned = Hello {
        client_id: "",
        ..Hello::default()
    };
    assert_eq!(assigned.code(address), 0, "the server gives it one");
    broker.stop().expect("nothing failed");
}
