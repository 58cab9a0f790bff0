//! Passwords as they are kept: argon2id of our own, and the PBKDF2 of Mosquitto's password files.

use std::fmt;
use std::str::FromStr;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::Sha512;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Bytes of a new salt.
pub const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
const SALT_BYTES_MAX: usize = 64;
const HASH_BYTES_MAX: usize = 64;

/// What we hash with: 19 MiB, two passes.
const MEMORY_KIB: u32 = 19 * 1024;
const PASSES: u32 = 2;
/// A hash that costs more is not taken anywhere: whoever imports it could make each login as dear as they like. A process with little memory takes
/// less ([`Room`](crate::Room)).
const MEMORY_KIB_MAX: u32 = 256 * 1024;
const PASSES_MAX: u32 = 16;
const LANES_MAX: u32 = 16;
const ITERATIONS_MAX: u32 = 2_000_000;
/// Longest password in bytes that is looked at.
const PASSWORD_BYTES_MAX: usize = 4096;

/// Why a text is no password hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashParseError {
    /// Neither of the known forms.
    #[error(
        "a password hash is `$argon2id$v=19$m=…,t=…,p=…$SALT$HASH`, or `$7$ITERATIONS$SALT$HASH` of mosquitto_passwd"
    )]
    Form,
    /// A number out of range, or a salt or hash of a length that is not taken.
    #[error("a password hash with parameters out of range")]
    Parameters,
}

/// Why a password was not hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HashError {
    /// Empty, or longer than 4,096 bytes.
    #[error("a password has 1 to {PASSWORD_BYTES_MAX} bytes")]
    Length,
    /// The algorithm refused.
    #[error("the password could not be hashed")]
    Failed,
}

#[derive(Clone, PartialEq, Eq)]
enum Kind {
    /// `$argon2id$`: m, t, p.
    Argon2id(u32, u32, u32),
    /// `$7$`: PBKDF2 with HMAC-SHA-512, iterations.
    Pbkdf2(u32),
}

/// What a password is compared with. `Debug` and error messages never show it; `Display` and serialisation do, for exports.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PasswordHash {
    kind: Kind,
    salt: Box<[u8]>,
    hash: Box<[u8]>,
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

/// Memory of hashing, to be used again by one thread after the other login. Grows to what the hashes need: 19 MiB for our own. It stays so
/// large until [`trim`](Self::trim), or until it is dropped.
#[derive(Default)]
pub struct HashMemory(Vec<Block>);

impl HashMemory {
    /// What our own hashes need.
    pub const OWN_KIB: u32 = MEMORY_KIB;

    /// Room for so many blocks of 1 KiB. What was in them does not matter, so the smaller ones go first: never are both there.
    fn grow(&mut self, blocks: usize) {
        if self.0.len() < blocks {
            self.0 = Vec::new();
            self.0.resize(blocks, Block::default());
        }
    }

    /// What it holds.
    #[must_use]
    pub const fn kib(&self) -> usize {
        self.0.len()
    }

    /// Gives all of it back if it is more than our own hashes need: an imported one that is dearer comes seldom.
    pub fn trim(&mut self) {
        if self.kib() > MEMORY_KIB as usize {
            *self = Self::default();
        }
    }
}

impl fmt::Debug for HashMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HashMemory({} KiB)", self.0.len())
    }
}

/// How dear one verification is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyCost {
    /// Memory in KiB while it runs.
    pub memory_kib: u32,
    /// Rounds over it, or iterations.
    pub rounds: u32,
}

