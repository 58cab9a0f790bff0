//! What is made: an authority, and certificates that it signs.

use std::net::IpAddr;
use std::path::Path;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, date_time_ymd,
};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;

use super::files::{Pair, read};
use super::{NewCa, NewCert};
use crate::cli::exit::{Exit, usage};
use crate::operate::say;

/// Name of the authority's files.
const AUTHORITY: &str = "ca";
/// The longest common name that X.509 has room for (RFC 5280, ub-common-name).
const COMMON_NAME_MAX: usize = 64;

/// Makes an authority.
pub(super) fn new_ca(arguments: &NewCa) -> Result<(), Exit> {
    let name = common_name(&arguments.name)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    // It signs certificates of servers and clients, and no further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ends = lasts(&mut params, arguments.days, None);
    let key = KeyPair::generate().map_err(|error| unmade(&error))?;
    let certificate = params.self_signed(&key).map_err(|error| unmade(&error))?;
    let pair = Pair::new(&arguments.making.folder, AUTHORITY);
    pair.write(&certificate.pem(), &key.serialize_pem())?;
    say(&format!(
        "wrote {certificate}, until {ends}: what clients trust (--cafile), and client_authorities of a listener\nwrote {key}: keep it secret; whoever has it can be any server and any client\n",
        certificate = pair.certificate.display(),
        key = pair.key.display(),
    ))
}

/// Makes a certificate of a server or a client.
pub(super) fn new_cert(arguments: &NewCert) -> Result<(), Exit> {
    let mut params = match arguments.client {
        true => of_client(&arguments.names)?,
        false => of_server(&arguments.names)?,
    };
    let file = file_name(arguments)?;
    let authority = Authority::read(&arguments.making.folder)?;
    let ends = lasts(&mut params, arguments.days, Some(authority.ends));
    let key = KeyPair::generate().map_err(|error| unmade(&error))?;
    let certificate = params
        .signed_by(&key, &authority.issuer)
        .map_err(|error| unmade(&error))?;
    if !authority.is_issuer_of(certificate.der()) {
        eprintln!(
            "courser: {}: the name of this authority has parts of one kind, or joined ones, which cannot be repeated: sign with the program that has made it",
            arguments.making.folder.display()
        );
        return Err(Exit::Refused);
    }
    let pair = Pair::new(&arguments.making.folder, &file);
    pair.write(&certificate.pem(), &key.serialize_pem())?;
    let hint = match arguments.client {
        true => "copy both to the client, for --cert and --key",
        false => "copy both to the server, for certificate and key of a [[listener]]",
    };
    say(&format!(
        "wrote {}, until {ends}\nwrote {}: {hint}\n",
        pair.certificate.display(),
        pair.key.display(),
    ))
}

/// An authority that was made before.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its name, byte by byte.
    subject: Vec<u8>,
    ends: Date,
}

impl Authority {
    fn read(folder: &Path) -> Result<Self, Exit> {
        const HINT: &str = " (make an authority first: courser tls new-ca)";
        let pair = Pair::new(folder, AUTHORITY);
        let certificate = read(&pair.certificate, HINT)?;
        let key = read(&pair.key, HINT)?;
        let unusable = |path: &Path, why: &str| {
            eprintln!("courser: {}: {why}", path.display());
            Exit::Refused
        };
        let malformed = || unusable(&pair.certificate, "no certificate of an authority");
        let (pem, _) = Pem::read(std::io::Cursor::new(&certificate)).map_err(|_| malformed())?;
        let parsed = pem.parse_x509().map_err(|_| malformed())?;
        if !parsed.is_ca() {
            return Err(malformed());
        }
        let key = String::from_utf8(key)
            .ok()
            .and_then(|text| KeyPair::from_pem(&text).ok())
            .ok_or_else(|| unusable(&pair.key, "no private key"))?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            return Err(unusable(
                &pair.key,
                "not the key of the certificate beside it",
            ));
        }
        let ends = Timestamp::from_second(parsed.validity().not_after.timestamp())
            .map_err(|_| malformed())?
            .to_zoned(TimeZone::UTC)
            .date();
        if ends <= today() {
            return Err(unusable(&pair.certificate, "the authority has ended"));
        }
        let issuer = Issuer::from_ca_cert_der(&pem.contents.as_slice().into(), key);
        Ok(Self {
            issuer: issuer.map_err(|_| malformed())?,
            subject: parsed.subject().as_raw().to_vec(),
            ends,
        })
    }

    /// Whether a certificate names it as its issuer as it names itself: clients find an authority by its name, byte by byte. What makes
    /// certificates here keeps one part of each kind only.
    fn is_issuer_of(&self, certificate: &[u8]) -> bool {
        parse_x509_certificate(certificate)
            .is_ok_and(|(_, parsed)| parsed.issuer().as_raw() == self.subject)
    }
}

