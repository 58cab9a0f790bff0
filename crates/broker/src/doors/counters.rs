//! What doors count.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use super::handshake::Refused;
use crate::clock::thread_cpu_us;

/// Counters of all doors since the start.
#[derive(Debug, Default)]
pub(crate) struct DoorCounters {
    /// Connections accepted.
    pub(super) accepted: AtomicU64,
    /// Connections that went to a shard.
    pub(super) entered: AtomicU64,
    /// Connections that were closed at once because there were as many as may be.
    pub(super) over_limit: AtomicU64,
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

    /// The CPU time of a thread that ends.
    pub(super) fn add_cpu(&self) {
        self.cpu_us.fetch_add(thread_cpu_us(), Ordering::Relaxed);
    }

    /// Counts and says why a connection does not come in.
    pub(super) fn refuse(&self, listener: &str, address: Option<SocketAddr>, refused: &Refused) {
        use courser_transport::TunnelError;
        let counter = match refused {
            Refused::Lost(_) => &self.lost,
            Refused::TimedOut | Refused::TooMuch => &self.timed_out,
            Refused::NoProxy | Refused::Proxy(_) => &self.proxy,
            Refused::Tunnel(TunnelError::Tls(_) | TunnelError::Full) => &self.tls,
            Refused::Tunnel(TunnelError::Web(_)) => &self.web,
            Refused::Identity(_) => &self.identity,
        };
        Self::count(counter);
        tracing::debug!(
            event = "handshake_failed",
            listener,
            address = address.map(tracing::field::display),
            reason = %refused,
            "a connection was not let in"
        );
    }

    /// Connections that were not let in, by reason.
    pub(crate) fn refused(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("over_limit", &self.over_limit),
            ("lost", &self.lost),
            ("timed_out", &self.timed_out),
            ("proxy", &self.proxy),
            ("tls", &self.tls),
            ("websocket", &self.web),
            ("identity", &self.identity),
        ];
        all.map(|(reason, counter)| (reason, counter.load(Ordering::Relaxed)))
            .to_vec()
    }

    /// By name.
    pub(super) fn list(&self) -> Vec<(&'static str, u64)> {
        let all = [
            ("door_connections", &self.accepted),
            ("door_entered", &self.entered),
            ("door_over_limit", &self.over_limit),
            ("door_accept_failures", &self.accept_failures),
            ("door_lost", &self.lost),
            ("door_timed_out", &self.timed_out),
            ("door_proxy_refused", &self.proxy),
            ("door_tls_refused", &self.tls),
            ("door_websocket_refused", &self.web),
            ("door_identity_refused", &self.identity),
            ("door_cpu_us", &self.cpu_us),
        ];
        all.map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
            .to_vec()
    }
}
