//! Properties over all packets of both versions: what is written is read back; streams may be cut anywhere; no bytes panic.

mod codec_support {
    pub(crate) mod generate;
}

use codec_support::generate::{Choices, with_packet};
use courser_mqtt::codec::{
    Frame, Limits, Packet, PacketType, PayloadFormatCheck, ProtocolVersion, PublishEncoder,
    Receiver, Rules, Sender, Split,
};
use proptest::prelude::*;

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V311, ProtocolVersion::V5];
const SENDERS: [Sender; 2] = [Sender::Client, Sender::Server];

fn rules(version: ProtocolVersion, sender: Sender) -> Rules {
    Rules {
        version,
        sender,
        limits: Limits::STANDARD,
    }
}

/// Every type that may be sent, with who may send it in which version.
fn sendable() -> Vec<(PacketType, ProtocolVersion, Sender)> {
    let mut all = Vec::new();
    for version in VERSIONS {
        for sender in SENDERS {
            for packet_type in PacketType::ALL {
                if packet_type.sent_by(sender, version) {
                    all.push((packet_type, version, sender));
                }
            }
        }
    }
    all
}

fn encoded(packet: &Packet<'_>, version: ProtocolVersion) -> Vec<u8> {
    let receiver = Receiver::new(version);
    let mut bytes = vec![0xEE];
    let len = packet
        .encode(&receiver, &mut bytes)
        .expect("a valid packet is written");
    assert_eq!(
        packet.encoded_len(&receiver),
        Ok(len),
        "the length is known beforehand"
    );
    assert_eq!(bytes.remove(0), 0xEE, "what was there before stays");
    assert_eq!(bytes.len(), len);
    bytes
}

fn whole<'a>(bytes: &'a [u8]) -> Frame<'a> {
    match Frame::split(bytes, u32::MAX) {
        Ok(Split::Whole(frame)) => frame,
        other => panic!("one whole packet, not {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn written_and_read_back(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for (packet_type, version, sender) in sendable() {
            with_packet(&mut Choices::new(&bytes), packet_type, (version, sender), |packet| {
                assert_eq!(packet.packet_type(), packet_type);
                let wire = encoded(packet, version);
                let read = Packet::decode(&whole(&wire), &rules(version, sender));
                assert_eq!(read.as_ref(), Ok(packet), "{wire:02X?}");
                assert_eq!(encoded(&read.expect("equal"), version), wire, "one form only");
            });
        }
    }

    #[test]
    fn prepared_is_the_same_as_written(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut encoder = PublishEncoder::new();
        for version in VERSIONS {
            with_packet(&mut Choices::new(&bytes), PacketType::Publish, (version, Sender::Server), |packet| {
                let Packet::Publish(publish) = packet else { unreachable!("it is a PUBLISH") };
                let wire = encoded(packet, version);
                let prepared = encoder.prepare(publish, version).expect("valid");
                let id = publish.delivery.packet_id();
                let (mut one, mut two) = (vec![7], vec![7]);
                prepared.append(id, &mut one);
                prepared.append_head(id, &mut two);
                assert_eq!(two.len(), 1 + prepared.head_len());
                two.extend_from_slice(prepared.payload());
                assert_eq!(prepared.packet_len(), wire.len());
                assert_eq!(&one[1..], &wire[..]);
                assert_eq!(&two[1..], &wire[..]);
            });
        }
    }

    /// However a stream is cut, the same packets come out, and never more is asked for than the packet lacks.
    #[test]
    fn cut_anywhere(
        seeds in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 1..8),
        cuts in proptest::collection::vec(1_usize..40, 1..20),
        v5 in any::<bool>(),
    ) {
        let version = VERSIONS[usize::from(v5)];
        let mut stream = Vec::new();
        let mut lengths = Vec::new();
        for (seed, packet_type) in seeds.iter().zip(PacketType::ALL.iter().skip(2).cycle()) {
            if packet_type.sent_by(Sender::Client, version) {
                with_packet(&mut Choices::new(seed), *packet_type, (version, Sender::Client), |packet| {
                    let wire = encoded(packet, version);
                    lengths.push(wire.len());
                    stream.extend(wire);
                });
            }
        }
        let (mut received, mut found) = (Vec::new(), Vec::new());
        let mut cuts = cuts.iter().cycle();
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at((*cuts.next().expect("endless")).min(rest.len()));
            received.extend_from_slice(now);
            rest = later;
            loop {
                match Frame::split(&received, u32::MAX).expect("valid packets") {
                    Split::Whole(frame) => {
                        Packet::decode(&frame, &rules(version, Sender::Client)).expect("valid");
                        let len = frame.len();
                        found.push(len);
                        received.drain(..len);
                    }
                    Split::Need(more) => {
                        let lacking = lengths.get(found.len()).map_or(2, |len| len - received.len());
                        prop_assert!(more >= 1 && more <= lacking.max(1));
                        break;
                    }
                }
            }
        }
        prop_assert_eq!(found, lengths);
    }

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for version in VERSIONS {
            for sender in SENDERS {
                read_and_touch(&bytes, version, sender);
            }
        }
    }

    /// Valid packets with a few bytes changed reach far deeper than arbitrary ones.
    #[test]
    fn changed_bytes(
        seed in proptest::collection::vec(any::<u8>(), 0..200),
        changes in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 1..4),
    ) {
        for (packet_type, version, sender) in sendable() {
            with_packet(&mut Choices::new(&seed), packet_type, (version, sender), |packet| {
                let mut wire = encoded(packet, version);
                for (index, byte) in &changes {
                    let at = index.index(wire.len());
                    wire[at] = *byte;
                }
                read_and_touch(&wire, version, sender);
            });
        }
    }
}

/// Reads every packet; what is accepted is printed, walked and written again, and reads back equal.
fn read_and_touch(bytes: &[u8], version: ProtocolVersion, sender: Sender) {
    let mut limits = Limits::STANDARD;
    limits.payload_format = PayloadFormatCheck::Verify;
    let rules = rules(version, sender).with_limits(limits);
    let mut rest = bytes;
    while let Ok(Split::Whole(frame)) = Frame::split(rest, u32::MAX) {
        rest = &rest[frame.len()..];
        let Ok(packet) = Packet::decode(&frame, &rules) else {
            continue;
        };
        assert!(!format!("{packet:?}").is_empty());
        let version = match &packet {
            Packet::Connect(connect) => connect.version,
            _ => version,
        };
        let again = encoded(&packet, version);
        assert_eq!(Packet::decode(&whole(&again), &rules).as_ref(), Ok(&packet));
        assert!(again.len() <= frame.len(), "ours is the shortest form");
    }
}
