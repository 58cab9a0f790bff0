//! The MQTT codec against codecs that others wrote.
//!
//! A packet goes through an oracle: it decodes the bytes and encodes what it understood. What comes back must mean the same to our
//! codec as what went in. Every disagreement is in [`known`] with the clause that decides it, or the test fails.

#![forbid(unsafe_code)]

pub mod known;
pub mod meaning;
pub mod mutate;
pub mod oracles;

#[path = "../../../crates/mqtt/tests/codec_support/generate.rs"]
mod generate;

use std::collections::BTreeMap;

use courser_mqtt::codec::{
    DecodeErrorKind, Frame, Limits, Packet, PacketType, ProtocolVersion, Receiver, Rules, Sender,
    Split,
};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use generate::{Choices, with_packet};
use oracles::Oracle;

/// How an oracle and we disagree about some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disagreement {
    /// It accepts what we refuse for this, and makes this of it.
    Lax(DecodeErrorKind, Made),
    /// It refuses what we accept.
    Strict,
    /// Both accept, and it means something else by it.
    Differs,
}

/// What an oracle makes of a packet that it should have refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Made {
    /// The same bytes: it has not looked.
    Same,
    /// Other bytes with the same fault.
    Faulty,
    /// A packet that we take: it has read over the fault, or mended it.
    Valid,
    /// One that we refuse for something else: it reads other fields where we read none, or writes what it may not.
    Otherwise,
}

impl Made {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Same, Self::Faulty, Self::Valid, Self::Otherwise];

    fn of(
        kind: DecodeErrorKind,
        (bytes, returned): (&[u8], &[u8]),
        version: ProtocolVersion,
        sender: Sender,
    ) -> Self {
        if returned == bytes {
            return Self::Same;
        }
        match ours(returned, version, sender) {
            Ok(_) => Self::Valid,
            Err(again) if again == kind => Self::Faulty,
            Err(_) => Self::Otherwise,
        }
    }
}

/// Disagreements of one kind: how many, and the first.
#[derive(Debug)]
pub struct Found {
    /// How often.
    pub count: u64,
    /// Bytes of the first.
    pub example: Vec<u8>,
    /// What the oracle made of it.
    pub returned: Option<Vec<u8>>,
}

/// Where a disagreement belongs.
pub type Key = (&'static str, ProtocolVersion, PacketType, Disagreement);

/// Disagreements and the number of packets compared, by oracle and type.
#[derive(Debug, Default)]
pub struct Report {
    /// Every kind of disagreement seen that no entry of the table explains.
    pub unexplained: BTreeMap<Key, Found>,
    /// How often each entry of the table was needed, by its place.
    pub explained: BTreeMap<usize, u64>,
    /// Packets compared.
    pub compared: BTreeMap<(&'static str, u8, ProtocolVersion), u64>,
}

/// What is compared: valid packets, or valid packets with some bytes changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// As generated.
    Valid,
    /// Changed by [`mutate::mutate`].
    Mutated,
}

/// Compares `count` packets of one type and version with all oracles that speak it.
pub fn compare(
    report: &mut Report,
    (packet_type, version): (PacketType, ProtocolVersion),
    input: Input,
    (count, seed): (u64, u64),
) {
    let mut random = StdRng::seed_from_u64(seed);
    let senders: Vec<_> = [Sender::Client, Sender::Server]
        .into_iter()
        .filter(|sender| packet_type.sent_by(*sender, version))
        .collect();
    let mut choices = [0_u8; 320];
    for round in 0..count {
        let Some(&sender) = senders.get(round as usize % senders.len().max(1)) else {
            return;
        };
        random.fill_bytes(&mut choices);
        let mut bytes = Vec::new();
        with_packet(
            &mut Choices::new(&choices),
            packet_type,
            (version, sender),
            |packet| {
                packet
                    .encode(&Receiver::new(version), &mut bytes)
                    .expect("a valid packet is written");
            },
        );
        if input == Input::Mutated {
            mutate::mutate(&mut bytes, &mut random);
        }
        for oracle in oracles::ALL {
            if (oracle.speaks)(packet_type, version) {
                judge(report, oracle, &bytes, (packet_type, version, sender));
            }
        }
    }
}

/// Our verdict.
pub fn ours(
    bytes: &[u8],
    version: ProtocolVersion,
    sender: Sender,
) -> Result<Packet<'_>, DecodeErrorKind> {
    let rules = Rules {
        version,
        sender,
        limits: Limits::STANDARD,
    };
    match Frame::split(bytes, u32::MAX).map_err(|error| error.kind())? {
        Split::Whole(frame) if frame.len() == bytes.len() => {
            Packet::decode(&frame, &rules).map_err(|error| error.kind())
        }
        Split::Whole(_) => Err(DecodeErrorKind::TrailingBytes),
        Split::Need(_) => Err(DecodeErrorKind::Truncated),
    }
}

fn judge(
    report: &mut Report,
    oracle: &Oracle,
    bytes: &[u8],
    (packet_type, version, sender): (PacketType, ProtocolVersion, Sender),
) {
    let compared = (oracle.name, packet_type as u8, version);
    *report.compared.entry(compared).or_default() += 1;
    let ours = ours(bytes, version, sender);
    // Damage may turn the level of a CONNECT into the other version's. We go by the level, an oracle by what it was told.
    if matches!(&ours, Ok(Packet::Connect(connect)) if connect.version != version) {
        return;
    }
    let theirs = (oracle.through)(bytes, version);
    let disagreement = match (&ours, &theirs) {
        (Err(_), None) => return,
        (Err(kind), Some(returned)) => {
            let made = Made::of(*kind, (bytes, returned), version, sender);
            Disagreement::Lax(*kind, made)
        }
        (Ok(_), None) => Disagreement::Strict,
        (Ok(packet), Some(returned)) => {
            if returned == bytes || meaning::same(packet, returned, version, sender) {
                return;
            }
            Disagreement::Differs
        }
    };
    // A changed first byte makes another packet of it.
    let packet_type = bytes
        .first()
        .and_then(|first| PacketType::from_first_byte(*first))
        .unwrap_or(packet_type);
    let key = (oracle.name, version, packet_type, disagreement);
    if let Some(entry) = known::explain(&key, ours.as_ref().ok()) {
        *report.explained.entry(entry).or_default() += 1;
        return;
    }
    let found = report.unexplained.entry(key).or_insert_with(|| Found {
        count: 0,
        example: bytes.to_vec(),
        returned: theirs,
    });
    found.count += 1;
    if bytes.len() < found.example.len() {
        found.example = bytes.to_vec();
        found.returned = (oracle.through)(bytes, version);
    }
}
