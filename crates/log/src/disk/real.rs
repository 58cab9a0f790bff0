//! A folder of the operating system.

use std::{
    io::{self, IoSlice},
    os::fd::OwnedFd,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    fs::{AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags},
    io::Errno,
};

use super::{Disk, DiskFile};
use crate::format::BLOCK_BYTES;

/// Parts of one system call at most; more are written by several.
const PARTS_MAX: usize = 256;
/// Files that are left to checkpoints: the first ones of all partitions, with a manifest each, were 34 to 66 with two shards.
const FILES_LEFT: u64 = 128;
/// Fewer bytes are not read past the page cache.
const DIRECT_READ_MIN: usize = 32 << 10;
/// So many are at once: they are copied on while they are in the processor's cache.
const DIRECT_READ: usize = 256 << 10;

/// A folder, held open: moving it elsewhere while it is in use does not matter.
#[derive(Clone, Debug)]
pub struct FileDisk {
    folder: Arc<OwnedFd>,
    cache: PageCache,
    reads: PageCache,
}

/// Which way whole blocks take to the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageCache {
    /// Past the system's page cache where the file system can (`O_DIRECT`): a commit costs less CPU, and large ones do not wait for
    /// each other's pages. What is no whole block goes through it all the same.
    #[default]
    Around,
    /// Through it.
    Through,
}

impl FileDisk {
    /// Opens the folder at `path`, which must exist.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, PageCache::default())
    }

    /// The same, and says how whole blocks are written.
    ///
    /// # Errors
    /// Those of the system.
    pub fn open_with(path: &Path, cache: PageCache) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Self {
            folder: Arc::new(folder),
            cache,
            reads: PageCache::Through,
        })
    }

    /// Long reads of files that are opened by this one go past the page cache too: for who reads much, and all of it once.
    #[must_use]
    pub fn reading_around(mut self) -> Self {
        self.reads = PageCache::Around;
        self
    }

    fn open_at(&self, name: &str, flags: OFlags) -> io::Result<RealFile> {
        let with = |flags: OFlags| {
            let flags = flags | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            rustix::fs::openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)
        };
        let file = with(flags)?;
        let direct = match self.cache {
            // Not every file system has it.
            PageCache::Around => with(OFlags::DIRECT).ok(),
            PageCache::Through => None,
        };
        Ok(RealFile {
            file,
            direct,
            refused: AtomicBool::new(false),
            reads: self.reads,
            blocks: Mutex::default(),
        })
    }
}

impl Disk for FileDisk {
    type File = RealFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let entry = entry?;
            if entry.file_type() == FileType::Directory {
                continue;
            }
            // A name that is no text is none of ours.
            if let Ok(name) = entry.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<RealFile> {
        self.open_at(name, OFlags::CREATE | OFlags::TRUNC)
    }

    fn create_new(&self, name: &str) -> io::Result<RealFile> {
        self.open_at(name, OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> io::Result<RealFile> {
        self.open_at(name, OFlags::empty())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.folder, from, &self.folder, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())?)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.folder)?)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let space = rustix::fs::fstatvfs(&self.folder)?;
        if is_short_of_files(space.f_files, space.f_favail) {
            return Ok(0);
        }
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }
}

/// Whether the file system has few more files than are left to checkpoints: the last ones for segments would be the last ones for what frees
/// segments. One that has none left is asked for a file all the same: some know no number and say 0. Of few an eighth is left.
fn is_short_of_files(all: u64, left: u64) -> bool {
    all > 0 && left > 0 && left < FILES_LEFT.min(all / 8)
}

/// A file of a [`FileDisk`].
#[derive(Debug)]
pub struct RealFile {
    file: OwnedFd,
    /// The same file past the page cache.
    direct: Option<OwnedFd>,
    /// The file system opened it and then did not take a write.
    refused: AtomicBool,
    reads: PageCache,
    /// Whole blocks, where they are read past the page cache.
    blocks: Mutex<Vec<u8>>,
}

