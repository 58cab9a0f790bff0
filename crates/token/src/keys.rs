//! Keys that tokens are verified with.

use std::fmt;

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, KeyOperations, PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use serde::Deserialize;
use serde_json::Value;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Most keys of a set.
const KEYS_MAX: usize = 64;
/// Most keys that one token is held against: what it may cost.
pub(crate) const CANDIDATES_MAX: usize = 8;
/// Shortest secret: as long as the hash, RFC 7518 section 3.2.
const SECRET_BYTES_MIN: usize = 32;
/// Bytes of the modulus of an RSA key: 2,048 to 8,192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// A point of P-256: 4, and two coordinates.
const POINT_BYTES: usize = 65;
/// A public key of Ed25519.
const ED25519_BYTES: usize = 32;

/// Why a file has no keys.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It is no JSON Web Key Set.
    #[error("this is no JSON Web Key Set: {0}")]
    NoSet(&'static str),
    /// A key set in which no key is one that tokens can be verified with.
    #[error(
        "none of its {0} keys is for RS256 (2,048 bits or more), ES256, EdDSA (Ed25519) or HS256 (32 bytes or more)"
    )]
    NoneOfUse(usize),
    /// Not a public key in PEM that tokens can be verified with.
    #[error("this is no public key in PEM of RSA with 2,048 bits or more, of P-256, or of Ed25519")]
    NoPublicKey,
    /// A secret that can be guessed.
    #[error("a secret for HS256 has 32 bytes or more, and this one has {0}")]
    ShortSecret(usize),
    /// More keys than a token should be held against.
    #[error(
        "there may be {KEYS_MAX} keys at most, and {CANDIDATES_MAX} without a key id for one algorithm"
    )]
    TooMany,
}

/// What a key set brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Keys that are used.
    pub used: usize,
    /// Keys for something else, or of a kind that is not known: they are passed over, RFC 7517 section 5.
    pub passed_over: usize,
}

/// One key. Its algorithm is part of it.
#[derive(Clone)]
pub(crate) struct Key {
    id: Option<Box<str>>,
    pub(crate) algorithm: Algorithm,
    pub(crate) material: DecodingKey,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, {:?})", self.id, self.algorithm)
    }
}

/// Keys that tokens are verified with, at most 64.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
}

impl KeySet {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no token can be verified.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds the keys of a JSON Web Key Set (RFC 7517). Keys that are not for verifying by one of our algorithms are passed over.
    ///
    /// # Errors
    /// [`KeyError::NoSet`], [`KeyError::NoneOfUse`], [`KeyError::TooMany`]; nothing is added then.
    pub fn add_key_set(&mut self, text: &[u8]) -> Result<Loaded, KeyError> {
        let set: Value = serde_json::from_slice(text).map_err(|_| KeyError::NoSet("not JSON"))?;
        let listed = set
            .get("keys")
            .and_then(Value::as_array)
            .ok_or(KeyError::NoSet("it has no list \"keys\""))?;
        let found: Vec<Key> = listed.iter().filter_map(from_jwk).collect();
        let loaded = Loaded {
            used: found.len(),
            passed_over: listed.len() - found.len(),
        };
        if found.is_empty() {
            return Err(KeyError::NoneOfUse(listed.len()));
        }
        self.add(found)?;
        Ok(loaded)
    }

    /// Adds a public key in PEM (`BEGIN PUBLIC KEY`). Its kind says its algorithm. It has no key id, so tokens may name any.
    ///
    /// # Errors
    /// [`KeyError::NoPublicKey`], [`KeyError::TooMany`].
    pub fn add_public_key(&mut self, text: &[u8]) -> Result<(), KeyError> {
        let key = from_pem(text).ok_or(KeyError::NoPublicKey)?;
        self.add(vec![key])
    }

    /// Adds a secret for HS256. It has no key id.
    ///
    /// # Errors
    /// [`KeyError::ShortSecret`], [`KeyError::TooMany`].
    pub fn add_secret(&mut self, secret: &[u8]) -> Result<(), KeyError> {
        if secret.len() < SECRET_BYTES_MIN {
            return Err(KeyError::ShortSecret(secret.len()));
        }
        let material = DecodingKey::from_secret(secret);
        self.add(vec![Key::checked(None, material, Algorithm::HS256)])
    }

