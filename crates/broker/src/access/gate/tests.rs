use courser_access::{Command, Domain, DomainName, Role, RoleName, User, UserName, UserState};
use courser_contract::QoS;

use super::*;

fn anna() -> UserName {
    UserName::new("anna").unwrap()
}

fn put_role(rules: &[&str]) -> Command {
    let role = Role {
        rules: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..Role::default()
    };
    Command::PutRole(RoleName::new("r").unwrap(), role)
}

fn put_anna(state: UserState) -> Command {
    let user = User {
        roles: [RoleName::new("r").unwrap()].into(),
        state,
        ..User::default()
    };
    Command::PutUser(anna(), user)
}

fn table(rules: &[&str]) -> Table {
    let mut table = Table::default();
    table.apply(&put_role(rules));
    table.apply(&put_anna(UserState::Enabled));
    table
}

/// Whether a client may publish no more by now, once it has published so much.
fn publishes(gate: &mut Gate, quotas: &Quotas, messages: u64) -> bool {
    let owes = |gate: &mut Gate| gate.owes(Tick(1_000), quotas, Name::ClientId("c1"));
    owes(gate);
    for _ in 0..messages {
        gate.charge(Tick(1_000), [b"a", b"", b""]);
    }
    owes(gate)
}

fn logged_in(table: &Table) -> Gate {
    let mut gate = Gate::Shut;
    gate.log_in("c1", anna(), table);
    gate
}

#[test]
fn i12_who_has_not_logged_in_may_nothing() {
    let table = table(&["allow all #"]);
    let all = [
        Asked::Publish("a"),
        Asked::Receive("a"),
        Asked::Subscribe("a"),
        Asked::SubscribeShared("a"),
    ];
    for asked in all {
        assert_eq!(Gate::Shut.may(asked, &table), Permission::Denied);
        assert_eq!(Gate::open(&table).may(asked, &table), Permission::Granted);
        assert_eq!(logged_in(&table).may(asked, &table), Permission::Granted);
    }
    assert_eq!(Gate::Shut.revoked(&table), None);
}

#[test]
fn i11_a_changed_table_counts_at_the_next_question_on_every_path() {
    let mut table = table(&["allow all a/#"]);
    let mut gate = logged_in(&table);
    let all = [
        Asked::Publish("a/b"),
        Asked::Receive("a/b"),
        Asked::Subscribe("a/+"),
        Asked::SubscribeShared("a/#"),
    ];
    for asked in all {
        assert_eq!(gate.may(asked, &table), Permission::Granted);
    }
    table.apply(&put_role(&["allow all b/#"]));
    for asked in all {
        assert_eq!(gate.may(asked, &table), Permission::Denied, "{asked:?}");
    }
    assert_eq!(gate.may(Asked::Publish("b/x"), &table), Permission::Granted);
    assert_eq!(gate.revoked(&table), None, "the connection goes on");
}

#[test]
fn connections_end_with_what_their_login_proved() {
    let before = table(&["allow all #"]);
    let gate = || logged_in(&before);
    let mut removed = before.clone();
    removed.apply(&Command::RemoveUser(anna()));
    assert_eq!(gate().revoked(&removed), Some(Revoked::User));
    let mut disabled = before.clone();
    disabled.apply(&put_anna(UserState::Disabled));
    assert_eq!(gate().revoked(&disabled), Some(Revoked::Disabled));
    let mut again = removed.clone();
    again.apply(&put_anna(UserState::Enabled));
    for table in [&removed, &disabled, &again] {
        let denied = gate().may(Asked::Publish("a"), table);
        assert_eq!(denied, Permission::Denied, "also before its end has come");
    }
    assert_eq!(
        gate().revoked(&again),
        Some(Revoked::Credentials),
        "a namesake"
    );
}

#[test]
fn a_will_that_may_not_be_published_any_more_ends_its_connection() {
    let mut table = table(&["allow all #"]);
    let mut gate = logged_in(&table);
    gate.note_will("status/c1");
    assert_eq!(gate.revoked(&table), None);
    table.apply(&put_role(&["allow all #", "deny publish status/#"]));
    assert_eq!(gate.revoked(&table), Some(Revoked::Will));
}