impl PasswordHash {
    /// Hashes a password with argon2id. Cost: some 30 ms of a core and 19 MiB.
    ///
    /// # Errors
    /// [`HashError`].
    pub fn new(
        password: &[u8],
        salt: [u8; SALT_BYTES],
        memory: &mut HashMemory,
    ) -> Result<Self, HashError> {
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Err(HashError::Length);
        }
        let mut hash = [0; HASH_BYTES];
        argon2id((MEMORY_KIB, PASSES, 1), password, &salt, &mut hash, memory)
            .ok_or(HashError::Failed)?;
        Ok(Self {
            kind: Kind::Argon2id(MEMORY_KIB, PASSES, 1),
            salt: salt.into(),
            hash: hash.into(),
        })
    }

    /// Whether this is the password. The comparison takes the same time whatever differs. Cost: [`PasswordHash::cost`].
    #[must_use]
    pub fn verify(&self, password: &[u8], memory: &mut HashMemory) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let mut found = Zeroizing::new([0; HASH_BYTES_MAX]);
        let Some(found) = found.get_mut(..self.hash.len()) else {
            return false;
        };
        let made = match self.kind {
            Kind::Argon2id(m, t, p) => argon2id((m, t, p), password, &self.salt, found, memory),
            Kind::Pbkdf2(iterations) => {
                pbkdf2::pbkdf2_hmac::<Sha512>(password, &self.salt, iterations, found);
                Some(())
            }
        };
        made.is_some() && bool::from(found.ct_eq(&self.hash))
    }

    /// What it is made with: `argon2id`, or `pbkdf2-sha512` of Mosquitto's files.
    #[must_use]
    pub const fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Argon2id(..) => "argon2id",
            Kind::Pbkdf2(_) => "pbkdf2-sha512",
        }
    }

    /// Bytes that it has beside itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.salt.len() + self.hash.len()
    }

    /// What a verification costs.
    #[must_use]
    pub const fn cost(&self) -> VerifyCost {
        match self.kind {
            Kind::Argon2id(m, t, _) => VerifyCost {
                memory_kib: m,
                rounds: t,
            },
            Kind::Pbkdf2(iterations) => VerifyCost {
                memory_kib: 0,
                rounds: iterations,
            },
        }
    }
}

/// A hash that no password has, as dear as our own: verified for users that do not exist, so that the time of a refusal does not tell
/// who does.
#[must_use]
pub fn dummy_hash() -> PasswordHash {
    PasswordHash {
        kind: Kind::Argon2id(MEMORY_KIB, PASSES, 1),
        salt: [0; SALT_BYTES].into(),
        hash: [0; HASH_BYTES].into(),
    }
}

fn argon2id(
    (m, t, p): (u32, u32, u32),
    password: &[u8],
    salt: &[u8],
    hash: &mut [u8],
    memory: &mut HashMemory,
) -> Option<()> {
    let params = Params::new(m, t, p, Some(hash.len())).ok()?;
    let blocks = params.block_count();
    memory.grow(blocks);
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2
        .hash_password_into_with_memory(password, salt, hash, &mut memory.0[..blocks])
        .ok()
}

impl FromStr for PasswordHash {
    type Err = HashParseError;

    fn from_str(text: &str) -> Result<Self, HashParseError> {
        let mut parts = text.split('$');
        let parts = [(); 6].map(|()| parts.next());
        match parts {
            [
                Some(""),
                Some("argon2id"),
                Some("v=19"),
                Some(numbers),
                Some(salt),
                Some(hash),
            ] if text.split('$').count() == 6 => {
                let decode = |text: &str| STANDARD_NO_PAD.decode(text).ok();
                Self::checked(argon2_numbers(numbers)?, decode(salt), decode(hash))
            }
            [
                Some(""),
                Some("7"),
                Some(iterations),
                Some(salt),
                Some(hash),
                None,
            ] => {
                let decode = |text: &str| STANDARD.decode(text).ok();
                let iterations = iterations.parse().map_err(|_| HashParseError::Form)?;
                if !(1..=ITERATIONS_MAX).contains(&iterations) {
                    return Err(HashParseError::Parameters);
                }
                Self::checked(Kind::Pbkdf2(iterations), decode(salt), decode(hash))
            }
            _ => Err(HashParseError::Form),
        }
    }
}

fn argon2_numbers(text: &str) -> Result<Kind, HashParseError> {
    let mut numbers = text.split(',');
    let mut number = |name: &str| -> Option<u32> {
        let text = numbers.next()?.strip_prefix(name)?;
        text.strip_prefix('=')?.parse().ok()
    };
    let (Some(m), Some(t), Some(p)) = (number("m"), number("t"), number("p")) else {
        return Err(HashParseError::Form);
    };
    if numbers.next().is_some() {
        return Err(HashParseError::Form);
    }
    let in_range = (1..=LANES_MAX).contains(&p)
        && (8 * p..=MEMORY_KIB_MAX).contains(&m)
        && (1..=PASSES_MAX).contains(&t);
    if in_range {
        Ok(Kind::Argon2id(m, t, p))
    } else {
        Err(HashParseError::Parameters)
    }
}

