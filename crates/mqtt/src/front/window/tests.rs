//! The window by itself, where a connection would take too long to come there.

use std::collections::BTreeSet;

use courser_contract::{GroupRef, PartitionId, Seq, Source};

use super::{Exchange, Window};

const GROUP: GroupRef = GroupRef {
    partition: PartitionId(4),
    group: 77,
};

/// The client is done with all that it gets, and the group has committed nothing of it.
#[test]
fn an_id_of_a_group_is_given_again_only_once_its_end_is_committed_m31() {
    // v5 [MQTT-2.2.1-4]
    for from in [0, 1, 32_767] {
        let mut window = Window::new(32_767, from);
        let earlier = 32_768 + from.wrapping_add(100) % 32_768;
        window.resume((Source::Group(GROUP), Seq(900_000)), earlier);
        let mut given = BTreeSet::from([earlier]);
        for seq in 0..32_767 {
            assert!(window.has_room_for_group(), "{seq} of them have ids");
            let place = (Source::Group(GROUP), Seq(seq));
            let packet_id = window.begin(place, Exchange::Pubcomp).expect("it is new");
            assert!(given.insert(packet_id), "{packet_id} is in use");
            window.end(packet_id);
        }
        window.check();
        assert!(window.has_room() && !window.has_room_for_group());
        let (packet_id, _) = window
            .locate((Source::Group(GROUP), Seq(5)))
            .expect("its end is not committed");
        window.finished(GROUP, Seq(5));
        assert!(window.has_room_for_group());
        let place = (Source::Group(GROUP), Seq(40_000));
        assert_eq!(window.begin(place, Exchange::Pubcomp), Some(packet_id));
        assert!(!window.has_room_for_group());
        window.check();
    }
}
