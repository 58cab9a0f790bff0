//! New connections a second, by address and of all together, where there is a limit.
//!
//! As many as a second's may come at once, then one whenever its part of a second has passed. What is refused does not count: who tries
//! again all the time comes in as often as who keeps to the limit. But an address that goes beyond it in second after second
//! ([`Backoff::CONNECTIONS`]) then waits each time, twice as long as before, and so comes in with ever fewer, until it has kept to the limit for a while.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use courser_contract::Tick;

use super::guests::shared;
use crate::access::Backoff;
use crate::peer::NotNow;

/// Addresses that are kept. Beyond them those are forgotten that do not wait and whose connections have had their time, and else new ones come in
/// uncounted: who has so many addresses needs no second connection.
const ADDRESSES_MAX: usize = 65_536;
const SECOND: Duration = Duration::from_secs(1);
/// The same in milliseconds.
const SECOND_MS: u64 = 1_000;

/// Of one listener by address. The lock is taken when a connection comes.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// The part of a second that a connection takes.
    each: Duration,
    /// Ticks count from here.
    begun: Instant,
    addresses: Mutex<Addresses>,
}

#[derive(Debug, Default)]
struct Addresses {
    known: HashMap<IpAddr, Known>,
    /// When those whose time is over were last forgotten because there were too many.
    forgot: Option<Instant>,
}

/// What is known of one address.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// When all that came has had its part of a second.
    through: Instant,
    /// Seconds in which more came than may, until they are forgotten.
    too_fast: u32,
    /// When the last of them began.
    too_fast_at: Tick,
}

impl Known {
    fn waits(&self, now: Tick) -> bool {
        now < Backoff::CONNECTIONS.until(self.too_fast, self.too_fast_at)
    }

    fn come(&mut self, each: Duration, (now, tick): (Instant, Tick)) -> Result<(), NotNow> {
        if self.waits(tick) {
            return Err(NotNow::Waits);
        }
        if take(&mut self.through, each, now) {
            return Ok(());
        }
        self.note_too_fast(tick);
        Err(NotNow::TooFast)
    }

    /// However many are refused in a second, it counts as one.
    fn note_too_fast(&mut self, now: Tick) {
        if self.too_fast > 0 && now < self.too_fast_at.after_ms(SECOND_MS) {
            return;
        }
        if Backoff::CONNECTIONS.forgets(self.too_fast_at, now) {
            self.too_fast = 0;
        }
        self.too_fast = self.too_fast.saturating_add(1);
        self.too_fast_at = now;
    }
}

