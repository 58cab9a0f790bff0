//! What shared groups need next. A group has one stream and many windows: it stops at a cold record for all of its members, whoever gets it, and
//! asks ahead for the sum of what they have room for. What comes back from a member, or was set aside for one, is asked for when it is next;
//! what is a member's by what is committed, when that is.

use courser_contract::{HomeRef, Seq, StreamWants};

use super::{AHEAD_MIN, TRIED_MAX, WANTS_A_QUESTION};
use crate::{
    Partition, PlantedPartition,
    group::{Dispatch, Stage, Up},
    record::{Records, Slot},
    share::end_of_group,
    state::{GroupLead, SharedGroup, State},
    stream::Stream,
};

impl Partition {
    /// A group has given out what it can: if it is at a cold record, or near the end of what was asked for, it needs more.
    #[cold]
    pub(crate) fn look_ahead_of_group(&mut self, number: u64) {
        let unasked = self.is_planted(PlantedPartition::ReturnedUnasked);
        let State {
            groups, records, ..
        } = &mut self.state;
        let Some(shared) = groups.get_mut(number) else {
            return;
        };
        let doomed = &self.lead.streams.doomed;
        let (stream, lead, end) = until_lost(number, shared, records, doomed);
        let GroupLead {
            dispatch, owing, ..
        } = lead;
        let Some(dispatch) = dispatch.as_ref() else {
            return;
        };
        let mut is_thirsty = false;
        for owing in owing.values() {
            let first = owing.iter().next().and_then(|seq| stream.get(seq.0));
            if let Some(first) = first.filter(|it| records.is_cold(it.slot)) {
                is_thirsty |= records.is_unasked(first.slot);
                records.wait(first.slot, number);
            }
        }
        let known = self.recalls.asked_to.get(&number);
        let mut asked_to = known.copied().unwrap_or_default();
        let cursor = dispatch.cursor().0;
        let next = next_cold(dispatch, end, (stream, records));
        if let Some(((_, slot), up)) = next.filter(|_| dispatch.windows() > 0) {
            let is_forgotten = unasked && up == Up::Returned;
            if records.is_unasked(slot) && !is_forgotten {
                // What was read back may have gone again: it is asked for from here on.
                asked_to = cursor;
                is_thirsty = true;
            }
            if dispatch.has_room() {
                records.wait(slot, number);
            }
        }
        let is_asking = asked_to > cursor && asked_to < stream.next();
        if !is_thirsty && !is_asking {
            return;
        }
        if is_thirsty || asked_to < cursor + self.ahead_of_group(number) / 2 {
            self.recalls.add_thirsty(number);
        }
        self.recalls.asked_to.insert(number, asked_to);
        self.tidy_recalls();
    }

    /// How far ahead a group asks: as its members would, each for itself.
    fn ahead_of_group(&self, number: u64) -> u64 {
        let Some(shared) = self.state.groups.get(number) else {
            return 0;
        };
        let dispatch = shared.lead.dispatch.as_ref();
        let windows = dispatch.map_or(0, Dispatch::windows);
        self.share_of(shared.lead.fronts.len())
            .clamp(AHEAD_MIN, WANTS_A_QUESTION as u64)
            .min(2 * windows.max(AHEAD_MIN))
    }

    /// Asks for what a group needs next.
    pub(super) fn ask_for_group(&mut self, number: u64) -> StreamWants {
        let mut asked = StreamWants {
            stream: number,
            wants: Vec::new(),
        };
        let ahead = self.ahead_of_group(number);
        let unasked = self.is_planted(PlantedPartition::ReturnedUnasked);
        let State {
            groups, records, ..
        } = &mut self.state;
        let Some(shared) = groups.get(number) else {
            return asked;
        };
        let SharedGroup {
            group,
            stream,
            lead,
            ..
        } = &**shared;
        let (Some(dispatch), Some(asked_to)) =
            (&lead.dispatch, self.recalls.asked_to.get_mut(&number))
        else {
            return asked;
        };
        let doomed = &self.lead.streams.doomed;
        let mut ask = |seq: Seq| {
            let is_doomed = !doomed.is_empty() && doomed.contains(&(number, seq.0));
            let reference = stream.get(seq.0).filter(|_| !is_doomed);
            let unasked = reference.filter(|it| records.is_unasked(it.slot));
            asked.wants.extend(unasked.map(|it| records.ask(it.slot)));
            asked.wants.len()
        };
        let owed = lead.owing.values().flat_map(|owing| owing.iter());
        let mut owed = owed.filter(|seq| {
            let owed = group.owed(*seq);
            owed.is_some_and(|owed| owed.stage == Stage::Assigned)
        });
        let is_full = owed.any(|seq| ask(seq) >= WANTS_A_QUESTION);
        if dispatch.windows() > 0 {
            let next = dispatch.next_up(Seq(stream.next()), |seq| stream.next_live(seq));
            let up = next.map_or(Up::New, |(_, up)| up);
            let mut left = ahead;
            for seq in dispatch.next_with(up) {
                if left == 0 || unasked && up == Up::Returned {
                    break;
                }
                ask(seq);
                left -= 1;
            }
            let cursor = dispatch.cursor().0;
            *asked_to = cursor.max(*asked_to);
            while *asked_to < cursor + left
                && let Some(seq) = stream.next_live(*asked_to)
            {
                if !dispatch.is_taken_up(Seq(seq)) {
                    ask(Seq(seq));
                }
                *asked_to = seq + 1;
            }
        }
        // A reader gives a stream what it wants in the order of the log.
        asked
            .wants
            .sort_unstable_by_key(|want| (want.index, want.byte));
        if is_full {
            self.recalls.add_thirsty(number);
        }
        asked
    }

