//! What is a member's by what is committed and has not left: messages of QoS 2 (M31), and of QoS 1 that it has kept. One that is not in memory comes out of the log first, and
//! what the member has behind it waits for it.

use std::collections::VecDeque;

use courser_contract::{
    FrontId, GroupRef, HomeRef, MemberConnection, PartitionEffects, QoS, Seq, Source, ToFront,
};

use super::give::{Given, deliver_given};
use crate::{
    Partition,
    emptied::Emptied,
    group::{Fact, Group, Owed, Receiver, Stage},
    ids::{self, Owner},
    record::{Records, Slot},
    session::group_name,
    state::{GroupLead, SharedGroup},
    stream::Stream,
};

/// What a connection of a member gets when it is in memory.
#[derive(Debug, Default)]
pub(crate) struct Owing {
    /// Messages in order, each with whether it may have left before.
    messages: VecDeque<(Seq, bool)>,
    /// The connection has just come, and hears when this was all.
    begun: Option<MemberConnection>,
}

impl Owing {
    /// Its messages in order; none leaves before the first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Seq> + '_ {
        self.messages.iter().map(|(seq, _)| *seq)
    }
}

/// What became of a message.
enum Sent {
    /// It is not in memory.
    Waits,
    /// It has left, or is not the member's any more. Its record may have been read back for it.
    Yes(Option<Slot>),
    /// The disk has lost it, and it was not sent before.
    Never,
}

/// A group with its messages.
#[derive(Clone, Copy)]
struct Messages<'a> {
    at: GroupRef,
    group: &'a Group,
    stream: &'a Stream,
    records: &'a Records,
}

impl Messages<'_> {
    /// Sends a message that is owed to a member.
    fn send(
        self,
        (member, front): (HomeRef, FrontId),
        (seq, duplicate): (Seq, bool),
        fx: &mut impl PartitionEffects,
    ) -> Sent {
        let owed = self.group.owed(seq).filter(|owed| owed.member == member);
        let (Some(owed), Some(reference)) = (owed, self.stream.get(seq.0)) else {
            return Sent::Yes(None);
        };
        match owed.stage {
            Stage::Received => {
                let message = ToFront::Release {
                    source: Source::Group(self.at),
                    seq,
                    packet_id: owed.packet_id,
                };
                fx.send_front(front, message);
                Sent::Yes(None)
            }
            Stage::Assigned => {
                if self.records.is_cold(reference.slot) {
                    return Sent::Waits;
                }
                let found = self.records.find(reference.slot);
                let found = found.filter(|_| !self.records.is_tombstone(reference.slot));
                let Some((record, is_recalled)) = found else {
                    return self.withhold(front, (seq, duplicate), owed.packet_id, fx);
                };
                let receiver = self.group.member(member).map(|&asked| Receiver {
                    home: member,
                    front,
                    member: asked,
                });
                let given = Given {
                    seq,
                    receiver,
                    front,
                    qos: match owed.is_kept() {
                        true => QoS::AtLeastOnce,
                        false => QoS::ExactlyOnce,
                    },
                    packet_id: owed.packet_id,
                    duplicate,
                };
                deliver_given((reference.look, record), self.at, &given, "", fx);
                Sent::Yes(is_recalled.then_some(reference.slot))
            }
        }
    }
}

impl Messages<'_> {
    /// What the disk has lost is not sent; the group stops there, for what is new. Where the client may have it, the packet id is not free
    /// (M31): the client would take what comes with it for a repeat.
    fn withhold(
        self,
        front: FrontId,
        (seq, duplicate): (Seq, bool),
        packet_id: Option<u16>,
        fx: &mut impl PartitionEffects,
    ) -> Sent {
        if !duplicate {
            return Sent::Never;
        }
        if let Some(packet_id) = packet_id {
            let group = self.at;
            let withheld = ToFront::Withheld {
                group,
                seq,
                packet_id,
            };
            fx.send_front(front, withheld);
        }
        Sent::Yes(None)
    }
}

impl Partition {
    /// Sends again what a member is owed, and says that this was all (M31).
    pub(crate) fn group_owed(
        &mut self,
        number: u64,
        member: HomeRef,
        connection: MemberConnection,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(shared) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup { group, lead, .. } = &mut **shared;
        if lead.fronts.get(&member) != Some(&connection.front) {
            return;
        }
        // What a member has of QoS 2 from before comes first, in order (v5 [MQTT-4.8.2-4]). What it has kept of QoS 1 is another PUBLISH.
        let messages = group.owed_to(member);
        let messages = messages.map(|(seq, owed)| (seq, !owed.is_kept()));
        let owing = Owing {
            messages: messages.collect(),
            begun: Some(connection),
        };
        lead.owing.insert(member, owing);
        self.begin_tries(number);
        if self.state.records.tombstones() > 0 {
            self.try_owed_again(number, member);
        }
        self.send_owing(number, fx);
        self.pump_group(number, fx);
    }

