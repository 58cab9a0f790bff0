//! What the members of a group say to each other: our own types, so that no byte of a peer reaches the parser of the
//! consensus library.

mod convert;

use bytes::Bytes;
use courser_contract::{LogIndex, Term};

use crate::snapshot::SnapshotDescriptor;

pub(crate) use convert::{from_raft, to_raft};

/// A message between two members of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerMessage {
    /// The sender's term, or the one that it wants to begin.
    pub term: Term,
    /// What it says.
    pub body: PeerBody,
}

/// An entry on its way to a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEntry {
    /// The term that proposed it.
    pub term: Term,
    /// Its content; empty: the first entry of a term.
    pub data: Bytes,
}

/// Which vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteKind {
    /// Would you vote for me? Changes nothing.
    Pre,
    /// The vote of a term.
    Real,
    /// The same at the wish of the leader, which is not protected from it.
    Transfer,
}

/// The messages, by their names in the raft paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerBody {
    /// AppendEntries: entries behind a known one.
    Append {
        /// The entry before them.
        previous: (LogIndex, Term),
        /// Dense from there on.
        entries: Vec<PeerEntry>,
        /// Committed so far.
        commit: LogIndex,
    },
    /// The entries up to here are durable.
    Appended {
        /// Up to here.
        last: LogIndex,
        /// What the follower knows as committed.
        commit: LogIndex,
    },
    /// The entry before them is not known.
    AppendRejected {
        /// The one that was named.
        previous: LogIndex,
        /// Where the logs may meet.
        hint: (LogIndex, Term),
        /// What the follower knows as committed.
        commit: LogIndex,
    },
    /// RequestVote.
    Vote {
        /// For what.
        kind: VoteKind,
        /// The candidate's last entry.
        last: (LogIndex, Term),
        /// Its last committed entry.
        commit: (LogIndex, Term),
    },
    /// The answer.
    Voted {
        /// To which.
        kind: VoteKind,
        /// Whether the candidate has it.
        granted: bool,
        /// The voter's last committed entry; zeros when it says nothing of it.
        commit: (LogIndex, Term),
    },
    /// The leader lives.
    Heartbeat {
        /// Committed, as far as the follower has it.
        commit: LogIndex,
    },
    /// The follower, too.
    HeartbeatAnswer {
        /// What it knows as committed.
        commit: LogIndex,
    },
    /// InstallSnapshot: the log begins behind this. Given to `step` once all that it names is on this node's disk (M43).
    Snapshot(SnapshotDescriptor),
    /// Hold your election now.
    TimeoutNow,
}
