//! A group gives messages out: only it picks members (M35).

use std::sync::Arc;

use courser_contract::{
    DeliverFlags, DeliverTo, Delivery, FrontId, PartitionEffects, QoS, RecordView, Seq,
    SharedStrategy, Source, ToFront,
};

use crate::{
    Partition,
    group::{Assignment, Fact, Message, Receiver},
    look,
    state::SharedGroup,
};

/// Messages of one group that are given out in one call; the rest follows with the next event.
const GIVEN_MAX: usize = 4_096;

fn topic_hash(strategy: SharedStrategy, topic: &str) -> u64 {
    match strategy {
        SharedStrategy::HashTopic => rapidhash::v3::rapidhash_v3(topic.as_bytes()),
        SharedStrategy::RoundRobin | SharedStrategy::Sticky | SharedStrategy::LeastOutstanding => 0,
    }
}

impl Partition {
    /// Gives out what waits, as far as members have room.
    pub(crate) fn pump_group(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        for _ in 0..GIVEN_MAX {
            let Some(assignment) = self.next_assignment(number) else {
                return;
            };
            let given = Given {
                seq: assignment.seq,
                receiver: Some(assignment.receiver),
                front: assignment.receiver.front,
                qos: assignment.qos,
                packet_id: None,
                // Whoever had it before, this is another PUBLISH with a packet id of its own.
                duplicate: false,
            };
            match assignment.qos {
                QoS::AtMostOnce => {
                    self.deliver_shared(number, &given, fx);
                    self.write_group_facts(number, &[Fact::Done { seq: given.seq }]);
                }
                QoS::AtLeastOnce => self.deliver_shared(number, &given, fx),
                // Whose it is, under which packet id, must be committed before the PUBLISH leaves (M31).
                QoS::ExactlyOnce => {
                    let group = self.group_ref(number);
                    let seq = given.seq;
                    fx.send_front(given.front, ToFront::Name { group, seq });
                }
            }
        }
        self.lead.pump.push(number);
        self.gather.hurry();
    }

    fn next_assignment(&mut self, number: u64) -> Option<Assignment> {
        let group = self.state.groups.get_mut(number)?;
        let SharedGroup {
            group,
            stream,
            lead,
            saved: _,
        } = &mut **group;
        let dispatch = lead.dispatch.as_mut()?;
        let records = &self.state.records;
        let doomed = &self.lead.doomed;
        dispatch.next(group, Seq(stream.next()), |seq| {
            let reference = stream.get(seq.0)?;
            if doomed.contains(&(number, seq.0)) {
                return None;
            }
            let strategy = group.strategy();
            let hash = match strategy {
                SharedStrategy::HashTopic => {
                    topic_hash(strategy, records.view(reference.slot).topic)
                }
                SharedStrategy::RoundRobin
                | SharedStrategy::Sticky
                | SharedStrategy::LeastOutstanding => 0,
            };
            Some(Message {
                topic_hash: hash,
                qos: look::qos(reference.look),
            })
        })
    }

    pub(super) fn deliver_shared(
        &self,
        number: u64,
        given: &Given,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(group) = self.state.groups.get(number) else {
            return;
        };
        let Some(reference) = group.stream.get(given.seq.0) else {
            return;
        };
        let record = self.state.records.get(reference.slot);
        let asked = given.receiver.map(|receiver| receiver.member);
        let keep = asked.is_some_and(|asked| asked.options.retain_as_published);
        let source = Source::Group(self.group_ref(number));
        let to = DeliverTo {
            front: given.front,
            source: (given.qos > QoS::AtMostOnce).then_some((source, given.seq)),
            packet_id: given.packet_id,
            qos: given.qos,
            flags: DeliverFlags {
                retain: keep && look::retain(reference.look),
                duplicate: given.duplicate,
            },
            identifiers: asked
                .and_then(|asked| asked.identifier)
                .map(|id| Arc::from([id])),
        };
        let delivery = Delivery {
            view: record.view(),
            record: Some(record),
        };
        fx.deliver(delivery, std::slice::from_ref(&to));
    }

    /// The member for a message that is not stored.
    pub(crate) fn pick_member(&mut self, number: u64, view: &RecordView<'_>) -> Option<Picked> {
        let group = self.state.groups.get_mut(number)?;
        let hash = topic_hash(group.group.strategy(), view.topic);
        let receiver = group.lead.dispatch.as_mut()?.pick_unstored(hash)?;
        let asked = receiver.member;
        let retain = asked.options.retain_as_published && view.retain;
        Some(Picked {
            front: receiver.front,
            retain,
            identifiers: asked.identifier.map(|id| Arc::from([id])),
        })
    }
}

/// The member for a message that is not stored.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) front: FrontId,
    pub(crate) retain: bool,
    pub(crate) identifiers: Option<Arc<[u32]>>,
}

/// One delivery of a group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    pub(super) seq: Seq,
    /// None: it is no member any more and finishes what it has.
    pub(super) receiver: Option<Receiver>,
    pub(super) front: FrontId,
    pub(super) qos: QoS,
    pub(super) packet_id: Option<u16>,
    pub(super) duplicate: bool,
}
