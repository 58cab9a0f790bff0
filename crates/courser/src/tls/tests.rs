use std::fs;
use std::path::Path;

use clap::Parser;
use rcgen::{CertificateParams, KeyPair};
use x509_parser::pem::Pem;

use super::{Tls, run};
use crate::cli::exit::Exit;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    tls: Tls,
}

fn tls(folder: &Path, words: &[&str]) -> Exit {
    let folder = folder.to_str().expect("a path of text");
    let words = [&["tls"], words, &["--folder", folder]].concat();
    run(&Line::parse_from(words).tls)
}

/// From when until when a certificate holds.
fn holds(path: &Path) -> (i64, i64) {
    let bytes = fs::read(path).expect("it was made");
    let (pem, _) = Pem::read(std::io::Cursor::new(&bytes)).expect("PEM");
    let validity = pem.parse_x509().expect("a certificate").validity().clone();
    (
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    )
}

#[test]
fn a_certificate_ends_with_its_authority() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    assert_eq!(tls(at, &["new-ca", "--days", "10"]), Exit::Done);
    assert_eq!(
        tls(at, &["new-cert", "a.example", "--days", "9"]),
        Exit::Done
    );
    assert_eq!(
        tls(at, &["new-cert", "b.example", "--days", "11"]),
        Exit::Done
    );
    let (begins, ends) = holds(&at.join("ca.pem"));
    const DAY: i64 = 24 * 60 * 60;
    assert_eq!(ends - begins, 11 * DAY, "since yesterday");
    assert_eq!(holds(&at.join("a.example.pem")), (begins, ends - DAY));
    assert_eq!(holds(&at.join("b.example.pem")), (begins, ends));
}

#[test]
fn what_is_no_authority_signs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let key = || KeyPair::generate().expect("keys can be made");
    let (own, other) = (key(), key());
    let leaf = CertificateParams::default()
        .self_signed(&own)
        .expect("signed");
    for (certificate, key) in [
        (leaf.pem(), own.serialize_pem()),
        ("nothing".to_owned(), own.serialize_pem()),
    ] {
        fs::write(at.join("ca.pem"), certificate).expect("written");
        fs::write(at.join("ca.key"), key).expect("written");
        assert_eq!(tls(at, &["new-cert", "a.example"]), Exit::Refused);
    }
    fs::remove_file(at.join("ca.pem")).expect("removed");
    fs::remove_file(at.join("ca.key")).expect("removed");
    assert_eq!(tls(at, &["new-ca"]), Exit::Done);
    for key in [other.serialize_pem(), "nothing".to_owned()] {
        fs::write(at.join("ca.key"), key).expect("written");
        assert_eq!(tls(at, &["new-cert", "a.example"]), Exit::Refused);
    }
    assert!(!at.join("a.example.pem").exists() && !at.join("a.example.key").exists());
}

/// Such as others make: clients would find no authority of the name that is left.
#[test]
fn an_authority_whose_name_cannot_be_repeated_signs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let key = KeyPair::generate().expect("keys can be made");
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    // What makes certificates here makes no name of two parts of one kind: the number of another kind is written over.
    let kind = rcgen::DnType::CustomDnType(vec![2, 5, 4, 99]);
    params.distinguished_name.push(kind, "other");
    let der = params.self_signed(&key).expect("signed").der().to_vec();
    // To that of a common name, of which there is one already. Nobody looks at the signature.
    let (from, to) = ([0x55, 4, 99], [0x55, 4, 3]);
    let mut twice = der.clone();
    for place in 0..twice.len() - 3 {
        if twice[place..].starts_with(&from) {
            twice[place..place + 3].copy_from_slice(&to);
        }
    }
    assert_ne!(twice, der);
    let pem = pem_of(&twice);
    fs::write(at.join("ca.pem"), pem).expect("written");
    fs::write(at.join("ca.key"), key.serialize_pem()).expect("written");
    assert_eq!(tls(at, &["new-cert", "a.example"]), Exit::Refused);
    assert!(!at.join("a.example.pem").exists());
}

fn pem_of(der: &[u8]) -> String {
    use base64::Engine;

    let text = base64::engine::general_purpose::STANDARD.encode(der);
    format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
}

#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("new/tls");
    assert_eq!(tls(&at, &["new-ca"]), Exit::Done);
    let mode = |path: &Path| {
        let metadata = fs::metadata(path).expect("it was made");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(mode(&at), 0o700);
    assert_eq!(mode(&at.join("ca.key")), 0o600);
}
