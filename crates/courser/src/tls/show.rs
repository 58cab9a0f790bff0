//! What stands in certificates.

use std::net::IpAddr;
use std::path::Path;

use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::GeneralName;

use super::Show;
use super::files::{read, shown};
use crate::cli::exit::Exit;

const COLUMNS: [&str; 6] = ["file", "subject", "names", "issuer", "ends", "days_left"];

/// Says what is in each file, in order; a key is passed over.
pub(super) fn run(arguments: &Show) -> Exit {
    let mut rows = Vec::new();
    let mut exit = Exit::Done;
    for file in &arguments.files {
        match certificates(file) {
            Ok(found) => rows.extend(found),
            Err(failed) => exit = exit.or(failed),
        }
    }
    if rows.is_empty() {
        return exit;
    }
    let said = arguments.output.output().rows(&rows, &COLUMNS);
    exit.or(said.into())
}

fn certificates(file: &Path) -> Result<Vec<Value>, Exit> {
    let bytes = read(file, "")?;
    let damaged = |why: &str| {
        eprintln!("courser: {}: {why}", shown(file));
        Exit::Refused
    };
    let mut rows = Vec::new();
    for pem in Pem::iter_from_buffer(&bytes) {
        let pem = pem.map_err(|_| damaged("malformed PEM"))?;
        if pem.label != "CERTIFICATE" {
            continue;
        }
        let parsed = pem
            .parse_x509()
            .map_err(|_| damaged("a malformed certificate"))?;
        rows.push(row(file, &parsed, &pem.contents));
    }
    match rows.is_empty() {
        true => Err(damaged("no certificate")),
        false => Ok(rows),
    }
}

/// Of one certificate. Names are told with their kind, as `identity` of a listener asks for them.
fn row(file: &Path, certificate: &X509Certificate<'_>, der: &[u8]) -> Value {
    let names: Vec<String> = certificate
        .subject_alternative_name()
        .ok()
        .flatten()
        .map(|names| names.value.general_names.iter().map(name).collect())
        .unwrap_or_default();
    let validity = certificate.validity();
    let date = |seconds: i64| {
        Timestamp::from_second(seconds)
            .ok()
            .map(|it| it.to_string())
    };
    let ends = validity.not_after.timestamp();
    let days_left = (ends - Timestamp::now().as_second()).div_euclid(24 * 60 * 60);
    let fingerprint: String = Sha256::digest(der)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json!({
        "file": file.display().to_string(),
        "subject": certificate.subject().to_string(),
        "names": names,
        "issuer": certificate.issuer().to_string(),
        "authority": certificate.is_ca(),
        "begins": date(validity.not_before.timestamp()),
        "ends": date(ends),
        "days_left": days_left,
        "serial": certificate.raw_serial_as_string(),
        "fingerprint": fingerprint,
    })
}

fn name(name: &GeneralName<'_>) -> String {
    match name {
        GeneralName::DNSName(name) => format!("dns_name:{name}"),
        GeneralName::RFC822Name(name) => format!("email:{name}"),
        GeneralName::URI(name) => format!("uri:{name}"),
        GeneralName::IPAddress(bytes) => format!("address:{}", address(bytes)),
        other => other.to_string(),
    }
}

fn address(bytes: &[u8]) -> String {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or(sixteen)
        .map_or_else(|_| format!("{bytes:02x?}"), |address| address.to_string())
}
