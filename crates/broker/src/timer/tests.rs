use super::{Advanced, TimerKey, Wheel};
use courser_contract::Tick;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ALL: usize = usize::MAX;

fn fired<T: Copy>(wheel: &mut Wheel<T>, now: u64) -> Vec<T> {
    let mut values = Vec::new();
    assert_eq!(
        wheel.advance(Tick(now), ALL, |value| values.push(value)),
        Advanced::Whole
    );
    wheel.check();
    values
}

#[test]
fn a_timer_fires_at_its_deadline_on_every_level() {
    for start in [0, 1, 63, 64, 4095, 4096, 1_000_003, (1 << 36) - 1] {
        for delay in (0..50).flat_map(|bit: u32| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]) {
            let mut wheel = Wheel::new(Tick(start));
            let deadline: u64 = start + delay;
            wheel.insert(Tick(deadline), 'x');
            wheel.check();
            if delay > 0 {
                assert!(
                    fired(&mut wheel, deadline - 1).is_empty(),
                    "start {start}, delay {delay}: early"
                );
            }
            assert_eq!(
                fired(&mut wheel, deadline),
                ['x'],
                "start {start}, delay {delay}: not in time"
            );
            assert_eq!(wheel.len(), 0);
            assert_eq!(wheel.next_deadline(), None);
        }
    }
}

#[test]
fn a_large_step_fires_in_the_order_of_deadlines() {
    let mut wheel = Wheel::new(Tick(5));
    let deadlines = [70, 6, 4_000_000, 4095, 4096, 64, 63, 300_000, 65, 128];
    for deadline in deadlines {
        wheel.insert(Tick(deadline), deadline);
    }
    let mut sorted = deadlines;
    sorted.sort_unstable();
    assert_eq!(fired(&mut wheel, 5_000_000), sorted);
}

#[test]
fn a_deadline_that_has_passed_fires_at_the_next_call() {
    let mut wheel = Wheel::new(Tick(1000));
    wheel.insert(Tick(3), 'p');
    wheel.insert(Tick(1000), 'n');
    assert_eq!(wheel.next_deadline(), Some(Tick(1000)));
    let mut both = fired(&mut wheel, 1000);
    both.sort_unstable();
    assert_eq!(both, ['n', 'p']);
}

#[test]
fn a_key_names_one_life_of_a_timer() {
    let mut wheel = Wheel::new(Tick(0));
    let first = wheel.insert(Tick(10), 1);
    assert_eq!(wheel.cancel(first), Some(1));
    assert_eq!(wheel.cancel(first), None);
    let second = wheel.insert(Tick(10), 2);
    assert_ne!(first, second);
    assert!(!wheel.rearm(first, Tick(1)), "a stale key moves nothing");
    assert_eq!(wheel.cancel(first), None, "a stale key cancels nothing");
    assert!(fired(&mut wheel, 9).is_empty());
    assert_eq!(fired(&mut wheel, 10), [2]);
    assert!(!wheel.rearm(second, Tick(20)), "a fired timer is not armed");
    assert_eq!(wheel.len(), 0);
}

#[test]
fn moving_a_deadline_later_leaves_the_timer_where_it_is_linked() {
    let mut wheel = Wheel::new(Tick(0));
    let key = wheel.insert(Tick(90_000), 'k');
    let woken = wheel.next_deadline();
    for packet in 1..=60_000 {
        assert!(wheel.rearm(key, Tick(90_000 + packet)));
        assert_eq!(wheel.next_deadline(), woken, "a store and nothing else");
    }
    wheel.check();
    assert!(fired(&mut wheel, 149_999).is_empty());
    assert_eq!(fired(&mut wheel, 150_000), ['k']);
}

#[test]
fn moving_a_deadline_earlier_is_in_time() {
    let mut wheel = Wheel::new(Tick(0));
    let key = wheel.insert(Tick(1_000_000), 'k');
    assert!(wheel.rearm(key, Tick(7)));
    wheel.check();
    assert_eq!(wheel.next_deadline(), Some(Tick(7)));
    assert_eq!(fired(&mut wheel, 7), ['k']);
}

#[test]
fn work_is_cut_and_goes_on_without_loss() {
    let mut wheel = Wheel::new(Tick(0));
    for at in 0..1000 {
        wheel.insert(Tick(5000 + at % 3), at);
    }
    let mut values = Vec::new();
    let mut calls = 0;
    while wheel.advance(Tick(6000), 64, |value| values.push(value)) == Advanced::Cut {
        wheel.check();
        calls += 1;
        assert!(values.len() <= calls * 64);
        assert!(
            wheel.next_deadline().is_some_and(|next| next <= Tick(6000)),
            "there is more to do now"
        );
    }
    assert_eq!(values.len(), 1000);
    assert!(
        values.is_sorted_by_key(|value| value % 3),
        "also in the order of deadlines"
    );
}

