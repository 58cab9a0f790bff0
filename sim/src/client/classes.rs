//! Sessions of weaker classes: what a client believes once a process has ended (M1).

use super::{Client, Ctx, Lost};
use crate::oracle::Oracle;

impl Client {
    /// Its client id.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The process with its volatile session is gone.
    pub(crate) fn loses_all(&mut self, oracle: &mut Oracle) {
        self.end_lives(oracle);
        self.lost = Lost::All;
    }

    /// Power was lost, and of its relaxed session what was done since a moment.
    pub(crate) fn loses_since(&mut self, since: u64, oracle: &mut Oracle) {
        self.end_lives(oracle);
        oracle.doubt_wills(self.place);
        self.lost = match self.lost {
            Lost::Since(before) => Lost::Since(before.min(since)),
            Lost::Nothing | Lost::All => Lost::Since(since),
        };
    }

    fn end_lives(&self, oracle: &mut Oracle) {
        for life in self.life.into_iter().chain(self.belief.life) {
            oracle.end_life(life);
        }
    }

    /// Before a CONNECT: nothing of the former connections is under way any more.
    pub(super) fn accept_losses(&mut self, ctx: &mut Ctx<'_>) {
        let lost = std::mem::replace(&mut self.lost, Lost::Nothing);
        if lost == Lost::Nothing {
            return;
        }
        self.end_lives(ctx.oracle);
        self.belief.life = None;
        self.belief.surely_there = false;
        self.belief.surely_none = lost == Lost::All;
        self.belief.ends = (u64::MAX, u64::MAX);
        if let Lost::Since(since) = lost {
            ctx.note(format_args!(
                "{} may have lost what was since {since}",
                self.id
            ));
            ctx.oracle.doubt_answers(self.place, since);
            // Its half of exchanges may be newer than the broker's.
            self.open.clear();
            self.received.clear();
            self.doubts = true;
        }
    }
}
