//! Questions between partitions that wait for their answers: a link to a partition that changes its leader sends them again,
//! in order (M14). Forwards are not among them: their outboxes send them again.

use std::collections::BTreeMap;

use courser_contract::{HomeRef, PartitionId, ToPartition};

/// What an answer names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Question(HomeRef, u64),
    Request(HomeRef, u64),
}

/// Questions by (asker, asked).
#[derive(Debug, Default)]
pub(crate) struct Parcels {
    open: BTreeMap<(PartitionId, PartitionId), Vec<(Name, ToPartition)>>,
}

/// What the answer to a message will name, if it is a question.
fn asked(message: &ToPartition) -> Option<Name> {
    match message {
        ToPartition::ScanRetained(scan) => Some(Name::Question(scan.scan.home, scan.scan.question)),
        ToPartition::Join(join) => Some(Name::Request(join.member, join.request)),
        ToPartition::Leave {
            member, request, ..
        } => Some(Name::Request(*member, *request)),
        ToPartition::Append { .. }
        | ToPartition::Leads { .. }
        | ToPartition::Unclaim { .. }
        | ToPartition::Forwarded { .. }
        | ToPartition::Slow { .. }
        | ToPartition::RetainedFound(_)
        | ToPartition::RetainedWithheld { .. }
        | ToPartition::Joined { .. }
        | ToPartition::Left { .. }
        | ToPartition::MemberFront { .. }
        | ToPartition::AskPart { .. }
        | ToPartition::Part { .. }
        | ToPartition::Decline(_)
        | ToPartition::Inherit(_)
        | ToPartition::Inheritances { .. }
        | ToPartition::PassOn(_)
        | ToPartition::Took { .. }
        | ToPartition::Elsewhere { .. } => None,
    }
}

impl Parcels {
    /// Notes a question that leaves; other messages are not kept.
    pub(crate) fn note(&mut self, from: PartitionId, to: PartitionId, message: &ToPartition) {
        let Some(name) = asked(message) else {
            return;
        };
        let open = self.open.entry((from, to)).or_default();
        open.retain(|(known, _)| *known != name);
        open.push((name, message.clone()));
    }

    /// Whether a message is kept until it is answered.
    pub(crate) fn is_question(message: &ToPartition) -> bool {
        asked(message).is_some()
    }

    /// An answer of `from` has come to `to`.
    pub(crate) fn answered(&mut self, from: PartitionId, to: PartitionId, message: &ToPartition) {
        let name = match message {
            ToPartition::RetainedFound(found) => {
                Name::Question(found.scan.home, found.scan.question)
            }
            ToPartition::RetainedWithheld { scan, .. } => Name::Question(scan.home, scan.question),
            ToPartition::Joined {
                member, request, ..
            }
            | ToPartition::Left {
                member, request, ..
            } => Name::Request(*member, *request),
            ToPartition::Leads { .. }
            | ToPartition::Unclaim { .. }
            | ToPartition::Forwarded { .. }
            | ToPartition::Slow { .. }
            | ToPartition::Append { .. }
            | ToPartition::ScanRetained(_)
            | ToPartition::Join(_)
            | ToPartition::Leave { .. }
            | ToPartition::MemberFront { .. }
            | ToPartition::AskPart { .. }
            | ToPartition::Part { .. }
            | ToPartition::Decline(_)
            | ToPartition::Inherit(_)
            | ToPartition::Inheritances { .. }
            | ToPartition::PassOn(_)
            | ToPartition::Took { .. }
            | ToPartition::Elsewhere { .. } => return,
        };
        // A join or leave is answered by the part of the group that it came to (M36).
        let passed_on = matches!(name, Name::Request(..));
        for ((asker, asked), open) in &mut self.open {
            if *asker == to && (passed_on || *asked == from) {
                open.retain(|(known, _)| *known != name);
            }
        }
    }

    /// What partitions of this shard asked of `to`, in order.
    pub(crate) fn unanswered(&self, to: PartitionId) -> Vec<(PartitionId, ToPartition)> {
        let lanes = self.open.iter().filter(|((_, asked), _)| *asked == to);
        lanes
            .flat_map(|((from, _), open)| open.iter().map(|(_, m)| (*from, m.clone())))
            .collect()
    }

    /// `from` no longer leads: what it asked is void.
    pub(crate) fn forget(&mut self, from: PartitionId) {
        self.open.retain(|(asker, _), _| *asker != from);
    }
}
