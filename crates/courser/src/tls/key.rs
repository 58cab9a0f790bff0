//! The key that an authority signs with, as other programs may have written it.

use rcgen::KeyPair;
use x509_parser::pem::Pem;

/// Reads the private key of a PEM file: PKCS #8, SEC 1 or PKCS #1. What stands before it, as the parameters of its curve that `openssl ecparam`
/// writes, is passed over.
///
/// # Errors
/// What is wrong, and what to do.
pub(super) fn signing_key(bytes: &[u8]) -> Result<KeyPair, &'static str> {
    if is_encrypted(bytes) {
        return Err(
            "the private key is encrypted, and no passphrase is asked for: write it without one (openssl pkey -in OLD -out NEW)",
        );
    }
    let mut other = None;
    for pem in Pem::iter_from_buffer(bytes) {
        let pem = pem.map_err(|_| "malformed PEM")?;
        if pem.label.ends_with("PRIVATE KEY") {
            return KeyPair::try_from(&*pem.contents).map_err(|_| {
                "a private key that cannot be used: RSA, Ed25519, P-256, P-384 and P-521 can, with the curve by its name (openssl pkey -in OLD -ec_param_enc named_curve -out NEW)"
            });
        }
        other = Some(pem.label);
    }
    Err(match other.as_deref() {
        Some("EC PARAMETERS") => {
            "no private key, only the parameters of a curve (openssl ecparam -genkey makes a key)"
        }
        Some("CERTIFICATE") => "no private key, but a certificate",
        Some("PUBLIC KEY") => "no private key, but a public one",
        Some(_) => "no private key",
        None if bytes.first() == Some(&DER) => {
            "no PEM: it may be a key in DER (openssl pkey -inform DER -in OLD -out NEW)"
        }
        None => "no private key",
    })
}

/// How every key in DER begins: as a sequence.
const DER: u8 = 0x30;

/// PKCS #8, or as OpenSSL once wrote it (RFC 1421).
fn is_encrypted(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.lines().any(|line| {
        line.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----")
            || line.starts_with("Proc-Type: 4,ENCRYPTED")
    })
}

#[cfg(test)]
mod tests;
