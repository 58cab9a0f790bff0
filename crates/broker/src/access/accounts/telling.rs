//! What is said of those who are refused.

use std::time::Instant;

use courser_access::UserName;
use courser_contract::{FrontId, WhyRefused};
use courser_mqtt::codec::ReasonCode;
use courser_mqtt::front::AuthStep;

use super::Accounts;
use crate::access::denials::Denial;
use crate::access::refusals::{Refused, RefusedLogin, Shown};
use crate::peer::Peer;

impl Accounts {
    /// Counts what a step ends, and says who is refused.
    pub(super) fn note(&self, front: FrontId, step: &AuthStep) {
        match step {
            AuthStep::Accepted(_) => self.inner.borrow_mut().counted.accepted += 1,
            AuthStep::Refused(code, why) => {
                self.inner.borrow_mut().counted.refused += 1;
                self.with_refusal(front, (*code, *why), |refused| refused.tell());
            }
            AuthStep::Continue(_) | AuthStep::Pending => {}
        }
    }

    /// What is to be written of a connection that is refused, if anything is.
    pub(super) fn with_refusal<T>(
        &self,
        front: FrontId,
        (code, why): (ReasonCode, WhyRefused),
        tell: impl FnOnce(&RefusedLogin<'_>) -> T,
    ) -> Option<T> {
        let inner = self.inner.borrow();
        let arrival = inner.arrivals.get(&front)?;
        let table = self.logins.access.table();
        let named = arrival.user.as_ref().map(UserName::as_str);
        let known = named.filter(|name| table.user(name).is_some());
        let certificate = arrival.peer.identity.as_deref();
        let refused = Refused {
            client_id: &arrival.client_id,
            user: known.or(certificate),
            shown: arrival.shown,
            code,
            why,
        };
        let line = self
            .logins
            .refusals
            .line(&refused, &arrival.peer, Instant::now())?;
        Some(tell(&line))
    }

    /// Says that a user who has logged in got no session for what it asked for.
    pub(crate) fn tell_kept_out(
        &self,
        (client_id, user): (&str, &str),
        (code, why): (ReasonCode, WhyRefused),
        peer: &Peer,
    ) {
        let refused = Refused {
            client_id,
            user: Some(user),
            shown: Shown::Proof,
            code,
            why,
        };
        let line = self.logins.refusals.line(&refused, peer, Instant::now());
        if let Some(line) = line {
            line.tell();
        }
    }

    /// Says that a client asked for what it has no right to, unless that was said often enough of late; whether it did.
    pub(crate) fn tell_denied(&self, front: FrontId, denial: &Denial<'_>) -> bool {
        let inner = self.inner.borrow();
        let peer = inner.arrivals.get(&front).map(|arrival| &arrival.peer);
        self.logins.denials.tell(denial, peer)
    }

    /// Counts a denial that is not to be said.
    pub(crate) fn leave_out_denial(&self) {
        self.logins.denials.leave_out();
    }
}
