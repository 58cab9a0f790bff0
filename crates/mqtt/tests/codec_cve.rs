//! Inputs that brought other brokers down, as far as a codec meets them.

mod codec_support;

use codec_support::{decode_one, packet, props, text, user, varint};
use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::*;

fn kind(bytes: &[u8], version: ProtocolVersion) -> Result<(), Kind> {
    decode_one(bytes, &Rules::from_client(version))
        .map(|_| ())
        .map_err(DecodeError::kind)
}

/// Mosquitto: CONNECT with a huge remaining length.
#[test]
fn cve_2017_7651_huge_connect() {
    let bytes = [&[0x10][..], &varint(268_435_455), b"\0\x04MQTT"].concat();
    let found = Frame::split(&bytes, BEFORE_CONNECT_BYTES_MAX).map_err(DecodeError::kind);
    assert_eq!(found, Err(Kind::PacketTooLarge));
}

/// Mosquitto: a large first packet that is not CONNECT.
#[test]
fn cve_2023_0809_large_first_packet() {
    let bytes = [&[0x30][..], &varint(1 << 20)].concat();
    let found = Frame::split(&bytes, BEFORE_CONNECT_BYTES_MAX).map_err(DecodeError::kind);
    assert_eq!(found, Err(Kind::PacketTooLarge));
}

/// Mosquitto: a topic with invalid UTF-8 makes stricter clients drop off.
#[test]
fn cve_2017_7653_topic_utf8() {
    let bytes = packet(0x30, &[&text(b"a/\xC3\x28")]);
    assert_eq!(kind(&bytes, ProtocolVersion::V311), Err(Kind::Utf8));
}

/// Mosquitto: SUBSCRIBE with 65,400 slashes overflowed the stack.
#[test]
fn cve_2019_11779_deep_filter() {
    let bytes = packet(0x82, &[&[0, 1], &text([b'/'; 65_400]), &[0]]);
    assert_eq!(
        kind(&bytes, ProtocolVersion::V311),
        Err(Kind::TopicFilterLimit)
    );
    // Without our limit depth still costs no stack.
    let rules = Rules::from_client(ProtocolVersion::V311).with_limits(Limits::STANDARD);
    assert!(decode_one(&bytes, &rules).is_ok());
}

/// Moquette: a deeply nested topic name.
#[test]
fn cve_2026_95844_deep_topic() {
    let bytes = packet(0x30, &[&text([b'/'; 65_535])]);
    assert_eq!(
        kind(&bytes, ProtocolVersion::V311),
        Err(Kind::TopicNameLimit)
    );
}

/// Mosquitto: CONNACK sent by the client.
#[test]
fn cve_2021_28166_connack_from_client() {
    assert_eq!(
        kind(&[0x20, 2, 0, 0], ProtocolVersion::V311),
        Err(Kind::WrongDirection)
    );
    assert_eq!(
        kind(&[0x20, 3, 0, 0, 0], ProtocolVersion::V5),
        Err(Kind::WrongDirection)
    );
}

/// Mosquitto: PUBLISH with an empty topic.
#[test]
fn cve_2021_34432_empty_topic() {
    assert_eq!(
        kind(&[0x30, 2, 0, 0], ProtocolVersion::V311),
        Err(Kind::TopicNameEmpty)
    );
    assert_eq!(
        kind(&[0x30, 3, 0, 0, 0], ProtocolVersion::V5),
        Err(Kind::TopicNameEmpty)
    );
}

/// Mosquitto 2.0.12: CONNECT with very many user properties burnt CPU.
#[test]
fn cve_many_user_properties() {
    let block = props(&[&user("", "").repeat(3_000)]);
    let bytes = packet(0x10, &[b"\0\x04MQTT\x05\x02\0\0", &block, &text("c")]);
    assert_eq!(
        kind(&bytes, ProtocolVersion::V5),
        Err(Kind::UserPropertiesLimit)
    );
}

/// Mosquitto: a v5 will with properties of wrong types leaked.
#[test]
fn cve_2023_3592_will_properties() {
    let will = |block: &[u8]| {
        let (id, topic, payload) = (text("c"), text("w"), text("m"));
        packet(
            0x10,
            &[
                b"\0\x04MQTT\x05\x06\0\0\0",
                &id,
                &props(&[block]),
                &topic,
                &payload,
            ],
        )
    };
    let misplaced: [&[u8]; 3] = [&[0x21, 0, 1], &[0x23, 0, 1], &[0x0B, 1]];
    for block in misplaced {
        assert_eq!(
            kind(&will(block), ProtocolVersion::V5),
            Err(Kind::PropertyMisplaced)
        );
    }
    assert_eq!(
        kind(&will(&[1, 2]), ProtocolVersion::V5),
        Err(Kind::PropertyValue)
    );
}

/// NanoMQ: a property length of five bytes read out of bounds.
#[test]
fn cve_2026_21888_property_length() {
    let bytes = packet(0x30, &[&text("a"), &[0xFF, 0xFF, 0xFF, 0xFF, 0x01]]);
    assert_eq!(kind(&bytes, ProtocolVersion::V5), Err(Kind::LengthTooLong));
}

/// NanoMQ: a packet that announces 4,096 bytes and sends 3.
#[test]
fn cve_2026_25627_announced_more_than_sent() {
    let bytes = [&[0x30][..], &varint(4096), b"abc"].concat();
    assert_eq!(Frame::split(&bytes, 1 << 20), Ok(Split::Need(4093)));
}

/// NanoMQ: SUBSCRIBE "$share/ab" stopped the broker at the next publish; Moquette had the like.
#[test]
fn cve_2025_68699_share_without_filter() {
    for filter in ["$share/ab", "$share/", "$share//", "$share/g/"] {
        let v3 = packet(0x82, &[&[0, 1], &text(filter), &[0]]);
        let v5 = packet(0x82, &[&[0, 1, 0], &text(filter), &[0]]);
        assert_eq!(
            kind(&v3, ProtocolVersion::V311),
            Err(Kind::ShareNameInvalid),
            "{filter}"
        );
        assert_eq!(
            kind(&v5, ProtocolVersion::V5),
            Err(Kind::ShareNameInvalid),
            "{filter}"
        );
    }
}

/// NATS: a CONNECT cut anywhere.
#[test]
fn cve_2026_58210_partial_connect() {
    let (id, topic, payload) = (text("client"), text("will/topic"), text("gone"));
    let (name, password) = (text("user"), text("password"));
    let body = [
        b"\0\x04MQTT\x05\xC6\0\x3C",
        &props(&[&[0x21, 0, 9]])[..],
        &id,
        &[0],
        &topic,
        &payload,
        &name,
        &password,
    ]
    .concat();
    assert!(kind(&packet(0x10, &[&body]), ProtocolVersion::V5).is_ok());
    for len in 0..body.len() {
        let found = kind(&packet(0x10, &[&body[..len]]), ProtocolVersion::V5);
        assert_eq!(found, Err(Kind::Truncated), "cut at {len}");
    }
}

/// sol: PUBACK before CONNECT is a packet like any other to the codec, and no CONNECT.
#[test]
fn cve_sol_puback_before_connect() {
    let Ok(Split::Whole(frame)) = Frame::split(&[0x40, 2, 0, 1], BEFORE_CONNECT_BYTES_MAX) else {
        panic!("whole")
    };
    let found = Connect::decode(&frame, &Limits::DEFAULT).map_err(DecodeError::kind);
    assert_eq!(found, Err(Kind::WrongDirection));
}
