//! What the oracle lets pass, and how often: a test that is there for one of these sees that it was needed.

use std::cell::Cell;

/// Why something is allowed that breaks a rule elsewhere. Counted where nothing else allows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excuse {
    /// It was sent again at QoS 1, so that a copy of it may be stored behind what was sent later.
    SentAgain,
    /// An outbox outlives its session, and keeps no order with what the next one publishes (M19).
    OutlivesSession,
    /// It was refused for want of room, and came again behind what was sent later (M47).
    RefusedBefore,
    /// Its publisher has forgotten it before it was answered, and nobody waits for it any more (M28).
    Forgotten,
    /// Nobody says when a message of QoS 0 has come.
    Unheard,
    /// What came live may be kept nowhere, since it was not answered (M10).
    KeptNowhere,
    /// What one partition refuses for want of room another one may keep (M10, M14).
    KeptElsewhere,
    /// A client has forgotten its half of an exchange, and takes the repeat for something new.
    ExchangeForgotten,
    /// A good-bye that nobody has heard: to the log the connection was lost (M26).
    GoodByeLost,
    /// The first copy of a message was too old or had no room: the repeat is the first that can come.
    DroppedBefore,
}

impl Excuse {
    const COUNT: usize = Self::DroppedBefore as usize + 1;
}

/// How often each one was needed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Uses([Cell<u64>; Excuse::COUNT]);

impl Uses {
    pub(super) fn count(&self, excuse: Excuse) {
        let uses = &self.0[excuse as usize];
        uses.set(uses.get() + 1);
    }

    pub(crate) fn of(&self, excuse: Excuse) -> u64 {
        self.0[excuse as usize].get()
    }
}
