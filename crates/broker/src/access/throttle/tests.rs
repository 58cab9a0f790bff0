use std::sync::Arc;
use std::time::Duration;

use courser_settings::LoginFailures;

use super::*;

const ONE: Origin = Origin::V4([192, 0, 2, 1]);
const OTHER: Origin = Origin::V4([192, 0, 2, 2]);

// Where nobody says anything else.
const FREE: u32 = 5;
const FIRST_MS: u64 = 1_000;
const FORGET_MS: u64 = 600_000;

fn made() -> Throttle {
    Throttle::new(u64::MAX, Backoff::default())
}

fn backoff(change: impl FnOnce(&mut LoginFailures)) -> Backoff {
    let mut settings = LoginFailures::default();
    change(&mut settings);
    Backoff::new(&settings)
}

impl Throttle {
    /// Of somebody who does not listen.
    fn admit(&self, origin: Origin, kind: Kind, now: Tick) -> Admission {
        self.come(coming(origin, kind), now, || Box::new(|_| {}))
    }
}

const fn coming(origin: Origin, kind: Kind) -> Coming {
    Coming {
        origin,
        kind,
        bytes: 0,
        until: None,
    }
}

/// Who was told what, in that order.
type Said = Vec<(u32, Result<(), Why>)>;

#[derive(Clone, Default)]
struct Told(Arc<Mutex<Said>>);

impl Told {
    /// Comes with a password.
    fn come(&self, throttle: &Throttle, origin: Origin, who: u32, now: Tick) -> Admission {
        let told = self.clone();
        let wake: Wake = Box::new(move |may| told.0.lock().unwrap().push((who, may)));
        throttle.come(coming(origin, Kind::Password), now, || wake)
    }

