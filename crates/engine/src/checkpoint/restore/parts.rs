//! Units of a checkpoint, put back one by one.

mod groups;
mod sessions;

use std::{collections::BTreeMap, rc::Rc};

use courser_contract::{PartitionId, Seq, Term};

use super::{Kind, Reader, RestoreError, Restored, State, check_head, damaged, kind_of};
use crate::{
    canonical::{Canonical, DecodeError, read_str},
    checkpoint::unit::{AddressReader, Named, Naming},
    entry::{SETS_MAX, Target},
    ids::{self, Owner},
    origins::Origins,
    outbox::{Forward, Inbox, Outboxes, Refusable},
    record::Address,
    session::Subscribed,
    state::{Ages, Forwarded, weight},
    stream::{Chunk, Stream},
};

/// How far the reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Begin,
    Units,
    Ended,
}

/// Positions of a stream stay far below: arithmetic with them does not overflow.
const SEQ_END: u64 = 1 << 62;

/// A state that grows unit by unit. Numbers of addresses stand where slots will.
#[derive(Debug)]
pub(in crate::checkpoint) struct Parts {
    pub(super) state: State,
    progress: Progress,
    units: u64,
    /// How addresses are written.
    naming: Naming,
    /// Records by number.
    numbers: Named,
    sets: BTreeMap<u32, Vec<Target>>,
    /// Where streams end.
    ends: Vec<(u64, u64)>,
    /// References of streams that ended by themselves, and places of those that were not received.
    ended: Vec<(u64, Chunk)>,
    unreceived: Vec<(u64, u64, [u64; 4])>,
    /// Subscriptions by session and place, behind those that came in order.
    places: BTreeMap<(u64, u32), Subscribed>,
    queued: u64,
}

const ORDER: DecodeError = DecodeError::Invalid("order of units");

impl Parts {
    pub(super) fn new(id: PartitionId) -> Self {
        Self {
            state: State::new(id),
            progress: Progress::Begin,
            units: 0,
            naming: Naming::new(0, 0),
            numbers: Named::new(),
            sets: BTreeMap::new(),
            ends: Vec::new(),
            ended: Vec::new(),
            unreceived: Vec::new(),
            places: BTreeMap::new(),
            queued: 0,
        }
    }

    pub(super) fn summary(&self) -> Restored {
        let state = &self.state;
        Restored {
            partition: state.id.0,
            index: state.index,
            term: state.term.0,
            wall_ms: state.wall.0,
            units: self.units,
            sessions: state.sessions.len() as u64,
            subscriptions: state.subscriptions + self.places.len() as u64,
            groups: state.groups.len() as u64,
            queued: self.queued,
            retained: state.retained.usage().topics,
            forwards: state.outboxes.len() as u64,
            sets: self.sets.len() as u64,
        }
    }

    /// Puts back one unit.
    pub(super) fn unit(&mut self, kind: u8, body: &[u8]) -> Result<(), RestoreError> {
        let unit = self.units;
        self.units += 1;
        let kind = kind_of(unit, kind)?;
        let mut reader = Reader::new(body);
        if kind == Kind::Head && self.progress == Progress::Begin {
            self.progress = Progress::Units;
            return self.head(&mut reader);
        }
        self.body(kind, &mut reader)
            .and_then(|()| reader.finish())
            .map_err(|cause| damaged(unit, cause))
    }

    fn body(&mut self, kind: Kind, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        if self.progress != Progress::Units {
            return Err(ORDER);
        }
        match kind {
            Kind::Head => Err(ORDER),
            Kind::Origins => {
                self.state.origins = Origins::read(reader)?;
                Ok(())
            }
            Kind::Inbox => {
                self.state.inbox = Inbox::read(reader)?;
                Ok(())
            }
            Kind::Ages => {
                let state = &mut self.state;
                state.ages = Ages::read(reader, state.index, state.wall)?;
                Ok(())
            }
            Kind::Set => self.set(reader),
            Kind::Session => self.session(reader),
            Kind::Subscriptions => self.subscriptions(reader),
            Kind::Extra => self.extra(reader),
            Kind::Owner => self.owner(reader),
            Kind::Chunk => self.chunk(reader),
            Kind::Ended => self.ended(reader),
            Kind::Unreceived => self.unreceived(reader),
            Kind::Places => self.places(reader),
            Kind::Holds => self.holds(reader),
            Kind::Scans => self.scans(reader),
            Kind::Members => self.members(reader),
            Kind::Owed => self.owed(reader),
            Kind::Attempts => self.attempts(reader),
            Kind::Group => self.group(reader),
            Kind::Leave => self.leave(reader),
            Kind::Retained => self.retained(reader),
            Kind::Outbox => self.outbox(reader),
            Kind::Forward => self.forward(reader),
            Kind::End => self.end(reader),
        }
    }

    fn head(&mut self, reader: &mut Reader<'_>) -> Result<(), RestoreError> {
        let version = check_head(reader, self.state.id)?;
        self.counters(reader).map_err(|cause| damaged(0, cause))?;
        self.naming = Naming::new(version, self.state.index);
        Ok(())
    }

    fn counters(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let state = &mut self.state;
        state.index = reader.read()?;
        state.wall = reader.read()?;
        state.term = Term(reader.read()?);
        state.last_session = reader.read()?;
        state.last_group = reader.read()?;
        state.last_scan = reader.read()?;
        state.outboxes = Outboxes::with_base(reader.read()?);
        if state.index >= Address::INDEX_END {
            return Err(DecodeError::Invalid("place in the log"));
        }
        Reader::finish(std::mem::replace(reader, Reader::new(&[])))
    }

