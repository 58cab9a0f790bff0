use std::collections::BTreeSet;

use super::*;
use crate::scram::ScramKeys;
use crate::{HashMemory, PasswordHash, SALT_BYTES, WireError};

fn user_name(text: &str) -> UserName {
    UserName::new(text).unwrap()
}

fn role_name(text: &str) -> RoleName {
    RoleName::new(text).unwrap()
}

fn role(rules: &[&str]) -> Role {
    Role {
        rules: rules.iter().map(|rule| rule.parse().unwrap()).collect(),
        ..Role::default()
    }
}

fn user(roles: &[&str]) -> User {
    User {
        roles: roles.iter().map(|role| role_name(role)).collect(),
        ..User::default()
    }
}

fn hash(password: &str) -> Option<PasswordHash> {
    let made = PasswordHash::new(
        password.as_bytes(),
        [1; SALT_BYTES],
        &mut HashMemory::default(),
    );
    Some(made.unwrap())
}

/// What the leader and then everybody does with a change; through its bytes, as it goes through the log.
fn change(table: &mut Table, command: Command) -> Result<(), Refusal> {
    table.check(&command)?;
    let read = Command::decode(&command.encode()).unwrap();
    assert_eq!(read, command);
    table.apply(&read);
    assert_eq!(
        Table::decode(&table.encode()).as_ref(),
        Ok(&*table),
        "a checkpoint is all of it"
    );
    Ok(())
}

#[test]
fn users_need_roles_that_exist_and_roles_stay_as_long_as_users_have_them() {
    let table = &mut Table::default();
    let (anna, reader) = (user_name("anna"), role_name("reader"));
    let put_anna = Command::PutUser(anna.clone(), user(&["reader"]));
    assert_eq!(
        change(table, put_anna.clone()),
        Err(Refusal::NoRole(reader.clone()))
    );
    let put_role = Command::PutRole(reader.clone(), role(&["allow subscribe a/#"]));
    assert_eq!(change(table, put_role), Ok(()));
    assert_eq!(change(table, put_anna), Ok(()));
    let in_use = Refusal::RoleInUse {
        role: reader.clone(),
        user: anna.clone(),
        others: 0,
    };
    assert_eq!(
        change(table, Command::RemoveRole(reader.clone())),
        Err(in_use)
    );
    assert_eq!(change(table, Command::RemoveUser(anna.clone())), Ok(()));
    let again = change(table, Command::RemoveUser(anna.clone()));
    assert_eq!(again, Err(Refusal::NoUser(anna)));
    assert_eq!(change(table, Command::RemoveRole(reader)), Ok(()));
    assert_eq!(table.revision(), 4);
    assert_eq!((table.users().len(), table.roles().len()), (0, 0));
}

#[test]
fn the_last_administrator_stays() {
    let table = &mut Table::default();
    let admin = Role {
        administration: Administration::Full,
        ..Role::default()
    };
    change(table, Command::PutRole(role_name("admin"), admin)).unwrap();
    let root = User {
        password: hash("pw"),
        ..user(&["admin"])
    };
    let name = user_name("root");
    change(table, Command::PutUser(name.clone(), root.clone())).unwrap();
    assert_eq!(table.administration("root"), Administration::Full);
    let disabled = User {
        state: UserState::Disabled,
        ..root.clone()
    };
    let without = |roles: BTreeSet<RoleName>| User {
        roles,
        ..root.clone()
    };
    for last in [
        Command::RemoveUser(name.clone()),
        Command::PutUser(name.clone(), disabled),
        Command::PutUser(name.clone(), without(BTreeSet::new())),
        Command::PutUser(
            name.clone(),
            User {
                password: None,
                ..root.clone()
            },
        ),
        Command::PutRole(role_name("admin"), Role::default()),
        Command::Replace(Box::default()),
    ] {
        assert_eq!(change(table, last), Err(Refusal::LastAdministrator));
    }
    change(table, Command::PutUser(user_name("second"), root)).unwrap();
    assert_eq!(change(table, Command::RemoveUser(name)), Ok(()));
}

