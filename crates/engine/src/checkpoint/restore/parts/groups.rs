//! Shared groups.

use super::{DecodeError, Owner, Parts, Reader, SEQ_END, Stream, ids, sessions::read_filter};
use crate::{
    canonical::Canonical,
    checkpoint::Saved,
    group::{Group, Part},
    state::{GroupLead, Leaving, SharedGroup},
};

impl Parts {
    pub(super) fn group(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let number: u64 = reader.read()?;
        let end: u64 = reader.read()?;
        let group = SharedGroup {
            group: Group::read(reader)?,
            stream: Stream::default(),
            lead: GroupLead::default(),
            saved: Saved::default(),
            saved_end: 0,
        };
        let state = &mut self.state;
        if ids::owner(number) != Owner::Group
            || ids::counter(number) > state.last_group
            || state.groups.at(ids::place(number) as u32).is_some()
            || end >= SEQ_END
            || router::check_filter(group.group.filter()).is_err()
            || group.group.part() == Part::Closed
            || !state.insert_group(number, group)
        {
            return Err(DecodeError::Invalid("group"));
        }
        self.ends.push((number, end));
        Ok(())
    }

    pub(super) fn members(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.items(reader, |group, (home, member)| {
            group.restore_member(home, member)
        })
    }

    pub(super) fn owed(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.items(reader, |group, (seq, owed)| group.restore_owed(seq, owed))
    }

    pub(super) fn attempts(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.items(reader, |group, (seq, attempts)| {
            group.restore_attempts(seq, attempts)
        })
    }

    /// Items of a group, each of which is new.
    fn items<T: Canonical>(
        &mut self,
        reader: &mut Reader<'_>,
        mut add: impl FnMut(&mut Group, T) -> bool,
    ) -> Result<(), DecodeError> {
        let number: u64 = reader.read()?;
        let group = self.state.groups.get_mut(number);
        let group = group.ok_or(DecodeError::Invalid("part of no group"))?;
        for _ in 0..reader.count(T::MIN_BYTES)? {
            if !add(&mut group.group, reader.read()?) {
                return Err(DecodeError::Invalid("item of a group that is there"));
            }
        }
        Ok(())
    }

    pub(super) fn leave(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let request: u64 = reader.read()?;
        let leaving = Leaving {
            share: reader.read()?,
            filter: read_filter(reader)?,
            member: reader.read()?,
            ended: reader.read()?,
            part: reader.read()?,
            group: None,
        };
        match self.state.leaves.insert(request, leaving) {
            None => Ok(()),
            Some(_) => Err(DecodeError::Invalid("leave that is there")),
        }
    }

    /// Sessions that live know their leaves.
    pub(super) fn link_leaves(&mut self) -> Result<(), DecodeError> {
        let leaves = self.state.leaves.iter();
        for (&request, leaving) in leaves.filter(|(_, leaving)| !leaving.ended) {
            let session = self.state.sessions.get_mut(leaving.member.0);
            let session = session.ok_or(DecodeError::Invalid("leave of no session"))?;
            session.extra_mut().leaves.push(request);
        }
        Ok(())
    }
}

/// What a group says of messages, it says of messages that wait.
pub(super) fn check(group: &SharedGroup) -> Result<(), DecodeError> {
    let waits = |seq: courser_contract::Seq| group.stream.get(seq.0).is_some();
    let mut owed = group.group.all_owed();
    if owed.all(|(seq, _)| waits(seq)) {
        Ok(())
    } else {
        Err(DecodeError::Invalid("message that a group owes"))
    }
}
