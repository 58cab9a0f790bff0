//! The sign between sleepers and makers of work (`rings/sign.rs`), run by loom under every interleaving of two threads.

use loom::sync::Arc;
use loom::sync::atomic::AtomicBool as Work;

#[path = "../src/rings/sign.rs"]
mod sign;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering, fence};
}

use atomics::Ordering;
use sign::Sign;

/// The sleeper sees the work, or its maker wakes it.
#[test]
fn no_wake_is_lost() {
    loom::model(|| {
        let sign = Arc::new(Sign::default());
        let work = Arc::new(Work::new(false));
        let maker = {
            let (sign, work) = (Arc::clone(&sign), Arc::clone(&work));
            loom::thread::spawn(move || {
                work.store(true, Ordering::Release);
                sign.take_after_write()
            })
        };
        sign.raise();
        let seen = work.load(Ordering::Acquire);
        let woken = maker.join().expect("the maker ends");
        assert!(
            seen || woken,
            "work that nobody sees and nobody is woken for"
        );
    });
}

/// Of two makers one wakes.
#[test]
fn one_of_two_makers_wakes() {
    loom::model(|| {
        let sign = Arc::new(Sign::default());
        sign.raise();
        let other = {
            let sign = Arc::clone(&sign);
            loom::thread::spawn(move || sign.take_after_write())
        };
        let mine = sign.take_after_write();
        let theirs = other.join().expect("the maker ends");
        assert!(mine ^ theirs, "exactly one takes the sign down");
    });
}

/// A sleeper that got up by itself is not woken.
#[test]
fn a_lowered_sign_wakes_nobody() {
    loom::model(|| {
        let sign = Sign::default();
        sign.raise();
        sign.lower();
        assert!(!sign.take_after_write());
    });
}
