//! Certificates, keys and revocation lists of one listener: read from files, and read again.
//!
//! What is read is checked as a whole before it replaces what is there; connections keep what they began with. A file that cannot
//! be read, or does not fit the others, changes nothing and is said.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use courser_settings::{ClientCertificates as Shown, Listener, TlsVersion, read_whole};
use courser_transport::tls::{
    self, Authority, ClientCertificates, Doubt, MaterialError, Part, ServerMaterial, ServerTls,
    Versions,
};

use crate::clock::unix_seconds;
use crate::faults::first;

/// Largest file that is read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Fields of a listener that name the files.
const CERTIFICATE: &str = "certificate";
const KEY: &str = "key";
const AUTHORITIES: &str = "client_authorities";
const REVOCATIONS: &str = "client_revocations";

/// Why certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("listener \"{listener}\": cannot read {}{}", path.display(), perhaps_confined(source))]
    Read {
        /// The listener.
        listener: String,
        /// Its field that names the file.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What is in it cannot be used.
    #[error("listener \"{listener}\": {}", path.display())]
    Material {
        /// The listener.
        listener: String,
        /// Its field that names the file.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<MaterialError>,
    },
}

/// What else than the modes of a file may be the reason: the kernel says the same of both.
fn perhaps_confined(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            " (by its modes, or by sandbox.landlock, which keeps to the folders that settings named at the start: sandbox.read names more)"
        }
        _ => "",
    }
}

/// Files of a listener with TLS.
#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
    authorities: Option<PathBuf>,
    revocations: Option<PathBuf>,
    shown: Shown,
    versions: Versions,
    protocols: Vec<Vec<u8>>,
}

/// What new connections of a listener are served with.
#[derive(Debug)]
pub(crate) struct Certificates {
    listener: String,
    files: Files,
    /// Read once a handshake and written once a reload.
    current: Mutex<(ServerMaterial, ServerTls)>,
}

/// What files said, and is of use.
#[derive(Debug)]
pub(crate) struct Loaded {
    material: ServerMaterial,
    server: ServerTls,
}

/// Whether reading again has changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reread {
    /// New connections get something else.
    Changed,
    /// The files say what they said.
    Same,
}

impl Certificates {
    /// Reads the files of a listener; None for one without TLS.
    pub(crate) fn read(listener: &Listener) -> Result<Option<Arc<Self>>, CertificateError> {
        let Some(files) = Files::of(listener) else {
            return Ok(None);
        };
        let current = files.load(&listener.name).map_err(first)?;
        Ok(Some(Arc::new(Self {
            listener: listener.name.clone(),
            files,
            current: Mutex::new(current),
        })))
    }

    /// What is wrong with the files of a listener: all that cannot be read, or what they say.
    pub(crate) fn faults(listener: &Listener) -> Vec<CertificateError> {
        let files = Files::of(listener);
        let loaded = files.map(|files| files.load(&listener.name));
        loaded.and_then(Result::err).unwrap_or_default()
    }

    /// What is doubtful in what the files of a listener say, with the field and the file; of files that cannot be read nothing. `now` in seconds
    /// since 1970.
    pub(crate) fn doubts(listener: &Listener, now: i64) -> Vec<(&'static str, PathBuf, Doubt)> {
        let files = Files::of(listener);
        let read = files.and_then(|files| Some((files.read(&listener.name).ok()?, files)));
        read.map(|(material, files)| files.doubts(&material, now))
            .unwrap_or_default()
    }

    /// For one new connection.
    pub(crate) fn config(&self) -> Arc<rustls::ServerConfig> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&current.1.config)
    }

    /// The subject, and the seconds since 1970 until which it is valid.
    pub(crate) fn facts(&self) -> (String, i64) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (current.1.subject.clone(), current.1.not_after)
    }

    /// The name of its listener.
    pub(crate) fn listener(&self) -> &str {
        &self.listener
    }

    /// What the files say now. Nothing is served with it yet. Blocks for as long as the disk takes.
    pub(crate) fn load(&self) -> Result<Loaded, CertificateError> {
        let (material, server) = self.files.load(&self.listener).map_err(first)?;
        Ok(Loaded { material, server })
    }

    /// Serves new connections with what was loaded, and says so if it is anything else.
    pub(crate) fn take(&self, loaded: Loaded) -> Reread {
        let replaced = self.replace(loaded);
        if let Some(before) = &replaced {
            let (subject, _) = self.facts();
            tracing::info!(
                event = "certificates_changed",
                listener = self.listener,
                subject,
                "new connections get new certificates"
            );
            self.tell_doubts(before);
        }
        match replaced {
            Some(_) => Reread::Changed,
            None => Reread::Same,
        }
    }

    /// Says what is doubtful in those that are new, and in that they follow those before.
    fn tell_doubts(&self, before: &ServerMaterial) {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut doubts = self.files.doubts(&current.0, unix_seconds().cast_signed());
        let back = tls::stepped_back(before, &current.0).into_iter();
        doubts.extend(back.map(|doubt| self.files.placed(doubt)));
        for (_, path, doubt) in doubts {
            tracing::warn!(
                event = "certificates_doubtful",
                listener = self.listener,
                file = %path.display(),
                "{doubt}"
            );
        }
    }

    /// Says that what is in the files is of no use.
    pub(crate) fn tell_refused(&self, error: &CertificateError) {
        tracing::error!(
            event = "certificates_refused",
            listener = self.listener,
            error = error as &dyn std::error::Error,
            "new connections get the old certificates"
        );
    }

    /// What was there before, if it was anything else.
    fn replace(&self, loaded: Loaded) -> Option<ServerMaterial> {
        let Loaded { material, server } = loaded;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.0 == material {
            return None;
        }
        let (before, _) = std::mem::replace(&mut *current, (material, server));
        Some(before)
    }

    /// Its files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        let Files {
            certificate,
            key,
            authorities,
            revocations,
            ..
        } = &self.files;
        let files = [
            Some(certificate),
            Some(key),
            authorities.as_ref(),
            revocations.as_ref(),
        ];
        files.into_iter().flatten()
    }
}