    fn set(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let set: u32 = reader.read()?;
        if set >= SETS_MAX {
            return Err(DecodeError::Invalid("number of a set"));
        }
        let targets: Vec<Target> = reader.read()?;
        self.sets.entry(set).or_default().extend(targets);
        Ok(())
    }

    fn references(&mut self, reader: &mut Reader<'_>) -> Result<(u64, Chunk), DecodeError> {
        let number: u64 = reader.read()?;
        let mut addresses = AddressReader::new(&mut self.numbers, self.naming);
        let before = addresses.count();
        let chunk = Chunk::read(reader, &mut self.state.looks, &mut addresses)?;
        self.queued += (addresses.count() - before) as u64;
        Ok((number, chunk))
    }

    fn ended(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let ended = self.references(reader)?;
        self.ended.push(ended);
        Ok(())
    }

    fn unreceived(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let (number, base) = reader.read()?;
        let mut words = [0; 4];
        for word in &mut words {
            *word = reader.read()?;
        }
        self.unreceived.push((number, base, words));
        Ok(())
    }

    fn chunk(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let (number, chunk) = self.references(reader)?;
        self.known(number)?.restore_chunk(chunk);
        Ok(())
    }

    /// The stream of a session or a group that came before.
    fn known(&mut self, number: u64) -> Result<&mut Stream, DecodeError> {
        let stream = self.stream(number);
        stream.ok_or(DecodeError::Invalid("chunk of no stream"))
    }

    fn stream(&mut self, number: u64) -> Option<&mut Stream> {
        match ids::owner(number) {
            Owner::Session => {
                let session = self.state.sessions.get_mut(number);
                session.map(|session| &mut session.stream)
            }
            Owner::Group => {
                let group = self.state.groups.get_mut(number);
                group.map(|group| &mut group.stream)
            }
        }
    }

    fn retained(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let count = reader.count(6)?;
        let mut addresses = AddressReader::new(&mut self.numbers, self.naming);
        for _ in 0..count {
            let topic = read_str(reader)?;
            if router::check_topic(topic).is_err() {
                return Err(DecodeError::Invalid("topic"));
            }
            let number = addresses.read(reader)?;
            if !self.state.retained.restore(topic, number) {
                return Err(DecodeError::Invalid("topic that has a message"));
            }
        }
        Ok(())
    }

    fn outbox(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let to: PartitionId = reader.read()?;
        let next: Seq = reader.read()?;
        let outboxes = &mut self.state.outboxes;
        let is_possible = !to.is_volatile() && next >= outboxes.base() && next.0 != u64::MAX;
        if !is_possible || !outboxes.restore(to, next) {
            return Err(DecodeError::Invalid("outbox"));
        }
        Ok(())
    }

    fn forward(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let to: PartitionId = reader.read()?;
        let seq: Seq = reader.read()?;
        let session = reader.read()?;
        let refusable = if reader.read()? {
            Refusable::Yes
        } else {
            Refusable::No
        };
        let keep_retained = reader.read()?;
        let cut = reader.read()?;
        let mut addresses = AddressReader::new(&mut self.numbers, self.naming);
        let slot = addresses.read(reader)?;
        let forward = Forward {
            item: Forwarded {
                slot,
                keep_retained,
                cut,
            },
            session,
            refusable,
        };
        if self.state.outboxes.restore_forward(to, seq, forward) {
            Ok(())
        } else {
            Err(DecodeError::Invalid("forward"))
        }
    }

    fn end(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let units: u64 = reader.read()?;
        if units != self.units - 1 {
            return Err(DecodeError::Invalid("number of units"));
        }
        self.progress = Progress::Ended;
        Ok(())
    }

    /// All units have come: whether they fit each other. Returns the records by number.
    pub(super) fn seal(&mut self) -> Result<Named, RestoreError> {
        if self.progress != Progress::Ended {
            return Err(RestoreError::Incomplete);
        }
        let unit = self.units;
        self.streams().map_err(|cause| damaged(unit, cause))?;
        for (set, targets) in std::mem::take(&mut self.sets) {
            let at = set as usize;
            if at >= self.state.sets.len() {
                self.state.sets.resize(at + 1, None);
            }
            self.state.sets[at] = Some(Rc::from(targets));
        }
        self.state.queued = self.queued;
        Ok(std::mem::replace(&mut self.numbers, Named::new()))
    }

    fn streams(&mut self) -> Result<(), DecodeError> {
        let ends = std::mem::take(&mut self.ends);
        for (number, end) in &ends {
            self.known(*number)?.line_up(*end)?;
        }
        for (number, ended) in std::mem::take(&mut self.ended) {
            self.known(number)?.restore_ended(&ended)?;
        }
        for (number, base, words) in std::mem::take(&mut self.unreceived) {
            self.known(number)?.restore_unreceived(base, words)?;
        }
        for (number, _) in ends {
            self.known(number)?.restored()?;
        }
        self.add_places()?;
        self.link_leaves()?;
        for (_, session) in self.state.sessions.iter() {
            sessions::check(session)?;
            self.state.session_bytes += weight::of_whole(session);
        }
        for (_, group) in self.state.groups.iter() {
            groups::check(group)?;
        }
        Ok(())
    }
}
