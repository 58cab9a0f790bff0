//! The other codecs behind one function each: bytes in, what was understood out as bytes again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::BytesMut;
use courser_mqtt::codec::{PacketType, ProtocolVersion};

/// A codec to compare with.
pub struct Oracle {
    /// The crate.
    pub name: &'static str,
    /// Which packets it knows at all.
    pub speaks: fn(PacketType, ProtocolVersion) -> bool,
    /// Decodes one packet and encodes it again; `None` when it refuses, wants more, leaves bytes over or panics.
    pub through: fn(&[u8], ProtocolVersion) -> Option<Vec<u8>>,
}

/// All of them.
pub const ALL: &[Oracle] = &[
    Oracle {
        name: "rumqttc",
        speaks: |packet_type, _| packet_type != PacketType::Auth,
        through: |bytes, version| no_panic(|| rumqttc(bytes, version)),
    },
    Oracle {
        name: "mqtt-protocol-core",
        speaks: |_, _| true,
        through: |bytes, version| no_panic(|| protocol_core::through(bytes, version)),
    },
    Oracle {
        name: "rmqtt-codec",
        speaks: |_, _| true,
        through: |bytes, version| no_panic(|| rmqtt(bytes, version)),
    },
];

/// A panic of an oracle counts as a refusal; the caller silences the hook.
fn no_panic(run: impl FnOnce() -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    catch_unwind(AssertUnwindSafe(run)).ok().flatten()
}

fn rumqttc(bytes: &[u8], version: ProtocolVersion) -> Option<Vec<u8>> {
    let mut input = BytesMut::from(bytes);
    let mut output = BytesMut::new();
    match version {
        ProtocolVersion::V311 => {
            use rumqttc::mqttbytes::v4::Packet;
            let packet = Packet::read(&mut input, 1 << 28).ok()?;
            packet.write(&mut output, 1 << 28).ok()?;
        }
        ProtocolVersion::V5 => {
            use rumqttc::v5::mqttbytes::v5::Packet;
            let packet = Packet::read(&mut input, None).ok()?;
            packet.write(&mut output, None).ok()?;
        }
    }
    input.is_empty().then(|| output.to_vec())
}

fn rmqtt(bytes: &[u8], version: ProtocolVersion) -> Option<Vec<u8>> {
    use tokio_util::codec::{Decoder, Encoder};
    let mut input = BytesMut::from(bytes);
    let mut output = BytesMut::new();
    match version {
        ProtocolVersion::V311 => {
            let mut codec = rmqtt_codec::v3::Codec::new(1 << 28);
            let (packet, _) = codec.decode(&mut input).ok()??;
            codec.encode(packet, &mut output).ok()?;
        }
        ProtocolVersion::V5 => {
            let mut codec = rmqtt_codec::v5::Codec::new(1 << 28, 1 << 28);
            let (packet, _) = codec.decode(&mut input).ok()??;
            // A codec of its own: the first one drops problem information when CONNECT asked for that.
            let mut writer = rmqtt_codec::v5::Codec::new(1 << 28, 1 << 28);
            writer.encode(packet, &mut output).ok()?;
        }
    }
    input.is_empty().then(|| output.to_vec())
}

mod protocol_core {
    use courser_mqtt::codec::ProtocolVersion;
    use mqtt_protocol_core::mqtt::common::Cursor;
    use mqtt_protocol_core::mqtt::connection::{
        PacketBuildResult, PacketBuilder, PacketData, RawPacket,
    };
    use mqtt_protocol_core::mqtt::packet::{v3_1_1, v5_0};

    pub(super) fn through(bytes: &[u8], version: ProtocolVersion) -> Option<Vec<u8>> {
        let mut input = Cursor::new(bytes);
        let PacketBuildResult::Complete(raw) = PacketBuilder::new().feed(&mut input) else {
            return None;
        };
        if input.position() != bytes.len() as u64 {
            return None;
        }
        match version {
            ProtocolVersion::V311 => v311(&raw),
            ProtocolVersion::V5 => v5(&raw),
        }
    }

    macro_rules! exact {
        ($raw:expr, $type:ty) => {
            Some(
                $raw.parse_exact(<$type>::parse)
                    .ok()?
                    .to_continuous_buffer(),
            )
        };
    }

    macro_rules! publish {
        ($raw:expr, $type:ty) => {
            match &$raw.data {
                PacketData::Publish(data) => {
                    let (publish, used) = <$type>::parse($raw.flags(), data.clone()).ok()?;
                    (used == data.len()).then(|| publish.to_continuous_buffer())
                }
                PacketData::Normal(_) => None,
            }
        };
    }

    fn v311(raw: &RawPacket) -> Option<Vec<u8>> {
        match raw.packet_type() {
            1 => exact!(raw, v3_1_1::Connect),
            2 => exact!(raw, v3_1_1::Connack),
            3 => publish!(raw, v3_1_1::Publish),
            4 => exact!(raw, v3_1_1::Puback),
            5 => exact!(raw, v3_1_1::Pubrec),
            6 => exact!(raw, v3_1_1::Pubrel),
            7 => exact!(raw, v3_1_1::Pubcomp),
            8 => exact!(raw, v3_1_1::Subscribe),
            9 => exact!(raw, v3_1_1::Suback),
            10 => exact!(raw, v3_1_1::Unsubscribe),
            11 => exact!(raw, v3_1_1::Unsuback),
            12 => exact!(raw, v3_1_1::Pingreq),
            13 => exact!(raw, v3_1_1::Pingresp),
            14 => exact!(raw, v3_1_1::Disconnect),
            _ => None,
        }
    }

    fn v5(raw: &RawPacket) -> Option<Vec<u8>> {
        match raw.packet_type() {
            1 => exact!(raw, v5_0::Connect),
            2 => exact!(raw, v5_0::Connack),
            3 => publish!(raw, v5_0::Publish),
            4 => exact!(raw, v5_0::Puback),
            5 => exact!(raw, v5_0::Pubrec),
            6 => exact!(raw, v5_0::Pubrel),
            7 => exact!(raw, v5_0::Pubcomp),
            8 => exact!(raw, v5_0::Subscribe),
            9 => exact!(raw, v5_0::Suback),
            10 => exact!(raw, v5_0::Unsubscribe),
            11 => exact!(raw, v5_0::Unsuback),
            12 => exact!(raw, v5_0::Pingreq),
            13 => exact!(raw, v5_0::Pingresp),
            14 => exact!(raw, v5_0::Disconnect),
            15 => exact!(raw, v5_0::Auth),
            _ => None,
        }
    }
}