#[test]
fn a_cut_slot_can_be_cancelled_empty_and_used_again() {
    let mut wheel = Wheel::new(Tick(0));
    let keys = [1, 2, 3].map(|value| wheel.insert(Tick(100), value));
    assert_eq!(wheel.advance(Tick(100), 1, |_| ()), Advanced::Cut);
    let left: Vec<i32> = keys
        .into_iter()
        .filter_map(|key| wheel.cancel(key))
        .collect();
    assert_eq!(left.len(), 3, "the one step only moved a timer down");
    wheel.check();
    wheel.insert(Tick(100), 9);
    assert_eq!(fired(&mut wheel, 100), [9]);
}

#[test]
fn the_clock_never_goes_back() {
    let mut wheel = Wheel::new(Tick(100));
    assert_eq!(fired(&mut wheel, 500), [] as [u8; 0]);
    assert!(fired(&mut wheel, 200).is_empty());
    wheel.insert(Tick(300), 1);
    assert_eq!(fired(&mut wheel, 0), [1], "300 has passed already");
}

#[test]
fn deadlines_beyond_the_end_are_kept_at_the_end() {
    let mut wheel = Wheel::new(Tick(0));
    let key = wheel.insert(Tick(u64::MAX), 'x');
    wheel.check();
    assert!(fired(&mut wheel, 1 << 53).is_empty());
    assert!(wheel.rearm(key, Tick(u64::MAX)));
    assert_eq!(wheel.cancel(key), Some('x'));
}

#[derive(Debug, Clone)]
enum Step {
    Insert(i64),
    Cancel(usize),
    Rearm(usize, i64),
    Advance(u64, usize),
}

/// Delays of every size, some of them negative.
fn delay() -> impl Strategy<Value = i64> {
    prop_oneof![-50..50_i64, 0..5000_i64, 0..1_000_000_i64, 0..(1_i64 << 40)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => delay().prop_map(Step::Insert),
        1 => any::<usize>().prop_map(Step::Cancel),
        3 => (any::<usize>(), delay()).prop_map(|(who, delay)| Step::Rearm(who, delay)),
        3 => (prop_oneof![0..3_u64, 0..200_u64, 0..100_000_u64, 0..(1_u64 << 38)], prop_oneof![Just(ALL), 0..20_usize])
            .prop_map(|(span, work)| Step::Advance(span, work)),
    ]
}

/// What a wheel must do: all timers by deadline.
#[derive(Default)]
struct Model {
    by_deadline: BTreeMap<(u64, u32), TimerKey>,
    dead: Vec<TimerKey>,
}

impl Model {
    fn nth(&self, who: usize) -> Option<((u64, u32), TimerKey)> {
        let at = who.checked_rem(self.by_deadline.len())?;
        self.by_deadline
            .iter()
            .nth(at)
            .map(|(entry, key)| (*entry, *key))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_wheel_does_what_a_sorted_map_does(start in 0..(1_u64 << 40), steps in proptest::collection::vec(step(), 1..120)) {
        let mut wheel = Wheel::new(Tick(start));
        let mut model = Model::default();
        let mut now = start;
        let mut next_value = 0_u32;
        for step in steps {
            match step {
                Step::Insert(delay) => {
                    let deadline = now.saturating_add_signed(delay);
                    let key = wheel.insert(Tick(deadline), next_value);
                    model.by_deadline.insert((deadline, next_value), key);
                    next_value += 1;
                }
                Step::Cancel(who) => {
                    if let Some((entry, key)) = model.nth(who) {
                        prop_assert_eq!(wheel.cancel(key), Some(entry.1));
                        model.by_deadline.remove(&entry);
                        model.dead.push(key);
                    }
                }
                Step::Rearm(who, delay) => {
                    if let Some((entry, key)) = model.nth(who) {
                        let deadline = now.saturating_add_signed(delay);
                        prop_assert!(wheel.rearm(key, Tick(deadline)));
                        model.by_deadline.remove(&entry);
                        model.by_deadline.insert((deadline, entry.1), key);
                    }
                }
                Step::Advance(span, work_max) => {
                    now += span;
                    let mut values = Vec::new();
                    let advanced = wheel.advance(Tick(now), work_max, |value| values.push(value));
                    prop_assert!(values.len() <= work_max);
                    for value in values {
                        let entry = model.by_deadline.keys().copied().find(|entry| entry.1 == value);
                        let entry = entry.expect("what fires was armed, and fires once");
                        prop_assert!(entry.0 <= now, "nothing fires early");
                        model.dead.extend(model.by_deadline.remove(&entry));
                    }
                    let due = model.by_deadline.keys().next().is_some_and(|entry| entry.0 <= now);
                    prop_assert!(advanced == Advanced::Cut || !due, "nothing fires late");
                }
            }
            wheel.check();
            prop_assert_eq!(wheel.len(), model.by_deadline.len());
            if let Some(((earliest, _), _)) = model.by_deadline.first_key_value() {
                let next = wheel.next_deadline().expect("a timer is armed");
                prop_assert!(next.0 <= (*earliest).max(now), "nobody sleeps past a deadline");
            }
            for &key in model.dead.iter().rev().take(5) {
                prop_assert!(!wheel.rearm(key, Tick(now)), "a dead key names nothing");
            }
        }
    }
}
