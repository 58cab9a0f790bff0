//! New connections a second, by address and of all together, where there is a limit.
//!
//! As many as a second's may come at once, then one whenever its part of a second has passed. What is refused does not count: who tries
//! again all the time comes in as often as who keeps to the limit.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::guests::shared;

/// Addresses that are kept. Beyond them new ones come in uncounted: who has so many addresses needs no second connection.
const ADDRESSES_MAX: usize = 65_536;
const SECOND: Duration = Duration::from_secs(1);

/// Of one listener by address. The lock is taken when a connection comes.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// The part of a second that a connection takes.
    each: Duration,
    addresses: Mutex<Addresses>,
}

#[derive(Debug, Default)]
struct Addresses {
    /// When all that came has had its part of a second.
    through: HashMap<IpAddr, Instant>,
    /// When those whose time is over were last forgotten because there were too many.
    forgot: Option<Instant>,
}

impl Arrivals {
    /// At most `per_second` of one address.
    #[must_use]
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self {
            each: SECOND / per_second.get(),
            addresses: Mutex::default(),
        }
    }

    /// Whether a connection of this address may come in.
    pub(crate) fn come(&self, address: IpAddr, now: Instant) -> bool {
        let address = shared(address);
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(through) = addresses.through.get_mut(&address) {
            return take(through, self.each, now);
        }
        if addresses.has_room(now) {
            addresses.through.insert(address, now + self.each);
        }
        true
    }
}

/// Of one listener from all addresses. The lock is taken when a connection comes.
#[derive(Debug)]
pub(crate) struct Pace {
    each: Duration,
    /// None: nothing has come yet.
    through: Mutex<Option<Instant>>,
}

impl Pace {
    /// At most `per_second`.
    #[must_use]
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self {
            each: SECOND / per_second.get(),
            through: Mutex::new(None),
        }
    }

    /// Whether one more may come in.
    pub(crate) fn come(&self, now: Instant) -> bool {
        let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
        take(through.get_or_insert(now), self.each, now)
    }
}

/// Gives one more connection its part of a second behind those that have come, if that ends within a second.
fn take(through: &mut Instant, each: Duration, now: Instant) -> bool {
    let ends = (*through).max(now) + each;
    let is_in_time = ends <= now + SECOND;
    if is_in_time {
        *through = ends;
    }
    is_in_time
}

impl Addresses {
    /// Whether there is room for one more. Looks at all of them at most once a second.
    fn has_room(&mut self, now: Instant) -> bool {
        if self.through.len() < ADDRESSES_MAX {
            return true;
        }
        let is_due = |at: Instant| now.saturating_duration_since(at) >= SECOND;
        if !self.forgot.is_none_or(is_due) {
            return false;
        }
        self.forgot = Some(now);
        self.through.retain(|_, through| *through > now);
        self.through.len() < ADDRESSES_MAX
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn rate(per_second: u32) -> NonZeroU32 {
        NonZeroU32::new(per_second).expect("a rate")
    }

    #[test]
    fn all_addresses_together_have_a_pace() {
        let pace = Pace::new(rate(4));
        let begun = Instant::now();
        let come = |ms| pace.come(begun + Duration::from_millis(ms));
        assert!((0..4).all(|_| come(0)) && !come(249));
        assert!(come(250), "what was refused did not count");
        assert!(!come(499) && come(500));
        assert!((0..4).all(|_| come(60_000)) && !come(60_000));
    }

    #[test]
    fn a_second_s_connections_come_at_once_and_then_each_in_its_time() {
        let arrivals = Arrivals::new(rate(4));
        let begun = Instant::now();
        let come = |from, ms| arrivals.come(address(from), begun + Duration::from_millis(ms));
        for _ in 0..4 {
            assert!(come("192.0.2.1", 0));
        }
        assert!(!come("192.0.2.1", 0) && !come("::ffff:192.0.2.1", 249));
        assert!(come("192.0.2.2", 0), "another address");
        assert!(come("192.0.2.1", 250), "what was refused did not count");
        assert!(!come("192.0.2.1", 499) && come("192.0.2.1", 500));
        for _ in 0..4 {
            assert!(come("192.0.2.1", 60_000), "nothing is saved up, or kept");
        }
        assert!(!come("192.0.2.1", 60_000));
        assert!(come("2001:db8::1", 0) && come("2001:db8::2", 0));
        assert!(come("2001:db8::3", 0) && come("2001:db8::4", 0));
        assert!(!come("2001:db8::5", 0) && come("2001:db8:0:1::1", 0));
    }

    #[test]
    fn addresses_are_forgotten_when_their_time_is_over() {
        let arrivals = Arrivals::new(rate(1));
        let begun = Instant::now();
        let count = || {
            arrivals
                .addresses
                .lock()
                .expect("nobody panics")
                .through
                .len()
        };
        for number in 0..ADDRESSES_MAX as u32 + 10 {
            let from = Ipv4Addr::from_bits(number).into();
            assert!(arrivals.come(from, begun));
        }
        assert_eq!(count(), ADDRESSES_MAX);
        let last = Ipv4Addr::from_bits(u32::MAX).into();
        assert!(arrivals.come(last, begun + SECOND));
        assert_eq!(count(), 1);
        assert!(!arrivals.come(last, begun + SECOND));
    }
}
