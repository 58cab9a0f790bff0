//! What the library wants done, handed to the shell.

use std::mem;

use courser_contract::{LogIndex, Term};
use courser_log::{HardState, Record};
use raft::eraftpb::{Entry, Message, Snapshot};
use raft::{Ready, StateRole};

use super::{Group, PlantedConsensus, Standing};
use crate::consensus::{ConsensusEffects, Role};
use crate::message::from_raft;
use crate::snapshot::SnapshotDescriptor;

impl Group {
    pub(super) fn handle_ready(&mut self, fx: &mut impl ConsensusEffects) {
        let mut ready = self.raft.ready();
        if let Some(changed) = ready.ss() {
            self.follow_role(changed.raft_state, fx);
        }
        // A leader's entries may go out while its own disk still writes them (raft thesis, 10.2.1).
        for message in ready.take_messages() {
            send(message, fx);
        }
        let restored = self.restore(ready.snapshot(), fx);
        self.number = ready.number();
        let committed = ready.take_committed_entries();
        let entries = ready.take_entries();
        let claims = ready.take_persisted_messages();
        let vote = self.keep_hard_state(&ready, restored);
        self.raft.mut_store().append(&entries);
        self.raft.advance_append_async(ready);
        self.write(vote, entries, fx);
        if let Some(index) = restored {
            self.waiting().restoring = Some((self.written, index));
        }
        for message in claims {
            self.hold(message, fx);
        }
        self.hand_over(committed, fx);
    }

    /// Remembers the hard state; term and vote are worth a record, the commit index alone is not: a group of one commits all
    /// that it finds, the others hear it from their leader.
    fn keep_hard_state(&mut self, ready: &Ready, restored: Option<u64>) -> Option<HardState> {
        let new = ready.hs()?;
        let new = HardState {
            term: Term(new.term),
            vote: new.vote,
            commit: LogIndex(new.commit),
        };
        let store = self.raft.mut_store();
        let old = store.hard_state();
        let wanted = old.term != new.term || old.vote != new.vote || restored.is_some();
        store.set_hard_state(new);
        let vote = match self.is_planted(PlantedConsensus::VoteForgotten) {
            true => 0,
            false => new.vote,
        };
        wanted.then_some(HardState { vote, ..new })
    }

    fn write(
        &mut self,
        vote: Option<HardState>,
        entries: Vec<Entry>,
        fx: &mut impl ConsensusEffects,
    ) {
        if vote.is_none() && entries.is_empty() {
            if self.persisted == self.written {
                self.library_persisted(self.number);
            }
            return;
        }
        self.written = self.number;
        let partition = self.partition;
        let vote = vote.into_iter().map(|state| Record::HardState {
            partition,
            term: state.term,
            vote: state.vote,
            commit: state.commit,
        });
        let entries = entries.into_iter().map(|entry| Record::Entry {
            partition,
            term: Term(entry.term),
            index: LogIndex(entry.index),
            data: entry.data,
        });
        if self.is_planted(PlantedConsensus::RecordsReversed) {
            let records: Vec<Record> = vote.chain(entries).collect();
            fx.write(self.number, records.into_iter().rev());
        } else {
            fx.write(self.number, vote.chain(entries));
        }
        if self.is_planted(PlantedConsensus::CommitUnsynced) && self.leads() {
            self.raft.on_persist_ready(self.number);
        }
    }

    fn follow_role(&mut self, state: StateRole, fx: &mut impl ConsensusEffects) {
        match state {
            StateRole::Leader => {
                self.standing = Standing::Elected(self.term());
                if self.is_planted(PlantedConsensus::LeadsAtOnce) {
                    self.open_term(self.term(), fx);
                }
            }
            StateRole::Follower | StateRole::Candidate | StateRole::PreCandidate => {
                let before = mem::replace(&mut self.standing, Standing::Follower);
                if matches!(before, Standing::Leader(_)) {
                    fx.role(Role::Follower);
                }
            }
        }
    }

    /// The library took a snapshot: its checkpoint becomes the state. Returns its index.
    fn restore(&mut self, snapshot: &Snapshot, fx: &mut impl ConsensusEffects) -> Option<u64> {
        let metadata = snapshot.get_metadata();
        if metadata.index == 0 {
            return None;
        }
        let (index, term) = (LogIndex(metadata.index), Term(metadata.term));
        let snapshot = SnapshotDescriptor::of_data(index, term, &snapshot.data)
            .expect("a snapshot was a descriptor when it was stepped in");
        self.raft.mut_store().restore(&snapshot);
        fx.restore(snapshot);
        Some(index.0)
    }

    /// Applies entries; the first one of a term that this node leads opens it (M5).
    fn hand_over(&mut self, committed: Vec<Entry>, fx: &mut impl ConsensusEffects) {
        let Some(last) = committed.last().map(|entry| entry.index) else {
            return;
        };
        for entry in committed {
            let (index, term) = (LogIndex(entry.index), Term(entry.term));
            if entry.data.is_empty() {
                fx.opened(index, term);
                self.open_term(term, fx);
            } else {
                fx.committed(index, term, entry.data);
            }
        }
        self.raft.advance_apply_to(last);
        self.raft.mut_store().applied_to(last);
    }

    fn open_term(&mut self, term: Term, fx: &mut impl ConsensusEffects) {
        if self.standing == Standing::Elected(term) {
            self.standing = Standing::Leader(term);
            fx.role(Role::Leader(term));
        }
    }

    /// A message that claims something durable leaves when everything before it is.
    fn hold(&mut self, message: Message, fx: &mut impl ConsensusEffects) {
        if self.persisted == self.written || self.is_planted(PlantedConsensus::ClaimBeforeSync) {
            send(message, fx);
        } else {
            let number = self.written;
            self.waiting().held.push_back((number, message));
        }
    }

    pub(super) fn release_held(&mut self, fx: &mut impl ConsensusEffects) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let durable = self.persisted;
        while let Some((_, message)) = waiting.held.pop_front_if(|(number, _)| *number <= durable) {
            send(message, fx);
        }
    }

    pub(super) fn ask_for_entries(&mut self, fx: &mut impl ConsensusEffects) {
        if let Some((first, last)) = self.raft.mut_store().take_wanted() {
            fx.fetch(first, last);
        }
    }
}

fn send(message: Message, fx: &mut impl ConsensusEffects) {
    if let Some((to, message)) = from_raft(message) {
        fx.send(to, message);
    }
}
