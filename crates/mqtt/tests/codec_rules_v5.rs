//! Rules of MQTT 5.0 that one packet alone can keep or break, a row each: strings, headers, CONNECT, PUBLISH, SUBSCRIBE, UNSUBSCRIBE.

mod codec_support;

use codec_support::{bad, check, good, packet, props, text, text_prop, user};
use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::ProtocolVersion::V5;

/// CONNECT with these flags, an empty property block unless given, and this payload.
fn connect_with(flags: u8, properties: &[u8], payload: &[&[u8]]) -> Vec<u8> {
    let head = [0, 4, b'M', b'Q', b'T', b'T', 5, flags, 0, 60];
    packet(0x10, &[&head, properties, &payload.concat()])
}

fn connect(flags: u8, payload: &[&[u8]]) -> Vec<u8> {
    connect_with(flags, &[0], payload)
}

fn named(name: &str, level: u8) -> Vec<u8> {
    packet(0x10, &[&text(name), &[level, 2, 0, 60, 0], &text("c")])
}

fn publish_with(topic: impl AsRef<[u8]>, properties: &[u8]) -> Vec<u8> {
    packet(0x30, &[&text(topic), properties, b"hi"])
}

fn publish(topic: impl AsRef<[u8]>) -> Vec<u8> {
    publish_with(topic, &[0])
}

fn subscribe(filter: impl AsRef<[u8]>, options: u8) -> Vec<u8> {
    packet(0x82, &[&[0, 1, 0], &text(filter), &[options]])
}

