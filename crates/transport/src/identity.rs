//! Who a client certificate says that a client is.
//!
//! A certificate names somebody only as a whole: the value must be there exactly once and is taken as it is, never a part of
//! it. A second common name, or a second alternative name of the kind that is asked for, would let whoever wrote the request
//! for the certificate choose; so it is refused.

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// Longest identity in bytes.
pub const IDENTITY_BYTES_MAX: usize = 255;

/// Which value of a certificate is the identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IdentityFrom {
    /// The common name of the subject.
    #[default]
    CommonName,
    /// The subject alternative name that is a DNS name.
    DnsName,
    /// The subject alternative name that is an e-mail address.
    Email,
    /// The subject alternative name that is a URI, as in SPIFFE.
    Uri,
    /// SHA-256 of the whole certificate, 64 hexadecimal digits in lower case.
    Fingerprint,
}

/// Why a certificate names nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It cannot be parsed.
    #[error("the client certificate is malformed")]
    Malformed,
    /// The value is not there.
    #[error("the client certificate has no such name")]
    Missing,
    /// It is there more than once.
    #[error("the client certificate has more than one such name")]
    Ambiguous,
    /// It is empty, longer than [`IDENTITY_BYTES_MAX`], or has control characters.
    #[error("the name in the client certificate cannot be used")]
    Unusable,
}

/// The identity in a certificate that was verified.
///
/// # Errors
/// When it names nobody, or more than one.
pub fn identity(
    certificate: &CertificateDer<'_>,
    from: IdentityFrom,
) -> Result<String, IdentityError> {
    if from == IdentityFrom::Fingerprint {
        return Ok(fingerprint(certificate));
    }
    let (rest, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| IdentityError::Malformed)?;
    if !rest.is_empty() {
        return Err(IdentityError::Malformed);
    }
    match from {
        IdentityFrom::CommonName => {
            let names = parsed.subject().iter_common_name();
            single(names.map(|name| name.as_str().map_err(|_| IdentityError::Unusable)))
        }
        IdentityFrom::DnsName => alternative(&parsed, |name| match name {
            GeneralName::DNSName(name) => Some(name),
            _ => None,
        }),
        IdentityFrom::Email => alternative(&parsed, |name| match name {
            GeneralName::RFC822Name(name) => Some(name),
            _ => None,
        }),
        IdentityFrom::Uri => alternative(&parsed, |name| match name {
            GeneralName::URI(name) => Some(name),
            _ => None,
        }),
        IdentityFrom::Fingerprint => unreachable!("answered above"),
    }
}

/// SHA-256 of a certificate in hexadecimal digits.
#[must_use]
pub fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    digest
        .as_ref()
        .iter()
        .fold(String::with_capacity(64), |mut text, byte| {
            use std::fmt::Write as _;
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

fn alternative<'a>(
    certificate: &'a X509Certificate<'a>,
    pick: impl Fn(&'a GeneralName<'a>) -> Option<&'a str>,
) -> Result<String, IdentityError> {
    let names = certificate
        .subject_alternative_name()
        .map_err(|_| IdentityError::Malformed)?
        .map(|extension| &extension.value.general_names);
    single(
        names
            .into_iter()
            .flatten()
            .filter_map(|name| pick(name).map(Ok)),
    )
}

/// The one of `names`, if it can be used.
fn single<'a>(
    mut names: impl Iterator<Item = Result<&'a str, IdentityError>>,
) -> Result<String, IdentityError> {
    let name = names.next().ok_or(IdentityError::Missing)??;
    if names.next().is_some() {
        return Err(IdentityError::Ambiguous);
    }
    let usable =
        !name.is_empty() && name.len() <= IDENTITY_BYTES_MAX && !name.chars().any(char::is_control);
    if usable {
        Ok(name.to_owned())
    } else {
        Err(IdentityError::Unusable)
    }
}

#[cfg(test)]
mod tests;
