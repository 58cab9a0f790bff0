//! The volatile part of a group: its cut, its end, and what it passes on (M36).

use courser_contract::{
    Cut, Fence, GroupName, GroupRef, Inheritance, PartitionEffects, PartitionId, PassedOn, Seq,
    Term, ToPartition, VolatilePart,
};

use super::{Asked, Offer, Side, name_of};
use crate::{
    Partition,
    entry::{Haste, Rare},
    lead::{After, Fenced},
    share::facts::done,
    state::{Passing, SharedGroup},
};

/// Messages that are passed on at once.
const PASSED_MAX: usize = 256;

impl Partition {
    /// A group is to be durable from now on.
    pub(crate) fn offer_part(
        &mut self,
        (to, term): (PartitionId, Term),
        name: GroupName,
        fx: &mut impl PartitionEffects,
    ) {
        let key = (name.share.clone(), name.filter.clone());
        let Some(group) = self.usable_group(&key) else {
            let part = VolatilePart::Absent;
            return fx.send_partition(to, ToPartition::Part { name, term, part });
        };
        let cut = match &mut self.lead.sharing.parts.offer {
            // Its leader went before it had a durable part: the next one, which asks again, has all that the last one has left.
            Some(offer) if offer.group == group => {
                offer.term = term;
                offer.cut
            }
            Some(_) => {
                let queue = &mut self.lead.sharing.parts.queue;
                let known = queue.iter_mut().find(|it| it.by == to && it.name == name);
                match known {
                    Some(asked) => asked.term = term,
                    None => queue.push_back(Asked { by: to, term, name }),
                }
                return;
            }
            None => {
                self.lead.sharing.parts.cuts += 1;
                let cut = Cut(self.lead.sharing.parts.cuts);
                self.lead
                    .sharing
                    .parts
                    .sides
                    .push((group, Side::Below(cut)));
                self.lead.sharing.parts.offer = Some(Offer {
                    name: name.clone(),
                    to,
                    term,
                    cut,
                    group,
                    heir: None,
                });
                cut
            }
        };
        let part = VolatilePart::UpTo(cut);
        fx.send_partition(to, ToPartition::Part { name, term, part });
    }

    /// There is no room for the durable part of a group.
    pub(crate) fn part_declined(
        &mut self,
        by: PartitionId,
        name: &GroupName,
        fx: &mut impl PartitionEffects,
    ) {
        self.forget_offer(|offer| offer.to == by && offer.name == *name);
        self.offer_next(fx);
    }

    /// The offer is void, if it is one of these: the group goes on as if nobody had asked.
    fn forget_offer(&mut self, is_void: impl FnOnce(&Offer) -> bool) {
        let parts = &mut self.lead.sharing.parts;
        if parts.offer.as_ref().is_some_and(is_void)
            && let Some(offer) = parts.offer.take()
        {
            parts.forget(offer.group);
            self.end_group_if_over(offer.group);
        }
    }

    /// A new leader of a durable partition: what it does not expect was offered to nobody, but for what it has asked for itself meanwhile.
    pub(crate) fn bequeath_all(
        &mut self,
        (to, term): (PartitionId, Term),
        expected: Vec<Inheritance>,
        fx: &mut impl PartitionEffects,
    ) {
        let queue = &mut self.lead.sharing.parts.queue;
        queue.retain(|asked| asked.by != to || asked.term >= term);
        self.forget_offer(|offer| {
            let earlier = offer.to == to && offer.term < term;
            earlier && !expected.iter().any(|heir| heir.cut == offer.cut)
        });
        for heir in expected {
            self.bequeath(to, heir, fx);
        }
        self.offer_next(fx);
    }

    /// L1 leads to a durable part: the cut is made, or what was passed on goes out again.
    pub(crate) fn bequeath(
        &mut self,
        to: PartitionId,
        heir: Inheritance,
        fx: &mut impl PartitionEffects,
    ) {
        if let Some(offer) = &mut self.lead.sharing.parts.offer
            && (offer.to, offer.cut) == (to, heir.cut)
            && offer.name == heir.name
        {
            if offer.heir.replace(heir.group).is_none() {
                let token = self.lead.next_token();
                self.lead.index.fences.insert(token, Fenced::Cut);
                fx.fence(token, Fence::Cut(heir.cut));
            }
            return;
        }
        let heir_ref = GroupRef {
            partition: to,
            group: heir.group,
        };
        let groups = self.state.groups.iter();
        let mut passing = groups.filter(|(_, group)| {
            let passing = group.lead.passing.as_ref();
            passing.is_some_and(|passing| passing.to == heir_ref)
        });
        match passing.next() {
            Some((number, _)) => self.pass_again(number, fx),
            // It is over, or its process is.
            None => {
                let passed = PassedOn {
                    to: heir.group,
                    from: 0,
                    first: heir.taken,
                    records: Vec::new(),
                    all: true,
                };
                fx.send_partition(to, ToPartition::PassOn(Box::new(passed)));
            }
        }
    }

