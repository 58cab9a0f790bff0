//! To whom something belongs, in one text: a session, and with the client id in front what is retained.
//!
//! ```text
//! owner   name of the user, then, if there is more to say of it, NUL and what the shell wants to find again
//!         or, if it has an account, NUL, "@" and the number of that account
//! author  client id, NUL, owner
//! ```
//!
//! Names and client ids have no NUL (v5 [MQTT-1.5.4-2], v3 [MQTT-1.5.3-2]). A user that is removed and made again has the name and another account: it is somebody else. An owner that names no
//! account is of an earlier version, or proved by a token, whose issuer vouches for the name: it is known by its name alone.

/// Between the name and what is behind it.
pub const BEHIND_NAME: char = '\0';
/// Begins the number of an account.
pub const ACCOUNT: char = '@';

/// The user in the text of an owner. Who comes again as the same user has the same session, whatever else is behind it.
#[must_use]
pub fn owner_name(owner: &str) -> &str {
    owner
        .split_once(BEHIND_NAME)
        .map_or(owner, |(name, _)| name)
}

/// The number of its account, as it stands there.
#[must_use]
pub fn owner_account(owner: &str) -> Option<&str> {
    owner
        .split_once(BEHIND_NAME)
        .and_then(|(_, behind)| behind.strip_prefix(ACCOUNT))
}

/// Whether two owners of one name are known to be different accounts: the one is gone, and the other inherits nothing of it.
#[must_use]
pub fn are_different_accounts(one: &str, other: &str) -> bool {
    matches!((owner_account(one), owner_account(other)), (Some(one), Some(other)) if one != other)
}

/// Who has published as this client and owner: what is asked again before its retained messages are replayed (I11).
#[must_use]
pub fn author_of(client_id: &str, owner: &str) -> String {
    [client_id, owner].join("\0")
}

/// Client id and owner in the text of an author. None: nothing that [`author_of`] makes.
#[must_use]
pub fn author_parts(author: &str) -> Option<(&str, &str)> {
    author.split_once('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_a_name_and_perhaps_an_account() {
        for (owner, name, account) in [
            ("anna", "anna", None),
            ("anna\0", "anna", None),
            ("anna\0device", "anna", None),
            ("anna\0@17", "anna", Some("17")),
            ("@17", "@17", None),
        ] {
            assert_eq!(owner_name(owner), name, "{owner:?}");
            assert_eq!(owner_account(owner), account, "{owner:?}");
        }
    }

    #[test]
    fn an_author_is_a_client_and_an_owner() {
        for (client_id, owner) in [("c", "anna"), ("", "anna\0@17"), ("c/+", "anna\0device")] {
            let author = author_of(client_id, owner);
            assert_eq!(author_parts(&author), Some((client_id, owner)));
        }
        assert_eq!(author_parts("anna"), None);
    }

    #[test]
    fn accounts_are_different_where_both_are_known() {
        for (one, other, different) in [
            ("anna\0@17", "anna\0@17", false),
            ("anna\0@17", "anna\0@18", true),
            ("anna\0@17", "anna", false),
            ("anna", "anna\0@18", false),
            ("anna\0device", "anna\0@18", false),
        ] {
            assert_eq!(are_different_accounts(one, other), different, "{one:?}");
            assert_eq!(are_different_accounts(other, one), different, "{one:?}");
        }
    }
}
