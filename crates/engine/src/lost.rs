//! Records whose bytes the disk has lost (M44).
//!
//! A checkpoint names records by their addresses; the bytes come out of the log. Where the log does not give an entry any more,
//! its records become **tombstones**: records without a topic, which no publish has. They hold their places, so that streams
//! keep their order, and are never delivered: a session or group stops at one, an outbox holds back what comes behind it for
//! the same session, a retained one is not found. That ends when the operator accepts the loss, by facts as any other.

mod search;

use std::fmt;

use courser_contract::{
    Dropped, LogIndex, Now, PartitionEffects, PartitionId, QoS, RecordView, Seq, Term,
};

pub use self::search::ReferenceSearch;
pub(crate) use self::search::Search;
use crate::{
    Partition, PartitionConfig, PlantedPartition,
    entry::{Fate, Haste, OutcomeFact, Rare},
    ids::{self, Owner},
    record::Slot,
    state::State,
    stream::Stream,
};

/// Stands for a record whose bytes are lost.
pub(crate) const TOMBSTONE: RecordView<'static> = RecordView {
    topic: "",
    properties: &[],
    payload: &[],
    qos: QoS::AtMostOnce,
    retain: false,
    expires_at: None,
    publisher: None,
    author: None,
};

/// Whether a record stands for one whose bytes are lost.
#[inline]
pub(crate) const fn is_tombstone(view: &RecordView<'_>) -> bool {
    view.topic.is_empty()
}

/// How far a stream was looked at for what is lost: it is looked at again when more is lost, and not for each message that it gives out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unlost {
    /// [`Records::lost_ever`](crate::record::Records::lost_ever) then.
    lost_ever: u64,
    /// Nothing below it is lost, or its end is proposed.
    below: u64,
}

impl Unlost {
    /// The first position of a stream whose message is lost, and not about to end. What comes later is behind `end`.
    pub(crate) fn first_lost(
        &mut self,
        (lost_ever, end): (u64, u64),
        next_live: impl Fn(u64) -> Option<u64>,
        is_lost: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        if self.lost_ever != lost_ever {
            *self = Self {
                lost_ever,
                below: 0,
            };
        }
        while let Some(seq) = next_live(self.below) {
            self.below = seq;
            if is_lost(seq) {
                return Some(seq);
            }
            self.below += 1;
        }
        self.below = end;
        None
    }
}

/// A place that needs a record whose bytes are lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostReference {
    /// What needs it.
    pub stream: LostStream,
    /// Its position there; 0 for a retained message.
    pub seq: u64,
    /// The entry that brought the record.
    pub index: LogIndex,
    /// Byte of the entry at which the record begins.
    pub byte: u32,
}

/// What needs a record whose bytes are lost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LostStream {
    /// The queue of the session with this client id: it is delivered up to the record and not further.
    Session(Box<str>),
    /// The queue of a shared group: the same.
    Group {
        /// Share name.
        share: Box<str>,
        /// Filter without share name.
        filter: Box<str>,
    },
    /// The retained message of a topic: it is not found.
    Retained(Box<str>),
    /// The outbox to a partition: what the same session sent later waits.
    Forwards(PartitionId),
}

impl fmt::Display for LostStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(client_id) => write!(f, "session {client_id:?}"),
            Self::Group { share, filter } => write!(f, "group {share:?} of {filter:?}"),
            Self::Retained(topic) => write!(f, "retained message of {topic:?}"),
            Self::Forwards(to) => write!(f, "messages on their way to partition {}", to.0),
        }
    }
}

/// Places that need certain records.
#[derive(Debug, Default)]
struct Places {
    /// Number of the stream and position.
    streams: Vec<(u64, u64, Slot)>,
    retained: Vec<(Box<str>, Slot)>,
    forwards: Vec<(PartitionId, Seq, Slot)>,
}