#[test]
fn the_domain_limits_who_does_not_log_in() {
    let mut table = table(&["allow all #"]);
    let quotas = Quotas::default();
    let mut open = Gate::open(&table);
    assert!(!publishes(&mut open, &quotas, 1_000), "nothing limits it");
    let domain = Domain {
        limits: Limits {
            messages_per_second: Some(10),
            queued_messages: Some(0),
            ..Limits::default()
        },
        ..Domain::default()
    };
    table.apply(&Command::PutDomain(DomainName::Default, domain));
    assert_eq!(open.revoked(&table), None, "it stays");
    assert!(!publishes(&mut open, &quotas, 10), "a burst of a second");
    assert!(publishes(&mut open, &quotas, 1));
    assert_eq!(open.revoked(&table), None);
    assert!(
        publishes(&mut open, &quotas, 0),
        "a look at the table gives no new burst"
    );
    let limits = session_limits(open.limits(&table));
    let expected = SessionLimits {
        queued_messages_max: 1,
        ..SessionLimits::NONE
    };
    assert_eq!(limits, expected, "0 counts as 1");
    for owner in [None, Some("nobody"), Some("anna"), Some("anna\0r")] {
        assert_eq!(limits_of_session(&table, owner), expected, "{owner:?}");
    }
    // Also who came while there was no table.
    for gate in [logged_in(&Table::default()), Gate::open(&Table::default())] {
        assert_eq!(session_limits(gate.limits(&table)), expected);
    }
    table.apply(&Command::PutDomain(DomainName::Default, Domain::default()));
    assert_eq!(open.revoked(&table), None);
    assert!(!publishes(&mut open, &quotas, 1_000));
    assert_eq!(limits_of_session(&table, None), SessionLimits::NONE);
}

#[test]
fn topic_and_properties_are_paid_for_like_the_payload() {
    let of_settings = Limits {
        bytes_per_second: Some(10),
        ..Limits::default()
    };
    let table = Table::default().with_process(of_settings);
    let messages: [[&[u8]; 3]; 4] = [
        [b"0123456789a", b"", b""],
        [b"a", b"0123456789", b""],
        [b"a", b"", b"0123456789"],
        [b"0123", b"4567", b"89a"],
    ];
    let now = Tick(1_000);
    for message in messages {
        let quotas = Quotas::default();
        let mut gate = Gate::open(&table);
        assert!(!gate.owes(now, &quotas, Name::ClientId("c1")));
        assert!(gate.charge(now, message), "{message:?}");
        assert!(!gate.owes(Tick(now.0 + 100), &quotas, Name::ClientId("c1")));
    }
}

#[test]
fn a_will_counts_as_a_publish_and_is_denied_to_who_owes() {
    let of_settings = Limits {
        messages_per_second: Some(5),
        bytes_per_second: Some(100),
        ..Limits::default()
    };
    let will = |payload: &str| Will {
        topic: "w".into(),
        properties: Box::default(),
        payload: payload.as_bytes().into(),
        qos: QoS::AtMostOnce,
        retain: false,
        delay_seconds: 0,
        expiry_seconds: None,
    };
    let now = Tick(1_000);
    let table = table(&["allow all #"]).with_process(of_settings);
    for (will, expected) in [(will("x"), 6), (will(&"x".repeat(299)), 1)] {
        for log_in in [false, true] {
            let quotas = Quotas::default();
            let mut granted = 0;
            let come = |now: Tick| {
                let mut gate = if log_in {
                    logged_in(&table)
                } else {
                    Gate::open(&table)
                };
                let answer = gate.charge_will(now, &quotas, Name::ClientId("c1"), &will);
                gate.end_publishing(now);
                answer
            };
            while come(now) == Permission::Granted {
                granted += 1;
            }
            assert_eq!(granted, expected, "{will:?}");
            assert_eq!(come(Tick(now.0 + 100)), Permission::Denied);
            assert_eq!(come(Tick(now.0 + 3_000)), Permission::Granted);
        }
    }
    let mut open = Gate::open(&Table::default());
    let quotas = Quotas::default();
    for _ in 0..1_000 {
        let granted = open.charge_will(now, &quotas, Name::ClientId("c1"), &will("x"));
        assert_eq!(granted, Permission::Granted, "nothing limits it");
    }
}

#[test]
fn the_settings_limit_whom_the_table_does_not() {
    let of_settings = Limits {
        messages_per_second: Some(10),
        ..Limits::default()
    };
    let quotas = Quotas::default();
    let plain = table(&["allow all #"]);
    let mut gates = [Gate::open(&plain), logged_in(&plain)];
    let mut table = plain.with_process(of_settings);
    for gate in &mut gates {
        assert!(!publishes(gate, &quotas, 1_000), "nothing limits it");
        assert_eq!(gate.revoked(&table), None, "it stays");
        assert!(!publishes(gate, &quotas, 10), "a burst of a second");
        assert!(publishes(gate, &quotas, 1));
    }
    let more = Domain {
        limits: Limits {
            messages_per_second: Some(1_000),
            ..Limits::default()
        },
        ..Domain::default()
    };
    table.apply(&Command::PutDomain(DomainName::Default, more));
    for gate in &mut gates {
        assert_eq!(gate.revoked(&table), None);
        assert!(!publishes(gate, &quotas, 1_000), "more than the settings");
        assert!(publishes(gate, &quotas, 1));
    }
}
