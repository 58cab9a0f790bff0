//! A device with rules as one has them, of which the last one is about its topics.

use courser_access::{Command, Identity, Rights, Role, RoleName, Table, User, UserName};

pub(crate) fn rights() -> Rights {
    let rules = [
        "deny all $SYS/#",
        "allow subscribe org/+/commands/%c/#",
        "allow publish status/%c",
        "allow all org/+/+/%c/#",
    ];
    let role = Role {
        rules: rules.map(|rule| rule.parse().expect("a rule")).into(),
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
