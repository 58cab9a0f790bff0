//! Properties of v5: which may stand where, how often, with which values; written out from table 2-4 and section 3 of the standard.

mod codec_support;

use codec_support::{bad, check, good, packet, props, text, text_prop, user};
use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::ProtocolVersion::V5;
use courser_mqtt::codec::Sender;

/// Letter of the table below, who sends it, the packet around a block.
type Place = (char, Sender, fn(&[u8]) -> Vec<u8>);

/// A packet of each kind around a property block; `w` is the will block of CONNECT.
const PLACES: &[Place] = &[
    ('c', Sender::Client, |block| {
        packet(0x10, &[b"\0\x04MQTT\x05\x02\0\0", block, &text("c")])
    }),
    ('w', Sender::Client, |block| {
        let (id, topic, payload) = (text("c"), text("t"), text("m"));
        packet(
            0x10,
            &[b"\0\x04MQTT\x05\x06\0\0\0", &id, block, &topic, &payload],
        )
    }),
    ('C', Sender::Server, |block| packet(0x20, &[&[0, 0], block])),
    ('p', Sender::Server, |block| {
        packet(0x30, &[&text("a"), block])
    }),
    ('1', Sender::Client, |block| {
        packet(0x40, &[&[0, 1, 0], block])
    }),
    ('2', Sender::Client, |block| {
        packet(0x50, &[&[0, 1, 0], block])
    }),
    ('3', Sender::Client, |block| {
        packet(0x62, &[&[0, 1, 0], block])
    }),
    ('4', Sender::Client, |block| {
        packet(0x70, &[&[0, 1, 0], block])
    }),
    ('s', Sender::Client, |block| {
        packet(0x82, &[&[0, 1], block, &text("a"), &[0]])
    }),
    ('S', Sender::Server, |block| {
        packet(0x90, &[&[0, 1], block, &[0]])
    }),
    ('u', Sender::Client, |block| {
        packet(0xA2, &[&[0, 1], block, &text("a")])
    }),
    ('U', Sender::Server, |block| {
        packet(0xB0, &[&[0, 1], block, &[0]])
    }),
    ('d', Sender::Client, |block| packet(0xE0, &[&[0], block])),
    ('a', Sender::Client, |block| packet(0xF0, &[&[0x18], block])),
    ('D', Sender::Server, |block| packet(0xE0, &[&[0x9D], block])),
];

/// Identifier, places, a value that is allowed.
const TABLE: &[(u8, &str, &[u8])] = &[
    (0x01, "pw", &[1]),
    (0x02, "pw", &[0, 0, 0, 0]),
    (0x03, "pw", b"\0\x01t"),
    (0x08, "pw", b"\0\x01t"),
    (0x09, "pw", b"\0\x01\0"),
    (0x0B, "ps", &[0xFF, 0xFF, 0xFF, 0x7F]),
    (0x11, "cCd", &[0xFF, 0xFF, 0xFF, 0xFF]),
    (0x12, "C", b"\0\x01c"),
    (0x13, "C", &[0, 0]),
    (0x15, "cCa", b"\0\x01m"),
    (0x16, "cCa", b"\0\0"),
    (0x17, "c", &[0]),
    (0x18, "w", &[0, 0, 0, 1]),
    (0x19, "c", &[1]),
    (0x1A, "C", b"\0\x01r"),
    (0x1C, "CD", b"\0\x01s"),
    (0x1F, "C1234SUdDa", b"\0\x01r"),
    (0x21, "cC", &[0, 1]),
    (0x22, "cC", &[0, 0]),
    (0x23, "p", &[0, 1]),
    (0x24, "C", &[1]),
    (0x25, "C", &[0]),
    (0x26, "cwCp1234sSuUdDa", b"\0\x01n\0\x01v"),
    (0x27, "cC", &[0, 0, 0, 1]),
    (0x28, "C", &[0]),
    (0x29, "C", &[1]),
    (0x2A, "C", &[0]),
];

/// AUTH needs a method and Authentication Data too.
fn with_method(place: char, id: u8, block: &[u8]) -> Vec<u8> {
    let needed = id != 0x15 && (place == 'a' || (id == 0x16 && matches!(place, 'c' | 'C')));
    let method = if needed { text_prop(0x15, "m") } else { vec![] };
    props(&[&method, block])
}