impl State {
    /// Every place that needs the bytes of a record of which `is_meant`. Linear in all that is stored.
    fn places_of(&self, is_meant: impl Fn(Slot) -> bool) -> Places {
        let mut places = Places::default();
        let sessions = self.sessions.sorted().into_iter();
        let sessions = sessions.filter_map(|at| Some((at, &self.sessions.get(at)?.stream)));
        let groups = self.groups.sorted().into_iter();
        let groups = groups.filter_map(|at| Some((at, &self.groups.get(at)?.stream)));
        for (number, stream) in sessions.chain(groups) {
            let meant = stream
                .iter()
                .filter(|(seq, it)| is_meant(it.slot) && !self.is_received(number, *seq));
            places
                .streams
                .extend(meant.map(|(seq, it)| (number, seq, it.slot)));
        }
        let retained = self.retained.after(None);
        let retained = retained.filter(|(_, slot)| is_meant(*slot));
        places
            .retained
            .extend(retained.map(|(topic, slot)| (topic.into(), slot)));
        for (to, outbox) in self.outboxes.iter() {
            let meant = outbox.iter().filter(|(_, it)| is_meant(it.item.slot));
            places
                .forwards
                .extend(meant.map(|(seq, it)| (to, seq, it.item.slot)));
        }
        places
    }

    /// Whether it is an exchange of QoS 2 that the client has the message of: only the rest is needed.
    fn is_received(&self, number: u64, seq: u64) -> bool {
        match ids::owner(number) {
            Owner::Session => {
                let session = self.sessions.get(number);
                session.is_some_and(|it| it.stream.is_received(seq))
            }
            Owner::Group => {
                let group = self.groups.get(number);
                group.is_some_and(|it| it.group.is_received(Seq(seq)))
            }
        }
    }

    fn stream_of(&self, number: u64) -> Option<&Stream> {
        match ids::owner(number) {
            Owner::Session => Some(&self.sessions.get(number)?.stream),
            Owner::Group => Some(&self.groups.get(number)?.stream),
        }
    }

    fn name_of(&self, number: u64) -> LostStream {
        match ids::owner(number) {
            Owner::Session => {
                let session = self.sessions.get(number);
                LostStream::Session(session.map_or("", |it| it.client_id.as_str()).into())
            }
            Owner::Group => {
                let group = self.groups.get(number).map(|it| &it.group);
                LostStream::Group {
                    share: group.map_or("", |it| it.share()).into(),
                    filter: group.map_or("", |it| it.filter()).into(),
                }
            }
        }
    }
}

impl Partition {
    /// Whether the disk has lost records that it needs.
    #[must_use]
    pub const fn has_lost(&self) -> bool {
        self.state.records.tombstones() > 0
    }

    /// Another number whenever [`lost`](Self::lost) may say something else.
    #[must_use]
    pub const fn losses(&self) -> u64 {
        self.state.records.losses()
    }

    /// Every place that needs a record which the disk has lost, in order. Nothing where nothing is lost; else linear in all
    /// that is stored, which [`search_lost`](Self::search_lost) is not.
    #[must_use]
    pub fn lost(&self) -> Vec<LostReference> {
        if self.state.records.tombstones() == 0 {
            return Vec::new();
        }
        self.named(self.tombstones())
    }

    fn tombstones(&self) -> Places {
        let records = &self.state.records;
        self.state.places_of(|slot| records.is_tombstone(slot))
    }

    fn named(&self, places: Places) -> Vec<LostReference> {
        let reference = |stream, seq, slot| {
            let address = self.state.records.address(slot);
            LostReference {
                stream,
                seq,
                index: LogIndex(address.index),
                byte: address.ordinal,
            }
        };
        let streams = places.streams.into_iter();
        let streams =
            streams.map(|(number, seq, slot)| reference(self.state.name_of(number), seq, slot));
        let retained = places.retained.into_iter();
        let retained =
            retained.map(|(topic, slot)| reference(LostStream::Retained(topic), 0, slot));
        let forwards = places.forwards.into_iter();
        let forwards =
            forwards.map(|(to, seq, slot)| reference(LostStream::Forwards(to), seq.0, slot));
        let mut named: Vec<_> = streams.chain(retained).chain(forwards).collect();
        named.sort_unstable();
        named
    }

