//! The durable part of a group: how it comes to be, and what it takes from the volatile one (M36).

use courser_contract::{
    AppendKey, Cut, GroupName, GroupRef, Inheritance, Join, PartitionEffects, PartitionId,
    PassedOn, QoS, Record, Seq, Term, ToPartition, VolatilePart,
};

use super::{Leaver, Membership, Side, name_of};
use crate::{
    Partition,
    entry::{Rare, RetainMark, Target},
    group::Part,
    lead::{After, Indexed},
    state::SharedGroup,
};

impl Partition {
    /// A join of a group that this partition does not have.
    pub(crate) fn join_other_part(&mut self, join: Box<Join>, fx: &mut impl PartitionEffects) {
        let name = name_of(&join.share, &join.filter);
        if let Some(waiting) = self.lead.sharing.parts.asking.get_mut(&name) {
            waiting.push(Membership::Join(join));
        } else if join.member.partition.is_volatile() {
            fx.send_partition(fx.volatile_partition(), ToPartition::Join(join));
        } else {
            let waiting = vec![Membership::Join(join)];
            self.lead.sharing.parts.asking.insert(name.clone(), waiting);
            let term = self.lead.term;
            fx.send_partition(fx.volatile_partition(), ToPartition::AskPart { name, term });
        }
    }

    /// The same for a leave.
    pub(crate) fn leave_other_part(
        &mut self,
        (share, filter): &(Box<str>, Box<str>),
        leaver: Leaver,
        fx: &mut impl PartitionEffects,
    ) {
        let name = name_of(share, filter);
        let to = match leaver.part {
            Some(part) => part.partition,
            None => fx.volatile_partition(),
        };
        if leaver.part.is_none()
            && let Some(waiting) = self.lead.sharing.parts.asking.get_mut(&name)
        {
            waiting.push(Membership::Leave(leaver));
            return;
        }
        if self.is_volatile() || !leaver.member.partition.is_volatile() {
            return self.group_left(None, leaver, fx);
        }
        let leave = ToPartition::Leave {
            share: name.share,
            filter: name.filter,
            member: leaver.member,
            cause: leaver.cause,
            request: leaver.request,
            part: leaver.part,
            front: leaver.front,
            known: leaver.known,
        };
        fx.send_partition(to, leave);
    }

    /// The volatile partition has said what it has of a group: the durable part is made.
    pub(crate) fn part_known(
        &mut self,
        name: &GroupName,
        (term, part): (Term, VolatilePart),
        fx: &mut impl PartitionEffects,
    ) {
        // What was offered to an earlier leader is void.
        if term != self.lead.term {
            return;
        }
        let Some(waiting) = self.lead.sharing.parts.asking.remove(name) else {
            return;
        };
        let first = waiting.iter().find_map(|waiting| match waiting {
            Membership::Join(join) => Some(join.strategy),
            Membership::Leave(_) => None,
        });
        let key = (name.share.clone(), name.filter.clone());
        if let Some(strategy) = first {
            let made = self.make_group(&key, strategy);
            match (made, part) {
                (Some(group), VolatilePart::UpTo(cut)) => {
                    self.write(&Rare::GroupInherits { group, cut });
                    self.lead.sharing.parts.sides.push((group, Side::From(cut)));
                    self.lead.after(After::Heir(group));
                }
                (None, VolatilePart::UpTo(_)) => {
                    let to = fx.volatile_partition();
                    fx.send_partition(to, ToPartition::Decline(name.clone()));
                }
                (_, VolatilePart::Absent) => {}
            }
        }
        for waiting in waiting {
            match waiting {
                Membership::Join(join) => self.join_made(&key, join, fx),
                Membership::Leave(leaver) => self.group_leave(key.clone(), leaver, fx),
            }
        }
    }

    /// The entry that made a durable part is applied: the volatile one is told once L1 leads here.
    pub(crate) fn heir_made(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        match self.lead.index.unconfirmed.last_entry() {
            Some(mut last) => last.get_mut().push(Indexed::Heir(number)),
            None => self.ask_for_inheritance(number, fx),
        }
    }

    /// L1 leads to a durable part.
    pub(crate) fn ask_for_inheritance(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        if let Some(group) = self.state.groups.get(number)
            && let Some(inheritance) = inheritance(number, group)
        {
            let to = fx.volatile_partition();
            fx.send_partition(to, ToPartition::Inherit(inheritance));
        }
    }

