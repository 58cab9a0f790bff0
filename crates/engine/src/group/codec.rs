//! Canonical bytes of the replicated half of a group.

use std::collections::BTreeMap;

use courser_contract::{HomeRef, RetainHandling, Seq, SubscriptionOptions};

use super::{Group, Member, Owed, Part, Stage};
use crate::canonical::{Canonical, DecodeError, Reader, write_count};
use crate::seq_table::SeqTable;

impl Canonical for SubscriptionOptions {
    const MIN_BYTES: usize = 4;

    fn write(&self, out: &mut Vec<u8>) {
        self.qos.write(out);
        self.no_local.write(out);
        self.retain_as_published.write(out);
        (self.retain_handling as u8).write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            qos: reader.read()?,
            no_local: reader.read()?,
            retain_as_published: reader.read()?,
            retain_handling: match reader.read::<u8>()? {
                0 => RetainHandling::Send,
                1 => RetainHandling::SendIfNew,
                2 => RetainHandling::DoNotSend,
                _ => return Err(DecodeError::Invalid("retain handling")),
            },
        })
    }
}

impl Canonical for Member {
    const MIN_BYTES: usize = 9;

    fn write(&self, out: &mut Vec<u8>) {
        self.options.write(out);
        self.identifier.write(out);
        self.priority.write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            options: reader.read()?,
            identifier: reader.read()?,
            priority: reader.read()?,
        })
    }
}

impl Canonical for Owed {
    const MIN_BYTES: usize = 12;

    fn write(&self, out: &mut Vec<u8>) {
        self.member.write(out);
        self.packet_id.write(out);
        (self.stage == Stage::Received).write(out);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            member: reader.read()?,
            packet_id: reader.read()?,
            stage: if reader.read()? {
                Stage::Received
            } else {
                Stage::Assigned
            },
        })
    }
}

impl Canonical for Part {
    const MIN_BYTES: usize = 1;

    fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Whole => 0u8.write(out),
            Self::Heir { cut, taken, all } => {
                1u8.write(out);
                cut.write(out);
                taken.write(out);
                all.write(out);
            }
            Self::Closed => 2u8.write(out),
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(match reader.read::<u8>()? {
            0 => Self::Whole,
            1 => Self::Heir {
                cut: reader.read()?,
                taken: reader.read()?,
                all: reader.read()?,
            },
            2 => Self::Closed,
            _ => return Err(DecodeError::Invalid("part of a group")),
        })
    }
}

impl Group {
    /// Appends the canonical bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_head(out);
        write_count(self.members.len(), out);
        for (home, member) in &self.members {
            home.write(out);
            member.write(out);
        }
        write_count(self.owed.len(), out);
        for (seq, owed) in self.owed.iter() {
            seq.write(out);
            owed.write(out);
        }
        write_count(self.attempts.len(), out);
        for (seq, attempts) in &self.attempts {
            seq.write(out);
            attempts.write(out);
        }
    }

    /// Appends those of what does not grow.
    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) {
        self.share.write(out);
        self.filter.write(out);
        self.strategy.write(out);
        self.part.write(out);
    }

    /// Puts back a member. False: it is there.
    pub(crate) fn restore_member(&mut self, home: HomeRef, member: Member) -> bool {
        self.members.insert(home, member).is_none()
    }

    /// Puts back what is owed of a message. False: it is there.
    pub(crate) fn restore_owed(&mut self, seq: Seq, owed: Owed) -> bool {
        self.owed.insert(seq, owed).is_none()
    }

    /// Puts back how often a message was tried. False: it is there, or that is never written.
    pub(crate) fn restore_attempts(&mut self, seq: Seq, attempts: u32) -> bool {
        attempts > 0 && self.attempts.insert(seq, attempts).is_none()
    }

    /// Reads what [`Group::encode`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (share, filter): (Box<str>, Box<str>) = reader.read()?;
        let strategy = reader.read()?;
        let mut group = Self::new(&share, &filter, strategy);
        group.part = reader.read()?;
        let members: Vec<(HomeRef, Member)> = read_ascending(reader)?;
        group.members = BTreeMap::from_iter(members);
        let owed: Vec<(Seq, Owed)> = read_ascending(reader)?;
        let mut table = SeqTable::default();
        for (seq, owed) in owed {
            table.insert(seq, owed);
        }
        group.owed = table;
        let attempts: Vec<(Seq, u32)> = read_ascending(reader)?;
        if attempts.iter().any(|&(_, attempts)| attempts == 0) {
            return Err(DecodeError::Invalid("attempts"));
        }
        group.attempts = BTreeMap::from_iter(attempts);
        Ok(group)
    }
}

/// Items whose keys ascend.
fn read_ascending<K: Canonical + Ord, V: Canonical>(
    reader: &mut Reader<'_>,
) -> Result<Vec<(K, V)>, DecodeError> {
    let count = reader.count(K::MIN_BYTES + V::MIN_BYTES)?;
    let mut items: Vec<(K, V)> = Vec::with_capacity(count);
    for _ in 0..count {
        let item: (K, V) = reader.read()?;
        if items.last().is_some_and(|last| last.0 >= item.0) {
            return Err(DecodeError::Invalid("order of a group's items"));
        }
        items.push(item);
    }
    Ok(items)
}
