//! A group gives messages out: only it picks members (M35).

use std::sync::Arc;

use courser_contract::{
    DeliverFlags, DeliverTo, Delivery, Dropped, FrontId, GroupRef, PartitionEffects, QoS,
    RecordRef, RecordView, Seq, SharedStrategy, Source, ToFront, WallMs,
};

use crate::{
    Partition, PlantedPartition,
    entry::Fate,
    group::{Group, Look, Message, Receiver},
    look,
    lost::Unlost,
    record::{Records, Slot},
    state::SharedGroup,
    stream::{Reference, Stream},
};

/// Messages of one group that are given out in one call, and those whose time was over; the rest is due at once.
const GIVEN_MAX: usize = 4_096;

/// Messages of one group that are looked at in one call: what is for members without room is looked at, too.
const LOOKED_MAX: usize = 2 * GIVEN_MAX;

fn topic_hash<'a>(strategy: SharedStrategy, topic: impl FnOnce() -> &'a str) -> u64 {
    match strategy {
        SharedStrategy::HashTopic => rapidhash::v3::rapidhash_v3(topic().as_bytes()),
        SharedStrategy::RoundRobin | SharedStrategy::Sticky | SharedStrategy::LeastOutstanding => 0,
    }
}

impl Partition {
    /// Gives out what waits, as far as members have room and it is in memory.
    pub(crate) fn pump_group(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        // An entry may ask for it more than once.
        if self.lead.streams.later.contains(&number) {
            return;
        }
        // What came back from a member may be dropped again.
        self.lead.streams.passed.remove(&number);
        let Some(shared) = self.state.groups.get(number) else {
            return;
        };
        let is_mute = shared.group.is_mute();
        if !shared.lead.owing.is_empty() {
            self.send_owing(number, fx);
        }
        if is_mute {
            return self.pass_on_waiting(number, fx);
        }
        let used = self.give_out(number, fx);
        if !used.given.is_empty() {
            self.give_back(used.given);
        }
        if !used.aside.is_empty() && self.is_room_scarce() {
            self.give_back(used.aside);
        }
        if !used.expired.is_empty() {
            fx.dropped(Dropped::Expired, used.expired.len() as u64);
            for seq in used.expired {
                self.doom(number, seq, Fate::Expired);
            }
        }
        if self.state.records.tombstones() > 0 {
            self.try_group_again(number);
        }
        if self.state.records.cold() > 0 {
            self.look_ahead_of_group(number);
        }
    }

    /// The same without what follows from it.
    fn give_out(&mut self, number: u64, fx: &mut impl PartitionEffects) -> Used {
        let at = self.group_ref(number);
        let skips = self.is_planted(PlantedPartition::SharedColdSkipped);
        let wall = self.wall();
        let Some(shared) = self.state.groups.get_mut(number) else {
            return Used::default();
        };
        let SharedGroup {
            group,
            stream,
            lead,
            ..
        } = &mut **shared;
        let Some(dispatch) = &mut lead.dispatch else {
            return Used::default();
        };
        let records = &self.state.records;
        let doomed = &self.lead.streams.doomed;
        let unlost = &mut lead.unlost;
        let messages = (&*group, &*stream, records);
        let end = Seq(end_of_group(number, messages, unlost, doomed));
        let mut looking = Looking {
            number,
            stream,
            records,
            doomed,
            strategy: group.strategy(),
            wall,
            skips,
            last: None,
            looks: 0,
            is_more: false,
            used: Used::default(),
        };
        let mut topic = "";
        for _ in 0..GIVEN_MAX {
            looking.last = None;
            let assignment = dispatch.next(group, end, |seq| looking.look(seq));
            let (Some(assignment), Some(seen)) = (assignment, looking.last) else {
                if looking.is_more {
                    self.lead.streams.later.push(number);
                }
                return looking.used;
            };
            // Whoever had it before, this is another PUBLISH with a packet id of its own.
            let given = Given {
                seq: assignment.seq,
                receiver: Some(assignment.receiver),
                front: assignment.receiver.front,
                qos: assignment.qos,
                packet_id: None,
                duplicate: false,
            };
            match assignment.qos {
                // At QoS 0 as well a member has only as much at once as its connection takes: nothing of what waits is given to one that
                // would drop it.
                QoS::AtMostOnce | QoS::AtLeastOnce => {
                    let message = (seen.reference.look, seen.record);
                    topic = deliver_given(message, at, &given, topic, fx);
                    if seen.is_recalled {
                        looking.used.given.push(seen.reference.slot);
                    }
                }
                // Whose it is, under which packet id, must be committed before the PUBLISH leaves (M31).
                QoS::ExactlyOnce => {
                    let seq = given.seq;
                    fx.send_front(given.front, ToFront::Name { group: at, seq });
                }
            }
        }
        self.lead.streams.later.push(number);
        looking.used
    }

