//! Packet ids of shared deliveries (M31).

use std::num::NonZeroU16;

use courser_contract::{Attached, DeliverFlags, DeliverTo, GroupRef, QoS, Seq, Source, ToFront};

use super::support::{Client, DURABLE, GROUP, Hello, V5, attached, packet_id, to_group, view};
use crate::codec::{Packet, Property, Pubrec};
use crate::front::window::Exchange;

const NAME: u64 = 5;

fn connecting(window: u16) -> Client {
    let mut client = Client::new(V5, |_| {});
    client.connects(&Hello {
        clean_start: false,
        properties: &[
            Property::SessionExpiryInterval(100),
            Property::ReceiveMaximum(NonZeroU16::new(window).unwrap()),
        ],
        ..Hello::default()
    });
    client
}

fn attached_to_group() -> ToFront {
    // Of this epoch ids of groups begin at 32,768.
    match attached(DURABLE, 0, true) {
        ToFront::Attached(attached) => ToFront::Attached(Attached {
            groups: vec![NAME],
            ..attached
        }),
        other => other,
    }
}

/// A client that has taken a session up which one group may owe something.
fn resumed(window: u16) -> Client {
    let mut client = connecting(window);
    client.told(attached_to_group());
    client.hears();
    client.effects();
    client
}

fn owed(name: u64) -> ToFront {
    ToFront::Owed { group: GROUP, name }
}

fn name(seq: u64) -> ToFront {
    ToFront::Name {
        group: GROUP,
        seq: Seq(seq),
    }
}

fn given(seq: u64, packet_id: u16, duplicate: bool) -> DeliverTo {
    DeliverTo {
        packet_id: Some(packet_id),
        flags: DeliverFlags {
            duplicate,
            shared: true,
            ..DeliverFlags::default()
        },
        ..to_group(seq, QoS::ExactlyOnce)
    }
}

#[test]
fn ids_of_groups_are_used_once_all_groups_have_said_what_they_owe_m31() {
    let mut client = resumed(10);
    let message = view("t", QoS::AtLeastOnce, b"m");
    client.gets_stored(message, &to_group(7, QoS::AtLeastOnce));
    client.told(owed(NAME + 1));
    client.told(name(8));
    assert!(client.hears().is_empty() && client.effects().is_empty());
    // v5 [MQTT-4.4.0-1]: under its old id
    client.gets_stored(view("t", QoS::ExactlyOnce, b"m"), &given(3, 32_768, true));
    let heard = client.hears();
    assert!(
        heard.len() == 1 && heard[0].contains("id=32768"),
        "{heard:?}"
    );
    let group = GroupRef { group: 78, ..GROUP };
    client.told(ToFront::Owed { group, name: NAME });
    let heard = client.hears();
    assert!(
        heard.len() == 1 && heard[0].contains("id=32769"),
        "{heard:?}"
    );
    assert_eq!(client.effects(), ["4: group 77 named 8 32770"]);
}

/// What went back to the group with the last connection may be acknowledged by its packet id: v5 [MQTT-2.2.1-4].
#[test]
fn each_connection_of_a_session_begins_with_other_ids_m31() {
    let mut begins = Vec::new();
    for epoch in (1..=1_000).chain((1..9).map(|term| term << 32 | 1)) {
        let mut client = connecting(10);
        client.told(withheld(3, 32_768));
        client.told(attached(DURABLE, epoch, true));
        client.hears();
        client.gets_stored(
            view("t", QoS::AtLeastOnce, b"m"),
            &to_group(7, QoS::AtLeastOnce),
        );
        let heard = client.hears();
        let (_, id) = heard[0].split_once("id=").expect("it is sent");
        let id: u16 = id.split(' ').next().unwrap().parse().unwrap();
        assert!(id > 32_768, "of groups, and not the one that is owed");
        begins.push(id);
        client.told(released(3, 32_768));
        assert_eq!(client.hears(), ["PUBREL 32768"]);
    }
    begins.sort_unstable();
    begins.dedup();
    assert_eq!(begins.len(), 1_008);
}

