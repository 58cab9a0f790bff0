//! TLS: what a server or a client is set up with, from the text of PEM files.
//!
//! A configuration is made as a whole and never changed; a server that gets new certificates makes another one for the
//! connections that come after, and those that are there keep theirs. A configuration that asks for client certificates keeps
//! no sessions for resumption: each connection shows its certificate again, so that a revoked one is not let in by a ticket.

mod client;
mod revocations;
mod standing;

pub use client::{ClientMaterial, NameCheck, Trust, client, server_name};
pub use standing::{Doubt, doubts, stepped_back};

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
pub use rustls::pki_types::ServerName;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
pub use rustls::{AlertDescription as Alert, CertificateError, ClientConfig, Error as Fault};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Versions of TLS that are spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// 1.3 only.
    #[default]
    Tls13,
    /// 1.2 and 1.3.
    From12,
}

static NEW: &[&SupportedProtocolVersion] = &[&version::TLS13];
static OLD: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];

impl Versions {
    fn all(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls13 => NEW,
            Self::From12 => OLD,
        }
    }
}

/// Whether clients show certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not asked.
    #[default]
    Off,
    /// They are asked, and may have none. One that does not verify ends the handshake.
    Asked(Authority),
    /// Without one that verifies the handshake fails.
    Required(Authority),
}

/// Who signs client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Authority {
    /// PEM text of one or more certificates.
    pub certificates: Vec<u8>,
    /// PEM text of revocation lists. Once given there must be a current one for every authority of a chain. Of several of one authority and scope
    /// the latest counts: the one with the highest number, or where one has no number the one that was made last.
    pub revocations: Option<Vec<u8>>,
}

/// What a server is set up with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerMaterial {
    /// PEM text of the certificate and those that lead to its authority.
    pub certificates: Vec<u8>,
    /// PEM text of its private key.
    pub key: Vec<u8>,
    /// Certificates of clients.
    pub clients: ClientCertificates,
    /// Versions.
    pub versions: Versions,
    /// Protocols to agree on (ALPN). Empty: whatever the client names is ignored.
    pub protocols: Vec<Vec<u8>>,
}

/// A server's configuration with what is worth saying of it.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// For new connections.
    pub config: Arc<ServerConfig>,
    /// The subject of the certificate, for people.
    pub subject: String,
    /// Seconds since 1970 after which the certificate is not valid any more.
    pub not_after: i64,
}

/// What is wrong with certificates or keys.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// There is no certificate in the text.
    #[error("no certificate (-----BEGIN CERTIFICATE-----) in it")]
    NoCertificate,
    /// One of them is malformed.
    #[error("a certificate in it is malformed")]
    BadCertificate,
    /// There is no private key, or it is encrypted or malformed.
    #[error("no private key in it that can be read (PKCS #8, SEC 1 or PKCS #1, not encrypted)")]
    NoKey,
    /// Key and certificate do not belong together, or the key is of a kind that is not used.
    #[error("the private key cannot be used with the certificate")]
    KeyMismatch(#[source] rustls::Error),
    /// There is no certificate of an authority that can be used.
    #[error("no certificate of an authority in it that can be used")]
    NoAuthority,
    /// There is no revocation list, or one is malformed.
    #[error("no revocation list (-----BEGIN X509 CRL-----) in it that can be read")]
    NoRevocations,
    /// A list names an authority that has not signed it.
    #[error("a revocation list in it is not signed by the authority that it names")]
    ForgedRevocations,
    /// It cannot be said which of two lists of an authority counts.
    #[error(
        "it cannot be said which of two revocation lists of {authority} in it counts, {one} or {other}: remove one"
    )]
    UnorderedRevocations {
        /// Their authority.
        authority: String,
        /// Number and moment of the first one in the text.
        one: String,
        /// Those of the other one.
        other: String,
    },
    /// What a server is called is neither a DNS name nor an address.
    #[error("\"{0}\" is neither a DNS name nor an address")]
    BadName(String),
    /// The TLS library does not take it.
    #[error("TLS cannot be set up")]
    Library(#[source] rustls::Error),
}

/// Which text an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The certificates of the server, or of the client.
    Certificates,
    /// Their private key.
    Key,
    /// The authorities of the other side.
    Authorities,
    /// Revocation lists.
    Revocations,
    /// The name of the server.
    Name,
}

/// An error with the text that it is about.
#[derive(Debug)]
pub struct MaterialError {
    /// Which text.
    pub part: Part,
    /// What is wrong.
    pub error: TlsError,
}

