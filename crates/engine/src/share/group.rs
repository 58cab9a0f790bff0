//! The group's half of shared subscriptions: only it picks members (M35).

use std::sync::Arc;

use courser_contract::{
    DeliverFlags, DeliverTo, Delivery, FrontId, GroupRef, HomeRef, Join, JoinResult, LeaveCause,
    OutcomeKind, PartitionEffects, QoS, RecordView, Refusal, Seq, SharedStrategy, Source, ToFront,
    ToPartition,
};

use crate::{
    Partition,
    entry::{Fate, Haste, OutcomeFact, Rare},
    group::{Assignment, Dispatch, Fact, Leave, Message, Receiver, Stage},
    ids::{Numbers, Owner},
    lead::{After, Indexed},
    look,
    session::group_name,
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
    /// A session joins, or changes what it asked for.
    pub(crate) fn group_join(&mut self, join: Box<Join>, fx: &mut impl PartitionEffects) {
        let name = (join.share.clone(), join.filter.clone());
        let known = self
            .lead
            .making
            .get(&name)
            .or_else(|| self.state.by_share.get(&name))
            .copied();
        let usable = |number: &u64| {
            self.state
                .groups
                .get(*number)
                .is_none_or(|g| !g.lead.ending)
        };
        let number = match known.filter(usable) {
            Some(number) => number,
            None => {
                let Some(number) = self.lead.groups.next(Owner::Group) else {
                    return answer(&join, JoinResult::Refused(Refusal::QuotaExceeded), fx);
                };
                self.lead.making.insert(name, number);
                self.write(&Rare::GroupMade {
                    group: number,
                    share: join.share.clone(),
                    filter: join.filter.clone(),
                    strategy: join.strategy,
                });
                number
            }
        };
        if let Some(group) = self.state.groups.get_mut(number) {
            group.lead.joining += 1;
        }
        self.write(&Rare::GroupJoined {
            group: number,
            member: join.member,
            options: join.options,
            identifier: join.identifier,
        });
        self.lead.after(After::GroupJoined(number, join));
    }

    /// A join is applied.
    pub(crate) fn group_joined(
        &mut self,
        number: u64,
        join: &Join,
        fx: &mut impl PartitionEffects,
    ) {
        self.lead
            .making
            .remove(&(join.share.clone(), join.filter.clone()));
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        group.lead.joining = group.lead.joining.saturating_sub(1);
        group.joined(join.member);
        self.group_front(number, join.member, join.front, fx);
        let (member, request) = (join.member, join.request);
        match self.lead.unconfirmed.last_entry() {
            Some(mut last) => last.get_mut().push(Indexed::Join {
                member,
                request,
                group: number,
            }),
            None => self.answer_join(member, request, number, fx),
        }
    }

    /// L1 has the group's filter.
    pub(crate) fn answer_join(
        &self,
        member: HomeRef,
        request: u64,
        group: u64,
        fx: &mut impl PartitionEffects,
    ) {
        let message = ToPartition::Joined {
            member,
            request,
            result: JoinResult::Joined(self.group_ref(group)),
        };
        fx.send_partition(member.partition, message);
    }

    fn group_ref(&self, group: u64) -> GroupRef {
        GroupRef {
            partition: self.config.id,
            group,
        }
    }

    /// A session leaves.
    pub(crate) fn group_leave(
        &mut self,
        name: (Box<str>, Box<str>),
        member: HomeRef,
        cause: LeaveCause,
        request: u64,
        fx: &mut impl PartitionEffects,
    ) {
        let group = self
            .lead
            .making
            .get(&name)
            .or_else(|| self.state.by_share.get(&name))
            .copied();
        let Some(group) = group else {
            return self.group_left(None, member, cause, request, fx);
        };
        self.write(&Rare::GroupLeft {
            group,
            member,
            ended: cause == LeaveCause::SessionEnded,
        });
        self.lead.after(After::GroupLeft {
            group: Some(group),
            member,
            cause,
            request,
        });
    }

    /// A leave is applied.
    pub(crate) fn group_left(
        &mut self,
        number: Option<u64>,
        member: HomeRef,
        cause: LeaveCause,
        request: u64,
        fx: &mut impl PartitionEffects,
    ) {
        if let Some(number) = number {
            let mut facts = Vec::new();
            if let Some(group) = self.state.groups.get_mut(number) {
                let why = match cause {
                    LeaveCause::Unsubscribed => Leave::Unsubscribed,
                    LeaveCause::SessionEnded => Leave::SessionEnded,
                };
                if let Some(dispatch) = &mut group.lead.dispatch {
                    dispatch.left(&group.group, member, why, &mut facts);
                }
                if why == Leave::SessionEnded {
                    group.lead.fronts.remove(&member);
                }
            }
            self.write_group_facts(number, &facts);
            self.pump_group(number, fx);
            self.end_group_if_over(number);
        }
        fx.send_partition(member.partition, ToPartition::Left { member, request });
    }

    fn end_group_if_over(&mut self, number: u64) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        let busy = group
            .lead
            .dispatch
            .as_ref()
            .is_some_and(|d| d.under_way() > 0);
        if !group.group.is_over() || busy || group.lead.ending || group.lead.joining > 0 {
            return;
        }
        group.lead.ending = true;
        self.write(&Rare::GroupEnded { group: number });
    }

    /// A member's connection came or went.
    pub(crate) fn group_front(
        &mut self,
        number: u64,
        member: HomeRef,
        front: Option<(FrontId, u16)>,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup { group, lead, .. } = &mut **group;
        let Some(dispatch) = &mut lead.dispatch else {
            return;
        };
        let before = lead.fronts.get(&member).copied();
        if before == front.map(|(front, _)| front) {
            return;
        }
        let mut facts = Vec::new();
        if before.is_some() {
            lead.fronts.remove(&member);
            dispatch.detached(group, member, &mut facts);
        }
        let unsure = group.owed_to(member).next().is_some() || dispatch.has_begun(member);
        if let Some((front, _)) = front {
            lead.fronts.insert(member, front);
        }
        self.write_group_facts(number, &facts);
        if let Some(front) = front {
            self.owe(number, member, front, unsure, fx);
        }
        self.pump_group(number, fx);
    }

    /// What is owed to a connection is known once all is applied that was proposed before it came; nothing new is given to it
    /// before.
    fn owe(
        &mut self,
        group: u64,
        member: HomeRef,
        front: (FrontId, u16),
        unsure: bool,
        fx: &mut impl PartitionEffects,
    ) {
        let after = After::GroupOwed {
            group,
            member,
            front,
        };
        if unsure && self.gather.facts() > 0 {
            self.gather.hurry();
            self.lead.after(after);
        } else if unsure && self.lead.number > self.lead.applied {
            self.lead.after.push_back((self.lead.number, after));
        } else {
            self.group_owed(group, member, front, fx);
        }
    }

    /// Sends again what a member is owed, and says that this was all (M31).
    pub(crate) fn group_owed(
        &mut self,
        number: u64,
        member: HomeRef,
        (front, window): (FrontId, u16),
        fx: &mut impl PartitionEffects,
    ) {
        let Some(owing) = self.state.groups.get(number) else {
            return;
        };
        if owing.lead.fronts.get(&member) != Some(&front) {
            return;
        }
        let name = group_name(owing.group.share(), owing.group.filter());
        self.send_owed(number, member, front, fx);
        let group = self.group_ref(number);
        fx.send_front(front, ToFront::Owed { group, name });
        if let Some(owing) = self.state.groups.get_mut(number)
            && let Some(dispatch) = &mut owing.lead.dispatch
        {
            dispatch.attached(member, front, u32::from(window));
        }
        self.pump_group(number, fx);
    }

    /// A member's front has chosen a packet id: once that is committed, the PUBLISH leaves (M31).
    pub(crate) fn group_named(
        &mut self,
        number: u64,
        (member, front): (HomeRef, FrontId),
        seq: Seq,
        packet_id: u16,
    ) {
        let mut facts = Vec::new();
        if let Some(group) = self.state.groups.get_mut(number)
            && group.lead.fronts.get(&member) == Some(&front)
            && let Some(dispatch) = &mut group.lead.dispatch
        {
            dispatch.named(member, seq, packet_id, &mut facts);
        }
        self.write_group_facts(number, &facts);
    }

    /// What a member has of QoS 2 from before comes first, in order (v5 [MQTT-4.8.2-4]).
    fn send_owed(
        &self,
        number: u64,
        member: HomeRef,
        front: FrontId,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(group) = self.state.groups.get(number) else {
            return;
        };
        for (seq, owed) in group.group.owed_to(member) {
            let source = Source::Group(self.group_ref(number));
            match owed.stage {
                Stage::Received => {
                    let message = ToFront::Release {
                        source,
                        seq,
                        packet_id: owed.packet_id,
                    };
                    fx.send_front(front, message);
                }
                Stage::Assigned => {
                    let given = Given {
                        seq,
                        receiver: group.group.member(member).map(|&member_of| Receiver {
                            home: member,
                            front,
                            member: member_of,
                        }),
                        front,
                        qos: QoS::ExactlyOnce,
                        packet_id: owed.packet_id,
                        duplicate: true,
                    };
                    self.deliver_shared(number, &given, fx);
                }
            }
        }
    }

    /// What a member's front says of deliveries.
    pub(crate) fn group_outcome(
        &mut self,
        number: u64,
        member: HomeRef,
        range: (Seq, Seq),
        kind: OutcomeKind,
        fx: &mut impl PartitionEffects,
    ) {
        let mut facts = Vec::new();
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        group.lead.taken_at = Some(self.lead.now.tick);
        if let Some(dispatch) = &mut group.lead.dispatch {
            dispatch.outcome(member, range, kind, &mut facts);
        }
        self.write_group_facts(number, &facts);
        self.pump_group(number, fx);
        self.end_group_if_over(number);
    }

    fn write_group_facts(&mut self, number: u64, facts: &[Fact]) {
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
                    let outcome = OutcomeFact {
                        stream: number,
                        first: first.0,
                        last: last.0,
                        fate: Fate::Done,
                        sent_limit: 0,
                    };
                    outcome.write(&mut self.gather, Haste::Lazy(self.lead.now.tick));
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
            }
            Fact::Assigned {
                seq,
                member,
                packet_id,
            } => {
                if let Some(&front) = lead.fronts.get(&member)
                    && group.owed(seq).is_some_and(|owed| owed.member == member)
                {
                    let receiver = group.member(member).map(|&asked| Receiver {
                        home: member,
                        front,
                        member: asked,
                    });
                    let given = Given {
                        seq,
                        receiver,
                        front,
                        qos: QoS::ExactlyOnce,
                        packet_id,
                        duplicate: false,
                    };
                    self.deliver_shared(number, &given, fx);
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
        let wall = self.wall();
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
            let _ = wall;
            Some(Message {
                topic_hash: hash,
                qos: look::qos(reference.look),
            })
        })
    }

    fn deliver_shared(&self, number: u64, given: &Given, fx: &mut impl PartitionEffects) {
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

    /// A new leader begins to pick, and asks the homes of all members for their connections.
    pub(crate) fn begin_groups(&mut self, fx: &mut impl PartitionEffects) {
        self.lead.groups = Numbers::of(&self.state.groups, self.state.last_group);
        for number in self.state.groups.sorted() {
            let group = self.state.groups.get_mut(number).expect("it was listed");
            group.begin();
            let members: Vec<HomeRef> = group.group.members().map(|(home, _)| home).collect();
            for member in members {
                self.answer_join(member, 0, number, fx);
            }
            self.end_group_if_over(number);
        }
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
struct Given {
    seq: Seq,
    /// None: it is no member any more and finishes what it has.
    receiver: Option<Receiver>,
    front: FrontId,
    qos: QoS,
    packet_id: Option<u16>,
    duplicate: bool,
}

impl SharedGroup {
    fn begin(&mut self) {
        self.lead.dispatch = Some(Dispatch::new(&self.group, Seq(self.stream.floor())));
    }

    fn joined(&mut self, member: HomeRef) {
        if self.lead.dispatch.is_none() {
            self.begin();
        }
        if let Some(dispatch) = &mut self.lead.dispatch {
            dispatch.joined(&self.group, member);
        }
    }
}

fn answer(join: &Join, result: JoinResult, fx: &mut impl PartitionEffects) {
    let message = ToPartition::Joined {
        member: join.member,
        request: join.request,
        result,
    };
    fx.send_partition(join.member.partition, message);
}
