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

use super::files::{Pair, read, shown};
use super::key::signing_key;
use super::{NewCa, NewCert};
use crate::cli::exit::{Exit, usage};
use crate::cli::plain::quoted;
use crate::operate::say;

/// Name of the authority's files.
const AUTHORITY: &str = "ca";
/// The longest common name that X.509 has room for (RFC 5280, ub-common-name).
const COMMON_NAME_MAX: usize = 64;
/// The longest name that a file has on a usual file system, in bytes.
const FILE_NAME_MAX: usize = 255;
/// Days for which a server's certificate of any authority may hold at most for clients of Apple (support.apple.com/103769).
const DAYS_OF_APPLE: i32 = 825;

/// Makes an authority.
pub(super) fn new_ca(arguments: &NewCa) -> Result<(), Exit> {
    let name = common_name(&arguments.name)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    // It signs certificates of servers and clients, and no further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ends = lasts(&mut params, arguments.days, None).end();
    let key = KeyPair::generate().map_err(|error| unmade(&error))?;
    let certificate = params.self_signed(&key).map_err(|error| unmade(&error))?;
    let pair = Pair::new(&arguments.making.folder, AUTHORITY);
    pair.write(&certificate.pem(), &key.serialize_pem())?;
    say(&format!(
        "wrote {certificate}, until {ends}: what clients trust (--cafile), and client_authorities of a listener\nwrote {key}: keep it secret; whoever has it can be any server and any client\n",
        certificate = shown(&pair.certificate),
        key = shown(&pair.key),
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
    let holds = lasts(&mut params, arguments.days, Some(authority.ends));
    let ends = holds.end();
    let key = KeyPair::generate().map_err(|error| unmade(&error))?;
    let certificate = params
        .signed_by(&key, &authority.issuer)
        .map_err(|error| unmade(&error))?;
    if !authority.is_issuer_of(certificate.der()) {
        eprintln!(
            "courser: {}: the name of this authority has parts of one kind, or joined ones, which cannot be repeated: sign with the program that has made it",
            shown(&arguments.making.folder)
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
        shown(&pair.certificate),
        shown(&pair.key),
    ))?;
    if !arguments.client && holds.days() > DAYS_OF_APPLE {
        eprintln!(
            "courser: warning: {} holds for {} days, since it begins a day before it is made: clients of Apple refuse a server's certificate of more than {DAYS_OF_APPLE}",
            shown(&pair.certificate),
            holds.days(),
        );
    }
    Ok(())
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
            eprintln!("courser: {}: {why}", shown(path));
            Exit::Refused
        };
        let malformed = || unusable(&pair.certificate, "no certificate of an authority");
        let (pem, _) = Pem::read(std::io::Cursor::new(&certificate)).map_err(|_| malformed())?;
        let parsed = pem.parse_x509().map_err(|_| malformed())?;
        if !parsed.is_ca() {
            return Err(malformed());
        }
        let key = signing_key(&key).map_err(|why| unusable(&pair.key, why))?;
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
        return Err(usage(&format!(
            "{} is no host name and no address",
            quoted(name)
        )));
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

/// From when until when a certificate holds: from the beginning of one day to that of another, by UTC.
struct Holds {
    from: Date,
    until: Date,
}

impl Holds {
    fn days(&self) -> i32 {
        (self.until - self.from).get_days()
    }

    /// When it ends, for people.
    fn end(&self) -> String {
        format!("{} 00:00 UTC", self.until)
    }
}

/// Sets from when until when it holds, by days: since yesterday, because clocks of clients may be behind.
fn lasts(params: &mut CertificateParams, days: u32, at_most: Option<Date>) -> Holds {
    let today = today();
    let until = today.saturating_add(Span::new().days(days));
    let holds = Holds {
        from: today.saturating_sub(Span::new().days(1)),
        until: at_most.map_or(until, |at_most| until.min(at_most)),
    };
    let of = |date: Date| {
        date_time_ymd(
            date.year().into(),
            date.month().unsigned_abs(),
            date.day().unsigned_abs(),
        )
    };
    params.not_before = of(holds.from);
    params.not_after = of(holds.until);
    holds
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
            "{}: a name has 1 to {COMMON_NAME_MAX} characters, none of control",
            quoted(name)
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
    if name == AUTHORITY || name.is_empty() || name.starts_with('.') || name.contains('/') {
        return Err(usage(&format!(
            "{} cannot be the name of the files: choose another one by --file",
            quoted(&name)
        )));
    }
    match name.len() + Pair::EXTENSION_BYTES > FILE_NAME_MAX {
        true => Err(usage(&format!(
            "the name of the files would have {} bytes, and {} at most are left beside .pem and .key: choose a shorter one by --file",
            name.len(),
            FILE_NAME_MAX - Pair::EXTENSION_BYTES
        ))),
        false => Ok(name),
    }
}

fn unmade(error: &rcgen::Error) -> Exit {
    eprintln!("courser: no certificate could be made: {error}");
    Exit::Internal
}