    /// A new leader takes up what an earlier one expected, or that the process of the volatile parts is gone.
    pub(crate) fn begin_part(&mut self, number: u64, with_process: bool) {
        let Some(group) = self.state.groups.get(number) else {
            return;
        };
        match group.group.part() {
            Part::Heir { .. } if with_process => self.write(&Rare::GroupInherits {
                group: number,
                cut: Cut(0),
            }),
            Part::Heir { cut, .. } => {
                self.lead
                    .sharing
                    .parts
                    .sides
                    .push((number, Side::From(cut)));
            }
            Part::Whole | Part::Closed => {}
        }
    }

    /// The groups that a new leader has found.
    pub(crate) fn heirs(&self) -> Vec<u64> {
        let groups = self.state.groups.iter();
        let heirs = groups.filter(|(_, group)| matches!(group.group.part(), Part::Heir { .. }));
        let mut numbers: Vec<u64> = heirs.map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// L1 leads to these: the volatile partition hears what they expect. Not of those made since, to which it may not lead yet.
    pub(crate) fn say_inheritances(&self, heirs: &[u64], fx: &mut impl PartitionEffects) {
        let expected = heirs
            .iter()
            .filter_map(|&number| inheritance(number, self.state.groups.get(number)?));
        let inheritances = ToPartition::Inheritances {
            term: self.lead.term,
            groups: expected.collect(),
        };
        fx.send_partition(fx.volatile_partition(), inheritances);
    }

    /// Messages of the volatile part.
    pub(crate) fn inherit_messages(
        &mut self,
        from: PartitionId,
        passed: &PassedOn,
        fx: &mut impl PartitionEffects,
    ) {
        let number = passed.to;
        let group = self.state.groups.get_mut(number);
        let known = group.and_then(|group| match group.group.part() {
            Part::Heir { taken, .. } => Some(*group.lead.took.get_or_insert(taken)),
            Part::Whole | Part::Closed => None,
        });
        // Nobody is left who could get them.
        let Some(took) = known else {
            let group = passed.from;
            let next = u64::MAX;
            return fx.send_partition(from, ToPartition::Took { group, next });
        };
        // One before it was lost, and comes again.
        if passed.first > took {
            return;
        }
        let known = usize::try_from(took - passed.first).unwrap_or(usize::MAX);
        let mut stored = 0;
        for record in passed.records.iter().skip(known) {
            stored += u32::from(self.inherit_message(number, record, fx));
        }
        let next = took.max(passed.first.saturating_add(passed.records.len() as u64));
        if let Some(group) = self.state.groups.get_mut(number) {
            group.lead.took = Some(next);
        }
        self.write(&Rare::GroupTook {
            group: number,
            next,
            stored,
            all: passed.all,
        });
        self.lead.after(After::Inherited {
            group: number,
            from: GroupRef {
                partition: from,
                group: passed.from,
            },
            next,
        });
    }

    /// Whether there was room for it.
    fn inherit_message(
        &mut self,
        number: u64,
        record: &Record,
        fx: &mut impl PartitionEffects,
    ) -> bool {
        let view = record.view();
        let target = Target {
            stream: number,
            qos: QoS::ExactlyOnce,
            retain: RetainMark::Keep,
            identifiers: None,
        };
        let target = std::slice::from_ref(&target);
        let fits = match self.reserve(target, view.encoded_len() as u64, fx) {
            None => true,
            Some(fitting) => !fitting.is_empty(),
        };
        if fits {
            self.write_publish(&AppendKey::Unanswered, false, target, &view);
        }
        fits
    }

    /// What was passed on is committed. With the last of it the durable part begins to give out.
    pub(crate) fn inherited(
        &mut self,
        number: u64,
        (from, next): (GroupRef, u64),
        fx: &mut impl PartitionEffects,
    ) {
        let group = from.group;
        fx.send_partition(from.partition, ToPartition::Took { group, next });
        let Some(shared) = self.state.groups.get_mut(number) else {
            return;
        };
        if shared.group.is_mute() {
            return;
        }
        let first = std::mem::take(&mut shared.lead.inherited);
        let joins = std::mem::take(&mut shared.lead.waiting_joins);
        if let Some(dispatch) = &mut shared.lead.dispatch {
            dispatch.put_first(
                first
                    .into_iter()
                    .flat_map(|(first, end)| first..end)
                    .map(Seq),
            );
        }
        for (member, request) in joins {
            self.answer_join(member, request, number, fx);
        }
        self.pump_group(number, fx);
        self.end_group_if_over(number);
    }
}

fn inheritance(number: u64, group: &SharedGroup) -> Option<Inheritance> {
    match group.group.part() {
        Part::Heir { cut, taken, .. } => Some(Inheritance {
            name: name_of(group.group.share(), group.group.filter()),
            group: number,
            cut,
            taken,
        }),
        Part::Whole | Part::Closed => None,
    }
}
