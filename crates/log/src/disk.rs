//! What the log asks of a disk: one folder without subfolders, and the files in it.

use std::io::{self, IoSlice};

mod real;

use rustix::io::Errno;

pub use real::{FileDisk, PageCache, RealFile};

/// Whether a call failed for want of something that the process or the system may have again a moment later, such as a descriptor.
/// That says nothing of what is on the disk, and the same call is worth another try.
#[must_use]
pub fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    match error.kind() {
        Kind::Interrupted
        | Kind::WouldBlock
        | Kind::OutOfMemory
        | Kind::TimedOut
        | Kind::ResourceBusy
        | Kind::PermissionDenied => true,
        _ => {
            let errno = Errno::from_io_error(error);
            matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS))
        }
    }
}

/// Whether a call failed since there is no room for what was to be written: on the disk, in what its user may have, or in a file of the size that
/// this process may make.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;
    matches!(
        error.kind(),
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge
    )
}

/// One folder. A clone is the same folder.
///
/// Names are made by this crate from numbers; nothing that came from a network becomes a name. What a call changed in the
/// folder (a new name, a rename, a removal) is durable after [`Disk::sync_dir`], and not before.
pub trait Disk: Clone {
    /// An open file.
    type File: DiskFile;

    /// Names of all files in the folder, in any order.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes an empty file; one of that name is emptied.
    ///
    /// # Errors
    /// Those of the system.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Makes an empty file. One of that name stays as it is, and none is made: `AlreadyExists`.
    ///
    /// # Errors
    /// Those of the system.
    fn create_new(&self, name: &str) -> io::Result<Self::File> {
        match self.open(name) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            // A folder is one process's, and names of this kind are made by one thread of it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(name),
            Err(error) => Err(error),
        }
    }

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// Those of the system; `NotFound` when there is none.
    fn open(&self, name: &str) -> io::Result<Self::File>;

    /// Gives a file another name; a file of that name is replaced.
    ///
    /// # Errors
    /// Those of the system.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a name.
    ///
    /// # Errors
    /// Those of the system.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes all changes of names durable.
    ///
    /// # Errors
    /// Those of the system. A failure is final: nobody knows what of it is durable.
    fn sync_dir(&self) -> io::Result<()>;

    /// Bytes that can still be written into this folder, as far as the file system says: it may give less (quotas of users, metadata that is full).
    /// Nothing while it says that few more files can be made.
    ///
    /// # Errors
    /// Those of the system.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An open file. All calls take `&self`: whoever shares a file sees to the order of its own writes.
pub trait DiskFile {
    /// Length in bytes.
    ///
    /// # Errors
    /// Those of the system.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`DiskFile::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `buf` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Those of the system; `UnexpectedEof` when the file ends before `buf` is full.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bufs` one behind the other from `offset` on; the file grows when it must. Durable after
    /// [`DiskFile::sync`]; before that, after a loss of power, any part of it may be there.
    ///
    /// # Errors
    /// Those of the system; then any part may have been written.
    fn write_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> io::Result<()>;

    /// Makes all that was written durable, with the length (`fdatasync`).
    ///
    /// # Errors
    /// Those of the system. A failure is final: a later success says nothing about what was written before it.
    fn sync(&self) -> io::Result<()>;

    /// Cuts or extends the file with zeros.
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Takes room for the first `len` bytes of an empty file, if the disk then has `beside` bytes more; what the file holds until they are written
    /// is not said. Where a file system cannot say that ahead this does nothing, and a write tells.
    ///
    /// # Errors
    /// Those of the system.
    fn reserve(&self, len: u64, beside: u64) -> io::Result<()> {
        let (_, _) = (len, beside);
        Ok(())
    }
}
