use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::record::{ASKED, MOVING};

fn row(block: u32, index: u64, refs: u32) -> Row {
    let address = Address {
        index,
        ordinal: (index as u32 * 40) % 65_536 / 8 * 8,
    };
    Row::new(block, (index % 7) as u32 * 40, refs, address)
}

/// A table with so many rows, all of them cold.
fn cold(count: u64) -> (Rows, Vec<u32>) {
    let mut rows = Rows::default();
    let numbers: Vec<u32> = (0..count)
        .map(|at| rows.add(row(1, 1_000_000 + at / 50, 1)))
        .collect();
    for number in &numbers {
        rows.cool(*number, (170, Expiry::NONE));
    }
    rows.check();
    (rows, numbers)
}

#[test]
fn a_record_at_hand_that_stays_is_counted_no_more_once_it_is_gone() {
    let mut rows = Rows::default();
    let number = rows.add(row(1, 1, 2));
    rows.pin(number, 1);
    for is_gone in [false, false, true] {
        let released = rows.release_at_hand(number).expect("it is in memory");
        assert_eq!((released.block, released.offset), (1, 40));
        assert_eq!(released.is_gone, is_gone);
        rows.check();
    }
    assert_eq!(rows.add(row(2, 2, 1)), number, "its place is free");
    rows.check();
}

/// Bytes of each row of a table with so many cold ones that expire then.
fn each_that_expires(count: u64, expiry: impl Fn(u64) -> Expiry) -> f64 {
    let mut rows = Rows::default();
    for at in 0..count {
        let number = rows.add(row(1, 1_000_000 + at / 50, 1));
        rows.cool(number, (170, expiry(at)));
    }
    rows.check();
    for at in 0..count {
        assert_eq!(rows.expiry(at as u32), expiry(at), "row {at}");
    }
    rows.held_bytes() as f64 / count as f64
}

#[test]
fn when_cold_rows_expire_takes_what_differs_within_a_page() {
    const COUNT: u64 = 100 * PAGE as u64;
    let none = each_that_expires(COUNT, |_| Expiry::NONE);
    let after =
        |at: u64, seconds: u64| Expiry::from_seconds((1_790_000_000 + at / 100 + seconds) as u32);
    let same = each_that_expires(COUNT, |at| after(at, 3_600));
    let week = each_that_expires(COUNT, |at| after(at, at * 7_919 % 604_800));
    let some = each_that_expires(COUNT, |at| match at % 2 {
        0 => Expiry::NONE,
        _ => after(at, 3_600),
    });
    eprintln!(
        "a cold row: {none:.2} bytes, {same:.2} with an expiry, {week:.2} with any within a week"
    );
    assert!(none <= 4.0, "{none} bytes");
    // Of eleven seconds, and of a week.
    assert!(same <= none + 4.0 / 8.0, "{same} bytes");
    assert!(some <= none + 4.0 / 8.0, "{some} bytes");
    assert!(week <= none + 20.0 / 8.0, "{week} bytes");
}

#[test]
fn a_row_says_when_its_record_expires_wherever_it_is_kept() {
    let at = |seconds| (170, Expiry::from_seconds(seconds));
    let mut rows = Rows::default();
    let numbers: Vec<u32> = (0..PAGE as u64).map(|at| rows.add(row(1, at, 1))).collect();
    // Of an open page.
    rows.cool(3, at(30));
    rows.cool(4, (170, Expiry::NONE));
    assert_eq!([3, 4].map(|at| rows.expiry(at).seconds()), [30, 0]);
    // The next record of that row has nothing of it.
    drop_all(&mut rows, &[3]);
    assert_eq!(rows.add(row(1, 7, 1)), 3);
    rows.cool(3, (170, Expiry::NONE));
    assert_eq!(rows.expiry(3), Expiry::NONE);
    let open = rows.held_bytes();
    for number in numbers.iter().filter(|at| !(3..=4).contains(*at)) {
        rows.cool(*number, at(number + 1));
    }
    // Of a packed one, of one that is asked for, and of one that has no place there any more.
    rows.check();
    assert!(rows.held_bytes() < open / 2);
    let all = |rows: &Rows| (5..PAGE as u32).all(|at| rows.expiry(at).seconds() == at + 1);
    assert!(all(&rows) && rows.expiry(3) == Expiry::NONE);
    assert_eq!(rows.warm(9, ASKED).block, ASKED);
    rows.get_mut(9).refs += 200;
    assert!(all(&rows));
    rows.get_mut(9).block = 7;
    rows.cool(9, at(10));
    assert!(all(&rows) && rows.out.len() == 1);
    // Most of the page goes, and the rest is packed again.
    drop_all(&mut rows, &numbers[600..]);
    drop_all(&mut rows, &numbers[10..200]);
    assert!((200..600).all(|at| rows.expiry(at).seconds() == at + 1));
    assert_eq!([3, 8].map(|at| rows.expiry(at).seconds()), [0, 9]);
}

