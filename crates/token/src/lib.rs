//! JSON Web Tokens (RFC 7519) as proof of who a client is.
//!
//! - [`KeySet`]: the keys that tokens are verified with, from JSON Web Key Sets, PEM files and secrets. The algorithm of a key is
//!   fixed when it is read; what a token says of its algorithm only chooses among the keys that are for it.
//! - [`Policy`]: which tokens count, and which claims say who a client is.
//! - [`Verifier`]: both together. [`Verifier::verify`] makes a [`Grant`] of a token, or says why not.
//!
//! # What holds of every grant
//! - its signature is that of a key of the set, by the algorithm of that key: RS256, ES256, EdDSA (Ed25519) or HS256;
//! - it has not ended, it has begun, and it has an end;
//! - one of its audiences is one of ours; where we have none, it names none;
//! - its issuer is one of ours, where we have any;
//! - it names a user, by the claim that the policy says.
//!
//! Nothing here does I/O or reads a clock.
#![forbid(unsafe_code)]

mod keys;
mod policy;
mod verify;

pub use keys::{KeyError, KeySet, Loaded};
pub use policy::Policy;
pub use verify::{Grant, TOKEN_BYTES_MAX, TokenError, Verifier};

#[cfg(test)]
mod tests;