#[test]
fn i12_who_has_keys_of_scram_alone_is_no_administrator_for_operators_log_in_by_passwords() {
    let table = &mut Table::default();
    let admin = Role {
        administration: Administration::Full,
        ..Role::default()
    };
    change(table, Command::PutRole(role_name("admin"), admin)).unwrap();
    let by_scram = User {
        scram: Some(ScramKeys::new(b"pw", [1; SALT_BYTES])),
        ..user(&["admin"])
    };
    change(table, Command::PutUser(user_name("device"), by_scram)).unwrap();
    assert!(!table.has_administrator());
    let root = User {
        password: hash("pw"),
        ..user(&["admin"])
    };
    change(table, Command::PutUser(user_name("root"), root)).unwrap();
    let last = change(table, Command::RemoveUser(user_name("root")));
    assert_eq!(last, Err(Refusal::LastAdministrator));
}

#[test]
fn a_user_stays_the_same_as_long_as_its_credentials_do() {
    let table = &mut Table::default();
    let anna = user_name("anna");
    let since = |table: &Table| table.user("anna").unwrap().since;
    let with = |password: &str| User {
        password: hash(password),
        ..User::default()
    };
    change(table, Command::PutUser(anna.clone(), with("a"))).unwrap();
    assert_eq!(since(table), 1);
    change(table, Command::PutRole(role_name("r"), role(&[]))).unwrap();
    let mut with_role = with("a");
    with_role.roles.insert(role_name("r"));
    change(table, Command::PutUser(anna.clone(), with_role.clone())).unwrap();
    assert_eq!(since(table), 1, "other roles, the same person");
    change(table, Command::PutUser(anna.clone(), with("b"))).unwrap();
    assert_eq!(since(table), 4, "another password");
    change(table, Command::RemoveUser(anna.clone())).unwrap();
    change(table, Command::PutUser(anna.clone(), with("b"))).unwrap();
    assert_eq!(since(table), 6, "a namesake is somebody else");
    let all = Command::Replace(Box::new(table.clone()));
    change(table, all).unwrap();
    assert_eq!(since(table), 6, "an import of what is there changes nobody");
}

#[test]
fn i8_an_account_lasts_until_its_user_is_removed() {
    let table = &mut Table::default();
    let anna = user_name("anna");
    let account = |table: &Table| table.user("anna").unwrap().account;
    let with = |password: &str| User {
        password: hash(password),
        ..User::default()
    };
    let put = |password: &str| Command::PutUser(anna.clone(), with(password));
    change(table, Command::PutRole(role_name("r"), role(&[]))).unwrap();
    change(table, put("a")).unwrap();
    change(table, put("b")).unwrap();
    change(table, Command::Replace(Box::new(table.clone()))).unwrap();
    assert_eq!(account(table), 2, "whatever changes of it");
    assert_eq!(Table::decode(&table.encode()).as_ref(), Ok(&*table));
    change(table, Command::RemoveUser(anna.clone())).unwrap();
    change(table, put("b")).unwrap();
    assert_eq!(account(table), 6, "a namesake is somebody else");
    let with_ben = {
        let mut table = table.clone();
        let ben = Command::PutUser(user_name("ben"), User::default());
        change(&mut table, ben).unwrap();
        table
    };
    change(table, Command::Replace(Box::new(with_ben))).unwrap();
    assert_eq!(account(table), 6);
    assert_eq!(table.user("ben").unwrap().account, 7, "an import makes it");
}

#[test]
fn tables_are_exported_and_imported_as_json() {
    let mut table = Table::default();
    change(
        &mut table,
        Command::PutRole(
            role_name("r"),
            role(&["allow all %c/#", "deny publish $SYS/#"]),
        ),
    )
    .unwrap();
    let anna = User {
        password: hash("pw"),
        scram: Some(crate::scram::ScramKeys::new(b"pw", [2; 16])),
        limits: crate::Limits {
            messages_per_second: Some(10),
            ..crate::Limits::default()
        },
        ..user(&["r"])
    };
    change(&mut table, Command::PutUser(user_name("anna"), anna)).unwrap();
    let text = serde_json::to_string(&table).unwrap();
    let read: Table = serde_json::from_str(&text).unwrap();
    let other = &mut Table::default();
    change(other, Command::Replace(Box::new(read))).unwrap();
    assert_eq!(serde_json::to_string(&other).unwrap(), text);
    assert_eq!(
        other.user("anna").unwrap().password,
        table.user("anna").unwrap().password
    );
    for wrong in [
        r#"{"users":{"a":{"pasword":"x"}}}"#,
        r#"{"users":{"":{}}}"#,
        r#"{"users":{"a":{"password":""}}}"#,
        r#"{"roles":{"r":{"rules":[{"effect":"allow","action":"all","topic":"a%c"}]}}}"#,
    ] {
        assert!(serde_json::from_str::<Table>(wrong).is_err(), "{wrong}");
    }
}

