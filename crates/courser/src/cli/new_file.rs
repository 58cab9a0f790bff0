//! Files that a command makes for its user: never over one that is there.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::exit::Exit;
use super::plain::plain;

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    Owner,
    /// All, as far as its user lets them (umask).
    All,
}

/// Writes a file for its owner only, and waits until it is on the disk.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`]: it is there, and left as it is. After any other one nothing is there.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    write_for(Readers::Owner, path, text)
}

/// Writes a file that these may read, and waits until it is on the disk.
///
/// # Errors
/// As of [`write`].
pub(crate) fn write_for(readers: Readers, path: &Path, text: &str) -> io::Result<()> {
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::All => 0o644,
    };
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all());
    // Half of it would keep the next try out.
    written.inspect_err(|_| take_back(path))
}

/// Removes what [`write_for`] has made, because what goes with it could not be made.
pub(crate) fn take_back(path: &Path) {
    // What cannot be removed is named by the next try.
    let _ = fs::remove_file(path);
}

/// Says that it was there.
pub(crate) fn there_already(path: &Path) -> Exit {
    eprintln!(
        "courser: {} is there already and is left as it is; name another file",
        plain(&path.display().to_string())
    );
    Exit::Conflict
}
