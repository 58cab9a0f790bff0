//! Reason codes of v5: every byte in every packet, from both sides; written out from the tables of section 3 of the standard.

mod codec_support;

use codec_support::{Row, bad, check, good, packet};
use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::ProtocolVersion::V5;
use courser_mqtt::codec::{DecodeErrorKind, PacketType, ReasonCode, Sender};

struct Table {
    clause: &'static str,
    sender: Sender,
    packet: PacketType,
    make: fn(u8) -> Vec<u8>,
    allowed: &'static [u8],
}

const BOTH_ACK: &[u8] = &[0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];
const BOTH_REL: &[u8] = &[0x00, 0x92];

const TABLES: &[Table] = &[
    Table {
        clause: "v5 [MQTT-3.2.2-8]",
        sender: Sender::Server,
        packet: PacketType::Connack,
        make: |code| packet(0x20, &[&[0, code, 0]]),
        allowed: &[
            0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C, 0x90,
            0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F,
        ],
    },
    Table {
        clause: "v5 [MQTT-3.4.2-1]",
        sender: Sender::Client,
        packet: PacketType::Puback,
        make: |code| packet(0x40, &[&[0, 1, code]]),
        allowed: BOTH_ACK,
    },
    Table {
        clause: "v5 [MQTT-3.5.2-1]",
        sender: Sender::Server,
        packet: PacketType::Pubrec,
        make: |code| packet(0x50, &[&[0, 1, code, 0]]),
        allowed: BOTH_ACK,
    },
    Table {
        clause: "v5 [MQTT-3.6.2-1]",
        sender: Sender::Client,
        packet: PacketType::Pubrel,
        make: |code| packet(0x62, &[&[0, 1, code]]),
        allowed: BOTH_REL,
    },
    Table {
        clause: "v5 [MQTT-3.7.2-1]",
        sender: Sender::Server,
        packet: PacketType::Pubcomp,
        make: |code| packet(0x70, &[&[0, 1, code, 0]]),
        allowed: BOTH_REL,
    },
    Table {
        clause: "v5 [MQTT-3.9.3-2]",
        sender: Sender::Server,
        packet: PacketType::Suback,
        make: |code| packet(0x90, &[&[0, 1, 0, code]]),
        allowed: &[
            0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2,
        ],
    },
    Table {
        clause: "v5 [MQTT-3.11.3-2]",
        sender: Sender::Server,
        packet: PacketType::Unsuback,
        make: |code| packet(0xB0, &[&[0, 1, 0, code]]),
        allowed: &[0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91],
    },
    Table {
        clause: "v5 [MQTT-3.14.2-1]",
        sender: Sender::Client,
        packet: PacketType::Disconnect,
        make: |code| packet(0xE0, &[&[code]]),
        allowed: &[
            0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99,
        ],
    },
    Table {
        clause: "v5 [MQTT-3.14.2-1]",
        sender: Sender::Server,
        packet: PacketType::Disconnect,
        make: |code| packet(0xE0, &[&[code, 0]]),
        allowed: &[
            0x00, 0x80, 0x81, 0x82, 0x83, 0x87, 0x89, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x93,
            0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1,
            0xA2,
        ],
    },
    Table {
        clause: "v5 [MQTT-3.15.2-1]",
        sender: Sender::Client,
        packet: PacketType::Auth,
        make: |code| packet(0xF0, &[&[code, 4, 0x15, 0, 1, b'm']]),
        allowed: &[0x18, 0x19],
    },
    Table {
        clause: "v5 [MQTT-3.15.2-1]",
        sender: Sender::Server,
        packet: PacketType::Auth,
        make: |code| packet(0xF0, &[&[code, 4, 0x15, 0, 1, b'm']]),
        allowed: &[0x00, 0x18],
    },
];

/// All bytes that v5 defines as a reason code.
const DEFINED: &[u8] = &[
    0x00, 0x01, 0x02, 0x04, 0x10, 0x11, 0x18, 0x19, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
    0x88, 0x89, 0x8A, 0x8B, 0x8C, 0x8D, 0x8E, 0x8F, 0x90, 0x91, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97,
    0x98, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2,
];

#[test]
fn every_byte_in_every_packet() {
    let mut rows: Vec<Row> = Vec::new();
    for table in TABLES {
        for code in 0..=255 {
            let bytes = (table.make)(code);
            let mut row = if table.allowed.contains(&code) {
                good(table.clause, "listed", bytes)
            } else if DEFINED.contains(&code) {
                bad(
                    table.clause,
                    "other packet",
                    Kind::ReasonCodeMisplaced,
                    0x82,
                    bytes,
                )
            } else {
                bad(
                    table.clause,
                    "undefined",
                    Kind::ReasonCodeUnknown,
                    0x81,
                    bytes,
                )
            };
            row.sender = table.sender;
            rows.push(row);
        }
    }
    check(V5, &rows);
}

