//! A shared group: one stream, many consumers (M35).
//!
//! [`Group`] is the replicated half: members, what is owed to whom, how often a message was tried. It changes by facts
//! ([`Fact`]) of entries alone. [`Dispatch`] is the leader's half (M18): which members have a connection and room, what each
//! has under way, what is to go out again. It is lost with the leader and begun anew from the replicated half. The stream
//! itself, with its records and what of it is done, is the caller's.
//!
//! The same two carry work queues of other protocols: members have a priority (0 for MQTT) and a window.
//!
//! Invariants (`check` of both):
//! - who is owed a QoS 2 message is one session, member or not, until it has it or ends (v5 [MQTT-4.8.2-4], v5 [MQTT-4.8.2-5]); so is who has a
//!   QoS 1 message when the last member leaves (v5 [MQTT-3.10.4-3]), unless another one is there when its connection goes
//! - a message is in one place: under way, set aside, to go out again, or not looked at yet
//! - a member has no more under way than its window, but what it is owed after coming back with a smaller one

mod bits;
mod codec;
mod dispatch;
mod seats;

use std::collections::BTreeMap;

use courser_contract::{Cut, HomeRef, Seq, SharedStrategy, SubscriptionOptions};

#[cfg(test)]
use self::dispatch::Assignment;
pub(crate) use self::dispatch::{Dispatch, Look, Message, News, Up};
pub(crate) use self::seats::{RING_BYTES, Receiver};
use crate::{emptied::Emptied, seq_table::SeqTable};

/// What a member asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// Options of its subscription.
    pub(crate) options: SubscriptionOptions,
    /// Subscription identifier.
    pub(crate) identifier: Option<u32>,
    /// Only the connected members of the highest priority get messages; 0 for MQTT.
    pub(crate) priority: i32,
}

/// Why a session leaves a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// It unsubscribed: what was begun with it is finished (v3 [MQTT-3.10.4-3], v5 [MQTT-3.10.4-3]).
    Unsubscribed,
    /// It ended.
    SessionEnded,
}

/// How far a QoS 2 delivery is, as far as it has committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The PUBLISH may have been sent.
    Assigned,
    /// PUBREC has come: PUBREL is owed, the PUBLISH not again.
    Received,
}

/// A message that a session has, or will have again when it comes back: of QoS 2, or of QoS 1 and kept because no member was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owed {
    /// Whose it is.
    pub(crate) member: HomeRef,
    /// Packet id, from 32,768, that the front has named (M31). None: it is of QoS 1, and each PUBLISH takes an unused one.
    pub(crate) packet_id: Option<u16>,
    /// How far it is.
    pub(crate) stage: Stage,
}

impl Owed {
    /// Whether it is a QoS 1 delivery that was under way when the last member left.
    pub(crate) const fn is_kept(&self) -> bool {
        self.packet_id.is_none()
    }
}

/// What an entry says about messages of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    /// A QoS 2 message belongs to a session from here on; committed before the PUBLISH leaves (M31). Or one of QoS 1 that it has, since no member
    /// is left whose it would be.
    Assigned {
        /// The message.
        seq: Seq,
        /// The session.
        member: HomeRef,
        /// Its packet id; none for QoS 1.
        packet_id: Option<u16>,
    },
    /// It was not sent and is free again.
    Unassigned {
        /// The message.
        seq: Seq,
    },
    /// PUBREC has come; PUBREL leaves after the commit (M32).
    Received {
        /// The message.
        seq: Seq,
    },
    /// This many deliveries were begun and not finished (M18, M21).
    Attempts {
        /// The message.
        seq: Seq,
        /// Deliveries so far, at least 1.
        attempts: u32,
    },
    /// Finished, refused, expired or discarded: it is not delivered again.
    Done {
        /// The message.
        seq: Seq,
    },
}

/// Which part of a shared group this is (M36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The only one.
    Whole,
    /// The durable one of a group that was volatile: it gets messages from a cut on, and those that the volatile part passes on.
    Heir {
        /// The cut.
        cut: Cut,
        /// Messages that were passed on so far.
        taken: u64,
        /// Whether it has what waited in the volatile part; nothing of QoS > 0 is given out before.
        all: bool,
    },
    /// The volatile one, behind its cut: it finishes what it has begun and passes on the rest.
    Closed,
}

/// The replicated half of a shared group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    share: Box<str>,
    filter: Box<str>,
    strategy: SharedStrategy,
    part: Part,
    members: BTreeMap<HomeRef, Member>,
    owed: SeqTable<Owed>,
    attempts: BTreeMap<Seq, u32>,
}

impl Group {
    /// A group without members. The first one's join decides the strategy.
    pub(crate) fn new(share: &str, filter: &str, strategy: SharedStrategy) -> Self {
        Self {
            share: share.into(),
            filter: filter.into(),
            strategy,
            part: Part::Whole,
            members: BTreeMap::new(),
            owed: SeqTable::default(),
            attempts: BTreeMap::new(),
        }
    }

    /// Share name.
    pub(crate) fn share(&self) -> &str {
        &self.share
    }

    /// Filter without share name.
    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    /// Which part of the group it is.
    pub(crate) const fn part(&self) -> Part {
        self.part
    }

    /// It becomes another part.
    pub(crate) const fn set_part(&mut self, part: Part) {
        self.part = part;
    }

    /// Whether nothing of QoS > 0 is given to members.
    pub(crate) const fn is_mute(&self) -> bool {
        matches!(self.part, Part::Heir { all: false, .. } | Part::Closed)
    }

