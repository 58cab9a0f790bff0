//! Shared groups that give nothing unasked, since something of what they gave had to go back for want of room (M31).
//!
//! - A group that gets something back gives nothing before it hears of room: while a client takes nothing, nothing is said.
//! - Room that comes is shared out among these groups by turns, and no more than there is of it. A group whose place becomes free joins
//!   them: else it would take each place again before those whose turn it is.
//! - When there was room for 50 ms without a break they have had enough of it, and give as they like again. So none waits for ever, also
//!   when those that were asked first have nothing to give.

use std::collections::VecDeque;

use courser_contract::{
    FrontEffects, GroupRef, GroupRoom, Now, OutcomeKind, QoS, Source, Tick, ToHome,
};

use super::Front;
use super::deliver::{GROUP_HELD_MS, HOLD_ABOVE_BYTES};
use super::window::Place;

/// What a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// Room in the output: it has got back QoS 0 only.
    Output,
    /// Also a place in the window.
    Window,
}

/// The groups that wait for a word of room, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Limited {
    groups: VecDeque<(GroupRef, Wants)>,
    /// Places that groups were told of and have not used.
    promised: u16,
    /// Since when there has been room for groups, as far as is known.
    room_since: Option<Tick>,
}

impl Limited {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// A group has got something of this QoS back.
    fn add(&mut self, group: GroupRef, qos: QoS) {
        let wants = match qos {
            QoS::AtMostOnce => Wants::Output,
            QoS::AtLeastOnce | QoS::ExactlyOnce => Wants::Window,
        };
        match self.groups.iter_mut().find(|(of, _)| *of == group) {
            Some((_, before)) if wants == Wants::Window => *before = wants,
            Some(_) => {}
            None => self.groups.push_back((group, wants)),
        }
    }

    /// There is no room any more: what was promised beyond it is void.
    pub(super) const fn note_full(&mut self) {
        self.room_since = None;
        self.promised = 0;
    }

    /// A group has used a place.
    pub(super) const fn note_used(&mut self) {
        self.promised = self.promised.saturating_sub(1);
    }

    fn take_wanting_output(&mut self) -> Option<GroupRef> {
        let at = self
            .groups
            .iter()
            .position(|(_, wants)| *wants == Wants::Output)?;
        self.groups.remove(at).map(|(group, _)| group)
    }
}

impl Front {
    /// What a group gave goes back to it for want of room.
    pub(super) fn give_back(&mut self, place: Place, qos: QoS, fx: &mut impl FrontEffects) {
        if let (Source::Group(group), _) = place {
            self.outbound_mut().limited.add(group, qos);
        }
        self.outcome(place, OutcomeKind::Returned, fx);
    }

    /// A place in the window is about to be free. While groups wait it is for the one whose turn it is.
    #[inline]
    pub(super) fn share_place(&mut self, place: Place, fx: &mut impl FrontEffects) {
        if let (Source::Group(group), _) = place
            && let Some(outbound) = &mut self.outbound
            && !outbound.limited.is_empty()
        {
            self.queue_behind(group, fx);
        }
    }

    #[cold]
    fn queue_behind(&mut self, group: GroupRef, fx: &mut impl FrontEffects) {
        let limited = &mut self.outbound_mut().limited;
        if limited.groups.iter().all(|(of, _)| *of != group) {
            limited.groups.push_back((group, Wants::Window));
            self.tell_group_room(group, GroupRoom::Places(0), fx);
        }
    }

    /// Places for what groups may give.
    fn places_for_groups(&self) -> u16 {
        let outbound = self.outbound.as_ref();
        let outbound = outbound.filter(|it| it.groups.may_name() && it.holds_nothing());
        outbound.map_or(0, |outbound| outbound.window.places_for_groups())
    }

    /// Says to the groups that wait that there is room, if there is.
    pub(super) fn tell_room(&mut self, now: Now, fx: &mut impl FrontEffects) {
        if let Some(outbound) = &self.outbound
            && !outbound.limited.is_empty()
        {
            self.share_room(now, fx);
        }
    }

    #[cold]
    fn share_room(&mut self, now: Now, fx: &mut impl FrontEffects) {
        if self.output.len() >= HOLD_ABOVE_BYTES {
            return self.outbound_mut().limited.note_full();
        }
        while let Some(group) = self.outbound_mut().limited.take_wanting_output() {
            self.tell_group_room(group, GroupRoom::Enough, fx);
        }
        let places = self.places_for_groups();
        let limited = &mut self.outbound_mut().limited;
        if places == 0 {
            return limited.note_full();
        }
        let since = *limited.room_since.get_or_insert(now.tick);
        if since.after_ms(GROUP_HELD_MS) <= now.tick {
            for (group, _) in std::mem::take(limited).groups {
                self.tell_group_room(group, GroupRoom::Enough, fx);
            }
            return;
        }
        let mut left = places.saturating_sub(limited.promised);
        let groups = limited.groups.len();
        let share = (usize::from(left) / groups.max(1)).max(1);
        for _ in 0..groups {
            let limited = &mut self.outbound_mut().limited;
            // At most as many as are left.
            let part = share.min(usize::from(left)) as u16;
            if part == 0 {
                return;
            }
            let Some((group, wants)) = limited.groups.pop_front() else {
                return;
            };
            limited.groups.push_back((group, wants));
            limited.promised += part;
            left -= part;
            self.tell_group_room(group, GroupRoom::Places(part), fx);
        }
    }

    fn tell_group_room(&self, group: GroupRef, room: GroupRoom, fx: &mut impl FrontEffects) {
        let message = ToHome::GroupRoom {
            group: group.group,
            member: self.session.home,
            front: self.id,
            room,
        };
        fx.send_home(group.partition, message);
    }

    /// When the groups that wait are to hear that there is enough room. None while there is no room: then they hear when it comes.
    pub(super) fn room_deadline(&self) -> Option<Tick> {
        let limited = &self.outbound.as_ref()?.limited;
        if limited.is_empty() {
            return None;
        }
        match limited.room_since {
            Some(since) => Some(since.after_ms(GROUP_HELD_MS)),
            // Whatever made it said nothing: at once.
            None => (self.output.len() < HOLD_ABOVE_BYTES && self.places_for_groups() > 0)
                .then_some(self.heard),
        }
    }
}