/// Every identifier of 256 in every place: allowed, misplaced or unknown; twice: duplicate or allowed.
#[test]
fn places_and_repeats() {
    let mut rows = Vec::new();
    for &(place, sender, make) in PLACES {
        for id in 0..=255_u8 {
            let known = TABLE.iter().find(|row| row.0 == id);
            let value = known.map_or(&[0, 0, 0, 0][..], |row| row.2);
            // Identifiers from 0x80 on take two bytes.
            let name = codec_support::varint(usize::from(id));
            let once = [&name, value].concat();
            let twice = once.repeat(2);
            let packet = |block: &[u8]| make(&with_method(place, id, block));
            let mut both = match known {
                None => vec![bad(
                    "v5 2.2.2.2",
                    "unknown",
                    Kind::PropertyUnknown,
                    0x81,
                    packet(&once),
                )],
                // Each has one that only the other side may send: below.
                Some(_) if matches!((place, id), ('d', 0x1C) | ('D', 0x11)) => Vec::new(),
                Some((_, places, _)) if !places.contains(place) => {
                    vec![bad(
                        "v5 2.2.2.2",
                        "misplaced",
                        Kind::PropertyMisplaced,
                        0x81,
                        packet(&once),
                    )]
                }
                Some(_) if id == 0x26 || (id == 0x0B && place == 'p') => vec![
                    good("v5 2.2.2.2", "allowed", packet(&once)),
                    good("v5 2.2.2.2", "repeated", packet(&twice)),
                ],
                Some(_) => vec![
                    good("v5 2.2.2.2", "allowed", packet(&once)),
                    bad(
                        "v5 2.2.2.2",
                        "duplicate",
                        Kind::PropertyDuplicate,
                        0x82,
                        packet(&twice),
                    ),
                ],
            };
            for row in &mut both {
                row.sender = sender;
            }
            rows.extend(both);
        }
    }
    assert!(
        rows.len() >= 15 * 256 - 2,
        "every identifier in every place"
    );
    check(V5, &rows);
}

/// A value that ends early, for every property where it may stand.
#[test]
fn cut_values() {
    let mut rows = Vec::new();
    for &(place, sender, make) in PLACES {
        for &(id, places, value) in TABLE.iter().filter(|row| row.1.contains(place)) {
            assert!(places.contains(place));
            for len in 0..value.len() {
                let once = [&[id], &value[..len]].concat();
                let bytes = make(&with_method(place, id, &once));
                let mut row = bad("v5 [MQTT-2.2.2-1]", "cut", Kind::Truncated, 0x81, bytes);
                row.sender = sender;
                rows.push(row);
            }
        }
    }
    check(V5, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn forbidden_values() {
    let connect = PLACES[0].2;
    let connack = PLACES[2].2;
    let publish = PLACES[3].2;
    let subscribe = PLACES[8].2;
    let auth = PLACES[13].2;
    let flag = |id: u8| bad("v5 2.2.2.2", "flag 2", Kind::PropertyValue, 0x82, connack(&props(&[&[id, 2]]))).by_server();
    let mut rows = vec![
        bad("v5 3.3.2.3.2", "payload format 2", Kind::PropertyValue, 0x82, publish(&props(&[&[1, 2]]))),
        bad("v5 3.8.2.1.2", "subscription identifier 0", Kind::PropertyValue, 0x82, subscribe(&props(&[&[0x0B, 0]]))),
        bad("v5 3.1.2.11.3", "Receive Maximum 0", Kind::PropertyValue, 0x82, connect(&props(&[&[0x21, 0, 0]]))),
        bad("v5 3.1.2.11.4", "Maximum Packet Size 0", Kind::PropertyValue, 0x82, connect(&props(&[&[0x27, 0, 0, 0, 0]]))),
        bad("v5 3.1.2.11.6", "Request Response Information 2", Kind::PropertyValue, 0x82, connect(&props(&[&[0x19, 2]]))),
        bad("v5 3.1.2.11.7", "Request Problem Information 2", Kind::PropertyValue, 0x82, connect(&props(&[&[0x17, 2]]))),
        bad("v5 3.1.2.11.10", "data without method", Kind::AuthenticationDataAlone, 0x82, connect(&props(&[&text_prop(0x16, "d")]))),
        bad("v5 3.15.2.2.2", "AUTH without method", Kind::AuthenticationMethodMissing, 0x82, auth(&props(&[]))),
        bad("v5 3.2.2.3.4", "Maximum QoS 2", Kind::PropertyValue, 0x82, connack(&props(&[&[0x24, 2]]))).by_server(),
        bad("v5 [MQTT-3.14.2-2]", "Session Expiry Interval in a server's DISCONNECT", Kind::PropertySender, 0x82, packet(0xE0, &[&[0x8B], &props(&[&[0x11, 0, 0, 0, 0]])])).by_server(),
        bad("v5 3.14.2.2.5", "Server Reference in a client's DISCONNECT", Kind::PropertySender, 0x82, packet(0xE0, &[&[0x00], &props(&[&text_prop(0x1C, "a")])])),
    ];
    rows.extend([0x25, 0x28, 0x29, 0x2A].map(flag));
    check(V5, &rows);
}

#[test]
fn user_property_limits() {
    let publish = PLACES[3].2;
    let many = |count: usize| publish(&props(&[&user("n", "v").repeat(count)]));
    let large = |bytes: usize| publish(&props(&[&user("n", vec![b'v'; bytes - 6])]));
    check(
        V5,
        &[
            good("v5 3.1.2.11.8", "64", many(64)),
            bad(
                "v5 3.1.2.11.8",
                "65",
                Kind::UserPropertiesLimit,
                0x97,
                many(65),
            ),
            good("v5 3.1.2.11.8", "16 KiB", large(16 * 1024)),
            bad(
                "v5 3.1.2.11.8",
                "a byte more",
                Kind::UserPropertiesLimit,
                0x97,
                large(16 * 1024 + 1),
            ),
        ],
    );
}
