//! A table as bytes, some at a time: of a million users they are some hundred megabytes, and who writes them has other things to do.

use std::ops::Bound;

use prost::Message;

use crate::wire::{WireTable, wire_domain, wire_role, wire_user};
use crate::{RoleName, Table, UserName};

/// Where a walk over a table goes on: behind the part of this name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Walk {
    #[default]
    Revision,
    Roles(Bound<RoleName>),
    Users(Bound<UserName>),
    Domains,
    End,
}

/// The bytes of a table as it was when this was made: one after the other those of [`Table::encode`].
///
/// Made by [`Table::bytes`], which costs nothing that grows with the table. First their number is counted, then they are made, each in steps: a step
/// costs some nanoseconds a byte, and a role is a step at least.
#[derive(Clone, Debug)]
pub struct TableBytes {
    table: Table,
    walk: Walk,
    counted: usize,
}

impl Table {
    /// Its bytes, some at a time. What changes later is not in them.
    #[must_use]
    pub fn bytes(&self) -> TableBytes {
        TableBytes {
            table: self.clone(),
            walk: Walk::default(),
            counted: 0,
        }
    }
}

impl TableBytes {
    /// The table.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// Counts about so many bytes more. How many there are in all, with the last of them: then they can be made.
    pub fn count(&mut self, about: usize) -> Option<usize> {
        match self.step(about) {
            Some(part) => {
                self.counted += part.encoded_len();
                None
            }
            None => {
                self.walk = Walk::default();
                Some(self.counted)
            }
        }
    }

    /// Makes about so many bytes more, behind all that were made. None: that was all.
    pub fn make(&mut self, about: usize) -> Option<Vec<u8>> {
        Some(self.step(about)?.encode_to_vec())
    }

    /// The next part: whole users and roles, until they have about so many bytes.
    fn step(&mut self, about: usize) -> Option<WireTable> {
        let mut part = WireTable::default();
        let table = &self.table;
        self.walk = match &self.walk {
            Walk::Revision => {
                part.revision = table.revision();
                Walk::Roles(Bound::Unbounded)
            }
            Walk::Roles(behind) => {
                let roles = table
                    .roles
                    .range::<RoleName, _>((behind.as_ref(), Bound::Unbounded));
                let roles = roles.map(|(name, role)| (name, wire_role(name, role.role())));
                let next = take(roles, about, &mut part.roles).map(Walk::Roles);
                next.unwrap_or(Walk::Users(Bound::Unbounded))
            }
            Walk::Users(behind) => {
                let users = table
                    .users
                    .range::<UserName, _>((behind.as_ref(), Bound::Unbounded));
                let users = users.map(|(name, user)| (name, wire_user(name, user)));
                let next = take(users, about, &mut part.users).map(Walk::Users);
                next.unwrap_or(Walk::Domains)
            }
            Walk::Domains => {
                let domains = table.domains.iter();
                part.domains = domains.map(|(name, it)| wire_domain(*name, *it)).collect();
                Walk::End
            }
            Walk::End => return None,
        };
        Some(part)
    }
}

/// Takes messages until they have so many bytes. Where to go on; none: all are taken.
fn take<'a, N: Clone + 'a, M: Message>(
    from: impl Iterator<Item = (&'a N, M)>,
    about: usize,
    into: &mut Vec<M>,
) -> Option<Bound<N>> {
    let mut bytes = 0;
    for (name, message) in from {
        bytes += message.encoded_len();
        into.push(message);
        if bytes >= about {
            return Some(Bound::Excluded(name.clone()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, Domain, DomainName, Limits, Role, Rule, User};

    /// With a role of many rules.
    fn table(users: u32) -> Table {
        let mut table = Table::default();
        let rules: Vec<Rule> = vec!["allow publish a/b/c".parse().expect("a rule"); 100];
        for name in ["first", "second"] {
            let rules = rules.clone();
            let role = Role {
                rules,
                ..Role::default()
            };
            table.apply(&Command::PutRole(
                RoleName::new(name).expect("a name"),
                role,
            ));
        }
        for number in 0..users {
            let name = UserName::new(&format!("user-{number}")).expect("a name");
            table.apply(&Command::PutUser(name, User::default()));
        }
        let limits = Limits {
            subscriptions: Some(7),
            ..Limits::default()
        };
        let domain = Domain {
            limits,
            ..Domain::default()
        };
        table.apply(&Command::PutDomain(DomainName::Default, domain));
        table
    }

    #[test]
    fn bytes_in_steps_are_those_of_the_whole() {
        for users in [0, 1, 500] {
            let table = table(users);
            for about in [1, 100, usize::MAX] {
                let mut bytes = table.bytes();
                let count = std::iter::from_fn(|| match bytes.count(about) {
                    Some(count) => Some(Some(count)),
                    None => Some(None),
                });
                let count = count.flatten().next();
                let made: Vec<Vec<u8>> = std::iter::from_fn(|| bytes.make(about)).collect();
                assert_eq!(count, Some(table.encode().len()));
                assert!(made.concat() == table.encode(), "{users} users by {about}");
            }
        }
    }

    #[test]
    fn a_step_ends_with_the_part_that_fills_it() {
        let mut bytes = table(500).bytes();
        let made: Vec<usize> = std::iter::from_fn(|| bytes.make(64))
            .map(|part| part.len())
            .collect();
        let of_roles = &made[1..3];
        assert!(of_roles.iter().all(|len| *len > 1_000), "{of_roles:?}");
        assert!(made[3..].iter().all(|len| *len < 128), "{made:?}");
    }

    #[test]
    fn what_changes_later_is_not_in_them() {
        let mut table = table(10);
        let (before, mut bytes) = (table.encode(), table.bytes());
        let gone = UserName::new("user-9").expect("a name");
        table.apply(&Command::RemoveUser(gone));
        let made: Vec<Vec<u8>> = std::iter::from_fn(|| bytes.make(1)).collect();
        assert!(made.concat() == before && before != table.encode());
    }
}
