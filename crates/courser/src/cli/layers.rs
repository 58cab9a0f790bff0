//! The flags that say what lies between a socket and MQTT: TLS with the names that Mosquitto's commands have for it, and WebSocket.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use courser_client::{ClientMaterial, Layers, MaterialError, NameCheck, Part, Trust};
use serde::{Deserialize, Serialize};

use super::headings;

/// Where systems keep the authorities that they trust, in one file.
const SYSTEM_AUTHORITIES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];
/// Names another such file.
const SYSTEM_VARIABLE: &str = "SSL_CERT_FILE";
/// Path of the WebSocket where none is named.
const WEB_PATH: &str = "/mqtt";

/// How a connection is wrapped; any flag of TLS asks for TLS.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Wrapping {
    /// TLS; authorities are those that this system trusts unless --cafile or --capath names others
    #[arg(long, visible_alias = "tls-use-os-certs", help_heading = headings::LAYERS)]
    tls: bool,
    /// TLS: PEM file of the authorities that are trusted
    #[arg(long, value_name = "FILE", help_heading = headings::LAYERS)]
    cafile: Option<PathBuf>,
    /// TLS: folder of such files
    #[arg(long, value_name = "FOLDER", help_heading = headings::LAYERS)]
    capath: Option<PathBuf>,
    /// TLS: PEM file of the own certificate
    #[arg(long, value_name = "FILE", requires = "key", help_heading = headings::LAYERS)]
    cert: Option<PathBuf>,
    /// TLS: PEM file of its private key
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = headings::LAYERS)]
    key: Option<PathBuf>,
    /// TLS: whatever name is in the server's certificate, as long as its authority is trusted
    #[arg(long, help_heading = headings::LAYERS)]
    insecure: bool,
    /// TLS: protocol to name in the handshake (ALPN)
    #[arg(long, value_name = "PROTOCOL", help_heading = headings::LAYERS)]
    tls_alpn: Option<String>,
    /// WebSocket
    #[arg(long, help_heading = headings::LAYERS)]
    ws: bool,
    /// Path of the WebSocket; /mqtt if none is named
    #[arg(long, value_name = "PATH", help_heading = headings::LAYERS)]
    ws_path: Option<String>,
}

/// What is spoken below MQTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// TCP.
    #[default]
    Mqtt,
    /// TLS.
    Mqtts,
    /// WebSocket.
    Ws,
    /// WebSocket in TLS.
    Wss,
}

impl Scheme {
    /// The port that it has where none is named.
    pub(crate) const fn port(self) -> u16 {
        match self {
            Self::Mqtt => 1883,
            Self::Mqtts => 8883,
            Self::Ws => 8083,
            Self::Wss => 8084,
        }
    }

    pub(crate) const fn has_tls(self) -> bool {
        matches!(self, Self::Mqtts | Self::Wss)
    }

    const fn has_web(self) -> bool {
        matches!(self, Self::Ws | Self::Wss)
    }
}

impl Wrapping {
    /// These flags, and what others say where these say nothing. Authorities go together, and so do a certificate and its key.
    pub(crate) fn over(&self, others: &Self) -> Self {
        let authorities = if self.cafile.is_some() || self.capath.is_some() {
            self
        } else {
            others
        };
        let own = if self.cert.is_some() { self } else { others };
        let first = |this: &Option<String>, other: &Option<String>| {
            this.as_ref().or(other.as_ref()).cloned()
        };
        Self {
            tls: self.tls || others.tls,
            cafile: authorities.cafile.clone(),
            capath: authorities.capath.clone(),
            cert: own.cert.clone(),
            key: own.key.clone(),
            insecure: self.insecure || others.insecure,
            tls_alpn: first(&self.tls_alpn, &others.tls_alpn),
            ws: self.ws || others.ws,
            ws_path: first(&self.ws_path, &others.ws_path),
        }
    }

    /// The same with files that are found from any folder.
    pub(crate) fn anywhere(&self) -> io::Result<Self> {
        let mut all = self.clone();
        let files = [
            &mut all.cafile,
            &mut all.capath,
            &mut all.cert,
            &mut all.key,
        ];
        for file in files.into_iter().flatten() {
            *file = std::path::absolute(&*file)?;
        }
        Ok(all)
    }

    /// What the flags and a URL ask for together.
    pub(crate) fn scheme(&self, url: Scheme) -> Scheme {
        let files = [&self.cafile, &self.capath, &self.cert, &self.key];
        let named = files.iter().any(|file| file.is_some()) || self.tls_alpn.is_some();
        let tls = url.has_tls() || self.tls || self.insecure || named;
        let web = url.has_web() || self.ws || self.ws_path.is_some();
        match (tls, web) {
            (false, false) => Scheme::Mqtt,
            (true, false) => Scheme::Mqtts,
            (false, true) => Scheme::Ws,
            (true, true) => Scheme::Wss,
        }
    }