#[test]
fn helpers_say_the_same_as_the_tables() {
    let all: Vec<u8> = ReasonCode::ALL.iter().map(|code| code.byte()).collect();
    assert_eq!(all, DEFINED);
    for code in ReasonCode::ALL {
        assert_eq!(ReasonCode::from_byte(code.byte()), Some(*code));
        assert_eq!(code.is_error(), code.byte() >= 0x80);
        for table in TABLES {
            let listed = table.allowed.contains(&code.byte());
            assert_eq!(
                code.allowed_from(table.packet, table.sender),
                listed,
                "{code} {}",
                table.packet
            );
            assert!(!listed || code.allowed_in(table.packet));
        }
        for without in [
            PacketType::Connect,
            PacketType::Publish,
            PacketType::Subscribe,
            PacketType::Unsubscribe,
            PacketType::Pingreq,
            PacketType::Pingresp,
        ] {
            assert!(!code.allowed_in(without));
        }
    }
}

/// Every kind of refusal can be sent: in DISCONNECT, or in CONNACK where it concerns CONNECT only.
#[test]
fn every_refusal_has_a_place_on_the_wire() {
    for (index, kind) in DecodeErrorKind::ALL.iter().enumerate() {
        assert_eq!(*kind as usize, index);
        let reason = kind.reason();
        assert!(reason.is_error(), "{kind:?}");
        assert!(
            reason.allowed_from(PacketType::Disconnect, Sender::Server)
                || reason.allowed_in(PacketType::Connack),
            "{kind:?} {reason}"
        );
    }
    let mut labels: Vec<_> = DecodeErrorKind::ALL
        .iter()
        .map(|kind| kind.label())
        .collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), DecodeErrorKind::ALL.len());
}

#[test]
#[rustfmt::skip] // a table: one rule a line
fn shapes_of_answers() {
    check(
        V5,
        &[
            good("v5 [MQTT-3.4.2-1]", "PUBACK of two bytes", packet(0x40, &[&[0, 1]])),
            good("v5 [MQTT-3.4.2-1]", "PUBACK of three bytes", packet(0x40, &[&[0, 1, 0x10]])),
            bad("v5 [MQTT-2.2.1-5]", "PUBACK with a longer property length", Kind::Truncated, 0x81, packet(0x40, &[&[0, 1, 0, 1]])),
            bad("v5 [MQTT-2.2.1-5]", "PUBACK with bytes behind", Kind::TrailingBytes, 0x81, packet(0x40, &[&[0, 1, 0, 0, 0]])),
            bad("v5 [MQTT-3.2.2-1]", "reserved CONNACK flags", Kind::AcknowledgeFlags, 0x81, packet(0x20, &[&[2, 0, 0]])).by_server(),
            bad("v5 [MQTT-3.2.2-1]", "highest CONNACK flag", Kind::AcknowledgeFlags, 0x81, packet(0x20, &[&[0x81, 0, 0]])).by_server(),
            bad("v5 [MQTT-3.2.2-6]", "session present in a refusal", Kind::SessionPresentOnError, 0x82, packet(0x20, &[&[1, 0x87, 0]])).by_server(),
            good("v5 [MQTT-3.2.2-3]", "session present", packet(0x20, &[&[1, 0, 0]])).by_server(),
            good("v5 [MQTT-3.9.3-1]", "codes in order", packet(0x90, &[&[0, 1, 0, 2, 0x87, 0]])).by_server(),
            bad("v5 [MQTT-3.8.4-6]", "SUBACK without code", Kind::NoReasonCode, 0x82, packet(0x90, &[&[0, 1, 0]])).by_server(),
            bad("v5 [MQTT-3.11.3-1]", "UNSUBACK without code", Kind::NoReasonCode, 0x82, packet(0xB0, &[&[0, 1, 0]])).by_server(),
            good("v5 [MQTT-3.14.2-1]", "DISCONNECT without body", packet(0xE0, &[])),
            good("v5 [MQTT-3.14.2-1]", "DISCONNECT with reason only", packet(0xE0, &[&[4]])),
            bad("v5 [MQTT-3.14.1-1]", "DISCONNECT with bytes behind", Kind::TrailingBytes, 0x81, packet(0xE0, &[&[0, 0, 0]])),
            bad("v5 [MQTT-3.15.2-1]", "AUTH without body from a client", Kind::ReasonCodeMisplaced, 0x82, packet(0xF0, &[])),
            good("v5 [MQTT-3.15.2-1]", "AUTH without body from a server", packet(0xF0, &[])).by_server(),
            bad("v5 [MQTT-2.2.2-1]", "AUTH without property length", Kind::Truncated, 0x81, packet(0xF0, &[&[0x18]])),
            bad("v5 [MQTT-3.12.4-1]", "PINGREQ with a body", Kind::TrailingBytes, 0x81, packet(0xC0, &[&[0]])),
            bad("v5 [MQTT-3.12.4-1]", "PINGRESP from a client", Kind::WrongDirection, 0x82, packet(0xD0, &[])),
            bad("v5 [MQTT-3.2.0-1]", "CONNACK from a client", Kind::WrongDirection, 0x82, packet(0x20, &[&[0, 0, 0]])),
            bad("v5 [MQTT-3.8.4-2]", "SUBACK from a client", Kind::WrongDirection, 0x82, packet(0x90, &[&[0, 1, 0, 0]])),
            bad("v5 [MQTT-3.1.0-1]", "CONNECT from a server", Kind::WrongDirection, 0x82, packet(0x10, &[b"\0\x04MQTT\x05\x02\0\0\0\0\0"])).by_server(),
        ],
    );
}
