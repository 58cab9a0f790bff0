//! How long an address waits whose logins fail, or whose connections come too fast.

use std::time::Duration;

use courser_contract::Tick;
use courser_settings::LoginFailures;

/// The wait is not doubled more often: an hour has become longer than any wait may be by then.
const DOUBLED_MAX: u32 = 20;

/// Seconds in which the connections of an address may come too fast before it waits: all of a large site behind one address come back within
/// them, 10,000 in 20 s at the default.
const TOO_FAST_SECONDS_FREE: u32 = 60;
/// The longest wait for them, in seconds.
const TOO_FAST_WAIT_MAX: u64 = 30;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Backoff {
    /// Failures that cost nothing yet; none: no failure ever costs anything.
    free: Option<u32>,
    first_ms: u64,
    longest_ms: u64,
    forget_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(&LoginFailures::default())
    }
}

impl Backoff {
    /// Of connections that come faster than those of one address may: each second in which they do is a failure.
    pub(crate) const CONNECTIONS: Self = Self {
        free: Some(TOO_FAST_SECONDS_FREE),
        first_ms: 1_000,
        longest_ms: TOO_FAST_WAIT_MAX * 1_000,
        forget_ms: 300_000,
    };

    /// As the settings say.
    pub(crate) fn new(settings: &LoginFailures) -> Self {
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            free: Some(settings.address_max).filter(|&most| most > 0),
            first_ms: ms(settings.wait_first),
            longest_ms: ms(settings.wait_max),
            forget_ms: ms(settings.forget_after),
        }
    }

    /// Whether what an address comes with after so many failures has to wait for what becomes of that before it.
    pub(super) fn is_one_by_one(&self, failures: u32) -> bool {
        self.free.is_some_and(|free| failures >= free)
    }

    /// Until when an address waits whose last failure, the one of that number, was at `failed_at`.
    pub(crate) fn until(&self, failures: u32, failed_at: Tick) -> Tick {
        let Some(over) = self.free.and_then(|free| failures.checked_sub(free)) else {
            return failed_at;
        };
        let wait = self.first_ms << over.min(DOUBLED_MAX);
        failed_at.after_ms(wait.min(self.longest_ms))
    }

    /// Whether an address is as good as new whose last failure was at `failed_at`.
    pub(crate) fn forgets(&self, failed_at: Tick, now: Tick) -> bool {
        now >= failed_at.after_ms(self.forget_ms)
    }
}