impl RealFile {
    /// Opens any file for reading alone, as tools do; writing to it fails.
    ///
    /// # Errors
    /// Those of the system, and [`io::ErrorKind::InvalidInput`] where it is a pipe or a device, which might hold for ever who opens or reads it.
    pub fn read_only(path: &Path) -> io::Result<Self> {
        // A pipe opens at once by NONBLOCK; of a file it means nothing.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty())?;
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => {
                let message = "it is no regular file";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        Ok(Self {
            file,
            direct: None,
            refused: AtomicBool::new(true),
            reads: PageCache::Through,
            blocks: Mutex::default(),
        })
    }

    /// Reads some of the first bytes of `buf` past the page cache, and says how many. 0: that is no way for these.
    fn read_direct(&self, buf: &mut [u8], offset: u64) -> usize {
        let Some(direct) = self.direct.as_ref() else {
            return 0;
        };
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.resize(DIRECT_READ + BLOCK_BYTES, 0);
        let first = blocks.as_ptr().align_offset(BLOCK_BYTES);
        let before = (offset % BLOCK_BYTES as u64) as usize;
        let wanted = (before + buf.len()).next_multiple_of(BLOCK_BYTES);
        let Some(into) = blocks.get_mut(first..first + wanted.min(DIRECT_READ)) else {
            return 0;
        };
        // What fails or ends here may go the other way, which says why.
        let Ok(read) = rustix::io::pread(direct, &mut *into, offset - before as u64) else {
            return 0;
        };
        let bytes = into[..read].get(before..).unwrap_or_default();
        let bytes = &bytes[..bytes.len().min(buf.len())];
        buf[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }

    /// Writes whole blocks past the page cache. `None`: that is no way for these.
    fn write_direct(&self, bufs: &[IoSlice<'_>], offset: u64) -> Option<io::Result<()>> {
        let direct = self.direct.as_ref()?;
        let [blocks] = bufs else {
            return None;
        };
        let is_block = blocks.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
            && blocks.len().is_multiple_of(BLOCK_BYTES)
            && offset.is_multiple_of(BLOCK_BYTES as u64);
        if !is_block || self.refused.load(Ordering::Relaxed) {
            return None;
        }
        match rustix::io::pwritev(direct, bufs, offset) {
            Ok(written) if written == blocks.len() => Some(Ok(())),
            Err(Errno::INVAL) => {
                self.refused.store(true, Ordering::Relaxed);
                None
            }
            // Interrupted or short: from the beginning, the way that goes on from any byte.
            Ok(_) | Err(Errno::INTR) => None,
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        let size = rustix::fs::fstat(&self.file)?.st_size;
        Ok(u64::try_from(size).expect("a size is not negative"))
    }

    fn read_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        if self.reads == PageCache::Around && buf.len() >= DIRECT_READ_MIN {
            while !buf.is_empty() {
                let read = self.read_direct(buf, offset);
                if read == 0 {
                    break;
                }
                buf = &mut buf[read..];
                offset += read as u64;
            }
        }
        while !buf.is_empty() {
            match rustix::io::pread(&self.file, &mut *buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    buf = &mut buf[read..];
                    offset += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn write_at(&self, bufs: &[IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        if let Some(written) = self.write_direct(bufs, offset) {
            return written;
        }
        for bufs in bufs.chunks(PARTS_MAX) {
            let mut parts = [IoSlice::new(&[]); PARTS_MAX];
            let parts = &mut parts[..bufs.len()];
            parts.copy_from_slice(bufs);
            let mut left = parts;
            while left.iter().any(|part| !part.is_empty()) {
                match rustix::io::pwritev(&self.file, left, offset) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        offset += written as u64;
                        IoSlice::advance_slices(&mut left, written);
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // Not repeated when interrupted: `fdatasync` is not, and an error of it is final.
        Ok(rustix::fs::fdatasync(&self.file)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(rustix::fs::ftruncate(&self.file, len)?)
    }

    fn reserve(&self, len: u64, beside: u64) -> io::Result<()> {
        loop {
            match rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, len + beside) {
                Ok(()) => return self.set_len(len),
                Err(Errno::INTR) => {}
                // Not every file system has it.
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, mknodat};

    use super::*;

    /// Who opened a pipe to which nobody writes waited for ever.
    #[test]
    fn what_is_no_regular_file_is_not_read() {
        let folder = tempfile::TempDir::new().expect("a folder");
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        for (path, kind) in [
            (&*pipe, io::ErrorKind::InvalidInput),
            (Path::new("/dev/null"), io::ErrorKind::InvalidInput),
            (folder.path(), io::ErrorKind::IsADirectory),
        ] {
            let error = RealFile::read_only(path).expect_err("it is no file");
            assert_eq!(error.kind(), kind, "{}", path.display());
        }
        let file = folder.path().join("file");
        std::fs::write(&file, b"here").expect("a file");
        let mut bytes = [0; 4];
        let opened = RealFile::read_only(&file).expect("a file");
        opened.read_at(&mut bytes, 0).expect("it can be read");
        assert_eq!(&bytes, b"here");
    }

    #[test]
    fn m47_the_last_files_are_left_to_checkpoints() {
        let cases = [
            // A file system that knows no number.
            (0, 0, false),
            // One that has none left: the next file that it does not give says so, and that it gives one again says that it has some.
            (1 << 20, 0, false),
            (100, 0, false),
            (8, 0, false),
            (7, 0, false),
            (1 << 20, 1, true),
            (1 << 20, FILES_LEFT - 1, true),
            (1 << 20, FILES_LEFT, false),
            (100, 50, false),
            (100, 11, true),
            (100, 12, false),
        ];
        for (all, left, is_short) in cases {
            assert_eq!(is_short_of_files(all, left), is_short, "{left} of {all}");
        }
    }
}