    /// It is committed whose a message is: it leaves, behind what the member has before it.
    pub(super) fn send_assigned(
        &mut self,
        number: u64,
        (member, seq): (HomeRef, Seq),
        fx: &mut impl PartitionEffects,
    ) {
        let at = self.group_ref(number);
        let Some(shared) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup {
            group,
            stream,
            lead,
            ..
        } = &mut **shared;
        let Some(&front) = lead.fronts.get(&member) else {
            return;
        };
        let is_behind = !lead.owing.is_empty() && lead.owing.contains_key(&member);
        let messages = Messages {
            at,
            group,
            stream,
            records: &self.state.records,
        };
        let sent = match is_behind {
            true => Sent::Waits,
            false => messages.send((member, front), (seq, false), fx),
        };
        match sent {
            Sent::Yes(None) => {}
            Sent::Yes(Some(slot)) => self.give_back_one(slot),
            Sent::Never => self.take_back_unsent(number, &[seq], fx),
            Sent::Waits => {
                let owing = lead.owing.entry(member).or_default();
                owing.messages.push_back((seq, false));
                self.look_ahead_of_group(number);
            }
        }
    }

    /// Sends what members are owed, as far as it is in memory.
    pub(super) fn send_owing(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        let at = self.group_ref(number);
        let Some(shared) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup {
            group,
            stream,
            lead,
            ..
        } = &mut **shared;
        let GroupLead {
            owing,
            fronts,
            dispatch,
            ..
        } = lead;
        let messages = Messages {
            at,
            group,
            stream,
            records: &self.state.records,
        };
        let mut recalled = Vec::new();
        let mut unsent = Vec::new();
        owing.retain(|&member, owing| {
            let (Some(&front), Some(dispatch)) = (fronts.get(&member), dispatch.as_mut()) else {
                return false;
            };
            while let Some(&message) = owing.messages.front() {
                match messages.send((member, front), message, fx) {
                    Sent::Waits => return true,
                    Sent::Yes(slot) => recalled.extend(slot),
                    Sent::Never => unsent.push(message.0),
                }
                owing.messages.pop_front();
            }
            if let Some(connection) = owing.begun {
                let name = group_name(messages.group.share(), messages.group.filter());
                fx.send_front(front, ToFront::Owed { group: at, name });
                dispatch.attached(member, connection);
            }
            false
        });
        // Most connections are owed nothing, and what was kept for them is more than all else that the group has.
        owing.give_back_if_empty();
        if !recalled.is_empty() {
            self.give_back(recalled);
        }
        self.take_back_unsent(number, &unsent, fx);
    }

    /// Messages that have packet ids and cannot be sent are free again.
    fn take_back_unsent(&mut self, number: u64, unsent: &[Seq], fx: &mut impl PartitionEffects) {
        if unsent.is_empty() {
            return;
        }
        let mut facts = Vec::new();
        if let Some(shared) = self.state.groups.get_mut(number)
            && let Some(dispatch) = &mut shared.lead.dispatch
        {
            for &seq in unsent {
                dispatch.not_sent(seq, &mut facts);
            }
        }
        self.write_group_facts(number, &facts);
        self.tell_group_news(number, fx);
    }

    /// The message of an exchange that may have begun is given up, since its bytes are lost: PUBREL follows. Returns whether there is one.
    pub(crate) fn end_shared_exchange(&mut self, number: u64, seq: Seq) -> bool {
        let Some(shared) = self.state.groups.get(number) else {
            return false;
        };
        let dispatch = shared.lead.dispatch.as_ref();
        let is_named = |owed: &Owed| owed.packet_id.is_some();
        let has_begun = shared.group.owed(seq).is_some_and(is_named)
            && dispatch.is_some_and(|dispatch| dispatch.is_under_way(seq));
        if has_begun {
            self.write_group_facts(number, &[Fact::Received { seq }]);
        }
        has_begun
    }

    /// A message of a stream is given up, since its bytes are lost: whoever of a group has it does not wait for it any more.
    pub(crate) fn give_up_shared(&mut self, number: u64, seq: Seq, fx: &mut impl PartitionEffects) {
        if ids::owner(number) != Owner::Group {
            return;
        }
        let group = self.group_ref(number);
        if let Some(shared) = self.state.groups.get_mut(number)
            && let Some(dispatch) = &mut shared.lead.dispatch
            && let Some(asked) = dispatch.give_up(seq)
            && let Some(&front) = shared.lead.fronts.get(&asked)
        {
            let seq = Some(seq);
            fx.send_front(front, ToFront::Void { group, seq });
        }
        self.tell_group_news(number, fx);
    }
}