    fn take(&self) -> Said {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn fails(throttle: &Throttle, at: Tick) -> bool {
    let admitted = throttle.admit(ONE, Kind::Password, at) == Admission::Go;
    if admitted {
        throttle.finished(ONE, Kind::Password, LookedAt::Guess, at);
    }
    admitted
}

#[test]
fn s2_guesses_of_one_address_become_rare() {
    let throttle = made();
    let looked_at = (0..3_600_000_u64)
        .step_by(100)
        .filter(|&ms| fails(&throttle, Tick(0).after_ms(ms)))
        .count();
    // Five at once, then after 1, 2, 4 … 32 seconds, then one a minute.
    assert!(
        (60..=75).contains(&looked_at),
        "{looked_at} of 36,000 guesses in an hour"
    );
    assert_eq!(
        throttle.admit(OTHER, Kind::Password, Tick(0)),
        Admission::Go,
        "others do not wait"
    );
    assert!(fails(&throttle, Tick(0).after_ms(3_600_000 + FORGET_MS)));
}

#[test]
fn s2_failures_of_what_is_not_admitted_are_forgotten_too() {
    let throttle = made();
    for _ in 0..FREE + 2 {
        throttle.failed(ONE, Tick(0));
    }
    assert_eq!(throttle.waits(ONE, Tick(0)), Some(Why::Failed));
    let later = Tick(0).after_ms(FORGET_MS);
    for _ in 0..FREE - 1 {
        throttle.failed(ONE, later);
        assert_eq!(throttle.waits(ONE, later), None, "as good as new");
    }
    throttle.failed(ONE, later);
    assert_eq!(throttle.waits(ONE, later), Some(Why::Failed));
}

#[test]
fn s2_behind_each_wait_an_address_has_one_guess() {
    let throttle = made();
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
    let throttle = made();
    let now = Tick(0);
    let come = || throttle.admit(ONE, Kind::Password, now);
    for _ in 0..HASHING_MAX {
        assert_eq!(come(), Admission::Go);
    }
    let waiting = HASHES_WAITING_MAX / PART_OF_ONE;
    for _ in 0..waiting {
        assert!(matches!(come(), Admission::Queued(_)), "nothing has failed");
    }
    assert_eq!(come(), Admission::Refused(Why::Full));
    assert_eq!(Why::Full.code(), ReasonCode::ServerBusy);
    let other = throttle.admit(OTHER, Kind::Password, now);
    assert_eq!(other, Admission::Go, "others have theirs");
    throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
    assert!(
        matches!(come(), Admission::Queued(_)),
        "one for the one that went on"
    );
    assert_eq!(come(), Admission::Refused(Why::Full));
}

/// A fleet behind one address comes back: all of it gets in, in the order in which it came, and no more of it at once than before.
#[test]
fn i10_who_comes_beyond_what_may_be_at_once_has_its_turn() {
    let (throttle, told, now) = (made(), Told::default(), Tick(0));
    const FLEET: u32 = 60;
    for who in 0..FLEET {
        let came = told.come(&throttle, ONE, who, now);
        assert_eq!(came == Admission::Go, who < HASHING_MAX, "{who}: {came:?}");
    }
    for done in 0..FLEET {
        let under_way = throttle.addresses().known[&ONE].under_way[0];
        assert_eq!(under_way, HASHING_MAX.min(FLEET - done));
        throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
        let next = HASHING_MAX + done;
        let expected = (next < FLEET).then_some((next, Ok(())));
        assert_eq!(told.take(), Vec::from_iter(expected));
    }
    assert!(
        throttle.addresses().known.is_empty(),
        "nothing is kept of them"
    );
}

#[test]
fn i10_a_fleet_does_not_hold_up_other_addresses() {
    let (throttle, told, now) = (made(), Told::default(), Tick(0));
    let fleets = HASHING_OF_ALL_MAX / HASHING_MAX;
    let fleet = |number: u32| Origin::V4((number + 1).to_be_bytes());
    for number in 0..fleets {
        for _ in 0..20 {
            told.come(&throttle, fleet(number), number, now);
        }
    }
    let late = told.come(&throttle, OTHER, 99, now);
    assert!(
        matches!(late, Admission::Queued(_)),
        "all are at work: {late:?}"
    );
    for _ in 0..=fleets {
        throttle.finished(fleet(0), Kind::Password, LookedAt::NoGuess, now);
    }
    let told = told.take();
    let turns = told.iter().filter(|(_, may)| may.is_ok());
    let before = turns.take_while(|(who, _)| *who != 99).count();
    assert!(before <= fleets as usize, "{told:?}");
}

/// The guesses of an address are the same few, however many wait behind them.
#[test]
fn s2_who_waits_is_refused_when_those_before_it_have_failed() {
    let (throttle, told, now) = (made(), Told::default(), Tick(0));
    let mut looked_at = 0;
    for who in 0..100 {
        looked_at += u32::from(told.come(&throttle, ONE, who, now) == Admission::Go);
    }
    let (mut done, mut refused) = (0, 0);
    while done < looked_at {
        throttle.finished(ONE, Kind::Password, LookedAt::Guess, now);
        done += 1;
        for (_, may) in told.take() {
            match may {
                Ok(()) => looked_at += 1,
                Err(why) => {
                    assert_eq!(why, Why::Failed);
                    refused += 1;
                }
            }
        }
    }
    assert_eq!(looked_at, HASHING_MAX + FREE - 1);
    assert_eq!(looked_at + refused, 100, "nobody is forgotten");
    let waits = throttle.admit(ONE, Kind::Password, now);
    assert_eq!(waits, Admission::Refused(Why::Failed));
}

#[test]
fn i9_who_gives_up_has_no_turn_and_makes_room() {
    let (throttle, told, now) = (made(), Told::default(), Tick(0));
    for who in 0..HASHING_MAX {
        told.come(&throttle, ONE, who, now);
    }
    let mut tickets = Vec::new();
    while let Admission::Queued(ticket) = told.come(&throttle, ONE, 100, now) {
        tickets.push(ticket);
    }
    let leave = |ticket| throttle.leave(Kind::Password, ticket);
    assert!(tickets.iter().all(|&ticket| leave(ticket)));
    assert!(!leave(tickets[0]), "it has left");
    let last = told.come(&throttle, ONE, 101, now);
    assert!(matches!(last, Admission::Queued(_)));
    throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
    assert_eq!(told.take(), [(101, Ok(()))]);
    assert!(matches!(last, Admission::Queued(ticket) if !leave(ticket)));
}

/// Who would wait in vain hears it at once, and may come again when there is less to do.
#[test]
fn s3_who_cannot_be_compared_in_its_time_is_refused_at_once() {
    let throttle = made();
    let address = |number: u32| Origin::V4(number.to_be_bytes());
    let come = |number: u32, now: Tick| {
        let coming = Coming {
            until: Some(now.after_ms(5_000)),
            ..coming(address(number), Kind::Password)
        };
        throttle.come(coming, now, || Box::new(|_| {}))
    };
    let mut now = Tick(0);
    for number in 0..140 {
        let came = come(number, now);
        assert_eq!(
            came == Admission::Go,
            number < HASHING_OF_ALL_MAX,
            "{number}"
        );
        assert_ne!(
            came,
            Admission::Refused(Why::Full),
            "nobody knows how long it takes"
        );
    }
    for number in 0..80 {
        now = now.after_ms(100);
        throttle.finished(address(number), Kind::Password, LookedAt::NoGuess, now);
    }
    // 28 wait and 32 are under way: six seconds of work.
    assert_eq!(come(200, now), Admission::Refused(Why::Full));
    let operator = throttle.admit(address(201), Kind::Password, now);
    assert!(
        matches!(operator, Admission::Queued(_)),
        "it waits for as long as it takes"
    );
    for number in 80..100 {
        now = now.after_ms(100);
        throttle.finished(address(number), Kind::Password, LookedAt::NoGuess, now);
    }
    assert!(matches!(come(202, now), Admission::Queued(_)));
}

/// In the least memory that is served a fleet waits whose passwords are as people make them.
#[test]
fn i9_what_waits_is_bounded_by_memory_too() {
    let throttle = Throttle::new(24 << 20, Backoff::default());
    let come = |origin, bytes| {
        let coming = Coming {
            bytes,
            ..coming(origin, Kind::Password)
        };
        throttle.come(coming, Tick(0), || Box::new(|_| {}))
    };
    let count = |origin, bytes| {
        let came = std::iter::from_fn(|| match come(origin, bytes) {
            Admission::Refused(Why::Full) => None,
            came => Some(came),
        });
        came.filter(|came| matches!(came, Admission::Queued(_)))
            .count()
    };
    assert_eq!(count(ONE, 100), HASHES_WAITING_MAX / PART_OF_ONE);
    let large = count(OTHER, 16 << 10);
    assert!((1..12).contains(&large), "{large} of 16 KiB in 96 KiB");
}

#[test]
fn s3_one_address_has_only_a_share_of_the_tokens() {
    let throttle = made();
    let now = Tick(0);
    let admits = |origin| throttle.admit(origin, Kind::Token, now) == Admission::Go;
    let admitted = (0..600).filter(|_| admits(ONE)).count();
    assert_eq!(admitted, VERIFYING_MAX as usize);
    assert!(admits(Origin::Local), "others have theirs");
    assert_eq!(
        throttle.admit(ONE, Kind::Password, now),
        Admission::Go,
        "passwords are counted apart"
    );
    for _ in 0..600 {
        throttle.finished(ONE, Kind::Token, LookedAt::NoGuess, now);
    }
    assert!(admits(ONE), "all have had their turn");
    for origin in [ONE, Origin::Local] {
        throttle.finished(origin, Kind::Token, LookedAt::NoGuess, now);
    }
    throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
    assert!(
        throttle.addresses().known.is_empty(),
        "nothing is kept of them"
    );
}

#[test]
fn what_is_remembered_is_bounded_and_forgotten() {
    let throttle = made();
    throttle.succeeded(OTHER);
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
        Admission::Refused(Why::Crowded),
        "it fails closed"
    );
    let regular = throttle.admit(OTHER, Kind::Password, now);
    assert_eq!(regular, Admission::Go, "it is no stranger");
    throttle.finished(OTHER, Kind::Password, LookedAt::NoGuess, now);
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

#[test]
fn waits_are_those_of_the_settings() {
    let settings = backoff(|it| {
        it.address_max = 2;
        it.wait_first = Duration::from_millis(300);
        it.wait_max = Duration::from_millis(1_000);
        it.forget_after = Duration::from_millis(5_000);
    });
    let throttle = Throttle::new(u64::MAX, settings);
    let mut now = Tick(0);
    assert!(fails(&throttle, now) && fails(&throttle, now));
    for wait in [300, 600, 1_000, 1_000] {
        assert!(!fails(&throttle, now.after_ms(wait - 1)), "{wait}");
        now = now.after_ms(wait);
        assert!(fails(&throttle, now), "{wait}");
    }
    assert!(!fails(&throttle, now.after_ms(999)));
    now = now.after_ms(5_000);
    assert!(fails(&throttle, now) && fails(&throttle, now), "it is new");
    assert!(!fails(&throttle, now));
}

#[test]
fn the_longest_wait_is_reached_from_the_shortest() {
    let settings = backoff(|it| {
        it.wait_first = Duration::from_millis(100);
        it.wait_max = Duration::from_secs(86_400);
    });
    assert_eq!(settings.until(FREE + 40, Tick(7)), Tick(86_400_007));
    assert_eq!(settings.until(u32::MAX, Tick(7)), Tick(86_400_007));
}

#[test]
fn without_a_limit_no_failure_costs_anything() {
    let throttle = Throttle::new(u64::MAX, backoff(|it| it.address_max = 0));
    assert!((0..1_000).all(|_| fails(&throttle, Tick(0))));
    // Nor do those that are under way at once wait for each other.
    for _ in 0..HASHING_MAX {
        let came = throttle.admit(ONE, Kind::Password, Tick(0));
        assert_eq!(came, Admission::Go);
    }
}

#[test]
fn who_waits_already_waits_as_new_settings_say() {
    let throttle = made();
    for _ in 0..FREE + 3 {
        throttle.failed(ONE, Tick(0));
    }
    let waits = |ms| throttle.waits(ONE, Tick(ms)) == Some(Why::Failed);
    assert!(waits(7_999) && !waits(8_000));
    throttle.set_backoff(backoff(|it| it.wait_max = Duration::from_millis(500)));
    assert!(waits(499) && !waits(500));
    throttle.set_backoff(backoff(|it| it.wait_first = Duration::from_secs(4)));
    assert!(waits(31_999) && !waits(32_000));
    throttle.set_backoff(backoff(|it| it.address_max = 0));
    assert!(!waits(0));
}

#[test]
fn a_wait_that_has_begun_is_not_cut_short_by_what_is_forgotten() {
    let throttle = Throttle::new(
        u64::MAX,
        backoff(|it| it.forget_after = Duration::from_secs(1)),
    );
    for _ in 0..FREE + 3 {
        throttle.failed(ONE, Tick(0));
    }
    // Of a login that was admitted before.
    throttle.failed(ONE, Tick(2_000));
    assert_eq!(throttle.waits(ONE, Tick(7_999)), Some(Why::Failed));
    assert_eq!(throttle.waits(ONE, Tick(8_000)), None);
}

/// Of what is forgotten while it waits only the number starts anew: it waits on for what it has done.
#[test]
fn a_wait_that_was_kept_is_cut_short_only_by_settings_that_make_waits_shorter() {
    let forgetful = |wait_first: u64| {
        backoff(|it| {
            it.forget_after = Duration::from_secs(1);
            it.wait_first = Duration::from_millis(wait_first);
        })
    };
    let throttle = Throttle::new(u64::MAX, forgetful(1_000));
    for _ in 0..FREE + 3 {
        throttle.failed(ONE, Tick(0));
    }
    throttle.failed(ONE, Tick(2_000));
    let waits = |ms| throttle.waits(ONE, Tick(ms)) == Some(Why::Failed);
    assert!(waits(7_999) && !waits(8_000));
    throttle.set_backoff(backoff(|_| ()));
    assert!(
        waits(7_999) && !waits(8_000),
        "what is forgotten has changed"
    );
    throttle.set_backoff(forgetful(2_000));
    assert!(waits(15_999) && !waits(16_000), "they are longer");
    throttle.set_backoff(forgetful(400));
    assert!(waits(3_199) && !waits(3_200), "they are shorter");
    // It has ended: nothing of it comes back.
    let now = Tick(3_200);
    assert_eq!(throttle.admit(ONE, Kind::Password, now), Admission::Go);
    throttle.finished(ONE, Kind::Password, LookedAt::NoGuess, now);
    throttle.set_backoff(forgetful(2_000));
    assert!(!waits(3_200));
}

/// Guesses come from as many addresses as anybody likes: who could not be told from them waits, and who logged in before does not.
#[test]
fn i10_guesses_from_many_addresses_keep_no_regular_one_out() {
    let (throttle, told, now) = (made(), Told::default(), Tick(0));
    let stranger = |number: u32| Origin::V4((0x0a00_0000 + number).to_be_bytes());
    throttle.admit(ONE, Kind::Password, now);
    throttle.finished(ONE, Kind::Password, LookedAt::Right, now);
    throttle.admit(OTHER, Kind::Password, now);
    throttle.finished(OTHER, Kind::Password, LookedAt::Right, now);
    throttle.failed(OTHER, now);
    let came: Vec<_> = (0..400)
        .map(|number| told.come(&throttle, stranger(number), number, now))
        .collect();
    assert_eq!(came.last(), Some(&Admission::Refused(Why::Full)));
    assert_eq!(
        told.come(&throttle, OTHER, 1_001, now),
        Admission::Refused(Why::Full),
        "its last login was wrong"
    );
    let regular = told.come(&throttle, ONE, 1_000, now);
    assert!(matches!(regular, Admission::Queued(_)));
    throttle.finished(stranger(0), Kind::Password, LookedAt::Guess, now);
    assert_eq!(told.take(), [(1_000, Ok(()))]);
}