    /// Layers to a server; the error is for people.
    pub(crate) fn layers(&self, scheme: Scheme, host: &str, port: u16) -> Result<Layers, String> {
        let mut layers = Layers::default();
        if scheme.has_tls() {
            let material = self.material()?;
            layers = layers
                .with_tls(host, &material)
                .map_err(|error| self.blame(&error))?;
        }
        if scheme.has_web() {
            let path = self.ws_path.as_deref().unwrap_or(WEB_PATH);
            if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(format!(
                    "\"{path}\" is no path: write one such as {WEB_PATH}"
                ));
            }
            layers = layers.with_web(host, port, path);
        }
        Ok(layers)
    }

    fn material(&self) -> Result<ClientMaterial, String> {
        let mut authorities = Vec::new();
        if let Some(file) = &self.cafile {
            authorities = read(file)?;
        }
        if let Some(folder) = &self.capath {
            read_folder(folder, &mut authorities).map_err(|error| cannot_read(folder, &error))?;
        }
        // A folder may hold other files beside certificates, and a system certificates of many kinds.
        let mut trust = match self.capath {
            Some(_) => Trust::Any,
            None => Trust::All,
        };
        if self.cafile.is_none() && self.capath.is_none() {
            trust = Trust::Any;
            authorities = system_authorities()?;
        }
        let identity = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some((read(cert)?, read(key)?)),
            (None | Some(_), None | Some(_)) => None,
        };
        let protocol = self.tls_alpn.as_ref();
        Ok(ClientMaterial {
            authorities,
            trust,
            identity,
            names: if self.insecure {
                NameCheck::Off
            } else {
                NameCheck::On
            },
            protocols: protocol
                .map(|name| name.clone().into_bytes())
                .into_iter()
                .collect(),
        })
    }

    /// Says which file an error is about.
    fn blame(&self, error: &MaterialError) -> String {
        let file = match error.part {
            Part::Certificates => self.cert.as_ref(),
            Part::Key => self.key.as_ref(),
            Part::Authorities => self.cafile.as_ref().or(self.capath.as_ref()),
            Part::Revocations | Part::Name => None,
        };
        match file {
            Some(file) => format!("cannot use {}: {error}", file.display()),
            None => error.to_string(),
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| cannot_read(file, &error))
}

/// All certificates of a folder, one file after the other.
fn read_folder(folder: &Path, all: &mut Vec<u8>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let ends = path.extension().and_then(|end| end.to_str());
        if path.is_file() && matches!(ends, Some("pem" | "crt" | "cer" | "0")) {
            all.extend(fs::read(&path)?);
            all.push(b'\n');
        }
    }
    Ok(())
}

fn system_authorities() -> Result<Vec<u8>, String> {
    if let Some(file) = std::env::var_os(SYSTEM_VARIABLE) {
        return read(Path::new(&file));
    }
    let found = SYSTEM_AUTHORITIES
        .iter()
        .map(Path::new)
        .find(|file| file.is_file());
    let file = found.ok_or("this system names no authorities: write --cafile FILE")?;
    read(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_the_url_ask_together() {
        let file = || Some(PathBuf::from("x"));
        let none = Wrapping::default;
        for (flags, url, expected) in [
            (none(), Scheme::Mqtt, Scheme::Mqtt),
            (none(), Scheme::Wss, Scheme::Wss),
            (
                Wrapping {
                    tls: true,
                    ..none()
                },
                Scheme::Mqtt,
                Scheme::Mqtts,
            ),
            (
                Wrapping {
                    cafile: file(),
                    ..none()
                },
                Scheme::Mqtt,
                Scheme::Mqtts,
            ),
            (
                Wrapping {
                    insecure: true,
                    ..none()
                },
                Scheme::Ws,
                Scheme::Wss,
            ),
            (Wrapping { ws: true, ..none() }, Scheme::Mqtts, Scheme::Wss),
            (
                Wrapping {
                    ws_path: Some("/x".into()),
                    ..none()
                },
                Scheme::Mqtt,
                Scheme::Ws,
            ),
        ] {
            assert_eq!(flags.scheme(url), expected, "{flags:?} with {url:?}");
        }
    }

    #[test]
    fn flags_go_before_what_is_kept() {
        let kept = Wrapping {
            cafile: Some("kept.pem".into()),
            cert: Some("kept.crt".into()),
            key: Some("kept.key".into()),
            ws_path: Some("/kept".into()),
            ..Wrapping::default()
        };
        assert_eq!(Wrapping::default().over(&kept), kept);
        let flags = Wrapping {
            capath: Some("folder".into()),
            insecure: true,
            ws_path: Some("/x".into()),
            ..Wrapping::default()
        };
        let both = flags.over(&kept);
        assert_eq!((&both.cafile, &both.capath), (&None, &flags.capath));
        assert_eq!((&both.cert, &both.key), (&kept.cert, &kept.key));
        assert_eq!(both.ws_path, flags.ws_path);
        assert!(both.insecure && !both.tls);
        let own = kept.over(&flags);
        assert_eq!(
            own,
            Wrapping {
                insecure: true,
                ..kept
            }
        );
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("ca.pem");
        let flags = Wrapping {
            cafile: Some(file.clone()),
            ..Wrapping::default()
        };
        let error = || {
            flags
                .layers(Scheme::Mqtts, "h", 1)
                .expect_err("no authority")
        };
        assert!(error().starts_with(&format!("cannot read {}", file.display())));
        fs::write(&file, "nothing").expect("a file");
        assert!(error().starts_with(&format!("cannot use {}", file.display())));
        let flags = Wrapping {
            ws_path: Some("mqtt\r\nX: y".into()),
            ..Wrapping::default()
        };
        assert!(flags.layers(Scheme::Ws, "h", 1).is_err());
    }
}
