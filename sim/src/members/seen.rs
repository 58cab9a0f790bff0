//! What was ever seen of the members, and what must hold of it.

use std::collections::BTreeMap;

use bytes::Bytes;
use courser_cluster::{PeerBody, PeerMessage, VoteKind};
use courser_contract::{LogIndex, Term};

use super::member::Disk;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) violation: Option<String>,
    committed: BTreeMap<LogIndex, (Term, Bytes)>,
    leaders: BTreeMap<Term, usize>,
    votes: BTreeMap<(usize, Term), usize>,
}

impl Seen {
    /// Notes the first violation.
    pub(super) fn fail(&mut self, text: String) {
        self.violation.get_or_insert(text);
    }

    pub(super) fn last_committed(&self) -> LogIndex {
        self.committed.keys().last().copied().unwrap_or(LogIndex(0))
    }

    /// A member hands an entry over, and with it what a publisher hears: the same entry everywhere (I6), and it is synced on a
    /// majority of the disks (I2), those of members that are down among them.
    pub(super) fn handed_over(
        &mut self,
        id: usize,
        (index, term, entry): (LogIndex, Term, Bytes),
        disks: Vec<&Disk>,
    ) {
        let holding = disks.iter().filter(|disk| disk.holds(index, term)).count();
        if holding * 2 <= disks.len() {
            self.fail(format!(
                "I2: member {id} hands over entry {} of term {}, which is synced on {holding} of {}",
                index.0,
                term.0,
                disks.len()
            ));
        }
        let known = self.committed.entry(index).or_insert((term, entry.clone()));
        if *known != (term, entry) {
            let text = format!(
                "I6: member {id} hands over another entry {} than the one of term {}",
                index.0, known.0.0
            );
            self.fail(text);
        }
    }

    /// I6: a term has one leader.
    pub(super) fn leads(&mut self, id: usize, term: Term) {
        let leader = *self.leaders.entry(term).or_insert(id);
        if leader != id {
            self.fail(format!("I6: {leader} and {id} lead term {}", term.0));
        }
    }

    /// M5: who says that it leads has handed over all that was committed before its term.
    pub(super) fn serves(&mut self, id: usize, term: Term, handed: LogIndex) {
        let mut before = self.committed.iter().rev();
        let last = before.find(|(_, (of, _))| *of < term);
        let last = last.map_or(LogIndex(0), |(index, _)| *index);
        if handed < last {
            self.fail(format!(
                "M5: member {id} leads term {} and has handed over {} of {} entries",
                term.0, handed.0, last.0
            ));
        }
    }

    /// What a member says: it votes once in a term, and speaks for a term that it leads alone (I6).
    pub(super) fn sent(&mut self, from: usize, message: &PeerMessage, to: usize) {
        let voted = match message.body {
            PeerBody::Append { .. } | PeerBody::Heartbeat { .. } | PeerBody::Snapshot(_) => {
                return self.leads(from, message.term);
            }
            PeerBody::Vote {
                kind: VoteKind::Real | VoteKind::Transfer,
                ..
            } => from,
            PeerBody::Voted {
                kind: VoteKind::Real | VoteKind::Transfer,
                granted: true,
                ..
            } => to,
            PeerBody::Vote { .. }
            | PeerBody::Voted { .. }
            | PeerBody::Appended { .. }
            | PeerBody::AppendRejected { .. }
            | PeerBody::HeartbeatAnswer { .. }
            | PeerBody::TimeoutNow => return,
        };
        let vote = *self.votes.entry((from, message.term)).or_insert(voted);
        if vote != voted {
            self.fail(format!(
                "I6: member {from} votes for {vote} and for {voted} in term {}",
                message.term.0
            ));
        }
    }
}
