//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side: the password never crosses the wire, and what is kept cannot log in.
//!
//! ```text
//! client-first  n,,n=user,r=CNONCE                     ─▶ Exchange::begin
//!               r=CNONCE SNONCE,s=SALT,i=ITERATIONS    ◀─ Exchange::server_first
//! client-final  c=biws,r=CNONCE SNONCE,p=PROOF         ─▶ Exchange::finish
//!               v=SIGNATURE                            ◀─ its answer
//! ```
//! Without channel binding: a client that demands it is refused. Names and passwords are compared as the bytes that came; no SASLprep is
//! done, which is the same for all printable ASCII. An unknown user goes through the same exchange with made-up salt and is refused at
//! its end.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::UserName;

/// The name of the method on the wire.
pub const METHOD: &str = "SCRAM-SHA-256";
/// What new keys are made with. RFC 7677 asks for at least 4,096.
pub const ITERATIONS: u32 = 20_000;
/// Keys with fewer iterations are not taken (RFC 7677 section 4).
const ITERATIONS_MIN: u32 = 4_096;
const ITERATIONS_MAX: u32 = 2_000_000;
/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// Longest message of a client in bytes.
const MESSAGE_BYTES_MAX: usize = 1_024;

type Key = [u8; 32];

/// What is kept of a password for this method. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ScramKeys {
    iterations: u32,
    salt: Box<[u8]>,
    stored_key: Key,
    server_key: Key,
}

impl ScramKeys {
    /// Bytes that they have beside themselves.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.salt.len()
    }
}

impl fmt::Debug for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScramKeys(..)")
    }
}

/// Why a text is no SCRAM keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SCRAM keys are `SCRAM-SHA-256$ITERATIONS:SALT$STOREDKEY:SERVERKEY` with {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations"
)]
pub struct KeysParseError;

/// Why an exchange ends without a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// Not in the form of the RFC.
    #[error("the message is not in the form of RFC 5802")]
    Malformed,
    /// The client demands channel binding or an extension.
    #[error("the client demands something of SCRAM that is not offered")]
    Unsupported,
    /// Wrong password, or no such user.
    #[error("the proof is not that of this user")]
    Proof,
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> Key {
    let mut mac =
        <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes keys of every length");
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn sha256(bytes: &[u8]) -> Key {
    Sha256::digest(bytes).into()
}

impl ScramKeys {
    /// Makes keys of a password. Cost: [`ITERATIONS`] rounds of HMAC, some 10 ms.
    #[must_use]
    pub fn new(password: &[u8], salt: [u8; SALT_BYTES]) -> Self {
        Self::with_iterations(password, &salt, ITERATIONS)
    }

    fn with_iterations(password: &[u8], salt: &[u8], iterations: u32) -> Self {
        let mut salted = Zeroizing::new([0; 32]);
        pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut *salted);
        let client_key = Zeroizing::new(hmac(&*salted, &[b"Client Key"]));
        Self {
            iterations,
            salt: salt.into(),
            stored_key: sha256(&*client_key),
            server_key: hmac(&*salted, &[b"Server Key"]),
        }
    }

    /// Keys that nobody has the password of, the same for a name each time (`secret` stays what it is).
    fn dummy(name: &UserName, secret: &[u8]) -> Self {
        let salt = hmac(secret, &[b"salt", name.as_str().as_bytes()]);
        Self {
            iterations: ITERATIONS,
            salt: salt[..SALT_BYTES].into(),
            stored_key: hmac(secret, &[b"key", name.as_str().as_bytes()]),
            server_key: [0; 32],
        }
    }
}

impl std::str::FromStr for ScramKeys {
    type Err = KeysParseError;

    fn from_str(text: &str) -> Result<Self, KeysParseError> {
        let read = || -> Option<Self> {
            let (parameters, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
            let (iterations, salt) = parameters.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            let key = |text: &str| -> Option<Key> { STANDARD.decode(text).ok()?.try_into().ok() };
            let salt = STANDARD.decode(salt).ok()?;
            let iterations = iterations.parse().ok()?;
            let in_range = (ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations)
                && (8..=64).contains(&salt.len());
            in_range.then_some(Self {
                iterations,
                salt: salt.into(),
                stored_key: key(stored)?,
                server_key: key(server)?,
            })
        };
        read().ok_or(KeysParseError)
    }
}

impl fmt::Display for ScramKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SCRAM-SHA-256${}:{}${}:{}",
            self.iterations,
            STANDARD.encode(&self.salt),
            STANDARD.encode(self.stored_key),
            STANDARD.encode(self.server_key)
        )
    }
}

impl TryFrom<String> for ScramKeys {
    type Error = KeysParseError;

    fn try_from(text: String) -> Result<Self, KeysParseError> {
        text.parse()
    }
}

impl From<ScramKeys> for String {
    fn from(keys: ScramKeys) -> Self {
        keys.to_string()
    }
}

