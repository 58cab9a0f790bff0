//! Rules of writing: what fits the receiver, short forms, what a version cannot say, the order of what is handed on.

mod codec_support;

use std::num::NonZeroU32;

use codec_support::{decode_one, packet, props, text, text_prop, user};
use courser_mqtt::codec::*;

fn id(number: u16) -> PacketId {
    PacketId::new(number).expect("not zero")
}

fn topic(name: &str) -> TopicName<'_> {
    TopicName::new(name).expect("a topic name")
}

fn written(packet: &Packet<'_>, version: ProtocolVersion) -> Vec<u8> {
    let mut out = Vec::new();
    packet
        .encode(&Receiver::new(version), &mut out)
        .expect("a valid packet");
    out
}

/// A block with Reason String and User Property.
fn reason_and_user(scope: PropertyScope) -> PropertiesBuilder {
    let mut builder = PropertiesBuilder::new(scope);
    let push = |builder: &mut PropertiesBuilder, property| {
        builder.push(property).expect("allowed here");
    };
    if scope == PropertyScope::Auth {
        let method = MqttStr::new("m").expect("text");
        push(&mut builder, Property::AuthenticationMethod(method));
    }
    let reason = MqttStr::new("too long a reason").expect("text");
    push(&mut builder, Property::ReasonString(reason));
    let (name, value) = (MqttStr::new("name"), MqttStr::new("value"));
    let pair = Property::UserProperty(name.expect("text"), value.expect("text"));
    push(&mut builder, pair);
    builder
}

fn has_user(properties: Properties<'_>) -> bool {
    properties.user_properties().next().is_some()
}

fn properties_of<'a>(packet: &Packet<'a>) -> Properties<'a> {
    match packet {
        Packet::Connack(connack) => connack.properties,
        Packet::Puback(ack) => ack.properties,
        Packet::Pubrec(ack) => ack.properties,
        Packet::Pubrel(ack) => ack.properties,
        Packet::Pubcomp(ack) => ack.properties,
        Packet::Suback(suback) => suback.properties,
        Packet::Unsuback(unsuback) => unsuback.properties,
        Packet::Disconnect(disconnect) => disconnect.properties,
        Packet::Auth(auth) => auth.properties,
        other => panic!("{:?} has no Reason String", other.packet_type()),
    }
}

/// Clauses of each packet: Reason String, User Properties.
const TRIMMED: &[(&str, &str, PropertyScope)] = &[
    (
        "v5 [MQTT-3.2.2-19]",
        "v5 [MQTT-3.2.2-20]",
        PropertyScope::Connack,
    ),
    (
        "v5 [MQTT-3.4.2-2]",
        "v5 [MQTT-3.4.2-3]",
        PropertyScope::Puback,
    ),
    (
        "v5 [MQTT-3.5.2-2]",
        "v5 [MQTT-3.5.2-3]",
        PropertyScope::Pubrec,
    ),
    (
        "v5 [MQTT-3.6.2-2]",
        "v5 [MQTT-3.6.2-3]",
        PropertyScope::Pubrel,
    ),
    (
        "v5 [MQTT-3.7.2-2]",
        "v5 [MQTT-3.7.2-3]",
        PropertyScope::Pubcomp,
    ),
    (
        "v5 [MQTT-3.9.2-1]",
        "v5 [MQTT-3.9.2-2]",
        PropertyScope::Suback,
    ),
    (
        "v5 [MQTT-3.11.2-1]",
        "v5 [MQTT-3.11.2-2]",
        PropertyScope::Unsuback,
    ),
    (
        "v5 [MQTT-3.14.2-3]",
        "v5 [MQTT-3.14.2-4]",
        PropertyScope::Disconnect,
    ),
    (
        "v5 [MQTT-3.15.2-2]",
        "v5 [MQTT-3.15.2-3]",
        PropertyScope::Auth,
    ),
];

