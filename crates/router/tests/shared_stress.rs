//! `SharedMatcher` with real threads: whole batches, nothing stale after publish, epochs that can be trusted.

use router::{CacheLimits, Epochs, SharedMatcher, TopicCache};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const ROUNDS: u32 = 3_000;

/// Each batch moves one subscriber: it removes the number of the round before and adds its own under three
/// filters that all match one topic. A reader must always find three equal numbers, never below what was
/// published when it started, and its cache must never show an older one.
#[test]
fn readers_see_whole_batches_and_nothing_stale() {
    let (mut writer, reader) = SharedMatcher::new();
    let published = AtomicU32::new(0);
    let done = AtomicBool::new(false);
    let filters = ["a/b/c", "a/+/c", "a/#"];
    filters.iter().for_each(|f| writer.insert(f, 0u32));
    writer.publish(|| unreachable!("nobody looks"));

    std::thread::scope(|scope| {
        for _ in 0..3 {
            let reader = reader.clone();
            let (published, done) = (&published, &done);
            scope.spawn(move || {
                let mut cache = TopicCache::new(CacheLimits {
                    entries: 4,
                    bytes: 1 << 16,
                });
                while !done.load(Ordering::Acquire) {
                    let at_least = published.load(Ordering::Acquire);
                    let found = cache.get_or_insert_with("a/b/c", &reader, || {
                        let mut found = Vec::new();
                        reader.for_each_match("a/b/c", |&s| found.push(s));
                        found
                    });
                    assert_eq!(found.len(), 3, "a whole batch: {found:?}");
                    assert!(found.iter().all(|s| s == &found[0]), "one batch: {found:?}");
                    assert!(
                        found[0] >= at_least,
                        "{found:?} after {at_least} was published"
                    );
                }
            });
        }
        for round in 1..=ROUNDS {
            for filter in filters {
                writer.remove(filter, &(round - 1));
                writer.insert(filter, round);
            }
            writer.publish(std::thread::yield_now);
            published.store(round, Ordering::Release);
            assert_eq!(writer.subscribers("a/#"), [round]);
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!((writer.filters(), writer.len()), (3, 3));
}

/// Readers come and go, match within a match, and panic within one; the writer is never stuck for good.
#[test]
fn readers_come_and_go() {
    let (mut writer, reader) = SharedMatcher::new();
    writer.insert("x", 1u32);
    writer.publish(|| unreachable!("nobody looks"));
    let mut nested = 0;
    reader.for_each_match("x", |_| {
        reader.for_each_match("x", |_| nested += 1);
    });
    assert_eq!(nested, 1);
    let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        reader.for_each_match("x", |_| panic!("in a match"));
    }));
    assert!(failed.is_err());

    // Busy while a reader that started before the last switch still looks; not before.
    let second = reader.clone();
    second.for_each_match("x", |_| {
        writer.insert("y", 2);
        writer
            .try_publish()
            .expect("nobody looks at the other copy");
        writer.insert("z", 3);
        writer
            .try_publish()
            .expect_err("a reader looks at the copy that must be changed next");
        assert_eq!(writer.pending(), 1, "nothing is lost");
    });
    writer.try_publish().expect("the reader is done");
    drop(second);

    std::thread::scope(|scope| {
        for _ in 0..4 {
            let reader = reader.clone();
            scope.spawn(move || {
                for _ in 0..500 {
                    let own = reader.clone();
                    let mut hits = 0;
                    own.for_each_match("x", |_| hits += 1);
                    assert_eq!(hits, 1);
                }
            });
        }
        for i in 0..500u32 {
            writer.insert("w", i);
            writer.publish(std::thread::yield_now);
        }
    });
    assert_eq!(reader.epoch("x"), reader.epoch("x"));
    assert_eq!(writer.len(), 503);
}

/// What a caller keeps behind a subscriber can spoil results too.
#[test]
fn touch_moves_the_epoch_of_what_it_concerns() {
    let (writer, reader) = SharedMatcher::<u32>::new();
    let (before, other) = (reader.epoch("a/b"), reader.epoch("z/y/x"));
    writer.touch("a/b");
    assert_ne!(reader.epoch("a/b"), before);
    writer.touch("#");
    assert_ne!(reader.epoch("z/y/x"), other);
}

/// A scan in steps meets each wanted filter once when nothing changes.
#[test]
fn a_scan_in_steps_meets_everything_once() {
    let (mut writer, _reader) = SharedMatcher::new();
    (0..1_000u32).for_each(|i| writer.insert(&format!("a/{}/b/{i}", i % 7), i));
    writer.publish(|| unreachable!("nobody looks"));
    let (mut from, mut met) = (0, Vec::new());
    loop {
        from = writer.scan(
            from,
            13,
            |list| list[0] % 2 == 0,
            |filter, list| {
                assert_eq!(filter, format!("a/{}/b/{}", list[0] % 7, list[0]));
                met.push(list[0]);
            },
        );
        if from == 0 {
            break;
        }
    }
    met.sort_unstable();
    assert_eq!(met, (0..1_000).step_by(2).collect::<Vec<_>>());
}
