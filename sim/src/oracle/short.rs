//! Times in which the disk, or a partition that is set aside, takes nothing new: what may be refused, and what is not written yet.

use super::wills::UNSETTLED_MS;
use super::{Msg, Oracle};

/// A message is where it is refused or stored so many milliseconds after it was sent, if it ever is.
pub(super) const ARRIVAL_MS: u64 = 2_000;

impl Oracle {
    /// What came to a home within so many milliseconds may not be in its log yet: all that has come since the log had no room for anything,
    /// and for a moment after that, in which it takes what had gathered (M9: what is not committed was never applied).
    pub(super) fn unwritten_ms(&self, now: u64) -> u64 {
        let stood = self
            .stood
            .filter(|(_, to)| to.is_none_or(|to| now <= to + UNSETTLED_MS));
        stood.map_or(0, |(from, _)| now - from) + UNSETTLED_MS
    }

    /// The log has no room for anything, or takes something again. True if it was otherwise before.
    pub(crate) fn log_stands(&mut self, stands: bool, now: u64) -> bool {
        let open = self.stood.as_mut().filter(|(_, end)| end.is_none());
        match (stands, open) {
            (true, None) => self.stood = Some((now, None)),
            (false, Some((_, end))) => *end = Some(now),
            (true, Some(_)) | (false, None) => return false,
        }
        true
    }

    /// What is new is refused, since the disk has only its reserve or a partition is set aside; or it is taken again.
    pub(crate) fn disk_short(&mut self, short: bool, now: u64) {
        note_time(&mut self.short, short, now);
    }

    /// The operator has released the filters of a partition that is set aside, or it serves again.
    pub(crate) fn released(&mut self, released: bool, now: u64) {
        note_time(&mut self.released, released, now);
    }

    /// Whether what matches a group may not have been stored for it, although it was acknowledged (M39).
    pub(super) fn comes_while_released(&self, msg: &Msg) -> bool {
        let last = msg.acked.unwrap_or(u64::MAX) + ARRIVAL_MS;
        self.released
            .iter()
            .any(|(from, to)| *from <= last && to.is_none_or(|to| msg.first_sent <= to))
    }

    /// Whether something was refused since a partition was set aside, or the disk had no room.
    pub(crate) fn may_be_unavailable(&self, now: u64) -> bool {
        let last = self.short.last();
        last.is_some_and(|(_, to)| to.is_none_or(|to| now <= to + ARRIVAL_MS))
    }

    /// Whether a message may have been refused for want of room, without its publisher having heard so: then what it sent
    /// later, when there was room again, comes before the copy that it sends after its next connect.
    pub(crate) fn may_have_been_refused(&self, msg: &Msg) -> bool {
        msg.resent && self.comes_while_short(msg)
    }

    /// Whether the disk may have had only its reserve when a message came to where it is stored.
    pub(super) fn comes_while_short(&self, msg: &Msg) -> bool {
        if self.refuses {
            return true;
        }
        self.comes_while_all_refuse(msg)
    }

    /// The same of all partitions at once, since the disk is one.
    pub(super) fn comes_while_all_refuse(&self, msg: &Msg) -> bool {
        let arrival = msg.first_sent..=msg.first_sent + ARRIVAL_MS;
        let overlaps = |(from, to): &(u64, Option<u64>)| {
            *from <= *arrival.end() && to.is_none_or(|to| *arrival.start() <= to)
        };
        self.short.iter().any(overlaps)
    }

    /// Whether the disk may have come to its reserve, or to more than that, while a message was on its way to where it is stored.
    pub(super) fn comes_when_room_changes(&self, msg: &Msg) -> bool {
        let arrival = msg.first_sent..=msg.first_sent + ARRIVAL_MS;
        let mut changes = self.short.iter();
        self.refuses
            || changes.any(|(from, to)| {
                arrival.contains(from) || to.is_some_and(|to| arrival.contains(&to))
            })
    }
}

/// A time of some kind begins, or is over.
fn note_time(times: &mut Vec<(u64, Option<u64>)>, begins: bool, now: u64) {
    let open = times.last_mut().filter(|(_, end)| end.is_none());
    match (begins, open) {
        (true, None) => times.push((now, None)),
        (false, Some((_, end))) => *end = Some(now),
        (true, Some(_)) | (false, None) => {}
    }
}