impl PasswordHash {
    fn checked(
        kind: Kind,
        salt: Option<Vec<u8>>,
        hash: Option<Vec<u8>>,
    ) -> Result<Self, HashParseError> {
        let (Some(salt), Some(hash)) = (salt, hash) else {
            return Err(HashParseError::Form);
        };
        if !(8..=SALT_BYTES_MAX).contains(&salt.len())
            || !(16..=HASH_BYTES_MAX).contains(&hash.len())
        {
            return Err(HashParseError::Parameters);
        }
        Ok(Self {
            kind,
            salt: salt.into(),
            hash: hash.into(),
        })
    }
}

impl fmt::Display for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Argon2id(m, t, p) => {
                let (salt, hash) = (
                    STANDARD_NO_PAD.encode(&self.salt),
                    STANDARD_NO_PAD.encode(&self.hash),
                );
                write!(f, "$argon2id$v=19$m={m},t={t},p={p}${salt}${hash}")
            }
            Kind::Pbkdf2(iterations) => {
                let (salt, hash) = (STANDARD.encode(&self.salt), STANDARD.encode(&self.hash));
                write!(f, "$7${iterations}${salt}${hash}")
            }
        }
    }
}

impl TryFrom<String> for PasswordHash {
    type Error = HashParseError;

    fn try_from(text: String) -> Result<Self, HashParseError> {
        text.parse()
    }
}

impl From<PasswordHash> for String {
    fn from(hash: PasswordHash) -> Self {
        hash.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_again_and_no_other() {
        let mut memory = HashMemory::default();
        let hash = PasswordHash::new(b"secret", [7; SALT_BYTES], &mut memory).unwrap();
        let text = hash.to_string();
        assert!(
            text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"),
            "{text}"
        );
        let read: PasswordHash = text.parse().unwrap();
        assert_eq!(read, hash);
        assert!(read.verify(b"secret", &mut memory));
        assert!(!read.verify(b"Secret", &mut memory) && !read.verify(b"", &mut memory));
        assert!(!dummy_hash().verify(b"secret", &mut memory));
        assert_eq!(
            dummy_hash().cost(),
            hash.cost(),
            "a refusal must not tell who exists"
        );
        assert_eq!(format!("{hash:?}"), "PasswordHash(..)");
    }

    /// Made by `mosquitto_passwd` 2.0.11 for the password `password`.
    #[test]
    fn passwords_of_mosquitto_are_understood() {
        let text = MOSQUITTO;
        let hash: PasswordHash = text.parse().unwrap();
        assert_eq!(hash.to_string(), text);
        let mut memory = HashMemory::default();
        assert!(hash.verify(b"password", &mut memory));
        assert!(!hash.verify(b"passwort", &mut memory));
    }
    const MOSQUITTO: &str = "$7$101$/0rlqnnmHn5IP5I6$JdH0SN/dfe65t7VwlkhkHmPe+dAFR9ES/UqoKvYu4AqpOo9gG7eniwp5g9FxzD662COZKXgIKdkvoOlyKF6I3g==";

    #[test]
    fn cve_2018_12551_a_broken_line_is_no_user_without_a_password() {
        for text in [
            "",
            "plain",
            "$7$",
            "$7$101$$",
            "$7$101$c2FsdHNhbHQ=$",
            "$7$0$c2FsdHNhbHQ=$aGFzaGhhc2hoYXNoaGFzaA==",
            "$7$4000000000$c2FsdHNhbHQ=$aGFzaGhhc2hoYXNoaGFzaA==",
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$",
            "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA$",
            "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
            "$argon2i$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA",
        ] {
            assert!(text.parse::<PasswordHash>().is_err(), "{text}");
        }
    }
}
