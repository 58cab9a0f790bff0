use super::*;

fn limits(messages: Option<u32>, bytes: Option<u32>) -> Limits {
    Limits {
        messages_per_second: messages,
        bytes_per_second: bytes,
        ..Limits::default()
    }
}

fn rates(messages: Option<u32>, bytes: Option<u32>) -> Rates {
    Rates::of(limits(messages, bytes)).unwrap()
}

fn quota(messages: Option<u32>, bytes: Option<u32>) -> Quota {
    Quota::new(rates(messages, bytes))
}

#[test]
fn a_client_without_rates_has_no_quota() {
    assert_eq!(Rates::of(limits(None, None)), None);
    let limits = Limits {
        subscriptions: Some(1),
        ..Limits::default()
    };
    assert_eq!(Rates::of(limits), None);
}

#[test]
fn a_burst_of_one_second_is_free_and_more_is_paid_for() {
    let quota = quota(Some(10), None);
    quota.take(1_000, 10, 1 << 40);
    assert!(!quota.is_overdrawn(1_000), "the burst");
    quota.take(1_000, 5, 0);
    assert!(quota.is_overdrawn(1_000));
    assert!(quota.is_overdrawn(1_499));
    assert!(!quota.is_overdrawn(1_500), "five tenths of a second");
    assert!(!quota.is_paid(2_499) && quota.is_paid(2_500));
    quota.take(100_000, 10, 0);
    assert!(!quota.is_overdrawn(100_000), "a full bucket is one second");
    quota.take(100_000, 1, 0);
    assert!(quota.is_overdrawn(100_000));
}

#[test]
fn the_rate_holds_over_time_whatever_the_packets_bring() {
    for (rate, at_once) in [(1, 1), (7, 1), (100, 7), (100, 100), (100, 3_000)] {
        let quota = quota(None, Some(rate));
        let mut sent = 0;
        for ms in (0..600_000).step_by(20) {
            while !quota.is_overdrawn(1_000 + ms) {
                quota.take(1_000 + ms, 1, at_once);
                sent += at_once;
            }
        }
        let rate = u64::from(rate);
        let most = rate * 600 + rate + at_once;
        assert!(sent <= most, "{rate}, {at_once}: {sent}");
        assert!(
            sent + 2 * rate >= most - at_once,
            "{rate}, {at_once}: {sent}"
        );
    }
}

#[test]
fn a_debt_is_paid_in_full_however_large_a_packet_was() {
    let both = quota(Some(1_000), Some(1));
    both.take(1_000, 1, 3_600);
    assert!(both.is_overdrawn(3_599_999));
    assert!(!both.is_overdrawn(3_600_000));
    both.take(4_000_000, 1, u64::MAX);
    assert!(both.is_overdrawn(1 << 33), "and nothing overflows");
    let zero = quota(Some(0), None);
    zero.take(1_000, 2, 0);
    assert!(
        zero.is_overdrawn(1_000) && !zero.is_overdrawn(2_000),
        "as 1"
    );
}

#[test]
fn a_change_of_roles_gives_no_new_burst() {
    let used = quota(Some(10), None);
    used.take(0, 20, 0);
    let same = Quota::renewed(&used, rates(Some(10), Some(5)));
    assert!(same.is_overdrawn(999) && !same.is_overdrawn(1_000));
    let more = Quota::renewed(&used, rates(Some(11), None));
    assert!(!more.is_overdrawn(0));
}

#[test]
fn who_is_slow_is_read_little_at_once() {
    assert_eq!(rates(Some(10), None).read_bytes_max(), SMALL_READ_BYTES);
    assert_eq!(rates(None, Some(10)).read_bytes_max(), SMALL_READ_BYTES);
    let fast = rates(Some(MESSAGES_OF_READ), Some(BYTES_OF_READ));
    assert_eq!(fast.read_bytes_max(), usize::MAX);
}
