use super::*;

#[test]
fn everything_in_order_is_no_fault() {
    let mut arrivals = Arrivals::new(2);
    for number in 0..10 {
        assert_eq!(arrivals.note(0, number, false), Arrival::First);
        assert_eq!(arrivals.note(1, number, false), Arrival::First);
    }
    assert_eq!(
        arrivals.faults([(0, 10), (1, 10)].into_iter()),
        Faults::default()
    );
}

#[test]
fn a_gap_is_lost_until_it_arrives_late() {
    let mut arrivals = Arrivals::new(1);
    for number in [0, 3, 4] {
        arrivals.note(0, number, false);
    }
    assert_eq!(arrivals.faults([(0, 6)].into_iter()).lost, 3);
    assert_eq!(arrivals.note(0, 1, true), Arrival::First);
    assert_eq!(arrivals.note(0, 1, true), Arrival::Other);
    assert_eq!(arrivals.note(0, 4, false), Arrival::Other);
    assert_eq!(arrivals.note(9, 0, false), Arrival::Other);
    let expected = Faults {
        lost: 2,
        outstanding: 1,
        duplicates_marked: 1,
        duplicates_unmarked: 1,
        out_of_order: 1,
        foreign: 1,
    };
    assert_eq!(arrivals.faults([(0, 6)].into_iter()), expected);
}

#[test]
fn a_group_gets_each_message_once_and_each_member_in_order() {
    let mut group = GroupArrivals::new(1);
    for (member, number) in [(0, 0), (1, 1), (0, 2), (1, 200), (0, 3)] {
        assert_eq!(group.note(member, 0, number, false), Arrival::First);
    }
    assert_eq!(group.note(0, 0, 200, true), Arrival::Other);
    assert_eq!(group.note(1, 0, 4, false), Arrival::First);
    assert_eq!(group.note(1, 0, 1 << 40, false), Arrival::Other);
    let faults = group.faults([(0, 300)].into_iter());
    assert_eq!((faults.lost, faults.outstanding), (294, 99));
    let faults = group.faults([(0, 7)].into_iter());
    assert_eq!(
        (faults.lost, faults.duplicates_marked, faults.out_of_order),
        (1, 1, 1)
    );
    assert_eq!(faults.foreign, 1);
}
