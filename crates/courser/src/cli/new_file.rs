//! Files that a command makes for its user: never over one that is there.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::exit::Exit;

/// Writes a file for its owner only, and waits until it is on the disk.
///
/// # Errors
/// [`io::ErrorKind::AlreadyExists`]: it is there, and left as it is.
pub(crate) fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Says that it was there.
pub(crate) fn there_already(path: &Path) -> Exit {
    eprintln!(
        "courser: {} is there already and is left as it is; name another file",
        path.display()
    );
    Exit::Conflict
}