    fn add(&mut self, mut keys: Vec<Key>) -> Result<(), KeyError> {
        let all = || self.keys.iter().chain(&keys);
        // Every token of their algorithm is held against those without an id.
        let crowded = keys.iter().any(|key| {
            let alike = all().filter(|it| it.id.is_none() && it.algorithm == key.algorithm);
            alike.count() > CANDIDATES_MAX
        });
        if all().count() > KEYS_MAX || crowded {
            return Err(KeyError::TooMany);
        }
        self.keys.append(&mut keys);
        Ok(())
    }

    /// Keys that may have signed a token with this head: those of the algorithm that it names, and of the key id, where both have one.
    pub(crate) fn candidates(
        &self,
        algorithm: Algorithm,
        id: Option<&str>,
    ) -> impl Iterator<Item = &Key> {
        self.keys.iter().filter(move |key| {
            let named = match (&key.id, id) {
                (Some(mine), Some(asked)) => **mine == *asked,
                (None, _) | (_, None) => true,
            };
            key.algorithm == algorithm && named
        })
    }
}

impl Key {
    fn checked(id: Option<String>, material: DecodingKey, algorithm: Algorithm) -> Self {
        Self {
            id: id.map(Into::into),
            algorithm,
            material,
        }
    }
}

/// A key of a set; none if it is not for verifying by one of our algorithms, or too weak.
fn from_jwk(value: &Value) -> Option<Key> {
    let jwk = Jwk::deserialize(value).ok()?;
    let common = &jwk.common;
    let signs = match &common.public_key_use {
        None | Some(PublicKeyUse::Signature) => true,
        Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_)) => false,
    };
    let operations = common.key_operations.as_deref();
    let verifies = operations.is_none_or(|all| all.contains(&KeyOperations::Verify));
    if !signs || !verifies {
        return None;
    }
    let mut material = DecodingKey::from_jwk(&jwk).ok()?;
    if let DecodingKeyKind::RsaModulusExponent { n, e } = material.kind() {
        material = rsa(n, e)?;
    }
    let bytes = material.try_get_as_bytes().map_or(0, <[u8]>::len);
    let (fits, algorithm, named) = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => (true, Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(it) => (
            it.curve == EllipticCurve::P256 && bytes == POINT_BYTES,
            Algorithm::ES256,
            KeyAlgorithm::ES256,
        ),
        AlgorithmParameters::OctetKeyPair(it) => (
            it.curve == EllipticCurve::Ed25519 && bytes == ED25519_BYTES,
            Algorithm::EdDSA,
            KeyAlgorithm::EdDSA,
        ),
        AlgorithmParameters::OctetKey(_) => (
            bytes >= SECRET_BYTES_MIN,
            Algorithm::HS256,
            KeyAlgorithm::HS256,
        ),
        _ => return None,
    };
    let meant = common.key_algorithm.is_none_or(|it| it == named);
    (fits && meant).then(|| Key::checked(jwk.common.key_id, material, algorithm))
}

/// A key of RSA that is long enough, of numbers that may begin with zeros.
fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<DecodingKey> {
    let (modulus, exponent) = (without_zeros(modulus), without_zeros(exponent));
    let strong = MODULUS_BYTES.contains(&modulus.len());
    strong.then(|| DecodingKey::from_rsa_raw_components(modulus, exponent))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

fn from_pem(text: &[u8]) -> Option<Key> {
    let pem = Pem::iter_from_buffer(text).next()?.ok()?;
    if pem.label != "PUBLIC KEY" {
        return None;
    }
    let (rest, info) = SubjectPublicKeyInfo::from_der(&pem.contents).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let bits: &[u8] = &info.subject_public_key.data;
    let of = |material, algorithm| Some(Key::checked(None, material, algorithm));
    match info.parsed() {
        Ok(PublicKey::RSA(key)) => of(rsa(key.modulus, key.exponent)?, Algorithm::RS256),
        Ok(PublicKey::EC(_)) if is_p256(&info) && bits.len() == POINT_BYTES => {
            of(DecodingKey::from_ec_der(bits), Algorithm::ES256)
        }
        _ if is_ed25519(&info) && bits.len() == ED25519_BYTES => {
            of(DecodingKey::from_ed_der(bits), Algorithm::EdDSA)
        }
        _ => None,
    }
}

fn is_p256(info: &SubjectPublicKeyInfo<'_>) -> bool {
    let parameters = info.algorithm.parameters.as_ref();
    let curve = parameters.and_then(|any| any.as_oid().ok());
    curve.is_some_and(|curve| curve.to_id_string() == "1.2.840.10045.3.1.7")
}

fn is_ed25519(info: &SubjectPublicKeyInfo<'_>) -> bool {
    info.algorithm.algorithm.to_id_string() == "1.3.101.112"
}
