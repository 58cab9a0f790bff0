//! Sessions with what belongs to them.

use std::collections::BTreeMap;

use compact_str::CompactString;
use courser_contract::{SessionUid, Will};

use super::{Canonical, DecodeError, Owner, Parts, Reader, SEQ_END, Stream, ids, read_str};
use crate::{
    checkpoint::Saved,
    entry::ScanState,
    l2::Entry,
    session::{
        Extra, OwnerName, PACKET_IDS, Scan, Session, SessionLead, Share, Subscribed, Subscriptions,
    },
    state::weight,
};

const NO_SESSION: DecodeError = DecodeError::Invalid("part of no session");

impl Parts {
    pub(super) fn session(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        let session = Session {
            uid,
            client_id: CompactString::from(read_str(reader)?),
            owner: None,
            epoch: reader.read()?,
            attached: reader.read()?,
            will_forgotten: false,
            receive_maximum: reader.read()?,
            expiry_seconds: reader.read()?,
            ends_at: reader.read()?,
            sent_limit: reader.read()?,
            stream: Stream::default(),
            subscriptions: Subscriptions::default(),
            extra: None,
            lead: SessionLead::default(),
            saved: Saved::default(),
        };
        let end: u64 = reader.read()?;
        let state = &mut self.state;
        let place = ids::place(uid.0) as u32;
        if ids::owner(uid.0) != Owner::Session
            || ids::counter(uid.0) > state.last_session
            || state.sessions.at(place).is_some()
            || end >= SEQ_END
        {
            return Err(DecodeError::Invalid("session"));
        }
        if !session.client_id.is_empty() {
            let before = state.by_client.insert(session.client_id.clone(), uid.0);
            if before.is_some() {
                return Err(DecodeError::Invalid("client id of two sessions"));
            }
        }
        self.ends.push((uid.0, end));
        state.sessions.insert(uid.0, Box::new(session));
        Ok(())
    }

    pub(super) fn subscriptions(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        let count = reader.count(10)?;
        let session = self.state.sessions.get_mut(uid.0).ok_or(NO_SESSION)?;
        session.subscriptions.reserve_exact(count);
        for _ in 0..count {
            self.add_subscription(uid, read_subscription(reader)?)?;
        }
        Ok(())
    }

    pub(super) fn places(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        for _ in 0..reader.count(14)? {
            let at: u32 = reader.read()?;
            let made = read_subscription(reader)?;
            if self.places.insert((uid.0, at), made).is_some() {
                return Err(DecodeError::Invalid("place of two subscriptions"));
            }
        }
        Ok(())
    }

    /// All have come: those with places follow those without.
    pub(super) fn add_places(&mut self) -> Result<(), DecodeError> {
        for ((uid, at), made) in std::mem::take(&mut self.places) {
            let session = self.state.sessions.get(uid).ok_or(NO_SESSION)?;
            if session.subscriptions.len() != at as usize {
                return Err(DecodeError::Invalid("place of a subscription"));
            }
            self.add_subscription(SessionUid(uid), made)?;
        }
        Ok(())
    }

    fn add_subscription(&mut self, uid: SessionUid, made: Subscribed) -> Result<(), DecodeError> {
        let state = &mut self.state;
        let session = state.sessions.get_mut(uid.0).ok_or(NO_SESSION)?;
        let new = match &made.share {
            None => {
                let entry = Entry::new(uid.0, made.options, made.identifier);
                state.l2.insert_new(&made.filter, entry)
            }
            Some(share) => {
                state.shared_subscriptions += 1;
                session.find(Some(&share.name), &made.filter).is_none()
            }
        };
        if !new {
            return Err(DecodeError::Invalid("subscription that is there"));
        }
        state.session_bytes += weight::of_subscription(&made);
        session.subscriptions.push(made);
        state.subscriptions += 1;
        Ok(())
    }

    pub(super) fn holds(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        let session = self.state.sessions.get_mut(uid.0).ok_or(NO_SESSION)?;
        read_holds(reader, session.extra_mut())?;
        session.tidy_extra();
        Ok(())
    }

