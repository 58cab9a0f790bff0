//! To whom a session belongs, as the partition keeps it: the user, and the roles that its newest token gave, shown in CONNECT or later by AUTH. They say what its will may
//! when it goes out, and whether the session ends with the user's place in the table.

use courser_access::{Principal, RoleName, UserName};
use courser_contract::owner_name;

/// Ends the name; [`owner_name`] finds it.
const AFTER_NAME: char = '\0';
/// Between roles, which have none in their names.
const BETWEEN_ROLES: char = ',';

/// As it is kept with the session.
pub(crate) fn to_owner(principal: &Principal) -> Box<str> {
    let name = principal.user.as_str();
    match &principal.granted {
        None => name.into(),
        Some(roles) => {
            let mut text = format!("{name}{AFTER_NAME}");
            for (at, role) in roles.iter().enumerate() {
                if at > 0 {
                    text.push(BETWEEN_ROLES);
                }
                text.push_str(role.as_str());
            }
            text.into()
        }
    }
}

/// Who it was. None: nothing that [`to_owner`] makes.
pub(crate) fn from_owner(owner: &str) -> Option<Principal> {
    let user = UserName::new(owner_name(owner)).ok()?;
    let granted = match owner.split_once(AFTER_NAME) {
        None => None,
        Some((_, "")) => Some([].into()),
        Some((_, roles)) => {
            let roles = roles.split(BETWEEN_ROLES).map(RoleName::new);
            Some(roles.collect::<Result<Vec<_>, _>>().ok()?.into())
        }
    };
    Some(Principal { user, granted })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_found_again_as_it_was() {
        for (user, roles, text) in [
            ("anna", None, "anna"),
            ("a,b", None, "a,b"),
            ("anna", Some(&[][..]), "anna\0"),
            ("anna", Some(&["device"][..]), "anna\0device"),
            ("a,b", Some(&["device", "x.y"][..]), "a,b\0device,x.y"),
        ] {
            let roles = roles.map(|roles: &[&str]| {
                let roles = roles.iter().map(|role| RoleName::new(role).unwrap());
                roles.collect::<Vec<_>>().into()
            });
            let principal = Principal {
                user: UserName::new(user).unwrap(),
                granted: roles,
            };
            let owner = to_owner(&principal);
            assert_eq!(&*owner, text);
            assert_eq!(owner_name(&owner), user, "the same user, whatever it may");
            assert_eq!(from_owner(&owner), Some(principal));
        }
        for text in ["", "\0device", "anna\0a b", "anna\0a,,b"] {
            assert_eq!(from_owner(text), None, "{text:?}");
        }
    }
}
