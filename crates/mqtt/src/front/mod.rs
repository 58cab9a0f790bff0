//! The half of a session at the socket: a state machine without I/O, one for both protocol versions.
//!
//! Bytes, messages of homes and moments come in by `handle_*` and [`Front::deliver`]; effects leave by
//! [`FrontEffects`]; bytes for the socket gather in [`Front::output`].
//!
//! The shell's duties:
//! - it calls [`Front::handle_bytes`] while [`Front::wants_read`], gives the same unconsumed bytes again in front of new ones, and
//!   [`Front::handle_read_end`] after each read; when a message or a settled ticket makes `wants_read` true again, it gives the bytes
//!   that waited;
//! - after each turn it looks at [`Front::poll_timeout`] of the fronts that it touched and arms a timer when that is earlier than the
//!   armed one; a timer that fires early costs nothing but the call;
//! - after a write that leaves less than [`Output::LOW_BYTES`], it calls [`Front::handle_output_room`];
//! - it keeps a front, also one whose socket is gone, until the front calls [`FrontEffects::close`];
//! - effects may be called within `deliver`, which a partition may call: messages to partitions are queued, not handled in the call.
//! - it fills `open` of [`ToHome::Detach`] and [`ToHome::Unclaim`], which the front leaves empty: the shell numbers appends.

mod auth;
mod config;
mod output;
mod prepared;

use std::rc::Rc;

use courser_contract::{DeliverTo, FrontEffects, FrontId, Now, Settled, Tick, Ticket, ToFront};

pub use auth::{Anonymous, AuthExchange, AuthStep, Authentication, Login, Password};
pub use config::{Feature, FrontConfig, Redirect, RedirectKind};
pub use output::{Output, OutputPool};
pub use prepared::{Prepared, PreparedScratch};

/// Whether the shell reads the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It reads.
    On,
    /// It does not, for want of credit or memory: the keep-alive stands still (M49).
    Paused,
}

/// The front of one connection. See the module's text.
#[derive(Debug)]
pub struct Front {
    id: FrontId,
    config: Rc<FrontConfig>,
    output: Output,
}

#[allow(unused_variables, missing_docs)]
impl Front {
    /// A front for a socket that was just accepted.
    #[must_use]
    pub fn new(id: FrontId, config: Rc<FrontConfig>, now: Now) -> Self {
        let output = Output::new(config.output_pool.clone());
        Self { id, config, output }
    }

    /// Handles all whole packets in `data` and says how many bytes they took. It stops early when the connection is closed or when
    /// later packets must wait ([`Front::wants_read`] is false then).
    pub fn handle_bytes(&mut self, now: Now, data: &[u8], fx: &mut impl FrontEffects) -> usize {
        data.len()
    }

    /// After the last `handle_bytes` of a read: coalesced outcomes leave.
    pub fn handle_read_end(&mut self, now: Now, fx: &mut impl FrontEffects) {}

    /// A message of a partition.
    pub fn handle_message(&mut self, now: Now, message: ToFront, fx: &mut impl FrontEffects) {}

    /// All destinations of a waiting publish have answered; `result` is the worst answer.
    pub fn handle_settled(
        &mut self,
        now: Now,
        ticket: Ticket,
        result: Settled,
        fx: &mut impl FrontEffects,
    ) {
    }

    /// The answer to [`AuthStep::Pending`].
    pub fn handle_authenticated(&mut self, now: Now, step: AuthStep, fx: &mut impl FrontEffects) {}

    /// A delivery for this front.
    pub fn deliver(
        &mut self,
        now: Now,
        prepared: &mut Prepared<'_>,
        to: &DeliverTo,
        fx: &mut impl FrontEffects,
    ) {
    }

    /// The output went below its low mark: what was held is sent. Costs a comparison when nothing is held.
    pub fn handle_output_room(&mut self, now: Now, fx: &mut impl FrontEffects) {}

    /// The shell stops or resumes reading for reasons of its own (M49).
    pub fn handle_reading(&mut self, now: Now, reading: Reading) {}

    /// The moment of `poll_timeout` has come. Called early or late, it does what is due.
    pub fn handle_timeout(&mut self, now: Now, fx: &mut impl FrontEffects) {}

    /// When `handle_timeout` has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        None
    }

    /// The socket is gone.
    pub fn handle_lost(&mut self, now: Now, fx: &mut impl FrontEffects) {}

    /// The server stops.
    pub fn handle_stop(&mut self, now: Now, fx: &mut impl FrontEffects) {}

    /// The client is sent to another server.
    pub fn handle_redirect(
        &mut self,
        now: Now,
        redirect: &Redirect,
        fx: &mut impl FrontEffects,
    ) {
    }

    /// Whether bytes may be given to `handle_bytes`.
    #[must_use]
    pub fn wants_read(&self) -> bool {
        true
    }

    /// Bytes for the socket.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }
}
