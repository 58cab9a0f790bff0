//! Canonical bytes of replicated state: little endian, fixed order, one encoding for each value.
//!
//! Two partitions that applied the same entries give equal bytes; tests, checkpoints and replays compare them. Reading checks
//! everything that it relies on, since the bytes may come from a disk.

use courser_contract::{
    Cut, Epoch, GroupRef, HomeRef, PartitionId, QoS, Seq, SessionUid, ShardId, SharedStrategy,
    WallMs,
};

/// Why bytes are no state of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DecodeError {
    /// The bytes end early.
    #[error("the bytes end before the value does")]
    Short,
    /// Something follows the value.
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    /// A value that the encoder never writes.
    #[error("not a value that is ever written: {0}")]
    Invalid(&'static str),
}

/// Reads what the functions of this module wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the beginning of `bytes`.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.bytes.split_at_checked(len).ok_or(DecodeError::Short)?;
        self.bytes = rest;
        Ok(head)
    }

    /// The next value of a type.
    pub(crate) fn read<T: Canonical>(&mut self) -> Result<T, DecodeError> {
        T::read(self)
    }

    /// A number of items that follow, each of at least `item_bytes` bytes: a count that cannot be true is an error before
    /// anything is reserved for it.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, DecodeError> {
        let count = self.read::<u32>()? as usize;
        match count.checked_mul(item_bytes.max(1)) {
            Some(bytes) if bytes <= self.bytes.len() => Ok(count),
            Some(_) | None => Err(DecodeError::Short),
        }
    }

    /// Ends the reading.
    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            rest => Err(DecodeError::Trailing(rest)),
        }
    }
}

/// Reads a value that is all of `bytes`, for tests of what is a part of something larger in a checkpoint.
#[cfg(test)]
pub(crate) fn read_whole<'a, T>(
    bytes: &'a [u8],
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = Reader::new(bytes);
    let value = read(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

/// A value with one encoding.
pub(crate) trait Canonical: Sized {
    /// Bytes that every value takes at least; bounds counts while reading.
    const MIN_BYTES: usize;

    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);

    /// Reads what [`Canonical::write`] wrote.
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// Appends a number of items.
///
/// # Panics
/// With more than `u32::MAX` items: the limits of a partition are far below.
pub(crate) fn write_count(count: usize, out: &mut Vec<u8>) {
    u32::try_from(count)
        .expect("a partition holds fewer than 2^32 items of a kind")
        .write(out);
}

macro_rules! canonical_number {
    ($($number:ty),*) => {$(
        impl Canonical for $number {
            const MIN_BYTES: usize = size_of::<$number>();

            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                let (bytes, _) = reader
                    .take(size_of::<$number>())?
                    .split_first_chunk()
                    .ok_or(DecodeError::Short)?;
                Ok(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

canonical_number!(u8, u16, u32, u64, i32);

macro_rules! canonical_wrapper {
    ($($name:ident($inner:ty)),*) => {$(
        impl Canonical for $name {
            const MIN_BYTES: usize = size_of::<$inner>();

            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok(Self(reader.read()?))
            }
        }
    )*};
}

canonical_wrapper!(
    Cut(u32),
    Epoch(u64),
    PartitionId(u16),
    Seq(u64),
    SessionUid(u64),
    ShardId(u16),
    WallMs(u64)
);

impl Canonical for bool {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        u8::from(*self).write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match reader.read::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError::Invalid("bool")),
        }
    }
}

impl<T: Canonical> Canonical for Option<T> {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        self.is_some().write(out);
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(if reader.read()? {
            Some(reader.read()?)
        } else {
            None
        })
    }
}

impl<A: Canonical, B: Canonical> Canonical for (A, B) {
    const MIN_BYTES: usize = A::MIN_BYTES + B::MIN_BYTES;

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((reader.read()?, reader.read()?))
    }
}

impl Canonical for Box<str> {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        write_str(self, out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(read_str(reader)?.into())
    }
}

/// Appends a text with its length.
pub(crate) fn write_str(text: &str, out: &mut Vec<u8>) {
    write_count(text.len(), out);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what [`write_str`] wrote.
pub(crate) fn read_str<'a>(reader: &mut Reader<'a>) -> Result<&'a str, DecodeError> {
    let len = reader.count(1)?;
    std::str::from_utf8(reader.take(len)?).map_err(|_| DecodeError::Invalid("UTF-8"))
}

impl Canonical for HomeRef {
    const MIN_BYTES: usize = 10;

    fn write(&self, out: &mut Vec<u8>) {
        self.partition.write(out);
        self.session.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            partition: reader.read()?,
            session: reader.read()?,
        })
    }
}

impl Canonical for GroupRef {
    const MIN_BYTES: usize = 10;

    fn write(&self, out: &mut Vec<u8>) {
        self.partition.write(out);
        self.group.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            partition: reader.read()?,
            group: reader.read()?,
        })
    }
}

impl Canonical for QoS {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        (*self as u8).write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_bits(reader.read()?).ok_or(DecodeError::Invalid("QoS"))
    }
}

impl Canonical for SharedStrategy {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        (*self as u8).write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.read::<u8>()? {
            0 => Self::RoundRobin,
            1 => Self::Sticky,
            2 => Self::HashTopic,
            3 => Self::LeastOutstanding,
            _ => return Err(DecodeError::Invalid("strategy")),
        })
    }
}
