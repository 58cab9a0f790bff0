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
        let mut held = [Amount::default(); 2];
        for (origin, lane) in &self.lanes {
            assert!(!lane.waiters.is_empty(), "{origin:?}: an empty lane");
            let bytes = lane.waiters.values().map(|it| it.bytes).sum();
            let count = lane.waiters.len();
            assert_eq!(lane.held, Amount { count, bytes });
            assert!(count <= self.bounds.of_one.count && bytes <= self.bounds.of_one.bytes);
            if let Some(place) = lane.place {
                assert_eq!(self.rounds[lane.rank as usize].get(&place), Some(origin));
            }
            held[lane.rank as usize].count += count;
            held[lane.rank as usize].bytes += bytes;
        }
        assert_eq!(self.held, held);
        let of_all = self.bounds.of_all;
        assert!(
            held.iter()
                .all(|it| it.count <= of_all.count && it.bytes <= of_all.bytes)
        );
        let placed = self.lanes.values().filter(|lane| lane.place.is_some());
        let places: usize = self.rounds.iter().map(BTreeMap::len).sum();
        assert_eq!(places, placed.count());
    }
}

fn other(last: u8) -> (Origin, Rank) {
    (address(last), Rank::Other)
}

fn order(lanes: &mut Lanes<u8>) -> Vec<u8> {
    std::iter::from_fn(|| lanes.take(|_| Turn::Over(())).map(|(_, who, ())| who)).collect()
}

#[test]
fn i10_addresses_have_their_turns_one_after_the_other() {
    let mut lanes = Lanes::new(BOUNDS);
    for (from, who) in [(1, 10), (1, 11), (1, 12), (2, 20), (3, 30), (2, 21)] {
        assert!(lanes.push(other(from), 1, || who).is_some());
        lanes.check();
    }
    let ahead = [1, 3, 4].map(|from| lanes.ahead_of(address(from), Rank::Other));
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
        lanes.push(other(from), 1, || who);
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

/// However many strangers wait, a regular address has three turns of four, and room.
#[test]
fn i10_strangers_do_not_hold_up_regular_addresses() {
    let mut lanes = Lanes::new(BOUNDS);
    for from in 1..=8 {
        assert!(lanes.push(other(from), 10, || from).is_some());
    }
    assert!(
        lanes.push(other(9), 1, || 9).is_none(),
        "no room for others"
    );
    let regular = |last| (address(last), Rank::Regular);
    for (from, who) in [(20, 20), (21, 21), (22, 22), (23, 23)] {
        let ahead = lanes.ahead_of(address(from), Rank::Regular);
        let before = usize::from(from - 20);
        assert_eq!(ahead, before + 1 + before / 3);
        assert!(lanes.push(regular(from), 1, || who).is_some());
        lanes.check();
    }
    assert_eq!(lanes.ahead_of(address(1), Rank::Other), 12);
    // Who waits already keeps its rank, and its order.
    assert!(lanes.push(other(20), 1, || 24).is_some());
    let expected = [20, 21, 22, 1, 23, 24, 2, 3, 4, 5, 6, 7, 8];
    assert_eq!(order(&mut lanes), expected);
    lanes.check();
}

#[test]
fn i9_no_more_wait_than_may() {
    let mut lanes = Lanes::new(BOUNDS);
    let came = |lanes: &mut Lanes<u8>, from, bytes| lanes.push(other(from), bytes, || 0);
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
            let rank = if bytes % 2 == 0 { Rank::Regular } else { Rank::Other };
            match step {
                0 => if let Some(ticket) = lanes.push((origin, rank), bytes, || 0_u8) {
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
            prop_assert_eq!(lanes.held.iter().map(|it| it.count).sum::<usize>(), waits);
        }
        (1..5).for_each(|from| lanes.ready(address(from)));
        prop_assert_eq!(order(&mut lanes).len(), waits, "each has its turn");
        lanes.check();
        prop_assert!(lanes.lanes.is_empty() && lanes.rounds.iter().all(BTreeMap::is_empty));
    }
}