fn unsubscribe(filter: impl AsRef<[u8]>) -> Vec<u8> {
    packet(0xA2, &[&[0, 1, 0], &text(filter)])
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn strings() {
    check(
        V5,
        &[
            bad("v5 [MQTT-1.5.4-1]", "surrogate U+DFFF", Kind::Utf8, 0x81, publish(b"\xED\xBF\xBF")),
            bad("v5 [MQTT-1.5.4-1]", "overlong", Kind::Utf8, 0x81, publish(b"\xE0\x80\xAF")),
            bad("v5 [MQTT-1.5.4-1]", "bad user name", Kind::Utf8, 0x81, connect(0x82, &[&text("c"), &text(b"\xFF")])),
            bad("v5 [MQTT-1.5.4-2]", "U+0000 in a topic", Kind::Nul, 0x81, publish(b"a\0")),
            bad("v5 [MQTT-1.5.4-2]", "U+0000 in a content type", Kind::Nul, 0x81, publish_with("a", &props(&[&text_prop(3, "a\0")]))),
            good("v5 [MQTT-1.5.4-3]", "U+FEFF is kept", publish("\u{FEFF}")),
            bad("v5 [MQTT-1.5.7-1]", "name not UTF-8", Kind::Utf8, 0x81, publish_with("a", &props(&[&user(b"\xFF", "v")]))),
            bad("v5 [MQTT-1.5.7-1]", "value not UTF-8", Kind::Utf8, 0x81, publish_with("a", &props(&[&user("n", b"\xFF")]))),
            bad("v5 [MQTT-1.5.7-1]", "U+0000 in a name", Kind::Nul, 0x81, publish_with("a", &props(&[&user("\0", "v")]))),
            bad("v5 [MQTT-1.5.7-1]", "U+0000 in a value", Kind::Nul, 0x81, publish_with("a", &props(&[&user("n", "\0")]))),
            bad("v5 [MQTT-3.3.2-1]", "topic beyond the packet", Kind::Truncated, 0x81, packet(0x30, &[&[1, 0], b"abc"])),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn headers() {
    let clause = |number: u8| match number {
        6 => "v5 [MQTT-3.6.1-1]",
        8 => "v5 [MQTT-3.8.1-1]",
        10 => "v5 [MQTT-3.10.1-1]",
        14 => "v5 [MQTT-3.14.1-1]",
        15 => "v5 [MQTT-3.15.1-1]",
        _ => "v5 [MQTT-2.1.3-1]",
    };
    let mut rows = Vec::new();
    for number in (1..=15).filter(|number| *number != 3) {
        let right = if matches!(number, 6 | 8 | 10) { 2 } else { 0 };
        for flags in (0..16).filter(|flags| *flags != right) {
            let bytes = vec![number << 4 | flags, 0];
            rows.push(bad(clause(number), "wrong flags", Kind::FixedHeaderFlags, 0x81, bytes));
        }
    }
    rows.extend([
        bad("v5 [MQTT-1.5.5-1]", "remaining length 0 in two bytes", Kind::LengthNotMinimal, 0x81, vec![0xC0, 0x80, 0x00]),
        bad("v5 [MQTT-1.5.5-1]", "five bytes", Kind::LengthTooLong, 0x81, vec![0xC0, 0x80, 0x80, 0x80, 0x80, 0x01]),
        bad("v5 [MQTT-1.5.5-1]", "property length not minimal", Kind::LengthNotMinimal, 0x81, publish_with("a", &[0x80, 0x00])),
        bad("v5 [MQTT-1.5.5-1]", "property length of five bytes", Kind::LengthTooLong, 0x81, publish_with("a", &[0x80, 0x80, 0x80, 0x80, 0x00])),
        bad("v5 [MQTT-1.5.5-1]", "property identifier not minimal", Kind::LengthNotMinimal, 0x81, publish_with("a", &props(&[&[0x81, 0x00, 0x00]]))),
        bad("v5 [MQTT-1.5.5-1]", "subscription identifier not minimal", Kind::LengthNotMinimal, 0x81, packet(0x82, &[&[0, 1], &props(&[&[0x0B, 0x81, 0x00]]), &text("a"), &[0]])),
        bad("v5 [MQTT-2.2.2-1]", "no property length", Kind::Truncated, 0x81, packet(0x30, &[&text("a")])),
        bad("v5 [MQTT-2.2.2-1]", "no property length in SUBSCRIBE", Kind::Truncated, 0x81, packet(0x82, &[&[0, 1]])),
        bad("v5 [MQTT-2.2.2-1]", "property length beyond the packet", Kind::Truncated, 0x81, publish_with("a", &[9])),
        good("v5 [MQTT-2.2.2-1]", "property length 0", publish("a")),
    ]);
    check(V5, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn packet_identifiers() {
    check(
        V5,
        &[
            good("v5 [MQTT-2.2.1-2]", "QoS 0 has none", packet(0x30, &[&text("a"), &[0]])),
            bad("v5 [MQTT-2.2.1-3]", "SUBSCRIBE with id 0", Kind::PacketIdZero, 0x82, packet(0x82, &[&[0, 0, 0], &text("a"), &[0]])),
            bad("v5 [MQTT-2.2.1-3]", "UNSUBSCRIBE with id 0", Kind::PacketIdZero, 0x82, packet(0xA2, &[&[0, 0, 0], &text("a")])),
            bad("v5 [MQTT-2.2.1-3]", "QoS 1 with id 0", Kind::PacketIdZero, 0x82, packet(0x32, &[&text("a"), &[0, 0, 0]])),
            bad("v5 [MQTT-2.2.1-4]", "QoS 2 with id 0", Kind::PacketIdZero, 0x82, packet(0x34, &[&text("a"), &[0, 0, 0]])).by_server(),
            bad("v5 [MQTT-2.2.1-5]", "PUBACK with id 0", Kind::PacketIdZero, 0x82, packet(0x40, &[&[0, 0]])),
            bad("v5 [MQTT-2.2.1-6]", "SUBACK with id 0", Kind::PacketIdZero, 0x82, packet(0x90, &[&[0, 0, 0, 0]])).by_server(),
            bad("v5 [MQTT-2.2.1-6]", "UNSUBACK with id 0", Kind::PacketIdZero, 0x82, packet(0xB0, &[&[0, 0, 0, 0]])).by_server(),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn connect_rules() {
    let (id, topic, message) = (text("c"), text("t"), text("m"));
    let (user_name, password) = (text("u"), text("p"));
    check(
        V5,
        &[
            bad("v5 [MQTT-3.1.2-1]", "another name", Kind::ProtocolName, 0x84, named("MQTTX", 5)),
            bad("v5 [MQTT-3.1.2-2]", "level 6", Kind::ProtocolLevelNew, 0x84, named("MQTT", 6)),
            bad("v5 [MQTT-3.1.2-3]", "reserved flag", Kind::ConnectFlagReserved, 0x81, connect(3, &[&id])),
            bad("v5 [MQTT-3.1.2-9]", "will flag without will properties", Kind::Truncated, 0x81, connect(6, &[&id])),
            bad("v5 [MQTT-3.1.2-9]", "will flag without payload", Kind::Truncated, 0x81, connect(6, &[&id, &[0], &topic])),
            good("v5 [MQTT-3.1.2-9]", "will", connect(6, &[&id, &[0], &topic, &message])),
            bad("v5 [MQTT-3.1.2-11]", "Will QoS without will", Kind::WillFlags, 0x81, connect(0x0A, &[&id])),
            bad("v5 [MQTT-3.1.2-12]", "Will QoS 3", Kind::WillQos, 0x81, connect(0x1E, &[&id, &[0], &topic, &message])),
            bad("v5 [MQTT-3.1.2-13]", "Will Retain without will", Kind::WillFlags, 0x81, connect(0x22, &[&id])),
            bad("v5 [MQTT-3.1.2-16]", "user name without flag", Kind::TrailingBytes, 0x81, connect(2, &[&id, &user_name])),
            bad("v5 [MQTT-3.1.2-17]", "flag without user name", Kind::Truncated, 0x81, connect(0x82, &[&id])),
            bad("v5 [MQTT-3.1.2-18]", "password without flag", Kind::TrailingBytes, 0x81, connect(2, &[&id, &password])),
            bad("v5 [MQTT-3.1.2-19]", "flag without password", Kind::Truncated, 0x81, connect(0x42, &[&id])),
            good("v5 [MQTT-3.1.2-19]", "password without user name", connect(0x42, &[&id, &password])),
            good("v5 [MQTT-3.1.3-1]", "all fields", connect(0xF6, &[&id, &[0], &topic, &message, &user_name, &password])),
            bad("v5 [MQTT-3.1.3-3]", "no client id", Kind::Truncated, 0x81, connect(2, &[])),
            bad("v5 [MQTT-3.1.3-4]", "client id not UTF-8", Kind::Utf8, 0x81, connect(2, &[&text(b"\xFF")])),
            good("v5 [MQTT-3.1.3-5]", "23 letters and digits", connect(2, &[&text("0123456789abcdefABCDEFz")])),
            good("v5 [MQTT-3.1.3-6]", "empty client id, kept session", connect(0, &[&text("")])),
            bad("v5 [MQTT-3.1.3-8]", "client id above the limit", Kind::ClientIdTooLong, 0x85, connect(2, &[&text([b'c'; 1025])])),
            bad("v5 [MQTT-3.1.3-11]", "will topic not UTF-8", Kind::Utf8, 0x81, connect(6, &[&id, &[0], &text(b"\xFF"), &message])),
            bad("v5 [MQTT-3.1.3-11]", "will topic with wildcard", Kind::TopicNameWildcard, 0x90, connect(6, &[&id, &[0], &text("+"), &message])),
            bad("v5 [MQTT-3.1.3-11]", "empty will topic", Kind::TopicNameEmpty, 0x82, connect(6, &[&id, &[0], &text(""), &message])),
            bad("v5 [MQTT-3.1.3-12]", "user name with U+0000", Kind::Nul, 0x81, connect(0x82, &[&id, &text("\0")])),
            bad("v5 [MQTT-3.1.4-1]", "bytes after the last field", Kind::TrailingBytes, 0x81, connect(2, &[&id, &[0]])),
            bad("v5 [MQTT-3.1.4-1]", "cut properties", Kind::Truncated, 0x81, connect_with(2, &[5, 0x11, 0, 0], &[])),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn publish_rules() {
    let alias = |number: u16| [vec![0x23], number.to_be_bytes().to_vec()].concat();
    check(
        V5,
        &[
            bad("v5 [MQTT-3.3.1-2]", "DUP with QoS 0", Kind::DupOnQos0, 0x81, packet(0x38, &[&text("a"), &[0]])),
            good("v5 [MQTT-3.3.1-1]", "DUP with QoS 2", packet(0x3C, &[&text("a"), &[0, 1, 0]])),
            bad("v5 [MQTT-3.3.1-4]", "QoS 3", Kind::QosInvalid, 0x81, packet(0x36, &[&text("a"), &[0, 1, 0]])),
            bad("v5 [MQTT-3.3.2-2]", "+", Kind::TopicNameWildcard, 0x90, publish("a/+")),
            bad("v5 [MQTT-4.7.0-1]", "#", Kind::TopicNameWildcard, 0x90, publish("#")),
            bad("v5 [MQTT-4.7.3-1]", "empty topic without alias", Kind::TopicNameEmpty, 0x82, publish("")),
            bad("v5 [MQTT-4.7.3-2]", "U+0000", Kind::Nul, 0x81, publish("\0")),
            bad("v5 [MQTT-4.7.3-3]", "above the limit of bytes", Kind::TopicNameLimit, 0x90, publish([b'a'; 4097])),
            bad("v5 [MQTT-4.7.3-3]", "above the limit of levels", Kind::TopicNameLimit, 0x90, publish([b'/'; 128])),
            good("v5 [MQTT-4.7.3-4]", "spaces and case", publish(" A/ a")),
            good("v5 [MQTT-3.3.2-12]", "empty topic with alias", publish_with("", &props(&[&alias(1)]))),
            good("v5 [MQTT-3.3.2-12]", "topic and highest alias", publish_with("a", &props(&[&alias(0xFFFF)]))),
            bad("v5 [MQTT-3.3.2-8]", "alias 0", Kind::TopicAliasZero, 0x94, publish_with("a", &props(&[&alias(0)]))),
            bad("v5 [MQTT-3.3.2-8]", "alias 0 without topic", Kind::TopicAliasZero, 0x94, publish_with("", &props(&[&alias(0)]))),
            bad("v5 [MQTT-3.3.2-13]", "response topic not UTF-8", Kind::Utf8, 0x81, publish_with("a", &props(&[&text_prop(8, b"\xFF")]))),
            bad("v5 [MQTT-3.3.2-14]", "response topic with #", Kind::ResponseTopic, 0x82, publish_with("a", &props(&[&text_prop(8, "a/#")]))),
            bad("v5 [MQTT-3.3.2-14]", "response topic with +", Kind::ResponseTopic, 0x82, publish_with("a", &props(&[&text_prop(8, "+")]))),
            bad("v5 [MQTT-4.7.3-1]", "empty response topic", Kind::ResponseTopic, 0x82, publish_with("a", &props(&[&text_prop(8, "")]))),
            bad("v5 [MQTT-3.3.2-19]", "content type not UTF-8", Kind::Utf8, 0x81, publish_with("a", &props(&[&text_prop(3, b"\xFF")]))),
            bad("v5 [MQTT-3.3.4-6]", "subscription identifier from a client", Kind::PropertySender, 0x82, publish_with("a", &props(&[&[0x0B, 1]]))),
            good("v5 [MQTT-3.3.4-4]", "several identifiers from a server", publish_with("a", &props(&[&[0x0B, 1, 0x0B, 2]]))).by_server(),
        ],
    );
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn subscribe_rules() {
    let mut rows = vec![
        bad("v5 [MQTT-3.8.3-1]", "filter not UTF-8", Kind::Utf8, 0x81, subscribe(b"\xFE", 0)),
        bad("v5 [MQTT-3.8.3-2]", "no filter", Kind::NoTopicFilter, 0x82, packet(0x82, &[&[0, 1, 0]])),
        bad("v5 [MQTT-3.8.3-2]", "filter without options", Kind::Truncated, 0x81, packet(0x82, &[&[0, 1, 0], &text("a")])),
        bad("v5 [MQTT-3.8.3-4]", "No Local on a shared subscription", Kind::NoLocalOnShared, 0x82, subscribe("$share/g/a", 0x04)),
        good("v5 [MQTT-3.8.3-3]", "No Local", subscribe("a", 0x04)),
        bad("v5 [MQTT-3.10.3-1]", "filter not UTF-8", Kind::Utf8, 0x81, unsubscribe(b"\xFE")),
        bad("v5 [MQTT-3.10.3-2]", "no filter", Kind::NoTopicFilter, 0x82, packet(0xA2, &[&[0, 1, 0]])),
        bad("v5 [MQTT-4.7.3-1]", "empty filter", Kind::TopicFilterInvalid, 0x8F, subscribe("", 0)),
        bad("v5 [MQTT-4.7.3-2]", "U+0000 in a filter", Kind::Nul, 0x81, unsubscribe("a\0")),
        bad("v5 [MQTT-4.7.3-3]", "filter above the limit", Kind::TopicFilterLimit, 0x8F, subscribe([b'/'; 128], 0)),
    ];
    for options in 0..=255_u8 {
        let bytes = subscribe("a", options);
        rows.push(match options {
            0x40.. => bad("v5 [MQTT-3.8.3-5]", "reserved bits", Kind::SubscriptionOptionsReserved, 0x81, bytes),
            _ if options & 3 == 3 => bad("v5 [MQTT-3.8.3-5]", "QoS 3", Kind::SubscriptionQos, 0x82, bytes),
            0x30..0x40 => bad("v5 [MQTT-3.8.3-5]", "Retain Handling 3", Kind::RetainHandling, 0x82, bytes),
            _ => good("v5 [MQTT-3.8.3-5]", "options", bytes),
        });
    }
    check(V5, &rows);
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn filters() {
    let makers: [fn(&str) -> Vec<u8>; 2] = [|filter| subscribe(filter, 0), |filter| unsubscribe(filter)];
    let mut rows = Vec::new();
    for make in makers {
        rows.extend(["#", "a/#", "$share/g/#"].map(|filter| good("v5 [MQTT-4.7.1-1]", "#", make(filter))));
        rows.extend(["+", "+/a", "$share/g/+/a"].map(|filter| good("v5 [MQTT-4.7.1-2]", "+", make(filter))));
        rows.extend(["a#", "#/a", "a/#/b", "$share/g/a#"].map(|filter| {
            bad("v5 [MQTT-4.7.1-1]", "# misplaced", Kind::TopicFilterInvalid, 0x8F, make(filter))
        }));
        rows.extend(["a+", "+a", "a/b+", "$share/g/+b"].map(|filter| {
            bad("v5 [MQTT-4.7.1-2]", "+ misplaced", Kind::TopicFilterInvalid, 0x8F, make(filter))
        }));
        rows.extend(["$share//a", "$share/"].map(|filter| {
            bad("v5 [MQTT-4.8.2-1]", "no share name", Kind::ShareNameInvalid, 0x8F, make(filter))
        }));
        rows.extend(["$share/g", "$share/g/", "$share/+/a", "$share/g#/a"].map(|filter| {
            bad("v5 [MQTT-4.8.2-2]", "share name or filter", Kind::ShareNameInvalid, 0x8F, make(filter))
        }));
    }
    check(V5, &rows);
}
