use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};

use super::*;

fn certificate(make: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    make(&mut params);
    let key = KeyPair::generate().expect("keys can be made");
    params
        .self_signed(&key)
        .expect("it can be signed")
        .der()
        .clone()
}

fn named(name: &str) -> CertificateDer<'static> {
    certificate(|params| {
        params
            .distinguished_name
            .push(DnType::CommonName, DnValue::Utf8String(name.to_owned()));
    })
}

#[test]
fn the_common_name_is_taken_whole_and_as_it_is() {
    for name in [
        "sensor-7",
        "a/b",
        "O=x, CN=admin",
        "admin ",
        "Ädmin",
        "#",
        "%c",
    ] {
        let identity = identity(&named(name), IdentityFrom::CommonName);
        assert_eq!(identity.as_deref(), Ok(name));
    }
}

#[test]
fn a_name_that_could_be_read_differently_is_refused() {
    let long = "x".repeat(IDENTITY_BYTES_MAX + 1);
    for name in ["", "admin\0evil", "two\nlines", long.as_str()] {
        let identity = identity(&named(name), IdentityFrom::CommonName);
        assert_eq!(identity, Err(IdentityError::Unusable), "{name:?}");
    }
    let nameless = certificate(|_| ());
    assert_eq!(
        identity(&nameless, IdentityFrom::CommonName),
        Err(IdentityError::Missing)
    );
}

#[test]
fn a_second_name_of_the_kind_is_refused_and_another_kind_is_not_looked_at() {
    let dns = |name: &str| SanType::DnsName(name.try_into().expect("ASCII"));
    let email = |name: &str| SanType::Rfc822Name(name.try_into().expect("ASCII"));
    let uri = |name: &str| SanType::URI(name.try_into().expect("ASCII"));
    let one_each = certificate(|params| {
        params.subject_alt_names = vec![
            dns("device.example"),
            email("device@example.org"),
            uri("spiffe://example.org/device"),
        ];
    });
    let table = [
        (IdentityFrom::DnsName, Ok("device.example")),
        (IdentityFrom::Email, Ok("device@example.org")),
        (IdentityFrom::Uri, Ok("spiffe://example.org/device")),
        (IdentityFrom::CommonName, Err(IdentityError::Missing)),
    ];
    for (from, expected) in table {
        let expected = expected.map(str::to_owned);
        assert_eq!(identity(&one_each, from), expected, "{from:?}");
    }
    let two = certificate(|params| {
        params.subject_alt_names = vec![dns("device.example"), dns("admin.example")];
    });
    assert_eq!(
        identity(&two, IdentityFrom::DnsName),
        Err(IdentityError::Ambiguous)
    );
    assert_eq!(
        identity(&two, IdentityFrom::Email),
        Err(IdentityError::Missing)
    );
}

#[test]
fn a_fingerprint_is_of_the_whole_certificate() {
    let one = named("a");
    let print = identity(&one, IdentityFrom::Fingerprint).expect("any certificate has one");
    assert_eq!(print.len(), 64);
    assert!(
        print
            .bytes()
            .all(|digit| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit))
    );
    assert_ne!(
        identity(&named("a"), IdentityFrom::Fingerprint).as_ref(),
        Ok(&print)
    );
}

#[test]
fn garbage_names_nobody() {
    let garbage = CertificateDer::from(vec![0x30, 0x82, 0xFF, 0xFF, 0x00]);
    assert_eq!(
        identity(&garbage, IdentityFrom::CommonName),
        Err(IdentityError::Malformed)
    );
    let mut trailing = named("a").to_vec();
    trailing.push(0);
    let trailing = CertificateDer::from(trailing);
    assert_eq!(
        identity(&trailing, IdentityFrom::CommonName),
        Err(IdentityError::Malformed)
    );
}
