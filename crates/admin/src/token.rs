//! The token of the first operator: 32 random bytes in a file that nobody else can read.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use courser_broker::{open_regular, read_open};
use rand::TryRng;
use rand::rngs::SysRng;

/// Random bytes of a token.
const BYTES: usize = 32;
/// Largest file that is read.
const BYTES_MAX: u64 = 64 * 1024;
/// Characters of the shortest token that somebody else may have written into the file.
const CHARACTERS_MIN: usize = 16;

/// A secret that gives access to the API. Neither `Debug` nor `Display` show it.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be made or read.
    #[error("cannot use the token file {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others can read it.
    #[error("{path} can be read by others (mode {mode:03o}): make a new one, or chmod 600 {path}")]
    Open {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// There is nothing good in it.
    #[error(
        "{path} has no token of at least {CHARACTERS_MIN} letters and digits: remove it, and the next start makes a new one"
    )]
    Bad {
        /// The file.
        path: PathBuf,
    },
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// Reads the token of a file, or makes one where there is no file.
    ///
    /// # Errors
    /// [`TokenError`]; a file that others can read is refused.
    pub fn load(path: &Path) -> Result<Self, TokenError> {
        match Self::read(path) {
            Err(TokenError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Self::make(path).map_err(|source| TokenError::File {
                    path: path.to_owned(),
                    source,
                })
            }
            read => read,
        }
    }

    /// Reads the token of a file.
    ///
    /// # Errors
    /// See [`load`](Self::load).
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::File {
            path: path.to_owned(),
            source,
        };
        let file = open_regular(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(TokenError::Open {
                path: path.to_owned(),
                mode,
            });
        }
        let bytes = read_open(file, BYTES_MAX).map_err(failed)?;
        let text = String::from_utf8(bytes);
        let text = text.map_err(|error| failed(io::Error::new(ErrorKind::InvalidData, error)))?;
        let token = text.trim();
        let good = token.len() >= CHARACTERS_MIN && token.bytes().all(|b| b.is_ascii_graphic());
        if !good {
            return Err(TokenError::Bad {
                path: path.to_owned(),
            });
        }
        Ok(Self(token.to_owned()))
    }

    fn make(path: &Path) -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        SysRng
            .try_fill_bytes(&mut bytes)
            .map_err(io::Error::other)?;
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "{token}")?;
        file.sync_all()?;
        Ok(Self(token))
    }

    /// Whether `given` is this token. Takes the same time wherever they differ.
    #[must_use]
    pub fn is(&self, given: &str) -> bool {
        let (mine, given) = (self.0.as_bytes(), given.as_bytes());
        let differ = mine.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        std::hint::black_box(differ) == 0 && mine.len() == given.len()
    }

    /// The value of the header `Authorization`.
    pub(crate) fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_for_its_owner() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.token");
        let made = Token::load(&path).expect("a token is made");
        let mode = fs::metadata(&path).expect("the file is there").mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(Token::load(&path).expect("it is read"), made);
        assert_eq!(format!("{made:?}"), "Token(…)");
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(text.trim().len(), 2 * BYTES);
        assert!(made.is(text.trim()));
        for wrong in ["", &text.trim()[1..], "x", &format!("{}0", text.trim())] {
            assert!(!made.is(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_that_says_nothing_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.token");
        fs::write(&path, "0123456789abcdef0123").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        assert!(matches!(
            Token::load(&path),
            Err(TokenError::Open { mode: 0o640, .. })
        ));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        assert!(Token::load(&path).is_ok());
        fs::write(&path, "short\n").expect("written");
        assert!(matches!(Token::load(&path), Err(TokenError::Bad { .. })));
    }

    #[test]
    fn a_pipe_in_the_place_of_the_file_is_refused_and_holds_nobody() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.token");
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).expect("a pipe can be made");
        assert!(matches!(Token::load(&path), Err(TokenError::File { .. })));
    }
}
