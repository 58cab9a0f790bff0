//! The end of a broker, shard by shard.
//!
//! 1. Nobody is accepted any more. Fronts whose client has a will are told first (v5: DISCONNECT 0x8B) and detach, so that the
//!    others still get those wills (M26).
//! 2. All other fronts are told.
//! 3. Partitions with a log are saved, so that the next start has little to apply.
//! 4. All end.
//!
//! A step is over when nothing is under way: all shards are **quiet** twice in a row without having done anything in between.
//! A shard is quiet when it has nothing to do and its peers have handled all that it sent, in the second step also when it
//! has no connection left, in the third when nothing is left that is worth saving. Each step has a time limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use courser_contract::ShardId;

use super::Shard;
use super::connection::Connection;
use super::fronts::Access;
use crate::store::Store;

/// How far a broker's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// It serves.
    Serving = 0,
    /// Connections with a will are being closed.
    Wills = 1,
    /// All connections are being closed.
    Closing = 2,
    /// Partitions are being saved.
    Saving = 3,
    /// Threads end.
    Ending = 4,
}

/// Which partitions are saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saves {
    /// Those that are due.
    Due,
    /// None; what was begun rests, so that the steps of a stop are not held up.
    Nothing,
    /// All that would cost the next start something.
    All,
}

/// What the thread that stops a broker and its shards tell each other.
#[derive(Debug)]
pub(crate) struct StopSignal {
    phase: AtomicU8,
    /// For each shard 0 while it is busy, else how many turns it has made that did something.
    quiet: Vec<AtomicU64>,
}

impl StopSignal {
    /// For this many shards, serving.
    #[must_use]
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            phase: AtomicU8::new(Phase::Serving as u8),
            quiet: (0..shards).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Moves on; the shards must be woken after it.
    pub(crate) fn set_phase(&self, phase: Phase) {
        for quiet in &self.quiet {
            quiet.store(0, Ordering::SeqCst);
        }
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Whether the broker is being stopped.
    pub(crate) fn has_begun(&self) -> bool {
        self.phase() != Phase::Serving
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Serving,
            1 => Phase::Wills,
            2 => Phase::Closing,
            3 => Phase::Saving,
            _ => Phase::Ending,
        }
    }

    /// How active each shard has been, if all are quiet.
    #[must_use]
    pub(crate) fn all_quiet(&self) -> Option<Vec<u64>> {
        let marks: Vec<u64> = self
            .quiet
            .iter()
            .map(|quiet| quiet.load(Ordering::SeqCst))
            .collect();
        marks.iter().all(|&mark| mark > 0).then_some(marks)
    }
}

/// A shard's part of it.
pub(crate) struct Stopping {
    signal: Arc<StopSignal>,
    me: usize,
    seen: Phase,
    /// Turns since the stop began in which the shard was busy, plus one.
    activity: u64,
}

impl Stopping {
    /// Of shard `me`.
    pub(crate) const fn new(signal: Arc<StopSignal>, me: ShardId) -> Self {
        Self {
            signal,
            me: me.0 as usize,
            seen: Phase::Serving,
            activity: 1,
        }
    }

    /// Whether a phase has begun that the shard has not acted on.
    pub(crate) fn is_new(&self) -> bool {
        self.signal.phase() != self.seen
    }
}

impl Shard {
    /// Acts on a phase that has begun.
    pub(crate) fn observe_stop(&mut self) {
        let phase = self.stop.signal.phase();
        if phase == self.stop.seen {
            return;
        }
        self.accepting.close();
        self.partitions.touch_all();
        match phase {
            Phase::Serving => {}
            Phase::Wills => self.stop_fronts(|connection| connection.has_will),
            Phase::Closing | Phase::Saving | Phase::Ending => self.stop_fronts(|_| true),
        }
        self.stop.seen = phase;
    }

    fn stop_fronts(&mut self, which: impl Fn(&Connection) -> bool) {
        for id in self.fronts.ids() {
            if let Access::Here(connection) = self.fronts.get(id)
                && which(connection)
            {
                self.with_front(id, |front, now, fx| front.handle_stop(now, fx));
            }
        }
    }

    /// Whether connections are being closed.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.seen != Phase::Serving
    }

    /// What checkpoints do now.
    pub(crate) const fn saving(&self) -> Saves {
        match self.stop.seen {
            Phase::Serving => Saves::Due,
            Phase::Wills | Phase::Closing | Phase::Ending => Saves::Nothing,
            Phase::Saving => Saves::All,
        }
    }

    /// Says whether this shard is quiet; true when it shall end.
    pub(crate) fn has_stopped(&mut self) -> bool {
        match self.stop.seen {
            Phase::Serving => false,
            Phase::Ending => true,
            Phase::Wills | Phase::Closing | Phase::Saving => {
                let quiet = self.is_quiet();
                if !quiet {
                    self.stop.activity += 1;
                }
                let mark = if quiet { self.stop.activity } else { 0 };
                self.stop.signal.quiet[self.stop.me].store(mark, Ordering::SeqCst);
                false
            }
        }
    }

    fn is_quiet(&self) -> bool {
        let links = self.hub.links.ports.to.iter().flatten();
        let waits_for_fronts = self.stop.seen == Phase::Closing && !self.fronts.is_empty();
        !waits_for_fronts
            && !self.has_work()
            && self.store.is_quiet()
            && self.hub.books.last_words.is_empty()
            && !self.is_saving_last()
            && !self.hub.links.ports.has_work()
            && links
                .into_iter()
                .all(|sender| sender.has_passed(sender.mark()))
    }
}
