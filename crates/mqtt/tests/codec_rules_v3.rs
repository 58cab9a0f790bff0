//! Rules of MQTT 3.1.1 that one packet alone can keep or break, a row each.

mod codec_support;

use codec_support::{Row, bad, check, good, packet, text};
use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::ProtocolVersion::V311;

fn connect(flags: u8, payload: &[&[u8]]) -> Vec<u8> {
    let head = [0, 4, b'M', b'Q', b'T', b'T', 4, flags, 0, 60];
    packet(0x10, &[&head, &payload.concat()])
}

fn named(name: &str, level: u8) -> Vec<u8> {
    packet(0x10, &[&text(name), &[level, 2, 0, 60], &text("c")])
}

fn publish(topic: impl AsRef<[u8]>) -> Vec<u8> {
    packet(0x30, &[&text(topic), b"hi"])
}

fn subscribe(filter: impl AsRef<[u8]>) -> Vec<u8> {
    packet(0x82, &[&[0, 1], &text(filter), &[0]])
}

fn unsubscribe(filter: impl AsRef<[u8]>) -> Vec<u8> {
    packet(0xA2, &[&[0, 1], &text(filter)])
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn strings() {
    let bom = "\u{FEFF}a";
    check(
        V311,
        &[
            bad("v3 [MQTT-1.5.3-1]", "lone continuation byte", Kind::Utf8, 0x81, publish(b"a\x80")),
            bad("v3 [MQTT-1.5.3-1]", "surrogate U+D800", Kind::Utf8, 0x81, publish(b"\xED\xA0\x80")),
            bad("v3 [MQTT-1.5.3-1]", "overlong slash", Kind::Utf8, 0x81, publish(b"\xC0\xAF")),
            bad("v3 [MQTT-1.5.3-1]", "cut sequence", Kind::Utf8, 0x81, publish(b"a\xE2\x82")),
            bad("v3 [MQTT-1.5.3-1]", "above U+10FFFF", Kind::Utf8, 0x81, publish(b"\xF4\x90\x80\x80")),
            bad("v3 [MQTT-1.5.3-2]", "U+0000 in a topic", Kind::Nul, 0x81, publish(b"a\0b")),
            bad("v3 [MQTT-1.5.3-2]", "U+0000 in a client id", Kind::Nul, 0x81, connect(2, &[&text(b"c\0")])),
            good("v3 [MQTT-1.5.3-3]", "U+FEFF is kept", publish(bom)),
            bad("v3 [MQTT-3.3.2-1]", "topic longer than the packet", Kind::Truncated, 0x81, packet(0x30, &[&[0, 9], b"abc"])),
            bad("v3 [MQTT-3.3.2-1]", "no topic", Kind::Truncated, 0x81, packet(0x30, &[&[0]])),
            good("v3 [MQTT-3.3.2-1]", "control characters are only advised against", publish("a\u{1}\u{7F}")),
        ],
    );
}

/// Each type with each wrong flag; PUBLISH has its own rows.
#[test]
#[rustfmt::skip] // a table: one rule a line
fn fixed_header_flags() {
    let clauses = |number: u8| match number {
        6 => "v3 [MQTT-3.6.1-1]",
        8 => "v3 [MQTT-3.8.1-1]",
        10 => "v3 [MQTT-3.10.1-1]",
        14 => "v3 [MQTT-3.14.1-1]",
        _ => "v3 [MQTT-2.2.2-2]",
    };
    let mut rows = Vec::new();
    for number in (1..=15).filter(|number| *number != 3) {
        let right = if matches!(number, 6 | 8 | 10) { 2 } else { 0 };
        for flags in (0..16).filter(|flags| *flags != right) {
            let bytes = vec![number << 4 | flags, 0];
            rows.push(bad(clauses(number), "wrong flags", Kind::FixedHeaderFlags, 0x81, bytes));
        }
    }
    for flags in 0..16 {
        rows.push(bad("v3 [MQTT-2.2.2-2]", "type 0", Kind::PacketTypeReserved, 0x81, vec![flags, 0]));
    }
    rows.push(bad("v3 [MQTT-2.2.2-1]", "type 15", Kind::PacketTypeReserved, 0x81, vec![0xF0, 0]));
    assert_eq!(rows.len(), 14 * 15 + 17);
    check(V311, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn packet_identifiers() {
    check(
        V311,
        &[
            bad("v3 [MQTT-2.3.1-1]", "SUBSCRIBE with id 0", Kind::PacketIdZero, 0x82, packet(0x82, &[&[0, 0], &text("a"), &[0]])),
            bad("v3 [MQTT-2.3.1-1]", "UNSUBSCRIBE with id 0", Kind::PacketIdZero, 0x82, packet(0xA2, &[&[0, 0], &text("a")])),
            bad("v3 [MQTT-2.3.1-1]", "QoS 1 with id 0", Kind::PacketIdZero, 0x82, packet(0x32, &[&text("a"), &[0, 0]])),
            bad("v3 [MQTT-2.3.1-1]", "QoS 2 with id 0", Kind::PacketIdZero, 0x82, packet(0x34, &[&text("a"), &[0, 0]])),
            bad("v3 [MQTT-2.3.1-1]", "QoS 1 without id", Kind::Truncated, 0x81, packet(0x32, &[&text("a"), &[0]])),
            good("v3 [MQTT-2.3.1-1]", "highest id", packet(0x32, &[&text("a"), &[0xFF, 0xFF]])),
            bad("v3 [MQTT-2.3.1-6]", "PUBACK with id 0", Kind::PacketIdZero, 0x82, packet(0x40, &[&[0, 0]])),
            bad("v3 [MQTT-2.3.1-6]", "PUBREC without id", Kind::Truncated, 0x81, packet(0x50, &[])),
            bad("v3 [MQTT-2.3.1-6]", "PUBREL with half an id", Kind::Truncated, 0x81, packet(0x62, &[&[1]])),
            bad("v3 [MQTT-2.3.1-6]", "PUBCOMP with a v5 reason code", Kind::TrailingBytes, 0x81, packet(0x70, &[&[0, 1, 0]])),
            bad("v3 [MQTT-2.3.1-7]", "SUBACK with id 0", Kind::PacketIdZero, 0x82, packet(0x90, &[&[0, 0, 0]])).by_server(),
            bad("v3 [MQTT-2.3.1-7]", "UNSUBACK with a code", Kind::TrailingBytes, 0x81, packet(0xB0, &[&[0, 1, 0]])).by_server(),
            good("v3 [MQTT-2.3.1-7]", "UNSUBACK", packet(0xB0, &[&[0, 1]])).by_server(),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn connect_header() {
    check(
        V311,
        &[
            good("v3 [MQTT-3.1.2-1]", "MQTT level 4", named("MQTT", 4)),
            bad("v3 [MQTT-3.1.2-1]", "another name", Kind::ProtocolName, 0x84, named("MQTX", 4)),
            bad("v3 [MQTT-3.1.2-1]", "lower case", Kind::ProtocolName, 0x84, named("mqtt", 4)),
            bad("v3 [MQTT-3.1.2-1]", "empty name", Kind::ProtocolName, 0x84, named("", 4)),
            bad("v3 [MQTT-3.1.2-2]", "MQTT 3.1", Kind::ProtocolLevelOld, 0x84, named("MQIsdp", 3)),
            bad("v3 [MQTT-3.1.2-2]", "level 3", Kind::ProtocolLevelOld, 0x84, named("MQTT", 3)),
            bad("v3 [MQTT-3.1.2-2]", "level 0", Kind::ProtocolLevelOld, 0x84, named("MQTT", 0)),
            bad("v3 [MQTT-3.1.2-2]", "private level of a bridge", Kind::ProtocolLevelOld, 0x84, named("MQTT", 0x84)),
            bad("v3 [MQTT-3.1.2-2]", "level 6", Kind::ProtocolLevelNew, 0x84, named("MQTT", 6)),
            bad("v3 [MQTT-3.1.2-3]", "reserved flag", Kind::ConnectFlagReserved, 0x81, connect(3, &[&text("c")])),
            bad("v3 [MQTT-3.1.2-11]", "Will QoS without will", Kind::WillFlags, 0x81, connect(0x0A, &[&text("c")])),
            bad("v3 [MQTT-3.1.2-13]", "Will QoS 2 without will", Kind::WillFlags, 0x81, connect(0x12, &[&text("c")])),
            bad("v3 [MQTT-3.1.2-14]", "Will QoS 3", Kind::WillQos, 0x81, connect(0x1E, &[&text("c"), &text("t"), &text("m")])),
            bad("v3 [MQTT-3.1.2-15]", "Will Retain without will", Kind::WillFlags, 0x81, connect(0x22, &[&text("c")])),
            bad("v3 [MQTT-3.1.2-22]", "password without user name", Kind::PasswordWithoutUserName, 0x81, connect(0x42, &[&text("c"), &text("p")])),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn connect_payload() {
    let (id, topic, message) = (text("c"), text("t"), text("m"));
    let (user, password) = (text("u"), text("p"));
    check(
        V311,
        &[
            good("v3 [MQTT-3.1.3-1]", "all fields", connect(0xEE, &[&id, &topic, &message, &user, &password])),
            bad("v3 [MQTT-3.1.2-9]", "will flag without will", Kind::Truncated, 0x81, connect(6, &[&id])),
            bad("v3 [MQTT-3.1.2-9]", "will flag without message", Kind::Truncated, 0x81, connect(6, &[&id, &topic])),
            bad("v3 [MQTT-3.1.2-18]", "user name without flag", Kind::TrailingBytes, 0x81, connect(2, &[&id, &user])),
            bad("v3 [MQTT-3.1.2-19]", "flag without user name", Kind::Truncated, 0x81, connect(0x82, &[&id])),
            bad("v3 [MQTT-3.1.2-20]", "password without flag", Kind::TrailingBytes, 0x81, connect(0x82, &[&id, &user, &password])),
            bad("v3 [MQTT-3.1.2-21]", "flag without password", Kind::Truncated, 0x81, connect(0xC2, &[&id, &user])),
            bad("v3 [MQTT-3.1.3-3]", "no client id", Kind::Truncated, 0x81, connect(2, &[])),
            bad("v3 [MQTT-3.1.3-4]", "client id not UTF-8", Kind::Utf8, 0x81, connect(2, &[&text(b"\xFF")])),
            good("v3 [MQTT-3.1.3-5]", "23 letters and digits", connect(2, &[&text("0123456789abcdefABCDEFz")])),
            good("v3 [MQTT-3.1.3-6]", "empty client id, clean session", connect(2, &[&text("")])),
            bad("v3 [MQTT-3.1.3-7]", "empty client id, kept session", Kind::ClientIdEmpty, 0x85, connect(0, &[&text("")])),
            bad("v3 [MQTT-3.1.3-9]", "client id above the limit", Kind::ClientIdTooLong, 0x85, connect(2, &[&text([b'c'; 1025])])),
            good("v3 [MQTT-3.1.3-9]", "client id at the limit", connect(2, &[&text([b'c'; 1024])])),
            bad("v3 [MQTT-3.1.3-10]", "will topic not UTF-8", Kind::Utf8, 0x81, connect(6, &[&id, &text(b"\xFF"), &message])),
            bad("v3 [MQTT-3.1.3-10]", "will topic with wildcard", Kind::TopicNameWildcard, 0x90, connect(6, &[&id, &text("a/#"), &message])),
            bad("v3 [MQTT-3.1.3-11]", "user name not UTF-8", Kind::Utf8, 0x81, connect(0x82, &[&id, &text(b"\xC3\x28")])),
            bad("v3 [MQTT-3.1.4-1]", "bytes after the last field", Kind::TrailingBytes, 0x81, connect(2, &[&id, &[0]])),
            bad("v3 [MQTT-3.1.4-1]", "cut in the keep-alive", Kind::Truncated, 0x81, packet(0x10, &[&text("MQTT"), &[4, 2, 0]])),
            bad("v3 [MQTT-3.1.4-1]", "no body", Kind::Truncated, 0x81, packet(0x10, &[])),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn connack() {
    let connack = |flags, code| packet(0x20, &[&[flags, code]]);
    let mut rows: Vec<Row> = (0..=5)
        .map(|code| good("v3 [MQTT-3.2.2-6]", "listed return code", connack(0, code)).by_server())
        .collect();
    rows.extend([
        good("v3 [MQTT-3.2.2-2]", "session present", connack(1, 0)).by_server(),
        bad("v3 [MQTT-3.2.2-4]", "session present in a refusal", Kind::SessionPresentOnError, 0x82, connack(1, 5)).by_server(),
        bad("v3 [MQTT-3.2.2-6]", "return code 6", Kind::ReasonCodeUnknown, 0x81, connack(0, 6)).by_server(),
        bad("v3 [MQTT-3.2.2-1]", "reserved flags", Kind::AcknowledgeFlags, 0x81, connack(2, 0)).by_server(),
        bad("v3 [MQTT-3.2.0-1]", "CONNACK from a client", Kind::WrongDirection, 0x82, connack(0, 0)),
    ]);
    check(V311, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn publish_rules() {
    check(
        V311,
        &[
            bad("v3 [MQTT-3.3.1-2]", "DUP with QoS 0", Kind::DupOnQos0, 0x81, packet(0x38, &[&text("a")])),
            good("v3 [MQTT-3.3.1-1]", "DUP with QoS 1", packet(0x3A, &[&text("a"), &[0, 1]])),
            bad("v3 [MQTT-3.3.1-4]", "QoS 3", Kind::QosInvalid, 0x81, packet(0x36, &[&text("a"), &[0, 1]])),
            good("v3 [MQTT-2.3.1-5]", "QoS 0: what follows the topic is payload", packet(0x30, &[&text("a"), &[0, 0]])),
            bad("v3 [MQTT-3.3.2-2]", "#", Kind::TopicNameWildcard, 0x90, publish("a/#")),
            bad("v3 [MQTT-4.7.1-1]", "+ inside a level", Kind::TopicNameWildcard, 0x90, publish("a+b")),
            bad("v3 [MQTT-4.7.3-1]", "empty topic", Kind::TopicNameEmpty, 0x82, publish("")),
            bad("v3 [MQTT-4.7.3-2]", "U+0000 alone", Kind::Nul, 0x81, publish("\0")),
            good("v3 [MQTT-4.7.3-1]", "a slash alone", publish("/")),
            good("v3 [MQTT-4.7.3-4]", "spaces and case", publish(" A/ a")),
            bad("v3 [MQTT-4.7.3-3]", "above the limit of bytes", Kind::TopicNameLimit, 0x90, publish([b'a'; 4097])),
            good("v3 [MQTT-4.7.3-3]", "at the limit of bytes", publish([b'a'; 4096])),
            bad("v3 [MQTT-4.7.3-3]", "129 levels", Kind::TopicNameLimit, 0x90, publish([b'/'; 128])),
            good("v3 [MQTT-4.7.3-3]", "128 levels", publish([b'/'; 127])),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn subscribe_rules() {
    let options = |byte: u8| packet(0x82, &[&[0, 1], &text("a"), &[byte]]);
    let mut rows = vec![
        bad("v3 [MQTT-3.8.3-1]", "filter not UTF-8", Kind::Utf8, 0x81, subscribe(b"\xFE")),
        bad("v3 [MQTT-3.8.3-3]", "no filter", Kind::NoTopicFilter, 0x82, packet(0x82, &[&[0, 1]])),
        bad("v3 [MQTT-3.8.3-3]", "filter without QoS", Kind::Truncated, 0x81, packet(0x82, &[&[0, 1], &text("a")])),
        bad("v3 [MQTT-3.8.3-3]", "second filter cut", Kind::Truncated, 0x81, packet(0x82, &[&[0, 1], &text("a"), &[0, 0, 5]])),
        bad("v3 [MQTT-3.10.3-1]", "filter not UTF-8", Kind::Utf8, 0x81, unsubscribe(b"\xFE")),
        bad("v3 [MQTT-3.10.3-1]", "gap between filters", Kind::Truncated, 0x81, packet(0xA2, &[&[0, 1], &text("a"), &[7]])),
        bad("v3 [MQTT-3.10.3-2]", "no filter", Kind::NoTopicFilter, 0x82, packet(0xA2, &[&[0, 1]])),
        bad("v3 [MQTT-4.7.3-2]", "U+0000 in a filter", Kind::Nul, 0x81, subscribe("a\0")),
        bad("v3 [MQTT-4.7.3-1]", "empty filter", Kind::TopicFilterInvalid, 0x8F, subscribe("")),
        bad("v3 [MQTT-4.7.3-3]", "filter above the limit", Kind::TopicFilterLimit, 0x8F, subscribe([b'a'; 4097])),
        bad("v3 [MQTT-4.7.3-3]", "filter of 129 levels", Kind::TopicFilterLimit, 0x8F, subscribe([b'/'; 128])),
    ];
    rows.extend((0..3).map(|qos| good("v3 [MQTT-3.8.3-4]", "QoS 0 to 2", options(qos))));
    rows.extend((3..=255).map(|byte| {
        bad("v3 [MQTT-3.8.3-4]", "QoS 3 or reserved bits", Kind::SubscriptionQosV311, 0x81, options(byte))
    }));
    check(V311, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn filters() {
    let hash = ["#", "a/#", "/#", "+/#", "$SYS/#"];
    let plus = ["+", "a/+", "+/a", "/+", "a/+/b", "+/+/+", "$share/g/+"];
    let bad_hash = ["a#", "a/#/b", "#/a", "##", "a/#b", "+#", "/#/", "$share/g/a#"];
    let bad_plus = ["a+", "+a", "a/+b", "++", "a/b+/c", "$share/g/a+"];
    let bad_share = ["$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/#/a", "$share/a#/b"];
    let mut rows = Vec::new();
    let makers: [fn(&str) -> Vec<u8>; 2] = [|filter| subscribe(filter), |filter| unsubscribe(filter)];
    for make in makers {
        rows.extend(hash.map(|filter| good("v3 [MQTT-4.7.1-2]", "#", make(filter))));
        rows.extend(plus.map(|filter| good("v3 [MQTT-4.7.1-3]", "+", make(filter))));
        rows.extend(bad_hash.map(|filter| {
            bad("v3 [MQTT-4.7.1-2]", "# misplaced", Kind::TopicFilterInvalid, 0x8F, make(filter))
        }));
        rows.extend(bad_plus.map(|filter| {
            bad("v3 [MQTT-4.7.1-3]", "+ misplaced", Kind::TopicFilterInvalid, 0x8F, make(filter))
        }));
        rows.extend(bad_share.map(|filter| {
            bad("v3 [MQTT-4.7.1-2]", "$share malformed", Kind::ShareNameInvalid, 0x8F, make(filter))
        }));
        rows.push(good("v3 [MQTT-4.7.3-1]", "$share without slash is an ordinary filter", make("$share")));
        rows.push(good("v3 [MQTT-4.7.3-1]", "$sharex is an ordinary filter", make("$sharex/a")));
    }
    check(V311, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn suback() {
    let suback = |codes: &[u8]| packet(0x90, &[&[0, 1], codes]);
    let mut rows = vec![
        good("v3 [MQTT-3.9.3-1]", "several codes", suback(&[2, 0x80, 0, 1])).by_server(),
        bad("v3 [MQTT-3.8.4-5]", "no code", Kind::NoReasonCode, 0x82, suback(&[])).by_server(),
        bad("v3 [MQTT-3.8.4-1]", "SUBACK from a client", Kind::WrongDirection, 0x82, suback(&[0])),
    ];
    for code in 0..=255 {
        rows.push(if matches!(code, 0..=2 | 0x80) {
            good("v3 [MQTT-3.9.3-2]", "listed code", suback(&[code])).by_server()
        } else {
            bad("v3 [MQTT-3.9.3-2]", "other code", Kind::ReasonCodeUnknown, 0x81, suback(&[code])).by_server()
        });
    }
    check(V311, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn small_packets() {
    check(
        V311,
        &[
            good("v3 [MQTT-3.12.4-1]", "PINGREQ", vec![0xC0, 0]),
            good("v3 [MQTT-3.12.4-1]", "PINGRESP", vec![0xD0, 0]).by_server(),
            bad("v3 [MQTT-3.12.4-1]", "PINGREQ with a body", Kind::TrailingBytes, 0x81, packet(0xC0, &[&[0]])),
            bad("v3 [MQTT-3.12.4-1]", "PINGRESP from a client", Kind::WrongDirection, 0x82, vec![0xD0, 0]),
            bad("v3 [MQTT-4.8.0-1]", "PINGREQ from a server", Kind::WrongDirection, 0x82, vec![0xC0, 0]).by_server(),
            bad("v3 [MQTT-4.8.0-1]", "SUBSCRIBE from a server", Kind::WrongDirection, 0x82, subscribe("a")).by_server(),
            bad("v3 [MQTT-4.8.0-1]", "DISCONNECT from a server", Kind::WrongDirection, 0x82, vec![0xE0, 0]).by_server(),
            good("v3 [MQTT-3.14.1-1]", "DISCONNECT", vec![0xE0, 0]),
            bad("v3 [MQTT-3.14.1-1]", "DISCONNECT with a v5 reason code", Kind::TrailingBytes, 0x81, packet(0xE0, &[&[4]])),
        ],
    );
}
