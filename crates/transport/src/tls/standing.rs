//! What certificates and lists say of themselves that a set-up with them does not find: when they count, and who has signed a list.

use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::error::X509Error;
use x509_parser::prelude::{FromDer, Validity};
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::time::ASN1Time;

use super::revocations::{self, counting};
use super::{ClientCertificates, Part, ServerMaterial, certificates, lists};

/// Why material that a server can be set up with serves nobody as it seems to be meant. What it shows are moments, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    /// The server's certificate is over.
    #[error("the certificate counted until {0}: clients refuse it")]
    Over(String),
    /// It does not count yet.
    #[error("the certificate does not count before {0}: clients refuse it")]
    Early(String),
    /// The next list should be there.
    #[error("a revocation list was to be replaced by {0}: nobody of its authority is let in")]
    ListOver(String),
    /// A list is of a moment to come.
    #[error("a revocation list is of {0}, which is to come")]
    ListEarly(String),
    /// A later list counted until now.
    #[error(
        "the revocation list of {authority} was {before} and is {now}: who was revoked in between comes in again"
    )]
    ListBack {
        /// Who made it.
        authority: String,
        /// Number and moment of the list that counts now.
        now: String,
        /// Those of the list that counted.
        before: String,
    },
}

/// What is doubtful at a moment, in seconds since 1970. Of texts that cannot be read nothing.
#[must_use]
pub fn doubts(material: &ServerMaterial, now: i64) -> Vec<(Part, Doubt)> {
    let own = certificates(&material.certificates).unwrap_or_default();
    let own = own
        .first()
        .and_then(|own| of_certificate(own, now))
        .map(|doubt| (Part::Certificates, doubt));
    let lists = lists_of(material);
    let lists = lists.iter().filter_map(|list| of_list(list, now));
    own.into_iter()
        .chain(lists.map(|doubt| (Part::Revocations, doubt)))
        .collect()
}

/// What is doubtful in material that takes the place of other one: a revocation list that is older than what counted. Of texts that cannot be
/// read nothing.
#[must_use]
pub fn stepped_back(before: &ServerMaterial, now: &ServerMaterial) -> Vec<(Part, Doubt)> {
    let found = revocations::stepped_back(&lists_of(before), &lists_of(now));
    let placed = found.into_iter().map(|doubt| (Part::Revocations, doubt));
    placed.collect()
}

/// The revocation lists that count: of one that is not the latest nothing is to be said.
fn lists_of(material: &ServerMaterial) -> Vec<CertificateRevocationListDer<'static>> {
    let authority = match &material.clients {
        ClientCertificates::Off => None,
        ClientCertificates::Asked(authority) | ClientCertificates::Required(authority) => {
            Some(authority)
        }
    };
    let text = authority.and_then(|it| it.revocations.as_ref());
    let all = text.map(|text| lists(text).and_then(counting));
    all.and_then(Result::ok).unwrap_or_default()
}

fn of_certificate(certificate: &CertificateDer<'_>, now: i64) -> Option<Doubt> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let Validity {
        not_before,
        not_after,
    } = parsed.validity();
    match now {
        _ if now > not_after.timestamp() => Some(Doubt::Over(not_after.to_string())),
        _ if now < not_before.timestamp() => Some(Doubt::Early(not_before.to_string())),
        _ => None,
    }
}

fn of_list(list: &CertificateRevocationListDer<'_>, now: i64) -> Option<Doubt> {
    let (_, parsed) = CertificateRevocationList::from_der(list).ok()?;
    let is_over = |next: &ASN1Time| now > next.timestamp();
    if let Some(next) = parsed.next_update().filter(is_over) {
        return Some(Doubt::ListOver(next.to_string()));
    }
    let made = parsed.last_update();
    (now < made.timestamp()).then(|| Doubt::ListEarly(made.to_string()))
}

