//! M6, in virtual time.

use proptest::prelude::*;

use super::*;

const BEGIN: WallMs = WallMs(1_700_000_000_000);

/// Reads once every `every` ms until `until`, while the system's clock is `offset` ms away from where it began; the last reading.
fn run(clock: &mut WallClock, ticks: std::ops::Range<u64>, every: usize, offset: i64) -> WallMs {
    let mut last = WallMs(0);
    for tick in ticks.step_by(every) {
        let system = (BEGIN.0 + tick).checked_add_signed(offset);
        last = clock.read(Tick(tick), WallMs(system.expect("within range")));
    }
    last
}

fn away(wall: WallMs, tick: u64, offset: i64) -> u64 {
    let system = (BEGIN.0 + tick).checked_add_signed(offset);
    wall.0.abs_diff(system.expect("within range"))
}

#[test]
fn m6_a_small_difference_is_met_at_one_percent() {
    for offset in [-30_000, 30_000] {
        for every in [1, 7, 1_000] {
            let mut clock = WallClock::new(Tick(0), BEGIN);
            let wall = run(&mut clock, 0..1_000_001, every, offset);
            let left = away(wall, 1_000_000 / every as u64 * every as u64, offset);
            assert!(
                (19_900..=20_100).contains(&left),
                "{offset}, every {every}: {left}"
            );
            assert_eq!(clock.apart_ms(), None);
            let wall = run(&mut clock, 1_000_001..3_100_000, every, offset);
            let end = 1_000_001 + (3_099_999 - 1_000_001) / every as u64 * every as u64;
            assert_eq!(away(wall, end, offset), 0, "{offset}, every {every}");
        }
    }
}

#[test]
fn m6_a_large_difference_is_reported_and_not_followed() {
    for offset in [-3_600_000, 61_000, 86_400_000] {
        let mut clock = WallClock::new(Tick(0), BEGIN);
        let wall = run(&mut clock, 0..100_001, 10, offset);
        assert_eq!(wall.0, BEGIN.0 + 100_000, "it goes on as before");
        assert_eq!(clock.apart_ms(), Some(offset.unsigned_abs()));
        // Set right again: nothing was lost.
        assert_eq!(run(&mut clock, 100_010..100_020, 1, 0).0, BEGIN.0 + 100_019);
        assert_eq!(clock.apart_ms(), None);
    }
}

#[test]
fn m6_a_start_goes_on_from_the_last_entry() {
    let mut clock = WallClock::new(Tick(0), BEGIN);
    clock.begin_at(WallMs(BEGIN.0 - 5));
    assert_eq!(
        clock.read(Tick(0), BEGIN),
        BEGIN,
        "an older entry changes nothing"
    );
    clock.begin_at(WallMs(BEGIN.0 + 10_000));
    let wall = run(&mut clock, 1..1_000_002, 1, 0);
    assert_eq!(
        away(wall, 1_000_001, 0),
        0,
        "met after a million milliseconds"
    );
    let mut far = WallClock::new(Tick(0), BEGIN);
    far.begin_at(WallMs(BEGIN.0 + 3_600_000));
    assert_eq!(run(&mut far, 0..1_001, 1, 0).0, BEGIN.0 + 3_601_000);
    assert_eq!(far.apart_ms(), Some(3_600_000));
}

proptest! {
    /// Whatever the system's clock does.
    #[test]
    fn m6_it_never_goes_back_and_is_never_far_from_time(
        steps in prop::collection::vec((0_u64..5_000, -100_000_i64..100_000), 1..200),
    ) {
        let mut clock = WallClock::new(Tick(0), BEGIN);
        let (mut tick, mut before) = (0, BEGIN);
        for (passed, offset) in steps {
            tick += passed;
            let system = (BEGIN.0 + tick).checked_add_signed(offset).expect("within range");
            let wall = clock.read(Tick(tick), WallMs(system));
            prop_assert!(wall >= before);
            prop_assert!((wall.0 - before.0).abs_diff(passed) <= passed / 100 + 1);
            prop_assert!(wall.0.abs_diff(BEGIN.0 + tick) <= tick / 100 + 1);
            before = wall;
        }
    }
}