    /// The operator accepts that records of these entries are lost: what needs them is ended by facts of the next entry, counted
    /// as [`Dropped::Damaged`], and goes on behind them. Says what that was.
    ///
    /// # Panics
    /// When this partition does not decide: it leads, and the first entry of its term is applied.
    pub fn accept_loss(
        &mut self,
        now: Now,
        is_accepted: impl Fn(LogIndex) -> bool,
        fx: &mut impl PartitionEffects,
    ) -> Vec<LostReference> {
        assert!(self.lead.decides(), "a leader writes what was accepted");
        self.lead.now = now;
        if self.state.records.tombstones() == 0 {
            return Vec::new();
        }
        let records = &self.state.records;
        let places = self.state.places_of(|slot| {
            let index = LogIndex(records.address(slot).index);
            records.is_tombstone(slot) && is_accepted(index)
        });
        for (topic, slot) in &places.retained {
            let address = self.state.records.address(*slot);
            self.write(&Rare::RetainedExpired {
                topic: topic.clone(),
                index: LogIndex(address.index),
                ordinal: address.ordinal,
            });
        }
        for &(number, seq, _) in &places.streams {
            if !self.end_exchange(number, seq) {
                self.doom(number, seq, Fate::Dropped);
                self.give_up_shared(number, Seq(seq), fx);
            }
            // It goes on once that is applied.
            self.lead.streams.pump.push(number);
        }
        for &(to, seq, _) in &places.forwards {
            self.end_forward(to, seq);
        }
        let lost = self.named(places);
        if !lost.is_empty() && !self.is_planted(PlantedPartition::Uncounted) {
            fx.dropped(Dropped::Damaged, lost.len() as u64);
        }
        lost
    }
}

impl Partition {
    /// Of an exchange of QoS 2 that may have begun only the rest is left: its packet id is free when the client has answered PUBREL, and not
    /// before (M30, M31). Returns whether there is one.
    fn end_exchange(&mut self, number: u64, seq: u64) -> bool {
        if ids::owner(number) == Owner::Group {
            return self.end_shared_exchange(number, Seq(seq));
        }
        let session = self.state.sessions.get(number);
        if !session.is_some_and(|session| session.is_in_exchange(seq)) {
            return false;
        }
        let fact = OutcomeFact {
            stream: number,
            first: seq,
            last: seq,
            fate: Fate::Received,
            // The front has not said it.
            sent_limit: 0,
        };
        fact.write(&mut self.gather, Haste::Now);
        true
    }

    /// A partition without anything, behind an entry of a log whose earlier state is lost for good. No number that it gives out
    /// was given out before (M7), as long as no entry began more than 1,024
    /// sessions, groups or scans.
    #[must_use]
    pub fn begin_behind(config: PartitionConfig, index: LogIndex, term: Term) -> Self {
        let mut partition = Self::new(config);
        let state = &mut partition.state;
        state.index = index.0;
        state.term = term;
        let counters = index.0.saturating_mul(NUMBERS_AN_ENTRY);
        let counters = counters.min(ids::COUNTER_MAX / 2);
        state.last_session = counters;
        state.last_group = counters;
        state.last_scan = counters;
        partition
    }
}

/// Sessions, groups or scans that begin with one entry, at most.
const NUMBERS_AN_ENTRY: u64 = 1 << 10;

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::Unlost;

    /// One that is lost made each step of a group that is drained as long as what waits there.
    #[test]
    fn i10_a_stream_is_looked_at_once_for_each_loss() {
        const WAITING: u64 = 10_000;
        let steps = Cell::new(0);
        let done = Cell::new(0);
        let mut unlost = Unlost::default();
        let mut first = |lost_ever, end, lost: &[u64]| {
            let next_live = |seq: u64| {
                let seq = seq.max(done.get());
                (seq < end).then_some(seq)
            };
            unlost.first_lost((lost_ever, end), next_live, |seq| {
                steps.set(steps.get() + 1);
                lost.contains(&seq)
            })
        };
        for drained in 0..WAITING / 2 {
            done.set(drained);
            assert_eq!(first(1, WAITING, &[]), None);
        }
        assert_eq!(steps.take(), WAITING);
        for more in 0..100 {
            assert_eq!(first(1, WAITING + more, &[]), None);
        }
        assert_eq!(steps.take(), 99, "what comes is looked at once");
        let lost = [WAITING - 10, WAITING - 5];
        for _ in 0..100 {
            assert_eq!(first(3, WAITING + 99, &lost), Some(lost[0]));
        }
        assert!(steps.take() < WAITING);
        assert_eq!(
            first(3, WAITING + 99, &lost[1..]),
            Some(lost[1]),
            "its end is proposed"
        );
        assert!(steps.take() < 10);
    }
}
