//! Failed logins by address: whoever fails again and again waits longer and longer, and nobody has more than a few passwords hashed, or
//! a share of the tokens verified, at once.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use courser_contract::Tick;
use courser_mqtt::codec::ReasonCode;

/// Failures that cost nothing yet.
const FREE: u32 = 5;
/// The first wait after them, in milliseconds; each further failure doubles it.
const FIRST_MS: u64 = 1_000;
/// The longest wait.
const LONGEST_MS: u64 = 60_000;
/// After so long without a failure an address is as good as new.
const FORGET_MS: u64 = 600_000;
/// Passwords of one address that are being hashed at once.
const HASHING_MAX: u32 = 8;
/// Tokens of one address that wait or are being verified: an eighth of all that may wait, and more than a shard reads in a turn from a
/// fleet behind one address that comes back.
const VERIFYING_MAX: u32 = 128;
/// Addresses that are remembered. When there are more, those that do not wait at the moment are forgotten, so that only somebody who
/// makes all of these wait at once keeps new ones out.
const ADDRESSES_MAX: usize = 65_536;
/// Room is looked for this often, in milliseconds: it takes a look at all of them.
const ROOM_MS: u64 = 1_000;

/// What is known of one address.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    failures: u32,
    /// Nothing is looked at before this.
    until: Tick,
    /// Of the last failure.
    failed_at: Tick,
    /// Passwords and tokens that were admitted and have not been looked at.
    under_way: [u32; 2],
}

/// What is looked at on the threads for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Password,
    Token,
}

impl Kind {
    const fn max(self) -> u32 {
        match self {
            Self::Password => HASHING_MAX,
            Self::Token => VERIFYING_MAX,
        }
    }
}

/// Who is asking: an IPv4 address, or the /64 of an IPv6 one, of which anybody has as many as they like. Unix sockets are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    V4([u8; 4]),
    V6([u8; 8]),
    Local,
}

impl Origin {
    pub(crate) fn of(address: Option<IpAddr>) -> Self {
        match address.map(|address| address.to_canonical()) {
            None => Self::Local,
            Some(IpAddr::V4(address)) => Self::V4(address.octets()),
            Some(IpAddr::V6(address)) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }
}

/// Whether a password or token may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Yes; [`Throttle::finished`] must follow.
    Go,
    /// Not now.
    Wait(Why),
}

/// Why somebody has to come again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Logins of its address have failed.
    Failed,
    /// As many of its address as may be are being looked at: it has done nothing wrong.
    UnderWay,
    /// Logins of so many addresses have failed that another one could not be remembered: neither has it.
    Crowded,
}

impl Why {
    /// What a client is told.
    pub(crate) const fn code(self) -> ReasonCode {
        match self {
            Self::Failed => ReasonCode::ConnectionRateExceeded,
            Self::UnderWay | Self::Crowded => ReasonCode::ServerBusy,
        }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookedAt {
    /// It was wrong.
    Guess,
    /// It was right, or wrong in a way that tells who guesses nothing; or nothing was done.
    NoGuess,
}

/// See the module. Shared by all shards, asked once a login.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    addresses: Mutex<Addresses>,
}

#[derive(Debug, Default)]
struct Addresses {
    known: HashMap<Origin, Known>,
    /// Before this nobody looks for room.
    look_at: Tick,
}

impl Addresses {
    /// Whether an address is remembered, or can be.
    fn has_room(&mut self, origin: Origin, now: Tick) -> bool {
        if self.known.len() < ADDRESSES_MAX || self.known.contains_key(&origin) {
            return true;
        }
        if now < self.look_at {
            return false;
        }
        self.look_at = now.after_ms(ROOM_MS);
        self.known.retain(|_, it| it.is_busy() || now < it.until);
        self.known.len() < ADDRESSES_MAX
    }
}

impl Throttle {
    fn addresses(&self) -> MutexGuard<'_, Addresses> {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks before a password is hashed or a token verified.
    pub(crate) fn admit(&self, origin: Origin, kind: Kind, now: Tick) -> Admission {
        let mut addresses = self.addresses();
        if !addresses.has_room(origin, now) {
            return Admission::Wait(Why::Crowded);
        }
        let it = addresses.known.entry(origin).or_default();
        if it.failures > 0 && now >= it.failed_at.after_ms(FORGET_MS) {
            it.failures = 0;
        }
        if let Some(why) = it.keeps_out(kind, now) {
            return Admission::Wait(why);
        }
        it.under_way[kind as usize] += 1;
        Admission::Go
    }

