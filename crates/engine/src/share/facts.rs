//! What entries say of a group's messages, and what follows once they are applied.

use courser_contract::{PartitionEffects, Seq, Source, ToFront};

use crate::{
    Partition,
    entry::{Fate, Haste, OutcomeFact, Rare},
    group::Fact,
    lead::After,
    state::SharedGroup,
};

impl Partition {
    /// Writes what is known of messages.
    pub(super) fn write_group_facts(&mut self, number: u64, facts: &[Fact]) {
        let mut facts = facts.iter().peekable();
        while let Some(&fact) = facts.next() {
            match fact {
                Fact::Done { seq: first } => {
                    let mut last = first;
                    while let Some(Fact::Done { seq }) = facts.peek()
                        && seq.0 == last.0 + 1
                    {
                        last = *seq;
                        facts.next();
                    }
                    let haste = Haste::Lazy(self.lead.now.tick);
                    done(number, first, last).write(&mut self.gather, haste);
                }
                Fact::Assigned { .. }
                | Fact::Unassigned { .. }
                | Fact::Received { .. }
                | Fact::Attempts { .. } => {
                    self.write(&Rare::GroupFact {
                        group: number,
                        fact,
                    });
                    self.lead.after(After::GroupFact(number, fact));
                }
            }
        }
    }

    /// Says what has come to its end once the facts about it are committed.
    pub(super) fn tell_group_news(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        let group = self.state.groups.get_mut(number);
        let dispatch = group.and_then(|group| group.lead.dispatch.as_mut());
        if let Some(dispatch) = dispatch.filter(|dispatch| dispatch.has_news()) {
            let news = dispatch.take_news();
            self.after_all(After::GroupNews(number, news), fx);
        }
    }

    /// Does something once all is applied that was proposed or gathered before.
    pub(crate) fn after_all(&mut self, after: After, fx: &mut impl PartitionEffects) {
        if self.gather.facts() > 0 {
            self.lead.after(after);
        } else if self.lead.number > self.lead.applied {
            self.lead.after.push_back((self.lead.number, after));
        } else {
            self.run_after(after, fx);
        }
    }

    /// A fact about a message of a group is applied.
    pub(crate) fn group_fact(&mut self, number: u64, fact: &Fact, fx: &mut impl PartitionEffects) {
        let source = Source::Group(self.group_ref(number));
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup { group, lead, .. } = &mut **group;
        match *fact {
            Fact::Received { seq } => {
                let owed = group.owed(seq).copied();
                if let Some(owed) = owed
                    && let Some(&front) = lead.fronts.get(&owed.member)
                {
                    let message = ToFront::Release {
                        source,
                        seq,
                        packet_id: owed.packet_id,
                    };
                    fx.send_front(front, message);
                }
                if !lead.owing.is_empty() || self.state.records.tombstones() > 0 {
                    // What waits for its record, or what the group stops at, may be this one, of which only the rest is needed.
                    self.pump_group(number, fx);
                }
            }
            // Of QoS 1, its member has it.
            Fact::Assigned {
                packet_id: None, ..
            } => {}
            Fact::Assigned { seq, member, .. } => {
                if lead.fronts.contains_key(&member)
                    && group.owed(seq).is_some_and(|owed| owed.member == member)
                {
                    self.send_assigned(number, (member, seq), fx);
                }
            }
            Fact::Attempts { seq, .. } => {
                if let Some(dispatch) = &mut lead.dispatch {
                    dispatch.counted(group, seq);
                }
                self.pump_group(number, fx);
            }
            Fact::Unassigned { .. } | Fact::Done { .. } => self.pump_group(number, fx),
        }
    }
}

/// These messages of a group are finished.
pub(super) const fn done(number: u64, first: Seq, last: Seq) -> OutcomeFact {
    OutcomeFact {
        stream: number,
        first: first.0,
        last: last.0,
        fate: Fate::Done,
        sent_limit: 0,
    }
}