    /// How members take turns.
    pub(crate) const fn strategy(&self) -> SharedStrategy {
        self.strategy
    }

    /// A session joins, or changes what it asked for. Returns whether it is new.
    pub(crate) fn join(&mut self, member: HomeRef, asked: Member) -> bool {
        self.members.insert(member, asked).is_none()
    }

    /// A session leaves. Returns the messages that are done by it, in order: when a session ends, the QoS 2 messages begun
    /// with it go to nobody else (v5 [MQTT-4.8.2-5]), and those of QoS 1 that it has kept go with it. The caller applies that for each.
    pub(crate) fn leave(&mut self, member: HomeRef, why: Leave) -> Vec<Seq> {
        self.members.remove(&member);
        match why {
            Leave::Unsubscribed => Vec::new(),
            Leave::SessionEnded => self.owed_to(member).map(|(seq, _)| seq).collect(),
        }
    }

    /// Applies a fact. One that no longer fits, such as a result for a message that is done, changes nothing (M4).
    pub(crate) fn apply(&mut self, fact: &Fact) {
        match *fact {
            Fact::Assigned {
                seq,
                member,
                packet_id,
            } => {
                let stage = Stage::Assigned;
                let owed = Owed {
                    member,
                    packet_id,
                    stage,
                };
                self.owed.insert(seq, owed);
            }
            Fact::Unassigned { seq } => {
                self.owed.remove(seq);
            }
            Fact::Received { seq } => {
                if let Some(owed) = self.owed.get_mut(seq) {
                    owed.stage = Stage::Received;
                }
            }
            Fact::Attempts { seq, attempts } => {
                let counted = self.attempts.entry(seq).or_default();
                *counted = attempts.max(*counted);
            }
            Fact::Done { seq } => {
                if !self.owed.is_empty() {
                    self.owed.remove(seq);
                }
                if !self.attempts.is_empty() {
                    self.attempts.remove(&seq);
                }
            }
        }
    }

    /// Whether it has any.
    pub(crate) fn has_members(&self) -> bool {
        !self.members.is_empty()
    }

    /// What a member asked for.
    pub(crate) fn member(&self, member: HomeRef) -> Option<&Member> {
        self.members.get(&member)
    }

    /// All members.
    pub(crate) fn members(&self) -> impl Iterator<Item = (HomeRef, &Member)> {
        self.members.iter().map(|(&home, member)| (home, member))
    }

    /// Those at or behind one.
    pub(crate) fn members_from(&self, from: HomeRef) -> impl Iterator<Item = (HomeRef, &Member)> {
        let members = self.members.range(from..);
        members.map(|(&home, member)| (home, member))
    }

    /// Who is owed a message.
    pub(crate) fn owed(&self, seq: Seq) -> Option<&Owed> {
        self.owed.get(seq)
    }

    /// Whether PUBREC has come for a message: it is not sent again.
    pub(crate) fn is_received(&self, seq: Seq) -> bool {
        self.owed
            .get(seq)
            .is_some_and(|owed| owed.stage == Stage::Received)
    }

    /// What a session is owed, in order: for its front when it comes back (v5 [MQTT-4.8.2-4]).
    pub(crate) fn owed_to(&self, member: HomeRef) -> impl Iterator<Item = (Seq, &Owed)> {
        self.owed
            .iter()
            .filter(move |(_, owed)| owed.member == member)
    }

    /// All that is owed, in order.
    pub(crate) fn all_owed(&self) -> impl Iterator<Item = (Seq, &Owed)> {
        self.owed.iter()
    }

    /// Those from a position on.
    pub(crate) fn owed_from(&self, from: Seq) -> impl Iterator<Item = (Seq, &Owed)> {
        self.owed.iter_from(from)
    }

    /// How often messages from a position on were tried.
    pub(crate) fn attempts_from(&self, from: Seq) -> impl Iterator<Item = (Seq, u32)> {
        let attempts = self.attempts.range(from..);
        attempts.map(|(&seq, &attempts)| (seq, attempts))
    }

    /// Deliveries of a message that were begun and not finished, as far as committed.
    pub(crate) fn attempts(&self, seq: Seq) -> u32 {
        if self.attempts.is_empty() {
            return 0;
        }
        self.attempts.get(&seq).copied().unwrap_or(0)
    }

    /// No member has a connection any more: what was kept for messages to come is given back.
    pub(crate) fn rest(&mut self) {
        self.owed.shrink();
        self.attempts.give_back_if_empty();
    }

    /// Drops so many of its members and counts of attempts, once it is gone; how many.
    pub(crate) fn drop_items(&mut self, count: usize) -> usize {
        let members = std::iter::from_fn(|| self.members.pop_last());
        let dropped = members.take(count).count();
        let attempts = std::iter::from_fn(|| self.attempts.pop_last());
        dropped + attempts.take(count - dropped).count()
    }

    /// Whether the last member has left and nothing is owed: the group may end, and its stream with it. The leader proposes
    /// that once [`Dispatch::under_way`] is 0 as well, so that what was begun is finished.
    pub(crate) fn is_over(&self) -> bool {
        self.members.is_empty() && self.owed.is_empty()
    }

    /// Asserts the invariants of the replicated half.
    pub(crate) fn check(&self) {
        self.owed.check();
        assert!(
            self.attempts.values().all(|&attempts| attempts > 0),
            "only what was tried is counted"
        );
    }
}

#[cfg(test)]
mod bench;
#[cfg(test)]
mod tests;
