//! Planted bugs of messages on their way between fronts and partitions.

use courser_contract::{Cut, PartitionId, PassedOn, Term, ToPartition};

use courser_engine::{Partition, PlantedPartition};
use courser_mqtt::front::PlantedFront;

use super::hub::Hub;
use super::message::Message;
use crate::bug::Bug;

/// What a bug is called in the fronts.
pub(crate) const fn planted_front(bug: Option<Bug>) -> Option<PlantedFront> {
    match bug {
        Some(Bug::RepeatWithoutDup) => Some(PlantedFront::RepeatWithoutDup),
        Some(Bug::WindowIgnored) => Some(PlantedFront::WindowIgnored),
        Some(Bug::PubrelForgotten) => Some(PlantedFront::PubrelForgotten),
        Some(Bug::IdFreeAtPubrec) => Some(PlantedFront::IdFreeAtPubrec),
        Some(Bug::OutputUnbounded) => Some(PlantedFront::OutputUnbounded),
        Some(_) | None => None,
    }
}

/// Plants a bug that sits in partitions.
pub(super) fn plant_partition(bug: Option<Bug>, partition: &mut Partition) {
    let planted = match bug {
        Some(Bug::AgedFromFirst) => PlantedPartition::AgedFromFirst,
        Some(Bug::AgedUnderWay) => PlantedPartition::AgedUnderWay,
        Some(Bug::AgedUncounted) => PlantedPartition::AgedUncounted,
        Some(Bug::SkipCold) => PlantedPartition::ColdSkipped,
        Some(Bug::QueueUnbounded) => PlantedPartition::Unbounded,
        Some(Bug::ForgetHold) => PlantedPartition::HoldForgotten,
        Some(Bug::EarlyPubrel) => PlantedPartition::EarlyRelease,
        Some(Bug::WrongDup) => PlantedPartition::WrongDup,
        Some(Bug::FoundLate) => PlantedPartition::FoundLate,
        Some(Bug::ForwardTwice) => PlantedPartition::ForwardedTwice,
        Some(Bug::WillKept) => PlantedPartition::WillKept,
        Some(Bug::AttachBeforeDetach) => PlantedPartition::LetInEarly,
        _ => return,
    };
    partition.plant(planted);
}

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
