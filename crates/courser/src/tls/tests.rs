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
fn only_what_is_public_is_for_others() {
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
    assert_eq!(tls(&at, &["new-cert", "a.example"]), Exit::Done);
    assert_eq!(mode(&at.join("a.example.key")), 0o600);
    // As far as whoever runs the test lets others read at all.
    let open = at.join("open");
    let mut options = fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o644);
    options
        .write(true)
        .create_new(true)
        .open(&open)
        .expect("made");
    for certificate in ["ca.pem", "a.example.pem"] {
        assert_eq!(mode(&at.join(certificate)), mode(&open), "{certificate}");
    }
}

/// The longest host name leaves no room for what comes behind it.
#[test]
fn a_name_that_no_file_can_have_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("tls");
    let label = "x".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "y".repeat(61));
    assert_eq!(longest.len(), 253);
    assert_eq!(tls(&at, &["new-cert", &longest]), Exit::Usage);
    let file = "z".repeat(252);
    let by_file = ["new-cert", "a.example", "--file", &file];
    assert_eq!(tls(&at, &by_file), Exit::Usage);
    assert!(!at.exists(), "nothing is made");
    assert_eq!(tls(&at, &["new-ca"]), Exit::Done);
    let by_file = ["new-cert", &longest, "--file", &file[1..]];
    assert_eq!(tls(&at, &by_file), Exit::Done);
}

#[test]
fn an_authority_whose_key_openssl_has_made_signs() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    assert_eq!(tls(at, &["new-ca"]), Exit::Done);
    let key = fs::read_to_string(at.join("ca.key")).expect("it was made");
    let parameters =
        "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n";
    fs::write(at.join("ca.key"), format!("{parameters}{key}")).expect("written");
    assert_eq!(tls(at, &["new-cert", "a.example"]), Exit::Done);
}
