//! What a table says that it takes of memory, beside what it takes.

use std::alloc::System;

use courser_access::{
    Command, Identity, PasswordHash, Rights, Role, RoleName, Table, User, UserName,
};
use courser_memory::{Counting, thread_snapshot};

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting::new(System);

const USERS: u32 = 20_000;

fn role_name(number: usize) -> RoleName {
    RoleName::new(&format!("role-{number}")).expect("a name")
}

/// A table of users with so many roles each, and what it takes.
fn table(roles: usize, mut user: User) -> (Table, u64) {
    let before = thread_snapshot();
    let mut table = Table::default();
    for number in 0..roles {
        let rules = vec!["allow publish a/%c/b".parse().expect("a rule"); 3];
        let role = Role {
            rules,
            ..Role::default()
        };
        table.apply(&Command::PutRole(role_name(number), role));
        user.roles.insert(role_name(number));
    }
    for number in 0..USERS {
        let name = UserName::new(&format!("user-{number}")).expect("a name");
        table.apply(&Command::PutUser(name, user.clone()));
    }
    drop(user);
    let taken = thread_snapshot().since(&before).live_bytes();
    (table, taken)
}

#[test]
fn what_a_table_is_said_to_take_is_what_it_takes() {
    let hash = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let password: Option<PasswordHash> = Some(hash.parse().expect("a hash"));
    for (roles, password) in [
        (0, None),
        (0, password.clone()),
        (1, password.clone()),
        (30, password),
    ] {
        let user = User {
            password,
            ..User::default()
        };
        let (table, taken) = table(roles, user);
        let said = table.bytes_held();
        assert!(
            said <= taken / 8 * 9 && taken <= said / 8 * 9,
            "{roles} roles: {said} {taken}"
        );
    }
}

/// With what finds its rules.
#[test]
fn what_a_role_of_many_rules_is_said_to_take_is_what_it_takes() {
    let before = thread_snapshot();
    let mut table = Table::default();
    for number in 0..20 {
        let rule = |rule: usize| format!("allow publish a/{number}/+/{rule}/x");
        let mut role = Role::default();
        role.rules.reserve_exact(1_000);
        role.rules
            .extend((0..1_000).map(|number| rule(number).parse().expect("a rule")));
        table.apply(&Command::PutRole(role_name(number), role));
    }
    let taken = thread_snapshot().since(&before).live_bytes();
    let said = table.bytes_held();
    assert!(
        taken <= said && said <= taken / 8 * 9,
        "said {said}, taken {taken}"
    );
}

/// Nobody counts it, so that it must be little for each of the clients that one account may have.
#[test]
fn i9_what_is_kept_of_decisions_takes_some_2_kib_a_client_and_is_given_back() {
    let user = UserName::new("anna").expect("a name");
    let mut table = Table::default();
    table.apply(&Command::PutUser(user.clone(), User::default()));
    let topics: Vec<String> = (0..1_000)
        .map(|number| format!("{number}/{}", "x".repeat(250)))
        .collect();
    let mut rights = Rights::new(&table, Identity::new("c1", user));
    // What the process has once.
    let _ = rights.may_publish("a");
    rights.forget_decisions();
    let before = thread_snapshot();
    let taken = || thread_snapshot().since(&before).live_bytes();
    for topic in &topics {
        let _ = rights.may_publish(topic);
        let _ = rights.may_receive(topic);
    }
    let kept = taken();
    assert!(kept <= 2_200, "{kept} bytes");
    rights.forget_decisions();
    assert_eq!(taken(), 0);
}