fn withheld(seq: u64, packet_id: u16) -> ToFront {
    ToFront::Withheld {
        group: GROUP,
        seq: Seq(seq),
        packet_id,
    }
}

fn released(seq: u64, packet_id: u16) -> ToFront {
    ToFront::Release {
        source: Source::Group(GROUP),
        seq: Seq(seq),
        packet_id: Some(packet_id),
    }
}

/// The client holds the packet id from an earlier connection: what came with it would be taken for a repeat.
#[test]
fn an_id_whose_message_is_lost_is_not_free_until_it_is_released_m31() {
    for is_early in [false, true] {
        let mut client = connecting(1);
        if is_early {
            client.told(withheld(3, 32_768));
            client.told(attached_to_group());
            client.hears();
            client.effects();
        } else {
            client.told(attached_to_group());
            client.hears();
            client.effects();
            client.told(withheld(3, 32_768));
        }
        client.told(owed(NAME));
        client.told(name(8));
        assert!(client.hears().is_empty());
        assert_eq!(
            client.effects(),
            ["4: group 77 named 8 32769"],
            "and the window is open"
        );
        client.told(released(3, 32_768));
        assert_eq!(client.hears(), ["PUBREL 32768"]);
        client.told(released(3, 32_768));
        assert!(client.hears().is_empty());
        client.pubcomps(32_768);
        assert_eq!(client.effects(), ["4: group 77 outcome 3..=3 Done"]);
    }
}

#[test]
fn what_was_lost_and_is_there_again_leaves_under_its_id_m31() {
    let mut client = resumed(10);
    client.told(withheld(3, 32_768));
    client.told(owed(NAME));
    client.gets_stored(view("t", QoS::ExactlyOnce, b"m"), &given(3, 32_768, true));
    let heard = client.hears();
    assert!(
        heard.len() == 1 && heard[0].contains("id=32768") && heard[0].contains("dup"),
        "{heard:?}"
    );
}

/// A new leader says what its own disk has lost, whatever this connection has come to.
#[test]
fn what_a_new_leader_cannot_send_goes_on_where_it_was_m27() {
    let mut client = resumed(1);
    client.gets_stored(view("t", QoS::ExactlyOnce, b"m"), &given(3, 32_768, true));
    client.told(owed(NAME));
    client.hears();
    client.told(withheld(3, 32_768));
    assert!(client.effects().is_empty(), "the client has been sent it");
    client.says(&Packet::Pubrec(Pubrec::new(packet_id(32_768))));
    client.effects();
    client.told(withheld(3, 32_768));
    assert_eq!(client.effects(), ["4: group 77 outcome 3..=3 Received"]);
    client.told(released(3, 32_768));
    assert_eq!(client.hears(), ["PUBREL 32768"]);
    client.pubcomps(32_768);
    client.effects();
    client.told(withheld(3, 32_768));
    assert_eq!(client.effects(), ["4: group 77 outcome 3..=3 Done"]);
}

/// An earlier leader has committed the packet id and not sent the message; this one has lost it, and releases it when that is accepted.
#[test]
fn what_was_named_and_never_came_is_released_m31() {
    for is_withheld in [false, true] {
        let mut client = resumed(1);
        client.told(owed(NAME));
        client.told(name(3));
        assert_eq!(client.effects(), ["4: group 77 named 3 32768"]);
        if is_withheld {
            client.told(withheld(3, 32_768));
        }
        client.told(released(3, 32_768));
        assert_eq!(client.hears(), ["PUBREL 32768"]);
        client.told(name(4));
        client.pubcomps(32_768);
        assert_eq!(
            client.effects(),
            [
                "4: group 77 named 4 32769",
                "4: group 77 outcome 3..=3 Done"
            ],
            "its place is free, its id is not"
        );
    }
}