fn drop_all(rows: &mut Rows, numbers: &[u32]) {
    for number in numbers {
        assert!(rows.release(*number));
        rows.remove(*number);
    }
    rows.check();
}

#[test]
fn a_page_of_cold_rows_takes_a_fifth() {
    let (rows, numbers) = cold(100 * PAGE as u64);
    let each = rows.held_bytes() as f64 / numbers.len() as f64;
    eprintln!("a cold row: {each:.2} bytes");
    assert!(each <= 4.0, "{each} bytes");
    for (at, number) in numbers.iter().enumerate() {
        let (was, is) = (row(COLD, 1_000_000 + at as u64 / 50, 1), rows.get(*number));
        assert_eq!(is, Row { offset: 170, ..was });
    }
}

#[test]
fn rows_whose_records_are_expected_take_no_more_before_they_come_than_after() {
    let mut rows = Rows::default();
    let expected = |at: u32| row(EXPECTED, 1_000_000 + u64::from(at) / 50, 1);
    let last = 8 * PAGE as u32 + 9;
    for at in 0..=last {
        let Row { refs, .. } = expected(at);
        assert_eq!(rows.expect(expected(at).address(), refs), at);
    }
    rows.check();
    let packed = 8 * PAGE * 4;
    assert!(rows.held_bytes() < packed + PAGE_BYTES);
    for at in 0..=last {
        let was = Row {
            offset: 0,
            ..expected(at)
        };
        assert_eq!(rows.get(at), was);
        rows.get_expected(at).block = MOVING;
        assert_eq!(
            rows.get(at),
            Row {
                block: MOVING,
                ..was
            }
        );
        rows.cool(at, (170, Expiry::NONE));
        assert!(rows.held_bytes() < packed + 2 * PAGE_BYTES, "row {at}");
    }
    rows.check();
    assert!(rows.held_bytes() < packed + PAGE_BYTES && rows.out.is_empty());
}

/// Of the records of a start all stay in the log but one in so many.
fn left(one_in: u32) -> Rows {
    let mut rows = Rows::default();
    for at in 0..4 * PAGE as u32 + 9 {
        let address = row(COLD, 1_000_000 + u64::from(at) / 50, 1).address();
        let number = match at % one_in {
            0 => rows.expect(address, 1),
            _ => rows.expect_cold(address, 1, (170, Expiry::NONE)),
        };
        assert_eq!(number, at);
    }
    rows.check();
    rows
}

#[test]
fn rows_whose_records_stay_in_the_log_are_packed_and_the_others_find_theirs() {
    for one_in in [2, 10, 5_000] {
        let mut rows = left(one_in);
        let open = rows.pages.iter().flatten().count();
        assert_eq!(open, if one_in == 2 { 5 } else { 1 }, "one in {one_in}");
        let end = rows.end() as u32;
        for at in (0..end).step_by(one_in as usize) {
            assert_eq!(rows.get(at).block, EXPECTED);
            rows.get_expected(at).block = MOVING;
            rows.get_mut(at).block = 7;
        }
        rows.check();
        for at in 0..end {
            let Row { block, offset, .. } = rows.get(at);
            let is = if at % one_in == 0 {
                (7, 0)
            } else {
                (COLD, 170)
            };
            assert_eq!((block, offset), is, "row {at}, one in {one_in}");
        }
        drop_all(&mut rows, &(0..end).collect::<Vec<_>>());
    }
}