/// Whether a list names an authority that has not signed it. One of an authority further down a chain, whose certificate clients bring,
/// cannot be judged before one does.
pub(super) fn is_forged(
    list: &CertificateRevocationListDer<'_>,
    authorities: &[CertificateDer<'_>],
) -> bool {
    let Ok((_, list)) = CertificateRevocationList::from_der(list) else {
        return false;
    };
    let mut named = authorities
        .iter()
        .filter_map(|der| Some(X509Certificate::from_der(der).ok()?.1))
        .filter(|it| it.subject().as_raw() == list.issuer().as_raw())
        .map(|it| list.verify_signature(it.public_key()))
        .peekable();
    named.peek().is_some()
        && named.all(|verified| verified == Err(X509Error::SignatureVerificationError))
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
        KeyIdMethod, KeyPair, KeyUsagePurpose, date_time_ymd,
    };

    use super::super::{Authority, TlsError, server};
    use super::*;

    /// Seconds of the first of January.
    fn new_year(year: i32) -> i64 {
        date_time_ymd(year, 1, 1).unix_timestamp()
    }

    fn authority(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new([]).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params
    }

    /// A list of 2030 that one of a name has signed with a key.
    fn list_of(name: &str, key: &KeyPair) -> Vec<u8> {
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2030, 1, 1),
            next_update: date_time_ymd(2031, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: Vec::new(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let issuer = Issuer::new(authority(name), key);
        let list = params.signed_by(&issuer).expect("a list");
        list.pem().expect("a text").into_bytes()
    }

    fn list(key: &KeyPair) -> Vec<u8> {
        list_of("authority", key)
    }

    fn key() -> KeyPair {
        KeyPair::generate().expect("a key")
    }

    /// A server whose certificate is of 2030, and who takes certificates of an authority with a list.
    fn material(trusted: &KeyPair, lists: Vec<u8>) -> ServerMaterial {
        let own = key();
        let mut params = CertificateParams::new(["broker.example".to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2030, 1, 1);
        params.not_after = date_time_ymd(2031, 1, 1);
        let certificate = params.self_signed(&own).expect("a certificate");
        let trusted = authority("authority").self_signed(trusted);
        ServerMaterial {
            certificates: certificate.pem().into_bytes(),
            key: own.serialize_pem().into_bytes(),
            clients: ClientCertificates::Required(Authority {
                certificates: trusted.expect("an authority").pem().into_bytes(),
                revocations: Some(lists),
            }),
            ..ServerMaterial::default()
        }
    }

    #[test]
    fn what_does_not_count_now_is_doubtful() {
        let key = key();
        let material = material(&key, list(&key));
        server(&material).expect("it can be set up with");
        let of = |year, days: i64| {
            let doubts = doubts(&material, new_year(year) + days * 86_400);
            doubts
                .into_iter()
                .map(|(_, doubt)| doubt)
                .collect::<Vec<_>>()
        };
        assert!(of(2030, 1).is_empty());
        let early = of(2029, 1);
        assert!(matches!(early[..], [Doubt::Early(_), Doubt::ListEarly(_)]));
        assert!(early[0].to_string().contains("2030"), "{}", early[0]);
        assert!(matches!(
            of(2031, 1)[..],
            [Doubt::Over(_), Doubt::ListOver(_)]
        ));
    }

    #[test]
    fn a_list_that_its_authority_has_not_signed_is_refused() {
        let (key, stranger) = (key(), self::key());
        let error = server(&material(&key, list(&stranger))).expect_err("it is forged");
        assert_eq!(error.part, Part::Revocations);
        assert!(
            matches!(error.error, TlsError::ForgedRevocations),
            "{error}"
        );
        // A good one before it does not help.
        let both = [list(&key), list(&stranger)].concat();
        server(&material(&key, both)).expect_err("one is forged");
    }

    #[test]
    fn a_list_of_an_authority_further_down_is_taken() {
        let (key, below) = (key(), self::key());
        let other = list_of("below", &below);
        server(&material(&key, [list(&key), other].concat())).expect("nobody can say yet");
    }
}