    pub(super) fn scans(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        let last_scan = self.state.last_scan;
        let session = self.state.sessions.get_mut(uid.0).ok_or(NO_SESSION)?;
        read_scans(reader, last_scan, session.extra_mut())?;
        session.tidy_extra();
        Ok(())
    }

    pub(super) fn owner(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        let owner: Box<str> = reader.read()?;
        let session = self.state.sessions.get_mut(uid.0).ok_or(NO_SESSION)?;
        if session.owner.replace(Box::new(OwnerName(owner))).is_some() {
            return Err(DecodeError::Invalid("owner of a session that has one"));
        }
        Ok(())
    }

    pub(super) fn extra(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let uid: SessionUid = reader.read()?;
        let last_scan = self.state.last_scan;
        let session = self.state.sessions.get_mut(uid.0).ok_or(NO_SESSION)?;
        let extra = session.extra_mut();
        if extra.will.is_some() || extra.will_due.is_some() {
            return Err(DecodeError::Invalid("part of a session that is there"));
        }
        read_will(reader, extra)?;
        read_holds(reader, extra)?;
        read_scans(reader, last_scan, extra)?;
        // Earlier builds wrote one for leaves alone, and those may have begun behind the checkpoint.
        session.tidy_extra();
        Ok(())
    }
}

fn read_subscription(reader: &mut Reader<'_>) -> Result<Subscribed, DecodeError> {
    let filter = read_filter(reader)?;
    let name: Option<Box<str>> = reader.read()?;
    Ok(Subscribed {
        filter,
        share: name.map(|name| Box::new(Share { name, group: None })),
        options: reader.read()?,
        identifier: reader.read()?,
    })
}

pub(super) fn read_filter(reader: &mut Reader<'_>) -> Result<Box<str>, DecodeError> {
    let filter = read_str(reader)?;
    match router::check_filter(filter) {
        Ok(()) => Ok(filter.into()),
        Err(_) => Err(DecodeError::Invalid("filter")),
    }
}

fn read_will(reader: &mut Reader<'_>, extra: &mut Extra) -> Result<(), DecodeError> {
    let will: Option<Box<Will>> = reader.read()?;
    let topic = will.as_ref().map(|will| router::check_topic(&will.topic));
    if topic.is_some_and(|topic| topic.is_err()) {
        return Err(DecodeError::Invalid("topic of a will"));
    }
    extra.will = will;
    extra.will_due = reader.read()?;
    Ok(())
}

fn read_holds(reader: &mut Reader<'_>, extra: &mut Extra) -> Result<(), DecodeError> {
    for _ in 0..reader.count(10)? {
        let (packet_id, hash): (u16, u64) = reader.read()?;
        if extra.holds.insert(packet_id, hash).is_some() {
            return Err(DecodeError::Invalid("hold that is there"));
        }
    }
    Ok(())
}

fn read_scans(
    reader: &mut Reader<'_>,
    last_scan: u64,
    extra: &mut Extra,
) -> Result<(), DecodeError> {
    for _ in 0..reader.count(16)? {
        let number: u64 = reader.read()?;
        let scan = Scan {
            filter: read_filter(reader)?,
            cursors: read_cursors(reader)?,
        };
        if number > last_scan || extra.scans.insert(number, scan).is_some() {
            return Err(DecodeError::Invalid("scan"));
        }
    }
    Ok(())
}

fn read_cursors(
    reader: &mut Reader<'_>,
) -> Result<BTreeMap<courser_contract::PartitionId, ScanState>, DecodeError> {
    let mut cursors = BTreeMap::new();
    for _ in 0..reader.count(2 + ScanState::MIN_BYTES)? {
        let partition = reader.read()?;
        if cursors.insert(partition, reader.read()?).is_some() {
            return Err(DecodeError::Invalid("cursor that is there"));
        }
    }
    Ok(cursors)
}

/// What [`Session::check`] asserts.
pub(super) fn check(session: &Session) -> Result<(), DecodeError> {
    if session.sent_limit > session.stream.floor() + PACKET_IDS
        || (session.attached && session.ends_at.is_some())
    {
        return Err(DecodeError::Invalid("session"));
    }
    Ok(())
}
