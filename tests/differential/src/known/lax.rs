//! What the oracles let through, out of a table.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use courser_mqtt::codec::DecodeErrorKind as Kind;
use courser_mqtt::codec::{PacketType, ProtocolVersion};

use crate::oracles;
use crate::{Disagreement, Key, Made};

/// A line for each fault that an oracle lets through: the crate, the version, the kind of our refusal, what it makes of the packet, and in
/// which packets; "rare" where the seed of record does not show it. Any other packet with the fault is to be refused by it, and anything else that it makes of these is another disagreement.
const TABLE: &str = include_str!("lax.tsv");

const RARE: &str = "rare";

/// The line of the table, from 0, that has a disagreement.
#[must_use]
pub fn line(key: &Key) -> Option<usize> {
    static LINES: OnceLock<BTreeMap<Key, usize>> = OnceLock::new();
    LINES.get_or_init(read).get(key).copied()
}

/// The lines of the table.
pub fn lines() -> impl Iterator<Item = &'static str> {
    TABLE.lines()
}

/// Whether the seed of record needs not show a line.
#[must_use]
pub fn is_rare(line: &str) -> bool {
    line.ends_with(RARE)
}

/// Whether an oracle lets a fault through in other packets, or makes something else of them.
#[must_use]
pub fn is_known_elsewhere((oracle, version, _, disagreement): &Key) -> bool {
    let Disagreement::Lax(kind, _) = disagreement else {
        return false;
    };
    let start = format!("{oracle}\t{version:?}\t{kind:?}\t");
    lines().any(|line| line.starts_with(&start))
}

fn read() -> BTreeMap<Key, usize> {
    let mut found = BTreeMap::new();
    for (place, line) in lines().enumerate() {
        for key in keys(line) {
            assert_eq!(found.insert(key, place), None, "{line}: once");
        }
    }
    found
}

fn keys(line: &str) -> Vec<Key> {
    let fields: Vec<&str> = line.split('\t').collect();
    let (&[oracle, version, kind, made, packets] | &[oracle, version, kind, made, packets, RARE]) =
        &fields[..]
    else {
        panic!("{line}: five fields");
    };
    let oracle = oracles::ALL.iter().find(|it| it.name == oracle);
    let oracle = oracle.expect("a crate that is compared").name;
    let version = named(&[ProtocolVersion::V311, ProtocolVersion::V5], version);
    let disagreement = Disagreement::Lax(named(Kind::ALL, kind), named(&Made::ALL, made));
    let packets = packets.split(' ');
    packets
        .map(|it| (oracle, version, named(&PacketType::ALL, it), disagreement))
        .collect()
}

fn named<T: Copy + std::fmt::Debug>(all: &[T], name: &str) -> T {
    let mut all = all.iter().copied();
    let found = all.find(|it| format!("{it:?}") == name);
    found.unwrap_or_else(|| panic!("{name} is known"))
}
