//! What a run came to, and its sums.

use crate::oracle::{Excuse, Uses};

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rule that was broken and how; none: all held.
    pub violation: Option<String>,
    /// What happened, line by line.
    pub trace: String,
    /// What was counted.
    pub counts: Counts,
    pub(crate) uses: Uses,
}

impl Outcome {
    /// How often something passed for this reason only.
    #[must_use]
    pub fn excused(&self, excuse: Excuse) -> u64 {
        self.uses.of(excuse)
    }
}

/// Sums of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events handled.
    pub events: u64,
    /// Turns of shards.
    pub turns: u64,
    /// Messages published.
    pub published: u64,
    /// Messages processed by clients.
    pub delivered: u64,
    /// Deliveries that were repeats.
    pub repeats: u64,
    /// Packets that clients sent and received in the time with faults.
    pub packets: u64,
    /// Connections.
    pub connections: u64,
    /// Sessions taken up again.
    pub resumed: u64,
    /// Entries committed.
    pub entries: u64,
    /// Comparisons of a partition with its replay.
    pub replays: u64,
    /// Messages that had waited for too long.
    pub too_old: u64,
    /// Messages for which a session or group had no room.
    pub overflowed: u64,
    /// Messages that had expired.
    pub expired: u64,
    /// Subscriptions that were refused since a session had as many as it may have.
    pub refused: u64,
    /// Publishes that were answered with a reason code which says that they are not taken.
    pub turned_away: u64,
    /// Times that a client asked about a filter about which it had no answer.
    pub asked_again: u64,
    /// SUBSCRIBEs of sessions with so many filters that they are looked up by their hash.
    pub many_filters: u64,
    /// Copies of the disk that were recovered after a loss of power or a flipped bit.
    pub probes: u64,
    /// Starts from a disk.
    pub recoveries: u64,
    /// Segments that they passed over.
    pub passed: u64,
    /// Relaxed partitions that lost something with the power.
    pub rolled_back: u64,
    /// Damaged partitions that were tried on such copies.
    pub damaged: u64,
    /// Checkpoints that were finished.
    pub checkpoints: u64,
    /// Segments of the log that were begun.
    pub segments: u64,
    /// Segments that were used again since all that was needed of them was moved.
    pub cleaned: u64,
    /// Records that were moved for it.
    pub kept: u64,
    /// Records that were read back since they were only in the log.
    pub recalled: u64,
    /// Copies that were made while the node ran, and were whole.
    pub copies: u64,
    /// Backups that were made.
    pub backups: u64,
    /// Files that a backup did not copy, since the one before had them.
    pub reused: u64,
    /// Times that the node came out of a backup.
    pub restored: u64,
    /// Partitions that a start has set aside, since the program had panicked at an entry twice.
    pub set_aside: u64,
    /// Orders of an operator about them.
    pub operated: u64,
    /// Places that have rotted while the node ran.
    pub rotted: u64,
    /// Damaged segments that a scrub has found by then, or somebody who could not read them.
    pub found: u64,
    /// Records that could not be read back.
    pub unreadable: u64,
    /// Times that an operator has come for it.
    pub repaired: u64,
    /// Partitions that were in doubt for it at a start, and had lost nothing.
    pub doubted: u64,
    /// Messages that he has accepted as lost, as often as that was written.
    pub accepted: u64,
    /// Those of them that the node has counted.
    pub counted: u64,
    /// Messages that the node has counted as lost without anybody's word for it.
    pub missed: u64,
    /// Times that the node stopped because of its disk.
    pub failures: u64,
}

impl Counts {
    /// Messages that were dropped and counted.
    pub(crate) const fn dropped(&self) -> u64 {
        self.too_old + self.overflowed + self.expired
    }

    /// Adds the sums of another run.
    pub const fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.turns += other.turns;
        self.published += other.published;
        self.delivered += other.delivered;
        self.repeats += other.repeats;
        self.packets += other.packets;
        self.connections += other.connections;
        self.resumed += other.resumed;
        self.entries += other.entries;
        self.replays += other.replays;
        self.too_old += other.too_old;
        self.overflowed += other.overflowed;
        self.expired += other.expired;
        self.refused += other.refused;
        self.turned_away += other.turned_away;
        self.asked_again += other.asked_again;
        self.many_filters += other.many_filters;
        self.probes += other.probes;
        self.recoveries += other.recoveries;
        self.passed += other.passed;
        self.checkpoints += other.checkpoints;
        self.segments += other.segments;
        self.cleaned += other.cleaned;
        self.kept += other.kept;
        self.copies += other.copies;
        self.backups += other.backups;
        self.reused += other.reused;
        self.restored += other.restored;
        self.set_aside += other.set_aside;
        self.operated += other.operated;
        self.recalled += other.recalled;
        self.failures += other.failures;
        self.rotted += other.rotted;
        self.found += other.found;
        self.unreadable += other.unreadable;
        self.repaired += other.repaired;
        self.doubted += other.doubted;
        self.accepted += other.accepted;
        self.counted += other.counted;
        self.missed += other.missed;
        self.damaged += other.damaged;
        self.rolled_back += other.rolled_back;
    }
}
