//! Deliveries of QoS > 0 under way to one client.
//!
//! Invariants (`check`, run by the tests after every step):
//! - `counted` is the number of exchanges that count against Receive Maximum; it is at most `limit`: v5 [MQTT-3.3.4-9]
//! - a packet id is free or under way, never both: v3 [MQTT-2.3.1-4], v5 [MQTT-2.2.1-4]. Ids of the session's stream follow from its
//!   seqs (M30) and are below 32,768; those of groups are above (M31). Those are taken until the
//!   group has committed that the exchange is over, so all of them may be while the window has room
//! - at its ends the session's part has an exchange, not a gap

mod groups;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use courser_contract::{GroupRef, Seq, Source};

pub(super) use self::groups::group_ids_from;
use self::groups::{GROUP_IDS_FROM, GroupExchange, GroupExchanges};

/// Packet ids of a session's own stream: `1 + seq mod 32767` (M30).
const SESSION_IDS: u64 = 32_767;

/// What a delivery waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Exchange {
    /// Nothing is under way.
    None,
    /// QoS 2 of a group: that the group has committed the packet id (M31).
    Named,
    /// QoS 2 of a group, which has committed the packet id and delivered: that the output has room. It is this session's by a
    /// committed word, whoever leads the group next.
    Held,
    /// QoS 2 of a group, begun on an earlier connection: room to be sent again.
    Again,
    /// QoS 2 of a group, begun on an earlier connection: that the loss of the message is accepted. Then it is released.
    Withheld,
    /// QoS 1: PUBACK.
    Puback,
    /// QoS 2: PUBREC.
    Pubrec,
    /// QoS 2: that the home has stored "received" (M32).
    Stored,
    /// QoS 2: PUBCOMP.
    Pubcomp,
    /// QoS 2, begun on an earlier connection: PUBCOMP. Receive Maximum began anew with this connection (v5 section 4.9), so it does
    /// not count.
    PubcompOfEarlier,
    /// QoS 2 of a group: over for the client; its packet id is free once the group has committed that. A new leader that has
    /// not heard of it would deliver or release with this id.
    Finished,
    /// The same, told to a new leader of the group.
    FinishedAgain,
}

impl Exchange {
    const fn counts(self) -> bool {
        match self {
            Self::None
            | Self::Again
            | Self::Withheld
            | Self::PubcompOfEarlier
            | Self::Finished
            | Self::FinishedAgain => false,
            Self::Named
            | Self::Held
            | Self::Puback
            | Self::Pubrec
            | Self::Stored
            | Self::Pubcomp => true,
        }
    }
}

/// What a packet id that a group gives means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// The delivery has it and may be sent as soon as there is room.
    Taken,
    /// The delivery has it and its place in the window.
    Named,
    /// The delivery is under way on this connection, and the group knows all that the client has said.
    UnderWay,
    /// The client has received it, which the group does not know.
    Received,
    /// It is over for the client, which the group does not know.
    Finished,
    /// Another delivery has it.
    InUse,
}

/// A delivery by its stream and place there.
pub(super) type Place = (Source, Seq);

/// All exchanges under way.
#[derive(Debug)]
pub(super) struct Window {
    limit: u16,
    counted: u16,
    session_from: u64,
    session: VecDeque<Exchange>,
    groups: GroupExchanges,
}

/// The packet id of a delivery of the session's own stream (M30).
pub(super) const fn session_packet_id(seq: Seq) -> u16 {
    (1 + seq.0 % SESSION_IDS) as u16
}

impl Window {
    /// Of a connection on which packet ids of groups begin at 32,768 + `group_ids_from`.
    pub(super) fn new(limit: u16, group_ids_from: u16) -> Self {
        Self {
            limit,
            counted: 0,
            session_from: 0,
            session: VecDeque::new(),
            groups: GroupExchanges::new(group_ids_from),
        }
    }

    /// From here on packet ids of groups are given from 32,768 + `from` on. What is owed already keeps its own.
    pub(super) fn begin_groups_at(&mut self, from: u16) {
        self.groups.begin_at(from);
    }

    /// Whether another delivery of a group may be sent with a packet id of this connection: [`Window::begin`] takes it.
    pub(super) const fn has_room_for_group(&self) -> bool {
        self.has_room() && self.groups.has_free_id()
    }

    /// How many deliveries of groups may be sent with packet ids of this connection.
    pub(super) fn places_for_groups(&self) -> u16 {
        let ids = u16::try_from(self.groups.free_ids()).unwrap_or(u16::MAX);
        self.limit.saturating_sub(self.counted).min(ids)
    }

    /// Whether a packet id of groups is free.
    pub(super) const fn has_free_group_id(&self) -> bool {
        self.groups.has_free_id()
    }

