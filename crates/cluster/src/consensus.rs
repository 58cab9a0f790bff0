//! What a partition's shell asks of consensus, and what consensus asks of the shell.

use bytes::Bytes;
use courser_contract::{LogIndex, Term};
use courser_log::Record;

use crate::{NodeId, PeerMessage, SnapshotDescriptor};

/// Whether this node decides for the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads this term, and has handed over all entries before it (M5).
    Leader(Term),
    /// Another node does, or nobody.
    Follower,
}

/// An entry was not taken: another node leads, or this one does not yet serve its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this node does not lead the partition")]
pub struct NotLeading;

/// A peer said what no correct peer says. Nothing of the message was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMessage {
    /// The sender is no member of the group.
    #[error("the sender is no member of this group")]
    NoMember,
    /// Its entries are not dense, or newer than the message itself.
    #[error("entries of a message are out of order")]
    Entries,
    /// It wants something committed that this node never had.
    #[error("a commit index lies above all entries of this node")]
    Commit,
    /// It contradicts what is committed here (I6).
    #[error("an entry contradicts a committed one")]
    Fork,
    /// A term or an index that cannot be.
    #[error("a term or an index is out of range")]
    Range,
}

/// What [`Consensus::poll`] left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Polled {
    /// Nothing; the next event brings work.
    Quiet,
    /// More: poll again, in this turn or in the next one.
    More,
}

/// How the transfer of a snapshot to a peer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotResult {
    /// The peer has all of it.
    Done,
    /// It has not; it is offered again.
    Failed,
}

/// One partition's consensus. Events go in by these calls; effects come out of [`poll`](Self::poll), which the shell calls
/// once after all calls of a turn.
pub trait Consensus {
    /// Appends an entry to the log. It is committed once a majority has it, or lost with the leadership.
    ///
    /// # Errors
    /// [`NotLeading`]: nothing was taken.
    ///
    /// # Panics
    /// When the entry is empty: those are the consensus' own.
    fn propose(&mut self, entry: Bytes) -> Result<(), NotLeading>;

    /// A tick has passed (100 ms on a real clock). Needed only while not [`is_idle`](Self::is_idle).
    fn tick(&mut self);

    /// A message of a peer. Messages of one peer come in the order in which it sent them; they may be lost.
    ///
    /// A snapshot is given only after everything that its descriptor names is on this node's disk (M43).
    ///
    /// # Errors
    /// [`BadMessage`]: the message was dropped, and its sender should be looked at.
    fn step(&mut self, from: NodeId, message: PeerMessage) -> Result<(), BadMessage>;

    /// All records with this number, and with all numbers below it, are durable.
    fn persisted(&mut self, number: u64);

    /// Hands over what is to be done: at most one batch of records and about a mebibyte of committed entries.
    fn poll(&mut self, fx: &mut impl ConsensusEffects) -> Polled;

    /// Entries up to this index are in a durable checkpoint and need not be remembered. Beyond what is applied, or, with
    /// peers, beyond the offered snapshot, nothing is forgotten.
    fn compact(&mut self, index: LogIndex);

    /// Nothing will happen before the next call from outside: no ticks are needed. A group of one sleeps whenever it has
    /// nothing under way.
    fn is_idle(&self) -> bool;
}

/// What a group asks of its shell.
pub trait ConsensusEffects {
    /// Write these records; when they are durable, `persisted(number)` is to be called. In order of numbers.
    fn write(&mut self, number: u64, records: impl Iterator<Item = Record>);

    /// An entry is committed: apply it.
    fn committed(&mut self, index: LogIndex, term: Term, entry: Bytes);

    /// An entry is committed that consensus wrote for itself. There is nothing to apply, but what is saved at it covers what is before it:
    /// who has no entries of its own needs that to let older segments go.
    fn opened(&mut self, index: LogIndex, term: Term) {
        let _ = (index, term);
    }

    /// The role has changed.
    fn role(&mut self, role: Role);

    /// Send this to a peer. It may be lost, but not overtaken.
    fn send(&mut self, to: NodeId, message: PeerMessage);

    /// Load the checkpoint that a snapshot named: its content replaces the state of the partition (M43).
    fn restore(&mut self, snapshot: SnapshotDescriptor);

    /// Read these entries, first to last, out of the log for a peer that lags behind; answered by `Group::fetched`, also
    /// when there is nothing to give. At most one request at a time.
    fn fetch(&mut self, first: LogIndex, last: LogIndex);
}
