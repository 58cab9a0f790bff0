//! A panic in a front ends its connection, one anywhere else the shard, and with it the process (M50).
//!
//! Fronts are called under a guard: once a read, once a message, once a delivery to however many. Where a panic came from says
//! [`Inside`]: effects of fronts mark that they are the shell's work, so that a panic in a partition that a front's publish has
//! called goes on through the guard. What a front had asked for before it panicked stays done.
//!
//! A guard costs four instructions a call where nothing panics (callgrind, a call of one addition with and without it).
//!
//! A front that has panicked is told that its socket is lost, so that its session is let go; if it panics at that too, nobody knows
//! what its home still believes, and the process ends.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::Context;

use courser_contract::{CloseCause, FrontId};

use super::Shard;
use super::connection::{Connection, Life};
use super::effects_front::FrontFx;
use super::hub::Hub;
use super::turn::Next;

/// Whose code a shard runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Inside {
    /// Its own, or a partition's.
    #[default]
    Shell,
    /// A front's.
    Front,
}

impl Shard {
    /// Calls a front that was taken out. What it returns, unless it panics; and its end, if this was it.
    ///
    /// # Panics
    /// With a panic that is not the front's.
    #[inline]
    pub(super) fn call_front<R>(
        &mut self,
        id: FrontId,
        connection: &mut Connection,
        act: impl FnOnce(&mut Connection, &mut FrontFx<'_>) -> R,
    ) -> (Option<R>, Option<CloseCause>) {
        let mut fx = FrontFx::new(self, id, connection);
        fx.shard.hub.inside = Inside::Front;
        let called = catch_unwind(AssertUnwindSafe(|| act(connection, &mut fx)));
        let result = match called {
            Ok(result) => Some(result),
            Err(panic) => {
                fx.shard.hub.note_panic(panic);
                None
            }
        };
        fx.shard.hub.inside = Inside::Shell;
        let close = fx.finish(connection);
        match result {
            Some(_) => (result, close),
            None => (None, close.or_else(|| self.bury(id, connection))),
        }
    }

    /// The front of a connection has panicked: as if its socket were lost.
    #[cold]
    fn bury(&mut self, id: FrontId, connection: &mut Connection) -> Option<CloseCause> {
        tracing::error!(
            event = "front_panicked",
            client_id = connection.front.client_id(),
            listener = &*connection.peer.entrance.name,
            address = connection.peer.address.map(tracing::field::display),
            "a connection is closed: its front has panicked"
        );
        connection.life = Life::Lost;
        connection.rest = None;
        connection.unparsed = false;
        connection.front.output().clear();
        let now = self.hub.now;
        let mut fx = FrontFx::new(self, id, connection);
        let cause = CloseCause::Panicked;
        connection.front.handle_given_up(now, cause, &mut fx);
        fx.finish(connection)
    }
}

impl Shard {
    /// A turn. A panic of a partition that applies an entry is noted on its way (M50).
    pub(super) fn guarded_turn(&mut self, context: &mut Context<'_>) -> Next {
        match catch_unwind(AssertUnwindSafe(|| self.turn(context))) {
            Ok(next) => next,
            Err(panic) => {
                if let (Some((id, index)), Some(disk)) = (self.hub.applying.entry, &self.hub.disk) {
                    disk.note_crash(id, index);
                }
                resume_unwind(panic)
            }
        }
    }
}

impl Hub {
    /// Goes on with a panic that is not a front's.
    #[cold]
    pub(super) fn note_panic(&mut self, panic: Box<dyn Any + Send>) {
        match self.inside {
            Inside::Shell => resume_unwind(panic),
            Inside::Front => self.counters.fronts_panicked += 1,
        }
    }
}

impl Shard {
    /// The same for a front that has panicked within a delivery.
    #[cold]
    pub(super) fn bury_receiver(&mut self, id: FrontId) {
        let mut connection = self
            .fronts
            .take(id)
            .expect("a delivery is given to who is there");
        let close = self.bury(id, &mut connection);
        self.put_back(id, connection, close);
    }
}

#[cfg(test)]
mod tests;
