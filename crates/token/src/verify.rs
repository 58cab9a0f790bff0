//! A token, held against keys and policy.

use std::collections::HashSet;

use courser_access::{RoleName, UserName};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Header, Validation};
use serde_json::{Map, Value};

use crate::keys::{CANDIDATES_MAX, Key};
use crate::policy::{ROLES_MAX, find};
use crate::{KeySet, Policy};

/// Longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// Why a token proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than [`TOKEN_BYTES_MAX`].
    #[error("longer than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// Not a signed token: not three parts, not base64, not JSON, or without an algorithm that is known. `none` is none.
    #[error("not a signed JSON Web Token")]
    Malformed,
    /// Its head asks for something that is not known here (`crit`), or it is encrypted or compressed.
    #[error("its head asks for an extension")]
    Extension,
    /// No key is for its algorithm and key id.
    #[error("no key for its algorithm and key id")]
    NoKey,
    /// Its head does not say which of too many keys it is of.
    #[error("more than {CANDIDATES_MAX} keys are for its algorithm and key id")]
    ManyKeys,
    /// No key has made this signature.
    #[error("a signature of none of the keys")]
    Signature,
    /// It has ended.
    #[error("expired")]
    Expired,
    /// It has not begun.
    #[error("not valid yet")]
    NotYet,
    /// A claim is missing or has no form: `exp`, `nbf`, `aud` or `iss`.
    #[error("a time, audience or issuer that is missing or malformed")]
    Claims,
    /// It is for somebody else.
    #[error("for another audience")]
    Audience,
    /// It is of somebody else.
    #[error("of another issuer")]
    Issuer,
    /// The claim that names the user is missing, or is no name.
    #[error("names no user")]
    User,
    /// It gives more roles than anybody here may have by a token.
    #[error("more than {ROLES_MAX} roles")]
    Roles,
}

/// What a token proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Who has it.
    pub user: UserName,
    /// Names of roles that it gives, each once, in order. Some may be roles that do not exist.
    pub roles: Vec<RoleName>,
    /// Seconds since 1970 from which on it proves nothing; the leeway is in it.
    pub ends_at: u64,
}

/// Keys and policy.
#[derive(Clone, Debug)]
pub struct Verifier {
    keys: KeySet,
    policy: Policy,
    audience: Option<HashSet<String>>,
    issuers: Option<HashSet<String>>,
    required: HashSet<String>,
}

/// A list that means something only when there is something in it.
fn given(list: &[String]) -> Option<HashSet<String>> {
    (!list.is_empty()).then(|| list.iter().cloned().collect())
}

impl Verifier {
    /// Of these keys and this policy. Without keys no token counts.
    #[must_use]
    pub fn new(keys: KeySet, policy: Policy) -> Self {
        let (audience, issuers) = (given(&policy.audience), given(&policy.issuers));
        let claims = [
            Some("exp"),
            audience.is_some().then_some("aud"),
            issuers.is_some().then_some("iss"),
        ];
        Self {
            required: claims.into_iter().flatten().map(str::to_owned).collect(),
            audience,
            issuers,
            keys,
            policy,
        }
    }

    /// What a token proves at a moment, in seconds since 1970. Costs some 30 to 150 µs for each key that it may be of,
    /// eight at most.
    ///
    /// # Errors
    /// [`TokenError`].
    pub fn verify(&self, token: &[u8], now_seconds: u64) -> Result<Grant, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let head = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Malformed)?;
        check_head(&head)?;
        let candidates = || self.keys.candidates(head.alg, head.kid.as_deref());
        if candidates().nth(CANDIDATES_MAX).is_some() {
            return Err(TokenError::ManyKeys);
        }
        let mut failed = TokenError::NoKey;
        for key in candidates() {
            match self.claims(token, key) {
                Ok(claims) => return self.grant(&claims, now_seconds),
                // Another key of the set may have made it.
                Err(TokenError::Signature) => failed = TokenError::Signature,
                Err(error) => return Err(error),
            }
        }
        Err(failed)
    }

    /// Checks the signature by the algorithm of the key, then audience and issuer.
    fn claims(&self, token: &[u8], key: &Key) -> Result<Map<String, Value>, TokenError> {
        let mut validation = Validation::new(key.algorithm);
        validation.required_spec_claims.clone_from(&self.required);
        validation.aud.clone_from(&self.audience);
        validation.iss.clone_from(&self.issuers);
        // By the time that is passed in, in `grant`.
        validation.validate_exp = false;
        validation.validate_nbf = false;
        let data = jsonwebtoken::decode::<Map<String, Value>>(token, &key.material, &validation);
        data.map(|data| data.claims).map_err(|error| why(&error))
    }

    fn grant(&self, claims: &Map<String, Value>, now: u64) -> Result<Grant, TokenError> {
        let leeway = self.policy.leeway_seconds;
        let end = claims.get("exp").and_then(seconds);
        let ends_at = end.ok_or(TokenError::Claims)?.saturating_add(leeway);
        if ends_at <= now {
            return Err(TokenError::Expired);
        }
        if let Some(from) = claims.get("nbf") {
            let from = seconds(from).ok_or(TokenError::Claims)?;
            if from > now.saturating_add(leeway) {
                return Err(TokenError::NotYet);
            }
        }
        // One text (RFC 7519 section 4.1.1), where the library also takes a list with one that is known.
        if claims.get("iss").is_some_and(|issuer| !issuer.is_string()) {
            return Err(TokenError::Claims);
        }
        let user = find(claims, &self.policy.user_claim)
            .and_then(Value::as_str)
            .and_then(|name| UserName::new(name).ok())
            .ok_or(TokenError::User)?;
        Ok(Grant {
            user,
            roles: self.policy.roles_of(claims)?,
            ends_at,
        })
    }
}

fn check_head(head: &Header) -> Result<(), TokenError> {
    // `b64` is the one extension of signatures that there is (RFC 7797), and counts only when `crit` names it.
    if head.crit.is_some() || head.enc.is_some() || head.zip.is_some() {
        return Err(TokenError::Extension);
    }
    Ok(())
}

/// A NumericDate (RFC 7519 section 2): seconds since 1970, maybe with a fraction, which is cut off.
fn seconds(value: &Value) -> Option<u64> {
    let fraction = || {
        let number = value.as_f64()?;
        // Beyond 2^53 there are no seconds any more, nor years that mean anything.
        (0.0..9e15).contains(&number).then_some(number as u64)
    };
    value.as_u64().or_else(fraction)
}

fn why(error: &Error) -> TokenError {
    match error.kind() {
        ErrorKind::InvalidSignature => TokenError::Signature,
        ErrorKind::InvalidAudience => TokenError::Audience,
        ErrorKind::InvalidIssuer => TokenError::Issuer,
        ErrorKind::MissingRequiredClaim(_) | ErrorKind::InvalidClaimFormat(_) => TokenError::Claims,
        _ => TokenError::Malformed,
    }
}
