//! What a group gives out next, for who reads records back before they are needed.

use courser_contract::Seq;

use super::Dispatch;
use crate::group::seats::SeatId;

/// Where a message waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Up {
    /// Set aside for a member, which has room now.
    Aside(SeatId),
    /// It goes out again, before all that is new.
    Returned,
    /// Nobody has looked at it.
    New,
}

impl Dispatch {
    /// What was taken out waits where it did: it comes next again.
    pub(super) fn put_back(&mut self, seq: Seq, up: Up) {
        match up {
            Up::Aside(seat) => {
                self.seats.get_mut(seat).aside.insert(seq);
                self.aside += 1;
            }
            Up::Returned => drop(self.returned.insert(seq)),
            Up::New => self.cursor = seq,
        }
    }

    /// What is given out next once a member has room; `next_live` is the first message of the stream at or behind a position.
    pub(crate) fn next_up(
        &self,
        end: Seq,
        next_live: impl Fn(u64) -> Option<u64>,
    ) -> Option<(Seq, Up)> {
        if self.aside > 0
            && let Some(seat) = self.seats.ready_with_aside()
            && let Some(&seq) = self.seats.get(seat).aside.first()
        {
            return Some((seq, Up::Aside(seat)));
        }
        if let Some(&seq) = self.returned.first() {
            return Some((seq, Up::Returned));
        }
        let mut from = self.cursor.0;
        while let Some(seq) = next_live(from)
            && seq < end.0
        {
            if !self.taken_up.contains(&Seq(seq)) {
                return Some((Seq(seq), Up::New));
            }
            from = seq + 1;
        }
        None
    }

    /// What waits where the next message does and may go out with it, in order; nothing of what is new.
    pub(crate) fn next_with(&self, up: Up) -> impl Iterator<Item = Seq> + '_ {
        let (aside, returned) = match up {
            Up::Aside(seat) => {
                let seat = self.seats.get(seat);
                let room = seat.window.saturating_sub(seat.outstanding);
                (Some(seat.aside.iter().take(room as usize)), None)
            }
            Up::Returned | Up::New => (None, Some(self.returned.iter())),
        };
        let aside = aside.into_iter().flatten();
        aside.chain(returned.into_iter().flatten()).copied()
    }

    /// Where what is new begins.
    pub(crate) const fn cursor(&self) -> Seq {
        self.cursor
    }

    /// Whether a message at or behind the cursor is not new: a session has it.
    pub(crate) fn is_taken_up(&self, seq: Seq) -> bool {
        !self.taken_up.is_empty() && self.taken_up.contains(&seq)
    }

    /// Whether a member has room.
    pub(crate) fn has_room(&self) -> bool {
        self.seats.has_room()
    }

    /// Windows of all connections together.
    pub(crate) const fn windows(&self) -> u64 {
        self.seats.windows()
    }
}
