//! Why a socket is not read for now, and what is read again once its reason is gone.

use courser_contract::FrontId;
use courser_mqtt::front::Reading;

use super::Shard;
use super::connection::{Connection, Hold};
use super::fronts::Access;
use crate::memory::Level;

/// Bytes of SUBSCRIBE and UNSUBSCRIBE packets without an answer from which on a connection is not read while memory is not free.
const MUCH_ASKED_BYTES: usize = 4 * 1024;

impl Shard {
    /// Why this socket must not be read now.
    pub(super) fn hold(&self, connection: &mut Connection) -> Hold {
        if connection.hold == Hold::Quota {
            Hold::Quota
        } else if !connection.front.wants_read() {
            Hold::Front
        } else if connection.front.output().len() > self.tuning.output_bytes_max() {
            Hold::Output
        } else if connection.hold == Hold::Link && !self.hub.links.may_read_again(self.hub.now.tick)
        {
            Hold::Link
        } else if connection.hold == Hold::Pace {
            Hold::Pace
        } else if self.hub.owes(connection) {
            Hold::Quota
        } else {
            Hold::None
        }
    }

    /// Whether it has asked its home for much that is not answered while memory is not free: answers come first.
    #[inline]
    pub(super) fn asks_too_much(&self, connection: &Connection) -> bool {
        self.hub.memory >= Level::Tight && connection.front.request_bytes() >= MUCH_ASKED_BYTES
    }

    /// What a front has published may be more than a link or a session takes: then it is not read for a while.
    pub(super) fn hold_publisher(&mut self, id: FrontId, connection: &mut Connection) {
        let overfull = std::mem::take(&mut self.hub.links.overfull);
        let slow = std::mem::take(&mut self.hub.slow);
        if overfull {
            connection.hold = Hold::Link;
            self.hub.links.waiting.push(id.slot);
        } else if slow && connection.hold != Hold::Pace {
            connection.hold = Hold::Pace;
            self.hub.counters.publishers_slowed += 1;
            self.pause(id);
        } else {
            return;
        }
        connection
            .front
            .handle_reading(self.hub.now, Reading::Paused);
    }

    /// Who has published more than its user may is not read until it has paid for it.
    pub(super) fn hold_over_quota(&mut self, id: FrontId, connection: &mut Connection) {
        // What else it would be held for is found again after its next read.
        self.hub.links.overfull = false;
        self.hub.slow = false;
        self.hub.counters.publishers_over_quota += 1;
        connection.hold = Hold::Quota;
        self.pause(id);
        connection
            .front
            .handle_reading(self.hub.now, Reading::Paused);
    }

    /// Lets the connections read again that waited for room on a link.
    pub(crate) fn resume_links(&mut self) {
        if self.hub.links.waiting.is_empty() || !self.hub.links.may_read_again(self.hub.now.tick) {
            return;
        }
        let waiting = std::mem::take(&mut self.hub.links.waiting);
        for slot in waiting {
            let Some(id) = self.fronts.id(slot) else {
                continue;
            };
            let now = self.hub.now;
            if let Access::Here(connection) = self.fronts.get(id)
                && connection.resume(now, Hold::Link)
            {
                self.queue(slot);
            }
        }
    }
}