/// As in other brokers, and as `%c` and `%u` are not written.
#[test]
fn a_new_rule_with_a_placeholder_of_another_broker_is_refused_and_an_old_one_stays() {
    let (mut table, r) = (Table::default(), role_name("r"));
    let put = |rules: &[&str]| Command::PutRole(r.clone(), role(rules));
    let foreign = ["deny all secret/%U/#", "allow all sensors/${clientid}/#"];
    for rule in foreign {
        let refusal = change(&mut table, put(&[rule])).unwrap_err();
        assert!(matches!(refusal, Refusal::Placeholder { .. }), "{refusal}");
        let text = refusal.to_string();
        let names_all = [rule, "`%c`", "`%u`"].iter().all(|it| text.contains(it));
        assert!(names_all, "{text}");
    }
    // A table of an earlier build has them: it is read, and what does not add to them is taken.
    table.apply(&put(&foreign));
    let mut table = Table::decode(&table.encode()).unwrap();
    change(&mut table, put(&[foreign[0], foreign[1], "allow all %c/#"])).unwrap();
    let same = Box::new(table.clone());
    change(&mut table, Command::Replace(same)).unwrap();
    change(&mut table, put(&[foreign[1]])).unwrap();
    assert!(
        change(&mut table, put(&foreign)).is_err(),
        "it is new again"
    );
    let mut other = Table::default();
    assert!(change(&mut other, Command::Replace(Box::new(table))).is_err());
}

#[test]
fn limits_of_a_table_hold() {
    let many = Role {
        rules: vec!["allow all a".parse().unwrap(); 1001],
        ..Role::default()
    };
    let refused = Table::default().check(&Command::PutRole(role_name("r"), many));
    let expected = Refusal::TooMany {
        what: "rules of a role",
        max: 1000,
    };
    assert_eq!(refused, Err(expected));
}

#[test]
fn bytes_of_another_version_are_no_change() {
    assert_eq!(Command::decode(&[]), Err(WireError::Unknown("change")));
    assert!(matches!(Command::decode(&[0xFF]), Err(WireError::Form(_))));
    let name = Command::RemoveUser(user_name("a")).encode();
    assert_eq!(Command::decode(&name[..2]).ok(), None);
}

/// What a change among ten thousand users costs the shard of partition 0: `cargo test --release -p courser-access ten_thousand -- --nocapture`.
#[test]
#[allow(clippy::print_stdout, reason = "it is a figure")]
fn a_change_among_ten_thousand_users() {
    let administrator = Role {
        administration: Administration::Full,
        ..Role::default()
    };
    let mut table = Table::default();
    table.apply(&Command::PutRole(role_name("full"), administrator));
    table.apply(&Command::PutRole(
        role_name("device"),
        role(&["allow all %u/#"]),
    ));
    for number in 0..10_000 {
        let name = user_name(&format!("device-{number:05}"));
        table.apply(&Command::PutUser(name, user(&["device"])));
    }
    // By name the last one, behind all who are none.
    let root = User {
        password: hash("secret"),
        ..user(&["full"])
    };
    table.apply(&Command::PutUser(user_name("root"), root));
    let mut all = Vec::new();
    for number in 0..100 {
        let command = Command::PutUser(user_name(&format!("device-{number:05}")), user(&[]));
        let began = std::time::Instant::now();
        table.check(&command).unwrap();
        table.apply(&command);
        let checked = began.elapsed();
        let seen = table.clone();
        let copied = began.elapsed() - checked;
        drop(seen);
        all.push((checked, copied, began.elapsed() - checked - copied));
    }
    all.sort_by_key(|(.., dropped)| *dropped);
    println!("checked and applied, copied, copy dropped: {:?}", all[50]);
    assert_eq!(table.revision(), 2 + 10_001 + 100);
    assert_eq!(
        table.check(&Command::RemoveUser(user_name("root"))),
        Err(Refusal::LastAdministrator)
    );
}
