//! Entries and checkpoints of partition 0.

use bytes::Bytes;
use courser_access::{Command, Table, WireError};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Raised when an entry says something that older versions would take for something else.
pub(crate) const VERSION: u32 = 1;

/// Why an entry or checkpoint is not for this version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EntryError {
    /// Not a message of ours.
    #[error("it is not in the form of the metadata partition")]
    Form(#[from] prost::DecodeError),
    /// Written by a newer version.
    #[error("it is of version {0}, and this is {VERSION}: start a newer courser on this folder")]
    Newer(u32),
    /// The part about users and roles.
    #[error(transparent)]
    Access(#[from] WireError),
}

/// One change. Other parts of the metadata get fields of their own.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(uint32, tag = "1")]
    version: u32,
    /// When the leader proposed it.
    #[prost(uint64, tag = "2")]
    wall_ms: u64,
    #[prost(bytes = "vec", optional, tag = "3")]
    access: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Checkpoint {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(bytes = "vec", tag = "2")]
    access: Vec<u8>,
}

/// Of the table in it.
const ACCESS_TAG: u32 = 2;

/// Its time.
const WALL_TAG: u32 = 2;
/// Bytes of a tag and a number behind it, at most.
const FIELD_BYTES_MAX: usize = 1 + 10;

pub(crate) fn encode(command: &Command, wall_ms: u64) -> Vec<u8> {
    Unstamped::new(command).stamp(wall_ms)
}

/// An entry whose time is not known, as far as it can be made without.
#[derive(Debug)]
pub(crate) struct Unstamped(Vec<u8>);

impl Unstamped {
    pub(crate) fn new(command: &Command) -> Self {
        let entry = Entry {
            version: VERSION,
            wall_ms: 0,
            access: Some(command.encode()),
        };
        let mut bytes = Vec::with_capacity(entry.encoded_len() + FIELD_BYTES_MAX);
        entry
            .encode(&mut bytes)
            .expect("a vector has room for all of it");
        Self(bytes)
    }

    /// The entry; the time stands behind all else, which stays where it is. What is left has no bytes.
    pub(crate) fn stamp(&mut self, wall_ms: u64) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.0);
        encode_key(WALL_TAG, WireType::Varint, &mut bytes);
        encode_varint(wall_ms, &mut bytes);
        bytes
    }
}

/// The checkpoint of a partition 0 that has no users, roles and limits: an empty table has no bytes.
pub(crate) fn empty_checkpoint() -> Bytes {
    checkpoint_head(0).into()
}

/// What an entry changes; none if it is about parts that this version does not have.
pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Command>, EntryError> {
    let entry = Entry::decode(bytes)?;
    check(entry.version)?;
    Ok(entry
        .access
        .map(|bytes| Command::decode(&bytes))
        .transpose()?)
}

/// What a checkpoint begins with. A table of so many bytes follows, and is its end.
pub(crate) fn checkpoint_head(table_bytes: usize) -> Vec<u8> {
    let mut head = Checkpoint {
        version: VERSION,
        access: Vec::new(),
    }
    .encode_to_vec();
    encode_key(ACCESS_TAG, WireType::LengthDelimited, &mut head);
    encode_varint(table_bytes as u64, &mut head);
    head
}

pub(crate) fn decode_checkpoint(bytes: &[u8]) -> Result<Table, EntryError> {
    let checkpoint = Checkpoint::decode(bytes)?;
    check(checkpoint.version)?;
    Ok(Table::decode(&checkpoint.access)?)
}

const fn check(version: u32) -> Result<(), EntryError> {
    if version > VERSION {
        Err(EntryError::Newer(version))
    } else {
        Ok(())
    }
}
