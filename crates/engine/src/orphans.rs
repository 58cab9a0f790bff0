//! Copies for volatile partitions whose leader went before it saw their entries applied (M28).
//!
//! Volatile partitions get what a session publishes with QoS 2, and wills, straight after the commit, without an outbox: they do not
//! outlive the process either. But a partition may lose its leadership within one process while such entries are under way. The client
//! finds its hold under the next leader and is told that all is stored, so who proposed the entry still sends the copies, once it sees
//! the entry committed, leader or not.

use std::collections::VecDeque;

use courser_contract::{PartitionEffects, PartitionId, Term, ToPartition};

use crate::lead::After;

/// An entry of this partition: term, and number within it.
type EntryNumber = (Term, u64);

/// See the module. Bounded by the entries that were under way.
#[derive(Debug, Default)]
pub(crate) struct Orphans {
    copies: VecDeque<(EntryNumber, PartitionId, Box<ToPartition>)>,
}

impl Orphans {
    /// Takes what the leader of `term` wanted to send after entries that it had proposed, the last of them `proposed`.
    pub(crate) fn adopt(&mut self, term: Term, proposed: u64, after: VecDeque<(u64, After)>) {
        for (number, after) in after {
            if let After::Send(to, message) = after
                && let ToPartition::Append { .. } = &*message
                && number <= proposed
            {
                self.copies.push_back(((term, number), to, message));
            }
        }
    }

    /// An entry is applied that this leader did not propose: its copies leave. Those of older entries never do, another leader has
    /// written over them.
    pub(crate) fn applied(&mut self, entry: EntryNumber, fx: &mut impl PartitionEffects) {
        while let Some((of, ..)) = self.copies.front()
            && *of <= entry
        {
            let (of, to, message) = self.copies.pop_front().expect("it was just seen");
            if of == entry {
                fx.send_partition(to, *message);
            }
        }
    }

    /// The first entry of a new term is applied: what was not applied before it is lost, and nobody was told of it.
    pub(crate) fn clear(&mut self) {
        self.copies.clear();
    }
}
