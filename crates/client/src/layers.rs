//! What lies between a client's socket and MQTT: TLS, WebSocket, both or nothing.

use std::sync::Arc;

use courser_transport::tls::{
    self, Alert, CertificateError, ClientConfig, ClientMaterial, Fault, MaterialError, ServerName,
};
use courser_transport::{Tunnel, TunnelError, WebError};

use crate::ClientError;

/// The layers of a connection; the default has none. Made once and used for any number of connections.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    web: Option<Web>,
}

#[derive(Clone, Debug)]
struct Web {
    /// What the request names as its host: with the port.
    host: String,
    path: String,
}

impl Layers {
    /// Adds TLS to the server of this name, which is a DNS name or an address.
    ///
    /// # Errors
    /// When certificates or keys cannot be used.
    pub fn with_tls(
        mut self,
        host: &str,
        material: &ClientMaterial,
    ) -> Result<Self, MaterialError> {
        let config = tls::client(material)?;
        self.tls = Some((config, tls::server_name(host)?));
        Ok(self)
    }

    /// Adds WebSocket at a path such as `/mqtt`.
    #[must_use]
    pub fn with_web(mut self, host: &str, port: u16, path: &str) -> Self {
        let host = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        self.web = Some(Web {
            host,
            path: path.to_owned(),
        });
        self
    }

    /// Begins one connection's layers; `None` where there are none.
    pub(crate) fn begin(&self) -> Result<Option<Box<Tunnel>>, TunnelError> {
        if self.tls.is_none() && self.web.is_none() {
            return Ok(None);
        }
        let web = self.web.as_ref();
        let web = web.map(|web| (web.host.as_str(), web.path.as_str()));
        Tunnel::client(self.tls.clone(), web).map(|tunnel| Some(Box::new(tunnel)))
    }
}

/// A fault of the layers while they begin.
pub(crate) fn refused(address: String, fault: TunnelError) -> ClientError {
    ClientError::Layers {
        address,
        hint: hint(&fault),
        source: Box::new(fault),
    }
}

/// What to try.
fn hint(fault: &TunnelError) -> &'static str {
    use CertificateError::UnknownIssuer;
    match fault {
        TunnelError::Tls(Fault::InvalidCertificate(UnknownIssuer)) => {
            " (name the file of its authority with --cafile)"
        }
        TunnelError::Tls(Fault::InvalidMessage(_)) => " (is this a port with TLS?)",
        TunnelError::Tls(Fault::AlertReceived(Alert::CertificateRequired)) => {
            " (show a certificate with --cert and --key)"
        }
        TunnelError::Web(WebError::Malformed) => " (is this a port with WebSocket?)",
        TunnelError::Web(WebError::Refused(404)) => " (name the path with --ws-path)",
        TunnelError::Tls(_) | TunnelError::Web(_) | TunnelError::Full => "",
    }
}