/// An exchange between the two messages of the client.
#[derive(Debug)]
pub struct Exchange {
    user: UserName,
    keys: ScramKeys,
    known: bool,
    /// What the client's last message must repeat of its first one's header, in base64.
    binding: String,
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

impl Exchange {
    /// Takes the client's first message. `server_nonce` is 18 or more random printable characters without a comma; `secret` makes the
    /// salts of users that do not exist.
    ///
    /// # Errors
    /// [`ScramError::Malformed`] and [`ScramError::Unsupported`].
    pub fn begin(
        message: &[u8],
        server_nonce: &str,
        secret: &[u8],
        keys_of: impl FnOnce(&UserName) -> Option<ScramKeys>,
    ) -> Result<Self, ScramError> {
        let text = text_of(message)?;
        let (header, bare) = split_header(text)?;
        let mut attributes = bare.split(',');
        let user = match attribute(attributes.next(), 'n') {
            Some(name) => decode_name(name)?,
            // `m=` is an extension that must be understood.
            None if bare.starts_with("m=") => return Err(ScramError::Unsupported),
            None => return Err(ScramError::Malformed),
        };
        let client_nonce = attribute(attributes.next(), 'r').ok_or(ScramError::Malformed)?;
        let printable = |b: u8| (0x21..=0x7E).contains(&b);
        if client_nonce.is_empty() || !client_nonce.bytes().all(printable) {
            return Err(ScramError::Malformed);
        }
        let found = keys_of(&user);
        let known = found.is_some();
        let keys = found.unwrap_or_else(|| ScramKeys::dummy(&user, secret));
        let nonce = format!("{client_nonce}{server_nonce}");
        let salt = STANDARD.encode(&keys.salt);
        Ok(Self {
            server_first: format!("r={nonce},s={salt},i={}", keys.iterations),
            binding: STANDARD.encode(header),
            client_first_bare: bare.to_owned(),
            nonce,
            user,
            keys,
            known,
        })
    }

    /// What the server answers to the first message.
    #[must_use]
    pub fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Takes the client's last message: the user, and what the server answers.
    ///
    /// # Errors
    /// [`ScramError`].
    pub fn finish(&self, message: &[u8]) -> Result<(UserName, String), ScramError> {
        let text = text_of(message)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(ScramError::Malformed)?;
        let mut attributes = without_proof.split(',');
        if attribute(attributes.next(), 'c') != Some(&self.binding)
            || attribute(attributes.next(), 'r') != Some(&self.nonce)
        {
            return Err(ScramError::Proof);
        }
        let proof: Key = STANDARD
            .decode(proof)
            .ok()
            .and_then(|proof| proof.try_into().ok())
            .ok_or(ScramError::Malformed)?;
        let signed: [&[u8]; 5] = [
            self.client_first_bare.as_bytes(),
            b",",
            self.server_first.as_bytes(),
            b",",
            without_proof.as_bytes(),
        ];
        let signature = hmac(&self.keys.stored_key, &signed);
        let mut client_key = Zeroizing::new([0; 32]);
        for (byte, (a, b)) in client_key.iter_mut().zip(proof.iter().zip(&signature)) {
            *byte = a ^ b;
        }
        let same = bool::from(sha256(&*client_key).ct_eq(&self.keys.stored_key));
        if !(same && self.known) {
            return Err(ScramError::Proof);
        }
        let signature = hmac(&self.keys.server_key, &signed);
        Ok((
            self.user.clone(),
            format!("v={}", STANDARD.encode(signature)),
        ))
    }
}

fn text_of(message: &[u8]) -> Result<&str, ScramError> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(ScramError::Malformed);
    }
    std::str::from_utf8(message).map_err(|_| ScramError::Malformed)
}

/// The GS2 header with both its commas, and the rest. Another identity than the one that is proved (`a=`) is nothing that we have.
fn split_header(text: &str) -> Result<(&str, &str), ScramError> {
    for header in ["n,,", "y,,"] {
        if let Some(bare) = text.strip_prefix(header) {
            return Ok((header, bare));
        }
    }
    let demands = ["p=", "n,a=", "y,a="];
    if demands.iter().any(|demand| text.starts_with(demand)) {
        return Err(ScramError::Unsupported);
    }
    Err(ScramError::Malformed)
}

fn attribute(text: Option<&str>, name: char) -> Option<&str> {
    text?.strip_prefix(name)?.strip_prefix('=')
}

/// `=2C` is a comma, `=3D` an equals sign, and no other `=` may stand there.
fn decode_name(text: &str) -> Result<UserName, ScramError> {
    let mut name = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('=') {
        name.push_str(before);
        let (c, after) = match after.as_bytes() {
            [b'2', b'C', ..] => (',', &after[2..]),
            [b'3', b'D', ..] => ('=', &after[2..]),
            _ => return Err(ScramError::Malformed),
        };
        name.push(c);
        rest = after;
    }
    name.push_str(rest);
    UserName::new(&name).map_err(|_| ScramError::Malformed)
}

#[cfg(test)]
mod tests;