    /// Nothing below the cut comes any more.
    pub(crate) fn cut_made(&mut self, fx: &mut impl PartitionEffects) {
        let Some(offer) = self.lead.sharing.parts.offer.take() else {
            return;
        };
        let heir = offer.heir.expect("a fence is asked for with its heir");
        if let Some(shared) = self.state.groups.get_mut(offer.group) {
            shared.lead.passing = Some(Passing::to(GroupRef {
                partition: offer.to,
                group: heir,
            }));
        }
        self.write(&Rare::GroupClosed { group: offer.group });
        self.lead.after(After::Closed(offer.group));
        self.offer_next(fx);
    }

    fn offer_next(&mut self, fx: &mut impl PartitionEffects) {
        while self.lead.sharing.parts.offer.is_none()
            && let Some(Asked { by, term, name }) = self.lead.sharing.parts.queue.pop_front()
        {
            self.offer_part((by, term), name, fx);
        }
    }

    /// The volatile part has closed.
    pub(crate) fn part_closed(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        let part = self.group_ref(number);
        let Some(shared) = self.state.groups.get(number) else {
            return;
        };
        for (member, _) in shared.group.members() {
            let elsewhere = ToPartition::Elsewhere {
                member,
                name: name_of(shared.group.share(), shared.group.filter()),
                part,
            };
            fx.send_partition(member.partition, elsewhere);
        }
        self.pump_group(number, fx);
    }

    /// Passes on what waits, once all members have gone: they are members of the durable part by then.
    pub(crate) fn pass_on_waiting(&mut self, number: u64, fx: &mut impl PartitionEffects) {
        let Some(shared) = self.state.groups.get_mut(number) else {
            return;
        };
        let SharedGroup {
            group,
            stream,
            lead,
            ..
        } = &mut **shared;
        let (Some(passing), Some(dispatch)) = (&mut lead.passing, &mut lead.dispatch) else {
            return;
        };
        if group.members().next().is_some() || passing.sent.is_some() {
            return;
        }
        let end = Seq(stream.next());
        let mut waiting = dispatch.take_waiting(end, PASSED_MAX);
        waiting.retain(|seq| {
            stream.get(seq.0).is_some() && !self.lead.streams.doomed.contains(&(number, seq.0))
        });
        let all = !dispatch.has_waiting(end);
        if waiting.is_empty() && (passing.said_all || !all) {
            if !all {
                self.lead.streams.pump.push(number);
                self.gather.hurry();
            }
            return;
        }
        let records = waiting.into_iter().filter_map(|seq| {
            let reference = stream.get(seq.0)?;
            Some((seq, self.state.records.share(reference.slot)))
        });
        passing.said_all |= all;
        passing.sent = Some(records.collect());
        self.pass_again(number, fx);
    }

    /// Sends what was sent and not answered, or that there is nothing.
    fn pass_again(&self, number: u64, fx: &mut impl PartitionEffects) {
        let Some(shared) = self.state.groups.get(number) else {
            return;
        };
        let Some(passing) = &shared.lead.passing else {
            return;
        };
        let sent = passing.sent.as_deref();
        if sent.is_none() && !passing.said_all {
            return;
        }
        let records = sent.unwrap_or_default().iter();
        let passed = PassedOn {
            to: passing.to.group,
            from: number,
            first: passing.next,
            records: records.map(|(_, record)| record.clone()).collect(),
            all: passing.said_all,
        };
        fx.send_partition(passing.to.partition, ToPartition::PassOn(Box::new(passed)));
    }

    /// The durable part has what is below `next`.
    pub(crate) fn passed_on(&mut self, number: u64, next: u64, fx: &mut impl PartitionEffects) {
        let Some(shared) = self.state.groups.get_mut(number) else {
            return;
        };
        let Some(passing) = &mut shared.lead.passing else {
            return;
        };
        let sent = passing.sent.as_ref().map_or(0, Vec::len) as u64;
        if next < passing.next + sent {
            return;
        }
        let Some(sent) = passing.sent.take() else {
            return;
        };
        passing.next += sent.len() as u64;
        for (seq, _) in sent {
            done(number, seq, seq).write(&mut self.gather, Haste::Now);
        }
        self.pump_group(number, fx);
        self.end_group_if_over(number);
    }
}
