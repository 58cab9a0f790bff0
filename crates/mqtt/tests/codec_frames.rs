//! Cutting the stream: lengths, limits, and what is refused before it has arrived.

mod codec_support;

use codec_support::{decode_one, packet, text, varint};
use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::*;

fn split_kind(bytes: &[u8], max: u32) -> Result<usize, Kind> {
    match Frame::split(bytes, max) {
        Ok(Split::Need(more)) => Ok(more),
        Ok(Split::Whole(frame)) => panic!("{frame:?} is not expected to be whole"),
        Err(error) => Err(error.kind()),
    }
}

#[test]
fn asks_for_what_is_missing() {
    assert_eq!(split_kind(&[], 100), Ok(2));
    assert_eq!(split_kind(&[0x30], 100), Ok(1));
    assert_eq!(split_kind(&[0x30, 10], 100), Ok(10));
    assert_eq!(split_kind(&[0x30, 10, 1, 2], 100), Ok(8));
    assert_eq!(split_kind(&[0x30, 0x80], 1000), Ok(1));
    assert_eq!(split_kind(&[0x30, 0x80, 0x01], 1000), Ok(128));
}

/// Boundaries of the variable byte integer: v5 [MQTT-1.5.5-1] and table 1-1.
#[test]
fn remaining_length() {
    for value in [
        0,
        127,
        128,
        16_383,
        16_384,
        2_097_151,
        2_097_152,
        268_435_455,
    ] {
        let mut bytes = vec![0x30];
        bytes.extend(varint(value));
        let expected = if value == 0 { None } else { Some(value) };
        match Frame::split(&bytes, PACKET_BYTES_MAX) {
            Ok(Split::Whole(frame)) => assert!(expected.is_none() && frame.body().is_empty()),
            Ok(Split::Need(more)) => assert_eq!(Some(more), expected),
            Err(error) => panic!("{value}: {error}"),
        }
    }
    for bytes in [
        &[0x80, 0][..],
        &[0x80, 0x80, 0],
        &[0xFF, 0xFF, 0x80, 0],
        &[0x81, 0],
    ] {
        let bytes = [&[0xC0], bytes].concat();
        assert_eq!(
            split_kind(&bytes, 1 << 20),
            Err(Kind::LengthNotMinimal),
            "v5 [MQTT-1.5.5-1]"
        );
    }
    for last in [0x00, 0x01, 0x7F, 0xFF] {
        let bytes = [0x30, 0xFF, 0xFF, 0xFF, 0xFF, last];
        assert_eq!(
            split_kind(&bytes, u32::MAX),
            Err(Kind::LengthTooLong),
            "v5 [MQTT-1.5.5-1]"
        );
    }
}

/// Refused by the announced length alone, before the body: memory follows what has arrived.
#[test]
fn too_large() {
    let announce = |len: usize| [vec![0x30], varint(len)].concat();
    let error = Frame::split(&announce(1 << 20), 1 << 20).expect_err("a megabyte and a header");
    assert_eq!(
        (error.kind(), error.reason().byte()),
        (Kind::PacketTooLarge, 0x95)
    );
    assert_eq!(
        split_kind(&announce((1 << 20) - 4), 1 << 20),
        Ok((1 << 20) - 4)
    );
    assert_eq!(
        split_kind(&announce(16 * 1024), BEFORE_CONNECT_BYTES_MAX),
        Err(Kind::PacketTooLarge)
    );
    assert_eq!(
        split_kind(&announce(16 * 1024 - 4), BEFORE_CONNECT_BYTES_MAX),
        Ok(16 * 1024 - 4)
    );
}

/// v3 [MQTT-2.2.2-2], v5 [MQTT-2.1.3-1]: the first byte is enough to refuse.
#[test]
fn first_byte_is_judged_at_once() {
    assert_eq!(split_kind(&[0x11], 100), Err(Kind::FixedHeaderFlags));
    assert_eq!(split_kind(&[0x00], 100), Err(Kind::PacketTypeReserved));
    assert_eq!(split_kind(&[0x60], 100), Err(Kind::FixedHeaderFlags));
}

fn connect(name: &str, level: u8, flags: u8, client_id: &str) -> Vec<u8> {
    let properties: &[u8] = if level == 5 { &[0] } else { &[] };
    packet(
        0x10,
        &[
            &text(name),
            &[level, flags, 0, 0],
            properties,
            &text(client_id),
        ],
    )
}

/// How a refused CONNECT is answered: v3 [MQTT-3.1.2-1], v3 [MQTT-3.1.2-2], v3 [MQTT-3.1.3-8], v3 [MQTT-3.1.3-9],
/// v3 [MQTT-3.1.4-1], v5 [MQTT-3.1.2-1], v5 [MQTT-3.1.2-2], v5 [MQTT-3.1.3-8].
#[test]
fn answers_to_a_refused_connect() {
    use ProtocolVersion::{V5, V311};
    let long = "c".repeat(1025);
    let cases = [
        (connect("MQIsdp", 3, 2, "c"), Some((V311, 0x01))),
        (connect("MQTT", 3, 2, "c"), Some((V311, 0x01))),
        (connect("MQTT", 0x84, 2, "c"), Some((V311, 0x01))),
        (connect("MQTT", 6, 2, "c"), Some((V5, 0x84))),
        (connect("HTTP", 4, 2, "c"), None),
        (connect("MQTT", 4, 0, ""), Some((V311, 0x02))),
        (connect("MQTT", 4, 2, &long), Some((V311, 0x02))),
        (connect("MQTT", 5, 2, &long), Some((V5, 0x85))),
        (connect("MQTT", 4, 3, "c"), None),
        (connect("MQTT", 5, 3, "c"), Some((V5, 0x81))),
    ];
    for (bytes, expected) in cases {
        let Ok(Split::Whole(frame)) = Frame::split(&bytes, 4096) else {
            panic!("whole")
        };
        let error = Connect::decode(&frame, &Limits::DEFAULT).expect_err("refused");
        let answer = error.connack_version(Connect::peek_version(frame.body()));
        let found = answer.map(|version| {
            let mut out = Vec::new();
            let connack = Packet::Connack(Connack::refused(error.reason()));
            connack
                .encode(&Receiver::new(version), &mut out)
                .expect("it can be said");
            (version, out[3])
        });
        assert_eq!(found, expected, "{bytes:02X?} {error}");
    }
}

