use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds {
    of_all: Amount {
        count: 8,
        bytes: 80,
    },
    of_one: Amount {
        count: 4,
        bytes: 40,
    },
};

fn address(last: u8) -> Origin {
    Origin::V4([192, 0, 2, last])
}

impl<W> Lanes<W> {
    /// See the module.
    fn check(&self) {
        let mut held = Amount::default();
        for (origin, lane) in &self.lanes {
            assert!(!lane.waiters.is_empty(), "{origin:?}: an empty lane");
            let bytes = lane.waiters.values().map(|it| it.bytes).sum();
            let count = lane.waiters.len();
            assert_eq!(lane.held, Amount { count, bytes });
            assert!(count <= self.bounds.of_one.count && bytes <= self.bounds.of_one.bytes);
            if let Some(place) = lane.place {
                assert_eq!(self.round.get(&place), Some(origin));
            }
            held.count += count;
            held.bytes += bytes;
        }
        assert_eq!(self.held, held);
        assert!(held.count <= self.bounds.of_all.count && held.bytes <= self.bounds.of_all.bytes);
        let placed = self.lanes.values().filter(|lane| lane.place.is_some());
        assert_eq!(self.round.len(), placed.count());
    }
}

fn order(lanes: &mut Lanes<u8>) -> Vec<u8> {
    std::iter::from_fn(|| lanes.take(|_| Turn::Over(())).map(|(_, who, ())| who)).collect()
}

#[test]
fn i10_addresses_have_their_turns_one_after_the_other() {
    let mut lanes = Lanes::new(BOUNDS);
    for (from, who) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
        assert!(lanes.push(address(from), 1, || who).is_some());
        lanes.check();
    }
    let ahead = [1, 3, 4].map(|from| lanes.ahead_of(address(from)));
    assert_eq!(
        ahead,
        [6, 5, 3],
        "all; two of each that has them; one of each"
    );
    assert_eq!(order(&mut lanes), [10, 20, 30, 11, 21, 12]);
    lanes.check();
}

#[test]
fn i10_an_address_that_may_not_go_on_holds_up_nobody_else() {
    let mut lanes = Lanes::new(BOUNDS);
    for (from, who) in [(1, 10), (2, 20), (2, 21)] {
        lanes.push(address(from), 1, || who);
    }
    let take = |lanes: &mut Lanes<u8>| {
        let may = |origin| match origin == address(1) {
            true => Turn::NotYet,
            false => Turn::Over(()),
        };
        lanes.take(may).map(|(_, who, ())| who)
    };
    assert_eq!(take(&mut lanes), Some(20));
    assert_eq!(take(&mut lanes), Some(21));
    assert_eq!(take(&mut lanes), None);
    lanes.check();
    assert!(order(&mut lanes).is_empty(), "it is out of the round");
    lanes.ready(address(1));
    assert_eq!(order(&mut lanes), [10]);
}

#[test]
fn i9_no_more_wait_than_may() {
    let mut lanes = Lanes::new(BOUNDS);
    let came = |lanes: &mut Lanes<u8>, from, bytes| lanes.push(address(from), bytes, || 0);
    let first = came(&mut lanes, 1, 37).expect("there is room");
    assert_eq!(came(&mut lanes, 1, 4), None, "of one address by bytes");
    for _ in 0..3 {
        assert!(came(&mut lanes, 1, 1).is_some());
    }
    assert_eq!(came(&mut lanes, 1, 0), None, "of one address");
    assert!(came(&mut lanes, 2, 40).is_some());
    assert_eq!(came(&mut lanes, 3, 1), None, "of all by bytes");
    assert!(lanes.remove(first) && !lanes.remove(first));
    lanes.check();
    for from in 3..7 {
        assert!(came(&mut lanes, from, 1).is_some());
    }
    assert_eq!(came(&mut lanes, 7, 0), None, "of all");
    lanes.check();
}

proptest! {
    #[test]
    fn i9_lanes_are_what_they_say(steps in prop::collection::vec((0_u8..4, 1_u8..5, 0_u64..20), 1..200)) {
        let mut lanes = Lanes::new(BOUNDS);
        let (mut tickets, mut waits) = (Vec::new(), 0_usize);
        for (step, from, bytes) in steps {
            let origin = address(from);
            match step {
                0 => if let Some(ticket) = lanes.push(origin, bytes, || 0_u8) {
                    tickets.push(ticket);
                    waits += 1;
                },
                1 => if let Some(ticket) = tickets.pop() {
                    waits -= usize::from(lanes.remove(ticket));
                },
                2 => lanes.ready(origin),
                _ => {
                    let may = |other| if other == origin { Turn::NotYet } else { Turn::Over(()) };
                    waits -= usize::from(lanes.take(may).is_some());
                }
            }
            lanes.check();
            prop_assert_eq!(lanes.held.count, waits);
        }
        (1..5).for_each(|from| lanes.ready(address(from)));
        prop_assert_eq!(order(&mut lanes).len(), waits, "each has its turn");
        lanes.check();
        prop_assert!(lanes.lanes.is_empty() && lanes.round.is_empty());
    }
}