impl fmt::Display for MaterialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Error for MaterialError {
    /// What is behind the error: it says the error itself.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

fn of(part: Part) -> impl Fn(TlsError) -> MaterialError {
    move |error| MaterialError { part, error }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Sets a server up. Costs a few signature checks.
///
/// # Errors
/// When a text is not what it should be, or key and certificate do not belong together.
pub fn server(material: &ServerMaterial) -> Result<ServerTls, MaterialError> {
    let chain = certificates(&material.certificates).map_err(of(Part::Certificates))?;
    let (subject, not_after) = facts(&chain[0]).map_err(of(Part::Certificates))?;
    let provider = provider();
    let certified = certified(chain, &material.key, &provider)?;
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(material.versions.all())
        .map_err(|error| of(Part::Certificates)(TlsError::Library(error)))?;
    let asks = match &material.clients {
        ClientCertificates::Off => None,
        ClientCertificates::Asked(authority) => Some((authority, Presence::Optional)),
        ClientCertificates::Required(authority) => Some((authority, Presence::Required)),
    };
    let builder = match asks {
        None => builder.with_no_client_auth(),
        Some((authority, presence)) => {
            builder.with_client_cert_verifier(verifier(authority, presence, provider)?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(Only(certified)));
    config.alpn_protocols.clone_from(&material.protocols);
    config.send_tls13_tickets = 1;
    if asks.is_some() {
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
    } else {
        config.ticketer = aws_lc_rs::Ticketer::new()
            .map_err(|error| of(Part::Certificates)(TlsError::Library(error)))?;
    }
    Ok(ServerTls {
        config: Arc::new(config),
        subject,
        not_after,
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Optional,
    Required,
}

fn verifier(
    authority: &Authority,
    presence: Presence,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, MaterialError> {
    let roots = Arc::new(roots(&authority.certificates).map_err(of(Part::Authorities))?);
    let mut builder = WebPkiClientVerifier::builder_with_provider(roots, provider);
    if let Some(text) = &authority.revocations {
        let lists = lists(text).map_err(of(Part::Revocations))?;
        let signers = certificates(&authority.certificates).map_err(of(Part::Authorities))?;
        if lists.iter().any(|list| standing::is_forged(list, &signers)) {
            return Err(of(Part::Revocations)(TlsError::ForgedRevocations));
        }
        let lists = revocations::counting(lists).map_err(of(Part::Revocations))?;
        builder = builder.with_crls(lists).enforce_revocation_expiration();
    }
    if presence == Presence::Optional {
        builder = builder.allow_unauthenticated();
    }
    builder.build().map_err(|error| {
        use rustls::server::VerifierBuilderError as E;
        match error {
            E::InvalidCrl(_) => of(Part::Revocations)(TlsError::NoRevocations),
            _ => of(Part::Authorities)(TlsError::NoAuthority),
        }
    })
}

/// The one certificate that is shown, whatever name a client asks for.
#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

fn certified(
    chain: Vec<CertificateDer<'static>>,
    key: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, MaterialError> {
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| of(Part::Key)(TlsError::NoKey))?;
    let certified = CertifiedKey::from_der(chain, key, provider)
        .map_err(|error| of(Part::Key)(TlsError::KeyMismatch(error)))?;
    Ok(Arc::new(certified))
}

/// All items of one kind in a PEM text, at least one: else `none`, and `bad` for one that is none.
fn at_least_one<T: PemObject>(
    text: &[u8],
    bad: TlsError,
    none: TlsError,
) -> Result<Vec<T>, TlsError> {
    let all: Vec<T> = T::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|_| bad)?;
    if all.is_empty() {
        return Err(none);
    }
    Ok(all)
}

fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    at_least_one(text, TlsError::BadCertificate, TlsError::NoCertificate)
}

fn roots(text: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(text)? {
        store.add(certificate).map_err(|_| TlsError::NoAuthority)?;
    }
    Ok(store)
}

fn lists(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    at_least_one(text, TlsError::NoRevocations, TlsError::NoRevocations)
}

/// Subject and end of a certificate.
fn facts(certificate: &CertificateDer<'_>) -> Result<(String, i64), TlsError> {
    let (_, parsed) =
        X509Certificate::from_der(certificate).map_err(|_| TlsError::BadCertificate)?;
    let end = parsed.validity().not_after.timestamp();
    Ok((parsed.subject().to_string(), end))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn what_is_wrong_is_said_once_and_then_why() {
        let [key, other] = [(); 2].map(|()| KeyPair::generate().expect("a key"));
        let named = CertificateParams::new(["broker.example".to_owned()]).expect("a name");
        let certificate = named.self_signed(&key).expect("a certificate");
        let material = ServerMaterial {
            certificates: certificate.pem().into_bytes(),
            key: other.serialize_pem().into_bytes(),
            ..ServerMaterial::default()
        };
        let error = server(&material).expect_err("the key is another one's");
        let mut said = vec![error.to_string()];
        let mut next = error.source();
        while let Some(error) = next {
            said.push(error.to_string());
            next = error.source();
        }
        assert_eq!(
            said[0],
            "the private key cannot be used with the certificate"
        );
        assert!(said.len() > 1, "{said:?}");
        assert!(!said[1..].contains(&said[0]), "{said:?}");
    }
}
