//! Planted bugs of messages on their way between fronts and partitions.

use courser_contract::{Cut, PartitionId, PassedOn, Term, ToPartition};

use super::hub::Hub;
use super::message::Message;
use crate::bug::Bug;

impl Hub {
    /// A durable part hears that nothing waits in the volatile one as soon as it asks.
    pub(super) fn plant_heir(&mut self, from: PartitionId, to: PartitionId, message: &ToPartition) {
        let (Some(Bug::HeirBeforePassed), ToPartition::Inherit(heir)) = (self.bug, message) else {
            return;
        };
        let passed = PassedOn {
            to: heir.group,
            from: 0,
            first: heir.taken,
            records: Vec::new(),
            all: true,
        };
        let message = Message::Partition {
            from: to,
            to: from,
            term: Term(0),
            message: ToPartition::PassOn(Box::new(passed)),
        };
        self.push(self.id, message);
    }

    /// What a publish says of cuts.
    pub(super) fn plant_cut(&self, partition: PartitionId, cut: Cut) -> Cut {
        match self.bug {
            Some(Bug::BothParts) if partition.is_volatile() => Cut(0),
            Some(Bug::BothParts) => Cut(u32::MAX),
            Some(_) | None => cut,
        }
    }
}