fn of_server(names: &[String]) -> Result<CertificateParams, Exit> {
    if let Some(name) = names.iter().find(|name| !is_server_name(name)) {
        return Err(usage(&format!("{name:?} is no host name and no address")));
    }
    let mut params = CertificateParams::new(names).map_err(|error| unmade(&error))?;
    // Only for people: clients compare the alternative names.
    let name: String = names[0].chars().take(COMMON_NAME_MAX).collect();
    params.distinguished_name.push(DnType::CommonName, name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(leaf(params))
}

fn of_client(names: &[String]) -> Result<CertificateParams, Exit> {
    let [name] = names else {
        return Err(usage(
            "a client has one NAME: the broker lets in nobody who has two",
        ));
    };
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name(name)?);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(leaf(params))
}

fn leaf(mut params: CertificateParams) -> CertificateParams {
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

/// Sets from when until when it holds, by days: since yesterday, because clocks of clients may be behind. The last day is returned.
fn lasts(params: &mut CertificateParams, days: u32, at_most: Option<Date>) -> Date {
    let today = today();
    let ends = today.saturating_add(Span::new().days(days));
    let ends = at_most.map_or(ends, |at_most| ends.min(at_most));
    let of = |date: Date| {
        date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    params.not_before = of(today.saturating_sub(Span::new().days(1)));
    params.not_after = of(ends);
    ends
}

fn today() -> Date {
    Timestamp::now().to_zoned(TimeZone::UTC).date()
}

/// An address, or labels of letters, digits, hyphens and underscores (as containers are called), the first of which may be `*`. The last one is no
/// number: that is a mistyped address.
fn is_server_name(name: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let labels = name.strip_prefix("*.").unwrap_or(name);
    let last = labels.rsplit('.').next().unwrap_or_default();
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    name.parse::<IpAddr>().is_ok()
        || name.len() <= 253 && !is_number && labels.split('.').all(is_label)
}

fn common_name(name: &str) -> Result<&str, Exit> {
    let fits = (1..=COMMON_NAME_MAX).contains(&name.chars().count());
    match fits && !name.chars().any(char::is_control) {
        true => Ok(name),
        false => Err(usage(&format!(
            "{name:?}: a name has 1 to {COMMON_NAME_MAX} characters, none of control"
        ))),
    }
}

/// What the files are called: nothing that leads out of the folder, and not what the authority's are called.
fn file_name(arguments: &NewCert) -> Result<String, Exit> {
    let kept = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' | '_' => letter,
        _ => '_',
    };
    let name = match &arguments.file {
        Some(file) => file.clone(),
        None => arguments.names[0].chars().map(kept).collect(),
    };
    match name == AUTHORITY || name.is_empty() || name.starts_with('.') || name.contains('/') {
        true => Err(usage(&format!(
            "{name:?} cannot be the name of the files: choose another one by --file"
        ))),
        false => Ok(name),
    }
}

fn unmade(error: &rcgen::Error) -> Exit {
    eprintln!("courser: no certificate could be made: {error}");
    Exit::Internal
}
