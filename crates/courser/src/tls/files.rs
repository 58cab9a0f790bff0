//! Certificates and keys as files.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::cli::exit::Exit;
use crate::cli::new_file::{Readers, take_back, there_already, write_for};
use crate::cli::plain::plain;

/// A certificate and its key, side by side.
pub(super) struct Pair {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

impl Pair {
    /// What comes behind the name of each.
    pub(super) const EXTENSION_BYTES: usize = ".pem".len();

    /// Of this name.
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self {
            certificate: folder.join(format!("{name}.pem")),
            key: folder.join(format!("{name}.key")),
        }
    }

    /// Writes both, the key for its owner only, or none: never over one that is there.
    ///
    /// # Errors
    /// How the command ends; why is said.
    pub(super) fn write(&self, certificate: &str, key: &str) -> Result<(), Exit> {
        if let Some(folder) = self.key.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
            made.map_err(|error| unwritten(folder, &error))?;
        }
        write_for(Readers::Owner, &self.key, key).map_err(|error| unwritten(&self.key, &error))?;
        write_for(Readers::All, &self.certificate, certificate).map_err(|error| {
            take_back(&self.key);
            unwritten(&self.certificate, &error)
        })
    }
}

/// A path as it is told to people: it may have been made of the name of a client.
pub(super) fn shown(path: &Path) -> String {
    plain(&path.display().to_string())
}

fn unwritten(path: &Path, error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::AlreadyExists => there_already(path),
        _ => {
            eprintln!("courser: {}: {error}", shown(path));
            Exit::Refused
        }
    }
}

/// The bytes of a file.
///
/// # Errors
/// How the command ends; why is said, with `hint`.
pub(super) fn read(path: &Path, hint: &str) -> Result<Vec<u8>, Exit> {
    fs::read(path).map_err(|error| {
        let (exit, hint) = match error.kind() {
            io::ErrorKind::NotFound => (Exit::NotFound, hint),
            _ => (Exit::Refused, ""),
        };
        eprintln!("courser: {}: {error}{hint}", shown(path));
        exit
    })
}
