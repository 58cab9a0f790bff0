//! Which records a checkpoint needs, without making a partition of it: for whoever moves records in the log.

use bytes::Bytes;
use courser_contract::{
    Cut, LogIndex, Need, Needs, NeedsScan, PartitionId, RecordRef, Seq, SessionUid,
};

use super::{
    restore::{RestoreError, check_head, damaged, each_unit, kind_of},
    unit::{AddressReader, Kind, Named, Naming},
};
use crate::{
    canonical::{DecodeError, Reader, read_str},
    look::Looks,
    record::Address,
    stream::Chunk,
};

/// What checkpoints of partitions need, for a log that does not know them.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckpointNeeds;

impl Needs for CheckpointNeeds {
    type Scan = NeededRecords;

    fn scan(&self, partition: PartitionId) -> NeededRecords {
        NeededRecords::new(partition)
    }

    fn record_bytes(&self, entry: &Bytes, byte: u32) -> Option<usize> {
        let record = RecordRef::parse(entry, byte as usize)?;
        Some(record.encoded_len())
    }
}

impl NeedsScan for NeededRecords {
    fn piece(&mut self, bytes: &[u8], need: &mut dyn FnMut(Need)) -> Result<(), String> {
        let told = Self::piece(self, bytes, |index, byte| need(Need { index, byte }));
        told.map_err(|error| error.to_string())
    }

    fn finish(self) -> Result<(), String> {
        Self::finish(self).map_err(|error| error.to_string())
    }
}

/// Goes through the pieces of a checkpoint and tells every address that it names: those of a stream one after the other. Memory:
/// a unit that has not come whole. Cost: some nanoseconds an address.
#[derive(Debug)]
pub struct NeededRecords {
    id: PartitionId,
    /// A unit that has not come whole.
    rest: Vec<u8>,
    units: u64,
    /// None before the first unit.
    naming: Option<Naming>,
    has_ended: bool,
    /// Those of a unit.
    found: Named,
}

impl NeededRecords {
    /// Of a checkpoint of this partition.
    #[must_use]
    pub const fn new(id: PartitionId) -> Self {
        Self {
            id,
            rest: Vec::new(),
            units: 0,
            naming: None,
            has_ended: false,
            found: Named::new(),
        }
    }

    /// The next piece, in order; `need` gets the entry of each address and the byte at which the record begins in it. A record
    /// that several places need is told for each.
    ///
    /// # Errors
    /// When the piece cannot be what a partition wrote.
    pub fn piece(
        &mut self,
        bytes: &[u8],
        mut need: impl FnMut(LogIndex, u32),
    ) -> Result<(), RestoreError> {
        let mut rest = std::mem::take(&mut self.rest);
        each_unit(&mut rest, bytes, |kind, body| {
            self.unit(kind, body)?;
            for &packed in &self.found.addresses {
                let address = Address::unpack(packed);
                need(LogIndex(address.index), address.ordinal);
            }
            self.found.clear();
            Ok(())
        })?;
        self.rest = rest;
        Ok(())
    }

    /// All pieces have come.
    ///
    /// # Errors
    /// When the end is missing.
    pub fn finish(self) -> Result<(), RestoreError> {
        match self.has_ended && self.rest.is_empty() {
            true => Ok(()),
            false => Err(RestoreError::Incomplete),
        }
    }

    fn unit(&mut self, kind: u8, body: &[u8]) -> Result<(), RestoreError> {
        let unit = self.units;
        self.units += 1;
        let kind = kind_of(unit, kind)?;
        let mut reader = Reader::new(body);
        match (kind, self.naming) {
            (Kind::Head, None) => self.head(&mut reader),
            (Kind::Head, Some(_)) | (_, None) => {
                Err(damaged(unit, DecodeError::Invalid("order of units")))
            }
            (kind, Some(naming)) => self
                .addresses(kind, naming, &mut reader)
                .map_err(|cause| damaged(unit, cause)),
        }
    }

    fn head(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let version = check_head(reader, self.id)?;
        let end = reader.read().map_err(|cause| damaged(0, cause))?;
        self.naming = Some(Naming::new(version, end));
        Ok(())
    }

    /// Addresses of a unit, if it has some.
    fn addresses(
        &mut self,
        kind: Kind,
        naming: Naming,
        reader: &mut Reader<'_>,
    ) -> Result<(), DecodeError> {
        match kind {
            Kind::Chunk | Kind::Ended => {
                reader.read::<u64>()?;
                let mut addresses = AddressReader::new(&mut self.found, naming);
                Chunk::read(reader, &mut Looks::default(), &mut addresses)?;
            }
            Kind::Retained => {
                let count = reader.count(6)?;
                let mut addresses = AddressReader::new(&mut self.found, naming);
                for _ in 0..count {
                    read_str(reader)?;
                    addresses.read(reader)?;
                }
            }
            Kind::Forward => {
                reader.read::<PartitionId>()?;
                reader.read::<Seq>()?;
                reader.read::<Option<SessionUid>>()?;
                reader.read::<bool>()?;
                reader.read::<bool>()?;
                reader.read::<Cut>()?;
                AddressReader::new(&mut self.found, naming).read(reader)?;
            }
            Kind::End => self.has_ended = true,
            Kind::Head
            | Kind::Origins
            | Kind::Inbox
            | Kind::Set
            | Kind::Session
            | Kind::Subscriptions
            | Kind::Extra
            | Kind::Group
            | Kind::Leave
            | Kind::Outbox
            | Kind::Owner
            | Kind::Ages
            | Kind::Places
            | Kind::Holds
            | Kind::Scans
            | Kind::Members
            | Kind::Owed
            | Kind::Attempts
            | Kind::Unreceived => {}
        }
        Ok(())
    }
}