/// Payload format: looked at only on request (v5 section 3.3.2.3.2), in PUBLISH and in wills.
#[test]
fn payload_format() {
    let publish =
        |format: u8, payload: &[u8]| packet(0x30, &[&text("a"), &[2, 1, format], payload]);
    let will = packet(
        0x10,
        &[
            b"\0\x04MQTT\x05\x06\0\0\0",
            &text("c"),
            &[2, 1, 1],
            &text("w"),
            &text(b"\xFF"),
        ],
    );
    let ignore = Rules::from_client(ProtocolVersion::V5);
    let mut limits = Limits::DEFAULT;
    limits.payload_format = PayloadFormatCheck::Verify;
    let verify = ignore.with_limits(limits);
    let cases = [
        (publish(1, b"\xFF"), false),
        (publish(1, "ä".as_bytes()), true),
        (publish(0, b"\xFF"), true),
        (will, false),
    ];
    for (bytes, sound) in cases {
        assert!(decode_one(&bytes, &ignore).is_ok());
        let found = decode_one(&bytes, &verify)
            .map(|_| ())
            .map_err(|error| error.reason().byte());
        assert_eq!(found, if sound { Ok(()) } else { Err(0x99) });
    }
}

#[test]
fn limits_can_be_moved() {
    let mut limits = Limits::DEFAULT;
    limits.topic_bytes_max = 3;
    limits.topic_levels_max = 2;
    limits.client_id_bytes_max = 1;
    let rules = Rules::from_client(ProtocolVersion::V311).with_limits(limits);
    let kind = |bytes: &[u8]| {
        decode_one(bytes, &rules)
            .map(|_| ())
            .map_err(|error| error.kind())
    };
    assert_eq!(kind(&packet(0x30, &[&text("a/b")])), Ok(()));
    assert_eq!(
        kind(&packet(0x30, &[&text("a/bc")])),
        Err(Kind::TopicNameLimit)
    );
    assert_eq!(
        kind(&packet(0x30, &[&text("//")])),
        Err(Kind::TopicNameLimit)
    );
    assert_eq!(kind(&connect("MQTT", 4, 2, "c")), Ok(()));
    assert_eq!(
        kind(&connect("MQTT", 4, 2, "cc")),
        Err(Kind::ClientIdTooLong)
    );
}

/// Types of our own making keep the rules too: v5 [MQTT-4.7.3-1], v5 [MQTT-4.7.3-2], v5 [MQTT-4.7.3-3], v5 [MQTT-1.5.4-2].
#[test]
fn values_are_checked_when_made() {
    let long = "a".repeat(65_536);
    let name = |name| TopicName::new(name).map(|_| ()).map_err(DecodeError::kind);
    assert_eq!(name(&long[1..]), Ok(()));
    assert_eq!(name(&long), Err(Kind::TopicNameLimit));
    assert_eq!(name(""), Err(Kind::TopicNameEmpty));
    assert_eq!(name("a\0"), Err(Kind::Nul));
    assert_eq!(name("a/+"), Err(Kind::TopicNameWildcard));
    let filter = |filter| {
        TopicFilter::new(filter)
            .map(|_| ())
            .map_err(DecodeError::kind)
    };
    assert_eq!(filter(&long), Err(Kind::TopicFilterLimit));
    assert_eq!(filter("\0"), Err(Kind::Nul));
    assert!(MqttStr::new(&long).is_err() && MqttStr::new("\0").is_err());
    assert!(Binary::new(long.as_bytes()).is_none() && Secret::new(long.as_bytes()).is_none());
    assert!(PacketId::new(0).is_none() && TopicAlias::new(0).is_none());
    assert!(SubscriptionId::new(0).is_none() && SubscriptionId::new(VARINT_MAX + 1).is_none());
    assert!(SubscriptionId::new(VARINT_MAX).is_some() && QoS::from_number(3).is_none());
    let levels: Vec<_> = TopicName::new("/a//b").expect("a name").levels().collect();
    assert_eq!(levels, ["", "a", "", "b"]);
}

/// Share name and filter come apart: v5 [MQTT-4.8.2-1], v5 [MQTT-4.8.2-2].
#[test]
fn shared_filters() {
    let filter = TopicFilter::new("$share/g//a/#").expect("a filter");
    let shared = filter.shared().expect("shared");
    assert_eq!((shared.share_name, shared.filter), ("g", "/a/#"));
    assert_eq!(
        (filter.match_filter(), filter.as_str()),
        ("/a/#", "$share/g//a/#")
    );
    assert!(filter.has_wildcard());
    let plain = TopicFilter::new("$share").expect("a filter");
    assert!(plain.shared().is_none() && !plain.has_wildcard());
}