#[test]
fn what_was_named_and_is_released_with_an_id_of_another_is_over_m31() {
    let mut client = resumed(10);
    client.told(owed(NAME));
    client.told(name(3));
    client.told(owed(NAME));
    client.told(name(4));
    client.told(name(3));
    let effects = client.effects();
    assert_eq!(
        effects[1..],
        ["4: group 77 named 4 32768", "4: group 77 named 3 32769"]
    );
    client.told(released(3, 32_768));
    assert!(client.hears().is_empty());
    assert_eq!(client.effects(), ["4: group 77 outcome 3..=3 Done"]);
}

#[test]
fn a_named_delivery_has_its_place_in_the_window_m31() {
    // v5 [MQTT-3.3.4-9]
    let mut client = resumed(1);
    client.told(owed(NAME));
    client.told(name(0));
    client.told(name(1));
    assert_eq!(client.effects(), ["4: group 77 named 0 32768"]);
    client.gets_run(0, 0);
    assert!(client.hears().is_empty(), "the place is taken");
    let message = view("t", QoS::ExactlyOnce, b"m");
    // A new leader of the group cannot know that nothing has left.
    client.gets_stored(message, &given(0, 32_768, true));
    let heard = client.hears();
    assert!(heard.len() == 1 && !heard[0].contains("dup"), "{heard:?}");
    client.gets_stored(message, &given(0, 32_768, true));
    assert!(client.hears().is_empty(), "it is under way");
    // What got no id goes back.
    client.passes(50);
    assert_eq!(client.effects(), ["4: group 77 outcome 1..=1 Returned"]);
}

#[test]
fn what_has_its_place_leaves_when_what_stood_before_it_goes_back_m31() {
    let mut client = resumed(1);
    client.told(owed(NAME));
    client.told(name(0));
    assert_eq!(client.effects(), ["4: group 77 named 0 32768"]);
    client.gets_stored(
        view("t", QoS::AtLeastOnce, b"no room"),
        &to_group(7, QoS::AtLeastOnce),
    );
    client.gets_stored(view("t", QoS::ExactlyOnce, b"m"), &given(0, 32_768, false));
    assert!(client.hears().is_empty(), "in order");
    client.passes(50);
    assert_eq!(client.effects(), ["4: group 77 outcome 7..=7 Returned"]);
    let heard = client.hears();
    assert!(
        heard.len() == 1 && heard[0].contains("id=32768"),
        "{heard:?}"
    );
}

#[test]
fn what_an_earlier_leader_had_named_is_void_m31() {
    let mut client = resumed(1);
    client.told(owed(NAME));
    client.told(name(0));
    client.told(name(1));
    client.told(owed(NAME));
    client.told(name(5));
    assert_eq!(
        client.effects(),
        ["4: group 77 named 0 32768", "4: group 77 named 5 32768"]
    );
}

#[test]
fn a_group_may_be_ahead_of_the_home_m31() {
    let mut client = connecting(10);
    client.gets_stored(view("t", QoS::ExactlyOnce, b"m"), &given(3, 32_768, true));
    client.told(owed(NAME));
    client.told(attached_to_group());
    client.told(name(4));
    let heard = client.hears();
    assert!(
        heard.len() == 2 && heard[1].contains("id=32768"),
        "{heard:?}"
    );
    assert!(
        client
            .effects()
            .contains(&"4: group 77 named 4 32769".to_owned())
    );
}

#[test]
fn what_a_new_leader_gives_before_it_says_what_it_owes_is_held_m31() {
    // It was named for an earlier leader and is committed: with Owed the place went to others, and the delivery to nobody.
    let mut client = resumed(1);
    client.told(owed(NAME));
    client.told(name(0));
    assert_eq!(client.effects(), ["4: group 77 named 0 32768"]);
    client.gets_stored(
        view("t", QoS::AtLeastOnce, b"no room"),
        &to_group(7, QoS::AtLeastOnce),
    );
    client.gets_stored(view("t", QoS::ExactlyOnce, b"m"), &given(0, 32_768, true));
    client.told(owed(NAME));
    client.told(name(1));
    assert!(client.hears().is_empty(), "in order");
    client.passes(50);
    let heard = client.hears();
    assert!(
        heard.len() == 1 && heard[0].contains("id=32768") && !heard[0].contains("dup"),
        "{heard:?}"
    );
    assert!(
        !client.effects().iter().any(|line| line.contains("named")),
        "the place is taken"
    );
}

