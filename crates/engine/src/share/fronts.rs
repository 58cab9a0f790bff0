//! Connections of a group's members: what is owed to them, and what they say (M31).

use courser_contract::{
    Dropped, FrontId, GroupRoom, HomeRef, MemberConnection, OutcomeKind, PartitionEffects, Seq,
    Uptake,
};

use crate::{
    Partition,
    lead::After,
    state::{GroupLead, SharedGroup},
};

impl Partition {
    /// A member's connection came or went, or takes less or more than it did.
    pub(crate) fn group_front(
        &mut self,
        number: u64,
        member: HomeRef,
        front: Option<MemberConnection>,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        // It has left, and its home is about to hear that nothing is left of it here.
        if !group.has_something_of(member) {
            return;
        }
        let SharedGroup { group, lead, .. } = &mut **group;
        let Some(dispatch) = &mut lead.dispatch else {
            return;
        };
        let uptake = front.map_or(Uptake::Prompt, |connection| connection.uptake);
        dispatch.reads(member, uptake);
        let before = lead.fronts.get(&member).copied();
        if before == front.map(|connection| connection.front) {
            return;
        }
        let mut facts = Vec::new();
        if before.is_some() {
            dispatch.detached(group, member, &mut facts);
        }
        let unsure = group.owed_to(member).next().is_some() || dispatch.has_begun(member);
        self.set_front(number, member, front.map(|connection| connection.front));
        self.write_group_facts(number, &facts);
        if let Some(front) = front {
            self.owe(number, member, front, unsure, fx);
        }
        self.pump_group(number, fx);
        self.tell_group_news(number, fx);
        self.end_group_if_over(number);
    }

    /// A member has this connection, or none any more: what comes out of the log for another one is not for it.
    pub(super) fn set_front(&mut self, number: u64, member: HomeRef, front: Option<FrontId>) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup { group, lead, .. } = &mut **group;
        let GroupLead { fronts, owing, .. } = lead;
        owing.remove(&member);
        let before = match front {
            Some(front) => fronts.insert(member, front),
            None => fronts.remove(&member),
        };
        if before.is_some() && fronts.is_empty() {
            lead.rest();
            group.rest();
        }
        self.lead.sharing.fronts += usize::from(front.is_some());
        self.lead.sharing.fronts -= usize::from(before.is_some());
    }

    /// What is owed to a connection is known once all is applied that was proposed before it came; nothing new is given to it
    /// before.
    fn owe(
        &mut self,
        group: u64,
        member: HomeRef,
        front: MemberConnection,
        unsure: bool,
        fx: &mut impl PartitionEffects,
    ) {
        if !unsure {
            return self.group_owed(group, member, front, fx);
        }
        if self.gather.facts() > 0 {
            self.gather.hurry();
        }
        let after = After::GroupOwed {
            group,
            member,
            front,
        };
        self.after_all(after, fx);
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

    /// What a member's front says of deliveries.
    pub(crate) fn group_outcome(
        &mut self,
        number: u64,
        (member, front): (HomeRef, FrontId),
        range: (Seq, Seq),
        kind: OutcomeKind,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        // What a client has said is true whichever connection it said it on; what a connection did not send says nothing of
        // the next one.
        let is_unsent = matches!(kind, OutcomeKind::Returned | OutcomeKind::TooLarge);
        if is_unsent && group.lead.fronts.get(&member) != Some(&front) {
            return;
        }
        if !is_unsent {
            group.lead.taken_at = Some(self.lead.now.tick);
        }
        let mut facts = std::mem::take(&mut self.lead.sharing.facts);
        if let Some(dispatch) = &mut group.lead.dispatch {
            let too_large = dispatch.outcome(member, range, kind, &mut facts);
            Self::count_dropped(Dropped::TooLarge, too_large, fx);
        }
        self.write_group_facts(number, &facts);
        facts.clear();
        self.lead.sharing.facts = facts;
        self.pump_group(number, fx);
        self.tell_group_news(number, fx);
        self.end_group_if_over(number);
    }

    /// A member's front says what it has room for.
    pub(crate) fn group_room(
        &mut self,
        number: u64,
        (member, front): (HomeRef, FrontId),
        room: GroupRoom,
        fx: &mut impl PartitionEffects,
    ) {
        let Some(group) = self.state.groups.get_mut(number) else {
            return;
        };
        if group.lead.fronts.get(&member) != Some(&front) {
            return;
        }
        if let Some(dispatch) = &mut group.lead.dispatch {
            dispatch.has_places(member, room);
        }
        self.pump_group(number, fx);
    }
}