#[test]
fn what_has_gone_from_packed_pages_takes_no_memory() {
    let (mut rows, numbers) = cold(64 * PAGE as u64);
    let before = rows.held_bytes();
    // One in a hundred stays.
    let (stay, go): (Vec<u32>, Vec<u32>) = numbers.iter().partition(|number| **number % 100 == 0);
    drop_all(&mut rows, &go);
    assert!(
        rows.held_bytes() < before / 8,
        "{} of {before} bytes",
        rows.held_bytes()
    );
    drop_all(&mut rows, &stay);
    assert!(rows.packed.iter().all(Option::is_none) && rows.pages.iter().all(Option::is_none));
    // Their numbers are used again.
    let number = rows.add(row(1, 1, 1));
    assert!((number as usize) < 64 * PAGE);
}

#[test]
fn a_page_with_free_rows_waits_until_they_are_used_again() {
    let mut rows = Rows::default();
    let numbers: Vec<u32> = (0..PAGE as u64).map(|at| rows.add(row(1, at, 1))).collect();
    drop_all(&mut rows, &numbers[7..8]);
    for number in numbers.iter().filter(|number| **number != 7) {
        rows.cool(*number, (8, Expiry::NONE));
    }
    assert_eq!(rows.held_bytes(), PAGE_BYTES);
    assert_eq!(rows.add(row(1, 9, 1)), 7);
    rows.cool(7, (8, Expiry::NONE));
    rows.check();
    assert!(rows.held_bytes() < PAGE_BYTES / 4);
}

#[test]
fn a_cold_row_of_many_places_loses_them_one_by_one() {
    let mut rows = Rows::default();
    let numbers: Vec<u32> = (0..PAGE as u64).map(|at| rows.add(row(1, at, 5))).collect();
    let known = (8, Expiry::NONE);
    numbers.iter().for_each(|number| rows.cool(*number, known));
    for left in (0..5).rev() {
        let mut last = numbers.iter().map(|number| rows.release(*number));
        assert!(last.all(|is_last| is_last == (left == 0)));
    }
    assert!(rows.out.is_empty());
}

