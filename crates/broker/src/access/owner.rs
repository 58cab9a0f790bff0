//! To whom a session belongs, as the partition keeps it: the user with the number of its account, or with the roles that its newest token gave, shown in CONNECT or later by
//! AUTH. They say what its will may when it goes out, and whether the session ends with the user's place in the table.

use courser_access::{Principal, Rights, RoleName, Table, UserName};
use courser_contract::{ACCOUNT, BEHIND_NAME, owner_name};

/// Between roles, which have none in their names.
const BETWEEN_ROLES: char = ',';

/// Who something belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) principal: Principal,
    /// [`courser_access::User::account`]; none: it came with a token, or an earlier version wrote it.
    pub(crate) account: Option<u64>,
}

impl Owner {
    /// Who has these rights.
    pub(crate) fn of(rights: &Rights) -> Self {
        Self {
            principal: rights.who().principal().clone(),
            account: rights.account(),
        }
    }

    /// Whether it is nobody any more: its account is gone. Who came with a token need not be in the table.
    pub(crate) fn is_gone(&self, table: &Table) -> bool {
        if self.principal.granted.is_some() {
            return false;
        }
        let user = table.user(self.principal.user.as_str());
        user.is_none_or(|user| self.account.is_some_and(|account| account != user.account))
    }

    /// As it is kept with the session.
    pub(crate) fn to_text(&self) -> Box<str> {
        let name = self.principal.user.as_str();
        let behind = match (&self.principal.granted, self.account) {
            (Some(roles), _) => {
                let roles: Vec<&str> = roles.iter().map(RoleName::as_str).collect();
                roles.join(BETWEEN_ROLES.encode_utf8(&mut [0; 4]))
            }
            (None, Some(account)) => format!("{ACCOUNT}{account}"),
            (None, None) => return name.into(),
        };
        format!("{name}{BEHIND_NAME}{behind}").into()
    }

    /// Out of it. None: nothing that [`Owner::to_text`] makes.
    pub(crate) fn from_text(text: &str) -> Option<Self> {
        let user = UserName::new(owner_name(text)).ok()?;
        let behind = text.split_once(BEHIND_NAME).map(|(_, behind)| behind);
        let (granted, account) = match behind {
            None => (None, None),
            Some("") => (Some([].into()), None),
            Some(behind) => match behind.strip_prefix(ACCOUNT) {
                Some(number) => (None, Some(number.parse().ok()?)),
                None => (Some(roles_of(behind)?.into()), None),
            },
        };
        let principal = Principal { user, granted };
        Some(Self { principal, account })
    }
}

fn roles_of(text: &str) -> Option<Vec<RoleName>> {
    let roles = text.split(BETWEEN_ROLES).map(RoleName::new);
    roles.collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use courser_access::{Command, Identity, User};

    use super::*;

    fn principal(user: &str, roles: Option<&[&str]>) -> Principal {
        let names = |roles: &[&str]| {
            let roles = roles.iter().map(|role| RoleName::new(role).unwrap());
            roles.collect::<Vec<_>>().into()
        };
        Principal {
            user: UserName::new(user).unwrap(),
            granted: roles.map(names),
        }
    }

    #[test]
    fn an_owner_is_found_again_as_it_was() {
        for (user, roles, account, text) in [
            ("anna", None, None, "anna"),
            ("a,b", None, None, "a,b"),
            ("anna", None, Some(0), "anna\0@0"),
            ("a@b", None, Some(17), "a@b\0@17"),
            ("anna", Some(&[][..]), None, "anna\0"),
            ("anna", Some(&["device"][..]), None, "anna\0device"),
            ("a,b", Some(&["device", "x.y"][..]), None, "a,b\0device,x.y"),
        ] {
            let principal = principal(user, roles);
            let owner = Owner { principal, account };
            assert_eq!(&*owner.to_text(), text);
            assert_eq!(owner_name(text), user, "the same user, whatever it may");
            assert_eq!(Owner::from_text(text), Some(owner));
        }
        for text in [
            "",
            "\0device",
            "anna\0a b",
            "anna\0a,,b",
            "anna\0@",
            "anna\0@x",
        ] {
            assert_eq!(Owner::from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn i8_a_user_that_is_made_again_is_another_owner() {
        let mut table = Table::default();
        let anna = UserName::new("anna").unwrap();
        let put = Command::PutUser(anna.clone(), User::default());
        table.apply(&put);
        let come = |table: &Table, roles| {
            let who = Identity::new("c", principal("anna", roles));
            Owner::of(&Rights::new(table, who))
        };
        let by_password = come(&table, None);
        let by_token = come(&table, Some(&[]));
        let of_an_earlier_version = Owner::from_text("anna").unwrap();
        let gone = |table: &Table| {
            [&by_password, &by_token, &of_an_earlier_version].map(|owner| owner.is_gone(table))
        };
        table.apply(&put);
        assert_eq!(gone(&table), [false; 3], "it is changed");
        table.apply(&Command::RemoveUser(anna));
        assert_eq!(gone(&table), [true, false, true]);
        table.apply(&put);
        assert_eq!(gone(&table), [true, false, false]);
        assert!(!come(&table, None).is_gone(&table));
    }
}
