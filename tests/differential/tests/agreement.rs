//! 100,000 packets of each type, version and oracle, valid and damaged: no disagreement that the table does not explain.
//!
//! `COURSER_SEED=n cargo test --release` compares other packets; a failure prints its seed.

use std::fmt::Write as _;

use courser_differential::{Input, Report, compare, known};
use courser_mqtt::codec::{PacketType, ProtocolVersion};

const COUNT: u64 = 100_000;

fn seed() -> u64 {
    match std::env::var("COURSER_SEED") {
        Ok(text) => text.parse().expect("COURSER_SEED is a number"),
        Err(_) => 1,
    }
}

/// Whether it is the seed with which the tables were made.
fn is_of_record() -> bool {
    std::env::var_os("COURSER_SEED").is_none()
}

/// What another seed may show: three damages at once that the table has not in this packet.
const RARE: u64 = 20;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes it");
        text
    })
}

fn all(input: Input) -> Report {
    // Oracles that panic count as refusing; their messages would drown ours.
    std::panic::set_hook(Box::new(|_| {}));
    let mut report = Report::default();
    for version in [ProtocolVersion::V311, ProtocolVersion::V5] {
        for packet_type in PacketType::ALL {
            let seed = seed() * 1000 + packet_type as u64;
            compare(&mut report, (packet_type, version), input, (COUNT, seed));
        }
    }
    let _ours = std::panic::take_hook();
    report
}

fn expect_explained(report: &Report, input: Input) {
    let mut text = String::new();
    for (key, found) in &report.unexplained {
        if !is_of_record() && found.count <= RARE && known::lax::is_known_elsewhere(key) {
            continue;
        }
        let returned = found.returned.as_deref().map(hex).unwrap_or_default();
        let example = hex(&found.example);
        writeln!(
            text,
            "{key:?}: {} times, as {example} -> {returned}",
            found.count
        )
        .expect("a string takes it");
    }
    assert!(
        text.is_empty(),
        "{input:?}, COURSER_SEED={}:\n{text}",
        seed()
    );
    // Three oracles, both versions, fifteen types; AUTH is no packet of 3.1.1, and rumqttc has none.
    assert_eq!(report.compared.len(), 3 * 14 * 2 + 2);
    assert!(report.compared.values().all(|count| *count >= COUNT));
}

#[test]
fn valid_packets_mean_the_same_to_all() {
    let report = all(Input::Valid);
    expect_explained(&report, Input::Valid);
    let lax = report
        .explained
        .keys()
        .filter(|entry| **entry < known::OTHER_BASE);
    assert_eq!(
        lax.count(),
        0,
        "our codec refused a packet that it had written"
    );
}

#[test]
fn damaged_packets_are_refused_for_a_known_reason() {
    let report = all(Input::Mutated);
    expect_explained(&report, Input::Mutated);
    for (place, line) in known::lax::lines().enumerate() {
        assert!(
            !is_of_record() || known::lax::is_rare(line) || report.explained.contains_key(&place),
            "no longer needed: {line}"
        );
    }
    for (place, other) in known::OTHER.iter().enumerate() {
        // Another seed may miss a rare one.
        assert!(
            !is_of_record() || report.explained.contains_key(&(known::OTHER_BASE + place)),
            "no longer needed: {} {:?} {}",
            other.oracle,
            other.packet_type,
            other.clause
        );
    }
}
