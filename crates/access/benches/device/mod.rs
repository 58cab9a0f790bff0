//! A device with rules as one has them, of which the last one is about its topics.

use courser_access::{Command, Identity, Rights, Role, RoleName, Table, User, UserName};

pub(crate) fn rights() -> Rights {
    let rules = [
        "deny all $SYS/#",
        "allow subscribe org/+/commands/%c/#",
        "allow publish status/%c",
        "allow all org/+/+/%c/#",
    ];
    rights_of(&[rules.map(String::from).into()])
}

/// Of roles with these rules.
pub(crate) fn rights_of(roles: &[Vec<String>]) -> Rights {
    let mut table = Table::default();
    let mut user = User::default();
    for (number, rules) in roles.iter().enumerate() {
        let rules = rules.iter().map(|rule| rule.parse().expect("a rule"));
        let role = Role {
            rules: rules.collect(),
            ..Role::default()
        };
        let name = RoleName::new(&format!("device-{number}")).expect("a role name");
        user.roles.insert(name.clone());
        table.apply(&Command::PutRole(name, role));
    }
    let user_name = UserName::new("fleet").expect("a user name");
    table.apply(&Command::PutUser(user_name.clone(), user));
    Rights::new(&table, Identity::new("device-12", user_name))
}

/// As many rules for each of so many roles. Only the last one of the last role is about the topics `org/r3/s7/device-12/temperature-…`; the
/// others begin like it.
#[allow(dead_code, reason = "instruction counts are taken of one role")]
pub(crate) fn many_rules(roles: usize, each: usize) -> Vec<Vec<String>> {
    let rules = |role: usize| -> Vec<String> {
        let about = if role + 1 == roles { "org" } else { "other" };
        let last = format!("allow all {about}/+/+/%c/#");
        let others = (1..each).map(|rule| format!("allow all org/+/s{role}-{rule}/{rule}/#"));
        others.chain([last]).collect()
    };
    (0..roles).map(rules).collect()
}
