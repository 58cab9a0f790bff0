//! Packets of a server as lines of text.

use std::fmt::Write;

use crate::codec::{
    self, Frame, PACKET_BYTES_MAX, Packet, PacketId, Properties, Property, ProtocolVersion,
    ReasonCode, Rules, Split,
};
use crate::front::reasons::of_disconnect;

/// Whole packets of a server, one a line.
pub(in crate::front::tests) fn lines(bytes: &[u8], version: ProtocolVersion) -> Vec<String> {
    each(bytes, version, line)
}

/// What `say` makes of each whole packet of a server.
fn each<T>(mut bytes: &[u8], version: ProtocolVersion, say: impl Fn(&Packet<'_>) -> T) -> Vec<T> {
    let mut said = Vec::new();
    while !bytes.is_empty() {
        let Split::Whole(frame) = Frame::split(bytes, PACKET_BYTES_MAX).unwrap() else {
            panic!("the server sends whole packets, here {bytes:02x?}");
        };
        let rules = Rules::from_server(version).with_limits(codec::Limits::STANDARD);
        said.push(say(&Packet::decode(&frame, &rules).unwrap()));
        bytes = &bytes[frame.len()..];
    }
    said
}

fn line(packet: &Packet<'_>) -> String {
    match packet {
        Packet::Connack(connack) => with_properties(
            format!(
                "CONNACK 0x{:02X}{}",
                connack.reason.byte(),
                if connack.session_present {
                    " present"
                } else {
                    ""
                }
            ),
            &connack.properties,
        ),
        Packet::Publish(publish) => publish_line(publish),
        Packet::Puback(ack) => ack_line("PUBACK", ack.packet_id, ack.reason),
        Packet::Pubrec(ack) => ack_line("PUBREC", ack.packet_id, ack.reason),
        Packet::Pubrel(ack) => ack_line("PUBREL", ack.packet_id, ack.reason),
        Packet::Pubcomp(ack) => ack_line("PUBCOMP", ack.packet_id, ack.reason),
        Packet::Suback(ack) => codes_line("SUBACK", ack.packet_id, ack.codes.iter()),
        Packet::Unsuback(ack) => codes_line("UNSUBACK", ack.packet_id, ack.codes.iter()),
        Packet::Pingresp(_) => "PINGRESP".to_owned(),
        Packet::Disconnect(disconnect) => with_properties(
            format!("DISCONNECT 0x{:02X}", disconnect.reason.byte()),
            &disconnect.properties,
        ),
        Packet::Auth(auth) => {
            let properties = &auth.properties;
            format!(
                "AUTH 0x{:02X} {} '{}'",
                auth.reason.byte(),
                properties.authentication_method().unwrap_or_default(),
                properties
                    .authentication_data()
                    .map_or(String::new(), |data| {
                        String::from_utf8_lossy(data.reveal()).into_owned()
                    })
            )
        }
        other => panic!("a server does not send {other:?}"),
    }
}

/// What each packet of a server says in words besides its code, as far as it has room for that.
pub(in crate::front::tests) fn texts(
    bytes: &[u8],
    version: ProtocolVersion,
) -> Vec<Option<String>> {
    each(bytes, version, |packet| {
        let properties = match packet {
            Packet::Connack(connack) => &connack.properties,
            Packet::Puback(ack) => &ack.properties,
            Packet::Pubrec(ack) => &ack.properties,
            Packet::Suback(ack) => &ack.properties,
            Packet::Unsuback(ack) => &ack.properties,
            Packet::Disconnect(disconnect) => &disconnect.properties,
            other => panic!("{other:?} refuses nothing"),
        };
        let text = properties.reason_string();
        text.map(|text| text.as_str().to_owned())
    })
}

/// Without the Reason String of a refusal, see [`texts`], or one that says what the reason says anyway.
fn with_properties(mut line: String, properties: &Properties<'_>) -> String {
    let is_connack = line.starts_with("CONNACK");
    let is_usual = |text: &str| {
        let mut all = ReasonCode::ALL.iter();
        all.any(|reason| of_disconnect(*reason) == text)
    };
    let said = |it: &Property<'_>| match it {
        Property::ReasonString(text) => !is_connack && !is_usual(text.as_str()),
        _ => true,
    };
    for property in properties.iter().filter(said) {
        let _ = write!(line, " {property:?}");
    }
    line
}

fn ack_line(name: &str, id: PacketId, reason: ReasonCode) -> String {
    match reason {
        ReasonCode::Success => format!("{name} {id}"),
        _ => format!("{name} {id} 0x{:02X}", reason.byte()),
    }
}

fn codes_line(name: &str, id: PacketId, codes: impl Iterator<Item = ReasonCode>) -> String {
    let codes: Vec<String> = codes.map(|code| format!("{:02X}", code.byte())).collect();
    format!("{name} {id} {}", codes.join(" "))
        .trim_end()
        .to_owned()
}

fn publish_line(publish: &codec::Publish<'_>) -> String {
    let mut line = format!(
        "PUBLISH {:?}",
        publish.topic.name().map_or("", |n| n.as_str())
    );
    if let Some(alias) = publish.topic.alias() {
        let _ = write!(line, " alias={}", alias.get());
    }
    let _ = write!(line, " q{}", publish.delivery.qos().number());
    if let Some(id) = publish.delivery.packet_id() {
        let _ = write!(line, " id={id}");
    }
    if publish.delivery.dup() {
        line.push_str(" dup");
    }
    if publish.retain {
        line.push_str(" retain");
    }
    if let Some(seconds) = publish.message_expiry_interval {
        let _ = write!(line, " expiry={seconds}");
    }
    for id in publish.subscription_ids.iter() {
        let _ = write!(line, " sub={}", id.get());
    }
    for property in publish.passthrough.iter() {
        let _ = write!(line, " {property:?}");
    }
    let _ = match publish.payload.len() {
        0..=32 => write!(line, " '{}'", String::from_utf8_lossy(publish.payload)),
        len => write!(line, " {len} bytes"),
    };
    line
}