    /// The member for a message that is not stored.
    pub(crate) fn pick_member(&mut self, number: u64, view: &RecordView<'_>) -> Option<Picked> {
        let group = self.state.groups.get_mut(number)?;
        let hash = topic_hash(group.group.strategy(), || view.topic);
        let receiver = group
            .lead
            .dispatch
            .as_mut()?
            .pick_unstored(hash, view.delivery_bytes_most())?;
        let asked = receiver.member;
        let retain = asked.options.retain_as_published && view.retain;
        Some(Picked {
            front: receiver.front,
            retain,
            identifiers: asked.identifier.map(|id| Arc::from([id])),
        })
    }
}

/// What a group has come to.
#[derive(Default)]
struct Used {
    /// Records that were read back and have been handed over.
    given: Vec<Slot>,
    /// Records that were read back, whose members have no room.
    aside: Vec<Slot>,
    /// Positions whose time was over.
    expired: Vec<u64>,
}

/// The message that was looked at last.
#[derive(Clone, Copy)]
struct Seen<'a> {
    reference: Reference,
    record: RecordRef<'a>,
    is_recalled: bool,
}

/// Messages of a group as they are looked at, one after the other, to be given out.
struct Looking<'a> {
    number: u64,
    stream: &'a Stream,
    records: &'a Records,
    doomed: &'a hashbrown::HashSet<(u64, u64), foldhash::fast::RandomState>,
    strategy: SharedStrategy,
    /// What has expired by then is not given.
    wall: WallMs,
    /// A bug for tests that look for it: what is not in memory is passed over.
    skips: bool,
    last: Option<Seen<'a>>,
    /// Messages that were looked at.
    looks: usize,
    /// More have expired than may end in one call, or wait than are looked at in one.
    is_more: bool,
    used: Used,
}

impl Looking<'_> {
    /// What there is of the message that comes next.
    #[inline]
    fn look(&mut self, seq: Seq) -> Look {
        if self.looks == LOOKED_MAX {
            self.is_more = true;
            return Look::Absent;
        }
        self.looks += 1;
        let Some(reference) = self.stream.get(seq.0) else {
            return Look::Gone;
        };
        if !self.doomed.is_empty() && self.doomed.contains(&(self.number, seq.0)) {
            return Look::Gone;
        }
        let found = self.records.find(reference.slot);
        let found = found.filter(|_| !self.records.is_tombstone(reference.slot));
        let Some((record, is_recalled)) = found else {
            return match self.skips {
                true => Look::Gone,
                false => Look::Absent,
            };
        };
        // Its timer would end it within a second (v5 [MQTT-3.3.2-5]).
        if record.expires_at().is_some_and(|at| at <= self.wall) {
            if self.used.expired.len() == GIVEN_MAX {
                self.is_more = true;
                return Look::Absent;
            }
            self.used.expired.push(seq.0);
            return Look::Gone;
        }
        let seen = Seen {
            reference,
            record,
            is_recalled,
        };
        if let Some(before) = self.last.replace(seen)
            && before.is_recalled
        {
            self.used.aside.push(before.reference.slot);
        }
        Look::Here(Message {
            topic_hash: topic_hash(self.strategy, || record.view().topic),
            qos: look::qos(reference.look),
        })
    }
}

/// Where a group's stream ends for now: at its end, or at the first message whose bytes are lost and needed.
pub(crate) fn end_of_group(
    number: u64,
    (group, stream, records): (&Group, &Stream, &Records),
    unlost: &mut Unlost,
    doomed: &hashbrown::HashSet<(u64, u64), foldhash::fast::RandomState>,
) -> u64 {
    if records.tombstones() == 0 {
        return stream.next();
    }
    let is_lost = |seq| {
        let reference = stream.get(seq);
        reference.is_some_and(|it| records.is_tombstone(it.slot))
            && !doomed.contains(&(number, seq))
            && !group.is_received(Seq(seq))
    };
    let known = (records.lost_ever(), stream.next());
    let lost = unlost.first_lost(known, |seq| stream.next_live(seq), is_lost);
    lost.unwrap_or(stream.next())
}

/// Delivers a message of a group, by its look, and returns its topic, which the next one's is likely to be as well.
#[inline]
pub(super) fn deliver_given<'a>(
    (look, record): (u32, RecordRef<'a>),
    group: GroupRef,
    given: &Given,
    topic: &'a str,
    fx: &mut impl PartitionEffects,
) -> &'a str {
    let asked = given.receiver.map(|receiver| receiver.member);
    let keep = asked.is_some_and(|asked| asked.options.retain_as_published);
    let source = Source::Group(group);
    let to = DeliverTo {
        front: given.front,
        source: Some((source, given.seq)),
        packet_id: given.packet_id,
        qos: given.qos,
        flags: DeliverFlags {
            retain: keep && look::retain(look),
            duplicate: given.duplicate,
            shared: true,
        },
        identifiers: asked
            .and_then(|asked| asked.identifier)
            .map(|id| Arc::from([id])),
    };
    let view = record.view_like(topic);
    let delivery = Delivery {
        view: &view,
        record: Some(record),
    };
    fx.deliver(delivery, std::slice::from_ref(&to));
    view.topic
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
