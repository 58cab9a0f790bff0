//! Rows of rules, and small pieces of which their bytes are made.
#![allow(dead_code)] // each test file uses its part

use courser_mqtt::codec::{
    DecodeError, DecodeErrorKind, Frame, Limits, Packet, ProtocolVersion, Rules, Sender, Split,
};

/// One rule: bytes, who sent them, and what must become of them.
pub(crate) struct Row {
    pub(crate) clause: &'static str,
    pub(crate) case: &'static str,
    pub(crate) sender: Sender,
    pub(crate) bytes: Vec<u8>,
    /// `Err`: kind and the reason code for the wire.
    pub(crate) expected: Result<(), (DecodeErrorKind, u8)>,
}

impl Row {
    /// The same row for what a server sends.
    pub(crate) fn by_server(mut self) -> Self {
        self.sender = Sender::Server;
        self
    }
}

/// A client's packet that must be refused.
pub(crate) fn bad(
    clause: &'static str,
    case: &'static str,
    kind: DecodeErrorKind,
    reason: u8,
    bytes: Vec<u8>,
) -> Row {
    Row {
        clause,
        case,
        sender: Sender::Client,
        bytes,
        expected: Err((kind, reason)),
    }
}

/// A client's packet that must be accepted.
pub(crate) fn good(clause: &'static str, case: &'static str, bytes: Vec<u8>) -> Row {
    Row {
        clause,
        case,
        sender: Sender::Client,
        bytes,
        expected: Ok(()),
    }
}

/// Judges every row and reports all that differ at once.
pub(crate) fn check(version: ProtocolVersion, rows: &[Row]) {
    let failures: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let rules = Rules {
                version,
                sender: row.sender,
                limits: Limits::DEFAULT,
            };
            let found = decode_one(&row.bytes, &rules)
                .map(|_| ())
                .map_err(|error| (error.kind(), error.reason().byte()));
            (found != row.expected).then(|| {
                format!(
                    "{} {}: expected {:?}, found {found:?} for {:02X?}",
                    row.clause, row.case, row.expected, row.bytes
                )
            })
        })
        .collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Decodes bytes that are exactly one packet.
pub(crate) fn decode_one<'a>(bytes: &'a [u8], rules: &Rules) -> Result<Packet<'a>, DecodeError> {
    match Frame::split(bytes, rules.limits.packet_bytes_max)? {
        Split::Whole(frame) => {
            assert_eq!(frame.len(), bytes.len(), "a row is one packet");
            Packet::decode(&frame, rules)
        }
        Split::Need(more) => panic!("a row is a whole packet, {more} bytes are missing"),
    }
}

/// A packet: first byte, length, parts.
pub(crate) fn packet(first: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let mut bytes = vec![first];
    bytes.extend(varint(body.len()));
    bytes.extend(body);
    bytes
}

/// A variable byte integer.
pub(crate) fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value % 128) as u8;
        value /= 128;
        if value == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// Two bytes of length, then the bytes: strings and binary data.
pub(crate) fn text(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut field = (bytes.len() as u16).to_be_bytes().to_vec();
    field.extend_from_slice(bytes);
    field
}

/// A property block with its length.
pub(crate) fn props(parts: &[&[u8]]) -> Vec<u8> {
    let block = parts.concat();
    let mut field = varint(block.len());
    field.extend(block);
    field
}

/// A user property.
pub(crate) fn user(name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![0x26], text(name), text(value)].concat()
}

/// An identifier and a string or binary value.
pub(crate) fn text_prop(id: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    [vec![id], text(value)].concat()
}
