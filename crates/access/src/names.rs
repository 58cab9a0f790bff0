//! Names of users, roles and domains: checked once, then carried as types.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

/// Longest user name in bytes.
const USER_BYTES_MAX: usize = 256;
/// Longest role name in bytes.
const ROLE_BYTES_MAX: usize = 64;

/// Why a text is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing in it.
    #[error("a name must not be empty")]
    Empty,
    /// Too long.
    #[error("a name must not be longer than {max} bytes")]
    TooLong {
        /// Bytes at most.
        max: usize,
    },
    /// A character that no name of this kind has.
    #[error("a name must not contain the character {0:?}")]
    Character(char),
}

/// Name of a user as it stands in CONNECT: 1 to 256 bytes without control characters. Compared byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct UserName(CompactString);

/// Name of a role: 1 to 64 letters, digits, `.`, `-` and `_` of ASCII.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RoleName(CompactString);

/// Name of a domain. There is one, in which MQTT lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DomainName {
    /// The one of MQTT.
    Default,
}

impl DomainName {
    /// All that there are.
    pub const ALL: [Self; 1] = [Self::Default];

    /// The domain of a name; none: there is no such domain.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.as_str() == text)
    }

    /// The text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
        }
    }
}

impl fmt::Display for DomainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

fn check_length(text: &str, max: usize) -> Result<(), NameError> {
    match text.len() {
        0 => Err(NameError::Empty),
        len if len > max => Err(NameError::TooLong { max }),
        _ => Ok(()),
    }
}

impl UserName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_length(text, USER_BYTES_MAX)?;
        match text.chars().find(|c| c.is_control()) {
            Some(c) => Err(NameError::Character(c)),
            None => Ok(Self(text.into())),
        }
    }
}

impl RoleName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn new(text: &str) -> Result<Self, NameError> {
        check_length(text, ROLE_BYTES_MAX)?;
        let strange = |c: &char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        match text.chars().find(strange) {
            Some(c) => Err(NameError::Character(c)),
            None => Ok(Self(text.into())),
        }
    }
}

macro_rules! name {
    ($name:ident) => {
        impl $name {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.into_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}
name!(UserName);
name!(RoleName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_once() {
        let long = "x".repeat(257);
        for (text, expected) in [
            ("", Err(NameError::Empty)),
            (&*long, Err(NameError::TooLong { max: 256 })),
            ("a\nb", Err(NameError::Character('\n'))),
            ("a\u{85}b", Err(NameError::Character('\u{85}'))),
            ("anna", Ok("anna")),
            ("+", Ok("+")),
            ("a/b #", Ok("a/b #")),
        ] {
            let name = UserName::new(text);
            assert_eq!(
                name.as_ref().map(UserName::as_str),
                expected.as_ref().map(|t| *t)
            );
        }
        for (text, good) in [
            ("sensors.v2", true),
            ("a b", false),
            ("rôle", false),
            ("", false),
        ] {
            assert_eq!(RoleName::new(text).is_ok(), good, "{text:?}");
        }
    }
}
