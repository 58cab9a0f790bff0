//! What goes on to other partitions (M19): who leads them, how far each outbox is sent, and who waits for the answers.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;
use courser_contract::{FrontId, PartitionId, PubrecCan, Seq, SessionUid, Settled, Term, Tick};
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::Hasher;
use crate::outbox::Sender;

/// The leader's half of the outboxes.
#[derive(Debug, Default)]
pub(crate) struct Forwards {
    pub(crate) senders: BTreeMap<PartitionId, Sender>,
    /// Who leads the partitions to which outboxes lead, as they have said.
    pub(crate) leaders: BTreeMap<PartitionId, Term>,
    /// Where the outboxes stood, and since when: one that does not move is sent again.
    pub(crate) stood: BTreeMap<PartitionId, (Seq, Tick)>,
    /// Forwards that were proposed and are not yet in an outbox.
    pub(crate) reserved: u32,
    /// Number of the last entry out of which something goes on to where it is kept as a retained message.
    pub(crate) last_kept_elsewhere: u64,
    /// What sessions have in outboxes, or proposed for them.
    pub(crate) backlogs: HashMap<SessionUid, Backlog, Hasher>,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// An outbox has more to send at once than one call may.
    pub(crate) more: bool,
    /// Positions that the facts since the last hold got.
    pub(crate) pushed: Vec<(PartitionId, Seq)>,
    /// Forwards whose answers somebody waits for.
    pub(crate) answers: HashMap<(PartitionId, Seq), Waiter, Hasher>,
    /// Holds whose PUBREC waits for answers, with the forwards that have none.
    pub(crate) holding: HashMap<(SessionUid, u16), (Holding, OpenForwards), Hasher>,
    /// Forwards of earlier leaders that may be refused and are not answered, by session: which holds they belong to is not known.
    pub(crate) inherited: BTreeMap<SessionUid, BTreeSet<(PartitionId, Seq)>>,
    /// Holds of earlier leaders whose PUBREC waits for those of their session, with the front that asked again (M28).
    pub(crate) waiting_holds: BTreeMap<(SessionUid, u16), FrontId>,
}

/// What of a session is not at its destinations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) forwards: u64,
    pub(crate) bytes: u64,
}

impl Forwards {
    /// A forward of a session goes into an outbox.
    pub(crate) fn begun(&mut self, session: SessionUid, bytes: u64) {
        let backlog = self.backlogs.entry(session).or_default();
        backlog.forwards += 1;
        backlog.bytes += bytes;
        self.bytes += bytes;
    }

    /// It is out of it.
    pub(crate) fn ended(&mut self, session: SessionUid, bytes: u64) {
        let Some(backlog) = self.backlogs.get_mut(&session) else {
            return;
        };
        backlog.forwards = backlog.forwards.saturating_sub(1);
        backlog.bytes = backlog.bytes.saturating_sub(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        if backlog.forwards == 0 {
            self.backlogs.remove(&session);
        }
    }

    /// Whether a destination has refused what a session has sent it, and is asked again.
    pub(crate) fn is_refused_at(&self, to: PartitionId, session: SessionUid) -> bool {
        let sender = self.senders.get(&to);
        sender.is_some_and(|sender| sender.has_refused_of(session))
    }

    /// The same of any destination.
    pub(crate) fn is_refused(&self, session: SessionUid) -> bool {
        let mut senders = self.senders.values();
        senders.any(|sender| sender.has_refused_of(session))
    }
}

/// A QoS 2 publish on its way.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) front: FrontId,
    pub(crate) session: SessionUid,
    pub(crate) packet_id: u16,
    /// Facts that put it into outboxes.
    pub(crate) forwards: usize,
    /// Whether PUBREC waits for their answers (M28).
    pub(crate) must_wait: bool,
    /// Whether it can say that one of them refuses.
    pub(crate) pubrec: PubrecCan,
    pub(crate) result: Settled,
}

/// Forwards of one message without an answer.
pub(crate) type OpenForwards = SmallVec<[(PartitionId, Seq); 2]>;

/// Who waits for the answer to a forward.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    /// A hold's PUBREC.
    Hold(SessionUid, u16),
    /// The next connection of a client id, for a will (M25).
    Will(CompactString),
}