    /// What was admitted has been looked at. A success takes no failure back: an account of one's own is no way to guess
    /// those of others.
    pub(crate) fn finished(&self, origin: Origin, kind: Kind, looked_at: LookedAt, now: Tick) {
        let known = &mut self.addresses().known;
        let Some(it) = known.get_mut(&origin) else {
            return;
        };
        let under_way = &mut it.under_way[kind as usize];
        *under_way = under_way.saturating_sub(1);
        match looked_at {
            LookedAt::Guess => it.note_failure(now),
            LookedAt::NoGuess if it.failures == 0 && !it.is_busy() => {
                known.remove(&origin);
            }
            LookedAt::NoGuess => {}
        }
    }

    /// A guess that nothing had to be done for.
    pub(crate) fn failed(&self, origin: Origin, now: Tick) {
        let mut addresses = self.addresses();
        if addresses.has_room(origin, now) {
            let it = addresses.known.entry(origin).or_default();
            it.note_failure(now);
        }
    }

    /// Why the address waits, if it does or could not be made to.
    pub(crate) fn waits(&self, origin: Origin, now: Tick) -> Option<Why> {
        let mut addresses = self.addresses();
        match addresses.known.get(&origin) {
            Some(it) => (now < it.until).then_some(Why::Failed),
            None => (!addresses.has_room(origin, now)).then_some(Why::Crowded),
        }
    }
}

impl Known {
    /// Why no more may be looked at, if that is so. Each guess beyond the free ones has its own wait: what comes with it waits for what becomes
    /// of it.
    fn keeps_out(&self, kind: Kind, now: Tick) -> Option<Why> {
        let failed = self.failures >= FREE;
        if now < self.until || failed && self.is_busy() {
            return Some(Why::Failed);
        }
        (!failed && self.under_way[kind as usize] >= kind.max()).then_some(Why::UnderWay)
    }

    fn is_busy(&self) -> bool {
        self.under_way != [0; 2]
    }

