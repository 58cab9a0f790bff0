//! Files that settings are in or name, read whole or not at all.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// All of a file that may have so many bytes. What is only read in part may still be understood, without the revocation or the key behind the cut.
///
/// # Errors
/// Of the file, and [`ErrorKind::FileTooLarge`].
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i12_a_file_that_is_too_large_is_refused_and_not_cut() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("list.pem");
        std::fs::write(&path, [7; 10]).expect("it can be written");
        assert_eq!(read_whole(&path, 10).expect("it has room"), [7; 10]);
        let error = read_whole(&path, 9).expect_err("it has none");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}
