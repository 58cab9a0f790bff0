//! All timers of a front, found from stored moments when asked: nothing is armed per packet.

use courser_contract::{CloseCause, DetachCause, FrontEffects, Now, Tick};

use super::close::End;
use super::{Front, Phase, Reading};
use crate::codec::ReasonCode;

impl Front {
    /// When `handle_timeout` has something to do. Cheap: the shell asks after each turn in which it touched the front.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Tick> {
        match &self.phase {
            Phase::AwaitConnect => Some(self.connect_deadline()),
            Phase::Connecting(connecting) => connecting.deadline(),
            Phase::Attached => [
                self.keep_alive_deadline(),
                self.publish_deadline(),
                self.held_deadline(),
                self.room_deadline(),
                self.request_deadline(),
            ]
            .into_iter()
            .flatten()
            .min(),
            Phase::Closed => None,
        }
    }

    fn connect_deadline(&self) -> Tick {
        self.heard
            .after_ms(u64::from(self.config.connect_timeout_ms))
    }

    /// One and a half times the keep-alive: v3 [MQTT-3.1.2-24], v5 [MQTT-3.1.2-22].
    fn keep_alive_deadline(&self) -> Option<Tick> {
        let ms = u64::from(self.peer.keep_alive_seconds) * 1500;
        (ms > 0 && self.reading == Reading::On).then(|| self.heard.after_ms(ms))
    }

    /// The moment of `poll_timeout` has come. Called early or late, it does what is due.
    pub fn handle_timeout(&mut self, now: Now, fx: &mut impl FrontEffects) {
        match &self.phase {
            Phase::AwaitConnect if self.connect_deadline() <= now.tick => {
                self.close_unattached(CloseCause::ConnectTimeout, fx);
            }
            Phase::Connecting(connecting)
                if connecting.deadline().is_some_and(|at| at <= now.tick) =>
            {
                self.handle_connecting_timeout(fx);
            }
            Phase::Attached => self.handle_attached_timeout(now, fx),
            Phase::AwaitConnect | Phase::Connecting(_) | Phase::Closed => {}
        }
    }

    fn handle_attached_timeout(&mut self, now: Now, fx: &mut impl FrontEffects) {
        self.return_held(now, fx);
        self.shrink();
        if self.has_been_silent(now.tick) {
            // What the client has sent meanwhile may lie behind what waits.
            if self.waits() {
                self.heard = now.tick;
            } else {
                let end = End::new(DetachCause::Lost, CloseCause::KeepAlive);
                return self.disconnect((ReasonCode::KeepAliveTimeout, ""), end, fx);
            }
        }
        self.handle_request_timeout(now, fx);
        self.handle_publish_timeout(now, fx);
    }

    /// Whether nothing has come for one and a half times the keep-alive: whoever reads for it should look once more before [`Self::handle_timeout`]
    /// closes it, since what came while the process stood still came in time.
    #[must_use]
    pub fn has_been_silent(&self, now: Tick) -> bool {
        let is_attached = matches!(self.phase, Phase::Attached);
        is_attached && self.keep_alive_deadline().is_some_and(|at| at <= now)
    }

    fn waits(&self) -> bool {
        let by_ticket = self.inbound.as_ref().is_some_and(|it| it.is_blocked());
        by_ticket || self.requests.as_ref().is_some_and(|it| it.is_blocked())
    }

    /// Since when it is read and nothing has come that counts as life: neither a whole packet nor 1,000 bytes more of one. None: it is not
    /// read, or what it has sent waits for others.
    #[must_use]
    pub fn silent_since(&self) -> Option<Tick> {
        (self.reading == Reading::On && !self.waits()).then_some(self.heard)
    }

    /// When what waits for requests, or is left of them, has waited long enough.
    fn request_deadline(&self) -> Option<Tick> {
        self.requests.as_ref()?.deadline()
    }

    /// Nothing is read after this: publishes that wait for requests, or would, wait no longer, and what is left of a request is void.
    pub fn handle_last_read(&mut self) {
        if let Some(requests) = &mut self.requests {
            requests.handle_last_read();
        }
        self.requests.take_if(|requests| requests.are_none());
    }

    /// The shell stops or resumes reading for reasons of its own (M49).
    pub fn handle_reading(&mut self, now: Now, reading: Reading) {
        if self.reading == Reading::Paused && reading == Reading::On {
            self.heard = now.tick;
        }
        self.reading = reading;
    }

    /// Timers fire seldom, and late enough that what is idle now is idle for long: its memory goes back.
    fn shrink(&mut self) {
        self.inbound.take_if(|inbound| inbound.is_idle());
        self.outbound.take_if(|outbound| outbound.is_idle());
    }
}
