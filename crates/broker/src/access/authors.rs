//! Whether those who published what is retained may still publish it (I11, ADR 20): asked when it is replayed.

use std::collections::HashMap;

use courser_access::{Identity, Rights, Verdict};
use courser_contract::{Permission, author_parts};

use super::Access;
use super::owner::Owner;

/// Authors whose rights a shard keeps. With the topics of each it costs at most some 200 KiB.
const AUTHORS_MAX: usize = 64;

/// Rights of authors by one table.
#[derive(Debug, Default)]
pub(crate) struct Authors {
    /// Of the table.
    revision: u64,
    /// None: the account is gone, or the text says nothing that this version knows.
    known: HashMap<Box<str>, Option<Rights>>,
}

impl Authors {
    /// Whether an author may publish to a topic. One that was asked for before: two look-ups.
    pub(crate) fn permit(&mut self, access: &Access, author: &str, topic: &str) -> Permission {
        let revision = access.revision();
        let is_full = self.known.len() >= AUTHORS_MAX && !self.known.contains_key(author);
        if self.revision != revision || is_full {
            self.known.clear();
            self.revision = revision;
        }
        if !self.known.contains_key(author) {
            self.known.insert(author.into(), rights_of(access, author));
        }
        let rights = self.known.get_mut(author).and_then(Option::as_mut);
        match rights.map(|rights| rights.may_publish(topic)) {
            Some(Verdict::Allowed) => Permission::Granted,
            Some(Verdict::Denied) | None => Permission::Denied,
        }
    }
}

fn rights_of(access: &Access, author: &str) -> Option<Rights> {
    let (client_id, owner) = author_parts(author)?;
    let owner = Owner::from_text(owner)?;
    let table = access.table();
    let is_gone = owner.is_gone(&table);
    (!is_gone).then(|| Rights::new(&table, Identity::new(client_id, owner.principal)))
}

#[cfg(test)]
mod tests {
    use courser_access::{Command, Limits, Role, RoleName, Room, Table, User, UserName, UserState};
    use courser_contract::author_of;

    use super::*;

    fn name() -> UserName {
        UserName::new("anna").unwrap()
    }

    fn put_role(rule: &str) -> Command {
        let role = Role {
            rules: vec![rule.parse().unwrap()],
            ..Role::default()
        };
        Command::PutRole(RoleName::new("r").unwrap(), role)
    }

    fn put_user(state: UserState) -> Command {
        let user = User {
            state,
            roles: [RoleName::new("r").unwrap()].into(),
            ..User::default()
        };
        Command::PutUser(name(), user)
    }

    #[test]
    fn cve_2018_12546_the_right_of_an_author_is_the_one_that_counts_now() {
        let access = Access::new(&[], Limits::default(), Room::default());
        let mut table = Table::default();
        let mut authors = Authors::default();
        let mut may = |table: &Table, author: &str, topic: &str| {
            access.publish(table);
            // The second answer is the one that was kept.
            let answers = [(); 2].map(|()| authors.permit(&access, author, topic));
            assert_eq!(answers[0], answers[1]);
            answers[0] == Permission::Granted
        };
        table.apply(&put_role("allow publish %c/#"));
        table.apply(&put_user(UserState::Enabled));
        let anna = author_of("c", "anna\0@2");
        assert!(may(&table, &anna, "c/1"), "it is its own client id");
        assert!(!may(&table, &anna, "d/1"));
        let by_token = author_of("c", "anna\0r");
        assert!(may(&table, &by_token, "c/1"));
        table.apply(&put_role("allow subscribe %c/#"));
        assert!(!may(&table, &anna, "c/1"), "revoked");
        assert!(!may(&table, &by_token, "c/1"));
        table.apply(&put_role("allow publish %c/#"));
        assert!(may(&table, &anna, "c/1"), "given back");
        table.apply(&put_user(UserState::Disabled));
        assert!(!may(&table, &anna, "c/1"), "disabled");
        table.apply(&Command::RemoveUser(name()));
        assert!(!may(&table, &anna, "c/1"), "removed");
        assert!(may(&table, &by_token, "c/1"), "its issuer vouches for it");
        table.apply(&put_user(UserState::Enabled));
        assert!(!may(&table, &anna, "c/1"), "a namesake");
        for unknown in ["", "c", "c\0", "c\0anna\0@x"] {
            assert!(!may(&table, unknown, "c/1"), "i12: {unknown:?}");
        }
    }

    #[test]
    fn i9_a_shard_keeps_the_rights_of_few_authors() {
        let access = Access::alone();
        let mut authors = Authors::default();
        for number in 0..3 * AUTHORS_MAX {
            let author = author_of(&format!("c{number}"), "anna");
            assert_eq!(
                authors.permit(&access, &author, "t"),
                Permission::Denied,
                "i12: before users and roles are known"
            );
            assert!(authors.known.len() <= AUTHORS_MAX);
        }
    }
}
