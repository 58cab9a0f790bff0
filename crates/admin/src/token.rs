//! The token of the first operator: 32 random bytes in a file that nobody else can read, and what that file says by now.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use courser_broker::{open_regular, read_open};
use rand::TryRng;
use rand::rngs::SysRng;

/// Random bytes of a token.
const BYTES: usize = 32;
/// Largest file that is read.
const BYTES_MAX: u64 = 64 * 1024;
/// Characters of the shortest token that somebody else may have written into the file.
const CHARACTERS_MIN: usize = 16;

/// How often a file is looked at for the sake of those who show a token.
const LOOK: Duration = Duration::from_secs(1);

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

/// What of a file tells that it is another one, without its being read.
type Stamp = (u64, u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let it = std::fs::metadata(path).ok()?;
    Some((it.dev(), it.ino(), it.len(), it.ctime(), it.ctime_nsec()))
}

/// The token that counts: that of its file, which is looked at again.
#[derive(Debug)]
pub struct CurrentToken {
    path: PathBuf,
    /// Held while the file is read: whoever asks then is to be compared with what it says.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    token: Token,
    stamp: Option<Stamp>,
    looked: Instant,
}

impl CurrentToken {
    /// Reads the token of a file, or makes one where there is no file.
    ///
    /// # Errors
    /// See [`Token::load`].
    pub(crate) fn load(path: &Path) -> Result<Self, TokenError> {
        // Before it is read: what changes meanwhile is another state.
        let before = stamp(path);
        let token = Token::load(path)?;
        let state = State {
            token,
            stamp: before,
            looked: Instant::now(),
        };
        Ok(Self {
            path: path.to_owned(),
            state: Mutex::new(state),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file again, or makes one where there is none; what it says counts from the next request on if `also` is done. Blocks for as
    /// long as the disk takes, and so does whoever shows a token meanwhile.
    ///
    /// # Errors
    /// That of the file, or else that of `also`: then the token stays as it is.
    pub fn reread_with<T, E: From<TokenError>>(
        &self,
        also: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut state = self.state();
        let before = stamp(&self.path);
        let token = Token::load(&self.path)?;
        let done = also()?;
        state.stamp = before;
        state.take(token, &self.path);
        Ok(done)
    }

    /// Whether `given` is the token, as its file has it: one that was replaced a second ago counts, and the one before does not.
    pub(crate) fn is(&self, given: &str, now: Instant) -> bool {
        let mut state = self.state();
        if now.saturating_duration_since(state.looked) >= LOOK {
            state.looked = now;
            state.look(&self.path);
        }
        state.token.is(given)
    }
}

impl State {
    /// Reads the file if it is another one. While there is none, or none that can be used, what it said last counts.
    fn look(&mut self, path: &Path) {
        let found = stamp(path);
        if found.is_none() || found == self.stamp {
            return;
        }
        self.stamp = found;
        match Token::read(path) {
            Ok(token) => self.take(token, path),
            Err(error) => tracing::error!(
                event = "operators_token_refused",
                error = &error as &dyn std::error::Error,
                "operators go on with the old token"
            ),
        }
    }

    fn take(&mut self, token: Token, path: &Path) {
        if self.token == token {
            return;
        }
        self.token = token;
        tracing::info!(
            event = "operators_token_changed",
            file = %path.display(),
            "operators come in with another token, and with the old one no more"
        );
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

    fn replace(path: &Path, text: &str, mode: u32) {
        let new = path.with_extension("new");
        fs::write(&new, text).expect("written");
        fs::set_permissions(&new, fs::Permissions::from_mode(mode)).expect("changed");
        fs::rename(&new, path).expect("it is moved");
    }

    const OLD: &str = "0123456789abcdef-old";
    const NEW: &str = "0123456789abcdef-new";

    #[test]
    fn a_token_that_was_replaced_counts_no_more() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.token");
        replace(&path, OLD, 0o600);
        let current = CurrentToken::load(&path).expect("a token");
        let begun = Instant::now();
        assert!(current.is(OLD, begun));
        replace(&path, NEW, 0o600);
        // A reload sees it at once, without one it takes a moment.
        assert!(current.is(OLD, begun));
        let reread = || current.reread_with(|| Ok::<_, TokenError>(()));
        reread().expect("a good file");
        assert!(current.is(NEW, begun) && !current.is(OLD, begun));
        replace(&path, OLD, 0o600);
        let later = begun + 2 * LOOK;
        assert!(current.is(OLD, later) && !current.is(NEW, later));
    }

    #[test]
    fn a_file_that_cannot_be_used_leaves_the_token_and_one_that_is_gone_is_made() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("admin.token");
        replace(&path, OLD, 0o600);
        let current = CurrentToken::load(&path).expect("a token");
        let begun = Instant::now();
        let reread = || current.reread_with(|| Ok::<_, TokenError>(()));
        replace(&path, NEW, 0o644);
        assert!(matches!(reread(), Err(TokenError::Open { .. })));
        assert!(current.is(OLD, begun + 2 * LOOK));
        replace(&path, NEW, 0o600);
        let refused = TokenError::Bad { path: path.clone() };
        let also = current.reread_with(|| Err::<(), _>(refused));
        also.expect_err("something else is wrong");
        assert!(current.is(OLD, begun));
        fs::remove_file(&path).expect("it is there");
        assert!(current.is(OLD, begun + 4 * LOOK));
        reread().expect("one is made");
        let made = fs::read_to_string(&path).expect("it is there");
        assert!(current.is(made.trim(), begun) && !current.is(OLD, begun));
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
