//! What a client is set up with.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::{MaterialError, Part, TlsError, Versions, certificates, of, provider, roots};

/// What a client is set up with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientMaterial {
    /// PEM text of the authorities that are trusted.
    pub authorities: Vec<u8>,
    /// Whether each of them must be of use.
    pub trust: Trust,
    /// PEM texts of the client's certificates and of their key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether the name in the server's certificate is checked. Its authority always is.
    pub names: NameCheck,
    /// Protocols to offer (ALPN).
    pub protocols: Vec<Vec<u8>>,
}

/// Whether each certificate of an authority must be of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// It must: somebody has named them.
    #[default]
    All,
    /// Those that are will do, as of the many that a system trusts.
    Any,
}

/// Whether a server must be who its address says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameCheck {
    /// It must.
    #[default]
    On,
    /// Any server with a certificate of a trusted authority will do, as with Mosquitto's `--insecure`.
    Off,
}

/// Sets a client up.
///
/// # Errors
/// When a text is not what it should be.
pub fn client(material: &ClientMaterial) -> Result<Arc<ClientConfig>, MaterialError> {
    let roots = match material.trust {
        Trust::All => roots(&material.authorities),
        Trust::Any => usable_roots(&material.authorities),
    };
    let roots = Arc::new(roots.map_err(of(Part::Authorities))?);
    let provider = provider();
    let verifier =
        rustls::client::WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(|_| of(Part::Authorities)(TlsError::NoAuthority))?;
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(Versions::From12.all())
        .map_err(|error| of(Part::Authorities)(TlsError::Library(error)))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Verifier {
            inner: verifier,
            names: material.names,
            provider,
        }));
    let mut config = match &material.identity {
        None => builder.with_no_client_auth(),
        Some((text, key)) => {
            let chain = certificates(text).map_err(of(Part::Certificates))?;
            let key =
                PrivateKeyDer::from_pem_slice(key).map_err(|_| of(Part::Key)(TlsError::NoKey))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| of(Part::Key)(TlsError::KeyMismatch(error)))?
        }
    };
    config.alpn_protocols.clone_from(&material.protocols);
    Ok(Arc::new(config))
}

/// The library's verifier, less the name where that is asked for.
#[derive(Debug)]
struct Verifier {
    inner: Arc<rustls::client::WebPkiServerVerifier>,
    names: NameCheck,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
        let verified = self.inner.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match (verified, self.names) {
            (
                Err(rustls::Error::InvalidCertificate(
                    NotValidForName | NotValidForNameContext { .. },
                )),
                NameCheck::Off,
            ) => Ok(ServerCertVerified::assertion()),
            (verified, NameCheck::On | NameCheck::Off) => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The name under which a server must show its certificate.
///
/// # Errors
/// When `host` is neither an address nor a DNS name.
pub fn server_name(host: &str) -> Result<ServerName<'static>, MaterialError> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| of(Part::Name)(TlsError::BadName(host.to_owned())))
}

fn usable_roots(text: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(certificates(text)?);
    if added == 0 {
        return Err(TlsError::NoAuthority);
    }
    Ok(store)
}
