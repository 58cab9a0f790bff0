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
        what: words(&fault).unwrap_or_else(|| fault.to_string()),
        hint: hint(&fault),
        source: Box::new(fault),
    }
}

/// What is wrong with a certificate of a server, where the library says it in words of its own.
fn words(fault: &TunnelError) -> Option<String> {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    let TunnelError::Tls(Fault::InvalidCertificate(fault)) = fault else {
        return None;
    };
    let what = match fault {
        UnknownIssuer => "was signed by nobody who is trusted here".to_owned(),
        Expired => "has expired".to_owned(),
        ExpiredContext { time, not_after } => {
            let seconds = time.as_secs().saturating_sub(not_after.as_secs());
            format!("has expired, {} ago", rough(seconds))
        }
        NotValidYet => "is not valid yet".to_owned(),
        NotValidYetContext { time, not_before } => {
            let seconds = not_before.as_secs().saturating_sub(time.as_secs());
            format!("is not valid yet, for another {}", rough(seconds))
        }
        NotValidForName => "is for another name".to_owned(),
        NotValidForNameContext {
            expected,
            presented,
        } => {
            // The library writes a kind around each.
            let names = presented
                .iter()
                .map(|name| name.split('"').nth(1).unwrap_or(name));
            let names: Vec<&str> = names.collect();
            let asked = expected.to_str();
            match names.is_empty() {
                true => format!("has no name, and {asked} was asked for"),
                false => format!("is for {}, and not for {asked}", names.join(", ")),
            }
        }
        fault if is_of_an_authority(fault) => {
            "is that of an authority, which signs others and serves nobody itself".to_owned()
        }
        _ => return None,
    };
    Some(format!("TLS: the server's certificate {what}"))
}

/// Days, or hours where it is less than two of them, or minutes.
fn rough(seconds: u64) -> String {
    const DAY: u64 = 86_400;
    match seconds {
        0..7_200 => format!("{} min", seconds.div_ceil(60)),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / DAY),
    }
}

/// Whether a server shows the certificate of an authority, as one that is signed by itself often is.
fn is_of_an_authority(fault: &CertificateError) -> bool {
    let CertificateError::Other(other) = fault else {
        return false;
    };
    let fault = other.0.downcast_ref::<webpki::Error>();
    fault.is_some_and(|fault| matches!(fault, webpki::Error::CaUsedAsEndEntity))
}

/// What to try.
fn hint(fault: &TunnelError) -> &'static str {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet,
        NotValidYetContext, UnknownIssuer,
    };
    match fault {
        TunnelError::Tls(Fault::InvalidCertificate(fault)) => match fault {
            UnknownIssuer => " (name the file of its authority with --cafile)",
            Expired | ExpiredContext { .. } => {
                " (the server needs another one; or is the clock here right?)"
            }
            NotValidYet | NotValidYetContext { .. } => " (is the clock here right?)",
            NotValidForName | NotValidForNameContext { .. } => {
                " (name the server as its certificate does; --insecure passes over the name)"
            }
            fault if is_of_an_authority(fault) => {
                " (give the server one that its authority has signed)"
            }
            _ => "",
        },
        TunnelError::Tls(Fault::InvalidMessage(_)) => " (is this a port with TLS?)",
        TunnelError::Tls(Fault::AlertReceived(Alert::CertificateRequired)) => {
            " (show a certificate with --cert and --key)"
        }
        TunnelError::Tls(Fault::AlertReceived(Alert::CertificateRevoked)) => {
            " (the certificate of --cert was revoked: its authority has to sign another one)"
        }
        TunnelError::Tls(Fault::AlertReceived(Alert::CertificateExpired)) => {
            " (the certificate of --cert has expired for the server: show a newer one; or is its clock right?)"
        }
        TunnelError::Tls(Fault::AlertReceived(Alert::UnknownCA)) => {
            " (the certificate of --cert was signed by nobody whom the server trusts: show one of its client_authorities)"
        }
        TunnelError::Tls(Fault::AlertReceived(
            Alert::BadCertificate | Alert::CertificateUnknown | Alert::UnsupportedCertificate,
        )) => {
            " (the server does not take the certificate of --cert: is it one for clients, valid now, and is the revocation list of its authority current there?)"
        }
        TunnelError::Web(WebError::Malformed) => " (is this a port with WebSocket?)",
        TunnelError::Web(WebError::Refused(404)) => " (name the path with --ws-path)",
        TunnelError::Tls(_) | TunnelError::Web(_) | TunnelError::Full => "",
    }
}
