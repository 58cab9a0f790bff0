use super::*;
use crate::UserState;

fn hash(mib: u32) -> PasswordHash {
    let kib = mib << 10;
    let text = format!("$argon2id$v=19$m={kib},t=3,p=4$AAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAA");
    text.parse().expect("a hash")
}

fn user_name(text: &str) -> UserName {
    UserName::new(text).expect("a name")
}

fn user(mib: u32) -> User {
    User {
        password: Some(hash(mib)),
        ..User::default()
    }
}

fn room(hash_mib: u32, bytes: u64) -> Room {
    Room {
        hash_kib: hash_mib << 10,
        bytes,
    }
}

#[test]
fn a_hash_that_takes_more_memory_than_a_login_may_is_refused_with_both_numbers() {
    let table = Table::default().within(room(32, u64::MAX));
    let name = user_name("dear");
    let put = |mib| Command::PutUser(name.clone(), user(mib));
    assert_eq!(table.check(&put(32)), Ok(()));
    let refused = table.check(&put(256)).expect_err("it is too dear");
    let expected = Refusal::DearHash {
        user: name.clone(),
        mib: 256,
        max_mib: 32,
    };
    assert_eq!(refused, expected);
    let said = refused.to_string();
    for part in [
        "user dear",
        "256 MiB",
        "32 MiB at most",
        "user set-password",
    ] {
        assert!(said.contains(part), "{said}");
    }
    let mut export = Table::default();
    export.apply(&put(64));
    let import = Command::Replace(Box::new(export));
    assert!(matches!(
        table.check(&import),
        Err(Refusal::DearHash { mib: 64, .. })
    ));
    // Ours are taken wherever a server starts.
    assert_eq!(
        Table::default().within(room(1, u64::MAX)).check(&put(19)),
        Ok(())
    );
}

#[test]
fn who_has_a_dear_hash_already_is_changed_and_removed_all_the_same() {
    let mut table = Table::default();
    let name = user_name("dear");
    table.apply(&Command::PutUser(name.clone(), user(256)));
    let table = table.within(room(19, u64::MAX));
    let disabled = User {
        state: UserState::Disabled,
        ..user(256)
    };
    assert_eq!(
        table.check(&Command::PutUser(name.clone(), disabled)),
        Ok(())
    );
    assert_eq!(table.check(&Command::RemoveUser(name.clone())), Ok(()));
    assert_eq!(
        table.check(&Command::Replace(Box::new(table.clone()))),
        Ok(())
    );
    let dearer = Command::PutUser(name, user(128));
    assert!(table.check(&dearer).is_err(), "it is another one");
}

#[test]
fn users_beyond_their_part_of_memory_are_refused_and_fewer_never_are() {
    let put = |number: u32| Command::PutUser(user_name(&format!("user-{number}")), user(19));
    let mut table = Table::default();
    for number in 0..10 {
        table.apply(&put(number));
    }
    let all = table.bytes_held();
    let mut table = table.within(room(19, all));
    let refused = table.check(&put(10)).expect_err("there is no room");
    assert!(
        matches!(refused, Refusal::NoRoom { needed_kib, max_kib } if needed_kib > max_kib),
        "{refused}"
    );
    assert_eq!(table.check(&put(9)), Ok(()), "it is there");
    // Another start, with less memory.
    table = table.within(room(19, all / 2));
    assert!(table.check(&put(10)).is_err());
    assert_eq!(
        table.check(&Command::RemoveUser(user_name("user-9"))),
        Ok(())
    );
    assert_eq!(
        table.check(&Command::Replace(Box::new(table.clone()))),
        Ok(())
    );
    let mut larger = table.clone();
    larger.apply(&put(10));
    assert!(table.check(&Command::Replace(Box::new(larger))).is_err());
}

#[test]
fn what_a_table_takes_is_counted_the_same_on_every_way_to_it() {
    let mut table = Table::default();
    let role = RoleName::new("a-role-with-a-name-that-is-long").expect("a name");
    let rules = ["allow all a/%c/a-level-that-is-no-short-one/#"
        .parse()
        .expect("a rule")];
    let putting = Role {
        rules: rules.into(),
        ..Role::default()
    };
    table.apply(&Command::PutRole(role.clone(), putting.clone()));
    table.apply(&Command::PutRole(role.clone(), putting));
    for number in 0..5 {
        let name = user_name(&format!("user-{number}"));
        let mut user = user(19);
        table.apply(&Command::PutUser(name.clone(), user.clone()));
        user.roles.insert(role.clone());
        table.apply(&Command::PutUser(name, user));
    }
    table.apply(&Command::RemoveUser(user_name("user-3")));
    table.apply(&Command::RemoveUser(user_name("nobody")));
    assert_eq!(table.bytes_held(), table.count_bytes());
    let read = Table::decode(&table.encode()).expect("a table");
    assert_eq!(read.bytes_held(), table.bytes_held());
    let mut replaced = Table::default();
    let export = serde_json::to_string(&table).expect("an export");
    let export: Table = serde_json::from_str(&export).expect("the same");
    replaced.apply(&Command::Replace(Box::new(export)));
    assert_eq!(replaced.bytes_held(), table.bytes_held());
    replaced.apply(&Command::Replace(Box::default()));
    assert_eq!(replaced.bytes_held(), 0);
}
