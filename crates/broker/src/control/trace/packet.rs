//! One packet in words.

use std::fmt::Write;

use courser_mqtt::codec::{
    Ack, Connect, Delivery, Frame, Packet, PacketId, Publish, PublishTopic, ReasonCode,
    ReasonCodes, Rules, Subscribe, Unsubscribe,
};

/// Characters of a line: a SUBSCRIBE may have thousands of filters.
const WORDS_MAX: usize = 512;

/// Type and what matters of it; never payloads, passwords, or the data of an authentication.
pub(super) fn in_words(frame: &Frame<'_>, rules: &Rules) -> String {
    let name = frame.packet_type().name();
    let Ok(packet) = Packet::decode(frame, rules) else {
        return format!("{name}, {} bytes", frame.len());
    };
    let mut words = String::from(name);
    // Writing to a string cannot fail.
    let _ = describe(&mut words, &packet);
    match words.char_indices().nth(WORDS_MAX) {
        Some((end, _)) => format!("{} …", &words[..end]),
        None => words,
    }
}

fn describe(out: &mut String, packet: &Packet<'_>) -> std::fmt::Result {
    match packet {
        Packet::Connect(it) => connect(out, it),
        Packet::Connack(it) => {
            let present = if it.session_present { "yes" } else { "no" };
            write!(out, " session present: {present}")?;
            reason(out, it.reason)
        }
        Packet::Publish(it) => publish(out, it),
        Packet::Puback(it) => ack(out, it),
        Packet::Pubrec(it) => ack(out, it),
        Packet::Pubrel(it) => ack(out, it),
        Packet::Pubcomp(it) => ack(out, it),
        Packet::Subscribe(it) => subscribe(out, it),
        Packet::Suback(it) => codes(out, it.packet_id, it.codes),
        Packet::Unsubscribe(it) => unsubscribe(out, it),
        Packet::Unsuback(it) => codes(out, it.packet_id, it.codes),
        Packet::Pingreq(_) | Packet::Pingresp(_) => Ok(()),
        Packet::Disconnect(it) => reason(out, it.reason),
        Packet::Auth(it) => reason(out, it.reason),
    }
}

fn connect(out: &mut String, it: &Connect<'_>) -> std::fmt::Result {
    let start = if it.clean_start { "new" } else { "kept" };
    write!(
        out,
        " client {:?}, session: {start}, keep-alive {} s",
        it.client_id.as_str(),
        it.keep_alive_seconds
    )?;
    if let Some(will) = &it.will {
        write!(out, ", will to {:?}", will.topic.as_str())?;
    }
    if it.user_name.is_some() || it.password.is_some() {
        write!(out, ", logs in")?;
    }
    Ok(())
}

fn publish(out: &mut String, it: &Publish<'_>) -> std::fmt::Result {
    match it.topic {
        PublishTopic::Name(name) => write!(out, " {:?}", name.as_str())?,
        PublishTopic::NameAndAlias(name, alias) => {
            write!(out, " {:?}, alias {}", name.as_str(), alias.get())?;
        }
        PublishTopic::Alias(alias) => write!(out, " alias {}", alias.get())?,
    }
    let (qos, sent) = match it.delivery {
        Delivery::AtMostOnce => (0, None),
        Delivery::AtLeastOnce { packet_id, dup } => (1, Some((packet_id, dup))),
        Delivery::ExactlyOnce { packet_id, dup } => (2, Some((packet_id, dup))),
    };
    write!(out, ", QoS {qos}")?;
    if let Some((packet_id, dup)) = sent {
        let again = if dup { ", again" } else { "" };
        write!(out, ", packet id {}{again}", packet_id.get())?;
    }
    if it.retain {
        write!(out, ", retained")?;
    }
    write!(out, ", {} bytes", it.payload.len())
}

fn ack<const TYPE: u8>(out: &mut String, it: &Ack<'_, TYPE>) -> std::fmt::Result {
    write!(out, " packet id {}", it.packet_id.get())?;
    reason(out, it.reason)
}

fn subscribe(out: &mut String, it: &Subscribe<'_>) -> std::fmt::Result {
    write!(out, " packet id {}", it.packet_id.get())?;
    for one in it.subscriptions.iter() {
        let qos = one.options.qos as u8;
        write!(out, ", {:?} QoS {qos}", one.filter.as_str())?;
        if out.len() > WORDS_MAX {
            break;
        }
    }
    Ok(())
}

fn unsubscribe(out: &mut String, it: &Unsubscribe<'_>) -> std::fmt::Result {
    write!(out, " packet id {}", it.packet_id.get())?;
    for filter in it.filters.iter() {
        write!(out, ", {:?}", filter.as_str())?;
        if out.len() > WORDS_MAX {
            break;
        }
    }
    Ok(())
}

fn codes(out: &mut String, packet_id: PacketId, codes: ReasonCodes<'_>) -> std::fmt::Result {
    write!(out, " packet id {}", packet_id.get())?;
    for code in codes.iter().take(WORDS_MAX / 8) {
        reason(out, code)?;
    }
    Ok(())
}

fn reason(out: &mut String, reason: ReasonCode) -> std::fmt::Result {
    write!(out, ", {} (0x{:02X})", reason.name(), reason.byte())
}
