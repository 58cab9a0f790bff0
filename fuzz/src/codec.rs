//! What the fuzz targets of the codec do with their input, apart from libFuzzer: the kept corpus runs through the same code as a
//! plain test of the codec's crate.

use courser_mqtt::codec::{
    Frame, Limits, Packet, PacketType, PayloadFormatCheck, ProtocolVersion, PublishEncoder,
    Receiver, Rules, Sender, Split,
};

#[path = "../../crates/mqtt/tests/codec_support/generate.rs"]
mod generate;

use generate::{Choices, with_packet};

fn rules(version: ProtocolVersion, sender: Sender) -> Rules {
    let mut limits = Limits::STANDARD;
    limits.payload_format = PayloadFormatCheck::Verify;
    Rules {
        version,
        sender,
        limits,
    }
}

fn encoded(packet: &Packet<'_>, version: ProtocolVersion) -> Vec<u8> {
    let receiver = Receiver::new(version);
    let mut bytes = Vec::new();
    let len = packet
        .encode(&receiver, &mut bytes)
        .expect("what was accepted can be written");
    assert_eq!(packet.encoded_len(&receiver), Ok(len));
    assert_eq!(bytes.len(), len);
    bytes
}

fn whole(bytes: &[u8]) -> Frame<'_> {
    match Frame::split(bytes, u32::MAX) {
        Ok(Split::Whole(frame)) => frame,
        other => panic!("what was written is one packet, not {other:?}"),
    }
}

/// Reads packets to the first that is refused; each accepted one is shown, written and read back, with default limits too.
pub fn decode_stream(bytes: &[u8], version: ProtocolVersion, sender: Sender) {
    let rules = rules(version, sender);
    let mut rest = bytes;
    while let Ok(Split::Whole(frame)) = Frame::split(rest, u32::MAX) {
        rest = &rest[frame.len()..];
        let _limited = Packet::decode(&frame, &rules.with_limits(Limits::DEFAULT));
        let Ok(packet) = Packet::decode(&frame, &rules) else {
            return;
        };
        assert!(!format!("{packet:?}").is_empty());
        let version = match &packet {
            Packet::Connect(connect) => connect.version,
            _ => version,
        };
        let again = encoded(&packet, version);
        assert!(again.len() <= frame.len(), "ours is the shortest form");
        let read = Packet::decode(&whole(&again), &rules);
        assert_eq!(read.as_ref(), Ok(&packet));
        if let Packet::Publish(publish) = &packet {
            prepared(publish, version, &again);
        }
    }
}

fn prepared(publish: &courser_mqtt::codec::Publish<'_>, version: ProtocolVersion, wire: &[u8]) {
    let mut encoder = PublishEncoder::new();
    let prepared = encoder
        .prepare(publish, version)
        .expect("what can be written can be prepared");
    let mut out = Vec::new();
    prepared.append(publish.delivery.packet_id(), &mut out);
    assert_eq!(out, wire);
}

/// The first byte says which packet, the others what is in it.
pub fn roundtrip(bytes: &[u8]) {
    let Some((&first, seed)) = bytes.split_first() else {
        return;
    };
    let packet_type = PacketType::ALL[usize::from(first & 0x0F) % PacketType::ALL.len()];
    let version = [ProtocolVersion::V311, ProtocolVersion::V5][usize::from(first >> 4 & 1)];
    let sender = [Sender::Client, Sender::Server][usize::from(first >> 5 & 1)];
    if !packet_type.sent_by(sender, version) {
        return;
    }
    with_packet(
        &mut Choices::new(seed),
        packet_type,
        (version, sender),
        |packet| {
            let wire = encoded(packet, version);
            let read = Packet::decode(&whole(&wire), &rules_unverified(version, sender));
            assert_eq!(read.as_ref(), Ok(packet));
        },
    );
}

/// Generated payloads do not care what their format says.
fn rules_unverified(version: ProtocolVersion, sender: Sender) -> Rules {
    rules(version, sender).with_limits(Limits::STANDARD)
}

/// Lengths of the packets at the front of a stream, and how it ends.
fn lengths(bytes: &[u8]) -> (Vec<usize>, Option<courser_mqtt::codec::DecodeErrorKind>) {
    let (mut rest, mut found) = (bytes, Vec::new());
    loop {
        match Frame::split(rest, 4096) {
            Ok(Split::Whole(frame)) => {
                found.push(frame.len());
                rest = &rest[frame.len()..];
            }
            Ok(Split::Need(more)) => {
                assert!(more > 0 && rest.len() + more <= 4096);
                return (found, None);
            }
            Err(error) => return (found, Some(error.kind())),
        }
    }
}

/// The first byte says where the stream is cut.
pub fn frame_splits(bytes: &[u8]) {
    let Some((&cut, stream)) = bytes.split_first() else {
        return;
    };
    let (all, end) = lengths(stream);
    let (early, early_end) = lengths(&stream[..usize::from(cut).min(stream.len())]);
    assert!(
        all.starts_with(&early),
        "a packet never changes when more arrives"
    );
    assert!(early_end.is_none() || (early_end == end && early == all));
    let taken: usize = early.iter().sum();
    let (late, late_end) = lengths(&stream[taken..]);
    assert_eq!((&all[early.len()..], end), (&late[..], late_end));
}
