//! Messages that are for one member, since they were too large for others.

use courser_contract::Seq;

use super::Dispatch;
use crate::group::seats::SeatId;

impl Dispatch {
    /// A message is too large for a member: it is for another one that has not said so yet, if there is one.
    pub(super) fn set_aside_for_another(&mut self, seq: Seq, seat: SeatId) -> bool {
        let known = self.too_large.entry(seq).or_default();
        known.insert(self.seats.get(seat).home);
        let Some(other) = self.seats.connected_but(known) else {
            return false;
        };
        self.seats.get_mut(other).aside.insert(seq);
        self.aside += 1;
        true
    }

    /// What was set aside for a member is for anyone again.
    pub(super) fn free_aside(&mut self, seat: SeatId) {
        let mut aside = std::mem::take(&mut self.seats.get_mut(seat).aside);
        self.aside -= aside.len();
        self.returned.append(&mut aside);
    }
}
