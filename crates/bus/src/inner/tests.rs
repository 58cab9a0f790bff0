//! What posting must not need.

use crate::record::Record;
use crate::{Key, Router};
use std::sync::atomic::{AtomicU64, Ordering};

static CALLS: AtomicU64 = AtomicU64::new(0);

/// The locks cannot be taken twice: a post that took one would wait for its own thread for ever.
#[test]
fn a_post_takes_no_lock() {
    let router: Router<u32> = Router::new();
    let count = |_: crate::SubscriptionRef<'_, u32>, _: &Key, by: &u32| {
        CALLS.fetch_add(u64::from(*by), Ordering::Relaxed);
    };
    let _all = ["a/b", "a/+", "#"].map(|filter| router.subscribe(filter, count).unwrap());
    let keys = ["a/b", "a/c", "d"].map(|text| router.key(text).unwrap());
    router.post(&keys[0], &1); // the thread is registered, under a lock
    let inner = router.inner();
    let state = inner.lock();
    let records = inner.records.lock().unwrap();
    keys.iter().for_each(|key| router.post(key, &1)); // known, and new to the thread
    inner.version.fetch_add(1, Ordering::SeqCst);
    keys.iter().for_each(|key| router.post(key, &1)); // after a change
    drop((state, records));
    assert_eq!(CALLS.load(Ordering::Relaxed), 3 + 2 * (3 + 2 + 1));
}

/// What one thread writes while it posts is on cache lines of its own, neighbours included.
#[test]
fn records_of_threads_share_no_cache_line() {
    assert_eq!(align_of::<Record>(), 128);
    assert_eq!(size_of::<Record>() % 128, 0);
}
