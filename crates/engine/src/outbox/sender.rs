//! The leader's sending from one outbox.

use std::collections::{BTreeMap, BTreeSet};

use courser_contract::{Seq, SessionUid, Tick};

use super::{Forward, Outbox, Refusable};

/// Why a forward waits behind another one of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parked {
    /// It was never sent.
    Unsent,
    /// It was refused.
    Refused,
}

/// A session whose forwards wait for the answer to one of them.
#[derive(Clone, Debug)]
struct Blocked {
    by: Seq,
    /// Whether that one was refused: it is sent again, for as long as it takes.
    refused: bool,
    parked: BTreeMap<Seq, Parked>,
}

/// Leader's memory of one outbox: what was sent, what waits for which answer. A new one sends all that waits, in order: that
/// is what a new leader does, and what happens when the link to the destination has changed (M14, M19).
///
/// Forwards leave in order and without waiting for answers, but one that may be refused is the last of its session until it is
/// answered. A refused one is sent again at the moment that the caller names; meanwhile it holds back only later ones of its
/// own session. From its first refusal on, what the session had sent already goes out again one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender {
    /// Nothing from here on was looked at.
    cursor: u64,
    /// To be sent before what follows the cursor.
    ready: BTreeSet<Seq>,
    /// Refused, with the moment of the next attempt. What is settled meanwhile is passed over then.
    held: BTreeSet<(Tick, Seq)>,
    blocked: BTreeMap<SessionUid, Blocked>,
}

impl Sender {
    /// The next forward to send, with its position, after at most `looks` more of them, each of which is taken off. None until something is
    /// pushed, answered or due, or there are no looks left.
    pub(crate) fn next<'a, T>(
        &mut self,
        outbox: &'a Outbox<T>,
        looks: &mut usize,
    ) -> Option<(Seq, &'a Forward<T>)> {
        loop {
            *looks = looks.checked_sub(1)?;
            if let Some(seq) = self.ready.pop_first() {
                match outbox.get(seq) {
                    Some(forward) => return Some((seq, forward)),
                    None => continue,
                }
            }
            let (seq, forward) = outbox.next_from(Seq(self.cursor))?;
            self.cursor = seq.0 + 1;
            let Some(session) = forward.session else {
                return Some((seq, forward));
            };
            if let Some(blocked) = self.blocked.get_mut(&session) {
                blocked.parked.insert(seq, Parked::Unsent);
                continue;
            }
            if forward.refusable == Refusable::Yes {
                self.block(session, seq);
            }
            return Some((seq, forward));
        }
    }

    /// A forward is at its end: the destination took it, or it was given up. Called with the outbox in which it may or may not
    /// still be; a second time it changes nothing.
    pub(crate) fn settled<T>(&mut self, outbox: &Outbox<T>, seq: Seq, session: Option<SessionUid>) {
        let Some(session) = session else {
            return;
        };
        let Some(blocked) = self.blocked.get_mut(&session) else {
            return;
        };
        blocked.parked.remove(&seq);
        if blocked.by != seq {
            return;
        }
        while let Some((next, parked)) = blocked.parked.pop_first() {
            let Some(forward) = outbox.get(next) else {
                continue;
            };
            self.ready.insert(next);
            if parked == Parked::Refused || forward.refusable == Refusable::Yes {
                blocked.by = next;
                blocked.refused = parked == Parked::Refused;
                return;
            }
        }
        self.blocked.remove(&session);
    }

    /// The destination refused a forward that stays: it is sent again at `retry_at`. Returns the session that waits behind a refusal since
    /// now, if there is one.
    pub(crate) fn refused<T>(
        &mut self,
        outbox: &Outbox<T>,
        seq: Seq,
        retry_at: Tick,
    ) -> Option<SessionUid> {
        let forward = outbox.get(seq)?;
        let Some(session) = forward.session else {
            self.held.insert((retry_at, seq));
            return None;
        };
        let blocked = self.block(session, seq);
        if blocked.by < seq {
            blocked.parked.insert(seq, Parked::Refused);
            return None;
        }
        let is_first = !std::mem::replace(&mut blocked.refused, true);
        blocked.by = seq;
        self.held.insert((retry_at, seq));
        is_first.then_some(session)
    }

    /// Whether the forward that a session waits behind was refused.
    pub(crate) fn has_refused_of(&self, session: SessionUid) -> bool {
        let blocked = self.blocked.get(&session);
        blocked.is_some_and(|blocked| blocked.refused)
    }

    /// What waits behind another forward of its session, in order.
    pub(crate) fn parked_of(&self, session: SessionUid) -> impl Iterator<Item = Seq> {
        let blocked = self.blocked.get(&session).into_iter();
        blocked.flat_map(|blocked| blocked.parked.keys().copied())
    }

    /// Whether an answer has let something go.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a forward was refused, or waits behind one of its session that was.
    pub(crate) fn is_stuck<T>(&self, seq: Seq, forward: &Forward<T>) -> bool {
        match forward.session {
            Some(session) => self.blocked.get(&session).is_some_and(|blocked| {
                blocked.refused && (blocked.by == seq || blocked.parked.contains_key(&seq))
            }),
            None => self.held.iter().any(|&(_, held)| held == seq),
        }
    }

    /// The earliest moment at which a refused forward is sent again.
    pub(crate) fn poll_timeout(&self) -> Option<Tick> {
        self.held.first().map(|&(at, _)| at)
    }

    /// Makes refused forwards ready whose moment has come.
    pub(crate) fn handle_timeout(&mut self, now: Tick) {
        while let Some(&(at, seq)) = self.held.first()
            && at <= now
        {
            self.held.pop_first();
            self.ready.insert(seq);
        }
    }

    /// The link or the destination's leader has changed: all that waits is sent again, in order (M14).
    pub(crate) fn restart(&mut self) {
        *self = Self::default();
    }

    /// What a session waits behind: `by`, unless it waits already.
    fn block(&mut self, session: SessionUid, by: Seq) -> &mut Blocked {
        self.blocked.entry(session).or_insert_with(|| Blocked {
            by,
            refused: false,
            parked: BTreeMap::new(),
        })
    }
}
