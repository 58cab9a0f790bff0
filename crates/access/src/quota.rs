//! Rates of a client: buckets of one second that are taken from packet by packet, and are paid for by time.
//!
//! A packet is taken while a bucket is not overdrawn, and may overdraw it: so over any time a client is taken at most what the rate allows in
//! it, one burst of a second, and one packet. What is kept of a bucket is one number, the time by which everything that was taken is paid
//! for, so that all connections of a client take from the same one, on whichever threads they are, without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Limits;

const NANOS_OF_MS: u64 = 1_000_000;
const NANOS_OF_SECOND: u64 = 1_000_000_000;
/// Reads of a client that is slower than the smallest packets of a large read are as small as this, in bytes.
const SMALL_READ_BYTES: usize = 4 * 1024;
/// Publishes that a read of 64 KiB may bring, at 7 bytes.
const MESSAGES_OF_READ: u32 = 10_000;
const BYTES_OF_READ: u32 = 64 * 1024;

/// What a client may publish in a second, by [`Limits::messages_per_second`] and [`Limits::bytes_per_second`]. 0 counts as 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    messages: Option<u32>,
    bytes: Option<u32>,
}

impl Rates {
    /// None: nothing is limited.
    #[must_use]
    pub fn of(limits: Limits) -> Option<Self> {
        let rates = Self {
            messages: limits.messages_per_second.map(|rate| rate.max(1)),
            bytes: limits.bytes_per_second.map(|rate| rate.max(1)),
        };
        (rates.messages.is_some() || rates.bytes.is_some()).then_some(rates)
    }

    /// As much is read of its socket at once, so that who sends more than it may leaves that in the socket and not in our memory.
    #[must_use]
    pub fn read_bytes_max(self) -> usize {
        let is_slow = self.messages.is_some_and(|rate| rate < MESSAGES_OF_READ)
            || self.bytes.is_some_and(|rate| rate < BYTES_OF_READ);
        if is_slow {
            SMALL_READ_BYTES
        } else {
            usize::MAX
        }
    }
}

/// Tokens that come back at a rate, up to those of one second.
#[derive(Debug)]
struct Bucket {
    per_second: u32,
    /// By when what was taken is paid for, in nanoseconds of the caller's clock. In the past: the bucket is full.
    paid: AtomicU64,
}

impl Bucket {
    const fn new(per_second: u32) -> Self {
        Self {
            per_second,
            paid: AtomicU64::new(0),
        }
    }

    fn paid(&self) -> u64 {
        self.paid.load(Ordering::Relaxed)
    }

    fn take(&self, now: u64, tokens: u64) {
        let cost = tokens
            .saturating_mul(NANOS_OF_SECOND)
            .div_ceil(u64::from(self.per_second));
        let later = |paid: u64| Some(paid.max(now).saturating_add(cost));
        // Nothing else is read by it.
        let _ = self
            .paid
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
    }

    fn is_overdrawn(&self, now: u64) -> bool {
        self.paid() > now.saturating_add(NANOS_OF_SECOND)
    }
}

/// What a client has published of what it may. Times are milliseconds of one clock.
#[derive(Debug)]
pub struct Quota {
    rates: Rates,
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
}

impl Quota {
    /// Of a client that has published nothing.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        Self {
            rates,
            messages: rates.messages.map(Bucket::new),
            bytes: rates.bytes.map(Bucket::new),
        }
    }

    /// The same client with other rates: what it has used of a rate that stays the same counts on.
    #[must_use]
    pub fn renewed(before: &Self, rates: Rates) -> Self {
        let quota = Self::new(rates);
        let pairs = [
            quota.messages.as_ref().zip(before.messages.as_ref()),
            quota.bytes.as_ref().zip(before.bytes.as_ref()),
        ];
        for (new, old) in pairs.into_iter().flatten() {
            if new.per_second == old.per_second {
                new.paid.store(old.paid(), Ordering::Relaxed);
            }
        }
        quota
    }

    /// By when all that was published is paid for, in nanoseconds of the caller's clock.
    #[must_use]
    pub fn paid_by(&self) -> u64 {
        self.buckets().map(Bucket::paid).max().unwrap_or(0)
    }

    fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        [&self.messages, &self.bytes].into_iter().flatten()
    }

    /// What it allows.
    #[must_use]
    pub const fn rates(&self) -> Rates {
        self.rates
    }

    /// Takes what was published.
    pub fn take(&self, now_ms: u64, messages: u64, bytes: u64) {
        let now = nanos(now_ms);
        if let Some(bucket) = &self.messages {
            bucket.take(now, messages);
        }
        if let Some(bucket) = &self.bytes {
            bucket.take(now, bytes);
        }
    }

    /// Whether more was published than may be by now: no more is to be taken.
    #[must_use]
    pub fn is_overdrawn(&self, now_ms: u64) -> bool {
        let now = nanos(now_ms);
        self.buckets().any(|bucket| bucket.is_overdrawn(now))
    }

    /// Whether all that was published is paid for, so that it is as good as a new one.
    #[must_use]
    pub fn is_paid(&self, now_ms: u64) -> bool {
        self.paid_by() <= nanos(now_ms)
    }
}

const fn nanos(ms: u64) -> u64 {
    ms.saturating_mul(NANOS_OF_MS)
}

#[cfg(test)]
mod tests;