fn subscribe(subscriptions: Subscriptions<'_>) -> Packet<'_> {
    Packet::Subscribe(Subscribe {
        packet_id: id(1),
        properties: Properties::EMPTY,
        subscriptions,
    })
}

fn answer(scope: PropertyScope, properties: Properties<'_>) -> Packet<'_> {
    let (packet_id, reason) = (id(1), ReasonCode::Success);
    let codes = |packet| ReasonCodes::new(packet, &[0x87]).expect("a code");
    match scope {
        PropertyScope::Connack => Packet::Connack(Connack {
            session_present: true,
            reason,
            properties,
        }),
        PropertyScope::Puback => Packet::Puback(Ack {
            packet_id,
            reason,
            properties,
        }),
        PropertyScope::Pubrec => Packet::Pubrec(Ack {
            packet_id,
            reason,
            properties,
        }),
        PropertyScope::Pubrel => Packet::Pubrel(Ack {
            packet_id,
            reason,
            properties,
        }),
        PropertyScope::Pubcomp => Packet::Pubcomp(Ack {
            packet_id,
            reason,
            properties,
        }),
        PropertyScope::Suback => Packet::Suback(Suback {
            packet_id,
            properties,
            codes: codes(PacketType::Suback),
        }),
        PropertyScope::Unsuback => Packet::Unsuback(Unsuback {
            packet_id,
            properties,
            codes: codes(PacketType::Unsuback),
        }),
        PropertyScope::Disconnect => Packet::Disconnect(Disconnect {
            reason: ReasonCode::UnspecifiedError,
            properties,
        }),
        _ => Packet::Auth(Auth {
            reason: ReasonCode::ContinueAuthentication,
            properties,
        }),
    }
}

/// With every possible maximum: as much as fits is sent, and never a byte more than the maximum.
#[test]
fn optional_properties_give_way_to_the_maximum_packet_size() {
    for &(reason_clause, user_clause, scope) in TRIMMED {
        let builder = reason_and_user(scope);
        let packet = answer(scope, builder.properties());
        let full = written(&packet, ProtocolVersion::V5).len();
        let (mut with_reason, mut with_user, mut refused) = (0, 0, 0);
        for max in 1..=full + 1 {
            let receiver = Receiver::new(ProtocolVersion::V5).with_packet_bytes_max(max as u32);
            let mut out = Vec::new();
            match packet.encode(&receiver, &mut out) {
                Ok(len) => {
                    assert!(
                        len <= max && len == out.len(),
                        "{reason_clause} {user_clause}"
                    );
                    assert_eq!(packet.encoded_len(&receiver), Ok(len));
                    let rules = Rules::from_server(ProtocolVersion::V5);
                    let read = decode_one(&out, &rules).expect("still valid");
                    let properties = properties_of(&read);
                    let has_reason = properties.reason_string().is_some();
                    with_reason += usize::from(has_reason);
                    with_user += usize::from(has_user(properties));
                    assert_eq!(has_reason && has_user(properties), max >= full, "{scope:?}");
                    // The method is no ornament: it stays.
                    if scope == PropertyScope::Auth {
                        assert!(properties.authentication_method().is_some());
                    }
                }
                Err(EncodeError::TooLarge {
                    bytes, bytes_max, ..
                }) => {
                    refused += 1;
                    assert!(bytes > max && bytes_max as usize == max && out.is_empty());
                }
                Err(other) => panic!("{scope:?}: {other}"),
            }
        }
        assert!(
            with_reason > 2 && with_user > 2 && refused >= 1,
            "{scope:?} saw all cases"
        );
    }
}

/// v5 [MQTT-3.1.2-24] and v5 [MQTT-3.2.2-15]: other packets are refused when they are too large, never cut.
#[test]
fn other_packets_are_never_cut() {
    let mut publish = Publish::new(topic("a"), b"payload");
    let block = user("n", "v");
    publish.passthrough = Passthrough::new(&block, &Limits::DEFAULT).expect("a block");
    let packet = Packet::Publish(publish);
    let len = written(&packet, ProtocolVersion::V5).len();
    let receiver = Receiver::new(ProtocolVersion::V5).with_packet_bytes_max(len as u32 - 1);
    let too_large = EncodeError::TooLarge {
        packet: PacketType::Publish,
        bytes: len,
        bytes_max: len as u32 - 1,
    };
    assert_eq!(packet.encode(&receiver, &mut Vec::new()), Err(too_large));
    let mut encoder = PublishEncoder::new();
    let prepared = encoder
        .prepare(&publish, ProtocolVersion::V5)
        .expect("valid");
    assert!(!prepared.fits(&receiver));
    assert!(prepared.fits(&Receiver::new(ProtocolVersion::V5)));
}

/// v5 3.4.2.1, 3.14.2.1, 3.15.2.1: what says nothing is left out; 3.1.1 never has it.
#[test]
fn short_forms() {
    let packets: [(Packet<'_>, &[u8]); 6] = [
        (Packet::Puback(Ack::new(id(5))), &[0x40, 2, 0, 5]),
        (Packet::Pubrec(Ack::new(id(5))), &[0x50, 2, 0, 5]),
        (Packet::Pubrel(Ack::new(id(5))), &[0x62, 2, 0, 5]),
        (Packet::Pubcomp(Ack::new(id(5))), &[0x70, 2, 0, 5]),
        (
            Packet::Disconnect(Disconnect::new(ReasonCode::NORMAL_DISCONNECTION)),
            &[0xE0, 0],
        ),
        (Packet::Pingresp(Pingresp), &[0xD0, 0]),
    ];
    for (packet, bytes) in packets {
        assert_eq!(written(&packet, ProtocolVersion::V5), bytes);
        assert_eq!(written(&packet, ProtocolVersion::V311), bytes);
    }
    let puback = Packet::Puback(Ack::with_reason(id(5), ReasonCode::NoMatchingSubscribers));
    assert_eq!(written(&puback, ProtocolVersion::V5), [0x40, 3, 0, 5, 0x10]);
    assert_eq!(written(&puback, ProtocolVersion::V311), [0x40, 2, 0, 5]);
    let busy = Packet::Disconnect(Disconnect::new(ReasonCode::ServerBusy));
    assert_eq!(written(&busy, ProtocolVersion::V5), [0xE0, 1, 0x89]);
    // v5 [MQTT-2.2.2-1]: where the length may not be left out it is 0.
    let connack = Packet::Connack(Connack::refused(ReasonCode::NotAuthorized));
    assert_eq!(
        written(&connack, ProtocolVersion::V5),
        [0x20, 3, 0, 0x87, 0]
    );
    assert_eq!(written(&connack, ProtocolVersion::V311), [0x20, 2, 0, 5]);
}

/// v3 [MQTT-3.2.2-6], v3 [MQTT-3.9.3-2], v3 [MQTT-3.1.2-2]: what 3.1.1 has no code for.
#[test]
fn codes_of_3_1_1() {
    let receiver = Receiver::new(ProtocolVersion::V311);
    for reason in ReasonCode::ALL.iter().copied() {
        let connack = Packet::Connack(Connack::refused(reason));
        match (
            reason.connack_return_code(),
            connack.encode(&receiver, &mut Vec::new()),
        ) {
            (Some(code), Ok(4)) => assert!(code <= 5),
            (None, Err(error)) => assert_eq!(error, EncodeError::NoReturnCode(reason)),
            other => panic!("{reason}: {other:?}"),
        }
    }
    for code in 0..=5 {
        let reason = ReasonCode::from_connack_return_code(code).expect("listed");
        assert_eq!(reason.connack_return_code(), Some(code));
    }
    let codes = [0x00, 0x01, 0x02, 0x80, 0x87, 0x8F, 0xA2];
    let suback = Packet::Suback(Suback {
        packet_id: id(1),
        properties: Properties::EMPTY,
        codes: ReasonCodes::new(PacketType::Suback, &codes).expect("listed"),
    });
    let bytes = written(&suback, ProtocolVersion::V311);
    assert_eq!(bytes[4..], [0, 1, 2, 0x80, 0x80, 0x80, 0x80]);
}

#[test]
fn what_a_version_cannot_say() {
    let v3 = Receiver::new(ProtocolVersion::V311);
    let encode = |packet: Packet<'_>| packet.encode(&v3, &mut Vec::new());
    let mut alias_only = Publish::new(topic("a"), b"");
    alias_only.topic = PublishTopic::Alias(TopicAlias::new(1).expect("not zero"));
    assert_eq!(
        encode(Packet::Publish(alias_only)),
        Err(EncodeError::NotInVersion(PacketType::Publish))
    );
    let auth = Auth {
        reason: ReasonCode::Success,
        properties: Properties::EMPTY,
    };
    assert_eq!(
        encode(Packet::Auth(auth)),
        Err(EncodeError::NotInVersion(PacketType::Auth))
    );
    let busy = Disconnect::new(ReasonCode::ServerBusy);
    assert_eq!(
        encode(Packet::Disconnect(busy)),
        Err(EncodeError::NotInVersion(PacketType::Disconnect))
    );
    let mut list = SubscriptionsBuilder::new();
    let mut options = SubscriptionOptions::new(QoS::AtMostOnce);
    options.no_local = true;
    list.push(TopicFilter::new("a").expect("a filter"), options);
    let subscribe = Subscribe {
        packet_id: id(1),
        properties: Properties::EMPTY,
        subscriptions: list.subscriptions(),
    };
    assert_eq!(
        encode(Packet::Subscribe(subscribe)),
        Err(EncodeError::NotInVersion(PacketType::Subscribe))
    );
}

/// What a receiver would refuse is not written: no filters, wrong codes, blocks of other packets, forbidden CONNECTs.
#[test]
fn what_would_be_refused_is_not_written() {
    let v5 = Receiver::new(ProtocolVersion::V5);
    let refused = |packet: Packet<'_>| match packet.encode(&v5, &mut Vec::new()) {
        Err(EncodeError::Refused(kind)) => kind,
        other => panic!("{other:?}"),
    };
    let mut list = SubscriptionsBuilder::new();
    assert_eq!(
        refused(subscribe(list.subscriptions())),
        DecodeErrorKind::NoTopicFilter
    );
    let mut options = SubscriptionOptions::new(QoS::AtMostOnce);
    options.no_local = true;
    list.push(TopicFilter::new("$share/g/a").expect("a filter"), options);
    // v5 [MQTT-3.8.3-4]
    assert_eq!(
        refused(subscribe(list.subscriptions())),
        DecodeErrorKind::NoLocalOnShared
    );
    let filters = TopicFiltersBuilder::new();
    let unsubscribe = Unsubscribe {
        packet_id: id(1),
        properties: Properties::EMPTY,
        filters: filters.filters(),
    };
    assert_eq!(
        refused(Packet::Unsubscribe(unsubscribe)),
        DecodeErrorKind::NoTopicFilter
    );
    let ack = Ack::with_reason(id(1), ReasonCode::ServerBusy);
    assert_eq!(
        refused(Packet::Puback(ack)),
        DecodeErrorKind::ReasonCodeMisplaced
    );
    let foreign = reason_and_user(PropertyScope::Puback);
    let pubrec = Ack {
        packet_id: id(1),
        reason: ReasonCode::Success,
        properties: foreign.properties(),
    };
    assert_eq!(
        refused(Packet::Pubrec(pubrec)),
        DecodeErrorKind::PropertyMisplaced
    );
    // v5 [MQTT-3.2.2-6]
    let connack = Connack {
        session_present: true,
        ..Connack::refused(ReasonCode::Banned)
    };
    assert_eq!(
        refused(Packet::Connack(connack)),
        DecodeErrorKind::SessionPresentOnError
    );
    let connect = Connect {
        version: ProtocolVersion::V311,
        clean_start: false,
        keep_alive_seconds: 0,
        properties: Properties::EMPTY,
        client_id: MqttStr::EMPTY,
        will: None,
        user_name: None,
        password: None,
    };
    // v3 [MQTT-3.1.3-7], v3 [MQTT-3.1.2-22]
    assert_eq!(
        refused(Packet::Connect(connect)),
        DecodeErrorKind::ClientIdEmpty
    );
    let password = Connect {
        clean_start: true,
        password: Secret::new(b"p"),
        ..connect
    };
    assert_eq!(
        refused(Packet::Connect(password)),
        DecodeErrorKind::PasswordWithoutUserName
    );
}

/// A publisher's properties come out in its own order, byte for byte, whatever stood between them; identifiers of its own hop do not.
/// v5 [MQTT-3.3.2-4], v5 [MQTT-3.3.2-15], v5 [MQTT-3.3.2-16], v5 [MQTT-3.3.2-17], v5 [MQTT-3.3.2-18], v5 [MQTT-3.3.2-20].
#[test]
fn passed_on_unchanged_and_in_order() {
    let expiry: &[u8] = &[2, 0, 0, 0, 9];
    let alias: &[u8] = &[0x23, 0, 3];
    let (format, kind) = ([1, 1], text_prop(3, "text/plain"));
    let (response, data) = (text_prop(8, "r/t"), text_prop(9, b"\0\xFF"));
    let users = [user("b", "1"), user("a", "2"), user("b", "3")].concat();
    let passing = [&format[..], &users, &kind, &response, &data].concat();
    let cases: [(Vec<u8>, bool); 4] = [
        (passing.clone(), true),
        ([expiry, &passing].concat(), true),
        ([alias, &passing, expiry].concat(), true),
        (
            [&format[..], &users, alias, &kind, expiry, &response, &data].concat(),
            false,
        ),
    ];
    for (block, in_one_piece) in cases {
        let bytes = packet(0x30, &[&text("a"), &props(&[&block]), b"hi"]);
        let rules = Rules::from_client(ProtocolVersion::V5);
        let Ok(Packet::Publish(read)) = decode_one(&bytes, &rules) else {
            panic!("a PUBLISH")
        };
        assert_eq!(read.passthrough.as_contiguous().is_some(), in_one_piece);
        assert_eq!(read.passthrough.len(), passing.len());
        assert_eq!(read.passthrough.payload_format(), PayloadFormat::Utf8);
        let mut stored = Vec::new();
        read.passthrough.copy_to(&mut stored);
        assert_eq!(stored, passing);
        let mut again = Publish::new(topic("a"), b"hi");
        again.passthrough = Passthrough::from_block(&stored);
        assert_eq!(again.passthrough, read.passthrough);
        let sent = written(&Packet::Publish(again), ProtocolVersion::V5);
        assert_eq!(
            sent,
            packet(0x30, &[&text("a"), &props(&[&passing]), b"hi"])
        );
        // To 3.1.1 only topic and payload go.
        let sent = written(&Packet::Publish(again), ProtocolVersion::V311);
        assert_eq!(sent, packet(0x30, &[&text("a"), b"hi"]));
    }
    let wrong = Passthrough::new(alias, &Limits::DEFAULT).map_err(DecodeError::kind);
    assert_eq!(wrong, Err(DecodeErrorKind::PropertyMisplaced));
}

/// v5 [MQTT-3.1.3-10]: so do those of a will.
#[test]
fn will_properties() {
    let passing = [user("z", "1"), text_prop(3, "t"), user("a", "2")].concat();
    let block = [&[0x18, 0, 0, 0, 7][..], &passing].concat();
    let bytes = packet(
        0x10,
        &[
            b"\0\x04MQTT\x05\x06\0\0\0",
            &text("c"),
            &props(&[&block]),
            &text("w"),
            &text("m"),
        ],
    );
    let rules = Rules::from_client(ProtocolVersion::V5);
    let Ok(Packet::Connect(connect)) = decode_one(&bytes, &rules) else {
        panic!("a CONNECT")
    };
    let will = connect.will.expect("it has a will");
    assert_eq!(will.delay_interval(), 7);
    assert_eq!(will.passthrough().as_contiguous(), Some(&passing[..]));
}

/// v5 [MQTT-3.3.4-3], v5 [MQTT-3.3.4-4]: identifiers, expiry and alias are written for each hop anew.
#[test]
fn own_properties_of_a_delivery() {
    let ids = [1, 128, VARINT_MAX].map(|id| SubscriptionId::new(id).expect("in range"));
    let mut publish = Publish::new(topic("a"), b"").with_subscription_ids(&ids);
    publish.message_expiry_interval = Some(10);
    publish.topic = PublishTopic::NameAndAlias(topic("a"), TopicAlias::new(2).expect("not zero"));
    let bytes = written(&Packet::Publish(publish), ProtocolVersion::V5);
    let rules = Rules::from_server(ProtocolVersion::V5);
    let Ok(Packet::Publish(read)) = decode_one(&bytes, &rules) else {
        panic!("a PUBLISH")
    };
    assert!(read.subscription_ids.iter().eq(ids));
    assert_eq!(read, publish);
    // The alias alone saves the name.
    publish.topic = PublishTopic::Alias(TopicAlias::new(2).expect("not zero"));
    assert_eq!(
        written(&Packet::Publish(publish), ProtocolVersion::V5).len() + 1,
        bytes.len()
    );
}

#[test]
fn builder_refuses_what_does_not_belong() {
    let mut builder = PropertiesBuilder::new(PropertyScope::Connack);
    let size = Property::MaximumPacketSize(NonZeroU32::MAX);
    builder.push(size).expect("belongs");
    assert_eq!(
        builder.push(size).err(),
        Some(PropertyError::Duplicate(PropertyId::MaximumPacketSize))
    );
    assert_eq!(
        builder.push(Property::WillDelayInterval(1)).err(),
        Some(PropertyError::Misplaced(
            PropertyId::WillDelayInterval,
            PropertyScope::Connack
        ))
    );
    assert_eq!(
        builder.push(Property::MaximumQos(QoS::ExactlyOnce)).err(),
        Some(PropertyError::MaximumQos)
    );
    assert_eq!(builder.properties().iter().collect::<Vec<_>>(), [size]);
}

/// Secrets stay out of logs.
#[test]
fn passwords_are_not_printed() {
    let bytes = packet(
        0x10,
        &[
            b"\0\x04MQTT\x04\xC2\0\0",
            &text("c"),
            &text("u"),
            &text("hunter2"),
        ],
    );
    let packet = decode_one(&bytes, &Rules::from_client(ProtocolVersion::V311)).expect("valid");
    let shown = format!("{packet:?}");
    assert!(
        shown.contains("Secret(7 bytes)") && !shown.contains("hunter2"),
        "{shown}"
    );
    let mut builder = PropertiesBuilder::new(PropertyScope::Auth);
    let (method, data) = (
        MqttStr::new("m").expect("text"),
        Secret::new(b"hunter2").expect("short"),
    );
    builder
        .push(Property::AuthenticationMethod(method))
        .expect("belongs");
    builder
        .push(Property::AuthenticationData(data))
        .expect("belongs");
    let shown = format!("{builder:?} {:?}", builder.properties());
    assert!(
        !shown.contains("hunter2") && !shown.contains("104, 117, 110"),
        "{shown}"
    );
}
