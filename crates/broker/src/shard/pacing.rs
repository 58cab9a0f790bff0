//! Publishers that are faster than a session which gets their messages (M12).
//!
//! A session that is connected and takes messages, but slower than they come, would fill up and then drop by its policy although
//! everybody is well. So its partition says [`Pace::Slow`](courser_engine::Pace) once half of its room is used, and the socket
//! of the publisher is not read for [`PAUSE_MS`]: its acknowledgements stay what they are, its keep-alive stops meanwhile, and what
//! it has sent waits in the kernel, which slows it down. Then it is read once, and so on until the session is less than half full.
//!
//! A client that has published more than its user may ([`courser_access::Quota`]) is not read in the same way, until it has paid for it; what
//! was read of it and is behind its last message waits with its connection.
//!
//! A publisher loses little by it: it still gets a read of 64 KiB, or a window of messages, in each pause. A session that has stopped
//! taking messages, or is full, slows nobody.

use std::collections::VecDeque;

use courser_contract::{FrontId, Tick};
use courser_mqtt::front::Reading;

use super::Shard;
use super::connection::{Connection, Hold};
use super::fronts::Access;
use super::hub::Hub;
use super::timers::Timer;
use crate::access::Name;

/// How long a publisher is not read, in milliseconds. A window of 20 messages makes 1,000 messages a second of it.
const PAUSE_MS: u64 = 20;

/// Connections that are not read for a moment, in the order of their resuming.
#[derive(Debug, Default)]
pub(crate) struct Pacing {
    paused: VecDeque<(Tick, FrontId)>,
    armed: bool,
}

impl Pacing {
    /// The next one whose pause is over.
    fn next(&mut self, now: Tick) -> Option<FrontId> {
        self.paused
            .pop_front_if(|(end, _)| *end <= now)
            .map(|(_, front)| front)
    }
}

impl Hub {
    /// Whether a client has published more than it may by now, on this connection or on others.
    #[inline]
    pub(super) fn owes(&self, connection: &mut Connection) -> bool {
        // Nobody publishes without a session.
        connection.gate.is_limited()
            && connection.front.home().is_some()
            && self.owes_by_name(connection)
    }

    #[inline(never)]
    fn owes_by_name(&self, connection: &mut Connection) -> bool {
        let name = Name::of(connection.front.client_id(), connection.peer.address);
        let quotas = self.access.process.quotas();
        connection.gate.owes(self.now.tick, quotas, name)
    }
}

impl Shard {
    /// Something that a front of this shard published went to a session that is slower than it. Whatever else it is held for ends
    /// sooner or later, and is looked at again after the pause.
    pub(crate) fn slow_down(&mut self, id: FrontId) {
        if let Access::Here(connection) = self.fronts.get(id)
            && !matches!(connection.hold, Hold::Pace | Hold::Quota)
        {
            connection.hold = Hold::Pace;
            connection
                .front
                .handle_reading(self.hub.now, Reading::Paused);
            self.hub.counters.publishers_slowed += 1;
            self.pause(id);
        }
    }

    /// Notes a connection that is held from now on.
    pub(super) fn pause(&mut self, id: FrontId) {
        let end = self.hub.now.tick.after_ms(PAUSE_MS);
        self.pacing.paused.push_back((end, id));
        self.arm_pacing();
    }

    /// Reads those again whose pause is over, if there is room on the links.
    pub(super) fn resume_paced(&mut self) {
        self.pacing.armed = false;
        let now = self.hub.now;
        let room = self.hub.links.may_read_again(self.hub.now.tick);
        while let Some(id) = self.pacing.next(now.tick) {
            let Access::Here(connection) = self.fronts.get(id) else {
                continue;
            };
            let owes = connection.hold == Hold::Quota && self.hub.owes(connection);
            let over = match connection.hold {
                Hold::Quota if owes => {
                    let end = now.tick.after_ms(PAUSE_MS);
                    self.pacing.paused.push_back((end, id));
                    continue;
                }
                Hold::Quota => Hold::Quota,
                Hold::None | Hold::Front | Hold::Output | Hold::Link | Hold::Pace => Hold::Pace,
            };
            if !room {
                connection.hold = Hold::Link;
                self.hub.links.waiting.push(id.slot);
            } else if connection.resume(now, over) {
                self.queue(id.slot);
            }
        }
        self.arm_pacing();
    }

    fn arm_pacing(&mut self) {
        if let Some((end, _)) = self.pacing.paused.front()
            && !self.pacing.armed
        {
            self.pacing.armed = true;
            self.timers.insert(*end, Timer::PACE);
        }
    }
}