    fn note_failure(&mut self, now: Tick) {
        self.failures = self.failures.saturating_add(1);
        self.failed_at = now;
        if let Some(over) = self.failures.checked_sub(FREE) {
            let wait = FIRST_MS << over.min(10);
            self.until = now.after_ms(wait.min(LONGEST_MS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Origin = Origin::V4([192, 0, 2, 1]);

    fn fails(throttle: &Throttle, at: Tick) -> bool {
        let admitted = throttle.admit(ONE, Kind::Password, at) == Admission::Go;
        if admitted {
            throttle.finished(ONE, Kind::Password, LookedAt::Guess, at);
        }
        admitted
    }

    #[test]
    fn s2_guesses_of_one_address_become_rare() {
        let throttle = Throttle::default();
        let looked_at = (0..3_600_000_u64)
            .step_by(100)
            .filter(|&ms| fails(&throttle, Tick(0).after_ms(ms)))
            .count();
        // Five at once, then after 1, 2, 4 … 32 seconds, then one a minute.
        assert!(
            (60..=75).contains(&looked_at),
            "{looked_at} of 36,000 guesses in an hour"
        );
        let other = Origin::V4([192, 0, 2, 2]);
        assert_eq!(
            throttle.admit(other, Kind::Password, Tick(0)),
            Admission::Go,
            "others do not wait"
        );
        assert!(fails(&throttle, Tick(0).after_ms(3_600_000 + FORGET_MS)));
    }

    #[test]
    fn s2_behind_each_wait_an_address_has_one_guess() {
        let throttle = Throttle::default();
        assert!((0..FREE).all(|_| fails(&throttle, Tick(0))));
        let mut now = Tick(0).after_ms(FIRST_MS);
        for wait in [2 * FIRST_MS, 4 * FIRST_MS] {
            let admits = |kind| throttle.admit(ONE, kind, now) == Admission::Go;
            assert!(admits(Kind::Password));
            assert!(!admits(Kind::Password) && !admits(Kind::Token));
            throttle.finished(ONE, Kind::Password, LookedAt::Guess, now);
            assert!(!admits(Kind::Password));
            assert_eq!(throttle.waits(ONE, now), Some(Why::Failed));
            now = now.after_ms(wait);
        }
        let right = throttle.admit(ONE, Kind::Token, now);
        assert_eq!(right, Admission::Go);
        throttle.finished(ONE, Kind::Token, LookedAt::NoGuess, now);
        let next = throttle.admit(ONE, Kind::Token, now);
        assert_eq!(next, Admission::Go, "what is right costs no wait");
    }

    #[test]
    fn s3_one_address_has_only_a_few_passwords_hashed_at_once() {
        let throttle = Throttle::default();
        let now = Tick(0);
        let admitted = (0..100)
            .filter(|_| throttle.admit(ONE, Kind::Password, now) == Admission::Go)
            .count();
        assert_eq!(admitted, HASHING_MAX as usize);
        assert_eq!(
            throttle.admit(ONE, Kind::Password, now),
            Admission::Wait(Why::UnderWay),
            "nothing has failed"
        );
        assert_eq!(Why::UnderWay.code(), ReasonCode::ServerBusy);
        throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
        assert_eq!(throttle.admit(ONE, Kind::Password, now), Admission::Go);
    }

    #[test]
    fn s3_one_address_has_only_a_share_of_the_tokens() {
        let throttle = Throttle::default();
        let now = Tick(0);
        let admits = |origin| throttle.admit(origin, Kind::Token, now) == Admission::Go;
        let admitted = (0..2_000).filter(|_| admits(ONE)).count();
        assert_eq!(admitted, VERIFYING_MAX as usize);
        assert!(admits(Origin::Local), "others have theirs");
        assert_eq!(
            throttle.admit(ONE, Kind::Password, now),
            Admission::Go,
            "passwords are counted apart"
        );
        throttle.finished(ONE, Kind::Token, LookedAt::NoGuess, now);
        assert!(admits(ONE) && !admits(ONE), "one for the one that is done");
        for _ in 0..VERIFYING_MAX {
            throttle.finished(ONE, Kind::Token, LookedAt::NoGuess, now);
        }
        throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
        throttle.finished(Origin::Local, Kind::Token, LookedAt::NoGuess, now);
        assert!(
            throttle.addresses().known.is_empty(),
            "nothing is kept of them"
        );
    }

    #[test]
    fn what_is_remembered_is_bounded_and_forgotten() {
        let throttle = Throttle::default();
        let fail = |number: u32, at| throttle.failed(Origin::V4(number.to_be_bytes()), at);
        for number in 0..70_000 {
            fail(number, Tick(0));
        }
        let known = throttle.addresses().known.len();
        assert!(known <= ADDRESSES_MAX, "{known}");
        assert_eq!(
            throttle.admit(ONE, Kind::Password, Tick(0)),
            Admission::Go,
            "who failed once does not keep others out"
        );
        throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, Tick(0));
        // All of them fail until they wait.
        let now = Tick(0).after_ms(ROOM_MS);
        for number in 0..70_000 {
            (0..=FREE).for_each(|_| fail(number, now));
        }
        assert_eq!(throttle.addresses().known.len(), ADDRESSES_MAX);
        let crowded = Some(Why::Crowded);
        assert_eq!(throttle.waits(ONE, now), crowded, "it fails closed");
        assert_eq!(
            throttle.admit(ONE, Kind::Password, now),
            Admission::Wait(Why::Crowded),
            "it fails closed"
        );
        let later = now.after_ms(2 * FIRST_MS);
        assert_eq!(throttle.waits(ONE, later), None);
        assert_eq!(throttle.admit(ONE, Kind::Password, later), Admission::Go);
        assert_eq!(throttle.addresses().known.len(), 1);
    }

    #[test]
    fn addresses_that_one_host_can_choose_are_one() {
        let of = |text: &str| Origin::of(Some(text.parse().unwrap()));
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:192.0.2.1"), ONE);
    }
}
