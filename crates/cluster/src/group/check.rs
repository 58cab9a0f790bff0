//! What a message of a peer must keep to. The consensus library asserts most of this; here it is the sender's fault.

use courser_contract::{LogIndex, Term};

use super::Group;
use crate::consensus::BadMessage;
use crate::ids::NodeId;
use crate::message::{PeerBody, PeerEntry, PeerMessage};

/// Terms and indexes above this are nonsense, and would overflow arithmetic of the library.
const NUMBER_MAX: u64 = u64::MAX >> 2;

impl Group {
    pub(super) fn check_message(
        &self,
        from: NodeId,
        message: &PeerMessage,
    ) -> Result<(), BadMessage> {
        if from == self.node || !self.raft.store().is_member(from) {
            return Err(BadMessage::NoMember);
        }
        if !(1..=NUMBER_MAX).contains(&message.term.0) {
            return Err(BadMessage::Range);
        }
        match &message.body {
            PeerBody::Append {
                previous,
                entries,
                commit,
            } => {
                is_entry(*previous)?;
                self.check_entries(message.term, *previous, entries)?;
                let last = previous.0.0 + entries.len() as u64;
                self.check_commit(message.term, LogIndex(commit.0.min(last)), last)
            }
            PeerBody::Heartbeat { commit } => self.check_commit(message.term, *commit, 0),
            PeerBody::Snapshot(snapshot) => {
                is_entry((snapshot.index, snapshot.term))?;
                let known = snapshot.index.0 > 0 && snapshot.term <= message.term;
                known.then_some(()).ok_or(BadMessage::Range)
            }
            PeerBody::Appended { last, .. } => self.check_answer(message.term, *last),
            PeerBody::AppendRejected { previous, hint, .. } => {
                in_range((*previous, Term(0)))?;
                in_range(*hint)
            }
            PeerBody::Vote { last, commit, .. } => {
                is_entry(*last)?;
                in_range(*commit)
            }
            PeerBody::Voted { commit, .. } => in_range(*commit),
            PeerBody::HeartbeatAnswer { .. } | PeerBody::TimeoutNow => Ok(()),
        }
    }

    /// Entries ascend in terms up to the message's, and agree with all that is committed.
    fn check_entries(
        &self,
        term: Term,
        previous: (LogIndex, Term),
        entries: &[PeerEntry],
    ) -> Result<(), BadMessage> {
        let mut before = previous.1;
        for (entry, index) in entries.iter().zip(previous.0.0 + 1..) {
            if entry.term < before || entry.term > term {
                return Err(BadMessage::Entries);
            }
            before = entry.term;
            let committed = index <= self.commit().0;
            let known = self.term_of(LogIndex(index));
            // Those of an old leader are not even looked at.
            if committed && term >= self.term() && known.is_some_and(|known| known != entry.term) {
                return Err(BadMessage::Fork);
            }
        }
        Ok(())
    }

    /// A leader commits only what this node has told it to have, or what the message brings.
    fn check_commit(&self, term: Term, commit: LogIndex, brought: u64) -> Result<(), BadMessage> {
        let has = self.last().0.max(brought);
        if term >= self.term() && commit.0 > has {
            return Err(BadMessage::Commit);
        }
        Ok(())
    }

    /// A follower has only what its leader has.
    fn check_answer(&self, term: Term, last: LogIndex) -> Result<(), BadMessage> {
        if self.leads() && term == self.term() && last > self.last() {
            return Err(BadMessage::Range);
        }
        in_range((last, Term(0)))
    }
}

/// An entry has an index and a term; the one before all others has neither. The library takes term 0 for that of every
/// entry that it does not have.
fn is_entry(entry: (LogIndex, Term)) -> Result<(), BadMessage> {
    if (entry.0.0 == 0) != (entry.1.0 == 0) {
        return Err(BadMessage::Range);
    }
    in_range(entry)
}

fn in_range((index, term): (LogIndex, Term)) -> Result<(), BadMessage> {
    let fits = index.0 <= NUMBER_MAX && term.0 <= NUMBER_MAX;
    fits.then_some(()).ok_or(BadMessage::Range)
}
