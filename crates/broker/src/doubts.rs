//! Files that settings name and that a start can use, but hardly as they are meant.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use courser_settings::{Settings, listener_key, open_regular};
use courser_transport::tls::Doubt;

use crate::clock::unix_seconds;
use crate::doors::Certificates;

/// The secret of tokens.
const SECRET_FILE: &str = "tokens.secret_file";
/// Modes of a secret that others than its owner, and who may read what its group may, can do something with.
const MODES_OF_OTHERS: u32 = 0o027;

/// What is doubtful in a file.
#[derive(Debug, thiserror::Error)]
pub enum FileDoubt {
    /// Others can read or change a secret.
    #[error("others can read or change {path} (mode {mode:03o}), and whoever has it can come in by it; make it chmod 600", path = path.display())]
    Open {
        /// The setting that names the file.
        setting: String,
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// A secret has an end of line, as an editor makes it.
    #[error("{} ends with an end of line, which is part of the secret: tokens that are signed without it are refused", path.display())]
    LineEnd {
        /// The setting that names the file.
        setting: String,
        /// The file.
        path: PathBuf,
    },
    /// Certificates or revocation lists that do not count now.
    #[error("{}: {doubt}", path.display())]
    Certificate {
        /// The setting that names the file.
        setting: String,
        /// The file.
        path: PathBuf,
        /// What it is.
        doubt: Doubt,
    },
}

impl FileDoubt {
    /// The setting that names the file.
    #[must_use]
    pub fn setting(&self) -> &str {
        match self {
            Self::Open { setting, .. }
            | Self::LineEnd { setting, .. }
            | Self::Certificate { setting, .. } => setting,
        }
    }
}

/// What is doubtful in files with secrets, certificates and revocation lists. Of one that cannot be read nothing: that stops a start. Blocks
/// for as long as the disk takes.
#[must_use]
pub fn file_doubts(settings: &Settings) -> Vec<FileDoubt> {
    let mut found = Vec::new();
    if let Some(path) = &settings.tokens.secret_file {
        found.extend(open_to_others(SECRET_FILE.to_owned(), path));
        if ends_a_line(path) {
            found.push(FileDoubt::LineEnd {
                setting: SECRET_FILE.to_owned(),
                path: path.clone(),
            });
        }
    }
    for door in &settings.doors {
        if let Some(path) = &door.key {
            found.extend(open_to_others(listener_key(&door.name, "key"), path));
        }
        let now = unix_seconds().cast_signed();
        for (field, path, doubt) in Certificates::doubts(door, now) {
            found.push(FileDoubt::Certificate {
                setting: listener_key(&door.name, field),
                path,
                doubt,
            });
        }
    }
    found
}

fn open_to_others(setting: String, path: &Path) -> Option<FileDoubt> {
    let mode = path.metadata().ok()?.mode() & 0o777;
    (mode & MODES_OF_OTHERS != 0).then(|| FileDoubt::Open {
        setting,
        path: path.to_owned(),
        mode,
    })
}

fn ends_a_line(path: &Path) -> bool {
    let last = || {
        let mut file = open_regular(path)?;
        file.seek(SeekFrom::End(-1))?;
        let mut last = [0];
        file.read_exact(&mut last)?;
        Ok::<_, std::io::Error>(last)
    };
    last().is_ok_and(|last| last == *b"\n")
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_that_others_can_read_or_that_ends_a_line_is_doubtful() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        let mut settings = Settings::default();
        settings.tokens.secret_file = Some(path.clone());
        assert!(file_doubts(&settings).is_empty(), "there is no file");
        for (mode, text, expected) in [
            (0o600, "secret", &[][..]),
            (0o640, "secret", &[]),
            (0o660, "secret", &["(mode 660)"]),
            (
                0o604,
                "secret\n",
                &["(mode 604)", "ends with an end of line"],
            ),
        ] {
            write(&path, text).expect("written");
            set_permissions(&path, Permissions::from_mode(mode)).expect("changed");
            let found = file_doubts(&settings);
            assert_eq!(found.len(), expected.len(), "{mode:o}: {found:?}");
            for (doubt, part) in found.iter().zip(expected) {
                assert!(doubt.to_string().contains(part), "{doubt}");
                assert_eq!(doubt.setting(), "tokens.secret_file");
            }
        }
    }
}