impl Files {
    /// Those of a listener; None for one without TLS.
    fn of(listener: &Listener) -> Option<Self> {
        let (Some(certificate), Some(key)) = (&listener.certificate, &listener.key) else {
            return None;
        };
        Some(Files {
            certificate: certificate.clone(),
            key: key.clone(),
            authorities: listener.client_authorities.clone(),
            revocations: listener.client_revocations.clone(),
            shown: listener.client_certificates,
            versions: match listener.tls_version_min {
                TlsVersion::V12 => Versions::From12,
                TlsVersion::V13 => Versions::Tls13,
            },
            // Browsers name what they speak; of MQTT's clients hardly anybody does, and not the same.
            protocols: if listener.protocol.is_web() {
                vec![b"http/1.1".to_vec()]
            } else {
                Vec::new()
            },
        })
    }

    /// What they say, if it is of use; all that cannot be read, or else the first that cannot be used.
    fn load(&self, listener: &str) -> Result<(ServerMaterial, ServerTls), Vec<CertificateError>> {
        let material = self.read(listener)?;
        match tls::server(&material) {
            Ok(server) => Ok((material, server)),
            Err(source) => {
                let (field, path) = self.of_part(source.part);
                Err(vec![CertificateError::Material {
                    listener: listener.to_owned(),
                    field,
                    path: path.cloned().unwrap_or_default(),
                    source: Box::new(source),
                }])
            }
        }
    }

    /// The field and the file of a text.
    fn of_part(&self, part: Part) -> (&'static str, Option<&PathBuf>) {
        match part {
            Part::Certificates => (CERTIFICATE, Some(&self.certificate)),
            Part::Key => (KEY, Some(&self.key)),
            Part::Authorities => (AUTHORITIES, self.authorities.as_ref()),
            Part::Revocations => (REVOCATIONS, self.revocations.as_ref()),
            // A server has no other side that it looks for.
            Part::Name => (CERTIFICATE, None),
        }
    }

    fn doubts(&self, material: &ServerMaterial, now: i64) -> Vec<(&'static str, PathBuf, Doubt)> {
        let found = tls::doubts(material, now).into_iter();
        found.map(|doubt| self.placed(doubt)).collect()
    }

    /// A doubt with the field and the file that it is about.
    fn placed(&self, (part, doubt): (Part, Doubt)) -> (&'static str, PathBuf, Doubt) {
        let (field, path) = self.of_part(part);
        (field, path.cloned().unwrap_or_default(), doubt)
    }

    fn read(&self, listener: &str) -> Result<ServerMaterial, Vec<CertificateError>> {
        let mut errors = Vec::new();
        let mut read = |field, path: &Path| {
            read_whole(path, FILE_BYTES_MAX).unwrap_or_else(|source| {
                errors.push(CertificateError::Read {
                    listener: listener.to_owned(),
                    field,
                    path: path.to_owned(),
                    source,
                });
                Vec::new()
            })
        };
        let authority = match &self.authorities {
            None => Authority::default(),
            Some(path) => Authority {
                certificates: read(AUTHORITIES, path),
                revocations: self.revocations.as_ref().map(|it| read(REVOCATIONS, it)),
            },
        };
        let material = ServerMaterial {
            certificates: read(CERTIFICATE, &self.certificate),
            key: read(KEY, &self.key),
            clients: match self.shown {
                Shown::Off => ClientCertificates::Off,
                Shown::Asked => ClientCertificates::Asked(authority),
                Shown::Required => ClientCertificates::Required(authority),
            },
            versions: self.versions,
            protocols: self.protocols.clone(),
        };
        match errors.is_empty() {
            true => Ok(material),
            false => Err(errors),
        }
    }
}