/// What may happen to a row; `at` says to which of those that are there.
#[derive(Clone, Debug)]
enum Step {
    Add {
        count: usize,
        refs: u32,
    },
    /// So many rows from one on, in the order of their numbers.
    Cool {
        at: usize,
        count: usize,
    },
    Ask {
        at: usize,
        count: usize,
    },
    Pin {
        at: usize,
    },
    Keep {
        at: usize,
    },
    Release {
        at: usize,
        count: usize,
        step: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..10_000usize;
    prop_oneof![
        (1..3_000usize, 1..4u32).prop_map(|(count, refs)| Step::Add { count, refs }),
        (at.clone(), 1..5_000usize).prop_map(|(at, count)| Step::Cool { at, count }),
        (at.clone(), 1..30usize).prop_map(|(at, count)| Step::Ask { at, count }),
        at.clone().prop_map(|at| Step::Pin { at }),
        at.clone().prop_map(|at| Step::Keep { at }),
        (at, 1..3_000usize, 1..4usize).prop_map(|(at, count, step)| Step::Release {
            at,
            count,
            step
        }),
    ]
}

/// The table, and what it should say.
#[derive(Default)]
struct World {
    rows: Rows,
    model: BTreeMap<u32, Row>,
    /// Of those that have been cold.
    expiries: BTreeMap<u32, Expiry>,
    added: u64,
}

/// Some do not expire, some soon, some at any time.
fn some_expiry(number: u32, at: usize) -> Expiry {
    Expiry::from_seconds(match (at + number as usize / 700) % 3 {
        0 => 0,
        1 => 1_790_000_000 + number % 1_000 / 900 * number,
        _ => number.wrapping_mul(2_654_435_761),
    })
}

impl World {
    fn some(&self, at: usize, count: usize) -> Vec<(u32, Row)> {
        let first = at % self.model.len().max(1);
        let rows = self.model.iter().skip(first).take(count);
        rows.map(|(number, row)| (*number, *row)).collect()
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Add { count, refs } => {
                for _ in 0..count {
                    let row = row(3, self.added / 20, refs);
                    self.added += 1;
                    let number = self.rows.add(row);
                    assert_eq!(self.model.insert(number, row), None, "it was free");
                }
            }
            Step::Cool { at, count } => {
                for (number, row) in self.some(at, count) {
                    if row.block != COLD && row.refs & PINNED == 0 {
                        // A record that was cold before is the same one.
                        let expiry = self.expiries.entry(number);
                        let expiry = *expiry.or_insert_with(|| some_expiry(number, at));
                        self.rows.cool(number, (number % 300, expiry));
                        let row = self.model.get_mut(&number).expect("it is there");
                        (row.block, row.offset) = (COLD, number % 300);
                    }
                }
            }
            Step::Ask { at, count } => {
                for (number, row) in self.some(at, count) {
                    if row.block == COLD {
                        let asked = Row {
                            block: ASKED,
                            ..row
                        };
                        assert_eq!(self.rows.warm(number, ASKED), asked);
                        self.model.insert(number, asked);
                    }
                }
            }
            Step::Pin { at } => {
                for (number, row) in self.some(at, 1) {
                    if row.block != COLD {
                        let block = if at % 2 == 0 { 2 } else { MOVING };
                        self.rows.get_mut(number).block = block;
                        self.rows.stay(number);
                        let row = self.model.get_mut(&number).expect("it is there");
                        (row.block, row.refs) = (block, row.refs | PINNED);
                    }
                }
            }
            Step::Keep { at } => {
                for (number, _) in self.some(at, 1) {
                    self.rows.get_mut(number).refs += 1;
                    self.model.get_mut(&number).expect("it is there").refs += 1;
                }
            }
            Step::Release { at, count, step } => {
                for (number, mut row) in self.some(at, count).into_iter().step_by(step) {
                    let is_last = row.refs & !PINNED == 1;
                    let is_at_hand =
                        row.block < ABSENT && self.rows.pages[place(number).0 as usize].is_some();
                    // The general way does for these as well.
                    let is_quick = step != 2 && is_at_hand;
                    let released = match step {
                        2 => None,
                        _ => self.rows.release_at_hand(number),
                    };
                    assert_eq!(released.is_some(), is_quick);
                    match released {
                        Some(it) => assert_eq!(
                            (it.block, it.offset, it.is_gone),
                            (row.block, row.offset, is_last)
                        ),
                        None => {
                            assert_eq!(self.rows.release(number), is_last);
                            assert_eq!(self.rows.get(number).block, row.block);
                        }
                    }
                    if is_last {
                        if !is_quick {
                            assert_eq!(self.rows.get(number), row);
                            self.rows.remove(number);
                        }
                        self.model.remove(&number);
                        self.expiries.remove(&number);
                    } else {
                        row.refs -= 1;
                        self.model.insert(number, row);
                    }
                }
            }
        }
    }

    fn check(&self) {
        self.rows.check();
        let live = self.rows.from(0).filter(|(_, row)| row.block != FREE);
        assert!(live.eq(self.model.iter().map(|(number, row)| (*number, *row))));
        for (number, expiry) in &self.expiries {
            if [COLD, ASKED].contains(&self.model[number].block) {
                assert_eq!(self.rows.expiry(*number), *expiry, "row {number}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_are_what_was_said_of_them(steps in prop::collection::vec(step(), 1..25)) {
        let mut world = World::default();
        for step in &steps {
            world.run(step);
            world.check();
        }
        let all = world.some(0, usize::MAX);
        for (number, row) in all {
            for _ in 0..row.refs & !PINNED {
                world.rows.release(number);
            }
            world.rows.remove(number);
        }
        world.rows.check();
        prop_assert!(world.rows.out.is_empty());
        prop_assert_eq!(world.rows.from(0).filter(|(_, row)| row.block != FREE).count(), 0);
    }
}