#[test]
fn what_a_group_has_named_for_it_is_void_when_the_session_has_left_m31() {
    // v5 [MQTT-3.3.4-9]: with a window of one nothing else was sent before the next connection.
    for seq in [None, Some(Seq(0))] {
        let mut client = resumed(1);
        client.told(owed(NAME));
        client.told(name(0));
        assert_eq!(client.effects(), ["4: group 77 named 0 32768"]);
        client.gets_run(0, 0);
        client.told(ToFront::NothingOwed { name: NAME });
        assert!(client.hears().is_empty(), "which group that is nobody said");
        client.told(ToFront::Void { group: GROUP, seq });
        assert_eq!(client.hears().len(), 1);
    }
}

#[test]
fn what_waits_for_a_packet_id_is_not_named_once_the_session_has_left_m31() {
    for seq in [None, Some(Seq(1))] {
        let mut client = resumed(1);
        client.told(owed(NAME));
        client.gets_run(0, 0);
        client.hears();
        client.told(name(1));
        client.told(ToFront::Void { group: GROUP, seq });
        client.pubacks(1);
        client.passes(50);
        let effects = client.effects();
        assert!(
            !effects.iter().any(|line| line.contains("group 77")),
            "{effects:?}"
        );
    }
}

#[test]
fn what_was_named_for_an_earlier_leader_counts_when_the_next_one_takes_it_m31() {
    // A leader asked again, and heard what its forerunner was to hear: it passes over the second name.
    let mut client = resumed(2);
    client.told(owed(NAME));
    client.told(name(0));
    client.told(name(1));
    client.told(owed(NAME));
    client.told(name(0));
    client.told(name(1));
    let effects = client.effects();
    assert_eq!(
        effects[2..],
        ["4: group 77 named 0 32769", "4: group 77 named 1 32768"]
    );
    let message = view("t", QoS::ExactlyOnce, b"m");
    // Another delivery has this id here: it is asked for once more.
    client.gets_stored(message, &given(0, 32_768, false));
    assert_eq!(client.effects(), ["4: group 77 outcome 0..=0 Returned"]);
    client.gets_stored(message, &given(1, 32_769, false));
    let heard = client.hears();
    assert!(
        heard.len() == 1 && heard[0].contains("id=32769"),
        "{heard:?}"
    );
    client.told(name(2));
    assert_eq!(
        client.effects(),
        ["4: group 77 named 2 32768"],
        "one place of two is free"
    );
}

#[test]
fn what_finds_no_free_id_waits_for_the_end_of_another_to_be_committed_m31() {
    // v5 [MQTT-2.2.1-4]
    let mut client = resumed(10);
    client.told(owed(NAME));
    let window = &mut client.front.outbound_mut().window;
    while window.has_room_for_group() {
        let place = (Source::Group(GROUP), Seq(100));
        let packet_id = window.begin(place, Exchange::Pubcomp).unwrap();
        window.end(packet_id);
    }
    client.told(name(0));
    client.gets_stored(
        view("t", QoS::AtLeastOnce, b"m"),
        &to_group(7, QoS::AtLeastOnce),
    );
    assert!(client.effects().is_empty() && client.hears().is_empty());
    let finished = ToFront::Finished {
        group: GROUP,
        seq: Seq(100),
    };
    client.told(finished.clone());
    let heard = client.hears();
    assert!(heard.len() == 1 && heard[0].contains("id=32768"));
    client.told(finished);
    assert_eq!(client.effects(), ["4: group 77 named 0 32769"]);
}
