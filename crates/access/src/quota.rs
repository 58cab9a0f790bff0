//! Rates of a client: token buckets that may be overdrawn.
//!
//! What a client has sent in one read is taken as a whole and paid for afterwards: it is not read until its debt is paid. So nothing is
//! asked for each message, no message is lost, and the rate holds over time.

use crate::Limits;

/// Longest debt in milliseconds: a single large message does not shut a client out for longer.
const DEBT_MS_MAX: i64 = 60_000;

/// Tokens that come back at a rate, up to those of one second. Kept in thousandths of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bucket {
    per_second: i64,
    level: i64,
}

impl Bucket {
    fn new(per_second: u32) -> Self {
        let per_second = i64::from(per_second.max(1));
        Self {
            per_second,
            level: per_second * 1_000,
        }
    }

    /// A millisecond brings a thousandth of what a second does.
    fn pass(&mut self, ms: u64) {
        let ms = i64::try_from(ms).unwrap_or(i64::MAX);
        let back = self.per_second.saturating_mul(ms);
        self.level = self.level.saturating_add(back).min(self.per_second * 1_000);
    }

    fn take(&mut self, tokens: u64) {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        let after = self.level.saturating_sub(tokens.saturating_mul(1_000));
        self.level = after.max(-DEBT_MS_MAX * self.per_second);
    }

    const fn is_overdrawn(self) -> bool {
        self.level < 0
    }
}

/// What a client may publish, by [`Limits::messages_per_second`] and [`Limits::bytes_per_second`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    messages: Option<Bucket>,
    bytes: Option<Bucket>,
    /// Milliseconds of the caller's clock up to which it has passed.
    passed_ms: u64,
}

impl Quota {
    /// Of a client with these limits, full; none if they limit no rate.
    #[must_use]
    pub fn new(limits: Limits) -> Option<Self> {
        let quota = Self {
            messages: limits.messages_per_second.map(Bucket::new),
            bytes: limits.bytes_per_second.map(Bucket::new),
            // What is full stays full, however long ago that was.
            passed_ms: 0,
        };
        (quota.messages.is_some() || quota.bytes.is_some()).then_some(quota)
    }

    /// The same client with other limits: what it has used of a rate that stays the same counts on.
    #[must_use]
    pub fn renewed(before: Option<Self>, limits: Limits) -> Option<Self> {
        let mut quota = Self::new(limits)?;
        let Some(before) = before else {
            return Some(quota);
        };
        quota.passed_ms = before.passed_ms;
        let same = |new: &mut Option<Bucket>, old: Option<Bucket>| {
            if let (Some(new), Some(old)) = (new, old)
                && new.per_second == old.per_second
            {
                *new = old;
            }
        };
        same(&mut quota.messages, before.messages);
        same(&mut quota.bytes, before.bytes);
        Some(quota)
    }

    fn pass(&mut self, now_ms: u64) {
        let ms = now_ms.saturating_sub(self.passed_ms);
        self.passed_ms = self.passed_ms.max(now_ms);
        for bucket in [&mut self.messages, &mut self.bytes].into_iter().flatten() {
            bucket.pass(ms);
        }
    }

    /// Takes what was published.
    pub fn take(&mut self, now_ms: u64, messages: u64, bytes: u64) {
        self.pass(now_ms);
        if let Some(bucket) = &mut self.messages {
            bucket.take(messages);
        }
        if let Some(bucket) = &mut self.bytes {
            bucket.take(bytes);
        }
    }

    /// Whether it has published more than it may by now.
    pub fn is_overdrawn(&mut self, now_ms: u64) -> bool {
        self.pass(now_ms);
        let mut buckets = [self.messages, self.bytes].into_iter().flatten();
        buckets.any(Bucket::is_overdrawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(messages: Option<u32>, bytes: Option<u32>) -> Option<Quota> {
        let limits = Limits {
            messages_per_second: messages,
            bytes_per_second: bytes,
            ..Limits::default()
        };
        Quota::new(limits)
    }

    #[test]
    fn a_client_without_rates_has_no_quota() {
        assert_eq!(quota(None, None), None);
        let limits = Limits {
            subscriptions: Some(1),
            ..Limits::default()
        };
        assert_eq!(Quota::new(limits), None);
    }

    #[test]
    fn a_burst_of_one_second_is_free_and_more_is_paid_for() {
        let mut quota = quota(Some(10), None).unwrap();
        quota.take(1_000, 10, 1 << 40);
        assert!(!quota.is_overdrawn(1_000), "the burst");
        quota.take(1_000, 5, 0);
        assert!(quota.is_overdrawn(1_000));
        assert!(quota.is_overdrawn(1_499));
        assert!(!quota.is_overdrawn(1_500), "five tenths of a second");
        assert!(!quota.is_overdrawn(400), "a clock never goes back");
        quota.take(100_000, 10, 0);
        assert!(!quota.is_overdrawn(100_000), "a full bucket is one second");
        quota.take(100_000, 1, 0);
        assert!(quota.is_overdrawn(100_000));
    }

    #[test]
    fn the_rate_holds_over_time_whatever_the_reads_bring() {
        for at_once in [1, 7, 100, 3_000] {
            let mut quota = quota(Some(100), None).unwrap();
            let mut sent = 0;
            for ms in (0..600_000).step_by(20) {
                while !quota.is_overdrawn(1_000 + ms) {
                    quota.take(1_000 + ms, at_once, 0);
                    sent += at_once;
                }
            }
            assert!((59_000..=63_100).contains(&sent), "{at_once}: {sent}");
        }
    }

    #[test]
    fn both_rates_count_and_a_debt_ends() {
        let mut quota = quota(Some(1_000), Some(1)).unwrap();
        quota.take(1_000, 1, u64::MAX);
        assert!(quota.is_overdrawn(60_999));
        assert!(!quota.is_overdrawn(61_000), "a minute at most");
        let mut zero = super::tests::quota(Some(0), None).unwrap();
        zero.take(1_000, 2, 0);
        assert!(
            zero.is_overdrawn(1_000) && !zero.is_overdrawn(2_000),
            "as 1"
        );
    }

    #[test]
    fn a_change_of_roles_gives_no_new_burst() {
        let limits = |rate| Limits {
            messages_per_second: Some(rate),
            ..Limits::default()
        };
        let mut used = Quota::new(limits(10)).unwrap();
        used.take(0, 20, 0);
        let mut same = Quota::renewed(Some(used), limits(10)).unwrap();
        assert!(same.is_overdrawn(999) && !same.is_overdrawn(1_000));
        let mut more = Quota::renewed(Some(used), limits(11)).unwrap();
        assert!(!more.is_overdrawn(0));
        assert_eq!(Quota::renewed(Some(used), Limits::default()), None);
    }
}
