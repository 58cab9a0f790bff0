//! Publishes of a client that wait for their acknowledgement (M10), and QoS 2 packet ids that wait for PUBREL.
//!
//! Invariants (`check`, run by the tests after every step):
//! - acknowledgements leave only from the head of the queue, so in the order of the publishes: v3 [MQTT-4.6.0-2], v3 [MQTT-4.6.0-3]
//! - after [`Tickets::drain`] the head waits, or it was refused in a version that has no negative acknowledgement
//! - a hold exists for each QoS 2 ticket that waits

use std::collections::VecDeque;

use courser_contract::{QoS, Tick, Ticket};

use crate::codec::ReasonCode;

/// Which way a publish went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To its destinations.
    Direct,
    /// By the home, which stores it first (M28).
    Home,
}

/// What is known of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing yet.
    Waits,
    /// This acknowledgement is due.
    Due(ReasonCode),
    /// 3.1.1 cannot say that it was refused: nothing leaves behind it (M49).
    Silent,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) since: Tick,
    pub(super) packet_id: u16,
    pub(super) qos: QoS,
    pub(super) way: Way,
    pub(super) answer: Answer,
    /// Part of the hash of the topic of a RETAIN publish, never 0 then (M28).
    pub(super) retain_mark: u32,
}

/// The queue of M10.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    first: u32,
    queue: VecDeque<Entry>,
}

impl Tickets {
    /// The ticket of the next publish.
    pub(super) fn next(&self) -> Ticket {
        Ticket(self.first.wrapping_add(self.queue.len() as u32))
    }

    pub(super) fn push(&mut self, entry: Entry) {
        self.queue.push_back(entry);
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The oldest one.
    pub(super) fn head(&self) -> Option<&Entry> {
        self.queue.front()
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let index = ticket.0.wrapping_sub(self.first);
        self.queue.get_mut(usize::try_from(index).ok()?)
    }

    /// The oldest one that waits for the home's answer about a packet id.
    pub(super) fn of_home(&mut self, packet_id: u16) -> Option<&mut Entry> {
        self.queue.iter_mut().find(|entry| {
            entry.way == Way::Home && entry.packet_id == packet_id && entry.answer == Answer::Waits
        })
    }

    /// Whether a RETAIN publish with this mark waits that went another way (M28).
    pub(super) fn retain_waits(&self, mark: u32, way: Way) -> bool {
        self.queue.iter().any(|entry| {
            entry.retain_mark == mark && entry.way != way && entry.answer == Answer::Waits
        })
    }

    /// The next acknowledgement that may leave.
    pub(super) fn drain(&mut self) -> Option<(Entry, ReasonCode)> {
        let entry = *self.queue.front()?;
        match entry.answer {
            Answer::Due(reason) => {
                self.queue.pop_front();
                self.first = self.first.wrapping_add(1);
                Some((entry, reason))
            }
            Answer::Waits | Answer::Silent => None,
        }
    }
}

/// State of a QoS 2 packet id of the client between PUBLISH and PUBCOMP, on this connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// PUBREC has not left.
    Waits,
    /// PUBREC has left; the front alone knows of it (M29).
    Here,
    /// PUBREC has left; the home holds it. Where nobody subscribed it does not, but perhaps an earlier message: its client lost its state
    /// and has begun anew with the packet id, and PUBREL ends that exchange too.
    AtHome,
    /// PUBREL has come, the home removes what it holds.
    Releasing,
    /// The same of an exchange that began on an earlier connection: our Receive Maximum began anew with this one, v5 section 4.9.
    ReleasingEarlier,
}

/// Holds by packet id. Clients count their ids up, so that changes are mostly at the ends.
#[derive(Debug, Default)]
pub(super) struct Holds {
    sorted: VecDeque<(u16, Hold)>,
    /// Those of them that do not count.
    earlier: u16,
}

impl Holds {
    pub(super) fn are_none(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Exchanges that count against our Receive Maximum.
    pub(super) fn counted(&self) -> usize {
        self.sorted.len() - usize::from(self.earlier)
    }

    pub(super) fn get(&self, packet_id: u16) -> Option<Hold> {
        let index = self.search(packet_id).ok()?;
        Some(self.sorted[index].1)
    }

    pub(super) fn set(&mut self, packet_id: u16, hold: Hold) {
        let before = match self.search(packet_id) {
            Ok(index) => Some(std::mem::replace(&mut self.sorted[index].1, hold)),
            Err(index) => {
                self.sorted.insert(index, (packet_id, hold));
                None
            }
        };
        self.earlier -= u16::from(before == Some(Hold::ReleasingEarlier));
        self.earlier += u16::from(hold == Hold::ReleasingEarlier);
    }

    pub(super) fn remove(&mut self, packet_id: u16) -> Option<Hold> {
        let index = self.search(packet_id).ok()?;
        let (_, hold) = self.sorted.remove(index)?;
        self.earlier -= u16::from(hold == Hold::ReleasingEarlier);
        Some(hold)
    }

    fn search(&self, packet_id: u16) -> Result<usize, usize> {
        match (self.sorted.front(), self.sorted.back()) {
            (Some(&(first, _)), _) if first == packet_id => Ok(0),
            (_, Some(&(last, _))) if last < packet_id => Err(self.sorted.len()),
            _ => self.sorted.binary_search_by_key(&packet_id, |&(id, _)| id),
        }
    }
}