    /// Whether another delivery may be sent, if it has its packet id.
    pub(super) const fn has_room(&self) -> bool {
        self.counted < self.limit
    }

    /// Nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.session.is_empty() && self.groups.is_idle()
    }

    /// Begins an exchange, for which there is room, and gives its packet id; `None` when this delivery is under way already.
    pub(super) fn begin(&mut self, (source, seq): Place, exchange: Exchange) -> Option<u16> {
        let packet_id = match source {
            Source::Session => {
                let place = self.session_place(seq);
                if *place != Exchange::None {
                    return None;
                }
                *place = exchange;
                session_packet_id(seq)
            }
            Source::Group(group) => self.groups.begin(GroupExchange {
                group,
                seq,
                exchange,
            }),
        };
        self.counted += u16::from(exchange.counts());
        Some(packet_id)
    }

    /// The place of a seq, made when it is outside the range so far.
    fn session_place(&mut self, seq: Seq) -> &mut Exchange {
        if self.session.is_empty() {
            self.session_from = seq.0;
        }
        let from = self.session_from.min(seq.0);
        let end = (self.session_from + self.session.len() as u64).max(seq.0 + 1);
        assert!(
            end - from <= SESSION_IDS,
            "a home sends nothing beyond the packet ids of its stream"
        );
        while from < self.session_from {
            self.session.push_front(Exchange::None);
            self.session_from -= 1;
        }
        let index = (seq.0 - self.session_from) as usize;
        if index == self.session.len() {
            self.session.push_back(Exchange::None);
        } else if index > self.session.len() {
            self.session.resize(index + 1, Exchange::None);
        }
        &mut self.session[index]
    }

    /// Takes a delivery of a group up again under the packet id that it had on an earlier connection.
    pub(super) fn resume(&mut self, (source, seq): Place, packet_id: u16) {
        let exchange = Exchange::PubcompOfEarlier;
        match source {
            Source::Session => *self.session_place(seq) = exchange,
            Source::Group(group) => {
                let entry = GroupExchange {
                    group,
                    seq,
                    exchange,
                };
                self.occupy(packet_id, entry);
            }
        }
    }

    fn occupy(&mut self, packet_id: u16, entry: GroupExchange) {
        if packet_id >= GROUP_IDS_FROM {
            self.groups.occupy(packet_id, entry);
        }
    }

    /// A group delivers with a packet id: one that was named on this connection, or one of an earlier connection, which is
    /// taken from here on.
    pub(super) fn give(&mut self, group: GroupRef, seq: Seq, packet_id: u16) -> Given {
        match self.locate((Source::Group(group), seq)) {
            Some((id, Exchange::Named)) if id == packet_id => Given::Named,
            // The disk has given it to another one meanwhile.
            Some((id, Exchange::Withheld)) => {
                self.set(id, Exchange::Again);
                Given::Taken
            }
            Some((id, Exchange::Named)) => self.give_other((group, seq), id, packet_id),
            Some((_, Exchange::Stored)) => Given::Received,
            Some((id, Exchange::Finished | Exchange::FinishedAgain)) => {
                self.set(id, Exchange::FinishedAgain);
                Given::Finished
            }
            Some((
                _,
                Exchange::None
                | Exchange::Held
                | Exchange::Again
                | Exchange::Puback
                | Exchange::Pubrec
                | Exchange::Pubcomp
                | Exchange::PubcompOfEarlier,
            )) => Given::UnderWay,
            None if self.find(packet_id).is_some() => Given::InUse,
            None => {
                let entry = GroupExchange {
                    group,
                    seq,
                    exchange: Exchange::Again,
                };
                self.occupy(packet_id, entry);
                Given::Taken
            }
        }
    }

    /// What was named for an earlier leader of the group has reached this one, which then passes over what was named for it.
    #[cold]
    fn give_other(&mut self, (group, seq): (GroupRef, Seq), named: u16, packet_id: u16) -> Given {
        self.set(named, Exchange::None);
        if self.find(packet_id).is_some() {
            return Given::InUse;
        }
        let exchange = Exchange::Named;
        let entry = GroupExchange {
            group,
            seq,
            exchange,
        };
        self.occupy(packet_id, entry);
        self.counted += u16::from(exchange.counts());
        Given::Named
    }

    /// A group releases a delivery that it has asked a packet id for, and that it has not sent on this connection. None: another one has the
    /// packet id by now, so the client has nothing of it.
    #[cold]
    pub(super) fn release_named(
        &mut self,
        (source, seq): Place,
        packet_id: Option<u16>,
    ) -> Option<u16> {
        let (Source::Group(group), Some(packet_id)) = (source, packet_id) else {
            return None;
        };
        let is_its = self.give(group, seq, packet_id) == Given::Named;
        is_its.then(|| {
            self.set(packet_id, Exchange::PubcompOfEarlier);
            packet_id
        })
    }

    /// What a group has given with a packet id that was named on this connection is held.
    pub(super) fn hold(&mut self, packet_id: u16) {
        if let Some((_, Exchange::Named)) = self.find(packet_id) {
            self.set(packet_id, Exchange::Held);
        }
    }

    /// Whether what is held with a packet id has its place in the window.
    pub(super) fn has_place(&self, packet_id: u16) -> bool {
        matches!(self.find(packet_id), Some((_, Exchange::Held)))
    }

    /// A group does not want a packet id any more.
    pub(super) fn unname(&mut self, place: Place) {
        if let Some((packet_id, Exchange::Named)) = self.locate(place) {
            self.set(packet_id, Exchange::None);
        }
    }

    /// A leader of a group has said all that it owes: what it has not committed of names is void, and of what is over and was
    /// not told again it knows.
    pub(super) fn settle_with(&mut self, group: GroupRef) {
        let of_group = self.groups.iter().filter(|(_, entry)| entry.group == group);
        let under_way: Vec<_> = of_group.map(|(id, entry)| (id, entry.exchange)).collect();
        for (packet_id, exchange) in under_way {
            let next = match exchange {
                Exchange::Named | Exchange::Finished => Exchange::None,
                Exchange::FinishedAgain => Exchange::Finished,
                Exchange::None
                | Exchange::Held
                | Exchange::Again
                | Exchange::Withheld
                | Exchange::Puback
                | Exchange::Pubrec
                | Exchange::Stored
                | Exchange::Pubcomp
                | Exchange::PubcompOfEarlier => continue,
            };
            self.set(packet_id, next);
        }
    }

    /// Ends an exchange. The packet id of a group's delivery of QoS 2 stays taken until [`Window::finished`].
    pub(super) fn end(&mut self, packet_id: u16) {
        let next = match packet_id {
            GROUP_IDS_FROM.. => Exchange::Finished,
            _ => Exchange::None,
        };
        self.set(packet_id, next);
    }

    /// A group has committed the end of a delivery.
    pub(super) fn finished(&mut self, group: GroupRef, seq: Seq) {
        if let Some((packet_id, Exchange::Finished | Exchange::FinishedAgain)) =
            self.locate((Source::Group(group), seq))
        {
            self.set(packet_id, Exchange::None);
        }
    }

    /// What is under way with a packet id.
    pub(super) fn find(&self, packet_id: u16) -> Option<(Place, Exchange)> {
        if packet_id >= GROUP_IDS_FROM {
            let entry = self.groups.get(packet_id)?;
            return Some(((Source::Group(entry.group), entry.seq), entry.exchange));
        }
        let offset = (u64::from(packet_id) + SESSION_IDS - 1 - self.session_from % SESSION_IDS)
            % SESSION_IDS;
        match self.session.get(offset as usize)? {
            Exchange::None => None,
            &exchange => Some(((Source::Session, Seq(self.session_from + offset)), exchange)),
        }
    }

    /// The packet id and state of a delivery.
    pub(super) fn locate(&self, (source, seq): Place) -> Option<(u16, Exchange)> {
        match source {
            Source::Session => {
                let index = seq.0.checked_sub(self.session_from)?;
                match self.session.get(usize::try_from(index).ok()?)? {
                    Exchange::None => None,
                    &exchange => Some((session_packet_id(seq), exchange)),
                }
            }
            Source::Group(group) => self.groups.locate(group, seq),
        }
    }

    /// Moves an exchange on; with [`Exchange::None`] it is over and its packet id free.
    pub(super) fn set(&mut self, packet_id: u16, next: Exchange) {
        let Some(((source, seq), before)) = self.find(packet_id) else {
            return;
        };
        self.counted -= u16::from(before.counts());
        self.counted += u16::from(next.counts());
        match source {
            Source::Session => {
                let index = (seq.0 - self.session_from) as usize;
                self.session[index] = next;
                self.trim();
            }
            Source::Group(_) => self.groups.set(packet_id, next),
        }
    }

    /// Gaps at the ends of the session's part are dropped.
    fn trim(&mut self) {
        while self.session.front() == Some(&Exchange::None) {
            self.session.pop_front();
            self.session_from += 1;
        }
        while self.session.back() == Some(&Exchange::None) {
            self.session.pop_back();
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let session = self.session.iter().filter(|exchange| exchange.counts());
        let groups = self
            .groups
            .iter()
            .filter(|(_, entry)| entry.exchange.counts());
        assert_eq!(
            usize::from(self.counted),
            session.count() + groups.count(),
            "exchanges are counted"
        );
        assert!(self.counted <= self.limit, "Receive Maximum holds");
        assert!(
            self.session.front() != Some(&Exchange::None)
                && self.session.back() != Some(&Exchange::None),
            "no gap at the ends"
        );
        self.groups.check();
    }
}