impl Arrivals {
    /// At most `per_second` of one address.
    #[must_use]
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self {
            each: SECOND / per_second.get(),
            begun: Instant::now(),
            addresses: Mutex::default(),
        }
    }

    /// Lets a connection of this address in.
    ///
    /// # Errors
    /// [`NotNow::TooFast`], [`NotNow::Waits`].
    pub(crate) fn come(&self, address: IpAddr, now: Instant) -> Result<(), NotNow> {
        let address = shared(address);
        let passed = now.saturating_duration_since(self.begun).as_millis();
        let tick = Tick(u64::try_from(passed).unwrap_or(u64::MAX));
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = addresses.known.get_mut(&address) {
            return known.come(self.each, (now, tick));
        }
        if addresses.has_room((now, tick)) {
            let known = Known {
                through: now + self.each,
                too_fast: 0,
                too_fast_at: tick,
            };
            addresses.known.insert(address, known);
        }
        Ok(())
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
    fn has_room(&mut self, (now, tick): (Instant, Tick)) -> bool {
        if self.known.len() < ADDRESSES_MAX {
            return true;
        }
        let is_due = |at: Instant| now.saturating_duration_since(at) >= SECOND;
        if !self.forgot.is_none_or(is_due) {
            return false;
        }
        self.forgot = Some(now);
        self.known
            .retain(|_, known| known.through > now || known.waits(tick));
        self.known.len() < ADDRESSES_MAX
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
        let come = |from, ms| {
            let at = begun + Duration::from_millis(ms);
            arrivals.come(address(from), at).is_ok()
        };
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
                .known
                .len()
        };
        for number in 0..ADDRESSES_MAX as u32 + 10 {
            let from = Ipv4Addr::from_bits(number).into();
            assert_eq!(arrivals.come(from, begun), Ok(()));
        }
        assert_eq!(count(), ADDRESSES_MAX);
        let last = Ipv4Addr::from_bits(u32::MAX).into();
        assert_eq!(arrivals.come(last, begun + SECOND), Ok(()));
        assert_eq!(count(), 1);
        let again = arrivals.come(last, begun + SECOND);
        assert_eq!(again, Err(NotNow::TooFast));
    }

    /// One address of a listener that lets in one a second, which tries at whatever time.
    struct Flood {
        arrivals: Arrivals,
        begun: Instant,
    }

    impl Flood {
        fn new() -> Self {
            Self {
                arrivals: Arrivals::new(rate(1)),
                begun: Instant::now(),
            }
        }

        fn come(&self, from: &str, ms: u64) -> Result<(), NotNow> {
            let at = self.begun + Duration::from_millis(ms);
            self.arrivals.come(address(from), at)
        }

        /// In the second from then on, one that is let in, and more that are too fast.
        fn go_beyond(&self, from: &str, second: u64, more: usize) {
            let at = second * SECOND_MS;
            assert_eq!(self.come(from, at), Ok(()), "{second}");
            for _ in 0..more {
                assert_eq!(self.come(from, at), Err(NotNow::TooFast), "{second}");
            }
        }

        /// For the first minute.
        fn go_beyond_for_a_minute(&self, from: &str) {
            for second in 0..59 {
                self.go_beyond(from, second, 3);
            }
            self.go_beyond(from, 59, 1);
        }
    }

    #[test]
    fn an_address_that_is_too_fast_for_a_minute_waits_longer_and_longer() {
        for [flood_from, other] in [
            ["192.0.2.1", "192.0.2.2"],
            ["2001:db8::1", "2001:db8:0:1::1"],
        ] {
            let flood = Flood::new();
            flood.go_beyond_for_a_minute(flood_from);
            let mut at = 59 * SECOND_MS;
            for wait in [1, 2, 4, 8, 16, 30, 30, 30] {
                let ends = at + wait * SECOND_MS;
                for ms in [at, at + 1, ends - 1] {
                    assert_eq!(flood.come(flood_from, ms), Err(NotNow::Waits), "{wait} s");
                }
                assert_eq!(flood.come(other, ends - 1), Ok(()), "another one");
                assert_eq!(flood.come(flood_from, ends), Ok(()), "{wait} s");
                assert_eq!(flood.come(flood_from, ends), Err(NotNow::TooFast));
                at = ends;
            }
        }
        let flood = Flood::new();
        flood.go_beyond_for_a_minute("2001:db8::1");
        let neighbour = flood.come("2001:db8::2", 59 * SECOND_MS);
        assert_eq!(neighbour, Err(NotNow::Waits), "of its /64");
    }

    #[test]
    fn an_address_that_has_kept_to_the_limit_for_five_minutes_is_as_good_as_new() {
        let from = "192.0.2.1";
        for (pause, is_forgotten) in [(299, false), (300, true)] {
            let flood = Flood::new();
            flood.go_beyond_for_a_minute(from);
            // The last second in which it was too fast is the 59th.
            let again = 59 + pause;
            flood.go_beyond(from, again, 1);
            let next = flood.come(from, again * SECOND_MS + 1);
            let expected = match is_forgotten {
                true => NotNow::TooFast,
                false => NotNow::Waits,
            };
            assert_eq!(next, Err(expected), "{pause} s");
        }
    }

    #[test]
    fn who_comes_back_all_at_once_does_not_wait() {
        let arrivals = Arrivals::new(rate(500));
        let begun = Instant::now();
        let (mut away, mut seconds) = (10_000_u32, 0);
        while away > 0 {
            let at = begun + SECOND * seconds;
            // Each tries once a second, as the others do.
            let come = |_: &u32| arrivals.come(address("192.0.2.1"), at);
            let results = (0..away).map(|number| come(&number));
            away = results.filter(|it| *it == Err(NotNow::TooFast)).count() as u32;
            seconds += 1;
        }
        assert_eq!(seconds, 20);
    }

    #[test]
    fn who_waits_is_not_forgotten_for_those_that_come() {
        let flood = Flood::new();
        flood.go_beyond_for_a_minute("192.0.2.1");
        for second in [60, 62] {
            flood.go_beyond("192.0.2.1", second, 1);
        }
        let now = flood.begun + SECOND * 62;
        for number in 0..ADDRESSES_MAX as u32 + 10 {
            let from = Ipv4Addr::from_bits(number).into();
            assert_eq!(flood.arrivals.come(from, now), Ok(()));
        }
        // Its own second has passed, and its wait has not.
        let later = 64 * SECOND_MS;
        assert_eq!(flood.come("198.51.100.1", later), Ok(()), "room is made");
        assert_eq!(flood.come("192.0.2.1", later), Err(NotNow::Waits));
    }
}
