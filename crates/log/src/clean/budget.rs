//! How much a cleaner may write: as much as live traffic does.

/// Bytes a millisecond besides, so that a log that has become quiet is cleaned as well: a MiB a second.
const QUIET_BYTES: u64 = 1 << 10;

/// Bytes that may be written. Each byte of live traffic earns one; what was not used is kept up to a limit. So the log never
/// writes more than twice what it was given, but for what a quiet disk gets.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    credit: u64,
    limit: u64,
}

impl Budget {
    /// A full one, of at most `limit` bytes.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self {
            credit: limit,
            limit,
        }
    }

    /// So much live traffic was written, in so much time.
    pub const fn earn(&mut self, live_bytes: u64, millis: u64) {
        let more = live_bytes.saturating_add(millis.saturating_mul(QUIET_BYTES));
        let credit = self.credit.saturating_add(more);
        self.credit = if credit < self.limit {
            credit
        } else {
            self.limit
        };
    }

    /// So much was written by the cleaner; what is too much is owed.
    pub(crate) const fn spend(&mut self, bytes: u64) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Whether so many bytes may be written.
    #[must_use]
    pub const fn allows(&self, bytes: u64) -> bool {
        self.credit >= bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn live_traffic_sets_the_budget() {
        let mut budget = Budget::new(1_000_000);
        assert!(budget.allows(1_000_000) && !budget.allows(1_000_001));
        budget.spend(1_000_000);
        assert!(!budget.allows(1));
        budget.earn(300, 0);
        assert!(budget.allows(300) && !budget.allows(301));
        budget.earn(0, 10);
        assert!(budget.allows(300 + 10_240));
        budget.earn(u64::MAX, u64::MAX);
        assert!(!budget.allows(1_000_001), "what is saved up has a limit");
    }
}
