//! Files that settings are in or name, read whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// What is open already under these names was given by whoever started this process: also a pipe.
const DESCRIPTORS: [&str; 3] = ["/dev/fd", "/dev/stdin", "/proc/self/fd"];

/// Opens a file to read it, whatever stands in its place by now: a pipe that nobody writes to would hold for ever who opens it, and with that a
/// reload, or the stop behind it.
///
/// # Errors
/// Of the file, and [`ErrorKind::InvalidInput`] where it is a pipe or a device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if DESCRIPTORS.iter().any(|given| path.starts_with(given)) {
        return File::open(path);
    }
    let mut options = OpenOptions::new();
    let options = options.read(true);
    // A pipe opens at once by it; of a file it means nothing.
    let file = options
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if !kind.is_file() {
        let message = "it is no regular file";
        return Err(io::Error::new(ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

/// All of a file that may have so many bytes. What is only read in part may still be understood, without the revocation or the key behind the cut.
///
/// # Errors
/// As [`open_regular`], and [`ErrorKind::FileTooLarge`].
pub fn read_whole(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_open(open_regular(path)?, bytes_max)
}

/// The same of a file of which something was looked at first.
///
/// # Errors
/// As [`read_whole`].
pub fn read_open(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let message = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// A file that is not UTF-8: the place of its first byte that is not, counted from 1, the column in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not valid UTF-8 in line {line}, column {column}")]
pub(crate) struct NoText {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// The same of a text.
///
/// # Errors
/// As [`read_whole`], and [`ErrorKind::InvalidData`] with a [`NoText`] where it is not UTF-8.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read_whole(path, bytes_max)?;
    String::from_utf8(bytes).map_err(|error| {
        let before = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..before]);
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |it| it.chars().count())
            + 1;
        io::Error::new(ErrorKind::InvalidData, NoText { line, column })
    })
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

    #[test]
    fn what_is_no_text_is_told_by_its_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("courser.toml");
        std::fs::write(&path, b"[mqtt]\n# \xc3\xbc\xff\n").expect("it can be written");
        let error = read_text(&path, 100).expect_err("it is no text");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
        let message = "it is not valid UTF-8 in line 2, column 4";
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_is_refused_and_holds_nobody() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("secret");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("a pipe can be made");
        for path in [&pipe, Path::new("/dev/zero")] {
            let error = read_whole(path, 10).expect_err("it is no file");
            assert_eq!(error.to_string(), "it is no regular file");
        }
        let error = read_whole(folder.path(), 10).expect_err("it is a folder");
        assert_eq!(error.kind(), ErrorKind::IsADirectory);
    }

    #[test]
    fn what_is_open_already_is_read_also_from_a_pipe() {
        use std::io::Write;
        use std::os::fd::AsRawFd;
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"a = 1").expect("it takes it");
        drop(writer);
        let path = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(
            read_text(Path::new(&path), 10).expect("it is read"),
            "a = 1"
        );
    }
}
