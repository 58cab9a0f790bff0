//! How much a cleaner may write: as much as live traffic does.

/// Bytes a millisecond besides, so that a log that has become quiet is cleaned as well: a MiB a second.
const QUIET_BYTES: u64 = 1 << 10;

/// Bytes that may be written. Each byte of live traffic earns one; what was not used is kept up to a limit, and what was too much is
/// owed up to the same. So the log never writes more than twice what it was given, but for what a quiet disk gets, or one that is short
/// of room: there the cleaner writes whatever its budget says, and what goes beyond the limit is forgiven, since a cleaner that rests
/// for long behind it would let the disk become short again.
///
/// Invariant: there is credit, or something is owed, never both.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    credit: u64,
    owed: u64,
    limit: u64,
}

impl Budget {
    /// A full one, of at most `limit` bytes.
    #[must_use]
    pub const fn new(limit: u64) -> Self {
        Self {
            credit: limit,
            owed: 0,
            limit,
        }
    }

    /// So much live traffic was written, in so much time. What is owed is paid first.
    pub const fn earn(&mut self, live_bytes: u64, millis: u64) {
        let more = live_bytes.saturating_add(millis.saturating_mul(QUIET_BYTES));
        let left = more.saturating_sub(self.owed);
        self.owed = self.owed.saturating_sub(more);
        self.credit = self.up_to_limit(self.credit.saturating_add(left));
    }

    /// So much was written by the cleaner; what is too much is owed, up to the limit.
    pub(crate) const fn spend(&mut self, bytes: u64) {
        let over = bytes.saturating_sub(self.credit);
        self.credit = self.credit.saturating_sub(bytes);
        self.owed = self.up_to_limit(self.owed.saturating_add(over));
    }

    const fn up_to_limit(&self, bytes: u64) -> u64 {
        if bytes < self.limit {
            bytes
        } else {
            self.limit
        }
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

    /// A chunk ends behind the record that fills it, so it is a little larger than what was allowed. That was forgiven each time.
    #[test]
    fn what_was_written_too_much_is_owed() {
        let mut budget = Budget::new(1_000);
        budget.spend(1_300);
        budget.earn(300, 0);
        assert!(!budget.allows(1), "that pays what was owed");
        budget.earn(200, 0);
        assert!(budget.allows(200) && !budget.allows(201));
        budget.spend(250);
        budget.spend(50);
        budget.earn(99, 0);
        assert!(!budget.allows(1));
        budget.earn(2, 0);
        assert!(budget.allows(1) && !budget.allows(2));
    }

    /// A disk that was short of room made it write whatever the budget said.
    #[test]
    fn no_more_is_owed_than_can_be_saved_up() {
        let mut budget = Budget::new(1_000);
        budget.spend(u64::MAX);
        budget.spend(u64::MAX);
        budget.earn(1_001, 0);
        assert!(budget.allows(1) && !budget.allows(2));
    }
}
