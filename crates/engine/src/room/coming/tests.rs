use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const STREAM: u64 = 7;

/// One stream, and a plain list of what comes to it: bytes, and whether it may be dropped.
#[derive(Default)]
struct Bench {
    coming: Coming,
    reserved: Reserved,
    next: u64,
    model: VecDeque<(u32, bool)>,
}

impl Bench {
    fn comes(&mut self, bytes: u32, notes: bool) {
        self.reserved.comes(bytes.into());
        if notes {
            self.coming.note(STREAM, bytes.into());
        } else {
            assert!(!self.coming.is_noted(), "then all are");
        }
        self.model.push_back((bytes, notes));
    }

    fn arrives(&mut self) {
        let Some((bytes, _)) = self.model.pop_front() else {
            return;
        };
        self.coming.arrives(STREAM, &mut self.reserved, bytes);
        self.next += 1;
    }

    fn drop_oldest(&mut self) -> Option<u64> {
        let at = self.model.iter().position(|(_, may_go)| *may_go);
        let dropped = self
            .coming
            .drop_oldest(STREAM, self.next, &mut self.reserved);
        let expected = at.map(|at| self.next + at as u64);
        assert_eq!(dropped, expected, "the oldest that may go goes");
        if let Some(at) = at {
            self.model[at].1 = false;
        }
        dropped
    }

    fn check(&self) {
        assert_eq!(self.reserved.coming as usize, self.model.len());
        let known = self.model.iter().filter(|(_, may_go)| *may_go);
        assert_eq!(self.coming.known_of(STREAM) as usize, known.clone().count());
        let all = self.coming.mixed.get(&STREAM).into_iter().flatten();
        let listed: u32 = all.map(|run| run.messages).sum();
        assert!(
            listed == 0 || listed == self.coming.known_of(STREAM),
            "a list has all"
        );
    }
}

#[test]
fn m12_what_comes_without_a_size_is_left_alone() {
    let mut bench = Bench::default();
    bench.comes(10, false);
    assert_eq!(bench.drop_oldest(), None);
    bench.comes(10, true);
    assert_eq!(bench.drop_oldest(), Some(1));
    assert_eq!(bench.drop_oldest(), None);
    bench.arrives();
    bench.arrives();
    assert_eq!(bench.coming.known_of(STREAM), 0);
    assert_eq!(bench.reserved.coming, 0);
}

#[test]
fn m12_the_bytes_of_what_is_dropped_are_its_own() {
    let mut bench = Bench::default();
    let mut bytes = Vec::new();
    for each in [10, 10, 20, 20, 20, 10] {
        bench.comes(each, true);
    }
    let mut before = bench.reserved.bytes;
    while bench.drop_oldest().is_some() {
        bytes.push(before - bench.reserved.bytes);
        before = bench.reserved.bytes;
    }
    assert_eq!(bytes, [10, 10, 20, 20, 20, 10]);
    bench.coming.check_idle();
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Comes(u32),
    Arrives,
    Drop,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..4u32).prop_map(Step::Comes),
        2 => Just(Step::Arrives),
        2 => Just(Step::Drop),
    ]
}

proptest! {
    /// The same as a plain list of all that comes.
    #[test]
    fn m4_what_comes_is_known_by_its_place_and_its_bytes(
        unnoted in 0..4u32,
        steps in prop::collection::vec(step(), 0..100),
    ) {
        let mut bench = Bench::default();
        for _ in 0..unnoted {
            bench.comes(5, false);
        }
        let mut freed = 0;
        for step in steps {
            match step {
                Step::Comes(bytes) => bench.comes(bytes, true),
                Step::Arrives => bench.arrives(),
                Step::Drop => {
                    let before = bench.reserved;
                    if bench.drop_oldest().is_some() {
                        prop_assert_eq!(bench.reserved.messages, before.messages - 1);
                        freed += before.bytes - bench.reserved.bytes;
                    }
                }
            }
            bench.check();
            let coming: i64 = bench.model.iter().map(|(bytes, _)| i64::from(*bytes)).sum();
            prop_assert_eq!(bench.reserved.bytes, coming - freed);
        }
        while !bench.model.is_empty() {
            bench.arrives();
            bench.check();
        }
        prop_assert_eq!(bench.coming.known_of(STREAM), 0);
        prop_assert_eq!(bench.reserved.bytes, -freed);
        bench.coming.check_idle();
    }
}