    /// A group has given out what it can. If it stops at a record that could not be read back before a member came, that and those of
    /// some more behind it are tried again, once.
    #[cold]
    pub(crate) fn try_group_again(&mut self, number: u64) {
        let State {
            groups, records, ..
        } = &mut self.state;
        let Some(shared) = groups.get_mut(number) else {
            return;
        };
        let doomed = &self.lead.streams.doomed;
        let (stream, lead, end) = until_lost(number, shared, records, doomed);
        let Some(dispatch) = &lead.dispatch else {
            return;
        };
        let lost_before = self.recalls.lost_before.get(&number).copied();
        let unread = |records: &Records, seq: Seq| -> Option<(Slot, u64)> {
            let slot = stream.get(seq.0)?.slot;
            Some((slot, records.unread(slot)?))
        };
        let tried = |records: &Records, seq: Seq| -> Option<Slot> {
            let (slot, lost_at) = unread(records, seq)?;
            (lost_at <= lost_before?).then_some(slot)
        };
        let next = dispatch.next_up(Seq(stream.next()), |seq| stream.next_live(seq));
        // What is next may have come back from a member, and lie behind the record at which the group stops.
        let stops = [next.map(|(seq, _)| seq), Some(end)];
        let stops = stops.into_iter().flatten();
        if !stops.clone().any(|seq| tried(records, seq).is_some()) {
            // Another stream may try it.
            for seq in stops {
                if let Some((slot, _)) = unread(records, seq) {
                    records.wait(slot, number);
                }
            }
            return;
        }
        let up = next.map_or(Up::New, |(_, up)| up);
        let new = stream.iter_from(dispatch.cursor().0);
        let new = new.map(|(seq, _)| Seq(seq));
        let ahead = stops.chain(dispatch.next_with(up).chain(new).take(TRIED_MAX));
        let tried: Vec<Slot> = ahead.filter_map(|seq| tried(records, seq)).collect();
        self.try_again(&tried, number);
    }

    /// The same of what a member is owed that has come.
    #[cold]
    pub(crate) fn try_owed_again(&mut self, number: u64, member: HomeRef) {
        let Some(shared) = self.state.groups.get(number) else {
            return;
        };
        let SharedGroup { group, stream, .. } = &**shared;
        let owed = group.owed_to(member);
        let assigned = owed.filter(|(_, owed)| owed.stage == Stage::Assigned);
        let slots = assigned.filter_map(|(seq, _)| Some(stream.get(seq.0)?.slot));
        let tried: Vec<Slot> = slots.collect();
        self.try_again(&tried, number);
    }

    pub(super) fn check_recalls_of_groups(&self) {
        let mut fronts = 0;
        let unasked = self.is_planted(PlantedPartition::ReturnedUnasked);
        let doomed = &self.lead.streams.doomed;
        let is_asked = |number, (seq, slot): (Seq, Slot)| {
            let records = &self.state.records;
            assert!(
                records.is_waited_for(slot, number),
                "a group that waits for a record is told when it comes"
            );
            // What is to end goes as soon as that is committed, and the group is looked at then: it is not read for that.
            let is_doomed = doomed.contains(&(number, seq.0));
            let is_thirsty = self.recalls.is_thirsty.contains(&number);
            assert!(
                unasked || is_doomed || is_thirsty || !records.is_unasked(slot),
                "what a group waits for is asked for"
            );
        };
        for (number, shared) in self.state.groups.iter() {
            let SharedGroup {
                group,
                stream,
                lead,
                ..
            } = &**shared;
            fronts += lead.fronts.len();
            let Some(dispatch) = &lead.dispatch else {
                continue;
            };
            let records = &self.state.records;
            for owing in lead.owing.values() {
                let first = owing.iter().next();
                let first = first.and_then(|seq| Some((seq, stream.get(seq.0)?.slot)));
                let first = first.expect("who is owed nothing has all");
                assert!(
                    records.is_cold(first.1),
                    "what is owed and in memory leaves"
                );
                is_asked(number, first);
            }
            let mut unlost = lead.unlost;
            let messages = (group, stream, records);
            let end = Seq(end_of_group(number, messages, &mut unlost, doomed));
            let is_later = self.lead.streams.later.contains(&number);
            if !dispatch.has_room() || group.is_mute() || is_later {
                continue;
            }
            if let Some((next, _)) = next_cold(dispatch, end, (stream, records)) {
                is_asked(number, next);
            }
        }
        assert_eq!(
            fronts, self.lead.sharing.fronts,
            "connections of members are counted"
        );
    }
}

/// The stream of a group and its leader's part, and where the stream ends for now: see [`end_of_group`].
fn until_lost<'a>(
    number: u64,
    shared: &'a mut SharedGroup,
    records: &Records,
    doomed: &hashbrown::HashSet<(u64, u64), foldhash::fast::RandomState>,
) -> (&'a Stream, &'a GroupLead, Seq) {
    let SharedGroup {
        group,
        stream,
        lead,
        ..
    } = shared;
    let messages = (&*group, &*stream, records);
    let end = end_of_group(number, messages, &mut lead.unlost, doomed);
    (stream, lead, Seq(end))
}

/// What a group needs next, with its record, if that is not in memory.
fn next_cold(
    dispatch: &Dispatch,
    end: Seq,
    (stream, records): (&Stream, &Records),
) -> Option<((Seq, Slot), Up)> {
    let (seq, up) = dispatch.next_up(end, |seq| stream.next_live(seq))?;
    let slot = stream.get(seq.0)?.slot;
    records.is_cold(slot).then_some(((seq, slot), up))
}
