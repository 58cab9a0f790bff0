//! What doors count.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use courser_transport::TunnelError;

use super::handshake::Refused;
use crate::clock::thread_cpu_us;
use crate::lines::Lines;
use crate::peer::NotNow;

/// Counters of all doors since the start.
#[derive(Debug, Default)]
pub(crate) struct DoorCounters {
    /// Connections accepted.
    pub(super) accepted: AtomicU64,
    /// Connections that went to a shard.
    pub(super) entered: AtomicU64,
    /// Connections that were closed at once because there were as many as may be.
    pub(super) over_limit: AtomicU64,
    /// Connections that were closed at once because their address had had its number of this second.
    pub(super) too_fast: AtomicU64,
    /// Connections that were closed at once because their address waits.
    pub(super) waits: AtomicU64,
    /// Times that accepting failed.
    pub(super) accept_failures: AtomicU64,
    /// Connections that the other side closed on the way.
    pub(super) lost: AtomicU64,
    timed_out: AtomicU64,
    proxy: AtomicU64,
    tls: AtomicU64,
    web: AtomicU64,
    identity: AtomicU64,
    cpu_us: AtomicU64,
}

impl DoorCounters {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts one that comes when there are enough.
    pub(super) fn not_now(&self, why: NotNow) {
        Self::count(self.of(why));
    }

    const fn of(&self, why: NotNow) -> &AtomicU64 {
        match why {
            NotNow::TooMany => &self.over_limit,
            NotNow::TooFast => &self.too_fast,
            NotNow::Waits => &self.waits,
        }
    }

    /// The CPU time of a thread that ends.
    pub(super) fn add_cpu(&self) {
        self.cpu_us.fetch_add(thread_cpu_us(), Ordering::Relaxed);
    }

    /// Counts and says why a connection does not come in: in a line of the listener's `lines` what was refused, and in detail the rest,
    /// which probes of load balancers do all the time.
    pub(super) fn refuse(
        &self,
        (listener, lines): (&str, &Lines),
        address: Option<SocketAddr>,
        refused: &Refused,
    ) {
        let counter = match refused {
            Refused::Lost(_) => &self.lost,
            Refused::TimedOut | Refused::TooMuch => &self.timed_out,
            Refused::NoProxy | Refused::Proxy(_) => &self.proxy,
            Refused::Tunnel(TunnelError::Tls(_) | TunnelError::Full) => &self.tls,
            Refused::Tunnel(TunnelError::Web(_)) => &self.web,
            Refused::Identity(_) => &self.identity,
            Refused::NotNow(why) => self.of(*why),
        };
        Self::count(counter);
        let address = address.map(tracing::field::display);
        if is_common(refused) {
            tracing::debug!(event = "handshake_failed", listener, address, reason = %refused, "a connection was not let in");
        } else if let Some(left_out) = lines.admit(Instant::now()) {
            tracing::warn!(event = "handshake_failed", listener, address, reason = %refused, left_out, "a connection was not let in");
        }
    }

    /// Why connections are not let in: the reason, the name of its counter, and the counter.
    fn reasons(&self) -> [(&'static str, &'static str, &AtomicU64); 9] {
        [
            ("over_limit", "door_over_limit", &self.over_limit),
            ("too_fast", "door_too_fast", &self.too_fast),
            ("address_waits", "door_address_waits", &self.waits),
            ("lost", "door_lost", &self.lost),
            ("timed_out", "door_timed_out", &self.timed_out),
            ("proxy", "door_proxy_refused", &self.proxy),
            ("tls", "door_tls_refused", &self.tls),
            ("websocket", "door_websocket_refused", &self.web),
            ("identity", "door_identity_refused", &self.identity),
        ]
    }

    /// Connections that were not let in, by reason.
    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let reasons = self.reasons();
        reasons
            .map(|(reason, _, counter)| (reason, counter.load(Ordering::Relaxed)))
            .to_vec()
    }

    /// By name.
    pub(super) fn list(&self) -> Vec<(&'static str, u64)> {
        let others = [
            ("door_connections", &self.accepted),
            ("door_entered", &self.entered),
            ("door_accept_failures", &self.accept_failures),
            ("door_cpu_us", &self.cpu_us),
        ];
        let refused = self.reasons().map(|(_, name, counter)| (name, counter));
        let all = others.into_iter().chain(refused);
        all.map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
            .collect()
    }
}

/// What is nobody's fault, or is counted for who looks at numbers.
const fn is_common(refused: &Refused) -> bool {
    match refused {
        Refused::Lost(_) | Refused::NotNow(_) => true,
        Refused::TimedOut
        | Refused::TooMuch
        | Refused::NoProxy
        | Refused::Proxy(_)
        | Refused::Tunnel(_)
        | Refused::Identity(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_to_come_again_later_has_its_own_counter() {
        for (why, expected) in [
            (NotNow::TooMany, "over_limit"),
            (NotNow::TooFast, "too_fast"),
            (NotNow::Waits, "address_waits"),
        ] {
            let counters = DoorCounters::default();
            counters.not_now(why);
            let counted = counters
                .refused()
                .into_iter()
                .filter(|(_, count)| *count > 0);
            assert_eq!(counted.collect::<Vec<_>>(), [(expected, 1)], "{why:?}");
        }
    }
}
