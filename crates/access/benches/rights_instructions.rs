//! Instruction counts of access decisions: `cargo bench -p courser-access --bench rights_instructions` (needs valgrind and
//! gungraun-runner).
#![allow(missing_docs)] // the macros make undocumented items

use std::hint::black_box;

use courser_access::{Command, Identity, Rights, Role, RoleName, Table, User, UserName, Verdict};
use gungraun::prelude::*;

const TOPIC: &str = "org/r3/s7/device-12/temperature";

/// A device with rules as one has them, of which the last one is about the topic.
fn rights() -> Rights {
    let rules = [
        "deny all $SYS/#",
        "allow subscribe org/+/commands/%c/#",
        "allow publish status/%c",
        "allow all org/+/+/%c/#",
    ];
    let role = Role {
        rules: rules
            .iter()
            .map(|rule| rule.parse().expect("a rule"))
            .collect(),
        ..Role::default()
    };
    let name = RoleName::new("device").expect("a role name");
    let user = User {
        roles: [name.clone()].into(),
        ..User::default()
    };
    let user_name = UserName::new("fleet").expect("a user name");
    let mut table = Table::default();
    table.apply(&Command::PutRole(name, role));
    table.apply(&Command::PutUser(user_name.clone(), user));
    Rights::new(&table, Identity::new("device-12", user_name))
}

fn asked() -> Rights {
    let mut rights = rights();
    for number in 0..8 {
        rights.may_publish(&format!("org/r3/s7/device-12/{number}"));
    }
    rights.may_publish(TOPIC);
    rights
}

#[library_benchmark]
#[bench::asked_before(asked())]
#[bench::four_rules(rights())]
fn may_publish(mut rights: Rights) -> (Verdict, Rights) {
    let verdict = rights.may_publish(black_box(TOPIC));
    // Handed back, so that freeing it is not counted.
    (verdict, rights)
}

library_benchmark_group!(name = access, benchmarks = [may_publish]);
main!(library_benchmark_groups = access);
